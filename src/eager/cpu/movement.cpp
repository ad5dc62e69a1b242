#include "smolder/eager/cpu/movement.h"

#include <algorithm>

#include "smolder/core/scalar.h"
#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/blocks.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/strided.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/eager/view.h"
#include "smolder/ir/attrs.h"

namespace smolder::eager::cpu {
namespace {

/// Elements a side of the squares that a transposition works in: both sides' cache lines fit the first level.
constexpr int64_t kTile = 32;

/// One axis of a copy: its extent and its stride on both sides.
struct CopyAxis {
  int64_t extent, from, to;
};

/// Copies a matrix whose rows lie side by side in `to`, and whose columns do in `from`.
template <class T>
void transpose(const T* from, T* to, const CopyAxis& row, const CopyAxis& column) {
  for (int64_t r = 0; r < row.extent; r += kTile) {
    const int64_t r_end = std::min(r + kTile, row.extent);
    for (int64_t c = 0; c < column.extent; c += kTile) {
      const int64_t c_end = std::min(c + kTile, column.extent);
      for (int64_t i = r; i < r_end; ++i) {
        for (int64_t j = c; j < c_end; ++j) to[i * row.to + j * column.to] = from[i * row.from + j * column.from];
      }
    }
  }
}

/// When the copy is a batch of transpositions, does it and returns true. Read in the order of `to`, such a source
/// costs a cache line an element.
bool copy_transposed(const TensorView& from, const TensorView& to) {
  const int rank = to.shape.size();
  if (!(from.shape == to.shape) || rank < 2 || to.strides[rank - 1] != 1 || to.shape[rank - 1] < kTile) return false;
  const CopyAxis column{to.shape[rank - 1], from.strides[rank - 1], 1};
  int a = rank - 2;
  while (a >= 0 && (from.strides[a] != 1 || to.shape[a] < kTile)) --a;
  if (a < 0 || column.from == 1) return false;
  const CopyAxis row{to.shape[a], 1, to.strides[a]};

  TensorView rest_from = from, rest_to = to;  // the batch
  for (int axis : {rank - 1, a}) {
    for (TensorView* v : {&rest_from, &rest_to}) v->shape.erase(axis), v->strides.erase(axis);
  }
  const int64_t batch = numel(rest_to.shape), bands = (row.extent + kTile - 1) / kTile;
  parallel_for(batch * bands, std::max<int64_t>(1, kGrain / (kTile * column.extent)), [&](int64_t begin, int64_t end) {
    with_item_type(itemsize(to.dtype), [&]<class T>(T) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t band = i % bands * kTile;
        const CopyAxis part{std::min(kTile, row.extent - band), row.from, row.to};
        const auto at = [&](const TensorView& v, int64_t stride) {
          int64_t rest = i / bands, offset = band * stride;
          for (int axis = v.shape.size() - 1; axis >= 0; --axis) {
            offset += rest % v.shape[axis] * v.strides[axis];
            rest /= v.shape[axis];
          }
          return static_cast<T*>(v.data) + offset;
        };
        transpose<T>(at(rest_from, row.from), at(rest_to, row.to), part, column);
      }
    });
  });
  return true;
}

}  // namespace

void copy(const TensorView& from, const TensorView& to) {
  SMOLDER_INVARIANT(from.dtype == to.dtype && numel(from.shape) == numel(to.shape));
  if (from.data == to.data && is_contiguous(from.shape, from.strides) && is_contiguous(to.shape, to.strides)) return;
  if (copy_transposed(from, to)) return;
  const Sequence in(from), out(to);
  parallel_for(numel(to.shape), kGrain, [&](int64_t begin, int64_t end) {
    if (void* at = out.direct(begin, end - begin)) return in.read(begin, end - begin, at);
    if (const void* at = in.direct(begin, end - begin)) return out.write(begin, end - begin, at);
    alignas(64) char block[kBlock * sizeof(double)];
    for (; begin < end; begin += kBlock) {
      const int64_t count = std::min(kBlock, end - begin);
      in.read(begin, count, block);
      out.write(begin, count, block);
    }
  });
}

void fill(const TensorView& to, Scalar v) {
  const uint64_t bits = v.bits();
  uint64_t element = 0;
  cast_fn(v.category() == Category::kFloat ? DType::kFloat64 : DType::kInt64, to.dtype)(&bits, &element, 1);
  TensorView from = to;
  from.data = &element;
  from.strides = Dims::filled(to.shape.size(), 0);
  copy(from, to);
}

TensorView contiguous(const TensorView& v, BufferRef& holder) {
  if (is_contiguous(v.shape, v.strides)) return v;
  holder = allocate(static_cast<size_t>(numel(v.shape)) * itemsize(v.dtype));
  const TensorView out{holder->data(), v.dtype, v.shape, contiguous_strides(v.shape)};
  copy(v, out);
  return out;
}

TensorView part(TensorView v, int axis, int64_t start, int64_t extent) {
  v.data = static_cast<char*>(v.data) + start * v.strides[axis] * static_cast<int64_t>(itemsize(v.dtype));
  v.shape[axis] = extent;
  return v;
}

void run_view(const KernelCall& call) {
  const TensorView &in = call.inputs[0], &out = call.outputs[0];
  if (in.weak) {  // a barrier of a number
    std::memcpy(out.data, in.data, sizeof(uint64_t));
    return;
  }
  // A reshape that needs a copy is one in row-major order, as `copy` does.
  copy(view_of(call.op, in, call.attrs, out.shape).value_or(in), out);
}

void run_pad(const KernelCall& call) {
  const TensorView &in = call.inputs[0], &out = call.outputs[0];
  ir::AttrReader attrs(call.attrs);
  const Dims low = attrs.sizes();
  attrs.sizes();
  fill(out, attrs.real());
  TensorView inside = out;
  for (int a = 0; a < in.shape.size(); ++a) inside = part(inside, a, low[a], in.shape[a]);
  copy(in, inside);
}

void run_slice_write(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &source = call.inputs[1], &out = call.outputs[0];
  ir::AttrReader attrs(call.attrs);
  const Dims starts = attrs.sizes(), steps = attrs.integers();
  copy(x, out);
  TensorView window = out;
  for (int a = 0; a < source.shape.size(); ++a) {
    window = part(window, a, starts[a], source.shape[a]);
    window.strides[a] *= steps[a];
  }
  copy(source, window);
}

void run_cat(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const int axis = normalize_axis(call.attrs[0], out.shape.size());
  int64_t at = 0;
  for (const TensorView& in : call.inputs) {
    copy(in, part(out, axis, at, in.shape[axis]));
    at += in.shape[axis];
  }
}

}  // namespace smolder::eager::cpu
