// Ops and kernels that users register in C++.
#include "smolder/autograd/library.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "plans_guard.h"
#include "smolder/autograd/engine.h"
#include "smolder/core/counters.h"
#include "smolder/ir/value_ops.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/tape.h"

namespace smolder {
namespace {

using eager::KernelCall;
using eager::TensorView;

Tensor vector_of(const std::vector<float>& values) {
  return Tensor::from_data(values.data(), {static_cast<int64_t>(values.size())}, DType::kFloat32);
}
int64_t count_of(const std::string& name) {
  for (const auto& [n, value] : metrics().counters) {
    if (n == name) return static_cast<int64_t>(value);
  }
  return 0;
}
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing of the kind was thrown";
}
const float* floats(const TensorView& v) { return static_cast<const float*>(v.data); }
float* floats_out(const TensorView& v) { return static_cast<float*>(v.data); }

/// x * by + more, of vectors of any stride; `calls` counts.
OpSpec scaled(std::atomic<int>& calls) {
  return {.schema = "scaled(Tensor x, float by=2.0, int more=0) -> Tensor",
          .kernel =
              [&calls](const KernelCall& call) {
                ++calls;
                const TensorView& x = call.inputs[0];
                const double by = *static_cast<const double*>(call.inputs[1].data);
                for (int64_t i = 0; i < x.shape[0]; ++i) {
                  floats_out(call.outputs[0])[i] =
                      static_cast<float>(floats(x)[i * x.strides[0]] * by + static_cast<double>(call.attrs[0]));
                }
              },
          .gradient = {.saves = {}, .saves_results = {}, .formula = [](autograd::FormulaContext& c) {
                         c.set(0, c.grad(0) * c.number(1));
                       }}};
}

TEST(UserOp, IsAStepOfThePlanAndIsFollowed) {
  std::atomic<int> calls{0};
  Library lib("test_a");
  const OpHandle f = lib.def(scaled(calls));
  const Tensor x = vector_of({1, 2, 3});
  mark_step();
  const int64_t syncs = count_of("syncs"), fallbacks = count_of("fallbacks");
  const Tensor y = f(x + 1.0, 3.0) * 10.0;
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{60, 90, 120}));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(count_of("syncs"), syncs + 1);
  EXPECT_EQ(count_of("fallbacks"), fallbacks);
  int64_t compiled = 0, hits = 0;
  for (int i = 0; i < 6; ++i) {
    if (i == 3) compiled = count_of("plans.compiled"), hits = count_of("predictor.hits");
    const Tensor z = f(x, i, 1) - 1.0;
    mark_step();
    EXPECT_EQ(z.to_vector<float>(), (std::vector<float>{1.0f * i, 2.0f * i, 3.0f * i}));
  }
  EXPECT_EQ(count_of("plans.compiled"), compiled);
  EXPECT_EQ(count_of("predictor.hits"), hits + 3);
  // Attributes are structure, defaults are theirs, and strides are the kernel's matter.
  EXPECT_EQ(f(x, 1.0, 5).to_vector<float>(), (std::vector<float>{6, 7, 8}));
  EXPECT_EQ(f(x).to_vector<float>(), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(f(flip(x, {0})).to_vector<float>(), (std::vector<float>{6, 4, 2}));
  const lazy::EagerMode eager;
  EXPECT_EQ(f(x, 4.0, 1).to_vector<float>(), (std::vector<float>{5, 9, 13}));
}

TEST(UserOp, AtOtherSizesIsPlannedForThem) {
  std::atomic<int> calls{0};
  Library lib("test_b");
  const OpHandle f = lib.def({.schema = "twice(Tensor x) -> Tensor",
                              .shape =
                                  [](const ir::Call& call, ir::Meta* out) {
                                    out[0] = *call.inputs[0];
                                    out[0].shape[0] *= 2;
                                  },
                              .kernel =
                                  [&](const KernelCall& call) {
                                    ++calls;
                                    const int64_t n = call.inputs[0].shape[0];
                                    ASSERT_EQ(call.outputs[0].shape[0], 2 * n);
                                    for (int64_t i = 0; i < 2 * n; ++i) {
                                      floats_out(call.outputs[0])[i] =
                                          floats(call.inputs[0])[i % n * call.inputs[0].strides[0]];
                                    }
                                  }});
  for (const int64_t n : {3, 5, 3, 8, 1, 0, 5}) {
    const Tensor y = sum(f(ones({n}, DType::kFloat32)) + 1.0);
    mark_step();
    EXPECT_EQ(y.to_vector<float>()[0], static_cast<float>(4 * n));
  }
  EXPECT_EQ(calls, 6) << "nothing is called to fill nothing";
}

TEST(UserOp, HasTheGradientThatIsRegisteredOrSaysThatThereIsNone) {
  std::atomic<int> calls{0};
  Library lib("test_c");
  const OpHandle f = lib.def(scaled(calls));
  const OpHandle cube = lib.def({.schema = "cube(Tensor x) -> Tensor",
                                 .kernel =
                                     [](const KernelCall& call) {
                                       for (int64_t i = 0; i < call.inputs[0].shape[0]; ++i) {
                                         const float v = floats(call.inputs[0])[i * call.inputs[0].strides[0]];
                                         floats_out(call.outputs[0])[i] = v * v * v;
                                       }
                                     },
                                 .gradient = {.saves = {"x"}, .saves_results = {}, .formula = [](auto& c) {
                                                c.set(0, c.grad(0) * 3.0 * square(c.input(0)));
                                              }}});
  const OpHandle none = lib.def({.schema = "none(Tensor x) -> Tensor", .kernel = [](const KernelCall&) {}});
  Tensor x = vector_of({1, 2});
  x.requires_grad_();
  const Tensor y = cube(f(x, 2.0));
  const Tensor first = autograd::grad({sum(y)}, {x}, {}, false, true)[0];
  EXPECT_EQ(first.to_vector<float>(), (std::vector<float>{24, 96}));
  EXPECT_EQ(autograd::grad({sum(first)}, {x})[0].to_vector<float>(), (std::vector<float>{48, 96}));
  EXPECT_NE(message_of<RuntimeError>([&] {
              autograd::grad({sum(none(x))}, {x});
            }).find("Trying to backward through test_c.none.default but no autograd formula was registered"),
            std::string::npos);
  EXPECT_THROW(autograd::register_gradient(ir::Op::kExp, {{}, {}, [](auto&) {}}), RuntimeError);
  EXPECT_THROW(autograd::register_gradient(none.op(), {{"nope"}, {}, [](auto&) {}}), RuntimeError);
}

TEST(UserOp, FusesWhereItHasADecomposition) {
  Library lib("test_d");
  const OpHandle f =
      lib.def({.schema = "relu2(Tensor x) -> Tensor", .decompose = [](ir::Builder& b, const ir::Node& n) {
                 const ir::Value r = maximum(b.wrap(n.inputs[0]), 0.0);
                 return std::vector{r * r};
               }});
  const Tensor x = vector_of({-1, 2, 3});
  mark_step();
  const Tensor y = f(x + 1.0) * 2.0;
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 18, 32}));
  const std::string plan = lazy::Tape::cpu().last_trace()->plans[0].plan->describe();
  EXPECT_NE(plan.find("add_test_d::relu2_mul"), std::string::npos) << plan;  // one kernel
  EXPECT_EQ(plan.find("step 1"), std::string::npos) << plan;
  for (const int64_t n : {4, 7}) {
    const int64_t compiled = count_of("plans.compiled");
    const Tensor z = f(ones({n}, DType::kFloat32));
    EXPECT_EQ(z.to_vector<float>(), std::vector<float>(n, 1));
    EXPECT_LE(count_of("plans.compiled"), compiled + (n == 4)) << "sizes stay symbolic";
  }
  const lazy::EagerMode eager;
  EXPECT_EQ(f(x).to_vector<float>(), (std::vector<float>{0, 4, 9}));
}

jit::LoopKernel doubled_rows(const jit::LoopCall& call) {
  const auto& x = call.inputs[0];
  return {
      "kernel { buffers b0:float32 r, b1:float32 w ints 4 scalars float parallel v0 < n0 { %0 = scalar float32 s0 "
      "vector v1 < n1 { %1 = load b0[v0*n2 + v1*n3] %2 = mul float32 %1, %0 store b1[v0*n1 + v1], %2 } } }",
      {x.shape[0], x.shape[1], x.strides[0], x.strides[1]}};
}

TEST(UserOp, IsAKernelWhereItsLoopsAreGiven) {
  Library lib("test_e");
  const OpHandle f = lib.def({.schema = "rows(Tensor x, float by) -> Tensor", .lowering = doubled_rows});
  for (const int64_t n : {3, 70}) {
    const Tensor x = reshape(arange(0, n * 5, 1, DType::kFloat32), {n, 5});
    const Tensor y = f(transpose(x, 0, 1), 3.0) + 1.0;
    const std::vector<float> expected = (transpose(x, 0, 1) * 3.0 + 1.0).to_vector<float>();
    EXPECT_EQ(y.to_vector<float>(), expected);
    const lazy::EagerMode eager;
    EXPECT_EQ((f(transpose(x, 0, 1), 3.0) + 1.0).to_vector<float>(), expected);
  }
}

TEST(UserOp, WrongLoopsAreRefusedByName) {
  tests::allow_op_by_op();
  Library lib("test_f");
  const auto with = [&](const char* name, const char* text) {
    const OpHandle f = lib.def({.schema = std::string(name) + "(Tensor x) -> Tensor",
                                .lowering = [=](const jit::LoopCall&) { return jit::LoopKernel{text, {}}; }});
    return message_of<Error>([&] { f(ones({2}, DType::kFloat32)).to_vector<float>(); });
  };
  EXPECT_NE(with("a", "kernel {").find("the lowering of test_f::a: loop IR: line 1"), std::string::npos);
  const std::string few = with("b",
                               "kernel { buffers b0:float32 w parallel vector v0 < 2 { "
                               "%0 = constant float32 1.0 store b0[v0], %0 } }");
  EXPECT_NE(few.find("test_f::b: it has 1 buffers"), std::string::npos) << few;
  const std::string type = with("c",
                                "kernel { buffers b0:float32 r, b1:int32 w parallel vector v0 < 2 { "
                                "%0 = constant int32 1 store b1[v0], %0 } }");
  EXPECT_NE(type.find("b1 must be of float32 and written"), std::string::npos) << type;
}

TEST(UserOp, WritesInPlace) {
  Library lib("test_g");
  const OpHandle f = lib.def({.schema = "bump(Tensor(a!) x, Tensor y) -> Tensor", .kernel = [](const KernelCall& call) {
                                for (int64_t i = 0; i < call.inputs[0].shape[0]; ++i) {
                                  const float now = floats(call.inputs[0])[i] + floats(call.inputs[1])[i];
                                  floats_out(call.outputs[1])[i] = now;
                                  floats_out(call.outputs[0])[i] = -now;
                                }
                              }});
  const Tensor base = vector_of({1, 2, 3, 4});
  const Tensor x = slice(base, 0, 0, 2);
  const Tensor minus = f(x, vector_of({10, 20}));
  EXPECT_EQ(base.to_vector<float>(), (std::vector<float>{11, 22, 3, 4}));
  EXPECT_EQ(minus.to_vector<float>(), (std::vector<float>{-11, -22}));
}

/// Notes each run, and fails where x is negative.
OpSpec noted(std::vector<float>& seen) {
  return {.schema = "noted(Tensor x) -> Tensor",
          .kernel =
              [&seen](const KernelCall& call) {
                const float x = *floats(call.inputs[0]);
                SMOLDER_CHECK(x >= 0, ValueError, "x is negative");
                seen.push_back(x);
                *floats_out(call.outputs[0]) = x;
              },
          .effect = true};
}

TEST(UserOp, WithAnEffectIsNotMerged) {
  std::vector<float> seen;
  Library lib("test_effect");
  const OpHandle f = lib.def(noted(seen));
  const Tensor x = vector_of({3});
  const Tensor first = f(x), second = f(x);
  mark_step();
  EXPECT_EQ(seen, (std::vector<float>{3, 3}));
}

TEST(UserOp, WithAnEffectIsNotRunAgainWhenItsStepFails) {
  std::vector<float> seen;
  Library lib("test_effect_fails");
  const OpHandle f = lib.def(noted(seen));
  Tensor x = vector_of({3}), kept = vector_of({1});
  mark_step();
  const Tensor y = f(x) + 1.0;
  const Tensor z = f(y * -1.0);
  kept += y;
  const std::string said = message_of<ValueError>([&] { z.to_vector<float>(); });
  EXPECT_NE(said.find("x is negative; recorded by test_effect_fails::noted"), std::string::npos) << said;
  EXPECT_EQ(seen, (std::vector<float>{3}));  // and not once more, op by op
  EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{1}));
  EXPECT_EQ(f(x).to_vector<float>(), (std::vector<float>{3}));
}

TEST(UserOp, MistakesAreNamed) {
  tests::allow_op_by_op();
  std::atomic<int> calls{0};
  Library lib("test_h");
  const OpHandle f = lib.def(scaled(calls));
  EXPECT_NE(message_of<RuntimeError>([&] { lib.def(scaled(calls)); }).find("multiple times"), std::string::npos);
  EXPECT_THROW(lib.def({.schema = "other::f(Tensor x) -> Tensor"}), RuntimeError);
  for (const char* wrong : {"f(Tensor x", "f(Tensor x)", "f(Tensor x) -> int", "f(Tensor) -> Tensor",
                            "f(Foo x) -> Tensor", "f(Tensor x, Tensor x) -> Tensor", "f(Tensor x, int n=a) -> Tensor",
                            "3f(Tensor x) -> Tensor", "f(Tensor[] x, Tensor[] y) -> Tensor", "f(Tensor x) -> ()"}) {
    EXPECT_NE(message_of<Error>([&] { lib.def({.schema = wrong}); }).find("in the schema 'test_h::"), std::string::npos)
        << wrong;
  }
  EXPECT_THROW(OpHandle("test_h::nope"), ValueError);
  EXPECT_THROW(f(1.0), TypeError);
  EXPECT_THROW(f(vector_of({1}), vector_of({1})), TypeError);
  EXPECT_THROW(f(vector_of({1}), 1.0, 1, 1), TypeError);
  EXPECT_THROW(f(vector_of({1}), 1.0, 1.5), TypeError);
  const OpHandle bare = lib.def({.schema = "bare(Tensor x) -> Tensor"});
  EXPECT_NE(message_of<NotImplementedError>([&] { bare(vector_of({1})); }).find("Could not run 'test_h::bare'"),
            std::string::npos);
  const OpHandle fails = lib.def(
      {.schema = "fails(Tensor x) -> Tensor", .kernel = [](const KernelCall&) { throw ValueError("no luck"); }});
  const Tensor before = vector_of({1}) + 1.0;
  const Tensor y = fails(before);
  const std::string what = message_of<ValueError>([&] { y.to_vector<float>(); });
  EXPECT_NE(what.find("no luck; met in test_h::fails([1] float32)"), std::string::npos) << what;
  EXPECT_EQ(before.to_vector<float>()[0], 2) << "what was recorded before stays";
}

TEST(Override, ReplacesAKernelUntilItIsTakenBack) {
  const Tensor x = vector_of({1, 2});
  const auto now = [&] { return (mul(x, 3.0) + silu(x) * 0.0).to_vector<float>(); };
  const std::vector<float> plain = {3, 6};
  EXPECT_EQ(now(), plain);
  const Tensor recorded_before = mul(x, 3.0);
  {
    Library lib("aten");
    int calls = 0;
    lib.impl("mul", "CPU", [&](const KernelCall& call) {
      ++calls;
      const TensorView &a = call.inputs[0], &y = call.outputs[0];
      for (int64_t i = 0; i < numel(y.shape); ++i) floats_out(y)[i] = floats(a)[i] + 100;
    });
    EXPECT_EQ(recorded_before.to_vector<float>(), plain);
    EXPECT_EQ(calls, 0);
    const int64_t fallbacks = count_of("fallbacks");
    EXPECT_EQ((mul(x, 3.0) + 1.0).to_vector<float>(), (std::vector<float>{102, 103}));
    EXPECT_EQ(calls, 1) << "a step";
    EXPECT_EQ(count_of("fallbacks"), fallbacks);
    // Ops within a decomposition belong to it.
    EXPECT_NEAR(silu(x).to_vector<float>()[0], 0.731f, 1e-3);
    EXPECT_EQ(calls, 1);
    {
      const lazy::EagerMode eager;
      EXPECT_EQ(mul(x, 3.0).to_vector<float>(), (std::vector<float>{101, 102}));
    }
    Library second("aten");
    second.impl("aten::mul", "CPU", [](const KernelCall& call) { std::fill_n(floats_out(call.outputs[0]), 2, 5.0f); });
    EXPECT_EQ(mul(x, 3.0).to_vector<float>(), (std::vector<float>{5, 5}));
    second.impl("layer_norm", "CPU", [](const KernelCall& call) { std::fill_n(floats_out(call.outputs[0]), 2, 7.0f); });
    EXPECT_EQ(layer_norm(x, {2}).to_vector<float>(), (std::vector<float>{7, 7}));
  }
  EXPECT_EQ(now(), plain);
  EXPECT_NEAR(layer_norm(x, {2}).to_vector<float>()[0], -1, 1e-3);
  Library lib("aten");
  EXPECT_THROW(lib.impl("nope", "CPU", [](const KernelCall&) {}), RuntimeError);
  EXPECT_THROW(lib.impl("mul", "TOASTER", [](const KernelCall&) {}), ValueError);
  EXPECT_THROW(lib.impl("mul", "CPU", {}), ValueError);
}

TEST(UserOp, MayBeRegisteredWhileOthersRecord) {
  std::atomic<int> calls{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) EXPECT_EQ((ones({4}, DType::kFloat32) * 2.0 + 1.0).to_vector<float>()[0], 3);
    });
  }
  for (int i = 0; i < 30; ++i) {
    Library lib("test_i");  // the same name each time, another op
    const OpHandle f = lib.def(scaled(calls));
    EXPECT_EQ(f(ones({2}, DType::kFloat32), i).to_vector<float>()[0], static_cast<float>(i));
    lib.impl("scaled", "CPU", [](const KernelCall& call) { std::fill_n(floats_out(call.outputs[0]), 2, -1.0f); });
    EXPECT_EQ(f(ones({2}, DType::kFloat32), i).to_vector<float>()[0], -1);
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_THROW(OpHandle("test_i::scaled"), ValueError);
}

}  // namespace
}  // namespace smolder
