#include "jit/plan_test_util.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "smolder/core/counters.h"
#include "smolder/core/half.h"
#include "smolder/eager/execute.h"
#include "smolder/ir/interpret.h"
#include "smolder/ir/verify.h"
#include "smolder/jit/compile.h"
#include "smolder/jit/fuse/fuse.h"
#include "smolder/jit/plan/plan_impl.h"

namespace smolder::jit {

Recomputing::Recomputing(RecomputeLimits limits) {
  set_stage_hook([this, limits](std::string_view stage, Program& program) {
    if (stage != "simplify") return;
    fuse(program);
    graphs += recompute(program, limits);
    program.refusals.clear();
    ir::verify(program.graph);
  });
}
Recomputing::~Recomputing() { set_stage_hook({}); }

using ir::Dim;
using ir::SymDims;

namespace {
/// Kernels of tests stay out of the user's cache.
const bool cache_off = [] { return setenv("SMOLDER_CACHE", "off", 0) == 0; }();
}  // namespace

Dim PlanTest::size(int64_t sample) {
  symbols.push_back(sample);
  return g.sym.symbol(sample);
}

ir::Value PlanTest::input(SymDims shape, DType dtype, double low, double high) {
  leaves_.push_back({dtype, shape, g.sym.contiguous_strides(shape), 0, -1, low, high});
  return b.leaf(static_cast<int>(leaves_.size() - 1), dtype, shape);
}

ir::Value PlanTest::strided_input(SymDims shape, SymDims strides, Dim offset, int64_t storage_elements) {
  leaves_.push_back({DType::kFloat32, shape, strides, offset, storage_elements, -2, 2});
  return b.leaf(static_cast<int>(leaves_.size() - 1), DType::kFloat32, shape, strides, offset);
}

ir::Value PlanTest::number(Scalar v) {
  parameters_.push_back(v.bits());
  return b.parameter(static_cast<int>(parameters_.size() - 1), v.category());
}

std::vector<int64_t> PlanTest::evaluated() const {
  std::vector<int64_t> out;
  ir::SymTable::evaluate(g.sym.exprs(), symbols, out);
  return out;
}

int64_t PlanTest::value(Dim d, const std::vector<int64_t>& evaluated) const {
  return ir::SymTable::value(d, evaluated);
}

void PlanTest::make_data() {
  const auto sizes = evaluated();
  std::mt19937_64 random(1234);
  data_.clear();
  for (const Leaf& leaf : leaves_) {
    int64_t n = leaf.storage;
    if (n < 0) {
      n = 1;
      for (const Dim& d : leaf.shape) n *= value(d, sizes);
    }
    std::vector<uint8_t> bytes(n * itemsize(leaf.dtype) + 64);
    const auto put = [&](auto make) {
      for (int64_t i = 0; i < n; ++i) {
        const double u = std::uniform_real_distribution<double>(leaf.low, leaf.high)(random);
        const auto x = make(u);
        std::memcpy(bytes.data() + i * sizeof(x), &x, sizeof(x));
      }
    };
    switch (leaf.dtype) {
      case DType::kBool:
        put([&](double u) { return static_cast<uint8_t>(u > (leaf.low + leaf.high) / 2); });
        break;
      case DType::kUInt8:
        put([](double u) { return static_cast<uint8_t>(std::floor(u)); });
        break;
      case DType::kInt8:
        put([](double u) { return static_cast<int8_t>(std::floor(u)); });
        break;
      case DType::kInt16:
        put([](double u) { return static_cast<int16_t>(std::floor(u)); });
        break;
      case DType::kInt32:
        put([](double u) { return static_cast<int32_t>(std::floor(u)); });
        break;
      case DType::kInt64:
        put([](double u) { return static_cast<int64_t>(std::floor(u)); });
        break;
      case DType::kFloat16:
        put([](double u) { return to_float16(static_cast<float>(u)); });
        break;
      case DType::kBFloat16:
        put([](double u) { return to_bfloat16(static_cast<float>(u)); });
        break;
      case DType::kFloat32:
        put([](double u) { return static_cast<float>(u); });
        break;
      case DType::kFloat64:
        put([](double u) { return u; });
        break;
    }
    data_.push_back(std::move(bytes));
  }
}

PlanTest::Result PlanTest::run(const Plan& plan) {
  make_data();
  const auto instance = plan.bind(symbols);
  Result result;
  if (!instance) {
    ADD_FAILURE() << "the plan does not accept these sizes";
    return result;
  }
  std::vector<void*> leaves, outputs;
  for (auto& d : data_) leaves.push_back(d.data());
  result.outputs.resize(plan.outputs().size());
  for (size_t i = 0; i < plan.outputs().size(); ++i) {
    // A pattern that no test computes: what is not written shows.
    result.outputs[i].assign(instance->output_bytes()[i] + 64, 0xa5);
    outputs.push_back(result.outputs[i].data());
  }
  result.reports = instance->run({leaves, parameters_, outputs});
  for (size_t i = 0; i < plan.outputs().size(); ++i) {
    auto& bytes = result.outputs[i];
    const OutputInfo& info = plan.outputs()[i];
    for (size_t k = bytes.size() - 64; k < bytes.size(); ++k) EXPECT_EQ(bytes[k], 0xa5) << "output " << i << " overrun";
    bytes.resize(bytes.size() - 64);
    if (info.same_as_leaf >= 0) std::memcpy(bytes.data(), data_[info.same_as_leaf].data(), bytes.size());
    if (info.same_as_output >= 0) bytes = result.outputs[info.same_as_output];
  }
  return result;
}

namespace {

bool loads(const Stmt& s, int32_t buffer) {
  if (s.kind == StmtKind::kLoad && s.address.buffer == buffer) return true;
  return std::ranges::any_of(s.body, [&](const Stmt& inner) { return loads(inner, buffer); });
}

}  // namespace

std::shared_ptr<const Plan> PlanTest::compile(const CompileOptions& options) {
  auto plan = Plan::compile(g, options);
  for (const Step& s : dynamic_cast<const PlanImpl&>(*plan).program().steps) {
    if (!s.kernel) continue;
    const std::string text = print(s.kernel->kernel);
    EXPECT_NO_THROW(verify(s.kernel->kernel)) << text;
    Kernel canonical = s.kernel->kernel;
    canonicalize(canonical);
    EXPECT_EQ(print(canonical), text);
    for (const KernelCall::Scratch& row : s.kernel->scratch) {
      EXPECT_TRUE(loads(s.kernel->kernel.root, row.argument)) << "a row is kept and not read:\n" << text;
    }
  }
  return plan;
}

PlanTest::Result PlanTest::run(const CompileOptions& options) { return run(*compile(options)); }

namespace {

/// Equal bytes, but for the payload of nan, which arithmetic does not define.
template <class T>
bool same_floats(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  for (size_t i = 0; i + sizeof(T) <= a.size(); i += sizeof(T)) {
    T x, y;
    std::memcpy(&x, a.data() + i, sizeof(T));
    std::memcpy(&y, b.data() + i, sizeof(T));
    const auto nan = [](T v) {
      if constexpr (std::is_floating_point_v<T>) {
        return std::isnan(v);
      } else {
        return std::isnan(to_float(v));
      }
    };
    if (std::memcmp(&x, &y, sizeof(T)) != 0 && !(nan(x) && nan(y))) return false;
  }
  return true;
}

bool same_bits(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b, DType t) {
  if (a.size() != b.size()) return false;
  switch (t) {
    case DType::kFloat16:
      return same_floats<Float16>(a, b);
    case DType::kBFloat16:
      return same_floats<BFloat16>(a, b);
    case DType::kFloat32:
      return same_floats<float>(a, b);
    case DType::kFloat64:
      return same_floats<double>(a, b);
    default:
      return a == b;
  }
}

}  // namespace

void PlanTest::compare_with_eager(const Result& result) {
  std::vector<void*> addresses;
  for (auto& d : data_) addresses.push_back(d.data());
  const auto leaves = eager::bind_leaves(g, addresses, symbols);
  std::vector<eager::BadIndex> bad;
  const auto expected = eager::execute_graph(g, leaves, parameters_, symbols, &bad);
  ASSERT_EQ(expected.size(), result.outputs.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const eager::Array plain = eager::contiguous(expected[i]);
    std::vector<uint8_t> bytes(plain.bytes());
    if (!bytes.empty()) std::memcpy(bytes.data(), plain.data, bytes.size());
    EXPECT_TRUE(same_bits(bytes, result.outputs[i], plain.dtype)) << "output " << i << " is not what eager gives";
  }
}

void PlanTest::compare_with_reference(const Result& result, double tolerance) {
  const auto sizes = evaluated();
  std::vector<ir::PlainTensor> leaves;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    Dims shape;
    for (const Dim& d : leaf.shape) shape.push_back(value(d, sizes));
    // The interpreter knows no strides: gather the elements.
    const size_t item = itemsize(leaf.dtype);
    std::vector<uint8_t> packed(numel(shape) * item);
    for (int64_t e = 0; e < numel(shape); ++e) {
      int64_t rest = e, at = value(leaf.offset, sizes);
      for (int d = shape.size() - 1; d >= 0; --d) {
        at += rest % shape[d] * value(leaf.strides[d], sizes);
        rest /= shape[d];
      }
      std::memcpy(packed.data() + e * item, data_[i].data() + at * item, item);
    }
    leaves.push_back(ir::PlainTensor::from_memory(packed.data(), leaf.dtype, shape));
  }
  const auto expected = ir::interpret(g, leaves, parameters_, symbols);
  ASSERT_EQ(expected.size(), result.outputs.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto got = ir::PlainTensor::from_memory(result.outputs[i].data(), expected[i].dtype, expected[i].shape);
    double largest = 1;
    for (const Scalar& s : expected[i].elements) {
      if (std::isfinite(s.to_double())) largest = std::max(largest, std::abs(s.to_double()));
    }
    for (size_t k = 0; k < expected[i].elements.size(); ++k) {
      const double want = expected[i].elements[k].to_double(), have = got.elements[k].to_double();
      if (std::isnan(want) && std::isnan(have)) continue;
      ASSERT_TRUE(want == have || std::abs(want - have) <= tolerance * largest)
          << "output " << i << " element " << k << ": expected " << want << ", got " << have;
    }
  }
}

void PlanTest::check(double tolerance, const std::vector<std::vector<int64_t>>& others) {
  const auto fused = compile(), single = compile({.fuse = false, .simplify = false});
  const auto once = [&] {
    const Result a = run(*fused), c = run(*single);
    ASSERT_EQ(a.reports.empty(), c.reports.empty());
    if (!a.reports.empty()) return;  // the plans ended at a bad index, each where it found it
    ASSERT_EQ(a.outputs.size(), c.outputs.size());
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      ASSERT_TRUE(same_bits(a.outputs[i], c.outputs[i], g.dtype(g.outputs[i])))
          << "output " << i << " depends on fusion\n"
          << fused->describe();
    }
    compare_with_eager(a);
    compare_with_reference(a, tolerance);
    if (::testing::Test::HasFailure()) ADD_FAILURE() << fused->describe();
  };
  once();
  const auto sample = symbols;
  const int64_t compiled = counter("kernels.compiled").value();
  for (const auto& sizes : others) {
    if (::testing::Test::HasFailure()) break;
    symbols = sizes;
    once();
  }
  EXPECT_EQ(counter("kernels.compiled").value(), compiled) << "binding compiled something";
  symbols = sample;
}

void PlanTest::check_bits(const std::vector<std::vector<int64_t>>& others) {
  const auto fused = compile(), single = compile({.fuse = false, .simplify = false});
  const auto once = [&] {
    if (!fused->bind(symbols) || !single->bind(symbols)) return;
    const Result a = run(*fused), c = run(*single);
    EXPECT_EQ(a.reports.empty(), c.reports.empty());
    if (!a.reports.empty()) return;  // the plans ended at a bad index, each where it found it
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      EXPECT_TRUE(same_bits(a.outputs[i], c.outputs[i], g.dtype(g.outputs[i])))
          << "output " << i << " depends on fusion";
    }
    compare_with_eager(a);
    if (::testing::Test::HasFailure()) ADD_FAILURE() << fused->describe();
  };
  once();
  const auto sample = symbols;
  for (const auto& sizes : others) {
    if (::testing::Test::HasFailure()) break;
    symbols = sizes;
    once();
  }
  symbols = sample;
}

PlanTest::Count PlanTest::count(const CompileOptions& options) {
  const auto plan = compile(options);
  const Program& p = dynamic_cast<const PlanImpl&>(*plan).program();
  Count out;
  std::set<int> codes;
  for (const Step& s : p.steps) {
    out.kernels += s.kernel != nullptr;
    out.library += s.library != nullptr;
    if (s.kernel) codes.insert(s.kernel->code);
  }
  out.distinct = static_cast<int>(codes.size());
  out.launches = p.launch_of.empty() ? 0 : p.launch_of.back() + 1;
  return out;
}

}  // namespace smolder::jit
