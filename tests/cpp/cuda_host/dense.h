// The work of cuSOLVER and cuBLAS on the host, in double precision, whatever the type: textbook loops over
// elements that lie by columns.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "smolder/eager/cuda/cusolver.h"

namespace smolder::eager::cuda::host {

/// Queues work as the driver on the host does: a graph that is captured may run it again.
void queue(DriverStream stream, std::function<void()> work);

/// Element `i` of memory.
inline void* at(const void* memory, SolverType type, int64_t i) {
  return static_cast<char*>(const_cast<void*>(memory)) + i * (type == SolverType::kFloat64 ? 8 : 4);
}

/// A matrix by columns.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> data;

  Matrix(int64_t m, int64_t n) : rows(m), columns(n), data(static_cast<size_t>(m * n)) {}
  double& operator()(int64_t i, int64_t j) { return data[static_cast<size_t>(j * rows + i)]; }
  double operator()(int64_t i, int64_t j) const { return data[static_cast<size_t>(j * rows + i)]; }

  static Matrix identity(int64_t n) {
    Matrix out(n, n);
    for (int64_t i = 0; i < n; ++i) out(i, i) = 1;
    return out;
  }
  static Matrix load(const void* memory, SolverType type, int64_t m, int64_t n, int64_t leading) {
    Matrix out(m, n);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        const int64_t at = j * leading + i;
        out(i, j) = type == SolverType::kFloat64 ? static_cast<const double*>(memory)[at]
                                                 : static_cast<const float*>(memory)[at];
      }
    }
    return out;
  }
  void store(void* memory, SolverType type, int64_t leading) const {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t at = j * leading + i;
        if (type == SolverType::kFloat64) {
          static_cast<double*>(memory)[at] = (*this)(i, j);
        } else {
          static_cast<float*>(memory)[at] = static_cast<float>((*this)(i, j));
        }
      }
    }
  }
  Matrix transposed() const {
    Matrix out(columns, rows);
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) out(j, i) = (*this)(i, j);
    }
    return out;
  }
};

Matrix product(const Matrix& a, const Matrix& b);
/// The upper factor takes the place of the upper triangle, or the lower one that of the lower. Returns `info`.
int potrf(Matrix& a, BlasFill fill);
/// Takes any number of rows and columns. Pivots count from 1. Returns `info`.
int getrf(Matrix& a, std::vector<int64_t>& pivots);
void getrs(const Matrix& lu, const std::vector<int64_t>& pivots, bool transposed, Matrix& b);
/// Solves for the columns of `b`.
void trsm_left(const Matrix& a, bool upper, bool ones, Matrix& b);
/// Reflectors below the diagonal, without their ones.
void geqrf(Matrix& a, std::vector<double>& tau);
/// The first columns of the product of the reflectors in `a`, as many as it has.
void orgqr(Matrix& a, const std::vector<double>& tau);
/// Decomposes a symmetric matrix by Jacobi's method: ascending values; vectors take its place.
void syev(Matrix& a, std::vector<double>& values);
/// By turning columns, of a matrix that has as many rows as columns or more:
/// square factors.
struct Svd {
  Matrix u, v;
  std::vector<double> values;
};
Svd svd(const Matrix& a);

}  // namespace smolder::eager::cuda::host
