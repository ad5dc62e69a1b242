// Sums of few columns: a loop over rows of nothing but a vector loop that adds to what is in memory. Where one vector
// holds all of its elements, it stays in a register for all rows: what a masked store wrote, a masked load waits for.
#include <algorithm>
#include <optional>
#include <utility>

#include "smolder/jit/llvm/vector_loop.h"

namespace smolder::jit::cpu {

namespace {

/// The statements of such a loop.
struct Columns {
  const Stmt *vector, *load, *store;
};

bool varies_with(const Affine& map, VarId v) {
  return std::ranges::any_of(map.terms, [&](const auto& t) { return t.var == v && t.stride != IntRef{}; });
}

/// Nothing where what is written is elsewhere in each row, or anything else happens than loads and arithmetic.
std::optional<Columns> columns_of(const Stmt& loop) {
  if (loop.body.size() != 1 || loop.body[0].kind != StmtKind::kVector) return std::nullopt;
  const Stmt& v = loop.body[0];
  Columns found{&v, nullptr, nullptr};
  for (const Stmt& s : v.body) {
    const bool plain = s.kind == StmtKind::kLoad || s.kind == StmtKind::kPrimitive || s.kind == StmtKind::kConstant ||
                       s.kind == StmtKind::kScalar || s.kind == StmtKind::kFetch;
    if (!plain && (s.kind != StmtKind::kStore || std::exchange(found.store, &s))) return std::nullopt;
  }
  if (!found.store || v.clamp_var == loop.vars[0]) return std::nullopt;
  const Address& to = found.store->address;
  for (const Stmt& s : v.body) {
    if (s.kind != StmtKind::kLoad || s.address.buffer != to.buffer) continue;
    if (!(s.address == to) || !s.bounds.empty() || std::exchange(found.load, &s)) return std::nullopt;
  }
  const bool contiguous =
      std::ranges::any_of(to.map.terms, [&](const auto& t) { return t.var == v.vars[0] && t.stride == IntRef{1}; });
  if (!found.load || !to.indirect.empty() || !contiguous || varies_with(to.map, loop.vars[0])) return std::nullopt;
  return found;
}

}  // namespace

V VectorLoop::mask_of(V count) {
  return ir_.CreateICmpULT(iota(ir_.getInt32Ty()), splat(ir_.CreateTrunc(count, ir_.getInt32Ty())));
}

V VectorLoop::emit_held_block(V count, V mask, Given given, const Stmt& store) {
  given_ = std::move(given);
  held_store_ = &store;
  prepare();
  emit_block({e_.i64(0), count, mask});
  return held_;
}

bool KernelEmitter::holds_columns(const Stmt& s) {
  const std::optional<Columns> found = columns_of(s);
  return found && (itemsize(found->store->dtype) <= 2 ? traits_.masked_narrow : traits_.masked_wide);
}

void KernelEmitter::few_or_many_columns(const Stmt& s) {
  const Columns c = *columns_of(s);
  auto *few = block("few_columns"), *many = block("many_columns"), *end = block("columns_end");
  V count = extent(*c.vector), fits = ir_.CreateICmpSLE(count, i64(kLanes));
  ir_.CreateCondBr(ir_.CreateAnd(ir_.CreateICmpSGT(count, i64(0)), fits), few, many);
  ir_.SetInsertPoint(many);
  turns(s);
  ir_.CreateBr(end);

  ir_.SetInsertPoint(few);
  const VarId var = c.vector->vars[0];
  const llvm::Align align(itemsize(c.store->dtype));
  V mask = VectorLoop(*this, *c.vector, i64(0), count).mask_of(count);
  V at = pointer(c.store->address.buffer, affine(c.store->address.map, var));
  auto* const type = llvm::FixedVectorType::get(element_type(c.store->address.buffer), kLanes);
  V before = ir_.CreateMaskedLoad(type, at, align, mask, llvm::Constant::getNullValue(type)), n = extent(s);
  auto *head = block("row"), *done = block("rows_done");
  llvm::BasicBlock* const from = ir_.GetInsertBlock();
  ir_.CreateCondBr(ir_.CreateICmpSGT(n, i64(0)), head, done);
  ir_.SetInsertPoint(head);
  llvm::PHINode *const row = phi(i64(0), from), *const held = phi(before, from);
  vars_[s.vars[0]] = row;
  VectorLoop columns(*this, *c.vector, i64(0), count);
  V after = columns.emit_held_block(count, mask, {{c.load, held}}, *c.store), next = ir_.CreateAdd(row, i64(1));
  llvm::BasicBlock* const latch = ir_.GetInsertBlock();
  row->addIncoming(next, latch);
  held->addIncoming(after, latch);
  ir_.CreateCondBr(ir_.CreateICmpSLT(next, n), head, done);
  ir_.SetInsertPoint(done);
  llvm::PHINode* const sums = phi(before, from);
  sums->addIncoming(after, latch);
  ir_.CreateMaskedStore(sums, at, align, mask);
  ir_.CreateBr(end);
  ir_.SetInsertPoint(end);
}

}  // namespace smolder::jit::cpu
