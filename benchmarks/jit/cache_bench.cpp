// The cost of a lookup and of an insert to the step path, by payload size.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "smolder/jit/cache/kernel_cache.h"

namespace smolder::jit {
namespace {

constexpr int kRows = 512;
const std::string kTarget(1000, 't');  // CPU features are about this long

class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "smolder-bench-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  DiskOptions options() const {
    DiskOptions o;
    o.directory = path_;
    return o;
  }

 private:
  std::string path_;
};

CacheRecord record_of(int i, size_t bytes) {
  CacheRecord r;
  r.kind = "kernel";
  r.structure = "kernel structure " + std::to_string(i) + std::string(1500, 's');
  r.key = hash_bytes(r.structure.data(), r.structure.size());
  r.target = kTarget;
  r.payload = std::string(bytes, static_cast<char>(i));
  r.source = std::string(2 * bytes, 'x');
  return r;
}

void fill(DiskCache& cache, size_t bytes) {
  for (int i = 0; i < kRows; ++i) cache.insert(record_of(i, bytes));
  cache.flush(60);
}

void BM_memory_hit(benchmark::State& state) {
  const Directory dir;
  KernelCache cache(dir.options());
  std::vector<CacheRecord> records;
  for (int i = 0; i < kRows; ++i) {
    records.push_back(record_of(i, 8));
    cache.loaded(records.back().cache_key(), std::make_shared<int>(i), 10000);
  }
  int i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(cache.lookup(records[i++ % kRows].cache_key()));
}
BENCHMARK(BM_memory_hit);

/// Each row once with a fresh connection: what a new process pays.
void BM_disk_hit_first(benchmark::State& state) {
  const Directory dir;
  const auto bytes = static_cast<size_t>(state.range(0));
  {
    DiskCache cache(dir.options());
    fill(cache, bytes);
  }
  std::vector<CacheRecord> records;
  for (int i = 0; i < kRows; ++i) records.push_back(record_of(i, bytes));
  auto cache = std::make_unique<DiskCache>(dir.options());
  int i = 0;
  for (auto _ : state) {
    if (i == kRows) {
      state.PauseTiming();
      cache = std::make_unique<DiskCache>(dir.options());
      cache->find(records[0].cache_key());
      i = 0;
      state.ResumeTiming();
    }
    const DiskFind found = cache->find(records[i++].cache_key());
    if (found.status != DiskFind::Status::kHit) state.SkipWithError("a stored row was not found");
  }
}
BENCHMARK(BM_disk_hit_first)->Arg(2 << 10)->Arg(10 << 10)->Arg(50 << 10)->Iterations(8 * kRows);

void BM_disk_miss(benchmark::State& state) {
  const Directory dir;
  DiskCache cache(dir.options());
  fill(cache, 2 << 10);
  CacheRecord absent = record_of(kRows, 1);
  for (auto _ : state) {
    ++absent.key.lo;
    benchmark::DoNotOptimize(cache.find(absent.cache_key()));
  }
}
BENCHMARK(BM_disk_miss);

/// The cost to the compiling thread; the record is moved in, as the compiler does.
void BM_insert_queued(benchmark::State& state) {
  const Directory dir;
  const auto bytes = static_cast<size_t>(state.range(0));
  DiskCache cache(dir.options());
  int i = 0;
  for (auto _ : state) {
    state.PauseTiming();
    if (i % 256 == 0) cache.flush(60);
    CacheRecord r = record_of(i++, bytes);
    state.ResumeTiming();
    cache.insert(std::move(r));
  }
}
BENCHMARK(BM_insert_queued)->Arg(2 << 10)->Arg(50 << 10)->Iterations(4096);

/// A row from insert to commit, in bursts of 64: the writer's throughput.
void BM_insert_written(benchmark::State& state) {
  const Directory dir;
  const auto bytes = static_cast<size_t>(state.range(0));
  DiskCache cache(dir.options());
  int i = 0;
  for (auto _ : state) {
    for (int n = 0; n < 64; ++n) cache.insert(record_of(i++, bytes));
    cache.flush(60);
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(BM_insert_written)->Arg(2 << 10)->Arg(50 << 10)->Iterations(32)->UseRealTime();

/// Opening a database of some rows and finding the first: what a warm start pays once.
void BM_open(benchmark::State& state) {
  const Directory dir;
  {
    DiskCache cache(dir.options());
    fill(cache, 10 << 10);
  }
  const CacheRecord first = record_of(0, 10 << 10);
  for (auto _ : state) {
    auto cache = std::make_unique<DiskCache>(dir.options());
    benchmark::DoNotOptimize(cache->find(first.cache_key()));
    state.PauseTiming();
    cache.reset();
    state.ResumeTiming();
  }
}
BENCHMARK(BM_open)->Iterations(64)->UseRealTime();

/// Making the database where there is none, and missing once: what the first start ever pays.
void BM_create(benchmark::State& state) {
  const CacheRecord first = record_of(0, 10);
  for (auto _ : state) {
    state.PauseTiming();
    const auto dir = std::make_unique<Directory>();
    state.ResumeTiming();
    DiskCache cache(dir->options());
    benchmark::DoNotOptimize(cache.find(first.cache_key()));
  }
}
BENCHMARK(BM_create)->Iterations(16)->UseRealTime();

/// The cost at the end of a process that compiled some kernels: their last batch, and giving leases back.
void BM_close(benchmark::State& state) {
  const Directory dir;
  const auto rows = static_cast<int>(state.range(0));
  int next = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto cache = std::make_unique<DiskCache>(dir.options());
    for (int i = 0; i < rows; ++i) cache->insert(record_of(next++, 10 << 10));
    state.ResumeTiming();
    cache.reset();
  }
}
BENCHMARK(BM_close)->Arg(1)->Arg(100)->Iterations(16)->UseRealTime();

/// The cost of a fork to the parent with the cache open: closing before, opening at the next lookup.
void BM_reopen_after_fork(benchmark::State& state) {
  const Directory dir;
  DiskCache cache(dir.options());
  fill(cache, 2 << 10);
  const CacheRecord first = record_of(0, 2 << 10);
  for (auto _ : state) {
    cache.find(first.cache_key());
    const pid_t child = fork();
    if (child == 0) _exit(0);
    benchmark::DoNotOptimize(cache.find(first.cache_key()));
    state.PauseTiming();
    waitpid(child, nullptr, 0);
    state.ResumeTiming();
  }
}
BENCHMARK(BM_reopen_after_fork)->Iterations(64)->UseRealTime();

}  // namespace
}  // namespace smolder::jit
