// Kernels written by hand for CUDA, emulated on the host against those of the CPU; and that NVRTC takes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "jit/cuda_emulator.h"
#include "jit/error_slots.h"
#include "jit/kernel_test_util.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/core/half.h"
#include "smolder/core/thread_pool.h"
#include "smolder/ir/builder.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/device/native.h"
#include "smolder/jit/cuda/device/prelude.h"
#include "smolder/jit/cuda/device/report.h"
#include "smolder/jit/cuda/library.h"
#include "smolder/jit/cuda/native/product_finish.h"

namespace smolder::jit::test {
namespace {

using ir::Op;

EmulatedDevice& device() {
  static EmulatedDevice one(SMOLDER_HOST_CXX);
  return one;
}

/// A view on memory of its own.
struct Operand {
  LibraryView view;
  Array memory;
  int64_t first = 0;  ///< the element at index 0 of every axis

  void* address(const Array& in) const {
    return static_cast<char*>(in.data()) + first * static_cast<int64_t>(itemsize(view.dtype));
  }
};

Operand dense(DType dtype, const Dims& shape) {
  return {{dtype, shape, contiguous_strides(shape)}, Array(dtype, numel(shape)), 0};
}

/// Axes in some order in memory, some with gaps, some backwards, some (where `shared`) all one element.
Operand strided(DType dtype, const Dims& shape, std::mt19937_64& random, bool shared = true) {
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  LibraryView view{dtype, shape, Dims::filled(shape.size(), 0)};
  int64_t elements = 1, first = 0;
  for (const int a : order) {
    if (shared && random() % 8 == 0) continue;
    const int64_t step = random() % 4 == 0 ? 2 : 1, reach = std::max<int64_t>(shape[a] - 1, 0) * step * elements;
    view.strides[a] = step * elements;
    elements += reach;
    if (random() % 4 == 0) {
      first += reach;
      view.strides[a] = -view.strides[a];
    }
  }
  return {view, Array(dtype, numel(shape) == 0 ? 0 : elements), first};
}

/// Indices below n; with `bad`, now and then others.
void fill_indices(Operand& x, int64_t n, bool bad, std::mt19937_64& random) {
  for (int64_t i = 0; i < x.memory.size(); ++i) {
    int64_t v = n > 0 ? static_cast<int64_t>(random() % static_cast<uint64_t>(n)) : 0;
    if (bad && random() % 16 == 0) v = random() % 2 == 0 ? n + static_cast<int64_t>(random() % 3) : -1;
    x.memory.set_bits(i, static_cast<uint64_t>(v));
  }
}

/// In place of an operand that may be left out.
Operand absent() { return {{}, Array(DType::kFloat32, 0), 0}; }

/// Whether bits must agree, or values nearly.
using Same = std::function<testing::AssertionResult(const Array& got, const Array& want)>;
testing::AssertionResult same_bits(const Array& got, const Array& want) { return same(got, want); }

/// Runs a primitive on the CPU and emulated, and expects the same results and reports.
void expect_same(Op op, const std::vector<Operand*>& inputs, std::vector<Operand>& outputs,
                 const std::vector<int64_t>& attrs, const Same& is_same = same_bits) {
  std::vector<LibraryView> in, out;
  for (const Operand* x : inputs) in.push_back(x->view);
  for (const Operand& x : outputs) out.push_back(x.view);
  const auto on_device = cuda::bind_native(device(), op, in, out, attrs);
  ASSERT_TRUE(on_device) << ir::name(op);
  const auto on_host = bind_library(DeviceType::kCPU, op, in, out, attrs);
  // A result has elements of its own, or the first operand's.
  const bool can_update = ir::info(op).flags.updates && inputs[0]->view.strides == outputs[0].view.strides;
  for (const bool updates : {false, true}) {
    if (updates && !can_update) continue;
    SCOPED_TRACE(updates ? "in place" : "elsewhere");
    std::vector<Array> got, want;
    std::vector<void*> got_at, want_at;
    for (const Operand* x : inputs) {
      for (auto [list, at] : {std::pair(&got, &got_at), std::pair(&want, &want_at)}) {
        list->push_back(x->memory.clone());
        at->push_back(x->address(list->back()));
      }
    }
    for (const Operand& x : outputs) {
      for (auto [list, at] : {std::pair(&got, &got_at), std::pair(&want, &want_at)}) {
        if (updates) {
          at->push_back(at->front());
        } else {
          list->push_back(x.memory.clone());
          at->push_back(x.address(list->back()));
        }
      }
    }
    ErrorSlots errors(1);
    const bool good = on_device->queue(got_at, {on_device->has_error_slot() ? errors.data() : nullptr});
    const bool host_good = on_host->run(want_at);
    // Where there are no elements the device is given nothing to run, and looks at no index.
    const bool empty = std::ranges::all_of(outputs, [](const Operand& x) { return numel(x.view.shape) == 0; });
    EXPECT_TRUE(empty || (good && errors.found()[0] == 0) == host_good);
    // The host looks at all indices before it overwrites the only copy; the device drops what is out of range.
    if (updates && !host_good) got[0] = inputs[0]->memory.clone();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(is_same(got[i], want[i])) << "operand " << i;
  }
}

std::string describe(Op op, const std::vector<Operand*>& inputs) {
  std::string text(ir::name(op));
  for (const Operand* x : inputs) {
    text += " " + std::string(name(x->view.dtype)) + to_string(x->view.shape) + to_string(x->view.strides);
  }
  return text;
}

// -- scatters

struct ScatterCase {
  Dims self, index;
  int axis;
  bool rows;
  bool bad = false;
};

const std::vector<ScatterCase>& scatter_cases() {
  static const std::vector<ScatterCase> cases = {
      {{7}, {5}, 0, true},
      {{7, 8}, {5}, 0, true},
      {{3, 7, 16}, {2, 6}, 1, true, true},
      {{3, 7, 3}, {40}, 1, true},
      {{4, 5}, {0}, 0, true},
      {{0, 5}, {3}, 0, true},
      {{5, 0}, {3}, 0, true, true},
      {{60, 4}, {1500}, 0, true, true},
      {{600, 4}, {1500}, 0, true, true},
      {{3, 2, 8}, {4000}, 1, true},
      {{1, 5}, {600}, 0, true, true},
      {{2, 9, 5}, {700}, 1, true},
      {{3, 20}, {700}, 1, true},
      {{}, {}, 0, false},
      {{1}, {1}, 0, false},
      {{9}, {30}, 0, false},
      {{9}, {30}, 0, false, true},
      {{4, 9, 5}, {3, 20, 4}, 1, false},
      {{4, 9}, {3, 7}, 0, false, true},
      {{8, 3}, {8, 1}, 1, false},
      {{30}, {2000}, 0, false, true},
      {{3000}, {2000}, 0, false},
      {{6, 40, 3}, {5, 150, 3}, 1, false},
      {{0, 4}, {3, 4}, 0, false},
      {{4, 4}, {0, 4}, 0, false},
      {{600}, {9000}, 0, false, true},
  };
  return cases;
}

void check_scatter(Op op, const std::vector<int64_t>& kind, const ScatterCase& c, DType dtype, DType index_dtype,
                   std::mt19937_64& random) {
  const bool plain = random() % 2 == 0;
  const auto make = [&](DType t, const Dims& shape) { return plain ? dense(t, shape) : strided(t, shape, random); };
  Operand self = plain ? dense(dtype, c.self) : strided(dtype, c.self, random, false);
  Operand index = make(index_dtype, c.index);
  Dims source_shape = c.index;
  if (c.rows) {
    source_shape = {};
    for (int a = 0; a < c.axis; ++a) source_shape.push_back(c.self[a]);
    for (const int64_t n : c.index) source_shape.push_back(n);
    for (int a = c.axis + 1; a < c.self.size(); ++a) source_shape.push_back(c.self[a]);
  }
  Operand source = make(dtype, source_shape);
  self.memory.fill_special(random);
  source.memory.fill_special(random);
  fill_indices(index, c.self.empty() ? 1 : c.self[c.axis], c.bad, random);
  std::vector<Operand*> inputs{&self, &index, &source};
  SCOPED_TRACE(describe(op, inputs));
  std::vector<int64_t> attrs = kind;
  attrs.push_back(c.axis);
  std::vector<Operand> outputs;
  outputs.push_back(dense(dtype, c.self));
  expect_same(op, inputs, outputs, attrs);
}

TEST(CudaNative, ScattersAreThoseOfTheHost) {
  SKIP_UNDER_SANITIZER;
  std::mt19937_64 random(1);
  const std::vector<std::pair<Op, std::vector<int64_t>>> rows = {{Op::kIndexAdd, {}}, {Op::kIndexSet, {}}};
  const std::vector<std::pair<Op, std::vector<int64_t>>> elements = {{Op::kScatterAdd, {}},
                                                                     {Op::kScatterInto, {0}},
                                                                     {Op::kScatterInto, {1}},
                                                                     {Op::kScatterInto, {2}},
                                                                     {Op::kScatterInto, {3}}};
  const bool all = std::getenv("SMOLDER_CUDA_ALL") != nullptr;
  int number = 0;
  for (const bool in_rows : {true, false}) {
    for (const auto& [op, kind] : in_rows ? rows : elements) {
      for (const DType dtype : kDTypes) {
        // The host's compiler takes a second a program: without SMOLDER_CUDA_ALL an op has a dtype or two.
        if (!all && ++number % 7 != 3 && !(dtype == DType::kFloat32 && op == Op::kScatterAdd)) continue;
        const DType index = number % 2 == 0 ? DType::kInt32 : DType::kInt64;
        for (const ScatterCase& c : scatter_cases()) {
          if (c.rows == in_rows) check_scatter(op, kind, c, dtype, index, random);
        }
      }
    }
  }
}

// Sums of whole numbers: in tables of a block's own where places are few, else in memory, in any order.
TEST(CudaNative, CountsAreThoseOfTheHost) {
  SKIP_UNDER_SANITIZER;
  std::mt19937_64 random(5);
  const std::vector<ScatterCase> cases = {
      {{7}, {5}, 0, true},                // a short index
      {{7}, {600}, 0, true, true},        // in tables
      {{300}, {30000}, 0, true},          // in tables of several blocks
      {{3, 11, 4}, {2, 9000}, 1, true},   // in tables, of rows at three places
      {{1, 4096}, {600}, 0, true},        // in the largest tables
      {{1, 4097}, {600}, 0, true, true},  // in memory
      {{5000}, {6000}, 0, true, true},
      {{3, 900, 2}, {4000}, 1, true},
      {{0, 4}, {600}, 0, true},
      {{4, 0}, {600}, 0, true, true},
  };
  for (const ScatterCase& c : cases) check_scatter(Op::kIndexAdd, {}, c, DType::kInt64, DType::kInt64, random);
  for (const DType dtype : {DType::kInt32, DType::kBool, DType::kInt8}) {  // in tables, and in memory
    check_scatter(Op::kIndexAdd, {}, cases[1], dtype, DType::kInt64, random);
    check_scatter(Op::kIndexAdd, {}, cases[5], dtype, DType::kInt64, random);
  }
}

TEST(CudaNative, UpdatesOfAllOneNumber) {
  SKIP_UNDER_SANITIZER;
  std::mt19937_64 random(7);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64, DType::kBool}) {
    Operand self = dense(dtype, {1}), source = dense(dtype, {2, 3}), index = dense(DType::kInt64, {2});
    self.view.shape = {777, 3}, self.view.strides = {0, 0};
    self.memory.fill(random);
    source.memory.fill(random);
    fill_indices(index, 777, false, random);
    std::vector<Operand> outputs;
    outputs.push_back(dense(dtype, {777, 3}));
    expect_same(Op::kIndexAdd, {&self, &index, &source}, outputs, {0});
  }
}

TEST(CudaNative, ManyColumnsAreWalked) {
  SKIP_UNDER_SANITIZER;
  std::mt19937_64 random(2);
  check_scatter(Op::kScatterAdd, {}, {{5000, 4}, {5000, 3}, 1, false, true}, DType::kFloat32, DType::kInt64, random);
  check_scatter(Op::kScatterInto, {0}, {{3, 5000}, {9, 5000}, 0, false, true}, DType::kFloat32, DType::kInt64, random);
}

// -- movement

TEST(CudaNative, SlicesAreWritten) {
  SKIP_UNDER_SANITIZER;
  std::mt19937_64 random(3);
  for (const DType dtype : kDTypes) {
    for (int i = 0; i < 12; ++i) {
      const Dims shape = {static_cast<int64_t>(random() % 4 + 1), static_cast<int64_t>(random() % 9 + 1), 64};
      Dims part, starts, steps;
      for (const int64_t n : shape) {
        steps.push_back(random() % 3 == 0 ? 2 : 1);
        starts.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(n)));
        part.push_back(
            static_cast<int64_t>(random() % static_cast<uint64_t>((n - starts.back() + 1) / steps.back() + 1)));
        if (starts.back() + (part.back() - 1) * steps.back() >= n) part.back() = 1;
      }
      Operand self = i % 2 == 0 ? dense(dtype, shape) : strided(dtype, shape, random, false);
      Operand source = i % 3 == 0 ? dense(dtype, part) : strided(dtype, part, random);
      self.memory.fill_special(random);
      source.memory.fill_special(random);
      std::vector<int64_t> attrs{3};
      attrs.insert(attrs.end(), starts.begin(), starts.end());
      attrs.push_back(3);
      attrs.insert(attrs.end(), steps.begin(), steps.end());
      std::vector<Operand*> inputs{&self, &source};
      SCOPED_TRACE(describe(Op::kSliceWrite, inputs));
      std::vector<Operand> outputs;
      outputs.push_back(dense(dtype, shape));
      expect_same(Op::kSliceWrite, inputs, outputs, attrs);
    }
  }
}

TEST(CudaNative, CatsOfManyAreThoseOfTheHost) {
  SKIP_UNDER_SANITIZER;
  std::mt19937_64 random(4);
  for (const DType dtype : kDTypes) {
    for (int i = 0; i < 12; ++i) {
      // Sides of four dense rows are copied 16 bytes at a time, others fewer; one launch holds 64 copies.
      const Dims shape = i % 3 == 0 ? Dims{3, 8, 16} : Dims{static_cast<int64_t>(random() % 4 + 1), 5, 3};
      const auto axis = static_cast<int64_t>(random() % 3);
      const size_t parts = i % 4 == 0 ? 70 : random() % 9 + 1;
      std::vector<Operand> operands;
      Dims whole = shape;
      whole[static_cast<int>(axis)] = 0;
      for (size_t k = 0; k < parts; ++k) {
        Dims part = shape;
        if (i % 3 != 0) part[static_cast<int>(axis)] = static_cast<int64_t>(random() % 4);
        whole[static_cast<int>(axis)] += part[static_cast<int>(axis)];
        operands.push_back(random() % 2 == 0 ? dense(dtype, part) : strided(dtype, part, random));
        operands.back().memory.fill_special(random);
      }
      std::vector<Operand*> inputs;
      for (Operand& x : operands) inputs.push_back(&x);
      SCOPED_TRACE(describe(Op::kWideCat, inputs));
      std::vector<Operand> outputs;
      outputs.push_back(i % 2 == 0 ? dense(dtype, whole) : strided(dtype, whole, random, false));
      expect_same(Op::kWideCat, inputs, outputs, {axis});
    }
  }
}

// A guarded program does nothing once a step has failed, and its work otherwise.
TEST(CudaNative, GuardedCalls) {
  SKIP_UNDER_SANITIZER;
  std::mt19937_64 random(3);
  struct Call {
    Op op;
    Dims shape, index, source;
    std::vector<int64_t> attrs;
    DType dtype = DType::kFloat32;
  };
  const std::vector<Call> calls = {
      {Op::kIndexSet, {9, 8}, {2}, {2, 8}, {0}},                         // a short index
      {Op::kIndexAdd, {9, 8}, {600}, {600, 8}, {0}},                     // sorted
      {Op::kIndexAdd, {9, 8}, {600}, {600, 8}, {0}, DType::kInt64},      // in tables
      {Op::kIndexAdd, {900, 8}, {600}, {600, 8}, {0}, DType::kInt64},    // in any order
      {Op::kScatterAdd, {40, 6}, {30, 6}, {30, 6}, {0}},                 // by elements
      {Op::kScatterAdd, {40, 6}, {30, 6}, {30, 6}, {0}, DType::kInt64},  // by elements, in any order
      {Op::kScatterInto, {1, 6}, {1, 6}, {1, 6}, {0, 0}},                // by columns
  };
  for (const Call& call : calls) {
    SCOPED_TRACE(ir::name(call.op));
    Operand x = dense(call.dtype, call.shape), index = dense(DType::kInt64, call.index),
            source = dense(call.dtype, call.source);
    x.memory.fill_special(random);
    source.memory.fill_special(random);
    fill_indices(index, call.shape[0], false, random);
    const std::vector<LibraryView> in = {x.view, index.view, source.view}, out = {x.view};
    const auto plain = cuda::bind_native(device(), call.op, in, out, call.attrs);
    const auto guarded = cuda::bind_native(device(), call.op, in, out, call.attrs, true);
    Array want = x.memory.clone();
    plain->run(std::vector<void*>{want.data(), index.memory.data(), source.memory.data(), want.data()});
    for (const uint32_t failed : {0u, 1u}) {
      Array got = x.memory.clone();
      const std::vector<void*> at{got.data(), index.memory.data(), source.memory.data(), got.data()};
      EXPECT_TRUE(guarded->queue(at, {nullptr, &failed}));
      EXPECT_TRUE(same(got, failed ? x.memory : want)) << failed;
    }
  }
  for (const Dims& part : {Dims{2, 8}, Dims{2, 3}, Dims{1, 1}}) {
    SCOPED_TRACE(to_string(part));
    Operand x = dense(DType::kFloat32, {9, 8}), source = dense(DType::kFloat32, part);
    x.memory.fill_special(random);
    source.memory.fill_special(random);
    const std::vector<LibraryView> in = {x.view, source.view}, out = {x.view};
    const std::vector<int64_t> attrs{2, 3, 0, 2, 1, 1};  // starts and steps
    const auto plain = cuda::bind_native(device(), Op::kSliceWrite, in, out, attrs);
    const auto guarded = cuda::bind_native(device(), Op::kSliceWrite, in, out, attrs, true);
    Array want = x.memory.clone();
    plain->run(std::vector<void*>{want.data(), source.memory.data(), want.data()});
    for (const uint32_t failed : {0u, 1u}) {
      Array got = x.memory.clone();
      EXPECT_TRUE(guarded->queue(std::vector<void*>{got.data(), source.memory.data(), got.data()}, {nullptr, &failed}));
      EXPECT_TRUE(same(got, failed ? x.memory : want)) << failed;
    }
  }
}

TEST(CudaNative, StepsAreCountedUntilOneFails) {
  SKIP_UNDER_SANITIZER;
  const auto count_step = device().function(cuda::kCount, "count_step");
  uint32_t failed = 0;
  uint64_t count = 4, told = 0;
  const auto arguments = cuda::words(&failed, &count, &told);
  for (const uint64_t passed : {5u, 6u}) {
    count_step->launch(1, 1, arguments);
    EXPECT_EQ(told, passed);
  }
  failed = 1;
  count_step->launch(1, 1, arguments);
  EXPECT_EQ(told, 6u);
  EXPECT_EQ(count, 6u);
}

// -- products, scans and sorts

TEST(CudaNative, ProductsOfIntegersAreThoseOfTheHost) {
  SKIP_UNDER_SANITIZER;
  std::mt19937_64 random(4);
  for (const DType dtype : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}) {
    for (const auto& [batch, m, n, k] :
         {std::array{2, 3, 5, 7}, {1, 70, 65, 40}, {3, 1, 9, 0}, {0, 2, 2, 2}, {2, 9, 80, 1}}) {
      for (const bool plain : {true, false}) {
        const auto make = [&](const Dims& s) { return plain ? dense(dtype, s) : strided(dtype, s, random); };
        Operand a = make({batch, 2, m, k}), b = make({batch, 2, k, n}), no_bias = absent();
        a.memory.fill_special(random);
        b.memory.fill_special(random);
        std::vector<Operand*> inputs{&a, &b, &no_bias};
        SCOPED_TRACE(describe(Op::kDot, inputs));
        std::vector<Operand> outputs;
        outputs.push_back(dense(dtype, {batch, 2, m, n}));
        expect_same(Op::kDot, inputs, outputs, {static_cast<int64_t>(dtype)});
      }
    }
  }
}

TEST(CudaNative, SortsAreThoseOfTheHost) {
  SKIP_UNDER_SANITIZER;
  struct Case {
    Dims shape;
    int axis;
    int64_t limit;
  };
  const Case cases[] = {{{7, 5}, 1, 5},    {{3, 32, 4}, 1, 9},   {{40}, 0, 40},          {{1}, 0, 1},
                        {{0, 4}, 1, 4},    {{4, 0}, 1, 0},       {{3, 900}, 1, 900},     {{2, 1100, 2}, 1, 7},
                        {{4000}, 0, 4000}, {{3, 5000}, 1, 5000}, {{2, 4500}, 1, 3000},   {{2, 4200}, 1, 10},
                        {{9000}, 0, 1000}, {{3, 300}, 1, 20},    {{2, 2100, 2}, 1, 200}, {{20000}, 0, 50}};
  std::mt19937_64 random(5);
  const bool all = std::getenv("SMOLDER_CUDA_ALL") != nullptr;
  for (const DType dtype : kDTypes) {
    for (const int64_t descending : {0, 1}) {
      const bool is_one_of_few = dtype == DType::kFloat32 ? !descending
                                 : dtype == DType::kBFloat16 || dtype == DType::kInt64 || dtype == DType::kInt8
                                     ? descending != 0
                                     : false;
      if (!all && !is_one_of_few) continue;
      for (const Case& c : cases) {
        Operand x = random() % 2 == 0 ? dense(dtype, c.shape) : strided(dtype, c.shape, random);
        x.memory.fill_special(random);
        // Many equal ones, as special values are few, and some that are all different.
        for (int64_t i = 0; random() % 2 == 0 && i < x.memory.size(); ++i) {
          if (is_floating(dtype)) x.memory.set(i, std::round(static_cast<double>(random() % 64) - 32));
        }
        std::vector<Operand*> inputs{&x};
        SCOPED_TRACE(describe(Op::kSorted, inputs) + " along " + std::to_string(c.axis) + " to " +
                     std::to_string(c.limit));
        Dims shape = c.shape;
        shape[c.axis] = c.limit;
        std::vector<Operand> outputs;
        outputs.push_back(dense(dtype, shape));
        outputs.push_back(dense(DType::kInt64, shape));
        expect_same(Op::kSorted, inputs, outputs, {c.axis, descending, c.limit});
      }
    }
  }
}

double value_of(const Array& a, int64_t i) {
  switch (a.dtype()) {
    case DType::kFloat16:
      return to_float(Float16{static_cast<uint16_t>(a.bits(i))});
    case DType::kBFloat16:
      return to_float(BFloat16{static_cast<uint16_t>(a.bits(i))});
    case DType::kFloat32:
      return std::bit_cast<float>(static_cast<uint32_t>(a.bits(i)));
    default:
      return std::bit_cast<double>(a.bits(i));
  }
}
/// Sums in another order: equal to a few units of float64, and what that makes of the dtype.
testing::AssertionResult nearly(const Array& got, const Array& want, double units = 1) {
  const DType t = got.dtype();
  if (!is_floating(t)) return same(got, want);
  for (int64_t i = 0; i < got.size(); ++i) {
    const double a = value_of(got, i), b = value_of(want, i);
    const double unit = t == DType::kFloat64 ? 1e-11 : t == DType::kFloat32 ? 1e-6 : t == DType::kFloat16 ? 2e-3 : 1e-2;
    if (is_half(t)) units = 1;  // which are rounded from float32 once
    if (std::isnan(a) != std::isnan(b) ||
        (a != b && !std::isnan(a) && !(std::abs(a - b) <= units * unit * (1 + std::abs(b))))) {
      return testing::AssertionFailure() << "element " << i << " is " << a << ", not " << b;
    }
  }
  return testing::AssertionSuccess();
}

TEST(CudaNative, ScansAreThoseOfTheHost) {
  SKIP_UNDER_SANITIZER;
  const std::vector<std::pair<Dims, int>> cases = {{{5}, 0},        {{1}, 0},        {{3, 0}, 1},   {{0, 3}, 1},
                                                   {{20, 33}, 1},   {{4, 512}, 1},   {{2, 700}, 1}, {{2, 9001}, 1},
                                                   {{512, 520}, 1}, {{6, 40, 5}, 1}, {{900, 3}, 0}, {{2, 2000, 8}, 1},
                                                   {{1000, 3}, 1},  {{3, 70000}, 0}};
  std::mt19937_64 random(6);
  const bool all = std::getenv("SMOLDER_CUDA_ALL") != nullptr;
  int number = 0;
  for (const DType dtype : kDTypes) {
    for (const int64_t kind : {0, 1, 2, 3}) {
      if (!all && ++number % 7 != 0 && !(dtype == DType::kFloat32 && kind == 0)) continue;
      for (const auto& [shape, axis] : cases) {
        Operand x = random() % 2 == 0 ? dense(dtype, shape) : strided(dtype, shape, random);
        // The order of sums shows in floats alone, and what overflows on the way in none that is compared.
        const bool exact = !is_floating(dtype) || kind >= 2;
        exact ? x.memory.fill_special(random) : x.memory.fill(random);
        std::vector<Operand*> inputs{&x};
        SCOPED_TRACE(describe(Op::kScan, inputs) + " along " + std::to_string(axis) + " kind " + std::to_string(kind));
        std::vector<Operand> outputs;
        outputs.push_back(dense(dtype, shape));
        expect_same(
            Op::kScan, inputs, outputs, {kind, axis},
            exact ? Same(same_bits) : Same([](const Array& got, const Array& want) { return nearly(got, want); }));
      }
    }
  }
}

struct ProductCase {
  Dims batch;
  int64_t m, n, k;

  Dims shape(int64_t rows, int64_t columns) const {
    Dims all = batch;
    all.push_back(rows), all.push_back(columns);
    return all;
  }
};
/// One for each tile at least, in the order of product_tiles.def, and what fits no chunks.
const std::vector<ProductCase>& product_cases() {
  static const std::vector<ProductCase> cases = {
      {{}, 1, 40, 304},     {{}, 3, 70, 33},         {{}, 64, 2, 96},        {{}, 8, 33, 20},
      {{}, 5, 12, 8},       {{2, 3}, 3, 1, 7},       {{}, 9, 17, 300},       {{2}, 8, 8, 1024},
      {{20, 2}, 17, 8, 33}, {{2, 2}, 80, 80, 132},   {{4}, 100, 100, 131},   {{2, 2}, 150, 148, 20},
      {{3}, 4, 4, 0},       {{2, 2}, 150, 150, 140}, {{2, 3}, 250, 250, 65}, {{2, 3}, 256, 192, 68}};
  return cases;
}

TEST(CudaNative, ProductsOfFloatsAreNearlyThoseOfTheHost) {
  SKIP_UNDER_SANITIZER;
  std::mt19937_64 random(11);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    for (const ProductCase& c : product_cases()) {
      const bool is_large = numel(c.shape(c.m, c.n)) > 1000;
      if (is_large && dtype != DType::kFloat32) continue;  // these are cuBLASLt's
      for (const bool plain : {true, false}) {
        const auto make = [&](const Dims& s) { return plain ? dense(dtype, s) : strided(dtype, s, random); };
        Operand a = make(c.shape(c.m, c.k)), b = make(c.shape(c.k, c.n)), bias = dense(dtype, {c.n});
        for (Operand* x : {&a, &b, &bias}) x->memory.fill(random);
        if (random() % 2 == 0) bias = absent();
        const std::vector<Operand*> inputs{&a, &b, &bias};
        const std::vector<int64_t> attrs{static_cast<int64_t>(dtype), static_cast<int64_t>(random() % 2)};
        SCOPED_TRACE(describe(Op::kDot, inputs));
        std::vector<Operand> outputs;
        outputs.push_back(dense(dtype, c.shape(c.m, c.n)));
        expect_same(Op::kDot, inputs, outputs, attrs,
                    [](const Array& got, const Array& want) { return nearly(got, want, 1000); });
      }
    }
  }
}

TEST(CudaNative, AProductTakesATileThatTheDeviceHasRoomFor) {
  SKIP_UNDER_SANITIZER;
  EmulatedDevice small(SMOLDER_HOST_CXX, 48 << 10);
  const auto made_by = [](cuda::NativeDevice& device) {
    const LibraryView a = dense(DType::kFloat32, {9, 300}).view, b = dense(DType::kFloat32, {300, 17}).view;
    const auto product = cuda::bind_native(device, Op::kDot, {a, b}, {dense(DType::kFloat32, {9, 17}).view}, {});
    return product ? product->describe() : "";
  };
  EXPECT_THAT(made_by(device()), testing::HasSubstr("by Deep8"));
  EXPECT_THAT(made_by(small), testing::HasSubstr("by Deep16"));
}

TEST(CudaNative, ProductsOfFewRowsHaveKernelsOfTheirOwn) {
  SKIP_UNDER_SANITIZER;
  const auto is_by_rows = [](DType dtype, int64_t m, int64_t n) {
    const LibraryView a = dense(dtype, {m, 64}).view, b = dense(dtype, {64, n}).view;
    const auto product = cuda::bind_native(device(), Op::kDot, {a, b}, {dense(dtype, {m, n}).view}, {});
    return product && product->describe().ends_with(" by rows");
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    EXPECT_TRUE(is_by_rows(dtype, 1, 40) && is_by_rows(dtype, 40, 1)) << name(dtype);
    EXPECT_EQ(is_by_rows(dtype, 8, 40), dtype == DType::kFloat32) << name(dtype);
    EXPECT_FALSE(is_by_rows(dtype, 9, 40) || is_by_rows(dtype, 1, 8)) << name(dtype);
  }
  EXPECT_FALSE(is_by_rows(DType::kFloat64, 1, 40));
}

/// The elements of `from` as they lie in `to`.
Operand moved(const Operand& from, Operand to) {
  const Dims& shape = from.view.shape;
  for (int64_t i = 0; i < numel(shape); ++i) {
    int64_t rest = i, at = from.first, put = to.first;
    for (int axis = shape.size() - 1; axis >= 0; --axis) {
      at += rest % shape[axis] * from.view.strides[axis];
      put += rest % shape[axis] * to.view.strides[axis];
      rest /= shape[axis];
    }
    to.memory.set_bits(put, from.memory.bits(at));
  }
  return to;
}

TEST(CudaNative, ProductsHaveTheSameBitsHoweverOperandsLie) {
  SKIP_UNDER_SANITIZER;
  std::mt19937_64 random(12);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const ProductCase& c : product_cases()) {
      const Dims result = c.shape(c.m, c.n);
      if (numel(result) == 0 || (numel(result) > 1000 && dtype != DType::kFloat32)) continue;
      Operand a = dense(dtype, c.shape(c.m, c.k)), b = dense(dtype, c.shape(c.k, c.n));
      a.memory.fill(random);
      b.memory.fill(random);
      std::optional<Array> want;
      for (int turn = 0; turn < 3; ++turn) {
        const auto place = [&](const Operand& x) {
          return moved(x, turn == 0 ? dense(dtype, x.view.shape) : strided(dtype, x.view.shape, random, false));
        };
        const Operand left = place(a), right = place(b), out = dense(dtype, result);
        SCOPED_TRACE(to_string(left.view.strides) + to_string(right.view.strides));
        const auto product =
            cuda::bind_native(device(), Op::kDot, {left.view, right.view}, {out.view}, {static_cast<int64_t>(dtype)});
        ASSERT_TRUE(product);
        product->run(std::array{left.address(left.memory), right.address(right.memory), out.address(out.memory)});
        if (!want) want = out.memory.clone();
        EXPECT_TRUE(same(out.memory, *want));
      }
    }
  }
}

TEST(CudaNative, SumsOfAProductTakeABiasAndRelu) {
  SKIP_UNDER_SANITIZER;
  constexpr int64_t kBatch = 2, kM = 3, kN = 5, kRow = 7;
  std::mt19937_64 random(13);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    eager::MatmulDesc sums, result;
    sums.batch = result.batch = kBatch, sums.m = result.m = kM, sums.n = result.n = kN;
    sums.c_row = kN, sums.c_batch_stride = kM * kN;
    result.c_row = kRow, result.c_batch_stride = kM * kRow;
    result.out_dtype = dtype;
    for (const bool relu : {false, true}) {
      result.epilogue = relu ? eager::MatmulDesc::Epilogue::kBiasRelu : eager::MatmulDesc::Epilogue::kBias;
      Array x(DType::kFloat32, kBatch * kM * kN), bias(dtype, kN), out(dtype, kBatch * kM * kRow);
      x.fill_special(random);
      bias.fill(random);
      cuda::ProductFinish(device(), sums, result).run(x.data(), bias.data(), out.data());
      for (int64_t i = 0; i < x.size(); ++i) {
        const auto sum = static_cast<float>(value_of(x, i)) + static_cast<float>(value_of(bias, i % kN));
        Array want(dtype, 1);
        want.set(0, relu && sum < 0 ? 0 : sum);
        EXPECT_TRUE(same(dtype, out.bits(i / kN * kRow + i % kN), want.bits(0))) << i;
      }
    }
  }
}

TEST(CudaNative, ConvolutionsAreThoseOfTheHost) {
  SKIP_UNDER_SANITIZER;
  struct Case {
    Dims x, w, y;
    int64_t stride[2], padding[2], dilation[2], groups;
  };
  const Case cases[] = {
      {{2, 3, 6, 5}, {4, 3, 3, 2}, {4, 3, 3, 3}, {2, 1}, {1, 0}, {1, 2}, 1},
      {{2, 4, 5, 5}, {6, 2, 3, 3}, {2, 6, 5, 5}, {1, 1}, {1, 1}, {1, 1}, 2},
      {{1, 3, 4, 4}, {3, 1, 3, 3}, {1, 3, 2, 4}, {1, 1}, {0, 1}, {1, 1}, 3},
      {{3, 5, 20, 20}, {70, 5, 1, 1}, {3, 70, 10, 10}, {2, 2}, {0, 0}, {1, 1}, 1},
      {{2, 8, 30, 30}, {8, 8, 3, 3}, {2, 8, 30, 30}, {1, 1}, {1, 1}, {1, 1}, 1},
      {{0, 3, 4, 4}, {2, 3, 3, 3}, {0, 2, 2, 2}, {1, 1}, {0, 0}, {1, 1}, 1},
  };
  std::mt19937_64 random(8);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const Case& c : cases) {
      Dims y = c.y;
      y[0] = c.x[0], y[1] = c.w[0];
      const auto run = [&](Op op, const Dims& first, const Dims& second, const Dims& out, const Dims& size) {
        const bool plain = random() % 2 == 0;
        Operand a = plain ? dense(dtype, first) : strided(dtype, first, random), b = dense(dtype, second);
        a.memory.fill(random);
        b.memory.fill(random);
        std::vector<int64_t> attrs;
        const auto add = [&](std::span<const int64_t> list) {
          attrs.push_back(static_cast<int64_t>(list.size()));
          attrs.insert(attrs.end(), list.begin(), list.end());
        };
        if (!size.empty()) add(size);
        add(c.stride), add(c.padding), add(c.dilation);
        attrs.push_back(c.groups);
        std::vector<Operand*> inputs{&a, &b};
        SCOPED_TRACE(describe(op, inputs));
        std::vector<Operand> outputs;
        outputs.push_back(dense(dtype, out));
        // Sums of up to some thousand products of numbers of about 4, in another order.
        expect_same(op, inputs, outputs, attrs,
                    [](const Array& got, const Array& want) { return nearly(got, want, 300); });
      };
      run(Op::kConvForward, c.x, c.w, y, {});
      run(Op::kConvBackwardInput, y, c.w, c.x, {c.x[2], c.x[3]});
      run(Op::kConvBackwardWeight, y, c.x, c.w, {c.w[2], c.w[3]});
    }
  }
}

// -- compiling

// All programs that the tests before have run. With less effort NVRTC refuses the same, in a third of the time.
TEST(CudaNative, ProgramsCompile) {
  SKIP_UNDER_SANITIZER;
  if (!smolder::cuda::has_nvrtc()) GTEST_SKIP() << smolder::cuda::nvrtc_missing();
  constexpr const char* kArchitectures[] = {"sm_80", "sm_90", "sm_100"};
  const std::vector<std::string> programs = device().programs();
  ASSERT_FALSE(programs.empty());
  parallel_for(static_cast<int64_t>(programs.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::string text = std::string(cuda::kPrelude) + cuda::kNativePrelude + programs[i];
      try {
        cuda::compile_text(text, kArchitectures[i % 3], cuda::Contraction::kNone, cuda::Effort::kQuick);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
  });
}

}  // namespace
}  // namespace smolder::jit::test
