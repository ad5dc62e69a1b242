#include "smolder/ir/plain_tensor.h"

#include <cstring>
#include <type_traits>

#include "smolder/core/element.h"

namespace smolder::ir {
namespace {

/// A number that `convert` made, as a T.
template <class T>
T stored(const Scalar& v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v.to_bool();
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(v.to_int());
  } else if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(static_cast<float>(v.to_double()));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(v.to_double()));
  } else {
    return static_cast<T>(v.to_double());
  }
}

}  // namespace

PlainTensor PlainTensor::from_memory(const void* data, DType dtype, const Dims& shape) {
  PlainTensor t{dtype, shape, {}, false};
  const int64_t n = numel(shape);
  t.elements.reserve(n);
  with_type(dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i) t.elements.push_back(number_at<T>(data, i));
  });
  return t;
}

void PlainTensor::to_memory(void* data) const {
  with_type(dtype, [&]<class T>(T) {
    char* at = static_cast<char*>(data);
    for (const Scalar& v : elements) {
      const T x = stored<T>(v);
      std::memcpy(at, &x, sizeof(T));
      at += sizeof(T);
    }
  });
}

}  // namespace smolder::ir
