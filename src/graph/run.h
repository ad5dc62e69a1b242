// How a graph runs: its ops are recorded once for inputs of each kind, as a compiled function is.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "smolder/autograd/compiled.h"
#include "smolder/graph/state.h"

namespace smolder::graph {

class Runner {
 public:
  std::vector<Tensor> run(const State& s, const std::vector<Tensor>& inputs);

 private:
  std::mutex mutex_;
  /// By what inputs and modes are like; null where the step cannot be compiled and is recorded each time.
  std::unordered_map<std::string, std::shared_ptr<autograd::CompiledStep>> steps_;
};

}  // namespace smolder::graph
