// Control flow that is recorded, not run: docs/control_flow.md. As torch.cond and its relatives.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "smolder/lazy/record.h"

namespace smolder {

/// The function that is recorded: called once, with tensors that have no values. Tensors that it reaches otherwise are
/// operands too.
using BranchFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// The results of `true_fn` for the operands where `predicate`, one element, is true, and of `false_fn` where not.
/// Both are recorded, and the one taken runs when the step does. Throws RuntimeError when what they return differs in
/// number, shape or dtype, or is an operand, a view of one or the same tensor twice; when they write to tensors from
/// outside, or read values.
std::vector<Tensor> cond(const Tensor& predicate, const BranchFunction& true_fn, const BranchFunction& false_fn,
                         const std::vector<Tensor>& operands = {});

/// The results of `body` for the carried tensors, again and again while `condition` of them, one bool, is true.
std::vector<Tensor> while_loop(const std::function<Tensor(const std::vector<Tensor>&)>& condition,
                               const BranchFunction& body, const std::vector<Tensor>& carried);

/// The values carried, and slices of results.
using CarryAndSlices = std::pair<std::vector<Tensor>, std::vector<Tensor>>;
using CombineFunction = std::function<CarryAndSlices(const std::vector<Tensor>& carry, const std::vector<Tensor>& x)>;

/// `combine(carry, x)` for each slice of `xs` along `dim`, from the first on, or with `reverse` from the last: what is
/// carried in the end, and the slices that it returns, stacked along `dim`.
CarryAndSlices scan(const CombineFunction& combine, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
                    int64_t dim = 0, bool reverse = false);

namespace autograd {

/// Records a call of an op of control flow as the functions above did, so that it has a gradient: `operands` are its
/// tensors, then its numbers.
std::vector<Tensor> call_control_flow(ir::Op op, std::span<const lazy::Operand> operands,
                                      std::span<const int64_t> words);

}  // namespace autograd

}  // namespace smolder
