// Functions of complex numbers, written with the ops of their real and imaginary parts.
#pragma once

#include <optional>

#include "smolder/lazy/complex_parts.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// A real or an imaginary part: a tensor, a number, or nothing, which is 0.
class Part {
 public:
  Part() = default;
  Part(Tensor t) : tensor_(std::move(t)) {}
  Part(double v) : number_(v) {}
  bool is_nothing() const { return !tensor_.defined() && !number_; }
  bool is_number() const { return number_.has_value(); }
  double number() const { return *number_; }
  const Tensor& tensor() const { return tensor_; }
  /// `kept` holds the tensor for as long as the operand lives.
  Operand operand(Tensor& kept) const;
  Part to(DType dtype) const { return tensor_.defined() ? Part(tensor_.to(dtype)) : *this; }

 private:
  Tensor tensor_;
  std::optional<double> number_;
};

/// An operand by its parts; that of a real one has no imaginary part.
struct Complex {
  Part re, im;
  Complex() = default;
  Complex(Part r, Part i) : re(std::move(r)), im(std::move(i)) {}
  explicit Complex(const Operand& o);
  explicit Complex(const Tensor& t) : Complex(Operand(t)) {}
  bool is_complex() const { return !im.is_nothing(); }
};

/// Whether an operand is a complex number of Python's, which promotes as numbers do.
bool is_complex_number(const Operand& o);
/// The tensor of an operand; a number of Python's as one of no dimensions.
Tensor strong(const Operand& o);
/// `op` of one, or of two; empty where it has no rule. `dtype` is the complex dtype of what is complex of the results.
std::optional<Tensor> complex_math(ir::Op op, const Complex& z, DType dtype);
std::optional<Tensor> complex_math(ir::Op op, const Complex& a, const Complex& b, DType dtype);

}  // namespace smolder::lazy
