// Which rows a kernel of several phases asks memory for ahead of their use.
#pragma once

#include <vector>

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

/// While `during`, a vector loop, runs, the row that `access` reads or writes is fetched into the cache: this row, when
/// it is in a later loop of it; the next one, by the loop over `row`, when it is in an earlier.
struct RowFetch {
  const Stmt* during;
  const Stmt* access;  ///< a load or a store
  VarId column;        ///< of its own loop
  VarId row = -1;      ///< -1: this row
};

/// A row kernel waits for memory in its first loop, and leaves it idle in those that compute on what the cache holds.
/// The rows it reads are fetched in the costliest loop but the one that reads them first; in that one when it is the
/// only one over rows that are walked in order. There, rows that are written are fetched as well: while a store waits
/// for a line that another core has, a sum kept in memory is not read, if its address ends in the same twelve bits.
std::vector<RowFetch> find_row_fetches(const Kernel& kernel);

}  // namespace smolder::jit
