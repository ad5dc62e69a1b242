// The statements of a kernel, and how what they read moves along a loop.
#pragma once

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

inline constexpr int kUnit = 4;  ///< neighbours that threads take at least, where rows allow that

/// Calls `visit` for each statement, in order, loops before their bodies, with the loop over elements it is in (or
/// null).
void for_each_statement(const Stmt& s, const auto& visit, const Stmt* vector = nullptr) {
  visit(s, vector);
  for (const Stmt& inner : s.body) for_each_statement(inner, visit, is_vector(s) ? &s : vector);
}

/// The loop over tiles of a scheduled kernel, if groups take these.
inline const Stmt* tile_loop(const Kernel& k) {
  return !k.root.body.empty() && k.root.body[0].kind == StmtKind::kBlock ? k.root.body.data() : nullptr;
}
/// The loop whose chunks threads take through all that a position does; null where they share out each of its loops.
inline const Stmt* chunk_loop(const Kernel& k) {
  const std::vector<Stmt>& all = tile_loop(k) ? tile_loop(k)->body : k.root.body;
  return !all.empty() && all.back().chunk > 0 ? &all.back() : nullptr;
}
inline Stmt* chunk_loop(Kernel& k) {
  std::vector<Stmt>& all = tile_loop(k) ? k.root.body[0].body : k.root.body;
  return !all.empty() && all.back().chunk > 0 ? &all.back() : nullptr;
}
/// The statements of a position.
inline const std::vector<Stmt>& body_of(const Kernel& k) { return chunk_loop(k) ? chunk_loop(k)->body : k.root.body; }

/// The statement of a scheduled kernel that makes a buffer a row of each group; null where it is the device's memory.
inline const Stmt* shared_row(const Kernel& k, int buffer) {
  for (const Stmt& s : k.root.body) {
    if (s.kind == StmtKind::kShared && s.address.buffer == buffer) return &s;
  }
  return nullptr;
}
inline bool has_shared_rows(const Kernel& k) {
  return !k.root.body.empty() && k.root.body[0].kind == StmtKind::kShared;
}
/// Whether a statement touches an element of a buffer.
inline bool is_access(const Stmt& s) {
  return s.kind == StmtKind::kLoad || s.kind == StmtKind::kStore || s.kind == StmtKind::kCombine;
}

/// The statement that gives threads registers for their elements of a buffer; null where none does.
inline const Stmt* registers_for(const Kernel& k, int buffer) {
  for (const Stmt& s : k.root.body) {
    if (s.kind == StmtKind::kRegister && s.address.buffer == buffer) return &s;
  }
  return nullptr;
}
/// A statement that says where an element is kept, in a loop of variable `to`, of an address in one of `from`.
Stmt placement_of(const Kernel& k, StmtKind kind, Address address, VarId from, VarId to);

/// The stride of `v` in the map where it is one term's; a stride of 0 when it has none.
IntRef stride_of(const Affine& map, VarId v);
inline bool is_fixed(const Affine& map, VarId v) { return stride_of(map, v) == IntRef{}; }

}  // namespace smolder::jit::cuda
