// The product of integers, in the compiler's vectors. That sums wrap around makes their order irrelevant, so each kind
// of processor has tiles of its own.
#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "smolder/core/counters.h"
#include "smolder/core/error.h"
#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/gemm.h"
#include "smolder/eager/cpu/matmul.h"
#include "smolder/eager/cpu/scratch.h"

namespace smolder::eager {
namespace {

using gemm::ceil_div;

constexpr int64_t kCols = 64, kRows = 64, kDepth = 512;
/// Rows of a tile, whose sums are in registers.
constexpr int kTileRows = 8;
/// Multiply-adds worth handing to another thread.
constexpr int64_t kTaskWork = 1 << 15;

/// Rows of A, and how far apart the elements of rows and columns are.
template <class T>
struct RowsOfA {
  const T* at;
  int64_t row, col;
};

/// Products of `kHeight` rows of A and as many columns of `panel` as two vectors of `kBytes` have, into `sums`. Logical
/// products are of bytes of 0 and 1.
template <class T, bool Logical, int kBytes, int kHeight>
[[gnu::always_inline]] inline void multiply_tile(RowsOfA<T> a, const T* panel, int64_t k, T* sums) {
  typedef T V __attribute__((vector_size(kBytes)));
  constexpr int kWidth = kBytes / sizeof(T);
  V sum[kHeight][2] = {};
  for (int64_t p = 0; p < k; ++p, panel += kCols) {
    V low, high;
    std::memcpy(&low, panel, sizeof low);
    std::memcpy(&high, panel + kWidth, sizeof high);
    const V right[2] = {low, high};
    for (int i = 0; i < kHeight; ++i) {
      const V left = V{} + a.at[i * a.row + p * a.col];
      for (int j = 0; j < 2; ++j) {
        if constexpr (Logical) {
          sum[i][j] |= left & right[j];
        } else {
          sum[i][j] += left * right[j];
        }
      }
    }
  }
  for (int i = 0; i < kHeight; ++i) {
    for (int j = 0; j < 2; ++j) {
      const V v = sum[i][j];  // whoever takes the address of all sums keeps them in memory
      std::memcpy(sums + i * kCols + j * kWidth, &v, sizeof v);
    }
  }
}

/// The same for all of `cols` columns, rounded up.
template <class T, bool Logical, int kBytes>
[[gnu::always_inline]] inline void multiply_rows(RowsOfA<T> a, int64_t rows, const T* panel, int64_t cols, int64_t k,
                                                 T* sums) {
  // Two vectors of bytes are as wide as the panel, or wider.
  constexpr int kUsed = std::min<int>(kBytes, kCols * sizeof(T) / 2), kStep = 2 * kUsed / sizeof(T);
  for (int64_t j = 0; j < cols; j += kStep) {
    if (rows == kTileRows) {
      multiply_tile<T, Logical, kUsed, kTileRows>(a, panel + j, k, sums + j);
    } else {
      for (int64_t i = 0; i < rows; ++i) {
        multiply_tile<T, Logical, kUsed, 1>({a.at + i * a.row, a.row, a.col}, panel + j, k, sums + i * kCols + j);
      }
    }
  }
}

template <class T>
using MultiplyRows = void(RowsOfA<T> a, int64_t rows, const T* panel, int64_t cols, int64_t k, T* sums);

template <class T, bool Logical>
void multiply_rows_portable(RowsOfA<T> a, int64_t rows, const T* panel, int64_t cols, int64_t k, T* sums) {
  multiply_rows<T, Logical, 16>(a, rows, panel, cols, k, sums);
}
#if defined(__x86_64__)
template <class T, bool Logical>
__attribute__((target("avx2"))) void multiply_rows_avx2(RowsOfA<T> a, int64_t rows, const T* panel, int64_t cols,
                                                        int64_t k, T* sums) {
  multiply_rows<T, Logical, 32>(a, rows, panel, cols, k, sums);
}
template <class T, bool Logical>
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))) void multiply_rows_avx512(RowsOfA<T> a, int64_t rows,
                                                                                        const T* panel, int64_t cols,
                                                                                        int64_t k, T* sums) {
  multiply_rows<T, Logical, 64>(a, rows, panel, cols, k, sums);
}
#endif

template <class T, bool Logical>
MultiplyRows<T>* multiply_rows_here() {
#if defined(__x86_64__)
  const std::string_view isa = gemm::kernels<float>().isa;
  if (isa == "avx512") return multiply_rows_avx512<T, Logical>;
  if (isa == "avx2") return multiply_rows_avx2<T, Logical>;
#endif
  return multiply_rows_portable<T, Logical>;
}

/// `T` is unsigned, so that overflow is defined; bool is a byte of 0 or 1 with its own operations.
template <class T, bool Logical>
class IntegerMatmul final : public Matmul {
 public:
  explicit IntegerMatmul(const MatmulDesc& d)
      : Matmul(d), strided_(d.k > 1 && d.n > 1 && d.b_row != 1 && d.b_col != 1) {}

  void run(const void* a, const void* b, void* c, const void* bias) const override {
    static Counter& strided = counter("matmul.strided_copies");
    if (strided_) strided.add();
    const int64_t row_blocks = ceil_div(desc_.m, kRows), col_blocks = ceil_div(desc_.n, kCols);
    const int64_t work = std::min(desc_.m, kRows) * std::min(desc_.n, kCols) * (desc_.k + 1);
    parallel_for(desc_.batch * row_blocks * col_blocks, std::max<int64_t>(1, kTaskWork / work),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t item = i / (row_blocks * col_blocks), rest = i % (row_blocks * col_blocks);
                     block(static_cast<const T*>(a) + item * desc_.a_batch_stride,
                           static_cast<const T*>(b) + item * desc_.b_batch_stride,
                           static_cast<T*>(c) + item * desc_.c_batch_stride, static_cast<const T*>(bias),
                           rest / col_blocks * kRows, rest % col_blocks * kCols);
                   }
                 });
  }

 private:
  void block(const T* a, const T* b, T* c, const T* bias, int64_t row, int64_t col) const {
    const int64_t rows = std::min(kRows, desc_.m - row), cols = std::min(kCols, desc_.n - col);
    T* panel = scratch<T, 0>(kDepth * kCols);
    for (int64_t i = 0; i < rows; ++i) std::fill_n(c + (row + i) * desc_.c_row + col, cols, T{0});
    for (int64_t k0 = 0; k0 < desc_.k; k0 += kDepth) {
      const int64_t k = std::min(kDepth, desc_.k - k0);
      for (int64_t p = 0; p < k; ++p) {
        const T* from = b + (k0 + p) * desc_.b_row + col * desc_.b_col;
        for (int64_t j = 0; j < cols; ++j) panel[p * kCols + j] = from[j * desc_.b_col];
        std::fill(panel + p * kCols + cols, panel + (p + 1) * kCols, T{0});
      }
      for (int64_t i = 0; i < rows; i += kTileRows) {
        const int64_t height = std::min<int64_t>(kTileRows, rows - i);
        const T* const x = a + (row + i) * desc_.a_row + k0 * desc_.a_col;
        T sums[kTileRows * kCols];
        multiply_({x, desc_.a_row, desc_.a_col}, height, panel, cols, k, sums);
        for (int64_t r = 0; r < height; ++r) add(sums + r * kCols, c + (row + i + r) * desc_.c_row + col, cols);
      }
    }
    if (desc_.epilogue != MatmulDesc::Epilogue::kNone) finish(c + row * desc_.c_row + col, bias + col, rows, cols);
  }

  static void add(const T* sums, T* out, int64_t n) {
    for (int64_t j = 0; j < n; ++j) out[j] = Logical ? out[j] | sums[j] : static_cast<T>(out[j] + sums[j]);
  }

  void finish(T* c, const T* bias, int64_t rows, int64_t cols) const {
    using Signed = std::make_signed_t<T>;
    const bool relu = desc_.epilogue == MatmulDesc::Epilogue::kBiasRelu && desc_.dtype != DType::kUInt8;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        T& v = c[i * desc_.c_row + j];
        v = static_cast<T>(v + bias[j]);
        if (relu && static_cast<Signed>(v) < 0) v = 0;
      }
    }
  }

  bool strided_;
  MultiplyRows<T>* multiply_ = multiply_rows_here<T, Logical>();
};

}  // namespace

std::shared_ptr<const Matmul> make_integer_matmul(const MatmulDesc& d) {
  switch (d.dtype) {
    case DType::kBool:
      return std::make_shared<IntegerMatmul<uint8_t, true>>(d);
    case DType::kUInt8:
    case DType::kInt8:
      return std::make_shared<IntegerMatmul<uint8_t, false>>(d);
    case DType::kInt16:
      return std::make_shared<IntegerMatmul<uint16_t, false>>(d);
    case DType::kInt32:
      return std::make_shared<IntegerMatmul<uint32_t, false>>(d);
    case DType::kInt64:
      return std::make_shared<IntegerMatmul<uint64_t, false>>(d);
    default:
      raise<TypeError>("matmul: ", name(d.dtype), " is not an integer type");
  }
}

}  // namespace smolder::eager
