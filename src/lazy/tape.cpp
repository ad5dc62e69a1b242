#include "smolder/lazy/tape.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/fork.h"
#include "smolder/core/profile.h"
#include "smolder/core/size.h"
#include "smolder/eager/execute.h"
#include "smolder/lazy/dead_values.h"
#include "smolder/lazy/known.h"
#include "smolder/lazy/modes.h"
#include "smolder/lazy/observers.h"
#include "smolder/lazy/recompile.h"
#include "smolder/lazy/step_record.h"
#include "smolder/lazy/step_undo.h"

namespace smolder::lazy {
namespace {

/// Those of devices, made at their first op. (The CPU's place stays empty.)
std::array<std::atomic<Tape*>, kMaxDevices> g_device_tapes{};

/// The share of a live value in the digest of the live set.
constexpr uint64_t live_word(uint32_t index) {
  uint64_t x = (index + 1) * 0x9e3779b97f4a7c15ull;  // splitmix64
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

/// Ops between two looks for dead values: an atomic exchange each, and the dead stay in cache meanwhile.
constexpr uint32_t kOpsPerDrain = 32;

Hash128 hash_meta(const ir::Meta& m) {
  Hash128 h;
  mix(h, static_cast<uint64_t>(m.dtype) << 8 | static_cast<uint64_t>(m.shape.size()));
  for (int64_t e : m.shape) mix(h, e);
  return h;
}

/// `m` interned. Most results are like an operand, whose address is then the answer.
const ir::Meta* intern_near(const ir::Meta& m, std::span<const ir::Meta* const> operands) {
  for (const ir::Meta* o : operands) {
    if (o && !o->weak && *o == m) return o;  // a number's is none of ours
  }
  return intern(m);
}

}  // namespace

uint64_t next_epoch() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

Tape::Tape(Device device) : device_(device), epoch_(next_epoch()), known_(std::make_unique<Known>()) {
  options_.compile.device = device;
}

Tape::~Tape() = default;

/// A child keeps a copy of everything pending and may go on with it: nothing is lost by a fork, which waits for a sync
/// in progress. A kernel that forks has the device's tape for itself already, and one of its own.
class TapeOverForks final : public ForkGuard {
 public:
  TapeOverForks() : ForkGuard(ForkRank::kTape) { watch_forks(); }

 private:
  void before_fork() override { Tape::cpu().mutex().lock(); }
  void after_fork_in_parent() override { Tape::cpu().mutex().unlock(); }
  void after_fork_in_child() override { Tape::cpu().mutex().unlock(); }
};

Tape& Tape::first_cpu() {
  static Tape* const tape = [] {
    static TapeOverForks watched;
    return new Tape;  // handles may outlive static destructors
  }();
  return *(cpu_ = tape);
}

Tape& Tape::on_device(Device device) {
  if (cpu().branch_ && cpu().device_ == device) return cpu();
  if (cpu().branch_) cpu().branch_->refuse_device(device);
  SMOLDER_CHECK(!cpu().is_own_, RuntimeError, "a kernel or a shape rule cannot use tensors on ", to_string(device));
  SMOLDER_INVARIANT(device.index >= 0 && device.index < kMaxCudaDevices);
  std::atomic<Tape*>& place = g_device_tapes[smolder::number_of(device)];
  Tape* tape = place.load(std::memory_order_acquire);
  if (!tape) {
    Tape* const made = new Tape(device);
    made->options_ = cpu().options_;
    made->options_.compile.device = device;
    if (place.compare_exchange_strong(tape, made, std::memory_order_acq_rel)) return *made;
    delete made;
  }
  return *tape;
}

void Tape::each(const std::function<void(Tape&)>& f) {
  {
    const std::lock_guard hold(cpu().mutex_);
    f(cpu());
  }
  for (const auto& place : g_device_tapes) {
    Tape* const tape = place.load(std::memory_order_acquire);
    if (!tape) continue;
    const std::lock_guard hold(tape->mutex_);
    f(*tape);
  }
}

OwnTape::OwnTape(Kind kind)
    : tape_(new Tape), outer_(std::exchange(Tape::cpu_, tape_.get())), grad_(grad_enabled()), eager_(eager_enabled()) {
  tape_->is_own_ = true;
  tape_->never_runs_ = kind == kShapes;
  set_grad_enabled(false);
  set_eager_enabled(kind == kRun);
}

OwnTape::~OwnTape() {
  Tape::cpu_ = outer_;
  set_grad_enabled(grad_);
  set_eager_enabled(eager_);
  // Values that live on are read by others, which know nothing of this tape.
  for (const ValueRef& v : tape_->leaves_) v->tape_refs = 0;
}

Value* Tape::allocate(const ir::Meta* meta) {
  Value* v = free_values_;
  if (v) {
    free_values_ = v->next_free;
  } else {
    v = new Value;
    v->pooled = !is_own_;  // nobody but the device's tape takes them from its pool
  }
  v->meta = meta;
  v->device = device_;
  return v;
}

void Tape::drain() {
  if (is_own_) return;  // the dead may be of the step that is being recorded, which this one knows nothing of
  DeadValues::of(device_).take([this](Value* v) {
    if (v->pending && v->epoch == epoch_) {
      slots_[v->index] = nullptr;
      live_digest_ ^= live_word(v->index);
    }
    v->pending = false;
    v->external = false;
    v->epoch = 0;
    v->buffer.reset();
    if (v->pooled) [[likely]] {
      v->next_free = free_values_;
      free_values_ = v;
    } else {
      delete v;
    }
  });
}

ValueRef Tape::adopt(BufferRef buffer, const ir::Meta* meta) {
  if (!DeadValues::of(device_).empty()) drain();  // eager results come this way: free memory early
  Value* const v = allocate(meta);
  v->buffer = std::move(buffer);
  return ValueRef::first(v);
}

ValueRef Tape::placeholder(const ir::Meta* meta) {
  ValueRef v = ValueRef::first(allocate(meta));
  v->pending = true;
  add_leaf(v.get());
  own_.metas.push_back(meta);
  own_.is_leaf.push_back(true);
  return v;
}

uint32_t Tape::add_leaf(Value* v) {
  v->epoch = epoch_;
  v->index = static_cast<uint32_t>(slots_.size());
  slots_.push_back(v);
  leaves_.emplace_back(v);
  ++v->tape_refs;
  return v->index;
}

ValueRef Tape::add_output(const ir::Meta* meta) {
  slots_.push_back(nullptr);
  return add_result(static_cast<uint32_t>(slots_.size() - 1), meta);
}

ValueRef Tape::add_result(uint32_t number, const ir::Meta* meta) {
  Value* const v = allocate(meta);
  v->pending = true;
  v->epoch = epoch_;
  v->index = number;
  slots_[number] = v;
  live_digest_ ^= live_word(v->index);
  return ValueRef::first(v);
}

bool Tape::follow(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, ValueRef* outputs) {
  const Trace& t = *followed_;
  if (position_ == t.instrs.size()) return false;
  const Instr& e = t.instrs[position_];
  if (e.op != op || e.num_inputs != operands.size() || e.num_attrs != attrs.size() ||
      (e.num_attrs && std::memcmp(&t.attrs[e.first_attr], attrs.data(), attrs.size_bytes()) != 0)) {
    return false;
  }
  const size_t values = slots_.size(), parameters = parameters_.size();
  const OperandWord* const words = t.operands.data() + e.first_input;
  bool equal = true;
  for (size_t i = 0; equal && i < operands.size(); ++i) {
    const Operand& o = operands[i];
    if (o.kind() == Operand::kNumber) {
      equal = words[i] == number_word(o.category());
      parameters_.push_back(o.bits());
    } else if (o.kind() == Operand::kNone) {
      equal = words[i] == kNoOperand;
    } else if (Value* const v = o.impl()->value.get(); v->epoch == epoch_) {
      equal = words[i] == v->index;
    } else {
      equal = words[i] == slots_.size() && words[i] < e.first_output && t.metas[words[i]] == v->meta && has_memory(*v);
      if (equal) add_leaf(v);
    }
  }
  if (!equal) [[unlikely]] {
    forget_leaves(values);
    parameters_.resize(parameters);
    return false;
  }
  ++position_;
  for (uint32_t i = 0; i < e.num_outputs; ++i) outputs[i] = add_output(t.metas[e.first_output + i]);
  return true;
}

bool Tape::record(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, ValueRef* outputs,
                  const SourceToken* source) {
  hear();
  if (until_drain_-- == 0) {
    until_drain_ = kOpsPerDrain;
    drain();
    if (profiling() && size() == 0) [[unlikely]]
      record_began_ = now_ns();
  }
  if (size() >= options_.soft_bound) [[unlikely]] {
    if (!source) return false;
    if (size() >= options_.hard_bound || (!CaptureObserver::current() && loop_comes_round(op, attrs, *source))) {
      static Counter& cuts = counter("trace.cuts");
      cuts.add();
      sync("trace bound", *source);
    }
  }
  turns_.note(size());
  if (followed_ && follow(op, operands, attrs, outputs)) return true;
  if (!source) return false;
  append(op, operands, attrs, outputs, *source);
  return true;
}

bool Tape::loop_comes_round(ir::Op op, std::span<const int64_t> attrs, SourceToken source) const {
  const Trace& t = followed_ ? *followed_ : own_;
  const Instr& first = t.instrs[0];
  return first.op == op && std::ranges::equal(t.attrs_of(first), attrs) && first.source == source;
}

/// Takes back leaves that were added when there were `values` values: the ordinary path numbers them again.
void Tape::forget_leaves(size_t values) {
  for (; slots_.size() > values; slots_.pop_back()) {
    slots_.back()->epoch = 0;
    --slots_.back()->tape_refs;
    leaves_.pop_back();
  }
}

void Tape::diverge() {
  own_.assign_prefix(*followed_, position_);
  diverged_at_ = position_;
  followed_ = nullptr;
  may_rejoin_ = true;
  static Counter& misses = counter("predictor.misses");
  misses.add();
}

void Tape::append(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, ValueRef* outputs,
                  SourceToken source) {
  const ir::OpInfo& row = ir::info(op);
  const ir::Meta* metas[64];
  std::vector<const ir::Meta*> many;
  const ir::Meta** inputs = metas;
  if (operands.size() > std::size(metas)) {
    many.resize(operands.size());
    inputs = many.data();
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& o = operands[i];
    inputs[i] = o.meta();
    if (o.kind() == Operand::kTensor) {
      const Value& v = *o.impl()->value;
      if (v.epoch != epoch_ && !has_memory(v)) raise_no_value();
    }
  }
  SMOLDER_CHECK(operands.size() < 65536, NotImplementedError, row.name, " of ", operands.size(),
                " operands is not supported: at most 65535");
  inferred_.assign(row.num_outputs, ir::Meta());
  row.infer({{inputs, operands.size()}, attrs}, inferred_.data());
  for (const ir::Meta& m : inferred_) {
    storage_bytes(m.shape, m.dtype);
    eager::check_result(op, m);
  }
  if (options_.strict) check_lowering(device_.type, op, {inputs, operands.size()}, attrs, inferred_);

  // Nothing above changed the tape, and nothing below raises.
  if (followed_) diverge();
  Trace& t = own_;
  Instr e{op,
          static_cast<uint16_t>(operands.size()),
          static_cast<uint16_t>(attrs.size()),
          row.num_outputs,
          recording_modes(device_.type),
          static_cast<uint32_t>(t.operands.size()),
          static_cast<uint32_t>(t.attrs.size()),
          0,
          source};
  Hash128 h = t.prefix.empty() ? Hash128{} : t.prefix.back();
  mix(h, static_cast<uint64_t>(op) << 32 | operands.size() << 16 | attrs.size());
  for (const Operand& o : operands) {
    OperandWord word = kNoOperand;
    if (o.kind() == Operand::kNumber) {
      word = number_word(o.category());
      parameters_.push_back(o.bits());
    } else if (o.kind() == Operand::kTensor) {
      Value* const v = o.impl()->value.get();
      if (v->epoch == epoch_) {
        word = v->index;
      } else {
        word = add_leaf(v);
        t.metas.push_back(v->meta);
        t.is_leaf.push_back(true);
        mix(h, hash_meta(*v->meta).lo);
      }
    }
    t.operands.push_back(word);
    mix(h, word);
  }
  t.attrs.insert(t.attrs.end(), attrs.begin(), attrs.end());
  for (int64_t word : attrs) mix(h, word);
  h.lo &= options_.hash_mask;
  h.hi &= options_.hash_mask;
  t.prefix.push_back(h);
  e.first_output = static_cast<uint32_t>(slots_.size());
  t.instrs.push_back(e);
  for (int i = 0; i < row.num_outputs; ++i) {
    const ir::Meta* const meta = intern_near(inferred_[i], {inputs, operands.size()});
    t.metas.push_back(meta);
    t.is_leaf.push_back(false);
    outputs[i] = add_output(meta);
  }
  if (may_rejoin_) try_rejoin();
}

void Tape::try_rejoin() {
  may_rejoin_ = false;
  if (!options_.predict) return;
  const size_t n = own_.instrs.size();
  const auto found = known_->branches.find(own_.prefix.back());
  if (found == known_->branches.end()) return;
  for (const Known::Branch& b : found->second) {
    if (b.position == n && same_prefix(own_, *b.trace, n)) {
      followed_ = b.trace;
      position_ = n;
      return;
    }
  }
  static Counter& collisions = counter("trace.collisions");
  collisions.add();
}

void Tape::replay(const StepRecord& s, std::vector<ValueRef> leaves, std::vector<uint64_t> parameters,
                  const std::function<void(std::span<const ValueRef>)>& write, SourceToken source) {
  sync("compiled function", source);  // what was recorded before it
  const Trace& t = *s.trace;
  slots_.assign(t.metas.size(), nullptr);
  uint32_t number = 0;
  for (ValueRef& leaf : leaves) {
    while (!t.is_leaf[number]) ++number;
    // Memory of several leaves has a stand-in, which shares it: it is given to no result then.
    if (leaf->epoch == epoch_) leaf = adopt(leaf->buffer, leaf->meta);
    if (!has_memory(*leaf)) raise_no_value();
    leaf->epoch = epoch_;
    leaf->index = number;
    slots_[number++] = leaf.get();
    ++leaf->tape_refs;
    leaves_.push_back(std::move(leaf));
  }
  turns_.note(0);
  followed_ = s.trace.get();
  position_ = t.instrs.size();
  parameters_ = std::move(parameters);
  std::vector<ValueRef> results;
  results.reserve(s.wanted.size());
  for (const uint32_t wanted : s.wanted) results.push_back(add_result(wanted, t.metas[wanted]));
  write(results);
  results.clear();
  sync("compiled function", source);
}

void Tape::note_write(const Tensor& t, const ValueRef& now) {
  TensorImpl* const impl = t.impl();
  if (branch_) [[unlikely]]
    return branch_->check_write(t);
  if (eager_enabled() && !now->pending) {
    // The op that made it has run: what comes next has nothing to do with it.
    given_.add({t, impl->value});
    return;
  }
  if (impl->noted_epoch != epoch_) {
    if (impl->value->pending) {
      // Made in this step: what it held before is kept alive only of what was there when an optimizer began to write,
      // so that parameters made in a step that fails are not lost.
      const auto began = device_ == DeviceType::kCPU ? StepUndo::updates() : std::nullopt;
      if (!began) return;
      const Trace& trace = followed_ ? *followed_ : own_;
      if (*began < size() && impl->value->index >= trace.values_before(*began)) return;
      makes_parameters_ = true;
    }
    impl->noted_epoch = epoch_;
    ++impl->value->tape_refs;
    writes_.push_back({t, impl->value});
  }
  rewrites_.push_back(
      {impl, size(), now->pending ? now->index : ~0u, now->pending ? ValueRef() : now, Turns::this_thread()});
}

void Tape::raise_no_value() const {
  if (branch_) branch_->refuse_read("a value of a step that is being recorded");
  SMOLDER_CHECK(!is_own_, RuntimeError,
                "this tensor is part of the step that is being recorded or run, which a kernel or a shape rule cannot "
                "read: give it to the op as an argument");
  raise<RuntimeError>("this tensor was computed by a step that failed and has no value; the failure was: ", failure_);
}

std::vector<std::shared_ptr<const jit::Instance>> Tape::instances() const {
  std::vector<std::shared_ptr<const jit::Instance>> out;
  for (const auto& t : known_->traces) {
    for (const PlanEntry& e : t->plans) out.push_back(e.instance);
  }
  return out;
}

void Tape::forget_traces() {
  if (followed_) diverge();
  last_ = nullptr;
  may_rejoin_ = false;
  diverged_at_ = 0;
  for (const auto& t : known_->traces) t->leave();
  known_ = std::make_unique<Known>();
  ++forgotten_;
}

void Tape::forget_oldest() {
  if (followed_) diverge();
  std::vector<std::shared_ptr<Trace>> kept, gone;
  for (auto& t : known_->traces) {
    const bool goes = kept.size() + gone.size() < known_->traces.size() / 2 && t.use_count() == 1;
    (goes ? gone : kept).push_back(std::move(t));  // compiled functions keep theirs
  }
  known_->traces = std::move(kept);
  for (const auto& t : gone) t->leave();
  for (const auto& t : known_->traces) {
    if (t->next && t->next->forgotten) t->next = nullptr;
  }
  if (last_ && last_->forgotten) last_ = nullptr;
  // Deletes from each list of `of` those that go, and the keys whose lists are empty then.
  const auto clean = [](auto& of, const auto& goes) {
    for (auto& [key, listed] : of) std::erase_if(listed, goes);
    std::erase_if(of, [](const auto& entry) { return entry.second.empty(); });
  };
  clean(known_->by_hash, [](const Trace* t) { return t->forgotten; });
  clean(known_->branches, [](const Known::Branch& b) { return b.trace->forgotten; });
  gone.clear();
  known_->awaited.clear();
  clean(known_->plans, [this](const std::shared_ptr<const jit::Plan>& plan) {
    const bool goes = plan.use_count() == 1;
    if (goes) known_->used_once.erase(plan.get());
    return goes;
  });
}

}  // namespace smolder::lazy
