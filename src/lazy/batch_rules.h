// How ops are batched: what the `batch` field of a row names. docs/architecture/vmap.md says what there is to choose
// from.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "smolder/lazy/batch.h"

namespace smolder::lazy {

/// A call of an op some of whose operands are elements of a batch, as its rule sees it. Operands are numbered as the
/// call's, lists flattened. Rules run below the level.
class BatchCall {
 public:
  ir::Op op;
  std::span<const Operand> operands;
  std::span<const int64_t> attrs;
  std::span<const ir::Meta> results;  ///< of one element
  int level;
  int64_t size;  ///< of the batch

  size_t count() const { return operands.size(); }
  bool has(size_t i) const { return i < count() && operands[i].kind() == Operand::kTensor; }
  /// Whether operand `i` differs from element to element.
  bool spread(size_t i) const;
  bool any_spread(std::initializer_list<size_t> which) const {
    return std::ranges::any_of(which, [this](size_t i) { return spread(i); });
  }
  /// The shape of one element.
  const Dims& shape(size_t i) const { return operands[i].meta()->shape; }
  int rank(size_t i) const { return shape(i).size(); }
  /// All elements, batch first, or what is the same for all; undefined where absent.
  Tensor elements(size_t i) const;
  /// All elements, batch first, repeated if they are one.
  Tensor front(size_t i) const;
  /// The same with extents of 1 after the batch, so that an element has `rank` dimensions; as it is if it is the same
  /// for all.
  Tensor padded(size_t i, int rank) const;
  Scalar number(size_t i) const { return operands[i].number(); }
  /// Operand `i` replaced by a tensor, or as it is if it is none.
  Operand operand(size_t i, const Tensor& t) const { return has(i) ? Operand(t) : operands[i]; }

  /// Records the op, or one like it.
  std::vector<Tensor> call(std::span<const Operand> given, std::span<const int64_t> words) const;
  /// Calls `f` with operands at the level, where they have no history; for rules that are made of other ops.
  std::vector<Tensor> parts(auto f) const {
    std::vector<Tensor> made;
    {
      const AtLevel here(level);
      made = f();
    }
    for (Tensor& t : made) t = front_of(t);
    return made;
  }
  /// Operand `i` for that.
  Tensor element(size_t i) const;
  /// All elements of a tensor of the level, batch first.
  Tensor front_of(const Tensor& t) const;
  /// `t` [batch, ...] along a new dimension `axis` of the rest, or merged with that dimension.
  Tensor folded(const Tensor& t, int axis) const;
  /// The reverse of the second: a dimension of batch * n, batch first.
  Tensor unfolded(const Tensor& t, int axis) const;
};

/// All elements of the results, batch first.
using BatchRule = std::vector<Tensor> (*)(const BatchCall& call);
/// Null for ops that have none.
BatchRule batch_rule(ir::Op op);
/// Whether what was drawn with this seed and offset is for each element of the level apart.
bool drawn_apart(int level, Scalar seed, Scalar offset);
/// The op element by element: counted as vmap.loops, and warned of once.
std::vector<Tensor> batch_loop(const BatchCall& call);

}  // namespace smolder::lazy
