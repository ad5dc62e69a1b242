// The order in memory of results: torch's TensorIterator's. The expected strides are PyTorch's.
#include <gtest/gtest.h>

#include <cstring>

#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/strides.h"

namespace smolder {
namespace {

Tensor counted(const Dims& shape) { return reshape(arange(static_cast<double>(numel(shape)), DType::kFloat32), shape); }

TEST(ResultLayout, ElementwiseOpsKeepThePermutationOfTheirOperands) {
  const Tensor x = transpose(counted({2, 5, 3, 4}), 1, 2);
  const Tensor y = relu(x * 2.0) + x;
  EXPECT_EQ(lazy::strides(y), Dims({60, 4, 12, 1}));
  EXPECT_EQ(y.impl()->base, nullptr);
  EXPECT_TRUE(lazy::can_view(transpose(y, 1, 2), {2, 5, 12}));
  EXPECT_FALSE(lazy::can_view(y, {2, 15, 4}));
  EXPECT_EQ(transpose(y, 1, 2).view({2, 5, 12}).to_vector<float>(),
            (relu(counted({2, 5, 12}) * 2.0) + counted({2, 5, 12})).to_vector<float>());
}

TEST(ResultLayout, TheFirstOperandWithAnOrderWins) {
  const Tensor rows = counted({2, 3, 4}), turned = permute(counted({4, 3, 2}), {2, 1, 0});
  EXPECT_EQ(lazy::strides(rows + turned), Dims({12, 4, 1}));
  EXPECT_EQ(lazy::strides(turned + rows), Dims({1, 2, 6}));
  EXPECT_EQ(lazy::strides(turned + counted({4})), Dims({1, 2, 6}));  // what is broadcast has no say
  EXPECT_EQ(lazy::strides(softmax(turned, -1)), Dims({12, 4, 1}));
}

TEST(ResultLayout, ExportedMemoryLiesInTheOrder) {
  const Tensor y = transpose(counted({2, 3}), 0, 1) * 1.0;
  {
    const eager::Array shared = lazy::export_memory(y);
    EXPECT_EQ(shared.strides, Dims({1, 3}));
    const float in_memory[] = {0, 1, 2, 3, 4, 5};
    EXPECT_EQ(std::memcmp(shared.buffer->data(), in_memory, sizeof in_memory), 0);
    static_cast<float*>(shared.data)[1] = 7;  // [1, 0]
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 3, 7, 4, 2, 5}));
  }
  EXPECT_EQ((y + 0.0).to_vector<float>(), (std::vector<float>{0, 3, 7, 4, 2, 5}));  // taken back, in its order
  EXPECT_EQ(lazy::strides(y), Dims({1, 3}));
  EXPECT_FALSE(lazy::is_external(y));
}

TEST(ResultLayout, ACopyInAnOrderNamesEachDimensionOnce) {
  const Tensor x = counted({2, 3, 4, 5});
  EXPECT_EQ(lazy::strides(lazy::clone_in_order(x, {0, 2, 3, 1})), Dims({60, 1, 15, 3}));
  EXPECT_EQ(lazy::strides(lazy::clone_in_order(permute(x, {3, 2, 1, 0}))), Dims({24, 6, 2, 1}));
  EXPECT_THROW(lazy::clone_in_order(x, {0, 0, 1, 2}), Error);
  EXPECT_THROW(lazy::clone_in_order(x, {0, 1, 2}), Error);
}

}  // namespace
}  // namespace smolder
