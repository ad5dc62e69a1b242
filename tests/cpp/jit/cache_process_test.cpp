// The kernel cache among processes: killed writers, several at once, leases, fork, exit.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <sstream>
#include <thread>

#include "jit/cache_test_util.h"
#include "smolder/jit/cache/kernel_cache.h"
#include "smolder/jit/cache/process.h"

namespace smolder::jit {
namespace {

using test::count_of;
using test::make_record;
using test::same_content;
using test::ScratchDirectory;
using test::Worker;
using Status = DiskFind::Status;

void ready() { EXPECT_EQ(write(3, "r", 1), 1); }

void wait_for_release() {
  char byte;
  EXPECT_EQ(read(0, &byte, 1), 1);
}

/// Looks up and inserts the same `rows` records in an order of its own; fails on a wrong payload.
void read_and_write(DiskCache& cache, int rows, uint64_t seed, int rounds) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < rounds; ++i) {
    const CacheRecord r = make_record(static_cast<int>(random() % static_cast<uint64_t>(rows)));
    const DiskFind found = cache.find(r.cache_key());
    ASSERT_NE(found.status, Status::kBroken);
    ASSERT_NE(found.status, Status::kCollision);
    if (found.status == Status::kHit)
      ASSERT_TRUE(same_content(found.record, r));
    else
      cache.insert(r);
    if (random() % 16 == 0) cache.flush(120);
  }
}

void work_until_killed(const DiskOptions& options, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (bool first = true;; first = false) {
    DiskCache cache(options);  // opening and closing are killed too
    for (int i = 0; i < 12; ++i) {
      cache.insert(make_record(static_cast<int>(random() % 300), random() % 20'000));
      if (random() % 4 == 0) cache.flush(120);
    }
    if (first) ready();
  }
}

/// The task of a Worker; words[0] names it.
void run_worker(const std::vector<std::string>& words) {
  DiskOptions options;
  options.directory = words.at(1);
  const uint64_t seed = std::stoull(words.at(2));
  if (words[0] == "until-killed") {
    options.max_bytes = 1 << 20;  // so that it evicts as well
    work_until_killed(options, seed);
  } else if (words[0] == "read-and-write") {
    DiskCache cache(options);
    ready();
    wait_for_release();
    read_and_write(cache, 150, seed, 1500);
    EXPECT_TRUE(cache.available());
    EXPECT_TRUE(cache.flush(120));
  } else if (words[0] == "hold-leases") {
    DiskCache cache(options);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(cache.find(make_record(i, 6000).cache_key()).status, Status::kHit);
    EXPECT_TRUE(cache.flush(120));
    ready();
    wait_for_release();
  } else if (words[0] == "exit-normally") {
    KernelCache& cache = KernelCache::global();  // finds its directory in the environment
    for (int i = 0; i < 20; ++i) cache.insert(make_record(i), std::make_shared<int>(i), 10);
  } else {
    FAIL() << "unknown worker " << words[0];
  }
}

TEST(CacheWorker, DISABLED_Run) {
  const char* arguments = getenv("SMOLDER_CACHE_WORKER");
  if (!arguments) GTEST_SKIP() << "run by the tests below, in processes of their own";
  std::istringstream in(arguments);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  run_worker(words);
}

TEST(CacheProcesses, KillNineDuringWrites200TimesLeavesNoBadRow) {
  const ScratchDirectory dir;
  std::mt19937_64 random(20);
  int64_t rows = 0;
  const int64_t corrupt = count_of("cache.corrupt_rows");
  for (int n = 0; n < 200 / test::kSlowdown && !HasFailure(); ++n) {
    SCOPED_TRACE("kill " + std::to_string(n));
    if (n % 40 == 0)  // now and then the making of the database is killed
      for (const std::string& name : dir.names("")) std::filesystem::remove(dir.path() + "/" + name);
    {
      Worker worker({"until-killed", dir.path(), std::to_string(n)});
      // Some before they open anything, most in the middle of their writes.
      if (n % 8 != 0) {
        ASSERT_TRUE(worker.wait_ready());
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 12'000));
      worker.kill_now();
    }
    DiskCache cache(dir.options(1 << 20));
    int64_t broken = 0, seen = 0;
    cache.for_each({}, Detail::kFull, [&](CacheRow& row) {
      ++seen;
      broken += row.broken;
      return true;
    });
    EXPECT_EQ(broken, 0);
    EXPECT_EQ(cache.stats().rows, seen);
    if (n % 20 == 19) {
      const VerifyReport report = cache.verify(false);
      EXPECT_TRUE(report.sound()) << report.complaints;
    }
    rows = seen;
  }
  EXPECT_GT(rows, 10) << "the workers did write";
  EXPECT_EQ(count_of("cache.corrupt_rows"), corrupt);
  EXPECT_TRUE(dir.names("damaged").empty());
}

TEST(CacheProcesses, FourAtOnceReadWhatTheOthersWrite) {
  const ScratchDirectory dir;
  {
    std::vector<std::unique_ptr<Worker>> workers;
    for (int i = 0; i < 4; ++i)
      workers.push_back(
          std::make_unique<Worker>(std::vector<std::string>{"read-and-write", dir.path(), std::to_string(i)}));
    for (auto& w : workers) ASSERT_TRUE(w->wait_ready());
    for (auto& w : workers) w->release();
    for (auto& w : workers) EXPECT_EQ(w->wait(), 0);
  }
  DiskCache cache(dir.options());
  for (int i = 0; i < 150; ++i) EXPECT_EQ(cache.find(make_record(i).cache_key()).status, Status::kHit) << i;
  EXPECT_TRUE(cache.verify(false).sound());
  EXPECT_EQ(cache.stats().rows, 150);
  EXPECT_TRUE(dir.names("damaged").empty());
}

TEST(CacheProcesses, RowsLeasedByALiveProcessAreNotEvicted) {
  const ScratchDirectory dir;
  constexpr int64_t kBound = 1 << 20;
  {
    DiskCache cache(dir.options(kBound));
    for (int i = 0; i < 20; ++i) cache.insert(make_record(i, 6000));
  }
  Worker holder({"hold-leases", dir.path(), "0"});
  ASSERT_TRUE(holder.wait_ready());
  const auto press = [&](int first) {
    // Each in its own turn, as short processes would: what they wrote is free to go when they end.
    for (int process = 0; process < 5; ++process) {
      DiskCache cache(dir.options(kBound));
      for (int i = 0; i < 60; ++i) cache.insert(make_record(first + 60 * process + i, 6000));
    }
  };
  const auto found = [&](int row) {
    return DiskCache(dir.options(kBound)).find(make_record(row, 6000).cache_key()).status == Status::kHit;
  };
  press(1000);
  EXPECT_EQ(DiskCache(dir.options(kBound)).stats().leased_rows, 10);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(found(i)) << i;
  for (int i = 10; i < 20; ++i) EXPECT_FALSE(found(i)) << i;
  holder.kill_now();  // gives nothing back
  for (int n = 0; n < 2; ++n) press(2000 + 1000 * n);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(found(i)) << i;
  EXPECT_EQ(DiskCache(dir.options(kBound)).stats().leased_rows, 0) << "the dead process was reaped";
}

TEST(CacheProcesses, WhatIsQueuedIsWrittenAtExit) {
  const ScratchDirectory dir;
  setenv("SMOLDER_CACHE_DIR", dir.path().c_str(), 1);
  setenv("SMOLDER_CACHE", "on", 1);  // the plan tests of this binary turn it off
  Worker worker({"exit-normally", dir.path(), "0"});
  unsetenv("SMOLDER_CACHE_DIR");
  setenv("SMOLDER_CACHE", "off", 1);
  EXPECT_EQ(worker.wait(), 0);
  DiskCache cache(dir.options());
  EXPECT_EQ(cache.stats().rows, 20);
  EXPECT_EQ(cache.stats().processes, 0) << "its leases were given back";
}

TEST(CacheProcesses, NamesTellARecycledPidAnotherBootAndAnotherContainer) {
  const ProcessName self = this_process();
  EXPECT_EQ(liveness_of(self), Liveness::kAlive);
  ProcessName other = self;
  other.start += 1;
  EXPECT_EQ(liveness_of(other), Liveness::kDead);
  other = self;
  other.host = "another-boot" + self.host.substr(self.host.find('/'));
  EXPECT_EQ(liveness_of(other), Liveness::kDead);
  other = self;
  other.host += "1";
  EXPECT_EQ(liveness_of(other), Liveness::kUnknown);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  other = self;
  other.pid = child;
  other.start = 0;  // only whether there is such a process
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(liveness_of(other), Liveness::kDead) << "a zombie";
  waitpid(child, nullptr, 0);
  EXPECT_EQ(liveness_of(other), Liveness::kDead);
}

// A child of fork must use the cache through connections and a thread of its own. Not under sanitizers:
// ThreadSanitizer lets such a child start no thread, and AddressSanitizer's allocator may be locked in it
// for ever by a thread of the parent.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

int exit_code(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CacheFork, ParentAndChildBothReadAndWriteOn) {
  const ScratchDirectory dir;
  KernelCache cache(dir.options());
  cache.insert(make_record(0), std::make_shared<int>(0), 10);
  ASSERT_TRUE(cache.flush());
  cache.insert(make_record(1), std::make_shared<int>(1), 10);  // still queued: the parent's to write
  const int64_t writes = count_of("cache.writes");
  const pid_t child = fork();
  if (child == 0) {
    const int64_t before = count_of("cache.writes");
    int wrong = 0;
    wrong += !std::holds_alternative<MemoryHit>(cache.lookup(make_record(0).cache_key()));
    wrong += cache.disk().find(make_record(0).cache_key()).status != Status::kHit;
    cache.insert(make_record(2), std::make_shared<int>(2), 10);
    wrong += !cache.flush();
    wrong += cache.disk().find(make_record(2).cache_key()).status != Status::kHit;
    wrong += count_of("cache.writes") - before != 1;
    wrong += !cache.disk().close(5);
    _exit(wrong);
  }
  EXPECT_EQ(exit_code(child), 0);
  EXPECT_EQ(cache.disk().find(make_record(2).cache_key()).status, Status::kHit);
  cache.insert(make_record(3), std::make_shared<int>(3), 10);
  ASSERT_TRUE(cache.flush());
  EXPECT_EQ(count_of("cache.writes") - writes, 2);
  EXPECT_EQ(cache.disk().stats().processes, 1) << "the child gave its leases back, the parent goes on with its own";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(cache.disk().find(make_record(i).cache_key()).status, Status::kHit) << i;
  EXPECT_TRUE(cache.disk().verify(false).sound());
}

TEST(CacheFork, TheChildHoldsLocksOfItsOwn) {
  const ScratchDirectory dir;
  int from_child[2], to_child[2];
  ASSERT_EQ(pipe(from_child), 0);
  ASSERT_EQ(pipe(to_child), 0);
  DiskCache cache(dir.options());
  cache.insert(make_record(0));
  ASSERT_TRUE(cache.flush(120));
  ASSERT_EQ(cache.find(make_record(0).cache_key()).status, Status::kHit);
  char byte = 'x';
  const pid_t child = fork();
  if (child == 0) {
    const bool hit = cache.find(make_record(0).cache_key()).status == Status::kHit;
    const bool told = write(from_child[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 1;
    _exit(hit && told ? 0 : 1);
  }
  ASSERT_EQ(read(from_child[0], &byte, 1), 1);
  ASSERT_TRUE(cache.close(10));
  // SQLite's "dead man's switch": without a lock on this byte, whoever opens the database next takes
  // the log's index for abandoned and cuts it off, under the child's feet.
  constexpr int64_t kSwitch = 128;
  const int index = open((dir.database() + "-shm").c_str(), O_RDWR);
  ASSERT_GE(index, 0);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = kSwitch;
  lock.l_len = 1;
  ASSERT_EQ(fcntl(index, F_GETLK, &lock), 0);
  EXPECT_NE(lock.l_type, F_UNLCK);
  EXPECT_EQ(lock.l_pid, child);
  close(index);
  ASSERT_EQ(write(to_child[1], &byte, 1), 1);
  EXPECT_EQ(exit_code(child), 0);
  for (const int end : {from_child[0], from_child[1], to_child[0], to_child[1]}) close(end);
}

TEST(CacheFork, ForksInTheMiddleOfOtherThreadsWork) {
  const ScratchDirectory dir;
  DiskCache cache(dir.options());
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t n = 0; !stop; ++n) read_and_write(cache, 100, 1000 * t + n, 20);
    });
  std::vector<pid_t> children;
  for (int n = 0; n < 40; ++n) {
    const pid_t child = fork();
    if (child == 0) {
      read_and_write(cache, 100, 77'000 + static_cast<uint64_t>(n), 40);
      const bool fine = cache.available() && cache.flush(120) && !testing::Test::HasFailure();
      _exit(fine ? 0 : 1);
    }
    children.push_back(child);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(cache.available());
  ASSERT_TRUE(cache.flush(120));
  EXPECT_TRUE(cache.verify(false).sound());
  EXPECT_TRUE(dir.names("damaged").empty());
}

TEST(CacheFork, ParentMayExitFirst) {
  const ScratchDirectory dir;
  const pid_t parent = fork();
  if (parent == 0) {
    auto cache = std::make_unique<DiskCache>(dir.options());
    cache->insert(make_record(0));
    cache->flush(120);
    if (fork() == 0) {
      cache->find(make_record(0).cache_key());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      // By now the parent has closed the database that this process opened again after the fork.
      for (int i = 1; i < 50; ++i) cache->insert(make_record(i));
      _exit(cache->flush(120) ? 0 : 1);
    }
    cache.reset();
    _exit(0);
  }
  EXPECT_EQ(exit_code(parent), 0);
  DiskCache cache(dir.options());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (cache.stats().rows < 50 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(cache.stats().rows, 50);
  EXPECT_TRUE(cache.verify(false).sound());
}

#endif

}  // namespace
}  // namespace smolder::jit
