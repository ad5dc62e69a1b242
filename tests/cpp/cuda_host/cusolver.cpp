// cuSOLVER for CUDA on the host: what linear algebra calls. It refuses what the library does, as wide matrices of
// gesvd.
#include <cstring>
#include <type_traits>

#include "cuda_host/dense.h"

#define API extern "C" __attribute__((visibility("default")))

namespace smolder::eager::cuda {

struct OpaqueSolver {
  DriverStream stream = nullptr;
};
struct OpaqueSolverParams {};
struct OpaqueJacobi {};

using host::at;
using host::Matrix;

namespace {

constexpr SolverStatus kInvalidValue = 3;
constexpr size_t kWorkspace = 48;  // that is asked for, and must be given

/// Workspaces that are written to, as the library would.
bool spoil(void* on_device, size_t device_bytes, void* on_host, size_t host_bytes) {
  if (device_bytes != kWorkspace || host_bytes != kWorkspace) return false;
  std::memset(on_device, 0xff, device_bytes);
  std::memset(on_host, 0xff, host_bytes);
  return true;
}

SolverStatus ask(size_t* on_device, size_t* on_host) {
  *on_device = *on_host = kWorkspace;
  return 0;
}

void store_values(const std::vector<double>& values, void* memory, SolverType type) {
  Matrix column(static_cast<int64_t>(values.size()), 1);
  column.data = values;
  column.store(memory, type, column.rows);
}

void find_eigenvalues(SolverType type, SolverVectors jobs, BlasFill fill, int64_t n, void* memory, int64_t leading,
                      void* values) {
  Matrix a = Matrix::load(memory, type, n, n, leading);
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < j; ++i)
      (fill == BlasFill::kUpper ? a(j, i) : a(i, j)) = (fill == BlasFill::kUpper ? a(i, j) : a(j, i));
  }
  std::vector<double> all;
  host::syev(a, all);
  store_values(all, values, type);
  if (jobs == SolverVectors::kNo) std::ranges::fill(a.data, NAN);
  a.store(memory, type, leading);
}

/// The first columns of a matrix.
Matrix first(const Matrix& a, int64_t columns) {
  Matrix out(a.rows, columns);
  std::copy_n(a.data.begin(), out.data.size(), out.data.begin());
  return out;
}

/// Factors of any matrix; `vectors`: of U and V (which is not transposed), columns that are stored.
void find_singular_values(SolverType type, int64_t m, int64_t n, const void* memory, int64_t leading, void* values,
                          void* u, int64_t ldu, int64_t u_columns, void* v, int64_t ldv, int64_t v_columns,
                          bool transposes_v) {
  const Matrix a = Matrix::load(memory, type, m, n, leading);
  host::Svd found = host::svd(m < n ? a.transposed() : a);
  if (m < n) std::swap(found.u, found.v);
  store_values(found.values, values, type);
  if (u_columns) first(found.u, u_columns).store(u, type, ldu);
  if (v_columns)
    (transposes_v ? first(found.v, v_columns).transposed() : first(found.v, v_columns)).store(v, type, ldv);
}

}  // namespace

API SolverStatus cusolverDnCreate(SolverHandle* handle) {
  *handle = new OpaqueSolver;
  return 0;
}
API SolverStatus cusolverDnSetStream(SolverHandle handle, DriverStream stream) {
  handle->stream = stream;
  return 0;
}
API SolverStatus cusolverDnCreateParams(SolverParams* params) {
  *params = new OpaqueSolverParams;
  return 0;
}
API SolverStatus cusolverDnCreateGesvdjInfo(JacobiInfo* info) {
  *info = new OpaqueJacobi;
  return 0;
}

API SolverStatus cusolverDnXpotrf_bufferSize(SolverHandle, SolverParams, BlasFill, int64_t, SolverType, const void*,
                                             int64_t, SolverType, size_t* on_device, size_t* on_host) {
  return ask(on_device, on_host);
}
API SolverStatus cusolverDnXpotrf(SolverHandle handle, SolverParams, BlasFill fill, int64_t n, SolverType type,
                                  void* memory, int64_t leading, SolverType compute, void* on_device,
                                  size_t device_bytes, void* on_host, size_t host_bytes, int* info) {
  if (compute != type || leading < n || !spoil(on_device, device_bytes, on_host, host_bytes)) return kInvalidValue;
  host::queue(handle->stream, [=] {
    Matrix a = Matrix::load(memory, type, n, n, leading);
    *info = host::potrf(a, fill);
    a.store(memory, type, leading);
  });
  return 0;
}
API SolverStatus cusolverDnXgetrf_bufferSize(SolverHandle, SolverParams, int64_t, int64_t, SolverType, const void*,
                                             int64_t, SolverType, size_t* on_device, size_t* on_host) {
  return ask(on_device, on_host);
}
API SolverStatus cusolverDnXgetrf(SolverHandle handle, SolverParams, int64_t m, int64_t n, SolverType type,
                                  void* memory, int64_t leading, int64_t* pivots, SolverType compute, void* on_device,
                                  size_t device_bytes, void* on_host, size_t host_bytes, int* info) {
  if (compute != type || leading < m || !spoil(on_device, device_bytes, on_host, host_bytes)) return kInvalidValue;
  host::queue(handle->stream, [=] {
    Matrix a = Matrix::load(memory, type, m, n, leading);
    std::vector<int64_t> exchanged;
    *info = host::getrf(a, exchanged);
    a.store(memory, type, leading);
    std::ranges::copy(exchanged, pivots);
  });
  return 0;
}
API SolverStatus cusolverDnXgetrs(SolverHandle handle, SolverParams, BlasTransposed way, int64_t n, int64_t sides,
                                  SolverType type, const void* lu, int64_t lda, const int64_t* pivots,
                                  SolverType right_type, void* right, int64_t ldb, int* info) {
  if (right_type != type) return kInvalidValue;
  host::queue(handle->stream, [=] {
    Matrix b = Matrix::load(right, type, n, sides, ldb);
    host::getrs(Matrix::load(lu, type, n, n, lda), {pivots, pivots + n}, way == BlasTransposed::kYes, b);
    b.store(right, type, ldb);
    *info = 0;
  });
  return 0;
}
API SolverStatus cusolverDnXgeqrf_bufferSize(SolverHandle, SolverParams, int64_t, int64_t, SolverType, const void*,
                                             int64_t, SolverType, const void*, SolverType, size_t* on_device,
                                             size_t* on_host) {
  return ask(on_device, on_host);
}
API SolverStatus cusolverDnXgeqrf(SolverHandle handle, SolverParams, int64_t m, int64_t n, SolverType type,
                                  void* memory, int64_t leading, SolverType tau_type, void* taus, SolverType compute,
                                  void* on_device, size_t device_bytes, void* on_host, size_t host_bytes, int* info) {
  if (tau_type != type || compute != type || !spoil(on_device, device_bytes, on_host, host_bytes)) {
    return kInvalidValue;
  }
  host::queue(handle->stream, [=] {
    Matrix a = Matrix::load(memory, type, m, n, leading);
    std::vector<double> tau;
    host::geqrf(a, tau);
    a.store(memory, type, leading);
    store_values(tau, taus, type);
    *info = 0;
  });
  return 0;
}
API SolverStatus cusolverDnXsyevd_bufferSize(SolverHandle, SolverParams, SolverVectors, BlasFill, int64_t, SolverType,
                                             const void*, int64_t, SolverType, const void*, SolverType,
                                             size_t* on_device, size_t* on_host) {
  return ask(on_device, on_host);
}
API SolverStatus cusolverDnXsyevd(SolverHandle handle, SolverParams, SolverVectors jobs, BlasFill fill, int64_t n,
                                  SolverType type, void* memory, int64_t leading, SolverType value_type, void* values,
                                  SolverType compute, void* on_device, size_t device_bytes, void* on_host,
                                  size_t host_bytes, int* info) {
  if (value_type != type || compute != type || !spoil(on_device, device_bytes, on_host, host_bytes)) {
    return kInvalidValue;
  }
  host::queue(handle->stream, [=] {
    find_eigenvalues(type, jobs, fill, n, memory, leading, values);
    *info = 0;
  });
  return 0;
}
API SolverStatus cusolverDnXsyevBatched_bufferSize(SolverHandle, SolverParams, SolverVectors, BlasFill, int64_t,
                                                   SolverType, const void*, int64_t, SolverType, const void*,
                                                   SolverType, size_t* on_device, size_t* on_host, int64_t) {
  return ask(on_device, on_host);
}
API SolverStatus cusolverDnXsyevBatched(SolverHandle handle, SolverParams, SolverVectors jobs, BlasFill fill, int64_t n,
                                        SolverType type, void* memory, int64_t leading, SolverType value_type,
                                        void* values, SolverType compute, void* on_device, size_t device_bytes,
                                        void* on_host, size_t host_bytes, int* info, int64_t batch) {
  if (value_type != type || compute != type || !spoil(on_device, device_bytes, on_host, host_bytes)) {
    return kInvalidValue;
  }
  host::queue(handle->stream, [=] {
    for (int64_t b = 0; b < batch; ++b) {
      find_eigenvalues(type, jobs, fill, n, at(memory, type, b * n * leading), leading, at(values, type, b * n));
      info[b] = 0;
    }
  });
  return 0;
}
API SolverStatus cusolverDnXgesvd_bufferSize(SolverHandle, SolverParams, Jobs, Jobs, int64_t, int64_t, SolverType,
                                             const void*, int64_t, SolverType, const void*, SolverType, const void*,
                                             int64_t, SolverType, const void*, int64_t, SolverType, size_t* on_device,
                                             size_t* on_host) {
  return ask(on_device, on_host);
}
API SolverStatus cusolverDnXgesvd(SolverHandle handle, SolverParams, Jobs u_job, Jobs v_job, int64_t m, int64_t n,
                                  SolverType type, void* memory, int64_t leading, SolverType value_type, void* values,
                                  SolverType u_type, void* u, int64_t ldu, SolverType v_type, void* v, int64_t ldv,
                                  SolverType compute, void* on_device, size_t device_bytes, void* on_host,
                                  size_t host_bytes, int* info) {
  const bool same = value_type == type && u_type == type && v_type == type && compute == type;
  if (!same || m < n || !spoil(on_device, device_bytes, on_host, host_bytes)) return kInvalidValue;
  const int64_t u_columns = u_job == 'A' ? m : u_job == 'S' ? n : 0, v_columns = v_job == 'N' ? 0 : n;
  host::queue(handle->stream, [=] {
    find_singular_values(type, m, n, memory, leading, values, u, ldu, u_columns, v, ldv, v_columns, true);
    *info = 0;
  });
  return 0;
}

/// Both types' functions.
#define BOTH(name, parameters, ...)                   \
  API SolverStatus cusolverDnS##name parameters {     \
    constexpr SolverType type = SolverType::kFloat32; \
    __VA_ARGS__                                       \
  }                                                   \
  API SolverStatus cusolverDnD##name parameters {     \
    constexpr SolverType type = SolverType::kFloat64; \
    __VA_ARGS__                                       \
  }

BOTH(potrfBatched, (SolverHandle handle, BlasFill fill, int n, void** all, int leading, int* info, int batch), {
  host::queue(handle->stream, [=] {
    for (int b = 0; b < batch; ++b) {
      Matrix a = Matrix::load(all[b], type, n, n, leading);
      info[b] = host::potrf(a, fill);
      a.store(all[b], type, leading);
    }
  });
  return 0;
})

BOTH(orgqr_bufferSize, (SolverHandle, int, int, int, const void*, int, const void*, int* size), {
  static_cast<void>(type);
  *size = kWorkspace;
  return 0;
})
BOTH(orgqr,
     (SolverHandle handle, int m, int n, int k, void* memory, int leading, const void* taus, void* work, int size,
      int* info),
     {
       if (m < n || n < k || size != kWorkspace) return kInvalidValue;
       std::memset(work, 0xff, kWorkspace * (type == SolverType::kFloat64 ? 8 : 4));
       host::queue(handle->stream, [=] {
         Matrix a = Matrix::load(memory, type, m, n, leading);
         host::orgqr(a, Matrix::load(taus, type, k, 1, k).data);
         a.store(memory, type, leading);
         *info = 0;
       });
       return 0;
     })

BOTH(gesvdj_bufferSize,
     (SolverHandle, SolverVectors, int, int, int, const void*, int, const void*, const void*, int, const void*, int,
      int* size, JacobiInfo),
     {
       static_cast<void>(type);
       *size = kWorkspace;
       return 0;
     })
BOTH(gesvdj,
     (SolverHandle handle, SolverVectors jobs, int economic, int m, int n, void* memory, int leading, void* values,
      void* u, int ldu, void* v, int ldv, void*, int size, int* info, JacobiInfo),
     {
       if (size != kWorkspace) return kInvalidValue;
       const bool vectors = jobs == SolverVectors::kYes;
       const int64_t k = std::min(m, n);
       host::queue(handle->stream, [=] {
         find_singular_values(type, m, n, memory, leading, values, u, ldu,
                              !vectors   ? 0
                              : economic ? k
                                         : m,
                              v, ldv,
                              !vectors   ? 0
                              : economic ? k
                                         : n,
                              false);
         *info = 0;
       });
       return 0;
     })
BOTH(gesvdjBatched_bufferSize,
     (SolverHandle, SolverVectors, int, int, const void*, int, const void*, const void*, int, const void*, int,
      int* size, JacobiInfo, int),
     {
       static_cast<void>(type);
       *size = kWorkspace;
       return 0;
     })
BOTH(gesvdjBatched,
     (SolverHandle handle, SolverVectors jobs, int m, int n, void* memory, int leading, void* values, void* u, int ldu,
      void* v, int ldv, void*, int size, int* info, JacobiInfo, int batch),
     {
       if (size != kWorkspace || m > 32 || n > 32) return kInvalidValue;
       const bool vectors = jobs == SolverVectors::kYes;
       host::queue(handle->stream, [=] {
         for (int64_t b = 0; b < batch; ++b) {
           find_singular_values(type, m, n, at(memory, type, b * leading * n), leading,
                                at(values, type, b * std::min(m, n)), at(u, type, b * ldu * m), ldu, vectors ? m : 0,
                                at(v, type, b * ldv * n), ldv, vectors ? n : 0, false);
           info[b] = 0;
         }
       });
       return 0;
     })

#define SAME_TYPE(member, name, parameters) static_assert(std::is_same_v<decltype(&name), SolverStatus(*) parameters>);
#define SAME_TYPES(member, name, parameters)                                               \
  static_assert(std::is_same_v<decltype(&cusolverDnS##name), SolverStatus(*) parameters>); \
  static_assert(std::is_same_v<decltype(&cusolverDnD##name), SolverStatus(*) parameters>);
SMOLDER_CUSOLVER(SAME_TYPE)
SMOLDER_CUSOLVER_LATER(SAME_TYPE)
SMOLDER_CUSOLVER_TYPED(SAME_TYPES)

}  // namespace smolder::eager::cuda
