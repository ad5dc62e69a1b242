#include "smolder/lazy/complex.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "smolder/core/counters.h"
#include "smolder/ir/attr_words.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/autocast.h"
#include "smolder/lazy/complex_math.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/tape.h"

namespace smolder::lazy {
namespace {

using ir::Op;

/// An op of a rule: what is called, of what, and what of.
struct ComplexCall {
  Op op;
  std::span<const Operand> operands;
  std::span<const int64_t> attrs;

  Complex at(size_t i) const { return Complex(operands[i]); }
  Tensor tensor(size_t i) const { return strong(operands[i]); }
  bool has(size_t i) const { return i < operands.size() && operands[i].kind() != Operand::kNone; }
  bool is_complex(size_t i) const { return at(i).is_complex(); }
};

Tensor call(Op op, std::span<const Operand> operands, std::span<const int64_t> attrs) {
  Tensor out;
  record(op, operands, attrs, &out);
  return out;
}

/// The dtype that an elementwise op on these computes in: torch's promotion, each complex operand counting as its
/// parts.
DType promoted(std::span<const Operand> operands) {
  std::vector<ir::Meta> metas;
  for (const Operand& o : operands) {
    if (o.kind() == Operand::kNone) continue;
    metas.push_back(*o.meta());
    metas.back().dtype = part_type(metas.back().dtype);
  }
  std::vector<const ir::Meta*> at;
  for (const ir::Meta& m : metas) at.push_back(&m);
  return complex_type(ir::result_type(at));
}

/// Operands that are indices or conditions, which have no parts.
bool selects(std::string_view name) {
  return name == "index" || name == "indices" || name == "mask" || name == "condition" || name == "repeats";
}

std::string_view operand_name(Op op, size_t i) {
  const std::span<const ir::OperandInfo> all = ir::info(op).operands;
  return all[std::min(i, all.size() - 1)].name;
}

/// One part of every operand that has values.
std::vector<Operand> each_part(const ComplexCall& c, bool imaginary, std::vector<Tensor>& kept) {
  std::vector<Operand> out(c.operands.begin(), c.operands.end());
  for (size_t i = 0; i < out.size(); ++i) {
    if (!c.has(i) || selects(operand_name(c.op, i))) continue;
    const Complex z = c.at(i);
    if (!imaginary) {
      out[i] = z.re.operand(kept.emplace_back());
    } else if (z.is_complex()) {
      out[i] = z.im.operand(kept.emplace_back());
    } else if (out[i].kind() == Operand::kNumber) {
      out[i] = Operand(Scalar(0.0));
    } else {
      const Tensor real = c.tensor(i);
      out[i] = Operand(kept.emplace_back(zeros_like(real, ir::as_float(real.dtype()))));
    }
  }
  return out;
}

/// Attribute words for parts, which have the shape of the whole: dtypes are those of parts.
std::vector<int64_t> words_of_parts(const ComplexCall& c) {
  std::vector<int64_t> out(c.attrs.begin(), c.attrs.end());
  ir::for_each_attr(ir::info(c.op), c.attrs, [&](const ir::AttrInfo& a, size_t first, size_t n) {
    const bool is_dtype = a.kind == ir::AttrKind::kDType || a.kind == ir::AttrKind::kOptionalDType;
    int64_t& word = out[first + n - 1];
    if (!is_dtype || (a.kind == ir::AttrKind::kOptionalDType && !out[first])) return;
    SMOLDER_CHECK(smolder::is_complex(static_cast<DType>(word)), NotImplementedError, ir::name(c.op),
                  " of complex numbers in the real dtype ", name(static_cast<DType>(word)), " is not supported");
    word = static_cast<int64_t>(part_type(static_cast<DType>(word)));
  });
  return out;
}

/// Checks a call that writes one tensor's elements into another's.
void check_one_dtype(const ComplexCall& c) {
  for (size_t i = 1; i < c.operands.size(); ++i) {
    const std::string_view other = operand_name(c.op, i);
    if (!c.has(i) || selects(other)) continue;
    ir::check_same_dtype(ir::name(c.op), operand_name(c.op, 0), *c.operands[0].meta(), other, *c.operands[i].meta());
  }
}

/// Parts in the dtype of the result's parts: real halves, by the parts of a zero-dim tensor, would be rounded as
/// halves.
void widen(std::vector<Operand>& parts, DType dtype, std::vector<Tensor>& kept) {
  for (Operand& p : parts) {
    if (p.kind() != Operand::kTensor || !is_floating(p.meta()->dtype) || p.meta()->dtype == dtype) continue;
    p = Operand(kept.emplace_back(Tensor(p.impl()).to(dtype)));
  }
}

/// Ops that are linear in all values: the same op of each part.
Tensor linear_in_parts(const ComplexCall& c) {
  std::vector<Tensor> kept;
  kept.reserve(4 * c.operands.size());
  std::vector<Operand> re = each_part(c, false, kept), im = each_part(c, true, kept);
  if (c.op == Op::kAdd || c.op == Op::kSub || c.op == Op::kWhere) {
    const DType parts = part_type(promoted(c.operands));
    widen(re, parts, kept);
    widen(im, parts, kept);
  }
  std::vector<int64_t> words = words_of_parts(c);
  const Tensor real = call(c.op, re, words);
  if (c.op == Op::kPad) words.back() = 0;  // the fill is real
  return complex_of(real, call(c.op, im, words));
}

/// Ops that move elements and make views: the same op of the pairs, but for the last dimension.
Tensor view_of_pairs(const ComplexCall& c) {
  Tensor z = c.tensor(0);
  const int rank = z.dim();
  const Tensor pairs = view_as_real(z);
  std::vector<int64_t> words(c.attrs.begin(), c.attrs.end());
  const auto axis = [&](size_t at, int of) { words[at] = normalize_axis(words[at], of); };
  switch (c.op) {
    case Op::kReshape:
    case Op::kExpand:  // sizes
      ++words[0];
      words.push_back(2);
      break;
    case Op::kPermute:
      for (int i = 1; i <= rank; ++i) axis(i, rank);
      ++words[0];
      words.push_back(rank);
      break;
    case Op::kTranspose:
      if (rank == 0) return z;
      axis(0, rank), axis(1, rank);
      break;
    case Op::kUnsqueeze:
      axis(0, rank + 1);
      break;
    case Op::kSqueeze:
      if (rank == 0) return z;
      axis(0, rank);
      break;
    default:  // select and slice
      axis(0, rank);
  }
  const Operand operand(pairs);
  return view_as_complex(call(c.op, {&operand, 1}, words));
}

/// A product: linear in each of two operands.
Tensor bilinear(const ComplexCall& c, const Operand& a, const Operand& b, std::span<const int64_t> attrs) {
  const auto product = [&](const Part& x, const Part& y) {
    Tensor kept[2];
    const Operand given[] = {x.operand(kept[0]), y.operand(kept[1])};
    return call(c.op, given, attrs);
  };
  const Complex x(a), y(b);
  const DType parts = part_type(promoted(std::vector<Operand>{a, b}));
  const auto as = [&](const Part& p) { return p.to(parts); };
  if (!y.is_complex()) return complex_of(product(as(x.re), as(y.re)), product(as(x.im), as(y.re)));
  if (!x.is_complex()) return complex_of(product(as(x.re), as(y.re)), product(as(x.re), as(y.im)));
  return complex_of(product(as(x.re), as(y.re)) - product(as(x.im), as(y.im)),
                    product(as(x.re), as(y.im)) + product(as(x.im), as(y.re)));
}

Tensor linear_layer(const ComplexCall& c) {
  const Tensor x = c.tensor(0), w = c.tensor(1);
  const Tensor out = matmul(x, transpose(w, 0, -1));
  return c.has(2) ? out + c.tensor(2) : out;
}

/// beta * self + alpha * (a @ b)
Tensor scaled_product(const ComplexCall& c) {
  const Tensor product = matmul(c.tensor(1), c.tensor(2));
  return add(mul(c.operands[0], c.operands[3]), mul(Operand(product), c.operands[4]));
}

/// Ops that treat a complex number as two real ones: steps of optimizers, as torch's.
void on_pairs(const ComplexCall& c, Tensor* outputs) {
  std::vector<Tensor> kept;
  kept.reserve(c.operands.size());
  std::vector<Operand> given(c.operands.begin(), c.operands.end());
  for (size_t i = 0; i < given.size(); ++i) {
    if (c.has(i) && c.is_complex(i)) given[i] = Operand(kept.emplace_back(view_as_real(c.tensor(i))));
  }
  const size_t count = ir::info(c.op).num_outputs;
  std::vector<Tensor> made(count);
  record(c.op, given, c.attrs, made.data());
  for (size_t i = 0; i < count; ++i) outputs[i] = made[i].dim() > 0 ? view_as_complex(made[i]) : made[i];
}

/// Conversion, which has a dtype among its words.
Tensor converted(const Tensor& t, DType dtype) {
  if (dtype == DType::kBool) return ne(t, Scalar(0.0));
  return is_complex(dtype) ? to_complex(t, dtype) : to_real(t, dtype);
}

/// `src` as `self` has it: what copy_ writes.
Tensor copied_to(const Tensor& self, const Tensor& src) {
  if (is_complex(self.dtype())) return clone(expand(to_complex(src, self.dtype()), self.shape()));
  const Tensor real = to_real(src, self.dtype());
  Tensor out;
  const Operand operands[] = {Operand(self), Operand(real)};
  record(Op::kCopy, operands, {}, &out);
  return out;
}

/// Variances are of real and imaginary parts together.
Tensor variance(const ComplexCall& c) {
  const Complex z = c.at(0);
  const Operand re[] = {Operand(z.re.tensor()), c.operands[1]}, im[] = {Operand(z.im.tensor()), c.operands[1]};
  return call(Op::kVar, re, c.attrs) + call(Op::kVar, im, c.attrs);
}

Tensor near(const ComplexCall& c) {
  const auto number = [&](size_t at) { return std::bit_cast<double>(c.attrs[at]); };
  const Tensor a = c.tensor(0), b = c.tensor(1);
  SMOLDER_CHECK(c.attrs[2] == 0, NotImplementedError, "isclose: equal_nan is not supported for ", name(a.dtype()));
  const Tensor within = magnitude(a - b) <= magnitude(b) * Scalar(number(0)) + Scalar(number(1));
  return logical_or(eq(a, b), logical_and(within, isfinite(a)));
}

/// An operand, in which integers, whose products would wrap, are of the dtype of the result's parts.
Tensor widened(const ComplexCall& c, size_t at) {
  const Tensor t = c.tensor(at);
  return is_differentiable(t.dtype()) ? t : t.to(part_type(promoted(c.operands)));
}

/// The second term of add and sub, times alpha: a number stays one, by which no dtype is promoted.
Tensor scaled(const ComplexCall& c) {
  if (c.operands[1].kind() != Operand::kTensor) return mul(c.operands[1], c.operands[2]);
  if (!is_complex_number(c.operands[1])) return mul(Operand(widened(c, 1)), c.operands[2]);
  const Complex z = c.at(1);
  const double alpha = c.operands[2].number().to_double();
  return complex_number(z.re.number() * alpha, z.im.number() * alpha);
}

/// Products of the elements along an axis, whose extent is 1 then, by halves.
Tensor multiplied(Tensor z, int axis) {
  if (z.size(axis) == 0) {
    Dims shape = z.shape();
    shape[axis] = 1;
    return full(shape, Scalar(1), z.dtype());
  }
  while (z.size(axis) > 1) {
    const int64_t n = z.size(axis), half = n / 2;
    Tensor product = slice(z, axis, 0, half) * slice(z, axis, half, 2 * half);
    if (n % 2) product = cat({product, slice(z, axis, 2 * half, n)}, axis);
    z = std::move(product);
  }
  return z;
}

/// `t` in the dtype that two words of attributes give: whether there is one, and which.
Tensor in_given_dtype(const Tensor& t, std::span<const int64_t> given) {
  return given[0] ? t.to(static_cast<DType>(given[1])) : t;
}

/// Words: a list of axes, of which none is all; whether they stay; a dtype.
Tensor product_of(const ComplexCall& c) {
  const size_t count = static_cast<size_t>(c.attrs[0]);
  Dims given;
  for (size_t i = 0; i < count; ++i) given.push_back(c.attrs[1 + i]);
  Tensor z = in_given_dtype(c.tensor(0), c.attrs.subspan(count + 2));
  const Dims axes = ir::reduction_axes("prod", given, z.dim());
  for (const int64_t axis : axes) z = multiplied(z, static_cast<int>(axis));
  const Tensor out = reshape(z, ir::reduced_shape("prod", z.shape(), given, c.attrs[count + 1] != 0));
  return out.numel() == c.tensor(0).numel() ? clone(out) : out;  // of axes of one element: no view of the operand
}

/// Running products along an axis: each step multiplies by what is twice as far before (Hillis and Steele).
Tensor running_product(const ComplexCall& c) {
  Tensor z = in_given_dtype(c.tensor(0), c.attrs.subspan(1));
  if (z.dim() == 0) return clone(z);
  const int axis = normalize_axis(c.attrs[0], z.dim());
  const int64_t n = z.size(axis);
  if (n <= 1) return clone(z);
  for (int64_t apart = 1; apart < n; apart *= 2) {
    const Tensor multiplied = slice(z, axis, apart, n) * slice(z, axis, 0, n - apart);
    z = cat({slice(z, axis, 0, apart), multiplied}, axis);
  }
  return z;
}

/// Words: a list of axes, and whether they stay. The largest real part is taken out first.
Tensor log_of_sum(const ComplexCall& c) {
  const Tensor z = c.tensor(0);
  const size_t count = static_cast<size_t>(c.attrs[0]);
  Dims axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(c.attrs[1 + i]);
  const Tensor largest = amax(parts_of(z).first.detach(), axes, true);
  const Tensor shift = where(isfinite(largest), Operand(largest), Operand(Scalar(0.0)));
  const Tensor out = log(sum(exp(z - shift), axes, true)) + shift;
  return reshape(out, ir::reduced_shape("logsumexp", z.shape(), axes, c.attrs[count + 1] != 0));
}

/// torch's refusal of an op that needs an order of complex numbers, or of another that it has no kernel of.
struct Refusal {
  std::string_view op;
  std::string_view text;  ///< a sentence, or the name of the kernel that is missing
};
constexpr Refusal kRefusals[] = {
    {"sort", " Sort does not support complex dtypes on CPU"},
    {"sorted", " Sort does not support complex dtypes on CPU"},
    {"argsort", " Sort does not support complex dtypes on CPU"},
    {"topk", " topk does not support complex dtypes on CPU"},
    {"max_dim", "max(): does not support complex input"},
    {"min_dim", "min(): does not support complex input"},
    {"argmax", "argmax(): does not support complex input"},
    {"argmin", "argmin(): does not support complex input"},
    {"amax", "max_values_cpu"},
    {"amin", "min_values_cpu"},
    {"clamp_min", "clamp is not supported for complex types"},
    {"clamp_max", "clamp is not supported for complex types"},
    {"clamp_range", "clamp is not supported for complex types"},
    {"relu", "clamp is not supported for complex types"},
    {"maximum", "maximum not implemented for complex tensors."},
    {"minimum", "minimum not implemented for complex tensors."},
    {"fmax", "fmax not implemented for complex tensors."},
    {"fmin", "fmin not implemented for complex tensors."},
    {"floor", "floor is not supported for complex inputs"},
    {"ceil", "ceil is not supported for complex inputs"},
    {"trunc", "trunc is not supported for complex inputs"},
    {"heaviside", "heaviside is not yet implemented for complex tensors."},
    {"signbit", "signbit is not implemented for complex tensors."},
    {"isposinf", "isposinf does not support complex inputs."},
    {"isneginf", "isneginf does not support complex inputs."},
    {"round", "round_vml_cpu"},
    {"frac", "frac_cpu"},
    {"lt", "lt_cpu"},
    {"le", "le_cpu"},
    {"gt", "gt_cpu"},
    {"ge", "ge_cpu"},
    {"kthvalue", "kthvalue_cpu"},
    {"median", "median_cpu"},
    {"mode", "mode_cpu"},
    {"cummax", "cummax_cpu"},
    {"cummin", "cummin_cpu"},
    {"remainder", "remainder_cpu"},
    {"floor_div", "div_floor_cpu"},
    {"fmod", "fmod_cpu"},
    {"erf", "erf_vml_cpu"},
    {"gelu", "GeluKernelImpl"},
    {"softmax", "softmax_lastdim_kernel_impl"},
    {"log_softmax", "log_softmax_lastdim_kernel_impl"},
    {"lgamma", "lgamma_vml_cpu"},
    {"atan2", "atan2_cpu"},
    {"hypot", "hypot_cpu"},
    {"bitwise_and", "bitwise_and_cpu"},
    {"bitwise_or", "bitwise_or_cpu"},
    {"bitwise_xor", "bitwise_xor_cpu"},
    {"logit", "logit_cpu"},
    {"xlogy", "xlogy_cpu"},
    {"layer_norm", "LayerNormKernelImpl"},
};

[[noreturn]] void refuse(const ComplexCall& c) {
  std::string_view text = ir::name(c.op);
  for (const Refusal& r : kRefusals) {
    if (r.op == text) text = r.text;
  }
  SMOLDER_CHECK(text.find(' ') == text.npos, NotImplementedError, text);
  DType dtype = DType::kComplex64;
  for (const Operand& o : c.operands) {
    if (o.kind() == Operand::kTensor && is_complex(o.meta()->dtype)) dtype = o.meta()->dtype;
  }
  raise<NotImplementedError>('"', text, "\" not implemented for '",
                             dtype == DType::kComplex64 ? "ComplexFloat" : "ComplexDouble", "'");
}

/// Real elements of which some are replaced by a complex number, whose imaginary part must be 0.
Tensor filled_with_real(const ComplexCall& c) {
  std::vector<Operand> operands(c.operands.begin(), c.operands.end());
  Operand& value = operands.back();
  std::optional<double> imaginary, real;
  if (is_complex_number(value)) {
    const Complex z = c.at(operands.size() - 1);
    real = z.re.number(), imaginary = z.im.number();
  } else if (const Tensor t(value.impl()); t.dim() == 0) {
    const auto [re, im] = parts_of(t.detach());
    real = re.item().to_double(), imaginary = im.item().to_double();
  }
  SMOLDER_CHECK(imaginary == 0.0, RuntimeError, "value cannot be converted to type ", name(c.operands[0].meta()->dtype),
                " without overflow");
  value = Operand(Scalar(*real));
  return call(c.op, operands, c.attrs);
}

/// The one result of an op; empty where there is no rule.
std::optional<Tensor> result_of(const ComplexCall& c) {
  switch (c.op) {
    case Op::kReshape:
    case Op::kExpand:
    case Op::kPermute:
    case Op::kTranspose:
    case Op::kUnsqueeze:
    case Op::kSqueeze:
    case Op::kSelect:
    case Op::kSlice:
      return view_of_pairs(c);
    case Op::kSliceScatter:
    case Op::kScatter:
    case Op::kScatterAdd:
    case Op::kIndexAddRows:
    case Op::kIndexCopy:
    case Op::kMaskedRows:
      check_one_dtype(c);
      return linear_in_parts(c);
    case Op::kBarrier:
    case Op::kClone:
    case Op::kSumToSize:
    case Op::kSliceBackward:
    case Op::kCat:
    case Op::kStack:
    case Op::kPad:
    case Op::kFlip:
    case Op::kTril:
    case Op::kTriu:
    case Op::kGather:
    case Op::kIndexSelect:
    case Op::kEmbedding:
    case Op::kEmbeddingBackward:
    case Op::kSum:
    case Op::kMean:
    case Op::kCumsum:
    case Op::kNanToNum:
    case Op::kNeg:
    case Op::kAdd:
    case Op::kSub:
    case Op::kWhere:
      return linear_in_parts(c);
    case Op::kMaskedFill:
    case Op::kIndexFill:
      return c.is_complex(0) ? linear_in_parts(c) : filled_with_real(c);
    case Op::kPowInt:
      return complex_math(Op::kPow, c.at(0), {Part(static_cast<double>(c.attrs[0])), Part()}, promoted(c.operands));
    case Op::kLerp:
      return c.tensor(0) + mul(Operand(c.tensor(1) - c.tensor(0)), c.operands[2]);
    case Op::kProd:
      return product_of(c);
    case Op::kCumprod:
      return running_product(c);
    case Op::kLogsumexp:
      return log_of_sum(c);
    case Op::kMatmul:
    case Op::kConvForward:
    case Op::kConvBackwardInput:
    case Op::kConvBackwardWeight:
      return bilinear(c, c.operands[0], c.operands[1], c.attrs);
    case Op::kLinear:
      return linear_layer(c);
    case Op::kAddmm:
    case Op::kBaddbmm:
      return scaled_product(c);
    case Op::kAddScaled:
      return add(c.operands[0], Operand(scaled(c)));
    case Op::kSubScaled:
      return sub(c.operands[0], Operand(scaled(c)));
    case Op::kAddcmul:
      return c.tensor(0) + mul(Operand(widened(c, 1) * widened(c, 2)), c.operands[3]);
    case Op::kAddcdiv:
      return c.tensor(0) + mul(Operand(c.tensor(1) / c.tensor(2)), c.operands[3]);
    case Op::kTo:
    case Op::kCast:
      return converted(c.tensor(0), static_cast<DType>(c.attrs[0]));
    case Op::kFill:
      return full(c.tensor(0).shape(), c.operands[1].number(), c.tensor(0).dtype());
    case Op::kZero:
      return full(c.tensor(0).shape(), 0, c.tensor(0).dtype());
    case Op::kCopy:
      return copied_to(c.tensor(0), c.tensor(1));
    case Op::kVar:
      return variance(c);
    case Op::kStd:
      return sqrt(variance(c));
    case Op::kNorm: {
      const Tensor size = magnitude(c.tensor(0));
      const Operand operand(size);
      return call(Op::kNorm, {&operand, 1}, c.attrs);
    }
    case Op::kL1Loss: {
      const Tensor size = magnitude(c.tensor(0) - c.tensor(1)), none = zeros_like(size);
      const Operand sizes[] = {Operand(size), Operand(none)};
      return call(Op::kL1Loss, sizes, c.attrs);
    }
    case Op::kAbs:
      return magnitude(c.tensor(0));
    case Op::kIsclose:
      return near(c);
    case Op::kIsnan:
    case Op::kIsinf: {
      const auto [re, im] = parts_of(c.tensor(0));
      return c.op == Op::kIsnan ? logical_or(isnan(re), isnan(im)) : logical_or(isinf(re), isinf(im));
    }
    case Op::kIsfinite: {
      const auto [re, im] = parts_of(c.tensor(0));
      return logical_and(isfinite(re), isfinite(im));
    }
    case Op::kIsreal:
      return eq(parts_of(c.tensor(0)).second, Scalar(0.0));
    case Op::kAny:
    case Op::kAll:
    case Op::kLogicalNot: {
      const Tensor truth = ne(c.tensor(0), Scalar(0.0));
      const Operand operand(truth);
      return call(c.op, {&operand, 1}, c.attrs);
    }
    case Op::kLogicalAnd:
    case Op::kLogicalOr:
    case Op::kLogicalXor: {
      const Tensor a = ne(c.tensor(0), Scalar(0.0)), b = ne(c.operands[1], Operand(Scalar(0.0)));
      const Operand truth[] = {Operand(a), Operand(b)};
      return call(c.op, truth, c.attrs);
    }
    default:
      break;
  }
  if (c.operands.size() == 1 && c.attrs.empty()) return complex_math(c.op, c.at(0), promoted(c.operands));
  if (c.operands.size() == 2 && c.attrs.empty()) return complex_math(c.op, c.at(0), c.at(1), promoted(c.operands));
  return std::nullopt;
}

bool is_optimizer_step(Op op) {
  switch (op) {
    case Op::kSgdStep:
    case Op::kAdamStep:
    case Op::kAdamwStep:
    case Op::kRmspropStep:
    case Op::kAdagradStep:
    case Op::kAdadeltaStep:
    case Op::kAdamaxStep:
    case Op::kNadamStep:
    case Op::kRadamStep:
      return true;
    default:
      return false;
  }
}

}  // namespace

void record_complex(Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor* outputs) {
  const NoAutocast plain;  // as in torch, which casts no complex operands
  const ComplexCall c{op, operands, attrs};
  if (is_optimizer_step(op)) return on_pairs(c, outputs);
  if (op == Op::kViewAsComplex) {
    raise<RuntimeError>("view_as_complex is only supported for floating point tensors, but got a tensor of dtype ",
                        name(operands[0].meta()->dtype));
  }
  for (size_t i = 0; i < c.operands.size(); ++i) {  // which no rule splits into parts
    if (c.has(i) && selects(operand_name(op, i)) && c.operands[i].meta() &&
        smolder::is_complex(c.operands[i].meta()->dtype)) {
      const std::string_view name = operand_name(op, i);
      raise<RuntimeError>(ir::name(op), "(): expected ", name, " of integers or bools, got ",
                          ir::to_string(*c.operands[i].meta()));
    }
  }
  if (auto made = result_of(c)) {
    outputs[0] = std::move(*made);
    return;
  }
  refuse(c);
}

Tensor complex_number(double re, double im) {
  const double parts[] = {re, im};
  BufferRef buffer = allocate(sizeof(parts));
  std::memcpy(buffer->data(), parts, sizeof(parts));
  Tape& tape = Tape::on(buffer->device());
  const std::lock_guard hold(tape.mutex());
  return Tensor(new TensorImpl(tape.adopt(std::move(buffer), intern({{}, DType::kComplex128, true}))));
}

Tensor to_complex(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  const DType parts = part_type(dtype);
  if (is_complex(t.dtype())) return view_as_complex(view_as_real(t).to(parts));
  const Tensor real = t.to(parts);
  return complex_of(real, zeros_like(real));
}

Tensor to_real(const Tensor& t, DType dtype) {
  if (!is_complex(t.dtype())) return t.to(dtype);
  warn("complex", "Casting complex values to real discards the imaginary part");
  const Tensor real = parts_of(t).first;
  return real.dtype() == dtype ? clone(real) : real.to(dtype);  // no view: a write to the result is none of `t`
}

Tensor conjugate(const Tensor& t) {
  if (!is_complex(t.dtype())) return t;
  const auto [re, im] = parts_of(t);
  return complex_of(re, -im);
}

}  // namespace smolder::lazy
