// Sync points: from the tape to a trace, from the trace to a plan, and the run.

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <string>

#include "smolder/core/counters.h"
#include "smolder/core/interrupt.h"
#include "smolder/core/memory_history.h"
#include "smolder/core/profile.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/jit/run_mode.h"
#include "smolder/lazy/branch.h"
#include "smolder/lazy/capture.h"
#include "smolder/lazy/extract.h"
#include "smolder/lazy/known.h"
#include "smolder/lazy/random.h"
#include "smolder/lazy/recompile.h"
#include "smolder/lazy/step_log.h"
#include "smolder/lazy/step_undo.h"
#include "smolder/lazy/trace_log.h"

namespace smolder::lazy {
namespace {

/// Traces kept before those never run again are dropped: bounds the memory of a program whose every
/// step differs.
constexpr size_t kMaxTraces = 4096;

void raise_bad_index(const std::vector<jit::OpSite>& reports) {
  std::string text;
  for (const jit::OpSite& r : reports) {
    const std::string where = resolve_source(r.source);
    text += (text.empty() ? "index out of range in " : "; index out of range in ") + std::string(called(r.op)) +
            (where.empty() ? "" : " at " + where);
  }
  ir::raise_index_error(ir::find_op(reports[0].op), text, "; the index was clamped and the step completed");
}

}  // namespace

std::string_view called(std::string_view op) {
  if (op == "checked_samples") return "multinomial";
  if (op == "checked_probabilities") return "bernoulli";
  if (op == "checked_deviations") return "normal";
  return op == "checked_divisor" ? "division" : op;
}

void tell_fallback(const std::string& what, std::string_view consequence, SourceToken source) {
  static Counter& fallbacks = counter("fallbacks");
  static std::mutex lock;
  static auto* const told = new std::set<std::string>;
  fallbacks.add();
  const std::string where = resolve_source(source);
  record_event({"fallback", what, where});
  const bool first = [&] {
    const std::lock_guard hold(lock);
    return told->insert(what + where).second;
  }();
  if (first) warn("fallback", what + ": " + std::string(consequence), where);
}

Trace* Tape::current_trace() {
  if (followed_ && position_ == followed_->instrs.size()) return followed_;
  if (followed_) diverge();
  const Hash128 h = own_.prefix.back();
  for (Trace* t : known_->by_hash[h]) {
    if (t->instrs.size() == own_.instrs.size() && same_prefix(own_, *t, own_.instrs.size())) return t;
  }
  if (known_->traces.size() >= kMaxTraces) {
    const bool may = may_rejoin_;
    forget_traces();
    may_rejoin_ = may;
  }
  static Counter& traces = counter("traces.recorded");
  traces.add();
  recorded_anew_ = true;
  known_->traces.push_back(std::make_unique<Trace>(own_));
  Trace* const t = known_->traces.back().get();
  known_->by_hash[h].push_back(t);
  if (diverged_at_ < t->instrs.size()) {
    known_->branches[t->prefix[diverged_at_]].push_back({t, diverged_at_ + 1});
  }
  return t;
}

/// Numbers of the values that somebody holds and nothing has computed.
std::vector<uint32_t> Tape::numbers_alive() const {
  std::vector<uint32_t> alive;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] && slots_[i]->pending) alive.push_back(i);
  }
  return alive;
}

PlanEntry& Tape::find_plan(Trace& t) {
  const bool constant_sizes = jit::run_mode().constant_sizes;
  const auto fits = [&](const PlanEntry& e) { return e.constant_sizes || !constant_sizes; };
  for (PlanEntry& e : t.plans) {
    if (fits(e) && std::ranges::find(e.accepted_digests, live_digest_) != e.accepted_digests.end()) return e;
  }
  std::vector<uint32_t> alive = numbers_alive();
  // A plan that produces more than is alive will do: when handles die must not choose the plan.
  for (PlanEntry& e : t.plans) {
    if (fits(e) && std::ranges::includes(e.produced, alive)) {
      e.accepted_digests.push_back(live_digest_);
      return e;
    }
  }
  PlanEntry entry;
  entry.constant_sizes = constant_sizes;
  entry.produced = std::move(alive);
  entry.accepted_digests = {live_digest_};
  entry.plan = plan_for(t, entry.produced, constant_sizes, entry.instance);
  t.plans.push_back(std::move(entry));
  t.dropped = nullptr;
  return t.plans.back();
}

std::shared_ptr<const jit::Plan> Tape::plan_for(const Trace& t, std::span<const uint32_t> produced, bool constant_sizes,
                                                std::shared_ptr<const jit::Instance>& instance) {
  static Counter& instances = counter("plans.instances");
  std::vector<int64_t> symbols = symbol_values(t);
  std::string structure = plan_structure(t, produced, options_.compile);
  if (constant_sizes) {
    structure.append(reinterpret_cast<const char*>(symbols.data()), symbols.size() * sizeof symbols[0]);
    symbols.clear();
  }
  auto& candidates = known_->plans[structure];
  for (const auto& plan : candidates) {
    SpanScope scope(SpanKind::kPlan, "bind plan", t.instrs[0].source);
    instance = plan->bind(symbols);
    if (instance) {
      if (Span* const span = scope.span()) span->plan = plan->id();
      instances.add();
      return plan;
    }
  }
  SpanScope scope(SpanKind::kPlan, "build plan", t.instrs[0].source);
  const auto start = std::chrono::steady_clock::now();
  auto plan = jit::Plan::compile(to_graph(t, produced, constant_sizes), options_.compile);
  instance = plan->bind(symbols);
  SMOLDER_INVARIANT(instance);  // a plan's guards hold at the sizes it was compiled from
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  Recompile why = explain(
      {t, produced, known_->traces, last_, candidates.empty() ? nullptr : candidates.back().get(), constant_sizes});
  why.milliseconds = took.count();
  why.kernels.assign(plan->built().begin(), plan->built().end());
  if (Span* const span = scope.span()) {
    span->plan = plan->id();
    span->count = static_cast<int64_t>(why.kernels.size());
    span->detail = why.reason;
  }
  if (StepLog::is_on()) StepLog::note_recompile(why);
  complaint_ = tell(std::move(why));
  recorded_anew_ = false;
  instances.add();
  candidates.push_back(plan);
  return plan;
}

std::vector<jit::OpSite> Tape::run(Trace& t, PlanEntry& entry) {
  const std::span<const jit::OutputInfo> infos = entry.plan->outputs();
  const std::span<const int64_t> bytes = entry.instance->output_bytes();
  std::vector<BufferRef> buffers(infos.size());
  std::vector<void*> outputs(infos.size()), leaves(leaves_.size());
  for (size_t i = 0; i < leaves_.size(); ++i) leaves[i] = leaves_[i]->data();
  static Counter& donated = counter("memory.donated");
  const bool watched = memory_is_watched();
  for (const jit::Donation& d : entry.plan->donations()) {
    const Value& leaf = *leaves_[d.leaf];
    const bool held = leaf.refs.load(std::memory_order_acquire) != leaf.tape_refs || leaf.buffer.use_count() != 1;
    if (held || buffers[d.output]) continue;
    buffers[d.output] = leaf.buffer;  // which makes two of its uses: no other output takes it
    donated.add();
    if (watched) [[unlikely]] {
      const Instr& maker = t.maker_of(entry.produced[d.output]);
      note_given_on(leaf.buffer->data(), ir::name(maker.op), maker.source);
    }
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    const jit::OutputInfo& info = infos[i];
    if (info.same_as_leaf >= 0) {
      buffers[i] = leaves_[info.same_as_leaf]->buffer;
    } else if (info.same_as_output >= 0) {
      buffers[i] = buffers[info.same_as_output];
    } else if (!buffers[i]) {
      if (watched) [[unlikely]] {
        const Instr& maker = t.maker_of(entry.produced[i]);
        const MemoryFor use(ir::name(maker.op), maker.source);
        buffers[i] = smolder::allocate(bytes[i], device_);
      } else {
        buffers[i] = smolder::allocate(bytes[i], device_);
      }
    }
    outputs[i] = buffers[i] ? buffers[i]->data() : nullptr;
  }
  for (const jit::OpSite& site : entry.plan->fallbacks()) {
    tell_fallback(site.op + " has no lowering", "its eager kernel runs inside the step, fused with nothing",
                  site.source);
  }
  std::vector<bool> written;
  std::vector<jit::OpSite> reports = [&] {
    try {
      return entry.instance->run({leaves, parameters_, outputs, &written});
    } catch (const std::exception& e) {
      // An op without a lowering ran out of memory after others had run: what they wrote over is gone. (What kernels of
      // users throw, they throw before: see jit::find_donors.)
      const bool memory = dynamic_cast<const OutOfMemoryError*>(&e) || dynamic_cast<const std::bad_alloc*>(&e);
      for (const jit::Donation& d : entry.plan->donations()) {
        const bool lost = memory && written[d.output] && leaves_[d.leaf]->buffer == buffers[d.output];
        if (lost) leaves_[d.leaf]->buffer.reset();
      }
      throw;
    }
  }();
  const bool undone = !reports.empty() && device_ == DeviceType::kCPU;
  for (size_t i = 0; i < infos.size(); ++i) {
    if (Value* const v = undone ? nullptr : slots_[entry.produced[i]]) {
      v->buffer = std::move(buffers[i]);
      v->pending = false;
    }
  }
  ++t.runs;
  return reports;
}

/// What the log says of a step that is about to run.
void Tape::note_step(const Trace& t, const PlanEntry& entry, RanStep& ran) const {
  ran.plan = entry.plan;
  ran.instance = entry.instance;
  ran.parameters = parameters_;
  ran.recompile = StepLog::take_recompile();
  if (!StepLog::is_new(entry.instance.get())) return;
  ran.ops = ops_of(t);
  for (const ValueRef& v : leaves_) {
    if (StepLog::keeps_leaves()) ran.leaves.push_back(v->buffer);
    ran.leaf_bytes.push_back(numel(v->meta->shape) * static_cast<int64_t>(itemsize(v->meta->dtype)));
    ran.leaf_dtypes.push_back(v->meta->dtype);
  }
}

/// Plans hold what ran their ops when they were made. Those for another precision may be wanted again.
void Tape::drop_stale_plans() {
  if (device_ != DeviceType::kCPU && options_.compile.precision != precision()) {
    options_.compile.precision = precision();
    drop_plans("the precision that libraries may compute in was changed");
  }
  const uint64_t now = eager::dispatch_generation();
  if (now == generation_) return;
  generation_ = now;
  known_->plans.clear();
  drop_plans("what runs an op was registered or removed");
}

void Tape::drop_plans(const char* why) {
  for (const auto& t : known_->traces) {
    if (!t->plans.empty()) t->dropped = why;
    t->plans.clear();
  }
}

void Tape::sync(std::string_view reason, SourceToken source) {
  if (branch_) branch_->refuse_read(reason);
  SMOLDER_CHECK(!never_runs_, RuntimeError, "a shape rule cannot read the values of tensors (", reason,
                "): it is given shapes and dtypes only");
  drain();
  if (!has_pending()) {
    if (!leaves_.empty()) finish_step(nullptr);
    forget_writes();  // of values that were there already: no step has them
    return;
  }
  if (capture_) [[unlikely]]
    capture_->settle(parameters_);  // another thread's, where it waited for long
  if (Capture* const c = Capture::current(); c && !is_own_) [[unlikely]]
    c->note_break(reason, source);
  static Counter &syncs = counter("syncs"), &hits = counter("predictor.hits"), &ops = counter("ops.recorded");
  syncs.add();
  ops.add(static_cast<int64_t>(size()));
  if (followed_ && position_ == followed_->instrs.size()) hits.add();
  record_event({"sync", std::string(reason), resolve_source(source)});
  if (profiling()) [[unlikely]]
    note_recorded();
  const SpanScope span(SpanKind::kSync, reason, source);
  const bool logged = TraceLog::wanted() && !is_own_;
  const auto log = [&](const Trace& t, std::span<const uint32_t> produced, std::string why) {
    TraceLog::note({t, produced, leaves_, parameters_, device_, options_.compile, reason, source, std::move(why)});
  };
  if (device_.type >= DeviceType::kFirstUser) {
    if (logged) [[unlikely]]
      log(*current_trace(), numbers_alive(), "its device runs op by op");
    return run_on_device(reason, source);
  }
  std::unique_ptr<RanStep> ran = StepLog::is_on() && !is_own_ ? std::make_unique<RanStep>() : nullptr;
  const int64_t began = ran ? now_ns() : 0;
  Trace* t = nullptr;
  bool planned = false;
  std::vector<jit::OpSite> bad_indices;
  try {
    drop_stale_plans();
    recorded_anew_ = false;
    complaint_.clear();
    t = current_trace();
    PlanEntry& entry = find_plan(*t);
    if (recorded_anew_ && (recompile_log() == RecompileLog::kVerbose || ran)) {
      Recompile why = explain_recording(*t, known_->traces, last_);
      if (ran) StepLog::note_recompile(why);
      if (recompile_log() == RecompileLog::kVerbose) tell(std::move(why));
    }
    if (ran) [[unlikely]]
      note_step(*t, entry, *ran);
    planned = true;
    if (logged) [[unlikely]]
      log(*t, entry.produced, "");
    bad_indices = run(*t, entry);
  } catch (const Interrupted&) {
    throw;  // before anything ran: the step is still to be run
  } catch (const std::exception& e) {
    if (logged && t && !planned) log(*t, numbers_alive(), e.what());
    const auto readable = [](const ValueRef& leaf) { return has_memory(*leaf); };
    const bool has_eager_kernels = device_ == DeviceType::kCPU;
    if (!t || options_.strict || !has_eager_kernels || !std::ranges::all_of(leaves_, readable)) {
      abandon(e.what());
      throw;
    }
    if (ran) {
      ran->how = RanStep::kOneByOne;
      ran->note = e.what();
      ran->ops = ops_of(*t);
      ran->recompile = StepLog::take_recompile();
    }
    salvage(*t, e.what());
    t = nullptr;
  }
  if (!bad_indices.empty() && device_ == DeviceType::kCPU) {
    // Nothing that was in memory has changed. Run op by op, the first op that can't run says why, and what was made
    // before it is not lost.
    run_one_by_one(*t);
    bad_indices.clear();  // not reached where tiers agree; all of the step has run now
    t = nullptr;
  }
  if (ran) [[unlikely]] {
    ran->device = device_;
    ran->reason = reason;
    ran->source = source;
    ran->ms = static_cast<double>(now_ns() - began) / 1e6;
    StepLog::note(*ran);
  }
  if (t) last_end_ = {std::string(reason), source};
  finish_step(t);
  if (!bad_indices.empty()) raise_bad_index(bad_indices);  // the step completed
  if (!complaint_.empty()) raise<RuntimeError>(std::exchange(complaint_, {}));
}

/// Adds the span of recording the step that is about to run.
void Tape::note_recorded() {
  if (record_began_ == 0) return;
  const Trace& t = followed_ ? *followed_ : own_;
  Span span;
  span.kind = SpanKind::kRecord;
  span.name = "record";
  span.source = t.instrs[0].source;
  span.begin_ns = std::exchange(record_began_, 0);
  span.end_ns = now_ns();
  span.device = device_;
  span.count = static_cast<int64_t>(size());
  add_span(std::move(span));
}

void Tape::raise_reports(bool idle) {
  const std::vector<jit::OpSite> reports = jit::take_reports(device_, idle);
  if (!reports.empty()) raise_bad_index(reports);
}

void Tape::abandon(std::string why) {
  failure_ = std::move(why);
  if (!makes_parameters_ && !is_own_) DrawLog::undo();
  if (!is_own_) StepUndo::fail();
  for (Write& w : writes_) {
    w.tensor.impl()->value = w.before;
    ++w.tensor.impl()->version;  // its views hold what failed
  }
  for (Value* v : slots_) {
    if (v && v->pending) v->pending = false;
  }
  finish_step(nullptr);
}

void Tape::forget_writes() {
  if (writes_.empty()) return;
  epoch_ = next_epoch();
  for (const Write& w : writes_) w.before->tape_refs = 0;
  writes_.clear();
  rewrites_.clear();
}

void Tape::finish_step(Trace* t) {
  forget_writes();
  epoch_ = next_epoch();
  slots_.clear();
  for (const ValueRef& v : leaves_) v->tape_refs = 0;
  leaves_.clear();
  rewrites_.clear();
  parameters_.clear();
  live_digest_ = 0;
  own_.clear();
  diverged_at_ = 0;
  if (t) {
    if (last_) last_->next = t;
    last_ = t;
  }
  followed_ = options_.predict && t ? t->next : nullptr;
  position_ = 0;
  may_rejoin_ = true;
  makes_parameters_ = false;
  if (!is_own_ && !branch_) {
    DrawLog::forget();
    StepUndo::forget();
  }
  until_drain_ = 0;
  record_began_ = 0;
  drain();
}

}  // namespace smolder::lazy
