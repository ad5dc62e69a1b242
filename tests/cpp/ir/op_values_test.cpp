// Every row of the op table against what PyTorch computes (tests/golden/op_values.json): the shape rule,
// the decomposition on symbolic sizes, and the same decomposition bound to other sizes.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "op_calls.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/interpret.h"
#include "smolder/ir/interpret_number.h"

namespace smolder::ir::test {
namespace {

using nlohmann::json;

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

TEST(OpValues, AgreeWithTorch) {
  ASSERT_GT(op_records().size(), 1000u);
  for (const json& r : op_records()) {
    SCOPED_TRACE(r["op"].get<std::string>() + " " + r["in"].dump() + " " + r["attrs"].dump());
    const Call c = call_of(r);
    const std::vector<Meta> metas = infer(c);
    const Program p = decompose(c);
    const std::vector<PlainTensor> got = interpret(p.g, p.leaves, p.parameters);
    for (size_t i = 0; i < r["out"].size(); ++i) {
      if (r["out"][i].is_null()) continue;
      const PlainTensor want = tensor_of(r["out"][i]);
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
                                                  : reference::convert(static_cast<int64_t>(rng() % 2), t->dtype));
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
  for (const json& r : op_records()) {
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
}  // namespace smolder::ir::test
