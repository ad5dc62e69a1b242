// The primitive dot, through the matrix product of matmul.h.
#include <algorithm>
#include <cstring>

#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/matmul.h"
#include "smolder/eager/cpu/movement.h"
#include "smolder/eager/dispatcher.h"

namespace smolder::eager::cpu {
namespace {

bool is_half_to_float(DType in, DType out) { return is_half(in) && out == DType::kFloat32; }

/// Offset of batch `i` in elements.
int64_t batch_offset(const TensorView& v, int64_t i) {
  int64_t offset = 0;
  for (int a = v.shape.size() - 3; a >= 0; --a) {
    offset += i % v.shape[a] * v.strides[a];
    i /= v.shape[a];
  }
  return offset;
}

/// How many of the last batches of `v` one stride walks, and which.
int64_t walked_batches(const TensorView& v, int64_t& stride) {
  int64_t walked = 1;  // batches of the axes seen so far
  for (int a = v.shape.size() - 3; a >= 0; --a) {
    if (v.shape[a] == 1) continue;
    if (walked == 1) stride = v.strides[a];
    if (v.strides[a] != stride * walked) break;
    walked *= v.shape[a];
  }
  return walked;
}

/// The elements of a bias in order, in memory of `holder` if they do not lie so. Null where there is none.
const void* dense_bias(const TensorView* bias, BufferRef& holder) {
  if (!bias || !bias->data || bias->strides[0] == 1) return bias ? bias->data : nullptr;
  const auto item = static_cast<int64_t>(itemsize(bias->dtype));
  holder = allocate(static_cast<size_t>(bias->shape[0] * item));
  for (int64_t i = 0; i < bias->shape[0]; ++i) {
    std::memcpy(static_cast<char*>(holder->data()) + i * item,
                static_cast<const char*>(bias->data) + i * bias->strides[0] * item, static_cast<size_t>(item));
  }
  return holder->data();
}

void multiply(const TensorView& a, const TensorView& b, const TensorView* bias, const TensorView& c) {
  const int rank = a.shape.size();
  MatmulDesc d;
  d.dtype = a.dtype;
  d.out_dtype = c.dtype;
  d.m = c.shape[rank - 2];
  d.n = c.shape[rank - 1];
  d.k = a.shape[rank - 1];
  d.a_row = a.strides[rank - 2], d.a_col = a.strides[rank - 1];
  d.b_row = b.strides[rank - 2], d.b_col = b.strides[rank - 1];
  d.c_row = c.strides[rank - 2];
  BufferRef holder;
  const void* const added = dense_bias(bias, holder);
  if (added) d.epilogue = MatmulDesc::Epilogue::kBias;
  int64_t batches = 1;
  for (int i = 0; i < rank - 2; ++i) batches *= c.shape[i];
  if (batches == 0 || d.m == 0 || d.n == 0) return;
  // Each walks whole axes, so that the least of them divides the others.
  d.batch = std::min(
      {walked_batches(a, d.a_batch_stride), walked_batches(b, d.b_batch_stride), walked_batches(c, d.c_batch_stride)});
  const auto at = [](const TensorView& v, int64_t i) {
    return static_cast<char*>(v.data) + batch_offset(v, i) * static_cast<int64_t>(itemsize(v.dtype));
  };
  const auto product = Matmul::get(d);
  for (int64_t i = 0; i < batches; i += d.batch) product->run(at(a, i), at(b, i), at(c, i), added);
}

}  // namespace

void run_dot(const KernelCall& call) {
  const TensorView &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  const TensorView* const bias = call.inputs.size() > 2 ? &call.inputs[2] : nullptr;
  const int last = out.shape.size() - 1;
  const bool direct_dtype = out.dtype == a.dtype || is_half_to_float(a.dtype, out.dtype);
  if (direct_dtype && (out.strides[last] == 1 || out.shape[last] == 1)) return multiply(a, b, bias, out);
  // The product's own result type, row-major; then converted and placed.
  const DType dtype = direct_dtype ? out.dtype : is_half(a.dtype) ? DType::kFloat32 : a.dtype;
  const BufferRef scratch = allocate(static_cast<size_t>(numel(out.shape)) * itemsize(dtype));
  const TensorView plain{scratch->data(), dtype, out.shape, contiguous_strides(out.shape)};
  multiply(a, b, bias, plain);
  const int64_t to = static_cast<int64_t>(out.dtype);
  run_cast({ir::Op::kCast, {&plain, 1}, {&out, 1}, {&to, 1}, call.errors});
}

}  // namespace smolder::eager::cpu
