#include "smolder/lazy/step_log.h"

#include <mutex>
#include <unordered_set>
#include <utility>

#include "smolder/core/scalar.h"
#include "smolder/lazy/lock.h"

namespace smolder::lazy {
namespace {

std::mutex g_lock;
std::vector<RanStep> g_steps;
std::unordered_set<const jit::Instance*> g_ran;  // which g_steps keep alive
thread_local std::optional<Recompile> t_recompile;

}  // namespace

std::atomic<bool> StepLog::on_ = false, StepLog::keep_ = false;

void StepLog::start(bool keep_leaves) {
  const std::lock_guard hold(g_lock);
  g_steps.clear();
  g_ran.clear();
  t_recompile.reset();
  keep_.store(keep_leaves, std::memory_order_relaxed);
  on_.store(true, std::memory_order_relaxed);
}

std::vector<RanStep> StepLog::stop() {
  const std::lock_guard hold(g_lock);
  on_.store(false, std::memory_order_relaxed);
  return std::exchange(g_steps, {});
}

bool StepLog::is_new(const jit::Instance* instance) {
  const std::lock_guard hold(g_lock);
  return g_ran.insert(instance).second;
}

void StepLog::note(RanStep step) {
  const std::lock_guard hold(g_lock);
  if (is_on()) g_steps.push_back(std::move(step));
}

void StepLog::note_eager(DeviceType device, RanOp op) {
  const std::lock_guard hold(g_lock);
  if (!is_on()) return;
  if (g_steps.empty() || g_steps.back().how != RanStep::kEager || g_steps.back().device != device) {
    RanStep step;
    step.how = RanStep::kEager;
    step.device = device;
    step.reason = "eager op";
    g_steps.push_back(std::move(step));
  }
  RanStep& step = g_steps.back();
  step.source = op.source;
  step.ms += op.ns / 1e6;
  step.ops.push_back(std::move(op));
}

void StepLog::note_recompile(Recompile why) { t_recompile = std::move(why); }
std::optional<Recompile> StepLog::take_recompile() { return std::exchange(t_recompile, {}); }

std::vector<RanOp> ops_of(const Trace& t) {
  std::vector<RanOp> out;
  for (const Instr& e : t.instrs) {
    RanOp op;
    op.op = e.op;
    op.source = e.source;
    for (uint32_t k = 0; k < e.num_outputs; ++k) op.results.push_back(*t.metas[e.first_output + k]);
    out.push_back(std::move(op));
  }
  return out;
}

std::optional<RanStep> as_ran(const Trace& t, DeviceType device) {
  if (t.plans.empty()) return {};
  const PlanEntry& entry = t.plans.back();
  RanStep out;
  out.device = device;
  out.ops = ops_of(t);
  out.plan = entry.plan;
  out.instance = entry.instance;
  for (size_t v = 0; v < t.metas.size(); ++v) {
    if (!t.is_leaf[v]) continue;
    out.leaf_bytes.push_back(numel(t.metas[v]->shape) * static_cast<int64_t>(itemsize(t.metas[v]->dtype)));
    out.leaf_dtypes.push_back(t.metas[v]->dtype);
  }
  for (const OperandWord w : t.operands) {
    if (is_number(w))
      out.parameters.push_back((w & ~kNumberBit) == static_cast<uint32_t>(Category::kFloat)
                                   ? Scalar(1.0).bits()
                                   : Scalar(int64_t{1}).bits());
  }
  return out;
}

}  // namespace smolder::lazy
