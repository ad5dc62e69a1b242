// The last step of lowering: merges loops that walk memory as one, numbers everything in order of first
// use, and notes what a launch needs. Equal kernels come out with equal text whatever graph they are from.
#include <algorithm>

#include "smolder/jit/attributes.h"
#include "smolder/jit/cost.h"
#include "smolder/jit/loop/tiles.h"
#include "smolder/jit/lower/lowering.h"
#include "smolder/jit/switches.h"

namespace smolder::jit {

using ir::Dim;

namespace {

void visit(std::vector<Stmt>& body, auto&& f) {
  for (Stmt& s : body) {
    f(s);
    visit(s.body, f);
  }
}

void for_each_affine(Stmt& s, auto&& f) {
  if (s.kind == StmtKind::kLoad || s.kind == StmtKind::kStore) f(s.address.map);
  if (s.kind == StmtKind::kIndex) f(s.map);
  for (Bound& b : s.bounds) f(b.map);
}

/// Merges adjacent loops of a flat kernel.
class LoopMerger {
 public:
  LoopMerger(ir::SymTable& sym, std::vector<Dim>& pool, Stmt& root) : sym_(sym), pool_(pool), root_(root) {
    visit(root.body, [&](Stmt& s) {
      for_each_affine(s, [&](Affine& a) { maps_.push_back(&a); });
      for (size_t i = 0; i < s.vars.size(); ++i) clamped_.push_back(s.clamp_var);
    });
  }

  /// Merges parallel loops with each other, innermost first.
  void merge_parallel() {
    for (size_t i = root_.vars.size(); i-- > 1;) {
      const VarId outer = root_.vars[i - 1], inner = root_.vars[i];
      if (is_clamp(outer) || is_clamp(inner) || !walks_as_one(outer, inner, dim(root_.extents[i]))) continue;
      drop(outer);
      root_.extents[i] = ref(sym_.mul(dim(root_.extents[i - 1]), dim(root_.extents[i])));
      root_.vars.erase(root_.vars.begin() + i - 1);
      root_.extents.erase(root_.extents.begin() + i - 1);
    }
  }

  /// Merges the innermost parallel loop into the only vector loop.
  void merge_vector(Stmt& vector) {
    while (!root_.vars.empty()) {
      const VarId outer = root_.vars.back(), inner = vector.vars[0];
      if (is_clamp(outer) || !walks_as_one(outer, inner, dim(vector.extents[0]))) return;
      drop(outer);
      vector.extents[0] = ref(sym_.mul(dim(root_.extents.back()), dim(vector.extents[0])));
      root_.vars.pop_back();
      root_.extents.pop_back();
    }
  }

 private:
  Dim dim(IntRef r) const { return r.is_constant() ? Dim(r.constant) : pool_[r.slot]; }
  IntRef ref(Dim d) {
    pool_.push_back(d);
    return {0, static_cast<int32_t>(pool_.size() - 1)};
  }
  bool is_clamp(VarId v) const { return std::find(clamped_.begin(), clamped_.end(), v) != clamped_.end(); }
  Dim stride(const Affine& a, VarId v) const {
    for (const auto& t : a.terms) {
      if (t.var == v) return dim(t.stride);
    }
    return 0;
  }
  bool walks_as_one(VarId outer, VarId inner, Dim inner_extent) const {
    return std::all_of(maps_.begin(), maps_.end(),
                       [&](const Affine* a) { return stride(*a, outer) == sym_.mul(stride(*a, inner), inner_extent); });
  }
  void drop(VarId v) {
    for (Affine* a : maps_) std::erase_if(a->terms, [&](const auto& t) { return t.var == v; });
  }

  ir::SymTable& sym_;
  std::vector<Dim>& pool_;
  Stmt& root_;
  std::vector<Affine*> maps_;
  std::vector<VarId> clamped_;
};

/// Makes pool slots into the kernel's integers: 0 and 1 are structure, equal numbers are one. So are strides that
/// vectors are read by, where `has_steps`. Gives each loop a variable of its own.
class Settle {
 public:
  Settle(const std::vector<Dim>& pool, int num_vars, bool has_steps)
      : num_vars(num_vars), pool_(pool), slot_(pool.size(), kUnseen), has_steps_(has_steps) {}

  void statement(Stmt& s) {
    if (s.clamp_var >= 0) {
      s.clamp_var = name(s.clamp_var);
      integer(s.clamp_total);
    }
    for (IntRef& e : s.extents) integer(e);
    for (VarId& v : s.vars) {
      if (v >= static_cast<VarId>(names_.size())) names_.resize(v + 1, kUnseen);
      v = names_[v] = names_[v] == kUnseen ? v : num_vars++;
    }
    if (s.kind == StmtKind::kLoad || s.kind == StmtKind::kStore) {
      map(s.address.map);
      for (auto& i : s.address.indirect) integer(i.stride);
    }
    for (Bound& b : s.bounds) {
      map(b.map);
      integer(b.lo);
      integer(b.hi);
    }
    if (s.kind == StmtKind::kIndex) map(s.map);
    if (s.kind == StmtKind::kCheckIndex) integer(s.limit);
    for (Stmt& inner : s.body) statement(inner);
  }

  std::vector<Dim> ints;
  int num_vars;

 private:
  static constexpr int32_t kUnseen = -1;

  /// Strides that the CPU's vector loops have loads for.
  static bool is_step(Dim d) { return d.is_constant() && (d.value == -1 || (d.value >= 2 && d.value <= 4)); }
  VarId name(VarId v) const { return names_[v] == kUnseen ? v : names_[v]; }
  void integer(IntRef& r) {
    if (r.is_constant()) return;
    const Dim d = pool_[r.slot];
    if (d == Dim(0) || d == Dim(1)) {
      r = {d.value, -1};
      return;
    }
    int32_t& slot = slot_[r.slot];
    if (slot == kUnseen) {
      // The pool may hold a number twice: once before loops were merged, once after.
      const auto it = std::find(ints.begin(), ints.end(), d);
      slot = static_cast<int32_t>(it - ints.begin());
      if (it == ints.end()) ints.push_back(d);
    }
    r.slot = slot;
  }
  void map(Affine& a) {
    integer(a.offset);
    for (auto& t : a.terms) {
      t.var = name(t.var);
      if (has_steps_ && !t.stride.is_constant() && is_step(pool_[t.stride.slot])) {
        t.stride = {pool_[t.stride.slot].value, -1};
      }
      integer(t.stride);
    }
  }

  const std::vector<Dim>& pool_;
  std::vector<int32_t> slot_;
  std::vector<VarId> names_;
  const bool has_steps_;
};

}  // namespace

/// A phase that a row is kept for may have its values at hand, and then never reads it.
void Lowering::drop_unread_rows(Stmt& root) {
  const auto is_unread = [&](int argument) { return buffers_[argument] < 0 && !buffer_args_[argument].read; };
  std::erase_if(scratch_rows_, [&](const KernelCall::Scratch& row) { return is_unread(row.argument); });
  const auto drop = [&](Stmt& s) {
    std::erase_if(s.body, [&](const Stmt& x) { return x.kind == StmtKind::kStore && is_unread(x.address.buffer); });
  };
  drop(root);
  visit(root.body, drop);
}

/// Elements that lie two or four apart, on a device also three, are structure, so that a generator may take a chunk of
/// them with its neighbours.
void Lowering::know_strides(Stmt& root) {
  const bool on_device = program_.options.device != DeviceType::kCPU;
  Stmt& loop = root.kind == StmtKind::kParallelVector ? root : root.body.back();
  for (Stmt& s : loop.body) {
    if ((s.kind != StmtKind::kLoad && s.kind != StmtKind::kStore) || !s.bounds.empty()) continue;
    for (auto& t : s.address.map.terms) {
      if (t.var != loop.vars[0] || t.stride.is_constant()) continue;
      const Dim stride = pool_[t.stride.slot], offset = pool_[s.address.map.offset.slot];
      const bool takes = stride.value == 2 || stride.value == 4 || (stride.value == 3 && on_device);
      if (!takes) continue;
      if (!sym().equal(stride, stride.value)) continue;
      t.stride = {stride.value, -1};
      if (offset.is_constant() && offset.value < stride.value) s.address.map.offset = {offset.value, -1};
    }
  }
}

/// Reads a tile at a time what the vector loop reads with a distance, and another loop element after element.
void Lowering::cut_tiles(Stmt& root) {
  constexpr int64_t kFew = 16;  // elements, of which a tile would not be worth its loops
  if (root.kind != StmtKind::kParallel) return;
  Stmt& vector = root.body.back();
  const VarId column = vector.vars[0];
  const auto dim = [&](IntRef r) { return r.is_constant() ? Dim(r.constant) : pool_[r.slot]; };
  const Dim columns = dim(vector.extents[0]);
  size_t turned = root.vars.size();
  int64_t tile = 0;
  for (const Stmt& s : vector.body) {
    if (s.kind != StmtKind::kLoad || !s.bounds.empty() || !s.address.indirect.empty() || columns.value < kFew) continue;
    const auto stride = [&](VarId v) {
      const auto at = std::ranges::find(s.address.map.terms, v, &Affine::Term::var);
      return at == s.address.map.terms.end() ? Dim(0) : dim(at->stride);
    };
    if (stride(column).value < kFew) continue;
    for (size_t i = 0; i < root.vars.size() && turned == root.vars.size(); ++i) {
      if (stride(root.vars[i]) == Dim(1) && dim(root.extents[i]).value >= kFew) turned = i;
    }
    if (turned < root.vars.size() && tile == 0) tile = tile_size(itemsize(s.dtype));
  }
  if (tile == 0) return;

  const VarId row = root.vars[turned], row_tile = new_var(kTop), column_tile = new_var(kTop);
  visit(root.body, [&](Stmt& s) {
    s.streaming = false;
    for_each_affine(s, [&](Affine& a) {
      for (size_t i = 0, n = a.terms.size(); i < n; ++i) {
        const auto [v, stride] = a.terms[i];
        if (v != row && v != column) continue;
        a.terms.push_back({v == row ? row_tile : column_tile, int_ref(sym().mul(dim(stride), tile))});
      }
    });
  });
  const auto clamp = [&](Stmt& loop, VarId v, Dim extent) {
    loop.extents = {{tile, -1}};
    loop.clamp_var = v;
    loop.clamp_total = int_ref(extent);
    return int_ref(sym().ceil_div(extent, tile));
  };
  Stmt rows = make_statement(StmtKind::kLoop);
  rows.vars = {row};
  const IntRef column_tiles = clamp(vector, column_tile, columns);
  root.extents[turned] = clamp(rows, row_tile, dim(root.extents[turned]));
  root.vars[turned] = row_tile;
  root.vars.push_back(column_tile);
  root.extents.push_back(column_tiles);
  rows.body = std::move(root.body);
  root.body.clear();
  root.body.push_back(std::move(rows));
}

void Lowering::finish(KernelCall& call) {
  Kernel& k = call.kernel;
  Stmt& root = k.root;
  drop_unread_rows(root);
  LoopMerger merger(sym(), pool_, root);
  merger.merge_parallel();
  const auto is_vector = [](const Stmt& s) { return s.kind == StmtKind::kVector; };
  const bool flat = num_accs_ == 0 && !sequential_ &&
                    std::count_if(root.body.begin(), root.body.end(), is_vector) == 1 && is_vector(root.body.back());
  if (flat) {
    merger.merge_vector(root.body.back());
    if (root.vars.empty()) {
      // One loop is left: what was outside of it is the same for all its elements.
      Stmt vector = std::move(root.body.back());
      root.body.pop_back();
      for (Stmt& s : vector.body) root.body.push_back(std::move(s));
      root.kind = StmtKind::kParallelVector;
      root.vars = vector.vars;
      root.extents = vector.extents;
    }
  }
  if (flat) know_strides(root);
  if (flat && program_.options.device == DeviceType::kCPU && !is_disabled("tiles")) cut_tiles(root);
  if (root.vars.empty()) {
    root.vars = {new_var(kTop)};
    root.extents = {int_ref(1)};
  }
  call.positions = 1;
  for (const IntRef& e : root.extents) call.positions = sym().mul(call.positions, pool_[e.slot]);
  call.elements = 1;
  for (const auto* axes : {&domain_.rows, &domain_.columns}) {
    for (const Dim& d : *axes) call.elements = sym().mul(call.elements, d);
  }
  call.element_cost = cost_;

  Settle settle(pool_, static_cast<int>(var_level_.size()), program_.options.device == DeviceType::kCPU);
  settle.statement(root);
  k.buffers = buffer_args_;
  for (const ScalarSource& x : scalars_) k.scalars.push_back(x.category);
  k.num_vars = settle.num_vars;
  k.num_locals = static_cast<int>(locals_.size());
  k.num_accs = num_accs_;
  k.num_ints = static_cast<int>(settle.ints.size());
  k.num_errors = static_cast<int>(errors_.size());
  const Renumbering r = canonicalize(k);
  std::vector<int> argument(buffers_.size(), -1);
  for (const int32_t old : r.buffers) {
    argument[old] = static_cast<int>(call.buffers.size());
    call.buffers.push_back(buffers_[old]);
  }
  for (const int32_t old : r.ints) call.ints.push_back(settle.ints[old]);
  for (const int32_t old : r.scalars) call.scalars.push_back(scalars_[old]);
  for (const int32_t old : r.errors) call.errors.push_back(errors_[old]);
  for (const KernelCall::Scratch& x : scratch_rows_) {
    call.scratch.push_back({argument[x.argument], x.elements, x.itemsize});
  }
  find_in_place(call);
}

// A written buffer may be the memory of a read one when each element is read where, and before, it is first
// written. Accesses are in the order of their statements.
void Lowering::find_in_place(KernelCall& call) const {
  for (size_t w = 0; w < buffers_.size(); ++w) {
    if (!buffer_args_[w].write || buffers_[w] < 0) continue;
    const Access* write = nullptr;
    bool simple = true;
    for (const Access& a : accesses_) {
      if (a.buffer != static_cast<int>(w)) continue;
      if (a.write && !write) write = &a;
      simple = simple && a.simple;
    }
    if (!write || !simple) continue;
    for (size_t r = 0; r < buffers_.size(); ++r) {
      if (r == w || buffer_args_[r].write || buffers_[r] < 0) continue;
      if (itemsize(buffer_args_[r].dtype) != itemsize(buffer_args_[w].dtype)) continue;
      const bool fits = std::all_of(accesses_.begin(), accesses_.end(), [&](const Access& a) {
        const bool of_read = a.buffer == static_cast<int>(r), of_written = a.buffer == static_cast<int>(w);
        return (!of_read && !of_written) ||
               (a.simple && a.address.map == write->address.map && (of_written || &a < write));
      });
      if (fits) call.in_place.push_back({buffers_[r], buffers_[w]});
    }
  }
}

}  // namespace smolder::jit
