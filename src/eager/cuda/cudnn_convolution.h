// Convolutions of images and their gradients, by cuDNN.
#pragma once

#include <memory>

#include "smolder/eager/cuda/cudnn_graph.h"

namespace smolder::eager::cuda {

/// The convolution that is computed, of row-major tensors.
struct DnnConvolution {
  DnnKind kind = DnnKind::kConvolutionForward;  ///< or kConvolutionInput, kConvolutionWeight
  DType dtype = DType::kFloat32;                ///< or a half precision; sums are in float32
  Dims x, w, y;                                 ///< shapes of the images, the filters and what comes out
  Dims stride, padding, dilation;

  /// A run is given the addresses of x, w and y.
  std::shared_ptr<const DnnPlan> plan(const DnnTarget& target, const DnnAllowed& allowed) const;
  /// The same for a device, as `dnn_plan`.
  std::shared_ptr<const DnnPlan> plan(int device) const;
};

}  // namespace smolder::eager::cuda
