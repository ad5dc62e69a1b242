// Every row of the op table against what PyTorch computes (tests/golden/op_values.json): the shape rule,
// the decomposition on symbolic sizes, and the same decomposition bound to other sizes.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "smolder/ir/builder.h"
#include "smolder/ir/interpret.h"
#include "smolder/ir/interpret_number.h"

namespace smolder::ir {
namespace {

using nlohmann::json;

double number(const json& v) {
  if (!v.is_string()) return v.is_boolean() ? v.get<bool>() : v.get<double>();
  const std::string s = v;
  return s == "nan" ? std::numeric_limits<double>::quiet_NaN()
                    : (s[0] == '-' ? -1 : 1) * std::numeric_limits<double>::infinity();
}

PlainTensor tensor(const json& v) {
  PlainTensor t{*parse_dtype(v["dtype"].get<std::string>()), {}, {}, false};
  for (int64_t n : v["shape"]) t.shape.push_back(n);
  for (const json& x : v["data"]) {
    t.elements.push_back(x.is_number_integer() ? reference::convert(x.get<int64_t>(), t.dtype)
                                               : reference::convert(number(x), t.dtype));
  }
  return t;
}

/// One call: tensors, numbers and absent operands in the order of the signature, and attribute words with
/// which of them are sizes.
struct Call {
  Op op;
  std::vector<std::optional<PlainTensor>> operands;
  std::vector<int64_t> words;
  std::vector<bool> is_size;
};

void add_word(Call& c, int64_t word, bool is_size = false) {
  c.words.push_back(word);
  c.is_size.push_back(is_size);
}

void add_list(Call& c, const json& v, bool is_size) {
  const json list = v.is_array() ? v : v.is_null() ? json::array() : json::array({v});
  add_word(c, static_cast<int64_t>(list.size()));
  for (const json& x : list) add_word(c, x.get<int64_t>(), is_size);
}

void add_attr(Call& c, const AttrInfo& a, const json& v) {
  const auto dtype = [&] { return static_cast<int64_t>(*parse_dtype(v.get<std::string>())); };
  const auto present = [&] { add_word(c, !v.is_null()); };
  switch (a.kind) {
    case AttrKind::kInt:
      return add_word(c, v.get<int64_t>());
    case AttrKind::kSize:
      return add_word(c, v.get<int64_t>(), true);
    case AttrKind::kBool:
      return add_word(c, v.get<bool>());
    case AttrKind::kFloat:
      return add_word(c, std::bit_cast<int64_t>(number(v)));
    case AttrKind::kString:
      return add_word(c, std::find(a.choices.begin(), a.choices.end(), v.get<std::string>()) - a.choices.begin());
    case AttrKind::kDType:
      return add_word(c, dtype());
    case AttrKind::kOptionalInt:
      present();
      return add_word(c, v.is_null() ? 0 : v.get<int64_t>());
    case AttrKind::kOptionalSize:
      present();
      return add_word(c, v.is_null() ? 0 : v.get<int64_t>(), true);
    case AttrKind::kOptionalFloat:
      present();
      return add_word(c, v.is_null() ? 0 : std::bit_cast<int64_t>(number(v)));
    case AttrKind::kOptionalDType:
      present();
      return add_word(c, v.is_null() ? 0 : dtype());
    case AttrKind::kIntList:
      return add_list(c, v, false);
    case AttrKind::kOptionalIntList:
      present();
      return add_list(c, v, false);
    case AttrKind::kSizeList:
      return add_list(c, v, true);
  }
}

Call call_of(const json& r) {
  Call c;
  c.op = find_op(r["op"].get<std::string>());
  for (const json& v : r["in"]) {
    if (v.is_null()) {
      c.operands.emplace_back();
    } else if (v.is_array()) {
      for (const json& part : v) c.operands.emplace_back(tensor(part));
    } else if (v.is_object()) {
      c.operands.emplace_back(tensor(v));
    } else {
      const Scalar s = v.is_boolean()          ? Scalar(v.get<bool>())
                       : v.is_number_integer() ? Scalar(v.get<int64_t>())
                                               : Scalar(number(v));
      c.operands.emplace_back(PlainTensor{s.dtype(DType::kFloat64), {}, {s}, true});
    }
  }
  for (size_t i = 0; i < info(c.op).attrs.size(); ++i) add_attr(c, info(c.op).attrs[i], r["attrs"][i]);
  return c;
}

std::vector<Meta> infer(const Call& c) {
  std::vector<Meta> metas(c.operands.size()), out(info(c.op).num_outputs);
  std::vector<const Meta*> inputs;
  for (size_t i = 0; i < metas.size(); ++i) {
    if (c.operands[i]) metas[i] = {c.operands[i]->shape, c.operands[i]->dtype, c.operands[i]->weak};
    inputs.push_back(c.operands[i] ? &metas[i] : nullptr);
  }
  info(c.op).infer({inputs, c.words}, out.data());
  return out;
}

/// The decomposition of a call, with every extent and size word a symbol, and what to run it on.
struct Program {
  Graph g;
  std::vector<PlainTensor> leaves;
  std::vector<uint64_t> parameters;
  std::vector<int64_t> symbols;

  Dim symbol(int64_t n) {
    symbols.push_back(n);
    return g.sym.symbol(n);
  }
};

Program decompose(const Call& c) {
  Program p;
  Builder b(p.g);
  Node node{.op = c.op};
  for (const auto& t : c.operands) {
    if (!t) {
      node.inputs.push_back(kNone);
    } else if (t->weak) {
      const Category category = t->elements[0].category();
      node.inputs.push_back(b.parameter(static_cast<int>(p.parameters.size()), category).id);
      p.parameters.push_back(t->elements[0].bits());
    } else {
      SymDims shape;
      for (int64_t n : t->shape) shape.push_back(p.symbol(n));
      node.inputs.push_back(b.leaf(static_cast<int>(p.leaves.size()), t->dtype, shape).id);
      p.leaves.push_back(*t);
    }
  }
  for (size_t i = 0; i < c.words.size(); ++i)
    node.attrs.push_back(c.is_size[i] ? p.symbol(c.words[i]) : Dim(c.words[i]));
  std::vector<ValueInfo> results;
  for (const Meta& m : infer(c))
    results.push_back({.node = kNone, .dtype = m.dtype, .weak = m.weak, .shape = SymDims(m.shape)});
  p.g.outputs.resize(results.size());
  info(c.op).decompose(b, node, results, p.g.outputs.data());
  verify(p.g);
  return p;
}

double tolerance(DType t) {
  return t == DType::kBFloat16 ? 0x1p-7 : t == DType::kFloat16 ? 0x1p-10 : t == DType::kFloat32 ? 4e-6 : 1e-12;
}

void expect_near(const PlainTensor& got, const PlainTensor& want, double scale = 1) {
  ASSERT_EQ(got.dtype, want.dtype) << name(got.dtype) << " instead of " << name(want.dtype);
  ASSERT_EQ(got.shape, want.shape);
  for (size_t i = 0; i < want.elements.size(); ++i) {
    const double a = got.elements[i].to_double(), e = want.elements[i].to_double();
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    ASSERT_TRUE(is_floating(want.dtype)) << "element " << i << ": " << a << " instead of " << e;
    ASSERT_LE(std::abs(a - e), scale * tolerance(want.dtype) * (std::abs(e) + 0.5))
        << "element " << i << ": " << a << " instead of " << e;
  }
}

const std::vector<json>& records() {
  static const auto* const kRecords = [] {
    std::ifstream file("tests/golden/op_values.json");
    return new std::vector<json>(json::parse(file).get<std::vector<json>>());
  }();
  return *kRecords;
}

TEST(OpValues, AgreeWithTorch) {
  ASSERT_GT(records().size(), 1000u);
  for (const json& r : records()) {
    SCOPED_TRACE(r["op"].get<std::string>() + " " + r["in"].dump() + " " + r["attrs"].dump());
    const Call c = call_of(r);
    const std::vector<Meta> metas = infer(c);
    const Program p = decompose(c);
    const std::vector<PlainTensor> got = interpret(p.g, p.leaves, p.parameters);
    for (size_t i = 0; i < r["out"].size(); ++i) {
      if (r["out"][i].is_null()) continue;
      const PlainTensor want = tensor(r["out"][i]);
      EXPECT_EQ(metas[i].shape, want.shape);
      EXPECT_EQ(metas[i].dtype, want.dtype);
      expect_near(got[i], want);
    }
  }
}

/// The call with every size n above 1 made n + 1, and new elements.
Call grown(const Call& c, std::mt19937& rng) {
  Call out = c;
  std::uniform_real_distribution<double> real(0.2, 0.8);
  for (auto& t : out.operands) {
    if (!t || t->weak) continue;
    for (int64_t& n : t->shape) n += n > 1;
    t->elements.clear();
    for (int64_t i = numel(t->shape); i > 0; --i) {
      t->elements.push_back(is_floating(t->dtype) ? reference::convert(real(rng), t->dtype)
                                                  : reference::convert(int64_t{rng() % 2}, t->dtype));
    }
  }
  for (size_t i = 0; i < out.words.size(); ++i) out.words[i] += out.is_size[i] && out.words[i] > 1;
  return out;
}

bool guards_hold(const Program& p, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> values;
  SymTable::evaluate(p.g.sym.exprs(), symbols, values);
  return std::all_of(p.g.sym.guards().begin(), p.g.sym.guards().end(),
                     [&](const Guard& g) { return SymTable::holds(g, values); });
}

// A program made from one sample of sizes and bound to another must do what one made from the other does.
TEST(OpValues, GeneraliseToOtherSizes) {
  std::mt19937 rng(1);
  std::map<std::string, int> bound;
  for (const json& r : records()) {
    const std::string op = r["op"];
    SCOPED_TRACE(op + " " + r["in"].dump() + " " + r["attrs"].dump());
    const Call c = call_of(r), other = grown(c, rng);
    const Program p = decompose(c);
    std::optional<Program> direct;
    try {
      direct = decompose(other);
    } catch (const Error&) {
      continue;  // the sizes no longer fit together
    }
    if (!guards_hold(p, direct->symbols)) continue;
    ++bound[op];
    const auto got = interpret(p.g, direct->leaves, direct->parameters, direct->symbols);
    const auto want = interpret(direct->g, direct->leaves, direct->parameters);
    for (size_t i = 0; i < want.size(); ++i) expect_near(got[i], want[i], 0);
  }
  for (const char* op : {"add", "mean", "var", "softmax", "layer_norm", "cross_entropy", "matmul", "linear",
                         "attention", "embedding", "slice", "pad", "cat", "adamw_step", "argmax"}) {
    EXPECT_GT(bound[op], 0) << op << " was bound to no other size";
  }
}

}  // namespace
}  // namespace smolder::ir
