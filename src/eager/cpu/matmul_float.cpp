// How a floating-point product is cut and fed to the kernels of gemm.h. Read plan() first, then run(),
// which cuts the product into tasks; columns(), what a task does; band(), the loop over tiles.
#include <algorithm>
#include <cmath>

#include "smolder/core/counters.h"
#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/gemm.h"
#include "smolder/eager/cpu/matmul.h"
#include "smolder/eager/cpu/scratch.h"

namespace smolder::eager {
namespace {

using gemm::ceil_div;
using gemm::kChunk;
using gemm::Part;

/// Rows of X worked on between two looks at the same panel of Y: a chunk of them stays in L2. More when
/// they are packed, since a step of k then reads a longer run.
constexpr int64_t kRowGroup = 128, kPackedRowGroup = 256;
/// Elements between copied rows: rows a power of two apart would share cache sets.
constexpr int64_t kRowPitch = kChunk + 16;
/// How many bytes of Y are packed at a time: more than L2 holds, since panels are read in order. With less, X would be
/// copied more often.
constexpr int64_t kPackedBytes = 4 << 20;
/// Elements of k packed at a time: bounds the working memory of very long sums.
constexpr int64_t kStretch = 32 * kChunk;
/// Y is read in place up to this size, with few rows and with many. Reading misses L2's sets when long
/// strides are many; packing pays only when many rows use it.
constexpr int64_t kInPlaceFewRows = 1 << 20, kInPlaceManyRows = 256 << 10, kFewRows = 512;
/// Bytes of a step of k of all rows, one behind the other, that are read in place as from a copy.
constexpr int64_t kPackedRow = 128;
/// Cycles below which a product stays on the calling thread (handing over costs 1 to 2 us), and above
/// which a thread gets several tasks, so that a busy core does not hold up the others.
constexpr double kSerialCycles = 20e3, kUnevenCycles = 2e6;

/// Bytes of a result up to which threads share the chunks of k, of the sums of chunks that are kept at a time, and the
/// elements of them that a thread adds.
constexpr int64_t kChunkResult = 1 << 18, kChunkSums = 4 << 20, kAddGrain = 4096;

/// Products of rows and columns up to kSkinnyRows are small, and of fewer outputs and multiply-adds than these.
constexpr int64_t kSmallOutputs = 64, kSmallWork = 256;

/// Outputs up to which the chunks of a sum, not the columns of a result, fill vectors.
constexpr int64_t kFewOutputs = 4;

/// Tiles whose sums are finished at a time: transposing takes squares of vectors, which have more rows than a tile.
constexpr int64_t kTilesTogether = 2;

/// The product as the kernels see it: rows of X times columns of Y.
struct Roles {
  bool swapped;  ///< X is B transposed and Y is A transposed, so the sums are C transposed
  int64_t rows, cols;
  int64_t x_batch, x_row, x_k;
  int64_t y_batch, y_col, y_k;
};

Roles roles(const MatmulDesc& d, bool swapped) {
  Roles r = swapped ? Roles{true, d.n, d.m, d.b_batch_stride, d.b_col, d.b_row, d.a_batch_stride, d.a_row, d.a_col}
                    : Roles{false, d.m, d.n, d.a_batch_stride, d.a_row, d.a_col, d.b_batch_stride, d.b_col, d.b_row};
  // Strides of a single element mean nothing: those that suit are as true.
  if (r.cols == 1) r.y_col = 1;
  if (r.rows == 1 && r.x_k != 1) r.x_row = 1;
  if (d.k == 1 && r.x_row != 1) r.x_k = 1;
  if (d.k == 1 && r.y_col != 1) r.y_k = 1;
  return r;
}

/// How an operand reaches the kernels.
enum class Place : uint8_t {
  kInPlace,
  kPanels,   ///< packed
  kRows,     ///< X only: rows copied, contiguous along k
  kStreamed  ///< Y only: read once by the skinny kernels
};

struct Strategy {
  Roles roles;
  Place x, y;
  int64_t row_parts = 1, col_parts = 1;  ///< tasks an item of the batch
  bool by_chunks = false;                ///< threads share the chunks of k: a small result of a long sum
  int64_t grain = 1;                     ///< tasks worth handing to a thread
  double cycles = 0;                     ///< of the busiest thread
};

template <class T>
class FloatMatmul final : public Matmul {
 public:
  FloatMatmul(const MatmulDesc& desc, const gemm::Kernels<T>& kernels);
  void run(const void* a, const void* b, void* c, const void* bias) const override;

 private:
  /// One item of the batch.
  struct Item {
    const char *x, *y;
    char* c;
    const char* bias;
  };
  /// Rows of X against vectors of columns of Y, over one chunk of k.
  struct Band {
    Item at;
    int64_t row, rows;
    int64_t first_vector, vectors;
    int64_t k0, k;
    bool first, last;     ///< of the chunks of the sum
    const T* packed;      ///< panels of these vectors, each [stretch][columns]; null when Y is in place
    int64_t stretch, in;  ///< k of those panels, and where this chunk begins in them
    T* sums;              ///< [rows][vectors * width] of the chunks so far; null when there is one chunk
  };

  Strategy plan(const Roles& roles) const;
  double cycles(const Strategy& s, int64_t row_parts, int64_t col_parts) const;
  void cut(Strategy& s) const;
  bool shares_chunks(const Strategy& s) const;
  void chunks(const Item& at) const;
  void columns(const Item& at, Part rows, int64_t first_vector, int64_t vectors) const;
  void band(const Band& b) const;
  const T* pack_y(const Item& at, int64_t first_vector, int64_t vectors, int64_t k0, int64_t k) const;
  T* copy_x(const Band& b, int64_t tiles) const;
  void skinny(const Item& at, Part vectors) const;
  void write_zeros(char* c, const char* bias) const;
  void finish(const Item& at, const T* sums, int64_t sums_row, int64_t row, int64_t rows, int64_t col,
              int64_t cols) const;

  const gemm::Kernels<T>& kernels_;
  const int64_t size_, out_size_;  ///< bytes an element
  const bool same_type_;           ///< the operands are T already
  Strategy s_;
  int64_t row_group_;
  bool plain_c_;  ///< a whole tile of sums can be stored in C as it is
  bool strided_;  ///< an operand is contiguous in neither direction and must be gathered
};

template <class T>
FloatMatmul<T>::FloatMatmul(const MatmulDesc& d, const gemm::Kernels<T>& kernels)
    : Matmul(d),
      kernels_(kernels),
      size_(static_cast<int64_t>(itemsize(d.dtype))),
      out_size_(static_cast<int64_t>(itemsize(d.out_dtype))),
      same_type_(!is_half(d.dtype)) {
  const Strategy straight = plan(roles(d, false)), swapped = plan(roles(d, true));
  s_ = swapped.cycles < straight.cycles ? swapped : straight;
  s_.by_chunks = shares_chunks(s_);
  row_group_ = s_.x == Place::kPanels ? kPackedRowGroup : kRowGroup;
  plain_c_ = !s_.roles.swapped && same_type_ && d.epilogue == MatmulDesc::Epilogue::kNone;
  const Roles& r = s_.roles;
  strided_ = (s_.y != Place::kInPlace && r.y_col != 1 && r.y_k != 1) || (s_.x == Place::kRows && r.x_k != 1);
}

template <class T>
Strategy FloatMatmul<T>::plan(const Roles& r) const {
  Strategy s;
  s.roles = r;
  const int64_t y_bytes = r.cols * desc_.k * static_cast<int64_t>(sizeof(T));
  if (r.rows <= gemm::kSkinnyRows && (r.y_col == 1 || r.y_k == 1)) {
    s.y = Place::kStreamed;
  } else {
    const bool small = y_bytes <= (r.rows <= kFewRows ? kInPlaceFewRows : kInPlaceManyRows);
    // Rows as wide as a panel, one behind the other, are a panel.
    const bool is_panel = r.y_k == r.cols && r.cols <= kernels_.nv * kernels_.width && r.rows <= kRowGroup;
    s.y = same_type_ && r.y_col == 1 && (small || is_panel) ? Place::kInPlace : Place::kPanels;
  }
  const bool along_k = r.x_k == 1, across = r.x_row == 1 && !along_k;
  if (r.x_k == 0 || (!along_k && !across) || (along_k && !same_type_)) {
    s.x = Place::kRows;
  } else {
    const bool is_packed = r.x_k == r.rows && r.rows * static_cast<int64_t>(sizeof(T)) <= kPackedRow;
    const bool small = is_packed || r.rows * desc_.k * static_cast<int64_t>(sizeof(T)) <= 128 << 10;
    s.x = same_type_ && (along_k || small) ? Place::kInPlace : Place::kPanels;
  }
  s.cycles = cycles(s, 1, 1) * static_cast<double>(desc_.batch);
  cut(s);
  return s;
}

/// Cycles of the largest task, roughly: multiply-adds (two a cycle, no faster than loads or the latency of
/// a chain allow), moving operands, and writing C. What an element moved costs was measured on Sapphire Rapids.
template <class T>
double FloatMatmul<T>::cycles(const Strategy& s, int64_t row_parts, int64_t col_parts) const {
  const Roles& r = s.roles;
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const int64_t all_tiles = ceil_div(r.rows, kernels_.mr), all_vectors = ceil_div(r.cols, kernels_.width);
  const int64_t tiles = ceil_div(all_tiles, row_parts), vectors = ceil_div(all_vectors, col_parts);
  const int64_t panels = ceil_div(vectors, kernels_.nv), rows = ceil_div(r.rows, row_parts);
  const double tile_rows = real(rows) / real(tiles), tile_vectors = real(vectors) / real(panels);
  const double step = std::max({tile_rows * tile_vectors / 2, (tile_rows + tile_vectors) / 2, 4.0});

  const double k = real(desc_.k), cols = real(vectors * kernels_.width);
  double y_move = 0, x_move = 0;
  if (s.y == Place::kStreamed) y_move = 0.1;
  if (s.y == Place::kPanels) y_move = r.y_col == 1 ? 0.12 : r.y_k == 1 ? 0.3 : 2;
  if (s.x == Place::kPanels) x_move = 0.2;
  if (s.x == Place::kRows) x_move = r.x_k == 1 ? 0.1 : 2;
  const double passes = std::max(1.0, cols * k * sizeof(T) / kPackedBytes);  // over X
  const double out = s.roles.swapped ? 0.3 : 0.08;
  return k * (real(tiles * panels) * step + cols * y_move + real(rows) * x_move * passes) + real(rows) * cols * out +
         8 * real(tiles * panels);
}

/// Chooses how many tasks an item becomes. Only speed depends on it.
template <class T>
void FloatMatmul<T>::cut(Strategy& s) const {
  const int threads = num_threads();
  const double one = s.cycles / static_cast<double>(desc_.batch), all = s.cycles;
  s.grain = std::max<int64_t>(1, std::llround(kSerialCycles / 2 / one));
  if (threads == 1 || all < kSerialCycles) {
    s.grain = desc_.batch;
    return;
  }
  const int64_t tasks = threads * (all > kUnevenCycles * threads ? 4 : 1), parts = ceil_div(tasks, desc_.batch);
  const int64_t vectors = ceil_div(s.roles.cols, kernels_.width), tiles = ceil_div(s.roles.rows, kernels_.mr);
  s.cycles = all / static_cast<double>(std::min<int64_t>(desc_.batch, threads));
  for (int64_t cols = 1; cols <= std::min(parts, vectors); ++cols) {
    const int64_t rows = s.y == Place::kStreamed ? 1 : std::min(ceil_div(parts, cols), tiles);
    const double rounds = static_cast<double>(ceil_div(desc_.batch * rows * cols, threads));
    const double total = cycles(s, rows, cols) * rounds;
    if (rows * cols > 1 && total < s.cycles) s.cycles = total, s.row_parts = rows, s.col_parts = cols, s.grain = 1;
  }
}

/// Whether there are threads that rows and columns leave without work and chunks of k do not.
template <class T>
bool FloatMatmul<T>::shares_chunks(const Strategy& s) const {
  const int threads = num_threads();
  const double one = cycles(s, 1, 1), parts = static_cast<double>(desc_.batch * s.row_parts * s.col_parts);
  const int64_t bytes = s.roles.rows * s.roles.cols * static_cast<int64_t>(sizeof(T));
  return s.y != Place::kStreamed && parts * 2 <= threads && desc_.k >= 4 * kChunk && bytes <= kChunkResult &&
         one > 2 * kSerialCycles;
}

template <class T>
void FloatMatmul<T>::run(const void* a, const void* b, void* c, const void* bias) const {
  static Counter& strided = counter("matmul.strided_copies");
  if (strided_) strided.add();
  if (desc_.k == 0) return write_zeros(static_cast<char*>(c), static_cast<const char*>(bias));
  const Roles& r = s_.roles;
  const int64_t parts = s_.by_chunks ? 1 : s_.row_parts * s_.col_parts, tasks = desc_.batch * parts;
  const int64_t vectors = ceil_div(r.cols, kernels_.width), tiles = ceil_div(r.rows, kernels_.mr);
  const int64_t widest =
      std::max<int64_t>(kernels_.nv, kPackedBytes / (std::min(desc_.k, kStretch) * kernels_.width * sizeof(T)));
  const auto task = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t item = i / parts, part = i % parts;
      const Item at{static_cast<const char*>(r.swapped ? b : a) + item * r.x_batch * size_,
                    static_cast<const char*>(r.swapped ? a : b) + item * r.y_batch * size_,
                    static_cast<char*>(c) + item * desc_.c_batch_stride * out_size_, static_cast<const char*>(bias)};
      const Part mine(vectors, s_.col_parts, part % s_.col_parts);
      if (s_.y == Place::kStreamed) {
        skinny(at, mine);
        continue;
      }
      if (s_.by_chunks) {
        chunks(at);
        continue;
      }
      Part rows(tiles, s_.row_parts, part / s_.col_parts);
      rows.begin = std::min(rows.begin * kernels_.mr, r.rows), rows.end = std::min(rows.end * kernels_.mr, r.rows);
      const int64_t strips = ceil_div(mine.size(), widest);
      for (int64_t j = 0; j < strips; ++j) {
        const Part strip(mine.size(), strips, j);
        columns(at, rows, mine.begin + strip.begin, strip.size());
      }
    }
  };
  if (tasks <= s_.grain || s_.by_chunks) {
    task(0, tasks);
  } else {
    parallel_for(tasks, s_.grain, task);
  }
}

/// All of an item, its chunks of k side by side: each has sums of its own, which are added in order, as columns() does.
template <class T>
void FloatMatmul<T>::chunks(const Item& at) const {
  const int64_t rows = s_.roles.rows, vectors = ceil_div(s_.roles.cols, kernels_.width);
  const int64_t row_sums = vectors * kernels_.width, one = rows * row_sums, all = ceil_div(desc_.k, kChunk);
  const int64_t together = std::min(all, std::max<int64_t>(num_threads(), kChunkSums / (one * sizeof(T))));
  T* const sums = scratch<T, 3>(together * one);
  for (int64_t first = 0; first < all; first += together) {
    const int64_t count = std::min(together, all - first);
    // Those of the chunks before are in the first place, and stay there.
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = (first + i) * kChunk, k = std::min(kChunk, desc_.k - from);
        const T* packed = s_.y == Place::kPanels ? pack_y(at, 0, vectors, from, k) : nullptr;
        for (int64_t row = 0; row < rows; row += row_group_) {
          const int64_t group = std::min(row_group_, rows - row);
          band({at, row, group, 0, vectors, from, k, i > 0 || first == 0, false, packed, k, 0,
                sums + i * one + row * row_sums});
        }
      }
    });
    parallel_for(one, kAddGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = 1; i < count; ++i) {
        const T* const more = sums + i * one;
        for (int64_t e = begin; e < end; ++e) sums[e] += more[e];
      }
    });
  }
  finish(at, sums, row_sums, 0, rows, 0, s_.roles.cols);
}

/// All of k for some rows and columns.
template <class T>
void FloatMatmul<T>::columns(const Item& at, Part rows, int64_t first_vector, int64_t vectors) const {
  const int64_t k = desc_.k, row_sums = vectors * kernels_.width;
  T* sums = nullptr;
  if (k > kChunk) sums = scratch<T, 2>((k > kStretch ? rows.size() : std::min(rows.size(), row_group_)) * row_sums);
  // Where all rows are one group, a panel serves once: it is read where it was packed, before it leaves the cache.
  const int64_t longest = rows.size() <= row_group_ ? kChunk : kStretch;
  for (int64_t k0 = 0; k0 < k; k0 += longest) {
    const int64_t stretch = std::min(k - k0, longest);
    const T* packed = s_.y == Place::kPanels ? pack_y(at, first_vector, vectors, k0, stretch) : nullptr;
    for (int64_t row = rows.begin; row < rows.end; row += row_group_) {
      const int64_t group = std::min(row_group_, rows.end - row);
      T* mine = k > kStretch ? sums + (row - rows.begin) * row_sums : sums;
      for (int64_t in = 0; in < stretch; in += kChunk) {
        const int64_t chunk = std::min(stretch - in, kChunk), from = k0 + in;
        band({at, row, group, first_vector, vectors, from, chunk, from == 0, from + chunk == k, packed, stretch, in,
              mine});
      }
    }
  }
}

template <class T>
void FloatMatmul<T>::band(const Band& b) const {
  const Roles& r = s_.roles;
  const int64_t w = kernels_.width, tiles = ceil_div(b.rows, kernels_.mr), panels = ceil_div(b.vectors, kernels_.nv);
  const T* x =
      s_.x == Place::kInPlace ? reinterpret_cast<const T*>(b.at.x) + b.row * r.x_row + b.k0 * r.x_k : copy_x(b, tiles);
  alignas(64) T local[kTilesTogether * gemm::kMaxTile];
  gemm::Tile<T> t{};
  t.k = b.k;
  for (int64_t p = 0; p < panels; ++p) {
    const Part v(b.vectors, panels, p);
    const int64_t width = v.size() * w, col = (b.first_vector + v.begin) * w, cols = std::min(width, r.cols - col);
    if (b.packed) {
      t.y = b.packed + v.begin * w * b.stretch + b.in * width, t.y_k = width;
    } else {
      t.y = reinterpret_cast<const T*>(b.at.y) + col + b.k0 * r.y_k, t.y_k = r.y_k;
      if (cols < width) {  // a whole vector would read past the end
        T* edge = scratch<T, 0>(width * b.k);
        kernels_.pack({desc_.dtype, t.y, 1, r.y_k, cols, b.k, edge, 1, width, 1});
        t.y = edge, t.y_k = width;
      }
    }
    int64_t waiting = 0;  // rows of sums in `local`
    for (int64_t i = 0; i < tiles; ++i) {
      const Part rows(b.rows, tiles, i);
      switch (s_.x) {
        case Place::kInPlace:
          t.x = x + rows.begin * r.x_row, t.x_row = r.x_row, t.x_k = r.x_k;
          break;
        case Place::kRows:
          t.x = x + rows.begin * kRowPitch, t.x_row = kRowPitch, t.x_k = 1;
          break;
        default:
          t.x = x + rows.begin * b.k, t.x_row = 1, t.x_k = rows.size();
      }
      const bool plain = !b.sums && plain_c_ && cols == width;
      if (b.sums) {
        t.out = b.sums + rows.begin * b.vectors * w + v.begin * w, t.out_row = b.vectors * w, t.add = !b.first;
      } else if (plain) {
        t.out = reinterpret_cast<T*>(b.at.c) + (b.row + rows.begin) * desc_.c_row + col, t.out_row = desc_.c_row;
      } else {
        t.out = local + waiting * width, t.out_row = width;
      }
      kernels_.tile[rows.size() - 1][v.size() - 1](t);
      if (b.sums || plain) continue;
      waiting += rows.size();
      if (waiting <= (kTilesTogether - 1) * kernels_.mr && i + 1 < tiles) continue;
      finish(b.at, local, width, b.row + rows.end - waiting, waiting, col, cols);
      waiting = 0;
    }
    if (b.sums && b.last) finish(b.at, b.sums + v.begin * w, b.vectors * w, b.row, b.rows, col, cols);
  }
}

template <class T>
const T* FloatMatmul<T>::pack_y(const Item& at, int64_t first_vector, int64_t vectors, int64_t k0, int64_t k) const {
  const Roles& r = s_.roles;
  const int64_t w = kernels_.width, col = first_vector * w;
  T* packed = scratch<T, 0>(vectors * w * k);
  kernels_.pack({desc_.dtype, at.y + (col * r.y_col + k0 * r.y_k) * size_, r.y_col, r.y_k,
                 std::min(vectors * w, r.cols - col), k, packed, vectors, w, ceil_div(vectors, kernels_.nv)});
  return packed;
}

template <class T>
T* FloatMatmul<T>::copy_x(const Band& b, int64_t tiles) const {
  const Roles& r = s_.roles;
  const char* src = b.at.x + (b.row * r.x_row + b.k0 * r.x_k) * size_;
  T* copy = scratch<T, 1>(row_group_ * kRowPitch);
  if (s_.x == Place::kRows) {
    kernels_.copy_rows({desc_.dtype, src, r.x_row, r.x_k, b.rows, b.k, copy, kRowPitch});
  } else {
    kernels_.pack({desc_.dtype, src, r.x_row, r.x_k, b.rows, b.k, copy, b.rows, 1, tiles});
  }
  return copy;
}

template <class T>
void FloatMatmul<T>::skinny(const Item& at, Part vectors) const {
  const Roles& r = s_.roles;
  const int64_t width = vectors.size() * kernels_.width, col = vectors.begin * kernels_.width;
  const int64_t cols = std::min(width, r.cols - col), k = desc_.k;
  gemm::Skinny<T> request{desc_.dtype,
                          reinterpret_cast<const T*>(at.x),
                          r.x_row,
                          r.x_k,
                          r.rows,
                          at.y + col * r.y_col * size_,
                          r.y_col,
                          r.y_k,
                          cols,
                          k,
                          scratch<T, 2>(r.rows * width),
                          width};
  if (!same_type_) {
    T* copy = scratch<T, 1>(r.rows * k);
    kernels_.copy_rows({desc_.dtype, at.x, r.x_row, r.x_k, r.rows, k, copy, k});
    request.x = copy, request.x_row = k, request.x_k = 1;
  }
  kernels_.skinny(request);
  finish(at, request.sums, width, 0, r.rows, col, cols);
}

/// Without k every sum is zero: one row of zeros stands for all.
template <class T>
void FloatMatmul<T>::write_zeros(char* c, const char* bias) const {
  const Roles& r = s_.roles;
  const int64_t width = ceil_div(r.cols, kernels_.width) * kernels_.width;
  T* zeros = scratch<T, 2>(width);
  std::fill_n(zeros, width, T{0});
  for (int64_t item = 0; item < desc_.batch; ++item) {
    const Item at{nullptr, nullptr, c + item * desc_.c_batch_stride * out_size_, bias};
    finish(at, zeros, 0, 0, r.rows, 0, r.cols);
  }
}

template <class T>
void FloatMatmul<T>::finish(const Item& at, const T* sums, int64_t sums_row, int64_t row, int64_t rows, int64_t col,
                            int64_t cols) const {
  using E = MatmulDesc::Epilogue;
  const bool swapped = s_.roles.swapped;
  const int64_t c_row = swapped ? col : row, c_col = swapped ? row : col;
  const char* bias = desc_.epilogue == E::kNone ? nullptr : at.bias + c_col * out_size_;
  kernels_.finish({sums, sums_row, rows, cols, desc_.out_dtype, at.c + (c_row * desc_.c_row + c_col) * out_size_,
                   desc_.c_row, swapped, bias, desc_.epilogue == E::kBiasRelu});
}

/// A batch of products whose rows and columns fill no vector: items side by side do.
template <class T>
class SmallMatmul final : public Matmul {
 public:
  SmallMatmul(const MatmulDesc& desc, const gemm::Kernels<T>& kernels) : Matmul(desc), kernels_(kernels) {}

  static bool serves(const MatmulDesc& d, const gemm::Kernels<T>& kernels) {
    const bool is_small = std::max(d.m, d.n) <= gemm::kSkinnyRows || d.m * d.n * (d.k + 1) <= kSmallWork;
    return is_small && std::min(d.m, d.n) <= gemm::kSkinnyRows && d.m * d.n <= kSmallOutputs &&
           kernels.width <= d.batch && d.k > 0 && !is_half(d.dtype) && d.epilogue == MatmulDesc::Epilogue::kNone;
  }

  void run(const void* a, const void* b, void* c, const void* /*bias*/) const override {
    const MatmulDesc& d = desc_;
    const auto items = [&](int64_t begin, int64_t end) {
      kernels_.small({static_cast<const T*>(a) + begin * d.a_batch_stride, d.a_batch_stride, d.a_row, d.a_col,
                      static_cast<const T*>(b) + begin * d.b_batch_stride, d.b_batch_stride, d.b_row, d.b_col,
                      static_cast<T*>(c) + begin * d.c_batch_stride, d.c_batch_stride, d.c_row, end - begin, d.m, d.n,
                      d.k});
    };
    // About a cycle for each element that is gathered or scattered.
    const int64_t elements = d.m * d.k + d.k * d.n + d.m * d.n;
    const int64_t grain = std::max<int64_t>(kernels_.width, static_cast<int64_t>(kSerialCycles) / 2 / elements);
    if (d.batch <= 2 * grain) return items(0, d.batch);
    parallel_for(d.batch, grain, items);
  }

 private:
  const gemm::Kernels<T>& kernels_;
};

/// A product of few rows and columns, as a dot product: the chunks of its sums are items side by side.
template <class T>
class FewOutputs final : public Matmul {
 public:
  FewOutputs(const MatmulDesc& desc, const gemm::Kernels<T>& kernels) : Matmul(desc), kernels_(kernels) {}

  static bool serves(const MatmulDesc& d) {
    return d.m * d.n <= kFewOutputs && d.k > 0 && !is_half(d.dtype) && d.epilogue == MatmulDesc::Epilogue::kNone;
  }

  void run(const void* a, const void* b, void* c, const void* /*bias*/) const override {
    const MatmulDesc& d = desc_;
    for (int64_t i = 0; i < d.batch; ++i) {
      item(static_cast<const T*>(a) + i * d.a_batch_stride, static_cast<const T*>(b) + i * d.b_batch_stride,
           static_cast<T*>(c) + i * d.c_batch_stride);
    }
  }

 private:
  void item(const T* a, const T* b, T* c) const {
    const MatmulDesc& d = desc_;
    const int64_t outputs = d.m * d.n, whole = d.k / kChunk, all = ceil_div(d.k, kChunk);
    T* const sums = scratch<T, 2>(all * outputs);
    const auto sum = [&](int64_t first, int64_t count, int64_t k) {
      kernels_.small({a + first * kChunk * d.a_col, kChunk * d.a_col, d.a_row, d.a_col, b + first * kChunk * d.b_row,
                      kChunk * d.b_row, d.b_row, d.b_col, sums + first * outputs, outputs, d.n, count, d.m, d.n, k});
    };
    const int64_t groups = ceil_div(whole, kernels_.width);
    // Cycles: about one for each element.
    const auto group = static_cast<double>(kernels_.width * kChunk * (d.m + d.n));
    parallel_for(groups, std::max<int64_t>(1, std::llround(kSerialCycles / 2 / group)),
                 [&](int64_t begin, int64_t end) {
                   sum(begin * kernels_.width, std::min(end * kernels_.width, whole) - begin * kernels_.width, kChunk);
                 });
    if (whole < all) sum(whole, 1, d.k - whole * kChunk);
    for (int64_t o = 0; o < outputs; ++o) {
      T total = sums[o];
      for (int64_t i = 1; i < all; ++i) total += sums[i * outputs + o];
      c[o / d.n * d.c_row + o % d.n] = total;
    }
  }

  const gemm::Kernels<T>& kernels_;
};

}  // namespace

template <class T>
std::shared_ptr<const Matmul> make_float_matmul(const MatmulDesc& desc, const gemm::Kernels<T>& kernels) {
  if (SmallMatmul<T>::serves(desc, kernels)) return std::make_shared<SmallMatmul<T>>(desc, kernels);
  if (FewOutputs<T>::serves(desc)) return std::make_shared<FewOutputs<T>>(desc, kernels);
  return std::make_shared<FloatMatmul<T>>(desc, kernels);
}
template std::shared_ptr<const Matmul> make_float_matmul(const MatmulDesc&, const gemm::Kernels<float>&);
template std::shared_ptr<const Matmul> make_float_matmul(const MatmulDesc&, const gemm::Kernels<double>&);

}  // namespace smolder::eager
