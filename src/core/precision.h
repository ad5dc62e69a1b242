// How exact the products and convolutions of a device's libraries have to be.
#pragma once

#include <cstdint>

namespace smolder {

/// torch's words for products of float32: kHigh allows TensorFloat32, kMedium the same.
enum class MatmulPrecision : uint8_t { kHighest, kHigh, kMedium };

/// Settings of the process, under torch's names and with its defaults. A plan depends on them where a library computes
/// for it; the kernels that are our own, and all of the CPU's, compute in full precision whatever they say.
struct Precision {
  MatmulPrecision float32_matmul = MatmulPrecision::kHighest;
  /// Whether a product of halves may add partial sums in its own dtype.
  bool allow_fp16_reduced_precision_reduction = true;
  bool allow_bf16_reduced_precision_reduction = true;
  /// Settings of cuDNN. Its plans give the same bits in each run, but for those of `benchmark` without `deterministic`.
  bool cudnn_enabled = true;
  bool cudnn_allow_tf32 = true;
  bool cudnn_benchmark = false;
  bool cudnn_deterministic = false;

  /// Whether float32 may be multiplied as TensorFloat32.
  bool allow_tf32() const { return float32_matmul != MatmulPrecision::kHighest; }
  friend bool operator==(const Precision&, const Precision&) = default;
};

Precision precision();
/// Holds from the next step on.
void set_precision(const Precision& p);

}  // namespace smolder
