#include "plans_guard.h"

#include <gtest/gtest.h>

#include "smolder/core/counters.h"
#include "smolder/lazy/plan_queue.h"

namespace smolder::tests {
namespace {

bool g_allowed = false;

class PlansGuard : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override {
    lazy::set_compiling(lazy::Compiling::kWait);
    g_allowed = false;
    before_ = steps_op_by_op();
  }
  void OnTestEnd(const testing::TestInfo&) override {
    if (g_allowed) return;
    EXPECT_LE(steps_op_by_op(), before_) << "a step could not run as a plan:\n" << metrics_report();
  }
  static int64_t steps_op_by_op() {
    for (const auto& [name, value] : metrics().counters) {
      if (name == "steps.op_by_op") return static_cast<int64_t>(value);
    }
    return 0;
  }
  int64_t before_ = 0;
};

[[maybe_unused]] const bool g_installed = [] {
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  // Ahead of the printer, so that a failure found when the test ends is the test's.
  auto* const printer = listeners.Release(listeners.default_result_printer());
  listeners.Append(new PlansGuard);
  listeners.Append(printer);
  return true;
}();

}  // namespace

void allow_op_by_op() { g_allowed = true; }

}  // namespace smolder::tests
