#include "smolder/jit/cuda/native/row_product.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "smolder/jit/cuda/device/row_product.h"

namespace smolder::jit::cuda {

namespace {

using Epilogue = eager::MatmulDesc::Epilogue;

// In microseconds on an H200, in a chain, and what PyTorch's cuBLAS took on another H200 that day. Of bfloat16
// 1x2048x2048: 3.4 and 5.7, with a matrix that lies the other way 5.6 and 5.9; 1x5632x2048: 8.0 and 9.2, 11.5 and 8.8;
// 1x512x2048: 2.1 and 4.8, 3.7 and 4.7; two rows by 5632x2048: 9.9 and 9.2, 14.5 and 8.8, so these are left to tensor
// cores. Of float32 1x2048x2048: 6.6 and 7.2, 7.2 and 7.9; 4x2048x2048: 9.6 and 12.3, 10.2 and 14.6; 8x5632x2048: 35
// and 50, 41 and 36.
constexpr int64_t kMostRows = 8, kMostRowsOfHalves = 1, kLeastColumns = 16, kMostK = 1 << 15;
/// See device/row_product.cuh.
constexpr int kChunk = 8, kParts = 128, kWarp = 32, kLineThreads = 128, kColumnThreads = 512, kColumnBytes = 64;

bool is_of_rows(DType dtype, int64_t rows, int64_t columns) {
  return rows <= (is_half(dtype) ? kMostRowsOfHalves : kMostRows) && columns >= kLeastColumns;
}

/// The sizes and strides of a product of few rows: where these are the columns, of the product transposed.
struct Product {
  int64_t m, n, k, a_row, a_col, b_row, b_col, c_row, c_col;

  static Product of(const eager::MatmulDesc& d) {
    Product p = is_of_rows(d.dtype, d.m, d.n) ? Product{d.m, d.n, d.k, d.a_row, d.a_col, d.b_row, d.b_col, d.c_row, 1}
                                              : Product{d.n, d.m, d.k, d.b_col, d.b_row, d.a_col, d.a_row, 1, d.c_row};
    if (p.m == 1) p.a_row = 0;  // an axis of one element may have any stride
    return p;
  }
};

bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

class RowProduct final : public BoundLibrary {
 public:
  RowProduct(NativeDevice& device, ProductSteps steps)
      : steps_(std::move(steps)),
        is_transposed_(!is_of_rows(steps_.desc.dtype, steps_.desc.m, steps_.desc.n)),
        product_(Product::of(steps_.desc)) {
    const eager::MatmulDesc& d = steps_.desc;
    const auto rows = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(product_.m)));
    const std::string program = typedef_of("Element", d.dtype) + typedef_of("Result", d.out_dtype) +
                                typedef_of("Sum", DType::kFloat32) + "constexpr int kRows = " + std::to_string(rows) +
                                ";\n" + kRowProduct;
    lines_ = device.function(program, "multiply_lines");
    columns_ = device.function(program, "multiply_columns");
    columns_of_block_ = kColumnBytes / static_cast<int>(itemsize(d.dtype));
    shared_bytes_ = kParts * rows * columns_of_block_ * static_cast<int>(sizeof(float));
    const Product& p = product_;
    has_lines_ = p.a_col == 1 && p.b_row == 1 && (p.k | p.a_row | p.b_col) % kChunk == 0;
    has_whole_columns_ = p.b_col == 1 && (p.n | p.b_row) % (columns_of_block_ / 4) == 0;
  }

  bool run(std::span<void* const> addresses) const override {
    const eager::MatmulDesc& d = steps_.desc;
    const ProductSteps::Offsets& o = steps_.offsets[0];
    const auto at = [&](size_t i, int64_t offset) { return static_cast<char*>(addresses[i]) + offset; };
    const void *a = at(0, o.a), *b = at(1, o.b);
    if (is_transposed_) std::swap(a, b);
    const void* const bias = d.epilogue == Epilogue::kNone ? nullptr : addresses[2];
    const Product& p = product_;
    const bool by_lines = has_lines_ && is_aligned(a) && is_aligned(b);
    const int64_t relu = d.epilogue == Epilogue::kBiasRelu ? 1 : 0, whole = has_whole_columns_ && is_aligned(b) ? 2 : 0;
    const Words arguments = words(a, b, bias, at(addresses.size() - 1, o.c), p.m, p.n, p.k, p.a_row, p.a_col, p.b_row,
                                  p.b_col, p.c_row, p.c_col, relu | whole);
    if (by_lines) {
      lines_->launch(ceil_div(p.n, kLineThreads / kWarp), kLineThreads, arguments, {.waits = true});
    } else {
      columns_->launch(ceil_div(p.n, columns_of_block_), kColumnThreads, arguments,
                       {.shared_bytes = shared_bytes_, .waits = true});
    }
    return true;
  }
  bool only_queues() const override { return true; }
  std::string describe() const override { return steps_.describe() + " by rows"; }

 private:
  ProductSteps steps_;
  bool is_transposed_;
  Product product_;
  NativeRef lines_, columns_;
  int columns_of_block_ = 0, shared_bytes_ = 0;
  bool has_lines_ = false, has_whole_columns_ = false;
};

}  // namespace

std::unique_ptr<BoundLibrary> make_row_product(NativeDevice& device, const ProductSteps& steps) {
  const eager::MatmulDesc& d = steps.desc;
  if (steps.is_empty() || d.batch != 1 || steps.offsets.size() != 1 || d.k > kMostK) return nullptr;
  if (!is_half(d.dtype) && d.dtype != DType::kFloat32) return nullptr;
  if (d.out_dtype != d.dtype && d.out_dtype != DType::kFloat32) return nullptr;
  // A bias is one of columns.
  const bool rows = is_of_rows(d.dtype, d.m, d.n);
  const bool columns = is_of_rows(d.dtype, d.n, d.m) && d.epilogue == Epilogue::kNone;
  if (!rows && !columns) return nullptr;
  return std::make_unique<RowProduct>(device, steps);
}

}  // namespace smolder::jit::cuda
