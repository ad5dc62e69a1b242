// Factors and solutions on CUDA, and of small matrices on the CPU, for smolder/_factors.py.
#include "smolder/eager/cuda/linalg.h"

#include "smolder/core/memory_history.h"
#include "smolder/eager/cpu/small_matrices.h"
#include "smolder/eager/cuda/cusolver.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/tape.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

using eager::Array;

Tensor tensor_of(const Array& a) { return Tensor::from_buffer(a.buffer, a.shape, a.dtype); }

/// Runs `work` with the elements of the operands, which end the step that they are computed in.
auto queue(const char* name, std::initializer_list<Tensor> operands, auto&& work) {
  const WithoutGil nogil;
  const SourceToken source = capture_source();
  std::vector<Array> arrays;
  for (const Tensor& t : operands) {
    arrays.push_back(Array::wrap(lazy::elements(t, name, source), t.shape(), t.dtype()));
  }
  lazy::Tape& tape = lazy::Tape::on(operands.begin()->device());
  const MemoryFor use(name, source);
  const std::lock_guard hold(tape.mutex());
  return work(arrays);
}

std::optional<Tensor> tensor_of(const std::optional<Array>& a) {
  return a ? std::optional(tensor_of(*a)) : std::nullopt;
}

/// Each gives None for what the library has to do.
void bind_small(nb::module_& m) {
  using namespace eager;
  using Arrays = std::vector<Array>;
  m.def("_small_cholesky", [](const Tensor& a) {
    return tensor_of(queue("linalg.cholesky", {a}, [](const Arrays& x) { return small_cholesky(x[0]); }));
  });
  m.def("_small_solution", [](const Tensor& a, const Tensor& b) {
    return tensor_of(queue("linalg.solve", {a, b}, [](const Arrays& x) { return small_solution(x[0], x[1]); }));
  });
  m.def("_small_inverse", [](const Tensor& a) {
    return tensor_of(queue("linalg.inv", {a}, [](const Arrays& x) { return small_inverse(x[0]); }));
  });
  m.def("_small_lu", [](const Tensor& a) {
    return tensor_of(queue("linalg.lu_factor", {a}, [](const Arrays& x) { return small_lu(x[0]); }));
  });
  m.def("_small_triangular_solution", [](const Tensor& a, const Tensor& b, bool upper, bool left, bool ones) {
    const auto work = [&](const Arrays& x) { return small_triangular_solution(x[0], x[1], {upper, left, ones}); };
    return tensor_of(queue("linalg.solve_triangular", {a, b}, work));
  });
}

}  // namespace

void bind_linalg(nb::module_& m) {
  bind_small(m);
  using namespace eager::cuda;
  using Arrays = std::vector<Array>;
  m.def("_cusolver_missing", [] {
    const WithoutGil nogil;
    return cusolver_missing();
  });
  m.def("_cuda_cholesky", [](const Tensor& columns) {
    const Cholesky out = queue("linalg.cholesky", {columns}, [](const Arrays& x) { return cholesky(x[0]); });
    return std::make_tuple(tensor_of(out.factors), tensor_of(out.info));
  });
  m.def("_cuda_lu", [](const Tensor& a) {
    const Lu out = queue("linalg.lu", {a}, [](const Arrays& x) { return lu(x[0]); });
    return std::make_tuple(tensor_of(out.factors), tensor_of(out.pivots));
  });
  m.def("_cuda_solve", [](const Tensor& a, const Tensor& rows, bool transposed) {
    const Solution out =
        queue("linalg.solve", {a, rows}, [&](const Arrays& x) { return solve(x[0], x[1], transposed); });
    return std::make_tuple(tensor_of(out.rows), tensor_of(out.info));
  });
  m.def("_cuda_solve_triangular", [](const Tensor& a, const Tensor& b, bool upper, bool left, bool ones) {
    const auto work = [&](const Arrays& x) { return solve_triangular(x[0], x[1], {upper, ones, left}); };
    return tensor_of(queue("linalg.solve_triangular", {a, b}, work));
  });
  m.def("_cuda_qr", [](const Tensor& columns) {
    const Qr out = queue("linalg.qr", {columns}, [](const Arrays& x) { return qr(x[0]); });
    return std::make_tuple(tensor_of(out.factors), tensor_of(out.tau));
  });
  m.def("_cuda_orthogonal_rows", [](const Tensor& factors, const Tensor& tau, int64_t count) {
    return tensor_of(
        queue("linalg.qr", {factors, tau}, [&](const Arrays& x) { return orthogonal_rows({x[0], x[1]}, count); }));
  });
  m.def("_cuda_product", [](const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed) {
    const auto work = [&](const Arrays& x) { return product(x[0], a_transposed, x[1], b_transposed); };
    return tensor_of(queue("linalg.qr", {a, b}, work));
  });
  m.def("_cuda_eigh", [](const Tensor& a, bool lower, bool vectors) {
    const Eigh out = queue("linalg.eigh", {a}, [&](const Arrays& x) { return eigh(x[0], lower, vectors); });
    return std::make_tuple(tensor_of(out.values), tensor_of(out.vectors), tensor_of(out.info));
  });
  m.def("_cuda_svd", [](const Tensor& a, bool full, bool vectors, bool jacobi) {
    const Svd out = queue("linalg.svd", {a}, [&](const Arrays& x) {
      return jacobi ? svd_by_jacobi(x[0], full, vectors) : svd_of_wide(x[0], full, vectors);
    });
    return std::make_tuple(tensor_of(out.left), tensor_of(out.values), tensor_of(out.right), tensor_of(out.info));
  });
}

}  // namespace smolder::python
