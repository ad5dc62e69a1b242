#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "smolder/core/error.h"
#include "smolder/jit/llvm/kernel_emitter.h"
#include "smolder/jit/llvm/primitives.h"
#include "smolder/jit/loop/fetch_rows.h"
#include "smolder/jit/loop/tiles.h"

namespace smolder::jit::cpu {

namespace {

enum Argument { kBuffers, kInts, kScalars, kErrors, kBegin, kEnd };

llvm::Function* make_function(llvm::Module& m) {
  llvm::LLVMContext& c = m.getContext();
  llvm::Type *pointer = llvm::PointerType::getUnqual(c), *word = llvm::Type::getInt64Ty(c);
  auto* type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(c), {pointer, pointer, pointer, pointer, word, word}, false);
  auto* fn = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kEntry, m);
  fn->setDoesNotThrow();
  // 512-bit registers where there are any, whatever the processor's own tuning prefers.
  fn->addFnAttr("prefer-vector-width", "512");
  fn->addFnAttr("min-legal-vector-width", "512");
  return fn;
}

Kernel scheduled(Kernel k) {
  fetch_rows(k);
  return k;
}

}  // namespace

std::vector<AccId> updated_accumulators(const std::vector<Stmt>& body) {
  std::vector<AccId> updated, declared;
  const auto visit = [&](const auto& self, const std::vector<Stmt>& statements) -> void {
    for (const Stmt& s : statements) {
      if (s.kind == StmtKind::kAcc) declared.push_back(s.acc);
      if (s.kind == StmtKind::kUpdate) updated.push_back(s.acc);
      self(self, s.body);
    }
  };
  visit(visit, body);
  std::sort(updated.begin(), updated.end());
  updated.erase(std::unique(updated.begin(), updated.end()), updated.end());
  std::erase_if(updated, [&](AccId a) { return std::find(declared.begin(), declared.end(), a) != declared.end(); });
  return updated;
}

std::unique_ptr<llvm::Module> emit_module(llvm::LLVMContext& context, const Kernel& kernel, const Traits& traits) {
  auto module = std::make_unique<llvm::Module>(kernel.name.empty() ? "kernel" : kernel.name, context);
  KernelEmitter(*module, kernel, traits).run();
  return module;
}

KernelEmitter::KernelEmitter(llvm::Module& module, const Kernel& kernel, const Traits& traits)
    : module_(module),
      k_(scheduled(kernel)),
      traits_(traits),
      fn_(make_function(module)),
      ir_(module.getContext()),
      b_(ir_),
      vars_(kernel.num_vars),
      locals_(kernel.num_locals),
      accs_(kernel.num_accs) {
  const auto visit = [&](const auto& self, const Stmt& s) -> void {
    fetches_rows_ = fetches_rows_ || s.kind == StmtKind::kFetch;
    for (const Stmt& inner : s.body) self(self, inner);
  };
  visit(visit, k_.root);
}

void KernelEmitter::run() {
  ir_.SetInsertPoint(block("entry"));
  load_arguments();
  if (k_.root.kind == StmtKind::kParallelVector) {
    vector(k_.root, fn_->getArg(kBegin), fn_->getArg(kEnd));
  } else {
    parallel();
  }
  if (streamed_) ir_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  ir_.CreateRetVoid();
}

void KernelEmitter::load_arguments() {
  const auto load = [&](Argument a, llvm::Type* type, int i) -> V {
    return ir_.CreateLoad(type, ir_.CreateConstInBoundsGEP1_64(type, fn_->getArg(a), i));
  };
  for (size_t i = 0; i < k_.buffers.size(); ++i) buffers_.push_back(load(kBuffers, ir_.getPtrTy(), i));
  for (int i = 0; i < k_.num_ints; ++i) ints_.push_back(load(kInts, ir_.getInt64Ty(), i));
}

// -- structure

void KernelEmitter::parallel() {
  V begin = fn_->getArg(kBegin), end = fn_->getArg(kEnd);
  auto *enter = block("enter"), *head = block("position"), *done = block("done");
  ir_.CreateCondBr(ir_.CreateICmpSLT(begin, end), enter, done);
  ir_.SetInsertPoint(enter);
  const std::vector<V> first = first_position(begin);
  ir_.CreateBr(head);
  ir_.SetInsertPoint(head);
  llvm::PHINode* position = phi(begin, enter);
  std::vector<llvm::PHINode*> at;
  for (size_t i = 0; i < first.size(); ++i) {
    at.push_back(first.size() == 1 ? position : phi(first[i], enter));
    vars_[k_.root.vars[i]] = at[i];
  }
  body(k_.root.body);
  V next = ir_.CreateAdd(position, i64(1));
  llvm::BasicBlock* latch = ir_.GetInsertBlock();
  position->addIncoming(next, latch);
  if (at.size() > 1) {
    const std::vector<V> following = next_position({at.begin(), at.end()});
    for (size_t i = 0; i < at.size(); ++i) at[i]->addIncoming(following[i], latch);
  }
  ir_.CreateCondBr(ir_.CreateICmpSLT(next, end), head, done);
  ir_.SetInsertPoint(done);
}

std::vector<V> KernelEmitter::first_position(V begin) {
  std::vector<V> at(k_.root.vars.size());
  V rest = begin;
  for (size_t i = at.size(); i-- > 1;) {
    V n = integer(k_.root.extents[i]);
    at[i] = ir_.CreateURem(rest, n);
    rest = ir_.CreateUDiv(rest, n);
  }
  at[0] = rest;
  return at;
}

std::vector<V> KernelEmitter::next_position(const std::vector<V>& at) {
  std::vector<V> next(at.size());
  V carry = ir_.getTrue();
  for (size_t i = at.size(); i-- > 0;) {
    next[i] = ir_.CreateAdd(at[i], ir_.CreateZExt(carry, ir_.getInt64Ty()));
    if (i == 0) break;
    carry = ir_.CreateICmpEQ(next[i], integer(k_.root.extents[i]));
    next[i] = ir_.CreateSelect(carry, i64(0), next[i]);
  }
  return next;
}

V KernelEmitter::extent(const Stmt& s) {
  V n = integer(s.extents[0]);
  if (s.clamp_var < 0) return n;
  V rest = ir_.CreateSub(integer(s.clamp_total), mul(vars_[s.clamp_var], n));
  return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, n, rest);
}

void KernelEmitter::sequential(const Stmt& s) { holds_columns(s) ? few_or_many_columns(s) : turns(s); }

void KernelEmitter::turns(const Stmt& s) {
  V n = extent(s);
  const std::vector<AccId> carried = updated_accumulators(s.body);
  auto *head = block("loop"), *done = block("loop_done");
  llvm::BasicBlock* from = ir_.GetInsertBlock();
  ir_.CreateCondBr(ir_.CreateICmpSGT(n, i64(0)), head, done);

  std::vector<std::pair<llvm::PHINode*, llvm::PHINode*>> phis;
  std::vector<Accumulator> before;
  ir_.SetInsertPoint(head);
  llvm::PHINode* at = phi(i64(0), from);
  vars_[s.vars[0]] = at;
  for (const AccId a : carried) {
    before.push_back(accs_[a]);
    phis.emplace_back(phi(accs_[a].next, from), phi(accs_[a].other, from));
    accs_[a].next = phis.back().first;
    accs_[a].other = phis.back().second;
  }
  body(s.body);
  V next = ir_.CreateAdd(at, i64(1));
  llvm::BasicBlock* latch = ir_.GetInsertBlock();
  at->addIncoming(next, latch);
  ir_.CreateCondBr(ir_.CreateICmpSLT(next, n), head, done);
  ir_.SetInsertPoint(done);
  for (size_t i = 0; i < carried.size(); ++i) {
    Accumulator& a = accs_[carried[i]];
    phis[i].first->addIncoming(a.next, latch);
    phis[i].second->addIncoming(a.other, latch);
    auto *done_next = phi(before[i].next, from), *done_other = phi(before[i].other, from);
    done_next->addIncoming(a.next, latch);
    done_other->addIncoming(a.other, latch);
    a.next = done_next;
    a.other = done_other;
  }
}

void KernelEmitter::body(const std::vector<Stmt>& statements) {
  for (const Stmt& s : statements) {
    if (is_tile(s)) {
      tile(s);
    } else if (s.kind == StmtKind::kLoop) {
      sequential(s);
    } else if (s.kind == StmtKind::kVector) {
      vector(s, i64(0), extent(s));
    } else {
      statement(s);
    }
  }
}

// -- statements on one lane

void KernelEmitter::statement(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::kStore:
      return store(s, locals_[s.args[0]].scalar);
    case StmtKind::kAcc:
      return declare(s);
    case StmtKind::kParallel:
    case StmtKind::kParallelVector:
    case StmtKind::kLoop:
    case StmtKind::kVector:
    case StmtKind::kUpdate:
      raise<InternalError>("internal error: a loop or update where a statement is");
    default:
      break;
  }
  Local& local = locals_[s.result];
  local.dtype = result_dtype(s);
  switch (s.kind) {
    case StmtKind::kLoad:
      local.scalar = load(s);
      break;
    case StmtKind::kPrimitive: {
      std::vector<V> args;
      for (const LocalId a : s.args) args.push_back(locals_[a].scalar);
      local.scalar = compute(s, args);
      break;
    }
    case StmtKind::kConstant:
      local.scalar = number(s.constant, s.dtype);
      break;
    case StmtKind::kScalar: {
      const bool is_float = k_.scalars[s.slot] == Category::kFloat;
      llvm::Type* type = is_float ? ir_.getDoubleTy() : ir_.getInt64Ty();
      V raw = ir_.CreateLoad(type, ir_.CreateConstInBoundsGEP1_64(type, fn_->getArg(kScalars), s.slot));
      local.scalar = emit_cast(b_, is_float ? DType::kFloat64 : DType::kInt64, s.dtype, raw);
      break;
    }
    case StmtKind::kIndex:
      local.scalar = affine(s.map);
      break;
    case StmtKind::kResult:
      local.scalar = result(s);
      break;
    case StmtKind::kCheckIndex:
      local.scalar = check_index(s, locals_[s.args[0]].scalar, nullptr);
      break;
    default:
      raise<InternalError>("internal error: unknown statement");
  }
}

V KernelEmitter::load(const Stmt& s) {
  V element = affine(s.address.map);
  for (const auto& i : s.address.indirect) element = add(element, mul(locals_[i.index].scalar, integer(i.stride)));
  V at = pointer(s.address.buffer, element);
  V inside = nullptr;
  for (const Bound& bound : s.bounds) {
    V x = affine(bound.map);
    V here = ir_.CreateAnd(ir_.CreateICmpSLE(integer(bound.lo), x), ir_.CreateICmpSLT(x, integer(bound.hi)));
    inside = inside ? ir_.CreateAnd(inside, here) : here;
  }
  if (inside) at = ir_.CreateSelect(inside, at, scratch());
  llvm::Type* type = element_type(s.address.buffer);
  V raw = ir_.CreateAlignedLoad(type, at, llvm::Align(itemsize(s.dtype)));
  if (inside) {
    raw = ir_.CreateSelect(inside, raw, b_.constant_bits(storage_lane(s.dtype), storage_bits(s.constant, s.dtype)));
  }
  return from_storage(b_, s.dtype, raw);
}

void KernelEmitter::store(const Stmt& s, V value) {
  V element = affine(s.address.map);
  for (const auto& i : s.address.indirect) element = add(element, mul(locals_[i.index].scalar, integer(i.stride)));
  ir_.CreateAlignedStore(to_storage(b_, s.dtype, value), pointer(s.address.buffer, element),
                         llvm::Align(itemsize(s.dtype)));
}

void KernelEmitter::declare(const Stmt& s) {
  Accumulator& a = accs_[s.acc];
  a.dtype = compute_type(s.dtype);
  a.step = reduce_step(s.reduce);
  b_.lanes = kLanes;
  a.next = a.other = number(reduce_identity(s.reduce, s.dtype), a.dtype);
  b_.lanes = 1;
}

V KernelEmitter::step(const Accumulator& a, V x, V y) {
  const V args[] = {x, y};
  return emit_primitive(b_, a.step, a.dtype, args);
}

V KernelEmitter::result(const Stmt& s) {
  const Accumulator& a = accs_[s.acc];
  b_.lanes = kLanes;
  V x = step(a, a.next, a.other);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    std::vector<int> low, high;
    for (int i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(half + i);
    }
    b_.lanes = half;
    V y = half == 1 ? ir_.CreateExtractElement(x, uint64_t{1}) : ir_.CreateShuffleVector(x, high);
    x = half == 1 ? ir_.CreateExtractElement(x, uint64_t{0}) : ir_.CreateShuffleVector(x, low);
    x = step(a, x, y);
  }
  b_.lanes = 1;
  return a.dtype == s.dtype ? x : emit_cast(b_, a.dtype, s.dtype, x);
}

// -- any number of lanes

V KernelEmitter::number(Scalar v, DType t) { return b_.constant_bits(register_lane(t), register_bits(v, t)); }

// Straight-line: the flag goes to a place nobody reads when all is well.
V KernelEmitter::check_index(const Stmt& s, V index, V mask) {
  const auto splat = [&](V x) { return b_.lanes == 1 ? x : ir_.CreateVectorSplat(b_.lanes, x); };
  V zero = splat(i64(0)), limit = splat(integer(s.limit));
  V last = splat(ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, ir_.CreateSub(integer(s.limit), i64(1)), i64(0)));
  V bad = ir_.CreateICmpUGE(index, limit);  // unsigned: a negative one is large
  if (mask) bad = ir_.CreateAnd(bad, mask);
  if (b_.lanes > 1) {
    V bits = ir_.CreateBitCast(bad, ir_.getIntNTy(b_.lanes));
    bad = ir_.CreateICmpNE(bits, llvm::ConstantInt::get(bits->getType(), 0));
  }
  V word = ir_.CreateConstInBoundsGEP1_64(ir_.getInt32Ty(), fn_->getArg(kErrors), s.slot);
  ir_.CreateStore(ir_.getInt32(1), ir_.CreateSelect(bad, word, scratch()));
  V clamped = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, index, last);
  return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, clamped, zero);
}

// -- indices

V KernelEmitter::integer(IntRef r) const {
  return r.is_constant() ? const_cast<llvm::IRBuilder<>&>(ir_).getInt64(r.constant) : ints_[r.slot];
}

V KernelEmitter::add(V x, V y) {
  const auto* cx = llvm::dyn_cast<llvm::ConstantInt>(x);
  const auto* cy = llvm::dyn_cast<llvm::ConstantInt>(y);
  return cx && cx->isZero() ? y : cy && cy->isZero() ? x : ir_.CreateAdd(x, y);
}

V KernelEmitter::mul(V x, V y) {
  const auto* cx = llvm::dyn_cast<llvm::ConstantInt>(x);
  const auto* cy = llvm::dyn_cast<llvm::ConstantInt>(y);
  return cx && cx->isOne() ? y : cy && cy->isOne() ? x : ir_.CreateMul(x, y);
}

V KernelEmitter::affine(const Affine& a, VarId skipped) {
  V sum = integer(a.offset);
  for (const auto& t : a.terms) {
    if (t.var != skipped) sum = add(sum, mul(vars_[t.var], integer(t.stride)));
  }
  return sum;
}

V KernelEmitter::stride(const Affine& a, VarId v) {
  V sum = nullptr;
  for (const auto& t : a.terms) {
    if (t.var != v || t.stride == IntRef{}) continue;
    sum = sum ? add(sum, integer(t.stride)) : integer(t.stride);
  }
  return sum;
}

llvm::Type* KernelEmitter::element_type(int buffer) { return b_.type(storage_lane(k_.buffers[buffer].dtype), 1); }

V KernelEmitter::pointer(int buffer, V element) {
  return ir_.CreateGEP(element_type(buffer), buffers_[buffer], element);
}

llvm::PHINode* KernelEmitter::phi(V initial, llvm::BasicBlock* from) {
  llvm::PHINode* p = ir_.CreatePHI(initial->getType(), 2);
  p->addIncoming(initial, from);
  return p;
}

V KernelEmitter::scratch() {
  if (!scratch_) {
    constexpr int kBytes = 128;  // a vector of the widest lanes
    llvm::BasicBlock& entry = fn_->getEntryBlock();
    llvm::IRBuilder<> at(&entry, entry.begin());
    auto* slot = at.CreateAlloca(llvm::ArrayType::get(at.getInt8Ty(), kBytes));
    slot->setAlignment(llvm::Align(64));
    scratch_ = slot;
  }
  return scratch_;
}

}  // namespace smolder::jit::cpu
