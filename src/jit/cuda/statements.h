// The statements of a kernel, and how what they read moves along a loop.
#pragma once

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// Calls `visit` for each statement, in order, loops before their bodies, with the vector loop it is in (or null).
template <class Visit>
void for_each_statement(const Stmt& s, const Visit& visit, const Stmt* vector = nullptr) {
  visit(s, vector);
  const bool is_vector = s.kind == StmtKind::kVector || s.kind == StmtKind::kParallelVector;
  for (const Stmt& inner : s.body) for_each_statement(inner, visit, is_vector ? &s : vector);
}

/// The stride of `v` in the map where it is one term's; a stride of 0 when it has none.
IntRef stride_of(const Affine& map, VarId v);

}  // namespace smolder::jit::cuda
