// The arithmetic of a statement. A long op on vectors is a function of the module: a kernel may hold it several times
// (in the loop and in its masked rest, for each operand that it is applied to), and LLVM's time goes with the
// instructions.
#include <algorithm>
#include <numeric>

#include "smolder/jit/llvm/kernel_emitter.h"
#include "smolder/jit/llvm/primitives.h"

namespace smolder::jit::cpu {

namespace {

/// Instructions beyond which an op is a function. Calls of shorter ones take more time than they save: with a bound of
/// 24 an exponential over 40,000 floats takes 31 us, written out 20.
constexpr int kLong = 40;
/// Bytes of an operand of such a function. Two registers of AVX2 hide the latency of what it does: with one, a sine
/// over 40,000 floats takes 30 us instead of 23.
constexpr int kOperandBytes = 64;

llvm::Type* with_lanes(V x, int n) { return llvm::FixedVectorType::get(x->getType()->getScalarType(), n); }

/// The lanes of one after those of the other.
V joined(llvm::IRBuilderBase& ir, V low, V high) {
  const auto n = llvm::cast<llvm::FixedVectorType>(low->getType())->getNumElements();
  std::vector<int> order(2 * size_t{n});
  std::iota(order.begin(), order.end(), 0);
  return ir.CreateShuffleVector(low, high, order);
}

}  // namespace

V KernelEmitter::compute(const Stmt& s, std::span<const V> args) {
  llvm::Function* f = b_.lanes > 1 ? function_of(s, args) : nullptr;
  if (!f) return written_out(s, args);
  const auto n = static_cast<int>(llvm::cast<llvm::FixedVectorType>(f->getReturnType())->getNumElements());
  std::vector<V> parts;
  for (int at = 0; at < b_.lanes; at += n) {
    std::vector<V> given(args.begin(), args.end());
    if (n < b_.lanes) {
      for (V& a : given) a = ir_.CreateExtractVector(with_lanes(a, n), a, i64(at));
    }
    parts.push_back(ir_.CreateCall(f, given));
  }
  for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
    for (size_t i = 0; i < parts.size() / 2; ++i) parts[i] = joined(ir_, parts[2 * i], parts[2 * i + 1]);
  }
  return parts[0];
}

llvm::Function* KernelEmitter::define(const std::vector<llvm::Type*>& operands, llvm::Type* result, auto&& body) {
  auto* f = llvm::Function::Create(llvm::FunctionType::get(result, operands, false), llvm::Function::InternalLinkage,
                                   "op", module_);
  f->copyAttributesFrom(fn_);
  f->setLinkage(llvm::Function::InternalLinkage);
  const llvm::IRBuilderBase::InsertPointGuard guard(ir_);
  ir_.SetInsertPoint(llvm::BasicBlock::Create(ir_.getContext(), "entry", f));
  std::vector<V> args;
  for (llvm::Argument& a : f->args()) args.push_back(&a);
  ir_.CreateRet(body(args));
  return f;
}

V KernelEmitter::random_run(V seed, V offset, V first) {
  if (!random_run_) {
    llvm::Type* word = ir_.getInt64Ty();
    random_run_ = define({word, word, word}, b_.type(LaneType::kI32), [&](const std::vector<V>& args) {
      const auto splat = [&](V x) { return ir_.CreateVectorSplat(b_.lanes, x); };
      V misaligned = ir_.CreateICmpNE(ir_.CreateAnd(args[2], i64(3)), i64(0));
      V lanes = ir_.CreateStepVector(b_.type(LaneType::kI64));
      return emit_random_bits(b_, splat(args[0]), splat(args[1]), ir_.CreateAdd(splat(args[2]), lanes), misaligned);
    });
  }
  return b_.zext(ir_.CreateCall(random_run_, {seed, offset, first}), LaneType::kI64);
}

V KernelEmitter::written_out(const Stmt& s, std::span<const V> args) {
  if (s.op == ir::Op::kCast) return emit_cast(b_, locals_[s.args[0]].dtype, s.dtype, args[0]);
  if (s.op == ir::Op::kRandomBits) {
    return b_.zext(emit_random_bits(b_, args[0], args[1], args[2]), LaneType::kI64);
  }
  return emit_primitive(b_, s.op, s.dtype, args);
}

llvm::Function* KernelEmitter::function_of(const Stmt& s, std::span<const V> args) {
  if (s.op == ir::Op::kRandomBits) return nullptr;  // seldom; those of consecutive elements are random_run()
  const auto [found, is_new] = functions_.try_emplace({s.op, locals_[s.args[0]].dtype, s.dtype}, nullptr);
  if (!is_new) return found->second;

  const int all = b_.lanes;
  const auto widest = std::max_element(args.begin(), args.end(), [](V a, V b) {
    return a->getType()->getScalarSizeInBits() < b->getType()->getScalarSizeInBits();
  });
  b_.lanes = std::min<int>(all, kOperandBytes * 8 / static_cast<int>((*widest)->getType()->getScalarSizeInBits()));
  std::vector<llvm::Type*> types;
  for (V a : args) types.push_back(with_lanes(a, b_.lanes));
  llvm::Function* f = define(types, b_.type(register_lane(result_dtype(s))),
                             [&](const std::vector<V>& operands) { return written_out(s, operands); });
  b_.lanes = all;
  if (static_cast<int>(f->getInstructionCount()) > kLong) return found->second = f;
  f->eraseFromParent();
  return nullptr;
}

}  // namespace smolder::jit::cpu
