// Factors and solutions of small real matrices, for smolder/_factors.py: a library's calls, and Python's on the way to
// them, take longer than the arithmetic. Larger and complex matrices go to NumPy's LAPACK.
#pragma once

#include <cstdint>
#include <optional>

#include "smolder/eager/array.h"

namespace smolder::eager {

/// Which triangle of a matrix is read, and how.
struct SmallTriangle {
  bool upper = false;
  bool left = true;   ///< A X = B, else X A = B
  bool ones = false;  ///< the diagonal is all ones, and not read
};

// Operands are row-major, of the same float32 or float64, with equal leading dimensions: [..., n, n] and [..., n, m].
// Nothing is returned for what these do not take: other dtypes, more rows or columns than pay, and matrices without
// factors, of which LAPACK has to say what is wrong.

/// L with A = L L^T, of which the lower triangle is read.
std::optional<Array> small_cholesky(const Array& a);
/// X with A X = B, by rows exchanged for the largest pivot.
std::optional<Array> small_solution(const Array& a, const Array& b);
std::optional<Array> small_inverse(const Array& a);
/// L and U of P A = L U in one, without the ones of L, and a row more: which row each was exchanged with, from 1.
std::optional<Array> small_lu(const Array& a);
/// A zero in the diagonal gives infinities and NaN.
std::optional<Array> small_triangular_solution(const Array& a, const Array& b, SmallTriangle triangle);

}  // namespace smolder::eager
