// The CPU matrix product, for every dtype: decided once, held in a plan, run on the pool's threads.
#pragma once

#include <cstdint>
#include <memory>

#include "smolder/core/dtype.h"

namespace smolder::eager {

/// One batched product C[b] = A[b] (m x k) * B[b] (k x n), then the epilogue. Strides are in elements and may
/// be anything, zero and negative included; C's columns are contiguous.
struct MatmulDesc {
  enum class Epilogue : uint8_t {
    kNone,
    kBias,      ///< adds bias[n]
    kBiasRelu,  ///< adds bias[n], then takes relu, which keeps nan and -0
  };

  DType dtype = DType::kFloat32;      ///< of A and B
  DType out_dtype = DType::kFloat32;  ///< of C and the bias: `dtype`, or float32 where `dtype` is a half
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t a_batch_stride = 0, a_row = 0, a_col = 1;
  int64_t b_batch_stride = 0, b_row = 0, b_col = 1;
  int64_t c_batch_stride = 0, c_row = 0;
  Epilogue epilogue = Epilogue::kNone;
};

/// A product whose strategy is decided: immutable, safe to run from several threads at once.
///
/// Floats are sums of fused multiply-adds in the order of k within chunks of 512, the chunks added in order;
/// halves are summed in float32 and rounded once, after the epilogue. So an element's bits depend on its
/// row of A, its column of B and k, and on nothing else: not on the number of threads, the batch or rows
/// beside it, the layout of the operands or the vector width of the machine (one that has fused
/// multiply-adds). Integers wrap around; bool is the OR of ANDs. k == 0 gives zeros, then the epilogue.
class Matmul {
 public:
  /// Checks the description and chooses the strategy, in about a microsecond: nothing is compiled, nothing
  /// need be cached. Throws ValueError for sizes and strides that describe no product, TypeError for
  /// `out_dtype`, NotImplementedError for an epilogue of bool.
  static std::shared_ptr<const Matmul> get(const MatmulDesc& desc);
  virtual ~Matmul() = default;

  /// `bias` is read only where the epilogue names it. C must not overlap A, B or the bias. Throws
  /// OutOfMemoryError when there is none for packing (at most 16 MiB a thread, more where k is huge).
  virtual void run(const void* a, const void* b, void* c, const void* bias) const = 0;

  const MatmulDesc& desc() const { return desc_; }

 protected:
  explicit Matmul(const MatmulDesc& desc) : desc_(desc) {}
  MatmulDesc desc_;
};

namespace gemm {
template <class T>
struct Kernels;
}

/// The choices of Matmul::get, for descriptions that are valid and not empty: float32 and the halves with T = float,
/// float64 with T = double.
template <class T>
std::shared_ptr<const Matmul> make_float_matmul(const MatmulDesc& desc, const gemm::Kernels<T>& kernels);
/// bool and the integers.
std::shared_ptr<const Matmul> make_integer_matmul(const MatmulDesc& desc);

/// Instruction set of the floating-point kernels in use: "avx512", "avx2" or "portable".
const char* matmul_isa();

}  // namespace smolder::eager
