// Fourier transforms, by pocketfft: rows of an axis side by side in vector registers, so that bits depend neither on
// how many there are nor on threads. Its plans, which are tables of roots of unity and factors, are kept by length.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/movement.h"
#include "smolder/ir/attrs.h"

#define POCKETFFT_NO_MULTITHREADING  // the threads are ours
#define POCKETFFT_CACHE_SIZE 64
#pragma GCC visibility push(hidden)  // another library's may be in the process
#if __has_include(<pocketfft_hdronly.h>)
#include <pocketfft_hdronly.h>
#else
#include <pocketfft.h>
#endif
#pragma GCC visibility pop

namespace smolder::eager::cpu {
namespace {

using pocketfft::shape_t;
using pocketfft::stride_t;

/// Elements that a task transforms at least: some 20 microseconds' work.
constexpr int64_t kTaskElements = 16384;
/// Rows that pocketfft takes side by side at most.
constexpr int64_t kRowsAtOnce = 8;

/// A view of complex or of real numbers as pocketfft wants it: strides in bytes.
template <class E>
struct Side {
  E* data;
  stride_t strides;

  Side(const TensorView& v, int rank) : data(static_cast<E*>(v.data)) {
    const auto item = static_cast<int64_t>(itemsize(v.dtype));
    for (int a = 0; a < rank; ++a) strides.push_back(v.strides[a] * item);
  }
  E* at(int axis, int64_t i) const {
    using Byte = std::conditional_t<std::is_const_v<E>, const char, char>;
    return reinterpret_cast<E*>(reinterpret_cast<Byte*>(data) + i * strides[axis]);
  }
};

/// Calls `f(part, axis, begin)` for parts of `shape`, several at once: from `begin` on along an axis other than
/// `along`.
void for_parts(const shape_t& shape, int along, auto&& f) {
  int most = -1;
  int64_t elements = 1;
  for (int a = 0; a < static_cast<int>(shape.size()); ++a) {
    elements *= static_cast<int64_t>(shape[a]);
    if (a != along && (most < 0 || shape[a] > shape[most])) most = a;
  }
  if (most < 0 || elements <= kTaskElements) return f(shape, along, 0);
  const auto n = static_cast<int64_t>(shape[most]);
  const int64_t each = elements / n, rows = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(each, 1));
  const int64_t grain = std::min(n, (rows + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce);
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    shape_t part = shape;
    part[most] = static_cast<size_t>(end - begin);
    f(part, most, begin);
  });
}

/// One axis after another, the first from `in` to `out` and the others in place. The first scales.
template <class T, class In>
void transform_complex(const shape_t& shape, const Dims& axes, bool forward, T scale, const Side<In>& in,
                       const Side<std::complex<T>>& out) {
  for (int i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<int>(axes[i]);
    for_parts(shape, axis, [&](const shape_t& part, int along, int64_t begin) {
      const std::complex<T>* const from = i == 0 ? in.at(along, begin) : out.at(along, begin);
      pocketfft::c2c(part, i == 0 ? in.strides : out.strides, out.strides, {static_cast<size_t>(axis)}, forward, from,
                     out.at(along, begin), i == 0 ? scale : T(1));
    });
  }
}

struct Words {
  Dims dim;
  int64_t normalization;
  bool forward;
  explicit Words(const KernelCall& call) {
    ir::AttrReader words(call.attrs);
    dim = words.integers();
    normalization = words.integer();
    if (call.op == ir::Op::kFftC2r) words.size();
    forward = words.boolean();
  }
};

template <class T>
T scale_of(const Words& w, const Dims& shape) {
  double count = 1;
  for (const int64_t a : w.dim) count *= static_cast<double>(shape[static_cast<int>(a)]);
  return static_cast<T>(w.normalization == 0 ? 1 : w.normalization == 1 ? 1 / std::sqrt(count) : 1 / count);
}

template <class T>
void run(const KernelCall& call) {
  using Complex = std::complex<T>;
  const Words w(call);
  const bool from_real = call.op == ir::Op::kFftR2c, to_real = call.op == ir::Op::kFftC2r;
  BufferRef holder;
  TensorView x = call.inputs[0];
  const TensorView& y = call.outputs[0];
  if (!from_real && x.strides.back() != 1) x = contiguous(x, holder);
  const int rank = from_real ? x.shape.size() : y.shape.size() - (to_real ? 0 : 1);
  const Dims& real_shape = from_real ? x.shape : y.shape;
  const T scale = scale_of<T>(w, real_shape);
  const auto last = static_cast<int>(w.dim.back());
  const shape_t shape(real_shape.begin(), real_shape.begin() + rank);
  shape_t half = shape;
  half[last] = half[last] / 2 + 1;
  Dims others = w.dim;
  others.pop_back();
  if (!from_real && !to_real) {
    return transform_complex<T>(shape, w.dim, w.forward, scale, Side<const Complex>(x, rank), Side<Complex>(y, rank));
  }
  if (from_real) {
    const Side<const T> in(x, rank);
    const Side<Complex> out(y, rank);
    for_parts(shape, last, [&](const shape_t& part, int along, int64_t begin) {
      pocketfft::r2c(part, in.strides, out.strides, static_cast<size_t>(last), w.forward, in.at(along, begin),
                     out.at(along, begin), scale);
    });
    return transform_complex<T>(half, others, w.forward, T(1), out, out);
  }
  BufferRef between;
  if (!others.empty()) {
    TensorView z = x;
    between = allocate(static_cast<size_t>(numel(x.shape)) * sizeof(T));
    z.data = between->data();
    z.strides = contiguous_strides(x.shape);
    transform_complex<T>(half, others, w.forward, T(1), Side<const Complex>(x, rank), Side<Complex>(z, rank));
    x = z;
  }
  const Side<const Complex> in(x, rank);
  const Side<T> out(y, rank);
  for_parts(shape, last, [&](const shape_t& part, int along, int64_t begin) {
    pocketfft::c2r(part, in.strides, out.strides, static_cast<size_t>(last), w.forward, in.at(along, begin),
                   out.at(along, begin), scale);
  });
}

}  // namespace

void run_transform(const KernelCall& call) {
  const DType t = call.inputs[0].dtype;
  SMOLDER_INVARIANT(t == DType::kFloat32 || t == DType::kFloat64);
  const TensorView& out = call.outputs[0];
  if (numel(out.shape) == 0) return;
  TensorView dense = out;
  BufferRef holder;
  const bool copied = call.op != ir::Op::kFftC2r && out.strides.back() != 1;  // the parts of a number lie apart
  if (copied) {
    holder = allocate(static_cast<size_t>(numel(out.shape)) * itemsize(t));
    dense.data = holder->data();
    dense.strides = contiguous_strides(out.shape);
  }
  const KernelCall to_dense{call.op, call.inputs, {&dense, 1}, call.attrs, call.errors};
  t == DType::kFloat32 ? run<float>(to_dense) : run<double>(to_dense);
  if (copied) copy(dense, out);
}

}  // namespace smolder::eager::cpu
