// Attention and its gradient, by cuDNN.
#pragma once

#include <memory>

#include "smolder/eager/cuda/cudnn_graph.h"

namespace smolder::eager::cuda {

/// A matrix for each batch and head: [batch, heads, rows, width].
struct DnnMatrix {
  Dims shape, strides;
};

/// The attention that is computed, in a half precision. Its scale is a float32 that each run is given.
struct DnnAttention {
  DType dtype = DType::kBFloat16;
  bool is_causal = false;  ///< a query sees keys up to its own position
  bool backward = false;
  DnnMatrix query, key, value, result;
  DnnMatrix lse;                                     ///< float32: the logsumexp of each row, of width 1
  DnnMatrix grad, grad_query, grad_key, grad_value;  ///< of the backward alone

  std::shared_ptr<const DnnPlan> plan(const DnnTarget& target, const DnnAllowed& allowed) const;
  /// The same for a device, as `dnn_plan`. There is none for a backward that must give the same bits in each run: it
  /// adds in any order.
  std::shared_ptr<const DnnPlan> plan(int device) const;
  /// Queues it. `data`: addresses of the members from `query` to `lse`, or to `grad_value`.
  void run(const DnnPlan& plan, std::span<void* const> data, float scale, int device) const;
};

}  // namespace smolder::eager::cuda
