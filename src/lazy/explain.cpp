#include "smolder/lazy/explain.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <sstream>

#include "smolder/jit/plan/plan_report.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/tape.h"

namespace smolder {
namespace {

using lazy::RanStep;
using lazy::StepLog;

constexpr size_t kRounds = 7;

std::string at(SourceToken source) {
  const std::string where = resolve_source(source);
  return where.empty() ? "" : " at " + where;
}

std::string median_us(std::vector<double> seconds) {
  if (seconds.empty()) return "-";
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2));
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << seconds[seconds.size() / 2] * 1e6 << " us";
  return out.str();
}

void tell_kernels(std::ostream& out, const jit::PlanReport& r, const std::vector<std::vector<double>>& times) {
  static constexpr const char* kKinds[] = {"kernel", "library", "fallback", "interpreted", "quick"};
  for (size_t i = 0; i < r.steps.size(); ++i) {
    const jit::ReportedStep& s = r.steps[i];
    out << "  " << std::setw(3) << i << "  " << std::left << std::setw(8) << kKinds[s.kind] << std::right
        << std::setw(12) << (i < times.size() ? median_us(times[i]) : "-") << std::setw(12) << s.bytes << " bytes  ";
    for (const jit::ReportedOp& op : s.ops) out << ' ' << op.name;
    out << at(s.source) << '\n';
  }
  for (const jit::ReportedRefusal& x : r.refusals) {
    out << "  not fused: " << x.from << ' ' << x.op << " -> " << x.to << ' ' << x.reader << ": " << x.why << '\n';
  }
}

std::string text_of(const std::vector<RanStep>& steps) {
  std::ostringstream out;
  std::map<const jit::Instance*, std::pair<size_t, std::vector<std::vector<double>>>> known;  // ops, and times
  for (size_t i = 0; i < steps.size(); ++i) {
    const RanStep& step = steps[i];
    const bool is_plan = step.how == RanStep::kPlan;
    if (is_plan && !known.contains(step.instance.get())) {
      known[step.instance.get()] = {step.ops.size(), lazy::time_steps(step, kRounds)};
    }
    const size_t ops = is_plan ? known[step.instance.get()].first : step.ops.size();
    out << "graph " << i << " on " << to_string(step.device) << ": " << ops << (ops == 1 ? " op" : " ops");
    if (!step.reason.empty()) out << ", ended by " << step.reason << at(step.source);
    out << '\n';
    if (step.recompile && step.recompile->compiled) {
      out << "  compiled: " << name(step.recompile->cause) << ": " << step.recompile->reason << '\n';
    }
    if (is_plan) {
      tell_kernels(out, step.instance->report(), known[step.instance.get()].second);
    } else {
      out << "  ran op by op" << (step.note.empty() ? "" : ": " + step.note) << '\n';
    }
  }
  return out.str();
}

/// A log for a scope.
class Log {
 public:
  Log() : number_(StepLog::start(true)) {}
  ~Log() { stop(); }
  Log(const Log&) = delete;
  std::vector<RanStep> stop() { return StepLog::stop(number_); }

 private:
  uint64_t number_;
};

}  // namespace

std::string explain(const std::function<void()>& f) {
  mark_step();
  Log log;
  f();
  mark_step();
  return text_of(log.stop());
}

std::optional<lazy::RanStep> lazy::last_step(Device device) {
  Tape& tape = Tape::on(device);
  const std::lock_guard hold(tape.mutex());
  if (!tape.last_trace() || tape.last_trace()->plans.empty()) return {};
  const Trace& t = *tape.last_trace();
  const PlanEntry& entry = t.plans.back();
  RanStep out;
  out.device = tape.device();
  out.reason = tape.last_end().reason;
  out.source = tape.last_end().source;
  out.ops = ops_of(t);
  out.plan = entry.plan;
  out.instance = entry.instance;
  for (size_t v = 0; v < t.metas.size(); ++v) {
    if (!t.is_leaf[v]) continue;
    out.leaf_bytes.push_back(numel(t.metas[v]->shape) * static_cast<int64_t>(itemsize(t.metas[v]->dtype)));
    out.leaf_dtypes.push_back(t.metas[v]->dtype);
  }
  for (const OperandWord w : t.operands) {
    if (!is_number(w)) continue;
    const bool is_float = (w & ~kNumberBit) == static_cast<uint32_t>(Category::kFloat);
    out.parameters.push_back(is_float ? Scalar(1.0).bits() : Scalar(int64_t{1}).bits());
  }
  return out;
}

std::string explain_last_step(Device device) {
  const std::optional<RanStep> step = lazy::last_step(device);
  return step ? text_of({*step}) : "";
}

}  // namespace smolder
