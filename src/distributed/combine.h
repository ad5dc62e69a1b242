// How values of ranks are reduced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "smolder/core/dtype.h"

namespace smolder::distributed {

enum class Reduce : uint8_t { kSum, kProduct, kMin, kMax, kBand, kBor, kBxor };
std::string_view name(Reduce reduce);

/// to[i] = a[i] (+) b[i]; `to` may be `a` or `b`.
using Combine = void (*)(void* to, const void* a, const void* b, size_t count);

/// Throws TypeError where there is none, as bits of floats. Halves are rounded after each step. bool: sum and max are
/// "any", product and min "all".
Combine combine_of(Reduce reduce, DType dtype);

}  // namespace smolder::distributed
