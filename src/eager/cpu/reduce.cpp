// The canonical reductions of docs/architecture/arithmetic.md: the order of every step follows from shapes alone.
// Threads share rows, chunks and stretches of columns, never one accumulator.
#include <algorithm>
#include <type_traits>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/blocks.h"
#include "smolder/eager/cpu/gemm.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/strided.h"
#include "smolder/eager/dispatcher.h"

namespace smolder::eager::cpu {
namespace {

/// Columns that one pass over a chunk accumulates: their accumulators stay in the first-level cache.
constexpr int64_t kColumns = kBlock;

/// The most columns that are added up in registers, many rows in one call.
constexpr int64_t kFewColumns = 64;
static_assert(kFewColumns + kReduceLanes <= kBlock);

/// The most elements of a row that is reduced beside others: with more, combining 32 lanes is little beside them.
constexpr int64_t kShortRow = 48;

struct alignas(64) Block {
  char bytes[kBlock * sizeof(double)];
};

/// x as [outer, n, inner], reduced over n in pieces of `chunk`.
struct Reduction {
  int64_t outer = 1, n = 1, inner = 1, chunk = 1, chunks = 1;

  Reduction(const Dims& shape, int axis, int64_t asked) {
    for (int a = 0; a < axis; ++a) outer *= shape[a];
    for (int a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
    n = shape[axis];
    chunk = asked == 0 ? std::max<int64_t>(n, 1) : asked;
    chunks = asked == 0 ? 1 : (n + chunk - 1) / chunk;
  }
};

const void* get(const Sequence& x, int64_t begin, int64_t count, Block& block) {
  if (const void* at = x.direct(begin, count)) return at;
  x.read(begin, count, block.bytes);
  return block.bytes;
}

void reduce_rows(const Reduction& r, const ReduceFns& fns, const Sequence& x, const Sequence& out) {
  parallel_for(r.outer * r.chunks, std::max<int64_t>(1, kGrain / r.chunk), [&](int64_t begin, int64_t end) {
    Block block, lanes;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / r.chunks, first = i % r.chunks * r.chunk;
      const int64_t last = std::min(first + r.chunk, r.n);
      fns.reset(lanes.bytes, kReduceLanes);
      // Blocks are whole rounds of lanes, so an element's lane is its place in the block's round.
      static_assert(kBlock % kReduceLanes == 0);
      for (int64_t at = first; at < last; at += kBlock) {
        const int64_t count = std::min(kBlock, last - at);
        fns.row(get(x, row * r.n + at, count, block), count, lanes.bytes);
      }
      fns.fold(lanes.bytes, block.bytes);
      out.write(i, 1, block.bytes);
    }
  });
}

/// A view with `axis` before the others.
TensorView turned(const TensorView& v, int axis) {
  TensorView out = v;
  for (Dims* dims : {&out.shape, &out.strides}) {
    const int64_t first = (*dims)[axis];
    dims->erase(axis);
    dims->insert(0, first);
  }
  return out;
}

/// Short rows reduced at a time, side by side.
constexpr int64_t kTogether = 64;

/// `count` rows of n elements of T, one after the other, as n columns of kTogether.
template <class T>
void turn(const void* rows, int64_t count, int64_t n, void* columns) {
  const auto& kernels = gemm::kernels<T>();
  kernels.pack({std::is_same_v<T, float> ? DType::kFloat32 : DType::kFloat64, rows, n, 1, count, n,
                static_cast<T*>(columns), kTogether / kernels.width, kernels.width, 1});
}

/// Rows of few elements, kTogether at a time: what is at one place of each is a column of `turned`, and lanes are
/// combined side by side. What reduce_rows() does besides, for lanes without an element, leaves every sum as it is.
void reduce_short_rows(const Reduction& r, const ReduceFns& fns, const Sequence& x, const Sequence& turned,
                       const Sequence& out) {
  struct alignas(64) Lane {
    char bytes[kTogether * sizeof(double)];
  };
  const int64_t used = std::min<int64_t>(r.n, kReduceLanes);
  parallel_for(r.outer, kGrain / r.n, [&](int64_t begin, int64_t end) {
    Block block;
    Lane lanes[kReduceLanes], columns[kShortRow];
    for (int64_t at = begin; at < end; at += kTogether) {
      const int64_t count = std::min(kTogether, end - at);
      const void* const rows = r.n > 1 ? x.direct(at * r.n, count * r.n) : nullptr;
      const bool turns = rows && x.item() >= sizeof(float);
      if (turns && x.item() == sizeof(float)) turn<float>(rows, count, r.n, columns);
      if (turns && x.item() == sizeof(double)) turn<double>(rows, count, r.n, columns);
      for (int64_t i = 0; i < used; ++i) fns.reset(lanes[i].bytes, count);
      for (int64_t i = 0; i < r.n; ++i) {
        const void* const column = turns ? columns[0].bytes + i * kTogether * static_cast<int64_t>(x.item())
                                         : get(turned, i * r.outer + at, count, block);
        fns.column(column, count, lanes[i % kReduceLanes].bytes);
      }
      for (int64_t half = kReduceLanes / 2; half > 0; half /= 2) {
        for (int64_t i = 0; i < half && i + half < used; ++i) {
          fns.combine(lanes[i + half].bytes, count, lanes[i].bytes);
        }
      }
      fns.store(lanes[0].bytes, count, block.bytes);
      out.write(at, count, block.bytes);
    }
  });
}

/// Columns of which there are few beside each other: as many rows at a time as a block has.
void reduce_narrow_columns(const Reduction& r, const ReduceFns& fns, const Sequence& x, const Sequence& out) {
  const int64_t rows = kBlock / r.inner;
  parallel_for(r.outer * r.chunks, std::max<int64_t>(1, kGrain / (r.chunk * r.inner)), [&](int64_t begin, int64_t end) {
    Block block, sums;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / r.chunks, first = i % r.chunks * r.chunk;
      const int64_t last = std::min(first + r.chunk, r.n);
      fns.reset(sums.bytes, r.inner + kReduceLanes);
      for (int64_t j = first; j < last; j += rows) {
        const int64_t count = std::min(rows, last - j);
        fns.narrow(get(x, (row * r.n + j) * r.inner, count * r.inner, block), count, r.inner, sums.bytes);
      }
      fns.store(sums.bytes, r.inner, block.bytes);
      out.write(i * r.inner, r.inner, block.bytes);
    }
  });
}

void reduce_columns(const Reduction& r, const ReduceFns& fns, const Sequence& x, const Sequence& out) {
  const int64_t stretches = (r.inner + kColumns - 1) / kColumns;
  const int64_t work = r.chunk * std::min(r.inner, kColumns);
  parallel_for(r.outer * r.chunks * stretches, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    Block block, sums;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t stretch = i % stretches * kColumns, piece = i / stretches;
      const int64_t columns = std::min(kColumns, r.inner - stretch);
      const int64_t row = piece / r.chunks, first = piece % r.chunks * r.chunk;
      const int64_t last = std::min(first + r.chunk, r.n);
      fns.reset(sums.bytes, columns);
      for (int64_t j = first; j < last; ++j) {
        fns.column(get(x, (row * r.n + j) * r.inner + stretch, columns, block), columns, sums.bytes);
      }
      fns.store(sums.bytes, columns, block.bytes);
      out.write(piece * r.inner + stretch, columns, block.bytes);
    }
  });
}

}  // namespace

void run_reduce(const KernelCall& call) {
  const TensorView &in = call.inputs[0], &out = call.outputs[0];
  const int axis = normalize_axis(call.attrs[1], in.shape.size());
  const Reduction r(in.shape, axis, call.attrs[2]);
  const ReduceFns& fns = reduce_fns(static_cast<ir::ReduceKind>(call.attrs[0]), in.dtype);
  if (numel(out.shape) == 0) return;
  const Sequence x(in), y(out);
  // With one element after the axis it is a row, the last axis or not.
  const bool is_short = r.n > 0 && r.n <= kShortRow && r.chunks == 1 && r.outer > 1;
  if (r.inner == 1 && is_short) {
    reduce_short_rows(r, fns, x, Sequence(turned(in, axis)), y);
  } else if (r.inner == 1) {
    reduce_rows(r, fns, x, y);
  } else if (r.inner <= kFewColumns) {
    reduce_narrow_columns(r, fns, x, y);
  } else {
    reduce_columns(r, fns, x, y);
  }
}

}  // namespace smolder::eager::cpu
