// Statements of a kernel that compute with run-time numbers alone, as AdamW's corrections do: the host runs them when
// the numbers change, so that no thread of the device has to.
#pragma once

#include <cstdint>
#include <vector>

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

class Numbers {
 public:
  /// The kernel must outlive it.
  explicit Numbers(const Kernel& kernel);

  /// Statements whose values others use: these lie behind the kernel's scalars, as registers hold them.
  const std::vector<const Stmt*>& results() const { return results_; }
  /// Whether the host computes a statement, one of these or what only they use.
  bool has(const Stmt& s) const;
  /// Writes results behind the scalars.
  void compute(uint64_t* scalars) const;

 private:
  void want(LocalId x);

  const Kernel& k_;
  std::vector<bool> computed_;              ///< by result
  std::vector<const Stmt*> all_, results_;  ///< in order
};

}  // namespace smolder::jit::cuda
