// Measurements of `smolder bench` without an interpreter in the way: recording, plans, and the limits of
// the machine (bandwidth, matrix products). Every function returns its samples; medians are taken above.
#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/counters.h"
#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/matmul.h"
#include "smolder/jit/compile.h"
#include "smolder/jit/emit.h"
#include "smolder/lazy/extract.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/tape.h"
#include "src/bench_loops.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

using Clock = std::chrono::steady_clock;
using Samples = std::vector<double>;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// `rounds` timings of f(), in seconds; one untimed call comes first.
Samples time_rounds(int rounds, const std::function<void()>& f) {
  f();
  Samples out;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    f();
    out.push_back(seconds_since(start));
  }
  return out;
}

Tensor ramp(int64_t n) {
  std::vector<float> v(n);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<float>(i % 17) / 16;
  return Tensor::from_data(v.data(), {n}, DType::kFloat32);
}

void forget_traces() {
  mark_step();
  lazy::Tape& tape = lazy::Tape::cpu();
  const std::lock_guard hold(tape.mutex());
  tape.forget_traces();
}

/// Seconds to record `ops` additions whose results die at once; the sync after them is not timed.
/// `predicted`: each step repeats the one before; else nothing is known of any step.
Samples record(bool predicted, int ops, int rounds) {
  const lazy::GradMode no_grad(false);
  const Tensor a = ramp(8), b = ramp(8);
  forget_traces();
  Samples out;
  for (int i = 0; i < rounds + 3; ++i) {
    if (!predicted) forget_traces();
    const int64_t misses = counter("predictor.misses").value();
    const auto start = Clock::now();
    for (int k = 0; k < ops; ++k) (void)(a + b);
    const double seconds = seconds_since(start);
    mark_step();
    if (i < 3) continue;  // the first steps are new
    SMOLDER_CHECK(!predicted || counter("predictor.misses").value() == misses, RuntimeError,
                  "record_predicted: the step was not predicted");
    out.push_back(seconds);
  }
  forget_traces();
  return out;
}

/// Seconds for what recording can't do without: the lock taken, and a value and a handle made and dropped.
Samples record_floor(int ops, int rounds) {
  static lazy::Lock lock;
  return time_rounds(rounds, [&] {
    for (int k = 0; k < ops; ++k) {
      void* handle = nullptr;
      {
        const std::lock_guard hold(lock);
        handle = lazy::TensorImpl::operator new(sizeof(lazy::TensorImpl));
      }
      asm volatile("" : : "r"(handle) : "memory");
      lazy::TensorImpl::operator delete(handle);
    }
  });
}

/// A step of `ops` ops on 8 elements, of which every 40th result is held, as a model's are.
std::vector<Tensor> many_ops(const Tensor& x, const Tensor& w, int ops) {
  std::vector<Tensor> held;
  Tensor y = x;
  for (int k = 0; k < ops; ++k) {
    y = k % 3 == 0 ? y * w : k % 3 == 1 ? y + x : relu(y);
    if (k % 40 == 39) held.push_back(y);
  }
  return held;
}

/// Buffers for every leaf of a trace and every output of its plan: what running an instance needs.
class Bench {
 public:
  Bench(const lazy::Trace& t, const lazy::PlanEntry& entry) : entry_(entry) {
    for (size_t v = 0; v < t.metas.size(); ++v) {
      if (t.is_leaf[v]) add(leaves_, numel(t.metas[v]->shape) * itemsize(t.metas[v]->dtype));
    }
    for (const int64_t bytes : entry.instance->output_bytes()) add(outputs_, bytes);
    for (const lazy::OperandWord w : t.operands) {
      if (lazy::is_number(w)) parameters_.push_back(Scalar(1.0).bits());
    }
  }
  void run() { (void)entry_.instance->run({leaves_, parameters_, outputs_}); }

 private:
  void add(std::vector<void*>& list, int64_t bytes) {
    buffers_.push_back(allocate(std::max<int64_t>(bytes, 1)));
    std::fill_n(static_cast<char*>(buffers_.back()->data()), std::max<int64_t>(bytes, 1), 0);
    list.push_back(buffers_.back()->data());
  }
  lazy::PlanEntry entry_;
  std::vector<BufferRef> buffers_;
  std::vector<void*> leaves_, outputs_;
  std::vector<uint64_t> parameters_;
};

/// The step that ran last, with the plan that ran it.
std::pair<lazy::Trace, lazy::PlanEntry> last_step() {
  lazy::Tape& tape = lazy::Tape::cpu();
  const std::lock_guard hold(tape.mutex());
  const lazy::Trace* const t = tape.last_trace();
  SMOLDER_CHECK(t && !t->plans.empty(), RuntimeError, "no step has run");
  return {*t, t->plans.back()};
}

/// Seconds of whole repeated steps, sync included, and of their kernels alone: {steps, kernels}.
std::pair<Samples, Samples> step(int ops, int rounds) {
  const lazy::GradMode no_grad(false);
  const Tensor x = ramp(8), w = ramp(8);
  forget_traces();
  const auto once = [&] {
    const std::vector<Tensor> held = many_ops(x, w, ops);
    mark_step();
  };
  for (int i = 0; i < 3; ++i) once();
  const Samples steps = time_rounds(rounds, once);
  const auto [trace, entry] = last_step();
  Bench kernels(trace, entry);
  const Samples alone = time_rounds(rounds, [&] { kernels.run(); });
  forget_traces();
  return {steps, alone};
}

/// Seconds of a step of `ops` ops at sizes not seen before, and of the same step at a known size:
/// {new sizes, known size}. Throws when a new size compiled anything.
std::pair<Samples, Samples> rebind(int ops, int rounds) {
  const lazy::GradMode no_grad(false);
  forget_traces();
  int64_t batch = 32;
  const auto once = [&](const Tensor& x, const Tensor& w) {
    const auto start = Clock::now();
    const std::vector<Tensor> held = many_ops(x, w, ops);
    mark_step();
    return seconds_since(start);
  };
  const auto at = [&](int64_t n) {
    const Tensor x = ramp(n), w = ramp(n);
    return once(x, w);
  };
  for (int i = 0; i < 3; ++i) at(batch++);
  Samples fresh, known;
  const int64_t compiled = counter("kernels.compiled").value(), plans = counter("plans.compiled").value();
  for (int i = 0; i < rounds; ++i) fresh.push_back(at(batch++));
  SMOLDER_CHECK(counter("kernels.compiled").value() == compiled && counter("plans.compiled").value() == plans,
                RuntimeError, "rebind: a new batch size compiled ", counter("kernels.compiled").value() - compiled,
                " kernels and ", counter("plans.compiled").value() - plans, " plans");
  const Tensor x = ramp(batch), w = ramp(batch);
  for (int i = 0; i < rounds + 3; ++i) {
    const double seconds = once(x, w);
    if (i >= 3) known.push_back(seconds);
  }
  forget_traces();
  return {fresh, known};
}

/// Seconds to build the plan of a step of `ops` ops when all its kernels are known, and to build only its
/// graph: {plan, graph}.
std::pair<Samples, Samples> plan(int ops, int rounds) {
  const lazy::GradMode no_grad(false);
  forget_traces();
  const Tensor x = ramp(8), w = ramp(8);
  {
    const std::vector<Tensor> held = many_ops(x, w, ops);
    mark_step();
  }
  const auto [trace, entry] = last_step();
  const jit::CompileOptions options = lazy::Tape::cpu().options().compile;
  const Samples plans =
      time_rounds(rounds, [&] { (void)jit::Plan::compile(lazy::to_graph(trace, entry.produced), options); });
  const Samples graphs = time_rounds(rounds, [&] { (void)lazy::to_graph(trace, entry.produced); });
  forget_traces();
  return {plans, graphs};
}

/// Seconds to compile each distinct kernel of the step that ran last, alone and past every cache.
Samples compile_kernels() {
  const auto [trace, entry] = last_step();
  const jit::Program program =
      jit::run_stages(lazy::to_graph(trace, entry.produced), lazy::Tape::cpu().options().compile);
  std::vector<int> done;
  Samples out;
  for (const jit::Step& s : program.steps) {
    if (!s.kernel || std::ranges::find(done, s.kernel->code) != done.end()) continue;
    done.push_back(s.kernel->code);
    const jit::Kernel* const kernel = &s.kernel->kernel;
    const auto start = Clock::now();
    const std::vector<jit::ObjectCode> objects = jit::backend().compile({&kernel, 1});
    (void)jit::backend().load(objects[0].bytes);
    out.push_back(seconds_since(start));
  }
  return out;
}

/// The same for a kernel that only copies.
Samples compile_copy_kernel(int rounds) {
  const jit::Kernel kernel = jit::parse_loop(
      "kernel {\n"
      "  buffers b0:float32 w, b1:float32 r\n"
      "  ints 1\n"
      "  parallel v0 < n0 {\n"
      "    %0 = load b1[v0]\n"
      "    store b0[v0], %0\n"
      "  }\n"
      "}\n");
  const jit::Kernel* const one = &kernel;
  return time_rounds(rounds, [&] { (void)jit::backend().compile({&one, 1}); });
}

/// A limit of the machine, to be run between rounds of what it limits.
struct Loop {
  std::function<void()> run;
};

BufferRef filled(int64_t elements) {
  BufferRef b = allocate(elements * 4);
  std::fill_n(static_cast<float*>(b->data()), elements, 0.5f);
  return b;
}

/// A loop over `bytes` in all, on the pool's threads: "copy" reads half and writes half, "scale" the same with a
/// multiplication, both also as "copy_streaming" and "scale_streaming", past the caches; "read" sums.
Loop stream(const std::string& kind, int64_t bytes) {
  constexpr int64_t kGrain = 16384;
  if (kind == "read") {
    return {[n = bytes / 4, from = filled(bytes / 4), kept = filled(1)] {
      const auto* const x = static_cast<const float*>(from->data());
      parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
        if (sum_loop(x + begin, end - begin) < 0) *static_cast<float*>(kept->data()) = 0;  // never: it must be wanted
      });
    }};
  }
  const bool streaming = kind.ends_with("_streaming");
  const std::string word = kind.substr(0, kind.find('_'));
  SMOLDER_CHECK(word == "copy" || word == "scale", ValueError, "no such loop: ", kind);
  return {[n = bytes / 8, factor = word == "copy" ? 1.0f : 0.5f, loop = streaming ? scale_loop_streaming : scale_loop,
           from = filled(bytes / 8), to = filled(bytes / 8)] {
    const auto* const x = static_cast<const float*>(from->data());
    auto* const y = static_cast<float*>(to->data());
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) { loop(y + begin, x + begin, factor, end - begin); });
  }};
}

/// Products in the library, one after another: each (batch, m, n, k, a transposed, b transposed).
Loop matmuls(const std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t, bool, bool>>& products, PyDType element) {
  const DType dtype = element.value;
  const auto item = static_cast<int64_t>(itemsize(dtype));
  const auto numbers = [&](int64_t elements) { return filled((elements * item + 3) / 4); };
  std::vector<std::function<void()>> calls;
  for (const auto& [batch, m, n, k, a_transposed, b_transposed] : products) {
    eager::MatmulDesc d;
    d.dtype = d.out_dtype = dtype;
    d.batch = batch, d.m = m, d.n = n, d.k = k;
    d.a_batch_stride = m * k, d.a_row = a_transposed ? 1 : k, d.a_col = a_transposed ? m : 1;
    d.b_batch_stride = k * n, d.b_row = b_transposed ? 1 : n, d.b_col = b_transposed ? k : 1;
    d.c_batch_stride = m * n, d.c_row = n;
    calls.push_back([run = eager::Matmul::get(d), a = numbers(batch * m * k), b = numbers(batch * k * n),
                     c = numbers(batch * m * n)] { run->run(a->data(), b->data(), c->data(), nullptr); });
  }
  return {[calls] {
    for (const auto& call : calls) call();
  }};
}

/// The clock that the processor really has, in GHz, the best of `rounds`: integer products that wait for one another,
/// 3 cycles each on today's x86-64 and AArch64 cores.
double clock_ghz(int rounds) {
  constexpr int64_t kProducts = 1'000'000;
  double best = 0;
  for (int i = 0; i < rounds; ++i) {
    uint64_t x = 3;
    const auto start = Clock::now();
    for (int64_t k = 0; k < kProducts; ++k) {
      x *= 0x9E3779B97F4A7C15u;
      asm volatile("" : "+r"(x));
    }
    best = std::max(best, 3e-9 * static_cast<double>(kProducts) / seconds_since(start));
  }
  return best;
}

}  // namespace

void bind_bench(nb::module_& m) {
  const auto free = nb::call_guard<WithoutGil>();
  m.def("_bench_record", &record, free);
  m.def("_bench_record_floor", &record_floor, free);
  m.def("_bench_step", &step, free);
  m.def("_bench_rebind", &rebind, free);
  m.def("_bench_plan", &plan, free);
  m.def("_bench_compile_kernels", &compile_kernels, free);
  m.def("_bench_compile_copy_kernel", &compile_copy_kernel, free);
  nb::class_<Loop>(m, "_BenchLoop").def("__call__", [](const Loop& l) { l.run(); }, free);
  m.def("_bench_stream", &stream, free);
  m.def("_bench_backend", [] { return jit::backend().target(); });
  m.def("_bench_matmuls", &matmuls, free);
  m.def("_bench_clock", &clock_ghz, free);
}

}  // namespace smolder::python
