#include "smolder/lazy/op_support.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/eager/cuda/cudnn.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"

namespace smolder::lazy {
namespace {

Dims leading(const Dims& shape) {
  Dims out = shape;
  out.pop_back();
  out.pop_back();
  return out;
}

Tensor with_leading(const Tensor& x, const Dims& batch) {
  Dims shape = batch;
  shape.push_back(x.size(-2));
  shape.push_back(x.size(-1));
  return x.shape() == shape ? x : expand(x, shape);
}

}  // namespace

Tensor in_format_of(Tensor made, const Tensor& like) {
  const Dims order = channels_last_order(like);
  if (!order.empty() && made.impl()->base) made = clone(made);
  set_order(made, order);
  return made;
}

Tensor clone_in_order(const Tensor& t, const Dims& order) {
  Dims seen = Dims::filled(t.dim(), 0);
  for (const int64_t axis : order) {
    SMOLDER_CHECK(order.size() == t.dim() && axis >= 0 && axis < t.dim() && seen[axis]++ == 0, RuntimeError,
                  "an order of dimensions of a tensor of ", t.dim(), " names each of them once, got ", order);
  }
  Tensor out = clone(t);
  set_order(out, order);
  return out;
}

Tensor repeat_heads(const Tensor& x, const Tensor& query) {
  SMOLDER_CHECK(x.dim() >= 3 && query.dim() >= 3, RuntimeError,
                "scaled_dot_product_attention: enable_gqa needs a dimension of heads, got shapes ", query.shape(),
                " and ", x.shape());
  const int64_t heads = x.size(-3), wanted = query.size(-3);
  if (heads == wanted) return x;
  SMOLDER_CHECK(heads > 0 && wanted % heads == 0, RuntimeError,
                "scaled_dot_product_attention: number of heads in query, ", wanted,
                ", must be a multiple of that in key and value, ", heads);
  Dims shape = x.shape();
  const int axis = shape.size() - 3;
  shape.insert(axis + 1, wanted / heads);
  const Tensor spread = expand(unsqueeze(x, axis + 1), shape);
  shape.erase(axis + 1);
  shape[axis] = wanted;
  return reshape(spread, shape);
}

namespace {

std::atomic<int> g_attention_ways{kMathAttention | kFlashAttention | kEfficientAttention | kCudnnAttention};

/// Whether a kernel on CUDA that keeps no scores takes these, but for masks.
bool is_fused_on_cuda(const Tensor& query, const Tensor& value) {
  constexpr int64_t kWidest = 128;
  return is_half(query.dtype()) && query.size(-1) <= kWidest && value.size(-1) <= kWidest &&
         cuda::device_info(query.device().index).major >= 8;
}

}  // namespace

int attention_ways() { return g_attention_ways.load(std::memory_order_relaxed); }
void set_attention_ways(int ways) { g_attention_ways.store(ways, std::memory_order_relaxed); }

bool may_fuse_attention(const Tensor& query, const Tensor&, const Tensor& value, const Tensor& attn_mask) {
  const int ways = attention_ways();
  const bool on_cpu = query.device().type != DeviceType::kCUDA;
  SMOLDER_CHECK((ways & (kMathAttention | kFlashAttention | (on_cpu ? 0 : kEfficientAttention | kCudnnAttention))) != 0,
                RuntimeError,
                "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both "
                "the math kernel and the fused kernels.");
  if (on_cpu) return true;
  if ((ways & kEfficientAttention) != 0) return true;
  const bool fused = is_fused_on_cuda(query, value);
  if ((ways & kFlashAttention) != 0 && fused && !attn_mask.defined()) return true;
  if ((ways & kCudnnAttention) != 0 && fused && eager::cuda::cudnn_version() > 0) return true;
  SMOLDER_CHECK((ways & kMathAttention) != 0, RuntimeError, "No available kernel.  Aborting execution.");
  return false;
}

Tensor attention_broadcast(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& attn_mask,
                           double scale, bool is_causal) {
  constexpr std::string_view kName = "scaled_dot_product_attention";
  const Dims batch = broadcast_shapes(broadcast_shapes(leading(query.shape()), leading(key.shape()), kName),
                                      leading(value.shape()), kName);
  // A mask may be float32 whatever the operands are.
  const bool is_wide = attn_mask.defined() && attn_mask.dtype() == DType::kFloat32;
  const Tensor q = with_leading(query, batch), k = with_leading(key, batch), v = with_leading(value, batch);
  const Tensor out = attention(q, k, v, is_wide ? attn_mask.to(query.dtype()) : attn_mask, scale, is_causal);
  const bool broadcasts = q.impl() != query.impl() || k.impl() != key.impl() || v.impl() != value.impl();
  if (!broadcasts) lay_out_attention(out, query, key, value);
  return out;
}

Tensor reduced(const Tensor& loss, std::string_view reduction) {
  return reduction == "mean" ? mean(loss) : reduction == "sum" ? sum(loss) : loss;
}

Operand clamp_bound(const Tensor& self, const Operand& bound, std::string_view which) {
  const DType dtype = self.dtype();
  if (bound.kind() != Operand::kNumber || bound.category() != Category::kInt) return bound;
  if (category(dtype) != Category::kInt || dtype == DType::kInt64) return bound;
  const int64_t least = lowest_integer(dtype), most = highest_integer(dtype);
  const int64_t v = bound.number().to_int();
  SMOLDER_CHECK(which == "min" ? v <= most : v >= least, RuntimeError, "Clamp ", which, " value ", v,
                " is outside the representable range of ", name(dtype));
  return Scalar(std::clamp(v, least, most));
}

void check_factor(std::string_view op, std::string_view what, Scalar factor, DType result) {
  check_fits(factor, result);
  SMOLDER_CHECK(is_differentiable(result) || factor.category() != Category::kFloat, RuntimeError, op,
                ": For integral input tensors, argument ", what,
                " must not be a floating point number; the operands are of ", name(result));
  SMOLDER_CHECK(result == DType::kBool || factor.category() != Category::kBool, RuntimeError, op, ": Boolean ", what,
                " only supported for Boolean results, and this is of ", name(result));
}

Scalar integer_element(std::string_view op, Scalar value, DType dtype) {
  const bool is_float = value.category() == Category::kFloat;
  const double v = value.to_double();
  // A negative integer is let wrap in uint8, as by check_fits.
  const double least = dtype == DType::kUInt8 && !is_float ? -255 : static_cast<double>(lowest_integer(dtype));
  const bool fits = dtype == DType::kInt64 ? !is_float || (v >= least && v < 0x1p63)
                                           : v >= least && v <= static_cast<double>(highest_integer(dtype));
  SMOLDER_CHECK(fits, RuntimeError, op, ": value cannot be converted to type ", name(dtype), " without overflow, got ",
                v);
  return is_float ? Scalar(static_cast<int64_t>(v)) : Scalar(value.to_int());
}

Scalar correction_of(Scalar correction) {
  const double v = correction.to_double();
  if (std::isnan(v)) return Scalar(std::numeric_limits<double>::infinity());
  return std::abs(v) < 0x1p53 ? correction : Scalar(v);
}

void check_norm(const Tensor& self, double p, const Dims& axes) {
  if (self.numel() != 0 || (p >= 0 && !std::isinf(p))) return;
  for (int64_t axis : ir::reduction_axes("norm", axes, self.dim())) {
    SMOLDER_CHECK(self.size(axis) != 0, RuntimeError, "linalg.vector_norm cannot compute the ", p, " norm on ",
                  axes.empty() ? std::string("an empty tensor") : "the dimension " + std::to_string(axis),
                  axes.empty() ? "" : " because this dimension is empty and",
                  axes.empty() ? " because the operation" : " the operation", " does not have an identity");
  }
}

void check_no_repeats(const Tensor& t) { SMOLDER_CHECK(!has_repeats(t), RuntimeError, kOverlap); }

void check_fits(Scalar value, DType dtype) {
  const double v = value.to_double();
  bool fits = true;
  std::string_view type = "bool";
  switch (dtype) {
    case DType::kBool:
      return;
    case DType::kUInt8:
      type = "uint8_t";
      fits = v < 256 && v >= (value.category() == Category::kFloat ? 0 : -255);
      break;
    case DType::kInt8:
    case DType::kInt16:
      type = dtype == DType::kInt8 ? "int8_t" : "int16_t";
      fits = v >= static_cast<double>(lowest_integer(dtype)) && v <= static_cast<double>(highest_integer(dtype));
      break;
    case DType::kInt32:
      type = "int";
      fits = v >= -0x1p31 && v < 0x1p31;
      break;
    case DType::kInt64:
      type = "int64_t";
      fits = value.category() != Category::kFloat || (v >= -0x1p63 && v < 0x1p63);
      break;
    case DType::kFloat16:
      type = "c10::Half";
      fits = !(std::abs(v) > 65504) || std::isinf(v);
      break;
    case DType::kBFloat16:
      type = "c10::BFloat16";
      fits = !(std::abs(v) > 0x1.fep127) || std::isinf(v);
      break;
    case DType::kFloat32:
    case DType::kComplex64:
      type = dtype == DType::kFloat32 ? "float" : "c10::complex<float>";
      fits = !(std::abs(v) > 0x1.fffffep127) || std::isinf(v);
      break;
    case DType::kFloat64:
    case DType::kComplex128:
      return;
  }
  SMOLDER_CHECK(fits, RuntimeError, "value cannot be converted to type ", type, " without overflow");
}

void raise_as(std::string_view op, const Error& e) {
  const std::string_view text = e.what();
  const auto is_word = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const size_t end = static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_word) - text.begin());
  const std::string_view name = text.substr(0, end), rest = text.substr(end);
  const bool names_op = !name.empty() && (rest.starts_with(':') || rest.starts_with(" :") || rest.starts_with("()"));
  // The text names no op, or this one, or its form in place, or the function in Python that records `name_of`.
  if (!names_op || name == op || name == "vmap" || name == std::string(op).append("_") ||
      op == std::string(name).append("_of"))
    throw;
  e.raise_with(std::string(op).append(rest));
  throw;  // GCC 12 does not see that every override throws
}

Tensor divisor_of(const Operand& self, const Operand& other) {
  const ir::Meta* const metas[] = {self.meta(), other.meta()};
  const DType t = ir::result_type(metas);
  if (is_floating(t) || is_complex(t) || t == DType::kBool) return {};
  if (other.kind() == Operand::kTensor) {
    const Tensor divisor(other.impl());
    return checked_divisor(divisor.dtype() == t ? divisor : divisor.to(t));
  }
  const int64_t value = other.number().to_int();
  const int bits = static_cast<int>(8 * itemsize(t));
  const bool zero = (bits == 64 ? value : value & ((int64_t{1} << bits) - 1)) == 0;
  SMOLDER_CHECK(!zero || (self.kind() == Operand::kTensor && numel(self.meta()->shape) == 0), RuntimeError,
                "Integers are divided by zero (ZeroDivisionError): ",
                self.kind() == Operand::kTensor ? to_string(*self.meta()) : "a number", " by ", value);
  return {};
}

void check_no_gradient(std::string_view op, std::string_view name, const Tensor& x) {
  SMOLDER_CHECK(!grad_enabled() || !x.defined() || !x.requires_grad(), RuntimeError, "The function '", op,
                "' is not differentiable with respect to argument '", name,
                "'. This input cannot have requires_grad True.");
}

std::vector<Tensor> of_one_call(std::vector<Tensor> views) {
  for (uint32_t i = 0; i < views.size(); ++i) {
    TensorImpl* const impl = views[i].impl();
    if (!impl->base || impl->detached) continue;
    impl->steps->number = i;
    if (impl->origin == ViewOrigin::kOrdinary) impl->origin = ViewOrigin::kOneOfSeveral;
  }
  return views;
}

DType result_type(TensorList tensors) {
  std::vector<const ir::Meta*> metas;
  for (size_t i = 0; i < tensors.size(); ++i) metas.push_back(&tensors.data()[i].meta());
  return ir::result_type(metas);
}

}  // namespace smolder::lazy
