#include "smolder/lazy/result_layout.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "smolder/lazy/strides.h"

namespace smolder::lazy {
namespace {

enum class LaidOut : uint8_t {
  kRowMajor,
  kAsOperands,      ///< by the iterator
  kFormatOfFirst,   ///< channels last where the first operand is
  kFormatOfEither,  ///< where one of the first two is
  kFormatOfAll,
};

/// How the results of an op are laid out.
LaidOut rule_of(ir::Op op) {
  switch (op) {
    case ir::Op::kLogsigmoid:
    case ir::Op::kMaskedFill:
      return LaidOut::kRowMajor;
    case ir::Op::kClone:
    case ir::Op::kTo:
    case ir::Op::kFlip:
    case ir::Op::kDropoutSeeded:
    case ir::Op::kSort:
      return LaidOut::kAsOperands;
    case ir::Op::kBatchNormTrain:
    case ir::Op::kMaxPool:
    case ir::Op::kAvgPool:
    case ir::Op::kPad:
    case ir::Op::kResample:
      return LaidOut::kFormatOfFirst;
    case ir::Op::kConvForward:
      return LaidOut::kFormatOfEither;
    case ir::Op::kCat:
      return LaidOut::kFormatOfAll;
    default:
      return ir::info(op).flags.elementwise ? LaidOut::kAsOperands : LaidOut::kRowMajor;
  }
}

/// Strides by which `t` is read as a tensor of a shape that it is broadcast to: 0 where it is.
Dims strides_broadcast(const Tensor& t, const Dims& shape) {
  Dims out = Dims::filled(shape.size(), 0);
  const Dims own = strides(t);
  const int added = shape.size() - own.size();
  for (int i = 0; i < own.size(); ++i) {
    if (t.shape()[i] != 1 || shape[added + i] == 1) out[added + i] = own[i];
  }
  return out;
}

/// The dimensions from the outermost on as the iterator goes over operands of these strides. After reorder_dimensions
/// of ATen's TensorIterator: an insertion sort in which some pairs of dimensions have no order.
Dims iteration_order(const Dims& shape, const std::vector<Dims>& operands) {
  const auto swaps = [&](int64_t a, int64_t b) {
    for (const Dims& strides : operands) {
      if (strides[a] == 0 || strides[b] == 0) continue;
      if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  };
  Dims inner;  // the innermost first
  for (int i = shape.size(); i-- > 0;) inner.push_back(i);
  for (int i = 1; i < inner.size(); ++i) {
    int at = i;
    for (int j = i - 1; j >= 0; --j) {
      const int found = swaps(inner[j], inner[at]);
      if (found < 0) break;
      if (found == 0) continue;
      std::swap(inner[j], inner[at]);
      at = j;
    }
  }
  std::reverse(inner.begin(), inner.end());
  return inner;
}

bool is_tensor(const Operand& o) { return o.kind() == Operand::kTensor; }

/// Channels last of four or five dimensions.
Dims last_order(int rank) {
  Dims out{0};
  for (int i = 2; i < rank; ++i) out.push_back(i);
  out.push_back(1);
  return out;
}

/// Whether torch tells a tensor by its strides to have channels last.
bool has_channels_last(const Tensor& t) {
  if ((t.dim() != 4 && t.dim() != 5) || !t.impl()->may_be_window()) return false;
  const Dims strides = lazy::strides(t);
  int64_t least = 0;
  if (strides[1] == 0) return false;
  const Dims order = last_order(t.dim());
  for (int i = order.size(); i-- > 0;) {
    const int axis = static_cast<int>(order[i]);
    if (t.shape()[axis] == 0 || strides[axis] < least || (axis == 0 && least == strides[1])) return false;
    least = strides[axis] * std::max<int64_t>(t.shape()[axis], 1);
  }
  return true;
}

bool descends(const Dims& strides) {
  int64_t last = std::numeric_limits<int64_t>::max();
  for (const int64_t s : strides) {
    if (s == 0) continue;
    if (s >= last) return false;
    last = s;
  }
  return true;
}

/// Whether the iterator takes the dimensions of an operand in row-major order: most views are slices.
bool is_in_rows(const Operand& o) {
  if (!is_tensor(o) || !o.impl()->may_be_window()) return true;
  const TensorImpl *const impl = o.impl(), *const base = impl->base;
  if (base && impl->steps && !base->may_be_window()) return descends(impl->steps->layout.strides);
  return descends(strides(Tensor(o.impl())));
}

void lay_out_by_iterator(std::span<const Operand> operands, const Tensor& made) {
  if (std::ranges::all_of(operands, is_in_rows)) return;
  std::vector<Dims> all;
  for (const Operand& o : operands) {
    if (is_tensor(o)) all.push_back(strides_broadcast(Tensor(o.impl()), made.shape()));
  }
  set_order(made, iteration_order(made.shape(), all));
}

}  // namespace

void set_order(const Tensor& made, const Dims& order) {
  TensorImpl* const impl = made.impl();
  if (impl->base || impl->external) return;
  int64_t last = -1;
  bool is_row_major = true;
  for (const int64_t axis : order) {
    if (made.shape()[axis] == 1) continue;
    is_row_major &= axis > last;
    last = axis;
  }
  impl->order = is_row_major ? nullptr : std::make_unique<const Dims>(order);
}

void lay_out(ir::Op op, std::span<const Operand> operands, std::span<Tensor> results) {
  const LaidOut rule = rule_of(op);
  if (rule == LaidOut::kRowMajor) return;
  if (rule == LaidOut::kAsOperands) {
    for (const Tensor& t : results) lay_out_by_iterator(operands, t);
    return;
  }
  const auto is_last = [](const Operand& o) { return is_tensor(o) && has_channels_last(Tensor(o.impl())); };
  const bool last = rule == LaidOut::kFormatOfAll      ? std::ranges::all_of(operands, is_last)
                    : rule == LaidOut::kFormatOfEither ? std::ranges::any_of(operands.first(2), is_last)
                                                       : is_last(operands[0]);
  const int rank = results[0].dim();
  if (!last || (rank != 4 && rank != 5)) return;
  for (const Tensor& t : results) {
    if (t.dim() == rank) set_order(t, last_order(rank));
  }
}

Tensor lay_out_as(Tensor made, const Tensor& like) {
  const Operand operand(like);
  if (like.impl()->may_be_window()) lay_out_by_iterator({&operand, 1}, made);
  return made;
}

void lay_out_gradient(const Tensor& made, const Tensor& leaf) {
  if (made.shape() == leaf.shape() && leaf.impl()->may_be_window() && is_dense(leaf.shape(), strides(leaf)))
    lay_out_as(made, leaf);
}

void lay_out_attention(const Tensor& made, const Tensor& query, const Tensor& key, const Tensor& value) {
  if (made.dim() != 4 || !query.impl()->may_be_window() || query.size(-1) != value.size(-1)) return;
  const auto has_rows = [](const Tensor& t) { return strides(t).back() == 1; };
  if (!has_rows(query) || !has_rows(key) || !has_rows(value)) return;
  set_order(made, iteration_order(made.shape(), {strides(query)}));
}

Dims channels_last_order(const Tensor& t) { return has_channels_last(t) ? last_order(t.dim()) : Dims(); }

}  // namespace smolder::lazy
