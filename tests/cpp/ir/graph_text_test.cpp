// The text form is an exact inverse of itself, over every op and attribute kind; malformed text and graphs are
// told by place.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "smolder/ir/decompose.h"
#include "smolder/ir/graph.h"

namespace smolder::ir {
namespace {

void expect_same(const Dim& a, const Dim& b, const Graph& g, const Graph& h) {
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(g.sym.to_string(a), h.sym.to_string(b));
}

/// Equal but for the numbering of expressions.
void expect_same(const Graph& a, const Graph& b) {
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  ASSERT_EQ(a.values.size(), b.values.size());
  EXPECT_EQ(a.outputs, b.outputs);
  EXPECT_EQ(a.sym.num_symbols(), b.sym.num_symbols());
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    const Node &x = a.nodes[i], &y = b.nodes[i];
    EXPECT_EQ(x.op, y.op);
    EXPECT_EQ(x.num_outputs, y.num_outputs);
    EXPECT_EQ(x.first_output, y.first_output);
    EXPECT_EQ(x.inputs, y.inputs);
    EXPECT_EQ(x.origin.source, y.origin.source);
    ASSERT_EQ(x.attrs.size(), y.attrs.size());
    for (size_t k = 0; k < x.attrs.size(); ++k) expect_same(x.attrs[k], y.attrs[k], a, b);
  }
  for (size_t i = 0; i < a.values.size(); ++i) {
    const ValueInfo &x = a.values[i], &y = b.values[i];
    EXPECT_EQ(x.node, y.node);
    EXPECT_EQ(x.dtype, y.dtype);
    EXPECT_EQ(x.weak, y.weak);
    ASSERT_EQ(x.shape.size(), y.shape.size());
    for (int k = 0; k < x.shape.size(); ++k) expect_same(x.shape[k], y.shape[k], a, b);
  }
  ASSERT_EQ(a.sym.guards().size(), b.sym.guards().size());
  for (size_t i = 0; i < a.sym.guards().size(); ++i) {
    const Guard &x = a.sym.guards()[i], &y = b.sym.guards()[i];
    EXPECT_EQ(x.kind, y.kind);
    expect_same(x.a, y.a, a, b);
    expect_same(x.b, y.b, a, b);
  }
}

void expect_round_trip(const Graph& g) {
  const std::string text = print(g);
  SCOPED_TRACE(text);
  Graph back;
  ASSERT_NO_THROW(back = parse(text));
  expect_same(g, back);
  EXPECT_EQ(print(back), text);
}

ValueInfo value(DType t, SymDims shape, bool weak = false) { return {kNone, t, weak, shape}; }

TEST(GraphText, DecompositionsOverSymbolicSizes) {
  Graph g;
  Builder b(g);
  const Dim rows = g.sym.symbol(300), columns = g.sym.symbol(200000), one = g.sym.symbol(1);
  b.set_origin({7, {}});
  const Value x = b.leaf(0, DType::kBFloat16, {rows, columns, one}), y = b.leaf(1, DType::kFloat32, {columns, 1});
  const Value lr = b.parameter(0, Category::kFloat);
  b.set_origin({});
  const Value z = b.cast(x, DType::kFloat32) * lr + exp(y) * 0.1;
  const Value m = mean(z, {0, 1}, true);
  const Value s = b.slice(b.reshape(z, {g.sym.mul(rows, columns)}), 0, 3, g.sym.sub(g.sym.mul(rows, columns), 5), 2);
  g.outputs = {m.id, s.id, lr.id};
  verify(g);
  ASSERT_FALSE(g.sym.guards().empty());
  expect_round_trip(g);
  EXPECT_NE(print(g).find("symbols s0=300, s1=200000, s2=fixed\n"), std::string::npos) << print(g);
  EXPECT_NE(print(g).find("@7"), std::string::npos);
}

TEST(GraphText, ConstantsKeepCategoryAndBits) {
  Graph g;
  Builder b(g);
  for (double v : {0.5, -0.0, 2.0, 1e300, 5e-324, 0.1, std::numeric_limits<double>::infinity(),
                   -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
                   -std::numeric_limits<double>::signaling_NaN()}) {
    g.outputs.push_back(b.constant(Scalar(v)).id);
  }
  for (int64_t v : {int64_t{0}, int64_t{-7}, std::numeric_limits<int64_t>::min()}) {
    g.outputs.push_back(b.constant(Scalar(v)).id);
  }
  g.outputs.push_back(b.constant(true).id);
  g.outputs.push_back(b.constant(false).id);
  g.outputs.push_back(b.constant(Scalar(3), DType::kFloat16).id);
  verify(g);
  expect_round_trip(g);
}

/// Words of one attribute, drawn at random; sizes are expressions now and then.
void draw_words(std::mt19937& random, Graph& g, const AttrInfo& a, std::vector<Dim>& words) {
  const auto number = [&] { return static_cast<int64_t>(random() % 2000) - 1000; };
  const auto size = [&]() -> Dim {
    const Dim s = g.sym.symbol(number() + 2000);
    return random() % 2 ? Dim(number()) : random() % 2 ? s : g.sym.add(g.sym.mul(s, s), number());
  };
  const auto list = [&](auto item) {
    const int n = static_cast<int>(random() % 4);
    words.push_back(n);
    for (int i = 0; i < n; ++i) words.push_back(item());
  };
  const auto optional = [&](auto present) {
    if (random() % 2) {
      words.push_back(1);
      present();
    } else {
      words.insert(words.end(), {0, 0});
    }
  };
  const auto real = [&]() -> int64_t { return std::bit_cast<int64_t>(number() * 0.37); };
  const auto dtype = [&]() -> int64_t { return random() % kNumDTypes; };
  switch (a.kind) {
    case AttrKind::kInt:
      return words.push_back(number());
    case AttrKind::kBool:
      return words.push_back(static_cast<int64_t>(random() % 2));
    case AttrKind::kFloat:
      return words.push_back(real());
    case AttrKind::kString:
      return words.push_back(static_cast<int64_t>(random() % a.choices.size()));
    case AttrKind::kDType:
      return words.push_back(dtype());
    case AttrKind::kOptionalInt:
      return optional([&] { words.push_back(number()); });
    case AttrKind::kOptionalFloat:
      return optional([&] { words.push_back(real()); });
    case AttrKind::kOptionalDType:
      return optional([&] { words.push_back(dtype()); });
    case AttrKind::kIntList:
      return list(number);
    case AttrKind::kOptionalIntList:
      return optional([&] { list(number); });
    case AttrKind::kSize:
      return words.push_back(size());
    case AttrKind::kOptionalSize:
      return optional([&] { words.push_back(size()); });
    case AttrKind::kSizeList:
      return list(size);
  }
}

TEST(GraphText, EveryOpWithRandomAttributes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    Graph g;
    const ValueInfo leaf = value(DType::kFloat32, {2, 3});
    g.append(Op::kLeaf, {}, {0, 0, 2, 3, 1}, {&leaf, 1});
    for (const OpInfo& op : op_table()) {
      std::vector<ValueId> inputs;
      for (const OperandInfo& o : op.operands) {
        const bool absent = o.kind == OperandInfo::kOptionalTensor && random() % 2;
        const int n = o.kind == OperandInfo::kTensorList ? static_cast<int>(random() % 3) : 1;
        for (int i = 0; i < n; ++i) {
          inputs.push_back(absent ? kNone : static_cast<ValueId>(random() % g.values.size()));
        }
      }
      std::vector<Dim> attrs;
      for (const AttrInfo& a : op.attrs) draw_words(random, g, a, attrs);
      const std::vector<ValueInfo> results(op.num_outputs, value(static_cast<DType>(random() % kNumDTypes), {4, 1}));
      g.append(find_op(op.name), inputs, attrs, results, {static_cast<uint32_t>(random() % 3), {}});
    }
    g.outputs = {0, static_cast<ValueId>(g.values.size() - 1)};
    expect_round_trip(g);
  }
}

TEST(GraphText, WordsThatFitNoSignatureArePrintedRaw) {
  Graph g;
  const ValueInfo leaf = value(DType::kFloat32, {2});
  g.append(Op::kLeaf, {}, {1, 2}, {&leaf, 1});
  g.append(Op::kReduce, {0}, {9, 0, 0}, {&leaf, 1});  // no such kind
  g.append(Op::kNeg, {0}, {5}, {&leaf, 1});           // takes none
  g.append(Op::kConstant, {}, {1, 2, 3}, {&leaf, 1});
  expect_round_trip(g);
  EXPECT_NE(print(g).find("reduce(%0, words=[9, 0, 0])"), std::string::npos) << print(g);
}

TEST(GraphText, RandomExpressions) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    Graph g;
    std::vector<Dim> pool;
    for (int i = 0; i < 4; ++i) pool.push_back(g.sym.symbol(2 + static_cast<int64_t>(random() % 50)));
    pool.push_back(-3);
    pool.push_back(8);
    SymDims shape;
    for (int i = 0; i < 40; ++i) {
      const Dim a = pool[random() % pool.size()], b = pool[random() % pool.size()];
      static constexpr Dim (SymTable::* kOps[])(Dim, Dim) = {&SymTable::add,       &SymTable::sub,      &SymTable::mul,
                                                             &SymTable::floor_div, &SymTable::ceil_div, &SymTable::mod,
                                                             &SymTable::min,       &SymTable::max};
      const Dim d = (g.sym.*kOps[random() % 8])(a, b);
      if (std::abs(d.value) < 1000000) pool.push_back(d);
    }
    for (int i = 0; i < 12; ++i) shape.push_back(pool[pool.size() - 1 - i]);
    g.sym.less_equal(pool.back(), pool[pool.size() - 2]);
    g.sym.less_equal(pool[0], 20);
    const ValueInfo info = value(DType::kInt32, shape);
    g.append(Op::kLeaf, {}, {0, 0, 0}, {&info, 1});
    expect_round_trip(g);
  }
}

TEST(GraphText, ErrorsNameLineAndColumn) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      parse(text);
    } catch (const ValueError& e) {
      return e.what();
    }
    return "none";
  };
  const std::string leaf = "%0 = leaf(number=0, offset=0, strides=[1]) : float32[2]\n";
  EXPECT_NE(message(leaf).find("does not end in `return`"), std::string::npos);
  EXPECT_NE(message(leaf + "%1 = nonsense(%0) : float32[2]\nreturn %1").find("line 2, column 6"), std::string::npos)
      << message(leaf + "%1 = nonsense(%0) : float32[2]\nreturn %1");
  EXPECT_NE(message(leaf + "%1 = neg(%1) : float32[2]\n").find("%1 is not defined before its use"), std::string::npos);
  EXPECT_NE(message(leaf + "%2 = neg(%0) : float32[2]\n").find("expected %1"), std::string::npos);
  EXPECT_NE(message(leaf + "%1 = neg(%0) : float31[2]\n").find("unknown dtype `float31`"), std::string::npos);
  EXPECT_NE(message(leaf + "%1 = neg(%0) : float32[s0]\n").find("s0 is not declared"), std::string::npos);
  EXPECT_NE(message(leaf + "%1 = reduce(%0, kind=mean, axis=0, chunk=0) : float32[1]\n").find("`mean` is not a choice"),
            std::string::npos);
  EXPECT_NE(message(leaf + "return %0\n\n%1 = neg(%0) : float32[2]\n").find("line 4"), std::string::npos);
  EXPECT_NE(message(leaf + "return %0 %0").find("end of the line"), std::string::npos);
  EXPECT_NE(message("symbols s1=4\nreturn").find("in order"), std::string::npos);
  std::string extents = "1";
  for (int i = 0; i < kMaxRank; ++i) extents += ",1";
  EXPECT_NE(message(leaf + "%1 = neg(%0) : float32[" + extents + "]\nreturn").find("at most 64"), std::string::npos);
  EXPECT_EQ(message(leaf + "// a comment\n\n  return %0  // done\n"), "none");
}

// -- the verifier

struct VerifyTest : testing::Test {
  VerifyTest() {
    const Value x = b.leaf(0, DType::kFloat32, {n, 4});
    const Value y = exp(x) + 1.0;
    g.outputs = {b.reduce(ReduceKind::kSum, y, {1}, false).id};
    verify(g);
  }
  /// The complaint about `bad`.
  static std::string complaint(const Graph& bad) {
    try {
      verify(bad);
    } catch (const InternalError& e) {
      return e.what();
    }
    return "none";
  }
  Graph g;
  Builder b{g};
  Dim n = g.sym.symbol(10);
};

TEST_F(VerifyTest, FindsWhatIsBroken) {
  const auto broken = [&](auto change, const std::string& complains) {
    Graph bad = g;
    change(bad);
    EXPECT_NE(complaint(bad).find(complains), std::string::npos) << complaint(bad) << "\nexpected: " << complains;
  };
  broken([](Graph& x) { x.nodes[1].inputs[0] = 3; }, "not defined before");
  broken([](Graph& x) { x.nodes[1].inputs[0] = kNone; }, "is absent");
  broken([](Graph& x) { x.nodes[1].inputs.push_back(0); }, "operands for exp");
  broken([](Graph& x) { x.nodes[1].attrs.push_back(1); }, "words too many");
  broken([](Graph& x) { x.nodes[1].first_output = 2; }, "next value");
  broken([](Graph& x) { x.nodes[1].op = static_cast<Op>(9999); }, "unknown op");
  broken([](Graph& x) { x.nodes[1].op = Op::kBitwiseNot; }, "its rule rejects it");
  broken([](Graph& x) { x.values[1].dtype = DType::kFloat64; }, "float64");
  broken([](Graph& x) { x.values[1].shape[1] = 5; }, "its rule says");
  broken([](Graph& x) { x.values[1].shape[0].value = 11; }, "is 10 in the sample");
  broken([](Graph& x) { x.values[1].shape[0].expr = 40; }, "no expression");
  broken([](Graph& x) { x.values[1].node = 3; }, "names node");
  broken([](Graph& x) { x.values[1].weak = true; }, "a number has a shape");
  broken([](Graph& x) { x.outputs[0] = 90; }, "an output is not a value");
  broken([](Graph& x) { x.values.push_back(x.values[0]); }, "values without a node");
  broken([](Graph& x) { x.nodes[4].attrs[0] = 17; }, "attribute kind");
  broken([&](Graph& x) { x.sym.guard(GuardKind::kGreater, n, 12); }, "guard does not hold");
}

// -- golden files: parse then print is identity, and the graph verifies

class GoldenParse : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(GoldenParse, PrintsAsItIs) {
  std::ifstream file(GetParam());
  ASSERT_TRUE(file) << GetParam();
  std::string comments, text;
  for (std::string line; std::getline(file, line);) (line.starts_with("//") ? comments : text) += line + "\n";
  const Graph g = parse(text);
  verify(g);
  const std::string printed = print(g);
  if (std::getenv("SMOLDER_BLESS")) {
    std::ofstream(GetParam()) << comments << printed;
  } else {
    EXPECT_EQ(printed, text) << "run with SMOLDER_BLESS=1 to accept";
  }
}

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> files;
  std::error_code missing;  // tests run in the source folder
  for (const auto& f : std::filesystem::directory_iterator("tests/golden/parse", missing)) {
    if (f.path().extension() == ".smir") files.push_back(f.path());
  }
  return files;
}

TEST(GoldenParseFiles, AreThere) { EXPECT_GE(golden_files().size(), 5u) << "run in the source folder"; }

INSTANTIATE_TEST_SUITE_P(Files, GoldenParse, testing::ValuesIn(golden_files()),
                         [](const auto& info) { return info.param.stem().string(); });

}  // namespace
}  // namespace smolder::ir
