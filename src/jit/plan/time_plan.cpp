#include "smolder/jit/plan/time_plan.h"

#include "smolder/core/profile.h"

namespace smolder::jit {

std::vector<std::vector<double>> step_seconds(const Plan& plan, const Instance& instance, const RunArguments& args,
                                              size_t rounds) {
  std::vector<std::vector<double>> out;
  for (size_t i = 0; i <= rounds; ++i) {
    ProfileSession session;
    (void)instance.run(args);
    const ProfileLog log = session.stop();
    if (i == 0) continue;
    for (const Span& span : log.spans) {
      const bool ours = span.plan == plan.id() && span.step >= 0 && span.kind != SpanKind::kLaunch;
      if (!ours) continue;
      const auto number = static_cast<size_t>(span.step);
      if (out.size() <= number) out.resize(number + 1);
      if (out[number].size() < i) out[number].resize(i);
      out[number][i - 1] += static_cast<double>(span.own_ns.value_or(span.end_ns - span.begin_ns)) / 1e9;
    }
  }
  return out;
}

}  // namespace smolder::jit
