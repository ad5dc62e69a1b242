#include "smolder/jit/cuda/native/common_programs.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "smolder/core/buffer.h"
#include "smolder/ir/builder.h"
#include "smolder/jit/cuda/attention_text.h"
#include "smolder/jit/cuda/byte_code.h"
#include "smolder/jit/cuda/device/report.h"
#include "smolder/jit/cuda/library.h"
#include "smolder/jit/cuda/native/copy.h"
#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/cuda/native/product_finish.h"
#include "smolder/jit/cuda/native/radix.h"
#include "smolder/jit/cuda/native/scatter.h"

namespace smolder::jit::cuda {

namespace {

using ir::Op;

/// Keeps the programs that calls ask for, and runs nothing.
class ListingDevice final : public NativeDevice {
 public:
  NativeRef function(const std::string& program, const std::string& /*entry*/) override {
    programs_.insert(program);
    return std::make_shared<const NoFunction>();
  }
  bool has(const std::string& /*program*/) override { return true; }
  int64_t shared_bytes() const override { return 99 << 10; }  // as the devices of sm_86 have, which sm_80 serves
  BufferRef allocate(int64_t /*bytes*/) override { return smolder::allocate(1); }
  void copy(void* /*to*/, const void* /*from*/, int64_t /*bytes*/) override {}
  void fill(void* /*to*/, unsigned char /*value*/, int64_t /*bytes*/) override {}

  const std::set<std::string>& programs() const { return programs_; }

 private:
  class NoFunction final : public NativeFunction {
   public:
    void launch(int64_t /*blocks*/, int /*threads*/, const Words& /*arguments*/,
                const LaunchOptions& /*options*/) const override {}
  };
  std::set<std::string> programs_;
};

LibraryView dense(DType dtype, Dims shape) {
  Dims strides = contiguous_strides(shape);
  return {.dtype = dtype, .shape = std::move(shape), .strides = std::move(strides)};
}

/// One size for each tile that takes what is too large for those before it (product_tiles.def). While the best program
/// of a product is compiled, another that shares its depth likewise gives the same bits.
struct ProductSize {
  int64_t batch, m, n, k;
};
constexpr ProductSize kFloatSizes[] = {{1, 160, 160, 1000}, {1, 640, 640, 60}, {1, 320, 320, 500}, {64, 250, 250, 250}};
constexpr ProductSize kHalfSizes[] = {{1, 32, 64, 1000}, {1, 480, 480, 30}};

void list_products(NativeDevice& device, DType dtype, std::span<const ProductSize> sizes) {
  for (const ProductSize& s : sizes) {
    for (int layout = 0; layout < 16; ++layout) {
      const auto operand = [&](int64_t lines, int64_t depth, bool is_left, bool across, bool whole) {
        // Rows of an operand that may not be read four elements at a time are one element apart from that.
        const int64_t pitch = (across ? lines : depth) + (whole ? 4 - (across ? lines : depth) % 4 : 1);
        LibraryView v = dense(dtype, is_left ? Dims{s.batch, lines, depth} : Dims{s.batch, depth, lines});
        const bool rows_of_depth = is_left != across;  // the last axis is the one that lies together
        v.strides = rows_of_depth ? Dims{0, pitch, 1} : Dims{0, 1, pitch};
        v.strides[0] = pitch * (across ? depth : lines) * 4;
        return v;
      };
      const auto bit = [&](int i) { return (layout >> i & 1) != 0; };
      const LibraryView a = operand(s.m / 4 * 4, s.k / 4 * 4, true, bit(0), bit(1));
      const LibraryView b = operand(s.n / 4 * 4, s.k / 4 * 4, false, bit(2), bit(3));
      bind_native(device, Op::kDot, {a, b}, {dense(dtype, {s.batch, s.m / 4 * 4, s.n / 4 * 4})}, {});
    }
  }
}

void list_row_products(NativeDevice& device, DType dtype) {
  constexpr int64_t kWidth = 64;
  for (const int64_t rows : {1, 2, 4, 8}) {
    if (rows > 1 && is_half(dtype)) break;  // which are no such products
    bind_native(device, Op::kDot, {dense(dtype, {rows, kWidth}), dense(dtype, {kWidth, kWidth})},
                {dense(dtype, {rows, kWidth})}, {});
  }
}

void list_scatters(NativeDevice& device) {
  constexpr int64_t kPlaces = 1000, kFew = 64, kMany = 1 << 17, kWidth = 32;
  const auto rows = [&](Op op, DType dtype, bool guarded) {
    for (const int64_t n : {kFew, kMany}) {
      const LibraryView out = dense(dtype, {kPlaces, kWidth});
      bind_native(device, op, {out, dense(DType::kInt64, {n}), dense(dtype, {n, kWidth})}, {out}, {0}, guarded);
    }
  };
  const auto elements = [&](Op op, DType dtype, bool guarded, int64_t width, ir::ScatterKind kind = {}) {
    const LibraryView out = dense(dtype, {kPlaces, width}), index = dense(DType::kInt64, {kMany / kWidth, width});
    std::vector<int64_t> attrs{0};
    if (op == Op::kScatterInto) attrs.insert(attrs.begin(), static_cast<int64_t>(kind));
    bind_native(device, op, {out, index, dense(dtype, index.shape)}, {out}, attrs, guarded);
  };
  for (const bool guarded : {false, true}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      rows(Op::kIndexAdd, dtype, guarded);
      rows(Op::kIndexSet, dtype, guarded);
      elements(Op::kScatterAdd, dtype, guarded, kWidth);
      elements(Op::kScatterInto, dtype, guarded, kWidth);
    }
  }
  for (const ir::ScatterKind kind : {ir::ScatterKind::kMax, ir::ScatterKind::kMin}) {
    elements(Op::kScatterInto, DType::kFloat32, false, kWidth, kind);
  }
  for (const DType dtype : {DType::kInt64, DType::kBool}) {
    rows(Op::kIndexSet, dtype, false);
    elements(Op::kScatterInto, dtype, false, kWidth);
  }
  elements(Op::kScatterAdd, DType::kFloat32, false, int64_t{1} << 23);  // keys of 64 bits
  rows(Op::kIndexAdd, DType::kInt64, false);
  const LibraryView counts = dense(DType::kInt64, {kPlaces}), counted = dense(DType::kInt64, {kMany});
  bind_native(device, Op::kIndexAdd, {counts, counted, counted}, {counts}, {0});  // bincount
  elements(Op::kScatterAdd, DType::kInt64, false, kWidth);
  make_index_check(device, dense(DType::kInt64, {kMany}), kPlaces);
}

void list_sorts_and_scans(NativeDevice& device) {
  constexpr int64_t kShort = 20, kShorter = 500, kTile = 4000, kLong = 1 << 17, kFirst = 10, kFour = 4;
  for (const DType dtype : {DType::kFloat32, DType::kInt64}) {
    for (const int64_t descending : {0, 1}) {
      for (const int64_t n : {kShort, kShorter, kTile, kLong}) {
        const Dims shape{8, n};
        bind_native(device, Op::kSorted, {dense(dtype, shape)}, {dense(dtype, shape), dense(DType::kInt64, shape)},
                    {1, descending});
      }
    }
    for (const Dims& shape :
         {Dims{8, kShorter}, Dims{8, kShorter + kShort}, Dims{8, kFour * kShorter}, Dims{8, kTile}, Dims{kTile, 8}}) {
      const int64_t axis = shape[1] == 8 ? 0 : 1;
      for (const ir::ScanKind kind : {ir::ScanKind::kSum, ir::ScanKind::kProd}) {
        if (kind == ir::ScanKind::kProd && !is_floating(dtype)) continue;
        bind_native(device, Op::kScan, {dense(dtype, shape)}, {dense(dtype, shape)},
                    {static_cast<int64_t>(kind), axis});
      }
    }
  }
  for (const bool wide : {false, true}) {
    for (const int64_t n : {kShorter, kTile, kLong, int64_t{1} << 24}) RadixSort(device, 1, n, wide, 8);
  }
  for (const int64_t n : {kTile, kLong}) {  // topk
    const Dims first{64, kFirst};
    bind_native(device, Op::kSorted, {dense(DType::kFloat32, {64, n})},
                {dense(DType::kFloat32, first), dense(DType::kInt64, first)}, {1, 1});
  }
}

void list_copies(NativeDevice& device) {
  for (const DType dtype : {DType::kUInt8, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    LibraryView turned = dense(dtype, {33, 17});
    turned.strides = {1, 33};
    char memory[2] = {};
    StridedCopy(device, turned, dense(dtype, turned.shape)).run(memory, memory + 1);
  }
  LibraryView spread = dense(DType::kFloat32, {32, 64});  // is moved 16 bytes at a time
  spread.strides = {128, 1};
  alignas(16) char memory[32] = {};
  StridedCopy(device, spread, dense(spread.dtype, spread.shape)).run(memory, memory + 16);
}

void list_attention(std::vector<CommonProgram>& programs, const std::string& arch) {
  using Mask = AttentionText::Mask;
  const auto add = [&](AttentionText text) {
    for (const bool backward : {false, true}) {
      text.backward = backward;
      text.positive = backward || text.mask != Mask::kAdded;
      for (const AttentionText::Kernel kernel : text.kernels()) {
        programs.push_back(
            {text.instructions() + text.text_of(kernel), Contraction::kAllowed, arch + (text.warpgroups ? "a" : "")});
      }
    }
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    AttentionText text{.dtype = dtype, .warpgroups = is_half(dtype) && arch == "sm_90"};
    std::set<int> heads;
    for (const int64_t width : {32, 64, 128}) heads.insert(text.padded(width));
    for (const int head : heads) {
      text.head = head, text.is_causal = true, text.mask = Mask::kNone;
      add(text);
      text.is_causal = false;
      add(text);
      for (const Mask mask : {Mask::kBool, Mask::kAdded}) {  // of padded batches
        text.mask = mask;
        if (head <= 64) add(text);
      }
    }
  }
}

}  // namespace

std::vector<CommonProgram> common_programs(const std::string& arch) {
  ListingDevice device;
  list_products(device, DType::kFloat32, kFloatSizes);
  list_products(device, DType::kBFloat16, kHalfSizes);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) list_row_products(device, dtype);
  bind_native(device, Op::kDot, {dense(DType::kInt64, {8, 8}), dense(DType::kInt64, {8, 8})},
              {dense(DType::kInt64, {8, 8})}, {});
  const ProductFinish finish(device, {}, {});
  device.function(kCount, "count_step");
  list_scatters(device);
  list_sorts_and_scans(device);
  list_copies(device);
  std::vector<CommonProgram> programs{{interpreter_text(), Contraction::kNone, arch}};
  for (const std::string& text : device.programs()) programs.push_back({native_text(text), Contraction::kNone, arch});
  list_attention(programs, arch);
  return programs;
}

}  // namespace smolder::jit::cuda
