#include "smolder/eager/cuda/cufft.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/library.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/error.h"

namespace smolder::eager::cuda {
namespace {

const smolder::cuda::OpenLibrary<Cufft>& opened() {
  static const auto* const found =
      smolder::cuda::open_library<Cufft>({"libcufft.so", {".12", ".11", ""}, "pip install nvidia-cufft"},
                                         [](const DynamicLibrary& library, Cufft& functions) {
#define SMOLDER_LOAD(member, name, parameters) functions.member = library.symbol<FftStatus parameters>(#name);
                                           SMOLDER_CUFFT(SMOLDER_LOAD)
#undef SMOLDER_LOAD
                                         });
  return *found;
}

void check(FftStatus status, const char* call) {
  SMOLDER_CHECK(status == 0, RuntimeError, "cuFFT, ", call, ": status ", status);
}

class Plan final : public FftPlan {
 public:
  Plan(const FftProblem& p, int device) : queue_(smolder::cuda::Queue::of(device)) {
    smolder::cuda::make_current(device);
    check(cufft().create(&handle_), "create");
    try {
      check(cufft().set_auto_allocation(handle_, 0), "set_auto_allocation");
      Sizes lengths = sizes(p.lengths), in = sizes(p.in.shape), out = sizes(p.out.shape);
      const bool is_double = p.in.type == FftType::kReal64 || p.in.type == FftType::kComplex64;
      const FftStatus status = cufft().make_plan(
          handle_, p.lengths.size(), lengths.data(), in.data(), p.in.step, p.in.row, p.in.type, out.data(), p.out.step,
          p.out.row, p.out.type, p.rows, &bytes_, is_double ? FftType::kComplex64 : FftType::kComplex32);
      SMOLDER_CHECK(status == 0, RuntimeError, "cuFFT has no plan for ", p.rows, " transforms of ", p.lengths,
                    ": status ", status);
    } catch (...) {
      cufft().destroy(handle_);
      throw;
    }
  }
  ~Plan() override {
    smolder::cuda::make_current(queue_.device());
    cufft().destroy(handle_);
  }

  void run(void* in, void* out, FftDirection direction) const override {
    const BufferRef work = smolder::cuda::allocate_temporary(bytes_, queue_.device());
    if (smolder::cuda::Rehearsal::current()) return;
    const std::lock_guard hold(lock_);
    check(cufft().set_stream(handle_, queue_.stream().handle()), "set_stream");
    check(cufft().set_work_area(handle_, work->data()), "set_work_area");
    check(cufft().execute(handle_, in, out, direction), "execute");
  }

 private:
  using Sizes = std::array<long long, 3>;
  static Sizes sizes(const Dims& dims) {
    Sizes out{};
    SMOLDER_INVARIANT(dims.size() <= static_cast<int>(out.size()));
    std::ranges::copy(dims, out.begin());
    return out;
  }

  smolder::cuda::Queue& queue_;
  FftHandle handle_ = 0;
  size_t bytes_ = 0;
  mutable std::mutex lock_;  ///< of the handle's stream and working memory
};

}  // namespace

const std::string& cufft_missing() noexcept { return opened().reason; }

const Cufft& cufft() {
  SMOLDER_CHECK(cufft_missing().empty(), RuntimeError, "there is no cuFFT: ", cufft_missing());
  return opened().functions;
}

std::shared_ptr<const FftPlan> FftPlan::get(const FftProblem& problem, int device) {
  struct Made {
    FftProblem problem;
    int device;
    std::shared_ptr<const FftPlan> plan;
  };
  struct Kept {
    std::mutex lock;
    std::list<Made> plans;  ///< used last, first
  };
  static Kept& kept = *new Kept;  // never destroyed: nor is the device
  constexpr size_t kMost = 256;
  const std::lock_guard hold(kept.lock);
  const auto at =
      std::ranges::find_if(kept.plans, [&](const Made& m) { return m.device == device && m.problem == problem; });
  if (at != kept.plans.end()) {
    kept.plans.splice(kept.plans.begin(), kept.plans, at);
  } else {
    kept.plans.push_front({problem, device, std::make_shared<Plan>(problem, device)});
    if (kept.plans.size() > kMost) kept.plans.pop_back();
  }
  return kept.plans.front().plan;
}

}  // namespace smolder::eager::cuda
