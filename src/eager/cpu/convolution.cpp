// The primitives of convolution, as matrix products over tiles of columns (columns.h). Each thread has the columns of
// one tile at a time, so working memory does not grow with the images; only the bits of the weight gradient depend on
// tiles, which follow from sizes alone.
#include <cstring>
#include <vector>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/columns.h"
#include "smolder/eager/cpu/indices.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/matmul.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/ir/attrs.h"

namespace smolder::eager::cpu {
namespace {

/// Bytes of a tile's columns, unless that were too few positions for the filters: written and read again in the
/// second-level cache, and few enough to be multiplied as they lie.
constexpr int64_t kTileBytes = 384 << 10;
/// Fewest and most positions of a tile.
constexpr int64_t kFewestPositions = 256, kMostPositions = 1024;
/// Filters of a single channel below which no product is worth its columns.
constexpr int64_t kFewFilters = 4;
/// Positions summed at once, rows of the columns that one task sums, tasks aimed at, and bytes of sums that tasks may
/// keep apart, in the gradient of the weight.
constexpr int64_t kSumPositions = 512, kSumRows = 256, kSumTasks = 64, kSumBytes = 16 << 20;
/// Bytes of columns that a task of the input's gradient makes at a time.
constexpr int64_t kScatterBytes = 256 << 10;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

DType wide(DType t) { return is_half(t) ? DType::kFloat32 : t; }

/// The sizes of `call`, whose arrays are the input's, the weight's and the output's shapes.
ConvShape shape_of(const Dims& x, const Dims& w, const Dims& y, std::span<const int64_t> attrs, bool sized) {
  ir::AttrReader words(attrs);
  if (sized) words.sizes();
  const Dims stride = words.integers(), padding = words.integers(), dilation = words.integers();
  ConvShape s;
  s.images = x[0], s.channels = x[1], s.height = x[2], s.width = x[3];
  s.filters = w[0], s.kernel_h = w[2], s.kernel_w = w[3];
  s.out_h = y[2], s.out_w = y[3];
  s.stride_h = stride[0], s.stride_w = stride[1];
  s.pad_h = padding[0], s.pad_w = padding[1];
  s.dilation_h = dilation[0], s.dilation_w = dilation[1];
  s.groups = words.integer();
  return s;
}

template <class E>
Images<E> images_of(const TensorView& v) {
  return {static_cast<E*>(v.data), v.strides[0], v.strides[1], v.strides[2], v.strides[3]};
}

/// Calls `f(E{})` with the unsigned integer as wide as an element: enough to move it, and zero is zero.
void with_bits(DType t, auto&& f) {
  with_item_type(itemsize(t), [&]<class E>(E) {
    if constexpr (sizeof(E) > 1) f(E{});
  });
}

/// Calls f(i) for each task, on several threads where there are enough; else what f calls may be shared by them.
void for_tasks(int64_t tasks, auto f) {
  if (tasks < num_threads()) {
    for (int64_t i = 0; i < tasks; ++i) f(i);
  } else {
    parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i);
    });
  }
}

/// Products that differ in two sizes alone, each of which has two values at most; made before threads share them.
class Products {
 public:
  Products(int64_t a, int64_t last_a, int64_t b, int64_t last_b, auto desc) {
    for (const int64_t i : {a, last_a}) {
      for (const int64_t j : {b, last_b}) {
        if (!find(i, j)) made_.push_back({i, j, Matmul::get(desc(i, j))});
      }
    }
  }
  const Matmul& operator()(int64_t a, int64_t b) const {
    const Matmul* found = find(a, b);
    SMOLDER_INVARIANT(found);
    return *found;
  }

 private:
  const Matmul* find(int64_t a, int64_t b) const {
    for (const Made& m : made_) {
      if (m.a == a && m.b == b) return m.product.get();
    }
    return nullptr;
  }
  struct Made {
    int64_t a, b;
    std::shared_ptr<const Matmul> product;
  };
  std::vector<Made> made_;
};

// -- forward

/// Taps that see the whole image as it is: the columns are the image.
bool is_pointwise(const ConvShape& s, const TensorView& x) {
  return s.taps() == 1 && s.stride_h == 1 && s.stride_w == 1 && s.pad_h == 0 && s.pad_w == 0 && s.out_h == s.height &&
         s.out_w == s.width && (s.width == 1 || x.strides[3] == 1) && (s.height == 1 || x.strides[2] == s.width);
}

void run_pointwise(const ConvShape& s, const TensorView& x, const char* w, char* y) {
  const auto item = static_cast<int64_t>(itemsize(x.dtype));
  MatmulDesc d;
  d.dtype = d.out_dtype = x.dtype;
  d.batch = s.images, d.m = s.group_filters(), d.n = s.positions(), d.k = s.group_channels();
  d.a_row = d.k;
  d.b_batch_stride = x.strides[0], d.b_row = x.strides[1];
  d.c_batch_stride = s.filters * d.n, d.c_row = d.n;
  const auto product = Matmul::get(d);
  for (int64_t g = 0; g < s.groups; ++g) {
    product->run(w + g * d.m * d.k * item, static_cast<const char*>(x.data) + g * d.k * x.strides[1] * item,
                 y + g * d.m * d.n * item, nullptr);
  }
}

/// One channel a filter: too little for a product.
template <class T>
void run_depthwise(const ConvShape& s, const Images<const T>& x, const T* w, T* y) {
  const int64_t grain = std::max<int64_t>(1, kGrain / (s.positions() * s.taps() + 1));
  parallel_for(s.images * s.filters, grain, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t f = plane % s.filters;
      Images<const T> seen = x;
      seen.data += plane / s.filters * x.image + f / s.group_filters() * x.channel;
      sum_taps(s, seen, w + f * s.taps(), y + plane * s.positions());
    }
  });
}

/// Columns by columns: y and w are row-major.
template <class E>
void run_tiled(const ConvShape& s, DType dtype, const Images<const E>& x, const E* w, E* y) {
  const int64_t depth = s.depth(), filters = s.group_filters(), positions = s.positions();
  const int64_t fits =
      std::clamp<int64_t>(kTileBytes / (depth * static_cast<int64_t>(sizeof(E)) + 1), kFewestPositions, kMostPositions);
  const int64_t share = ceil_div(s.images * positions * s.groups, 2 * num_threads());
  const ConvTiling tiles(s, std::clamp(share, kFewestPositions, fits));
  // Several images at once are written to working memory and handed out; else the product writes the result.
  const bool together = tiles[0].images > 1;
  const Products products(tiles.widest(), tiles.last(), 0, 0, [&](int64_t count, int64_t) {
    MatmulDesc d;
    d.dtype = d.out_dtype = dtype;
    d.m = filters, d.n = count, d.k = depth;
    d.a_row = depth, d.b_row = count, d.c_row = together ? count : positions;
    return d;
  });
  for_tasks(tiles.size() * s.groups, [&](int64_t task) {
    const int64_t group = task % s.groups;
    const ConvTile tile = tiles[task / s.groups];
    E* const columns = scratch<E, 30>(depth * tile.count + kTapSlack);
    write_columns(s, x, group * s.group_channels(), s.group_channels(), tile, columns);
    E* const out = y + (tile.image * s.filters + group * filters) * positions + tile.first;
    E* const rows = together ? scratch<E, 31>(filters * tile.count) : out;
    products(tile.count, 0).run(w + group * filters * depth, columns, rows, nullptr);
    if (!together) return;
    for (int64_t i = 0; i < tile.images; ++i) {
      for (int64_t f = 0; f < filters; ++f) {
        const E* from = rows + f * tile.count + i * positions;
        std::copy(from, from + positions, out + (i * s.filters + f) * positions);
      }
    }
  });
}

/// y = x * w, row-major w and y. Pads may be negative and the output may look beyond the input.
void convolve(const ConvShape& s, const TensorView& x, const TensorView& w, const TensorView& y) {
  if (s.images * s.filters * s.positions() == 0) return;
  if (is_pointwise(s, x)) return run_pointwise(s, x, static_cast<const char*>(w.data), static_cast<char*>(y.data));
  const auto depthwise = [&]<class T>(T) {
    run_depthwise(s, images_of<const T>(x), static_cast<const T*>(w.data), static_cast<T*>(y.data));
  };
  const bool few = s.group_channels() == 1 && s.group_filters() <= kFewFilters;
  if (few && x.dtype == DType::kFloat32) return depthwise(float{});
  if (few && x.dtype == DType::kFloat64) return depthwise(double{});
  with_bits(x.dtype, [&]<class E>(E) {
    run_tiled(s, x.dtype, images_of<const E>(x), static_cast<const E*>(w.data), static_cast<E*>(y.data));
  });
}

// -- gradient of the input

/// With steps of one, a convolution of the gradient with the filters turned round.
void convolve_back(const ConvShape& s, const TensorView& dy, const TensorView& w, const TensorView& dx) {
  const int64_t filters = s.group_filters(), channels = s.group_channels(), taps = s.taps();
  const BufferRef turned = allocate(static_cast<size_t>(s.filters * s.depth()) * itemsize(w.dtype));
  with_bits(w.dtype, [&]<class E>(E) {
    const E* from = static_cast<const E*>(w.data);
    for (int64_t f = 0; f < s.filters; ++f) {
      for (int64_t c = 0; c < channels; ++c, from += taps) {
        E* to = static_cast<E*>(turned->data()) + ((f / filters * channels + c) * filters + f % filters) * taps;
        std::reverse_copy(from, from + taps, to);
      }
    }
  });
  ConvShape t = s;
  std::swap(t.channels, t.filters);
  std::swap(t.height, t.out_h);
  std::swap(t.width, t.out_w);
  t.pad_h = s.dilation_h * (s.kernel_h - 1) - s.pad_h;
  t.pad_w = s.dilation_w * (s.kernel_w - 1) - s.pad_w;
  const Dims shape{t.filters, filters, s.kernel_h, s.kernel_w};
  convolve(t, dy, {turned->data(), w.dtype, shape, contiguous_strides(shape)}, dx);
}

template <class T>
void store(const T* from, int64_t count, DType dtype, void* to) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::kFloat16) {
      for (int64_t i = 0; i < count; ++i) static_cast<Float16*>(to)[i] = to_float16(from[i]);
      return;
    }
    if (dtype == DType::kBFloat16) {
      for (int64_t i = 0; i < count; ++i) static_cast<BFloat16*>(to)[i] = to_bfloat16(from[i]);
      return;
    }
  }
  if (from != to) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
}

/// Any steps: the columns of the gradient are products, and are added up where they came from. Row-major arrays. T is
/// what is summed in.
template <class T>
void scatter_back(const ConvShape& s, const TensorView& dy, const TensorView& w, const TensorView& dx) {
  const auto item = static_cast<int64_t>(itemsize(dx.dtype));
  const bool direct = wide(dx.dtype) == dx.dtype;
  const int64_t filters = s.group_filters(), channels = s.group_channels(), plane = s.height * s.width;
  ConvShape one = s;  // tiles of one image
  one.images = 1;
  const ConvTiling tiles(one, kSumPositions);
  const int64_t row_bytes = s.taps() * tiles.widest() * static_cast<int64_t>(sizeof(T));
  const int64_t block = std::clamp<int64_t>(kScatterBytes / (row_bytes + 1), 1, channels);
  const int64_t blocks = ceil_div(channels, block);
  const Products products(block, channels - (blocks - 1) * block, tiles.widest(), tiles.last(),
                          [&](int64_t c, int64_t count) {
                            MatmulDesc d;
                            d.dtype = dy.dtype, d.out_dtype = wide(dy.dtype);
                            d.m = c * s.taps(), d.n = count, d.k = filters;
                            d.a_row = 1, d.a_col = s.depth();
                            d.b_row = s.positions(), d.c_row = count;
                            return d;
                          });
  for_tasks(s.images * s.groups * blocks, [&](int64_t task) {
    const int64_t first = task % blocks * block, count = std::min(block, channels - first);
    const int64_t group = task / blocks % s.groups, image = task / blocks / s.groups;
    char* const out = static_cast<char*>(dx.data) + (image * s.channels + group * channels + first) * plane * item;
    T* const planes = direct ? reinterpret_cast<T*>(out) : scratch<T, 31>(count * plane);
    std::fill(planes, planes + count * plane, T(0));
    const char* filter = static_cast<const char*>(w.data) + (group * filters * s.depth() + first * s.taps()) * item;
    const char* grad = static_cast<const char*>(dy.data) + (image * s.filters + group * filters) * s.positions() * item;
    for (int64_t i = 0; i < tiles.size(); ++i) {
      const ConvTile tile = tiles[i];
      T* const columns = scratch<T, 30>(count * s.taps() * tile.count);
      products(count, tile.count).run(filter, grad + tile.first * item, columns, nullptr);
      add_columns(s, count, tile, columns, planes);
    }
    store(planes, count * plane, dx.dtype, out);
  });
}

// -- gradient of the weight

/// Sums over positions, tile after tile; far-apart tiles in sums of their own, which are added at the end. How many
/// follows from the sizes, so that bits do not depend on threads. Row-major dy and dw; T is what is summed in.
template <class T, class E>
void sum_weight(const ConvShape& s, DType dtype, const Images<const E>& x, const E* dy, const TensorView& dw) {
  const int64_t filters = s.group_filters(), depth = s.depth(), positions = s.positions();
  const int64_t block = std::clamp<int64_t>(kSumRows / s.taps(), 1, s.group_channels());
  const int64_t blocks = ceil_div(s.group_channels(), block), last = s.group_channels() - (blocks - 1) * block;
  const ConvTiling tiles(s, kSumPositions);
  const int64_t numel = s.filters * depth;
  const int64_t room = std::max<int64_t>(1, kSumBytes / (numel * static_cast<int64_t>(sizeof(T))));
  const int64_t wanted = std::min({ceil_div(kSumTasks, s.groups * blocks), room, tiles.size()});
  const int64_t run = ceil_div(tiles.size(), wanted), parts = ceil_div(tiles.size(), run);
  const bool together = tiles[0].images > 1, direct = parts == 1 && wide(dtype) == dtype;
  BufferRef holder;
  if (!direct) holder = allocate(static_cast<size_t>(parts * numel) * sizeof(T));
  T* const sums = static_cast<T*>(direct ? dw.data : holder->data());
  const Products products(block, last, tiles.widest(), tiles.last(), [&](int64_t c, int64_t count) {
    MatmulDesc d;
    d.dtype = dtype, d.out_dtype = wide(dtype);
    d.m = filters, d.n = c * s.taps(), d.k = count;
    d.a_row = together ? count : positions;
    d.b_row = 1, d.b_col = count, d.c_row = d.n;
    return d;
  });
  for_tasks(s.groups * blocks * parts, [&](int64_t task) {
    const int64_t first = task % blocks * block, channels = std::min(block, s.group_channels() - first);
    const int64_t group = task / blocks % s.groups, part = task / blocks / s.groups, width = channels * s.taps();
    T* const sum = sums + part * numel + group * filters * depth + first * s.taps();
    for (int64_t i = part * run; i < std::min(tiles.size(), part * run + run); ++i) {
      const ConvTile tile = tiles[i];
      E* const columns = scratch<E, 30>(width * tile.count + kTapSlack);
      write_columns(s, x, group * s.group_channels() + first, channels, tile, columns);
      const E* grad = dy + (tile.image * s.filters + group * filters) * positions + tile.first;
      if (together) {
        E* const rows = scratch<E, 31>(filters * tile.count);
        for (int64_t f = 0; f < filters; ++f) {
          for (int64_t n = 0; n < tile.images; ++n) {
            const E* from = grad + (n * s.filters + f) * positions;
            std::copy(from, from + positions, rows + f * tile.count + n * positions);
          }
        }
        grad = rows;
      }
      T* const more = scratch<T, 32>(filters * width);
      products(channels, tile.count).run(grad, columns, more, nullptr);
      const bool begins = i == part * run;
      for (int64_t f = 0; f < filters; ++f) {
        T* to = sum + f * depth;
        const T* from = more + f * width;
        if (begins) {
          std::copy(from, from + width, to);
        } else {
          for (int64_t k = 0; k < width; ++k) to[k] += from[k];
        }
      }
    }
  });
  if (direct) return;
  parallel_for(numel, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t part = 1; part < parts; ++part) {
      const T* from = sums + part * numel;
      for (int64_t i = begin; i < end; ++i) sums[i] += from[i];
    }
    store(sums + begin, end - begin, dtype,
          static_cast<char*>(dw.data) + begin * static_cast<int64_t>(itemsize(dtype)));
  });
}

/// Calls f(T{}) with the type that `t` is summed in.
void with_sum_type(DType t, auto&& f) {
  if (t == DType::kFloat64) {
    f(double{});
  } else {
    f(float{});
  }
}

}  // namespace

void run_conv_forward(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  BufferRef holder;
  const TensorView w = contiguous(call.inputs[1], holder);
  const ConvShape s = shape_of(x.shape, w.shape, call.outputs[0].shape, call.attrs, false);
  with_contiguous(call.outputs[0], [&](const TensorView& y) { convolve(s, x, w, y); });
}

void run_conv_backward_input(const KernelCall& call) {
  BufferRef dy_holder, w_holder;
  const TensorView dy = contiguous(call.inputs[0], dy_holder), w = contiguous(call.inputs[1], w_holder);
  const ConvShape s = shape_of(call.outputs[0].shape, w.shape, dy.shape, call.attrs, true);
  with_contiguous(call.outputs[0], [&](const TensorView& dx) {
    if (s.filters * s.positions() == 0 || numel(dx.shape) == 0) return fill(dx, Scalar(0.0));
    if (s.stride_h == 1 && s.stride_w == 1) return convolve_back(s, dy, w, dx);
    with_sum_type(dx.dtype, [&]<class T>(T) { scatter_back<T>(s, dy, w, dx); });
  });
}

void run_conv_backward_weight(const KernelCall& call) {
  BufferRef holder;
  const TensorView dy = contiguous(call.inputs[0], holder);
  const TensorView& x = call.inputs[1];
  const ConvShape s = shape_of(x.shape, call.outputs[0].shape, dy.shape, call.attrs, true);
  with_contiguous(call.outputs[0], [&](const TensorView& dw) {
    if (s.images * s.positions() == 0 || numel(dw.shape) == 0) return fill(dw, Scalar(0.0));
    with_bits(x.dtype, [&]<class E>(E) {
      with_sum_type(x.dtype, [&]<class T>(T) {
        if constexpr (sizeof(E) <= sizeof(T)) {
          sum_weight<T>(s, x.dtype, images_of<const E>(x), static_cast<const E*>(dy.data), dw);
        }
      });
    });
  });
}

}  // namespace smolder::eager::cpu
