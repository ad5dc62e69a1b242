// Exceptions in the middle of recording, compiling and allocating: what was recorded before stays true, and later work
// runs. tape_test.cpp has more of allocating.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "plans_guard.h"
#include "smolder/core/counters.h"
#include "smolder/jit/cache/kernel_cache.h"
#include "smolder/jit/emit.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/tape.h"

namespace smolder {
namespace {

using Floats = std::vector<float>;

Tensor range(int64_t n) { return arange(0.0, static_cast<double>(n)).to(DType::kFloat32); }

Floats read(const Tensor& t) { return t.to_vector<float>(); }

/// A code generator whose n-th call from now, to compile or to load, fails.
class FailingBackend : public jit::Backend {
 public:
  enum class Where { kCompile, kLoad };
  FailingBackend(Where where, int calls) : where_(where), calls_(calls) {}
  std::string target() const override { return real_.target(); }
  std::vector<jit::ObjectCode> compile(std::span<const jit::Kernel* const> kernels) override {
    if (where_ == Where::kCompile) fail();
    return real_.compile(kernels);
  }
  jit::CompiledKernel load(const std::string& object) override {
    if (where_ == Where::kLoad) fail();
    return real_.load(object);
  }

 private:
  void fail() {
    if (calls_.fetch_sub(1) == 1) throw RuntimeError("no code today");
  }
  const Where where_;
  std::atomic<int> calls_;
  jit::Backend& real_ = jit::llvm_backend();
};

class FailureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    mark_step();
    jit::override_backend(nullptr);
    lazy::Tape& tape = lazy::Tape::cpu();
    std::lock_guard hold(tape.mutex());
    tape.forget_traces();
    tape.options() = {};
  }
  void TearDown() override {
    jit::KernelCache::global().set_cold(false);
    SetUp();
  }
};

TEST_F(FailureTest, AStepThatCannotBeCompiledRunsOpByOp) {
  tests::allow_op_by_op();
  using Where = FailingBackend::Where;
  for (const Where where : {Where::kCompile, Where::kLoad}) {
    for (const int call : {1, 2, 3}) {
      Tensor w = range(9) + static_cast<double>(call);
      const Tensor other = w * 2.0;
      mark_step();
      jit::KernelCache::global().set_cold(true);
      FailingBackend backend(where, call);
      jit::override_backend(&backend);
      w.add_(1.0);
      // Several kernels: reductions of different axes end groups.
      const Tensor y = sin(w), m = unsqueeze(w, 0) + unsqueeze(w, 1), rows = sum(m, 0), all = sum(rows * rows);
      const int64_t before = counter("steps.op_by_op").value();
      mark_step();
      EXPECT_EQ(counter("steps.op_by_op").value(), before + 1);
      jit::override_backend(nullptr);
      EXPECT_EQ(read(other), read((range(9) + static_cast<double>(call)) * 2.0));
      const auto now = static_cast<float>(call + 1);
      EXPECT_EQ(read(w)[0], now);
      EXPECT_EQ(read(y), read(sin(range(9) + static_cast<double>(call + 1))));
      EXPECT_EQ(read(all), read(sum(rows * rows)));
      w.add_(1.0);
      EXPECT_EQ(read(w)[0], now + 1);
      EXPECT_FLOAT_EQ(read(sin(w))[0], std::sin(now + 1));
      jit::KernelCache::global().set_cold(false);
    }
  }
}

/// A step that fails in its middle and goes on; what it gives. `wrong` is what raises there.
template <class Wrong>
Floats step_with(Wrong&& wrong) {
  Tensor w = range(6), m = reshape(range(6), {2, 3});
  Tensor y = w * 3.0;
  w.add_(y);
  Tensor row = select(m, 0, 1);
  row.mul_(2.0);
  EXPECT_THROW(wrong(w, m, row), Error);
  w.sub_(5.0);
  row.add_(w.slice(0, 0, 3) * 7.0);
  Floats out = read(w), more = read(m);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST_F(FailureTest, AnOpThatRaisesWhileRecordedLeavesNoTrace) {
  const Floats want = {-5, -1, 3, 7, 11, 15, 0, 1, 2, 6 - 35, 8 - 7, 10 + 21};
  const auto shapes = [](Tensor& w, Tensor&, Tensor&) { w.add_(range(5) * 11.0); };
  const auto broadcast = [](Tensor& w, Tensor&, Tensor&) { w.mul_(reshape(range(12), {2, 6}) - 13.0); };
  const auto category = [](Tensor& w, Tensor&, Tensor&) { w.to(DType::kInt64).add_(w * 0.5); };
  const auto through_view = [](Tensor&, Tensor&, Tensor& row) { row.add_(range(2) + 17.0); };
  const auto expanded = [](Tensor&, Tensor& m, Tensor&) { m.expand({4, 2, 3}).mul_(19.0); };
  const auto axis = [](Tensor& w, Tensor&, Tensor&) { w.copy_(sum(w * 23.0, 3)); };
  const auto dtype = [](Tensor& w, Tensor&, Tensor&) { (void)matmul(w, 29.0 - w.to(DType::kFloat64)); };
  // Recorded anew, followed, and followed after other steps.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(step_with(shapes), want);
    EXPECT_EQ(step_with(broadcast), want);
    EXPECT_EQ(step_with(category), want);
    EXPECT_EQ(step_with(through_view), want);
    EXPECT_EQ(step_with(axis), want);
    EXPECT_EQ(step_with(dtype), want);
    EXPECT_EQ(step_with(expanded), want);
  }
}

/// A tensor whose step failed, so that using it may raise.
Tensor failed() {
  const Tensor huge = full({int64_t{1} << 45}, 1.0, DType::kFloat32), y = sin(range(6) + 1.0);
  EXPECT_THROW(mark_step(), OutOfMemoryError);
  return y;
}

TEST_F(FailureTest, AnOperandWithoutAValueLeavesNoTrace) {
  const auto step = [](const Tensor* bad) {
    const Tensor w = range(6), fresh = Tensor::from_data(Floats(6, 2.0F).data(), {6}, DType::kFloat32);
    const Tensor y = w * 3.0;
    if (bad) {
      int raised = 0;
      const Tensor other = Tensor::from_data(Floats(6, 4.0F).data(), {6}, DType::kFloat32), positive = y > 0.0;
      try {
        (void)where(positive, 300.0, *bad);  // a number before it
      } catch (const RuntimeError&) {
        ++raised;
      }
      try {
        (void)addcmul(other, *bad, fresh, 100.0);  // a new leaf before it
      } catch (const RuntimeError&) {
        ++raised;
      }
      EXPECT_EQ(raised % 2, 0) << "it has a value, or it has none";
    }
    const Tensor z = Tensor::from_data(Floats(6, 5.0F).data(), {6}, DType::kFloat32) + y * 7.0;
    return read(z + fresh * 0.5);
  };
  const Floats want = {6, 27, 48, 69, 90, 111};
  EXPECT_EQ(step(nullptr), want);
  const Tensor bad = failed();
  EXPECT_EQ(step(nullptr), want);
  EXPECT_EQ(step(&bad), want);
  EXPECT_EQ(step(&bad), want);
  EXPECT_EQ(step(nullptr), want);
}

}  // namespace
}  // namespace smolder
