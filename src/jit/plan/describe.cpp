// A plan as text.
#include <atomic>
#include <sstream>

#include "smolder/jit/device_target.h"
#include "smolder/jit/plan/plan_impl.h"

namespace smolder::jit {

OpSite site_of(const Program& program, const Step& step) {
  if (step.library) return step.library->site;
  const ir::ValueId last = program.groups[step.group].sinks.back();
  return {program.graph.producer(last).origin.source, step.kernel->kernel.name};
}

namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

PlanImpl::PlanImpl(Program program) : id_(next_id()), program_(std::move(program)) {
  lifetimes_ = lifetimes_of(program_, program_.launch_of);
  hosts_ = find_hosts(program_, program_.launch_of);
  for (const Step& s : program_.steps) {
    const DeviceType device = program_.options.device.type;
    if (!s.library || !is_fallback(device, s.library->op)) continue;
    DeviceTarget* const target = DeviceTarget::of(device);
    fallbacks_.push_back({s.library->site, target ? target->missing_for(s.library->op) : std::string()});
  }
}

namespace {

void list_buffers(std::ostream& out, const Program& p, const std::vector<BufferId>& buffers) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferInfo& b = p.buffers[buffers[i]];
    out << (i ? ", " : "");
    if (b.kind == BufferInfo::kLeaf) out << "leaf " << b.number;
    if (b.kind == BufferInfo::kOutput) out << "output " << b.number;
    if (b.kind == BufferInfo::kArena) out << '%' << b.value;
  }
}

}  // namespace

std::string PlanImpl::describe() const {
  const Program& p = program_;
  std::ostringstream out;
  for (size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    out << "step " << s << " launch " << p.launch_of[s] << ": ";
    if (step.kernel) {
      out << "kernel " << step.kernel->code << ' ' << step.kernel->kernel.name;
    } else {
      out << ir::name(step.library->op);
    }
    out << "\n  reads ";
    list_buffers(out, p, step.reads);
    out << "\n  writes ";
    list_buffers(out, p, step.writes);
    out << '\n';
  }
  for (const Refusal& r : p.refusals) {
    out << "not fused: %" << r.value << ' ' << ir::name(p.graph.op(r.value)) << " -> "
        << ir::name(p.graph.nodes[r.reader].op) << ": " << r.why << '\n';
  }
  return out.str();
}

}  // namespace smolder::jit
