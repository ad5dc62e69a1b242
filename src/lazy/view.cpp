#include "smolder/lazy/view.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "smolder/core/fork.h"
#include "smolder/lazy/batch_access.h"
#include "smolder/lazy/capture.h"
#include "smolder/lazy/former.h"
#include "smolder/lazy/observers.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/strides.h"
#include "smolder/lazy/taken.h"
#include "smolder/lazy/tape.h"
#include "smolder/lazy/wrapper.h"

namespace smolder::lazy {
namespace {

RebaseHook g_rebase = nullptr;
RefuseHook g_refuse = nullptr;
WriteHooks g_write;

Tensor handle(TensorImpl* impl) { return Tensor(impl); }

Tensor apply(const ViewStep& step, const Tensor& input) {
  if (step.op == kTaken) return taken_view(input, step.attrs);  // of memory that others see it stands for it
  Tensor out;
  const Operand operand(input);
  record(step.op, {&operand, 1}, step.attrs, &out);
  return out;
}

/// The input of `step` as it is after its result was replaced by `result`.
Tensor undo(const ViewStep& step, const Tensor& input, const Tensor& result) {
  const Dims& shape = step.input->shape;
  switch (step.op) {
    case ir::Op::kReshape:
    case ir::Op::kUnsqueeze:
    case ir::Op::kSqueeze:
      return reshape(result, shape);
    case ir::Op::kTranspose:
      return apply(step, result);
    case ir::Op::kPermute: {
      Dims inverse = shape;
      for (int i = 0; i < shape.size(); ++i) inverse[normalize_axis(step.attrs[1 + i], shape.size())] = i;
      return permute(result, inverse);
    }
    case ir::Op::kSelect:
      return select_scatter(input, result, step.attrs[0], step.attrs[1]);
    case ir::Op::kExpand:
      return merge_repeats(input, result);
    case ir::Op::kViewAsReal:
      return view_as_complex(result.contiguous());
    case ir::Op::kViewAsComplex:
      return view_as_real(result);
    case ir::Op::kSlice:  // dim, start, end, step
      return slice_scatter(input, result, step.attrs[0], step.attrs[1], step.attrs[2], step.attrs[3]);
    case kTaken:
      return put_taken(input, result, step.attrs);
    default:
      raise<NotImplementedError>("writing in place to the result of ", ir::name(step.op),
                                 " is not supported; write to its base, or clone() it first");
  }
}

/// Whether the steps repeat elements, and each is in the result but once, as in a row of an expanded tensor.
bool leaves_repeats(const std::vector<const ViewStep*>& steps, const Dims& shape) {
  bool repeats = false;
  for (size_t i = 0; i < steps.size(); ++i) {
    const ViewStep& s = *steps[i];
    if (s.op == kTaken || s.op == ir::Op::kViewAsReal || s.op == ir::Op::kViewAsComplex) return false;
    const Dims& to = i + 1 < steps.size() ? steps[i + 1]->input->shape : shape;
    repeats |= s.op == ir::Op::kExpand && numel(to) != numel(s.input->shape);
  }
  const Dims& strides = steps.back()->layout.strides;
  for (int i = 0; i < shape.size(); ++i) {
    if (strides[i] == 0 && shape[i] > 1) return false;
  }
  return repeats;
}

/// `base` with `source` where a view of this layout has its elements, each in a place of its own.
Tensor put_at(const Tensor& base, const Tensor& source, const Layout& layout) {
  const DeviceMode on(base);
  Tensor at = full({}, Scalar(layout.offset), DType::kInt64);
  for (int i = 0; i < source.dim(); ++i) {
    at = unsqueeze(at, -1) + arange(source.size(i)) * layout.strides[i];
  }
  return reshape(index_copy(reshape(base, {-1}), 0, reshape(at, {-1}), reshape(source, {-1})), base.shape());
}

/// The values that `impl` is computed from by each of its steps, and those that undoing them makes of a new value.
Tensor undo_all(const TensorImpl* impl, const Tensor& source) {
  const std::vector<const ViewStep*> steps = steps_in_order(impl->steps.get());
  if (!steps.empty() && source.numel() > 0 && leaves_repeats(steps, source.shape())) {
    return put_at(handle(impl->base), source, steps.back()->layout);
  }
  std::vector<Tensor> inputs{handle(impl->base)};
  for (size_t i = 0; i + 1 < steps.size(); ++i) inputs.push_back(apply(*steps[i], inputs.back()));
  Tensor now = source;
  for (size_t i = steps.size(); i-- > 0;) now = undo(*steps[i], inputs[i], now);
  return now;
}

thread_local std::vector<Tensor>* t_let_go = nullptr;  ///< by a pick that goes

/// What stands in for the steps of storage that was picked from another tensor: see write_back.
struct Pick : ViewStep {
  Tensor from;
  int64_t axis = 0;
  std::vector<Tensor> positions;
  Dims shape;             ///< of what they pick
  bool with_grad = true;  ///< they picked with gradients on
  bool detached = false;  ///< `from` was
  // When the value was picked or written; they change where it is read, which several threads may do.
  mutable std::atomic<uint32_t> writes = 0;  ///< of the storage of `from`
  mutable std::atomic<uint64_t> looked = 0;  ///< TensorImpl::changes; 0 where changes are not seen, as those of arrays

  /// Lets go of a chain of picks one by one: there may be more of them than a stack holds.
  ~Pick() {
    if (t_let_go) {
      t_let_go->push_back(std::move(from));
      return;
    }
    std::vector<Tensor> waiting;
    waiting.push_back(std::move(from));
    t_let_go = &waiting;
    while (!waiting.empty()) {
      const Tensor next = std::move(waiting.back());
      waiting.pop_back();
    }
    t_let_go = nullptr;
  }
  /// Whether `from` was given another storage, so that nobody sees the former there.
  bool was_left() const { return from.impl()->detached && !detached; }
  /// `from`, or the view of it that is all of it: a write to what is picked is one to a view.
  Tensor view() const { return from.impl()->base && !from.impl()->detached ? from : reshape(from, from.shape()); }
};

/// The same as write_value() without a tape, which runs no op on such values: one that dies runs code of Python, which
/// may record, so that no lock may be held and no tape may keep it.
void replace_wrapper(TensorImpl* owner, const ValueRef& value) {
  const ValueRef before = std::exchange(owner->value, value);
  owner->written();
  if (g_write.after) g_write.after(owner);
}

/// The pick of who holds storage; null where it was not picked, or was from what it is no longer seen in.
const Pick* pick_of(TensorImpl* owner) {
  if (owner->base || !owner->steps) return nullptr;
  const auto* const pick = static_cast<const Pick*>(owner->steps.get());
  if (!pick->was_left()) return pick;
  owner->steps = nullptr;
  return nullptr;
}

/// Whether what is in `from` may change and no count tell it, as arrays see it.
bool is_unseen(const Tensor& from) {
  const Pick* const pick = pick_of(owner_of(from.impl()));
  return is_external(from) || (pick && pick->looked == 0);
}

uint64_t changes() { return TensorImpl::changes.load(std::memory_order_relaxed); }

/// The pick is of a function that a capture runs, or the capture ends: positions from before it are not its own.
void check_capture(TensorImpl* owner) {
  const Capture* const capture = Capture::current();
  if (capture && !capture->made(owner)) break_capture("x[i] of a number i that was computed before", 0);
}

constexpr int kMostPicks = 1000;  ///< that one write goes through, each with calls on the stack
thread_local int t_picks = 0;

/// The storage of `owner` was written: so is what it was picked from, by `source`.
void put_back(TensorImpl* owner, const Tensor& source) {
  const Pick* const pick = pick_of(owner);
  if (!pick) return;
  check_capture(owner);
  struct Deeper {
    Deeper() { ++t_picks; }
    ~Deeper() { --t_picks; }
  } const deeper;
  SMOLDER_CHECK(
      t_picks <= kMostPicks, RuntimeError, "a write in place to x[i] of a number i that is computed, where x ",
      "is such a tensor itself, and so on, goes through at most ", kMostPicks, " of them; clone() one of them first");
  const Tensor from = pick->view();
  const bool pairs = is_complex(from.dtype()) && !is_complex(source.dtype());
  Dims shape = pick->shape;
  if (pairs) shape.push_back(2);
  const Tensor put = reshape(source, shape);
  assign(from, index_put_at(from, pick->axis, pairs ? view_as_complex(put) : put, false, TensorList(pick->positions)));
  pick->writes = version(from);
}

/// Picks once more; what is picked from is up to date, but for being read again.
void pick_once_more(TensorImpl* owner, const Pick& pick) {
  const bool keeps = owner->requires_grad && !pick.from.requires_grad();
  const GradMode mode(!keeps && (pick.with_grad || grad_enabled()));
  Tensor now = index_at(pick.from, pick.axis, pick.positions);
  if (is_complex(now.dtype()) && !is_complex(owner->value->meta->dtype)) now = view_as_real(now);
  now = reshape(now, owner->value->meta->shape);
  refresh(now.impl());
  if (owner->external) {
    write_external(handle(owner), now);
  } else {
    owner->value = now.impl()->value;
  }
  if (g_write.after) g_write.after(owner);
  if (g_rebase && !keeps) g_rebase(owner, now.impl());
}

/// Puts `source`'s value into who holds the storage.
void write_storage(TensorImpl* owner, const Tensor& source) {
  if (owner->value->batched || source.impl()->value->batched) [[unlikely]] {
    const Tensor plain = write_elements(owner, source);
    if (plain.defined()) return write_storage(owner, plain);
    if (g_write.after) g_write.after(owner);
    return;
  }
  if (owner->value->wrapper || source.impl()->value->wrapper) [[unlikely]]
    check_write("copy_", handle(owner), source);
  if (owner->steps) [[unlikely]]
    put_back(owner, source);
  if (owner->value->wrapper) [[unlikely]]
    return replace_wrapper(owner, source.impl()->value);
  Tape& tape = Tape::on(source.impl()->value->device);
  const std::lock_guard hold(tape.mutex());
  write_value(tape, owner, source.impl()->value);
}

/// The same where somebody else sees the storage: the elements are written at once.
void write_through(TensorImpl* impl, const Tensor& source) {
  TensorImpl* heir = impl;  // who gets the history
  Tensor whole = source;
  if (impl->base && !impl->detached) {
    heir = impl->base;
    if (grad_enabled() && (source.requires_grad() || heir->requires_grad)) whole = undo_all(impl, source);
  }
  write_external(handle(impl), source);
  if (g_write.after) g_write.after(owner_of(impl));
  if (heir->detached) {
    heir->saw_base();
    heir->written();
  }
  if (TensorImpl* const owner = owner_of(impl); owner->steps) [[unlikely]]
    put_back(owner, handle(owner));
  if (g_rebase) g_rebase(heir, whole.impl());
}

/// Puts `source`'s value and history into a tensor, and its value into the storage.
void write(TensorImpl* impl, const Tensor& source) {
  if (is_external(handle(impl))) return write_through(impl, source);
  if (impl->base && !impl->detached) {
    write(impl->base, undo_all(impl, source));
    return;
  }
  if (impl->detached) {
    const GradMode none(false);
    write_storage(impl->base, undo_all(impl, source));
    // Its old value must not outlive the write, or the memory could not be written in place. Where an element is at
    // several places of it, the next read takes it from the base.
    const std::vector<const ViewStep*> steps = steps_in_order(impl->steps.get());
    const auto overlaps = [](const ViewStep* s) { return s->op == kTaken && repeats_elements(s->attrs); };
    if (std::ranges::none_of(steps, overlaps) && !has_repeats(handle(impl))) {
      impl->value = source.impl()->value;
      impl->saw_base();
    }
    impl->written();
  } else {
    write_storage(impl, source);
  }
  if (g_rebase) g_rebase(impl, source.impl());
}

/// Which axes of its input those of a step's result are; none where it does more than to order them.
std::optional<Dims> ordered_axes(ir::Op op, std::span<const int64_t> attrs, int rank) {
  Dims out = Dims::filled(rank, 0);
  for (int i = 0; i < rank; ++i) out[i] = i;
  if (op == ir::Op::kTranspose) {
    if (rank > 0) std::swap(out[normalize_axis(attrs[0], rank)], out[normalize_axis(attrs[1], rank)]);
    return out;
  }
  if (op != ir::Op::kPermute) return std::nullopt;
  for (int i = 0; i < rank; ++i) out[i] = normalize_axis(attrs[1 + i], rank);
  return out;
}

/// The steps of a view, of shape `to`, that was made by one more of `input`. Two orders of axes that follow each other
/// are one, and two reshapes are the last: a tensor that replaces itself by a view at every turn keeps its few steps.
std::shared_ptr<const ViewStep> one_more(std::shared_ptr<const ViewStep> before, ir::Op op, std::vector<int64_t> attrs,
                                         const ir::Meta* input, const Dims& to) {
  if (before && op == ir::Op::kReshape && before->op == ir::Op::kReshape) {
    input = before->input;
    before = before->before;
  } else if (before) {
    const int rank = to.size();
    const std::optional<Dims> axes = ordered_axes(op, attrs, rank),
                              first = axes ? ordered_axes(before->op, before->attrs, rank) : std::nullopt;
    if (first) {
      op = ir::Op::kPermute;
      attrs = {rank};
      for (const int64_t a : *axes) attrs.push_back((*first)[a]);
      input = before->input;
      before = before->before;
    }
  }
  auto step = std::make_shared<ViewStep>(op, std::move(attrs), input);
  step->layout = layout_after(*step, before ? before->layout : Layout{contiguous_strides(input->shape)}, to);
  step->before = std::move(before);
  return step;
}

/// Where the storage of `t` is, and the way to `t` from there.
std::pair<TensorImpl*, std::shared_ptr<const ViewStep>> storage_of(const Tensor& t) {
  TensorImpl* const impl = t.impl();
  if (!impl->base) return {impl, nullptr};
  TensorImpl* const root = impl->base;
  if (!root->base) return {root, impl->steps};
  std::shared_ptr<const ViewStep> all = root->steps;
  const std::vector<const ViewStep*> more = steps_in_order(impl->steps.get());
  for (size_t i = 0; i < more.size(); ++i) {
    const Dims& to = i + 1 < more.size() ? more[i + 1]->input->shape : t.shape();
    all = one_more(std::move(all), more[i]->op, more[i]->attrs, more[i]->input, to);
  }
  return {root->base, all};
}

/// Makes `impl` a detached tensor on the storage of `t`.
void share(TensorImpl* impl, const Tensor& t) {
  auto [owner, steps] = storage_of(t);
  owner->refs.fetch_add(1, std::memory_order_relaxed);
  const Tensor before = impl->base ? handle(impl->base) : Tensor();
  if (impl->base) impl->base->refs.fetch_sub(1, std::memory_order_relaxed);  // `before` has the other
  impl->base = owner;
  impl->saw_base();
  impl->steps = std::move(steps);
  impl->detached = true;
  if (any_former()) [[unlikely]]
    count_dependent(owner);
}

}  // namespace

void write_back(const Tensor& picked, const Tensor& from, int64_t axis, std::span<const Tensor> positions) {
  TensorImpl* const owner = owner_of(picked.impl());
  auto pick = std::make_shared<Pick>();
  pick->from = from;
  pick->axis = axis;
  pick->shape = picked.shape();
  pick->with_grad = grad_enabled();
  pick->detached = from.impl()->detached;
  pick->writes = version(from);
  pick->looked = is_unseen(from) ? 0 : changes();
  for (const Tensor& at : positions) {  // as they are now
    refresh(at.impl());
    pick->positions.push_back(is_external(at) ? clone(at) : Tensor(new TensorImpl(at.impl()->value)));
  }
  owner->steps = std::move(pick);
}

void pick_again(TensorImpl* owner) {
  const uint64_t now = changes();
  std::vector<TensorImpl*> chain;  // of picks of picks, without a call in a call
  for (TensorImpl* at = owner;;) {
    const Pick* const pick = pick_of(at);
    if (!pick || pick->looked == now) break;
    chain.push_back(at);
    at = owner_of(pick->from.impl());
  }
  for (size_t i = chain.size(); i-- > 0;) {
    TensorImpl* const at = chain[i];
    const std::shared_ptr<const ViewStep> held = at->steps;
    const Pick* const pick = pick_of(at);
    if (!pick) continue;
    pick->looked = now;  // to use what it is from looks no further
    refresh(pick->from.impl());
    const bool unseen = is_unseen(pick->from), written = pick->writes != version(pick->from);
    if (unseen || written) {
      check_capture(at);
      pick->writes = version(pick->from);
      pick_once_more(at, *pick);
      written ? at->written() : at->moved();
    }
    pick->looked = unseen ? 0 : changes();
  }
}

bool has_repeats(const Tensor& t) {
  if (t.numel() <= 1 || (!t.impl()->base && !is_external(t))) return false;
  const Layout l = layout(t);
  for (int i = 0; i < t.dim(); ++i) {
    if (l.strides[i] == 0 && t.shape()[i] > 1) return true;
  }
  return false;
}

Tensor merge_repeats(const Tensor& input, Tensor result) {
  if (result.numel() == 0) return input;
  const DeviceMode on(input);
  Dims once = Dims::filled(result.dim() - input.dim(), 1);
  for (const int64_t n : input.shape()) once.push_back(n);
  const Tensor before = reshape(input, once);
  for (int i = 0; i < result.dim(); ++i) {
    const int64_t n = result.size(i);
    if (n == once[i]) continue;
    const Tensor old = expand(before, result.shape());
    const Tensor changed = logical_and(ne(result, old), logical_or(eq(result, result), eq(old, old)));  // nan is nan
    Dims along = Dims::filled(result.dim(), 1);
    along[i] = n;
    const Tensor last = amax(where(changed, reshape(arange(n), along), 0), {i}, true);
    result = gather(result, i, last);
  }
  return reshape(result, input.shape());
}

void write_value(Tape& tape, TensorImpl* owner, const ValueRef& value) {
  tape.note_write(handle(owner), value);
  owner->value = value;
  owner->written();
  if (g_write.after) [[unlikely]]
    g_write.after(owner);
}

void set_rebase_hook(RebaseHook hook) { g_rebase = hook; }
void set_refuse_hook(RefuseHook hook) { g_refuse = hook; }
void set_write_hooks(WriteHooks hooks) { g_write = hooks; }

void link_view(TensorImpl* view, TensorImpl* input, ir::Op op, std::span<const int64_t> attrs) {
  const bool again = input->base && !input->detached;  // a view of a view
  TensorImpl* const base = again ? input->base : input;
  base->refs.fetch_add(1, std::memory_order_relaxed);
  view->base = base;
  view->inference = input->inference;
  if (!grad_enabled()) view->origin = inference_mode_enabled() ? ViewOrigin::kInference : ViewOrigin::kNoGrad;
  if (again && input->origin != ViewOrigin::kOrdinary) view->origin = input->origin;
  view->saw_base();
  if (any_former()) [[unlikely]]
    count_dependent(base);
  view->steps = one_more(again ? input->steps : nullptr, op, {attrs.begin(), attrs.end()}, input->value->meta,
                         view->value->meta->shape);
}

Tensor taken_view(const Tensor& x, const std::vector<int64_t>& attrs) {
  if (is_external(x)) {
    if (grad_enabled() && x.requires_grad()) return take(x, attrs);
    const Tensor out(new TensorImpl(stand_in(intern({shape_taken(x.shape(), attrs), x.dtype()}), x.device())));
    link_view(out.impl(), x.impl(), kTaken, attrs);
    return out;
  }
  Tensor out = take(x, attrs);
  TensorImpl* const view = out.impl();
  const Tensor before = view->base ? handle(view->base) : Tensor();  // what it is a view of so far, and no more
  if (view->base) {
    if (any_former()) forget_storage(view);
    view->base->refs.fetch_sub(1, std::memory_order_relaxed);  // `before` has the other
  }
  view->steps = nullptr;
  link_view(view, x.impl(), kTaken, attrs);
  return out;
}

void read_again(TensorImpl* impl) {
  if (any_former() && follow_storage(impl)) return refresh(impl);
  const bool written = impl->base_was_written();
  // As torch does, where gradients are off too: the history may be read later. Where the base has none that it could
  // have, as that of a leaf or of a view of such a leaf, it keeps its own.
  const bool ambiguous = impl->origin == ViewOrigin::kNoGrad || impl->origin == ViewOrigin::kInference;
  const bool keeps = impl->requires_grad && !impl->base->requires_grad;
  const GradMode mode(written && !impl->detached && !keeps && (!ambiguous || grad_enabled()));
  Tensor now = handle(impl->base);
  for (const ViewStep* step : steps_in_order(impl->steps.get())) now = apply(*step, now);
  impl->value = now.impl()->value;
  impl->saw_base();
  if (impl->detached) {
    written ? impl->written() : impl->moved();
    if (written && g_rebase) g_rebase(impl, impl);
  } else if (g_rebase) {
    g_rebase(impl, keeps ? impl : now.impl());
  }
}

Tensor alias(const Tensor& t) {
  refresh(t.impl());
  Tensor out(new TensorImpl(t.impl()->value));
  if (out.impl()->value->batched) [[unlikely]]
    out.impl()->value = detached_elements(*t.impl()->value);
  out.impl()->inference = t.impl()->inference;
  share(out.impl(), t);
  return out;
}

void set_data(const Tensor& self, const Tensor& t) {
  TensorImpl* const impl = self.impl();
  break_capture("assignment to .data", 0);
  refresh(t.impl());
  const ValueRef value = t.impl()->value;
  SMOLDER_CHECK(
      impl->value->wrapper == value->wrapper, RuntimeError,
      "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type.");
  if (!value->wrapper && !impl->value->external) {
    Tape& tape = Tape::on(value->device);
    const std::lock_guard hold(tape.mutex());
    tape.note_write(self, value);
  }
  if (&self == &t || t.impl() == impl) return;
  leave_storage(impl);
  refresh(t.impl());  // it may have been of that
  share(impl, t);
  impl->external.reset();
  impl->order.reset();
  impl->value = t.impl()->value;
}

uint32_t version(const Tensor& t) { return storage_of(t).first->writes(); }

void assign(const Tensor& self, const Tensor& source) {
  TensorImpl* const impl = self.impl();
  if (any_former()) [[unlikely]]
    refresh(impl);
  if (const BranchObserver* const branch = BranchObserver::current()) [[unlikely]]
    branch->check_write(self);
  SMOLDER_CHECK(
      !impl->inference || inference_mode_enabled(), RuntimeError,
      "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
      "normal tensor before doing inplace update.");
  if (impl->origin != ViewOrigin::kOrdinary && grad_enabled() && !impl->detached &&
      (impl->requires_grad || impl->base->requires_grad || source.requires_grad())) {
    if (g_refuse) g_refuse(impl);
  }
  SMOLDER_CHECK(!(grad_enabled() && impl->requires_grad && self.is_leaf()), RuntimeError,
                "a leaf Variable that requires grad is being used in an in-place operation.");
  if (impl->base && !impl->detached) {
    const bool of_leaf = impl->base->requires_grad ? handle(impl->base).is_leaf()
                                                   : impl->requires_grad && !handle(impl).is_leaf();  // between the two
    SMOLDER_CHECK(!(grad_enabled() && of_leaf), RuntimeError,
                  "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  }
  if (g_write.before) [[unlikely]]
    g_write.before(impl, source.impl());
  const Operand operand(source);
  const Snapshots snapshots({&operand, 1});
  write(impl, source);
}

// -- storage that was left (former.h)

std::atomic<bool> g_any_former{false};

namespace {

/// Storage that was left, and how many views and aliases of it there may be.
struct Former {
  uint32_t until;  ///< the version of who left it, which all that are of it have seen at most
  Tensor owner;
  uint32_t dependents;
};

/// The state of a tensor that was given another's storage.
struct Left {
  std::vector<Former> formers;  ///< in order
  uint32_t dependents = 0;      ///< of the storage that it has now

  Former* of(const TensorImpl* view) {
    const auto it = std::ranges::find_if(formers, [&](const Former& f) { return view->seen_version <= f.until; });
    return it == formers.end() ? nullptr : &*it;
  }
};

// Both are of the process, and outlive every tensor.
ForkMutex& g_leaving = *new ForkMutex;
std::unordered_map<const TensorImpl*, Left>& table() {
  static auto* const out = new std::unordered_map<const TensorImpl*, Left>;
  return *out;
}

/// One fewer is of a former storage. Returns what is to be let go of without the lock.
Tensor one_less(Left& left, Former* former) {
  if (--former->dependents > 0) return {};
  Tensor last = std::move(former->owner);
  left.formers.erase(left.formers.begin() + (former - left.formers.data()));
  return last;
}

/// One fewer is of the storage that `base` has now.
void one_less_now(TensorImpl* base) {
  const auto it = table().find(base);
  if (it != table().end() && it->second.dependents > 0) --it->second.dependents;
}

}  // namespace

void leave_storage(TensorImpl* self) {
  const uint32_t others = self->refs.load(std::memory_order_acquire) - 1;
  TensorImpl* const owner = new TensorImpl(self->value);
  const Tensor kept(owner);
  std::vector<Former> gone;  // without the lock
  const std::lock_guard hold(g_leaving);
  const auto [it, first] = table().try_emplace(self);
  Left& left = it->second;
  // Some of the tensors that the first assignment meets may be no views.
  const uint32_t dependents = others == 0 ? 0 : first ? others : left.dependents;
  left.dependents = 0;
  g_any_former.store(true, std::memory_order_relaxed);
  if (dependents == 0) {
    if (others == 0) gone = std::move(left.formers);
    if (self->base) one_less_now(self->base);
    return;
  }
  owner->inference = self->inference;
  owner->order = std::move(self->order);
  owner->version = self->version;
  owner->moves = self->moves;
  if (self->base) {  // whose dependent it is in place of `self`
    self->base->refs.fetch_add(1, std::memory_order_relaxed);
    owner->base = self->base;
    owner->steps = self->steps;
    owner->detached = true;
    owner->saw_base();
  } else {
    owner->steps = self->steps;  // of a pick
    owner->external = std::move(self->external);
  }
  left.formers.push_back({self->version, kept, dependents});
  self->moved();  // what is a view of `self` from now on has seen that
}

bool follow_storage(TensorImpl* view) {
  Tensor before, last;
  {
    const std::lock_guard hold(g_leaving);
    const auto it = table().find(view->base);
    Former* const former = it == table().end() ? nullptr : it->second.of(view);
    if (!former) return false;
    TensorImpl* const owner = former->owner.impl();
    owner->refs.fetch_add(1, std::memory_order_relaxed);
    before = Tensor(view->base);
    view->base->refs.fetch_sub(1, std::memory_order_relaxed);  // `before` has the other
    // Its elements are no longer where the tensor is that autograd takes it for a view of: its history is its own.
    if (view->requires_grad || view->base->requires_grad) view->detached = true;
    view->base = owner;
    last = one_less(it->second, former);
  }
  return true;
}

void count_dependent(TensorImpl* base) {
  const std::lock_guard hold(g_leaving);
  if (const auto it = table().find(base); it != table().end()) ++it->second.dependents;
}

void forget_storage(TensorImpl* dying) {
  Left own;  // goes, as `last`, when the lock is gone
  Tensor last;
  const std::lock_guard hold(g_leaving);
  if (const auto it = table().find(dying); it != table().end()) {
    own = std::move(it->second);
    table().erase(it);
  }
  const auto it = table().find(dying->base);
  if (it == table().end()) return;
  if (Former* const former = it->second.of(dying)) {
    last = one_less(it->second, former);
  } else {
    one_less_now(dying->base);
  }
}

bool take_base(TensorImpl* view) {
  if (any_former()) {
    follow_storage(view);
    const std::lock_guard hold(g_leaving);
    if (table().contains(view)) return false;  // others are of storage that it had
  }
  TensorImpl* const base = view->base;
  const bool whole = !base->base && !base->external && !base->steps && !is_complex(base->value->meta->dtype) &&
                     !is_complex(view->value->meta->dtype);
  if (view->detached || view->value->batched || !whole || base->refs.load(std::memory_order_acquire) > 1) return false;
  refresh(view);
  const Dims& shape = view->value->meta->shape;
  const Dims now = layout(handle(view)).strides;
  Dims order = shape;
  for (int i = 0; i < shape.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return now[a] > now[b]; });
  const Dims without_gaps = strides_in_order(shape, order);
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1 && now[i] != without_gaps[i]) return false;
  }
  if (any_former()) forget_storage(view);
  const Tensor before = handle(base);
  base->refs.fetch_sub(1, std::memory_order_relaxed);  // `before` has the other
  if (!std::is_sorted(order.begin(), order.end())) view->order = std::make_unique<Dims>(order);
  view->version = base->version;
  view->base = nullptr;
  view->steps = nullptr;
  view->origin = ViewOrigin::kOrdinary;
  return true;
}

std::atomic<uint64_t> TensorImpl::changes{1};

TensorImpl::~TensorImpl() {
  if (base && any_former()) [[unlikely]]
    forget_storage(this);  // what was given another's storage has a base too
  if (base && base->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete base;
}

}  // namespace smolder::lazy
