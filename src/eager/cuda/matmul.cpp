#include "smolder/eager/cuda/matmul.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "smolder/core/cuda/preload.h"
#include "smolder/core/error.h"
#include "smolder/core/precision.h"
#include "smolder/eager/cuda/cublaslt.h"

namespace smolder::eager::cuda {
namespace {

using smolder::cuda::Queue;

constexpr size_t kWorkspaceBytes = 32 << 20;
constexpr uint32_t kReduceInComputeType = 2;  ///< CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE

LtType lt_type(DType t) {
  switch (t) {
    case DType::kFloat64:
      return LtType::kFloat64;
    case DType::kFloat16:
      return LtType::kFloat16;
    case DType::kBFloat16:
      return LtType::kBFloat16;
    default:
      return LtType::kFloat32;
  }
}

/// What products of a device share.
struct Shared {
  LtHandle handle = nullptr;

  explicit Shared(int device) : device_(device) { check_lt(cublaslt().create(&handle), "create"); }
  static Shared& of(int device) {
    static std::mutex lock;
    static std::array<Shared*, 64> all{};
    const std::lock_guard hold(lock);
    if (!all[device]) all[device] = new Shared(device);
    return *all[device];
  }
  /// Of a lane: products on several run side by side.
  void* workspace(int lane) {
    const std::lock_guard hold(lock_);
    auto& memory = workspaces_[lane];
    if (!memory) memory = std::make_unique<smolder::cuda::DeviceMemory>(device_, kWorkspaceBytes);
    return memory->data();
  }

 private:
  int device_;
  std::mutex lock_;
  std::array<std::unique_ptr<smolder::cuda::DeviceMemory>, Queue::kLanes> workspaces_;
};

/// A matrix as cuBLASLt reads it: column-major, perhaps to be transposed.
struct ColumnMajor {
  int64_t rows, cols, ld;
  bool transposed;
};

/// The matrix with element (i, j) at i * row + j * col; nothing when neither stride is 1.
std::optional<ColumnMajor> column_major(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  // An axis of one element may have any stride.
  if (rows == 1) row = 1;
  if (cols == 1) col = row == 1 ? std::max<int64_t>(rows, 1) : 1;
  if (row == 1 && col >= rows) return ColumnMajor{rows, cols, col, false};
  if (col == 1 && row >= cols) return ColumnMajor{cols, rows, row, true};
  return std::nullopt;
}

/// C = A B in rows is C' = B' A' in columns.
struct Operands {
  std::optional<ColumnMajor> first, second;
  explicit Operands(const MatmulDesc& d)
      : first(column_major(d.n, d.k, d.b_col, d.b_row)), second(column_major(d.k, d.m, d.a_col, d.a_row)) {}
};

/// A description of cuBLASLt's of a product and its operands.
struct Problem {
  LtDesc product = nullptr;
  LtLayout first = nullptr, second = nullptr, result = nullptr;

  Problem(const MatmulDesc& d, const Operands& operands, const Precision& precision)
      : may_reduce_in_halves_(d.dtype == DType::kFloat16    ? precision.allow_fp16_reduced_precision_reduction
                              : d.dtype == DType::kBFloat16 ? precision.allow_bf16_reduced_precision_reduction
                                                            : true) {
    const bool wide = d.dtype == DType::kFloat64, tf32 = d.dtype == DType::kFloat32 && precision.allow_tf32();
    check_lt(cublaslt().desc_create(&product,
                                    wide   ? LtCompute::kFloat64
                                    : tf32 ? LtCompute::kTF32
                                           : LtCompute::kFloat32,
                                    wide ? LtType::kFloat64 : LtType::kFloat32),
             "desc_create");
    set_transposed(LtDescAttribute::kTransposeA, operands.first->transposed);
    set_transposed(LtDescAttribute::kTransposeB, operands.second->transposed);
    if (d.epilogue == MatmulDesc::Epilogue::kBias) set(LtDescAttribute::kEpilogue, LtEpilogue::kBias);
    make_layout(first, lt_type(d.dtype), *operands.first, d.batch, d.b_batch_stride);
    make_layout(second, lt_type(d.dtype), *operands.second, d.batch, d.a_batch_stride);
    make_layout(result, lt_type(d.out_dtype), {d.n, d.m, d.m == 1 ? d.n : d.c_row, false}, d.batch, d.c_batch_stride);
  }
  ~Problem() {
    const CublasLt& lt = cublaslt();
    if (product) lt.desc_destroy(product);
    for (LtLayout layout : {first, second, result}) {
      if (layout) lt.layout_destroy(layout);
    }
  }
  Problem(const Problem&) = delete;

  /// Where the next call finds the bias.
  void set_bias(const void* bias) const { set(LtDescAttribute::kBias, bias); }

  /// The heuristic's choices for operands that start at multiples of `alignment` bytes, the likeliest first.
  std::vector<LtChoice> choices(LtHandle handle, uint32_t alignment) const {
    const CublasLt& lt = cublaslt();
    LtPreference preference = nullptr;
    check_lt(lt.preference_create(&preference), "preference_create");
    const auto set = [&](LtPreferenceAttribute which, const auto& value) {
      check_lt(lt.preference_set(preference, which, &value, sizeof value), "preference_set");
    };
    set(LtPreferenceAttribute::kWorkspaceBytes, uint64_t{kWorkspaceBytes});
    for (const auto which : {LtPreferenceAttribute::kAlignmentA, LtPreferenceAttribute::kAlignmentB,
                             LtPreferenceAttribute::kAlignmentC, LtPreferenceAttribute::kAlignmentD}) {
      set(which, alignment);
    }
    if (!may_reduce_in_halves_) set(LtPreferenceAttribute::kReductionSchemes, kReduceInComputeType);
    constexpr int kMost = 8;
    std::vector<LtChoice> all(kMost);
    int found = 0;
    const LtStatus status =
        lt.choose(handle, product, first, second, result, result, preference, kMost, all.data(), &found);
    lt.preference_destroy(preference);
    all.resize(status == 0 ? found : 0);
    return all;
  }
  bool supports(LtHandle handle, const LtChoice& choice) const {
    LtChoice checked{};
    return cublaslt().supports(handle, product, first, second, result, result, &choice.algo, &checked) == 0 &&
           checked.workspace_bytes <= kWorkspaceBytes;
  }

 private:
  template <class T>
  void set(LtDescAttribute which, const T& value) const {
    check_lt(cublaslt().desc_set(product, which, &value, sizeof value), "desc_set");
  }
  void set_transposed(LtDescAttribute which, bool transposed) { set(which, int32_t{transposed ? 1 : 0}); }
  static void make_layout(LtLayout& out, LtType type, const ColumnMajor& m, int64_t batch, int64_t batch_stride) {
    const CublasLt& lt = cublaslt();
    check_lt(lt.layout_create(&out, type, static_cast<uint64_t>(m.rows), static_cast<uint64_t>(m.cols), m.ld),
             "layout_create");
    const auto count = static_cast<int32_t>(batch);
    check_lt(lt.layout_set(out, LtLayoutAttribute::kBatchCount, &count, sizeof count), "layout_set");
    check_lt(lt.layout_set(out, LtLayoutAttribute::kBatchStride, &batch_stride, sizeof batch_stride), "layout_set");
  }

  bool may_reduce_in_halves_;
};

/// The same product of operands that lie row after row.
MatmulDesc row_major(MatmulDesc d) {
  d.a_row = d.k, d.a_col = 1, d.a_batch_stride = d.m * d.k;
  d.b_row = d.n, d.b_col = 1, d.b_batch_stride = d.k * d.n;
  d.c_row = d.n, d.c_batch_stride = d.m * d.n;
  return d;
}

class LtMatmul final : public DeviceMatmul {
 public:
  LtMatmul(const MatmulDesc& d, int device) : queue_(Queue::of(device)), shared_(Shared::of(device)), desc_(d) {
    if (d.k == 0) return;
    smolder::cuda::make_current(device);
    problem_.emplace(d, Operands(d), precision_);
    aligned_ = choose(16);
    any_ = choose(static_cast<uint32_t>(itemsize(d.dtype)));
    // A product without a bias may yet be given operands that start where there is an algorithm for them.
    const bool found = d.epilogue == MatmulDesc::Epilogue::kNone ? aligned_ || any_ : aligned_ && any_;
    SMOLDER_CHECK(found, NotImplementedError, "cuBLASLt has no algorithm for a product of ", name(d.dtype), " of ",
                  d.batch, " x ", d.m, " x ", d.n, " x ", d.k);
  }

  void run(const void* a, const void* b, const void* bias, void* c) const override {
    if (desc_.k == 0) return fill_zeros(c);
    const float one = 1, zero = 0;
    const double one_wide = 1, zero_wide = 0;
    const bool wide = desc_.dtype == DType::kFloat64;
    const auto at = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
    const bool aligned = aligned_ && at(a) && at(b) && at(c);
    SMOLDER_CHECK(aligned || any_, NotImplementedError, "cuBLASLt has no algorithm for these operands of ",
                  name(desc_.dtype), ", which do not start at multiples of 16 bytes");
    const LtChoice& choice = aligned ? *aligned_ : *any_;
    const Problem& p = *problem_;
    smolder::cuda::make_current(queue_.device());
    const std::lock_guard hold(lock_);  // the description names the bias
    if (bias) p.set_bias(bias);
    void* const workspace = shared_.workspace(queue_.lane());
    if (smolder::cuda::Rehearsal::current()) return;
    check_lt(cublaslt().multiply(shared_.handle, p.product, wide ? static_cast<const void*>(&one_wide) : &one, b,
                                 p.first, a, p.second, wide ? static_cast<const void*>(&zero_wide) : &zero, c, p.result,
                                 c, p.result, &choice.algo, workspace, kWorkspaceBytes, queue_.stream().handle()),
             "matmul");
  }

 private:
  /// What is best for operands in rows, where it takes these as they lie: how they lie differs between a step and its
  /// ops one by one, and must not change a bit.
  std::optional<LtChoice> choose(uint32_t alignment) const {
    const MatmulDesc plain = row_major(desc_);
    const Problem of_rows(plain, Operands(plain), precision_);
    for (const LtChoice& c : of_rows.choices(shared_.handle, alignment)) {
      if (c.state == 0 && problem_->supports(shared_.handle, c)) return c;
    }
    const std::vector<LtChoice> others = problem_->choices(shared_.handle, alignment);
    return others.empty() ? std::nullopt : std::optional(others[0]);
  }

  void fill_zeros(void* c) const {
    const size_t item = itemsize(desc_.out_dtype);
    for (int64_t b = 0; b < desc_.batch; ++b) {
      for (int64_t i = 0; i < desc_.m; ++i) {
        char* const row =
            static_cast<char*>(c) + static_cast<size_t>(b * desc_.c_batch_stride + i * desc_.c_row) * item;
        smolder::cuda::fill(queue_.stream(), row, 0, static_cast<size_t>(desc_.n) * item);
      }
    }
  }

  Queue& queue_;
  Shared& shared_;
  MatmulDesc desc_;
  const Precision precision_ = precision();
  std::optional<Problem> problem_;
  mutable std::mutex lock_;
  std::optional<LtChoice> aligned_, any_;
};

/// Opens cuBLASLt, which takes the loader 50 ms, and lets it choose a first algorithm.
void preload(int device) {
  cublaslt();
  smolder::cuda::finish_preload_before_exit();
  MatmulDesc d;
  d.m = d.n = d.k = 256;
  d = row_major(d);
  smolder::cuda::make_current(device);
  Problem(d, Operands(d), Precision()).choices(Shared::of(device).handle, 16);
}
[[maybe_unused]] const bool g_preloads = [] {
  smolder::cuda::add_preload(preload);
  return true;
}();

}  // namespace

bool can_multiply(const MatmulDesc& d) {
  if (!is_floating(d.dtype) || d.epilogue == MatmulDesc::Epilogue::kBiasRelu) return false;
  if (d.k == 0 && d.epilogue != MatmulDesc::Epilogue::kNone) return false;
  if (d.out_dtype != d.dtype && !(is_half(d.dtype) && d.out_dtype == DType::kFloat32)) return false;
  if (d.m > 1 && d.c_row < d.n) return false;
  const Operands operands(d);
  return d.k == 0 || (operands.first && operands.second);
}

std::shared_ptr<const DeviceMatmul> DeviceMatmul::get(const MatmulDesc& desc, int device) {
  return std::make_shared<LtMatmul>(desc, device);
}

}  // namespace smolder::eager::cuda
