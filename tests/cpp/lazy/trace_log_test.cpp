// The log of steps, for programs that are all C++, and what finds a kernel that is wrong.
#include "smolder/lazy/trace_log.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "smolder/jit/compile.h"
#include "smolder/jit/run/compare_steps.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/tape.h"

namespace smolder::lazy {
namespace {

Tensor ramp(std::initializer_list<int64_t> shape) {
  std::vector<float> values(4096);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.25f - 3;
  return Tensor::from_data(values.data(), shape, DType::kFloat32);
}

TraceLog::Contents contents_of(TraceLog& log) {
  TraceLog::Contents out;
  log.read([&](const TraceLog::Contents& c) { out = c; });
  return out;
}

void run(const std::function<Tensor()>& step) {
  const Tensor held = step();
  mark_step();
}

TEST(TraceLog, KeepsEachDistinctStepOnce) {
  const Tensor x = ramp({8, 4}), y = ramp({2, 4});
  mark_step();
  TraceLog log({.leaves = true});
  EXPECT_FALSE(TraceLog::wanted());
  log.start();
  EXPECT_TRUE(TraceLog::wanted());
  for (int i = 0; i < 3; ++i) run([&] { return exp(x) * 2.5; });
  run([&] { return exp(y) * 1.5; });
  run([&] { return exp(x) * 3.5; });
  log.stop();
  run([&] { return sin(x); });
  EXPECT_FALSE(TraceLog::wanted());

  const TraceLog::Contents c = contents_of(log);
  ASSERT_EQ(c.steps.size(), 2u);
  EXPECT_EQ(c.steps[0].runs, 4);
  EXPECT_EQ(c.steps[1].runs, 1);
  EXPECT_EQ(c.order, (std::vector<std::pair<uint32_t, int64_t>>{{0, 3}, {1, 1}, {0, 1}}));
  EXPECT_EQ(log.runs(), 5);
  const LoggedStep& s = c.steps[0];
  EXPECT_EQ(s.reason, "mark_step");
  EXPECT_EQ(Scalar::from_bits(s.parameters.at(0), Category::kFloat), Scalar(2.5));  // of its first run
  ASSERT_TRUE(s.leaves.at(0));
  EXPECT_EQ(static_cast<const float*>(s.leaves[0]->data())[1], -2.75f);
  EXPECT_EQ(s.graph().outputs.size(), 1u);
  log.clear();
  EXPECT_TRUE(contents_of(log).steps.empty());
}

TEST(TraceLog, CountsWhatThereIsNoRoomFor) {
  const Tensor x = ramp({1024});
  mark_step();
  TraceLog log({.leaves = true, .max_bytes = 2048});
  log.start();
  run([&] { return exp(x); });
  run([&] { return sin(x) + 1; });
  for (int i = 0; i < 40; ++i) run([&] { return slice(x, 0, i, i + 3) * 2; });
  log.stop();
  const TraceLog::Contents c = contents_of(log);
  EXPECT_GT(c.dropped_leaves, 0);
  EXPECT_GT(c.dropped_runs, 0);
  EXPECT_LE(c.bytes, 2048);
  EXPECT_EQ(static_cast<int64_t>(c.steps.size()) + c.dropped_runs, 42);
}

TEST(TraceLog, SeveralLogsAndThreads) {
  const Tensor x = ramp({4});
  mark_step();
  TraceLog all({}), first({});
  all.start();
  first.start();
  run([&] { return exp(x); });
  first.stop();
  std::thread([&] { run([&] { return sin(x); }); }).join();
  all.stop();
  EXPECT_EQ(contents_of(first).steps.size(), 1u);
  EXPECT_EQ(contents_of(all).steps.size(), 2u);
}

/// The steps of a plan of one logged step whose results are not what their primitives make.
std::vector<size_t> wrong_steps(const LoggedStep& s) {
  const ir::Graph g = s.graph();
  const auto plan = jit::Plan::compile(g, s.options);
  const std::vector<int64_t> symbols = symbol_values(s.trace);
  const auto instance = plan->bind(symbols);
  std::vector<void*> leaves, outputs;
  std::vector<BufferRef> held;
  for (const BufferRef& b : s.leaves) leaves.push_back(b->data());
  for (const int64_t bytes : instance->output_bytes()) {
    held.push_back(allocate(static_cast<size_t>(bytes)));
    outputs.push_back(held.back()->data());
  }
  const jit::ComparedRun ran = run_compared(*instance, symbols, {leaves, s.parameters, outputs});
  EXPECT_TRUE(ran.skipped.empty());
  std::vector<size_t> out;
  for (const jit::StepDifference& d : ran.differences) out.push_back(d.step);
  return out;
}

TEST(CompareSteps, NamesTheKernelThatIsWrong) {
  const Tensor x = ramp({16, 8}), w = ramp({8, 8});
  mark_step();
  TraceLog log({.leaves = true});
  log.start();
  run([&] { return softmax(matmul(tanh(x), w) - x * 2, -1) - 1; });
  log.stop();
  const LoggedStep s = contents_of(log).steps.at(0);
  EXPECT_TRUE(wrong_steps(s).empty());
  jit::set_stage_hook([](std::string_view stage, jit::Program& program) {
    if (stage != "lower") return;
    const std::function<void(jit::Stmt&)> spoil = [&](jit::Stmt& t) {
      if (t.kind == jit::StmtKind::kPrimitive && t.op == ir::Op::kTanh) t.op = ir::Op::kSin;
      for (jit::Stmt& inner : t.body) spoil(inner);
    };
    for (jit::Step& step : program.steps) {
      if (step.kernel) spoil(step.kernel->kernel.root);
    }
  });
  const std::vector<size_t> wrong = wrong_steps(s);
  jit::set_stage_hook({});
  EXPECT_EQ(wrong.size(), 1u);  // what reads its result is right
}

}  // namespace
}  // namespace smolder::lazy
