// Ops of control flow whose functions were recorded on tapes of their own: how such an op is recorded, and what its
// backward is.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "smolder/ir/op.h"
#include "smolder/lazy/branch.h"
#include "smolder/lazy/record.h"

namespace smolder::autograd {

/// A function that was recorded, and what it returned, on its tape.
struct Recorded {
  std::shared_ptr<lazy::BranchTape> tape;
  std::vector<Tensor> results;
};

/// The true one first.
using Branches = std::array<Recorded, 2>;

/// The tape that a loop's function is recorded on, and where its operands are there.
struct Turn {
  Recorded body;
  std::vector<size_t> carried, scanned;
};

/// The functions of a while loop.
struct Loop {
  Recorded condition;
  Turn turn;
  std::vector<size_t> in_condition;  ///< places of what is carried on the condition's tape
  int64_t draws = 0;                 ///< how far a turn moves the generator
};

/// Tensors and numbers as an op of control flow takes them.
struct Call {
  std::vector<Tensor> tensors;
  std::vector<Scalar> numbers;

  std::vector<const ir::Meta*> metas() const;
  /// Without gradients.
  std::vector<Tensor> record(ir::Op op, const std::vector<int64_t>& words) const;
};

bool any_requires_grad(const std::vector<Tensor>& tensors);

/// The values that stand for tensors from without at these places of a tape.
std::vector<Tensor> stand_ins(const lazy::BranchTape& tape, std::span<const size_t> places);

/// Results of the branch that `predicate`, one bool, chooses when the step runs.
std::vector<Tensor> record_cond(const Tensor& predicate, Branches branches);

/// The values carried in the end, and results stacked. `draws`: how far an iteration moves the generator, against its
/// direction where that is negative.
std::vector<Tensor> record_scan(Turn turn, bool reverse, int64_t draws);

/// The values carried in the end.
std::vector<Tensor> record_while(Loop loop);

/// Gives the gradients of a while loop, made of `inputs`, a backward that raises NotImplementedError.
void refuse_second_derivative(const std::vector<Tensor>& inputs, std::vector<Tensor>& gradients);

}  // namespace smolder::autograd
