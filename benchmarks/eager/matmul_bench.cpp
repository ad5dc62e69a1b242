// Matmul at the shapes of the MLP and the transformer block. Arguments: batch, m, n, k, whether A and B are
// transposed. The GFLOP/s limit of a core is 2 x 2 x lanes x its clock; docs/dependencies.md has the libraries.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/matmul.h"

namespace smolder::eager {
namespace {

MatmulDesc describe(const benchmark::State& state, DType t) {
  MatmulDesc d;
  d.dtype = d.out_dtype = t;
  d.batch = state.range(0), d.m = state.range(1), d.n = state.range(2), d.k = state.range(3);
  const bool turn_a = state.range(4), turn_b = state.range(5);
  d.a_batch_stride = d.m * d.k, d.a_row = turn_a ? 1 : d.k, d.a_col = turn_a ? d.m : 1;
  d.b_batch_stride = d.k * d.n, d.b_row = turn_b ? 1 : d.n, d.b_col = turn_b ? d.k : 1;
  d.c_batch_stride = d.m * d.n, d.c_row = d.n;
  return d;
}

template <DType kType>
void matmul(benchmark::State& state) {
  const MatmulDesc d = describe(state, kType);
  const auto product = Matmul::get(d);
  const auto bytes = [&](int64_t elements) { return static_cast<size_t>(d.batch * elements) * itemsize(kType); };
  std::vector<std::byte> a(bytes(d.m * d.k), std::byte{0x3c}), b(bytes(d.k * d.n), std::byte{0x3c}),
      c(bytes(d.m * d.n));
  for (auto _ : state) {
    product->run(a.data(), b.data(), c.data(), nullptr);
    benchmark::ClobberMemory();
  }
  const double work = 2.0 * static_cast<double>(d.batch * d.m * d.n * d.k);
  state.counters["GFLOP/s"] = benchmark::Counter(work / 1e9, benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(matmul_isa() + std::string(", threads ") + std::to_string(num_threads()));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"batch", "m", "n", "k", "ta", "tb"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  const std::vector<std::vector<int64_t>> all = {
      {1, 32, 256, 784, 0, 1},    {1, 32, 128, 256, 0, 1},    {1, 32, 10, 128, 0, 1},      // the MLP forward,
      {1, 256, 784, 32, 1, 0},    {1, 128, 256, 32, 1, 0},    {1, 10, 128, 32, 1, 0},      // gradients of weights,
      {1, 32, 256, 128, 0, 0},    {1, 32, 128, 10, 0, 0},                                  // and of inputs
      {1, 2048, 512, 512, 0, 1},  {1, 2048, 1536, 512, 0, 1},                              // the block forward,
      {1, 2048, 2048, 512, 0, 1}, {1, 2048, 512, 2048, 0, 1},                              //
      {1, 2048, 512, 1536, 0, 0}, {1, 1536, 512, 2048, 1, 0}, {1, 512, 2048, 2048, 1, 0},  // backward,
      {128, 128, 128, 64, 0, 1},  {128, 128, 64, 128, 0, 0},  {128, 128, 64, 128, 1, 0},   // attention
      {1, 1, 4096, 1024, 0, 1},   {1, 1, 4096, 1024, 0, 0}};                               // a single row
  for (const auto& args : all) b->Args(args);
}

BENCHMARK(matmul<DType::kFloat32>)->Apply(shapes);
BENCHMARK(matmul<DType::kBFloat16>)->Apply(shapes);
BENCHMARK(matmul<DType::kFloat64>)->Args({1, 1024, 1024, 1024, 0, 0})->UseRealTime()->Unit(benchmark::kMicrosecond);

/// The cost of holding no plan: deciding the strategy anew.
void choose(benchmark::State& state) {
  const MatmulDesc d = describe(state, DType::kFloat32);
  for (auto _ : state) benchmark::DoNotOptimize(Matmul::get(d));
}
BENCHMARK(choose)->Args({1, 32, 256, 784, 0, 1})->Args({128, 128, 128, 64, 0, 1});

/// The smallest product: what run() costs besides arithmetic.
BENCHMARK(matmul<DType::kFloat32>)->Args({1, 1, 1, 1, 0, 0})->Args({1, 8, 8, 8, 0, 0});

}  // namespace
}  // namespace smolder::eager
