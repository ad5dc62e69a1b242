#include "smolder/jit/cuda/native/float_product.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "smolder/core/precision.h"
#include "smolder/jit/cuda/native/device.h"

namespace smolder::jit::cuda {

namespace {

using Epilogue = eager::MatmulDesc::Epilogue;

// The program names Element, Result and Sum, and what a tile is (see product_tiles.def). A block has a tile of the
// result and goes through its depth in stages: what the next one needs is on its way to registers while this one is
// multiplied from shared memory. Team t of the block's threads adds the products at t, t + kTeams, ... in order, and
// teams are added in order, so the bits of an element follow from k and kTeams, however the operands lie.
constexpr const char* kText = R"cuda(
constexpr int kTilesM = kM / kEachM, kTilesN = kN / kEachN, kTeam = kTilesM * kTilesN, kThreads = kTeam * kTeams;
// So that neighbours' stores are in different banks, and lines start where they are read whole.
DEVICE constexpr int pitch(int lines, int each) { return lines + (lines == 8 && each <= 2 ? 2 : 4); }
constexpr int kPitchA = pitch(kM, kEachM), kPitchB = pitch(kN, kEachN);
constexpr int kTurn = kUnroll * kTeams;  // the depth that the loop takes at once
enum { kWholeC = 1, kRelu = 2, kTrigger = 4 };
struct ProductArguments {
  const Element* a;
  const Element* b;
  const Result* bias;  // null: there is none
  Result* c;
  i64 m, n, k, a_row, a_col, b_row, b_col, c_row, batch, inner;
  i64 a_outer, a_inner, b_outer, b_inner, c_outer, c_inner, flags;
};
// Once all blocks have said so, the kernel after this one may start, and wait.
DEVICE void let_kernel_after_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
DEVICE f32 multiply_add(f32 x, f32 y, f32 z) { return __fmaf_rn(x, y, z); }
DEVICE f64 multiply_add(f64 x, f64 y, f64 z) { return __fma_rn(x, y, z); }

// What a stage needs of an operand: lines, which are rows of a or columns of b, of which a thread fetches some chunks.
// They are contiguous across lines (in the direction of k) or along them, if they are whole, which is that chunks are.
template <int kLines, int kPitch, bool kIsAcross, bool kIsWhole> struct Part {
  static constexpr int kChunks = kLines * kDepth / 4, kEach = (kChunks + kThreads - 1) / kThreads;
  static constexpr int kPerLine = kLines / 4;
  // Across lines, neighbours take so many chunks of a line, then the next line.
  static constexpr int kWide = kLines >= 16 ? 2 : 32 / kLines < kDepth / 4 ? 32 / kLines : kDepth / 4;
  static constexpr int kStep = kThreads / kWide;
  Pack<Element, 4> chunks[kEach];
  const Element* from;
  int line, deep;  // strides
  int lines;       // that there are

  // Where a thread's first chunk is, and how far from there the others are: numbers of the program.
  static __forceinline__ int first_line() {
    if (!kIsAcross) return threadIdx.x % kPerLine * 4;
    return kStep >= kLines ? threadIdx.x / kWide % kLines : threadIdx.x / kWide;
  }
  static __forceinline__ int first_depth() {
    if (!kIsAcross) return threadIdx.x / kPerLine;
    return (threadIdx.x % kWide + (kStep >= kLines ? threadIdx.x / (kWide * kLines) * kWide : 0)) * 4;
  }
  static constexpr int kRounds = kLines / (kStep < kLines ? kStep : kLines);
  static constexpr int line_of(int e) { return kIsAcross ? e % kRounds * kStep : 0; }
  static constexpr int depth_of(int e) {
    if (!kIsAcross) return e * (kThreads / kPerLine);
    return kStep >= kLines ? e * (kStep / kLines * kWide * 4) : e / kRounds * (kWide * 4);
  }
  static __forceinline__ bool is_chunk(int e) {
    return (e + 1) * kThreads <= kChunks || threadIdx.x + e * kThreads < kChunks;
  }
  // Fetches what comes next, of which there is as much as `left`.
  __forceinline__ void load(int left) {
    if (!kIsWhole) return;
    const int l = first_line(), d = first_depth();
    const Element* const first = from + (kIsAcross ? l * line + d : l + d * deep);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      chunks[e] = Pack<Element, 4>();
      if (is_chunk(e) && l + line_of(e) < lines && d + depth_of(e) < left) {
        load_whole(chunks[e], first + (kIsAcross ? line_of(e) * line + depth_of(e) : depth_of(e) * deep));
      }
    }
    from += static_cast<i64>(kDepth) * deep;
  }
  __forceinline__ void store_chunks(Sum* to, int end) const {
    const int d = first_depth();
    Sum* const first = to + (d * kPitch + first_line());
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      if (!is_chunk(e) || (kDepth > kTurn && d + depth_of(e) >= end)) continue;
      Sum* const at = first + (depth_of(e) * kPitch + line_of(e));
      Pack<Sum, 4> sums;
#pragma unroll
      for (int j = 0; j < 4; ++j) sums.x[j] = static_cast<Sum>(widen(chunks[e].x[j]));
      if (kIsAcross || kPitch % 4 != 0) {
#pragma unroll
        for (int j = 0; j < 4; ++j) at[j * (kIsAcross ? kPitch : 1)] = sums.x[j];
      } else {
        store_whole(at, sums);
      }
    }
  }
  // To shared memory, zeros where there is nothing, up to `end`; what was not fetched in chunks element by element.
  __forceinline__ void store(Sum* to, int left, int end) {
    if (kIsWhole) return store_chunks(to, end);
#pragma unroll 4
    for (int i = threadIdx.x; i < kLines * end; i += kThreads) {
      const int l = kIsAcross ? i / 4 % kLines : i % kLines, d = kIsAcross ? i % 4 + i / (4 * kLines) * 4 : i / kLines;
      to[d * kPitch + l] = l < lines && d < left ? static_cast<Sum>(widen(from[l * line + d * deep])) : Sum(0);
    }
    from += static_cast<i64>(kDepth) * deep;
  }
};
// The elements of a line that a thread has: pieces of up to 4, apart by as many as all threads have.
template <int kEach, int kTiles> DEVICE int place(int tile, int i) {
  constexpr int kPiece = kEach < 4 ? kEach : 4;
  return i / kPiece * (kPiece * kTiles) + tile * kPiece + i % kPiece;
}
template <int kEach, int kTiles> DEVICE void fetch_line(Sum (&to)[kEach], const Sum* from) {
  constexpr int kPiece = kEach < 4 ? kEach : 4;
#pragma unroll
  for (int i = 0; i < kEach; i += kPiece) {
    Pack<Sum, kPiece> piece;
    load_whole(piece, from + i * kTiles);
#pragma unroll
    for (int j = 0; j < kPiece; ++j) to[i + j] = piece.x[j];
  }
}
// Neighbouring elements of a row.
template <int kCount>
DEVICE void finish(const ProductArguments& a, Result* c, int row, int column, Sum (&sums)[kCount]) {
  const int m = static_cast<int>(a.m), n = static_cast<int>(a.n), flags = static_cast<int>(a.flags);
  if (row >= m || column >= n) return;
  Pack<Result, kCount> piece;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    if (a.bias && column + j < n) sums[j] += static_cast<Sum>(widen(a.bias[column + j]));
    piece.x[j] = Narrow<Result>::of(flags & kRelu && sums[j] < 0 ? Sum(0) : sums[j]);
  }
  Result* const to = c + static_cast<i64>(row) * a.c_row + column;
  if (kCount == 1 || flags & kWholeC) return store_whole(to, piece);
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    if (column + j < n) to[j] = piece.x[j];
  }
}

BOUNDED_KERNEL(multiply, ProductArguments, kThreads, kBlocks) {
  constexpr int kStage = kDepth * (kPitchA + kPitchB);
  Sum* const memory = reinterpret_cast<Sum*>(shared);
  const int flags = static_cast<int>(a.flags), m = static_cast<int>(a.m), n = static_cast<int>(a.n);
  u32 rest = blockIdx.x;
  const u32 columns_of_blocks = static_cast<u32>(n + kN - 1) / kN, rows_of_blocks = static_cast<u32>(m + kM - 1) / kM;
  const int first_n = static_cast<int>(rest % columns_of_blocks) * kN;
  rest /= columns_of_blocks;
  u32 outer = 0, inner = 0;
  if (a.batch > 1) {
    outer = rest / rows_of_blocks;
    rest %= rows_of_blocks;
    inner = outer % static_cast<u32>(a.inner);
    outer /= static_cast<u32>(a.inner);
  }
  const int first_m = static_cast<int>(rest) * kM;
  Part<kM, kPitchA, kAcrossA, kWholeA> left;
  Part<kN, kPitchB, kAcrossB, kWholeB> right;
  left.line = static_cast<int>(a.a_row), left.deep = static_cast<int>(a.a_col), left.lines = m - first_m;
  left.from = a.a + outer * a.a_outer + inner * a.a_inner + static_cast<i64>(first_m) * a.a_row;
  right.line = static_cast<int>(a.b_col), right.deep = static_cast<int>(a.b_row), right.lines = n - first_n;
  right.from = a.b + outer * a.b_outer + inner * a.b_inner + static_cast<i64>(first_n) * a.b_col;
  const int team = threadIdx.x / kTeam, x = threadIdx.x % kTilesN, y = threadIdx.x % kTeam / kTilesN;
  Sum sums[kEachM][kEachN] = {};
  wait_for_kernel_before();
  if (flags & kTrigger) let_kernel_after_start();
  left.load(static_cast<int>(a.k));
  right.load(static_cast<int>(a.k));
  Sum* stage = memory;
#pragma unroll 1
  for (int depth = static_cast<int>(a.k); depth > 0; depth -= kDepth) {
    const int turns = ((depth < kDepth ? depth : kDepth) + kTurn - 1) / kTurn;
    if (kStages == 1 && depth < static_cast<int>(a.k)) __syncthreads();
    left.store(stage, depth, turns * kTurn);
    right.store(stage + kDepth * kPitchA, depth, turns * kTurn);
    __syncthreads();
    if (!kOnce && depth > kDepth) {
      left.load(depth - kDepth);
      right.load(depth - kDepth);
    }
    const Sum* rows = stage + team * kPitchA + place<kEachM, kTilesM>(y, 0);
    const Sum* columns = stage + kDepth * kPitchA + team * kPitchB + place<kEachN, kTilesN>(x, 0);
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int p = 0; p < kUnroll; ++p) {
        Sum l[kEachM], r[kEachN];
        fetch_line<kEachM, kTilesM>(l, rows + p * (kTeams * kPitchA));
        fetch_line<kEachN, kTilesN>(r, columns + p * (kTeams * kPitchB));
#pragma unroll
        for (int i = 0; i < kEachM; ++i) {
#pragma unroll
          for (int j = 0; j < kEachN; ++j) sums[i][j] = multiply_add(l[i], r[j], sums[i][j]);
        }
      }
      rows += kTurn * kPitchA;
      columns += kTurn * kPitchB;
    }
    if (kOnce) break;
    if (kStages == 2) stage = stage == memory ? memory + kStage : memory;
  }
  Result* const c = a.c + outer * a.c_outer + inner * a.c_inner;
  if constexpr (kTeams == 1) {
    constexpr int kPiece = kEachN < 4 ? kEachN : 4;
#pragma unroll
    for (int i = 0; i < kEachM; ++i) {
#pragma unroll
      for (int j = 0; j < kEachN; j += kPiece) {
        Sum piece[kPiece];
#pragma unroll
        for (int e = 0; e < kPiece; ++e) piece[e] = sums[i][j + e];
        finish(a, c, first_m + place<kEachM, kTilesM>(y, i), first_n + place<kEachN, kTilesN>(x, j), piece);
      }
    }
  } else {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kEachM; ++i) {
#pragma unroll
      for (int j = 0; j < kEachN; ++j) {
        memory[(team * kM + place<kEachM, kTilesM>(y, i)) * kN + place<kEachN, kTilesN>(x, j)] = sums[i][j];
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < kM * kN; i += kThreads) {
      Sum sum[1] = {memory[i]};
#pragma unroll
      for (int t = 1; t < kTeams; ++t) sum[0] += memory[t * (kM * kN) + i];
      finish(a, c, first_m + i / kN, first_n + i % kN, sum);
    }
  }
}
)cuda";

/// A row of product_tiles.def.
struct Tile {
  const char* name;
  int m, n, depth, each_m, each_n, teams, unroll, stages, least_blocks;

  int threads() const { return m / each_m * (n / each_n) * teams; }
  static int pitch(int lines, int each) { return lines + (lines == 8 && each <= 2 ? 2 : 4); }
  int64_t shared_bytes(int64_t item) const {
    const int64_t stage = int64_t{depth} * (pitch(m, each_m) + pitch(n, each_n));
    return item * std::max<int64_t>(stages * stage, teams > 1 ? int64_t{teams} * m * n : 0);
  }
  int64_t blocks(int64_t batch, int64_t rows, int64_t columns) const {
    return batch * ceil_div(rows, m) * ceil_div(columns, n);
  }
};
constexpr Tile kTiles[] = {
#define TILE(name, ...) {#name, __VA_ARGS__},
#define USE(...)
#include "smolder/jit/cuda/native/product_tiles.def"
};
enum TileName {
#define TILE(name, ...) k##name,
#define USE(...)
#include "smolder/jit/cuda/native/product_tiles.def"
};

/// What decides how a product is best made, besides its sizes.
enum class Kind { kFloat, kTF32, kHalf, kDouble };
struct Use {
  Kind kind;
  TileName tile;
  int64_t most_k, most_blocks, least_batch, most_side;
};
constexpr Use kUses[] = {
#define TILE(...)
#define USE(kind, tile, ...) {Kind::kind, k##tile, __VA_ARGS__},
#include "smolder/jit/cuda/native/product_tiles.def"
};

Kind kind_of(DType t) {
  if (t == DType::kFloat64) return Kind::kDouble;
  if (is_half(t)) return Kind::kHalf;
  return precision().allow_tf32() ? Kind::kTF32 : Kind::kFloat;
}

/// As what its elements are summed.
DType sum_of(DType t) { return t == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

/// How a product is made.
struct Choice {
  const Tile* tile;
  bool once;  ///< all of the depth is one stage, whatever the size
};
/// By what is a product's and the device's alone, not by how operands lie. None: it is cuBLASLt's.
std::optional<Choice> choice_for(const eager::MatmulDesc& d, int64_t batch, const NativeDevice& device) {
  if (d.k == 0) return Choice{&kTiles[0], true};
  for (const Use& use : kUses) {
    const Tile& tile = kTiles[use.tile];
    if (use.kind == kind_of(d.dtype) && d.k <= use.most_k && batch >= use.least_batch &&
        std::max(d.m, d.n) <= use.most_side && tile.blocks(batch, d.m, d.n) <= use.most_blocks &&
        tile.shared_bytes(static_cast<int64_t>(itemsize(sum_of(d.dtype)))) <= device.shared_bytes()) {
      return Choice{&tile, use.most_k <= tile.depth};
    }
  }
  return std::nullopt;
}

/// Offsets that one stride walks are an axis of the batch.
struct OuterAxis {
  int64_t extent = 1, a = 0, b = 0, c = 0;
};
std::optional<OuterAxis> outer_axis(const std::vector<ProductSteps::Offsets>& all) {
  if (all.size() < 2) return OuterAxis{};
  const OuterAxis axis{static_cast<int64_t>(all.size()), all[1].a - all[0].a, all[1].b - all[0].b, all[1].c - all[0].c};
  for (size_t i = 2; i < all.size(); ++i) {
    if (all[i].a - all[i - 1].a != axis.a || all[i].b - all[i - 1].b != axis.b || all[i].c - all[i - 1].c != axis.c) {
      return std::nullopt;
    }
  }
  return axis;
}

/// An operand as the program sees it.
struct Part {
  bool across, whole;

  Part(int64_t lines, int64_t line, int64_t depth, int64_t deep, std::initializer_list<int64_t> batch_strides)
      : across(deep == 1 || line != 1) {
    whole = (across ? deep : line) == 1 && (across ? line : deep) % 4 == 0 && (across ? depth : lines) % 4 == 0;
    for (const int64_t stride : batch_strides) whole = whole && stride % 4 == 0;
  }
};

/// Whether offsets in a tile are 32 bits, as the program has them.
bool fits(const eager::MatmulDesc& d, const Tile& tile) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const auto reach = [&](int64_t line, int lines, int64_t deep) {
    return std::abs(line) < kMost / lines / 2 && std::abs(deep) < kMost / tile.depth / 2;
  };
  return reach(d.a_row, tile.m, d.a_col) && reach(d.b_col, tile.n, d.b_row) && std::max({d.m, d.n, d.k}) < kMost;
}

class FloatProduct final : public BoundLibrary {
 public:
  FloatProduct(NativeDevice& device, const Choice& choice, ProductSteps steps)
      : device_(device), steps_(std::move(steps)), best_(choice), left_(1, 1, 1, 1, {}), right_(1, 1, 1, 1, {}) {
    const eager::MatmulDesc& d = steps_.desc;
    if (const std::optional<OuterAxis> axis = outer_axis(steps_.offsets)) {
      outer_ = *axis;
      steps_.offsets.resize(1);
    }
    const auto item = static_cast<int64_t>(itemsize(d.dtype)),
               result_item = static_cast<int64_t>(itemsize(d.out_dtype));
    outer_.a /= item, outer_.b /= item, outer_.c /= result_item;
    left_ = Part(d.m, d.a_row, d.k, d.a_col, {outer_.a, d.a_batch_stride});
    right_ = Part(d.n, d.b_col, d.k, d.b_row, {outer_.b, d.b_batch_stride});
    use(at_hand());
  }

  bool run(std::span<void* const> addresses) const override {
    launch(addresses);
    return true;
  }
  bool only_queues() const override { return true; }
  void settle() override {
    if (now_.tile != best_.tile || now_.once != best_.once) use(best_);
  }
  std::string describe() const override { return steps_.describe() + " by " + now_.tile->name; }

 private:
  void use(const Choice& choice) {
    const eager::MatmulDesc& d = steps_.desc;
    now_ = choice;
    blocks_ = now_.tile->blocks(outer_.extent * d.batch, d.m, d.n);
    shared_bytes_ = static_cast<int>(shared_bytes(*now_.tile));
    multiply_ = function(left_.whole, right_.whole);
  }

  int64_t shared_bytes(const Tile& tile) const {
    return tile.shared_bytes(static_cast<int64_t>(itemsize(sum_of(steps_.desc.dtype))));
  }

  /// The best, unless it is still to be compiled and another that gives the same bits is not.
  Choice at_hand() const {
    if (device_.has(program(best_, left_.whole, right_.whole), true)) return best_;
    for (const Tile& tile : kTiles) {
      if (tile.teams != best_.tile->teams || tile.teams == 1 || !fits(steps_.desc, tile)) continue;
      if (shared_bytes(tile) > device_.shared_bytes()) continue;
      for (const bool once : {true, false}) {
        const Choice other{&tile, once};
        const bool holds = !once || steps_.desc.k <= tile.depth;
        if (holds && device_.has(program(other, left_.whole, right_.whole), false)) return other;
      }
    }
    return best_;
  }

  void launch(std::span<void* const> addresses) const {
    const eager::MatmulDesc& d = steps_.desc;
    const auto at = [](void* base, int64_t offset) { return static_cast<char*>(base) + offset; };
    const auto is_whole = [](const void* p, DType t) {
      return reinterpret_cast<uintptr_t>(p) % std::min<size_t>(16, 4 * itemsize(t)) == 0;
    };
    void* const bias = d.epilogue == Epilogue::kNone ? nullptr : addresses[2];
    const bool few = blocks_ <= kFewBlocks;
    for (const ProductSteps::Offsets& o : steps_.offsets) {
      void* const a = at(addresses[0], o.a);
      void* const b = at(addresses[1], o.b);
      void* const c = at(addresses.back(), o.c);
      const bool whole_c = (d.c_row | d.n | d.c_batch_stride | outer_.c) % 4 == 0 && is_whole(c, d.out_dtype);
      const int64_t flags = whole_c | (d.epilogue == Epilogue::kBiasRelu) << 1 | few << 2;
      const bool whole_a = left_.whole && is_whole(a, d.dtype), whole_b = right_.whole && is_whole(b, d.dtype);
      const bool usual = whole_a == left_.whole && whole_b == right_.whole;
      (usual ? multiply_ : function(whole_a, whole_b))
          ->launch(
              blocks_, now_.tile->threads(),
              words(a, b, bias, c, d.m, d.n, d.k, d.a_row, d.a_col, d.b_row, d.b_col, d.c_row, outer_.extent * d.batch,
                    d.batch, outer_.a, d.a_batch_stride, outer_.b, d.b_batch_stride, outer_.c, d.c_batch_stride, flags),
              {.shared_bytes = shared_bytes_, .waits = true});
    }
  }

  NativeRef function(bool whole_a, bool whole_b) const {
    return device_.function(program(now_, whole_a, whole_b), "multiply");
  }

  /// The program for operands as these lie: what it does about it is decided when it is compiled, in half the time.
  std::string program(const Choice& choice, bool whole_a, bool whole_b) const {
    const Tile& tile = *choice.tile;
    const DType dtype = steps_.desc.dtype;
    std::string text = typedef_of("Element", dtype) + typedef_of("Result", steps_.desc.out_dtype) +
                       typedef_of("Sum", sum_of(dtype)) + "constexpr int ";
    const std::pair<const char*, int> constants[] = {{"kM = ", tile.m},
                                                     {", kN = ", tile.n},
                                                     {", kDepth = ", tile.depth},
                                                     {", kEachM = ", tile.each_m},
                                                     {", kEachN = ", tile.each_n},
                                                     {", kTeams = ", tile.teams},
                                                     {", kUnroll = ", tile.unroll},
                                                     {", kStages = ", tile.stages},
                                                     {", kBlocks = ", tile.least_blocks},
                                                     {", kOnce = ", choice.once},
                                                     {";\nconstexpr bool kAcrossA = ", left_.across},
                                                     {", kWholeA = ", whole_a},
                                                     {", kAcrossB = ", right_.across},
                                                     {", kWholeB = ", whole_b}};
    for (const auto& [name, value] : constants) text += name + std::to_string(value);
    return text + ";\n" + kText;
  }

  /// As many as a device holds at once: the next kernel may then start.
  static constexpr int64_t kFewBlocks = 264;

  NativeDevice& device_;
  ProductSteps steps_;
  const Choice best_;
  Choice now_ = best_;
  OuterAxis outer_;
  Part left_, right_;
  int64_t blocks_ = 0;
  int shared_bytes_ = 0;
  NativeRef multiply_;
};

}  // namespace

std::unique_ptr<BoundLibrary> make_float_product(NativeDevice& device, const ProductSteps& steps) {
  const eager::MatmulDesc& d = steps.desc;
  if (steps.is_empty() || !is_floating(d.dtype)) return nullptr;
  if (d.out_dtype != d.dtype && !(is_half(d.dtype) && d.out_dtype == DType::kFloat32)) return nullptr;
  const std::optional<Choice> choice = choice_for(d, d.batch * static_cast<int64_t>(steps.offsets.size()), device);
  if (!choice || !fits(d, *choice->tile)) return nullptr;
  return std::make_unique<FloatProduct>(device, *choice, steps);
}

}  // namespace smolder::jit::cuda
