#include "smolder/lazy/batch.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "smolder/core/error.h"
#include "smolder/core/per_thread.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/result_layout.h"
#include "smolder/lazy/view.h"

namespace smolder::lazy {
namespace {

/// How many levels hold where the thread is: fewer than there are, while a rule runs.
SMOLDER_THREAD_LOCAL int t_depth = 0;

std::vector<BatchLevel>& levels() {
  static const PerThread<std::vector<BatchLevel>> all;
  return *all;
}

ValueRef value_at(int level, Tensor elements, bool spread, bool outer) {
  auto* const v = new BatchedValue;
  refresh(elements.impl());
  ir::Meta meta = elements.meta();
  if (spread) meta.shape.erase(0);
  v->meta = intern(meta);
  v->device = elements.device();
  v->batched = true;
  v->elements = std::move(elements);
  v->level = level;
  v->id = levels()[level - 1].id;
  v->spread = spread;
  v->outer = outer;
  return ValueRef::first(v);
}

/// Which levels have a batch that `t` is an element of.
std::vector<int> spread_levels(const Tensor& t) {
  std::vector<int> out;
  for (const BatchedValue* b = batched(t.impl()); b; b = batched(b->elements.impl())) {
    if (b->spread) out.push_back(b->level);
  }
  return out;
}

}  // namespace

void check_alive(const BatchedValue& v) {
  const auto& all = levels();
  SMOLDER_CHECK(v.level <= static_cast<int>(all.size()) && all[v.level - 1].id == v.id, RuntimeError,
                "vmap: a tensor of one element is used outside of the vmap that it is of. Return it from the function "
                "that vmap calls instead of keeping it");
}

Tensor tensor_at(int level, Tensor elements, bool spread, bool outer) {
  Tensor out(new TensorImpl(value_at(level, std::move(elements), spread, outer)));
  out.impl()->inference = inference_mode_enabled();
  return out;
}

const BatchLevel& batch_level(int level) {
  SMOLDER_CHECK(0 < level && level <= static_cast<int>(levels().size()), RuntimeError, "vmap: there is no level ",
                level);
  return levels()[level - 1];
}

int batch_depth() { return t_depth; }

int push_batch(int64_t size, Randomness randomness) {
  static std::atomic<uint64_t> last{0};
  SMOLDER_INVARIANT(t_depth == static_cast<int>(levels().size()));
  levels().push_back({size, randomness, grad_enabled(), ++last, {}});
  return ++t_depth;
}

void pop_batch() {
  levels().pop_back();
  --t_depth;
}

int go_to_level(int level) {
  SMOLDER_CHECK(0 <= level && level <= static_cast<int>(levels().size()), RuntimeError, "vmap: there is no level ",
                level);
  return std::exchange(t_depth, level);
}

AtLevel::AtLevel(int level) : before_(std::exchange(t_depth, level)) {}
AtLevel::~AtLevel() { t_depth = before_; }

Tensor spread(const Tensor& t, int64_t axis) {
  refresh(t.impl());
  const int level = t_depth;
  const AtLevel below(level - 1);
  const int at = normalize_axis(axis, t.dim());
  return tensor_at(level, at == 0 ? t : movedim(t, at, 0), true, true);
}

Tensor gathered(const Tensor& t, int64_t axis) {
  const auto [all, is_spread] = elements_of(t);
  const int64_t size = levels()[t_depth - 1].size;
  const AtLevel below(t_depth - 1);
  const int rank = t.dim() + 1;
  SMOLDER_CHECK(axis >= -rank && axis < rank, IndexError, "Dimension out of range (expected to be in range of [", -rank,
                ", ", rank - 1, "], but got ", axis, ")");
  Dims shape = t.shape();
  shape.insert(0, size);
  const Tensor whole = is_spread ? all : expand(all, shape);
  const int at = normalize_axis(axis, rank);
  return at == 0 ? whole : movedim(whole, 0, at);
}

std::pair<Tensor, bool> elements_of(const Tensor& t) {
  refresh(t.impl());
  const BatchedValue* const b = batched(t.impl());
  if (!b || b->level != t_depth) return {t, false};
  check_alive(*b);
  return {b->elements, b->spread};
}

Tensor without_level_history(const Tensor& t, bool requires_grad) {
  const auto [all, is_spread] = elements_of(t);
  Tensor out = t_depth == 0 ? t.detach() : tensor_at(t_depth, all, is_spread);
  if (requires_grad) out.requires_grad_();
  return out;
}

ValueRef rebatched(const BatchedValue& from, Tensor elements) {
  ValueRef v = value_at(from.level, std::move(elements), from.spread, false);
  static_cast<BatchedValue*>(v.get())->id = from.id;
  return v;
}

ValueRef detached_elements(const Value& value) {
  const auto& b = static_cast<const BatchedValue&>(value);
  return rebatched(b, alias(b.elements));
}

void delete_elements(Value* value) noexcept { delete static_cast<BatchedValue*>(value); }

Tensor batched_like(const Tensor& like, Tensor made) {
  const BatchedValue* const b = batched(like.impl());
  if (!b) return lay_out_as(std::move(made), like);
  check_alive(*b);
  const AtLevel below(b->level - 1);
  Tensor all = batched_like(b->elements, std::move(made));
  if (b->spread) {
    Dims shape = all.shape();
    shape.insert(0, levels()[b->level - 1].size);
    all = expand(all, shape);
  }
  return tensor_at(b->level, all, b->spread);
}

Tensor write_elements(TensorImpl* owner, Tensor source) {
  const std::vector<int> have = spread_levels(Tensor(owner));
  for (const int level : spread_levels(source)) {
    SMOLDER_CHECK(
        std::ranges::find(have, level) != have.end(), RuntimeError,
        "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
        "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but "
        "`self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace "
        "arithmetic. If said operator is being called inside the PyTorch framework, please file a bug report "
        "instead.");
  }
  const BatchedValue* const before = batched(owner);
  const int level = before ? before->level : 0;
  while (level_of(source) > level) source = Tensor(batched(source.impl())->elements);  // which is the same for all
  if (!before) return source;
  const BatchedValue* const b = batched(source.impl());
  const bool same = b && b->level == level;
  Tensor all = same ? b->elements : source;
  const bool is_spread = same && b->spread;
  const AtLevel below(level - 1);
  if (before->spread && !is_spread) all = expand(all, before->elements.shape());
  if (before->outer) {
    const GradMode mode(grad_enabled() && levels()[level - 1].grad);
    assign(before->elements, all);
    all = before->elements;
  }
  owner->value = value_at(level, all, before->spread, before->outer);
  owner->written();
  return {};
}

int64_t batched_draw(int64_t elements) {
  for (int i = 0; i < t_depth; ++i) {
    const BatchLevel& level = levels()[i];
    SMOLDER_CHECK(level.randomness != Randomness::kError, RuntimeError,
                  "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                  "'different' randomness flags on vmap or perform the randomness operation out of vmap");
    if (level.randomness == Randomness::kDifferent) elements *= level.size;
  }
  return elements;
}

void note_batched_draw(std::pair<Scalar, Scalar> drawn) {
  for (int i = 0; i < t_depth; ++i) {
    BatchLevel& level = levels()[i];
    if (level.randomness == Randomness::kDifferent)
      level.draws.emplace_back(drawn.first.to_int(), drawn.second.to_int());
  }
}

bool drawn_apart(int level, Scalar seed, Scalar offset) {
  const auto& draws = levels()[level - 1].draws;
  return std::find(draws.rbegin(), draws.rend(), std::pair(seed.to_int(), offset.to_int())) != draws.rend();
}

void refuse_element(std::string_view reason) {
  if (reason == "bool") {
    raise<RuntimeError>(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support "
        "that yet, please shout over at https://github.com/pytorch/functorch/issues/257 .");
  }
  if (reason == "item") {
    raise<RuntimeError>(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
        "Tensor, please try to rewrite what you're doing with other operations. If error is occurring somewhere inside "
        "PyTorch internals, please file a bug report.");
  }
  if (reason == "numpy" || reason == "read" || reason == "to" || reason == "to_vector" || reason == "save")
    raise<RuntimeError>("Cannot access data pointer of Tensor that doesn't have storage");
  raise<RuntimeError>(
      "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over ", reason,
      ". Please voice your support in https://github.com/pytorch/functorch/issues/256");
}

}  // namespace smolder::lazy
