// Epilogues of a product where cuBLASLt has none.
#pragma once

#include "smolder/eager/cpu/matmul.h"
#include "smolder/jit/cuda/native/device.h"

namespace smolder::jit::cuda {

/// Adds a bias, and takes relu, as `result` says, of what `sums` describes.
class ProductFinish {
 public:
  ProductFinish(NativeDevice& device, const eager::MatmulDesc& sums, const eager::MatmulDesc& result);
  /// A null bias: it was added. The result may be in the place of the sums.
  void run(const void* sums, const void* bias, void* c) const;

 private:
  eager::MatmulDesc sums_, result_;
  NativeRef kernel_;
};

}  // namespace smolder::jit::cuda
