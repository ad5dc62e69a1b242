// Running an instance: addresses are put into a table, then every launch is a call.
#include <algorithm>
#include <atomic>
#include <iomanip>
#include <sstream>

#include "smolder/core/buffer.h"
#include "smolder/core/counters.h"
#include "smolder/core/interrupt.h"
#include "smolder/core/memory_history.h"
#include "smolder/core/per_thread.h"
#include "smolder/core/profile.h"
#include "smolder/core/running_source.h"
#include "smolder/core/thread_pool.h"
#include "smolder/jit/plan/plan_impl.h"
#include "smolder/jit/plan/plan_report.h"
#include "smolder/jit/run/arena.h"

namespace smolder::jit {

namespace {

/// State that the threads of one launch share.
struct KernelRun {
  const Launch* launch;
  const Segment* segments;
  const BlockRun* runs;
  void* const* pointers;
  const int64_t* ints;
  const uint64_t* scalars;
  uint32_t* errors;
  const ScratchSlot* scratch;

  void operator()(const Segment& s, int64_t begin, int64_t end) const {
    if (s.num_scratch > 0) [[unlikely]]
      return with_scratch(s, begin, end);
    launch->fn(pointers + s.pointers, ints + s.ints, scalars + s.scalars, errors + s.errors, begin, end);
  }

  /// Gives the segment rows of this thread's memory.
  void with_scratch(const Segment& s, int64_t begin, int64_t end) const {
    static const PerThread<std::vector<void*>> table_of_thread;
    static const PerThread<BufferRef> memory_of_thread;
    std::vector<void*>& table = *table_of_thread;
    BufferRef& memory = *memory_of_thread;
    const ScratchSlot* slots = scratch + s.first_scratch;
    const ScratchSlot& last = slots[s.num_scratch - 1];
    const auto bytes = static_cast<size_t>(last.offset + last.bytes);
    if (!memory || memory->bytes() < bytes) {
      const MemoryFor use("rows of kernels", 0);
      memory = allocate(bytes);
    }
    table.assign(pointers + s.pointers, pointers + s.pointers + s.num_pointers);
    for (uint32_t i = 0; i < s.num_scratch; ++i) {
      table[slots[i].pointer] = static_cast<char*>(memory->data()) + slots[i].offset;
    }
    launch->fn(table.data(), ints + s.ints, scalars + s.scalars, errors + s.errors, begin, end);
  }

  /// Calls `each` with the segments, and the positions in them, of blocks [begin, end) in the launch's order.
  void blocks(int64_t begin, int64_t end, auto&& each) const {
    const BlockRun* const last = runs + launch->num_runs;
    const BlockRun* r =
        std::upper_bound(runs, last, begin, [](int64_t b, const BlockRun& x) { return b < x.first_block; }) - 1;
    for (; begin < end; ++r) {
      const int64_t until = std::min(r + 1 == last ? launch->blocks : r[1].first_block, end);
      const Segment& s = segments[r->segment];
      const int64_t from = r->first + begin - r->first_block;
      each(s, from * s.grain, std::min((from + until - begin) * s.grain, s.positions));
      begin = until;
    }
  }
};

}  // namespace

/// When a segment ran: it may have on several threads, and beside others.
struct SegmentTimes {
  std::atomic<int64_t> begin{INT64_MAX}, end{0}, busy{0};  ///< busy: of all threads together

  void add(int64_t from, int64_t until) {
    int64_t seen = begin.load(std::memory_order_relaxed);
    while (from < seen && !begin.compare_exchange_weak(seen, from, std::memory_order_relaxed)) {
    }
    seen = end.load(std::memory_order_relaxed);
    while (until > seen && !end.compare_exchange_weak(seen, until, std::memory_order_relaxed)) {
    }
    busy.fetch_add(until - from, std::memory_order_relaxed);
  }
};

void StopBeforeWrites::before(const Launch& launch) {
  may_stop_ = may_stop_ && &launch != first_write_;
  if (may_stop_) check_interrupt_between();
}

RunTables& RunTables::of_thread() {
  static const PerThread<RunTables> tables;
  return *tables;
}

NestedRun::NestedRun() : outer_(std::exchange(RunTables::of_thread(), {})) {
  RunTables::of_thread().depth = outer_.depth + 1;
}
NestedRun::~NestedRun() { RunTables::of_thread() = std::move(outer_); }

void InstanceImpl::fill_bases(const RunArguments& args, char* arena) const {
  RunTables& t = RunTables::of_thread();
  t.bases.assign({arena, reinterpret_cast<char*>(const_cast<uint64_t*>(args.parameters.data())),
                  reinterpret_cast<char*>(const_cast<uint64_t*>(constants_.data())), nullptr});
  for (int i = 0; i < num_leaves_; ++i) t.bases.push_back(static_cast<char*>(args.leaves[i]));
  for (void* out : args.outputs) t.bases.push_back(static_cast<char*>(out));
}

void InstanceImpl::fill_tables(const RunArguments& args) const {
  RunTables& t = RunTables::of_thread();
  t.pointers.resize(pointers_.size());
  for (size_t i = 0; i < pointers_.size(); ++i) t.pointers[i] = t.bases[pointers_[i].base] + pointers_[i].offset;
  t.scalars.resize(scalars_.size());
  for (size_t i = 0; i < scalars_.size(); ++i) {
    t.scalars[i] = scalars_[i] == kComputed ? 0 : args.parameters[static_cast<size_t>(scalars_[i])];
  }
  t.errors.assign(errors_.size(), 0);
}

std::vector<IndexReport> InstanceImpl::run(const RunArguments& args) const {
  RunTables& t = RunTables::of_thread();
  t.begun = 0;
  SpanScope scope(SpanKind::kLaunch, "run plan");
  if (Span* const span = scope.span()) [[unlikely]] {
    span->plan = plan_->id();
    span->device = plan_->program().options.device;
    span->count = static_cast<int64_t>(launches_.size());
  }
  try {
    return plan_->program().options.device == DeviceType::kCUDA ? run_on_cuda(args) : run_on_cpu(args);
  } catch (...) {
    if (args.written) *args.written = written_by(t.begun);
    throw;
  }
}

/// The outputs that the first launches write.
std::vector<bool> InstanceImpl::written_by(size_t launches) const {
  const Program& p = plan_->program();
  std::vector<bool> written(p.outputs.size());
  for (size_t l = 0; l < launches; ++l) {
    for (uint32_t s = 0; s < launches_[l].num_steps; ++s) {
      for (const BufferId b : p.steps[launches_[l].first_step + s].writes) {
        if (p.buffers[b].kind == BufferInfo::kOutput) written[p.buffers[b].number] = true;
      }
    }
  }
  return written;
}

std::vector<IndexReport> InstanceImpl::run_on_cpu(const RunArguments& args) const {
  RunTables& t = RunTables::of_thread();
  const RunMemory arena(DeviceType::kCPU, arena_bytes_, t.depth > 0);
  fill_bases(args, arena.base());
  fill_tables(args);
  std::vector<IndexReport> reports;
  const bool watched = debug_level() >= 2 || profiling();
  StopBeforeWrites stop(first_write_, t.depth);
  for (const Launch& launch : launches_) {
    stop.before(launch);
    // The last launch that checks indices may overwrite a leaf itself: a scatter checks only its own before it writes.
    const bool last = &launch == last_check_ && t.depth == 0;
    if (last && has_errors(reports)) [[unlikely]]
      break;
    if (watched) [[unlikely]] {
      run_watched(launch, reports);
    } else {
      run_launch(launch, reports);
    }
    // From here on leaves are overwritten. A step that is part of another is undone with that one.
    if (last && has_errors(reports)) [[unlikely]]
      break;
  }
  for (size_t i = 0; i < errors_.size(); ++i) {
    if (t.errors[i] != 0) reports.push_back({*errors_[i]});
  }
  return reports;
}

bool InstanceImpl::has_errors(const std::vector<IndexReport>& reports) const {
  const std::vector<uint32_t>& words = RunTables::of_thread().errors;
  return !reports.empty() || std::ranges::any_of(words, [](uint32_t word) { return word != 0; });
}

void InstanceImpl::run_launch(const Launch& launch, std::vector<IndexReport>& reports) const {
  RunTables& t = RunTables::of_thread();
  ++t.begun;
  if (launch.library >= 0) {
    const LibraryStep& step = library_[launch.library];
    const RunningSource running(step.site->source);
    try {
      if (!step.call->run({t.pointers.data() + step.pointers, step.num_pointers})) reports.push_back({*step.site});
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& e) {
      if (!ir::info(ir::find_op(step.site->op)).flags.effect) throw;
      // Running the step op by op says this of others.
      const std::string where = resolve_source(step.site->source);
      e.raise_with(e.what() + ("; recorded by " + step.site->op) + (where.empty() ? "" : " at " + where));
    }
    return;
  }
  run_segments(launch, nullptr);
}

/// `times`: null, or those of each segment.
void InstanceImpl::run_segments(const Launch& launch, SegmentTimes* times) const {
  RunTables& t = RunTables::of_thread();
  const KernelRun run{&launch,
                      segments_.data() + launch.first_segment,
                      block_runs_.data() + launch.first_run,
                      t.pointers.data(),
                      ints_.data(),
                      t.scalars.data(),
                      t.errors.data(),
                      scratch_.data()};
  const auto timed = [&](const Segment& s, int64_t begin, int64_t end) {
    const int64_t start = now_ns();
    run(s, begin, end);
    times[&s - run.segments].add(start, now_ns());
  };
  if (!launch.parallel) {
    for (uint32_t i = 0; i < launch.num_segments; ++i) {
      const Segment& s = run.segments[i];
      times ? timed(s, 0, s.positions) : run(s, 0, s.positions);
    }
  } else if (times) {
    parallel_for(launch.blocks, 1, [&](int64_t begin, int64_t end) { run.blocks(begin, end, timed); });
  } else {
    parallel_for(launch.blocks, 1, [&run](int64_t begin, int64_t end) { run.blocks(begin, end, run); });
  }
}

/// Runs a launch with a span for each of its steps, or tells what it took, or both.
void InstanceImpl::run_watched(const Launch& launch, std::vector<IndexReport>& reports) const {
  const int64_t begin = now_ns();
  if (profiling() && launch.num_segments > 1) {
    run_side_by_side(launch);
  } else {
    run_launch(launch, reports);
  }
  const int64_t end = now_ns();
  if (debug_level() >= 2) tell_time(launch, static_cast<double>(end - begin) / 1e3);
  if (!profiling() || launch.num_segments > 1 || (launch.library < 0 && launch.num_segments == 0)) return;
  Span span = span_of(launch.library >= 0 ? launch.first_step : segments_[launch.first_segment].step);
  span.begin_ns = begin;
  span.end_ns = end;
  add_span(std::move(span));
}

void InstanceImpl::run_side_by_side(const Launch& launch) const {
  ++RunTables::of_thread().begun;
  std::vector<SegmentTimes> times(launch.num_segments);
  const int64_t begin = now_ns();
  run_segments(launch, times.data());
  const int64_t took = now_ns() - begin;
  int64_t busy = 0;
  for (const SegmentTimes& t : times) busy += t.busy;
  for (uint32_t i = 0; i < launch.num_segments; ++i) {
    Span span = span_of(segments_[launch.first_segment + i].step);
    span.begin_ns = std::min<int64_t>(times[i].begin, times[i].end);
    span.end_ns = times[i].end;
    const double share = busy > 0 ? static_cast<double>(times[i].busy) / static_cast<double>(busy) : 0;
    span.own_ns = static_cast<int64_t>(share * static_cast<double>(took));
    add_span(std::move(span));
  }
}

/// The entry of a step in the profile, but for when it ran.
Span InstanceImpl::span_of(uint32_t number) const {
  std::call_once(made_spans_, [&] {
    const Program& program = plan_->program();
    for (const Step& step : program.steps) {
      OpSite site = site_of(program, step);
      Span& span = spans_.emplace_back();
      span.kind = step.kernel ? SpanKind::kKernel : SpanKind::kLibrary;
      span.name = std::move(site.op);
      span.source = site.source;
      span.device = program.options.device;
      span.bytes = bytes_of(step);
      span.plan = plan_->id();
      span.step = static_cast<int32_t>(spans_.size()) - 1;
    }
  });
  Span span = spans_[number];
  if (profiles_shapes()) span.shapes = shapes_of(number);
  if (profiles_flops()) span.flops = flops_of(number);
  return span;
}

double InstanceImpl::flops_of(uint32_t number) const {
  std::call_once(counted_flops_, [&] {
    for (const ReportedStep& s : report().steps) flops_.push_back(s.product_flops + s.other_flops);
  });
  return flops_[number];
}

InstanceImpl::Shapes InstanceImpl::shapes_of(uint32_t number) const {
  std::call_once(told_shapes_, [&] {
    for (const Step& step : plan_->program().steps) {
      std::vector<std::string> shapes;
      for (const BufferId b : step.reads) {
        const BufferInfo& info = plan_->program().buffers[b];
        Dims shape;
        for (const ir::Dim& d : info.shape) shape.push_back(ir::SymTable::value(d, evaluated_));
        shapes.push_back(std::string(name(info.dtype)) + to_string(shape));
      }
      shapes_.push_back(std::make_shared<const std::vector<std::string>>(std::move(shapes)));
    }
  });
  return shapes_[number];
}

/// Says what a launch took: microseconds, megabytes moved, gigabytes a second, steps, and what it is.
void InstanceImpl::tell_time(const Launch& launch, double us) const {
  const Step& step = plan_->program().steps[launch.first_step];
  std::ostringstream out;
  double bytes = 0;
  for (uint32_t i = 0; i < launch.num_steps; ++i) {
    bytes += static_cast<double>(bytes_of(plan_->program().steps[launch.first_step + i]));
  }
  out << std::fixed << std::setprecision(1) << us << " us, " << bytes / 1e6 << " MB, " << bytes / us / 1e3
      << " GB/s, step " << launch.first_step;
  if (launch.num_steps > 1) out << " and " << launch.num_steps - 1 << " like it";
  out << ": ";
  if (step.kernel) {
    out << step.kernel->kernel.name;
  } else {
    out << step.library->site.op << " (" << library_[launch.library].call->describe() << ')';
  }
  if (step.kernel && launch.parallel) out << ", " << launch.blocks << " blocks";
  debug(2, "run", out.str());
}

}  // namespace smolder::jit
