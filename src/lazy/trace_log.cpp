#include "smolder/lazy/trace_log.h"

#include <algorithm>
#include <cstring>

#include "smolder/core/counters.h"
#include "smolder/core/fork.h"

namespace smolder::lazy {
namespace {

/// Changes of step that the order keeps; a program that alternates between two steps makes one a run.
constexpr size_t kMaxOrder = 1 << 16;

ForkMutex g_mutex;
std::vector<TraceLog*> g_logs;  ///< those that are started

int64_t bytes_of(const Trace& t) {
  return static_cast<int64_t>(t.instrs.size() * (sizeof(Instr) + sizeof(Hash128)) +
                              t.operands.size() * sizeof(OperandWord) + t.attrs.size() * sizeof(int64_t) +
                              t.metas.size() * (sizeof(ir::Meta*) + 1));
}

uint64_t key_of(const StepRun& run) {
  Hash128 h = run.trace.prefix.back();
  mix(h, number_of(run.device) << 2 | run.options.fuse << 1 | static_cast<uint64_t>(run.options.simplify));
  for (const uint32_t v : run.produced) mix(h, v);
  return h.lo;
}

bool same_options(const jit::CompileOptions& a, const jit::CompileOptions& b) {
  return a.fuse == b.fuse && a.simplify == b.simplify && a.precision == b.precision;
}

/// A copy of a leaf on the host; null where its device is a user's.
BufferRef copy_of(const Value& leaf, size_t bytes) {
  if (!leaf.buffer || leaf.device.type >= DeviceType::kFirstUser) return nullptr;
  BufferRef copy = allocate(bytes);
  if (leaf.device == DeviceType::kCPU) {
    std::memcpy(copy->data(), leaf.buffer->data(), bytes);
  } else if (bytes) {
    copy_to_host(copy->data(), leaf.buffer->data(), bytes, leaf.device);
  }
  return copy;
}

}  // namespace

std::atomic<int> TraceLog::active_{0};

void TraceLog::start() {
  const std::lock_guard hold(g_mutex);
  if (std::ranges::find(g_logs, this) != g_logs.end()) return;
  g_logs.push_back(this);
  active_.store(static_cast<int>(g_logs.size()), std::memory_order_relaxed);
}

void TraceLog::stop() {
  const std::lock_guard hold(g_mutex);
  std::erase(g_logs, this);
  active_.store(static_cast<int>(g_logs.size()), std::memory_order_relaxed);
}

void TraceLog::clear() {
  const std::lock_guard hold(mutex_);
  contents_ = {};
  runs_ = 0;
  known_.clear();
}

void TraceLog::note(const StepRun& run) {
  const std::lock_guard hold(g_mutex);
  for (TraceLog* const log : g_logs) log->add(run);
}

void TraceLog::add(const StepRun& run) {
  const std::lock_guard hold(mutex_);
  ++runs_;
  const uint64_t key = key_of(run);
  LoggedStep* step = find(run, key);
  if (!step) {
    append(run, key);
    step = find(run, key);
  }
  if (!step) {
    ++contents_.dropped_runs;
    return;
  }
  ++step->runs;
  const auto index = static_cast<uint32_t>(step - contents_.steps.data());
  auto& order = contents_.order;
  if (!order.empty() && order.back().first == index) {
    ++order.back().second;
  } else if (order.size() < kMaxOrder && contents_.unordered_runs == 0) {
    order.emplace_back(index, 1);
  } else {
    ++contents_.unordered_runs;
  }
}

LoggedStep* TraceLog::find(const StepRun& run, uint64_t key) {
  const auto [first, last] = known_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    LoggedStep& s = contents_.steps[it->second];
    const size_t n = run.trace.instrs.size();
    if (s.trace.instrs.size() == n && same_prefix(s.trace, run.trace, n) && s.device == run.device &&
        same_options(s.options, run.options) && std::ranges::equal(s.produced, run.produced)) {
      return &s;
    }
  }
  return nullptr;
}

void TraceLog::append(const StepRun& run, uint64_t key) {
  const int64_t bytes = bytes_of(run.trace) +
                        static_cast<int64_t>(run.produced.size_bytes() + run.parameters.size_bytes()) +
                        static_cast<int64_t>(sizeof(LoggedStep));
  if (contents_.bytes + bytes > options_.max_bytes) return;
  contents_.bytes += bytes;
  LoggedStep step{.trace = Trace(),
                  .produced = {run.produced.begin(), run.produced.end()},
                  .parameters = {run.parameters.begin(), run.parameters.end()},
                  .leaves = std::vector<BufferRef>(run.leaves.size()),
                  .device = run.device,
                  .options = run.options,
                  .reason = std::string(run.reason),
                  .error = run.error,
                  .source = run.source};
  step.trace.assign_prefix(run.trace, run.trace.instrs.size());
  if (options_.leaves) keep_leaves(run, step);
  known_.emplace(key, static_cast<uint32_t>(contents_.steps.size()));
  contents_.steps.push_back(std::move(step));
}

void TraceLog::keep_leaves(const StepRun& run, LoggedStep& step) {
  for (size_t i = 0; i < run.leaves.size(); ++i) {
    const Value& leaf = *run.leaves[i];
    const size_t bytes = static_cast<size_t>(numel(leaf.meta->shape)) * itemsize(leaf.meta->dtype);
    if (contents_.bytes + static_cast<int64_t>(bytes) <= options_.max_bytes) {
      try {
        step.leaves[i] = copy_of(leaf, bytes);
      } catch (const OutOfMemoryError&) {  // the program goes on; the file says what it lacks
      }
    }
    if (step.leaves[i]) {
      contents_.bytes += static_cast<int64_t>(bytes);
    } else {
      ++contents_.dropped_leaves;
    }
  }
}

}  // namespace smolder::lazy
