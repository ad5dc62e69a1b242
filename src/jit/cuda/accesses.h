// The loads and stores of a kernel: what its loops may be mapped to follows from where they go.
#pragma once

#include <vector>

#include "smolder/jit/cuda/statements.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

struct Access {
  const Stmt* statement;
  const Stmt* vector;  ///< the loop it is in
  const Stmt* outer;   ///< and the one around that
  VarId var() const { return vector ? vector->vars[0] : -1; }
  bool is_store() const { return statement->kind != StmtKind::kLoad; }
};

/// Refers to statements of the kernel, which may be scheduled or not.
struct Accesses {
  std::vector<const Stmt*> vectors;
  bool has_accumulators = false, stores_outside = false, clamped_inside = false;
  std::vector<std::vector<Access>> of_buffer;

  explicit Accesses(const Kernel& k);

  /// Whether all vector loops have one extent.
  bool has_one_extent() const;
  /// Whether an element that one thread writes is another's in another loop, where each has the same in all.
  bool written_across(const Kernel& k) const;
  /// Whether each thread finds what it wrote itself, provided that it has the same elements in each loop.
  bool stays_in_column(size_t buffer) const;
  /// Read and written at the loop's element alone: whatever the position, the same places.
  /// A buffer that is read only to be added to there is none: nobody would see the sums.
  bool is_scratch(size_t buffer) const;
  /// Whether the elements are of the position's row, in order, and used in loops of one body alone. `common`: or of a
  /// row that all positions have.
  bool is_own_row(size_t buffer, bool common = false) const;
  /// Whether all that the position has rows of takes two bytes an element or less.
  bool has_narrow_rows(const Kernel& k) const;
  bool is_used_again(size_t buffer) const {
    return of_buffer[buffer].front().vector != of_buffer[buffer].back().vector;
  }

 private:
  bool only_collects(size_t buffer) const;
};

bool same_extent(const Stmt& a, const Stmt& b);
/// Whether two addresses in (or before) vector loops are the same but for the name of the loop's variable.
bool same_column(const Address& a, VarId va, const Address& b, VarId vb);
/// How far apart the elements of a load or store lie along `v` where that is known to be 2 to 4, else 0: a chunk of a
/// load is taken with what lies between.
int64_t spread_of(const Stmt& s, VarId v);
/// Stores of the loop that write what lies between each other's elements, by where they begin; none if `s` has no such.
std::vector<const Stmt*> joined_stores(const Stmt& loop, const Stmt& s);
/// Whether what lies between the elements of spread accesses is of use to the kernel, too.
bool uses_between(const Accesses& accesses);

/// Loads and stores that go along the last variable of the grid and across the loop over elements, in a kernel whose
/// threads take chunks: blocks have several positions for these, and no groups for segments.
std::vector<const Stmt*> transposed_accesses(const Kernel& k, const Accesses& accesses);

}  // namespace smolder::jit::cuda
