// Attribute words: how the arguments of a call that are neither tensors nor run-time numbers are
// written (AttrKind, op.h), and read back in the order of the signature.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"
#include "smolder/ir/sym.h"

namespace smolder::ir {

/// Words a list may take: its count and at most kMaxRank values.
inline constexpr int kListWords = 1 + kMaxRank;

/// Writes words into an array of `Capacity` on the stack. The generator computes the capacity.
template <int Capacity>
class AttrWriter {
 public:
  AttrWriter& integer(int64_t v) { return put(v); }
  AttrWriter& size(int64_t v) { return put(v); }
  AttrWriter& choice(int64_t v) { return put(v); }
  AttrWriter& boolean(bool v) { return put(v); }
  AttrWriter& real(double v) { return put(std::bit_cast<int64_t>(v)); }
  AttrWriter& dtype(DType v) { return put(static_cast<int64_t>(v)); }
  AttrWriter& optional_integer(std::optional<int64_t> v) { return put(v.has_value()).put(v.value_or(0)); }
  AttrWriter& optional_size(std::optional<int64_t> v) { return optional_integer(v); }
  AttrWriter& optional_real(std::optional<double> v) { return put(v.has_value()).real(v.value_or(0)); }
  AttrWriter& optional_dtype(std::optional<DType> v) {
    return put(v.has_value()).put(v ? static_cast<int64_t>(*v) : 0);
  }
  AttrWriter& integers(const Dims& v) {
    put(v.size());
    for (int64_t x : v) put(x);
    return *this;
  }
  AttrWriter& sizes(const Dims& v) { return integers(v); }
  AttrWriter& optional_integers(const std::optional<Dims>& v) {
    put(v.has_value());
    return integers(v ? *v : Dims());
  }

  std::span<const int64_t> words() const { return {words_, static_cast<size_t>(n_)}; }

 private:
  AttrWriter& put(int64_t v) {
    words_[n_++] = v;
    return *this;
  }
  int64_t words_[Capacity];
  int n_ = 0;
};

namespace detail {
inline int64_t plain(int64_t v) { return v; }
inline int64_t plain(const Dim& d) { return d.value; }
inline void append(Dims& list, int64_t v) { list.push_back(v); }
inline void append(SymDims& list, const Dim& d) { list.push_back(d); }
}  // namespace detail

/// Reads words in order. `Word` is int64_t (a call) or Dim (a node): sizes come out as that type, lists
/// of sizes as `Sizes`.
template <class Word, class Sizes>
class AttrReaderOf {
 public:
  explicit AttrReaderOf(std::span<const Word> words) : words_(words) {}

  int64_t integer() { return detail::plain(next()); }
  Word size() { return next(); }
  int64_t choice() { return integer(); }
  bool boolean() { return integer() != 0; }
  double real() { return std::bit_cast<double>(integer()); }
  DType dtype() { return static_cast<DType>(integer()); }
  std::optional<int64_t> optional_integer() {
    const bool present = integer() != 0;
    return optional(present, integer());
  }
  std::optional<double> optional_real() {
    const bool present = integer() != 0;
    return optional(present, real());
  }
  std::optional<DType> optional_dtype() {
    const bool present = integer() != 0;
    return optional(present, dtype());
  }
  std::optional<Word> optional_size() {
    const bool present = integer() != 0;
    return optional(present, size());
  }
  Dims integers() {
    Dims out;
    for (int64_t n = integer(); n > 0; --n) out.push_back(integer());
    return out;
  }
  std::optional<Dims> optional_integers() {
    const bool present = integer() != 0;
    return optional(present, integers());
  }
  Sizes sizes() {
    Sizes out;
    for (int64_t n = integer(); n > 0; --n) detail::append(out, next());
    return out;
  }

 private:
  const Word& next() {
    SMOLDER_INVARIANT(at_ < words_.size());
    return words_[at_++];
  }
  template <class T>
  static std::optional<T> optional(bool present, T value) {
    return present ? std::optional<T>(value) : std::nullopt;
  }

  std::span<const Word> words_;
  size_t at_ = 0;
};

/// Attributes of a call, as the tape holds them.
using AttrReader = AttrReaderOf<int64_t, Dims>;
/// Attributes of a node.
using NodeAttrReader = AttrReaderOf<Dim, SymDims>;

}  // namespace smolder::ir
