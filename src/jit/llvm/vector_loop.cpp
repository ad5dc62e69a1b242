// Shapes of vector loops, and what is computed before them; vector_block.cpp has the body.
#include "smolder/jit/llvm/vector_loop.h"

#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "smolder/jit/llvm/primitives.h"

namespace smolder::jit::cpu {

namespace {

/// Blocks of the unmasked loop. Two hide the latency of what a short body does; a long body overlaps with
/// itself in the processor's window and costs compile time.
constexpr int kUnroll = 2;
/// LLVM instructions in a body beyond which it is long.
constexpr int kShortBody = 24;

bool is_read_back(const std::vector<Stmt>& body, int buffer) {
  return std::any_of(body.begin(), body.end(),
                     [&](const Stmt& s) { return s.kind == StmtKind::kStore && s.address.buffer == buffer; });
}

}  // namespace

void KernelEmitter::vector(const Stmt& s, V begin, V end) { VectorLoop(*this, s, begin, end).emit(); }

VectorLoop::VectorLoop(KernelEmitter& emitter, const Stmt& loop, V begin, V end)
    : e_(emitter),
      ir_(emitter.ir_),
      b_(emitter.b_),
      loop_(loop),
      var_(loop.vars[0]),
      begin_(begin),
      end_(end),
      accs_(updated_accumulators(loop.body)),
      uniform_(emitter.locals_.size(), true),
      first_of_(emitter.locals_.size()),
      runs_(emitter.locals_.size()),
      deferred_(emitter.locals_.size()) {
  // Vectors that other loops made are not at hand here.
  for (Local& l : e_.locals_) l.vector = nullptr;
  if (e_.traits_.streaming) {
    streams_ = std::any_of(loop.body.begin(), loop.body.end(), [](const Stmt& s) { return s.streaming; });
  }
}

void VectorLoop::emit() {
  auto *enter = e_.block("vector"), *after = e_.block("vector_end"), *done = e_.block("vector_done");
  llvm::BasicBlock* from = ir_.GetInsertBlock();
  const std::vector<V> before = state();
  ir_.CreateCondBr(ir_.CreateICmpSLT(begin_, end_), enter, done);
  ir_.SetInsertPoint(enter);
  prepare();
  if (streams_) {
    emit_streaming(ir_.GetInsertBlock(), after);
  } else {
    emit_main_and_rest(ir_.GetInsertBlock(), after);
  }
  ir_.SetInsertPoint(after);
  put_in_order();
  llvm::BasicBlock* last = ir_.GetInsertBlock();
  ir_.CreateBr(done);
  ir_.SetInsertPoint(done);
  const std::vector<llvm::PHINode*> phis = state_phis();
  add_incoming(phis, before, from);
  add_incoming(phis, state(), last);
  set_state({phis.begin(), phis.end()});
}

// -- before the loop

void VectorLoop::prepare() {
  for (const Stmt& s : loop_.body) {
    prepared_.push_back(prepare(s));
    if (prepared_.back().uniform) {
      if (s.result >= 0) e_.statement(s);
    } else {
      if (s.result >= 0) {
        uniform_[s.result] = false;
        e_.locals_[s.result].dtype = result_dtype(s);
      }
      for (const LocalId a : s.args) {
        if (uniform_[a]) vector_of(a);
      }
    }
  }
  prepare_fetches();
}

bool VectorLoop::is_uniform(const Stmt& s) const {
  const auto fixed = [&](const Affine& a) {
    return std::none_of(a.terms.begin(), a.terms.end(),
                        [&](const auto& t) { return t.var == var_ && t.stride != IntRef{}; });
  };
  switch (s.kind) {
    case StmtKind::kStore:
    case StmtKind::kUpdate:
      return false;
    case StmtKind::kLoad:
      return fixed(s.address.map) && !is_read_back(loop_.body, s.address.buffer) &&
             std::all_of(s.bounds.begin(), s.bounds.end(), [&](const Bound& b) { return fixed(b.map); }) &&
             std::none_of(s.address.indirect.begin(), s.address.indirect.end(),
                          [&](const auto& i) { return varies(i.index); });
    case StmtKind::kIndex:
      return fixed(s.map);
    default:
      return std::none_of(s.args.begin(), s.args.end(), [&](LocalId a) { return varies(a); });
  }
}

VectorLoop::Prepared VectorLoop::prepare(const Stmt& s) {
  Prepared p;
  p.uniform = is_uniform(s);
  if (p.uniform) return p;
  if (s.kind == StmtKind::kLoad || s.kind == StmtKind::kStore) {
    p.access = access(s.address);
    if (p.access.kind != Access::kIndirect) p.access.base = e_.pointer(s.address.buffer, p.access.element);
  }
  if (s.kind == StmtKind::kIndex) {
    p.element = e_.affine(s.map, var_);
    p.stride = e_.stride(s.map, var_);
    p.lane_offsets = lane_offsets(p.stride);
  }
  for (const Bound& bound : s.bounds) {
    Range r{e_.affine(bound.map, var_),
            e_.stride(bound.map, var_),
            nullptr,
            e_.integer(bound.lo),
            e_.integer(bound.hi),
            bound.lo != IntRef{std::numeric_limits<int64_t>::min()}};
    if (r.stride) {
      r.lane_offsets = lane_offsets(r.stride);
      p.ranges.push_back(r);
      continue;
    }
    V inside = ir_.CreateAnd(ir_.CreateICmpSLE(r.low, r.element), ir_.CreateICmpSLT(r.element, r.high));
    p.condition = p.condition ? ir_.CreateAnd(p.condition, inside) : inside;
  }
  if (p.condition && p.access.kind == Access::kContiguous) {
    // As reached(), once for all blocks.
    p.access.base = ir_.CreateSelect(p.condition, p.access.base, e_.scratch());
    p.passed = ir_.CreateSExt(p.condition, ir_.getInt64Ty());
  }
  if (p.condition) p.condition = splat(p.condition);
  return p;
}

VectorLoop::Access VectorLoop::access(const Address& address) {
  Access a;
  a.element = e_.affine(address.map, var_);
  a.stride = e_.stride(address.map, var_);
  for (const auto& i : address.indirect) {
    V stride = e_.integer(i.stride);
    if (varies(i.index)) {
      a.indirect.emplace_back(i.index, i.stride == IntRef{1} ? nullptr : splat(stride));
    } else {
      a.element = e_.add(a.element, e_.mul(e_.locals_[i.index].scalar, stride));
    }
  }
  if (!a.indirect.empty()) {
    a.kind = Access::kIndirect;
  } else if (is_one(a.stride)) {
    a.kind = Access::kContiguous;
  } else if (is_constant(a.stride, -1)) {
    a.kind = Access::kReversed;
  } else if (a.stride) {
    a.kind = Access::kStrided;
  }
  if (a.stride && a.kind != Access::kContiguous) a.lane_offsets = lane_offsets(a.stride);
  return a;
}

/// 0, 1, 2, ...
V VectorLoop::iota(llvm::IntegerType* type) {
  llvm::SmallVector<llvm::Constant*, kLanes> lanes;
  for (int i = 0; i < kLanes; ++i) lanes.push_back(llvm::ConstantInt::get(type, i));
  return llvm::ConstantVector::get(lanes);
}

V VectorLoop::lane_offsets(V stride) { return e_.mul(iota(ir_.getInt64Ty()), splat(stride)); }

// -- shapes

bool VectorLoop::wants_main(int instructions) const { return !e_.traits_.cheap_masks || instructions <= kShortBody; }

// One masked body when it costs what an unmasked one does; else, or when it is short, an unmasked loop before it.
//   before -> [main <-> main] -> rest <-> rest -> after
void VectorLoop::emit_main_and_rest(llvm::BasicBlock* before, llvm::BasicBlock* after) {
  const std::vector<V> initial = state();
  const auto count_before = static_cast<int>(e_.fn_->getInstructionCount());
  Body rest = masked_body();
  const int instructions = static_cast<int>(e_.fn_->getInstructionCount()) - count_before;
  rest.stop->addIncoming(end_, rest.leave);
  ir_.SetInsertPoint(rest.leave);
  ir_.CreateCondBr(ir_.CreateICmpSLT(rest.next, end_), rest.enter, after);
  rest.first->addIncoming(rest.next, rest.leave);
  add_incoming(rest.state, rest.state_after, rest.leave);

  if (!wants_main(instructions)) {
    ir_.SetInsertPoint(before);
    ir_.CreateBr(rest.enter);
    rest.first->addIncoming(begin_, before);
    rest.stop->addIncoming(end_, before);
    add_incoming(rest.state, initial, before);
    set_state(rest.state_after);
    return;
  }

  auto* between = e_.block("rest_or_end");
  const auto [main_end, between_state] = whole_blocks(before, between, begin_, initial, instructions, false);
  ir_.CreateCondBr(ir_.CreateICmpSLT(main_end, end_), rest.enter, after);
  rest.first->addIncoming(main_end, between);
  rest.stop->addIncoming(end_, between);
  add_incoming(rest.state, between_state, between);

  ir_.SetInsertPoint(after);
  const std::vector<llvm::PHINode*> final_state = state_phis();
  add_incoming(final_state, between_state, between);
  add_incoming(final_state, rest.state_after, rest.leave);
  set_state({final_state.begin(), final_state.end()});
}

/// The unmasked loop from `first` on, between two blocks: where it ends, and the accumulators then. What comes next is
/// written behind.
std::pair<V, std::vector<V>> VectorLoop::whole_blocks(llvm::BasicBlock* before, llvm::BasicBlock* after, V first,
                                                      const std::vector<V>& initial, int instructions, bool stream) {
  const int blocks = instructions <= kShortBody ? kUnroll : 1;
  ir_.SetInsertPoint(before);
  V whole = ir_.CreateAnd(ir_.CreateSub(end_, first), e_.i64(-kLanes * blocks));
  V end = ir_.CreateAdd(first, whole);
  set_state(initial);
  Body main = main_body(blocks, stream);
  ir_.SetInsertPoint(before);
  ir_.CreateCondBr(ir_.CreateICmpSGT(whole, e_.i64(0)), main.enter, after);
  main.first->addIncoming(first, before);
  add_incoming(main.state, initial, before);
  ir_.SetInsertPoint(main.leave);
  ir_.CreateCondBr(ir_.CreateICmpSLT(main.next, end), main.enter, after);
  main.first->addIncoming(main.next, main.leave);
  add_incoming(main.state, main.state_after, main.leave);
  ir_.SetInsertPoint(after);
  const std::vector<llvm::PHINode*> state = state_phis();
  add_incoming(state, initial, before);
  add_incoming(state, main.state_after, main.leave);
  return {end, {state.begin(), state.end()}};
}

// Streaming stores want whole cache lines: the masked body runs up to the first, the unmasked loop streams, and
// the masked body runs again. Where lines do not begin at one element for all stores, it runs alone.
//   before -> turn <-> masked;  turn -> streams -> [main <-> main] -> turn;  turn -> after
void VectorLoop::emit_streaming(llvm::BasicBlock* before, llvm::BasicBlock* after) {
  e_.streamed_ = true;
  const std::vector<V> initial = state();
  V aligned = nullptr;
  V start = streaming_start(&aligned);
  V first_stop = ir_.CreateSelect(aligned, start, end_);

  auto *turn = e_.block("turn"), *streams = e_.block("streams"), *main_done = e_.block("main_done");
  ir_.CreateBr(turn);
  ir_.SetInsertPoint(turn);
  llvm::PHINode *at = e_.phi(begin_, before), *stop = e_.phi(first_stop, before);
  const std::vector<llvm::PHINode*> turn_phis = state_phis();
  add_incoming(turn_phis, initial, before);
  const std::vector<V> turn_state(turn_phis.begin(), turn_phis.end());
  set_state(turn_state);
  auto* turned = e_.block("masked_done");
  const auto count_before = static_cast<int>(e_.fn_->getInstructionCount());
  Body rest = masked_body();
  const int instructions = static_cast<int>(e_.fn_->getInstructionCount()) - count_before;
  ir_.SetInsertPoint(turn);
  ir_.CreateCondBr(ir_.CreateICmpSLT(at, stop), rest.enter, turned);
  rest.first->addIncoming(at, turn);
  rest.stop->addIncoming(stop, turn);
  add_incoming(rest.state, turn_state, turn);
  ir_.SetInsertPoint(rest.leave);
  ir_.CreateBr(turn);
  at->addIncoming(rest.next, rest.leave);
  stop->addIncoming(rest.stop, rest.leave);
  add_incoming(turn_phis, rest.state_after, rest.leave);

  ir_.SetInsertPoint(turned);
  ir_.CreateCondBr(ir_.CreateICmpEQ(stop, end_), after, streams);
  const auto [main_end, done_state] = whole_blocks(streams, main_done, at, turn_state, instructions, true);
  ir_.CreateBr(turn);
  at->addIncoming(main_end, main_done);
  stop->addIncoming(end_, main_done);
  add_incoming(turn_phis, done_state, main_done);
  set_state(turn_state);
}

/// The first element from which every streaming store is aligned, and whether there is one.
V VectorLoop::streaming_start(V* aligned) {
  V start = nullptr;
  *aligned = ir_.getTrue();
  for (size_t i = 0; i < loop_.body.size(); ++i) {
    const Stmt& s = loop_.body[i];
    if (!s.streaming || prepared_[i].access.kind != Access::kContiguous) continue;
    // Over an operand in place its lines are in the cache, and streaming would throw them out: 19 GB/s, else 28.
    for (size_t r = 0; r < e_.buffers_.size(); ++r) {
      if (e_.k_.buffers[r].write) continue;
      *aligned =
          ir_.CreateAnd(*aligned, ir_.CreateICmpNE(e_.buffers_[r], e_.buffers_[static_cast<size_t>(s.address.buffer)]));
    }
    const auto size = static_cast<int64_t>(itemsize(s.dtype));
    const int64_t line = std::min(kLine, kLanes * size);
    const auto address = [&](V element) {
      return ir_.CreateAnd(
          ir_.CreatePtrToInt(ir_.CreateGEP(e_.element_type(s.address.buffer), prepared_[i].access.base, element),
                             ir_.getInt64Ty()),
          e_.i64(line - 1));
    };
    if (!start) {
      V missing = ir_.CreateAnd(ir_.CreateNeg(address(begin_)), e_.i64(line - 1));
      // Skipping elements would move them to other lanes of an accumulator.
      V skip = accs_.empty() ? ir_.CreateUDiv(missing, e_.i64(size)) : e_.i64(0);
      start = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir_.CreateAdd(begin_, skip), end_);
    }
    *aligned = ir_.CreateAnd(*aligned, ir_.CreateICmpEQ(address(start), e_.i64(0)));
  }
  return start ? start : begin_;
}

/// A block of up to kLanes elements, from `first` to `stop` at most. Its branch is the caller's.
VectorLoop::Body VectorLoop::masked_body() {
  Body body;
  body.enter = e_.block("masked");
  ir_.SetInsertPoint(body.enter);
  body.first = e_.index_phi();
  body.stop = e_.index_phi();
  body.state = state_phis();
  set_state({body.state.begin(), body.state.end()});
  V count = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, ir_.CreateSub(body.stop, body.first), e_.i64(kLanes));
  emit_block({body.first, count, mask_of(count)});
  body.next = ir_.CreateAdd(body.first, count);
  body.state_after = state();
  body.leave = ir_.GetInsertBlock();
  return body;
}

VectorLoop::Body VectorLoop::main_body(int blocks, bool stream) {
  Body body;
  body.enter = e_.block("main");
  ir_.SetInsertPoint(body.enter);
  body.first = e_.index_phi();
  body.stop = nullptr;
  body.state = state_phis();
  set_state({body.state.begin(), body.state.end()});
  for (int i = 0; i < blocks; ++i) emit_block({e_.add(body.first, e_.i64(i * kLanes)), nullptr, nullptr, stream});
  body.next = ir_.CreateAdd(body.first, e_.i64(blocks * kLanes));
  body.state_after = state();
  body.leave = ir_.GetInsertBlock();
  return body;
}

// -- accumulators

std::vector<V> VectorLoop::state() const {
  std::vector<V> values;
  for (const AccId a : accs_) values.insert(values.end(), {e_.accs_[a].next, e_.accs_[a].other});
  return values;
}

void VectorLoop::set_state(const std::vector<V>& values) {
  for (size_t i = 0; i < accs_.size(); ++i) {
    e_.accs_[accs_[i]].next = values[2 * i];
    e_.accs_[accs_[i]].other = values[2 * i + 1];
  }
}

std::vector<llvm::PHINode*> VectorLoop::state_phis() {
  std::vector<llvm::PHINode*> phis;
  for (V v : state()) phis.push_back(ir_.CreatePHI(v->getType(), 2));
  return phis;
}

void VectorLoop::add_incoming(const std::vector<llvm::PHINode*>& phis, const std::vector<V>& values,
                              llvm::BasicBlock* from) {
  for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(values[i], from);
}

/// An odd number of blocks leaves the two halves of each accumulator exchanged.
void VectorLoop::put_in_order() {
  if (accs_.empty()) return;
  V blocks = ir_.CreateLShr(ir_.CreateAdd(ir_.CreateSub(end_, begin_), e_.i64(kLanes - 1)), e_.i64(4));
  static_assert(kLanes == 1 << 4);
  V odd = ir_.CreateTrunc(blocks, ir_.getInt1Ty());
  for (const AccId id : accs_) {
    Accumulator& a = e_.accs_[id];
    V next = ir_.CreateSelect(odd, a.other, a.next);
    a.other = ir_.CreateSelect(odd, a.next, a.other);
    a.next = next;
  }
}

}  // namespace smolder::jit::cpu
