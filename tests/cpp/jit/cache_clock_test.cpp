// Clocks that jump: the wall clock may be set to any time while the cache is used. This program's clock_gettime takes
// the place of the C library's, and adds what a test says.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

#include "jit/cache_test_util.h"
#include "smolder/jit/cache/process.h"
#include "smolder/jit/cache/sqlite.h"

namespace {

std::atomic<int64_t> wall_offset_s{0}, boot_offset_s{0};

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* out) noexcept {
  const long code = syscall(SYS_clock_gettime, clock, out);
  if (clock == CLOCK_REALTIME) out->tv_sec += wall_offset_s;
  if (clock == CLOCK_BOOTTIME) out->tv_sec += boot_offset_s;
  return static_cast<int>(code);
}

namespace smolder::jit {
namespace {

using test::count_of;
using test::make_record;
using test::ScratchDirectory;
using Status = DiskFind::Status;

constexpr int64_t kHour = 3600, kYear = 365 * 24 * kHour, kBound = 1 << 20;

/// Moves the clocks while it lives.
class Jump {
 public:
  explicit Jump(int64_t wall_s, int64_t boot_s = 0) {
    wall_offset_s += wall_s;
    boot_offset_s += boot_s;
  }
  ~Jump() { wall_offset_s = boot_offset_s = 0; }
};

void fill(const ScratchDirectory& dir, int first, int count) {
  DiskCache cache(dir.options(kBound));
  for (int i = 0; i < count; ++i) cache.insert(make_record(first + i, 6000));
  ASSERT_TRUE(cache.flush(60));
}

TEST(CacheClock, TheClockOfThisProgramCanBeSet) {
  const int64_t before = wall_clock_ms(), boot = boot_clock_ms();
  const Jump jump(kYear);
  EXPECT_GT(wall_clock_ms(), before + (kYear - kHour) * 1000);
  EXPECT_LT(boot_clock_ms(), boot + kHour * 1000);
}

TEST(CacheClock, RowsOfATimeToComeAreEvictedAsOthersAre) {
  const ScratchDirectory dir;
  {
    const Jump jump(50 * kYear);
    fill(dir, 0, 100);
  }
  for (int process = 1; process <= 6; ++process) fill(dir, 1000 * process, 40);
  DiskCache cache(dir.options(kBound));
  EXPECT_EQ(cache.find(make_record(6039, 6000).cache_key()).status, Status::kHit) << "the newest";
  EXPECT_EQ(cache.find(make_record(0, 6000).cache_key()).status, Status::kMiss) << "the oldest";
}

TEST(CacheClock, WhatIsUsedAfterTheClockWentBackIsTheLastUsed) {
  const ScratchDirectory dir;
  fill(dir, 0, 40);
  const Jump jump(-20 * kYear);
  for (int process = 1; process <= 6; ++process) {
    {
      DiskCache cache(dir.options(kBound));
      EXPECT_EQ(cache.find(make_record(7, 6000).cache_key()).status, Status::kHit) << process;
      ASSERT_TRUE(cache.flush(60));
    }
    fill(dir, 1000 * process, 40);
  }
  EXPECT_EQ(DiskCache(dir.options(kBound)).find(make_record(8, 6000).cache_key()).status, Status::kMiss) << "not used";
}

/// Adds a process that leases all rows, as if it ran on this machine or in another container of it.
void lease_all(const ScratchDirectory& dir, const std::string& host) {
  Connection connection(dir.database(), Connection::Mode::kWrite);
  Statement(connection, "INSERT INTO process (id, pid, start, host, seen) VALUES (77, 999999999, 1, ?1, ?2)")
      .bind_text(1, host)
      .bind(2, boot_clock_ms())
      .run();
  connection.run("INSERT INTO lease (record, process) SELECT id, 77 FROM usage");
}

TEST(CacheClock, LeasesOfTheDeadEndAlthoughTheClockWentBack) {
  const ScratchDirectory dir;
  DiskCache cache(dir.options());
  cache.insert(make_record(0));
  ASSERT_TRUE(cache.flush(60));  // looks for the dead the first time
  lease_all(dir, this_process().host);
  ASSERT_EQ(cache.stats().leased_rows, 1);
  cache.release(make_record(0).cache_key());
  ASSERT_TRUE(cache.flush(60));
  EXPECT_EQ(cache.stats().leased_rows, 1) << "it looks once a minute";
  const Jump jump(-kYear, 61);
  cache.insert(make_record(1));
  cache.release(make_record(1).cache_key());
  ASSERT_TRUE(cache.flush(60));
  EXPECT_EQ(cache.stats().leased_rows, 0);
}

TEST(CacheClock, LeasesOfAnotherContainerEndAfterADayOfTheMachines) {
  const ScratchDirectory dir;
  fill(dir, 0, 10);
  const std::string host = this_process().host;
  lease_all(dir, host.substr(0, host.find('/')) + "/pid:[1]");
  {
    const Jump jump(2 * kYear);
    fill(dir, 100, 1);
    EXPECT_EQ(DiskCache(dir.options()).stats().leased_rows, 10);
  }
  const Jump jump(0, 25 * kHour);
  fill(dir, 101, 1);
  EXPECT_EQ(DiskCache(dir.options()).stats().leased_rows, 0);
}

}  // namespace
}  // namespace smolder::jit
