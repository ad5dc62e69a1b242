#include "smolder/jit/cuda/native/device.h"

#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/error.h"
#include "smolder/jit/cuda/device/native.h"
#include "smolder/jit/cuda/device/prelude.h"
#include "smolder/jit/cuda/device_program.h"

namespace smolder::jit::cuda {

std::string native_text(const std::string& program) { return std::string(kPrelude) + kNativePrelude + program; }

std::string guard_text(bool guarded) {
  return guarded ? "#define GUARD const u32* failed;\n#define LOOK const bool failed = *a.failed != 0\n"
                   "#define UNLESS_FAILED if (failed) return\n"
                 : "#define GUARD\n#define LOOK\n#define UNLESS_FAILED\n";
}

std::string typedef_of(const char* name, DType dtype) {
  constexpr const char* kTypes[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
  return std::string("typedef ") + kTypes[static_cast<int>(dtype)] + " " + name + ";\n";
}

namespace {

using smolder::cuda::Queue;

class DeviceFunction final : public NativeFunction {
 public:
  DeviceFunction(Queue& queue, std::shared_ptr<DeviceProgram> program, std::string entry)
      : queue_(queue), program_(std::move(program)), entry_(std::move(entry)) {}

  void launch(int64_t blocks, int threads, const Words& arguments, const LaunchOptions& options) const override {
    if (blocks == 0) return;
    SMOLDER_CHECK(blocks <= std::numeric_limits<int32_t>::max(), RuntimeError, "a kernel of ", blocks,
                  " blocks is more than a launch can have");
    std::call_once(loaded_, [&] { kernel_ = program_->module().kernel(entry_.c_str()); });
    smolder::cuda::LaunchShape shape;
    shape.grid[0] = static_cast<unsigned>(blocks);
    shape.block[0] = static_cast<unsigned>(threads);
    shape.shared_bytes = static_cast<unsigned>(options.shared_bytes);
    shape.dependent = options.waits && smolder::cuda::device_info(queue_.device()).major >= 9;
    void* parameters[] = {const_cast<uint64_t*>(arguments.all().data())};
    smolder::cuda::launch(kernel_, queue_.stream(), shape, parameters);
  }

 private:
  Queue& queue_;
  const std::shared_ptr<DeviceProgram> program_;
  const std::string entry_;
  mutable std::once_flag loaded_;
  mutable smolder::cuda::DriverKernel kernel_ = nullptr;
};

/// Compiles the programs asked for, unless that was done.
struct Unready {
  std::mutex mutex;
  std::vector<std::function<void()>> all;
  static Unready& list() {
    static auto* unready = new Unready;
    return *unready;
  }
};

class QueueDevice final : public NativeDevice {
 public:
  explicit QueueDevice(int device) : queue_(Queue::of(device)) {
    const smolder::cuda::DeviceInfo& info = smolder::cuda::device_info(device);
    arch_ = "sm_" + std::to_string(info.major) + std::to_string(info.minor);
  }

  NativeRef function(const std::string& program, const std::string& entry) override {
    const std::lock_guard lock(mutex_);
    NativeRef& known = functions_[{program, entry}];
    if (!known) known = std::make_shared<const DeviceFunction>(queue_, program_of(program, entry), entry);
    return known;
  }
  bool has(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    if (programs_.contains(text)) return true;
    auto program = program_in(text, "multiply");
    if (!program->is_kept()) return false;
    programs_[text] = std::move(program);
    return true;
  }
  int64_t shared_bytes() const override { return smolder::cuda::device_info(queue_.device()).shared_bytes; }
  BufferRef allocate(int64_t bytes) override {
    return smolder::cuda::allocate_temporary(static_cast<size_t>(bytes), queue_.device());
  }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes > 0) smolder::cuda::copy_on_device(queue_.stream(), to, from, static_cast<size_t>(bytes));
  }
  void fill(void* to, unsigned char value, int64_t bytes) override {
    if (bytes > 0) smolder::cuda::fill(queue_.stream(), to, value, static_cast<size_t>(bytes));
  }

 private:
  std::shared_ptr<DeviceProgram> program_in(const std::string& text, const std::string& entry) const {
    return std::make_shared<DeviceProgram>(native_text(text), entry, arch_);
  }
  /// Programs are few and live as long as the process.
  std::shared_ptr<DeviceProgram> program_of(const std::string& text, const std::string& entry) {
    std::shared_ptr<DeviceProgram>& program = programs_[text];
    if (!program) {
      program = program_in(text, entry);
      add_unready([program] { program->module(); });
    }
    return program;
  }

  Queue& queue_;
  std::string arch_;
  std::mutex mutex_;  // guards both below
  std::map<std::string, std::shared_ptr<DeviceProgram>> programs_;
  std::map<std::pair<std::string, std::string>, NativeRef> functions_;
};

}  // namespace

std::vector<std::function<void()>> NativeDevice::take_unready() {
  Unready& unready = Unready::list();
  const std::lock_guard lock(unready.mutex);
  return std::exchange(unready.all, {});
}

void NativeDevice::add_unready(std::function<void()> compile) {
  Unready& unready = Unready::list();
  const std::lock_guard lock(unready.mutex);
  unready.all.push_back(std::move(compile));
}

NativeDevice& NativeDevice::of(int device) {
  static std::mutex making;
  static std::array<NativeDevice*, kMaxCudaDevices> all{};
  const std::lock_guard lock(making);
  smolder::cuda::check_ordinal(device);
  if (!all[device]) all[device] = new QueueDevice(device);
  return *all[device];
}

}  // namespace smolder::jit::cuda
