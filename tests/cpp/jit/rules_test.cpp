// Every rewrite rule is exact: both sides give equal bits for all special values, by the reference interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "jit/plan_test_util.h"
#include "smolder/core/counters.h"
#include "smolder/ir/interpret.h"
#include "smolder/ir/interpret_number.h"
#include "smolder/ir/scalar/primitive.h"
#include "smolder/jit/compile.h"
#include "smolder/jit/cost.h"
#include "smolder/jit/graph/rules.h"

namespace smolder::jit {
namespace {

using ir::Value;

std::vector<Scalar> specials(DType t) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  switch (category(t)) {
    case Category::kBool:
      return {Scalar(false), Scalar(true)};
    case Category::kInt: {
      std::vector<Scalar> out;
      for (const int64_t v : {0, 1, 2, 3, 5, 127, 128, 251, 255, -1, -2, -7, -128}) {
        if (v >= lowest_integer(t) && v <= highest_integer(t)) out.push_back(v);
      }
      if (t == DType::kUInt8) return out;
      out.push_back(lowest_integer(t));
      out.push_back(highest_integer(t));
      return out;
    }
    case Category::kFloat:
      break;
  }
  std::vector<Scalar> out;
  for (const double v : {0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 1e30, -1e30, kInf, -kInf, std::nan(""),
                         1e-40, -1e-40, 65504.0, 0.1}) {
    out.push_back(ir::reference::round_to(v, t));
  }
  return out;
}

/// A term over inputs x, y, z; an operand of `where` in front is bool.
Value build(ir::Builder& b, const Term& t, const std::vector<Value>& variables, DType dtype, const ir::SymDims& shape) {
  switch (t.kind) {
    case Term::kVariable:
      return variables[t.variable];
    case Term::kNumber: {
      const Scalar s = dtype == DType::kBool ? Scalar(t.number != 0)
                       : is_floating(dtype)  ? Scalar(t.number)
                                             : Scalar(static_cast<int64_t>(t.number));
      return b.expand(b.constant(s, dtype), shape);
    }
    case Term::kOp:
      break;
  }
  std::vector<Value> operands;
  for (size_t i = 0; i < t.operands.size(); ++i) {
    const bool condition = t.op == ir::Op::kWhere && i == 0;
    operands.push_back(build(b, t.operands[i], variables, condition ? DType::kBool : dtype, shape));
  }
  return b.elementwise(t.op, std::span<const Value>(operands));
}

bool is_condition(const Term& t, int variable, bool here = false) {
  if (t.kind == Term::kVariable) return here && t.variable == variable;
  for (size_t i = 0; i < t.operands.size(); ++i) {
    const bool condition = (t.op == ir::Op::kWhere && i == 0) || (here && t.op == ir::Op::kLogicalNot);
    if (is_condition(t.operands[i], variable, condition)) return true;
  }
  return false;
}

bool takes(const Rule& r, DType t) {
  const Category c = category(t);
  if (r.guard == Rule::kFloat && c != Category::kFloat) return false;
  if (r.guard == Rule::kInteger && c != Category::kInt) return false;
  if (r.guard == Rule::kBool && c != Category::kBool) return false;
  return ir::scalar::info(static_cast<ir::scalar::Primitive>(r.before.op)).takes(t);
}

class RuleTest : public ::testing::TestWithParam<int> {};

TEST_P(RuleTest, IsExactAndApplies) {
  const Rule& rule = rules()[GetParam()];
  SCOPED_TRACE(rule.name);
  int tried = 0;
  for (int d = 0; d < kNumDTypes; ++d) {
    const auto t = static_cast<DType>(d);
    if (!takes(rule, t)) continue;
    ++tried;
    const auto values = specials(t), conditions = specials(DType::kBool);
    // All triples of special values.
    std::vector<Scalar> columns[3];
    for (const Scalar& x : is_condition(rule.before, 0) ? conditions : values) {
      for (const Scalar& y : values) {
        for (const Scalar& z : values) {
          columns[0].push_back(x);
          columns[1].push_back(y);
          columns[2].push_back(z);
        }
      }
    }
    const auto n = static_cast<int64_t>(columns[0].size());
    PlanTest before, after;
    std::vector<ir::PlainTensor> leaves;
    for (PlanTest* side : {&before, &after}) {
      const ir::Dim size = side->size(n);
      std::vector<Value> inputs;
      for (int i = 0; i < 3; ++i) {
        const DType dtype = is_condition(rule.before, i) ? DType::kBool : t;
        inputs.push_back(side->input({size}, dtype));
        if (side == &before) leaves.push_back({dtype, Dims{n}, columns[i]});
      }
      side->output(build(side->b, side == &before ? rule.before : rule.after, inputs, t, {size}));
    }
    const auto x = ir::interpret(before.g, leaves), y = ir::interpret(after.g, leaves);
    ASSERT_EQ(x[0].dtype, y[0].dtype);
    for (int64_t i = 0; i < n; ++i) {
      const double a = x[0].elements[i].to_double(), b = y[0].elements[i].to_double();
      if (std::isnan(a) && std::isnan(b)) continue;
      ASSERT_EQ(x[0].elements[i].bits(), y[0].elements[i].bits())
          << name(t) << ' ' << a << " became " << b << " at " << columns[0][i].to_double() << ", "
          << columns[1][i].to_double() << ", " << columns[2][i].to_double();
    }
    Counter& hits = counter("rule." + std::string(rule.name));
    const int64_t before_hits = hits.value();
    run_stages(before.g, {});
    EXPECT_GT(hits.value(), before_hits) << "the rule does not apply to " << name(t);
  }
  EXPECT_GT(tried, 0);
}

INSTANTIATE_TEST_SUITE_P(All, RuleTest, ::testing::Range(0, static_cast<int>(rules().size())),
                         [](const auto& info) { return std::string(rules()[info.param].name); });

int size_of(const Term& t) {
  int n = 1;
  for (const Term& x : t.operands) n += size_of(x);
  return n;
}

TEST(Rules, RewritingEnds) {
  for (const Rule& r : rules()) EXPECT_LT(size_of(r.after), size_of(r.before)) << r.name;
}

TEST(Rules, WrongTermsAreRefused) {
  for (const char* text : {"", "mul(x", "mul(x,)", "foo(x)", "mul(x, 1) y", "1.2.3"}) {
    EXPECT_THROW(parse_term(text), ValueError) << text;
  }
}

size_t nodes_after(PlanTest& t) { return run_stages(t.g, {}).graph.nodes.size(); }

TEST(Simplify, MergesEqualNodesButNotRandomOnes) {
  PlanTest t;
  const auto n = t.size(5);
  const Value x = t.input({n}), seed = t.number(Scalar(int64_t{1})), offset = t.number(Scalar(int64_t{2}));
  t.output(exp(x) + 1.0);
  t.output(exp(x) + 1.0);
  t.output(t.b.random_bits({n}, seed, offset));
  t.output(t.b.random_bits({n}, seed, offset));
  t.output(t.b.barrier(exp(x)));
  const Program p = run_stages(t.g, {});
  int exps = 0, bits = 0;
  for (const ir::Node& node : p.graph.nodes) {
    exps += node.op == ir::Op::kExp;
    bits += node.op == ir::Op::kRandomBits;
  }
  EXPECT_EQ(exps, 1);
  EXPECT_EQ(bits, 2);
}

TEST(Simplify, FoldsNumbers) {
  PlanTest t;
  const Value x = t.input({t.size(5)});
  const Value two = t.b.constant(Scalar(2.0)), half = 1.0 / two;
  t.output(x * (half - 0.25) + t.b.cast(two, DType::kFloat32));
  t.check(0);
  const Program p = run_stages(t.g, {});
  int ops = 0;
  for (const ir::Node& n : p.graph.nodes) ops += ir::is_elementwise_primitive(n.op);
  EXPECT_EQ(ops, 2);
}

TEST(Simplify, CastsThereAndBack) {
  PlanTest t;
  const auto n = t.size(5);
  const Value x = t.input({n}, DType::kBFloat16);
  t.output(t.b.cast(t.b.cast(x, DType::kFloat32), DType::kBFloat16));
  EXPECT_EQ(t.compile()->outputs()[0].same_as_leaf, 0);
  PlanTest u;
  const Value y = u.input({u.size(5)}, DType::kFloat32);
  u.output(u.b.cast(u.b.cast(y, DType::kBFloat16), DType::kFloat32));
  EXPECT_EQ(u.compile()->outputs()[0].same_as_leaf, -1);
}

TEST(Simplify, TransposesThereAndBack) {
  PlanTest t;
  const auto n = t.size(5), m = t.size(6);
  const Value x = t.input({n, m});
  t.output(t.b.permute(t.b.permute(x, {1, 0}), {1, 0}));
  EXPECT_EQ(t.compile()->outputs()[0].same_as_leaf, 0);
  EXPECT_EQ(nodes_after(t), 2u);  // the leaf, and the transpose that nothing reads
}

}  // namespace
}  // namespace smolder::jit
