#include "smolder/autograd/sparse.h"

#include <utility>

#include "smolder/autograd/node.h"
#include "smolder/lazy/ops.h"  // generated

namespace smolder::autograd {
namespace {

void check_coo(const SparseParts& parts) {
  SMOLDER_CHECK(parts.layout == SparseLayout::kCoo, NotImplementedError,
                "a sum of gradients of a sparse compressed layout is not supported");
}

Tensor both(const Tensor& a, const SparseParts& of_a, const Tensor& b, const SparseParts& of_b) {
  check_coo(of_a);
  check_coo(of_b);
  SMOLDER_CHECK(of_a.shape == of_b.shape && of_a.indices[0].size(0) == of_b.indices[0].size(0), RuntimeError,
                "gradients of sizes ", of_a.shape, " and ", of_b.shape, " with ", of_a.indices[0].size(0), " and ",
                of_b.indices[0].size(0), " sparse dimensions have no sum");
  const Tensor out = cat({a, b}, 0);
  mark_sparse(out, std::make_shared<SparseParts>(SparseParts{
                       SparseLayout::kCoo, {cat({of_a.indices[0], of_b.indices[0]}, 1)}, of_a.shape, false}));
  return out;
}

Tensor into_dense(const Tensor& dense, const Tensor& values, const SparseParts& parts) {
  check_coo(parts);
  const Tensor& indices = parts.indices[0];
  const auto sparse_dims = static_cast<int>(indices.size(0));
  if (sparse_dims == 1) return index_add(dense, 0, select(indices, 0, 0), values);
  Dims rows = {1};
  Tensor place = zeros({indices.size(1)}, indices.dtype());
  for (int i = 0; i < sparse_dims; ++i) {
    place = place * parts.shape[i] + select(indices, 0, i);
    rows[0] *= parts.shape[i];
  }
  for (int i = sparse_dims; i < parts.shape.size(); ++i) rows.push_back(parts.shape[i]);
  return reshape(index_add(reshape(dense, rows), 0, place, values), parts.shape);
}

}  // namespace

std::shared_ptr<const SparseParts> sparse_parts(const Tensor& values) {
  const auto* const meta = static_cast<const TensorMeta*>(values.impl()->autograd.get());
  return meta ? meta->sparse : nullptr;
}

void mark_sparse(const Tensor& values, std::shared_ptr<const SparseParts> parts) {
  meta_of(values.impl()).sparse = std::move(parts);
}

const Dims& whole_shape(const Tensor& t) {
  const auto parts = sparse_parts(t);
  return parts ? parts->shape : t.shape();
}

Tensor add_gradients(const Tensor& a, const Tensor& b) {
  const auto of_a = sparse_parts(a), of_b = sparse_parts(b);
  if (!of_a && !of_b) return a + b;
  if (of_a && of_b) return both(a, *of_a, b, *of_b);
  return of_b ? into_dense(a, b, *of_b) : into_dense(b, a, *of_a);
}

}  // namespace smolder::autograd
