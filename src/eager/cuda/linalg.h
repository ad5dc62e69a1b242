// Factors of matrices and solutions on a device, by cuSOLVER and cuBLAS.
#pragma once

#include "smolder/eager/array.h"

namespace smolder::eager::cuda {

// Operands are row-major, of float32 or float64, of shape [..., rows, columns] with elements, and all of one device.
// They are left as they are. Calls are queued; nobody waits. `info` is the libraries' word for each matrix, int32 of
// shape [batch]: 0 where all went well. The libraries read matrices by columns, which is why some factors are
// transposed. All throw RuntimeError when there is no cuSOLVER (cusolver_missing), ValueError for a matrix that is too
// large for it.

struct Cholesky {
  Array factors;  ///< lower triangles L with L L^T, by columns; above them is anything
  Array info;     ///< the order of the first leading minor that is not positive
};
/// Factors the symmetric matrices whose columns are the rows of `columns`; their lower triangles are read. (Upper
/// triangles, which the same matrices have by rows, took 0.9 ms of 1024x1024 on an H200, where PyTorch's lower ones
/// took 0.4.)
Cholesky cholesky(const Array& columns);

struct Lu {
  Array factors;  ///< of the transposed matrices: L has ones in its diagonal, which is not stored, U lies below
  Array pivots;   ///< int32 or int64: the row that each row was exchanged with, from 1
  Array info;     ///< the first of U's diagonal that is 0, from 1
};
Lu lu(const Array& a);

struct Solution {
  Array rows;
  Array info;  ///< as of the factors; rows are anything where that is not 0
};
/// For each row b of `b`, the x with a x = b, or with a^T x = b where `transposed`.
Solution solve(const Array& a, const Array& b, bool transposed);

struct Triangular {
  bool upper, ones;  ///< which triangle is read; its diagonal is taken for ones
  bool left;
};
/// X with A X = B, or X A = B without left, in rows.
Array solve_triangular(const Array& a, const Array& b, Triangular how);

struct Qr {
  Array factors;  ///< R transposed below and in the diagonal; above it, in rows, the reflectors without their ones
  Array tau;      ///< of the reflectors
};
/// Factors the matrices whose columns are the rows of `columns`.
Qr qr(const Array& columns);
/// The first `count` columns of Q of one matrix, as rows: as many as its reflectors have elements, at most.
Array orthogonal_rows(const Qr& factors, int64_t count);

/// Products, one of each a or its transpose with one of b or its transpose, in the full precision of the type whatever
/// is allowed of other products.
Array product(const Array& a, bool a_transposed, const Array& b, bool b_transposed);

struct Eigh {
  Array values;   ///< ascending
  Array vectors;  ///< as rows; anything where they are not asked for
  Array info;     ///< what did not converge
};
/// Decomposes symmetric matrices, whose lower or upper triangles are read.
Eigh eigh(const Array& a, bool lower, bool vectors);

struct Svd {
  Array left, values, right;  ///< values descending; the others anything without vectors
  Array info;                 ///< what did not converge
};
/// By Jacobi's method: a = left^T diag(values) right. `full`: square factors; else there may be more vectors than
/// values, of which the first count.
Svd svd_by_jacobi(const Array& a, bool full, bool vectors);
/// By QR iterations, of matrices that have no more rows than columns: a = left diag(values) right.
Svd svd_of_wide(const Array& a, bool full, bool vectors);

}  // namespace smolder::eager::cuda
