// Memory that somebody else sees, from C++: what is written on one side is seen on the other, and nothing that was
// recorded before sees it.
#include "smolder/lazy/storage.h"

#include <gtest/gtest.h>

#include <thread>

#include "smolder/core/counters.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/strides.h"

namespace smolder::lazy {
namespace {

Tensor foreign(std::vector<float>& memory, Dims shape, Dims strides, int* released = nullptr) {
  BufferRef buffer = wrap_foreign(memory.data(), memory.size() * sizeof(float), {}, [released] {
    if (released) ++*released;
  });
  return from_foreign(std::move(buffer), shape, strides, DType::kFloat32);
}

TEST(Storage, ForeignMemoryIsReadAndWrittenThroughItsStrides) {
  std::vector<float> memory{0, 1, 2, 3, 4, 5};
  int released = 0;
  {
    Tensor t = foreign(memory, {2, 2}, {3, 2}, &released);
    EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{0, 2, 3, 5}));
    const Tensor doubled = t * 2.0;
    memory[0] = 10;
    EXPECT_EQ(doubled.to_vector<float>(), (std::vector<float>{0, 4, 6, 10}));
    Tensor row = select(t, 0, 1);
    row.add_(1.0);
    EXPECT_EQ(memory, (std::vector<float>{10, 1, 2, 4, 4, 6}));
    EXPECT_EQ(layout(row).offset, 3);
  }
  EXPECT_EQ(released, 1);
}

TEST(Storage, ExportedMemoryStaysWhereItIsUntilNobodySeesIt) {
  Tensor t = zeros({4}, DType::kFloat32);
  eager::Array seen = export_memory(t);
  auto* const p = static_cast<float*>(seen.data);
  t.add_(3.0);
  EXPECT_EQ(p[0], 3);
  p[1] = 7;
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{3, 7, 3, 3}));
  EXPECT_TRUE(is_external(t));
  seen = {};
  EXPECT_FALSE(is_external(t));
  t.add_(1.0);
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{4, 8, 4, 4}));
}

TEST(Storage, WhatAPendingOpReadsIsComputedBeforeItsMemoryIsHandedOut) {
  Tensor t = arange(0.0, 4.0);
  t.materialize();
  const Tensor later = t + 1.0;
  const eager::Array seen = export_memory(t);
  *static_cast<float*>(seen.data) = 50;
  EXPECT_EQ(later.to_vector<float>()[0], 1);
}

TEST(Storage, ViewsTakenBeforeAreViewsOfWhatIsHandedOut) {
  Tensor t = zeros({2, 3}, DType::kFloat32);
  Tensor column = select(t, 1, 2), flat = reshape(t, {6});
  const eager::Array seen = export_memory(column);
  EXPECT_EQ(seen.strides, (Dims{3}));
  flat.add_(1.0);
  EXPECT_EQ(*static_cast<float*>(seen.data), 1);
  *static_cast<float*>(seen.data) = 9;
  EXPECT_EQ(flat.to_vector<float>(), (std::vector<float>{1, 1, 9, 1, 1, 1}));
}

TEST(Storage, ARecordedValueThatSharesMemoryIsCopiedAway) {
  const Tensor a = arange(0.0, 3.0);
  a.materialize();
  const Tensor same(new TensorImpl(a.impl()->value));  // as a value saved for backward
  const int64_t before = counter("copies").value();
  const eager::Array seen = export_memory(a);
  EXPECT_EQ(counter("copies").value(), before + 1);
  *static_cast<float*>(seen.data) = 5;
  EXPECT_EQ(same.to_vector<float>()[0], 0);
}

TEST(Storage, AWriteOfTwoElementsInOnePlaceIsRefused) {
  std::vector<float> memory{1};
  Tensor t = expand(foreign(memory, {1}, {1}), {3});
  EXPECT_THROW(t.add_(1.0), RuntimeError);
  EXPECT_EQ(memory[0], 1);
}

TEST(Storage, NegativeStridesAreRefused) {
  std::vector<float> memory{1, 2};
  EXPECT_THROW(foreign(memory, {2}, {-1}), ValueError);
}

TEST(Storage, PartialOverlapsAreRefusedAndWholeOnesAreNot) {
  Tensor t = arange(0.0, 5.0);
  Tensor tail = slice(t, 0, 1, 5);
  EXPECT_THROW(tail.add_(slice(t, 0, 0, 4)), RuntimeError);
  tail.add_(tail);
  t.add_(t);
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{0, 4, 8, 12, 16}));
}

TEST(Storage, MemoryMayBeLetGoOnAnyThread) {
  std::vector<float> memory{1, 2, 3};
  int released = 0;
  Tensor t = foreign(memory, {3}, {1}, &released);
  const Tensor sum = t.sum();
  std::thread([moved = std::move(t)]() mutable { moved = Tensor(); }).join();
  EXPECT_EQ(released, 1);
  EXPECT_EQ(sum.item().to_double(), 6);
}

}  // namespace
}  // namespace smolder::lazy
