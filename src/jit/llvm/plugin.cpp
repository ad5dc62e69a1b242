// The entry point of the plugin.
#include <cstdlib>

#include "smolder/core/build_id.h"
#include "smolder/core/thread_pool.h"
#include "smolder/jit/backend.h"
#include "smolder/jit/llvm/compiler.h"
#include "smolder/jit/llvm/object.h"

namespace smolder::jit::cpu {

namespace {

class LlvmBackend final : public Backend {
 public:
  explicit LlvmBackend(const Target& target) : compiler_(target), target_(describe(compiler_.target())) {}

  std::string target() const override { return target_; }

  std::vector<ObjectCode> compile(std::span<const Kernel* const> kernels) override {
    std::vector<ObjectCode> objects(kernels.size());
    // Kernels are independent: each has its own context and module, so threads share nothing but machines.
    parallel_for(static_cast<int64_t>(kernels.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        objects[i] = compiler_.compile(*kernels[i]);
        seal(objects[i].bytes);
      }
    });
    return objects;
  }

  CompiledKernel load(const std::string& object) override { return load_object(object); }

 private:
  static std::string describe(const Target& t) {
    static const char here = 0;  // in the plugin
    return "llvm " + t.triple + " " + t.cpu + " " + t.features + " " + build_id(&here);
  }

  Compiler compiler_;
  std::string target_;
};

}  // namespace

}  // namespace smolder::jit::cpu

#define SMOLDER_EXPORT extern "C" __attribute__((visibility("default")))

/// The code generator for this processor or SMOLDER_CPU; lives as long as the process. Throws as `host_target` does.
SMOLDER_EXPORT smolder::jit::Backend* smolder_llvm_backend() {
  using namespace smolder::jit::cpu;
  const char* cpu = std::getenv("SMOLDER_CPU");
  static auto* backend = new LlvmBackend(host_target(cpu && *cpu ? cpu : "native"));
  return backend;
}

/// Another one, for a processor by name: tests compare what they compute. The caller deletes it.
SMOLDER_EXPORT smolder::jit::Backend* smolder_llvm_backend_for(const char* cpu) {
  using namespace smolder::jit::cpu;
  return new LlvmBackend(host_target(cpu));
}
