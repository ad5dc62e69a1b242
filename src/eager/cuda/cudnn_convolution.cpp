#include "smolder/eager/cuda/cudnn_convolution.h"

#include <utility>

namespace smolder::eager::cuda {

std::shared_ptr<const DnnPlan> DnnConvolution::plan(const DnnTarget& target, const DnnAllowed& allowed) const {
  DnnGraph graph;
  const DnnData data = dnn_data(dtype);
  const auto tensor = [&](const Dims& shape) { return graph.tensor(data, shape, contiguous_strides(shape)); };
  const DnnGraph::Tensor images = tensor(x), filters = tensor(w), out = tensor(y);
  graph.convolution(kind, images, filters, out, stride, padding, dilation);
  return graph.plan(target, allowed);
}

std::shared_ptr<const DnnPlan> DnnConvolution::plan(int device) const {
  if (dtype != DType::kFloat32 && !is_half(dtype)) return nullptr;
  if (numel(x) == 0 || numel(w) == 0 || numel(y) == 0) return nullptr;
  std::vector<int64_t> key{static_cast<int64_t>(kind), static_cast<int64_t>(dtype)};
  for (const Dims* d : {&x, &w, &y, &stride, &padding, &dilation}) key.insert(key.end(), d->begin(), d->end());
  return dnn_plan(device, std::move(key),
                  [this](const DnnTarget& target, const DnnAllowed& allowed) { return plan(target, allowed); });
}

}  // namespace smolder::eager::cuda
