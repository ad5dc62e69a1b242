#include "smolder/jit/emit.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "smolder/core/counters.h"
#include "smolder/core/source_line.h"
#include "smolder/core/thread_pool.h"
#include "smolder/jit/cache/kernel_cache.h"
#include "smolder/jit/cuda/backend.h"
#include "smolder/jit/loop_interpret.h"

namespace smolder::jit {

namespace {
std::atomic<Backend*> overriding = nullptr;
}  // namespace

void override_backend(Backend* other) { overriding = other; }

Backend& backend(DeviceType device) {
  if (Backend* other = overriding) return *other;
  if (device == DeviceType::kCUDA) return cuda::cuda_backend(0);
  static Backend& chosen = [&]() -> Backend& {
    const char* name = std::getenv("SMOLDER_BACKEND");
    const std::string_view wanted = name ? name : "llvm";
    SMOLDER_CHECK(wanted == "llvm" || wanted == "interpret", ValueError,
                  "SMOLDER_BACKEND must be llvm or interpret, is '", wanted, "'");
    return wanted == "llvm" ? llvm_backend() : interpret_backend();
  }();
  return chosen;
}

namespace {

/// A kernel that is in no cache.
struct Missing {
  int code;  ///< index into Program::kernels
  const Step* step;
  std::string text;
  Hash128 key;
  ObjectCode object;
};

class Emitter {
 public:
  explicit Emitter(Program& p) : p_(p), target_(backend(p.options.device)), target_name_(target_.target()) {}

  void run() {
    for (const Step& step : p_.steps) {
      if (step.kernel && step.kernel->code == static_cast<int>(p_.kernels.size())) {
        p_.kernels.emplace_back();
        find(step);
      }
    }
    if (!missing_.empty()) compile();
  }

 private:
  CacheKey key_of(const Missing& m) const { return {"kernel", m.key, m.text, target_name_}; }

  /// Takes the kernel from memory or disk; else it is missing.
  void find(const Step& step) {
    Missing m{step.kernel->code, &step, print(step.kernel->kernel), {}, {}};
    m.key = hash_bytes(m.text.data(), m.text.size());
    KernelCache& cache = KernelCache::global();
    CacheLookup found = cache.lookup(key_of(m));
    if (auto* hit = std::get_if<MemoryHit>(&found)) {
      p_.kernels[m.code] = *std::static_pointer_cast<CompiledKernel>(hit->object);
      return;
    }
    if (auto* hit = std::get_if<DiskHit>(&found)) {
      try {
        auto object = std::make_shared<CompiledKernel>(target_.load(hit->record.payload));
        p_.kernels[m.code] = *std::static_pointer_cast<CompiledKernel>(
            cache.loaded(key_of(m), std::move(object), hit->record.payload.size()));
        return;
      } catch (const ValueError&) {
        cache.reject(key_of(m));
      }
    }
    missing_.push_back(std::move(m));
  }

  void compile() {
    const auto start = std::chrono::steady_clock::now();
    // Small batches share one module's overhead, and there are enough of them for the threads.
    constexpr int64_t kBatch = 4;
    const auto n = static_cast<int64_t>(missing_.size());
    const int64_t batch = std::max<int64_t>(1, std::min(kBatch, n / num_threads()));
    parallel_for(n, batch, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin; first < end; first += batch) {
        const int64_t last = std::min(end, first + batch);
        std::vector<const Kernel*> kernels;
        for (int64_t i = first; i < last; ++i) kernels.push_back(&missing_[i].step->kernel->kernel);
        auto objects = target_.compile(kernels);
        for (int64_t i = first; i < last; ++i) missing_[i].object = std::move(objects[i - first]);
      }
    });
    for (Missing& m : missing_) keep(m);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    static Counter& compiled = counter("kernels.compiled");
    static Counter& micros = counter("kernels.compile_us");
    compiled.add(n);
    micros.add(static_cast<int64_t>(ms * 1000));
  }

  void keep(Missing& m) {
    auto object = std::make_shared<CompiledKernel>(target_.load(m.object.bytes));
    CacheRecord record;
    record.kind = "kernel";
    record.key = m.key;
    record.structure = m.text;
    record.target = target_name_;
    record.payload = m.object.bytes;
    record.source = m.object.source;
    record.build_ms = m.object.milliseconds;
    record.where = resolve_source(site_of(p_, *m.step).source);
    record.name = m.step->kernel->kernel.name;
    record_event({"compile", record.name, record.where, m.object.milliseconds});
    p_.built.push_back({record.name, m.key, record.where, m.object.milliseconds});
    if (debug_level() >= 6) debug(6, "kernel", m.text);
    const size_t bytes = record.payload.size();
    p_.kernels[m.code] = *std::static_pointer_cast<CompiledKernel>(
        KernelCache::global().insert(std::move(record), std::move(object), bytes));
  }

  Program& p_;
  Backend& target_;
  const std::string target_name_;
  std::vector<Missing> missing_;
};

}  // namespace

void emit(Program& program) { Emitter(program).run(); }

}  // namespace smolder::jit
