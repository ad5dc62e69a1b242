// From what was recorded to the plan that runs it: one that is known, one that is compiled now, or none yet, where it
// is compiled behind the program and the step runs op by op.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/profile.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/ir/control_flow.h"
#include "smolder/ir/user_op.h"
#include "smolder/jit/compile.h"
#include "smolder/jit/kernel_queue.h"
#include "smolder/jit/run/run_mode.h"
#include "smolder/jit/switches.h"
#include "smolder/lazy/extract.h"
#include "smolder/lazy/known.h"
#include "smolder/lazy/long_steps.h"
#include "smolder/lazy/plan_queue.h"
#include "smolder/lazy/recompile.h"
#include "smolder/lazy/step_log.h"
#include "smolder/lazy/tape.h"

namespace smolder::lazy {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

/// The time of planning for each op that was recorded, roughly, in nanoseconds, without kernels.
constexpr int64_t kPlanningOfAnOp = 10000;

/// Does it run code of users, or graphs of control flow? These run as often, and where, as plans run them.
bool runs_foreign_code(const Trace& t) {
  constexpr auto kCPU = eager::DispatchKey::kCPU;
  return std::ranges::any_of(t.instrs, [](const Instr& e) {
    return ir::is_user_op(e.op) || ir::is_control_flow(e.op) || eager::resolve(kCPU, e.op) != e.op ||
           (!ir::info(e.op).flags.primitive && eager::find_kernel(kCPU, e.op));
  });
}

}  // namespace

/// Draws the tier of the step that is about to run, for tests.
bool Tape::draws_op_by_op() {
  options_.random_tiers = options_.random_tiers * 6364136223846793005u + 1442695040888963407u;
  return (options_.random_tiers >> 63) != 0;
}

bool Patience::bears(int64_t ns) {
  const int64_t now = now_ns();
  if (at_ != 0) left_ = std::min(kMost, left_ + (now - at_) / 10);
  at_ = now;
  return left_ >= ns;
}

void Patience::use(int64_t ns) {
  const int doublings = std::min(unused_++ / kUntilTwice, kMostDoublings);
  left_ = std::max(left_ - (std::min(ns, kMostDebt) << doublings), -kMostDebt);
}

Trace* Tape::current_trace() {
  if (followed_ && position_ == followed_->instrs.size()) return followed_;
  if (followed_) diverge();
  const Hash128 h = own_.prefix.back();
  for (Trace* t : known_->by_hash[h]) {
    if (t->instrs.size() == own_.instrs.size() && same_prefix(own_, *t, own_.instrs.size())) return t;
  }
  if (known_->traces.size() >= options_.max_traces) {
    forget_oldest();
    diverged_at_ = 0;
  }
  static Counter& traces = counter("traces.recorded");
  traces.add();
  recorded_anew_ = true;
  known_->traces.push_back(std::make_shared<Trace>(own_));
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

/// May it run op by op as well as by a plan, with nothing else that the program could tell?
bool Tape::has_two_tiers(const Trace& t) const {
  return device_ == DeviceType::kCPU && !is_own_ && !branch_ && !runs_foreign_code(t) &&
         std::ranges::all_of(leaves_, [](const ValueRef& leaf) { return has_memory(*leaf); });
}

bool Tape::waits_for_compiler() const {
  return compiling() == Compiling::kWait || on_recompile() == OnRecompile::kRaise || options_.strict ||
         device_ != DeviceType::kCPU;
}

/// The plan that runs the trace; null where it is to run op by op, as `awaited_` is still compiled or could not be.
PlanEntry* Tape::find_plan(Trace& t, bool wait) {
  awaited_ = nullptr;
  const bool constant_sizes = jit::run_mode().constant_sizes;
  if (options_.random_tiers != 0 && !wait) [[unlikely]] {
    if (draws_op_by_op() && has_two_tiers(t)) return nullptr;
    wait = true;
  }
  const auto fits = [&](const PlanEntry& e) { return e.constant_sizes || !constant_sizes; };
  for (PlanEntry& e : t.plans) {
    if (!fits(e) || std::ranges::find(e.accepted_digests, live_digest_) == e.accepted_digests.end()) continue;
    if (std::exchange(e.used_once, false)) [[unlikely]]
      note_used_again(*e.plan);
    return &e;
  }
  std::vector<uint32_t> alive = numbers_alive();
  // A plan that produces more than is alive will do: when handles die must not choose the plan.
  for (PlanEntry& e : t.plans) {
    if (fits(e) && std::ranges::includes(e.produced, alive)) {
      e.accepted_digests.push_back(live_digest_);
      return &e;
    }
  }
  wait = wait || waits_for_compiler();
  const auto awaits_this = [&](const AwaitedPlan& a) {
    return a.digest == live_digest_ && a.constant_sizes == constant_sizes;
  };
  if (!wait) {
    const auto found = std::ranges::find_if(t.awaited, awaits_this);
    if (found != t.awaited.end() && found->job->is_to_come()) {
      awaited_ = found->job;
      return nullptr;
    }
  }
  std::erase_if(t.awaited, awaits_this);
  PlanEntry entry;
  entry.constant_sizes = constant_sizes;
  entry.produced = std::move(alive);
  entry.accepted_digests = {live_digest_};
  entry.plan = plan_for(t, entry, wait);
  if (!entry.plan) {
    recorded_anew_ = false;
    t.awaited.push_back({constant_sizes, live_digest_, awaited_});
    return nullptr;
  }
  t.plans.push_back(std::move(entry));
  t.dropped = nullptr;
  return &t.plans.back();
}

/// The plan for a trace that has none, and its instance; null where it is to run op by op.
std::shared_ptr<const jit::Plan> Tape::plan_for(const Trace& t, PlanEntry& entry, bool wait) {
  const jit::AwaitedKernels scope_of_kernels(compiling() == Compiling::kWait || on_recompile() == OnRecompile::kRaise ||
                                             options_.strict);
  std::vector<int64_t> symbols = symbol_values(t);
  std::string structure = plan_structure(t, entry.produced, options_.compile);
  const Hash128 digest = is_long(t) ? digest_of(structure) : Hash128();
  if (entry.constant_sizes) {
    structure.append(reinterpret_cast<const char*>(symbols.data()), symbols.size() * sizeof symbols[0]);
    symbols.clear();
  }
  if (const auto known = known_->plans.find(structure); known != known_->plans.end()) {
    for (const auto& plan : known->second) {
      if (!(entry.instance = bound(*plan, symbols, t))) continue;
      note_used_again(*plan);
      return plan;
    }
  }
  if (const auto found = known_->awaited.find(structure); found != known_->awaited.end()) {
    if (!wait && found->second->is_to_come()) {
      awaited_ = found->second;
      return nullptr;
    }
    const std::shared_ptr<PlanJob> job = std::move(found->second);
    known_->awaited.erase(found);
    if (job->state() == PlanJob::kReady) {
      PlanQueue::get().note_taken(*job);
      SpanScope scope(SpanKind::kPlan, "take over", t.instrs[0].source);
      note_compiled(t, entry, structure, {job->plan, job->milliseconds, true}, scope.span());
      entry.instance = job->symbols == symbols ? job->instance : bound(*job->plan, symbols, t);
      if (entry.instance) return job->plan;
    }
  }
  SpanScope scope(SpanKind::kPlan, "build plan", t.instrs[0].source);
  Built built;
  if (!wait && has_two_tiers(t)) {
    const auto ops = static_cast<int64_t>(t.instrs.size());
    const bool may_be_cached = !is_long(t) || kernels_were_kept(digest);
    if (may_be_cached && patience_.bears(ops * kPlanningOfAnOp)) {
      built = planned_now(t, entry);
      patience_.use(static_cast<int64_t>(built.milliseconds * 1e6));
    }
    const bool all_known = built.plan && built.plan->missing() == 0;
    if (!all_known && compile_behind(t, entry, symbols, built)) {
      known_->awaited.emplace(std::move(structure), awaited_);
      return nullptr;
    }
  }
  if (!built.plan) built = planned_now(t, entry);
  const auto start = Clock::now();
  entry.instance = built.plan->bind(symbols);
  SMOLDER_INVARIANT(entry.instance);  // a plan's guards hold at the sizes it was compiled from
  built.milliseconds += Milliseconds(Clock::now() - start).count();
  static Counter& instances = counter("plans.instances");
  instances.add();
  note_compiled(t, entry, structure, built, scope.span());
  entry.used_once = known_->used_once.insert(built.plan.get()).second;
  return built.plan;
}

/// If it is one that a step waited for.
void Tape::note_used_again(const jit::Plan& plan) {
  if (known_->used_once.erase(&plan) != 0) patience_.note_again();
}

Tape::Built Tape::planned_now(const Trace& t, const PlanEntry& entry) const {
  const auto start = Clock::now();
  Built built;
  built.plan = jit::Plan::compile(to_graph(t, entry.produced, entry.constant_sizes), options_.compile);
  built.milliseconds = Milliseconds(Clock::now() - start).count();
  return built;
}

/// Asks for the plan behind the program, or for its kernels if it is there already. False where there is no thread.
bool Tape::compile_behind(const Trace& t, const PlanEntry& entry, std::span<const int64_t> symbols,
                          const Built& built) {
  auto job = std::make_shared<PlanJob>();
  job->trace.assign_prefix(t, t.instrs.size());
  job->produced = entry.produced;
  job->symbols.assign(symbols.begin(), symbols.end());
  job->options = options_.compile;
  job->constant_sizes = entry.constant_sizes;
  job->disabled = jit::disabled_names();
  job->plan = built.plan;
  job->milliseconds = built.milliseconds;
  if (!PlanQueue::get().submit(job)) return false;
  awaited_ = std::move(job);
  return true;
}

/// Tells why a plan was compiled, and keeps it for traces of the same structure.
void Tape::note_compiled(const Trace& t, const PlanEntry& entry, const std::string& structure, const Built& built,
                         Span* span) {
  auto& candidates = known_->plans[structure];
  Recompile why = explain({t, entry.produced, known_->traces, last_,
                           candidates.empty() ? nullptr : candidates.back().get(), entry.constant_sizes});
  why.milliseconds = built.milliseconds;
  why.behind = built.behind;
  why.kernels.assign(built.plan->built().begin(), built.plan->built().end());
  if (span) {
    span->plan = built.plan->id();
    span->count = static_cast<int64_t>(why.kernels.size());
    span->detail = why.reason;
  }
  if (StepLog::is_on()) StepLog::note_recompile(why);
  complaint_ = tell(std::move(why));
  recorded_anew_ = false;
  candidates.push_back(built.plan);
}

/// An instance of a known plan; null where its guards refuse these sizes.
std::shared_ptr<const jit::Instance> Tape::bound(const jit::Plan& plan, std::span<const int64_t> symbols,
                                                 const Trace& t) const {
  static Counter& instances = counter("plans.instances");
  SpanScope scope(SpanKind::kPlan, "bind plan", t.instrs[0].source);
  auto instance = plan.bind(symbols);
  if (!instance) return nullptr;
  if (Span* const span = scope.span()) span->plan = plan.id();
  instances.add();
  return instance;
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
  known_->awaited.clear();
  known_->used_once.clear();
  drop_plans("what runs an op was registered or removed");
}

void Tape::drop_plans(const char* why) {
  for (const auto& t : known_->traces) {
    if (!t->plans.empty()) t->dropped = why;
    t->plans.clear();
    t->awaited.clear();
  }
}

}  // namespace smolder::lazy
