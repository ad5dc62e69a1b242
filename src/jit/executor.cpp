// Running an instance: addresses are put into a table, then every launch is a call.
#include <algorithm>
#include <chrono>
#include <iomanip>
#include <sstream>

#include "smolder/core/buffer.h"
#include "smolder/core/counters.h"
#include "smolder/core/thread_pool.h"
#include "smolder/jit/arena.h"
#include "smolder/jit/plan_impl.h"

namespace smolder::jit {

namespace {

/// What the threads of one launch share.
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
    thread_local std::vector<void*> table;
    thread_local BufferRef memory;
    const ScratchSlot* slots = scratch + s.first_scratch;
    const ScratchSlot& last = slots[s.num_scratch - 1];
    const auto bytes = static_cast<size_t>(last.offset + last.bytes);
    if (!memory || memory->bytes() < bytes) memory = allocate(bytes);
    table.assign(pointers + s.pointers, pointers + s.pointers + s.num_pointers);
    for (uint32_t i = 0; i < s.num_scratch; ++i) {
      table[slots[i].pointer] = static_cast<char*>(memory->data()) + slots[i].offset;
    }
    launch->fn(table.data(), ints + s.ints, scalars + s.scalars, errors + s.errors, begin, end);
  }

  /// Blocks [begin, end) in the launch's order.
  void blocks(int64_t begin, int64_t end) const {
    const BlockRun* const last = runs + launch->num_runs;
    const BlockRun* r =
        std::upper_bound(runs, last, begin, [](int64_t b, const BlockRun& x) { return b < x.first_block; }) - 1;
    for (; begin < end; ++r) {
      const int64_t until = std::min(r + 1 == last ? launch->blocks : r[1].first_block, end);
      const Segment& s = segments[r->segment];
      const int64_t from = r->first + begin - r->first_block;
      (*this)(s, from* s.grain, std::min((from + until - begin) * s.grain, s.positions));
      begin = until;
    }
  }
};

}  // namespace

RunTables& RunTables::of_thread() {
  thread_local RunTables tables;
  return tables;
}

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

std::vector<OpSite> InstanceImpl::run(const RunArguments& args) const {
  RunTables& t = RunTables::of_thread();
  t.begun = 0;
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

std::vector<OpSite> InstanceImpl::run_on_cpu(const RunArguments& args) const {
  const Arena::Lease arena = Arena::of(DeviceType::kCPU).reserve(arena_bytes_);
  fill_bases(args, arena.base);
  fill_tables(args);
  RunTables& t = RunTables::of_thread();
  std::vector<OpSite> reports;
  const bool timed = debug_level() >= 2;
  for (const Launch& launch : launches_) {
    if (timed) [[unlikely]] {
      run_timed(launch, reports);
    } else {
      run_launch(launch, reports);
    }
  }
  for (size_t i = 0; i < errors_.size(); ++i) {
    if (t.errors[i] != 0) reports.push_back(*errors_[i]);
  }
  return reports;
}

void InstanceImpl::run_launch(const Launch& launch, std::vector<OpSite>& reports) const {
  RunTables& t = RunTables::of_thread();
  ++t.begun;
  if (launch.library >= 0) {
    const LibraryStep& step = library_[launch.library];
    if (!step.call->run({t.pointers.data() + step.pointers, step.num_pointers})) reports.push_back(*step.site);
    return;
  }
  const KernelRun run{&launch,
                      segments_.data() + launch.first_segment,
                      block_runs_.data() + launch.first_run,
                      t.pointers.data(),
                      ints_.data(),
                      t.scalars.data(),
                      t.errors.data(),
                      scratch_.data()};
  if (!launch.parallel) {
    for (uint32_t i = 0; i < launch.num_segments; ++i) run(run.segments[i], 0, run.segments[i].positions);
  } else {
    parallel_for(launch.blocks, 1, [&run](int64_t begin, int64_t end) { run.blocks(begin, end); });
  }
}

void InstanceImpl::run_timed(const Launch& launch, std::vector<OpSite>& reports) const {
  const auto start = std::chrono::steady_clock::now();
  run_launch(launch, reports);
  tell_time(launch, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
}

/// Says what a launch took: microseconds, megabytes moved, gigabytes a second, steps, and what it is.
void InstanceImpl::tell_time(const Launch& launch, double us) const {
  const Step& step = plan_->program().steps[launch.first_step];
  std::ostringstream out;
  const auto bytes = static_cast<double>(launch.bytes);
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
