#include "smolder/jit/emit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>
#include <thread>

#include "smolder/core/background.h"
#include "smolder/core/counters.h"
#include "smolder/core/interrupt.h"
#include "smolder/core/profile.h"
#include "smolder/core/source_line.h"
#include "smolder/core/thread_pool.h"
#include "smolder/jit/cache/kernel_cache.h"
#include "smolder/jit/device_target.h"
#include "smolder/jit/kernel_queue.h"
#include "smolder/jit/loop/loop_interpret.h"

namespace smolder::jit {

namespace {
std::atomic<Backend*> overriding = nullptr;
}  // namespace

void override_backend(Backend* other) { overriding = other; }

Backend& backend(Device device) {
  if (Backend* other = overriding) return *other;
  if (DeviceTarget* const target = DeviceTarget::of(device.type)) return target->backend(device.index);
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

/// Bytes of a kernel's loop IR from which on a device's compiler may need more than 100 ms: short rows of logarithms of
/// sums of exponentials take 1.4 s.
constexpr size_t kLongText = 512;

/// A kernel that is in no cache.
struct Missing {
  int code;  ///< index into Program::kernels
  const Step* step;
  std::string text;
  Hash128 key;
  ObjectCode object;
  std::shared_ptr<const DeviceKernel> quick;  ///< in place of the object
};

/// Tells, once, who waits for more than a second what for.
class LongCompile {
 public:
  using Time = std::chrono::steady_clock::time_point;
  LongCompile(int64_t kernels, Time start) : kernels_(kernels), start_(start) {}

  /// So many more are compiled. On any thread.
  void add(int64_t kernels) {
    const int64_t done = done_ += kernels;
    if (in_background()) return;  // nobody waits
    if (done == kernels_ || std::chrono::steady_clock::now() - start_ < std::chrono::seconds(1)) return;
    if (told_.exchange(true)) return;
    const std::string text = "[smolder:compile] a step needs " + std::to_string(kernels_) + " kernels, of which " +
                             std::to_string(done) + " are compiled after a second; the cache will have them\n";
    std::fputs(text.c_str(), stderr);
  }

 private:
  const int64_t kernels_;
  const Time start_;
  std::atomic<int64_t> done_ = 0;
  std::atomic<bool> told_ = false;
};

class Emitter {
 public:
  explicit Emitter(Program& p) : p_(p), target_(backend(p.options.device)), target_name_(target_.target()) {}

  void find_all() {
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      const Step& step = p_.steps[s];
      if (!step.kernel || step.kernel->code != static_cast<int>(p_.kernels.size())) continue;
      p_.kernels.emplace_back();
      if (!find(missing_at(s))) p_.missing.push_back(s);
    }
  }

  void compile_missing(std::span<const std::function<void()>> others, std::span<const double> work) {
    std::optional<KernelQueue::Pause> others_wait;
    if (p_.options.device != DeviceType::kCPU && !in_background()) others_wait.emplace();
    std::vector<Missing> all, missing;
    std::vector<double> own_work;
    for (const size_t s : p_.missing) {
      Missing m = missing_at(s);
      // For another plan, while this one waited.
      if ((in_background() || stand_ins() != StandIns::kNone) && find(m)) continue;
      own_work.push_back(work[m.code]);
      all.push_back(std::move(m));
    }
    const double most = stand_ins() == StandIns::kBehind ? kMostInterpretedWork : HUGE_VAL;
    for (const size_t i : kernels_to_wait_for(own_work, most, [&](size_t i) { return stand_in(all[i]); })) {
      missing.push_back(std::move(all[i]));
    }
    compile(missing, others);
    p_.missing.clear();
  }

 private:
  CacheKey key_of(const Missing& m) const { return {"kernel", m.key, m.text, target_name_}; }

  Missing missing_at(size_t s) const {
    const Step& step = p_.steps[s];
    Missing m{step.kernel->code, &step, print(step.kernel->kernel), {}, {}, {}};
    m.key = hash_bytes(m.text.data(), m.text.size());  // as key_of
    return m;
  }

  /// Takes the kernel from memory or disk. False: there is none.
  bool find(const Missing& m) {
    KernelCache& cache = KernelCache::global();
    CacheLookup found = cache.lookup(key_of(m));
    if (auto* hit = std::get_if<MemoryHit>(&found)) {
      p_.kernels[m.code] = *std::static_pointer_cast<CompiledKernel>(hit->object);
      return true;
    }
    if (auto* hit = std::get_if<DiskHit>(&found)) {
      const SpanScope span(SpanKind::kCompile, "load " + m.step->kernel->kernel.name, site_of(p_, *m.step).source);
      try {
        auto object = std::make_shared<CompiledKernel>(target_.load(hit->record.payload));
        p_.kernels[m.code] = *std::static_pointer_cast<CompiledKernel>(
            cache.loaded(key_of(m), std::move(object), hit->record.payload.size()));
        return true;
      } catch (const ValueError&) {
        cache.reject(key_of(m));
      }
    }
    return false;
  }

  /// Has something run the kernel that needs no compiler, while it is compiled behind the program. False: there is
  /// none.
  bool stand_in(const Missing& m) {
    if (p_.options.device == DeviceType::kCPU || stand_ins() == StandIns::kNone) return false;
    const Kernel& kernel = m.step->kernel->kernel;
    std::shared_ptr<const DeviceKernel> other = target_.stand_in(kernel);
    return other && compile_behind(m, std::move(other));
  }

  /// False: there can be no thread.
  bool compile_behind(const Missing& m, std::shared_ptr<const DeviceKernel> other) {
    const Kernel& kernel = m.step->kernel->kernel;
    KernelQueue::Job job{&target_, kernel, m.text, target_name_, resolve_source(site_of(p_, *m.step).source), m.key};
    std::shared_ptr<const DeviceKernel> tiered = KernelQueue::get().submit(std::move(job), std::move(other));
    if (!tiered) return false;
    p_.kernels[m.code] = {nullptr, nullptr, std::move(tiered)};
    return true;
  }

  /// Whether a step that waits for a kernel of much text first gets code that takes less time to compile.
  bool compiles_quickly() const {
    return p_.options.device != DeviceType::kCPU && stand_ins() == StandIns::kBehind && !in_background();
  }

  /// Kernels that are compiled as one. They share a module's overhead, and there are enough batches for the threads. A
  /// device's compiler takes longer for a statement the more a kernel has: there the largest come first, each alone.
  std::vector<std::vector<Missing*>> batches_of(std::vector<Missing>& missing, bool quickly) const {
    // Behind the program one at a time: it may end, fork or want another plan in between.
    const size_t most = in_background() ? 1 : 4, share = missing.size() / static_cast<size_t>(num_threads());
    const bool on_cpu = p_.options.device == DeviceType::kCPU;
    // A device's kernels of some 60 statements, beside which the overhead is small.
    const size_t most_text = on_cpu ? SIZE_MAX : quickly ? kLongText : 4096;
    std::vector<Missing*> order;
    for (Missing& m : missing) order.push_back(&m);
    if (!on_cpu) std::ranges::stable_sort(order, std::greater(), [](const Missing* m) { return m->text.size(); });
    std::vector<std::vector<Missing*>> batches;
    size_t text = 0;
    for (Missing* const m : order) {
      const bool full = batches.empty() || batches.back().size() >= std::clamp<size_t>(share, 1, most);
      if (full || text + m->text.size() > most_text) {
        batches.emplace_back();
        text = 0;
      }
      batches.back().push_back(m);
      text += m->text.size();
    }
    return batches;
  }

  /// Compiles kernels as one program, or a long one in its quick form.
  void compile_batch(const std::vector<Missing*>& batch, bool quickly, LongCompile& told) {
    std::vector<const Kernel*> kernels;
    for (const Missing* m : batch) kernels.push_back(&m->step->kernel->kernel);
    SpanScope scope(SpanKind::kCompile, kernels[0]->name, site_of(p_, *batch[0]->step).source);
    if (Span* const span = scope.span()) {
      span->count = static_cast<int64_t>(batch.size());
      if (span->count > 1) span->name += " and " + std::to_string(span->count - 1) + " more";
    }
    if (quickly && batch[0]->text.size() >= kLongText) batch[0]->quick = target_.compile_quickly(*kernels[0]);
    if (batch[0]->quick) {
      told.add(1);
      return;
    }
    auto objects = target_.compile(kernels);
    for (size_t i = 0; i < batch.size(); ++i) batch[i]->object = std::move(objects[i]);
    told.add(static_cast<int64_t>(batch.size()));
  }

  void compile(std::vector<Missing>& missing, std::span<const std::function<void()>> others) {
    const auto start = std::chrono::steady_clock::now();
    const bool quickly = compiles_quickly();  // as this thread waits, not those that help it
    const std::vector<std::vector<Missing*>> batches = batches_of(missing, quickly);
    const auto n = static_cast<int64_t>(missing.size()), num_others = static_cast<int64_t>(others.size());
    const int64_t jobs = num_others + static_cast<int64_t>(batches.size());
    LongCompile told(n, start);
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<bool> stopped = false;
    const auto stop_if_asked = [&] {
      try {
        check_interrupt();
      } catch (const Interrupted&) {
        stopped = true;
        throw;
      }
    };
    std::atomic<int64_t> next = 0;  // in their order, whoever asks: the pool would give a thread neighbours
    const auto compile_all = [&] {
      parallel_for(jobs, 1, [&](int64_t begin, int64_t end) {
        for (int64_t turn = begin; turn < end; ++turn) {
          const int64_t job = next++;
          if (stopped) return;
          if (std::this_thread::get_id() == caller) stop_if_asked();
          if (job < num_others) {
            const SpanScope span(SpanKind::kCompile, "hand-written kernel");
            others[job]();
            continue;
          }
          compile_batch(batches[static_cast<size_t>(job - num_others)], quickly, told);
        }
      });
    };
    try {
      compile_all();
    } catch (const Interrupted&) {
      // The next try finds what was compiled.
      for (Missing& m : missing) {
        if (!m.object.bytes.empty()) keep(m);
      }
      throw;
    }
    for (Missing& m : missing) {
      if (!m.quick) {
        keep(m);
      } else if (!compile_behind(m, m.quick)) {
        p_.kernels[m.code] = {nullptr, nullptr, std::move(m.quick)};
      }
    }
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    static Counter& compiled = counter("kernels.compiled");
    static Counter& micros = counter("kernels.compile_us");
    static Counter& waited = counter("kernels.waited_us");
    compiled.add(n);
    micros.add(static_cast<int64_t>(ms * 1000));
    if (!in_background()) waited.add(static_cast<int64_t>(ms * 1000));
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
};

}  // namespace

Hash128 key_of(const Kernel& kernel) {
  const std::string text = print(kernel);
  return hash_bytes(text.data(), text.size());
}

std::vector<size_t> kernels_to_wait_for(std::span<const double> work, double most,
                                        const std::function<bool(size_t)>& stand_in) {
  std::vector<size_t> order(work.size()), waited;
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return work[i]; });
  double interpreted = 0;
  for (const size_t i : order) {
    if (interpreted + work[i] <= most && stand_in(i)) {
      interpreted += work[i];
    } else {
      waited.push_back(i);
    }
  }
  return waited;
}

void emit(Program& program) { Emitter(program).find_all(); }

void compile_missing(Program& program, std::span<const std::function<void()>> others, std::span<const double> work) {
  if (!program.missing.empty() || !others.empty()) Emitter(program).compile_missing(others, work);
}

}  // namespace smolder::jit
