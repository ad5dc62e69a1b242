#include "smolder/jit/cuda/keep_values.h"

#include <algorithm>

#include "smolder/jit/cost.h"
#include "smolder/jit/cuda/shape.h"

namespace smolder::jit::cuda {

namespace {

/// Whether a loop over elements computes of each what another does.
bool is_same(const Kernel& k, const Stmt& loop, LocalId x, const Stmt& other, LocalId y) {
  if (x == y) return true;
  const auto a = std::ranges::find(loop.body, x, &Stmt::result), b = std::ranges::find(other.body, y, &Stmt::result);
  if (a == loop.body.end() || b == other.body.end() || a->kind != b->kind || a->dtype != b->dtype) return false;
  if (a->kind == StmtKind::kLoad) {
    return !k.buffers[a->address.buffer].write && a->address.buffer == b->address.buffer && a->bounds.empty() &&
           b->bounds.empty() && same_column(a->address, loop.vars[0], b->address, other.vars[0]);
  }
  if (a->kind != StmtKind::kPrimitive || a->op != b->op) return false;
  return std::ranges::equal(a->args, b->args, [&](LocalId p, LocalId q) { return is_same(k, loop, p, other, q); });
}

void mark(std::vector<Stmt>& body, const std::vector<Repeat>& repeats) {
  for (Stmt& s : body) {
    mark(s.body, repeats);
    const auto it = std::ranges::find(repeats, s.result, &Repeat::again);
    if (s.result >= 0 && it != repeats.end()) s.again = it->first;
  }
}

}  // namespace

std::vector<Repeat> repeats_of(const Kernel& k, const Accesses& facts) {
  std::vector<Repeat> all;
  const auto is_costly = [](const Stmt& s) {
    return s.kind == StmtKind::kPrimitive && s.dtype == DType::kFloat32 && op_cost(s.op) >= kCostly;
  };
  for (size_t i = 1; i < facts.vectors.size(); ++i) {
    for (const Stmt& again : facts.vectors[i]->body) {
      if (!is_costly(again)) continue;
      for (size_t j = 0; j < i; ++j) {
        const Stmt& loop = *facts.vectors[j];
        const auto first = std::ranges::find_if(
            loop.body, [&](const Stmt& s) { return is_same(k, loop, s.result, *facts.vectors[i], again.result); });
        if (first == loop.body.end()) continue;
        all.push_back({first->result, again.result});
        break;
      }
    }
  }
  return all;
}

void keep_values(Kernel& k) {
  if (k.row.chunks == 0 || k.row.staged == 0 || !shape_of(k).has_row_size()) return;
  mark(k.root.body, repeats_of(k, Accesses(k)));
}

}  // namespace smolder::jit::cuda
