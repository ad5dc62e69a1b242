#define SMOLDER_INLINE inline  // formulas are only recorded here
#include "smolder/jit/cuda/functions.h"

#include <array>
#include <span>

#include "smolder/ir/scalar/emit.h"
#include "smolder/ir/scalar/evaluate.h"
#include "smolder/ir/scalar/random.h"
#include "smolder/jit/cuda/device/report.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

namespace scalar = ir::scalar;

namespace {

/// Statements beyond which a function is called and not expanded where it is used: code grows with each use, and the
/// compiler's time with it.
constexpr int kLargest = 100;

/// "f32" of float32 and the halves; int8 and int16 have names of their own, since what is computed in int32 is wrapped.
const char* arithmetic_name(DType t) {
  switch (is_half(t) ? DType::kFloat32 : t) {
    case DType::kUInt8:
      return "u8";
    case DType::kInt8:
      return "i8";
    case DType::kInt16:
      return "i16";
    case DType::kInt32:
      return "i32";
    case DType::kInt64:
      return "i64";
    default:
      return type_name(scalar::register_lane(t));
  }
}

/// Functions that the device has instructions for, about as near as the formulas of ir/scalar (docs/math.md), but with
/// bits of its own. HOST_MATH asks for the host's.
bool is_approximate(ir::Op op) {
  return op == ir::Op::kExp || op == ir::Op::kTanh || op == ir::Op::kSigmoid || op == ir::Op::kErf;
}

constexpr const char* kHostMath = "#if defined(HOST_MATH) || !defined(__CUDA_ARCH__)\n";

/// e^x for |x| < 87 as 2^n 2^f, |f| <= 1/2.
constexpr const char* kExpNormal = R"(#else
DEVICE f32 exp_normal(f32 x) {
  const f32 t = __fmaf_rn(x, 0x1.715476p+0f, 0x1.8p+23f), n = t - 0x1.8p+23f;
  const f32 f = __fmaf_rn(x, 0x1.4ae0cp-26f, __fmaf_rn(x, 0x1.715476p+0f, -n));
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(f));
  return __uint_as_float(__float_as_uint(y) + (__float_as_uint(t) << 23));
}
#endif
)";

/// 1 - 2 / (e^2|x| + 1), or below 0.6, where that cancels, a polynomial.
constexpr const char* kTanh = R"(#else
DEVICE f32 tanh_f32(f32 x) {
  const f32 a = fabsf(x), s = x * x;
  f32 e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(a * 0x1.715476p+1f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(e + 1.0f));
  f32 p = __fmaf_rn(-0x1.82af92p-8f, s, 0x1.54cc1ap-6f);
  p = __fmaf_rn(p, s, -0x1.b89be2p-5f);
  p = __fmaf_rn(p, s, 0x1.1109c6p-3f);
  p = __fmaf_rn(p, s, -0x1.55553ep-2f);
  return a < 0.6f ? __fmaf_rn(p, s * x, x) : copysignf(__fmaf_rn(r, -2.0f, 1.0f), x);
}
#endif
)";

/// 1 / (1 + 2^y) for y = -x log2(e), whose rounding error counts where e^-x does. Of an x too large for one it is no
/// number, or large: the factor is kept between 1/2 and 3/2.
constexpr const char* kSigmoid = R"(#else
DEVICE f32 sigmoid_f32(f32 x) {
  const f32 y = x * -0x1.715476p+0f;
  const f32 rest = __fmaf_rn(x, -0x1.4ae0cp-26f, __fmaf_rn(x, -0x1.715476p+0f, -y));
  f32 e, r, more;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(y));
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(more) : "f"(rest), "f"(0x1.62e43p-1f), "f"(0.5f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(__fmaf_rn(e, more + 0.5f, 1.0f)));
  return r;
}
#endif
)";

/// As the formula (ir/scalar/math_f32.h), but for its power of 2. Of a choice in C++ the compiler makes a branch.
constexpr const char* kErf = R"(#else
DEVICE f32 erf_f32(f32 x) {
  const f32 a = fabsf(x), s = x * x, b = fminf(a, 3.95f);
  f32 p = __fmaf_rn(0x1.55729cp-14f, s, -0x1.a7c4eep-11f), l = __fmaf_rn(0x1.23e3dcp-12f, b, -0x1.1cf6b2p-8f), e;
  p = __fmaf_rn(p, s, 0x1.54772p-8f);
  p = __fmaf_rn(p, s, -0x1.b804e6p-6f);
  p = __fmaf_rn(p, s, 0x1.ce2d8p-4f);
  p = __fmaf_rn(p, s, -0x1.81274p-2f);
  p = __fmaf_rn(p, s, 0x1.06eba8p-3f);
  l = __fmaf_rn(l, b, 0x1.055p-5f);
  l = __fmaf_rn(l, b, -0x1.325de6p-3f);
  l = __fmaf_rn(l, b, -0x1.d6dd2cp-1f);
  l = __fmaf_rn(l, b, -0x1.a06c96p+0f);
  l = __fmaf_rn(l, b, -0x1.639e68p-12f);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(l));
  f32 r;
  asm("{.reg .pred p; setp.ge.f32 p, %1, 0f3F700000; selp.f32 %0, %2, %3, p;}"
      : "=f"(r) : "f"(a), "f"(1.0f - e), "f"(__fmaf_rn(p, a, a)));
  return copysignf(r, x);
}
#endif
)";

/// Quotients and roots as the compiler makes them, but that it branches for each, around numbers so small or large
/// that what is left of them is not exact. NaNs are not rare: they come of themselves, also of negative numbers.
constexpr const char* kCommon = R"(#ifdef __CUDA_ARCH__
DEVICE f32 div_common(f32 x, f32 y, bool& rare) {
  rare |= (fabsf(x) < 0x1p-60f) | (fabsf(x) > 0x1p+60f) | (fabsf(y) < 0x1p-64f) | (fabsf(y) > 0x1p+64f);
  f32 r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
  r = __fmaf_rn(r, __fmaf_rn(-y, r, 1.0f), r);
  const f32 q = x * r;
  return __fmaf_rn(r, __fmaf_rn(-y, q, x), q);
}
DEVICE f32 inverse_common(f32 y, bool& rare) {
  rare |= (fabsf(y) < 0x1p-126f) | (fabsf(y) >= 0x1p+126f);
  f32 r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
  return __fmaf_rn(r, __fmaf_rn(-y, r, 1.0f), r);
}
DEVICE f32 sqrt_common(f32 x, bool& rare) {
  rare |= ((fabsf(x) < 0x1p-101f) & (__float_as_uint(x) != 0)) | (x > 0x1.fffffep+127f);
  f32 r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(r) : "f"(0x1p+64f));  // of 0
  const f32 root = x * r;
  return __fmaf_rn(__fmaf_rn(-root, root, x), r * 0.5f, root);
}
#else
DEVICE f32 div_common(f32 x, f32 y, bool&) { return x / y; }
DEVICE f32 inverse_common(f32 y, bool&) { return 1.0f / y; }
DEVICE f32 sqrt_common(f32 x, bool&) { return __fsqrt_rn(x); }
#endif
DEVICE f32 lane_at(f32 x, int) { return x; }
template <int V> DEVICE f32 lane_at(const f32 (&x)[V], int k) { return x[k]; }
)";

}  // namespace

std::string Functions::define(const std::string& name, DType result, int arity, const DType* operands, auto&& emit,
                              bool is_rare) {
  if (!defined_.emplace(name, true).second) return name;
  TextBuilder b;
  std::array<Text, 3> args;
  std::string parameters;
  for (int i = 0; i < arity; ++i) {
    args[i] = b.named(scalar::register_lane(operands[i]), std::string(1, static_cast<char>('x' + i)));
    parameters += cat({i > 0 ? ", " : "", type_name(args[i].type), " ", b.name(args[i])});
  }
  const Text r = emit(b, std::span<const Text>(args.data(), arity));
  text_ += b.statements > kLargest || is_rare ? "static __device__ __noinline__ " : "DEVICE ";
  text_ += std::string(type_name(scalar::register_lane(result))) + " " + name + "(" + parameters + ") {\n" + b.text +
           "  return " + b.name(r) + ";\n}\n";
  return name;
}

std::string Functions::primitive(ir::Op op, DType t) {
  if (compute_type(t) != DType::kFloat32) return formula(op, t);
  switch (op) {
    case ir::Op::kExp:
      return exp();
    case ir::Op::kTanh:
      return with_instructions(op, kTanh);
    case ir::Op::kSigmoid:
      return with_instructions(op, kSigmoid);
    case ir::Op::kErf:
      return with_instructions(op, kErf);
    case ir::Op::kMaximum:
    case ir::Op::kMinimum:
      return extremum(op);
    default:
      return formula(op, t);
  }
}

std::string Functions::formula(ir::Op op, DType t) {
  const auto p = static_cast<scalar::Primitive>(op);
  const auto& info = scalar::info(p);
  const DType c = is_half(t) ? DType::kFloat32 : t;
  DType operands[3] = {c, c, c};
  if (p == scalar::Primitive::kWhere) operands[0] = DType::kBool;
  return define(std::string(info.name) + "_" + arithmetic_name(t), info.result_dtype(c), info.arity, operands,
                [&](TextBuilder& b, std::span<const Text> args) { return scalar::emit_primitive(b, p, c, args); });
}

std::string Functions::cast(DType from, DType to) {
  return define(std::string(arithmetic_name(from)) + "_to_" + arithmetic_name(to), to, 1, &from,
                [&](TextBuilder& b, std::span<const Text> args) { return scalar::emit_cast(b, from, to, args[0]); });
}

std::string Functions::random_bits() {
  const DType operands[3] = {DType::kInt64, DType::kInt64, DType::kInt64};
  const auto emit = [&](TextBuilder& b, std::span<const Text> args) {
    using I64 = scalar::I64<TextBuilder>;
    const auto word = [&](int i) { return I64{&b, args[i]}; };
    return b.zext<LaneType::kI64>(scalar::random_bits(word(0), word(1), word(2)).v);
  };
  return define("random_bits", DType::kInt64, 3, operands, emit, true);
}

std::string Functions::report() {
  if (defined_.emplace("report", true).second) text_ += kReport;
  return "report";
}

std::string Functions::report_lanes() {
  report();
  if (!defined_.emplace("report_lanes", true).second) return "report_lanes";
  text_ +=
      R"(template <int V> static __device__ __noinline__ void report_lanes(u32* slot, const u64 (&index)[V], i64 limit) {
  FOR_LANES if (index[k] >= static_cast<u64>(limit)) return report(slot, index[k], limit);
}
)";
  return "report_lanes";
}

std::string Functions::random_lanes() {
  const std::string one = random_bits(), name = "random_lanes";
  if (!defined_.emplace(name, true).second) return name;
  TextBuilder b;
  using I64 = scalar::I64<TextBuilder>;
  const auto argument = [&](const char* x) { return I64{&b, b.named(LaneType::kI64, x)}; };
  const auto words = scalar::random_words(argument("seed"), argument("counter"));
  text_ += "DEVICE void random_four(u64 seed, u64 counter, u32 (&words)[4]) {\n" + b.text;
  for (int i = 0; i < 4; ++i) text_ += cat({"  words[", std::to_string(i), "] = ", b.name(words[i].v), ";\n"});
  text_ += R"(}
template <int V> DEVICE void random_lanes(u64 (&x)[V], u64 seed, u64 offset, u64 first) {
  if (V % 4 == 0 && first % 4 == 0) {
#pragma unroll
    for (int k = 0; k < V; k += 4) {
      u32 words[4];
      random_four(seed, offset + (first + k) / 4, words);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[k + i] = words[i];
    }
  } else {
#pragma unroll
    for (int k = 0; k < V; ++k) x[k] = )" +
           one + R"((seed, offset, first + k);
  }
}
)";
  return name;
}

std::string Functions::exp() {
  const std::string name = "exp_f32";
  if (!defined_.emplace(name, true).second) return name;
  const DType f32 = DType::kFloat32;
  define("exp_formula", f32, 1, &f32, [](TextBuilder& b, std::span<const Text> args) {
    return scalar::emit_primitive(b, scalar::Primitive::kExp, DType::kFloat32, args);
  });
  text_ += kHostMath;
  define("exp_normal", f32, 1, &f32, [](TextBuilder& b, std::span<const Text> args) {
    return scalar::detail::exp_normal(scalar::F32<TextBuilder>{&b, args[0]}).v;
  });
  text_ += kExpNormal;
  text_ += R"(static __device__ __noinline__ f32 exp_f32(f32 x) {
  return fabsf(x) < 87.0f ? exp_normal(x) : exp_formula(x);
}
)";
  return name;
}

/// The formula, or `text`.
std::string Functions::with_instructions(ir::Op op, const char* text) {
  const std::string name = std::string(scalar::info(static_cast<scalar::Primitive>(op)).name) + "_f32";
  if (defined_.contains(name)) return name;
  text_ += kHostMath;
  formula(op, DType::kFloat32);
  text_ += text;
  return name;
}

/// One instruction, which of two zeros takes the positive as the larger.
std::string Functions::extremum(ir::Op op) {
  const bool is_max = op == ir::Op::kMaximum;
  const std::string name = is_max ? "maximum_f32" : "minimum_f32";
  if (defined_.contains(name)) return name;
  text_ += kHostMath;
  formula(op, DType::kFloat32);
  text_ += cat({"#else\nDEVICE f32 ", name, "(f32 x, f32 y) {\n  f32 r;\n  asm(\"", is_max ? "max" : "min",
                ".NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(x), \"f\"(y));\n  return r;\n}\n#endif\n"});
  return name;
}

/// Keeps extrema of sides in `x`, or of two halves at once in `pair`, which `..._both` adds to `x` in the end.
std::string Functions::extremum_of_pack(ir::Op op, DType half) {
  const std::string one = extremum(op), type = half == DType::kFloat16 ? "f16" : "bf16", name = one + "_of_" + type;
  if (!defined_.emplace(name, true).second) return name;
  const std::string lane = type == "f16" ? "f16_to_f32(p.x[k])" : "bf16_lane(p, k)";
  const std::string both = type == "f16" ? "f16_to_f32(pair & 0xffff)), f16_to_f32(pair >> 16)"
                                         : "__uint_as_float(pair << 16)), __uint_as_float(pair & 0xffff0000u)";
  text_ +=
      cat({"template <int S, int V> DEVICE void ", name, "(f32* x, u32& pair, const Pack<u16, V>& p) {\n", kHostMath,
           "  constexpr int kLanes = V;\n#else\n  constexpr int kLanes = V < 2 ? V : 0;\n#pragma unroll\n",
           "  for (int i = 0; i < V / 2; ++i) asm(\"", one.substr(0, 3), ".NaN.", type,
           "x2 %0, %0, %1;\" : \"+r\"(pair) : \"r\"(p.words[i]));\n#endif\n#pragma unroll\n",
           "  for (int k = 0; k < kLanes; ++k) x[k * S / V] = ", one, "(x[k * S / V], ", lane, ");\n}\n"});
  text_ +=
      cat({"DEVICE void ", name, "_both(f32* x, u32 pair) {\n  x[0] = ", one, "(", one, "(x[0], ", both, ");\n}\n"});
  return name;
}

/// exp of several numbers: of small ones, as nearly all are, without care for those that overflow or vanish. One
/// comparison finds others, of a maximum that keeps NaNs; they are computed again, so that nothing waits for it.
std::string Functions::exp_lanes() {
  const std::string name = "exp_lanes";
  if (!defined_.emplace(name, true).second) return name;
  const std::string any = exp(), most = extremum(ir::Op::kMaximum);
  text_ += four(any) + R"(template <int V> DEVICE void exp_lanes(f32 (&y)[V], const f32 (&x)[V]) {
  f32 most[V];
#pragma unroll
  for (int k = 0; k < V; ++k) most[k] = fabsf(x[k]);
#pragma unroll
  for (int by = V / 2; by > 0; by /= 2) {
#pragma unroll
    for (int k = 0; k < by; ++k) most[k] = )" +
           most + R"((most[k], most[k + by]);
  }
  if (V == 3) most[0] = )" +
           most + R"((most[0], most[V - 1]);
#pragma unroll
  for (int k = 0; k < V; ++k) y[k] = exp_normal(x[k]);
  if (!(most[0] < 87.0f)) by_fours(y, x, exp_f32_four);
}
)";
  return name;
}

/// A function for `by_fours`.
std::string Functions::four(const std::string& function) {
  return cat({"static __device__ __noinline__ Four ", function, "_four(Four x) {\n  return {", function, "(x.a), ",
              function, "(x.b), ", function, "(x.c), ", function, "(x.d)};\n}\n"});
}

/// A branch for each lane keeps the compiler from interleaving them, and the rare case written out at each keeps it
/// busy.
std::string Functions::rare_lanes(ir::Op op, DType t) {
  const auto p = static_cast<scalar::Primitive>(op);
  const auto& info = scalar::info(p);
  const DType c = compute_type(t);
  const bool two = op == ir::Op::kPow;  // others have zeros where a quotient is rare
  if ((info.arity != 1 && !two) || c != DType::kFloat32 || is_approximate(op)) return "";
  TextBuilder b;
  b.leaves_rare = true;
  const std::array<Text, 2> args{b.named(LaneType::kF32, "x"), b.named(LaneType::kF32, "y")};
  const Text r = scalar::emit_primitive(b, p, c, std::span<const Text>(args).first(two ? 2 : 1));
  if (!b.has_rare || r.type != LaneType::kF32) return "";
  const std::string any = formula(op, t), name = any + "_lanes";
  if (!defined_.emplace(name, true).second) return name;
  if (defined_.emplace("common", true).second) text_ += kCommon;
  const std::string_view parameters = two ? "f32 x, f32 y" : "f32 x", arguments = two ? "x, y" : "x";
  text_ +=
      cat({"DEVICE f32 ", any, "_common(", parameters, ", bool& rare) {\n", b.text, "  return ", b.name(r), ";\n}\n"});
  text_ += cat(
      {"static __device__ __noinline__ f32 ", any, "_any(", parameters, ") { return ", any, "(", arguments, "); }\n"});
  if (!two) text_ += four(any + "_any");
  const std::string each = "#pragma unroll\n  for (int k = 0; k < V; ++k) r[k] = " + any;
  const std::string_view lane = two ? "(lane_at(x, k), lane_at(y, k)" : "(x[k]";
  text_ += cat({two ? "template <int V, class X, class Y>" : "template <int V>", " DEVICE void ", name,
                two ? "(f32 (&r)[V], const X& x, const Y& y)" : "(f32 (&r)[V], const f32 (&x)[V])",
                " {\n  bool rare = false;\n", each, "_common", lane, ", rare);\n  if (!rare) return;\n",
                two ? cat({each, "_any", lane, ");\n"}) : cat({"  by_fours(r, x, ", any, "_any_four);\n"}), "}\n"});
  return name;
}

/// Quotients of several numbers by one, whose inverse is known to twice the digits. So is a first quotient, but that it
/// is rounded; what is left of it, by the rounded inverse, makes it the rounded quotient (Markstein), as long as that
/// is exact, which it need not be for small numbers, and nothing overflows, which leaves a nan. Inverses in two parts
/// are from below, and what is left has the sign that it has, for the sign of a zero.
std::string Functions::div_lanes() {
  const std::string any = primitive(ir::Op::kDiv, DType::kFloat32), name = "div_lanes";
  if (!defined_.emplace(name, true).second) return name;
  text_ += R"(struct Inverse {
  f32 minus, high, low;
  bool exact;  // the number is neither small nor large nor negative
};
DEVICE Inverse inverse_of(f32 y) {
  const f32 near = 1.0f / y;
  const f32 high = __fmaf_rn(-near, y, 1.0f) < 0.0f ? __uint_as_float(__float_as_uint(near) - 1) : near;
  return {-near, high, __fmaf_rn(-high, y, 1.0f) * near, y >= 0x1p-20f && y <= 0x1p40f};
}
)" +
           cat({"static __device__ __noinline__ Four div_four(Four x, f32 y) {\n  return {", any, "(x.a, y), ", any,
                "(x.b, y), ", any, "(x.c, y), ", any, "(x.d, y)};\n}\n"}) +
           R"(template <int V> DEVICE void div_lanes(f32 (&q)[V], const f32 (&x)[V], f32 y, const Inverse& inverse) {
  bool exact = inverse.exact;
  f32 finite = 0.0f;
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const f32 first = __fmaf_rn(x[k], inverse.high, x[k] * inverse.low);
    q[k] = __fmaf_rn(__fmaf_rn(first, y, -x[k]), inverse.minus, first);
    exact = exact && fabsf(x[k]) >= 0x1p-80f;
  }
#pragma unroll
  for (int k = 0; k < V; k += 2) finite = __fmaf_rn(q[k], q[k + 1 < V ? k + 1 : k], finite);
  const bool all_finite = fabsf(finite) < __uint_as_float(0x7f800000u);
  if (exact && all_finite) return;
  exact = inverse.exact;  // with zeros
#pragma unroll
  for (int k = 0; k < V; ++k) exact = exact && (x[k] == 0.0f || fabsf(x[k]) >= 0x1p-80f);
  if (exact && all_finite) return;
  by_fours(q, x, [=](Four four) { return div_four(four, y); });
}
)";
  return name;
}

/// A multiplication takes a sixth of a division. The quotient is at most one too small where what is left is below
/// 2^31; that of a size beyond 2^30 is 0 or 1.
std::string Functions::divider() {
  const std::string name = "divider_of";
  if (!defined_.emplace(name, true).second) return name;
  text_ += R"(struct Divider {
  u64 first, rest, by;
  u32 factor;
};
struct Divided {
  u64 quotient, rest;
};
DEVICE Divider divider_of(u64 position, u64 by) {
  u64 first = divide_i64(position, by), rest = position - first * by;
  if (static_cast<i64>(rest) < 0) {
    rest += by;
    --first;
  }
  return {first, rest, by, by >> 30 ? 0u : 0xffffffffu / static_cast<u32>(by)};
}
DEVICE Divided divide(const Divider& d, int i) {
  const u64 all = d.rest + static_cast<u32>(i);
  const u32 quotient = __umulhi(static_cast<u32>(all), d.factor);
  const u64 rest = all - quotient * d.by;
  return rest < d.by ? Divided{d.first + quotient, rest} : Divided{d.first + quotient + 1, rest - d.by};
}
)";
  return name;
}

LaneType register_lane(DType t) { return scalar::register_lane(t); }
LaneType storage_lane(DType t) { return scalar::storage_lane(t); }

uint64_t register_bits(Scalar v, DType t) {
  scalar::HostBuilder b;
  const DType from = v.category() == Category::kFloat ? DType::kFloat64 : DType::kInt64;
  return scalar::emit_cast(b, from, t, scalar::HostBuilder::V{v.bits()}).bits;
}

}  // namespace smolder::jit::cuda
