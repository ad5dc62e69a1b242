#include "smolder/jit/loop/tiles.h"

#include <algorithm>

namespace smolder::jit {

bool is_tile(const Stmt& s) {
  if (s.kind != StmtKind::kLoop || s.clamp_var < 0 || !s.extents[0].is_constant() || s.body.empty()) return false;
  const Stmt& row = s.body.back();
  if (row.kind != StmtKind::kVector || row.clamp_var < 0 || row.extents != s.extents) return false;
  return std::none_of(s.body.begin(), s.body.end() - 1, [](const Stmt& x) { return is_loop(x.kind); });
}

bool is_turned(const Kernel& k, const Stmt& tile, const Stmt& load) {
  if (load.kind != StmtKind::kLoad || !load.bounds.empty() || !load.address.indirect.empty()) return false;
  if (k.buffers[load.address.buffer].write) return false;
  const auto stride = [&](VarId v) {
    const auto& terms = load.address.map.terms;
    const auto at = std::ranges::find(terms, v, &Affine::Term::var);
    return at == terms.end() ? IntRef{} : at->stride;
  };
  return stride(tile.vars[0]) == IntRef{1} && !stride(tile.body.back().vars[0]).is_constant();
}

}  // namespace smolder::jit
