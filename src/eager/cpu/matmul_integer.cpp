// The product of integers: a plain blocked loop that the compiler vectorizes. No training step needs it
// fast; that its sums wrap around makes their order irrelevant.
#include <algorithm>
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

constexpr int64_t kCols = 64, kRows = 32, kDepth = 512;
/// Multiply-adds worth handing to another thread.
constexpr int64_t kTaskWork = 1 << 15;

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
  static T madd(T sum, T x, T y) {
    if constexpr (Logical) {
      return sum | (x & y);
    } else if constexpr (sizeof(T) < sizeof(int)) {
      return static_cast<T>(sum + static_cast<unsigned>(x) * y);
    } else {
      return sum + x * y;
    }
  }

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
      for (int64_t i = 0; i < rows; ++i) {
        const T* x = a + (row + i) * desc_.a_row + k0 * desc_.a_col;
        T sums[kCols] = {};
        for (int64_t p = 0; p < k; ++p) {
          const T v = x[p * desc_.a_col];
          for (int64_t j = 0; j < kCols; ++j) sums[j] = madd(sums[j], v, panel[p * kCols + j]);
        }
        T* out = c + (row + i) * desc_.c_row + col;
        for (int64_t j = 0; j < cols; ++j) out[j] = Logical ? out[j] | sums[j] : static_cast<T>(out[j] + sums[j]);
      }
    }
    if (desc_.epilogue != MatmulDesc::Epilogue::kNone) finish(c + row * desc_.c_row + col, bias + col, rows, cols);
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
