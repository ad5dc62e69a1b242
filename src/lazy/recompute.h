// Recomputation that stays recomputation: what is recorded again is not merged with what was recorded before.
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "smolder/lazy/lock.h"
#include "smolder/lazy/operand.h"

namespace smolder::lazy {

/// While one exists, ops that this thread records see every value from before behind a barrier, so that none of them
/// is found equal to an earlier one. Then a step that computes values twice, as checkpoints do, need not keep them in
/// between. Nests: the innermost is asked.
class Recomputation {
 public:
  Recomputation();
  ~Recomputation();
  Recomputation(const Recomputation&) = delete;

  /// The one of this thread; null outside.
  static Recomputation* current() { return current_; }

  /// Operands of an op that is about to be recorded, as it is to see them. `barrier` records an operand's.
  std::vector<Operand> fence(std::span<const Operand> operands, Tensor (*barrier)(const Operand& before));
  /// Results of an op that was recorded within.
  void note(std::span<const Tensor> results);

 private:
  inline static SMOLDER_THREAD_LOCAL Recomputation* current_ = nullptr;
  Recomputation* outer_;
  struct Fence {
    ValueRef before;  ///< kept, so that its address stays its own
    Tensor behind;
  };
  std::unordered_map<const Value*, Fence> fences_;
  std::unordered_set<const Value*> made_;
};

}  // namespace smolder::lazy
