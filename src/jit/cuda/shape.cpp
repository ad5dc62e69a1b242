#include "smolder/jit/cuda/shape.h"

#include <algorithm>

namespace smolder::jit::cuda {

namespace {

struct Access {
  const Stmt* statement;
  const Stmt* vector;  ///< the loop it is in
  const Stmt* outer;   ///< and the one around that
  VarId var() const { return vector ? vector->vars[0] : -1; }
};

bool is_root_var(const Kernel& k, VarId v) { return std::ranges::find(k.root.vars, v) != k.root.vars.end(); }

bool same_extent(const Stmt& a, const Stmt& b) {
  return a.extents[0] == b.extents[0] && a.clamp_var == b.clamp_var && a.clamp_total == b.clamp_total;
}

/// Everything that shape_of asks about.
struct Facts {
  std::vector<const Stmt*> vectors;
  bool has_accumulators = false, stores_outside = false, clamped_inside = false;
  std::vector<std::vector<Access>> accesses;  ///< by buffer

  explicit Facts(const Kernel& k) : accesses(k.buffers.size()) {
    std::vector<std::pair<const Stmt*, const Stmt*>> outer;  // of vector loops
    for_each_statement(k.root, [&](const Stmt& s, const Stmt* vector) {
      for (const Stmt& inner : s.body) {
        if (inner.kind == StmtKind::kVector) outer.push_back({&inner, &s});
      }
      if (s.kind == StmtKind::kVector || s.kind == StmtKind::kParallelVector) vectors.push_back(&s);
      if (s.kind == StmtKind::kAcc) has_accumulators = true;
      if (s.clamp_var >= 0 && !is_root_var(k, s.clamp_var)) clamped_inside = true;
      if (s.kind != StmtKind::kLoad && s.kind != StmtKind::kStore) return;
      if (s.kind == StmtKind::kStore && !vector) stores_outside = true;
      const auto it = std::ranges::find(outer, vector, &std::pair<const Stmt*, const Stmt*>::first);
      accesses[s.address.buffer].push_back({&s, vector, it == outer.end() ? nullptr : it->second});
    });
  }

  /// Whether each thread finds what it wrote itself, provided that it has the same elements in each loop.
  bool stays_in_column(size_t buffer) const {
    const auto& all = accesses[buffer];
    if (all.size() < 2) return true;
    return std::ranges::all_of(all, [&](const Access& a) {
      const Access& first = all.front();
      return a.vector && first.vector && same_extent(*a.vector, *first.vector) &&
             stride_of(a.statement->address.map, a.var()) != IntRef{} &&
             same_column(a.statement->address, a.var(), first.statement->address, first.var());
    });
  }

  /// Read and written at the loop's element alone: whatever the position, the same places.
  bool is_scratch(size_t buffer) const {
    return std::ranges::all_of(accesses[buffer], [](const Access& a) {
      const Address& at = a.statement->address;
      return a.vector && at.indirect.empty() && at.map.offset == IntRef{} && at.map.terms.size() == 1 &&
             at.map.terms[0] == Affine::Term{a.var(), IntRef{1}};
    });
  }

  /// Whether several vector loops in one body use the same elements, one after the other.
  bool is_used_again(size_t buffer) const {
    const auto& all = accesses[buffer];
    if (all.size() < 2 || all.front().vector == all.back().vector || !stays_in_column(buffer)) return false;
    return std::ranges::all_of(all, [&](const Access& a) {
      return a.outer == all.front().outer && a.statement->bounds.empty() &&
             stride_of(a.statement->address.map, a.var()) == IntRef{1};
    });
  }
  static bool is_store(const Access& a) { return a.statement->kind == StmtKind::kStore; }
};

/// Elements a thread takes, so that the narrowest of them fill 16 bytes where that is not too many.
int vector_of(const Kernel& k, const Facts& facts) {
  constexpr int kBytes = 16, kMost = 8;
  int narrowest = kBytes;
  for (const auto& list : facts.accesses) {
    for (const Access& a : list) {
      if (!a.vector || stride_of(a.statement->address.map, a.var()) != IntRef{1}) continue;
      const auto size = static_cast<int>(itemsize(k.buffers[a.statement->address.buffer].dtype));
      narrowest = std::min(narrowest, std::max(size, 2));
    }
  }
  return narrowest == kBytes ? 1 : std::min(kMost, kBytes / narrowest);
}

}  // namespace

IntRef stride_of(const Affine& map, VarId v) {
  for (const auto& t : map.terms) {
    if (t.var == v) return t.stride;
  }
  return {};
}

bool same_column(const Address& a, VarId va, const Address& b, VarId vb) {
  if (!a.indirect.empty() || !b.indirect.empty() || a.map.offset != b.map.offset) return false;
  if (a.map.terms.size() != b.map.terms.size()) return false;
  if (stride_of(a.map, va) != stride_of(b.map, vb)) return false;
  // Other variables may differ in name only where each has one loop; asking for the same ones is enough for us.
  return std::ranges::all_of(a.map.terms,
                             [&](const auto& t) { return t.var == va || t.stride == stride_of(b.map, t.var); });
}

KernelShape shape_of(const Kernel& k) {
  const Facts facts(k);
  KernelShape shape;
  const auto written_across = [&] {
    for (size_t b = 0; b < k.buffers.size(); ++b) {
      if (k.buffers[b].write && !facts.stays_in_column(b)) return true;
    }
    return false;
  };
  const bool one_extent = !facts.vectors.empty() && std::ranges::all_of(facts.vectors, [&](const Stmt* s) {
    return same_extent(*s, *facts.vectors[0]);
  });
  if (k.root.kind == StmtKind::kParallelVector ||
      (one_extent && !facts.has_accumulators && !facts.stores_outside && !facts.clamped_inside && !written_across())) {
    shape.mode = KernelShape::kColumns;
    shape.vector = vector_of(k, facts);
    shape.extent = facts.vectors[0]->extents[0];
    return shape;
  }
  shape.mode = KernelShape::kRows;
  for (const Stmt* s : facts.vectors) shape.extents.push_back(s->extents[0]);
  const bool one_position = std::ranges::all_of(k.root.extents, [](IntRef e) { return e == IntRef{1}; });
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    const BufferArg& arg = k.buffers[b];
    if (!one_position && arg.read && arg.write && facts.is_scratch(b)) {
      const Stmt& loop = *facts.accesses[b][0].vector;
      shape.scratch.push_back({static_cast<int>(b), loop.extents[0], static_cast<int64_t>(itemsize(arg.dtype))});
    }
  }
  for (const bool written : {true, false}) {
    for (size_t b = 0; b < k.buffers.size(); ++b) {
      if (!facts.is_used_again(b)) continue;
      const auto& all = facts.accesses[b];
      const bool is_scratch = std::ranges::find(shape.scratch, static_cast<int>(b), &KernelShape::ScratchRow::buffer) !=
                              shape.scratch.end();
      if (is_scratch || std::ranges::any_of(all, Facts::is_store) != written) continue;
      // What is written must be so before it is read, and at the end.
      if (written && (!Facts::is_store(all.front()) || !Facts::is_store(all.back()))) continue;
      shape.kept.push_back({static_cast<int>(b), all[0].vector->extents[0],
                            static_cast<int64_t>(itemsize(k.buffers[b].dtype)), all[0].vector,
                            written ? all.back().statement : nullptr});
    }
  }
  shape.synchronizes = !one_extent || written_across();
  return shape;
}

}  // namespace smolder::jit::cuda
