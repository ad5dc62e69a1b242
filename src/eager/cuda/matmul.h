// Matrix products on a device, by cuBLASLt.
#pragma once

#include <memory>

#include "smolder/core/cuda/queue.h"
#include "smolder/eager/cpu/matmul.h"

namespace smolder::eager::cuda {

/// Whether cuBLASLt says this product: floats, rows or columns of each operand contiguous, no relu.
bool can_multiply(const MatmulDesc& desc);

/// A product whose algorithm is chosen, by cuBLASLt's heuristic from sizes and dtypes, and where it can from them
/// alone: equal descriptions give equal bits, and so do operands that lie otherwise. float32 is multiplied in float32,
/// or as TF32 where `precision()` allows it; halves are summed in float32, partial sums in halves where that allows it.
class DeviceMatmul {
 public:
  /// `adds`: to what C holds. Throws RuntimeError naming the package to install when there is no cuBLASLt,
  /// NotImplementedError when it has no algorithm.
  static std::shared_ptr<const DeviceMatmul> get(const MatmulDesc& desc, int device, bool adds = false);
  virtual ~DeviceMatmul() = default;
  /// Queues the product. C overlaps neither A nor B. The bias, which is read where the description has one, starts at a
  /// multiple of 16 bytes.
  virtual void run(const void* a, const void* b, const void* bias, void* c) const = 0;
};

}  // namespace smolder::eager::cuda
