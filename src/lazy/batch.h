// vmap: tensors that stand for one element of a batch, whichever a function is called for.
//
// Each vmap under way is a level of the thread, numbered from 1. A tensor of a level has the shape of one element, and
// a BatchedValue that holds the tensor of all of them, which is of a level below: so ops see the shapes that the
// function was written for, and what is made of ops works unchanged. An op on such tensors is recorded by the rule of
// its row
// (`batch` in src/ir/ops/*.toml), as ops on the tensors of all elements. History may be at several levels: a gradient
// taken within vmap is of one element and has nodes of its own, whose formulas run on elements; one taken outside
// follows the ops that the rules record.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "smolder/lazy/batch_access.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// The behaviour of random ops in vmap: raise, draw the same numbers for all elements, or others for each.
enum class Randomness : uint8_t { kError, kSame, kDifferent };

/// A vmap that is under way.
struct BatchLevel {
  int64_t size;  ///< of the batch
  Randomness randomness;
  bool grad;                                       ///< whether gradients were on where it began
  uint64_t id;                                     ///< tensors that escape are told by it
  std::vector<std::pair<int64_t, int64_t>> draws;  ///< seed and offset of what was drawn for each element apart
};

/// The value of a tensor of a level. Immutable, but for `elements` that are the caller's own (`outer`), which in-place
/// ops write.
struct BatchedValue : Value {
  Tensor elements;  ///< [batch, *shape] when `spread`, else what is the same for all
  int level = 0;
  uint64_t id = 0;
  bool spread = false;
  bool outer = false;
};
inline const BatchedValue* batched(const TensorImpl* impl) {
  return impl->value->batched ? static_cast<const BatchedValue*>(impl->value.get()) : nullptr;
}
/// Throws RuntimeError where the vmap that a value is of has ended.
void check_alive(const BatchedValue& v);
/// All elements, or what is the same for all, as one of a level.
Tensor tensor_at(int level, Tensor elements, bool spread, bool outer = false);
/// 0 for a tensor of no level.
inline int level_of(const Tensor& t) { return batched(t.impl()) ? batched(t.impl())->level : 0; }

/// A level of the calling thread.
const BatchLevel& batch_level(int level);
/// Begins a level, and returns its number.
int push_batch(int64_t size, Randomness randomness);
void pop_batch();
/// Goes to a level, and returns the one before: what Python's AtLevel is made of.
int go_to_level(int level);
/// Runs at a lower level for a scope, as a rule does.
class AtLevel {
 public:
  explicit AtLevel(int level);
  ~AtLevel();
  AtLevel(const AtLevel&) = delete;

 private:
  int before_;
};

/// An element of the innermost level for what lies along `axis` of `t`.
Tensor spread(const Tensor& t, int64_t axis);
/// `t` as it is outside of the innermost level: all elements along a new dimension `axis`; repeated if they are one.
Tensor gathered(const Tensor& t, int64_t axis);
/// The tensor of all elements, batch first, and whether there is a batch; `t` itself where it is not of the innermost
/// level.
std::pair<Tensor, bool> elements_of(const Tensor& t);

/// A new handle at the innermost level, for a gradient within it: without history there, with that outside. Without
/// levels, `detach`.
Tensor without_level_history(const Tensor& t, bool requires_grad);
/// A value for who keeps it, with the history outside of the level: a later write does not reach it.
ValueRef rebatched(const BatchedValue& from, Tensor elements);
/// `made`, of one element, as all elements of the batches of `like` have it: each may be written apart.
Tensor batched_like(const Tensor& like, Tensor made);
/// The same op on all elements.
Tensor map_elements(const Tensor& t, auto f) {
  const BatchedValue& b = *batched(t.impl());
  const AtLevel below(b.level - 1);
  return Tensor(new TensorImpl(rebatched(b, f(b.elements))));
}

}  // namespace smolder::lazy
