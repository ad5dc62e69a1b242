// Attention as CUDA C++ for tensor cores of compute capability 8.0 and later, without scores in memory.
#pragma once

#include <cstdint>
#include <string>

#include "smolder/core/dtype.h"

namespace smolder::jit::cuda {

/// What the text of a program depends on.
struct AttentionText {
  DType dtype = DType::kBFloat16;
  int head = 64;           ///< what rows are padded to in shared memory: 32, 64, 96 or 128
  bool is_causal = false;  ///< a query sees keys up to its own position
  bool aligned = true;     ///< rows are contiguous, start at multiples of 16 bytes and are multiples of 8 elements
  bool positive = true;    ///< the scale is above zero
  bool backward = false;
  bool small = false;  ///< for blocks that have less than 100 KiB of shared memory

  friend auto operator<=>(const AttentionText&, const AttentionText&) = default;

  /// Least multiple of 32 that holds rows of `width` elements.
  static int padded(int64_t width) { return static_cast<int>((width + 31) / 32 * 32); }
  static constexpr int kWidest = 128;

  static constexpr int kThreads = 128;
  /// Rows of a block: of queries in `attention_forward` and `attention_grad_query`, of keys in
  /// `attention_grad_key_value`.
  int forward_rows() const { return 128; }
  int grad_query_rows() const { return 64 * grad_query_tiles(); }
  int grad_key_rows() const { return 64 * grad_key_tiles(); }
  /// Bytes of shared memory of a block.
  int forward_shared() const { return tile_bytes(forward_rows() + 4 * forward_columns()); }
  int grad_query_shared() const { return tile_bytes(2 * grad_query_rows() + 4 * grad_query_columns()); }
  int grad_key_shared() const {
    return tile_bytes(2 * grad_key_rows() + 4 * grad_key_queries()) + 4 * grad_key_queries() * 4;
  }

  /// The instructions that are PTX, and what is made of them. A test puts functions of the host in place of the first.
  std::string instructions() const;
  std::string kernels() const;

 private:
  int tile_bytes(int rows) const { return rows * (head + 8) * 2; }
  bool tight() const { return small && head > 64; }
  // Rows of 16 that a warp has, and rows of what it goes through at a time.
  int forward_columns() const { return tight() ? 32 : 64; }
  int grad_query_tiles() const { return tight() ? 1 : 2; }
  int grad_query_columns() const { return head > 64 ? 32 : 64; }
  int grad_key_tiles() const { return head > 64 ? 1 : 2; }
  int grad_key_queries() const { return tight() ? 32 : 64; }
};

}  // namespace smolder::jit::cuda
