// Sync points: from the tape to a trace, from the trace to a plan, and the run.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "smolder/core/counters.h"
#include "smolder/core/interrupt.h"
#include "smolder/core/memory_history.h"
#include "smolder/core/per_thread.h"
#include "smolder/core/profile.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/eager/execute.h"
#include "smolder/jit/run/run_mode.h"
#include "smolder/lazy/branch.h"
#include "smolder/lazy/capture.h"
#include "smolder/lazy/effects.h"
#include "smolder/lazy/extract.h"
#include "smolder/lazy/known.h"
#include "smolder/lazy/random.h"
#include "smolder/lazy/recompile.h"
#include "smolder/lazy/step_log.h"
#include "smolder/lazy/step_undo.h"
#include "smolder/lazy/tape.h"
#include "smolder/lazy/trace_log.h"

namespace smolder::lazy {
namespace {

/// The step that this thread gave a device last.
struct LastGiven {
  Tape* tape = nullptr;
  uint64_t serial = 0;
};
LastGiven& last_given() {
  static const PerThread<LastGiven> last;
  return *last;
}

/// The error for an index out of range, with the line that recorded the op.
std::pair<std::string, std::string> texts_of(const jit::IndexReport& r) {
  const std::string where = resolve_source(r.source);
  return {eager::to_string({r.source, r.op, r.index, r.extent}), where.empty() ? "" : " at " + where};
}

}  // namespace

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

namespace {

/// Gives outputs the memory of leaves that nothing needs after the step. Whether it gave any.
bool donate(const std::vector<ValueRef>& leaves, const Trace& t, const PlanEntry& entry,
            std::vector<BufferRef>& buffers) {
  static Counter& donated = counter("memory.donated");
  const bool watched = memory_is_watched();
  bool any = false;
  for (const jit::Donation& d : entry.plan->donations()) {
    const Value& leaf = *leaves[d.leaf];
    const bool held = leaf.refs.load(std::memory_order_acquire) != leaf.tape_refs || leaf.buffer.use_count() != 1;
    if (held || buffers[d.output]) continue;
    if (!d.keeps && leaf.tape_refs > 1) continue;  // what a tensor held that is written: it may have to have it again
    any = true;
    buffers[d.output] = leaf.buffer;  // which makes two of its uses: no other output takes it
    donated.add();
    if (watched) [[unlikely]] {
      const Instr& maker = t.maker_of(entry.produced[d.output]);
      note_given_on(leaf.buffer->data(), ir::name(maker.op), maker.source);
    }
  }
  return any;
}

/// Gives the other outputs memory: of a leaf or an output that they are the same as, or new.
void allocate_outputs(const std::vector<ValueRef>& leaves, const Trace& t, const PlanEntry& entry, Device device,
                      std::vector<BufferRef>& buffers) {
  const std::span<const jit::OutputInfo> infos = entry.plan->outputs();
  const std::span<const int64_t> bytes = entry.instance->output_bytes();
  const bool watched = memory_is_watched();
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].same_as_leaf >= 0) {
      buffers[i] = leaves[infos[i].same_as_leaf]->buffer;
    } else if (infos[i].same_as_output >= 0) {
      buffers[i] = buffers[infos[i].same_as_output];
    } else if (!buffers[i]) {
      std::optional<MemoryFor> use;
      if (watched) [[unlikely]] {
        const Instr& maker = t.maker_of(entry.produced[i]);
        use.emplace(ir::name(maker.op), maker.source);
      }
      buffers[i] = smolder::allocate(bytes[i], device);
    }
  }
}

}  // namespace

std::vector<jit::IndexReport> Tape::run(Trace& t, PlanEntry& entry) {
  const std::span<const jit::OutputInfo> infos = entry.plan->outputs();
  std::vector<BufferRef> buffers(infos.size());
  std::vector<void*> outputs(infos.size()), leaves(leaves_.size());
  for (size_t i = 0; i < leaves.size(); ++i) leaves[i] = leaves_[i]->data();
  const bool checks = entry.plan->checks_indices() && device_ == DeviceType::kCUDA;
  if (donate(leaves_, t, entry, buffers) && !checks && !given_.empty()) {
    // Nothing guards what it overwrites, should a step have failed.
    if (auto reports = jit::finish_steps(device_); !reports.empty()) return reports;
    forget_passed();
  }
  allocate_outputs(leaves_, t, entry, device_, buffers);
  for (size_t i = 0; i < infos.size(); ++i) outputs[i] = buffers[i] ? buffers[i]->data() : nullptr;
  for (const jit::FallbackSite& site : entry.plan->fallbacks()) {
    tell_fallback(site.op + " has no lowering",
                  "its eager kernel runs inside the step, fused with nothing" +
                      (site.missing.empty() ? "" : ", as " + site.missing),
                  site.source);
  }
  std::vector<bool> written;
  uint64_t ticket = 0;
  std::vector<jit::IndexReport> reports = [&] {
    try {
      return entry.instance->run({leaves, parameters_, outputs, &written, &ticket});
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
  // A step that was queued is taken back as those before it.
  const bool undone = !reports.empty() && ticket == 0, gives = !undone && (ticket != 0 || !given_.empty());
  if (gives) {
    giving_.emplace();
    giving_->ticket = ticket;
    for (const jit::Donation& d : entry.plan->donations()) {
      Value& leaf = *leaves_[d.leaf];
      if (!leaf.buffer || leaf.buffer != buffers[d.output]) continue;
      giving_->donated.push_back({leaves_[d.leaf], leaf.buffer});
      leaf.buffer.reset();
    }
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    if (Value* const v = undone ? nullptr : slots_[entry.produced[i]]) {
      if (gives && buffers[i]) giving_->made.push_back({v, buffers[i], infos[i].unsure});
      v->buffer = std::move(buffers[i]);
      v->pending = false;
    }
  }
  ++t.runs;
  return reports;
}

/// Logs a step that is about to run.
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

void Tape::fall_back(const Trace* t, const std::string& why, RanStep* ran) {
  const auto readable = [](const ValueRef& leaf) { return has_memory(*leaf); };
  const bool has_eager_kernels = device_ == DeviceType::kCPU;
  const bool effects = t && has_effects(*t);
  if (!t || options_.strict || !has_eager_kernels || effects || !std::ranges::all_of(leaves_, readable)) {
    abandon(why);
    if (effects) tell_effects_lost(why);
    throw;  // what the caller caught
  }
  if (ran) {
    ran->how = RanStep::kOneByOne;
    ran->note = why;
    ran->ops = ops_of(*t);
    ran->recompile = StepLog::take_recompile();
  }
  salvage(*t, why);
}

void Tape::tell_bad_indices(Trace* t, const std::vector<jit::IndexReport>& found) {
  if (device_ == DeviceType::kCUDA) {
    if (giving_) finish_step(t);
    fail(found);
  }
  if (has_effects(*t)) {
    const auto [text, where] = texts_of(found.front());
    abandon(text + where);
    tell_effects_lost(text + where);
    ir::raise_index_error(ir::find_op(found.front().op), text,
                          where + "; the step was rolled back, as other processes saw a part of it");
  }
  // Nothing that was in memory has changed. Run op by op, the first op that can't run says why, and what was made
  // before it is not lost. It returns where tiers do not agree, and all of the step has run then.
  run_one_by_one(*t);
}

void Tape::sync(std::string_view reason, SourceToken source) {
  if (branch_) branch_->refuse_read(reason);
  SMOLDER_CHECK(!never_runs_, RuntimeError, "a shape rule cannot read the values of tensors (", reason,
                "): it is given shapes and dtypes only");
  hear();
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
  look_at_given();
  std::unique_ptr<RanStep> ran = StepLog::is_on() && !is_own_ ? std::make_unique<RanStep>() : nullptr;
  const int64_t began = ran ? now_ns() : 0;
  Trace* t = nullptr;
  bool planned = false;
  std::vector<jit::IndexReport> bad_indices;
  try {
    drop_stale_plans();
    recorded_anew_ = false;
    complaint_.clear();
    t = current_trace();
    if (t->runs == 0) tell_effects_ahead(*t);
    PlanEntry* const entry = find_plan(*t);
    if (entry && recorded_anew_ && (recompile_log() == RecompileLog::kVerbose || ran)) {
      Recompile why = explain_recording(*t, known_->traces, last_);
      if (ran) StepLog::note_recompile(why);
      if (recompile_log() == RecompileLog::kVerbose) tell(std::move(why));
    }
    if (ran && entry) [[unlikely]]
      note_step(*t, *entry, *ran);
    planned = entry != nullptr;
    if (logged) [[unlikely]]
      log(*t, entry ? std::span<const uint32_t>(entry->produced) : numbers_alive(), "");
    if (entry) bad_indices = run(*t, *entry);
  } catch (const Interrupted&) {
    throw;  // before anything ran: the step is still to be run
  } catch (const std::exception& e) {
    if (logged && t && !planned) log(*t, numbers_alive(), e.what());
    fall_back(t, e.what(), ran.get());
    t = nullptr;
    planned = true;
  }
  if (!planned) bad_indices = run_before_plan(*t, ran.get());
  if (!bad_indices.empty()) {
    tell_bad_indices(t, bad_indices);
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
  const std::vector<jit::IndexReport> reports = jit::take_reports(device_, idle);
  if (!reports.empty()) fail(reports);
  forget_passed();
}

void Tape::settle_given() {
  if (given_.empty()) return;
  if (const std::vector<jit::IndexReport> reports = jit::finish_steps(device_); !reports.empty()) fail(reports);
  forget_passed();
}

void Tape::forget_passed() {
  if (!given_.empty()) StepUndo::drop(given_.release(jit::steps_passed(device_)));
}

/// Before a step is given to the device: is one before it known to have failed? Waits where too many are not known of.
void Tape::look_at_given() {
  if (given_.empty()) return;
  forget_passed();
  const std::vector<jit::IndexReport> reports =
      given_.is_full() ? jit::finish_steps(device_) : jit::take_reports(device_, false);
  if (!reports.empty()) fail(reports);
  forget_passed();
}

/// The step was queued: keeps what takes it back.
void Tape::give() {
  static std::atomic<uint64_t> last{0};
  giving_->serial = ++last;
  giving_->writes = std::exchange(writes_, {});
  for (const Write& w : giving_->writes) w.before->tape_refs = 0;
  std::ranges::move(StepUndo::forget(), std::back_inserter(giving_->undo));
  giving_->draws = DrawLog::forget();
  last_given() = {this, giving_->serial};
  given_.add(std::move(*giving_));
  giving_.reset();
}

bool Tape::has_given() { return last_given().tape != nullptr; }

void Tape::note_undo(std::function<void()> undo, bool updates) {
  StepUndo::settle();
  // The recorded ops have run, or were given to a device.
  if (eager_enabled()) return note_given(std::move(undo));
  StepUndo::note(std::move(undo), updates ? std::optional(cpu().size()) : std::nullopt);
}

void Tape::note_given(std::function<void()> undo) {
  const LastGiven last = last_given();
  if (!last.tape) return;
  const std::lock_guard hold(last.tape->mutex());
  last.tape->given_.note(last.serial, undo);
}

/// A step on a device failed, which the steps before are known not to have: it and all that was recorded since are
/// taken back.
void Tape::fail(const std::vector<jit::IndexReport>& reports) {
  const jit::IndexReport& first = reports.front();
  const auto [text, where] = texts_of(first);
  forget_passed();
  abandon(text + where);
  StepUndo::fail(given_.take_back());
  ir::raise_index_error(ir::find_op(first.op), text, where);
}

void Tape::abandon(std::string why) {
  failure_ = std::move(why);
  const bool others = turns_.of_another();  // whose notes this thread has not
  if (!makes_parameters_ && !is_own_ && !others) DrawLog::undo();
  if (!is_own_ && !others) StepUndo::fail();
  for (Write& w : writes_) {
    w.tensor.impl()->value = w.before;
    w.tensor.impl()->written();  // its views hold what failed
  }
  for (Value* v : slots_) {
    if (v && v->pending) v->pending = false;
  }
  finish_step(nullptr);
}

void Tape::raise_unheard() {
  const auto [thread, error] = turns_.hear();
  if (!error) return;
  if (thread == Turns::this_thread()) {  // an ended thread's notes went with it
    DrawLog::undo();
    StepUndo::fail();
  }
  std::rethrow_exception(error);
}

void Tape::forget_writes() {
  if (writes_.empty()) return;
  epoch_ = next_epoch();
  for (const Write& w : writes_) w.before->tape_refs = 0;
  writes_.clear();
  rewrites_.clear();
}

void Tape::finish_step(Trace* t) {
  if (giving_ && t && has_effects(*t)) {  // others see it, and that it was taken back
    giving_->undo.emplace_back([this] { tell_effects_lost(failure_); });
  }
  if (giving_) give();
  forget_writes();
  epoch_ = next_epoch();
  slots_.clear();
  for (const ValueRef& v : leaves_) v->tape_refs = 0;
  leaves_.clear();
  rewrites_.clear();
  turns_.clear();
  parameters_.clear();
  live_digest_ = 0;
  own_.clear();
  diverged_at_ = 0;
  if (t && t->forgotten) t = nullptr;  // a compiled function's alone
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
    StepUndo::drop(StepUndo::forget());
  }
  until_drain_ = 0;
  record_began_ = 0;
  drain();
}

}  // namespace smolder::lazy
