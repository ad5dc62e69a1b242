// The iteration space of a kernel in the making, and when two of them are one.
#pragma once

#include <optional>
#include <vector>

#include "smolder/jit/program.h"

namespace smolder::jit {

/// A row-major space: extents, of which the first `split` are rows and the rest columns once a reduction (or
/// something computed once a row) has decided that.
struct Space {
  std::vector<ir::Dim> extents;  ///< none is one
  int split = -1;                ///< -1: not decided
  bool reduces_columns = false;  ///< the columns are one extent, reduced
  bool reduces_rows = false;     ///< the last row extent is reduced
  ir::Dim column_chunk = 0, row_chunk = 0;

  bool is_flat() const { return split < 0; }
  ir::Dim rows(ir::SymTable& sym) const;
  ir::Dim columns(ir::SymTable& sym) const;
  ir::Dim elements(ir::SymTable& sym) const;
};

/// Two spaces as one.
struct Unified {
  Space space;
  /// Boundaries between extents that lie inside the columns of a reduction were given up: what needs to know
  /// where they were can't be computed without dividing for each element.
  bool joined_columns = false;
};

/// The space that both are, with the finest extents that the reductions allow; empty when there is none.
/// Extents that are equal in the sample only count as equal when `guards` allows to record that.
std::optional<Unified> unify(ir::SymTable& sym, const Space& a, const Space& b, bool guards);
/// `inner`, which is flat, as something computed once a row of `outer`.
std::optional<Space> unify_rows(ir::SymTable& sym, const Space& outer, const Space& inner, bool guards);

/// The space as lowering wants it.
Domain to_domain(const Space& space);

/// Loops that visit what a node computes, were it alone in its kernel.
Domain domain_of(Program& program, ir::NodeId node);
/// Does it reduce an axis of more than one element? (Else it is as good as elementwise.)
bool is_reduction(const ir::Graph& g, const ir::Node& n);
/// Is a reduction over the last extent that is not one, so a row reduction?
bool reduces_last(const ir::Graph& g, const ir::Node& n);

}  // namespace smolder::jit
