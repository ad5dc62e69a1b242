// Straight-line loops over plain arrays: all the arithmetic of the CPU kernels. What is strided, broadcast or
// half precision is made plain before it gets here (strided.h, elementwise.cpp).
#pragma once

#include <cstdint>

#include "smolder/core/dtype.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/scalar/primitive.h"

namespace smolder::eager::cpu {

/// out[i] = primitive(in[0][i], ...) for i < n. Arrays hold elements as memory does (bool: bytes of 0 or 1).
/// `out` may be one of the inputs.
using BlockFn = void (*)(const void* const* in, void* out, int64_t n);
/// The loop for operands of `compute`, which is no half: halves are computed in float32. Throws
/// NotImplementedError when the primitive does not take the dtype.
BlockFn block_fn(ir::scalar::Primitive p, DType compute);

/// out[i] = in[i] converted, for i < n.
using CastFn = void (*)(const void* in, void* out, int64_t n);
CastFn cast_fn(DType from, DType to);

/// Lanes of a row reduction (docs/architecture/arithmetic.md, "Canonical reductions").
inline constexpr int kReduceLanes = 32;

/// The loops of one kind of reduction in one dtype, over elements as in memory and accumulators.
struct ReduceFns {
  void (*reset)(void* accumulators, int64_t n);  ///< to the identity
  /// Element i goes to lane i % kReduceLanes.
  void (*row)(const void* in, int64_t n, void* lanes);
  void (*fold)(const void* lanes, void* out);  ///< lanes combined by halving, to one element
  /// Element i goes to accumulator i.
  void (*column)(const void* in, int64_t n, void* accumulators);
  /// The same for rows that lie one after the other, of few columns. Of accumulators, kReduceLanes more are written.
  void (*narrow)(const void* in, int64_t rows, int64_t columns, void* accumulators);
  /// Accumulator i of the others goes to accumulator i, as fold() combines lanes.
  void (*combine)(const void* others, int64_t n, void* accumulators);
  void (*store)(const void* accumulators, int64_t n, void* out);
};
const ReduceFns& reduce_fns(ir::ReduceKind kind, DType t);

/// Elements of a row that a running sum of floats adds up at a time (docs/architecture/arithmetic.md, "Scans and
/// sorts").
inline constexpr int64_t kScanGroup = 4;
/// The loops of one kind of running reduction. A carry is eight bytes or fewer.
struct ScanFns {
  void (*row)(const void* in, int64_t n, void* out);
  void (*reset)(void* carry, int64_t n);  ///< to the identity
  void (*column)(const void* in, void* carry, void* out, int64_t n);
  /// Sums of a long row in three steps, of which only carry_groups needs what came before; null where that has no use.
  /// The sum of each group:
  void (*totals)(const void* in, int64_t groups, double* totals);
  /// The sums, from those before each group; past the caches if `stream` and where `out` allows. What `next` points to,
  /// as much again, is fetched on the way.
  void (*spread)(const void* in, int64_t groups, const double* before, void* out, const void* next, bool stream);
  /// A row that `carry` comes before.
  void (*rest)(const void* in, int64_t n, double carry, void* out);
};
/// Turns what each group adds up to into the sum before it, `carry` being the first; returns the sum of all.
double carry_groups(double carry, int64_t groups, double* totals);
const ScanFns& scan_fns(ir::ScanKind kind, DType t);

/// The 32 random bits (ir/scalar/random.h) of elements first, ..., first + n - 1.
void random_block(int64_t seed, int64_t offset, int64_t first, int64_t n, int64_t* out);

}  // namespace smolder::eager::cpu
