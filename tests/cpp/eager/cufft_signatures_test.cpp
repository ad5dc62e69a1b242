// Our declarations of cuFFT are those of its headers, where these are installed.
#if __has_include(<cufftXt.h>)
#include <cufftXt.h>

#include <type_traits>

#include "smolder/eager/cuda/cufft.h"

namespace smolder::eager::cuda {
namespace {

/// A parameter as its caller sees it: a pointer, whatever to, or a number of its size.
template <class T>
using Passed = std::conditional_t<std::is_pointer_v<T>, void*, std::conditional_t<std::is_enum_v<T>, int, T>>;

template <class Ours, class Theirs>
struct Same : std::false_type {};
template <class R, class... Ours, class S, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct Same<R(Ours...), S(Theirs...)>
    : std::bool_constant<sizeof(R) == sizeof(S) && (std::is_same_v<Passed<Ours>, Passed<Theirs>> && ...)> {};

#define SAME(member, name, parameters) static_assert(Same<FftStatus parameters, decltype(::name)>::value);
SMOLDER_CUFFT(SAME)

static_assert(int(FftType::kReal32) == CUDA_R_32F && int(FftType::kReal64) == CUDA_R_64F);
static_assert(int(FftType::kComplex32) == CUDA_C_32F && int(FftType::kComplex64) == CUDA_C_64F);
static_assert(int(FftDirection::kForward) == CUFFT_FORWARD && int(FftDirection::kInverse) == CUFFT_INVERSE);

}  // namespace
}  // namespace smolder::eager::cuda
#endif
