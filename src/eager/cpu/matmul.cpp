#include "smolder/eager/cpu/matmul.h"

#include <cstdlib>

#include "smolder/core/error.h"
#include "smolder/eager/cpu/gemm.h"

namespace smolder::eager {
namespace {

/// Nothing to write.
class EmptyMatmul final : public Matmul {
 public:
  explicit EmptyMatmul(const MatmulDesc& desc) : Matmul(desc) {}
  void run(const void*, const void*, void*, const void*) const override {}
};

void check(const MatmulDesc& d) {
  SMOLDER_CHECK(d.batch >= 0 && d.m >= 0 && d.n >= 0 && d.k >= 0, ValueError,
                "matmul: sizes must not be negative, found ", d.batch, " x (", d.m, " x ", d.k, " times ", d.k, " x ",
                d.n, ")");
  SMOLDER_CHECK(d.out_dtype == d.dtype || (is_half(d.dtype) && d.out_dtype == DType::kFloat32), TypeError, "matmul: a ",
                name(d.dtype), " product has a result of ", name(d.dtype), is_half(d.dtype) ? " or float32" : "",
                ", not ", name(d.out_dtype));
  SMOLDER_CHECK(d.m <= 1 || d.c_row >= d.n, ValueError, "matmul: rows of the result overlap: ", d.n,
                " columns, but a row stride of ", d.c_row, " elements");
  const int64_t item = d.m > 0 && d.n > 0 ? (d.m - 1) * d.c_row + d.n : 0;
  SMOLDER_CHECK(d.batch <= 1 || std::abs(d.c_batch_stride) >= item, ValueError,
                "matmul: results of the batch overlap: ", item, " elements each, but a batch stride of ",
                d.c_batch_stride);
  SMOLDER_CHECK(d.dtype != DType::kBool || d.epilogue == MatmulDesc::Epilogue::kNone, NotImplementedError,
                "matmul: a bool product takes no bias");
}

/// A batch that shares B and whose rows follow on is one product with more rows.
MatmulDesc flatten(MatmulDesc d) {
  if (d.batch == 1 || d.b_batch_stride != 0) return d;
  const int64_t a_row = d.m == 1 ? d.a_batch_stride : d.a_row, c_row = d.m == 1 ? d.c_batch_stride : d.c_row;
  if (d.a_batch_stride != d.m * a_row || d.c_batch_stride != d.m * c_row || c_row < d.n) return d;
  d.m *= d.batch, d.batch = 1, d.a_row = a_row, d.c_row = c_row;
  return d;
}

}  // namespace

std::shared_ptr<const Matmul> Matmul::get(const MatmulDesc& desc) {
  check(desc);
  if (desc.batch == 0 || desc.m == 0 || desc.n == 0) return std::make_shared<EmptyMatmul>(desc);
  const MatmulDesc d = flatten(desc);
  if (!is_floating(d.dtype)) return make_integer_matmul(d);
  if (d.dtype == DType::kFloat64) return make_float_matmul<double>(d, gemm::kernels<double>());
  return make_float_matmul<float>(d, gemm::kernels<float>());
}

const char* matmul_isa() { return gemm::kernels<float>().isa; }

}  // namespace smolder::eager
