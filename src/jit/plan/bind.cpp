// Binding a plan to sizes: one pass over its expressions, then over its steps.
#include <algorithm>
#include <cmath>

#include "smolder/core/buffer.h"
#include "smolder/core/counters.h"
#include "smolder/core/size.h"
#include "smolder/core/thread_pool.h"
#include "smolder/jit/emit.h"
#include "smolder/jit/fuse/recompute.h"
#include "smolder/jit/kernel_queue.h"
#include "smolder/jit/plan/plan_impl.h"
#include "smolder/jit/schedule/checks.h"

namespace smolder::jit {

namespace {

/// Work below which a launch stays on one thread, and what a thread takes at least, in nanoseconds.
constexpr double kSerialWork = 20000, kRangeWork = 10000;
/// Elements that ranges of flat kernels are multiples of: a cache line of the smallest dtype and no
/// vector's remainder but the last.
constexpr int64_t kFlatGranule = 256;

int64_t aligned(int64_t bytes) {
  constexpr auto kStep = static_cast<int64_t>(kAlignment);
  return (Size(ceil_div(bytes, kStep)) * kStep).value();
}

int64_t grain_of(const KernelCall& call, int64_t positions, int64_t elements) {
  const double work = static_cast<double>(elements) * call.element_cost;
  if (work <= kSerialWork || positions <= 1) return positions;
  const double share = kRangeWork / work * static_cast<double>(positions);
  int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(share)));
  if (call.kernel.root.kind == StmtKind::kParallelVector)
    grain = (grain + kFlatGranule - 1) / kFlatGranule * kFlatGranule;
  return std::min(grain, positions);
}

}  // namespace

std::shared_ptr<const Instance> PlanImpl::bind(std::span<const int64_t> symbols) const {
  SMOLDER_CHECK(static_cast<int>(symbols.size()) == program_.graph.sym.num_symbols(), ValueError, "plan has ",
                program_.graph.sym.num_symbols(), " symbols, got ", symbols.size(), " values");
  std::vector<int64_t> evaluated;
  ir::SymTable::evaluate(program_.graph.sym.exprs(), symbols, evaluated);
  for (const ir::Guard& g : program_.graph.sym.guards()) {
    if (!ir::SymTable::holds(g, evaluated)) return nullptr;
  }
  static Counter& instances = counter("plans.instances");
  instances.add();
  return std::make_shared<InstanceImpl>(std::static_pointer_cast<const PlanImpl>(shared_from_this()),
                                        std::move(evaluated));
}

std::string PlanImpl::failed_guard(std::span<const int64_t> symbols) const {
  const ir::SymTable& sym = program_.graph.sym;
  std::vector<int64_t> evaluated;
  ir::SymTable::evaluate(sym.exprs(), symbols, evaluated);
  for (const ir::Guard& g : sym.guards()) {
    if (!ir::SymTable::holds(g, evaluated)) return sym.to_string(g);
  }
  return {};
}

InstanceImpl::InstanceImpl(std::shared_ptr<const PlanImpl> plan, std::vector<int64_t> at)
    : plan_(std::move(plan)), evaluated_(std::move(at)), waits_(stand_ins() == StandIns::kNone) {
  const std::span<const int64_t> evaluated(evaluated_);
  const Program& p = plan_->program();
  const auto size = [&](ir::Dim d) { return ir::SymTable::value(d, evaluated); };
  for (const OutputInfo& o : p.outputs) {
    Dims shape;
    for (const ir::Dim& d : o.shape) shape.push_back(size(d));
    output_bytes_.push_back(storage_bytes(shape, o.dtype));
  }
  for (const BufferInfo& b : p.buffers) {
    if (b.kind == BufferInfo::kLeaf) num_leaves_ = std::max(num_leaves_, b.number + 1);
  }
  const Placement placement = plan_->place_at(evaluated);
  arena_bytes_ = placement.bytes;
  placed_.resize(p.buffers.size());
  for (size_t i = 0; i < placement.offsets.size(); ++i) {
    PointerSlot& slot = placed_[plan_->lifetimes()[i].buffer];
    if (placement.hosts[i] >= 0) slot = pointer(placement.hosts[i]);
    slot.offset = placement.offsets[i];
  }
  size_t early = 0;
  for (size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    for (; early < p.early_checks.size() && p.early_checks[early].after < p.launch_of[s]; ++early) {
      bind_early_check(p.early_checks[early], evaluated);
    }
    const bool joins = s > 0 && p.launch_of[s] == p.launch_of[s - 1] && !launches_.empty();
    if (!joins) {
      launches_.push_back(
          {.first_segment = static_cast<uint32_t>(segments_.size()), .first_step = static_cast<uint32_t>(s)});
    }
    launches_.back().num_steps += 1;
    if (step.kernel) {
      bind_kernel(step, evaluated);
    } else {
      bind_library(step, evaluated);
    }
  }
  for (const Launch& launch : launches_) {
    if (p.launch_of[launch.first_step] <= p.last_check) last_check_ = &launch;
  }
  find_first_write();
  if (!p.missing.empty() && waits_) {  // who waits for kernels waits for what is best of calls beside them
    for (const LibraryStep& step : library_) step.call->settle();
  }
  plan_->compile_missing(work_of_stand_ins());
  for (Launch& launch : launches_) {
    if (launch.library >= 0) continue;
    const CompiledKernel& kernel = p.kernels[p.steps[launch.first_step].kernel->code];
    launch.fn = kernel.fn;
    launch.device = kernel.device.get();
    if (launch.device && launch.device->num_computed() > 0) {
      append_computed(launch, p.steps[launch.first_step].kernel->scalars.size());
    }
    if (launch.parallel) share_blocks(launch);
  }
}

void InstanceImpl::find_first_write() {
  const Program& p = plan_->program();
  std::vector<bool> given(p.buffers.size());
  for (const Donation& d : p.donations) given[p.output_buffers[d.output]] = true;
  const auto writes = [&](const Launch& launch) {
    for (uint32_t s = launch.first_step; s < launch.first_step + launch.num_steps; ++s) {
      if (std::ranges::any_of(p.steps[s].writes, [&](BufferId b) { return given[b]; })) return true;
    }
    return false;
  };
  const auto first = std::ranges::find_if(launches_, writes);
  first_write_ = first == launches_.end() ? nullptr : &*first;
}

/// Moves the scalars of a launch's segments to where there is room behind them for those computed of them.
void InstanceImpl::append_computed(const Launch& launch, size_t scalars) {
  for (uint32_t i = 0; i < launch.num_segments; ++i) {
    Segment& segment = segments_[launch.first_segment + i];
    const auto place = static_cast<uint32_t>(scalars_.size());
    for (size_t k = 0; k < scalars; ++k) scalars_.push_back(scalars_[segment.scalars + k]);
    scalars_.insert(scalars_.end(), launch.device->num_computed(), kComputed);
    segment.scalars = place;
    computed_.push_back({launch.device, place, static_cast<uint32_t>(scalars)});
  }
}

/// Orders the blocks of a launch so that each thread, which takes a stretch of them, gets its part of every segment.
/// Products that read a parameter and write its gradient are cut likewise: both are in the thread's cache.
void InstanceImpl::share_blocks(Launch& launch) {
  const Segment* const segments = segments_.data() + launch.first_segment;
  const int64_t threads = num_threads();
  std::vector<int64_t> taken(launch.num_segments, 0);
  launch.first_run = static_cast<uint32_t>(block_runs_.size());
  int64_t block = 0;
  for (int64_t t = 1; t <= threads; ++t) {
    int64_t passed = 0, shared = 0;  // blocks of the segments so far, and of them those of the threads so far
    for (uint32_t s = 0; s < launch.num_segments; ++s) {
      const int64_t count = segments[s].blocks();
      passed += count;
      const int64_t until = std::clamp(passed * t / threads - shared, taken[s], count);
      shared += until;
      if (until == taken[s]) continue;
      const bool goes_on = block > 0 && block_runs_.back().segment == s;
      if (!goes_on) block_runs_.push_back({s, block, taken[s]});
      block += until - taken[s];
      taken[s] = until;
    }
  }
  launch.num_runs = static_cast<uint32_t>(block_runs_.size()) - launch.first_run;
}

Placement PlanImpl::place_at(std::span<const int64_t> evaluated) const {
  Placement alone = place(lifetimes_, evaluated);
  // The gradients of a program that keeps them are memory that is not written for most of a step.
  if (program_.options.device == DeviceType::kCPU || alone.bytes < scarce_bytes()) return alone;
  return place(lifetimes_, evaluated, hosts_);
}

void PlanImpl::compile_missing(std::span<const double> work) const {
  const std::lock_guard hold(compiling_);
  jit::compile_missing(program_, take_unready(program_.options.device.type), work);
}

/// How long the stand-in of each kernel would take in a run; how slow it is, the first call of the kernel says.
std::vector<double> InstanceImpl::work_of_stand_ins() const {
  const Program& p = plan_->program();
  std::vector<double> work(p.kernels.size(), 0.0), slowness(p.kernels.size(), 0.0);
  const Device device = p.options.device;
  if (device.type == DeviceType::kCPU || plan_->missing() == 0) return work;
  Backend& target = backend(device);
  for (const Launch& launch : launches_) {
    if (launch.library >= 0 || launch.num_segments == 0) continue;
    const KernelCall& call = *p.steps[launch.first_step].kernel;
    const Segment& s = segments_[launch.first_segment];
    double& slow = slowness[call.code];
    if (slow == 0)
      slow = target.slowness(call.kernel, {ints_.data() + s.ints, call.ints.size()}, s.positions, device.index);
    work[call.code] += launch.work * slow;
  }
  return work;
}

size_t PlanImpl::missing() const {
  const std::lock_guard hold(compiling_);
  return program_.missing.size();
}

int64_t InstanceImpl::bytes_of(const Step& step) const {
  int64_t bytes = 0;
  for (const TouchedBuffer& t : touched_buffers(plan_->program(), step, evaluated_)) bytes += t.bytes;
  return bytes;
}

PointerSlot InstanceImpl::pointer(BufferId b) const {
  const BufferInfo& info = plan_->program().buffers[b];
  switch (info.kind) {
    case BufferInfo::kLeaf:
      return {PointerSlot::kFirstLeaf + static_cast<uint32_t>(info.number), 0};
    case BufferInfo::kOutput:
      return {PointerSlot::kFirstLeaf + static_cast<uint32_t>(num_leaves_ + info.number), 0};
    case BufferInfo::kArena:
      break;
  }
  return placed_[b];
}

void InstanceImpl::add_touch(BufferId b, bool written, std::span<const int64_t> evaluated) {
  const auto size = [&](ir::Dim d) { return ir::SymTable::value(d, evaluated); };
  const BufferInfo& info = plan_->program().buffers[b];
  int64_t low = size(info.offset), high = low;
  for (int i = 0; i < info.shape.size(); ++i) {
    const int64_t reach = (size(info.shape[i]) - 1) * size(info.strides[i]);
    (reach < 0 ? low : high) += reach;
  }
  if (size(info.elements) == 0) return;
  const auto item = static_cast<int64_t>(itemsize(info.dtype));
  PointerSlot from = pointer(b);
  from.offset += low * item;
  touches_.push_back({from, (high - low + 1) * item, written});
}

/// Notes what a step on a device touches: the bytes from the first to the last element of each buffer.
void InstanceImpl::add_unit(const Step& step, std::span<const int64_t> evaluated) {
  const Program& p = plan_->program();
  if (p.options.device == DeviceType::kCPU) return;
  const auto launch = static_cast<uint32_t>(launches_.size()) - 1;
  const bool joins = launches_[launch].together && !units_.empty() && units_.back().launch == launch;
  if (!joins) {
    const auto last = static_cast<uint32_t>(segments_.size()) - (step.kernel ? 1 : 0);
    units_.push_back({launch, last, 0, static_cast<uint32_t>(touches_.size())});
  }
  WorkUnit& unit = units_.back();
  if (step.kernel) ++unit.num_segments;
  for (const BufferId b : step.reads) add_touch(b, false, evaluated);
  for (const BufferId b : step.writes) add_touch(b, true, evaluated);
  unit.num_touches = static_cast<uint32_t>(touches_.size()) - unit.first_touch;
}

void InstanceImpl::bind_kernel(const Step& step, std::span<const int64_t> evaluated) {
  const KernelCall& call = *step.kernel;
  const auto size = [&](ir::Dim d) { return ir::SymTable::value(d, evaluated); };
  Segment segment{.pointers = static_cast<uint32_t>(pointers_.size()),
                  .ints = static_cast<uint32_t>(ints_.size()),
                  .scalars = static_cast<uint32_t>(scalars_.size()),
                  .errors = static_cast<uint32_t>(errors_.size()),
                  .num_errors = static_cast<uint32_t>(call.errors.size()),
                  .positions = size(call.positions)};
  segment.grain = grain_of(call, segment.positions, size(call.elements));
  segment.num_pointers = static_cast<uint32_t>(call.buffers.size());
  segment.first_scratch = static_cast<uint32_t>(scratch_.size());
  segment.num_scratch = static_cast<uint32_t>(call.scratch.size());
  segment.step = launches_.back().first_step + launches_.back().num_steps - 1;
  int64_t offset = 0;
  for (const KernelCall::Scratch& x : call.scratch) {
    const int64_t bytes = aligned((Size(size(x.elements)) * x.itemsize).value());
    scratch_.push_back({static_cast<uint32_t>(x.argument), offset, bytes});
    offset = (Size(offset) + bytes).value();
  }
  for (const BufferId b : call.buffers) {
    pointers_.push_back(b < 0 ? PointerSlot{PointerSlot::kNull, 0} : pointer(b));
  }
  for (const ir::Dim& d : call.ints) ints_.push_back(size(d));
  for (const ScalarSource& s : call.scalars) scalars_.push_back(s.parameter);
  for (const OpSite& e : call.errors) errors_.push_back(&e);
  if (segment.positions == 0) return;
  Launch& launch = launches_.back();
  launch.blocks += segment.blocks();
  launch.num_segments += 1;
  const double work = static_cast<double>(size(call.elements)) * call.element_cost;
  launch.work += work;
  launch.parallel = launch.work > kSerialWork && launch.blocks > 1;
  launch.together = call.kernel.together;
  launch.guarded = call.kernel.guarded;
  segments_.push_back(segment);
  add_unit(step, evaluated);
}

LibraryView InstanceImpl::view_of(const LibraryCall::Operand& x, std::span<const int64_t> evaluated) const {
  LibraryView view;
  view.dtype = x.dtype;
  view.weak = x.kind == LibraryCall::Operand::kParameter || x.kind == LibraryCall::Operand::kNumber;
  for (const ir::Dim& d : x.shape) view.shape.push_back(ir::SymTable::value(d, evaluated));
  for (const ir::Dim& d : x.strides) view.strides.push_back(ir::SymTable::value(d, evaluated));
  return view;
}

/// A launch of its own that looks at a scatter's index.
void InstanceImpl::bind_early_check(const Program::EarlyCheck& check, std::span<const int64_t> evaluated) {
  const Program& p = plan_->program();
  const LibraryCall& call = *p.steps[check.step].library;
  const LibraryCall::Operand& index = call.inputs[1];
  LibraryStep bound;
  bound.site = &call.site;
  bound.pointers = static_cast<uint32_t>(pointers_.size());
  bound.num_pointers = 1;
  bound.call =
      bind_index_check(p.options.device, view_of(index, evaluated), ir::SymTable::value(axis_extent(call), evaluated));
  bound.error = static_cast<int>(errors_.size());
  errors_.push_back(&call.site);
  PointerSlot slot = pointer(index.buffer);
  slot.offset += ir::SymTable::value(index.offset, evaluated) * static_cast<int64_t>(itemsize(index.dtype));
  pointers_.push_back(slot);
  launches_.push_back({.first_segment = static_cast<uint32_t>(segments_.size()),
                       .library = static_cast<int>(library_.size()),
                       .first_step = static_cast<uint32_t>(check.step)});
  units_.push_back({.launch = static_cast<uint32_t>(launches_.size()) - 1,
                    .first_segment = static_cast<uint32_t>(segments_.size()),
                    .first_touch = static_cast<uint32_t>(touches_.size())});
  add_touch(index.buffer, false, evaluated);
  units_.back().num_touches = static_cast<uint32_t>(touches_.size()) - units_.back().first_touch;
  library_.push_back(std::move(bound));
}

void InstanceImpl::bind_library(const Step& step, std::span<const int64_t> evaluated) {
  const LibraryCall& call = *step.library;
  const auto size = [&](ir::Dim d) { return ir::SymTable::value(d, evaluated); };
  LibraryStep bound;
  bound.site = &call.site;
  bound.pointers = static_cast<uint32_t>(pointers_.size());
  std::vector<LibraryView> views[2];
  for (int side = 0; side < 2; ++side) {
    for (const LibraryCall::Operand& x : side == 0 ? call.inputs : call.outputs) {
      views[side].push_back(view_of(x, evaluated));
      switch (x.kind) {
        case LibraryCall::Operand::kAbsent:
          pointers_.push_back({PointerSlot::kNull, 0});
          break;
        case LibraryCall::Operand::kParameter:
          number_slots_.push_back(static_cast<uint32_t>(pointers_.size()));
          pointers_.push_back({PointerSlot::kParameters, x.parameter * static_cast<int64_t>(sizeof(uint64_t))});
          break;
        case LibraryCall::Operand::kNumber:
          pointers_.push_back({PointerSlot::kConstants, static_cast<int64_t>(constants_.size() * sizeof(uint64_t))});
          constants_.push_back(x.is_extent ? static_cast<uint64_t>(size(x.offset)) : x.number.bits());
          break;
        case LibraryCall::Operand::kBuffer: {
          PointerSlot slot = pointer(x.buffer);
          slot.offset += size(x.offset) * static_cast<int64_t>(itemsize(x.dtype));
          pointers_.push_back(slot);
          break;
        }
      }
    }
  }
  bound.num_pointers = static_cast<uint32_t>(pointers_.size()) - bound.pointers;
  std::vector<int64_t> attrs;
  for (const ir::Dim& d : call.attrs) attrs.push_back(size(d));
  bound.call = jit::bind_library(plan_->program().options.device, call.op, std::move(views[0]), std::move(views[1]),
                                 std::move(attrs), step.guarded);
  bound.guarded = launches_.back().guarded = step.guarded;
  if (bound.call->has_error_slot() && !step.is_looked_at) {
    bound.error = static_cast<int>(errors_.size());
    errors_.push_back(&call.site);
  }
  launches_.back().library = static_cast<int>(library_.size());
  library_.push_back(std::move(bound));
  add_unit(step, evaluated);
}

}  // namespace smolder::jit
