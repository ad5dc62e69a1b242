// The interpreter behind the code generator's interface. A kernel's function is a plain address, so each
// loaded kernel takes one of a fixed number of functions that know their own number.
#include <array>
#include <mutex>
#include <utility>

#include "smolder/core/error.h"
#include "smolder/core/fork.h"
#include "smolder/jit/loop/kernel_bytes.h"
#include "smolder/jit/loop/loop_interpret.h"

namespace smolder::jit {

namespace {

constexpr size_t kSlots = 2048;
std::array<const Kernel*, kSlots> loaded{};
ForkMutex loaded_mutex;

template <size_t kSlot>
void run_slot(void* const* buffers, const int64_t* ints, const uint64_t* scalars, uint32_t* errors, int64_t begin,
              int64_t end) {
  interpret(*loaded[kSlot], buffers, ints, scalars, errors, begin, end);
}

template <size_t... kSlot>
constexpr std::array<KernelFn, sizeof...(kSlot)> slot_functions(std::index_sequence<kSlot...>) {
  return {run_slot<kSlot>...};
}
constexpr auto kFunctions = slot_functions(std::make_index_sequence<kSlots>());

/// Keeps a kernel in its slot.
struct LoadedKernel {
  Kernel kernel;
  size_t slot = kSlots;

  explicit LoadedKernel(Kernel k) : kernel(std::move(k)) {
    const std::lock_guard lock(loaded_mutex);
    for (slot = 0; slot < kSlots && loaded[slot]; ++slot) {
    }
    SMOLDER_CHECK(slot < kSlots, RuntimeError, "the interpreter holds at most ", kSlots, " kernels at once");
    loaded[slot] = &kernel;
  }
  ~LoadedKernel() {
    const std::lock_guard lock(loaded_mutex);
    loaded[slot] = nullptr;
  }
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
};

class InterpretBackend final : public Backend {
 public:
  std::string target() const override { return "interpret-1"; }

  std::vector<ObjectCode> compile(std::span<const Kernel* const> kernels) override {
    std::vector<ObjectCode> objects;
    for (const Kernel* k : kernels) objects.push_back({to_bytes(*k), "", 0});
    return objects;
  }

  CompiledKernel load(const std::string& object) override {
    auto kernel = std::make_shared<LoadedKernel>(from_bytes(object));
    const KernelFn fn = kFunctions[kernel->slot];
    return {fn, std::move(kernel), nullptr};
  }
};

}  // namespace

Backend& interpret_backend() {
  static InterpretBackend* backend = new InterpretBackend;
  return *backend;
}

}  // namespace smolder::jit
