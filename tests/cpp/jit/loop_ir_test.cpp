#include "smolder/jit/loop/loop_ir.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>

#include "smolder/core/error.h"

namespace smolder::jit {
namespace {

std::vector<std::pair<std::string, std::string>> golden_kernels() {
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& f : std::filesystem::directory_iterator("tests/golden/loop")) {
    std::ostringstream text;
    text << std::ifstream(f.path()).rdbuf();
    files.emplace_back(f.path().filename(), text.str());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string golden(const std::string& name) {
  for (const auto& [file, text] : golden_kernels()) {
    if (file == name + ".smir") return text;
  }
  throw std::runtime_error("no golden kernel " + name);
}

template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(LoopText, GoldenKernelsAreValidCanonicalAndReadBack) {
  ASSERT_GE(golden_kernels().size(), 7u);
  for (const auto& [file, text] : golden_kernels()) {
    SCOPED_TRACE(file);
    Kernel k = parse_loop(text);
    EXPECT_EQ(print(k), text);
    EXPECT_NO_THROW(verify(k));
    canonicalize(k);
    EXPECT_EQ(print(k), text);
  }
}

TEST(LoopText, LeavesTheNameOut) {
  Kernel k = parse_loop(golden("gelu"));
  k.name = "gelu";
  EXPECT_EQ(print(k), golden("gelu"));
}

TEST(LoopText, NumbersReadBackExactly) {
  const double values[] = {0.0,
                           -0.0,
                           0.1,
                           -1e300,
                           5e-324,
                           1e22,
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN(),
                           std::bit_cast<double>(0xfff0000000000123ull)};
  std::vector<Scalar> scalars(std::begin(values), std::end(values));
  for (const int64_t v : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) scalars.push_back(v);
  scalars.push_back(true);
  scalars.push_back(false);
  for (const Scalar v : scalars) {
    Kernel k = parse_loop(golden("gelu"));
    k.root.body[1].constant = v;
    const Kernel back = parse_loop(print(k));
    EXPECT_EQ(back.root.body[1].constant, v) << print(k);
  }
}

TEST(LoopText, SaysWhereItIsWrong) {
  const auto message = [](std::string text) { return message_of<ValueError>([&] { parse_loop(text); }); };
  EXPECT_EQ(message("kernel {\n  buffers b0:float33 r\n"),
            "loop IR: line 2, column 22: expected a dtype before this, found 'r'");
  EXPECT_EQ(message("kernel {\n  buffers b0:int32 w\n  parallel vector v0 < 3 {\n    %0 = frob int32 %1\n"),
            "loop IR: line 4, column 15: expected a statement or primitive before this, found 'int32 %1'");
  EXPECT_EQ(message(golden("gelu") + "x"), "loop IR: line 17, column 1: expected the end, found 'x'");
  std::string deep = "kernel {\n  buffers b0:int32 w\n  parallel v0 < 1 {\n";
  for (int i = 0; i < 10000; ++i) deep += "loop v1 < 1 {\n";
  EXPECT_NE(message(deep).find("fewer nested loops"), std::string::npos);
  EXPECT_NE(message("kernel {\n  buffers b0:int32 w\n  parallel v99999999 < 1 {").find("expected a small number"),
            std::string::npos);
}

TEST(LoopText, EveryPrefixAndDamagedTextIsRefusedWithoutHarm) {
  std::mt19937 random(1);
  for (const auto& [file, text] : golden_kernels()) {
    for (size_t n = 0; n + 2 < text.size(); ++n) {
      EXPECT_THROW(parse_loop(text.substr(0, n)), ValueError) << file << " cut at " << n;
    }
    for (int i = 0; i < 2000; ++i) {
      std::string damaged = text;
      damaged[random() % text.size()] = static_cast<char>(32 + random() % 95);
      try {
        const Kernel k = parse_loop(damaged);
        verify(k);
      } catch (const Error&) {  // refused by one or the other, or still a kernel
      }
    }
  }
}

/// Gives every name of a kind a new number.
class Shuffle {
 public:
  Shuffle(Kernel& k, uint32_t seed) : random_(seed) {
    const auto vars = order(k.num_vars), locals = order(k.num_locals), accs = order(k.num_accs);
    const auto buffers = order(static_cast<int>(k.buffers.size())), ints = order(k.num_ints);
    const auto scalars = order(static_cast<int>(k.scalars.size())), errors = order(k.num_errors);
    const auto integer = [&](IntRef& r) {
      if (!r.is_constant()) r.slot = ints[r.slot];
    };
    const auto affine = [&](Affine& a) {
      integer(a.offset);
      for (auto& t : a.terms) {
        t.var = vars[t.var];
        integer(t.stride);
      }
      std::shuffle(a.terms.begin(), a.terms.end(), random_);
    };
    std::function<void(Stmt&)> visit = [&](Stmt& s) {
      for (VarId& v : s.vars) v = vars[v];
      for (IntRef& e : s.extents) integer(e);
      if (s.clamp_var >= 0) {
        s.clamp_var = vars[s.clamp_var];
        integer(s.clamp_total);
      }
      for (LocalId& a : s.args) a = locals[a];
      if (s.kind == StmtKind::kLoad || s.kind == StmtKind::kStore) s.address.buffer = buffers[s.address.buffer];
      affine(s.address.map);
      affine(s.map);
      for (auto& i : s.address.indirect) {
        i.index = locals[i.index];
        integer(i.stride);
      }
      for (Bound& b : s.bounds) {
        affine(b.map);
        integer(b.lo);
        integer(b.hi);
      }
      if (s.acc >= 0) s.acc = accs[s.acc];
      if (s.kind == StmtKind::kScalar) s.slot = scalars[s.slot];
      if (s.kind == StmtKind::kCheckIndex) {
        s.slot = errors[s.slot];
        integer(s.limit);
      }
      if (s.result >= 0) s.result = locals[s.result];
      for (Stmt& inner : s.body) visit(inner);
    };
    visit(k.root);
    auto old_buffers = k.buffers;
    for (size_t i = 0; i < buffers.size(); ++i) k.buffers[buffers[i]] = old_buffers[i];
    auto old_scalars = k.scalars;
    for (size_t i = 0; i < scalars.size(); ++i) k.scalars[scalars[i]] = old_scalars[i];
    new_ints = ints;
  }
  std::vector<int32_t> new_ints;

 private:
  std::vector<int32_t> order(int n) {
    std::vector<int32_t> o(n);
    std::iota(o.begin(), o.end(), 0);
    std::shuffle(o.begin(), o.end(), random_);
    return o;
  }
  std::mt19937 random_;
};

TEST(LoopCanonical, NumberingDoesNotCount) {
  for (const auto& [file, text] : golden_kernels()) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(file + " seed " + std::to_string(seed));
      Kernel k = parse_loop(text);
      const Shuffle shuffle(k, seed);
      EXPECT_NO_THROW(verify(k));
      const Renumbering r = canonicalize(k);
      EXPECT_EQ(print(k), text);
      ASSERT_EQ(r.ints.size(), shuffle.new_ints.size());
      for (size_t i = 0; i < r.ints.size(); ++i) EXPECT_EQ(r.ints[i], shuffle.new_ints[i]);
    }
  }
}

TEST(LoopCanonical, DropsWhatNothingUses) {
  Kernel k = parse_loop(golden("gelu"));
  k.buffers.push_back({DType::kBool, true, false});
  k.scalars = {Category::kFloat};
  k.num_ints = 5;
  k.num_errors = 2;
  canonicalize(k);
  EXPECT_EQ(print(k), golden("gelu"));
}

TEST(LoopVerify, RefusesBrokenKernels) {
  const auto broken = [](const char* file, const std::function<void(Kernel&)>& damage) {
    Kernel k = parse_loop(golden(file));
    damage(k);
    const std::string m = message_of<InternalError>([&] { verify(k); });
    return m.substr(m.rfind("}\n") == std::string::npos ? 0 : m.rfind("}\n") + 2);
  };
  using K = Kernel&;
  EXPECT_EQ(broken("gelu", [](K k) { k.root.kind = StmtKind::kLoop; }), "the root is no parallel loop");
  EXPECT_EQ(broken("gelu", [](K k) { k.root.body.back().args = {40}; }), "value %40 is not visible");
  EXPECT_EQ(broken("gelu", [](K k) { std::swap(k.root.body[0], k.root.body[2]); }), "value %0 is not visible");
  EXPECT_EQ(broken("gelu", [](K k) { k.root.body[1].result = 0; }), "value %0 is declared twice");
  EXPECT_EQ(broken("gelu", [](K k) { k.root.body[3].args.push_back(0); }), "a statement has 2 operands, not 1");
  EXPECT_EQ(broken("gelu", [](K k) { k.root.body[3].dtype = DType::kInt32; }), "erf of int32");
  EXPECT_EQ(broken("gelu", [](K k) { k.root.body[3].dtype = DType::kFloat64; }),
            "operand 0 of erf is float32, not float64");
  EXPECT_EQ(broken("gelu", [](K k) { k.root.body[3].op = ir::Op::kReduce; }), "reduce is not elementwise");
  EXPECT_EQ(broken("gelu", [](K k) { k.root.body.back().dtype = DType::kInt32; }),
            "a store of another dtype than the buffer's");
  EXPECT_EQ(broken("gelu", [](K k) { k.buffers[1].write = false; }), "a store to a buffer that is not written");
  EXPECT_EQ(broken("gelu", [](K k) { k.buffers[0].read = false; }), "a load of a buffer that is not read");
  EXPECT_EQ(broken("gelu", [](K k) { k.root.body[0].address.buffer = 2; }), "buffer b2 does not exist");
  EXPECT_EQ(broken("gelu", [](K k) { k.root.body[0].address.map.terms[0].var = 1; }), "variable v1 is not visible");
  EXPECT_EQ(broken("gelu", [](K k) { k.root.extents[0].slot = 1; }), "integer n1 does not exist");
  EXPECT_EQ(broken("gelu", [](K k) { k.num_locals = 20; }), "value %9 is not defined");
  EXPECT_EQ(broken("gelu", [](K k) { k.root.body[0].result = -1; }),
            "a statement defines a value exactly when its kind does");
  EXPECT_EQ(broken("softmax", [](K k) { k.root.body[1].body.push_back(Stmt(k.root.body[1])); }),
            "a vector loop holds a loop");
  EXPECT_EQ(broken("softmax", [](K k) { k.root.body[1].body.push_back(Stmt(k.root.body[0])); }),
            "an accumulator is declared in a vector loop");
  EXPECT_EQ(broken("softmax", [](K k) { k.root.body[2].acc = 1; }), "accumulator a1 is not visible");
  EXPECT_EQ(broken("softmax", [](K k) { k.root.body[0].dtype = DType::kFloat64; }),
            "a value of float32 updates float64");
  EXPECT_EQ(broken("softmax", [](K k) { k.root.body[0].reduce = ir::ReduceKind::kAny; }), "any and all reduce bools");
  EXPECT_EQ(broken("softmax", [](K k) { k.root.body[6].body[1].args[0] = 3; }), "value %3 is not visible");
  EXPECT_EQ(broken("embedding", [](K k) { k.num_errors = 0; }), "error e0 does not exist");
  EXPECT_EQ(broken("dropout", [](K k) { k.scalars.pop_back(); }), "scalar s1 does not exist");
  EXPECT_EQ(broken("column_sum", [](K k) { k.root.body[2].clamp_var = 4; }), "variable v4 is not visible");
}

}  // namespace
}  // namespace smolder::jit
