// Why a step was compiled, for programs that are all C++: there are no lines of theirs to name.
#include "smolder/lazy/recompile.h"

#include <gtest/gtest.h>

#include <functional>

#include "smolder/core/error.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/tape.h"

namespace smolder::lazy {
namespace {

/// The explanation of the step that `now` records after `before` was known.
Recompile explained(const std::function<Tensor()>& before, const std::function<Tensor()>& now) {
  mark_step();
  Tape::cpu().forget_traces();
  for (int i = 0; i < 2; ++i) {
    const Tensor held = before();
    mark_step();
  }
  forget_recompiles();
  const Tensor held = now();
  mark_step();
  const std::vector<Recompile> all = recompiles();
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? Recompile() : all[0];
}

Tensor ramp(std::initializer_list<int64_t> shape) {
  std::vector<float> values(1024, 0.5f);
  return Tensor::from_data(values.data(), shape, DType::kFloat32);
}

TEST(Recompile, NamesTheFirstDifference) {
  const Tensor x = ramp({8, 4}), y = ramp({2, 8, 4}), w = ramp({8, 4});
  const Recompile shape = explained([&] { return exp(x); }, [&] { return exp(y); });
  EXPECT_EQ(shape.cause, Cause::kShape);
  EXPECT_EQ(shape.reason, "`exp` takes as `self` a tensor float32[2, 8, 4]; took float32[8, 4]");
  EXPECT_TRUE(shape.compiled);
  EXPECT_EQ(shape.where, "");

  const Recompile topology = explained([&] { return exp(x) + 1; }, [&] { return relu(exp(x)) + 1; });
  EXPECT_EQ(topology.cause, Cause::kTopology);
  EXPECT_EQ(topology.reason, "`relu` is recorded here, and was not");

  const Recompile same = explained([&] { return x + w; }, [&] { return x + x; });
  EXPECT_EQ(same.cause, Cause::kTopology);
  EXPECT_NE(same.reason.find("a tensor that the step used before"), std::string::npos) << same.reason;

  const Recompile number = explained([&] { return x * 2; }, [&] { return x * 2.5; });
  EXPECT_EQ(number.cause, Cause::kDType);
}

TEST(Recompile, RaisesOnceTheStepHasRun) {
  const Tensor x = ramp({8, 4});
  explained([&] { return exp(x); }, [&] { return relu(x); });
  set_on_recompile(OnRecompile::kRaise);
  const Tensor y = log(x);
  EXPECT_THROW(mark_step(), RuntimeError);
  set_on_recompile(OnRecompile::kIgnore);
  EXPECT_TRUE(y.impl()->value->buffer);
  const Tensor again = log(x);
  EXPECT_NO_THROW(mark_step());
}

}  // namespace
}  // namespace smolder::lazy
