// Plans that are compiled behind the program: steps run op by op until they are there, and nothing else changes.
#include "smolder/lazy/plan_queue.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "plans_guard.h"
#include "smolder/core/background.h"
#include "smolder/core/buffer.h"
#include "smolder/core/counters.h"
#include "smolder/core/interrupt.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/jit/cache/kernel_cache.h"
#include "smolder/jit/compile.h"
#include "smolder/jit/emit.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/recompile.h"
#include "smolder/lazy/step_log.h"
#include "smolder/lazy/tape.h"

namespace smolder {
namespace {

using Floats = std::vector<float>;
using lazy::Compiling;
using lazy::PlanJob;
using lazy::PlanQueue;

int64_t count(std::string_view name) { return counter(name).value(); }
int64_t runs_before_plans() { return count("steps.op_by_op_while_compiling"); }
Tensor range(int64_t n) { return arange(0.0, static_cast<double>(n)).to(DType::kFloat32); }
Floats read(const Tensor& t) { return t.to_vector<float>(); }

/// A code generator that waits for permission, says whose kernels it compiled, and fails where it is told to.
class HeldBackend final : public jit::Backend {
 public:
  std::string target() const override { return real_.target() + " held"; }
  std::vector<jit::ObjectCode> compile(std::span<const jit::Kernel* const> kernels) override {
    std::unique_lock lock(mutex_);
    for (const jit::Kernel* k : kernels) compiled_.push_back(jit::print(*k));
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    lock.unlock();
    if (fails) throw RuntimeError("no code for this test");
    return real_.compile(kernels);
  }
  jit::CompiledKernel load(const std::string& object) override { return real_.load(object); }

  void set_open(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  void wait_for(size_t kernels) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return compiled_.size() >= kernels; });
  }
  /// The place of the first kernel that has `text`; as many as there are where none has.
  size_t place_of(std::string_view text) {
    const std::lock_guard lock(mutex_);
    const auto has = [&](const std::string& kernel) { return kernel.find(text) != std::string::npos; };
    return static_cast<size_t>(std::ranges::find_if(compiled_, has) - compiled_.begin());
  }
  size_t compiled() {
    const std::lock_guard lock(mutex_);
    return compiled_.size();
  }
  std::atomic<bool> fails = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  std::vector<std::string> compiled_;
  jit::Backend& real_ = jit::llvm_backend();
};

class PlanQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    reset();
    jit::KernelCache::global().set_cold(true);
    jit::override_backend(&backend_);
    lazy::set_compiling(Compiling::kBehind);
  }
  void TearDown() override {
    backend_.set_open(true);
    reset();
    wait_for_compiles();
    jit::override_backend(nullptr);
    jit::KernelCache::global().set_cold(false);
    lazy::set_compiling(Compiling::kWait);
  }
  static void reset() {
    mark_step();
    lazy::Tape& tape = lazy::Tape::cpu();
    const std::lock_guard hold(tape.mutex());
    tape.forget_traces();
    tape.options() = {};
  }
  static PlanJob::State state_of(const std::shared_ptr<PlanJob>& job) { return job->state(); }

  HeldBackend backend_;
};

/// A training step by hand: parameters are written in place.
Floats step(Tensor& w) {
  const Tensor x = reshape(range(12), {3, 4}) * 0.1, y = sin(matmul(x, w)), loss = sum(y * y);
  w.sub_(unsqueeze(sum(x, 0), 1) * loss * 0.01);
  return read(loss);
}

TEST_F(PlanQueueTest, StepsRunOpByOpUntilTheirPlanIsReady) {
  lazy::set_compiling(Compiling::kWait);
  Tensor expected = ones({4, 2});
  std::vector<Floats> losses;
  for (int i = 0; i < 6; ++i) losses.push_back(step(expected));
  reset();
  lazy::set_compiling(Compiling::kBehind);
  backend_.set_open(false);
  Tensor w = ones({4, 2});
  mark_step();
  const int64_t before = runs_before_plans(), behind = count("plans.compiled_behind");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(w), losses[i]);
  EXPECT_EQ(runs_before_plans(), before + 3);
  backend_.set_open(true);
  wait_for_compiles();
  EXPECT_GE(count("plans.compiled_behind"), behind + 1);
  for (int i = 3; i < 6; ++i) EXPECT_EQ(step(w), losses[i]);
  EXPECT_EQ(runs_before_plans(), before + 3);
  EXPECT_EQ(read(w), read(expected));
}

TEST_F(PlanQueueTest, WhatIsTakenOverIsFollowedAndExplained) {
  Tensor w = ones({4, 2});
  mark_step();
  step(w);
  step(w);
  const int64_t hits = count("predictor.hits");
  step(w);
  EXPECT_EQ(count("predictor.hits"), hits + 1);
  wait_for_compiles();
  lazy::forget_recompiles();
  const uint64_t log = lazy::StepLog::start(false);
  step(w);
  const std::vector<lazy::RanStep> ran = lazy::StepLog::stop(log);
  ASSERT_EQ(ran.size(), 1U);
  EXPECT_EQ(ran[0].how, lazy::RanStep::kPlan);
  ASSERT_TRUE(ran[0].recompile);
  EXPECT_TRUE(ran[0].recompile->behind);
  EXPECT_FALSE(ran[0].recompile->kernels.empty());
  EXPECT_NE(ran[0].recompile->text().find("behind the program"), std::string::npos) << ran[0].recompile->text();
  EXPECT_EQ(lazy::recompiles().size(), 1U);
}

TEST_F(PlanQueueTest, TheLogSaysWhyAStepRanOpByOp) {
  backend_.set_open(false);
  const uint64_t log = lazy::StepLog::start(false);
  read(sin(range(5)) + 1.0);
  const std::vector<lazy::RanStep> ran = lazy::StepLog::stop(log);
  ASSERT_EQ(ran.size(), 1U);
  EXPECT_EQ(ran[0].how, lazy::RanStep::kOneByOne);
  EXPECT_EQ(ran[0].note, "its plan is being compiled");
  EXPECT_FALSE(ran[0].ops.empty());
}

TEST_F(PlanQueueTest, WhatComesAgainIsCompiledFirst) {
  backend_.set_open(false);
  for (int i = 0; i < 2; ++i) read(sin(range(100)));  // is begun, as nothing else waits
  backend_.wait_for(1);
  read(tan(range(200)));
  read(atan(range(300)));
  read(atan(range(300)));
  backend_.set_open(true);
  wait_for_compiles();
  EXPECT_LT(backend_.place_of("atan"), backend_.compiled());
  EXPECT_LT(backend_.place_of("atan"), backend_.place_of("tan("));
}

TEST_F(PlanQueueTest, StepsThatNeverComeAgainEndBeingCompiled) {
  const int64_t behind = count("plans.compiled_behind");
  Tensor x = range(7);
  for (int i = 0; i < 12; ++i) {
    x = x * 0.5 + 1.0;
    Tensor y = x;
    for (int k = 0; k < i; ++k) y = sin(y) * 2.0;
    read(y);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  EXPECT_LE(count("plans.compiled_behind"), behind + 4);
}

TEST(Patience, PlansThatNoOtherStepUsesAreMadeLessOften) {
  constexpr int64_t kMillisecond = 1'000'000;
  lazy::Patience nothing_comes_again, one_of_four_does;
  for (int i = 0; i < 64; ++i) {
    nothing_comes_again.use(kMillisecond);
    one_of_four_does.use(kMillisecond);
    if (i % 4 == 3) one_of_four_does.note_again();
  }
  EXPECT_TRUE(one_of_four_does.bears(20 * kMillisecond));
  EXPECT_FALSE(nothing_comes_again.bears(kMillisecond));
}

TEST_F(PlanQueueTest, ALongStepThatIsNewIsNotPlannedWhileTheProgramWaits) {
  std::atomic<int> stages = 0;
  jit::set_stage_hook([&](std::string_view, jit::Program&) { stages += !in_background(); });
  Tensor x = range(5);
  for (int i = 0; i < 300; ++i) x = sin(x) * 0.25;
  read(x);
  wait_for_compiles();
  jit::set_stage_hook({});
  EXPECT_EQ(stages, 0);
}

TEST_F(PlanQueueTest, TheQueueIsBoundedAndHoldsWhatIsWanted) {
  backend_.set_open(false);
  for (int i = 0; i < 2; ++i) read(sin(range(100)));
  backend_.wait_for(1);
  std::vector<std::shared_ptr<PlanJob>> jobs;
  const auto job_of = [] {
    auto job = std::make_shared<PlanJob>();
    lazy::Tape& tape = lazy::Tape::cpu();
    const std::lock_guard hold(tape.mutex());
    job->trace.assign_prefix(*tape.last_trace(), tape.last_trace()->instrs.size());
    job->produced = {static_cast<uint32_t>(job->trace.metas.size() - 1)};
    job->symbols = lazy::symbol_values(job->trace);
    return job;
  };
  for (int i = 0; i < 300; ++i) {
    jobs.push_back(job_of());
    ASSERT_TRUE(PlanQueue::get().submit(jobs.back()));
    PlanQueue::get().note_run(*jobs.back(), 1000 + i);  // the first are worth least
  }
  const auto dropped = std::ranges::count(jobs, PlanJob::kDropped, &PlanQueueTest::state_of);
  EXPECT_GE(dropped, 300 - 128);
  EXPECT_EQ(jobs.front()->state(), PlanJob::kDropped);
  EXPECT_EQ(jobs.back()->state(), PlanJob::kWaiting);
  jobs.erase(jobs.begin(), jobs.end() - 1);  // what nobody holds is not compiled
  const size_t before = backend_.compiled();
  backend_.set_open(true);
  wait_for_compiles();
  EXPECT_EQ(jobs.back()->state(), PlanJob::kReady);
  EXPECT_LE(backend_.compiled(), before + 2);
}

TEST_F(PlanQueueTest, AStepWhosePlanCannotBeCompiledStaysOpByOp) {
  tests::allow_op_by_op();
  backend_.fails = true;
  const Floats expected = [] {
    Floats out = read(range(6));
    for (float& f : out) f = f * 2 + 1;
    return out;
  }();
  const auto run = [] { return read(range(6) * 2.0 + 1.0); };
  EXPECT_EQ(run(), expected);
  wait_for_compiles();
  const int64_t before = count("steps.op_by_op");
  EXPECT_EQ(run(), expected);
  backend_.fails = false;
  const size_t compiled = backend_.compiled();
  EXPECT_EQ(run(), expected);
  wait_for_compiles();
  EXPECT_EQ(count("steps.op_by_op"), before + 2);
  EXPECT_EQ(backend_.compiled(), compiled);  // it is not tried again
  const std::vector<EventSummary> events = metrics().events;
  const auto said = std::ranges::find_if(
      events, [](const EventSummary& e) { return e.event.reason.find("no code for this test") != std::string::npos; });
  ASSERT_NE(said, events.end());
  EXPECT_EQ(said->count, 1);
}

TEST_F(PlanQueueTest, APlanMadeBeforeAKernelWasReplacedIsNotUsed) {
  Tensor x = range(5);
  mark_step();
  read(sin(x) + 1.0);
  wait_for_compiles();
  const ir::Op op = ir::find_op("sin");
  const eager::Kernel mine = [](const eager::KernelCall& call) {
    std::fill_n(static_cast<float*>(call.outputs[0].data), numel(call.outputs[0].shape), 7.0F);
  };
  const ir::Op stand_in = eager::add_override(eager::DispatchKey::kCPU, op, mine);
  EXPECT_EQ(read(sin(x) + 1.0), Floats(5, 8.0F));
  eager::remove_override(eager::DispatchKey::kCPU, op, stand_in);
  EXPECT_EQ(read(sin(x) + 1.0)[0], 1.0F);
}

TEST_F(PlanQueueTest, WhatNothingNeedsDoesNotRun) {
  backend_.set_open(false);
  const Tensor x = range(4), table = range(3);
  mark_step();
  {
    const int64_t before = runs_before_plans();
    static_cast<void>(index_select(table, 0, (x + 100.0).to(DType::kInt64)));  // out of range, and nobody holds it
    EXPECT_EQ(read(x * 2.0), (Floats{0, 2, 4, 6}));
    EXPECT_EQ(runs_before_plans(), before + 1);
  }
  Tensor w = range(4);
  mark_step();
  w.add_(1.0);
  const Tensor bad = index_select(table, 0, (x + 100.0).to(DType::kInt64));
  EXPECT_THROW(mark_step(), IndexError);
  EXPECT_EQ(read(w), (Floats{0, 1, 2, 3}));  // a step that failed changes nothing
}

TEST_F(PlanQueueTest, WithoutMemoryForOpByOpAStepWaitsForItsPlan) {
  const Tensor x = range(1000);
  mark_step();
  const int64_t before = runs_before_plans();
  const Tensor y = sin(x) * 2.0 + cos(x), z = sum(y * y + x);
  fail_allocation_after(2);
  const Floats got = read(z);
  EXPECT_EQ(runs_before_plans(), before);
  lazy::set_compiling(Compiling::kWait);
  reset();
  EXPECT_EQ(got, read(sum((sin(x) * 2.0 + cos(x)) * (sin(x) * 2.0 + cos(x)) + x)));
  EXPECT_EQ(read(y).size(), 1000U);
}

#if !defined(__SANITIZE_THREAD__)  // which lets no child of a fork start threads
TEST_F(PlanQueueTest, WhoeverForksWaitsForTheKernelAtHandAndTheChildGoesOn) {
  for (int i = 0; i < 6; ++i) {
    Tensor x = range(50 + i);
    for (int k = 0; k <= i; ++k) x = sin(x) + cos(x * 2.0);
    const Floats expected = read(x);
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * i));
    const pid_t child = fork();
    if (child == 0) {
      Tensor y = range(50 + i);
      for (int k = 0; k <= i; ++k) y = sin(y) + cos(y * 2.0);
      const bool same = read(y) == expected;
      wait_for_compiles();
      Tensor z = range(50 + i);
      for (int k = 0; k <= i; ++k) z = sin(z) + cos(z * 2.0);
      _exit(same && read(z) == expected ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}
#endif

std::atomic<bool> g_stops = false;
class Stop final : public Interrupted {
 public:
  using Interrupted::Interrupted;
  [[noreturn]] void rethrow(const std::string& /*note*/) const override { throw *this; }
};

TEST_F(PlanQueueTest, WaitingCanBeInterrupted) {
  backend_.set_open(false);
  read(sin(range(17)));
  g_stops = true;
  set_interrupt_check([] {
    if (g_stops) throw Stop("stopped");
  });
  EXPECT_THROW(wait_for_compiles(), Stop);
  g_stops = false;
  set_interrupt_check(nullptr);
  backend_.set_open(true);
  wait_for_compiles();
  const int64_t before = runs_before_plans();
  read(sin(range(17)));
  EXPECT_EQ(runs_before_plans(), before);
}

TEST_F(PlanQueueTest, ThreadsRecordRunAndWaitBesideEachOther) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([t, &wrong] {
      for (int i = 0; i < 12; ++i) {
        Tensor x = range(8 + t);
        for (int k = 0; k < i % 4; ++k) x = x * 2.0 + static_cast<double>(t);
        Floats expected(static_cast<size_t>(8 + t));
        for (size_t n = 0; n < expected.size(); ++n) {
          expected[n] = static_cast<float>(n);
          for (int k = 0; k < i % 4; ++k) expected[n] = expected[n] * 2 + static_cast<float>(t);
        }
        if (read(x) != expected) ++wrong;
        if (i % 5 == 4) wait_for_compiles();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace smolder
