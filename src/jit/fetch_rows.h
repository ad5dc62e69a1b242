// Which rows a kernel of several phases asks memory for ahead of their use.
#pragma once

#include <vector>

#include "smolder/jit/loop_ir.h"

namespace smolder::jit {

/// While `during`, a vector loop, runs, the row that `load` reads is fetched into the cache: this row, when `load` is
/// in a later loop of it; the next one, by the loop over `row`, when it is in an earlier.
struct RowFetch {
  const Stmt* during;
  const Stmt* load;
  VarId column;    ///< of the load's own loop
  VarId row = -1;  ///< -1: this row
};

/// A row kernel waits for memory in its first loop, and leaves it idle in those that compute on what the cache holds.
/// The rows it reads are fetched in the costliest loop but the one that reads them first; in that one when it is the
/// only one over rows that are walked in order.
std::vector<RowFetch> find_row_fetches(const Kernel& kernel);

}  // namespace smolder::jit
