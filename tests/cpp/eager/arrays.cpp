#include "eager/arrays.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <limits>

#include "smolder/core/half.h"
#include "smolder/ir/interpret_number.h"

namespace smolder::eager {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Calls `f(byte offset, position)` for every element in row-major order.
template <class F>
void for_each_element(const Array& a, F f) {
  const int64_t n = numel(a.shape);
  Dims index = Dims::filled(a.shape.size(), 0);
  for (int64_t p = 0; p < n; ++p) {
    int64_t offset = 0;
    for (int i = 0; i < index.size(); ++i) offset += index[i] * a.strides[i];
    f(offset * static_cast<int64_t>(itemsize(a.dtype)), p);
    for (int i = index.size() - 1; i >= 0 && ++index[i] == a.shape[i]; --i) index[i] = 0;
  }
}

/// The bits of a float as an integer that grows with it.
int64_t ordered(double v, DType t) {
  const auto fold = [](int64_t bits, int64_t sign) { return bits & sign ? -(bits & ~sign) - 1 : bits; };
  switch (t) {
    case DType::kFloat16:
      return fold(to_float16(static_cast<float>(v)).bits, 0x8000);
    case DType::kBFloat16:
      return fold(to_bfloat16(static_cast<float>(v)).bits, 0x8000);
    case DType::kFloat32:
      return fold(std::bit_cast<uint32_t>(static_cast<float>(v)), 0x80000000);
    default: {
      const auto bits = std::bit_cast<int64_t>(v);
      return bits < 0 ? -(bits & std::numeric_limits<int64_t>::max()) - 1 : bits;
    }
  }
}

double special_float(std::mt19937& random, DType t) {
  const double tiny = t == DType::kFloat64    ? 5e-324
                      : t == DType::kFloat16  ? 0x1p-24
                      : t == DType::kBFloat16 ? 0x1p-133
                                              : 0x1p-149;
  const double huge = t == DType::kFloat64   ? std::numeric_limits<double>::max()
                      : t == DType::kFloat16 ? 65504
                                             : static_cast<double>(std::numeric_limits<float>::max());
  const double values[] = {0.0, -0.0, kInf, -kInf, kNan, tiny, -3 * tiny, huge, -huge, 1, -1, 0.5, -2.5, 1e3, -1e4};
  return values[random() % std::size(values)];
}

int64_t special_int(std::mt19937& random, DType t) {
  const int64_t low = t == DType::kInt64   ? std::numeric_limits<int64_t>::min()
                      : t == DType::kInt32 ? std::numeric_limits<int32_t>::min()
                                           : 0;
  const int64_t high = t == DType::kInt64   ? std::numeric_limits<int64_t>::max()
                       : t == DType::kInt32 ? std::numeric_limits<int32_t>::max()
                                            : 255;
  const int64_t values[] = {low, low + 1, high, high - 1, 0, 1, 31, 64};
  return values[random() % std::size(values)];
}

}  // namespace

std::string name(Layout l) {
  static constexpr const char* kNames[] = {"contiguous", "transposed", "reversed", "spaced", "offset"};
  return kNames[static_cast<int>(l)];
}

Array make_array(const Dims& shape, DType dtype, Layout layout) {
  const int rank = shape.size();
  Dims strides = contiguous_strides(shape);
  int64_t elements = std::max<int64_t>(numel(shape), 1), first = 0;
  switch (layout) {
    case Layout::kContiguous:
      break;
    case Layout::kTransposed: {  // the first axis runs fastest
      int64_t stride = 1;
      for (int a = 0; a < rank; ++a) {
        strides[a] = stride;
        stride *= std::max<int64_t>(shape[a], 1);
      }
      break;
    }
    case Layout::kReversed:
      for (int a = 0; a < rank; ++a) {
        first += std::max<int64_t>(shape[a] - 1, 0) * strides[a];
        strides[a] = -strides[a];
      }
      break;
    case Layout::kSpaced:  // every third element
      for (int a = 0; a < rank; ++a) strides[a] *= 3;
      elements *= 3;
      break;
    case Layout::kOffset:  // rows with a gap, one element off any alignment
      for (int a = 0; a + 1 < rank; ++a)
        strides[a] = strides[a] / std::max<int64_t>(shape.back(), 1) * (shape.back() + 5);
      elements = elements / (rank ? std::max<int64_t>(shape.back(), 1) : 1) * ((rank ? shape.back() : 1) + 5) + 1;
      first = 1;
      break;
  }
  const BufferRef buffer = allocate(static_cast<size_t>(elements) * itemsize(dtype));
  std::memset(buffer->data(), dtype == DType::kBool ? 1 : 0xa5, buffer->bytes());
  Array a = Array::wrap(buffer, shape, dtype);
  a.data = static_cast<char*>(a.data) + first * static_cast<int64_t>(itemsize(dtype));
  a.strides = strides;
  return a;
}

Array to_array(const ir::PlainTensor& t, Layout layout) {
  if (t.weak) return Array::from_number(t.elements[0]);
  Array a = make_array(t.shape, t.dtype, layout);
  std::vector<char> row_major(static_cast<size_t>(numel(t.shape)) * itemsize(t.dtype));
  t.to_memory(row_major.data());
  const size_t item = itemsize(t.dtype);
  for_each_element(a, [&](int64_t offset, int64_t p) {
    std::memcpy(static_cast<char*>(a.data) + offset, row_major.data() + p * item, item);
  });
  return a;
}

ir::PlainTensor to_plain(const Array& a) {
  if (a.weak) return weak_number(Scalar::from_bits(a.number, category(a.dtype)));
  const size_t item = itemsize(a.dtype);
  std::vector<char> row_major(static_cast<size_t>(numel(a.shape)) * item);
  for_each_element(a, [&](int64_t offset, int64_t p) {
    std::memcpy(row_major.data() + p * item, static_cast<char*>(a.data) + offset, item);
  });
  return ir::PlainTensor::from_memory(row_major.data(), a.dtype, a.shape);
}

ir::PlainTensor random_tensor(std::mt19937& random, const Dims& shape, DType dtype, Domain domain) {
  ir::PlainTensor t{dtype, shape, {}, false};
  std::uniform_real_distribution<double> draw(domain.low, domain.high);
  const int64_t n = numel(shape);
  for (int64_t i = 0; i < n; ++i) {
    const bool special = domain.special && random() % 5 == 0;
    const Scalar v = dtype == DType::kBool ? Scalar(random() % 2 == 0)
                     : is_floating(dtype)
                         ? Scalar(special ? special_float(random, dtype) : draw(random))
                         : Scalar(special ? special_int(random, dtype) : int64_t{std::lround(draw(random))});
    t.elements.push_back(ir::reference::convert(v, dtype));
  }
  return t;
}

ir::PlainTensor weak_number(Scalar v) { return {v.dtype(DType::kFloat64), {}, {v}, true}; }

int64_t ulps_apart(double a, double b, DType dtype) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<int64_t>::max();
  }
  const int64_t x = ordered(a, dtype), y = ordered(b, dtype);
  // Numbers of opposite signs may be further apart than an int64 holds.
  if ((x < 0) != (y < 0) && std::abs(a - b) > 1e-30) return std::numeric_limits<int64_t>::max();
  return x > y ? x - y : y - x;
}

namespace {

template <class Differ>
testing::AssertionResult compare(const ir::PlainTensor& actual, const ir::PlainTensor& expected, Differ differ) {
  if (!(actual.shape == expected.shape) || actual.dtype != expected.dtype || actual.weak != expected.weak) {
    return testing::AssertionFailure() << "got " << name(actual.dtype) << actual.shape << (actual.weak ? " weak" : "")
                                       << ", expected " << name(expected.dtype) << expected.shape
                                       << (expected.weak ? " weak" : "");
  }
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    const Scalar &a = actual.elements[i], &e = expected.elements[i];
    if (!differ(a, e)) continue;
    auto failure = testing::AssertionFailure() << std::setprecision(17);
    failure << "element " << i << " of " << expected.elements.size() << " is ";
    if (is_floating(expected.dtype)) {
      return failure << a.to_double() << ", expected " << e.to_double() << " ("
                     << ulps_apart(a.to_double(), e.to_double(), expected.dtype) << " ulp)";
    }
    return failure << a.to_int() << ", expected " << e.to_int();
  }
  return testing::AssertionSuccess();
}

}  // namespace

testing::AssertionResult same(const ir::PlainTensor& actual, const ir::PlainTensor& expected, int64_t ulps) {
  const DType t = expected.dtype;
  return compare(actual, expected, [&](const Scalar& a, const Scalar& e) {
    if (!is_floating(t)) return a.to_int() != e.to_int();
    return ulps_apart(a.to_double(), e.to_double(), t) > ulps;
  });
}

testing::AssertionResult near(const ir::PlainTensor& actual, const ir::PlainTensor& expected, double absolute) {
  return compare(actual, expected, [&](const Scalar& a, const Scalar& e) {
    const double x = a.to_double(), y = e.to_double();
    return std::isnan(y) ? !std::isnan(x) : !(x == y || std::abs(x - y) <= absolute);
  });
}

}  // namespace smolder::eager
