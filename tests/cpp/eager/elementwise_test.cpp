// Every elementwise primitive, in every dtype it takes, over shapes and layouts, against the reference interpreter.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "eager/arrays.h"
#include "smolder/core/thread_pool.h"
#include "smolder/eager/execute.h"
#include "smolder/ir/interpret_number.h"
#include "smolder/ir/scalar/primitive.h"

namespace smolder::eager {
namespace {

using ir::Op;
using ir::PlainTensor;
using ir::scalar::Primitive;
using ir::scalar::PrimitiveInfo;

/// Scalars, empty, single, odd lengths around the vector widths and the block, two and three axes.
const std::vector<Dims>& shapes() {
  static const std::vector<Dims> all = {{}, {0}, {3, 0}, {1}, {1, 1}, {7}, {33}, {519}, {5, 13}, {3, 4, 5}};
  return all;
}

/// How far from the correctly rounded result a primitive may be, in ulps of the dtype. What is made of IEEE
/// operations alone is exact; a series is within 2 ulp (design), and the libm of the oracle within 1 in float64.
int64_t tolerance(Primitive p, DType t) {
  using enum Primitive;
  for (Primitive exact : {kAdd, kSub, kMul, kDiv, kSqrt, kReciprocal, kFmod, kRemainder, kFma}) {
    if (p == exact) return 0;
  }
  if (!is_floating(t) || ir::scalar::info(p).rounding == PrimitiveInfo::kExact) return 0;
  return is_half(t) ? 1 : t == DType::kFloat32 ? 2 : 3;
}

PlainTensor expected_of(Op op, const std::vector<PlainTensor>& inputs) {
  std::vector<const PlainTensor*> pointers;
  for (const PlainTensor& t : inputs) pointers.push_back(&t);
  return ir::interpret(op, pointers, {})[0];
}

/// Runs the kernel itself, into a result laid out as asked.
PlainTensor run_kernel(Op op, const std::vector<Array>& inputs, const PlainTensor& like, Layout layout) {
  Array out = like.weak ? Array::from_number(Scalar::from_bits(0, category(like.dtype)))
                        : make_array(like.shape, like.dtype, layout);
  std::vector<TensorView> views;
  for (const Array& a : inputs) views.push_back(a.view());
  const TensorView result = out.view();
  ErrorReport errors;
  dispatch(DispatchKey::kCPU, {op, views, {&result, 1}, {}, &errors});
  EXPECT_FALSE(errors.has_bad_index());
  return to_plain(out);
}

DType operand_dtype(Primitive p, DType t, int i) { return p == Primitive::kWhere && i == 0 ? DType::kBool : t; }

class Elementwise : public testing::TestWithParam<int> {
 protected:
  const Op op_ = static_cast<Op>(GetParam());
  const Primitive primitive_ = static_cast<Primitive>(GetParam());
  const PrimitiveInfo& info_ = ir::scalar::info(primitive_);
  std::mt19937 random_{static_cast<uint32_t>(GetParam()) + 1};

  /// Calls `f(dtype)` for every dtype that the primitive takes.
  template <class F>
  void for_each_dtype(F f) {
    for (int t = 0; t < kNumDTypes; ++t) {
      const auto dtype = static_cast<DType>(t);
      if (!info_.takes(dtype)) continue;
      SCOPED_TRACE(std::string(info_.name) + " of " + std::string(name(dtype)));
      f(dtype);
      if (HasFailure()) return;
    }
  }
  std::vector<PlainTensor> operands(const Dims& shape, DType t) {
    std::vector<PlainTensor> out;
    for (int i = 0; i < info_.arity; ++i) out.push_back(random_tensor(random_, shape, operand_dtype(primitive_, t, i)));
    return out;
  }
};

TEST_P(Elementwise, ShapesAndLayouts) {
  for_each_dtype([&](DType t) {
    for (const Dims& shape : shapes()) {
      const std::vector<PlainTensor> inputs = operands(shape, t);
      const PlainTensor expected = expected_of(op_, inputs);
      for (Layout layout : kLayouts) {
        std::vector<Array> arrays;
        for (const PlainTensor& x : inputs) arrays.push_back(to_array(x, layout));
        const Layout out = layout == Layout::kOffset ? Layout::kSpaced : Layout::kContiguous;
        ASSERT_TRUE(same(run_kernel(op_, arrays, expected, out), expected, tolerance(primitive_, t)))
            << to_string(shape) << " " << name(layout);
      }
    }
  });
}

TEST_P(Elementwise, BroadcastOperands) {
  for_each_dtype([&](DType t) {
    const Dims shape = {6, 1, 37}, sources[] = {{37}, {6, 1, 1}, {}};
    std::vector<PlainTensor> inputs, full;
    std::vector<Array> arrays;
    for (int i = 0; i < info_.arity; ++i) {
      inputs.push_back(random_tensor(random_, sources[i], operand_dtype(primitive_, t, i)));
      const std::vector<int64_t> words = {3, 6, 1, 37};
      arrays.push_back(execute(Op::kExpand, std::array{to_array(inputs[i])}, words)[0]);
      ASSERT_EQ(arrays.back().shape, shape);
      full.push_back(to_plain(arrays.back()));
    }
    const PlainTensor expected = expected_of(op_, full);
    ASSERT_TRUE(same(run_kernel(op_, arrays, expected, Layout::kTransposed), expected, tolerance(primitive_, t)));
  });
}

TEST_P(Elementwise, NumbersAreConvertedToTheComputeType) {
  if (info_.arity == 1) return;
  for_each_dtype([&](DType t) {
    if (t == DType::kBool) return;
    for (int place = primitive_ == Primitive::kWhere; place < info_.arity; ++place) {
      std::vector<PlainTensor> inputs = operands({21}, t);
      inputs[place] = weak_number(is_floating(t) ? Scalar(0.1) : Scalar(3));
      std::vector<Array> arrays;
      for (const PlainTensor& x : inputs) arrays.push_back(to_array(x));
      const PlainTensor expected = expected_of(op_, inputs);
      ASSERT_TRUE(same(run_kernel(op_, arrays, expected, Layout::kContiguous), expected, tolerance(primitive_, t)))
          << "operand " << place;
    }
  });
}

TEST_P(Elementwise, NumbersAlone) {
  for (const Scalar& v : {Scalar(0.3), Scalar(2), Scalar(true)}) {
    const DType t = v.dtype(DType::kFloat64);
    if (!info_.takes(t)) continue;
    std::vector<PlainTensor> inputs(info_.arity, weak_number(v));
    if (primitive_ == Primitive::kWhere) inputs[0] = weak_number(Scalar(true));
    std::vector<Array> arrays;
    for (const PlainTensor& x : inputs) arrays.push_back(to_array(x));
    const PlainTensor expected = expected_of(op_, inputs);
    EXPECT_TRUE(same(run_kernel(op_, arrays, expected, Layout::kContiguous), expected, tolerance(primitive_, t)));
  }
}

TEST_P(Elementwise, BitsDoNotDependOnThreadsOrPosition) {
  const int before = num_threads();
  for_each_dtype([&](DType t) {
    const int64_t n = 20001;  // more than one grain
    std::vector<Array> arrays, shifted;
    for (const PlainTensor& x : operands({n}, t)) {
      arrays.push_back(to_array(x));
      const std::vector<int64_t> words = {0, 1001, n, 1};
      shifted.push_back(execute(Op::kSlice, std::array{arrays.back()}, words)[0]);
    }
    const DType result = info_.result_dtype(t);
    const auto run = [&](const std::vector<Array>& in, int threads) {
      set_num_threads(threads);
      const Array out = Array::empty(in[0].shape, result);
      std::vector<TensorView> views;
      for (const Array& a : in) views.push_back(a.view());
      const TensorView view = out.view();
      ErrorReport errors;
      dispatch(DispatchKey::kCPU, {op_, views, {&view, 1}, {}, &errors});
      return to_plain(out);
    };
    // Compared as numbers: which nan comes out is not defined.
    const PlainTensor one = run(arrays, 1), part = run(shifted, 3);
    ASSERT_TRUE(same(run(arrays, 4), one));
    const PlainTensor tail{result, part.shape, {one.elements.begin() + 1001, one.elements.end()}, false};
    ASSERT_TRUE(same(part, tail));
  });
  set_num_threads(before);
}

INSTANTIATE_TEST_SUITE_P(Primitives, Elementwise, testing::Range(0, ir::kNumElementwisePrimitives),
                         [](const auto& info) { return std::string(ir::name(static_cast<Op>(info.param))); });

TEST(Cast, EveryPairOfDTypes) {
  std::mt19937 random(5);
  for (int from = 0; from < kNumDTypes; ++from) {
    for (int to = 0; to < kNumDTypes; ++to) {
      const int64_t words[] = {to};
      for (const Dims& shape : shapes()) {
        const PlainTensor x = random_tensor(random, shape, static_cast<DType>(from), {-400, 400});
        const PlainTensor* inputs[] = {&x};
        const PlainTensor expected = ir::interpret(Op::kCast, inputs, words)[0];
        for (Layout layout : kLayouts) {
          const Array in = to_array(x, layout);
          ASSERT_TRUE(same(to_plain(execute(Op::kCast, {&in, 1}, words)[0]), expected))
              << name(x.dtype) << " to " << name(expected.dtype) << to_string(shape) << " " << name(layout);
        }
      }
    }
  }
}

TEST(Cast, NumbersBecomeStrong) {
  for (const Scalar& v : {Scalar(0.1), Scalar(-7), Scalar(true), Scalar(1e300)}) {
    for (int to = 0; to < kNumDTypes; ++to) {
      const int64_t words[] = {to};
      const Array in = Array::from_number(v);
      const PlainTensor x = weak_number(v), *inputs[] = {&x};
      ASSERT_TRUE(same(to_plain(execute(Op::kCast, {&in, 1}, words)[0]), ir::interpret(Op::kCast, inputs, words)[0]));
    }
  }
}

}  // namespace
}  // namespace smolder::eager
