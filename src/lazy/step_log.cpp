#include "smolder/lazy/step_log.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <unordered_set>
#include <utility>

#include "smolder/core/buffer.h"
#include "smolder/core/fork.h"
#include "smolder/core/per_thread.h"
#include "smolder/core/scalar.h"
#include "smolder/jit/plan/plan_report.h"
#include "smolder/jit/plan/time_plan.h"
#include "smolder/lazy/lock.h"

namespace smolder::lazy {
namespace {

struct Log {
  bool keep_leaves = false;
  std::vector<RanStep> steps;
  std::unordered_set<const jit::Instance*> ran;  // which the steps keep alive
};

ForkMutex g_lock;
std::map<uint64_t, Log> g_logs;
uint64_t g_last = 0;
const PerThread<std::optional<Recompile>> g_recompile;

/// Memory of a leaf that was not kept: small numbers, among them no index out of range.
void fill(void* data, int64_t bytes, DType dtype) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> some(0.25F, 0.75F);
  if (dtype == DType::kFloat32) {
    std::generate_n(static_cast<float*>(data), bytes / 4, [&] { return some(random); });
  } else if (dtype == DType::kFloat64) {
    std::generate_n(static_cast<double*>(data), bytes / 8, [&] { return static_cast<double>(some(random)); });
  } else {
    std::fill_n(static_cast<char*>(data), bytes, 0);
  }
}

}  // namespace

std::atomic<bool> StepLog::on_ = false;

uint64_t StepLog::start(bool keep_leaves) {
  const std::lock_guard hold(g_lock);
  g_recompile->reset();
  g_logs[++g_last].keep_leaves = keep_leaves;
  on_.store(true, std::memory_order_relaxed);
  return g_last;
}

std::vector<RanStep> StepLog::stop(uint64_t log) {
  const std::lock_guard hold(g_lock);
  auto ended = g_logs.extract(log);
  on_.store(!g_logs.empty(), std::memory_order_relaxed);
  return ended ? std::move(ended.mapped().steps) : std::vector<RanStep>();
}

bool StepLog::is_new(const jit::Instance* instance) {
  const std::lock_guard hold(g_lock);
  return std::ranges::any_of(g_logs, [&](const auto& log) { return !log.second.ran.contains(instance); });
}

bool StepLog::keeps_leaves() {
  const std::lock_guard hold(g_lock);
  return std::ranges::any_of(g_logs, [](const auto& log) { return log.second.keep_leaves; });
}

void StepLog::note(const RanStep& step) {
  const std::lock_guard hold(g_lock);
  for (auto& [number, log] : g_logs) {
    log.steps.push_back(step);
    const bool repeats = step.how == RanStep::kPlan && !log.ran.insert(step.instance.get()).second;
    if (repeats) log.steps.back().ops.clear();
    if (repeats || !log.keep_leaves) log.steps.back().leaves.clear();
  }
}

void StepLog::note_eager(Device device, const RanOp& op) {
  const std::lock_guard hold(g_lock);
  for (auto& [number, log] : g_logs) {
    if (log.steps.empty() || log.steps.back().how != RanStep::kEager || log.steps.back().device != device) {
      RanStep step;
      step.how = RanStep::kEager;
      step.device = device;
      step.reason = "eager op";
      log.steps.push_back(std::move(step));
    }
    RanStep& step = log.steps.back();
    step.source = op.source;
    step.ms += op.ns / 1e6;
    step.ops.push_back(op);
  }
}

void StepLog::note_recompile(Recompile why) { *g_recompile = std::move(why); }
std::optional<Recompile> StepLog::take_recompile() { return std::exchange(*g_recompile, {}); }

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

std::vector<std::vector<double>> time_steps(const RanStep& step, size_t rounds) {
  if (step.instance->report().runs_user_code) return {};
  const Device device = step.device;
  std::vector<BufferRef> held;
  std::vector<void*> leaves, outputs;
  const auto room = [&](int64_t bytes) {
    held.push_back(allocate(static_cast<size_t>(std::max<int64_t>(bytes, 1)), device));
    return held.back()->data();
  };
  for (size_t i = 0; i < step.leaf_bytes.size(); ++i) {
    if (i < step.leaves.size()) {
      leaves.push_back(step.leaves[i] ? step.leaves[i]->data() : nullptr);
      continue;
    }
    leaves.push_back(room(step.leaf_bytes[i]));
    if (device.type == DeviceType::kCPU) fill(leaves.back(), step.leaf_bytes[i], step.leaf_dtypes[i]);
  }
  for (const int64_t bytes : step.instance->output_bytes()) outputs.push_back(room(bytes));
  return jit::step_seconds(*step.plan, *step.instance, {leaves, step.parameters, outputs}, rounds);
}

}  // namespace smolder::lazy
