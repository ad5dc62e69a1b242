// Attention as CUDA C++ for tensor cores of compute capability 8.0 and later, without scores in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "smolder/core/dtype.h"

namespace smolder::jit::cuda {

/// Parameters of a program's text.
struct AttentionText {
  DType dtype = DType::kBFloat16;
  int head = 64;           ///< what rows are padded to in shared memory: `padded`
  bool is_causal = false;  ///< a query sees keys up to its own position
  bool aligned = true;     ///< rows are contiguous, and start at and are multiples of 16 bytes
  bool positive = true;    ///< the scale is above zero
  bool backward = false;
  bool small = false;       ///< for blocks that have less than 160 KiB of shared memory
  bool warpgroups = false;  ///< with the instructions of sm_90a, else those of sm_80
  /// None, of bools, or of numbers like the operands that are added to scores. A forward with numbers has no
  /// `positive`.
  enum class Mask : uint8_t { kNone, kBool, kAdded };
  Mask mask = Mask::kNone;
  bool mask_aligned = true;  ///< its rows are as `aligned` says of operands'
  bool many = false;         ///< there is work for more blocks of 128 rows than there are multiprocessors
  bool tf32 = false;         ///< float32 is multiplied as TensorFloat32 by tensor cores, else as it is without them

  friend auto operator<=>(const AttentionText&, const AttentionText&) = default;

  /// The padded length of rows of `width` elements.
  int padded(int64_t width) const {
    const int64_t unit = warpgroups ? 64 : 32;
    return static_cast<int>((width + unit - 1) / unit * unit);
  }
  static constexpr int kWidest = 128;

  /// Each is a program, as to compile one takes up to 0.3 s.
  enum class Kernel : uint8_t { kForward, kGradQuery, kGradKey };
  /// In their order.
  std::span<const Kernel> kernels() const {
    static constexpr Kernel kForwards[] = {Kernel::kForward}, kBackwards[] = {Kernel::kGradQuery, Kernel::kGradKey};
    return backward ? std::span<const Kernel>(kBackwards) : kForwards;
  }
  static const char* name_of(Kernel kernel);

  /// How a kernel shares out its work. Blocks of `kGradKey` take rows of keys, others of queries.
  struct Shape {
    int threads;  ///< of a block
    int tiles;    ///< of 16 rows that a warp has
    int columns;  ///< rows of the other operand that are in shared memory at a time, twice
    int part;     ///< and in registers
    int blocks;   ///< of a multiprocessor, at least
    int rows() const { return threads / 2 * tiles; }
  };
  Shape shape_of(Kernel kernel) const;
  /// Bytes of shared memory of a block.
  int shared_of(Kernel kernel) const;

  /// The instructions that are PTX, and what is made of them. A test puts functions of the host in place of the first.
  std::string instructions() const;
  std::string text_of(Kernel kernel) const;

 private:
  Shape forward() const;
  Shape grad_query() const;
  Shape grad_key() const;
  /// Bytes of tiles of a block's own rows, of four tiles of the other operand's, and of `staging`.
  int bytes_of(const Shape& s, int tiles) const {
    const int item = static_cast<int>(itemsize(dtype));
    return (tiles * s.rows() + 4 * s.columns) * (warpgroups ? head * item : head * item + 16) + staging(s);
  }
  /// Bytes before the tiles, where weights are put that threads need of each other.
  int staging(const Shape& s) const;
  int mask_bytes(int queries, int keys) const {
    const auto item = static_cast<int>(mask == Mask::kBool ? 1 : itemsize(dtype));
    return mask == Mask::kNone ? 0 : 2 * queries * (keys * item + 16);
  }
  Shape in_floats(int columns, int columns_of_wide) const;
  /// TensorFloat32 is bound by what warps read of shared memory: they have more rows where there is work enough.
  bool has_large_tiles() const { return tf32 && !small && head <= 64 && mask == Mask::kNone; }
  Shape of_large_tiles(int columns_where_many) const;
  std::string products() const;
  bool tight() const { return small && head > 64; }
  bool is_tight_for_mask() const { return small && mask != Mask::kNone; }
};

}  // namespace smolder::jit::cuda
