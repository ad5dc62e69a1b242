#include "smolder/jit/fuse/fuse_domain.h"

#include <algorithm>

#include "smolder/jit/attributes.h"

namespace smolder::jit {

using ir::Dim;
using ir::Op;
using ir::SymTable;

namespace {

Dim product(SymTable& sym, const Dim* begin, const Dim* end) {
  Dim n = 1;
  for (; begin != end; ++begin) n = sym.mul(n, *begin);
  return n;
}

bool same(SymTable& sym, Dim a, Dim b, bool guards) { return sym.known_equal(a, b) || (guards && sym.equal(a, b)); }

/// A place between extents: how many elements one step over it is not yet... the product of what lies before.
struct Boundary {
  Dim before;
  bool in_a = false, in_b = false;
  bool must = false;  ///< an end of rows, columns or a reduced extent
};

std::vector<Boundary> boundaries_of(SymTable& sym, const Space& s) {
  std::vector<Boundary> out;
  Dim before = 1;
  const int n = static_cast<int>(s.extents.size());
  for (int i = 0; i < n; ++i) {
    const bool reduced_edge = s.reduces_rows && i == s.split - 1;
    out.push_back({before, false, false, i == s.split || reduced_edge});
    before = sym.mul(before, s.extents[i]);
  }
  out.push_back({before, false, false, s.split == n});
  return out;
}

}  // namespace

Dim Space::rows(SymTable& sym) const {
  return split < 0 ? Dim(1) : product(sym, extents.data(), extents.data() + split);
}
Dim Space::columns(SymTable& sym) const {
  return split < 0 ? Dim(1) : product(sym, extents.data() + split, extents.data() + extents.size());
}
Dim Space::elements(SymTable& sym) const { return product(sym, extents.data(), extents.data() + extents.size()); }

namespace {

/// Walks both boundary lists from the left. Where only one has a boundary it is kept if the other's extents
/// can be cut there, unless it must not be: inside of what is reduced.
class Unifier {
 public:
  Unifier(SymTable& sym, const Space& a, const Space& b, bool guards) : sym_(sym), a_(a), b_(b), guards_(guards) {}

  std::optional<Unified> run() {
    if (!merge() || !choose()) return std::nullopt;
    return build();
  }

 private:
  bool merge() {
    auto a = boundaries_of(sym_, a_), b = boundaries_of(sym_, b_);
    if (!same(sym_, a.back().before, b.back().before, guards_)) return false;
    size_t i = 0, j = 0;
    while (i < a.size() || j < b.size()) {
      const bool take_a = j == b.size() || (i < a.size() && a[i].before.value <= b[j].before.value);
      const bool take_b = i == a.size() || (j < b.size() && b[j].before.value <= a[i].before.value);
      Boundary x = take_a ? a[i] : b[j];
      if (take_a && take_b) {
        if (!guards_ && !sym_.known_equal(a[i].before, b[j].before)) {
          // Two boundaries that are equal at these sizes alone. No boundary that must be kept may be one of them.
          if (a[i].must || b[j].must) return false;
        } else if (!same(sym_, a[i].before, b[j].before, guards_)) {
          return false;
        }
        x.must = a[i].must || b[j].must;
      }
      x.in_a = take_a;
      x.in_b = take_b;
      i += take_a;
      j += take_b;
      all_.push_back(x);
    }
    return true;
  }

  bool choose() {
    const auto find_split = [&](const Space& s, bool from_a) {
      if (s.split < 0) return -1;
      int seen = 0;
      for (size_t k = 0; k < all_.size(); ++k) {
        if ((from_a ? all_[k].in_a : all_[k].in_b) && seen++ == s.split) return static_cast<int>(k);
      }
      return -1;
    };
    const int sa = find_split(a_, true), sb = find_split(b_, false);
    if (sa >= 0 && sb >= 0 && sa != sb) return false;
    split_ = std::max(sa, sb);
    reduces_columns_ = a_.reduces_columns || b_.reduces_columns;
    reduces_rows_ = a_.reduces_rows || b_.reduces_rows;
    if (a_.reduces_columns && b_.reduces_columns && a_.column_chunk != b_.column_chunk) return false;
    if (a_.reduces_rows && b_.reduces_rows && a_.row_chunk != b_.row_chunk) return false;
    int reduced = -1;  // where the reduced rows begin
    for (int k = 0; k < split_; ++k) {
      if (!all_[k].must) continue;
      if (reduced >= 0) return false;
      reduced = k;
    }
    const int last = static_cast<int>(all_.size()) - 1;
    for (int k = 0; k <= last; ++k) {
      const bool edge = k == 0 || k == last || all_[k].must || k == split_;
      if (!edge && reduces_rows_ && k > reduced && k < split_) continue;
      if (!edge && reduces_columns_ && k > split_) {
        joined_columns_ = true;
        continue;
      }
      // The elements before a place must be a multiple of those before the place kept last. Otherwise one of the two is
      // given up; where neither may be, the spaces do not fit.
      const auto divides = [](Dim x, Dim y) { return x.value != 0 && y.value % x.value == 0; };
      if (!kept_.empty() && !divides(all_[kept_.back()].before, all_[k].before)) {
        const bool previous_edge = kept_.back() == 0 || all_[kept_.back()].must || kept_.back() == split_;
        if (!edge) continue;
        if (previous_edge) return false;
        kept_.pop_back();
        --k;
        continue;
      }
      kept_.push_back(k);
    }
    return true;
  }

  std::optional<Unified> build() {
    Unified out;
    Space& s = out.space;
    s.reduces_columns = reduces_columns_;
    s.reduces_rows = reduces_rows_;
    s.column_chunk = a_.reduces_columns ? a_.column_chunk : b_.column_chunk;
    s.row_chunk = a_.reduces_rows ? a_.row_chunk : b_.row_chunk;
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (kept_[i] == split_) s.split = static_cast<int>(s.extents.size());
      if (i + 1 == kept_.size()) break;
      const Boundary &from = all_[kept_[i]], &to = all_[kept_[i + 1]];
      const Dim extent = exact_quotient(to.before, from.before);
      if (extent.value != 1) s.extents.push_back(extent);
    }
    out.joined_columns = joined_columns_;
    return out;
  }

  Dim exact_quotient(Dim a, Dim b) {
    if (b == Dim(1)) return a;
    for (const Space* s : {&a_, &b_}) {
      Dim before = 1;
      for (const Dim& e : s->extents) {
        const Dim after = sym_.mul(before, e);
        if (sym_.known_equal(before, b) && sym_.known_equal(after, a)) return e;
        before = after;
      }
    }
    const Dim q = sym_.floor_div(a, b);
    sym_.equal(sym_.mul(q, b), a);
    return q;
  }

  SymTable& sym_;
  const Space &a_, &b_;
  const bool guards_;
  std::vector<Boundary> all_;
  std::vector<int> kept_;
  int split_ = -1;
  bool reduces_columns_ = false, reduces_rows_ = false, joined_columns_ = false;
};

}  // namespace

std::optional<Unified> unify(SymTable& sym, const Space& a, const Space& b, bool guards) {
  if (a.extents == b.extents && (a.split == b.split || a.split < 0 || b.split < 0)) {
    const bool columns = a.reduces_columns || b.reduces_columns, rows = a.reduces_rows || b.reduces_rows;
    const int split = std::max(a.split, b.split);
    const bool chunks_fit = !(a.reduces_columns && b.reduces_columns && a.column_chunk != b.column_chunk) &&
                            !(a.reduces_rows && b.reduces_rows && a.row_chunk != b.row_chunk);
    if (chunks_fit && (!columns || split + 1 == static_cast<int>(a.extents.size()))) {
      Unified out{a};
      out.space.split = split;
      out.space.reduces_columns = columns;
      out.space.reduces_rows = rows;
      out.space.column_chunk = a.reduces_columns ? a.column_chunk : b.column_chunk;
      out.space.row_chunk = a.reduces_rows ? a.row_chunk : b.row_chunk;
      return out;
    }
  }
  return Unifier(sym, a, b, guards).run();
}

std::optional<Space> unify_rows(SymTable& sym, const Space& outer, const Space& inner, bool guards) {
  if (outer.split < 0 || inner.split >= 0) return std::nullopt;
  // The rows alone are a space in which a reduced row extent must stay whole.
  Space rows;
  rows.extents.assign(outer.extents.begin(), outer.extents.begin() + outer.split);
  rows.split = outer.split;
  rows.reduces_rows = outer.reduces_rows;
  rows.row_chunk = outer.row_chunk;
  const auto both = unify(sym, rows, inner, guards);
  if (!both) return std::nullopt;
  Space out = outer;
  out.extents = both->space.extents;
  out.split = static_cast<int>(out.extents.size());
  out.extents.insert(out.extents.end(), outer.extents.begin() + outer.split, outer.extents.end());
  return out;
}

Domain to_domain(const Space& s) {
  Domain d;
  const int split = s.split < 0 ? static_cast<int>(s.extents.size()) : s.split;
  d.rows.assign(s.extents.begin(), s.extents.begin() + split);
  d.columns.assign(s.extents.begin() + split, s.extents.end());
  d.reduces_columns = s.reduces_columns;
  d.column_chunk = s.column_chunk;
  d.reduces_rows = s.reduces_rows;
  d.row_chunk = s.row_chunk;
  return d;
}

bool is_reduction(const ir::Graph& g, const ir::Node& n) {
  if (n.op != Op::kReduce) return false;
  const ir::SymDims& from = g.shape(n.inputs[0]);
  return from[ReduceAttributes(n).axis].value != 1 && numel(from.values()) != 0;
}

bool reduces_last(const ir::Graph& g, const ir::Node& n) {
  const ir::SymDims& from = g.shape(n.inputs[0]);
  for (int i = ReduceAttributes(n).axis + 1; i < from.size(); ++i) {
    if (from[i].value != 1) return false;
  }
  return true;
}

Domain domain_of(Program& program, ir::NodeId node) {
  const ir::Graph& g = program.graph;
  const ir::Node& n = g.nodes[node];
  Domain d;
  const auto add = [](std::vector<Dim>& axes, Dim extent) {
    if (extent.value != 1) axes.push_back(extent);
  };
  if (!is_reduction(g, n)) {
    for (const Dim& extent : g.shape(n.first_output)) add(d.rows, extent);
    return d;
  }
  const ReduceAttributes a(n);
  const ir::SymDims& from = g.shape(n.inputs[0]);
  for (int i = 0; i < a.axis; ++i) add(d.rows, from[i]);
  for (int i = a.axis + 1; i < from.size(); ++i) add(d.columns, from[i]);
  if (d.columns.empty()) {
    d.columns.push_back(from[a.axis]);
    d.reduces_columns = true;
    d.column_chunk = a.chunk;
  } else {
    d.rows.push_back(from[a.axis]);
    d.reduces_rows = true;
    d.row_chunk = a.chunk;
  }
  return d;
}

}  // namespace smolder::jit
