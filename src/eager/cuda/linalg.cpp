#include "smolder/eager/cuda/linalg.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/error.h"
#include "smolder/eager/cuda/cusolver.h"

namespace smolder::eager::cuda {
namespace {

using smolder::cuda::Queue;

/// State that calls on a device share. It is never destroyed.
struct Handles {
  SolverHandle solver = nullptr;
  SolverParams params = nullptr;
  JacobiInfo jacobi = nullptr;  ///< values in descending order, to the type's precision
  BlasHandle blas = nullptr;
  std::mutex lock;

  Handles() {
    check_solver(cusolver().create(&solver), "create");
    check_solver(cusolver().create_params(&params), "create_params");
    check_solver(cusolver().create_jacobi(&jacobi), "create_jacobi");
    check_solver(cublas().create(&blas), "cublas create");
  }
  static Handles& of(int device) {
    static std::mutex making;
    static std::array<Handles*, kMaxCudaDevices> all{};
    const std::lock_guard hold(making);
    if (!all[device]) all[device] = new Handles;
    return *all[device];
  }
};

/// The matrices of an array.
struct Matrices {
  int64_t batch = 1, rows, columns;

  explicit Matrices(const Array& a) : rows(a.shape[a.shape.size() - 2]), columns(a.shape[a.shape.size() - 1]) {
    for (int i = 0; i + 2 < a.shape.size(); ++i) batch *= a.shape[i];
    for (const int64_t n : {rows, columns, batch}) {
      SMOLDER_CHECK(n <= std::numeric_limits<int>::max(), ValueError, "matrices of shape ", a.shape,
                    " are too large for cuSOLVER");
    }
  }
  int64_t size() const { return rows * columns; }
  int64_t values() const { return std::min(rows, columns); }
};

/// The leading dimensions of `a`, then others.
Dims batch_of(const Array& a, std::initializer_list<int64_t> others) {
  Dims shape;
  for (int i = 0; i + 2 < a.shape.size(); ++i) shape.push_back(a.shape[i]);
  for (const int64_t n : others) shape.push_back(n);
  return shape;
}

/// One op's calls of the libraries, on the device and in the order of its queue.
class Calls {
 public:
  explicit Calls(const Array& operand)
      : device(operand.buffer->device()),
        queue(Queue::of(device.index)),
        dtype(operand.dtype),
        type(dtype == DType::kFloat64 ? SolverType::kFloat64 : SolverType::kFloat32) {
    smolder::cuda::make_current(device.index);
    handles_ = &Handles::of(device.index);
    hold_ = std::unique_lock(handles_->lock);
    check_solver(cusolver().set_stream(solver(), queue.stream().handle()), "set_stream");
    check_solver(cublas().set_stream(blas(), queue.stream().handle()), "cublas set_stream");
  }

  SolverHandle solver() const { return handles_->solver; }
  SolverParams params() const { return handles_->params; }
  JacobiInfo jacobi() const { return handles_->jacobi; }
  BlasHandle blas() const { return handles_->blas; }
  const Cusolver::Typed& typed_solver() const { return cusolver().typed[static_cast<int>(type)]; }
  const Cublas::Typed& typed_blas() const { return cublas().typed[static_cast<int>(type)]; }

  Array empty(const Dims& shape) const { return Array::empty(shape, dtype, device); }
  Array empty(const Dims& shape, DType of) const { return Array::empty(shape, of, device); }
  Array info(int64_t batch) const { return empty(Dims{batch}, DType::kInt32); }
  BufferRef temporary(size_t bytes) const { return smolder::cuda::allocate_temporary(bytes, device.index); }
  BufferRef elements(int64_t count) const { return temporary(static_cast<size_t>(count) * itemsize(dtype)); }
  void copy(void* to, const void* from, int64_t count) const {
    smolder::cuda::copy_on_device(queue.stream(), to, from, static_cast<size_t>(count) * itemsize(dtype));
  }
  void fill_zeros(const Array& a) const { smolder::cuda::fill(queue.stream(), a.data, 0, a.bytes()); }
  Array copied(const Array& a) const {
    Array out = empty(a.shape);
    copy(out.data, a.data, numel(a.shape));
    return out;
  }
  /// Element `i` of elements at `data`.
  void* at(void* data, int64_t i) const { return static_cast<char*>(data) + i * static_cast<int64_t>(itemsize(dtype)); }
  const void* at(const void* data, int64_t i) const { return at(const_cast<void*>(data), i); }
  void* at(const Array& a, int64_t i) const { return at(a.data, i); }

  /// On the device, the addresses of `count` matrices that are `step` elements apart.
  BufferRef addresses(void* first, int64_t step, int64_t count) const {
    std::vector<void*> all;
    for (int64_t i = 0; i < count; ++i) all.push_back(at(first, i * step));
    BufferRef out = temporary(all.size() * sizeof(void*));
    queue.upload(out->data(), all.data(), all.size() * sizeof(void*));
    return out;
  }

  const Device device;
  Queue& queue;
  const DType dtype;
  const SolverType type;

 private:
  Handles* handles_;
  std::unique_lock<std::mutex> hold_;
};

/// The workspace of a call of cuSOLVER's 64-bit interface. The part on the host is read before the call returns.
struct Workspace {
  size_t device_bytes = 0, host_bytes = 0;
  BufferRef device;
  std::vector<char> host;

  void allocate(const Calls& calls) {
    device = calls.temporary(device_bytes);
    host.resize(host_bytes);
  }
};

/// The alpha or beta of a call of cuBLAS, on the host.
struct Number {
  float narrow;
  double wide;

  explicit Number(int n) : narrow(static_cast<float>(n)), wide(n) {}
  const void* of(SolverType type) const {
    return type == SolverType::kFloat64 ? static_cast<const void*>(&wide) : &narrow;
  }
};

int narrow(int64_t n) { return static_cast<int>(n); }
void* const* pointers(const BufferRef& addresses) { return static_cast<void* const*>(addresses->data()); }
int* info_of(const Array& info, int64_t i) { return static_cast<int*>(info.data) + i; }

/// Many small matrices are one call of what the libraries have for batches; a few large ones are faster one by one.
bool goes_together(const Matrices& m) { return m.batch > 1 && std::max(m.rows, m.columns) <= 256; }

}  // namespace

Cholesky cholesky(const Array& columns) {
  const Calls calls(columns);
  const Matrices m(columns);
  const int64_t n = m.rows;
  Cholesky out{calls.copied(columns), calls.info(m.batch)};
  constexpr BlasFill kFill = BlasFill::kLower;
  if (goes_together(m)) {
    const BufferRef all = calls.addresses(out.factors.data, m.size(), m.batch);
    check_solver(calls.typed_solver().potrf_batched(calls.solver(), kFill, narrow(n), static_cast<void**>(all->data()),
                                                    narrow(n), info_of(out.info, 0), narrow(m.batch)),
                 "potrf_batched");
    return out;
  }
  Workspace w;
  check_solver(cusolver().potrf_bytes(calls.solver(), calls.params(), kFill, n, calls.type, out.factors.data, n,
                                      calls.type, &w.device_bytes, &w.host_bytes),
               "potrf_bytes");
  w.allocate(calls);
  for (int64_t i = 0; i < m.batch; ++i) {
    check_solver(cusolver().potrf(calls.solver(), calls.params(), kFill, n, calls.type,
                                  calls.at(out.factors, i * m.size()), n, calls.type, w.device->data(), w.device_bytes,
                                  w.host.data(), w.host_bytes, info_of(out.info, i)),
                 "potrf");
  }
  return out;
}

namespace {

Lu factorize(const Calls& calls, const Array& a, const Matrices& m) {
  const int64_t rows = m.columns, columns = m.rows;           // the library reads them by columns
  const bool together = goes_together(m) && rows == columns;  // in batches the libraries have square ones only
  Lu out{calls.copied(a), calls.empty(batch_of(a, {m.values()}), together ? DType::kInt32 : DType::kInt64),
         calls.info(m.batch)};
  if (together) {
    const BufferRef all = calls.addresses(out.factors.data, m.size(), m.batch);
    check_solver(
        calls.typed_blas().getrf_batched(calls.blas(), narrow(rows), pointers(all), narrow(rows),
                                         static_cast<int*>(out.pivots.data), info_of(out.info, 0), narrow(m.batch)),
        "getrf_batched");
    return out;
  }
  Workspace w;
  check_solver(cusolver().getrf_bytes(calls.solver(), calls.params(), rows, columns, calls.type, out.factors.data, rows,
                                      calls.type, &w.device_bytes, &w.host_bytes),
               "getrf_bytes");
  w.allocate(calls);
  for (int64_t i = 0; i < m.batch; ++i) {
    int64_t* const pivots = static_cast<int64_t*>(out.pivots.data) + i * m.values();
    check_solver(cusolver().getrf(calls.solver(), calls.params(), rows, columns, calls.type,
                                  calls.at(out.factors, i * m.size()), rows, pivots, calls.type, w.device->data(),
                                  w.device_bytes, w.host.data(), w.host_bytes, info_of(out.info, i)),
                 "getrf");
  }
  return out;
}

}  // namespace

Lu lu(const Array& a) { return factorize(Calls(a), a, Matrices(a)); }

Solution solve(const Array& a, const Array& b, bool transposed) {
  const Calls calls(a);
  const Matrices m(a), right(b);
  const int64_t n = m.rows;
  const Lu factors = factorize(calls, a, m);
  Solution out{calls.copied(b), factors.info};
  const BlasTransposed way = transposed ? BlasTransposed::kNo : BlasTransposed::kYes;  // of what is read by columns
  if (factors.pivots.dtype == DType::kInt32) {
    const BufferRef all = calls.addresses(factors.factors.data, m.size(), m.batch);
    const BufferRef sides = calls.addresses(out.rows.data, right.size(), m.batch);
    int bad_argument = 0;
    check_solver(calls.typed_blas().getrs_batched(calls.blas(), way, narrow(n), narrow(right.rows), pointers(all),
                                                  narrow(n), static_cast<const int*>(factors.pivots.data),
                                                  pointers(sides), narrow(n), &bad_argument, narrow(m.batch)),
                 "getrs_batched");
    return out;
  }
  const Array unused = calls.info(m.batch);  // says which argument is bad
  for (int64_t i = 0; i < m.batch; ++i) {
    check_solver(cusolver().getrs(calls.solver(), calls.params(), way, n, right.rows, calls.type,
                                  calls.at(factors.factors, i * m.size()), n,
                                  static_cast<const int64_t*>(factors.pivots.data) + i * n, calls.type,
                                  calls.at(out.rows, i * right.size()), n, info_of(unused, i)),
                 "getrs");
  }
  return out;
}

Array solve_triangular(const Array& a, const Array& b, Triangular how) {
  const Calls calls(a);
  const Matrices m(a), right(b);
  Array out = calls.copied(b);
  const Number one(1);
  const void* const alpha = one.of(calls.type);
  // A X = B in rows is X' A' = B' in columns.
  const BlasSide side = how.left ? BlasSide::kRight : BlasSide::kLeft;
  const BlasFill fill = how.upper ? BlasFill::kLower : BlasFill::kUpper;
  const BlasDiagonal diagonal = how.ones ? BlasDiagonal::kOnes : BlasDiagonal::kAny;
  const int rows = narrow(right.columns), columns = narrow(right.rows), n = narrow(m.rows);
  if (goes_together(m)) {
    const BufferRef all = calls.addresses(a.data, m.size(), m.batch);
    const BufferRef sides = calls.addresses(out.data, right.size(), m.batch);
    check_solver(calls.typed_blas().trsm_batched(calls.blas(), side, fill, BlasTransposed::kNo, diagonal, rows, columns,
                                                 alpha, pointers(all), n, pointers(sides), rows, narrow(m.batch)),
                 "trsm_batched");
    return out;
  }
  for (int64_t i = 0; i < m.batch; ++i) {
    check_solver(calls.typed_blas().trsm(calls.blas(), side, fill, BlasTransposed::kNo, diagonal, rows, columns, alpha,
                                         calls.at(a, i * m.size()), n, calls.at(out, i * right.size()), rows),
                 "trsm");
  }
  return out;
}

Qr qr(const Array& columns) {
  const Calls calls(columns);
  const Matrices by_rows(columns);
  const int64_t rows = by_rows.columns, count = by_rows.rows, k = by_rows.values();
  Qr out{calls.copied(columns), calls.empty(batch_of(columns, {k}))};
  // On an H200 8 of 256x256 took 40 ms together and 5.2 one by one, Q included; 64 of 32x32 took 0.4 together.
  const int64_t longest = std::max(rows, count);
  if (goes_together(by_rows) && by_rows.batch * 700 >= longest * longest) {
    const BufferRef all = calls.addresses(out.factors.data, by_rows.size(), by_rows.batch);
    const BufferRef taus = calls.addresses(out.tau.data, k, by_rows.batch);
    int bad_argument = 0;
    check_solver(calls.typed_blas().geqrf_batched(calls.blas(), narrow(rows), narrow(count), pointers(all),
                                                  narrow(rows), pointers(taus), &bad_argument, narrow(by_rows.batch)),
                 "geqrf_batched");
    return out;
  }
  const Array unused = calls.info(by_rows.batch);
  Workspace w;
  check_solver(cusolver().geqrf_bytes(calls.solver(), calls.params(), rows, count, calls.type, out.factors.data, rows,
                                      calls.type, out.tau.data, calls.type, &w.device_bytes, &w.host_bytes),
               "geqrf_bytes");
  w.allocate(calls);
  for (int64_t i = 0; i < by_rows.batch; ++i) {
    check_solver(
        cusolver().geqrf(calls.solver(), calls.params(), rows, count, calls.type,
                         calls.at(out.factors, i * by_rows.size()), rows, calls.type, calls.at(out.tau, i * k),
                         calls.type, w.device->data(), w.device_bytes, w.host.data(), w.host_bytes, info_of(unused, i)),
        "geqrf");
  }
  return out;
}

Array orthogonal_rows(const Qr& factors, int64_t count) {
  const Calls calls(factors.factors);
  const Matrices m(factors.factors);
  const int rows = narrow(m.columns), columns = narrow(count), k = narrow(m.values());
  Array out = calls.empty(Dims{count, m.columns});
  if (count > m.rows) calls.fill_zeros(out);
  calls.copy(out.data, factors.factors.data, std::min(count, m.rows) * m.columns);
  int size = 0;
  check_solver(
      calls.typed_solver().orgqr_size(calls.solver(), rows, columns, k, out.data, rows, factors.tau.data, &size),
      "orgqr_size");
  const BufferRef work = calls.elements(size);
  const Array unused = calls.info(1);
  check_solver(calls.typed_solver().orgqr(calls.solver(), rows, columns, k, out.data, rows, factors.tau.data,
                                          work->data(), size, info_of(unused, 0)),
               "orgqr");
  return out;
}

Array product(const Array& a, bool a_transposed, const Array& b, bool b_transposed) {
  const Calls calls(a);
  const Matrices left(a), right(b);
  const int64_t rows = a_transposed ? left.columns : left.rows, inner = a_transposed ? left.rows : left.columns;
  const int64_t columns = b_transposed ? right.rows : right.columns;
  Array out = calls.empty(batch_of(a, {rows, columns}));
  const auto way = [](bool transposed) { return transposed ? BlasTransposed::kYes : BlasTransposed::kNo; };
  const Number one(1), zero(0);
  // C = A B in rows is C' = B' A' in columns.
  check_solver(calls.typed_blas().gemm_batched(
                   calls.blas(), way(b_transposed), way(a_transposed), narrow(columns), narrow(rows), narrow(inner),
                   one.of(calls.type), b.data, narrow(right.columns), right.size(), a.data, narrow(left.columns),
                   left.size(), zero.of(calls.type), out.data, narrow(columns), rows * columns, narrow(left.batch)),
               "gemm_batched");
  return out;
}

Eigh eigh(const Array& a, bool lower, bool vectors) {
  const Calls calls(a);
  const Matrices m(a);
  const int64_t n = m.rows;
  const Array all = calls.copied(a);
  Eigh out{calls.empty(batch_of(a, {n})), all, calls.info(m.batch)};
  const SolverVectors jobs = vectors ? SolverVectors::kYes : SolverVectors::kNo;
  const BlasFill fill = lower ? BlasFill::kUpper : BlasFill::kLower;
  Workspace w;
  if (m.batch > 1 && cusolver().syev_batched) {
    check_solver(
        cusolver().syev_batched_bytes(calls.solver(), calls.params(), jobs, fill, n, calls.type, all.data, n,
                                      calls.type, out.values.data, calls.type, &w.device_bytes, &w.host_bytes, m.batch),
        "syev_batched_bytes");
    w.allocate(calls);
    check_solver(cusolver().syev_batched(calls.solver(), calls.params(), jobs, fill, n, calls.type, all.data, n,
                                         calls.type, out.values.data, calls.type, w.device->data(), w.device_bytes,
                                         w.host.data(), w.host_bytes, info_of(out.info, 0), m.batch),
                 "syev_batched");
    return out;
  }
  check_solver(cusolver().syevd_bytes(calls.solver(), calls.params(), jobs, fill, n, calls.type, all.data, n,
                                      calls.type, out.values.data, calls.type, &w.device_bytes, &w.host_bytes),
               "syevd_bytes");
  w.allocate(calls);
  for (int64_t i = 0; i < m.batch; ++i) {
    check_solver(cusolver().syevd(calls.solver(), calls.params(), jobs, fill, n, calls.type,
                                  calls.at(all, i * m.size()), n, calls.type, calls.at(out.values, i * n), calls.type,
                                  w.device->data(), w.device_bytes, w.host.data(), w.host_bytes, info_of(out.info, i)),
                 "syevd");
  }
  return out;
}

namespace {

/// Decomposes a batch of matrices of at most 32 rows and columns in one call. The factors are square.
Svd jacobi_together(const Calls& calls, const Array& a, const Matrices& m, SolverVectors jobs) {
  const int rows = narrow(m.columns), columns = narrow(m.rows);  // of the transposed matrices
  const Array all = calls.copied(a);
  Svd out{calls.empty(batch_of(a, {m.rows, m.rows})), calls.empty(batch_of(a, {m.values()})),
          calls.empty(batch_of(a, {m.columns, m.columns})), calls.info(m.batch)};
  int size = 0;
  check_solver(calls.typed_solver().gesvdj_batched_size(calls.solver(), jobs, rows, columns, all.data, rows,
                                                        out.values.data, out.right.data, rows, out.left.data, columns,
                                                        &size, calls.jacobi(), narrow(m.batch)),
               "gesvdj_batched_size");
  const BufferRef work = calls.elements(size);
  check_solver(calls.typed_solver().gesvdj_batched(calls.solver(), jobs, rows, columns, all.data, rows, out.values.data,
                                                   out.right.data, rows, out.left.data, columns, work->data(), size,
                                                   info_of(out.info, 0), calls.jacobi(), narrow(m.batch)),
               "gesvdj_batched");
  return out;
}

}  // namespace

Svd svd_by_jacobi(const Array& a, bool full, bool vectors) {
  const Calls calls(a);
  const Matrices m(a);
  const SolverVectors jobs = vectors ? SolverVectors::kYes : SolverVectors::kNo;
  if (m.batch > 1 && std::max(m.rows, m.columns) <= 32) return jacobi_together(calls, a, m, jobs);
  const int rows = narrow(m.columns), columns = narrow(m.rows);  // of the transposed matrices
  const int64_t k = m.values();
  const Array all = calls.copied(a);
  Svd out{calls.empty(batch_of(a, {full ? m.rows : k, m.rows})), calls.empty(batch_of(a, {k})),
          calls.empty(batch_of(a, {full ? m.columns : k, m.columns})), calls.info(m.batch)};
  const int economic = full ? 0 : 1;
  int size = 0;
  check_solver(
      calls.typed_solver().gesvdj_size(calls.solver(), jobs, economic, rows, columns, all.data, rows, out.values.data,
                                       out.right.data, rows, out.left.data, columns, &size, calls.jacobi()),
      "gesvdj_size");
  const BufferRef work = calls.elements(size);
  const Matrices left(out.left), right(out.right);
  for (int64_t i = 0; i < m.batch; ++i) {
    check_solver(calls.typed_solver().gesvdj(calls.solver(), jobs, economic, rows, columns, calls.at(all, i * m.size()),
                                             rows, calls.at(out.values, i * k), calls.at(out.right, i * right.size()),
                                             rows, calls.at(out.left, i * left.size()), columns, work->data(), size,
                                             info_of(out.info, i), calls.jacobi()),
                 "gesvdj");
  }
  return out;
}

Svd svd_of_wide(const Array& a, bool full, bool vectors) {
  const Calls calls(a);
  const Matrices m(a);
  const int64_t rows = m.columns, columns = m.rows, k = m.values();  // of the transposed matrices
  const Array all = calls.copied(a);
  Svd out{calls.empty(batch_of(a, {columns, columns})), calls.empty(batch_of(a, {k})),
          calls.empty(batch_of(a, {full ? rows : k, rows})), calls.info(m.batch)};
  const Jobs jobs = !vectors ? 'N' : full ? 'A' : 'S';
  Workspace w;
  check_solver(cusolver().gesvd_bytes(calls.solver(), calls.params(), jobs, jobs, rows, columns, calls.type, all.data,
                                      rows, calls.type, out.values.data, calls.type, out.right.data, rows, calls.type,
                                      out.left.data, columns, calls.type, &w.device_bytes, &w.host_bytes),
               "gesvd_bytes");
  w.allocate(calls);
  const Matrices left(out.left), right(out.right);
  for (int64_t i = 0; i < m.batch; ++i) {
    check_solver(cusolver().gesvd(calls.solver(), calls.params(), jobs, jobs, rows, columns, calls.type,
                                  calls.at(all, i * m.size()), rows, calls.type, calls.at(out.values, i * k),
                                  calls.type, calls.at(out.right, i * right.size()), rows, calls.type,
                                  calls.at(out.left, i * left.size()), columns, calls.type, w.device->data(),
                                  w.device_bytes, w.host.data(), w.host_bytes, info_of(out.info, i)),
                 "gesvd");
  }
  return out;
}

}  // namespace smolder::eager::cuda
