// Branches and loops that are recorded: from C++, as text, and what runs them.
#include "smolder/autograd/control_flow.h"

#include <gtest/gtest.h>

#include "smolder/autograd/engine.h"
#include "smolder/core/counters.h"
#include "smolder/ir/control_flow.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/random.h"

namespace smolder {
namespace {

using Tensors = std::vector<Tensor>;

Tensor vector_of(std::vector<float> v) {
  return Tensor::from_data(v.data(), {static_cast<int64_t>(v.size())}, DType::kFloat32);
}
Tensor flag(bool on) { return full({}, Scalar(on), DType::kBool); }
Tensor count(int64_t n) { return full({}, Scalar(n), DType::kInt64); }

Tensor choose(const Tensor& predicate, const Tensor& x, const Tensor& w) {
  return cond(
      predicate, [&](const Tensors& in) { return Tensors{in[0] * w}; },
      [](const Tensors& in) { return Tensors{in[0].exp()}; }, {x})[0];
}

TEST(Cond, RunsTheBranchTakenWithinTheStep) {
  const Tensor x = vector_of({1, 2}), w = vector_of({3, 5});
  mark_step();
  const int64_t before = counter("syncs").value();
  const Tensor yes = choose(x.sum() > 2.0, x, w) + 1, no = choose(x.sum() > 5.0, x, w) + 1;
  EXPECT_EQ(counter("syncs").value(), before);
  EXPECT_EQ(yes.to_vector<float>(), (std::vector<float>{4, 11}));
  EXPECT_EQ(no.to_vector<float>(), (x.exp() + 1).to_vector<float>());
}

TEST(Cond, HasDerivativesOfTheBranchTaken) {
  const Tensor x = vector_of({0.5, 2}).requires_grad_(), w = vector_of({3, 5}).requires_grad_();
  const Tensor y = choose(flag(true), x, w);
  const Tensors first = autograd::grad({y.square().sum()}, {x, w}, {}, false, true);
  EXPECT_EQ(first[0].to_vector<float>(), (std::vector<float>{9, 100}));
  EXPECT_EQ(first[1].to_vector<float>(), (std::vector<float>{1.5, 40}));
  const Tensors second = autograd::grad({first[0].sum()}, {x, w});
  EXPECT_EQ(second[0].to_vector<float>(), (std::vector<float>{18, 50}));
  EXPECT_EQ(second[1].to_vector<float>(), (std::vector<float>{6, 40}));
}

TEST(Cond, NamesWhatDiffersBetweenBranches) {
  const Tensor x = vector_of({1, 2});
  const auto same = [](const Tensors& in) { return Tensors{in[0] * 2}; };
  const auto message = [&](const BranchFunction& other) -> std::string {
    try {
      cond(flag(true), same, other, {x});
    } catch (const RuntimeError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message([](const Tensors& in) { return Tensors{in[0].to(DType::kFloat64)}; }).find("float32 and float64"),
            std::string::npos);
  EXPECT_NE(message([](const Tensors& in) { return Tensors{in[0].sum()}; }).find("expected same shape"),
            std::string::npos);
  EXPECT_NE(message([](const Tensors&) { return Tensors{}; }).find("false branch returns 0 item(s)"),
            std::string::npos);
  EXPECT_NE(message([](const Tensors& in) { return in; }).find("aliasing"), std::string::npos);
  EXPECT_NE(message([](const Tensors& in) { return Tensors{in[0] + in[0].sum().item()}; }).find("can't be read"),
            std::string::npos);
}

TEST(WhileLoop, TurnsUntilItsConditionIsFalse) {
  const auto loop = [](const Tensor& limit, const Tensor& x) {
    return while_loop([&](const Tensors& in) { return in[0] < limit; },
                      [](const Tensors& in) { return Tensors{in[0] + 1, in[1] * in[1]}; }, {count(0), x})[1];
  };
  const Tensor x = vector_of({2, 3}).requires_grad_();
  EXPECT_EQ(loop(count(0), x).to_vector<float>(), (std::vector<float>{2, 3}));
  const Tensor y = loop(count(3), x);  // x^8
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{256, 6561}));
  EXPECT_EQ(autograd::grad({y.sum()}, {x})[0].to_vector<float>(), (std::vector<float>{1024, 17496}));
}

TEST(Scan, CarriesAndStacks) {
  const Tensor xs = arange(Scalar(1.0), Scalar(7.0), Scalar(1.0), DType::kFloat32).reshape({3, 2}).requires_grad_();
  for (const bool reverse : {false, true}) {
    const auto [carry, ys] =
        scan([](const Tensors& c, const Tensors& x) { return CarryAndSlices{{c[0] * x[0]}, {c[0] + x[0]}}; },
             {vector_of({1, 1})}, {xs}, 0, reverse);
    EXPECT_EQ(carry[0].to_vector<float>(), (std::vector<float>{15, 48}));
    EXPECT_EQ(ys[0].to_vector<float>(),
              reverse ? (std::vector<float>{16, 26, 8, 10, 6, 7}) : (std::vector<float>{2, 3, 4, 6, 8, 14}));
    EXPECT_EQ(autograd::grad({carry[0].sum()}, {xs})[0].to_vector<float>(), (std::vector<float>{15, 24, 5, 12, 3, 8}));
  }
}

TEST(ControlFlow, RunsTheSameEagerly) {
  const Tensor x = vector_of({0.3F, -1.7F, 2.5F}), w = vector_of({1.1F, 0.7F, -0.2F});
  const auto all = [&] {
    const Tensor y = choose(x.sum() > 0.0, x, w);
    const Tensor z = while_loop([](const Tensors& in) { return in[0].sum() < 100.0; },
                                [&](const Tensors& in) { return Tensors{in[0] * 2 + w.abs()}; }, {y.abs()})[0];
    return scan([](const Tensors& c, const Tensors& v) { return CarryAndSlices{{(c[0] * v[0]).tanh()}, {c[0].sin()}}; },
                {z}, {stack({y, z, w}, 0)})
        .second[0]
        .to_vector<float>();
  };
  const std::vector<float> planned = all();
  const lazy::EagerMode eager;
  EXPECT_EQ(all(), planned);
}

TEST(ControlFlow, IsRefusedWhereItsGraphsDoNotFit) {
  const ir::Meta good{{2}, DType::kFloat32, false}, longer{{3}, DType::kFloat32, false};
  const int64_t number = ir::intern_subgraph("a test", [&] {
    ir::Subgraph s;
    s.graph =
        ir::parse("%0 = leaf(number=0, offset=0, strides=[1]) : float32[2]\n%1 = neg(%0) : float32[2]\nreturn %1\n");
    s.leaves = s.results = {good};
    return s;
  });
  EXPECT_EQ(ir::intern_subgraph("a test", [] { return ir::Subgraph(); }), number);
  const ir::Op op = ir::control_op(ir::ControlKind::kCond, 1);
  const auto infer = [&](const ir::Meta& operand, std::vector<int64_t> words) {
    const ir::Meta predicate{{}, DType::kBool, false};
    const ir::Meta* const inputs[] = {&predicate, &operand};
    ir::Meta out;
    ir::info(op).infer({inputs, words}, &out);
    return out;
  };
  EXPECT_EQ(infer(good, {number, number, 2}), good);
  EXPECT_THROW(infer(longer, {number, number, 2}), ValueError);
  EXPECT_THROW(infer(good, {number, number, 1}), ValueError);
  EXPECT_THROW(infer(good, {number, -1, 2}), ValueError);
  EXPECT_EQ(ir::find_op("smolder::scan_3"), ir::control_op(ir::ControlKind::kScan, 3));
  EXPECT_THROW(ir::find_op("smolder::scan_0"), ValueError);
  EXPECT_THROW(ir::control_op(ir::ControlKind::kScan, 256), NotImplementedError);
}

}  // namespace
}  // namespace smolder
