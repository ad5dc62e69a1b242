// Capture with sizes given as a function of those that are dynamic.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "smolder/graph/graph.h"
#include "smolder/ir/sym.h"

namespace smolder::graph {

/// The description of an input, but for its shape.
struct Example {
  DType dtype;
  Device device;
  bool requires_grad;
};

/// The dynamic sizes: their names, what they are at first, and the shapes of all inputs that follow.
struct Sizes {
  std::vector<std::string> names;
  std::vector<int64_t> sample;
  std::map<std::string, std::pair<int64_t, int64_t>> ranges;
  std::function<std::vector<Dims>(const std::vector<int64_t>&)> shapes;

  /// "batch=3, length=8".
  std::string text(const std::vector<int64_t>& at) const;
  /// Declares them, with what their ranges guard.
  std::vector<ir::Dim> declare(ir::SymTable& sym) const;
};

Graph capture_with(const CaptureFunction& fn, const std::vector<Example>& examples, const Sizes& sizes,
                   const CaptureOptions& options);

}  // namespace smolder::graph
