// Stable sorts of keys by radix, a byte a pass from the lowest.
#pragma once

#include <string>

#include "smolder/jit/cuda/native/device.h"

namespace smolder::jit::cuda {

/// Rows of keys, sorted together with their positions in the row.
class RadixSort {
 public:
  /// Keys are unsigned, of 4 or 8 bytes; `bits` of them count, from the lowest. `n`, the extent of a row, is below
  /// 2^32.
  RadixSort(NativeDevice& device, int64_t rows, int64_t n, bool wide, int bits);

  /// Results of a run: both [rows, n].
  struct Sorted {
    BufferRef keys, positions;  ///< positions are 32 bits wide
  };
  /// `keys` is [rows, n], and overwritten.
  Sorted run(BufferRef keys) const;

  static int64_t bytes_of_key(bool wide) { return wide ? 8 : 4; }

 private:
  NativeDevice& device_;
  int64_t rows_, n_;
  bool wide_;
  int passes_;
  int64_t blocks_;  ///< of a row
  NativeRef tile_, count_, scan_, move_;
};

}  // namespace smolder::jit::cuda
