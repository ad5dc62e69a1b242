// The cost of a plan: to compile, to bind, to run; and how near to memory its kernels come. Bandwidth counts bytes
// read once and written once; `BM_Copy` is what the machine copies with the same threads.
#include <benchmark/benchmark.h>
#include <algorithm>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/counters.h"
#include "smolder/core/thread_pool.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/value_ops.h"
#include "smolder/jit/plan.h"

namespace smolder::jit {
namespace {

using ir::ReduceKind;
using ir::Value;

/// A graph with the memory that makes it run.
class Case {
 public:
  Case() : b(g) {}
  ir::Graph g;
  ir::Builder b;

  ir::Dim size(int64_t n) {
    symbols.push_back(n);
    return g.sym.symbol(n);
  }
  Value input(ir::SymDims shape) {
    int64_t n = 1;
    for (const ir::Dim& d : shape) n *= d.value;
    leaves.push_back(allocate(n * sizeof(float)));
    auto* p = static_cast<float*>(leaves.back()->data());
    parallel_for(n, 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        p[i] = static_cast<float>((i * 2654435761u >> 8) & 0xffff) / 65536.f + 0.01f;
    });
    bytes += n * static_cast<int64_t>(sizeof(float));
    return b.leaf(static_cast<int>(leaves.size() - 1), DType::kFloat32, shape);
  }
  Value number(Scalar v) {
    parameters.push_back(v.bits());
    return b.parameter(static_cast<int>(parameters.size() - 1), v.category());
  }
  void output(Value v) { g.outputs.push_back(v.id); }

  void prepare() {
    plan = Plan::compile(g);
    instance = plan->bind(symbols);
    outputs.resize(plan->outputs().size());
    for (const Donation& d : plan->donations()) {
      if (!outputs[d.output] && leaves[d.leaf].use_count() == 1) outputs[d.output] = leaves[d.leaf];
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i]) outputs[i] = allocate(instance->output_bytes()[i]);
      bytes += instance->output_bytes()[i];
    }
    for (const BufferRef& x : leaves) leaf_addresses.push_back(x->data());
    for (const BufferRef& x : outputs) output_addresses.push_back(x->data());
    run();
  }
  void run() { instance->run({leaf_addresses, parameters, output_addresses}); }

  std::vector<int64_t> symbols;
  std::vector<BufferRef> leaves, outputs;
  std::vector<void*> leaf_addresses, output_addresses;
  std::vector<uint64_t> parameters;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Instance> instance;
  int64_t bytes = 0;
};

void measure(benchmark::State& state, Case& c) {
  c.prepare();
  for (auto _ : state) c.run();
  state.SetBytesProcessed(state.iterations() * c.bytes);
}

void BM_Copy(benchmark::State& state) {
  const int64_t n = state.range(0);
  const BufferRef a = allocate(n), b = allocate(n);
  std::memset(a->data(), 1, n);
  std::memset(b->data(), 1, n);
  for (auto _ : state) {
    parallel_for(n, 1 << 16, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char*>(b->data()) + begin, static_cast<char*>(a->data()) + begin, end - begin);
    });
  }
  state.SetBytesProcessed(state.iterations() * n * 2);
}
BENCHMARK(BM_Copy)->Arg(1 << 25)->Arg(1 << 27)->UseRealTime();

void BM_GeluChain(benchmark::State& state) {
  Case c;
  const Value x = c.input({c.size(1 << 25)});
  c.output(x * 0.5 * (1.0 + tanh((x + x * x * x * 0.044715) * 0.7978845608)));
  measure(state, c);
}
BENCHMARK(BM_GeluChain)->UseRealTime();

void BM_AddMul(benchmark::State& state) {
  Case c;
  const auto n = c.size(1 << 25);
  const Value x = c.input({n}), y = c.input({n});
  c.output(x * 0.5 + y);
  measure(state, c);
}
BENCHMARK(BM_AddMul)->UseRealTime();

Value sum(Case& c, Value x, std::vector<int> axes, bool keep = false) {
  return c.b.reduce(ReduceKind::kSum, x, axes, keep);
}

void BM_Softmax(benchmark::State& state) {
  Case c;
  const Value x = c.input({c.size(8192), c.size(1024)});
  const Value e = exp(x - c.b.reduce(ReduceKind::kMax, x, {1}, true));
  c.output(e / sum(c, e, {1}, true));
  measure(state, c);
}
BENCHMARK(BM_Softmax)->UseRealTime();

void BM_SoftmaxBackward(benchmark::State& state) {
  Case c;
  const auto n = c.size(8192), m = c.size(1024);
  const Value p = c.input({n, m}), dy = c.input({n, m});
  c.output(p * (dy - sum(c, p * dy, {1}, true)));
  measure(state, c);
}
BENCHMARK(BM_SoftmaxBackward)->UseRealTime();

void BM_LayerNorm(benchmark::State& state) {
  Case c;
  const auto n = c.size(8192), m = c.size(1024);
  const Value x = c.input({n, m}), w = c.input({m}), b = c.input({m});
  const Value mean = sum(c, x, {1}, true) / c.b.number(m), centred = x - mean;
  const Value rstd = rsqrt(sum(c, centred * centred, {1}, true) / c.b.number(m) + 1e-5);
  c.output(centred * rstd * w + b);
  c.output(mean);
  c.output(rstd);
  measure(state, c);
}
BENCHMARK(BM_LayerNorm)->UseRealTime();

void BM_LayerNormBackward(benchmark::State& state) {
  Case c;
  const auto n = c.size(8192), m = c.size(1024);
  const Value x = c.input({n, m}), dy = c.input({n, m}), w = c.input({m}), mean = c.input({n, 1}),
              rstd = c.input({n, 1});
  const Value xhat = (x - mean) * rstd, g = dy * w;
  const Value c1 = sum(c, g, {1}, true) / c.b.number(m), c2 = sum(c, g * xhat, {1}, true) / c.b.number(m);
  c.output((g - c1 - xhat * c2) * rstd);
  c.output(sum(c, dy * xhat, {0}));
  c.output(sum(c, dy, {0}));
  measure(state, c);
}
BENCHMARK(BM_LayerNormBackward)->UseRealTime();

void BM_ColumnSum(benchmark::State& state) {
  Case c;
  c.output(sum(c, c.input({c.size(8192), c.size(4096)}), {0}));
  measure(state, c);
}
BENCHMARK(BM_ColumnSum)->UseRealTime();

void BM_FullSum(benchmark::State& state) {
  Case c;
  c.output(sum(c, c.input({c.size(8192), c.size(4096)}), {0, 1}));
  measure(state, c);
}
BENCHMARK(BM_FullSum)->UseRealTime();

void BM_RowSum(benchmark::State& state) {
  Case c;
  c.output(sum(c, c.input({c.size(8192), c.size(4096)}), {1}));
  measure(state, c);
}
BENCHMARK(BM_RowSum)->UseRealTime();

void BM_Transpose(benchmark::State& state) {
  Case c;
  c.output(c.b.permute(c.input({c.size(4096), c.size(4096)}), {1, 0}));
  measure(state, c);
}
BENCHMARK(BM_Transpose)->UseRealTime();

void adamw(Case& c, ir::SymDims shape, const std::vector<Value>& numbers) {
  const Value &lr = numbers[0], &b1 = numbers[1], &b2 = numbers[2], &eps = numbers[3], &wd = numbers[4],
              &step = numbers[5];
  const Value p = c.input(shape), g = c.input(shape), m = c.input(shape), v = c.input(shape);
  const Value m2 = m + (g - m) * (1.0 - b1), v2 = v * b2 + g * g * (1.0 - b2);
  const Value denominator = sqrt(v2) / sqrt(1.0 - pow(b2, step)) + eps;
  c.output(p * (1.0 - lr * wd) - lr / (1.0 - pow(b1, step)) * (m2 / denominator));
  c.output(m2);
  c.output(v2);
}

std::vector<Value> adamw_numbers(Case& c) {
  return {c.number(1e-3), c.number(0.9), c.number(0.999), c.number(1e-8), c.number(0.01), c.number(3.0)};
}

void BM_AdamW(benchmark::State& state) {
  Case c;
  const auto numbers = adamw_numbers(c);
  for (int i = 0; i < 12; ++i) adamw(c, {c.size(2500 + i), c.size(1000)}, numbers);
  measure(state, c);
}
BENCHMARK(BM_AdamW)->UseRealTime();

/// A transformer-like mix of about `ops` primitives.
void build_layers(Case& c, int layers) {
  const auto n = c.size(64), d = c.size(32);
  Value x = c.input({n, d});
  std::vector<Value> parameters;
  for (int i = 0; i < layers; ++i) {
    const Value w = c.input({d, d}), b = c.input({d}), g = c.input({d});
    const Value mean = sum(c, x, {1}, true) / c.b.number(d), centred = x - mean;
    const Value h = centred * rsqrt(sum(c, centred * centred, {1}, true) / c.b.number(d) + 1e-5) * g + b;
    const Value z = c.b.dot(h, w, DType::kFloat32) + b;
    x = x + z * 0.5 * (1.0 + erf(z * 0.70710678));
  }
  c.output(x);
}

void BM_CompilePlan(benchmark::State& state) {
  Case c;
  build_layers(c, static_cast<int>(state.range(0)));
  Plan::compile(c.g);
  const char* const stages[] = {"decompose", "simplify", "fuse", "lower", "schedule", "emit"};
  const auto spent = [](const char* stage) { return counter(std::string("compile.") + stage + "_us").value(); };
  std::vector<int64_t> before;
  for (const char* s : stages) before.push_back(spent(s));
  for (auto _ : state) benchmark::DoNotOptimize(Plan::compile(c.g));
  state.counters["nodes"] = static_cast<double>(c.g.nodes.size());
  for (size_t i = 0; i < before.size(); ++i) {
    state.counters[stages[i]] =
        static_cast<double>(spent(stages[i]) - before[i]) / static_cast<double>(state.iterations());
  }
}
BENCHMARK(BM_CompilePlan)->Arg(1)->Arg(10)->Arg(50)->Unit(benchmark::kMicrosecond);

void BM_Bind(benchmark::State& state) {
  Case c;
  build_layers(c, static_cast<int>(state.range(0)));
  const auto plan = Plan::compile(c.g);
  for (auto _ : state) benchmark::DoNotOptimize(plan->bind(c.symbols));
  state.counters["nodes"] = static_cast<double>(c.g.nodes.size());
}
BENCHMARK(BM_Bind)->Arg(1)->Arg(10)->Arg(50)->Unit(benchmark::kMicrosecond);

/// Launches that do next to nothing: what is left is the executor.
void BM_SmallSteps(benchmark::State& state) {
  Case c;
  const auto n = c.size(8);
  for (int i = 0; i < 200; ++i) {
    const Value x = c.input({n});
    c.output(c.b.barrier(i % 2 ? x * 2.0 : x + 1.0) * 3.0);
  }
  c.prepare();
  for (auto _ : state) c.run();
  state.SetItemsProcessed(state.iterations() * 400);
}
BENCHMARK(BM_SmallSteps)->UseRealTime();

}  // namespace
}  // namespace smolder::jit
