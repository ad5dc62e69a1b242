// The primitive dot against the interpreter, over dtypes, layouts and batches.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "eager/arrays.h"
#include "smolder/eager/execute.h"

namespace smolder::eager {
namespace {

using ir::Op;
using ir::PlainTensor;
using Words = std::vector<int64_t>;

PlainTensor expected_of(Op op, const std::vector<PlainTensor>& inputs, const Words& words) {
  std::vector<const PlainTensor*> pointers;
  for (const PlainTensor& t : inputs) pointers.push_back(&t);
  return ir::interpret(op, pointers, words)[0];
}

PlainTensor run_kernel(Op op, const std::vector<Array>& inputs, const Words& words, const PlainTensor& like,
                       Layout layout = Layout::kContiguous) {
  const Array out = make_array(like.shape, like.dtype, layout);
  std::vector<TensorView> views;
  for (const Array& a : inputs) views.push_back(a.view());
  const TensorView view = out.view();
  ErrorReport errors;
  dispatch(DispatchKey::kCPU, {op, views, {&view, 1}, words, &errors});
  return to_plain(out);
}

TEST(Dot, EveryDTypeAndLayout) {
  std::mt19937 random(8);
  const std::pair<Dims, Dims> shapes[] = {
      {{1, 1}, {1, 1}}, {{5, 7}, {7, 3}}, {{2, 5, 7}, {2, 7, 9}}, {{2, 3, 4, 5}, {2, 3, 5, 6}},
      {{3, 0}, {0, 4}}, {{0, 3}, {3, 4}}, {{33, 65}, {65, 40}},   {{0, 2, 3}, {0, 3, 2}}};
  for (const auto& [a_shape, b_shape] : shapes) {
    for (int t = 0; t < kNumDTypes; ++t) {
      const auto dtype = static_cast<DType>(t);
      const PlainTensor a = random_tensor(random, a_shape, dtype, {-3, 3, false});
      const PlainTensor b = random_tensor(random, b_shape, dtype, {-3, 3, false});
      std::vector<DType> results = {dtype};
      if (is_half(dtype)) results.push_back(DType::kFloat32);
      for (DType result : results) {
        const Words words = {static_cast<int64_t>(result)};
        const PlainTensor expected = expected_of(Op::kDot, {a, b}, words);
        const double eps = result == DType::kFloat64   ? 0x1p-52
                           : result == DType::kFloat32 ? 0x1p-23
                           : result == DType::kFloat16 ? 0x1p-10
                                                       : 0x1p-7;
        const double absolute = is_floating(result) ? static_cast<double>(a_shape.back()) * 9 * eps : 0;
        for (Layout layout : kLayouts) {
          SCOPED_TRACE(std::string(name(dtype)) + to_string(a_shape) + to_string(b_shape) + " " + name(layout));
          ASSERT_TRUE(near(run_kernel(Op::kDot, {to_array(a, layout), to_array(b, layout)}, words, expected), expected,
                           absolute));
          ASSERT_TRUE(
              near(run_kernel(Op::kDot, {to_array(a), to_array(b, layout)}, words, expected, Layout::kTransposed),
                   expected, absolute));
        }
      }
    }
  }
}

TEST(Dot, BroadcastBatchesAndOtherResultTypes) {
  std::mt19937 random(9);
  const PlainTensor a = random_tensor(random, {3, 1, 4, 5}, DType::kFloat32, {-3, 3, false});
  const PlainTensor b = random_tensor(random, {2, 5, 6}, DType::kFloat32, {-3, 3, false});
  const Array wide_a = execute(Op::kExpand, std::array{to_array(a)}, Words{4, 3, 2, 4, 5})[0];
  const Array wide_b = execute(Op::kExpand, std::array{to_array(b)}, Words{4, 3, 2, 5, 6})[0];
  const Words words = {static_cast<int64_t>(DType::kFloat64)};
  const PlainTensor expected = expected_of(Op::kDot, {to_plain(wide_a), to_plain(wide_b)}, words);
  EXPECT_TRUE(near(run_kernel(Op::kDot, {wide_a, wide_b}, words, expected), expected, 5 * 9 * 0x1p-23));
}

}  // namespace
}  // namespace smolder::eager
