// Recording, prediction, plans, in-place writes and failures.
#include "smolder/lazy/tape.h"
#include "plans_guard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "smolder/core/counters.h"
#include "smolder/jit/run/arena.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/trace.h"

namespace smolder {
namespace {

Tensor range(int64_t n, DType dtype = DType::kFloat32) {
  std::vector<float> v(n);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<float>(i);
  const Tensor t = Tensor::from_data(v.data(), {n}, DType::kFloat32);
  return dtype == DType::kFloat32 ? t : t.to(dtype);
}

using Floats = std::vector<float>;

int64_t count(std::string_view name) { return counter(name).value(); }

/// Resets what other tests taught the tape.
class TapeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    mark_step();
    lazy::Tape& tape = lazy::Tape::cpu();
    std::lock_guard hold(tape.mutex());
    tape.forget_traces();
    tape.options() = {};
  }
  void TearDown() override { SetUp(); }
};

TEST_F(TapeTest, RecordsWithoutComputingAndComputesWhenRead) {
  const int64_t syncs = count("syncs");
  const Tensor x = range(5), y = x * 2.0 + x;
  EXPECT_EQ(count("syncs"), syncs);
  EXPECT_EQ(y.shape(), Dims{5});
  EXPECT_EQ(y.to_vector<float>(), (Floats{0, 3, 6, 9, 12}));
  EXPECT_EQ(count("syncs"), syncs + 1);
}

TEST_F(TapeTest, OfManyTracesTheOldestAreForgotten) {
  lazy::Tape::cpu().options().max_traces = 8;
  const Tensor x = range(6);
  const auto step = [&](int ops) {
    Tensor y = x;
    for (int i = 0; i < ops; ++i) y = y + 1.0;
    return y.to_vector<float>()[1];
  };
  for (int ops = 1; ops <= 20; ++ops) EXPECT_EQ(step(ops), 1.0f + static_cast<float>(ops));
  int64_t before = count("traces.recorded");
  for (int ops = 17; ops <= 20; ++ops) EXPECT_EQ(step(ops), 1.0f + static_cast<float>(ops));
  EXPECT_EQ(count("traces.recorded"), before) << "the last were forgotten";
  EXPECT_EQ(step(1), 2.0f);
  EXPECT_EQ(count("traces.recorded"), before + 1) << "the first was kept";
}

TEST_F(TapeTest, AnErrorIsTheThreadsWhoseOpFailed) {
  const Tensor x = range(4), far = full({1}, 7, DType::kInt64);
  Tensor mine = range(3), theirs = range(4);
  theirs.to_vector<float>();
  std::atomic<int> turn = 0;
  std::string heard;
  std::vector<float> after;
  std::thread other([&] {
    theirs.add_(1.0);
    const Tensor lost = index_select(x, 0, far);
    turn = 1;
    while (turn != 2) std::this_thread::yield();
    try {
      (void)(theirs + 1.0);
    } catch (const IndexError& e) {
      heard = e.what();
    }
    after = theirs.to_vector<float>();
    EXPECT_THROW(lost.to_vector<float>(), RuntimeError);
  });
  mine = mine * 1.0;
  while (turn != 1) std::this_thread::yield();
  mine.add_(2.0);
  EXPECT_EQ(mine.to_vector<float>(), (Floats{2, 3, 4}));
  turn = 2;
  other.join();
  EXPECT_NE(heard.find("7"), std::string::npos) << heard;
  EXPECT_EQ(after, (Floats{0, 1, 2, 3})) << "a step that failed changed something";
}

TEST_F(TapeTest, AnErrorOfAThreadThatEndedIsHeardByWhoReadsNext) {
  Tensor x = range(4);
  x.to_vector<float>();
  std::thread([&] { x.add_(index_select(x, 0, full({4}, 7, DType::kInt64))); }).join();
  const Tensor mine = range(3) + 1.0;
  EXPECT_THROW(mine.to_vector<float>(), IndexError);
  EXPECT_EQ(mine.to_vector<float>(), (Floats{1, 2, 3}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 1, 2, 3}));
}

TEST_F(TapeTest, AThreadThatNeedsWhatAnotherLostFailsAsIt) {
  const Tensor x = range(4);
  Tensor lost;
  std::thread([&] { lost = index_select(x, 0, full({1}, 7, DType::kInt64)); }).join();
  const Tensor mine = x + 1.0, needs = lost + 1.0;
  EXPECT_THROW(needs.to_vector<float>(), IndexError);
  EXPECT_THROW(needs.to_vector<float>(), RuntimeError);
}

TEST_F(TapeTest, AShapeErrorIsThrownWhereItIsRecordedAndChangesNothing) {
  const Tensor x = range(4), y = range(3), z = x + 1.0;
  try {
    (void)(z + y);
    FAIL() << "no error";
  } catch (const RuntimeError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("4"), std::string::npos) << text;
    EXPECT_NE(text.find("3"), std::string::npos) << text;
  }
  EXPECT_EQ((z * 2.0).to_vector<float>(), (Floats{2, 4, 6, 8}));
}

float step(Tensor& w, const Tensor& x, double lr) {
  const Tensor g = w * x;
  w.sub_(g * lr);
  const Tensor loss = sum(g);
  mark_step();
  return static_cast<float>(loss.item().to_double());
}

TEST_F(TapeTest, ARepeatedStepIsPredictedWhateverItsNumbers) {
  Tensor w = range(6) + 1.0;
  const Tensor x = range(6);
  mark_step();
  for (int i = 0; i < 3; ++i) step(w, x, 0.1);
  const int64_t hits = count("predictor.hits"), plans = count("plans.instances"), misses = count("predictor.misses");
  for (int i = 0; i < 10; ++i) step(w, x, 0.01 * i);
  EXPECT_EQ(count("predictor.hits"), hits + 10);
  EXPECT_EQ(count("predictor.misses"), misses);
  EXPECT_EQ(count("plans.instances"), plans);
}

TEST_F(TapeTest, AlternatingStepsAreBothPredicted) {
  Tensor w = range(6) + 1.0;
  const Tensor x = range(6);
  mark_step();
  const auto evaluate = [&] {
    const Tensor y = w * x + 3.0;
    mark_step();
    return y;
  };
  for (int i = 0; i < 3; ++i) {
    step(w, x, 0.1);
    evaluate();
  }
  const int64_t traces = count("traces.recorded"), plans = count("plans.instances");
  for (int i = 0; i < 5; ++i) {
    step(w, x, 0.1);
    if (i % 2) evaluate();
  }
  EXPECT_EQ(count("traces.recorded"), traces);
  EXPECT_EQ(count("plans.instances"), plans);
}

TEST_F(TapeTest, PredictedAndOrdinaryRecordingGiveTheSameBits) {
  const auto train = [](bool predict) {
    lazy::Tape::cpu().options().predict = predict;
    Tensor w = range(7) / 3.0;
    const Tensor x = range(7) + 0.1;
    Floats losses;
    for (int i = 0; i < 6; ++i) losses.push_back(step(w, x, 0.05 / (1 + i)));
    return losses;
  };
  EXPECT_EQ(train(true), train(false));
}

TEST_F(TapeTest, AForcedHashCollisionIsNoticed) {
  lazy::Tape& tape = lazy::Tape::cpu();
  tape.options().hash_mask = 0;  // every prefix hashes alike
  const Tensor x = range(3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((x + 1.0).to_vector<float>(), (Floats{1, 2, 3}));
    EXPECT_EQ((x * 2.0).to_vector<float>(), (Floats{0, 2, 4}));
    EXPECT_EQ((x + x * x).to_vector<float>(), (Floats{0, 2, 6}));
    EXPECT_EQ((x - 1.0).to_vector<float>(), (Floats{-1, 0, 1}));
  }
}

TEST_F(TapeTest, WhatLibrariesMayRoundIsInTheKeyOfAPlan) {
  const auto key = [](const Precision& p) { return lazy::plan_structure(lazy::Trace(), {}, {.precision = p}); };
  EXPECT_EQ(key({}), key(Precision{}));
  EXPECT_NE(key({}), key({.float32_matmul = MatmulPrecision::kHigh}));
  EXPECT_NE(key({}), key({.allow_fp16_reduced_precision_reduction = false}));
  EXPECT_NE(key({}), key({.allow_bf16_reduced_precision_reduction = false}));
  EXPECT_NE(key({}), key({.cudnn_allow_tf32 = false}));
  EXPECT_NE(key({}), key({.cudnn_deterministic = true}));
}

TEST_F(TapeTest, LivenessNeverChoosesAWrongPlan) {
  const Tensor x = range(4);
  for (int round = 0; round < 8; ++round) {
    Tensor a = x + 1.0, b = a * 2.0, c = b - x;
    if (round & 1) a = Tensor();
    if (round & 2) b = Tensor();
    mark_step();
    EXPECT_EQ(c.to_vector<float>(), (Floats{2, 3, 4, 5}));
    if (b.defined()) {
      EXPECT_EQ(b.to_vector<float>(), (Floats{2, 4, 6, 8}));
    }
    if (a.defined()) {
      EXPECT_EQ(a.to_vector<float>(), (Floats{1, 2, 3, 4}));
    }
  }
  EXPECT_EQ(count("plans.instances") > 0, true);
}

TEST_F(TapeTest, AnUpdatedTensorKeepsItsMemory) {
  Tensor w = range(1000);
  const void* const before = w.materialize()->data();
  for (int i = 0; i < 4; ++i) {
    w.add_(1.0);
    mark_step();
  }
  EXPECT_EQ(w.materialize()->data(), before);
  EXPECT_EQ(w.to_vector<float>()[10], 14);
}

TEST_F(TapeTest, MemoryThatSomebodyHoldsIsNotOverwritten) {
  Tensor w = range(10);
  const BufferRef held = w.materialize();
  const Tensor alias = w.detach() + 0.0;
  w.add_(1.0);
  mark_step();
  EXPECT_EQ(static_cast<const float*>(held->data())[3], 3);
  EXPECT_EQ(alias.to_vector<float>()[3], 3);
  EXPECT_EQ(w.to_vector<float>()[3], 4);
}

TEST_F(TapeTest, OutputsHeldAcrossReplaysNeverChange) {
  Tensor w = range(5);
  std::vector<Tensor> held;
  for (int i = 0; i < 100; ++i) {
    w.add_(1.0);
    held.push_back(w * 1.0);
    mark_step();
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(held[i].to_vector<float>()[0], i + 1);
}

TEST_F(TapeTest, ViewsSeeWritesToTheirBaseAndWriteThrough) {
  Tensor x = range(6);
  const Tensor m = x.view({2, 3});
  Tensor row = select(m, 0, 1);
  x.add_(1.0);
  EXPECT_EQ(row.to_vector<float>(), (Floats{4, 5, 6}));
  row.mul_(10.0);
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 2, 3, 40, 50, 60}));
  Tensor column = select(transpose(m, 0, 1), 0, 0);
  column.add_(100.0);
  EXPECT_EQ(x.to_vector<float>(), (Floats{101, 2, 3, 140, 50, 60}));
}

TEST_F(TapeTest, ALoopThatNeverSyncsIsCutAndItsPlansRepeat) {
  lazy::Tape& tape = lazy::Tape::cpu();
  tape.options().soft_bound = 50;
  tape.options().hard_bound = 400;
  Tensor w = range(8);
  std::vector<Tensor> losses;
  size_t most = 0;
  int64_t plans = 0;
  for (int i = 0; i < 400; ++i) {
    const Tensor y = w * 0.5;
    const Tensor z = y - 1.0;
    w = w - z * 0.1;
    losses.push_back(sum(z));
    most = std::max(most, tape.size());
    if (i == 200) plans = count("plans.instances");
  }
  EXPECT_LE(most, 60u);
  EXPECT_EQ(count("plans.instances"), plans);
  EXPECT_NEAR(losses[0].item().to_double(), 6.0, 1e-5);
}

TEST_F(TapeTest, AnOpThatHasNoMemoryLeavesWhatWasThereAndWhatWasMadeBeforeIt) {
  Tensor w = range(100), other = range(100);
  (void)w.materialize();
  (void)other.materialize();
  Tensor view = other.slice(0, 10, 20);
  w.add_(1.0);
  const Tensor before = w * 10.0;
  other.add_(1.0);
  const Tensor huge = full({int64_t{1} << 45}, 1.0, DType::kFloat32);
  w.add_(1.0);
  view.zero_();
  const Tensor after = w * 10.0;
  try {
    mark_step();
    FAIL();
  } catch (const OutOfMemoryError& e) {
    EXPECT_NE(std::string(e.what()).find("met in full() -> [35184372088832] float32"), std::string::npos) << e.what();
  }
  EXPECT_EQ(w.to_vector<float>()[7], 7);
  EXPECT_EQ(before.to_vector<float>()[7], 80);
  EXPECT_EQ(other.to_vector<float>()[15], 15);
  EXPECT_EQ(view.to_vector<float>()[5], 15);
  EXPECT_THROW((void)after.to_vector<float>(), RuntimeError);
  EXPECT_THROW((void)huge.materialize(), RuntimeError);
  w.add_(2.0);
  EXPECT_EQ(w.to_vector<float>()[7], 9);
}

TEST_F(TapeTest, AStepWithoutMemoryForItsPlanRunsOpByOp) {
  tests::allow_op_by_op();
  const int64_t before = counter("steps.op_by_op").value();
  Tensor w = range(100);
  (void)w.materialize();
  w.add_(1.0);
  const Tensor y = w * 3.0;
  fail_allocation_after(1);
  mark_step();
  EXPECT_EQ(counter("steps.op_by_op").value(), before + 1);
  EXPECT_EQ(w.to_vector<float>()[7], 8);
  EXPECT_EQ(y.to_vector<float>()[7], 24);
}

/// The ops one by one read what an output would have been written over.
TEST_F(TapeTest, AStepWithoutMemoryForIntermediatesHasWrittenNothingOver) {
  tests::allow_op_by_op();
  const auto step = [](Tensor& w) {
    const Tensor g = matmul(w * 2.0, w.reshape({10, 10}).transpose(0, 1) + 1.0);
    w.sub_(g);
  };
  const auto fresh = [] {
    Tensor w = range(100).reshape({10, 10}) / 50.0;
    (void)w.materialize();
    return w;
  };
  Tensor expected = fresh();
  step(expected);
  mark_step();
  Tensor w = fresh();
  const int64_t op_by_op = counter("steps.op_by_op").value(), donated = counter("memory.donated").value();
  jit::Arena::of(DeviceType::kCPU).release();
  step(w);
  fail_allocation_after(1);
  mark_step();
  EXPECT_EQ(counter("memory.donated").value(), donated + 1);
  EXPECT_EQ(counter("steps.op_by_op").value(), op_by_op + 1);
  EXPECT_EQ(w.to_vector<float>(), expected.to_vector<float>());
}

TEST_F(TapeTest, EagerModeGivesTheSameBits) {
  const Tensor x = range(33) / 7.0;
  const auto f = [&] { return (sum(exp(x) * x, 0) + tanh(x)).to_vector<float>(); };
  const Floats lazily = f();
  const lazy::EagerMode eager;
  EXPECT_EQ(f(), lazily);
}

TEST_F(TapeTest, HandlesMayDieOnOtherThreads) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 200; ++i) tensors.push_back(range(3) + static_cast<double>(i));
  std::thread other([moved = std::move(tensors)]() mutable { moved.clear(); });
  for (int i = 0; i < 200; ++i) EXPECT_EQ((range(2) * 2.0).to_vector<float>()[1], 2);
  other.join();
  mark_step();
}

TEST_F(TapeTest, ThreadsRecordIntoOneTape) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Tensor y = range(4) * static_cast<double>(t) + static_cast<double>(i);
        if (y.to_vector<float>()[3] != 3 * t + i) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(TapeTest, AChildGoesOnWithWhatWasPending) {
  const Tensor y = range(4) + 1.0;
  const pid_t child = fork();
  if (child == 0) _exit(y.to_vector<float>()[3] == 4 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(y.to_vector<float>()[3], 4);
}

}  // namespace
}  // namespace smolder
