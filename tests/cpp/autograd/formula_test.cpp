// Every gradient formula of the op table against central differences, on the inputs of op_values.json in
// float64; and the compositions used for gradients of gradients against the whole ops.
#include "smolder/autograd/formula.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "smolder/ir/attrs.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/record.h"

namespace smolder::autograd {
namespace {

using nlohmann::json;

double number(const json& v) {
  if (!v.is_string()) return v.is_boolean() ? v.get<bool>() : v.get<double>();
  const std::string s = v;
  return s == "nan" ? std::numeric_limits<double>::quiet_NaN()
                    : (s[0] == '-' ? -1 : 1) * std::numeric_limits<double>::infinity();
}

Tensor make(const std::vector<double>& data, const Dims& shape) {
  return Tensor::from_data(data.data(), shape, DType::kFloat64);
}

/// One call: floating tensors are kept as float64 data that can be changed element by element.
struct Call {
  struct Input {
    Tensor tensor;
    std::optional<Scalar> number;
    std::vector<double> data;  ///< of a floating tensor

    lazy::Operand operand() const { return number ? lazy::Operand(*number) : lazy::Operand::optional(tensor); }
  };
  ir::Op op;
  std::vector<Input> inputs;
  std::vector<int64_t> words;

  std::vector<Tensor> run() const {
    std::vector<lazy::Operand> operands;
    for (const Input& i : inputs) operands.push_back(i.operand());
    std::vector<Tensor> out(ir::info(op).num_outputs);
    lazy::record(op, operands, words, out.data());
    return out;
  }
};

Call::Input input(const json& v) {
  Call::Input in;
  if (v.is_null()) return in;
  if (!v.is_object()) {
    in.number = v.is_boolean()          ? Scalar(v.get<bool>())
                : v.is_number_integer() ? Scalar(v.get<int64_t>())
                                        : Scalar(number(v));
    return in;
  }
  Dims shape;
  for (int64_t n : v["shape"]) shape.push_back(n);
  const DType t = *parse_dtype(v["dtype"].get<std::string>());
  if (is_floating(t)) {
    for (const json& x : v["data"]) in.data.push_back(number(x));
    in.tensor = make(in.data, shape);
  } else {
    std::vector<int64_t> wide;
    for (const json& x : v["data"]) wide.push_back(x.get<int64_t>());
    in.tensor = Tensor::from_data(wide.data(), shape, DType::kInt64).to(t);
  }
  return in;
}

void add_attr(std::vector<int64_t>& words, const ir::AttrInfo& a, const json& v) {
  using Kind = ir::AttrKind;
  const auto list = [&] {
    const json items = v.is_array() ? v : v.is_null() ? json::array() : json::array({v});
    words.push_back(static_cast<int64_t>(items.size()));
    for (const json& x : items) words.push_back(x.get<int64_t>());
  };
  const auto value = [&]() -> int64_t {
    if (v.is_null()) return 0;
    switch (a.kind) {
      case Kind::kFloat:
      case Kind::kOptionalFloat:
        return std::bit_cast<int64_t>(number(v));
      case Kind::kString:
        return std::find(a.choices.begin(), a.choices.end(), v.get<std::string>()) - a.choices.begin();
      case Kind::kDType:
      case Kind::kOptionalDType:
        return static_cast<int64_t>(*parse_dtype(v.get<std::string>()));
      default:
        return v.is_boolean() ? v.get<bool>() : v.get<int64_t>();
    }
  };
  switch (a.kind) {
    case Kind::kIntList:
    case Kind::kSizeList:
      return list();
    case Kind::kOptionalIntList:
      words.push_back(!v.is_null());
      return list();
    case Kind::kOptionalInt:
    case Kind::kOptionalSize:
    case Kind::kOptionalFloat:
    case Kind::kOptionalDType:
      words.push_back(!v.is_null());
      [[fallthrough]];
    default:
      words.push_back(value());
  }
}

Call call_of(const json& r) {
  Call c{ir::find_op(r["op"].get<std::string>()), {}, {}};
  for (const json& v : r["in"]) {
    if (v.is_array()) {
      for (const json& part : v) c.inputs.push_back(input(part));
    } else {
      c.inputs.push_back(input(v));
    }
  }
  for (size_t i = 0; i < ir::info(c.op).attrs.size(); ++i) add_attr(c.words, ir::info(c.op).attrs[i], r["attrs"][i]);
  return c;
}

/// The operand of the signature that input `i` belongs to.
int operand_of(const Call& c, size_t i) { return static_cast<int>(std::min(i, ir::info(c.op).operands.size() - 1)); }

/// Gradients of the inputs by the op's formula, which sees only what GradInfo says it needs.
std::vector<Tensor> gradients(const Call& c, const std::vector<Tensor>& outputs, const Tensor& grad,
                              std::optional<size_t> only = {}) {
  const GradInfo& info = *grad_info(c.op);
  const size_t n = c.inputs.size();
  std::vector<ir::Meta> numbers(n);
  std::vector<const ir::Meta*> metas(n);
  std::vector<Tensor> saved(n), saved_outputs(outputs.size()), grads(outputs.size()), results(n);
  std::vector<Scalar> scalars(n, Scalar(0));
  const auto needed = std::make_unique<bool[]>(n);
  uint32_t wanted = 0;
  for (size_t i = 0; i < n; ++i) {
    const Call::Input& in = c.inputs[i];
    const int at = operand_of(c, i);
    needed[i] = !in.data.empty() && (info.differentiable_inputs >> at & 1) && (!only || *only == i);
    if (needed[i]) wanted |= 1u << at;
    if (in.number) {
      scalars[i] = *in.number;
      numbers[i] = {{}, in.number->dtype(DType::kFloat64), true};
    }
    metas[i] = in.number ? &numbers[i] : in.tensor.defined() ? &in.tensor.meta() : nullptr;
  }
  const Saves saves = info.saves_for(wanted);
  for (size_t i = 0; i < n; ++i) {
    if (saves.inputs >> operand_of(c, i) & 1) saved[i] = c.inputs[i].tensor;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (saves.outputs >> i & 1) saved_outputs[i] = outputs[i];
  }
  grads[0] = grad;
  FormulaContext context{.metas = metas,
                         .inputs = saved,
                         .numbers = scalars,
                         .outputs = saved_outputs,
                         .attrs = c.words,
                         .grads = grads,
                         .needed = {needed.get(), n},
                         .results = results,
                         .products = {}};
  info.formula(context);
  return results;
}

double dot(const Tensor& a, const std::vector<double>& b) {
  const std::vector<double> v = a.to_vector<double>();
  double sum = 0;
  for (size_t i = 0; i < v.size(); ++i) sum += v[i] * b[i];
  return sum;
}

/// d(sum(output * grad)) / d(element `e` of input `i`), by central differences.
double slope(Call c, size_t i, size_t e, const std::vector<double>& grad) {
  constexpr double kStep = 1e-6;
  const double x = c.inputs[i].data[e];
  double value[2];
  for (int side = 0; side < 2; ++side) {
    c.inputs[i].data[e] = x + (side ? kStep : -kStep);
    c.inputs[i].tensor = make(c.inputs[i].data, c.inputs[i].tensor.shape());
    value[side] = dot(c.run()[0], grad);
  }
  return (value[1] - value[0]) / (2 * kStep);
}

std::vector<double> random_like(const Tensor& t, std::mt19937& rng) {
  std::uniform_real_distribution<double> real(-1, 1);
  std::vector<double> out(t.numel());
  for (double& v : out) v = real(rng);
  return out;
}

const std::vector<json>& records() {
  static const auto* const kRecords = [] {
    std::ifstream file("tests/golden/op_values.json");
    auto* out = new std::vector<json>;
    for (json& r : json::parse(file)) {
      const ir::Op op = ir::find_op(r["op"].get<std::string>());
      // One dtype is enough: all is computed in float64 here.
      const bool half = r["in"].dump().find("bfloat16") != std::string::npos;
      if (grad_info(op) && !half) out->push_back(std::move(r));
    }
    return out;
  }();
  return *kRecords;
}

// Zero by definition where the function is flat, or an integer's.
bool is_flat(ir::Op op) {
  // The last two are of complex tensors, which no record has: see below.
  static const std::set<std::string_view> kFlat = {"fill", "zero", "copy", "view_as_real", "view_as_complex"};
  return kFlat.contains(ir::name(op));
}

TEST(Formulas, AgreeWithDifferences) {
  std::mt19937 rng(3);
  std::map<std::string_view, int> checked;
  for (const json& r : records()) {
    const Call c = call_of(r);
    const std::vector<Tensor> outputs = c.run();
    if (outputs[0].dtype() != DType::kFloat64 || is_flat(c.op)) continue;
    SCOPED_TRACE(r["op"].get<std::string>() + " " + r["in"].dump() + " " + r["attrs"].dump());
    const std::vector<double> grad = random_like(outputs[0], rng);
    const Tensor g = make(grad, outputs[0].shape());
    const std::vector<Tensor> grads = gradients(c, outputs, g);
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const Call::Input& in = c.inputs[i];
      if (in.data.empty() || !(grad_info(c.op)->differentiable_inputs >> operand_of(c, i) & 1)) continue;
      const std::vector<Tensor> alone = gradients(c, outputs, g, i);
      ASSERT_EQ(alone[i].defined(), grads[i].defined());
      if (!grads[i].defined()) continue;
      ASSERT_EQ(grads[i].shape(), in.tensor.shape());
      ASSERT_EQ(grads[i].dtype(), in.tensor.dtype());
      const std::vector<double> got = grads[i].to_vector<double>();
      EXPECT_EQ(alone[i].to_vector<double>(), got) << "input " << i << " when it alone needs a gradient";
      for (size_t e = 0; e < got.size(); ++e) {
        const double want = slope(c, i, e, grad);
        ASSERT_NEAR(got[e], want, 2e-5 * (1 + std::abs(want))) << "input " << i << ", element " << e;
      }
      ++checked[ir::name(c.op)];
    }
  }
  for (const ir::OpInfo& row : ir::op_table()) {
    if (!grad_info(ir::find_op(row.name)) || row.flags.random || is_flat(ir::find_op(row.name))) continue;
    EXPECT_GT(checked[row.name], 0) << row.name << " has a gradient that no case checks";
  }
}

TEST(Formulas, ThroughComplexNumbers) {
  const std::vector<double> data = {1, 2, -3, 0.5}, weights = {3, -1, 0.25, 2};
  Tensor x = make(data, {2, 2});
  x.requires_grad_();
  const Tensor z = view_as_complex(x);
  EXPECT_EQ(z.dtype(), DType::kComplex128);
  sum(view_as_real(z * z) * make(weights, {2, 2})).backward();
  for (int i = 0; i < 2; ++i) {  // z^2 = a^2 - b^2 + 2ab i
    const double a = data[2 * i], b = data[2 * i + 1], u = weights[2 * i], v = weights[2 * i + 1];
    const std::vector<double> got = x.grad().to_vector<double>();
    EXPECT_DOUBLE_EQ(got[2 * i], 2 * a * u + 2 * b * v);
    EXPECT_DOUBLE_EQ(got[2 * i + 1], -2 * b * u + 2 * a * v);
  }
  EXPECT_THROW(view_as_real(x), RuntimeError);
  EXPECT_THROW(floor(z), NotImplementedError);
}

// With grad mode on, whole gradient ops are replaced by compositions that can be differentiated again.
TEST(Formulas, CompositionsAgreeWithWholeOps) {
  std::mt19937 rng(5);
  int compared = 0;
  for (const json& r : records()) {
    const std::string op = r["op"];
    if (op != "cross_entropy" && op != "layer_norm" && op != "attention") continue;
    SCOPED_TRACE(op + " " + r["in"].dump() + " " + r["attrs"].dump());
    const Call c = call_of(r);
    const std::vector<Tensor> outputs = c.run();
    const Tensor g = make(random_like(outputs[0], rng), outputs[0].shape());
    std::vector<std::vector<Tensor>> both;
    for (bool on : {false, true}) {
      const lazy::GradMode mode(on);
      both.push_back(gradients(c, outputs, g));
    }
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      ASSERT_EQ(both[0][i].defined(), both[1][i].defined());
      if (!both[0][i].defined()) continue;
      const auto whole = both[0][i].to_vector<double>(), composed = both[1][i].to_vector<double>();
      for (size_t e = 0; e < whole.size(); ++e) ASSERT_NEAR(whole[e], composed[e], 1e-12) << "input " << i;
      ++compared;
    }
  }
  EXPECT_GT(compared, 10);
}

TEST(Formulas, SaveNoMoreThanTheyNeed) {
  const auto saves = [](ir::Op op, uint32_t needed) { return grad_info(op)->saves_for(needed); };
  EXPECT_EQ(saves(ir::Op::kAdd, 3).inputs, 0u);
  EXPECT_EQ(saves(ir::Op::kMul, 1).inputs, 2u);  // the gradient of self needs other,
  EXPECT_EQ(saves(ir::Op::kMul, 2).inputs, 1u);  // and the other way round
  EXPECT_EQ(saves(ir::Op::kExp, 1).inputs, 0u);
  EXPECT_EQ(saves(ir::Op::kExp, 1).outputs, 1u);
  EXPECT_EQ(saves(ir::Op::kSum, 1).inputs, 0u);  // a shape is no value
  EXPECT_EQ(saves(ir::Op::kLinear, 6).inputs, 1u);
  EXPECT_EQ(saves(ir::Op::kCat, 1).inputs, 0u);
  EXPECT_EQ(grad_info(ir::Op::kArgmax), nullptr);
}

}  // namespace
}  // namespace smolder::autograd
