#include "smolder/eager/cuda/cusolver.h"

#include "smolder/core/cuda/library.h"
#include "smolder/core/error.h"
#include "smolder/eager/cuda/cublaslt.h"

namespace smolder::eager::cuda {
namespace {

struct Opened {
  Cusolver solver;
  Cublas blas;
  std::string reason;  ///< why there is none
};

#define SMOLDER_LOAD(member, name, parameters) out.member = library.symbol<SolverStatus parameters>(#name);
#define SMOLDER_LOAD_TYPED(member, name, parameters) \
  out.typed[type].member = library.symbol<SolverStatus parameters>((prefix + #name).c_str());

void load(const DynamicLibrary& library, Cublas& out) {
  SMOLDER_CUBLAS(SMOLDER_LOAD)
  for (int type = 0; type < 2; ++type) {
    const std::string prefix = type ? "cublasD" : "cublasS";
    SMOLDER_CUBLAS_TYPED(SMOLDER_LOAD_TYPED)
  }
}

void load(const DynamicLibrary& library, Cusolver& out) {
  SMOLDER_CUSOLVER(SMOLDER_LOAD)
  for (int type = 0; type < 2; ++type) {
    const std::string prefix = type ? "cusolverDnD" : "cusolverDnS";
    SMOLDER_CUSOLVER_TYPED(SMOLDER_LOAD_TYPED)
  }
  try {
    SMOLDER_CUSOLVER_LATER(SMOLDER_LOAD)
  } catch (const RuntimeError&) {  // an older one, which does without
  }
}

#undef SMOLDER_LOAD
#undef SMOLDER_LOAD_TYPED

const Opened& opened() {
  static const Opened* const found = [] {
    auto* o = new Opened;
    try {
      cublaslt();  // which both link to by name, and find where it is open already
      const auto blas =
          smolder::cuda::find_library({"libcublas.so", {".13", ".12", ""}, "pip install nvidia-cublas"}, &o->reason);
      if (!blas) return o;
      const auto solver = smolder::cuda::find_library(
          {"libcusolver.so", {".12", ".11", ""}, "pip install nvidia-cusolver"}, &o->reason);
      if (!solver) return o;
      o->reason.clear();
      load(*blas, o->blas);
      load(*solver, o->solver);
    } catch (const std::exception& e) {
      o->reason = e.what();
    }
    return o;
  }();
  return *found;
}

}  // namespace

const std::string& cusolver_missing() noexcept { return opened().reason; }

const Cusolver& cusolver() {
  SMOLDER_CHECK(cusolver_missing().empty(), RuntimeError, "there is no cuSOLVER: ", cusolver_missing());
  return opened().solver;
}

const Cublas& cublas() {
  SMOLDER_CHECK(cusolver_missing().empty(), RuntimeError, "there is no cuBLAS: ", cusolver_missing());
  return opened().blas;
}

void check_solver(SolverStatus status, const char* call) {
  SMOLDER_CHECK(status == 0, RuntimeError, "cuSOLVER or cuBLAS, ", call, ": status ", status);
}

}  // namespace smolder::eager::cuda
