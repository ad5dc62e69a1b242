// Ops that are made of several elementwise primitives, run a piece of their elements at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "smolder/eager/array.h"
#include "smolder/ir/graph.h"

namespace smolder::eager {

/// The primitives of a program that compute every element of one shape from those at the same place. A piece goes
/// through all of them while it is in the cache, so that only operands and results go through memory.
class Pieces {
 public:
  struct Step {
    ir::Op op;  ///< elementwise, or kExpand of a single element
    std::vector<ir::ValueId> inputs;
    std::vector<int64_t> attrs;
    ir::ValueId output;
    DType dtype;
  };
  /// `full`: by value, whether it is of that shape, and no number. Others are numbers or single elements, and known
  /// before.
  Pieces(Dims shape, std::vector<Step> steps, std::vector<ir::ValueId> outputs, std::vector<bool> full);

  /// Fills in the outputs among `values`. False, with nothing done, where that gains nothing, where an operand is not
  /// row-major, and where a kernel is a user's.
  bool run(std::vector<Array>& values, DispatchKey key) const;

 private:
  class Task;

  Dims shape_;
  std::vector<Step> steps_;
  std::vector<ir::ValueId> outputs_;
  std::vector<ir::ValueId> operands_;  ///< of that shape, read by steps and made by none
  std::vector<int> made_by_;           ///< by value: the step; -1 where none
  std::vector<int> slots_;             ///< by value: which part of a thread's memory; -1 where none
  int num_slots_ = 0;
};

}  // namespace smolder::eager
