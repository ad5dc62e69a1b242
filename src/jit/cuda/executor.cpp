// Running an instance on CUDA: everything is queued, in order, and the host goes on.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/cuda/timeline.h"
#include "smolder/core/error.h"
#include "smolder/core/memory_history.h"
#include "smolder/core/per_thread.h"
#include "smolder/core/source_line.h"
#include "smolder/eager/cuda/tuned_products.h"
#include "smolder/jit/cuda/lanes.h"
#include "smolder/jit/cuda/replay.h"
#include "smolder/jit/kernel_queue.h"
#include "smolder/jit/plan/plan_impl.h"
#include "smolder/jit/run/arena.h"
#include "smolder/jit/run/run_mode.h"

namespace smolder::jit {

namespace {

/// Whether each launch is waited for, so that what fails is known: CUDA_LAUNCH_BLOCKING=1, as in CUDA's own tools.
bool is_blocking() {
  static const bool asked = [] {
    const char* const text = std::getenv("CUDA_LAUNCH_BLOCKING");
    return text && std::string_view(text) != "0" && *text;
  }();
  return asked;
}

/// Spans of steps: of the host, which queues them as one, and of each on the device.
class QueuedStep {
 public:
  QueuedStep(smolder::cuda::Stream& stream, auto&& describe)
      : host_(SpanKind::kLaunch, "queue step"), device_(stream, [&] {
          std::vector<Span> spans = describe();
          const uint64_t flow = next_flow();
          for (Span& span : spans) span.flow = flow;
          if (Span* const s = host_.span()) {
            const Span& span = spans.front();
            s->name = "queue " + span.name;
            if (spans.size() > 1) s->name += " and " + std::to_string(spans.size() - 1) + " like it";
            s->source = span.source;
            s->plan = span.plan;
            s->step = span.step;
            s->flow = flow;
          }
          return spans;
        }) {}

 private:
  SpanScope host_;
  smolder::cuda::TimedWork device_;
};

}  // namespace

smolder::cuda::Queue& InstanceImpl::queue() const {
  return smolder::cuda::Queue::of(plan_->program().options.device.index);
}

cuda::InstanceState& InstanceImpl::state_on_cuda() const {
  if (on_cuda_) return *on_cuda_;
  const Device device = plan_->program().options.device;
  auto state = std::make_shared<cuda::InstanceState>();
  const MemoryFor use("numbers of a plan", 0);
  if (!scalars_.empty()) state->scalars = allocate(scalars_.size() * sizeof(uint64_t), device);
  if (!errors_.empty()) {
    std::vector<OpSite> sites;
    for (const OpSite* site : errors_) sites.push_back(*site);
    state->errors = std::make_shared<cuda::ErrorSlots>(device.index, std::move(sites));
  }
  if (plan_->checks_indices()) state->gate = &cuda::StepGate::of(device.index);
  const auto may_be_captured = [](const LibraryStep& step) { return step.call->only_queues(); };
  if (launches_.size() < 2 || !std::ranges::all_of(library_, may_be_captured)) state->graphs.give_up();
  state->staging = std::make_unique<cuda::Staging>(device, touched_bytes());
  on_cuda_ = std::move(state);
  return *on_cuda_;
}

/// The bytes of each leaf, then of each output.
std::vector<cuda::TouchedBytes> InstanceImpl::touched_bytes() const {
  std::vector<cuda::TouchedBytes> all(static_cast<size_t>(num_leaves_) + output_bytes_.size());
  for (const Touch& touch : touches_) {
    if (touch.from.base < PointerSlot::kFirstLeaf) continue;
    const size_t slot = touch.from.base - PointerSlot::kFirstLeaf;
    cuda::TouchedBytes& bytes = all[slot];
    const bool is_first = bytes.end == bytes.begin;
    bytes.begin = is_first ? touch.from.offset : std::min(bytes.begin, touch.from.offset);
    bytes.end = std::max(bytes.end, touch.from.offset + touch.bytes);
    const bool is_leaf = slot < static_cast<size_t>(num_leaves_);
    bytes.copied_in |= is_leaf;
    bytes.copied_out |= !is_leaf;
  }
  // Guarded work may leave outputs as they are.
  for (const Donation& d : plan_->donations()) {
    cuda::TouchedBytes& output = all[static_cast<size_t>(num_leaves_ + d.output)];
    output.copied_in |= plan_->checks_indices() && d.keeps && output.copied_out;
  }
  return all;
}

/// False: an index was out of range, and was found to be on the host.
bool InstanceImpl::queue_library(const LibraryStep& step) const {
  RunTables& t = RunTables::of_thread();
  uint32_t* const error = step.error >= 0 ? on_cuda_->errors->slot(static_cast<size_t>(step.error)) : nullptr;
  return step.call->queue({t.pointers.data() + step.pointers, step.num_pointers},
                          {error, step.guarded ? guard_word() : nullptr});
}

/// The word that guarded work of this run looks at. A step that is part of another runs to its end.
const uint32_t* InstanceImpl::guard_word() const {
  return RunTables::of_thread().depth > 0 ? on_cuda_->gate->never() : on_cuda_->gate->failed();
}

void InstanceImpl::queue_segments(const Launch& launch, std::span<const Segment> segments) const {
  RunTables& t = RunTables::of_thread();
  const auto* const scalars = on_cuda_->scalars ? static_cast<const uint64_t*>(on_cuda_->scalars->data()) : nullptr;
  static const PerThread<std::vector<KernelArguments>> calls_of_thread;
  std::vector<KernelArguments>& calls = *calls_of_thread;
  calls.clear();
  for (const Segment& s : segments) {
    uint32_t* const errors = launch.guarded     ? const_cast<uint32_t*>(guard_word())  // which is only read
                             : s.num_errors > 0 ? on_cuda_->errors->slot(s.errors)
                                                : nullptr;
    calls.push_back({t.pointers.data() + s.pointers, ints_.data() + s.ints, scalars + s.scalars, errors, s.positions});
  }
  launch.device->launch(queue().stream(), calls);
}

std::span<const Segment> InstanceImpl::segments_of(const Launch& launch) const {
  return {segments_.data() + launch.first_segment, launch.num_segments};
}

void InstanceImpl::queue_launch(const Launch& launch, std::vector<IndexReport>& reports) const {
  ++RunTables::of_thread().begun;
  if (launch.library >= 0) {
    const LibraryStep& step = library_[launch.library];
    const QueuedStep watched(queue().stream(), [&] { return std::vector{span_of(launch.first_step)}; });
    if (queue_library(step)) return;
    reports.push_back({*step.site});
    if (on_cuda_->gate) on_cuda_->gate->fail();
    return;
  }
  const std::span<const Segment> all = segments_of(launch);
  const size_t at_once = launch.together ? all.size() : 1;
  for (size_t i = 0; i < all.size(); i += at_once) {
    const std::span<const Segment> some = all.subspan(i, at_once);
    const QueuedStep watched(queue().stream(), [&] {
      std::vector<Span> spans;
      constexpr const char* kOfTiers[] = {" (interpreted)", " (compiled quickly)", ""};
      for (const Segment& s : some) {
        spans.push_back(span_of(s.step));
        spans.back().name += kOfTiers[static_cast<int>(launch.device->tier())];
      }
      return spans;
    });
    queue_segments(launch, some);
  }
}

/// Queues a run that is being captured: what shares no memory goes side by side.
void InstanceImpl::queue_on_lanes() const {
  smolder::cuda::Queue& queue = this->queue();
  const std::vector<char*>& bases = RunTables::of_thread().bases;
  std::vector<std::vector<cuda::MemoryRange>> work(units_.size());
  for (size_t u = 0; u < units_.size(); ++u) {
    for (uint32_t i = 0; i < units_[u].num_touches; ++i) {
      const Touch& touch = touches_[units_[u].first_touch + i];
      const auto begin = reinterpret_cast<uintptr_t>(bases[touch.from.base] + touch.from.offset);
      work[u].push_back({begin, begin + static_cast<uintptr_t>(touch.bytes), touch.written});
    }
    add_checks(units_[u], work[u]);
  }
  // All that looks at indices comes before the launch that counts the step.
  if (on_cuda_->gate) work.push_back(all_checks());
  const std::vector<cuda::LanePlace> places = cuda::deal_to_lanes(work, smolder::cuda::Queue::kLanes);
  std::vector<int> marks(units_.size(), -1);
  for (size_t u = 0; u < units_.size(); ++u) {
    const cuda::LanePlace& place = places[u];
    queue.use_lane(place.lane);
    for (const int earlier : place.waits) queue.wait_for(marks[earlier]);
    const Launch& launch = launches_[units_[u].launch];
    if (units_[u].num_segments > 0) {
      queue_segments(launch, {segments_.data() + units_[u].first_segment, units_[u].num_segments});
    } else {
      queue_library(library_[launch.library]);
    }
    if (place.is_waited_for) marks[u] = queue.mark();
  }
  if (!on_cuda_->gate) return;
  queue.use_lane(places.back().lane);
  for (const int earlier : places.back().waits) queue.wait_for(marks[earlier]);
  on_cuda_->gate->queue_count();
}

/// The slots of all that a run looks at, as memory.
std::vector<cuda::MemoryRange> InstanceImpl::all_checks() const {
  if (!on_cuda_->errors) return {};
  const auto begin = reinterpret_cast<uintptr_t>(on_cuda_->errors->slot(0));
  return {{begin, reinterpret_cast<uintptr_t>(on_cuda_->errors->slot(errors_.size())), false}};
}

/// Adds the error words that a unit of work touches: one that looks at indices writes its own, a guarded one reads all.
void InstanceImpl::add_checks(const WorkUnit& unit, std::vector<cuda::MemoryRange>& work) const {
  const auto slots = [&](size_t first, size_t count) {
    if (count == 0) return;
    const cuda::ErrorSlots& all = *on_cuda_->errors;
    work.push_back(
        {reinterpret_cast<uintptr_t>(all.slot(first)), reinterpret_cast<uintptr_t>(all.slot(first + count)), true});
  };
  const Launch& launch = launches_[unit.launch];
  if (launch.guarded) std::ranges::copy(all_checks(), std::back_inserter(work));
  if (unit.num_segments == 0) {
    const LibraryStep& step = library_[launch.library];
    if (step.error >= 0) slots(static_cast<size_t>(step.error), 1);
    return;
  }
  for (uint32_t i = 0; i < unit.num_segments; ++i) {
    const Segment& segment = segments_[unit.first_segment + i];
    slots(segment.errors, segment.num_errors);
  }
}

/// Runs a launch to its end, so that an error is known to be its.
void InstanceImpl::run_and_wait(const Launch& launch, std::vector<IndexReport>& reports) const {
  const auto start = std::chrono::steady_clock::now();
  try {
    queue_launch(launch, reports);
    queue().stream().synchronize();
  } catch (const OutOfMemoryError&) {
    throw;
  } catch (const RuntimeError& e) {
    const Program& program = plan_->program();
    const OpSite site = site_of(program, program.steps[launch.first_step]);
    const std::string where = resolve_source(site.source);
    raise<RuntimeError>(e.what(), ", in ", site.op, where.empty() ? "" : " at " + where);
  }
  if (debug_level() >= 2) {
    tell_time(launch, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
}

/// Before a run that overwrites leaves: throws OutOfMemoryError when there is no memory for temporaries of its
/// launches, which would be found with some of them done.
void InstanceImpl::rehearse(const RunArguments& args, cuda::InstanceState& state) const {
  const auto overwrites = [&](const Donation& d) { return args.outputs[d.output] == args.leaves[d.leaf]; };
  if (!state.takes_memory || !std::ranges::any_of(plan_->donations(), overwrites)) return;
  smolder::cuda::Rehearsal rehearsal;
  for (const Launch& launch : launches_) {
    if (launch.num_segments > 0) queue_segments(launch, segments_of(launch));
    if (launch.library >= 0 && library_[launch.library].call->only_queues()) queue_library(library_[launch.library]);
  }
  state.takes_memory = rehearsal.takes_memory();
}

/// The addresses of a run, and the numbers that library calls read on the host in place of theirs.
std::span<void* const> InstanceImpl::graph_key(const RunArguments& args) const {
  RunTables& t = RunTables::of_thread();
  if (number_slots_.empty()) return t.pointers;
  static const PerThread<std::vector<void*>> key_of_thread;
  std::vector<void*>& key = *key_of_thread;
  key = t.pointers;
  for (const uint32_t slot : number_slots_) {
    key[slot] =
        reinterpret_cast<void*>(args.parameters[static_cast<size_t>(pointers_[slot].offset) / sizeof(uint64_t)]);
  }
  return key;
}

/// Computes on the host what follows from a run's numbers. A call whose numbers equal the call's before, as an
/// optimizer's mostly do, copies its results.
void InstanceImpl::compute_scalars(std::vector<uint64_t>& scalars) const {
  const Computed* before = nullptr;
  for (const Computed& c : computed_) {
    uint64_t* const own = scalars.data() + c.scalars;
    const uint64_t* const known = before ? scalars.data() + before->scalars : nullptr;
    if (before && before->device == c.device && std::equal(own, own + c.given, known)) {
      std::copy_n(known + c.given, c.device->num_computed(), own + c.given);
    } else {
      c.device->compute_scalars(own);
    }
    before = &c;
  }
}

std::vector<IndexReport> InstanceImpl::run_on_cuda(const RunArguments& args, const LaunchWatch* watch) const {
  smolder::cuda::Queue& queue = this->queue();
  cuda::InstanceState& state = state_on_cuda();
  constexpr int64_t kOften = 3;
  if (++state.runs >= kOften) settle(state);
  RunTables& t = RunTables::of_thread();
  const RunMemory arena(plan_->program().options.device, arena_bytes_, t.depth > 0);
  fill_bases(args, arena.base());
  const bool waits = is_blocking() || debug_level() >= 2;
  const bool is_watched = waits || watch || profiles_devices();
  const RunMode mode = run_mode();
  const bool tries = !is_watched && cuda::wants_trials(state.tuning, mode);
  if (state.tuning.generation != eager::cuda::product_generation()) {
    state.tuning.generation = eager::cuda::product_generation();
    state.graphs.clear();
  }
  // The profile has times of steps, which a graph would not tell.
  const bool is_part = t.depth > 0;  // of a step, whose guards it has not: see guard_word()
  const bool may_replay = !(state.gate && is_part) && !is_watched && !tries && mode.replays && cuda::graphs_enabled() &&
                          state.graphs.may_replay() && is_compiled(state);
  static const PerThread<std::vector<char*>> own_of_thread;
  std::vector<char*>& own = *own_of_thread;  // addresses of the run's leaves and outputs
  own.assign(t.bases.begin() + PointerSlot::kFirstLeaf, t.bases.end());
  if (may_replay) state.staging->replace(std::span(t.bases).subspan(PointerSlot::kFirstLeaf));
  fill_tables(args);
  if (state.uploaded != t.scalars) {
    state.uploaded = t.scalars;
    compute_scalars(t.scalars);
    queue.upload(state.scalars->data(), t.scalars.data(), t.scalars.size() * sizeof(uint64_t));
  }
  if (state.errors) cuda::watch(state.errors);

  std::vector<IndexReport> reports;
  if (may_replay) {
    state.staging->copy_in(queue.stream(), own);
    replay(args, state, reports);
    state.staging->copy_out(queue.stream(), own);
  } else if (tries) {
    rehearse(args, state);
    run_with_trials(mode, state, reports);
    count(state);
  } else {
    rehearse(args, state);
    // A host that queues interpreted runs faster than they end would queue many, which their own code comes too late
    // for.
    if (!is_compiled(state)) queue.pace();
    queue_in_order(watch, waits, reports);
    count(state);
  }
  if (is_part) return reports;  // the run that this is a part of asks
  if (state.gate) {
    const uint64_t ticket = state.gate->give();
    if (args.ticket) *args.ticket = ticket;
  }
  if (!reports.empty()) return finish_with(std::move(reports));
  return cuda::take_reports(queue.device(), waits);
}

void InstanceImpl::queue_in_order(const LaunchWatch* watch, bool waits, std::vector<IndexReport>& reports) const {
  StopBeforeWrites stop(first_write_, RunTables::of_thread().depth);
  for (const Launch& launch : launches_) {
    stop.before(launch);
    if (watch) watch->before(launch);
    waits || watch ? run_and_wait(launch, reports) : queue_launch(launch, reports);
    if (watch) watch->after(launch);
  }
}

/// Queues the launch that counts the run, if that is a whole step which looks at indices.
void InstanceImpl::count(const cuda::InstanceState& state) const {
  if (state.gate && RunTables::of_thread().depth == 0) state.gate->queue_count();
}

/// Ends a run in which the host found an index out of range. The device found its reports before that.
std::vector<IndexReport> InstanceImpl::finish_with(std::vector<IndexReport> found) const {
  queue().stream().synchronize();
  std::vector<IndexReport> reports = cuda::take_reports(queue().device(), true);
  if (reports.empty() && on_cuda_->gate) on_cuda_->gate->reset();
  return reports.empty() ? std::move(found) : reports;
}

/// Has calls do what is best, now that the instance runs again and again: at once, or in a later run, when what that
/// takes is compiled.
void InstanceImpl::settle(cuda::InstanceState& state) const {
  if (state.is_settled) return;
  if (!waits_ && !state.preparing) {
    for (const LibraryStep& step : library_) step.call->prepare_to_settle();
    std::vector<std::function<void()>> programs = take_unready(DeviceType::kCUDA);
    state.preparing = std::make_shared<std::atomic<size_t>>(programs.size());
    for (std::function<void()>& compile : programs) {
      const bool queued = KernelQueue::get().submit([left = state.preparing, compile] {
        try {
          compile();
        } catch (...) {
          --*left;  // the launch throws it again
          throw;
        }
        --*left;
      });
      if (!queued) --*state.preparing;
    }
  }
  if (state.preparing && *state.preparing > 0) return;
  state.is_settled = true;
  for (const LibraryStep& step : library_) step.call->settle();
  plan_->compile_missing(work_of_stand_ins());
}

/// Whether all launches are of kernels' own code: a graph would launch for ever what stands in for it.
bool InstanceImpl::is_compiled(cuda::InstanceState& state) const {
  state.is_compiled = state.is_compiled || std::ranges::all_of(launches_, [](const Launch& launch) {
                        return !launch.device || launch.device->tier() == DeviceKernel::Tier::kOwn;
                      });
  return state.is_compiled;
}

/// Queues a run whose products try algorithms first.
void InstanceImpl::run_with_trials(const RunMode& mode, cuda::InstanceState& state,
                                   std::vector<IndexReport>& reports) const {
  eager::cuda::ProductTrials trials(queue().device(), cuda::seconds_for_trials(mode));
  for (const Launch& launch : launches_) queue_launch(launch, reports);
  const bool done = trials.finish();
  cuda::note_trials(state.tuning, trials.spent(), done);
}

/// Queues a run as a graph: one captured before, or one captured now that its addresses come again.
void InstanceImpl::replay(const RunArguments& args, cuda::InstanceState& state,
                          std::vector<IndexReport>& reports) const {
  smolder::cuda::Queue& queue = this->queue();
  const std::span<void* const> key = graph_key(args);
  if (const smolder::cuda::Graph* const graph = state.graphs.find(key)) {
    queue.launch(*graph);
    return;
  }
  const bool wanted = state.graphs.wants(key);
  if (wanted) settle(state);
  if (wanted && state.is_settled) {
    try {
      queue.launch(state.graphs.add(key, queue.capture([&] { queue_on_lanes(); })));
      return;
    } catch (const Error& e) {  // nothing has run
      record_event({"graph", std::string("a step is not replayed: ") + e.what(), ""});
      state.graphs.give_up();
    }
  }
  rehearse(args, state);
  queue_in_order(nullptr, false, reports);
  count(state);
}

std::vector<IndexReport> finish_steps(Device device) {
  if (device != DeviceType::kCUDA) return {};
  if (smolder::cuda::Queue* const queue = smolder::cuda::Queue::existing(device.index)) queue->stream().synchronize();
  smolder::cuda::check_after_wait();
  return cuda::take_reports(device.index, true);
}

uint64_t steps_passed(Device device) {
  const cuda::StepGate* const gate = device == DeviceType::kCUDA ? cuda::StepGate::existing(device.index) : nullptr;
  return gate ? gate->passed() : 0;
}

std::vector<IndexReport> take_reports(Device device, bool idle) {
  return device == DeviceType::kCUDA ? cuda::take_reports(device.index, idle) : std::vector<IndexReport>{};
}

}  // namespace smolder::jit
