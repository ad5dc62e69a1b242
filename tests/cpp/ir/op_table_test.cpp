// The table itself, and the errors that shape rules raise.
#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <string>
#include <vector>

#include "smolder/ir/attrs.h"
#include "smolder/ir/infer.h"
#include "smolder/ir/scalar/primitive.h"

namespace smolder::ir {
namespace {

constexpr DType kF32 = DType::kFloat32, kI64 = DType::kInt64;

Meta tensor(Dims shape, DType t = kF32) { return {shape, t, false}; }
Meta number(double) { return {{}, DType::kFloat64, true}; }

std::vector<Meta> infer(Op op, std::vector<Meta> inputs, std::vector<int64_t> attrs = {}) {
  std::vector<const Meta*> pointers;
  for (const Meta& m : inputs) pointers.push_back(&m);
  std::vector<Meta> out(info(op).num_outputs);
  info(op).infer({pointers, attrs}, out.data());
  return out;
}

/// The message of the error of class E that `f` throws.
template <class E, class F>
std::string message(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another class of error: " << e.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// Expects every part in the message.
void expect_parts(const std::string& message, std::vector<std::string> parts) {
  for (const std::string& p : parts) EXPECT_NE(message.find(p), std::string::npos) << "'" << p << "' in: " << message;
}

TEST(OpTable, RowsAreWhole) {
  std::set<std::string_view> names;
  for (const OpInfo& row : op_table()) {
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(names.insert(row.name).second) << "declared twice";
    EXPECT_FALSE(row.doc.empty());
    EXPECT_GE(row.num_outputs, 1);
    EXPECT_TRUE(row.decompose || row.flags.primitive) << "an op that nothing can run";
    EXPECT_NE(row.signature.find('('), std::string_view::npos);
    for (const AttrInfo& a : row.attrs) EXPECT_EQ(a.kind == AttrKind::kString, !a.choices.empty()) << a.name;
  }
  EXPECT_EQ(op_table().size(), static_cast<size_t>(kNumOps));
}

TEST(OpTable, ElementwisePrimitivesAreNumberedAsInTheScalarLibrary) {
  ASSERT_EQ(kNumElementwisePrimitives, scalar::kNumPrimitives);
  for (int i = 0; i < kNumElementwisePrimitives; ++i) {
    EXPECT_EQ(op_table()[i].name, scalar::info(static_cast<scalar::Primitive>(i)).name);
    EXPECT_TRUE(op_table()[i].flags.primitive && op_table()[i].flags.elementwise);
  }
  EXPECT_FALSE(is_elementwise_primitive(Op::kReshape));
}

TEST(OpTable, FindsOpsByName) {
  EXPECT_EQ(find_op("layer_norm"), Op::kLayerNorm);
  for (const OpInfo& row : op_table()) EXPECT_EQ(&info(find_op(row.name)), &row);
  expect_parts(message<ValueError>([] { find_op("sofmax"); }), {"sofmax"});
}

TEST(OpTable, ChoicesAreNamedInErrors) {
  EXPECT_EQ(choice_index(Op::kGelu, 0, "tanh"), 1);
  expect_parts(message<RuntimeError>([] { choice_index(Op::kGelu, 0, "fast"); }),
               {"gelu", "approximate", "'none', 'tanh'", "'fast'"});
  EXPECT_EQ(message<ValueError>([] { choice_index(Op::kMseLoss, 0, "most"); }),
            "most is not a valid value for reduction");
}

TEST(AttrWords, ComeBackAsWritten) {
  AttrWriter<9 + 2 * kListWords> w;
  w.integer(-3).boolean(true).real(0.1).dtype(kI64).optional_integer(std::nullopt).optional_dtype(kF32);
  w.sizes({4, 5}).optional_integers(std::nullopt);
  AttrReader r(w.words());
  EXPECT_EQ(r.integer(), -3);
  EXPECT_TRUE(r.boolean());
  EXPECT_EQ(r.real(), 0.1);
  EXPECT_EQ(r.dtype(), kI64);
  EXPECT_EQ(r.optional_integer(), std::nullopt);
  EXPECT_EQ(r.optional_dtype(), kF32);
  EXPECT_EQ(r.sizes(), (Dims{4, 5}));
  EXPECT_EQ(r.optional_integers(), std::nullopt);
}

TEST(Infer, ResultTypeKeepsClassesOfOperandsApart) {
  const auto type = [](std::vector<Meta> v) { return infer(Op::kAdd, v)[0].dtype; };
  EXPECT_EQ(type({tensor({2}, DType::kFloat16), tensor({}, DType::kFloat64)}), DType::kFloat16);
  EXPECT_EQ(type({tensor({2}, kI64), tensor({}, DType::kFloat16)}), DType::kFloat16);
  EXPECT_EQ(type({tensor({2}, DType::kBool), {{}, kI64, true}}), kI64);
  EXPECT_EQ(type({tensor({2}, DType::kUInt8), {{}, kI64, true}}), DType::kUInt8);
  EXPECT_EQ(type({tensor({}, kI64), number(1.5)}), kF32);
  EXPECT_EQ(type({tensor({}, DType::kBFloat16), tensor({}, DType::kFloat16)}), kF32);
}

TEST(InferErrors, ElementwiseShapes) {
  expect_parts(
      message<RuntimeError>([] { infer(Op::kAdd, {tensor({2, 3}), tensor({2, 4})}); }),
      {"add", "size of tensor a (3)", "size of tensor b (4)", "dimension 1", "[2, 3] float32", "[2, 4] float32"});
  expect_parts(
      message<RuntimeError>([] { infer(Op::kAddcmul, {tensor({2, 3}), tensor({3}), tensor({4, 1, 2}), number(1)}); }),
      {"addcmul", "(3)", "(2)", "dimension 2", "[4, 1, 2] float32"});
  expect_parts(message<RuntimeError>([] { infer(Op::kMatmul, {tensor({2, 3, 4}), tensor({3, 4, 5})}); }),
               {"matmul", "batch", "[2, 3, 4] float32", "[3, 4, 5] float32"});
  expect_parts(message<RuntimeError>([] { infer(Op::kSub, {tensor({2}, DType::kBool), tensor({2}, DType::kBool)}); }),
               {"sub", "bool", "logical_xor"});
  expect_parts(message<NotImplementedError>([] { infer(Op::kBitwiseAnd, {tensor({2}), tensor({2})}); }),
               {"bitwise_and", "float32"});
}

TEST(InferErrors, Products) {
  expect_parts(message<RuntimeError>([] { infer(Op::kMatmul, {tensor({2, 3}), tensor({4, 5})}); }),
               {"matmul", "mat1 and mat2 shapes cannot be multiplied", "[2, 3] float32", "[4, 5] float32", "3 and 4"});
  expect_parts(message<RuntimeError>([] { infer(Op::kMatmul, {tensor({2, 3}), tensor({3, 5}, DType::kFloat64)}); }),
               {"matmul", "same dtype", "[2, 3] float32", "[3, 5] float64"});
  expect_parts(message<RuntimeError>([] { infer(Op::kLinear, {tensor({2, 3}), tensor({5, 4}), tensor({5})}); }),
               {"linear", "[2, 3] float32", "[5, 4] float32"});
  expect_parts(message<RuntimeError>([] { infer(Op::kLinear, {tensor({2, 4}), tensor({5, 4}), tensor({4})}); }),
               {"linear", "bias of shape [5]", "[4] float32"});
}

TEST(InferErrors, Axes) {
  expect_parts(message<IndexError>([] { infer(Op::kSum, {tensor({2, 3})}, {1, 2, 0, 0, 0}); }),
               {"sum", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"});
  expect_parts(message<RuntimeError>([] { infer(Op::kSum, {tensor({2, 3})}, {2, 1, -1, 0, 0, 0}); }),
               {"sum", "dim 1 appears multiple times"});
  expect_parts(message<IndexError>([] { infer(Op::kAmax, {tensor({0, 3})}, {1, 0, 0}); }),
               {"amax", "non-zero size", "[0, 3]"});
  expect_parts(message<RuntimeError>([] { infer(Op::kMean, {tensor({3}, kI64)}, {0, 0, 0, 0}); }), {"mean", "int64"});
}

TEST(InferErrors, Movement) {
  expect_parts(message<RuntimeError>([] { infer(Op::kReshape, {tensor({2, 3})}, {2, 4, 2}); }),
               {"shape '[4, 2]' is invalid for input of size 6"});
  expect_parts(message<RuntimeError>([] { resolve_reshape({2, 3}, {-1, -1}); }), {"only one dimension"});
  expect_parts(message<RuntimeError>([] { resolve_reshape({0, 3}, {-1, 0}); }), {"ambiguous"});
  EXPECT_EQ(resolve_reshape({2, 6}, {3, -1}), (Dims{3, 4}));
  expect_parts(message<RuntimeError>([] { infer(Op::kExpand, {tensor({2, 3})}, {2, 2, 4}); }),
               {"expanded size of the tensor (4)", "existing size (3)", "dimension 1"});
  EXPECT_EQ(resolve_expand({3, 1}, {2, -1, 4}), (Dims{2, 3, 4}));
  expect_parts(message<RuntimeError>([] { infer(Op::kCat, {tensor({2, 3}), tensor({2, 4})}, {0}); }),
               {"cat", "except in dimension 0", "[2, 3]", "[2, 4]", "number 1"});
  expect_parts(message<RuntimeError>([] { infer(Op::kPermute, {tensor({2, 3})}, {1, 0}); }), {"permute", "[2, 3]"});
}

TEST(InferErrors, Losses) {
  const auto loss = [](Meta x, Meta target) {
    AttrWriter<3> w;
    w.integer(-100).choice(1).real(0);
    const std::span<const int64_t> words = w.words();
    const Meta* const inputs[] = {&x, &target, nullptr};
    Meta out[3];
    info(Op::kCrossEntropy).infer({inputs, words}, out);
    return out[0];
  };
  EXPECT_EQ(loss(tensor({6, 5}), tensor({6}, kI64)).shape, Dims());
  expect_parts(message<ValueError>([&] { loss(tensor({6, 5}), tensor({7}, kI64)); }),
               {"cross_entropy", "batch_size (6)", "batch_size (7)", "[6, 5] float32", "[7] int64"});
  expect_parts(message<RuntimeError>([&] { loss(tensor({6, 5, 2}), tensor({6}, kI64)); }),
               {"cross_entropy", "target of shape [6, 2]", "[6, 5, 2] float32", "[6] int64"});
  expect_parts(message<NotImplementedError>([&] { loss(tensor({6, 5}), tensor({6, 5})); }),
               {"cross_entropy", "probabilities", "not supported"});
  expect_parts(message<NotImplementedError>([&] { loss(tensor({6, 5}, kI64), tensor({6}, kI64)); }),
               {"cross_entropy", "floating-point"});
}

TEST(InferErrors, Layers) {
  expect_parts(message<RuntimeError>([] {
                 const Meta x = tensor({2, 8}), eps = number(1e-5);
                 const Meta* const inputs[] = {&x, nullptr, nullptr, &eps};
                 const int64_t words[] = {1, 7};
                 Meta out[3];
                 info(Op::kLayerNorm).infer({inputs, words}, out);
               }),
               {"layer_norm", "normalized_shape=[7]", "[2, 8] float32"});
  expect_parts(message<RuntimeError>([] { infer(Op::kEmbedding, {tensor({7, 3}), tensor({2})}, {-1}); }),
               {"embedding", "indices", "int64", "[2] float32"});
}

}  // namespace
}  // namespace smolder::ir
