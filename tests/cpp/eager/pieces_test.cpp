// Large operands of ops that are made of several elementwise primitives: the bits that small ones have.
#include "smolder/eager/pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "smolder/core/counters.h"
#include "smolder/eager/execute.h"

namespace smolder::eager {
namespace {

using ir::Op;

constexpr int64_t kLarge = (1 << 20) + 4097;

int64_t ran_by_pieces() { return counter("eager.by_pieces").value(); }

/// Numbers of both signs, as `t`.
Array numbers(DType t, const Dims& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-3, 3);
  const Array a = Array::empty(shape, DType::kFloat32);
  for (int64_t i = 0; i < numel(shape); ++i) static_cast<float*>(a.data)[i] = draw(random);
  const auto dtype = static_cast<int64_t>(t);
  return execute(Op::kCast, {{a}}, {{dtype}})[0];
}

/// A range of the elements of a row-major array, of one dimension.
Array part(const Array& a, int64_t begin, int64_t end) {
  if (a.weak) return a;
  Array out =
      Array::wrap(static_cast<char*>(a.data) + begin * static_cast<int64_t>(itemsize(a.dtype)), {end - begin}, a.dtype);
  out.buffer = a.buffer;
  return out;
}

std::vector<Array> parts(const std::vector<Array>& arrays, int64_t begin, int64_t end) {
  std::vector<Array> out;
  for (const Array& a : arrays) out.push_back(part(a, begin, end));
  return out;
}

/// Runs the op over all elements, and over ranges that are too short for pieces.
void expect_bits_of_parts(Op op, const std::vector<Array>& inputs) {
  const Array whole = contiguous(execute(op, inputs, {})[0]);
  for (int64_t begin = 0; begin < kLarge; begin += 400000) {
    const int64_t end = std::min(begin + 400000, kLarge);
    const int64_t before = ran_by_pieces();
    const Array few = contiguous(execute(op, parts(inputs, begin, end), {})[0]);
    EXPECT_EQ(ran_by_pieces(), before);
    const Array same = part(whole, begin, end);
    ASSERT_EQ(few.dtype, same.dtype);
    ASSERT_EQ(std::memcmp(few.data, same.data, few.bytes()), 0) << ir::name(op) << ' ' << name(inputs[0].dtype);
  }
}

TEST(Pieces, HaveTheBitsOfShortTensors) {
  int64_t checked = 0;
  const int64_t before = ran_by_pieces();
  for (const ir::OpInfo& row : ir::op_table()) {
    if (!row.flags.elementwise || !row.attrs.empty() || row.flags.random || row.flags.primitive) continue;
    const Op op = ir::find_op(row.name);
    for (const DType t : {DType::kFloat32, DType::kBFloat16}) {
      std::vector<Array> inputs;
      uint32_t seed = 1;
      for (const ir::OperandInfo& o : row.operands) {
        const bool number = o.kind == ir::OperandInfo::kNumber;
        inputs.push_back(number ? Array::from_number(Scalar(0.5)) : numbers(t, {kLarge}, seed++));
      }
      try {
        execute(op, parts(inputs, 0, 8), {});
      } catch (const Error&) {
        continue;  // an op of other dtypes
      }
      expect_bits_of_parts(op, inputs);
      ++checked;
    }
  }
  EXPECT_GT(checked, 40);
  EXPECT_GT(ran_by_pieces() - before, checked / 2);
}

TEST(Pieces, TakeOnlyWhatLiesInOrder) {
  const Array x = numbers(DType::kFloat32, {1200, 1000}, 3);
  Array turned = x;
  std::swap(turned.shape[0], turned.shape[1]);
  std::swap(turned.strides[0], turned.strides[1]);
  const int64_t before = ran_by_pieces();
  const Array straight = execute(Op::kSilu, {{x}}, {})[0];
  EXPECT_EQ(ran_by_pieces(), before + 1);
  const Array across = contiguous(execute(Op::kSilu, {{turned}}, {})[0]);
  EXPECT_EQ(ran_by_pieces(), before + 1);
  const auto at = [](const Array& a, int64_t i) { return static_cast<const float*>(a.data)[i]; };
  for (int64_t i = 0; i < 1200; ++i) {
    for (int64_t j = 0; j < 1000; ++j) ASSERT_EQ(at(straight, i * 1000 + j), at(across, j * 1200 + i));
  }
}

Kernel g_watched;            // the kernel that a plain function stands for
int64_t g_largest_call = 0;  // of it, in elements
void watch_kernel(const KernelCall& call) {
  g_largest_call = std::max(g_largest_call, numel(call.outputs[0].shape));
  g_watched(call);
}

TEST(Pieces, LeavePlainFunctionsOfUsersWhole) {
  const Array x = numbers(DType::kFloat32, {kLarge}, 5);
  bool ran = false;
  for (const Op op : {Op::kMul, Op::kDiv, Op::kSigmoid, Op::kExp}) {
    if (!ir::info(op).flags.primitive) continue;
    g_largest_call = 0;
    g_watched = *find_kernel(DispatchKey::kCPU, op);
    override_kernel(DispatchKey::kCPU, op, &watch_kernel);
    execute(Op::kSilu, {{x}}, {});
    override_kernel(DispatchKey::kCPU, op, g_watched);
    EXPECT_TRUE(g_largest_call == 0 || g_largest_call == kLarge) << g_largest_call;
    ran = ran || g_largest_call > 0;
  }
  EXPECT_TRUE(ran);
  const int64_t before = ran_by_pieces();
  execute(Op::kSilu, {{x}}, {});
  EXPECT_EQ(ran_by_pieces(), before + 1);  // now that each kernel is ours again
}

TEST(Pieces, LeaveKernelsOfUsersWhole) {
  const Array x = numbers(DType::kFloat32, {kLarge}, 4);
  const Array expected = execute(Op::kSilu, {{x}}, {})[0];
  std::vector<int64_t> calls;
  for (const Op op : {Op::kMul, Op::kDiv, Op::kSigmoid}) {
    if (!ir::info(op).flags.primitive) continue;
    const Kernel before = *find_kernel(DispatchKey::kCPU, op);
    override_kernel(DispatchKey::kCPU, op, [&, before](const KernelCall& call) {
      calls.push_back(numel(call.outputs[0].shape));
      before(call);
    });
    const Array out = execute(Op::kSilu, {{x}}, {})[0];
    EXPECT_EQ(std::memcmp(out.data, expected.data, out.bytes()), 0);
    override_kernel(DispatchKey::kCPU, op, before);
  }
  ASSERT_FALSE(calls.empty());
  for (const int64_t n : calls) EXPECT_EQ(n, kLarge);
}

}  // namespace
}  // namespace smolder::eager
