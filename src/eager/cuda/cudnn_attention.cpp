#include "smolder/eager/cuda/cudnn_attention.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"

namespace smolder::eager::cuda {
namespace {

using Tensor = DnnGraph::Tensor;

/// The operations are those that cuDNN knows as attention, in its order: other ways to say the same it would not take.
class Attention {
 public:
  explicit Attention(const DnnAttention& a) : a_(a), data_(dnn_data(a.dtype)) {
    scores_ = a.query.shape;
    scores_[3] = a.key.shape[2];
    rows_ = a.lse.shape;
    // The inputs of a run come first, in its order.
    query_ = in_memory(a.query);
    key_ = transposed(a.key);
    value_ = a.backward ? transposed(a.value) : in_memory(a.value);
    result_ = in_memory(a.result);
    lse_ = graph_.tensor(DnnData::kFloat32, a.lse.shape, a.lse.strides);
    if (a.backward) {
      grad_ = in_memory(a.grad);
      grad_query_ = in_memory(a.grad_query);
      grad_key_ = in_memory(a.grad_key);
      grad_value_ = in_memory(a.grad_value);
      sums_ = graph_.tensor(DnnData::kFloat32, a.query.shape, contiguous_strides(a.query.shape));
      deltas_ = graph_.tensor(DnnData::kFloat32, rows_, contiguous_strides(rows_));
    }
    scale_ = graph_.number(4);
    one_ = a.backward ? graph_.number(4) : 0;
    if (a.is_causal) nothing_ = graph_.number(4);
  }

  const DnnGraph& forward() {
    const Tensor p = masked(product(query_, key_, scores_, scale_));
    const Tensor most = inner(rows_), sum = inner(rows_), log = inner(rows_);
    graph_.reduce(DnnReduction::kMax, p, most);
    const Tensor weights = of(DnnPointwise::kExp, of(DnnPointwise::kSubtract, p, most));
    graph_.reduce(DnnReduction::kAdd, weights, sum);
    graph_.pointwise(DnnPointwise::kLog, sum, log);
    graph_.pointwise(DnnPointwise::kAdd, most, lse_, log);
    const Tensor rounded = graph_.inner(data_, scores_);
    graph_.pointwise(DnnPointwise::kDivide, weights, rounded, sum);
    graph_.matmul(rounded, value_, result_);
    return graph_;
  }

  const DnnGraph& backward() {
    const Tensor products = inner(a_.grad.shape), delta = inner(rows_);
    graph_.pointwise(DnnPointwise::kMultiply, grad_, products, result_);
    graph_.reduce(DnnReduction::kAdd, products, delta);
    graph_.pointwise(DnnPointwise::kMultiply, delta, deltas_, one_);
    const Tensor scores = product(query_, key_, scores_, scale_);
    const Tensor p = of(DnnPointwise::kExp, masked(of(DnnPointwise::kSubtract, scores, lse_)));
    graph_.matmul(turned(p), grad_, grad_value_);
    const Tensor weights = inner(scores_);
    graph_.matmul(grad_, value_, weights);
    const Tensor ds = of(DnnPointwise::kMultiply,
                         of(DnnPointwise::kMultiply, of(DnnPointwise::kSubtract, weights, deltas_), p), scale_);
    graph_.matmul(turned(ds), query_, grad_key_);
    const Tensor key = graph_.inner(DnnData::kFloat32, a_.key.shape, a_.key.strides);
    graph_.reshape(key_, key);
    graph_.matmul(ds, key, sums_);
    graph_.pointwise(DnnPointwise::kIdentity, sums_, grad_query_);
    return graph_;
  }

 private:
  Tensor in_memory(const DnnMatrix& m) { return graph_.tensor(data_, m.shape, m.strides); }
  Tensor transposed(DnnMatrix m) {
    std::swap(m.shape[2], m.shape[3]);
    std::swap(m.strides[2], m.strides[3]);
    return in_memory(m);
  }
  Tensor inner(const Dims& shape) { return graph_.inner(DnnData::kFloat32, shape); }
  /// Appends f(x) or f(x, b) of scores.
  Tensor of(DnnPointwise mode, Tensor x, std::optional<Tensor> b = {}) {
    const Tensor y = inner(scores_);
    graph_.pointwise(mode, x, y, b);
    return y;
  }
  Tensor product(Tensor a, Tensor b, const Dims& shape, Tensor scale) {
    const Tensor c = inner(shape);
    graph_.matmul(a, b, c);
    return of(DnnPointwise::kMultiply, c, scale);
  }
  Tensor masked(Tensor x) {
    if (!nothing_) return x;
    const Tensor row = graph_.inner(DnnData::kInt32, scores_), column = graph_.inner(DnnData::kInt32, scores_);
    graph_.index(x, row, 2);
    graph_.index(x, column, 3);
    const Tensor seen = graph_.inner(DnnData::kBoolean, scores_), y = inner(scores_);
    graph_.pointwise(DnnPointwise::kGreaterEqual, row, seen, column);
    graph_.pointwise(DnnPointwise::kSelect, x, y, nothing_, seen);
    return y;
  }
  /// Rounded scores, whose rows are keys'.
  Tensor turned(Tensor x) {
    Dims shape = scores_, strides = contiguous_strides(scores_);
    std::swap(shape[2], shape[3]);
    std::swap(strides[2], strides[3]);
    const Tensor y = graph_.inner(data_, shape, strides);
    graph_.reshape(x, y);
    return y;
  }

  const DnnAttention& a_;
  const DnnData data_;
  DnnGraph graph_;
  Dims scores_, rows_;
  Tensor query_, scale_, key_, value_, result_, lse_;
  Tensor grad_ = 0, grad_query_ = 0, grad_key_ = 0, grad_value_ = 0, sums_ = 0, deltas_ = 0, one_ = 0;
  std::optional<Tensor> nothing_;  ///< what exp makes zero of
};

}  // namespace

std::shared_ptr<const DnnPlan> DnnAttention::plan(const DnnTarget& target, const DnnAllowed& allowed) const {
  Attention graph(*this);
  return (backward ? graph.backward() : graph.forward()).plan(target, allowed);
}

std::shared_ptr<const DnnPlan> DnnAttention::plan(int device) const {
  if (backward && !dnn_allowed().nondeterministic) return nullptr;
  std::vector<int64_t> key{static_cast<int64_t>(DnnKind::kMatmul), static_cast<int64_t>(dtype), is_causal, backward};
  for (const DnnMatrix* m : {&query, &this->key, &value, &result, &lse, &grad, &grad_query, &grad_key, &grad_value}) {
    key.insert(key.end(), m->shape.begin(), m->shape.end());
    key.insert(key.end(), m->strides.begin(), m->strides.end());
  }
  return dnn_plan(device, std::move(key),
                  [this](const DnnTarget& target, const DnnAllowed& allowed) { return plan(target, allowed); });
}

void DnnAttention::run(const DnnPlan& plan, std::span<void* const> data, float scale, int device) const {
  smolder::cuda::Stream& stream = smolder::cuda::Queue::of(device).stream();
  const auto temporary = [&](int64_t bytes) {
    return smolder::cuda::allocate_temporary(static_cast<size_t>(bytes), device);
  };
  std::vector<void*> all(data.begin(), data.end());
  BufferRef sums, deltas;
  if (backward) {
    const int64_t bytes = numel(query.shape) * 4;
    sums = temporary(bytes);
    deltas = temporary(numel(lse.shape) * 4);
    smolder::cuda::fill(stream, sums->data(), 0, static_cast<size_t>(bytes));
    all.insert(all.end(), {sums->data(), deltas->data()});
  }
  float one = 1, nothing = -std::numeric_limits<float>::infinity();
  all.push_back(&scale);
  if (backward) all.push_back(&one);
  if (is_causal) all.push_back(&nothing);
  const BufferRef workspace = temporary(plan.workspace_bytes());
  plan.run(all, workspace->data(), stream.handle());
}

}  // namespace smolder::eager::cuda
