#include "smolder/eager/cpu/small_matrices.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/scratch.h"

namespace smolder::eager {
namespace {

/// Rows up to which these take less time than LAPACK with the calls around it, and columns of B up to which what is
/// read again and again stays in the second-level cache.
constexpr int64_t kMostRows = 96, kMostRowsOfTriangle = 256, kMostColumns = 1024;
/// Rows up to which these take less time than factors of blocks by NumPy's products and solutions.
constexpr int64_t kMostRowsOfFactors = 512;

/// y -= f x.
template <class T>
void subtract(T f, const T* __restrict x, T* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] -= f * x[i];
}
template <class T>
void divide(T* x, T d, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] /= d;
}

/// By the rows of L^T, which are contiguous.
template <class T>
bool factor_cholesky(const T* a, T* low, int64_t n) {
  T* const up = scratch<T, 0>(n * n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i; j < n; ++j) up[i * n + j] = a[j * n + i];
  }
  for (int64_t k = 0; k < n; ++k) {
    T* const row = up + k * n;
    if (!(row[k] > 0)) return false;
    divide(row + k, std::sqrt(row[k]), n - k);
    for (int64_t i = k + 1; i < n; ++i) subtract(row[i], row + i, up + i * n + i, n - i);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) low[i * n + j] = j <= i ? up[j * n + i] : T(0);
  }
  return true;
}

/// The row from k on with the largest element of column k.
int64_t best_pivot(const auto* a, int64_t k, int64_t n) {
  int64_t best = k;
  for (int64_t i = k + 1; i < n; ++i) {
    if (std::abs(a[i * n + k]) > std::abs(a[best * n + k])) best = i;
  }
  return best;
}

/// `lu` has a row for the pivots more than `a`.
template <class T>
void factor_lu(const T* a, T* lu, int64_t n) {
  std::copy_n(a, n * n, lu);
  for (int64_t k = 0; k < n; ++k) {
    const int64_t best = best_pivot(lu, k, n);
    lu[n * n + k] = static_cast<T>(best + 1);
    if (best != k) std::swap_ranges(lu + k * n, lu + k * n + n, lu + best * n);
    const T pivot = lu[k * n + k];
    if (pivot == 0) continue;  // and so is all below it
    for (int64_t i = k + 1; i < n; ++i) {
      T* const row = lu + i * n;
      row[k] /= pivot;
      subtract(row[k], lu + k * n + k + 1, row + k + 1, n - k - 1);
    }
  }
}

/// x is B, and becomes X.
template <class T>
bool solve(const T* a, T* x, int64_t n, int64_t m) {
  T* const left = scratch<T, 0>(n * n);
  std::copy_n(a, n * n, left);
  for (int64_t k = 0; k < n; ++k) {
    const int64_t best = best_pivot(left, k, n);
    const T pivot = left[best * n + k];
    if (pivot == 0) return false;
    if (best != k) {
      std::swap_ranges(left + k * n + k, left + k * n + n, left + best * n + k);
      std::swap_ranges(x + k * m, x + k * m + m, x + best * m);
    }
    for (int64_t i = k + 1; i < n; ++i) {
      const T f = left[i * n + k] / pivot;
      subtract(f, left + k * n + k + 1, left + i * n + k + 1, n - k - 1);
      subtract(f, x + k * m, x + i * m, m);
    }
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    for (int64_t j = i + 1; j < n; ++j) subtract(left[i * n + j], x + j * m, x + i * m, m);
    divide(x + i * m, left[i * n + i], m);
  }
  return true;
}

/// x is B, and becomes X, with A X = B.
template <class T>
void substitute(const T* a, T* x, int64_t n, int64_t m, bool upper, bool ones) {
  for (int64_t turn = 0; turn < n; ++turn) {
    const int64_t i = upper ? n - 1 - turn : turn;
    for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j) subtract(a[i * n + j], x + j * m, x + i * m, m);
    if (!ones) divide(x + i * m, a[i * n + i], m);
  }
}

/// The same for a row of X with X A = B.
template <class T>
void substitute_row(const T* a, T* x, int64_t n, bool upper, bool ones) {
  for (int64_t turn = 0; turn < n; ++turn) {
    const int64_t k = upper ? turn : n - 1 - turn;
    if (!ones) x[k] /= a[k * n + k];
    const int64_t begin = upper ? k + 1 : 0, end = upper ? n : k;
    subtract(x[k], a + k * n + begin, x + begin, end - begin);
  }
}

bool is_taken(const Array& a, int64_t most = kMostRows) {
  const int rank = a.shape.size();
  return (a.dtype == DType::kFloat32 || a.dtype == DType::kFloat64) && rank >= 2 && a.shape[rank - 1] <= most &&
         a.shape[rank - 2] <= most && numel(a.shape) > 0;
}
bool is_taken_beside(const Array& b) { return numel(b.shape) > 0 && b.shape[b.shape.size() - 1] <= kMostColumns; }

/// Calls each(matrix of a, matrix of x) for every matrix, on the pool's threads; false where one call is.
template <class T, class Each>
bool for_each_matrix(const Array& a, Array& x, int64_t n, Each each) {
  const int64_t count = numel(a.shape) / (n * n), stride = numel(x.shape) / count;
  std::atomic<bool> all = true;
  constexpr int64_t kGrain = 1 << 16;  // multiplications
  parallel_for(count, std::max<int64_t>(1, kGrain / (n * (n * n + stride))), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!each(static_cast<const T*>(a.data) + i * n * n, static_cast<T*>(x.data) + i * stride)) all = false;
    }
  });
  return all;
}

/// The same for the dtype of a.
std::optional<Array> over_matrices(const Array& a, Array x, auto each) {
  const int64_t n = a.shape[a.shape.size() - 1];
  const bool all =
      a.dtype == DType::kFloat32 ? for_each_matrix<float>(a, x, n, each) : for_each_matrix<double>(a, x, n, each);
  return all ? std::optional(std::move(x)) : std::nullopt;
}

Array copy_of(const Array& b) {
  Array out = Array::empty(b.shape, b.dtype);
  std::copy_n(static_cast<const char*>(b.data), b.bytes(), static_cast<char*>(out.data));
  return out;
}

}  // namespace

std::optional<Array> small_cholesky(const Array& a) {
  if (!is_taken(a)) return std::nullopt;
  const int64_t n = a.shape[a.shape.size() - 1];
  return over_matrices(a, Array::empty(a.shape, a.dtype),
                       [n](const auto* a, auto* low) { return factor_cholesky(a, low, n); });
}

std::optional<Array> small_solution(const Array& a, const Array& b) {
  if (!is_taken(a) || !is_taken_beside(b)) return std::nullopt;
  const int64_t n = a.shape[a.shape.size() - 1], m = b.shape[b.shape.size() - 1];
  return over_matrices(a, copy_of(b), [n, m](const auto* a, auto* x) { return solve(a, x, n, m); });
}

std::optional<Array> small_inverse(const Array& a) {
  if (!is_taken(a)) return std::nullopt;
  const int64_t n = a.shape[a.shape.size() - 1];
  return over_matrices(a, Array::empty(a.shape, a.dtype), [n](const auto* a, auto* x) {
    for (int64_t i = 0; i < n * n; ++i) x[i] = i % (n + 1) == 0;
    return solve(a, x, n, n);
  });
}

std::optional<Array> small_lu(const Array& a) {
  if (!is_taken(a, kMostRowsOfFactors)) return std::nullopt;
  const int rank = a.shape.size();
  const int64_t n = a.shape[rank - 1];
  if (a.shape[rank - 2] != n) return std::nullopt;
  Dims shape = a.shape;
  ++shape[rank - 2];
  return over_matrices(a, Array::empty(shape, a.dtype), [n](const auto* a, auto* lu) {
    factor_lu(a, lu, n);
    return true;
  });
}

std::optional<Array> small_triangular_solution(const Array& a, const Array& b, SmallTriangle t) {
  if (!is_taken(a, kMostRowsOfTriangle) || !is_taken_beside(b)) return std::nullopt;
  const int64_t n = a.shape[a.shape.size() - 1], rows = b.shape[b.shape.size() - 2], m = b.shape[b.shape.size() - 1];
  return over_matrices(a, copy_of(b), [=](const auto* a, auto* x) {
    if (t.left) {
      substitute(a, x, n, m, t.upper, t.ones);
    } else {
      for (int64_t row = 0; row < rows; ++row) substitute_row(a, x + row * n, n, t.upper, t.ones);
    }
    return true;
  });
}

}  // namespace smolder::eager
