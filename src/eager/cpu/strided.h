// Strided memory read and written as a sequence, so that arithmetic only ever sees plain arrays.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "smolder/core/dims.h"
#include "smolder/core/error.h"
#include "smolder/eager/dispatcher.h"

namespace smolder::eager::cpu {

/// Elements that kernels handle at a time: a few operands of eight bytes fit the first-level cache.
inline constexpr int64_t kBlock = 512;
/// Elements below which a kernel of cheap arithmetic runs on one thread. A multiple of kBlock.
inline constexpr int64_t kGrain = 32 * kBlock;

/// Calls `f(T{})` with the unsigned integer as wide as an element.
void with_item_type(size_t itemsize, auto&& f) {
  switch (itemsize) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

/// memcpy, but from the end where `to` is a little after `from` in its page of 4 KiB: there processors take each load
/// for one of what the store before it wrote, and wait, which makes the copy ten times slower.
inline void copy_bytes(void* to, const void* from, size_t bytes) {
  constexpr size_t kPage = 4096, kNear = 512, kPiece = 64, kVector = 16, kShort = 128;
  if (bytes >= kVector && bytes <= kShort) {  // short rows, for which a call takes longer than the copy
    for (size_t at = 0; at + kVector < bytes; at += kVector) {
      std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, kVector);
    }
    const size_t last = bytes - kVector;
    std::memcpy(static_cast<char*>(to) + last, static_cast<const char*>(from) + last, kVector);
    return;
  }
  const size_t after = (reinterpret_cast<size_t>(to) - reinterpret_cast<size_t>(from)) % kPage;
  size_t left = bytes;
  if (bytes >= kPage && after > 0 && after < kNear) {
    for (; left >= kPiece; left -= kPiece) {
      const size_t at = left - kPiece;
      std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, kPiece);
    }
  }
  std::memcpy(to, from, left);
}

/// A view as the sequence of its elements in row-major order of `shape`, to which it is broadcast.
class Sequence {
 public:
  Sequence(const TensorView& v, const Dims& shape) : data_(static_cast<char*>(v.data)), item_(itemsize(v.dtype)) {
    const int missing = shape.size() - v.shape.size();
    SMOLDER_INVARIANT(missing >= 0);
    for (int i = 0; i < shape.size(); ++i) {
      const int j = i - missing;
      SMOLDER_INVARIANT(j < 0 || v.shape[j] == shape[i] || v.shape[j] == 1);
      append(shape[i], j < 0 || v.shape[j] != shape[i] ? 0 : v.strides[j] * static_cast<int64_t>(item_));
    }
    if (rank_ == 0) append_axis(1, static_cast<int64_t>(item_));
  }
  explicit Sequence(const TensorView& v) : Sequence(v, v.shape) {}

  size_t item() const { return item_; }
  /// True when every element is the same memory.
  bool uniform() const { return rank_ == 1 && (stride_[0] == 0 || extent_[0] == 1); }
  /// True when the elements lie side by side.
  bool contiguous() const { return rank_ == 1 && stride_[0] == static_cast<int64_t>(item_); }
  char* data() const { return data_; }

  /// Where element `begin` lies, when the `count` from there lie side by side; else null.
  char* direct(int64_t begin, int64_t count) const {
    if (stride_[rank_ - 1] != static_cast<int64_t>(item_)) return nullptr;
    if (rank_ == 1) return data_ + begin * stride_[0];
    if (begin % extent_[rank_ - 1] + count > extent_[rank_ - 1]) return nullptr;
    return data_ + offset(begin);
  }

  /// Copies elements [begin, begin + count) to `out`.
  void read(int64_t begin, int64_t count, void* out) const {
    with_item_type(item_, [&]<class T>(T) {
      T* to = static_cast<T*>(out);
      for_runs(begin, count, [&](const char* from, int64_t stride, int64_t n) {
        if (stride == sizeof(T)) {
          copy_bytes(to, from, n * sizeof(T));
        } else if (stride == 0) {
          std::fill(to, to + n, *reinterpret_cast<const T*>(from));
        } else {
          for (int64_t i = 0; i < n; ++i) to[i] = *reinterpret_cast<const T*>(from + i * stride);
        }
        to += n;
      });
    });
  }

  /// Copies `in` to elements [begin, begin + count).
  void write(int64_t begin, int64_t count, const void* in) const {
    with_item_type(item_, [&]<class T>(T) {
      const T* from = static_cast<const T*>(in);
      for_runs(begin, count, [&](char* to, int64_t stride, int64_t n) {
        if (stride == sizeof(T)) {
          copy_bytes(to, from, n * sizeof(T));
        } else {
          for (int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(to + i * stride) = from[i];
        }
        from += n;
      });
    });
  }

 private:
  void append_axis(int64_t extent, int64_t stride) {
    extent_[rank_] = extent;
    stride_[rank_++] = stride;
  }
  /// Adds an inner axis, joined with the one before where together they are one walk.
  void append(int64_t extent, int64_t stride) {
    if (extent == 1) return;
    if (rank_ > 0 && stride_[rank_ - 1] == stride * extent) {
      extent_[rank_ - 1] *= extent;
      stride_[rank_ - 1] = stride;
    } else {
      append_axis(extent, stride);
    }
  }

  int64_t offset(int64_t position) const {
    int64_t at = 0;
    for (int a = rank_ - 1; a > 0; --a) {
      at += position % extent_[a] * stride_[a];
      position /= extent_[a];
    }
    return at + position * stride_[0];
  }

  /// Calls f(address, stride in bytes, length) for each stretch of the innermost axis.
  void for_runs(int64_t begin, int64_t count, auto f) const {
    const int inner = rank_ - 1;
    if (inner == 0) return f(data_ + begin * stride_[0], stride_[0], count);
    std::array<int64_t, kMaxRank> index;
    int64_t rest = begin, at = 0;
    for (int a = inner; a >= 0; --a) {
      index[a] = a > 0 ? rest % extent_[a] : rest;
      rest = a > 0 ? rest / extent_[a] : 0;
      at += index[a] * stride_[a];
    }
    while (count > 0) {
      if (index[inner] == 0) {  // whole rows of the last two axes
        const int64_t row = extent_[inner], rows = count / row,
                      here = inner == 1 ? rows : std::min(rows, extent_[inner - 1] - index[inner - 1] - 1);
        for (int64_t i = 0; i < here; ++i, at += stride_[inner - 1]) f(data_ + at, stride_[inner], row);
        index[inner - 1] += here;
        count -= here * row;
        if (count == 0) return;
      }
      const int64_t n = std::min(count, extent_[inner] - index[inner]);
      f(data_ + at, stride_[inner], n);
      count -= n;
      at -= index[inner] * stride_[inner];
      index[inner] = 0;
      for (int a = inner - 1; a >= 0; --a) {
        at += stride_[a];
        if (++index[a] < extent_[a] || a == 0) break;
        at -= index[a] * stride_[a];
        index[a] = 0;
      }
    }
  }

  char* data_;
  size_t item_;
  int rank_ = 0;  ///< at least 1 once constructed
  std::array<int64_t, kMaxRank> extent_, stride_;
};

}  // namespace smolder::eager::cpu
