#include "smolder/lazy/batch.h"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/error.h"
#include "smolder/core/per_thread.h"
#include "smolder/lazy/autocast.h"
#include "smolder/lazy/batch_rules.h"
#include "smolder/lazy/ops.h"  // generated
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

Tensor tensor_at(int level, Tensor elements, bool spread, bool outer = false) {
  Tensor out(new TensorImpl(value_at(level, std::move(elements), spread, outer)));
  out.impl()->inference = inference_mode_enabled();
  return out;
}

void check_alive(const BatchedValue& v) {
  const auto& all = levels();
  SMOLDER_CHECK(v.level <= static_cast<int>(all.size()) && all[v.level - 1].id == v.id, RuntimeError,
                "vmap: a tensor of one element is used outside of the vmap that it is of. Return it from the function "
                "that vmap calls instead of keeping it");
}

/// Operand `i` as it is of the level `level`.
const BatchedValue* at_level(const Operand& o, int level) {
  if (o.kind() != Operand::kTensor) return nullptr;
  const BatchedValue* const b = batched(o.impl());
  return b && b->level == level ? b : nullptr;
}

/// Which levels have a batch that `t` is an element of.
std::vector<int> spread_levels(const Tensor& t) {
  std::vector<int> out;
  for (const BatchedValue* b = batched(t.impl()); b; b = batched(b->elements.impl())) {
    if (b->spread) out.push_back(b->level);
  }
  return out;
}

/// The level whose rule an op goes by.
int level_of_call(ir::Op op, std::span<const Operand> operands) {
  int level = ir::info(op).flags.random ? t_depth : 0;
  for (const Operand& o : operands) {
    if (o.kind() != Operand::kTensor) continue;
    refresh(o.impl());
    if (const BatchedValue* const b = batched(o.impl())) {
      check_alive(*b);
      level = std::max(level, b->level);
    }
  }
  return level;
}

/// Results of a rule as elements of the shapes and dtypes that one call gives.
void finish_result(Tensor& all, const ir::Meta& wanted, int64_t size) {
  Dims shape = wanted.shape;
  shape.insert(0, size);
  if (all.dtype() != wanted.dtype) all = all.to(wanted.dtype);
  if (all.shape() == shape) return;
  SMOLDER_INVARIANT(all.numel() == numel(shape));
  all = reshape(all, shape);
}

}  // namespace

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

Tensor batched_like(const Tensor& like, Tensor made) {
  const BatchedValue* const b = batched(like.impl());
  if (!b) return made;
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

BatchedCall record_elements(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs,
                            Tensor* outputs) {
  const int level = level_of_call(op, operands);
  const ir::OpInfo& row = ir::info(op);
  std::vector<const ir::Meta*> metas;
  for (const Operand& o : operands) metas.push_back(o.meta());
  std::vector<ir::Meta> results(row.num_outputs);
  row.infer({metas, attrs}, results.data());
  const BatchLevel& at = levels()[level - 1];
  const BatchCall call{op, operands, attrs, results, level, at.size};
  bool is_spread = row.flags.random && at.randomness == Randomness::kDifferent;
  for (size_t i = 0; i < operands.size(); ++i) is_spread = is_spread || call.spread(i);
  {
    const AtLevel below(level - 1);
    const GradMode mode(grad_enabled() && at.grad);
    const NoAutocast plain;
    const auto tensor = std::ranges::find(operands, Operand::kTensor, &Operand::kind);
    const DeviceMode where(tensor == operands.end() ? creation_mode() : tensor->impl()->value->device);
    std::vector<Tensor> all;
    if (is_spread) {
      const BatchRule rule = batch_rule(op);
      all = rule ? rule(call) : batch_loop(call);
      SMOLDER_INVARIANT(all.size() == results.size());
      for (size_t i = 0; i < all.size(); ++i) finish_result(all[i], results[i], at.size);
    } else {
      std::vector<Operand> given(operands.begin(), operands.end());
      std::vector<Tensor> kept(operands.size());
      for (size_t i = 0; i < given.size(); ++i) {
        kept[i] = call.elements(i);
        given[i] = call.operand(i, kept[i]);
      }
      all = call.call(given, attrs);
    }
    for (size_t i = 0; i < all.size(); ++i) outputs[i] = tensor_at(level, all[i], is_spread);
  }
  BatchedCall out{{operands.begin(), operands.end()}, {}, false};
  for (Operand& o : out.operands) {
    if (o.kind() != Operand::kTensor) continue;
    if (at_level(o, level)) {
      out.requires_grad |= o.impl()->requires_grad;
    } else if (o.impl()->requires_grad || batched(o.impl())) {  // its history is no concern of this level
      o = Operand(out.kept.emplace_back(tensor_at(level, Tensor(o.impl()), false)));
    }
  }
  return out;
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
  ++owner->version;
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

// -- what rules are written with

bool BatchCall::spread(size_t i) const {
  if (i >= count()) return false;
  const BatchedValue* const b = at_level(operands[i], level);
  return b && b->spread;
}

Tensor BatchCall::elements(size_t i) const {
  if (!has(i)) return {};
  const BatchedValue* const b = at_level(operands[i], level);
  return b ? b->elements : Tensor(operands[i].impl());
}

Tensor BatchCall::front(size_t i) const {
  if (!has(i) || spread(i)) return elements(i);
  Dims wanted = shape(i);
  wanted.insert(0, size);
  return expand(elements(i), wanted);
}

Tensor BatchCall::padded(size_t i, int wanted) const {
  Tensor all = elements(i);
  if (!spread(i) || rank(i) >= wanted) return all;
  Dims to{size};
  for (int k = rank(i); k < wanted; ++k) to.push_back(1);
  for (const int64_t n : shape(i)) to.push_back(n);
  return reshape(all, to);
}

std::vector<Tensor> BatchCall::call(std::span<const Operand> given, std::span<const int64_t> words) const {
  std::vector<Tensor> out(ir::info(op).num_outputs);
  if (ir::info(op).flags.random) {
    record_random(op, given, words, out.data());
  } else {
    record(op, given, words, out.data());
  }
  return out;
}

Tensor BatchCall::element(size_t i) const {
  if (!has(i)) return {};
  return tensor_at(level, elements(i), spread(i));
}

Tensor BatchCall::front_of(const Tensor& t) const {
  const BatchedValue* const b = batched(t.impl());
  const bool own = b && b->level == level;
  if (own && b->spread) return b->elements;
  Dims wanted = t.shape();
  wanted.insert(0, size);
  return expand(own ? b->elements : t, wanted);
}

Tensor BatchCall::folded(const Tensor& t, int axis) const {
  Dims merged = t.shape();
  merged.erase(0);
  merged[axis] *= size;
  return reshape(axis == 0 ? t : movedim(t, 0, axis), merged);
}

Tensor BatchCall::unfolded(const Tensor& t, int axis) const {
  Dims split = t.shape();
  split[axis] /= std::max<int64_t>(size, 1);
  split.insert(axis, size);
  const Tensor apart = reshape(t, split);
  return axis == 0 ? apart : movedim(apart, axis, 0);
}

std::vector<Tensor> batch_loop(const BatchCall& c) {
  static Counter& loops = counter("vmap.loops");
  loops.add();
  static std::mutex mutex;
  static auto* const told = new std::set<ir::Op>;
  const bool first = [&] {
    const std::lock_guard hold(mutex);
    return told->insert(c.op).second;
  }();
  if (first) {
    warn("vmap", "There is a performance drop because there is no batching rule for " + std::string(ir::name(c.op)) +
                     ": it is called for each element of the batch");
  }
  std::vector<std::vector<Tensor>> parts(c.results.size());
  for (int64_t at = 0; at < c.size; ++at) {
    std::vector<Operand> given(c.operands.begin(), c.operands.end());
    std::vector<Tensor> kept(c.count());
    for (size_t i = 0; i < c.count(); ++i) {
      kept[i] = c.spread(i) ? select(c.elements(i), 0, at) : c.elements(i);
      given[i] = c.operand(i, kept[i]);
    }
    const std::vector<Tensor> made = c.call(given, c.attrs);
    for (size_t k = 0; k < made.size(); ++k) parts[k].push_back(made[k]);
  }
  std::vector<Tensor> out;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (c.size > 0) {
      out.push_back(stack(parts[k], 0));
      continue;
    }
    Dims shape = c.results[k].shape;
    shape.insert(0, 0);
    out.push_back(zeros(shape, c.results[k].dtype));
  }
  return out;
}

}  // namespace smolder::lazy
