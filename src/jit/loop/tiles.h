// Tiles: squares of a kernel's elements, where it reads one axis and writes another from element to element.
//
//   parallel v0 < n0, v1 < n1 {
//     loop v2 < 32 clamp v0 of n2 {
//       vector v3 < 32 clamp v1 of n3 {
//         %0 = load b0[v0*32 + v1*n4 + v2 + v3*n5]
//         store b1[v0*n6 + v1*32 + v2*n3 + v3], %0
//
// Cache lines that one row of a tile reads are read by the next ones too, and are still there.
#pragma once

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

/// Rows and columns of a tile of elements of so many bytes: lines are read whole.
constexpr int64_t tile_size(size_t itemsize) { return itemsize < 4 ? 64 : 32; }

/// Whether a statement is the loop over a tile's rows; what it holds last is the loop over a row.
bool is_tile(const Stmt& s);

/// Whether a load of a tile's row reads elements that lie side by side from row to row, and that nothing writes.
bool is_turned(const Kernel& k, const Stmt& tile, const Stmt& load);

}  // namespace smolder::jit
