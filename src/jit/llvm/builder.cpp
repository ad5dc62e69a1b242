#include "smolder/jit/llvm/builder.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>

#include <cmath>
#include <vector>

namespace smolder::jit::cpu {

static_assert(ir::scalar::RuntimeBuilder<Builder>);

using llvm::Intrinsic::ID;
using V = llvm::Value*;

namespace {

llvm::Type* with_lanes(llvm::Type* t, int n) { return n == 1 ? t : llvm::FixedVectorType::get(t, n); }

int lanes_of(V x) {
  const auto* t = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return t ? static_cast<int>(t->getNumElements()) : 1;
}

}  // namespace

llvm::Type* Builder::type(LaneType t, int n) {
  switch (t) {
    case LaneType::kF32:
      return with_lanes(ir_.getFloatTy(), n);
    case LaneType::kF64:
      return with_lanes(ir_.getDoubleTy(), n);
    default:
      return with_lanes(ir_.getIntNTy(lane_bits(t)), n);
  }
}

llvm::Type* Builder::like(V x, LaneType t) { return type(t, lanes_of(x)); }

V Builder::constant_float(LaneType t, double v) { return llvm::ConstantFP::get(type(t), v); }

V Builder::constant_bits(LaneType t, uint64_t bits) {
  if (!is_float(t)) return llvm::ConstantInt::get(type(t), llvm::APInt(lane_bits(t), bits));
  const auto& semantics = t == LaneType::kF32 ? llvm::APFloat::IEEEsingle() : llvm::APFloat::IEEEdouble();
  return llvm::ConstantFP::get(type(t), llvm::APFloat(semantics, llvm::APInt(lane_bits(t), bits)));
}

V Builder::amount(V x, int n) { return llvm::ConstantInt::get(x->getType(), n); }

V Builder::fadd(V x, V y) { return ir_.CreateFAdd(x, y); }
V Builder::fsub(V x, V y) { return ir_.CreateFSub(x, y); }
V Builder::fmul(V x, V y) { return ir_.CreateFMul(x, y); }
V Builder::fdiv(V x, V y) { return ir_.CreateFDiv(x, y); }
V Builder::fma(V x, V y, V z) { return ir_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z}); }
V Builder::fneg(V x) { return ir_.CreateFNeg(x); }
V Builder::fabs(V x) { return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
V Builder::sqrt(V x) { return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }
V Builder::rint(V x) { return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x); }
V Builder::floor(V x) { return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x); }
V Builder::ceil(V x) { return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x); }
V Builder::trunc(V x) { return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x); }
V Builder::feq(V x, V y) { return ir_.CreateFCmpOEQ(x, y); }
V Builder::fne(V x, V y) { return ir_.CreateFCmpUNE(x, y); }
V Builder::flt(V x, V y) { return ir_.CreateFCmpOLT(x, y); }
V Builder::fle(V x, V y) { return ir_.CreateFCmpOLE(x, y); }

V Builder::and_(V x, V y) { return ir_.CreateAnd(x, y); }
V Builder::or_(V x, V y) { return ir_.CreateOr(x, y); }
V Builder::xor_(V x, V y) { return ir_.CreateXor(x, y); }
V Builder::not_(V x) { return ir_.CreateNot(x); }
V Builder::iadd(V x, V y) { return ir_.CreateAdd(x, y); }
V Builder::isub(V x, V y) { return ir_.CreateSub(x, y); }
V Builder::imul(V x, V y) { return ir_.CreateMul(x, y); }
V Builder::shl(V x, V n) { return ir_.CreateShl(x, n); }
V Builder::lshr(V x, V n) { return ir_.CreateLShr(x, n); }
V Builder::ashr(V x, V n) { return ir_.CreateAShr(x, n); }
V Builder::ieq(V x, V y) { return ir_.CreateICmpEQ(x, y); }
V Builder::ine(V x, V y) { return ir_.CreateICmpNE(x, y); }
V Builder::slt(V x, V y) { return ir_.CreateICmpSLT(x, y); }
V Builder::sle(V x, V y) { return ir_.CreateICmpSLE(x, y); }
V Builder::ult(V x, V y) { return ir_.CreateICmpULT(x, y); }
V Builder::ule(V x, V y) { return ir_.CreateICmpULE(x, y); }
V Builder::sdiv(V x, V y) { return ir_.CreateSDiv(x, y); }
V Builder::srem(V x, V y) { return ir_.CreateSRem(x, y); }

// Vectors multiply even and odd lanes apart, as the instruction does.
V Builder::umulhi(V x, V y) {
  const int n = lanes_of(x);
  if (n == 1) {
    V product = ir_.CreateMul(zext(x, LaneType::kI64), zext(y, LaneType::kI64));
    return itrunc(ir_.CreateLShr(product, amount(product, 32)), LaneType::kI32);
  }
  llvm::Type *pairs = type(LaneType::kI64, n / 2), *words = type(LaneType::kI32, n);
  V even = words_product(x, y);
  x = ir_.CreateBitCast(x, pairs);
  y = ir_.CreateBitCast(y, pairs);
  V odd = ir_.CreateMul(ir_.CreateLShr(x, amount(x, 32)), ir_.CreateLShr(y, amount(y, 32)));
  std::vector<int> high;
  for (int i = 0; i < n; i += 2) high.insert(high.end(), {i + 1, n + i + 1});
  return ir_.CreateShuffleVector(even, ir_.CreateBitCast(odd, words), high);
}

/// Products of the even lanes, each in two.
V Builder::words_product(V x, V y) {
  const int n = lanes_of(x);
  llvm::Type *pairs = type(LaneType::kI64, n / 2), *words = type(LaneType::kI32, n);
  x = ir_.CreateBitCast(x, pairs);
  y = ir_.CreateBitCast(y, pairs);
  V low = llvm::ConstantInt::get(pairs, 0xffffffff);
  return ir_.CreateBitCast(ir_.CreateMul(ir_.CreateAnd(x, low), ir_.CreateAnd(y, low)), words);
}

V Builder::fours_constant(std::array<int64_t, 4> c) {
  std::vector<uint32_t> words;
  for (int i = 0; i < lanes; ++i) words.push_back(static_cast<uint32_t>(c[i % 4]));
  return llvm::ConstantDataVector::get(ir_.getContext(), words);
}
V Builder::fours_reverse(V x) {
  std::vector<int> order;
  for (int i = 0; i < lanes; ++i) order.push_back(i ^ 3);
  return ir_.CreateShuffleVector(x, order);
}
V Builder::fours_multiply(V x, V y) { return words_product(x, y); }
V Builder::fours_odd(V x) {
  V pairs = ir_.CreateBitCast(x, type(LaneType::kI64, lanes / 2));
  return ir_.CreateBitCast(ir_.CreateLShr(pairs, amount(pairs, 32)), x->getType());
}

V Builder::choose(V c, V x, V y) { return ir_.CreateSelect(c, x, y); }

Builder::Branch Builder::begin_rare(V c) {
  llvm::BasicBlock* from = ir_.GetInsertBlock();
  llvm::Function* f = from->getParent();
  auto* rare = llvm::BasicBlock::Create(ir_.getContext(), "rare", f);
  auto* after = llvm::BasicBlock::Create(ir_.getContext(), "common", f);
  if (const int n = lanes_of(c); n > 1) {
    V bits = ir_.CreateBitCast(c, ir_.getIntNTy(n));
    c = ir_.CreateICmpNE(bits, llvm::ConstantInt::get(bits->getType(), 0));
  }
  ir_.CreateCondBr(c, rare, after, llvm::MDBuilder(ir_.getContext()).createUnlikelyBranchWeights());
  ir_.SetInsertPoint(rare);
  return {from, after};
}

std::array<V, 2> Builder::end_rare(Branch branch, V c, std::array<V, 2> common, std::array<V, 2> rare) {
  std::array<V, 2> chosen;
  for (int i = 0; i < 2; ++i) chosen[i] = choose(c, rare[i], common[i]);
  llvm::BasicBlock* rare_end = ir_.GetInsertBlock();
  ir_.CreateBr(branch.after);
  ir_.SetInsertPoint(branch.after);
  for (int i = 0; i < 2; ++i) {
    llvm::PHINode* phi = ir_.CreatePHI(common[i]->getType(), 2);
    phi->addIncoming(common[i], branch.from);
    phi->addIncoming(chosen[i], rare_end);
    chosen[i] = phi;
  }
  return chosen;
}

void Builder::begin_repeat(std::span<V> state) {
  llvm::BasicBlock* from = ir_.GetInsertBlock();
  auto* body = llvm::BasicBlock::Create(ir_.getContext(), "repeat", from->getParent());
  ir_.CreateBr(body);
  ir_.SetInsertPoint(body);
  ir_.CreatePHI(ir_.getInt32Ty(), 2)->addIncoming(ir_.getInt32(0), from);
  for (V& v : state) {
    llvm::PHINode* phi = ir_.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, from);
    v = phi;
  }
}

void Builder::end_repeat(int n, std::span<const V> phis, std::span<const V> next) {
  llvm::BasicBlock* last = ir_.GetInsertBlock();
  auto* body = llvm::cast<llvm::PHINode>(phis[0])->getParent();
  auto* count = llvm::cast<llvm::PHINode>(&body->front());
  V done = ir_.CreateAdd(count, ir_.getInt32(1));
  count->addIncoming(done, last);
  for (size_t i = 0; i < phis.size(); ++i) llvm::cast<llvm::PHINode>(phis[i])->addIncoming(next[i], last);
  auto* after = llvm::BasicBlock::Create(ir_.getContext(), "repeated", body->getParent());
  ir_.CreateCondBr(ir_.CreateICmpULT(done, ir_.getInt32(n)), body, after);
  ir_.SetInsertPoint(after);
}

V Builder::bitcast(V x, LaneType to) { return ir_.CreateBitCast(x, like(x, to)); }
V Builder::sitofp(V x, LaneType to) { return ir_.CreateSIToFP(x, like(x, to)); }
V Builder::fptosi_saturating(V x, LaneType to) {
  // llvm.fptosi.sat takes vectors apart, which makes it ten times slower than this.
  llvm::Type* type = like(x, to);
  const unsigned bits = type->getScalarSizeInBits();
  const double end = std::ldexp(1.0, static_cast<int>(bits) - 1);
  V high = ir_.CreateFCmpOGE(x, llvm::ConstantFP::get(x->getType(), end));
  V low = ir_.CreateFCmpOLT(x, llvm::ConstantFP::get(x->getType(), -end));
  V in_range = fptosi_in_range(x, to);
  V least = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(bits));
  V most = llvm::ConstantInt::get(type, llvm::APInt::getSignedMaxValue(bits));
  V clamped = ir_.CreateSelect(high, most, ir_.CreateSelect(low, least, in_range));
  return ir_.CreateSelect(ir_.CreateFCmpUNO(x, x), llvm::Constant::getNullValue(type), clamped);
}
V Builder::fptosi_in_range(V x, LaneType to) {
  // Out of range is poison until frozen, then any number, as the caller expects.
  return ir_.CreateFreeze(ir_.CreateFPToSI(x, like(x, to)));
}
V Builder::zext(V x, LaneType to) { return ir_.CreateZExt(x, like(x, to)); }
V Builder::sext(V x, LaneType to) { return ir_.CreateSExt(x, like(x, to)); }
V Builder::itrunc(V x, LaneType to) { return ir_.CreateTrunc(x, like(x, to)); }
V Builder::fpext(V x, LaneType to) { return ir_.CreateFPExt(x, like(x, to)); }
V Builder::fptrunc(V x, LaneType to) { return ir_.CreateFPTrunc(x, like(x, to)); }

V Builder::half_to_f32(V x) {
  llvm::Type* half = with_lanes(ir_.getHalfTy(), lanes_of(x));
  return fpext(ir_.CreateBitCast(x, half), LaneType::kF32);
}
V Builder::f32_to_half(V x) {
  llvm::Type* half = with_lanes(ir_.getHalfTy(), lanes_of(x));
  return ir_.CreateBitCast(ir_.CreateFPTrunc(x, half), like(x, LaneType::kI16));
}

}  // namespace smolder::jit::cpu
