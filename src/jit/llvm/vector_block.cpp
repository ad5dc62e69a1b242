// The statements of a vector loop on a block of lanes.
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "smolder/jit/llvm/primitives.h"
#include "smolder/jit/llvm/vector_loop.h"

namespace smolder::jit::cpu {

namespace {

/// Bytes from a row to the next beyond which that is not fetched ahead.
constexpr int64_t kFarRow = 128 << 10;

}  // namespace

void VectorLoop::emit_block(const Block& block) {
  b_.lanes = kLanes;
  divisions_.clear();
  fetch_rows(block);
  for (size_t i = 0; i < loop_.body.size(); ++i) {
    if (!prepared_[i].uniform) statement(loop_.body[i], prepared_[i], block);
  }
  for (const AccId a : accs_) std::swap(e_.accs_[a].next, e_.accs_[a].other);
  b_.lanes = 1;
}

void VectorLoop::emit_block_of(V first, Given given) {
  given_ = std::move(given);
  prepare();
  emit_block({first});
}

void VectorLoop::statement(const Stmt& s, const Prepared& p, const Block& block) {
  switch (s.kind) {
    case StmtKind::kStore:
      return store(s, p, block);
    case StmtKind::kUpdate:
      return update(s, block);
    case StmtKind::kLoad:
      e_.locals_[s.result].vector = load(s, p, block);
      return;
    case StmtKind::kIndex: {
      V first = e_.add(p.element, e_.mul(block.first, p.stride));
      e_.locals_[s.result].vector = ir_.CreateAdd(splat(first), p.lane_offsets);
      if (is_one(p.stride)) first_of_[s.result] = first;
      return;
    }
    case StmtKind::kCheckIndex:
      e_.locals_[s.result].vector = e_.check_index(s, vector_of(s.args[0]), block.mask);
      return;
    default: {
      if (s.kind == StmtKind::kPrimitive && s.op == ir::Op::kRandomBits) {
        e_.locals_[s.result].vector = random_bits(s);
        return;
      }
      if (is_division_of_run(s)) return defer_division(s);
      std::vector<V> args;
      for (const LocalId a : s.args) args.push_back(vector_of(a));
      e_.locals_[s.result].vector = e_.compute(s, args);
    }
  }
}

V VectorLoop::random_bits(const Stmt& s) {
  V first = first_of_[s.args[2]];
  if (first && !varies(s.args[0]) && !varies(s.args[1])) {
    return e_.random_run(e_.locals_[s.args[0]].scalar, e_.locals_[s.args[1]].scalar, first);
  }
  const V args[] = {vector_of(s.args[0]), vector_of(s.args[1]), vector_of(s.args[2])};
  return e_.written_out(s, args);
}

// -- divisions of consecutive numbers: what an index into a reshaped array is made of

bool VectorLoop::is_division_of_run(const Stmt& s) const {
  return s.kind == StmtKind::kPrimitive && (s.op == ir::Op::kFloorDiv || s.op == ir::Op::kRemainder) &&
         s.dtype == DType::kInt64 && first_of_[s.args[0]] && !varies(s.args[1]);
}

/// One division for a block and a divisor; its lanes differ by how often they pass a multiple of the divisor.
VectorLoop::Division& VectorLoop::division_of_run(LocalId x, LocalId y) {
  for (Division& d : divisions_) {
    if (d.x == x && d.y == y) return d;
  }
  V first = first_of_[x], divisor = e_.locals_[y].scalar;
  b_.lanes = 1;
  const V operands[] = {first, divisor};
  V quotient = emit_primitive(b_, ir::Op::kFloorDiv, DType::kInt64, operands);
  b_.lanes = kLanes;
  V rest = ir_.CreateSub(first, ir_.CreateMul(quotient, divisor));
  V whole = ir_.CreateICmpSLT(ir_.CreateAdd(rest, e_.i64(kLanes - 1)), divisor);
  divisions_.push_back({x, y, quotient, rest, nullptr, whole});
  return divisions_.back();
}

/// How many multiples of the divisor each lane has passed since the first.
V VectorLoop::passed(Division& d) {
  if (d.passed) return d.passed;
  // Small numbers, that float32 divides: beyond kFew, a larger divisor is passed once at most, as kFew is.
  constexpr int kFew = 2 * kLanes;
  V divisor = e_.locals_[d.y].scalar;
  V few = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, divisor, e_.i64(kFew));
  V from = ir_.CreateSub(d.rest, ir_.CreateSub(divisor, few));
  from = ir_.CreateTrunc(ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, from, e_.i64(-kLanes)), ir_.getInt32Ty());
  V at = ir_.CreateAdd(splat(from), iota(ir_.getInt32Ty()));
  at = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, at, llvm::ConstantInt::get(at->getType(), 0));
  V reciprocal = ir_.CreateFDiv(llvm::ConstantFP::get(ir_.getFloatTy(), 1), ir_.CreateSIToFP(few, ir_.getFloatTy()));
  V middle = b_.sitofp(at, LaneType::kF32);
  middle = ir_.CreateFMul(ir_.CreateFAdd(middle, llvm::ConstantFP::get(middle->getType(), 0.5)), splat(reciprocal));
  d.passed = b_.sext(b_.fptosi_in_range(middle, LaneType::kI32), LaneType::kI64);
  return d.passed;
}

/// The lanes wait until they are wanted: a block that no multiple of the divisor interrupts is read without them.
void VectorLoop::defer_division(const Stmt& s) {
  const Division& d = division_of_run(s.args[0], s.args[1]);
  const bool wants_quotient = s.op == ir::Op::kFloorDiv;
  runs_[s.result] = {wants_quotient ? d.quotient : d.rest, !wants_quotient, d.whole};
  deferred_[s.result] = &s;
  e_.locals_[s.result].vector = nullptr;
}

V VectorLoop::divide_run(const Stmt& s) {
  Division& d = division_of_run(s.args[0], s.args[1]);
  V first = first_of_[s.args[0]], divisor = e_.locals_[s.args[1]].scalar;
  V result = s.op == ir::Op::kFloorDiv ? ir_.CreateAdd(splat(d.quotient), passed(d))
                                       : ir_.CreateSub(ir_.CreateAdd(splat(d.rest), iota(ir_.getInt64Ty())),
                                                       ir_.CreateMul(passed(d), splat(divisor)));

  // No size is 0 or less, but the statement may say so.
  llvm::BasicBlock *before = ir_.GetInsertBlock(), *lane = e_.block("divide"), *odd = e_.block("divided"),
                   *after = e_.block("run");
  V usual = ir_.CreateICmpSGT(divisor, e_.i64(0));
  ir_.CreateCondBr(usual, after, lane, llvm::MDBuilder(ir_.getContext()).createLikelyBranchWeights());
  ir_.SetInsertPoint(lane);
  llvm::PHINode* i = e_.phi(e_.i64(0), before);
  b_.lanes = 1;
  const V one[] = {ir_.CreateAdd(first, i), divisor};
  ir_.CreateStore(emit_primitive(b_, s.op, DType::kInt64, one), ir_.CreateGEP(ir_.getInt64Ty(), e_.scratch(), i));
  b_.lanes = kLanes;
  V next = ir_.CreateAdd(i, e_.i64(1));
  i->addIncoming(next, ir_.GetInsertBlock());
  ir_.CreateCondBr(ir_.CreateICmpULT(next, e_.i64(kLanes)), lane, odd);
  ir_.SetInsertPoint(odd);
  V slow = ir_.CreateAlignedLoad(result->getType(), e_.scratch(), llvm::Align(64));
  ir_.CreateBr(after);
  ir_.SetInsertPoint(after);
  llvm::PHINode* chosen = e_.phi(result, before);
  chosen->addIncoming(slow, odd);
  return chosen;
}

/// Where the first lane reads, and in `consecutive` whether the others follow it: where an index was taken apart
/// and put together again, they do but at the ends of rows. Null where that is not how the address is made.
V VectorLoop::run_start(const Access& a, const Block& block, V* consecutive) {
  if (a.indirect.empty()) return nullptr;
  V start = a.stride ? e_.add(a.element, e_.mul(block.first, a.stride)) : a.element;
  int steps = is_one(a.stride);
  if (a.stride && steps == 0) return nullptr;
  *consecutive = ir_.getTrue();
  for (const auto& [v, splat_stride] : a.indirect) {
    const Run& run = runs_[v];
    if (!run.first || (run.steps && splat_stride)) return nullptr;
    steps += run.steps;
    V stride = splat_stride ? ir_.CreateExtractElement(splat_stride, uint64_t{0}) : e_.i64(1);
    start = e_.add(start, e_.mul(run.first, stride));
    *consecutive = ir_.CreateAnd(*consecutive, run.whole);
  }
  return steps == 1 ? start : nullptr;
}

/// A load that is contiguous but for blocks that pass the end of a row.
V VectorLoop::load_runs(const Stmt& s, const Prepared& p, V mask, V fill, const Block& block) {
  V consecutive = nullptr;
  V start = can_mask(s.dtype) ? run_start(p.access, block, &consecutive) : nullptr;
  if (!start) return load_scattered(s, p, mask, fill, block);
  auto *together = e_.block("together"), *apart = e_.block("apart"), *after = e_.block("loaded");
  ir_.CreateCondBr(consecutive, together, apart, llvm::MDBuilder(ir_.getContext()).createLikelyBranchWeights());
  ir_.SetInsertPoint(together);
  V at = e_.pointer(s.address.buffer, start);
  if (mask) at = reached(at, mask);
  V straight = load_contiguous(s, at, mask, fill, block);
  together = ir_.GetInsertBlock();
  ir_.CreateBr(after);
  ir_.SetInsertPoint(apart);
  V scattered = scattered_apart(s, p, mask, fill, block);
  apart = ir_.GetInsertBlock();
  ir_.CreateBr(after);
  ir_.SetInsertPoint(after);
  llvm::PHINode* raw = e_.phi(straight, together);
  raw->addIncoming(scattered, apart);
  return raw;
}

/// load_scattered where not every path of the block passes: lanes that are computed here are no good after it.
V VectorLoop::scattered_apart(const Stmt& s, const Prepared& p, V mask, V fill, const Block& block) {
  const std::vector<Division> divisions = divisions_;
  std::vector<LocalId> waiting;
  for (const auto& [v, stride] : p.access.indirect) {
    if (!e_.locals_[v].vector) waiting.push_back(v);
  }
  V raw = load_scattered(s, p, mask, fill, block);
  for (const LocalId v : waiting) e_.locals_[v].vector = nullptr;
  divisions_ = divisions;
  return raw;
}

V VectorLoop::vector_of(LocalId v) {
  Local& local = e_.locals_[v];
  if (!local.vector) local.vector = uniform_[v] ? splat(local.scalar) : divide_run(*deferred_[v]);
  return local.vector;
}

void VectorLoop::update(const Stmt& s, const Block& block) {
  Accumulator& a = e_.accs_[s.acc];
  V sum = e_.step(a, a.next, vector_of(s.args[0]));
  a.next = block.mask ? ir_.CreateSelect(block.mask, sum, a.next) : sum;
}

bool VectorLoop::can_mask(DType t) const {
  return itemsize(t) <= 2 ? e_.traits_.masked_narrow : e_.traits_.masked_wide;
}

// -- loads

void VectorLoop::prepare_fetches() {
  for (const Stmt& s : loop_.body) {
    if (s.kind != StmtKind::kFetch) continue;
    const Address& a = s.address;
    V element = e_.affine(a.map, var_);
    const auto size = static_cast<int64_t>(itemsize(s.dtype));
    if (!s.vars.empty()) {
      // A row that is long is pushed out of the caches before its turn: then this one is asked for, which is there.
      V step = e_.stride(a.map, s.vars[0]);
      V near = ir_.CreateICmpULE(step, e_.i64(kFarRow / size));
      element = e_.add(element, ir_.CreateSelect(near, step, e_.i64(0)));
    }
    const bool writes = e_.k_.buffers[static_cast<size_t>(a.buffer)].write;
    fetches_.push_back({e_.pointer(a.buffer, element), e_.element_type(a.buffer), kLanes * size, writes});
  }
}

void VectorLoop::fetch_rows(const Block& block) {
  constexpr int kAllLevels = 3, kData = 1;
  for (const Fetch& f : fetches_) {
    V at = ir_.CreateGEP(f.element, f.base, block.first);
    for (int64_t offset = 0; offset < f.bytes; offset += kLine) {
      V line = ir_.CreateConstGEP1_64(ir_.getInt8Ty(), at, offset);
      ir_.CreateIntrinsic(llvm::Intrinsic::prefetch, {line->getType()},
                          {line, ir_.getInt32(f.write), ir_.getInt32(kAllLevels), ir_.getInt32(kData)});
    }
  }
}

V VectorLoop::load(const Stmt& s, const Prepared& p, const Block& block) {
  for (const auto& [load, raw] : given_) {
    if (load == &s) return from_storage(b_, s.dtype, raw);
  }
  V mask = p.condition;
  for (const Range& r : p.ranges) {
    V here = lane_mask(r, block);
    mask = mask ? ir_.CreateAnd(mask, here) : here;
  }
  const bool bounded = mask != nullptr;
  if (block.mask) mask = mask ? ir_.CreateAnd(mask, block.mask) : block.mask;
  const LaneType lane = storage_lane(s.dtype);
  V fill = b_.constant_bits(lane, bounded ? storage_bits(s.constant, s.dtype) : 0);
  V raw;
  if (p.access.kind == Access::kUniform) {
    // Not hoisted because the loop stores to the buffer, or because its bounds vary.
    llvm::Type* type = e_.element_type(s.address.buffer);
    V at = p.access.base;
    if (mask) at = reached(at, mask);
    raw = splat(ir_.CreateAlignedLoad(type, at, llvm::Align(itemsize(s.dtype))));
    if (bounded) raw = ir_.CreateSelect(mask, raw, fill);
  } else if (p.access.kind == Access::kContiguous && (!mask || can_mask(s.dtype) || !bounded)) {
    V first = p.passed ? ir_.CreateAnd(block.first, p.passed) : block.first;
    V at = ir_.CreateGEP(e_.element_type(s.address.buffer), p.access.base, first);
    if (!p.ranges.empty()) at = reached(at, mask);
    if (block.stream && !e_.fetches_rows_) fetch_ahead(at);
    raw = load_contiguous(s, at, mask, fill, block);
  } else if (p.access.kind == Access::kReversed && (!mask || can_mask(s.dtype))) {
    raw = load_reversed(s, p, mask, fill, block);
  } else if (const int step = bounded ? 0 : small_step(p.access); step && (!mask || can_mask(s.dtype))) {
    raw = load_every(s, p, step, fill, block);
  } else {
    raw = load_runs(s, p, mask, fill, block);
  }
  return from_storage(b_, s.dtype, raw);
}

V VectorLoop::reached(V at, V mask) {
  V any = ir_.CreateICmpNE(ir_.CreateBitCast(mask, ir_.getIntNTy(kLanes)), ir_.getIntN(kLanes, 0));
  return ir_.CreateSelect(any, at, e_.scratch());
}

/// The processor's own prefetching leaves a long body, which fills its window, waiting for memory: a gelu over 2^25
/// floats takes 22 ms without this and 15.6 with it.
void VectorLoop::fetch_ahead(V at) {
  constexpr int kBytes = 2048, kRead = 0, kAllLevels = 3, kData = 1;
  V ahead = ir_.CreateConstGEP1_64(ir_.getInt8Ty(), at, kBytes);
  ir_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ahead->getType()},
                      {ahead, ir_.getInt32(kRead), ir_.getInt32(kAllLevels), ir_.getInt32(kData)});
}

V VectorLoop::load_contiguous(const Stmt& s, V at, V mask, V fill, const Block& block) {
  const llvm::Align align(itemsize(s.dtype));
  llvm::Type* type = b_.type(storage_lane(s.dtype));
  if (!mask) return ir_.CreateAlignedLoad(type, at, align);
  if (can_mask(s.dtype)) return ir_.CreateMaskedLoad(type, at, align, mask, fill);
  ir_.CreateAlignedStore(fill, e_.scratch(), llvm::Align(64));
  copy_elements(e_.scratch(), at, block.count, e_.element_type(s.address.buffer));
  return ir_.CreateAlignedLoad(type, e_.scratch(), llvm::Align(64));
}

/// Loads elements side by side, the last lane first: a gather takes five times as long.
V VectorLoop::load_reversed(const Stmt& s, const Prepared& p, V mask, V fill, const Block& block) {
  V last = ir_.CreateAdd(block.first, e_.i64(kLanes - 1));
  V at = ir_.CreateGEP(e_.element_type(s.address.buffer), p.access.base, ir_.CreateNeg(last));
  if (mask) {
    at = reached(at, mask);
    mask = ir_.CreateVectorReverse(mask);
  }
  return ir_.CreateVectorReverse(load_contiguous(s, at, mask, fill, block));
}

/// The stride of an access that load_every takes; else 0.
int VectorLoop::small_step(const Access& a) const {
  constexpr int kMost = 4;  // vectors that are read for one
  if (a.kind != Access::kStrided) return 0;
  for (int step = 2; step <= kMost; ++step) {
    if (is_constant(a.stride, step)) return step;
  }
  return 0;
}

/// Every `step`th element, picked out of all that lie between: a gather takes three times as long. The last vector
/// ends at the last lane's element, as the memory may.
V VectorLoop::load_every(const Stmt& s, const Prepared& p, int step, V fill, const Block& block) {
  const llvm::Align align(itemsize(s.dtype));
  llvm::Type *element = e_.element_type(s.address.buffer), *type = b_.type(storage_lane(s.dtype));
  V at = ir_.CreateGEP(element, p.access.base, e_.mul(block.first, e_.i64(step)));
  V end = nullptr;  // of a block that is not full
  if (block.mask)
    end = splat(ir_.CreateTrunc(e_.mul(ir_.CreateSub(block.count, e_.i64(1)), e_.i64(step)), ir_.getInt32Ty()));
  const int last = (kLanes - 1) * step + 1 - kLanes;
  V raw = fill;
  for (int i = 0; i < step; ++i) {
    const int offset = std::min(i * kLanes, last);
    V part = nullptr, from = ir_.CreateConstGEP1_64(element, at, offset);
    if (end) {
      V here = ir_.CreateAdd(iota(ir_.getInt32Ty()), splat(ir_.getInt32(offset)));
      part = ir_.CreateMaskedLoad(type, from, align, ir_.CreateICmpSLE(here, end), fill);
    } else {
      part = ir_.CreateAlignedLoad(type, from, align);
    }
    llvm::SmallVector<int, kLanes> lanes;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int its = std::min(lane * step / kLanes, step - 1);
      lanes.push_back(its == i ? kLanes + lane * step - offset : lane);
    }
    raw = ir_.CreateShuffleVector(raw, part, lanes);
  }
  return raw;
}

V VectorLoop::load_scattered(const Stmt& s, const Prepared& p, V mask, V fill, const Block& block) {
  const llvm::Align align(itemsize(s.dtype));
  llvm::Type* type = b_.type(storage_lane(s.dtype));
  llvm::Type* element = e_.element_type(s.address.buffer);
  if (e_.traits_.gather && itemsize(s.dtype) >= 4) {
    V at = ir_.CreateGEP(element, e_.buffers_[s.address.buffer], indices(p.access, block));
    V all = llvm::ConstantInt::getTrue(b_.type(LaneType::kI1));
    return ir_.CreateMaskedGather(type, at, align, mask ? mask : all, fill);
  }
  V raw = fill;
  const std::vector<V> at = lane_pointers(s, p, mask, block);
  for (int i = 0; i < kLanes; ++i) {
    raw = ir_.CreateInsertElement(raw, ir_.CreateAlignedLoad(element, at[i], align), uint64_t(i));
  }
  return mask ? ir_.CreateSelect(mask, raw, fill) : raw;
}

/// Lanes of the block within a range of an affine map.
V VectorLoop::lane_mask(const Range& r, const Block& block) {
  V first = e_.add(r.element, e_.mul(block.first, r.stride));
  if (!is_one(r.stride)) {
    V x = ir_.CreateAdd(splat(first), r.lane_offsets);
    return ir_.CreateAnd(ir_.CreateICmpSLE(splat(r.low), x), ir_.CreateICmpSLT(x, splat(r.high)));
  }
  // Consecutive: a range of lanes.
  const auto lane = [&](V limit) {
    V distance = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, limit, first);
    distance = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, distance, e_.i64(0));
    distance = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, distance, e_.i64(kLanes));
    return splat(ir_.CreateTrunc(distance, ir_.getInt32Ty()));
  };
  V mask = ir_.CreateICmpULT(iota(ir_.getInt32Ty()), lane(r.high));
  return r.has_low ? ir_.CreateAnd(mask, ir_.CreateICmpUGE(iota(ir_.getInt32Ty()), lane(r.low))) : mask;
}

/// Element numbers of the lanes of a block.
V VectorLoop::indices(const Access& a, const Block& block) {
  V first = a.stride ? e_.add(a.element, e_.mul(block.first, a.stride)) : a.element;
  V index = splat(first);
  if (a.lane_offsets) index = ir_.CreateAdd(index, a.lane_offsets);
  for (const auto& [v, stride] : a.indirect) {
    V term = vector_of(v);
    index = ir_.CreateAdd(index, stride ? ir_.CreateMul(term, stride) : term);
  }
  return index;
}

/// The address of each lane; of inactive ones, scratch memory.
std::vector<V> VectorLoop::lane_pointers(const Stmt& s, const Prepared& p, V mask, const Block& block) {
  llvm::Type* element = e_.element_type(s.address.buffer);
  std::vector<V> at;
  V index = p.access.indirect.empty() ? nullptr : indices(p.access, block);
  V stride = p.access.stride ? p.access.stride : e_.i64(0);
  for (int i = 0; i < kLanes; ++i) {
    if (index) {
      at.push_back(e_.pointer(s.address.buffer, ir_.CreateExtractElement(index, uint64_t(i))));
    } else if (i == 0) {
      at.push_back(ir_.CreateGEP(element, p.access.base, e_.mul(block.first, stride)));
    } else {
      at.push_back(ir_.CreateGEP(element, at.back(), stride));
    }
  }
  if (!mask) return at;
  for (int i = 0; i < kLanes; ++i) {
    at[i] = ir_.CreateSelect(ir_.CreateExtractElement(mask, uint64_t(i)), at[i], e_.scratch());
  }
  return at;
}

/// Copies `count` >= 1 elements one by one, where the machine has no masked loads or stores.
void VectorLoop::copy_elements(V to, V from, V count, llvm::Type* type) {
  llvm::BasicBlock *before = ir_.GetInsertBlock(), *head = e_.block("copy"), *done = e_.block("copied");
  ir_.CreateBr(head);
  ir_.SetInsertPoint(head);
  llvm::PHINode* i = e_.phi(e_.i64(0), before);
  ir_.CreateStore(ir_.CreateLoad(type, ir_.CreateGEP(type, from, i)), ir_.CreateGEP(type, to, i));
  V next = ir_.CreateAdd(i, e_.i64(1));
  i->addIncoming(next, head);
  ir_.CreateCondBr(ir_.CreateICmpULT(next, count), head, done);
  ir_.SetInsertPoint(done);
}

// -- stores

void VectorLoop::store(const Stmt& s, const Prepared& p, const Block& block) {
  if (p.access.kind == Access::kUniform) return store_uniform(s, p, block);
  V value = to_storage(b_, s.dtype, vector_of(s.args[0]));
  if (held_store_ == &s) {
    held_ = value;
    return;
  }
  if (p.access.kind != Access::kContiguous) return store_scattered(s, p, value, block);
  llvm::Type* element = e_.element_type(s.address.buffer);
  V at = ir_.CreateGEP(element, p.access.base, block.first);
  const auto size = itemsize(s.dtype);
  if (!block.mask) {
    const bool stream = block.stream && s.streaming;
    auto* st = ir_.CreateAlignedStore(value, at, llvm::Align(stream ? std::min<size_t>(64, kLanes * size) : size));
    if (stream) {
      st->setMetadata(llvm::LLVMContext::MD_nontemporal,
                      llvm::MDNode::get(ir_.getContext(), llvm::ConstantAsMetadata::get(ir_.getInt32(1))));
    }
  } else if (can_mask(s.dtype)) {
    ir_.CreateMaskedStore(value, at, llvm::Align(size), block.mask);
  } else {
    ir_.CreateAlignedStore(value, e_.scratch(), llvm::Align(64));
    copy_elements(at, e_.scratch(), block.count, element);
  }
}

/// All elements go to one place: the last stays.
void VectorLoop::store_uniform(const Stmt& s, const Prepared& p, const Block& block) {
  V value = vector_of(s.args[0]);
  V last = block.count ? ir_.CreateSub(block.count, e_.i64(1)) : e_.i64(kLanes - 1);
  value = uniform_[s.args[0]] ? e_.locals_[s.args[0]].scalar : ir_.CreateExtractElement(value, last);
  b_.lanes = 1;
  V raw = to_storage(b_, s.dtype, value);
  b_.lanes = kLanes;
  ir_.CreateAlignedStore(raw, p.access.base, llvm::Align(itemsize(s.dtype)));
}

void VectorLoop::store_scattered(const Stmt& s, const Prepared& p, V value, const Block& block) {
  const llvm::Align align(itemsize(s.dtype));
  if (e_.traits_.gather && itemsize(s.dtype) >= 4) {
    V at = ir_.CreateGEP(e_.element_type(s.address.buffer), e_.buffers_[s.address.buffer], indices(p.access, block));
    ir_.CreateMaskedScatter(value, at, align, block.mask);
    return;
  }
  const std::vector<V> at = lane_pointers(s, p, block.mask, block);
  for (int i = 0; i < kLanes; ++i) ir_.CreateAlignedStore(ir_.CreateExtractElement(value, uint64_t(i)), at[i], align);
}

}  // namespace smolder::jit::cpu
