// Our declarations of cuSOLVER and cuBLAS are those of their headers, where these are installed.
#if __has_include(<cusolverDn.h>) && __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#include <cusolverDn.h>

#include <type_traits>

#include "smolder/eager/cuda/cusolver.h"

namespace smolder::eager::cuda {
namespace {

/// A parameter as its caller sees it: a pointer, whatever to, or a number of its size.
template <class T>
struct Passed {
  using type = std::conditional_t<std::is_pointer_v<T>, void*, T>;
};
template <class T>
  requires std::is_enum_v<T>
struct Passed<T> {
  using type = int;
};

template <class Ours, class Theirs>
struct Same : std::false_type {};
template <class R, class... Ours, class S, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct Same<R(Ours...), S(Theirs...)>
    : std::bool_constant<sizeof(R) == sizeof(S) &&
                         (std::is_same_v<typename Passed<Ours>::type, typename Passed<Theirs>::type> && ...)> {};

#define SAME(member, name, parameters) static_assert(Same<SolverStatus parameters, decltype(::name)>::value);
#define SAME_SOLVERS(member, name, parameters) \
  SAME(member, cusolverDnS##name, parameters)  \
  SAME(member, cusolverDnD##name, parameters)
#define SAME_BLAS(member, name, parameters) \
  SAME(member, cublasS##name, parameters)   \
  SAME(member, cublasD##name, parameters)
SMOLDER_CUSOLVER(SAME)
SMOLDER_CUSOLVER_LATER(SAME)
SMOLDER_CUSOLVER_TYPED(SAME_SOLVERS)
SMOLDER_CUBLAS(SAME)
SMOLDER_CUBLAS_TYPED(SAME_BLAS)

template <class Ours, class Theirs>
constexpr bool equal(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(equal(SolverType::kFloat32, CUDA_R_32F) && equal(SolverType::kFloat64, CUDA_R_64F));
static_assert(equal(BlasFill::kLower, CUBLAS_FILL_MODE_LOWER) && equal(BlasFill::kUpper, CUBLAS_FILL_MODE_UPPER));
static_assert(equal(BlasTransposed::kNo, CUBLAS_OP_N) && equal(BlasTransposed::kYes, CUBLAS_OP_T));
static_assert(equal(BlasSide::kLeft, CUBLAS_SIDE_LEFT) && equal(BlasSide::kRight, CUBLAS_SIDE_RIGHT));
static_assert(equal(BlasDiagonal::kAny, CUBLAS_DIAG_NON_UNIT) && equal(BlasDiagonal::kOnes, CUBLAS_DIAG_UNIT));
static_assert(equal(SolverVectors::kNo, CUSOLVER_EIG_MODE_NOVECTOR) &&
              equal(SolverVectors::kYes, CUSOLVER_EIG_MODE_VECTOR));

}  // namespace
}  // namespace smolder::eager::cuda
#endif
