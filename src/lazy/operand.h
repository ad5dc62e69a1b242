// Operands of a call, as recording takes them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "smolder/core/scalar.h"
#include "smolder/ir/op.h"
#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// Metadata of a run-time number, by category.
const ir::Meta* number_meta(Category c);

/// One operand of a call: a tensor, a run-time number, or an absent optional. Two words, which travel in registers:
/// in memory they would be written in parts and read at once, which waits for the writes.
class Operand {
 public:
  enum Kind : uint32_t { kTensor, kNumber, kNone };
  Operand(const Tensor& t) : word_(reinterpret_cast<uint64_t>(t.impl())), kind_(kTensor) {
    SMOLDER_CHECK(word_, RuntimeError, "expected a tensor, got an undefined one");
  }
  Operand(Scalar s) : word_(s.bits()), kind_(kNumber), category_(static_cast<uint32_t>(s.category())) {}
  static Operand none() { return Operand(); }
  /// The tensor, or absent when it is undefined.
  static Operand optional(const Tensor& t) { return t.defined() ? Operand(t) : none(); }

  Kind kind() const { return kind_; }
  TensorImpl* impl() const { return reinterpret_cast<TensorImpl*>(word_); }
  Scalar number() const { return Scalar::from_bits(word_, category()); }
  Category category() const { return static_cast<Category>(category_); }
  uint64_t bits() const { return word_; }
  /// Null when absent.
  const ir::Meta* meta() const {
    return kind_ == kTensor ? impl()->value->meta : kind_ == kNumber ? number_meta(category()) : nullptr;
  }

 private:
  Operand() : word_(0), kind_(kNone) {}
  uint64_t word_;  ///< a TensorImpl's address, or a number's bits
  Kind kind_;
  uint32_t category_ = static_cast<uint32_t>(Category::kFloat);
};
static_assert(std::is_trivially_copyable_v<Operand> && sizeof(Operand) == 16);

}  // namespace smolder::lazy
