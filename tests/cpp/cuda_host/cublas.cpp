// cuBLAS for CUDA on the host: what linear algebra calls.
#include <type_traits>

#include "cuda_host/dense.h"

#define API extern "C" __attribute__((visibility("default")))

namespace smolder::eager::cuda {

struct OpaqueBlas {
  DriverStream stream = nullptr;
};

using host::at;
using host::Matrix;

API SolverStatus cublasCreate_v2(BlasHandle* handle) {
  *handle = new OpaqueBlas;
  return 0;
}
API SolverStatus cublasSetStream_v2(BlasHandle handle, DriverStream stream) {
  handle->stream = stream;
  return 0;
}

namespace {

constexpr SolverStatus kInvalidValue = 7;

void solve_triangle(SolverType type, BlasSide side, BlasFill fill, BlasDiagonal diagonal, int m, int n, const void* a,
                    int lda, void* b, int ldb) {
  const bool left = side == BlasSide::kLeft, upper = fill == BlasFill::kUpper;
  const int64_t order = left ? m : n;
  Matrix triangle = Matrix::load(a, type, order, order, lda), right = Matrix::load(b, type, m, n, ldb);
  if (!left) triangle = triangle.transposed(), right = right.transposed();
  host::trsm_left(triangle, upper == left, diagonal == BlasDiagonal::kOnes, right);
  (left ? right : right.transposed()).store(b, type, ldb);
}

bool is_one(const void* alpha, SolverType type) {
  return type == SolverType::kFloat64 ? *static_cast<const double*>(alpha) == 1
                                      : *static_cast<const float*>(alpha) == 1;
}

}  // namespace

/// Both types' functions.
#define BOTH(name, parameters, ...)                   \
  API SolverStatus cublasS##name parameters {         \
    constexpr SolverType type = SolverType::kFloat32; \
    __VA_ARGS__                                       \
  }                                                   \
  API SolverStatus cublasD##name parameters {         \
    constexpr SolverType type = SolverType::kFloat64; \
    __VA_ARGS__                                       \
  }

BOTH(getrfBatched, (BlasHandle handle, int n, void* const* all, int lda, int* pivots, int* info, int batch), {
  host::queue(handle->stream, [=] {
    for (int b = 0; b < batch; ++b) {
      Matrix a = Matrix::load(all[b], type, n, n, lda);
      std::vector<int64_t> exchanged;
      info[b] = host::getrf(a, exchanged);
      a.store(all[b], type, lda);
      std::ranges::transform(exchanged, pivots + b * n, [](int64_t p) { return static_cast<int>(p); });
    }
  });
  return 0;
})

BOTH(getrsBatched,
     (BlasHandle handle, BlasTransposed way, int n, int sides, const void* const* all, int lda, const int* pivots,
      void* const* right, int ldb, int* info, int batch),
     {
       *info = 0;
       host::queue(handle->stream, [=] {
         for (int b = 0; b < batch; ++b) {
           Matrix x = Matrix::load(right[b], type, n, sides, ldb);
           const std::vector<int64_t> exchanged(pivots + b * n, pivots + (b + 1) * n);
           host::getrs(Matrix::load(all[b], type, n, n, lda), exchanged, way == BlasTransposed::kYes, x);
           x.store(right[b], type, ldb);
         }
       });
       return 0;
     })

BOTH(geqrfBatched,
     (BlasHandle handle, int m, int n, void* const* all, int lda, void* const* taus, int* info, int batch), {
       *info = 0;
       host::queue(handle->stream, [=] {
         for (int b = 0; b < batch; ++b) {
           Matrix a = Matrix::load(all[b], type, m, n, lda), tau(std::min(m, n), 1);
           host::geqrf(a, tau.data);
           a.store(all[b], type, lda);
           tau.store(taus[b], type, tau.rows);
         }
       });
       return 0;
     })

BOTH(gemmStridedBatched,
     (BlasHandle handle, BlasTransposed a_way, BlasTransposed b_way, int m, int n, int k, const void* alpha,
      const void* a, int lda, long long a_step, const void* b, int ldb, long long b_step, const void* beta, void* c,
      int ldc, long long c_step, int batch),
     {
       if (!is_one(alpha, type) || *static_cast<const float*>(beta) != 0) return kInvalidValue;
       host::queue(handle->stream, [=] {
         const bool turns_a = a_way == BlasTransposed::kYes, turns_b = b_way == BlasTransposed::kYes;
         for (int i = 0; i < batch; ++i) {
           Matrix x = Matrix::load(at(a, type, i * a_step), type, turns_a ? k : m, turns_a ? m : k, lda);
           Matrix y = Matrix::load(at(b, type, i * b_step), type, turns_b ? n : k, turns_b ? k : n, ldb);
           if (turns_a) x = x.transposed();
           if (turns_b) y = y.transposed();
           host::product(x, y).store(at(c, type, i * c_step), type, ldc);
         }
       });
       return 0;
     })

BOTH(trsm_v2,
     (BlasHandle handle, BlasSide side, BlasFill fill, BlasTransposed way, BlasDiagonal diagonal, int m, int n,
      const void* alpha, const void* a, int lda, void* b, int ldb),
     {
       if (way != BlasTransposed::kNo || !is_one(alpha, type)) return kInvalidValue;
       host::queue(handle->stream, [=] { solve_triangle(type, side, fill, diagonal, m, n, a, lda, b, ldb); });
       return 0;
     })

BOTH(trsmBatched,
     (BlasHandle handle, BlasSide side, BlasFill fill, BlasTransposed way, BlasDiagonal diagonal, int m, int n,
      const void* alpha, const void* const* a, int lda, void* const* b, int ldb, int batch),
     {
       if (way != BlasTransposed::kNo || !is_one(alpha, type)) return kInvalidValue;
       host::queue(handle->stream, [=] {
         for (int i = 0; i < batch; ++i) solve_triangle(type, side, fill, diagonal, m, n, a[i], lda, b[i], ldb);
       });
       return 0;
     })

#define SAME_TYPE(member, name, parameters) static_assert(std::is_same_v<decltype(&name), SolverStatus(*) parameters>);
#define SAME_TYPES(member, name, parameters)                                           \
  static_assert(std::is_same_v<decltype(&cublasS##name), SolverStatus(*) parameters>); \
  static_assert(std::is_same_v<decltype(&cublasD##name), SolverStatus(*) parameters>);
SMOLDER_CUBLAS(SAME_TYPE)
SMOLDER_CUBLAS_TYPED(SAME_TYPES)

}  // namespace smolder::eager::cuda
