// Random graphs: fused, one kernel a primitive, and eager execution give the same bits, at the sizes a plan was
// compiled for and at others that it accepts. A failing case prints its seed and graph; SMOLDER_FUZZ_SEED runs one
// seed, SMOLDER_FUZZ_CASES sets how many are tried.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "jit/plan_test_util.h"
#include "smolder/jit/cache/kernel_cache.h"
#include "smolder/jit/emit.h"
#include "smolder/jit/loop/loop_interpret.h"

namespace smolder::jit {
namespace {

using ir::Dim;
using ir::Op;
using ir::ReduceKind;
using ir::SymDims;
using ir::Value;

/// Grows a graph by random primitives over a few sizes.
class RandomGraph {
 public:
  /// `layers`: more of it, with more products, so that values wait for long.
  RandomGraph(PlanTest& t, uint64_t seed, bool layers) : t_(t), b_(t.b), random_(seed), layers_(layers) {}

  void build() {
    for (int i = 0; i < 3; ++i) sizes_.push_back(t_.size(pick({2, 3, 4, 5, 7, 33, 40, 130})));
    for (int i = 0, n = between(2, 4); i < n; ++i) pool_.push_back(t_.input(random_shape()));
    for (int i = 0, n = layers_ ? between(25, 60) : between(5, 25); i < n; ++i) grow();
    if (layers_) read_again();
    for (int i = 0, n = between(1, 4); i < n; ++i) t_.output(recent());
    t_.output(pool_.back());
  }

  /// Other values for the sizes, near the sample so that guards on lengths hold.
  std::vector<int64_t> other_sizes() {
    std::vector<int64_t> out = t_.symbols;
    for (int64_t& n : out)
      n = n > 128 ? n + between(1, 9) : std::max<int64_t>(2, std::min<int64_t>(n + between(-1, 2), 128));
    return out;
  }

 private:
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  int64_t pick(std::vector<int64_t> of) { return of[between(0, static_cast<int>(of.size()) - 1)]; }
  Value any() { return pool_[between(0, static_cast<int>(pool_.size()) - 1)]; }
  Value recent() {
    const int n = static_cast<int>(pool_.size());
    return pool_[between(std::max(0, n - 4), n - 1)];
  }
  SymDims random_shape() {
    SymDims shape;
    for (int i = 0, rank = between(1, 3); i < rank; ++i) {
      shape.push_back(between(0, 9) == 0 ? Dim(1) : sizes_[between(0, 2)]);
    }
    return shape;
  }
  static bool small(const Value& v) {
    int64_t n = 1;
    for (const Dim& d : v.shape()) n *= d.value;
    return n <= 6000 && v.rank() <= 5;
  }
  /// Late readers of what is from before, and of its neighbours.
  void read_again() {
    const int n = static_cast<int>(pool_.size());
    for (int i = between(0, n / 2), end = std::min(n, i + 8); i < end; ++i) {
      const Value x = pool_[i];
      if (x.rank() == 2) t_.output(b_.dot(x, b_.transpose(x, 0, 1), DType::kFloat32));
      if (x.rank() > 0) t_.output(b_.reduce(ReduceKind::kSum, unary(x), {0}, false));
    }
  }
  void add(Value v) {
    if (small(v)) pool_.push_back(v);
  }

  void grow() {
    const Value x = between(0, 2) ? recent() : any();
    if (layers_ && between(0, 2) == 0) return product(x);
    switch (between(0, 15)) {
      case 0:
      case 1:
      case 2:
        return add(unary(x));
      case 3:
      case 4:
      case 5:
        return add(binary(x, any()));
      case 6:
        return add(where(x > 0.1, x, between(0, 1) ? x * 0.5 : neg(x)));
      case 7:
      case 8:
        return reduce(x);
      case 9:
        return normalize(x);
      case 10:
        return permute(x);
      case 11:
        return reshape(x);
      case 12:
        return slice_or_pad(x);
      case 13:
        return cat_or_flip(x);
      case 14:
        return index(x);
      default:
        return product(x);
    }
  }

  Value unary(Value x) {
    switch (between(0, 7)) {
      case 0:
        return tanh(x);
      case 1:
        return exp(minimum(x, 3.0));
      case 2:
        return relu(x);
      case 3:
        return x * t_.number(0.25 * between(1, 9));
      case 4:
        return sqrt(abs(x));
      case 5:
        return b_.cast(b_.cast(x, between(0, 1) ? DType::kBFloat16 : DType::kFloat16), DType::kFloat32);
      case 6:
        if (x.rank() == 0) return x + 2.0;
        return x + b_.cast(b_.iota(x.shape(), between(0, x.rank() - 1)), DType::kFloat32) * 0.01;
      default:
        return x - 1.5;
    }
  }

  Value binary(Value x, Value y) {
    if (!broadcasts(x, y)) y = x * 0.75;
    switch (between(0, 4)) {
      case 0:
        return x + y;
      case 1:
        return x - y;
      case 2:
        return x * y;
      case 3:
        return maximum(x, y);
      default:
        return x / (abs(y) + 1.0);
    }
  }
  static bool broadcasts(const Value& x, const Value& y) {
    for (int i = 1; i <= std::min(x.rank(), y.rank()); ++i) {
      const Dim a = x.size(-i), b = y.size(-i);
      if (a.value != 1 && b.value != 1 && a != b) return false;
    }
    return true;
  }

  void reduce(Value x) {
    if (x.rank() == 0) return;
    std::vector<int> axes;
    for (int i = 0; i < x.rank(); ++i) {
      if (between(0, 1)) axes.push_back(i);
    }
    if (axes.empty()) axes.push_back(between(0, x.rank() - 1));
    const ReduceKind kind = between(0, 2) ? ReduceKind::kSum : ReduceKind::kMax;
    add(b_.reduce(kind, x, axes, between(0, 1) == 1));
  }
  /// As in layers: statistics of an axis, used along it.
  void normalize(Value x) {
    if (x.rank() == 0) return;
    const int axis = between(0, 2) ? x.rank() - 1 : between(0, x.rank() - 1);
    const Value s = b_.reduce(between(0, 1) ? ReduceKind::kSum : ReduceKind::kMax, x, {axis}, true);
    const Value y = x - s * 0.1;
    pool_.push_back(s);
    add(y / (sqrt(b_.reduce(ReduceKind::kSum, y * y, {axis}, true)) + 0.5));
  }

  void permute(Value x) {
    std::vector<int> axes(x.rank());
    for (int i = 0; i < x.rank(); ++i) axes[i] = i;
    std::shuffle(axes.begin(), axes.end(), random_);
    add(b_.permute(x, axes));
  }
  void reshape(Value x) {
    if (x.rank() < 2) return;
    const int i = between(0, x.rank() - 2);
    const SymDims before = x.shape();
    SymDims shape = before;
    shape[i] = b_.sym().mul(shape[i], shape[i + 1]);
    shape.erase(i + 1);
    const Value merged = b_.reshape(x, shape);
    add(merged);
    // And back, after something.
    if (between(0, 1)) add(b_.reshape(unary(merged), before));
  }

  void slice_or_pad(Value x) {
    if (x.rank() == 0) return;
    const int axis = between(0, x.rank() - 1);
    if (between(0, 1) && x.size(axis).value > 1) {
      return add(b_.slice(x, axis, between(0, 1), x.size(axis), between(1, 2)));
    }
    SymDims low, high;
    for (int i = 0; i < x.rank(); ++i) {
      low.push_back(i == axis ? between(0, 2) : 0);
      high.push_back(i == axis ? between(0, 2) : 0);
    }
    add(b_.pad(x, low, high, Scalar(0.5)));
  }
  void cat_or_flip(Value x) {
    if (x.rank() == 0) return;
    const int axis = between(0, x.rank() - 1);
    if (between(0, 1)) return add(b_.flip(x, {axis}));
    add(b_.cat({x, unary(x), b_.slice(x, axis, 0, 1)}, axis));
  }
  void index(Value x) {
    if (x.rank() == 0) return;
    const int axis = between(0, x.rank() - 1);
    const Dim n = x.size(axis);
    const int end = n.is_constant() && n.value == 1 ? 1 : 2;
    const Value which = t_.input({sizes_[between(0, 2)]}, between(0, 1) ? DType::kInt64 : DType::kInt32, 0, end);
    if (between(0, 1)) return add(b_.take(x, which, axis));
    if (x.size(axis).value < 2) return;
    add(b_.take_along(x, b_.cast(x > 0.0, DType::kInt64), axis));
  }
  void product(Value x) {
    if (x.rank() != 2) return;
    add(b_.dot(x, b_.transpose(x, 0, 1), DType::kFloat32) * 0.01);
  }

  PlanTest& t_;
  ir::Builder& b_;
  std::mt19937_64 random_;
  const bool layers_;
  std::vector<Dim> sizes_;
  std::vector<Value> pool_;
};

void run_case(uint64_t seed, bool layers = false) {
  PlanTest t;
  RandomGraph random(t, seed, layers);
  random.build();
  try {
    t.check_bits({random.other_sizes(), random.other_sizes()});
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
  if (::testing::Test::HasFailure()) ADD_FAILURE() << "seed " << seed << "\n" << ir::print(t.g);
}

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(PlanFuzz, RandomGraphsGiveTheSameBits) {
  override_backend(&interpret_backend());
  const uint64_t only = number_from("SMOLDER_FUZZ_SEED", ~0ull), cases = number_from("SMOLDER_FUZZ_CASES", 300);
  for (uint64_t seed = only == ~0ull ? 0 : only; seed < (only == ~0ull ? cases : only + 1); ++seed) {
    run_case(seed);
    KernelCache::global().memory().clear();
    if (HasFailure()) break;
  }
  override_backend(nullptr);
}

TEST(PlanFuzz, WhatIsComputedTwiceGivesTheSameBits) {
  override_backend(&interpret_backend());
  Recomputing all({.scarce = 0, .share = 1e9, .saved = 0});
  for (uint64_t seed = 200000; seed < 200000 + number_from("SMOLDER_FUZZ_CASES", 300) && !HasFailure(); ++seed) {
    run_case(seed, true);
    KernelCache::global().memory().clear();
  }
  EXPECT_GT(all.graphs, 10);
  override_backend(nullptr);
}

TEST(PlanFuzz, RandomGraphsGiveTheSameBitsAsMachineCode) {
  for (uint64_t seed = 100000; seed < 100000 + number_from("SMOLDER_FUZZ_CASES", 300) / 30 && !HasFailure(); ++seed) {
    run_case(seed);
  }
}

}  // namespace
}  // namespace smolder::jit
