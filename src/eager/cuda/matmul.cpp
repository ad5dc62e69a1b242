#include "smolder/eager/cuda/matmul.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "smolder/core/counters.h"
#include "smolder/core/cuda/preload.h"
#include "smolder/core/error.h"
#include "smolder/core/precision.h"
#include "smolder/eager/cuda/cublaslt.h"
#include "smolder/eager/cuda/tuned_products.h"

namespace smolder::eager::cuda {
namespace {

using smolder::cuda::Queue;

constexpr size_t kWorkspaceBytes = 32 << 20;

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

/// State that products of a device share.
struct Shared {
  LtHandle handle = nullptr;

  explicit Shared(int device) : device_(device) {
    smolder::cuda::make_current(device);  // which the handle is made for
    check_lt(cublaslt().create(&handle), "create");
  }
  static Shared& of(int device) {
    static std::mutex lock;
    static std::array<Shared*, kMaxCudaDevices> all{};
    const std::lock_guard hold(lock);
    if (!all[device]) all[device] = new Shared(device);
    return *all[device];
  }
  /// State of a stream: products on several run side by side.
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
  std::vector<LtChoice> choices(LtHandle handle, uint32_t alignment, int most = 8) const {
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
    std::vector<LtChoice> all(static_cast<size_t>(most));
    int found = 0;
    const LtStatus status =
        lt.choose(handle, product, first, second, result, result, preference, most, all.data(), &found);
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
  void set(LtDescAttribute which, const auto& value) const {
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

/// The description of a product, but for how its operands lie: see ProductKey.
ProductKey key_of(const MatmulDesc& d, const Precision& p, uint32_t alignment, int device) {
  std::ostringstream problem, target;
  if (d.batch > 1) problem << d.batch << " x ";
  problem << d.m << 'x' << d.n << 'x' << d.k << ' ' << name(d.dtype);
  if (d.out_dtype != d.dtype) problem << " to " << name(d.out_dtype);
  if (d.dtype == DType::kFloat32 && p.allow_tf32()) problem << " by TF32";
  if (d.epilogue != MatmulDesc::Epilogue::kNone) problem << " and bias";
  const bool in_halves = d.dtype == DType::kFloat16    ? p.allow_fp16_reduced_precision_reduction
                         : d.dtype == DType::kBFloat16 ? p.allow_bf16_reduced_precision_reduction
                                                       : true;
  if (!in_halves) problem << ", no sums in halves";
  if (alignment != 16) problem << ", aligned to " << alignment;
  const smolder::cuda::DeviceInfo& info = smolder::cuda::device_info(device);
  target << info.name << ", sm_" << info.major << info.minor << ", cuBLASLt " << cublaslt().version() << ", workspace "
         << kWorkspaceBytes;
  return {problem.str(), target.str()};
}

/// How operands lie.
std::string layout_of(const MatmulDesc& d) {
  std::ostringstream out;
  for (const int64_t stride :
       {d.a_batch_stride, d.a_row, d.a_col, d.b_batch_stride, d.b_row, d.b_col, d.c_batch_stride, d.c_row}) {
    out << stride << ' ';
  }
  return out.str();
}

class LtMatmul final : public DeviceMatmul {
 public:
  LtMatmul(const MatmulDesc& d, int device, bool adds)
      : queue_(Queue::of(device)), shared_(Shared::of(device)), desc_(d), adds_(adds) {
    if (d.k == 0) return;
    smolder::cuda::make_current(device);
    problem_.emplace(d, Operands(d), precision_);
    choose(aligned_, 16);
    choose(any_, static_cast<uint32_t>(itemsize(d.dtype)));
    read_table();
    // A product without a bias may yet be given operands that start where there is an algorithm for them.
    const bool found =
        d.epilogue == MatmulDesc::Epilogue::kNone ? aligned_.usual || any_.usual : aligned_.usual && any_.usual;
    SMOLDER_CHECK(found, NotImplementedError, "cuBLASLt has no algorithm for a product of ", name(d.dtype), " of ",
                  d.batch, " x ", d.m, " x ", d.n, " x ", d.k);
  }

  void run(const void* a, const void* b, const void* bias, void* c) const override {
    if (desc_.k == 0 && adds_) return;
    if (desc_.k == 0) return fill_zeros(c);
    const auto at = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
    const bool aligned = aligned_.usual && at(a) && at(b) && at(c);
    SMOLDER_CHECK(aligned || any_.usual, NotImplementedError, "cuBLASLt has no algorithm for these operands of ",
                  name(desc_.dtype), ", which do not start at multiples of 16 bytes");
    smolder::cuda::make_current(queue_.device());
    const std::lock_guard hold(lock_);  // the description names the bias
    if (generation_ != product_generation()) read_table();
    if (bias) problem_->set_bias(bias);
    Call call{b, a, c, shared_.workspace(queue_.lane())};
    if (smolder::cuda::Rehearsal::current()) return;
    const Choice& choice = aligned ? aligned_ : any_;
    if (ProductTrials* const trials = ProductTrials::current()) [[unlikely]] {
      try {
        try_algorithms(*trials, choice, call);
      } catch (const Error& e) {  // the step has what it needs without
        trials->give_up(e.what());
      }
    }
    const LtChoice& algorithm = choice.now ? *choice.now : *choice.usual;
    take_counter(algorithm, call);
    check_lt(multiply(algorithm, call), "matmul");
  }

 private:
  /// The algorithms for operands that start at multiples of `alignment`.
  struct Choice {
    uint32_t alignment = 0;
    std::optional<LtChoice> usual;  ///< the heuristic's
    std::optional<LtChoice> now;    ///< what trials chose, where they did and it takes these operands
    bool of_rows = false;           ///< `usual` is for operands in rows, too
  };
  struct Call {
    const void *first, *second;
    void *result, *workspace;
    size_t workspace_bytes = kWorkspaceBytes;
  };

  /// The choice that is best for operands in rows, where it takes these as they lie: how they lie differs between a
  /// step and its ops one by one, and must not change a bit.
  void choose(Choice& choice, uint32_t alignment) const {
    choice.alignment = alignment;
    const MatmulDesc plain = row_major(desc_);
    const Problem of_rows(plain, Operands(plain), precision_);
    for (const LtChoice& c : of_rows.choices(shared_.handle, alignment)) {
      if (c.state != 0 || !problem_->supports(shared_.handle, c)) continue;
      choice.usual = c;
      choice.of_rows = true;
      return;
    }
    const std::vector<LtChoice> others = problem_->choices(shared_.handle, alignment);
    if (!others.empty()) choice.usual = others[0];
  }

  TunedProduct& row_of(const Choice& choice) const {
    return TunedProduct::of(key_of(desc_, precision_, choice.alignment, queue_.device()));
  }

  /// The choice of trials meanwhile.
  void read_table() const {
    generation_ = product_generation();
    if (!uses_tuned_products()) return;
    for (Choice* const choice : {&aligned_, &any_}) {
      choice->now.reset();
      if (!choice->of_rows) continue;
      TunedProduct& row = row_of(*choice);
      const std::optional<LtAlgo> algo = row.chosen();
      if (!algo) continue;
      const LtChoice chosen{.algo = *algo};
      const MatmulDesc plain = row_major(desc_);
      if (!Problem(plain, Operands(plain), precision_).supports(shared_.handle, chosen)) {
        row.reject();
      } else if (problem_->supports(shared_.handle, chosen)) {
        choice->now = chosen;
      }
    }
  }

  /// Some algorithms count tiles in their workspace, which a fill of its own zeroes before each. In a graph one fill
  /// does for all, so each product has a counter to itself.
  void take_counter(const LtChoice& algorithm, Call& call) const {
    constexpr size_t kFew = 64;
    if (algorithm.workspace_bytes == 0 || algorithm.workspace_bytes > kFew) return;
    void* const counter = queue_.zeros(algorithm.workspace_bytes);
    if (!counter) return;
    call.workspace = counter;
    call.workspace_bytes = algorithm.workspace_bytes;
  }

  LtStatus multiply(const LtChoice& choice, const Call& call) const {
    const float one = 1, before = adds_ ? 1 : 0;
    const double one_wide = 1, before_wide = before;
    const bool wide = desc_.dtype == DType::kFloat64;
    const Problem& p = *problem_;
    return cublaslt().multiply(shared_.handle, p.product, wide ? static_cast<const void*>(&one_wide) : &one, call.first,
                               p.first, call.second, p.second, wide ? static_cast<const void*>(&before_wide) : &before,
                               call.result, p.result, call.result, p.result, &choice.algo, call.workspace,
                               call.workspace_bytes, queue_.stream().handle());
  }

  /// Calls algorithms that are still to be tried, as far as there is time. What they leave in the result is written
  /// over by the run that this is a part of.
  void try_algorithms(ProductTrials& trials, const Choice& choice, const Call& call) const {
    if (!choice.of_rows || adds_) return;  // a trial that adds leaves what no run writes over
    TunedProduct& row = row_of(choice);
    const std::lock_guard hold(row.lock);
    if (row.phase() == TunedProduct::Phase::kSettled) return;
    const auto start = std::chrono::steady_clock::now();
    const auto [at, fresh] = row.layouts.try_emplace(layout_of(desc_));
    TunedProduct::Layout& layout = at->second;
    const MatmulDesc plain = row_major(desc_);
    const Problem of_rows(plain, Operands(plain), precision_);
    if (fresh && row.phase() == TunedProduct::Phase::kKnown) add_candidates(row, choice, of_rows);
    layout.usual = row.find(*choice.usual);
    if (layout.usual == row.candidates.size()) {  // it came late, and others are settled on
      row.layouts.erase(at);
      return;
    }
    trials.note(row, layout);
    layout.calls += row.phase() == TunedProduct::Phase::kKnown;
    const auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    while (layout.once.size() < row.candidates.size() && trials.has_time(spent())) {
      const LtChoice& next = row.candidates[layout.once.size()];
      const bool fits = of_rows.supports(shared_.handle, next) && problem_->supports(shared_.handle, next);
      layout.once.push_back(fits ? time_once(trials, next, call) : TunedProduct::kNever);
    }
    if (layout.once.size() == row.candidates.size() && !row.is_complete(layout) && trials.has_time(spent())) {
      measure_finalists(trials, row, layout, call);
    }
    row.spent += spent();
    trials.add_spent(spent());
  }

  /// Those that the heuristic knows for operands in rows, and for these.
  void add_candidates(TunedProduct& row, const Choice& choice, const Problem& of_rows) const {
    constexpr int kMost = 32;
    row.add(*choice.usual);
    for (const Problem* const problem : {&of_rows, &*problem_}) {
      for (const LtChoice& c : problem->choices(shared_.handle, choice.alignment, kMost)) {
        if (c.state == 0) row.add(c);
      }
    }
  }

  /// Seconds of a call, of several in a row; kNever where one fails. A call before them keeps the device at work until
  /// they are queued.
  double time_calls(ProductTrials& trials, const LtChoice& choice, const Call& call, int calls) const {
    bool good = multiply(choice, call) == 0;
    trials.begin().record(queue_.stream());
    for (int i = 0; i < calls; ++i) good = good && multiply(choice, call) == 0;
    trials.end().record(queue_.stream());
    trials.end().synchronize();
    return good ? trials.end().milliseconds_since(trials.begin()) / 1e3 / calls : TunedProduct::kNever;
  }

  double time_once(ProductTrials& trials, const LtChoice& choice, const Call& call) const {
    static Counter& tried = counter("tuning.trials");
    tried.add();
    if (multiply(choice, call) != 0) return TunedProduct::kNever;  // which also loads its kernel
    const double seconds = time_calls(trials, choice, call, 1);
    constexpr double kShort = 50e-6;  // events cost too much of it
    return seconds < kShort ? time_calls(trials, choice, call, 4) : seconds;
  }

  /// In turns, so that what the device's clock does meanwhile is the same for all.
  void measure_finalists(ProductTrials& trials, TunedProduct& row, TunedProduct::Layout& layout,
                         const Call& call) const {
    constexpr int kRounds = 7, kMostCalls = 16;
    constexpr double kSeconds = 100e-6;
    std::vector<std::vector<double>> times(row.finalists.size());
    for (int round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < row.finalists.size(); ++i) {
        const double once = layout.once[row.finalists[i]];
        if (once == TunedProduct::kNever) {
          times[i].push_back(once);
          continue;
        }
        const int calls = std::clamp(static_cast<int>(kSeconds / std::max(once, 1e-7)), 1, kMostCalls);
        times[i].push_back(time_calls(trials, row.candidates[row.finalists[i]], call, calls));
      }
    }
    for (size_t i = 0; i < times.size(); ++i) {
      std::ranges::nth_element(times[i], times[i].begin() + kRounds / 2);
      layout.again[row.finalists[i]] = times[i][kRounds / 2];
    }
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
  const bool adds_;
  const Precision precision_ = precision();
  std::optional<Problem> problem_;
  mutable std::mutex lock_;  // guards what follows, once it is made
  mutable Choice aligned_, any_;
  mutable uint64_t generation_ = 0;
};

/// Opens cuBLASLt, which takes the loader 50 ms, and asks it for an algorithm, which takes it 80 ms the first time.
void preload(int device) {
  cublaslt();
  constexpr int64_t kSome = 1024;
  MatmulDesc some;
  some.m = some.n = some.k = kSome;
  some = row_major(some);
  smolder::cuda::make_current(device);
  const Problem problem(some, Operands(some), Precision());
  problem.choices(Shared::of(device).handle, 16);
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

std::shared_ptr<const DeviceMatmul> DeviceMatmul::get(const MatmulDesc& desc, int device, bool adds) {
  return std::make_shared<LtMatmul>(desc, device, adds);
}

}  // namespace smolder::eager::cuda
