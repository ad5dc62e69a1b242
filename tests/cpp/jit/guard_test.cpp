// On a device, what overwrites leaves in a step that looks at indices comes after all that looks, and is guarded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "jit/plan_test_util.h"
#include "smolder/jit/compile.h"

namespace smolder::jit {
namespace {

using ir::Value;
using testing::HasSubstr;
using testing::Not;

std::string steps_of(const PlanTest& t, Device device = {DeviceType::kCUDA, 0}) {
  return text_after(t.g, {.device = device}, "schedule");
}

TEST(Guard, NothingWhereNoIndexIsLookedAt) {
  PlanTest t;
  const ir::SymDims shape{t.size(6), 8};
  const Value p = t.input(shape), g = t.input(shape);
  t.output(p - g * 0.5);
  EXPECT_THAT(steps_of(t), Not(HasSubstr("guarded")));
}

TEST(Guard, UpdatesWaitForWhatLooks) {
  PlanTest t;
  const Value p = t.input({t.size(7), 8});
  t.output(p * 0.5);  // first in the program, and independent
  const Value table = t.input({t.size(11), 8}), index = t.input({t.size(5)}, DType::kInt64, 0, 11);
  t.output(t.b.take(table, index, 0));
  EXPECT_THAT(steps_of(t), Not(HasSubstr("guarded"))) << "it comes before what looks";

  PlanTest u;
  const Value rows = u.b.take(u.input({u.size(11), 8}), u.input({u.size(5)}, DType::kInt64, 0, 11), 0);
  u.output(rows);
  u.output(u.input({u.size(7), 8}) * 0.5);
  EXPECT_THAT(steps_of(u), testing::ContainsRegex("step 1 launch 1: [a-z]+, guarded"));
  EXPECT_THAT(steps_of(u, {}), Not(HasSubstr("guarded"))) << "the CPU looks before it goes on";
}

TEST(Guard, ScattersAtOneIndexAreLookedAtOnce) {
  PlanTest t;
  const Value index = t.input({t.size(1)}, DType::kInt64, 0, 9);
  for (int i = 0; i < 3; ++i) {
    t.output(t.b.index_set(t.input({t.size(9), 8}), index, t.input({t.size(1), 8}), 0));
  }
  const std::string steps = steps_of(t);
  EXPECT_THAT(steps, HasSubstr("the index of step 0 is looked at after launch -1\n"));
  EXPECT_THAT(steps, Not(HasSubstr("the index of step 1")));
  for (int s = 0; s < 3; ++s) {
    const std::string at = std::to_string(s);
    EXPECT_THAT(steps, HasSubstr("step " + at + " launch " + at + ": index_set, guarded"));
  }
}

TEST(Guard, AnIndexThatIsWrittenOverIsLookedAtAnew) {
  PlanTest t;
  Value index = t.input({t.size(4)}, DType::kInt64, 0, 9);
  const Value one = t.input({t.size(1)}, DType::kInt64, 0, 9);
  for (const int at : {0, 1}) {
    index = t.b.slice_write(index, one, {at}, {1});
    t.output(t.b.index_set(t.input({t.size(9), 8}), index, t.input({t.size(4), 8}), 0));
  }
  t.output(index);
  const std::string steps = steps_of(t);
  EXPECT_THAT(steps, HasSubstr("step 3 launch 3: index_set, guarded\n"));
  EXPECT_THAT(steps, HasSubstr("the index of step 3 is looked at after launch 2\n"));
}

TEST(Guard, CanBeLeftOut) {
  PlanTest t;
  t.output(
      t.b.index_set(t.input({t.size(9), 8}), t.input({t.size(1)}, DType::kInt64, 0, 9), t.input({t.size(1), 8}), 0));
  EXPECT_THAT(steps_of(t), HasSubstr("guarded"));
  setenv("SMOLDER_DISABLE", "guard", 1);
  const std::string without = steps_of(t);
  unsetenv("SMOLDER_DISABLE");
  EXPECT_THAT(without, Not(HasSubstr("guarded")));
  EXPECT_THAT(without, Not(HasSubstr("looked at")));
}

}  // namespace
}  // namespace smolder::jit
