// The pass that lets segments of a loop's iterations run side by side, where these depend on each other only in
// elements that they add to: sums of columns, the backward pass of layer_norm.
#pragma once

#include <vector>

#include "smolder/jit/cuda/accesses.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// The sums of a kernel's one sequential loop, scheduled or not.
struct Sums {
  const Stmt* loop = nullptr;  ///< null: there is no such loop
  struct Column {
    const Stmt *load, *step, *store;  ///< store(step(load, x)), all of one address
    const Stmt* vector;               ///< the loop they are in
    const Stmt* initial;              ///< the loop before that sets all elements to one value; null: they are in memory
  };
  std::vector<Column> columns;
};
Sums find_sums(const Kernel& k, const Accesses& accesses);

/// Makes a `split` loop with `combine` statements of that loop, of a kernel whose loops are mapped to threads. Where
/// groups of a block may take segments, what elements begin with is said there, and is no loop of its own.
void split_sums(Kernel& k);

}  // namespace smolder::jit::cuda
