// Extents, strides and axis lists: short sequences, so that the shapes of most tensors are copied without allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "smolder/core/error.h"

namespace smolder {

/// Most dimensions a tensor may have, as in torch; more raises ValueError.
inline constexpr int kMaxRank = 64;

/// Up to kMaxRank values, one for each axis. Those of up to eight axes are stored inline; more take memory of the heap.
template <class T>
class AxisList {
 public:
  AxisList() = default;
  AxisList(const AxisList& o) : inline_(o.inline_), heap_(o.copied()), size_(o.size_) {}
  AxisList(AxisList&& o) noexcept : inline_(o.inline_), heap_(std::move(o.heap_)), size_(std::exchange(o.size_, 0)) {}
  AxisList& operator=(const AxisList& o) {
    if (this != &o) *this = AxisList(o);
    return *this;
  }
  AxisList& operator=(AxisList&& o) noexcept {
    inline_ = o.inline_;
    heap_ = std::move(o.heap_);
    size_ = std::exchange(o.size_, 0);
    return *this;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* data() const { return heap_ ? heap_.get() : inline_.data(); }
  T* data() { return heap_ ? heap_.get() : inline_.data(); }
  const T& operator[](int i) const { return data()[i]; }
  T& operator[](int i) { return data()[i]; }
  const T& back() const { return data()[size_ - 1]; }
  T& back() { return data()[size_ - 1]; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }

  void push_back(T x) {
    if (size_ >= kInline) grow();
    data()[size_++] = x;
  }
  void pop_back() { --size_; }
  void insert(int at, T x) {
    push_back(x);
    for (int i = size_ - 1; i > at; --i) data()[i] = data()[i - 1];
    data()[at] = x;
  }
  void erase(int at) {
    for (int i = at; i + 1 < size_; ++i) data()[i] = data()[i + 1];
    --size_;
  }

  operator std::span<const T>() const { return {data(), static_cast<size_t>(size_)}; }

 private:
  static constexpr int kInline = 8;

  /// Makes room for one more.
  void grow() {
    SMOLDER_CHECK(size_ < kMaxRank, ValueError, "tensors have at most ", kMaxRank, " dimensions");
    if (heap_) return;
    heap_ = std::make_unique<T[]>(kMaxRank);
    std::copy_n(inline_.data(), size_, heap_.get());
  }
  std::unique_ptr<T[]> copied() const {
    if (!heap_) return nullptr;
    auto copy = std::make_unique<T[]>(kMaxRank);
    std::copy_n(heap_.get(), size_, copy.get());
    return copy;
  }

  std::array<T, kInline> inline_{};  ///< copied whole: its length is known when it is compiled
  std::unique_ptr<T[]> heap_;        ///< room for kMaxRank, once there were more than fit inline
  int size_ = 0;
};

/// Extents, strides, or numbers of axes.
class Dims : public AxisList<int64_t> {
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

  friend bool operator==(const Dims& a, const Dims& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }
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
