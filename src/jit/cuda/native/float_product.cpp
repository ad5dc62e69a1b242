#include "smolder/jit/cuda/native/float_product.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "smolder/core/precision.h"
#include "smolder/jit/cuda/device/float_product.h"
#include "smolder/jit/cuda/native/device.h"

namespace smolder::jit::cuda {

namespace {

using Epilogue = eager::MatmulDesc::Epilogue;

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

/// Properties, besides its sizes, that decide how a product is best made.
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
    if (!is_best()) use(best_);
  }
  void prepare_to_settle() override {
    if (!is_best()) function(best_, left_.whole, right_.whole);
  }
  std::string describe() const override { return steps_.describe() + " by " + now_.tile->name; }

 private:
  bool is_best() const { return now_.tile == best_.tile && now_.once == best_.once; }

  void use(const Choice& choice) {
    const eager::MatmulDesc& d = steps_.desc;
    now_ = choice;
    blocks_ = now_.tile->blocks(outer_.extent * d.batch, d.m, d.n);
    shared_bytes_ = static_cast<int>(shared_bytes(*now_.tile));
    multiply_ = function(now_, left_.whole, right_.whole);
  }

  int64_t shared_bytes(const Tile& tile) const {
    return tile.shared_bytes(static_cast<int64_t>(itemsize(sum_of(steps_.desc.dtype))));
  }

  /// The best, unless it is still to be compiled and another that gives the same bits is not.
  Choice at_hand() const {
    if (device_.has(program(best_, left_.whole, right_.whole))) return best_;
    for (const Tile& tile : kTiles) {
      if (tile.teams != best_.tile->teams || tile.teams == 1 || !fits(steps_.desc, tile)) continue;
      if (shared_bytes(tile) > device_.shared_bytes()) continue;
      for (const bool once : {true, false}) {
        const Choice other{&tile, once};
        const bool holds = !once || steps_.desc.k <= tile.depth;
        if (holds && device_.has(program(other, left_.whole, right_.whole))) return other;
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
    for (const ProductSteps::Offsets& o : steps_.offsets) {
      void* const a = at(addresses[0], o.a);
      void* const b = at(addresses[1], o.b);
      void* const c = at(addresses.back(), o.c);
      const bool whole_c = (d.c_row | d.n | d.c_batch_stride | outer_.c) % 4 == 0 && is_whole(c, d.out_dtype);
      const int64_t flags = whole_c | (d.epilogue == Epilogue::kBiasRelu) << 1;
      const bool whole_a = left_.whole && is_whole(a, d.dtype), whole_b = right_.whole && is_whole(b, d.dtype);
      const bool usual = whole_a == left_.whole && whole_b == right_.whole;
      (usual ? multiply_ : function(now_, whole_a, whole_b))
          ->launch(
              blocks_, now_.tile->threads(),
              words(a, b, bias, c, d.m, d.n, d.k, d.a_row, d.a_col, d.b_row, d.b_col, d.c_row, outer_.extent * d.batch,
                    d.batch, outer_.a, d.a_batch_stride, outer_.b, d.b_batch_stride, outer_.c, d.c_batch_stride, flags),
              {.shared_bytes = shared_bytes_, .waits = true});
    }
  }

  NativeRef function(const Choice& choice, bool whole_a, bool whole_b) const {
    return device_.function(program(choice, whole_a, whole_b), "multiply");
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
    return text + ";\n" + kFloatProduct;
  }

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
