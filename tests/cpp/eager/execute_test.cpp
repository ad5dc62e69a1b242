// Ops and graphs, run eagerly: against the interpreter, with overrides, errors, other sizes, and memory freed in time.
#include "smolder/eager/execute.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "eager/arrays.h"
#include "smolder/core/error.h"
#include "smolder/ir/decompose.h"

namespace smolder::eager {
namespace {

using ir::Op;
using ir::OperandInfo;
using ir::PlainTensor;
using Words = std::vector<int64_t>;

std::vector<PlainTensor> expected_of(Op op, const std::vector<PlainTensor>& inputs, const Words& words) {
  std::vector<const PlainTensor*> pointers;
  for (const PlainTensor& t : inputs) pointers.push_back(t.elements.empty() && t.shape.empty() ? nullptr : &t);
  return ir::interpret(op, pointers, words);
}

std::vector<Array> arrays_of(const std::vector<PlainTensor>& inputs, Layout layout = Layout::kContiguous) {
  std::vector<Array> out;
  for (const PlainTensor& t : inputs) {
    out.push_back(t.elements.empty() && t.shape.empty() ? Array() : to_array(t, layout));
  }
  return out;
}

/// Relative to the largest element expected: a decomposition rounds several times, and cancellation magnifies it.
double tolerance(const PlainTensor& expected) {
  double largest = 1;
  for (const Scalar& v : expected.elements) {
    if (std::isfinite(v.to_double())) largest = std::max(largest, std::abs(v.to_double()));
  }
  const DType t = expected.dtype;
  const double eps = t == DType::kFloat64    ? 0x1p-48
                     : t == DType::kFloat32  ? 0x1p-18
                     : t == DType::kFloat16  ? 0x1p-9
                     : t == DType::kBFloat16 ? 0x1p-6
                                             : 0;
  return largest * eps;
}

void expect_as_interpreted(Op op, const std::vector<PlainTensor>& inputs, const Words& words) {
  const std::vector<PlainTensor> expected = expected_of(op, inputs, words);
  for (Layout layout : {Layout::kContiguous, Layout::kTransposed}) {
    const std::vector<Array> out = execute(op, arrays_of(inputs, layout), words);
    ASSERT_EQ(out.size(), expected.size());
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_TRUE(near(to_plain(out[i]), expected[i], tolerance(expected[i])))
          << ir::name(op) << " result " << i << " " << name(layout);
    }
  }
}

/// Every op that computes element by element, with operands drawn at random.
TEST(Execute, ElementwiseOpsOfTheTable) {
  std::mt19937 random(1);
  int checked = 0;
  for (const ir::OpInfo& row : ir::op_table()) {
    if (!row.flags.elementwise || !row.attrs.empty() || row.flags.random) continue;
    const Op op = ir::find_op(row.name);
    for (DType t : {DType::kBool, DType::kInt32, DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                    DType::kFloat64}) {
      std::vector<PlainTensor> inputs;
      for (const OperandInfo& o : row.operands) {
        const bool condition = op == Op::kWhere && inputs.empty();
        inputs.push_back(o.kind == OperandInfo::kNumber
                             ? weak_number(is_floating(t) ? Scalar(0.5) : Scalar(2))
                             : random_tensor(random, {5, 9}, condition ? DType::kBool : t, {0.1, 3, false}));
      }
      try {
        expected_of(op, inputs, {});
      } catch (const Error&) {
        EXPECT_THROW(execute(op, arrays_of(inputs), {}), Error) << row.name << " of " << name(t);
        continue;
      }
      SCOPED_TRACE(std::string(row.name) + " of " + std::string(name(t)));
      expect_as_interpreted(op, inputs, {});
      ++checked;
    }
  }
  EXPECT_GT(checked, 200);
}

TEST(Execute, PrimitivesPromoteAndBroadcastAsUsersCallThem) {
  std::mt19937 random(2);
  for (Op op : {Op::kAdd, Op::kMul, Op::kMaximum, Op::kDiv, Op::kLt}) {
    for (int a = 0; a < kNumDTypes; ++a) {
      for (int b = 0; b < kNumDTypes; ++b) {
        expect_as_interpreted(op,
                              {random_tensor(random, {3, 1, 4}, static_cast<DType>(a), {0.5, 3, false}),
                               random_tensor(random, {5, 1}, static_cast<DType>(b), {0.5, 3, false})},
                              {});
      }
    }
  }
  expect_as_interpreted(Op::kAdd, {random_tensor(random, {3}, DType::kFloat16), weak_number(0.1)}, {});
  expect_as_interpreted(Op::kMul, {random_tensor(random, {3}, DType::kInt32), weak_number(0.5)}, {});
}

TEST(Execute, OpsWithAttributes) {
  std::mt19937 random(3);
  const int64_t none = 0;
  for (DType t : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const auto draw = [&](Dims shape) { return random_tensor(random, shape, t, {-2, 2, false}); };
    expect_as_interpreted(Op::kSum, {draw({4, 5, 6})}, {2, 0, 2, 1, none, none});
    expect_as_interpreted(Op::kSum, {draw({300})}, {0, 0, none, none});
    expect_as_interpreted(Op::kMean, {draw({7, 200})}, {1, -1, 0, none, none});
    expect_as_interpreted(Op::kStack, {draw({2, 3}), draw({2, 3})}, {1});
    expect_as_interpreted(Op::kTril, {draw({4, 5})}, {-1});
    expect_as_interpreted(Op::kTo, {draw({4, 5})}, {static_cast<int64_t>(DType::kInt32)});
    expect_as_interpreted(Op::kSliceScatter, {draw({7, 3}), draw({3, 3})}, {0, 1, 1, 6, 2});
    expect_as_interpreted(Op::kSelect, {draw({4, 3})}, {1, 2});
    expect_as_interpreted(Op::kSumToSize, {draw({2, 3, 4})}, {2, 3, 1});
    const PlainTensor absent{DType::kFloat32, {}, {}, false};
    const PlainTensor target{DType::kInt64, {4}, {Scalar(1), Scalar(0), Scalar(-100), Scalar(2)}, false};
    expect_as_interpreted(Op::kCrossEntropy, {draw({4, 3}), target, absent}, {-100, 1, std::bit_cast<int64_t>(0.1)});
    expect_as_interpreted(Op::kCrossEntropy, {draw({4, 3}), target, random_tensor(random, {3}, t, {0.5, 2, false})},
                          {-100, 2, 0});
    std::vector<PlainTensor> adam = {draw({6}), draw({6}), draw({6}), random_tensor(random, {6}, t, {0, 1, false}),
                                     absent};
    for (const Scalar& v : {Scalar(1e-2), Scalar(0.9), Scalar(0.99), Scalar(1e-8), Scalar(0.1), Scalar(3)}) {
      adam.push_back(weak_number(v));
    }
    expect_as_interpreted(Op::kAdamwStep, adam, {0});
  }
}

TEST(Execute, NumbersAreRunTimeInputs) {
  const Array x = to_array({DType::kFloat32, {1}, {Scalar(3.0)}, false});
  for (double v : {0.0, 1.0, -2.5, 1e-40}) {
    const Array y = execute(Op::kMul, std::array{x, Array::from_number(v)}, {})[0];
    EXPECT_EQ(to_plain(y).elements[0].to_double(), 3.0f * static_cast<float>(v));
  }
  const Array sum = execute(Op::kAdd, std::array{Array::from_number(2), Array::from_number(0.5)}, {})[0];
  EXPECT_TRUE(sum.weak);
  EXPECT_EQ(to_plain(sum).elements[0].to_double(), 2.5);
}

TEST(Execute, RulesThrowWhatTheUserShouldSee) {
  const Array a = Array::empty({2, 3}, DType::kFloat32), b = Array::empty({4}, DType::kFloat32);
  try {
    execute(Op::kAdd, std::array{a, b}, {});
    FAIL();
  } catch (const RuntimeError& e) {
    EXPECT_NE(std::string(e.what()).find("size of tensor a (3) must match the size of tensor b (4)"), std::string::npos)
        << e.what();
  }
  EXPECT_THROW(execute(Op::kLeaf, {}, Words{0, 0, 0}), ValueError);
}

// -- the dispatch table

TEST(Dispatch, MissingKernelsAreNamed) {
  const DispatchKey key = add_dispatch_key("test_missing");
  EXPECT_EQ(find_dispatch_key("test_missing"), key);
  EXPECT_EQ(name(key), "test_missing");
  EXPECT_THROW(add_dispatch_key("test_missing"), ValueError);
  EXPECT_THROW(find_dispatch_key("nonesuch"), ValueError);
  const Array x = Array::empty({2, 3}, DType::kBFloat16);
  try {
    execute(Op::kExp, {&x, 1}, {}, key);
    FAIL();
  } catch (const NotImplementedError& e) {
    const std::string what = e.what();
    for (const char* part : {"test_missing", "exp", "bfloat16[2, 3]"}) {
      EXPECT_NE(what.find(part), std::string::npos) << what;
    }
  }
}

TEST(Dispatch, EveryPrimitiveThatComputesHasACpuKernel) {
  for (const ir::OpInfo& row : ir::op_table()) {
    const Op op = ir::find_op(row.name);
    const bool bound = op == Op::kLeaf || op == Op::kParameter || op == Op::kConstant || op == Op::kExtent;
    EXPECT_EQ(find_kernel(DispatchKey::kCPU, op) != nullptr, row.flags.primitive && !bound) << row.name;
  }
}

TEST(Dispatch, BackendsOfUsersRunTheirKernels) {
  const DispatchKey key = add_dispatch_key("test_doubling");
  int calls = 0;
  register_kernel(key, Op::kExp, [&](const KernelCall& call) {
    ++calls;
    const float* x = static_cast<const float*>(call.inputs[0].data);
    float* y = static_cast<float*>(call.outputs[0].data);
    for (int64_t i = 0; i < numel(call.outputs[0].shape); ++i) y[i] = 2 * x[i];
  });
  EXPECT_THROW(register_kernel(key, Op::kExp, [](const KernelCall&) {}), ValueError);
  EXPECT_THROW(register_kernel(key, Op::kLog, Kernel()), ValueError);
  const Array x = to_array({DType::kFloat32, {2}, {Scalar(1.0), Scalar(4.0)}, false});
  EXPECT_EQ(to_plain(execute(Op::kExp, {&x, 1}, {}, key)[0]).elements[1].to_double(), 8);
  EXPECT_EQ(calls, 1);
}

TEST(Dispatch, OverridesTakeOpsWholeAndCanBeUndone) {
  const Array x = to_array({DType::kFloat32, {2, 2}, {Scalar(1.0), Scalar(2.0), Scalar(3.0), Scalar(4.0)}, false});
  const Words words = {1, 1, 0, 0, 0};  // dim=[1]
  const auto first = [&] { return to_plain(execute(Op::kMean, {&x, 1}, words)[0]).elements[0].to_double(); };
  EXPECT_EQ(first(), 1.5);
  EXPECT_FALSE(override_kernel(DispatchKey::kCPU, Op::kMean, [&](const KernelCall& call) {
    EXPECT_EQ(call.attrs.size(), words.size());
    EXPECT_EQ(call.outputs[0].shape, Dims({2}));
    std::fill_n(static_cast<float*>(call.outputs[0].data), 2, 42.0f);
  }));
  EXPECT_EQ(first(), 42);
  ir::Graph g;  // inside a graph too
  ir::Builder b(g);
  const ir::Value leaf = b.leaf(0, DType::kFloat32, {2, 2});
  std::vector<ir::Dim> attrs(words.begin(), words.end());
  g.outputs = {b.append(Op::kMean, {leaf}, attrs, DType::kFloat32, {2}).id};
  EXPECT_EQ(to_plain(execute_graph(g, {&x, 1})[0]).elements[0].to_double(), 42);
  EXPECT_TRUE(override_kernel(DispatchKey::kCPU, Op::kMean, Kernel()));
  EXPECT_EQ(first(), 1.5);

  const Kernel before = override_kernel(DispatchKey::kCPU, Op::kReduce, [](const KernelCall& call) {
    std::fill_n(static_cast<float*>(call.outputs[0].data), 2, 10.0f);
  });
  EXPECT_EQ(first(), 5);  // the decomposition goes on: 10 / 2
  override_kernel(DispatchKey::kCPU, Op::kReduce, before);
  EXPECT_EQ(first(), 1.5);
}

TEST(Dispatch, OverridesOfCallsLeaveDecompositionsAlone) {
  const Array x = to_array({DType::kFloat32, {2}, {Scalar(1.0), Scalar(2.0)}, false});
  const auto first = [&](Op op) { return to_plain(execute(op, {&x, 1}, {})[0]).elements[0].to_double(); };
  const double plain = first(Op::kSilu);
  const auto constant = [](float v) {
    return [v](const KernelCall& call) { std::fill_n(static_cast<float*>(call.outputs[0].data), 2, v); };
  };
  const uint64_t before = dispatch_generation();
  const Op one = add_override(DispatchKey::kCPU, Op::kSigmoid, constant(7));
  EXPECT_GT(dispatch_generation(), before);
  EXPECT_EQ(resolve(DispatchKey::kCPU, Op::kSigmoid), one);
  EXPECT_EQ(first(Op::kSigmoid), 7);
  EXPECT_EQ(first(Op::kSilu), plain);
  ir::Graph g;  // as users record, in a graph too
  ir::Builder b(g);
  g.outputs = {b.append(Op::kSigmoid, {b.leaf(0, DType::kFloat32, {2})}, {}, DType::kFloat32, {2}).id};
  EXPECT_EQ(to_plain(execute_graph(g, {&x, 1})[0]).elements[0].to_double(), 7);
  const Op two = add_override(DispatchKey::kCPU, Op::kSigmoid, constant(8));
  EXPECT_EQ(first(Op::kSigmoid), 8);
  remove_override(DispatchKey::kCPU, Op::kSigmoid, one);  // in any order
  EXPECT_EQ(first(Op::kSigmoid), 8);
  remove_override(DispatchKey::kCPU, Op::kSigmoid, two);
  EXPECT_NEAR(first(Op::kSigmoid), 0.731, 1e-3);
  EXPECT_THROW(add_override(DispatchKey::kCPU, Op::kExp, Kernel()), ValueError);
}

// -- graphs

TEST(ExecuteGraph, OpsPrimitivesAndNumbersAtOtherSizes) {
  std::mt19937 random(4);
  ir::Graph g;
  ir::Builder b(g);
  const ir::Dim n = g.sym.symbol(64), m = g.sym.symbol(5);
  const ir::Value x = b.leaf(0, DType::kFloat32, {n, m}), c = b.leaf(1, DType::kFloat32, {m});
  const ir::Value lr = b.parameter(0, Category::kFloat);
  const ir::Value y = b.append(Op::kMul, {x, lr}, {}, DType::kFloat32, {n, m});  // as recorded
  const ir::Value z = exp(y) + c;
  g.outputs = {z.id, mean(z, {0}, true).id, b.reshape(z, {g.sym.mul(n, m)}).id, lr.id};
  ir::verify(g);
  const uint64_t number = Scalar(0.25).bits();
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{64, 5}, {3, 7}, {1000, 2}}) {
    const std::vector<PlainTensor> leaves = {random_tensor(random, {rows, columns}, DType::kFloat32, {-2, 2, false}),
                                             random_tensor(random, {columns}, DType::kFloat32, {-2, 2, false})};
    const Words symbols = {rows, columns};
    const auto expected = ir::interpret(g, leaves, {&number, 1}, symbols);
    const auto out = execute_graph(g, arrays_of(leaves, Layout::kTransposed), {&number, 1}, symbols);
    ASSERT_EQ(out.size(), expected.size());
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_TRUE(near(to_plain(out[i]), expected[i], tolerance(expected[i])))
          << "output " << i << ", " << rows << " rows";
    }
  }
  const Array wrong = Array::empty({64, 6}, DType::kFloat32), right = Array::empty({5}, DType::kFloat32);
  EXPECT_THROW(execute_graph(g, std::array{wrong, right}, {&number, 1}), ValueError);
  EXPECT_THROW(execute_graph(g, {&wrong, 1}, {&number, 1}), ValueError);
}

TEST(ExecuteGraph, PrimitivesAsRecordedMixDTypesAndShapes) {
  std::mt19937 random(5);
  ir::Graph g;
  ir::Builder b(g);
  const ir::Value x = b.leaf(0, DType::kInt32, {4, 1}), y = b.leaf(1, DType::kFloat16, {3});
  const ir::Value sum = b.append(Op::kAdd, {x, y}, {}, DType::kFloat16, {4, 3});
  g.outputs = {b.append(Op::kExp, {x}, {}, DType::kFloat32, {4, 1}).id, sum.id};
  ir::verify(g);
  const std::vector<PlainTensor> leaves = {random_tensor(random, {4, 1}, DType::kInt32, {-3, 3, false}),
                                           random_tensor(random, {3}, DType::kFloat16, {-3, 3, false})};
  const auto expected = ir::interpret(g, leaves);
  const auto out = execute_graph(g, arrays_of(leaves));
  EXPECT_TRUE(same(to_plain(out[0]), expected[0], 2));
  EXPECT_TRUE(same(to_plain(out[1]), expected[1]));
}

TEST(ExecuteGraph, LeavesByAddress) {
  ir::Graph g;
  ir::Builder b(g);
  const ir::Dim n = g.sym.symbol(3);
  const ir::Value x = b.leaf(0, DType::kInt32, {n, 2}, {1, n}, 4);  // columns, four elements in
  g.outputs = {(x + x).id};
  std::vector<int32_t> memory(20);
  for (int i = 0; i < 20; ++i) memory[i] = i;
  void* address = memory.data();
  const Words symbols = {5};
  const Array out = execute_graph(g, bind_leaves(g, {&address, 1}, symbols), {}, symbols)[0];
  const std::vector<int64_t> expected = {8, 18, 10, 20, 12, 22, 14, 24, 16, 26};
  const PlainTensor got = to_plain(out);
  ASSERT_EQ(got.shape, Dims({5, 2}));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(got.elements[i].to_int(), expected[i]) << i;
}

TEST(ExecuteGraph, BadIndicesAreReportedWithTheirNode) {
  ir::Graph g;
  ir::Builder b(g);
  const ir::Value x = b.leaf(0, DType::kFloat32, {4, 2}), at = b.leaf(1, DType::kInt64, {3});
  b.set_origin({11, {}});
  const ir::Value taken = b.take(x, at, 0);
  b.set_origin({12, {}});
  const ir::Value fine = b.take(x, b.append(Op::kMinimum, {at, b.constant(3)}, {}, DType::kInt64, {3}), 0);
  g.outputs = {taken.id, fine.id};
  const Array leaves[] = {Array::empty({4, 2}, DType::kFloat32),
                          to_array({DType::kInt64, {3}, {Scalar(0), Scalar(9), Scalar(1)}, false})};
  std::vector<BadIndex> reports;
  execute_graph(g, leaves, {}, {}, &reports);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].source, 11u);
  EXPECT_EQ(reports[0].op, "take");
  EXPECT_THROW(execute_graph(g, leaves), IndexError);
}

TEST(ExecuteGraph, IntermediatesAreFreedAfterTheirLastUse) {
  constexpr int64_t kBytes = 4 << 20;
  ir::Graph g;
  ir::Builder b(g);
  ir::Value x = b.leaf(0, DType::kFloat32, {kBytes / 4});
  for (int i = 0; i < 20; ++i) x = -x + 1.0;
  g.outputs = {x.id};
  const Array leaf = execute(Op::kFull, std::array{Array::from_number(1.0)}, Words{1, kBytes / 4, 0, 0})[0];
  const Array plain = contiguous(leaf);
  const int64_t before = memory_stats().live;
  reset_peak_memory();
  const std::vector<Array> out = execute_graph(g, {&plain, 1});
  EXPECT_LE(memory_stats().peak - before, 3 * kBytes);
  EXPECT_EQ(to_plain(out[0]).elements[5].to_double(), 1);
}

TEST(ExecuteGraph, OutOfMemoryLeavesNothingBehind) {
  const Array x = to_array({DType::kFloat32, {4}, std::vector<Scalar>(4, Scalar(2.0)), false});
  const Words words = {0, 0, 0, 0};
  execute(Op::kMean, {&x, 1}, words);
  const int64_t before = memory_stats().live;
  for (int nth = 1; nth <= 2; ++nth) {
    fail_allocation_after(nth);
    EXPECT_THROW(execute(Op::kMean, {&x, 1}, words), OutOfMemoryError);
    EXPECT_EQ(memory_stats().live, before);
  }
  fail_allocation_after(0);
  EXPECT_EQ(to_plain(execute(Op::kMean, {&x, 1}, words)[0]).elements[0].to_double(), 2);
}

TEST(Execute, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 1; i < 60; ++i) {
        const Array x = execute(Op::kFull, std::array{Array::from_number(Scalar(int64_t{t}))}, Words{1, i, 0, 0})[0];
        const Array s = execute(Op::kSum, {&x, 1}, Words{0, 0, 0, 0})[0];
        if (to_plain(s).elements[0].to_int() != t * i) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace smolder::eager
