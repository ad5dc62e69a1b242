#include "smolder/jit/loop/fetch_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "smolder/jit/cost.h"
#include "smolder/jit/loop/tiles.h"

namespace smolder::jit {

namespace {

/// The cost of the arithmetic alone: loads and stores would be in the way.
double cost_of(const Stmt& loop) {
  double cost = 0;
  for (const Stmt& s : loop.body) cost += s.kind == StmtKind::kPrimitive ? op_cost(s.op) : 0;
  return cost;
}

bool varies(const Affine& map, VarId v) {
  return std::any_of(map.terms.begin(), map.terms.end(),
                     [&](const Affine::Term& t) { return t.var == v && t.stride != IntRef{}; });
}

/// Reads a row of memory that the loop over `row` walks: element after element, and nothing writes it. Or, where
/// `stores` says so, writes one.
bool walks_row(const Kernel& k, const Stmt& loop, const Stmt& s, VarId row, bool stores) {
  const bool reads = s.kind == StmtKind::kLoad && !k.buffers[s.address.buffer].write;
  const bool writes = stores && s.kind == StmtKind::kStore && !s.streaming;
  if (!reads && !writes) return false;
  if (!s.bounds.empty() || !s.address.indirect.empty() || !varies(s.address.map, row)) return false;
  return std::any_of(s.address.map.terms.begin(), s.address.map.terms.end(),
                     [&](const Affine::Term& t) { return t.var == loop.vars[0] && t.stride == IntRef{1, -1}; });
}

/// The costliest loop but one, or that one where it is alone.
size_t costliest_but(const std::vector<const Stmt*>& loops, size_t one) {
  size_t best = one == 0 && loops.size() > 1 ? 1 : 0;
  for (size_t i = best + 1; i < loops.size(); ++i) {
    if (i != one && cost_of(*loops[i]) > cost_of(*loops[best])) best = i;
  }
  return best;
}

/// While `during`, a vector loop, runs, the row that `access` reads or writes is fetched.
struct RowFetch {
  const Stmt* during;
  const Stmt* access;  ///< a load or a store
  VarId column;        ///< of its own loop
  VarId row = -1;      ///< the next row, by the loop over this variable; -1: this row

  Stmt statement() const {
    Stmt s{};
    s.kind = StmtKind::kFetch;
    s.dtype = access->dtype;
    s.address = access->address;
    for (auto& t : s.address.map.terms) {
      if (t.var == column) t.var = during->vars[0];
    }
    if (row >= 0) s.vars = {row};
    return s;
  }
};

/// `body` holds the loops over one row, which the loop over `row` walks; nothing to do for fewer than `least`.
void find_in(const Kernel& k, const std::vector<Stmt>& body, VarId row, size_t least, bool stores,
             std::vector<RowFetch>& out) {
  std::vector<const Stmt*> loops;
  for (const Stmt& s : body) {
    if (s.kind == StmtKind::kVector) loops.push_back(&s);
  }
  if (loops.size() < least) return;
  std::vector<bool> seen(k.buffers.size(), false);
  for (size_t first = 0; first < loops.size(); ++first) {
    const size_t during = costliest_but(loops, first);
    const Stmt &reads = *loops[first], &fetches = *loops[during];
    if (fetches.extents != reads.extents || fetches.clamp_var != reads.clamp_var) continue;
    for (const Stmt& s : reads.body) {
      if (!walks_row(k, reads, s, row, stores) || seen[s.address.buffer]) continue;
      seen[s.address.buffer] = true;
      out.push_back({&fetches, &s, reads.vars[0], during < first ? -1 : row});
    }
  }
}

using Fetches = std::vector<std::pair<const Stmt*, std::vector<Stmt>>>;

void insert(std::vector<Stmt>& body, Fetches& fetches) {
  for (Stmt& s : body) {
    const auto it = std::ranges::find(fetches, &s, &Fetches::value_type::first);
    if (it != fetches.end()) s.body.insert(s.body.begin(), it->second.begin(), it->second.end());
    if (s.kind == StmtKind::kLoop) insert(s.body, fetches);
  }
}

}  // namespace

void fetch_rows(Kernel& k) {
  if (k.root.kind != StmtKind::kParallel) return;
  std::vector<RowFetch> all;
  find_in(k, k.root.body, k.root.vars.back(), 2, false, all);
  for (const Stmt& s : k.root.body) {
    // A column sum walks a tile: where its part of a row ends, the processor's own prefetching does too.
    if (s.kind == StmtKind::kLoop && !is_tile(s)) find_in(k, s.body, s.vars[0], 1, true, all);
  }
  Fetches fetches;
  for (const RowFetch& f : all) {
    auto it = std::ranges::find(fetches, f.during, &Fetches::value_type::first);
    if (it == fetches.end()) it = fetches.insert(it, {f.during, {}});
    it->second.push_back(f.statement());
  }
  insert(k.root.body, fetches);
}

}  // namespace smolder::jit
