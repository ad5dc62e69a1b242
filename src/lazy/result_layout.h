// The order in memory that results of ops have: torch's, which its TensorIterator finds from the strides of operands.
// Nothing recorded depends on it: it is remembered with the tensor (TensorImpl::order), and seen by strides, views and
// arrays.
#pragma once

#include <span>

#include "smolder/lazy/operand.h"
#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// Gives new results of `op` the order of dimensions that torch's have.
void lay_out(ir::Op op, std::span<const Operand> operands, std::span<Tensor> results);
/// Gives `made`, which is new and has the shape of `like`, the order of dimensions that torch's iterator would; `made`.
Tensor lay_out_as(Tensor made, const Tensor& like);
/// The same for a gradient of `leaf` that is stored: in its order where that has no gaps, else row-major.
void lay_out_gradient(const Tensor& made, const Tensor& leaf);
/// The same for attention, whose result follows the query where torch's fused kernel takes the operands.
void lay_out_attention(const Tensor& made, const Tensor& query, const Tensor& key, const Tensor& value);
/// Sets the order of the dimensions of `made`, which is new, from the outermost on; row-major where it is empty. Views,
/// and memory of others, keep theirs.
void set_order(const Tensor& made, const Dims& order);
/// The order of channels last where `t` has it, as torch tells by strides; empty elsewhere.
Dims channels_last_order(const Tensor& t);

}  // namespace smolder::lazy
