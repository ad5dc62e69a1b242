// The loads and indices whose elements in a chunk have much in common where sizes are multiples of it: then an index is
// divided once, a bound is asked for once, and what is there is loaded whole. Pads, joins, and views of views come to
// such loads.
#pragma once

#include <vector>

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

struct Chunks {
  std::vector<const Stmt*> loads{};   ///< with bounds or indices, whole where the sizes allow
  std::vector<const Stmt*> spread{};  ///< of these, those of one element for the whole chunk
  /// Quotients and remainders of indices that are the same for all elements, and remainders that are neighbours.
  std::vector<const Stmt*> same{}, steps{};
  std::vector<IntRef> multiples{};  ///< what must be a multiple of the chunk for all of this
  /// The division of a position along the loop by a size, whatever that is.
  struct Division {
    const Stmt *statement, *position, *size;
  };
  std::vector<Division> divisions{};
};

/// Finds them in the kernel's loops over elements, for chunks of `vector` from a multiple of that on. `spreads`: also
/// loads of one element.
Chunks chunks_of(const Kernel& kernel, int vector, bool spreads = false);

}  // namespace smolder::jit::cuda
