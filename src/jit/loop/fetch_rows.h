// The pass that asks memory for rows ahead of their use, for a host.
#pragma once

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

/// Puts `fetch` into the vector loops of a kernel of several phases. A row kernel waits for memory in its first loop,
/// and leaves it idle in those that compute on what the cache holds. The rows it reads are fetched in the costliest
/// loop but the one that reads them first: this row where that loop comes earlier, else the next. They are fetched in
/// that one when it is the only one over rows that are walked in order. There, rows that are written are fetched as
/// well: while a store waits for a line that another core has, a sum kept in memory is not read, if its address ends in
/// the same twelve bits.
void fetch_rows(Kernel& kernel);

}  // namespace smolder::jit
