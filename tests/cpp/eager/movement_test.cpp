// Movement, indexing, products and sources against the interpreter: as views where they can be, and by kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "eager/arrays.h"
#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/strided.h"
#include "smolder/eager/execute.h"
#include "smolder/eager/view.h"

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

/// The kernel itself, into a result laid out as asked; true in `bad_index` when it reports one.
PlainTensor run_kernel(Op op, const std::vector<Array>& inputs, const Words& words, const PlainTensor& like,
                       Layout layout = Layout::kContiguous, bool* bad_index = nullptr) {
  const Array out = make_array(like.shape, like.dtype, layout);
  std::vector<TensorView> views;
  for (const Array& a : inputs) views.push_back(a.view());
  const TensorView view = out.view();
  ErrorReport errors;
  dispatch(DispatchKey::kCPU, {op, views, {&view, 1}, words, &errors});
  if (bad_index) {
    *bad_index = errors.has_bad_index();
  } else {
    EXPECT_FALSE(errors.has_bad_index());
  }
  return to_plain(out);
}

struct Move {
  Op op;
  std::vector<Dims> shapes;
  Words words;
};

const std::vector<Move>& moves() {
  static const std::vector<Move> all = {
      {Op::kReshape, {{4, 6}}, {3, 2, 3, 4}},
      {Op::kReshape, {{2, 1, 12}}, {2, 24, 1}},
      {Op::kReshape, {{}}, {2, 1, 1}},
      {Op::kReshape, {{1, 1}}, {0}},
      {Op::kReshape, {{0, 3}}, {2, 5, 0}},
      {Op::kPermute, {{3, 4, 5}}, {3, 2, 0, 1}},
      {Op::kPermute, {{70, 45}}, {2, 1, 0}},
      {Op::kPermute, {{2, 40, 3, 33}}, {4, 0, 3, 2, 1}},
      {Op::kExpand, {{3, 1, 5}}, {4, 2, 3, 4, 5}},
      {Op::kExpand, {{}}, {1, 7}},
      {Op::kExpand, {{1}}, {1, 0}},
      {Op::kSlice, {{10, 3}}, {0, 2, 9, 3}},
      {Op::kSlice, {{4, 7}}, {1, 3, 3, 1}},
      {Op::kSlice, {{9}}, {0, 1, 9, 2}},
      {Op::kFlip, {{4, 5}}, {2, 0, 1}},
      {Op::kFlip, {{0, 5}}, {1, 0}},
      {Op::kFlip, {{3, 4, 5}}, {1, 1}},
      {Op::kBarrier, {{3, 4}}, {}},
      {Op::kPad, {{3, 4}}, {2, 1, 0, 2, 0, 2, 0}},
      {Op::kPad, {{0, 2}}, {2, 1, 1, 2, 1, 0, 0}},
      {Op::kCat, {{2, 3}, {4, 3}, {0, 3}, {1, 3}}, {0}},
      {Op::kCat, {{2, 3}, {2, 1}}, {1}},
      {Op::kCat, {{2, 2, 2}, {2, 5, 2}, {2, 0, 2}}, {1}},
  };
  return all;
}

TEST(Movement, CopiesOfAllBytesWhereverTheyLieInAPage) {
  constexpr size_t kPage = 4096, kMost = 3 * kPage;
  std::vector<uint8_t> memory(2 * kMost + 4 * kPage);
  for (const size_t after : {0, 1, 4, 12, 63, 64, 100, 511, 512, 4095}) {
    for (const size_t bytes : {size_t{0}, size_t{100}, kPage - 1, kPage, kPage + 1, kPage + 64, kMost - 7}) {
      for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
      std::vector<uint8_t> expected = memory;
      const size_t to = kMost + kPage + after;  // from the first byte
      std::copy_n(memory.begin(), bytes, expected.begin() + static_cast<int64_t>(to));
      cpu::copy_bytes(memory.data() + to, memory.data(), bytes);
      ASSERT_EQ(memory, expected) << bytes << " bytes, " << after << " after";
    }
  }
}

TEST(Movement, EveryPrimitiveDTypeAndLayout) {
  std::mt19937 random(1);
  for (const Move& m : moves()) {
    for (int t = 0; t < kNumDTypes; ++t) {
      std::vector<PlainTensor> inputs;
      for (const Dims& shape : m.shapes) inputs.push_back(random_tensor(random, shape, static_cast<DType>(t)));
      const PlainTensor expected = expected_of(m.op, inputs, m.words);
      for (Layout layout : kLayouts) {
        SCOPED_TRACE(std::string(ir::name(m.op)) + to_string(m.shapes[0]) + " " + name(layout));
        std::vector<Array> arrays;
        for (const PlainTensor& x : inputs) arrays.push_back(to_array(x, layout));
        ASSERT_TRUE(same(to_plain(execute(m.op, arrays, m.words)[0]), expected));
        ASSERT_TRUE(same(run_kernel(m.op, arrays, m.words, expected, Layout::kContiguous), expected));
        ASSERT_TRUE(same(run_kernel(m.op, arrays, m.words, expected, Layout::kTransposed), expected));
      }
    }
  }
}

TEST(Movement, PadsWithNumbersThatFitTheDType) {
  const Array x = to_array({DType::kFloat16, {1}, {Scalar(2.0)}, false});
  const Words words = {1, 1, 1, 1, std::bit_cast<int64_t>(0.1)};
  const PlainTensor out = to_plain(execute(Op::kPad, {&x, 1}, words)[0]);
  EXPECT_EQ(out.elements[0].to_double(), 0.0999755859375);
  EXPECT_EQ(out.elements[1].to_double(), 2);
  EXPECT_EQ(out.elements[2].to_double(), 0.0999755859375);
}

TEST(Movement, ConcatenatesRowsOfAnyLength) {
  std::mt19937 random(7);
  const Words axis = {2};
  for (const DType t : {DType::kInt8, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const int64_t width : {1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 65, 128, 129}) {
      const std::vector<PlainTensor> parts = {random_tensor(random, {3, 5, width}, t),
                                              random_tensor(random, {3, 5, 2 * width + 1}, t)};
      const PlainTensor expected = expected_of(Op::kCat, parts, axis);
      for (const Layout layout : kLayouts) {
        const std::vector<Array> arrays = {to_array(parts[0], layout), to_array(parts[1], layout)};
        EXPECT_TRUE(same(to_plain(execute(Op::kCat, arrays, axis)[0]), expected)) << name(t) << width << name(layout);
        EXPECT_TRUE(same(run_kernel(Op::kCat, arrays, axis, expected, Layout::kTransposed), expected));
      }
    }
  }
}

TEST(Movement, ViewsShareMemory) {
  const Array x = Array::empty({4, 6}, DType::kFloat32);
  const std::pair<Op, Words> views[] = {{Op::kReshape, {2, 24, 1}},  {Op::kPermute, {2, 1, 0}},
                                        {Op::kExpand, {3, 2, 4, 6}}, {Op::kSlice, {0, 1, 4, 2}},
                                        {Op::kFlip, {1, 1}},         {Op::kBarrier, {}}};
  for (const auto& [op, words] : views) {
    const Array y = execute(op, {&x, 1}, words)[0];
    EXPECT_EQ(y.buffer, x.buffer) << ir::name(op);
  }
  const Array t = execute(Op::kPermute, {&x, 1}, Words{2, 1, 0})[0];
  EXPECT_NE(execute(Op::kReshape, {&t, 1}, Words{1, 24})[0].buffer, x.buffer);  // no strides walk it in that order
  EXPECT_EQ(execute(Op::kReshape, {&t, 1}, Words{3, 6, 2, 2})[0].buffer, x.buffer);
}

TEST(Movement, ContiguousCopiesOnlyWhenAsked) {
  std::mt19937 random(2);
  const PlainTensor x = random_tensor(random, {5, 7}, DType::kInt32);
  const Array plain = to_array(x), reversed = to_array(x, Layout::kReversed);
  EXPECT_EQ(contiguous(plain).data, plain.data);
  const Array copied = contiguous(reversed);
  EXPECT_TRUE(copied.is_contiguous());
  EXPECT_TRUE(same(to_plain(copied), x));
}

TEST(Movement, BigCopiesAreTheSameFromManyThreads) {
  std::mt19937 random(3);
  const int before = num_threads();
  const PlainTensor x = random_tensor(random, {301, 407}, DType::kFloat32);
  const Words words = {2, 1, 0};
  const PlainTensor expected = expected_of(Op::kPermute, {x}, words);
  for (int threads : {1, 4}) {
    set_num_threads(threads);
    EXPECT_TRUE(same(run_kernel(Op::kPermute, {to_array(x)}, words, expected), expected));
    EXPECT_TRUE(same(run_kernel(Op::kPermute, {to_array(x)}, words, expected, Layout::kSpaced), expected));
  }
  set_num_threads(before);
}

// -- indexing

PlainTensor indices(std::mt19937& random, const Dims& shape, DType t, int64_t n, bool out_of_range = false) {
  PlainTensor out{t, shape, {}, false};
  const int64_t low = out_of_range ? -n - 3 : 0, span = out_of_range ? 2 * n + 6 : n;
  for (int64_t i = 0; i < numel(shape); ++i) {
    out.elements.push_back(
        Scalar(low + static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(span, 1)))));
  }
  return out;
}

/// The operands of an indexing primitive for `x` along `axis`.
std::vector<PlainTensor> index_operands(std::mt19937& random, Op op, const PlainTensor& x, int axis, DType index_dtype,
                                        bool out_of_range) {
  const bool along = op == Op::kGather || op == Op::kScatterAdd;
  Dims shape = along ? x.shape : Dims{3, 4};
  if (along && !shape.empty()) shape[axis] = 9;
  std::vector<PlainTensor> out = {
      x, indices(random, shape, index_dtype, x.shape.empty() ? 1 : x.shape[axis], out_of_range)};
  Dims source = shape;
  if (op == Op::kIndexAdd || op == Op::kIndexSet) {
    source = x.shape;
    source.erase(axis);
    for (int i = 0; i < shape.size(); ++i) source.insert(axis + i, shape[i]);
  }
  if (op == Op::kIndexAdd || op == Op::kIndexSet || op == Op::kScatterAdd)
    out.push_back(random_tensor(random, source, x.dtype, {-8, 8, false}));
  return out;
}

constexpr Op kIndexing[] = {Op::kTake, Op::kGather, Op::kIndexAdd, Op::kIndexSet, Op::kScatterAdd};

TEST(Scan, EveryDTypeAndLayout) {
  std::mt19937 random(8);
  for (int t = 0; t < kNumDTypes; ++t) {
    for (const auto& [shape, axis] : {std::pair<Dims, int>{{6}, 0},
                                      {{5, 7}, 0},
                                      {{5, 7}, -1},
                                      {{2, 5, 3}, 1},
                                      {{1}, 0},
                                      {{0, 3}, 0},
                                      {{3, 0}, 0}}) {
      const PlainTensor x = random_tensor(random, shape, static_cast<DType>(t), {-8, 8, false});
      for (int kind = 0; kind < 4; ++kind) {
        const PlainTensor expected = expected_of(Op::kScan, {x}, {kind, axis});
        for (Layout layout : kLayouts) {
          SCOPED_TRACE(to_string(shape) + " " + name(layout) + " kind " + std::to_string(kind));
          const std::vector<Array> in{to_array(x, layout)};
          ASSERT_TRUE(same(run_kernel(Op::kScan, in, {kind, axis}, expected), expected));
          ASSERT_TRUE(same(run_kernel(Op::kScan, in, {kind, axis}, expected, Layout::kReversed), expected));
        }
      }
    }
  }
}

TEST(Scan, ALongRowOfSumsIsTheSameOnAnyNumberOfThreads) {
  std::mt19937 random(11);
  const int threads = num_threads();
  for (const DType t : {DType::kFloat32, DType::kFloat64}) {
    for (const Dims& shape :
         {Dims{131072}, Dims{140003}, Dims{2, 150001}, Dims{4200001}}) {  // the last past the caches
      if (shape[0] > 1'000'000 && t == DType::kFloat64) continue;
      const PlainTensor x = random_tensor(random, shape, t, {-8, 8, false});
      const int axis = shape.size() - 1;
      const PlainTensor expected = expected_of(Op::kScan, {x}, {0, axis});
      for (const int n : {1, 2, 3}) {
        if (shape[axis] > 1'000'000 && n != 2) continue;
        SCOPED_TRACE(to_string(shape) + " on " + std::to_string(n) + " threads");
        set_num_threads(n);
        const std::vector<Array> got = execute(Op::kScan, std::array{to_array(x, Layout::kContiguous)}, Words{0, axis});
        EXPECT_TRUE(same(to_plain(got[0]), expected));
      }
    }
  }
  set_num_threads(threads);
}

TEST(Sort, EveryDTypeLayoutAndLength) {
  std::mt19937 random(9);
  for (int t = 0; t < kNumDTypes; ++t) {
    for (const auto& [shape, axis] : {std::pair<Dims, int>{{6}, 0},
                                      {{5, 7}, 0},
                                      {{5, 7}, 1},
                                      {{2, 5, 3}, 1},
                                      {{1}, 0},
                                      {{0, 3}, 0},
                                      {{300}, 0},       // by radix
                                      {{2, 400}, 1},    // the same; few of it by selection
                                      {{70000}, 0}}) {  // shared by threads
      const PlainTensor x = random_tensor(random, shape, static_cast<DType>(t), {-8, 8, true});
      const int64_t n = shape[axis];
      for (const int64_t limit : {n, n / 10}) {
        for (int descending : {0, 1}) {
          const Words words{axis, descending, limit};
          std::vector<const PlainTensor*> in{&x};
          const std::vector<PlainTensor> expected = ir::interpret(Op::kSorted, in, words);
          for (Layout layout : kLayouts) {
            if (n > 1000 && layout != Layout::kContiguous) continue;
            SCOPED_TRACE(to_string(shape) + " " + name(layout) + " limit " + std::to_string(limit));
            const std::vector<Array> got = execute(Op::kSorted, std::array{to_array(x, layout)}, words);
            ASSERT_TRUE(same(to_plain(got[0]), expected[0]));
            ASSERT_TRUE(same(to_plain(got[1]), expected[1]));
          }
        }
      }
    }
  }
}

TEST(Indexing, ScatterIntoCombinesInOrder) {
  std::mt19937 random(10);
  for (int t = 0; t < kNumDTypes; ++t) {
    const PlainTensor x = random_tensor(random, {6, 8}, static_cast<DType>(t), {-8, 8, false});
    const PlainTensor index = indices(random, {4, 5}, DType::kInt64, 8);
    const PlainTensor source = random_tensor(random, {5, 6}, static_cast<DType>(t), {-8, 8, false});
    for (int kind = 0; kind < 4; ++kind) {
      const PlainTensor expected = expected_of(Op::kScatterInto, {x, index, source}, {kind, 1});
      for (Layout layout : kLayouts) {
        const std::vector<Array> in{to_array(x, layout), to_array(index), to_array(source, layout)};
        ASSERT_TRUE(same(run_kernel(Op::kScatterInto, in, {kind, 1}, expected), expected)) << name(layout);
      }
    }
  }
}

TEST(Indexing, EveryPrimitiveDTypeAndLayout) {
  std::mt19937 random(4);
  for (Op op : kIndexing) {
    for (int t = 0; t < kNumDTypes; ++t) {
      for (const auto& [shape, axis] : {std::pair<Dims, int>{{6}, 0}, {{5, 7}, 0}, {{5, 7}, 1}, {{2, 5, 3}, 1}}) {
        const PlainTensor x = random_tensor(random, shape, static_cast<DType>(t), {-8, 8, false});
        for (DType index_dtype : {DType::kInt64, DType::kInt32}) {
          const std::vector<PlainTensor> inputs = index_operands(random, op, x, axis, index_dtype, false);
          const PlainTensor expected = expected_of(op, inputs, {axis});
          for (Layout layout : kLayouts) {
            SCOPED_TRACE(std::string(ir::name(op)) + to_string(shape) + " " + name(layout));
            std::vector<Array> arrays;
            for (const PlainTensor& p : inputs) arrays.push_back(to_array(p, layout));
            ASSERT_TRUE(same(run_kernel(op, arrays, {axis}, expected), expected));
            ASSERT_TRUE(same(run_kernel(op, arrays, {axis}, expected, Layout::kReversed), expected));
          }
        }
      }
    }
  }
}

TEST(Indexing, OutOfRangeIsClampedOrDroppedAndReported) {
  std::mt19937 random(5);
  for (Op op : kIndexing) {
    for (int axis : {0, 1}) {
      const PlainTensor x = random_tensor(random, {5, 7}, DType::kFloat32, {-8, 8, false});
      const std::vector<PlainTensor> inputs = index_operands(random, op, x, axis, DType::kInt64, true);
      std::vector<Array> arrays;
      for (const PlainTensor& p : inputs) arrays.push_back(to_array(p));
      const PlainTensor expected = expected_of(op, inputs, {axis});
      bool bad_index = false;
      ASSERT_TRUE(same(run_kernel(op, arrays, {axis}, expected, Layout::kContiguous, &bad_index), expected));
      EXPECT_TRUE(bad_index) << ir::name(op);
      EXPECT_THROW(execute(op, arrays, Words{axis}), Error);  // gather and scatter_add: a RuntimeError, as torch
      std::vector<BadIndex> reports;
      EXPECT_NO_THROW(execute(op, arrays, Words{axis}, DispatchKey::kCPU, &reports));
      ASSERT_EQ(reports.size(), 1u);
      EXPECT_EQ(reports[0].op, ir::name(op));
    }
  }
}

TEST(Indexing, EmptyAxesAndIndices) {
  const Array nothing = Array::empty({0, 3}, DType::kFloat32), x = Array::empty({2, 3}, DType::kFloat32);
  const Array none = Array::empty({0}, DType::kInt64), one = to_array({DType::kInt64, {1}, {Scalar(0)}, false});
  EXPECT_EQ(execute(Op::kTake, std::array{x, none}, Words{0})[0].shape, Dims({0, 3}));
  EXPECT_EQ(execute(Op::kTake, std::array{nothing, none}, Words{0})[0].shape, Dims({0, 3}));
  EXPECT_THROW(execute(Op::kTake, std::array{nothing, one}, Words{0}), IndexError);
  std::vector<BadIndex> reports;
  const Array row = execute(Op::kTake, std::array{nothing, one}, Words{0}, DispatchKey::kCPU, &reports)[0];
  for (const Scalar& v : to_plain(row).elements) EXPECT_EQ(v.to_double(), 0);
}

TEST(Indexing, GatherAndScatterReachOnlyWhatTheIndexCovers) {
  std::mt19937 random(6);
  const PlainTensor x = random_tensor(random, {6, 8}, DType::kFloat64, {-8, 8, false});
  const PlainTensor index = indices(random, {4, 5}, DType::kInt64, 8);
  const PlainTensor source = random_tensor(random, {5, 6}, DType::kFloat64, {-8, 8, false});
  for (const auto& [op, inputs] :
       {std::pair<Op, std::vector<PlainTensor>>{Op::kGather, {x, index}}, {Op::kScatterAdd, {x, index, source}}}) {
    std::vector<Array> arrays;
    for (const PlainTensor& p : inputs) arrays.push_back(to_array(p, Layout::kTransposed));
    const PlainTensor expected = expected_of(op, inputs, {1});
    EXPECT_TRUE(same(run_kernel(op, arrays, {1}, expected), expected)) << ir::name(op);
  }
}

TEST(Indexing, RepeatedIndicesAddInOrderWhateverTheThreads) {
  std::mt19937 random(7);
  const int before = num_threads();
  for (DType t : {DType::kFloat32, DType::kBFloat16}) {
    const PlainTensor x = random_tensor(random, {10, 600}, t, {-8, 8, false});
    const PlainTensor index = indices(random, {500}, DType::kInt64, 10);
    const PlainTensor source = random_tensor(random, {500, 600}, t, {-8, 8, false});
    const PlainTensor expected = expected_of(Op::kIndexAdd, {x, index, source}, {0});
    for (int threads : {1, 4}) {
      set_num_threads(threads);
      EXPECT_TRUE(
          same(run_kernel(Op::kIndexAdd, {to_array(x), to_array(index), to_array(source)}, {0}, expected), expected));
    }
  }
  set_num_threads(before);
}

// -- sources

TEST(Sources, IotaAndRandomBits) {
  for (const auto& [shape, axis] :
       {std::pair<Dims, int>{{5}, 0}, {{3, 4}, 0}, {{3, 4}, 1}, {{2, 700, 3}, 1}, {{0, 3}, 1}}) {
    Words words = {shape.size()};
    words.insert(words.end(), shape.begin(), shape.end());
    const Words with_axis = [&] {
      Words w = words;
      w.push_back(axis);
      return w;
    }();
    EXPECT_TRUE(same(to_plain(execute(Op::kIota, {}, with_axis)[0]), expected_of(Op::kIota, {}, with_axis)));
    for (int64_t seed : {int64_t{0}, int64_t{-5}, int64_t{0x123456789abcdef}}) {
      for (int64_t offset : {int64_t{0}, int64_t{17}, int64_t{-1}}) {
        const std::vector<PlainTensor> inputs = {weak_number(seed), {DType::kInt64, {}, {Scalar(offset)}, false}};
        const std::vector<Array> arrays = {to_array(inputs[0]), to_array(inputs[1])};
        const PlainTensor expected = expected_of(Op::kRandomBits, inputs, words);
        EXPECT_TRUE(same(to_plain(execute(Op::kRandomBits, arrays, words)[0]), expected)) << seed << " " << offset;
      }
    }
  }
}

}  // namespace
}  // namespace smolder::eager
