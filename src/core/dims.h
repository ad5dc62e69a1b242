// Extents, strides and axis lists: a fixed-capacity sequence of int64, so that shapes are copied
// without allocation and compared with memcmp.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>

#include "smolder/core/error.h"

namespace smolder {

/// Most dimensions a tensor may have; more raises ValueError.
inline constexpr int kMaxRank = 8;

/// Up to kMaxRank int64 values, stored inline.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> v) : Dims(std::span<const int64_t>(v.begin(), v.size())) {}
  explicit Dims(std::span<const int64_t> v) {
    for (int64_t x : v) push_back(x);
  }
  /// `rank` copies of `value`.
  static Dims filled(int rank, int64_t value) {
    Dims d;
    for (int i = 0; i < rank; ++i) d.push_back(value);
    return d;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t operator[](int i) const { return v_[i]; }
  int64_t& operator[](int i) { return v_[i]; }
  int64_t back() const { return v_[size_ - 1]; }
  int64_t& back() { return v_[size_ - 1]; }
  const int64_t* begin() const { return v_.data(); }
  const int64_t* end() const { return v_.data() + size_; }
  int64_t* begin() { return v_.data(); }
  int64_t* end() { return v_.data() + size_; }
  const int64_t* data() const { return v_.data(); }

  void push_back(int64_t x) {
    SMOLDER_CHECK(size_ < kMaxRank, ValueError, "tensors have at most ", kMaxRank, " dimensions");
    v_[size_++] = x;
  }
  void pop_back() { --size_; }
  void insert(int at, int64_t x) {
    push_back(x);
    for (int i = size_ - 1; i > at; --i) v_[i] = v_[i - 1];
    v_[at] = x;
  }
  void erase(int at) {
    for (int i = at; i + 1 < size_; ++i) v_[i] = v_[i + 1];
    --size_;
  }

  operator std::span<const int64_t>() const { return {v_.data(), static_cast<size_t>(size_)}; }

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (int i = 0; i < a.size_; ++i) {
      if (a.v_[i] != b.v_[i]) return false;
    }
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> v_{};
  int size_ = 0;
};

/// Product of the extents: the number of elements; 1 for rank 0.
int64_t numel(const Dims& shape);
/// Row-major strides in elements.
Dims contiguous_strides(const Dims& shape);
/// True when `strides` walk `shape` in row-major order without gaps (extents of one do not count).
bool is_contiguous(const Dims& shape, const Dims& strides);
/// torch's form: "[2, 3]".
std::string to_string(const Dims& d);
std::ostream& operator<<(std::ostream& out, const Dims& d);

/// Maps a possibly negative axis to [0, rank). Throws IndexError in torch's words; rank 0 counts as 1.
int normalize_axis(int64_t axis, int rank);
/// numpy broadcasting of two shapes. Throws RuntimeError naming `op` and both shapes.
Dims broadcast_shapes(const Dims& a, const Dims& b, std::string_view op);

}  // namespace smolder
