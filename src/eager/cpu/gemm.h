// The building blocks of the CPU matrix product, one table of functions per instruction set.
//
// A product is computed in tiles: `mr` rows of a *broadcast* operand X times `nv` vectors of columns of a
// *vector* operand Y. Y is packed into panels [k][columns], or read in place where its rows already are
// such panels; X is read in place at any strides. Which of A and B plays X is the driver's choice
// (matmul_float.cpp), so a transposed operand costs at most the packing of the smaller one.
//
// Every element is the same sum whatever the tile, the instruction set, the number of threads or the
// batch around it: fused multiply-adds in the order of k within chunks of kChunk, chunks added in order.
#pragma once

#include <cstdint>

#include "smolder/core/dtype.h"

namespace smolder::eager::gemm {

/// Elements of k summed by one chain of fused multiply-adds. Part of the numeric contract: changing it
/// changes bits. Longer chains lose accuracy, shorter ones cost passes over the sums.
inline constexpr int64_t kChunk = 512;
inline constexpr int kMaxRows = 8;           ///< largest `Kernels::mr`
inline constexpr int kMaxVectors = 3;        ///< largest `Kernels::nv`
inline constexpr int kMaxTile = 8 * 3 * 16;  ///< elements of the largest tile
inline constexpr int kSkinnyRows = 4;        ///< rows of X up to which `Kernels::skinny` serves
inline constexpr int kSmallElements = 512;   ///< of an item that `Kernels::small` holds at a time
inline constexpr int kMaxWidth = 16;         ///< largest `Kernels::width`

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Part `i` of `n` things cut evenly in `parts`.
struct Part {
  int64_t begin, end;
  constexpr Part(int64_t n, int64_t parts, int64_t i) : begin(n * i / parts), end(n * (i + 1) / parts) {}
  constexpr int64_t size() const { return end - begin; }
};

/// One tile: out[i][j] = (add ? out[i][j] : 0) + sum over p < k of x[i*x_row + p*x_k] * y[p*y_k + j].
/// Rows and columns are those of the chosen function; strides are in elements; k and x_k are not 0.
template <class T>
struct Tile {
  const T* x;
  int64_t x_row, x_k;
  const T* y;
  int64_t y_k;
  int64_t k;
  T* out;
  int64_t out_row;
  bool add;
};

/// Writes finished sums to C: adds the bias, applies relu, rounds to `dtype`, transposes.
template <class T>
struct Finish {
  const T* sums;
  int64_t sums_row;
  int64_t rows, cols;
  DType dtype;
  void* c;           ///< where element (0, 0) goes
  int64_t c_row;     ///< elements between rows of C
  bool transposed;   ///< columns of the sums are rows of C
  const void* bias;  ///< of `dtype`, for C's columns from the first one here; or null
  bool relu;
};

/// Copies `rows` x `k` elements of type `dtype` at src[i*row + p*step], converted to T, to dst[i*pitch + p].
template <class T>
struct CopyRows {
  DType dtype;
  const void* src;
  int64_t row, step;
  int64_t rows, k;
  T* dst;
  int64_t pitch;
};

/// Copies `rows` x `k` elements into `parts` panels, one after the other, each [k][its rows]. Rows come in
/// `units` of `unit`, dealt evenly to the panels as `Part` does; the last unit may be incomplete, and what
/// the panels then hold past `rows` is unspecified.
template <class T>
struct Pack {
  DType dtype;
  const void* src;
  int64_t row, step;
  int64_t rows, k;
  T* dst;
  int64_t units, unit, parts;
};

/// sums[i*sums_row + j] = sum over p < k of x[i*x_row + p*x_k] * y[j*col + p*step], for at most kSkinnyRows
/// rows; col or step is 1. Memory-bound: Y is read once, in its own order, unpacked. Columns of `sums` up
/// to the next whole vector are written too.
template <class T>
struct Skinny {
  DType dtype;  ///< of y
  const T* x;
  int64_t x_row, x_k;
  int64_t rows;
  const void* y;
  int64_t col, step;
  int64_t cols, k;
  T* sums;
  int64_t sums_row;
};

/// A batch of products whose rows and columns fill no vector: c[i*c_batch + r*c_row + j] is the sum over p of
/// a[i*a_batch + r*a_row + p*a_col] * b[i*b_batch + p*b_row + j*b_col]. The lanes of a vector are items of the batch. m
/// * n is at most kSmallElements / 8.
template <class T>
struct Small {
  const T* a;
  int64_t a_batch, a_row, a_col;
  const T* b;
  int64_t b_batch, b_row, b_col;
  T* c;
  int64_t c_batch, c_row;
  int64_t batch, m, n, k;
};

/// The functions of one instruction set for element type T (float or double).
template <class T>
struct Kernels {
  const char* isa;
  int width;                                            ///< elements of a vector
  int mr;                                               ///< rows of the largest tile
  int nv;                                               ///< vectors of the largest tile
  void (*tile[kMaxRows][kMaxVectors])(const Tile<T>&);  ///< [rows - 1][vectors - 1]
  void (*finish)(const Finish<T>&);
  void (*pack)(const Pack<T>&);
  void (*copy_rows)(const CopyRows<T>&);
  void (*skinny)(const Skinny<T>&);
  void (*small)(const Small<T>&);
};

/// The table this machine runs best, chosen at first use. SMOLDER_CPU_ISA=avx512, avx2 or portable lowers
/// the choice; throws ValueError for other values and for what the machine lacks.
template <class T>
const Kernels<T>& kernels();

// One per instruction set; null where the machine or the compiler's target lacks it.
template <class T>
const Kernels<T>* avx512_kernels();
template <class T>
const Kernels<T>* avx2_kernels();
template <class T>
const Kernels<T>* portable_kernels();

}  // namespace smolder::eager::gemm
