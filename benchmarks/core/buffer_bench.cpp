// Cost of taking and giving back a buffer the pool has seen before, and of a fresh big one.
#include "smolder/core/buffer.h"

#include <benchmark/benchmark.h>

#include <cstring>

namespace smolder {
namespace {

void allocate_cached(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(allocate(bytes));
}
BENCHMARK(allocate_cached)->Arg(4)->Arg(4096)->Arg(1 << 20)->Arg(64 << 20);

void fill_64mib(benchmark::State& state) {
  const bool fresh = state.range(0) != 0;
  for (auto _ : state) {
    if (fresh) empty_cache();
    BufferRef b = allocate(64 << 20);
    std::memset(b->data(), 1, b->bytes());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(fill_64mib)->ArgName("fresh")->Arg(0)->Arg(1);

}  // namespace
}  // namespace smolder
