#include "smolder/jit/cuda/backend.h"

#include <map>
#include <mutex>
#include <utility>

#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/core/error.h"
#include "smolder/core/hash.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/interpreter.h"
#include "smolder/jit/cuda/launch.h"
#include "smolder/jit/cuda/numbers.h"
#include "smolder/jit/cuda/together.h"
#include "smolder/jit/loop/kernel_bytes.h"

namespace smolder::jit::cuda {

namespace {

using smolder::cuda::Module;
using smolder::cuda::Stream;

/// The modules in use, by their code: kernels of one program share theirs.
std::shared_ptr<const Module> module_of(const std::string& cubin) {
  static std::mutex mutex;
  static auto* modules = new std::map<Hash128, std::weak_ptr<const Module>>;
  const Hash128 hash = hash_bytes(cubin.data(), cubin.size());
  const std::lock_guard lock(mutex);
  std::weak_ptr<const Module>& known = (*modules)[hash];
  if (auto module = known.lock()) return module;
  auto module = std::make_shared<const Module>(cubin);
  known = module;
  std::erase_if(*modules, [](const auto& entry) { return entry.second.expired(); });
  return module;
}

class CudaKernel final : public DeviceKernel {
 public:
  CudaKernel(const Object& object, Tier tier)
      : tier_(tier),
        schedule_(from_bytes(object.kernel)),
        numbers_(schedule_.kernel),
        module_(module_of(object.cubin)),
        function_(module_->kernel(object.entry.c_str())) {}

  void launch(Stream& stream, std::span<const KernelArguments> calls) const override {
    const smolder::cuda::DeviceInfo& info = smolder::cuda::device_info(stream.device());
    if (schedule_.kernel.together) {
      for (TableLaunch& table : launch_together(schedule_, calls, info)) {
        launch(stream, table.shape, table.words);
      }
      return;
    }
    for (const KernelArguments& call : calls) {
      Launch own(schedule_, call, info);
      if (own.empty()) continue;
      BufferRef scratch;
      if (own.scratch_bytes() > 0) {
        scratch = smolder::cuda::allocate_temporary(static_cast<size_t>(own.scratch_bytes()), stream.device());
        own.place_scratch(reinterpret_cast<int64_t>(scratch->data()));
      }
      launch(stream, own.plan().shape, own.words());
    }
  }
  size_t num_computed() const override { return numbers_.results().size(); }
  void compute_scalars(uint64_t* scalars) const override { numbers_.compute(scalars); }
  Tier tier() const override { return tier_; }

 private:
  void launch(Stream& stream, smolder::cuda::LaunchShape shape, std::vector<int64_t>& words) const {
    void* parameters[] = {words.data()};
    shape.dependent = smolder::cuda::device_info(stream.device()).major >= 9;
    smolder::cuda::launch(function_, stream, shape, parameters);
  }

  const Tier tier_;
  const Schedule schedule_;
  const Numbers numbers_;
  const std::shared_ptr<const Module> module_;
  const smolder::cuda::DriverKernel function_;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::string arch) : arch_(std::move(arch)) {}

  std::string target() const override { return target_of(arch_); }
  std::vector<ObjectCode> compile(std::span<const Kernel* const> kernels) override {
    return cuda::compile(kernels, arch_);
  }
  CompiledKernel load(const std::string& object) override {
    return {nullptr, nullptr, std::make_shared<const CudaKernel>(object_from_bytes(object), DeviceKernel::Tier::kOwn)};
  }
  std::shared_ptr<const DeviceKernel> stand_in(const Kernel& kernel) override { return interpreted(kernel, arch_); }
  double slowness(const Kernel& kernel, std::span<const int64_t> ints, int64_t positions, int device) override {
    return interpreter_slowness(kernel, ints, positions, smolder::cuda::device_info(device));
  }
  std::shared_ptr<const DeviceKernel> compile_quickly(const Kernel& kernel) override {
    const Kernel* const one = &kernel;
    const std::vector<ObjectCode> made = cuda::compile({&one, 1}, arch_, Effort::kQuick);
    return std::make_shared<const CudaKernel>(object_from_bytes(made[0].bytes), DeviceKernel::Tier::kQuick);
  }

 private:
  const std::string arch_;
};

}  // namespace

Backend& cuda_backend_for(const std::string& arch) {
  static std::mutex mutex;
  static auto* backends = new std::map<std::string, std::unique_ptr<Backend>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Backend>& backend = (*backends)[arch];
  if (!backend) backend = std::make_unique<CudaBackend>(arch);
  return *backend;
}

Backend& cuda_backend(int device) {
  const smolder::cuda::DeviceInfo& info = smolder::cuda::device_info(device);
  return cuda_backend_for("sm_" + std::to_string(info.major) + std::to_string(info.minor));
}

}  // namespace smolder::jit::cuda
