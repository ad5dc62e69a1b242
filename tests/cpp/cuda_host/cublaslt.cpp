// cuBLASLt for CUDA on the host: three loops, and one algorithm; with SMOLDER_HOST_ALGORITHMS=1 several, of which all
// but the first add in another order, and each takes a time of its own.
#include "smolder/eager/cuda/cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace smolder::eager::cuda {

struct OpaqueLt {
  int device;
};
struct OpaqueLtPreference {};
struct OpaqueLtDesc {
  LtCompute compute;
  int transposed[2] = {0, 0};
  LtEpilogue epilogue = LtEpilogue::kNone;
  const void* bias = nullptr;  ///< a number for each row
};
/// By columns, as all of cuBLAS.
struct OpaqueLtLayout {
  LtType type;
  int64_t rows, columns, leading;
  int batches = 1;
  int64_t batch_stride = 0;
};

namespace {

constexpr LtStatus kInvalidValue = 7;

template <class To, class From>
To bits_as(From from) {
  return std::bit_cast<To>(from);
}

/// Element i of memory.
double load(const void* memory, LtType type, int64_t i) {
  switch (type) {
    case LtType::kFloat32:
      return static_cast<const float*>(memory)[i];
    case LtType::kFloat64:
      return static_cast<const double*>(memory)[i];
    case LtType::kFloat16:
      return static_cast<float>(static_cast<const _Float16*>(memory)[i]);
    case LtType::kBFloat16:
      return bits_as<float>(static_cast<uint32_t>(static_cast<const uint16_t*>(memory)[i]) << 16);
  }
  __builtin_unreachable();
}

void store(void* memory, LtType type, int64_t i, double x) {
  const auto f = static_cast<float>(x);
  const auto bits = bits_as<uint32_t>(f);
  switch (type) {
    case LtType::kFloat32:
      static_cast<float*>(memory)[i] = f;
      return;
    case LtType::kFloat64:
      static_cast<double*>(memory)[i] = x;
      return;
    case LtType::kFloat16:
      static_cast<_Float16*>(memory)[i] = static_cast<_Float16>(f);
      return;
    case LtType::kBFloat16:
      static_cast<uint16_t*>(memory)[i] =
          std::isnan(f) ? 0x7fff : static_cast<uint16_t>((bits + ((bits >> 16 & 1) + 0x7fff)) >> 16);
      return;
  }
}

/// The algorithms, by their number, which is what an algorithm holds, and then in how many parts it splits the depth.
struct Algorithm {
  bool backwards;      ///< adds from the end
  int microseconds;    ///< that a call takes, by the device's clock
  bool takes_columns;  ///< also where an operand is transposed
  bool works;
};
constexpr Algorithm kAlgorithms[] = {{false, 800, true, true},  // the heuristic's first choice
                                     {true, 600, true, true},  {true, 0, true, false},  {true, 10, false, true},
                                     {true, 400, true, true},  {false, 796, true, true}};
constexpr uint64_t kMostSplits = 2;  ///< of the depth, which take as much less time
bool has_several() {
  static const bool asked = std::getenv("SMOLDER_HOST_ALGORITHMS") != nullptr;
  return asked;
}

struct Product {
  OpaqueLtDesc desc;
  OpaqueLtLayout a, b, d;
  const void *a_memory, *b_memory;
  void* d_memory;
  Algorithm algorithm;
  int splits;
  bool adds;

  /// One matrix as rows of `columns` numbers, whichever way it lies.
  template <class T>
  static std::vector<T> rows_of(const OpaqueLtLayout& layout, const void* memory, int batch, bool by_columns) {
    std::vector<T> all(static_cast<size_t>(layout.rows * layout.columns));
    for (int64_t c = 0; c < layout.columns; ++c) {
      for (int64_t r = 0; r < layout.rows; ++r) {
        const double x = load(memory, layout.type, batch * layout.batch_stride + c * layout.leading + r);
        all[static_cast<size_t>(by_columns ? c * layout.rows + r : r * layout.columns + c)] = static_cast<T>(x);
      }
    }
    return all;
  }
  template <class T>
  void run_as() const {
    const int64_t rows = d.rows, inner = desc.transposed[0] ? a.rows : a.columns;
    std::vector<T> sums(static_cast<size_t>(rows));
    for (int batch = 0; batch < d.batches; ++batch) {
      const std::vector<T> left = rows_of<T>(a, a_memory, batch, !desc.transposed[0]);   // inner x rows
      const std::vector<T> right = rows_of<T>(b, b_memory, batch, !desc.transposed[1]);  // columns x inner
      for (int64_t c = 0; c < d.columns; ++c) {
        std::ranges::fill(sums, T(0));
        for (int64_t i = 0; i < inner; ++i) {
          const int64_t k = algorithm.backwards ? inner - 1 - i : i;
          const T y = right[static_cast<size_t>(c * inner + k)];
          const T* const x = &left[static_cast<size_t>(k * rows)];
          for (int64_t r = 0; r < rows; ++r)
            sums[static_cast<size_t>(r)] = std::fma(x[r], y, sums[static_cast<size_t>(r)]);
        }
        for (int64_t r = 0; r < rows; ++r) {
          const double bias = desc.epilogue == LtEpilogue::kBias ? load(desc.bias, d.type, r) : 0;
          const int64_t at = batch * d.batch_stride + c * d.leading + r;
          const double before = adds ? load(d_memory, d.type, at) : 0;
          store(d_memory, d.type, at, sums[static_cast<size_t>(r)] + before + bias);
        }
      }
    }
  }
  void run() const {
    using Spend = void (*)(int64_t);
    static const auto spend = reinterpret_cast<Spend>(dlsym(RTLD_DEFAULT, "smolder_host_spend"));
    if (has_several()) spend(int64_t{algorithm.microseconds} * 1000 / splits);
    desc.compute == LtCompute::kFloat64 ? run_as<double>() : run_as<float>();
  }
};

/// Whether a number of the host is what we always give.
bool is(const void* number, LtCompute compute, double wanted) {
  return compute == LtCompute::kFloat64 ? *static_cast<const double*>(number) == wanted
                                        : *static_cast<const float*>(number) == static_cast<float>(wanted);
}

int current_device() {
  using Device = int (*)();
  static const auto device = reinterpret_cast<Device>(dlsym(RTLD_DEFAULT, "smolder_host_device"));
  return device();
}

}  // namespace

API LtStatus cublasLtCreate(LtHandle* handle) {
  *handle = new OpaqueLt{current_device()};
  return (*handle)->device >= 0 ? 0 : kInvalidValue;
}
API LtStatus cublasLtMatmulDescCreate(LtDesc* desc, LtCompute compute, LtType) {
  *desc = new OpaqueLtDesc{compute};
  return 0;
}
API LtStatus cublasLtMatmulDescSetAttribute(LtDesc desc, LtDescAttribute attribute, const void* value, size_t) {
  switch (attribute) {
    case LtDescAttribute::kTransposeA:
    case LtDescAttribute::kTransposeB:
      desc->transposed[attribute == LtDescAttribute::kTransposeB] = *static_cast<const int*>(value);
      return 0;
    case LtDescAttribute::kEpilogue:
      desc->epilogue = *static_cast<const LtEpilogue*>(value);
      return desc->epilogue == LtEpilogue::kNone || desc->epilogue == LtEpilogue::kBias ? 0 : kInvalidValue;
    case LtDescAttribute::kBias:
      desc->bias = *static_cast<const void* const*>(value);
      return 0;
  }
  return kInvalidValue;
}
API LtStatus cublasLtMatmulDescDestroy(LtDesc desc) {
  delete desc;
  return 0;
}
API LtStatus cublasLtMatrixLayoutCreate(LtLayout* layout, LtType type, uint64_t rows, uint64_t columns,
                                        int64_t leading) {
  *layout = new OpaqueLtLayout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return 0;
}
API LtStatus cublasLtMatrixLayoutSetAttribute(LtLayout layout, LtLayoutAttribute attribute, const void* value, size_t) {
  if (attribute == LtLayoutAttribute::kBatchCount) layout->batches = *static_cast<const int*>(value);
  if (attribute == LtLayoutAttribute::kBatchStride) layout->batch_stride = *static_cast<const int64_t*>(value);
  return 0;
}
API LtStatus cublasLtMatrixLayoutDestroy(LtLayout layout) {
  delete layout;
  return 0;
}
API LtStatus cublasLtMatmulPreferenceCreate(LtPreference* preference) {
  *preference = new OpaqueLtPreference;
  return 0;
}
API LtStatus cublasLtMatmulPreferenceSetAttribute(LtPreference, LtPreferenceAttribute, const void*, size_t) {
  return 0;
}
API LtStatus cublasLtMatmulPreferenceDestroy(LtPreference preference) {
  delete preference;
  return 0;
}
API LtStatus cublasLtMatmulAlgoCheck(LtHandle, LtDesc desc, LtLayout, LtLayout, LtLayout, LtLayout, const LtAlgo* algo,
                                     LtChoice* choice) {
  if (algo->data[0] >= std::size(kAlgorithms) || algo->data[1] > kMostSplits) return kInvalidValue;
  const bool transposed = desc->transposed[0] || desc->transposed[1];
  *choice = {.algo = *algo};
  return kAlgorithms[algo->data[0]].takes_columns || !transposed ? 0 : kInvalidValue;
}
API LtStatus cublasLtMatmulAlgoGetHeuristic(LtHandle handle, LtDesc desc, LtLayout a, LtLayout b, LtLayout c,
                                            LtLayout d, LtPreference, int most, LtChoice* choices, int* count) {
  *count = 0;
  for (uint64_t i = 0; i < (has_several() ? std::size(kAlgorithms) : 1) && *count < most; ++i) {
    const LtAlgo algo{{i, 1}};
    LtChoice& choice = choices[*count];
    if (cublasLtMatmulAlgoCheck(handle, desc, a, b, c, d, &algo, &choice) != 0) continue;
    choice.workspace_bytes = sizeof(uint32_t);  // as of one that counts tiles
    ++*count;
  }
  return 0;
}
API LtStatus cublasLtMatmul(LtHandle handle, LtDesc desc, const void* alpha, const void* a, LtLayout a_layout,
                            const void* b, LtLayout b_layout, const void* beta, const void*, LtLayout, void* d,
                            LtLayout d_layout, const LtAlgo* algo, void* workspace, size_t, DriverStream stream) {
  if (handle->device != current_device()) return kInvalidValue;
  if (!kAlgorithms[algo->data[0]].works) return kInvalidValue;
  const bool adds = is(beta, desc->compute, 1);
  if (!is(alpha, desc->compute, 1) || (!adds && !is(beta, desc->compute, 0))) return kInvalidValue;
  using Work = void (*)(const void*);
  using Queue = void (*)(DriverStream, Work, const void*);
  using Refuses = int (*)(DriverStream, const void*);
  static const auto queue = reinterpret_cast<Queue>(dlsym(RTLD_DEFAULT, "smolder_host_queue"));
  static const auto refuses = reinterpret_cast<Refuses>(dlsym(RTLD_DEFAULT, "smolder_host_refuses"));
  for (const void* const memory : {a, b, static_cast<const void*>(d), static_cast<const void*>(workspace)}) {
    if (refuses(stream, memory) != 0) return kInvalidValue;
  }
  // A graph that is captured runs this again and again: it stays.
  const auto* const product = new Product{
      *desc, *a_layout, *b_layout, *d_layout, a, b, d, kAlgorithms[algo->data[0]], static_cast<int>(algo->data[1]),
      adds};
  queue(stream, [](const void* p) { static_cast<const Product*>(p)->run(); }, product);
  return 0;
}
API LtStatus cublasLtMatmulAlgoConfigGetAttribute(const LtAlgo* algo, LtAlgoAttribute which, void* value, size_t size,
                                                  size_t*) {
  const auto number = static_cast<uint32_t>(which == LtAlgoAttribute::kSplits ? algo->data[1] : 0);
  if (size != sizeof number || which == LtAlgoAttribute::kSwizzle) return kInvalidValue;
  std::memcpy(value, &number, size);
  return 0;
}
API LtStatus cublasLtMatmulAlgoConfigSetAttribute(LtAlgo* algo, LtAlgoAttribute which, const void* value, size_t size) {
  uint32_t number = 0;
  if (size != sizeof number) return kInvalidValue;
  std::memcpy(&number, value, size);
  if (which == LtAlgoAttribute::kSplits) algo->data[1] = number;
  return 0;
}
API size_t cublasLtGetVersion() { return 130000; }
API const char* cublasLtGetStatusString(LtStatus) { return "cuBLASLt on the host does not do this"; }

#define SAME_TYPE(member, name, parameters) static_assert(std::is_same_v<decltype(&name), LtStatus(*) parameters>);
SMOLDER_CUBLASLT(SAME_TYPE)

}  // namespace smolder::eager::cuda
