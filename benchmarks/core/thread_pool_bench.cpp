// Cost of one parallel_for: with workers spinning (calls back to back) and parked (after a pause).
#include "smolder/core/thread_pool.h"

#include <benchmark/benchmark.h>

#include <chrono>
#include <thread>

namespace smolder {
namespace {

void dispatch_spinning(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  for (auto _ : state) parallel_for(state.range(0), 1, [](int64_t begin, int64_t) { benchmark::DoNotOptimize(begin); });
}
BENCHMARK(dispatch_spinning)->Arg(1)->Arg(2)->UseRealTime();

void dispatch_parked(benchmark::State& state) {
  set_num_threads(2);
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::microseconds(400));
    const auto start = std::chrono::steady_clock::now();
    parallel_for(2, 1, [](int64_t begin, int64_t) { benchmark::DoNotOptimize(begin); });
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}
BENCHMARK(dispatch_parked)->UseManualTime()->Iterations(2000);

/// 20 us of work cut in two, to see what a split really gains.
void split_20us(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const auto spin = [](int64_t begin, int64_t end) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(1000) * (end - begin);
    while (std::chrono::steady_clock::now() < until) {
    }
  };
  for (auto _ : state) parallel_for(20, 1, spin);
}
BENCHMARK(split_20us)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace smolder
