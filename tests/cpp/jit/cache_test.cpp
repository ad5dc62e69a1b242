// The kernel cache in one process: both tiers, collisions, bounds, settings.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "jit/cache_test_util.h"
#include "smolder/core/error.h"
#include "smolder/jit/cache/kernel_cache.h"

namespace smolder::jit {
namespace {

using test::count_of;
using test::make_record;
using test::same_content;
using test::ScratchDirectory;
using Status = DiskFind::Status;

std::shared_ptr<void> object(int n) { return std::make_shared<int>(n); }
int value_of(const std::shared_ptr<void>& p) { return *std::static_pointer_cast<int>(p); }

TEST(MemoryCache, FindsWhatWasInsertedAndNothingElse) {
  MemoryCache cache(1 << 20);
  const CacheRecord a = make_record(1), b = make_record(2);
  EXPECT_FALSE(cache.find(a.cache_key()).object);
  cache.insert(a.cache_key(), object(1), 100);
  EXPECT_EQ(value_of(cache.find(a.cache_key()).object), 1);
  EXPECT_FALSE(cache.find(b.cache_key()).object);
  CacheKey other_kind = a.cache_key(), other_target = a.cache_key();
  other_kind.kind = "tuning";
  other_target.target = "another machine";
  EXPECT_FALSE(cache.find(other_kind).object);
  EXPECT_FALSE(cache.find(other_target).object);
  EXPECT_FALSE(cache.find(other_target).collision);
  cache.erase(a.cache_key());
  EXPECT_FALSE(cache.find(a.cache_key()).object);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(MemoryCache, EqualKeysOfDifferentStructureLiveSideBySide) {
  MemoryCache cache(1 << 20);
  CacheRecord a = make_record(1), b = make_record(2);
  b.key = a.key;
  cache.insert(a.cache_key(), object(1), 100);
  const auto missed = cache.find(b.cache_key());
  EXPECT_FALSE(missed.object);
  EXPECT_TRUE(missed.collision);
  cache.insert(b.cache_key(), object(2), 100);
  EXPECT_EQ(value_of(cache.find(a.cache_key()).object), 1);
  EXPECT_EQ(value_of(cache.find(b.cache_key()).object), 2);
  cache.erase(a.cache_key());
  EXPECT_FALSE(cache.find(a.cache_key()).object);
  EXPECT_EQ(value_of(cache.find(b.cache_key()).object), 2);
}

TEST(MemoryCache, EvictsTheLeastRecentlyUsedButNothingHeld) {
  MemoryCache cache(20'000);
  std::vector<CacheRecord> records;
  for (int i = 0; i < 40; ++i) records.push_back(make_record(i));
  const std::shared_ptr<void> held = cache.insert(records[0].cache_key(), object(0), 4000).object;
  cache.insert(records[1].cache_key(), object(1), 4000);
  cache.insert(records[2].cache_key(), object(2), 4000);
  cache.find(records[1].cache_key());
  std::vector<std::string> evicted;
  const auto add = [&](int i) {
    for (const auto& gone : cache.insert(records[i].cache_key(), object(i), 4000).evicted)
      evicted.push_back(gone.structure);
  };
  add(3);
  add(4);
  ASSERT_EQ(evicted, std::vector{records[2].structure});
  for (int i = 5; i < 40; ++i) add(i);
  EXPECT_LE(cache.bytes(), 20'000u);
  EXPECT_TRUE(cache.find(records[0].cache_key()).object);
  EXPECT_FALSE(cache.find(records[1].cache_key()).object);
  EXPECT_TRUE(cache.find(records[39].cache_key()).object);
}

TEST(MemoryCache, TheFirstOfTwoInsertsWins) {
  MemoryCache cache(1 << 20);
  const CacheRecord a = make_record(1);
  cache.insert(a.cache_key(), object(1), 100);
  EXPECT_EQ(value_of(cache.insert(a.cache_key(), object(2), 100).object), 1);
  EXPECT_EQ(cache.size(), 1u);
}

TEST(DiskCache, KeepsEveryField) {
  const ScratchDirectory dir;
  CacheKey bare;
  bare.kind = "tuning";
  {
    DiskCache cache(dir.options());
    for (int i = 0; i < 50; ++i) cache.insert(make_record(i));
    CacheRecord empty;
    empty.kind = "tuning";
    cache.insert(empty);
    ASSERT_TRUE(cache.flush(120));
  }
  DiskCache cache(dir.options());
  for (int i = 0; i < 50; ++i) {
    const DiskFind found = cache.find(make_record(i).cache_key());
    ASSERT_EQ(found.status, Status::kHit) << i;
    EXPECT_TRUE(same_content(found.record, make_record(i))) << i;
  }
  const DiskFind found = cache.find(bare);
  EXPECT_EQ(found.status, Status::kHit);
  EXPECT_GT(found.record.created, 1'700'000'000'000);
  EXPECT_EQ(cache.find(make_record(50).cache_key()).status, Status::kMiss);
  // Sources, hits and last use are what the tools read.
  for (const CacheRow& row : cache.list("plan", Detail::kFull)) {
    EXPECT_FALSE(row.broken);
    EXPECT_EQ(row.record.hits, 1);
    EXPECT_GT(row.record.last_use, row.record.created);
    EXPECT_EQ(row.leases, 1);
    const int n = std::stoi(row.record.where.substr(row.record.where.find(':') + 1));
    EXPECT_EQ(row.record.source, make_record(n).source);
    EXPECT_TRUE(same_content(row.record, make_record(n)));
  }
  EXPECT_EQ(cache.list("plan").size(), 10u);
  EXPECT_EQ(cache.list().size(), 51u);
}

TEST(DiskCache, AnInsertReplacesTheRowOfItsKey) {
  const ScratchDirectory dir;
  DiskCache cache(dir.options());
  CacheRecord r = make_record(3);
  cache.insert(r);
  r.payload = "tuned again";
  r.source.clear();
  cache.insert(r);
  ASSERT_TRUE(cache.flush(120));
  EXPECT_EQ(cache.find(r.cache_key()).record.payload, "tuned again");
  const auto rows = cache.list({}, Detail::kFull);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].record.source, "");
}

TEST(DiskCache, EqualKeysOfDifferentStructureBothLive) {
  const ScratchDirectory dir;
  CacheRecord a = make_record(1), b = make_record(2), c = make_record(3);
  b.key = c.key = a.key;
  DiskCache cache(dir.options());
  cache.insert(a);
  ASSERT_TRUE(cache.flush(120));
  EXPECT_EQ(cache.find(b.cache_key()).status, Status::kCollision);
  cache.insert(b);
  ASSERT_TRUE(cache.flush(120));
  EXPECT_TRUE(same_content(cache.find(a.cache_key()).record, a));
  EXPECT_TRUE(same_content(cache.find(b.cache_key()).record, b));
  EXPECT_EQ(cache.find(c.cache_key()).status, Status::kCollision);
}

TEST(DiskCache, EvenAStructureOfEqualHashIsComparedInFull) {
  const ScratchDirectory dir;
  const CacheRecord a = make_record(1);
  CacheRecord b = make_record(2);
  b.key = a.key;
  DiskCache cache(dir.options());
  cache.insert(a);
  ASSERT_TRUE(cache.flush(120));
  {
    // The row now claims the hash of b's structure while its bytes are a's, as in a true collision.
    Connection connection(dir.database(), Connection::Mode::kWrite);
    Statement forge(connection, "UPDATE record SET structure_hash = ?1");
    forge.bind(1, row_key_of(b.cache_key()).structure).run();
  }
  EXPECT_EQ(cache.find(b.cache_key()).status, Status::kCollision);
  EXPECT_EQ(cache.find(a.cache_key()).status, Status::kHit);
}

TEST(KernelCache, LooksInMemoryThenOnDisk) {
  const ScratchDirectory dir;
  const CacheRecord a = make_record(1);
  const int64_t memory_hits = count_of("cache.memory_hits"), disk_hits = count_of("cache.disk_hits"),
                misses = count_of("cache.misses"), writes = count_of("cache.writes");
  {
    KernelCache cache(dir.options());
    ASSERT_TRUE(std::holds_alternative<CacheMiss>(cache.lookup(a.cache_key())));
    EXPECT_EQ(value_of(cache.insert(a, object(7), 3000)), 7);
    ASSERT_TRUE(std::holds_alternative<MemoryHit>(cache.lookup(a.cache_key())));
    ASSERT_TRUE(cache.flush());
  }
  KernelCache cache(dir.options());
  const CacheLookup found = cache.lookup(a.cache_key());
  ASSERT_TRUE(std::holds_alternative<DiskHit>(found));
  EXPECT_TRUE(same_content(std::get<DiskHit>(found).record, a));
  EXPECT_EQ(value_of(cache.loaded(a.cache_key(), object(8), 3000)), 8);
  EXPECT_EQ(value_of(std::get<MemoryHit>(cache.lookup(a.cache_key())).object), 8);
  EXPECT_EQ(count_of("cache.memory_hits") - memory_hits, 2);
  EXPECT_EQ(count_of("cache.disk_hits") - disk_hits, 1);
  EXPECT_EQ(count_of("cache.misses") - misses, 1);
  EXPECT_EQ(count_of("cache.writes") - writes, 1);
}

TEST(KernelCache, AForcedCollisionIsCaughtCountedAndMissed) {
  const ScratchDirectory dir;
  CacheRecord a = make_record(1), b = make_record(2);
  b.key = a.key;
  KernelCache cache(dir.options());
  cache.insert(a, object(1), 10);
  ASSERT_TRUE(cache.flush());
  const int64_t collisions = count_of("cache.collisions");
  const CacheLookup found = cache.lookup(b.cache_key());
  ASSERT_TRUE(std::holds_alternative<CacheMiss>(found));
  EXPECT_TRUE(std::get<CacheMiss>(found).collision);
  EXPECT_EQ(count_of("cache.collisions") - collisions, 1);
  cache.insert(b, object(2), 10);
  EXPECT_EQ(value_of(std::get<MemoryHit>(cache.lookup(a.cache_key())).object), 1);
  EXPECT_EQ(value_of(std::get<MemoryHit>(cache.lookup(b.cache_key())).object), 2);
}

TEST(KernelCache, WhileColdItForgetsWhatItFinds) {
  const ScratchDirectory dir;
  KernelCache cache(dir.options());
  const CacheRecord a = make_record(1), b = make_record(2);
  cache.insert(a, object(1), 10);
  cache.insert(b, object(2), 10);
  ASSERT_TRUE(cache.flush());
  cache.set_cold(true);
  EXPECT_TRUE(std::holds_alternative<CacheMiss>(cache.lookup(a.cache_key())));
  EXPECT_EQ(value_of(cache.insert(a, object(3), 10)), 3);  // not the one of before
  cache.set_cold(false);
  EXPECT_EQ(value_of(std::get<MemoryHit>(cache.lookup(a.cache_key())).object), 3);
  EXPECT_EQ(value_of(std::get<MemoryHit>(cache.lookup(b.cache_key())).object), 2);
}

TEST(KernelCache, ARejectedPayloadIsDropped) {
  const ScratchDirectory dir;
  KernelCache cache(dir.options());
  const CacheRecord a = make_record(1), b = make_record(2);
  cache.insert(a, object(1), 10);
  cache.insert(b, object(2), 10);
  cache.reject(a.cache_key());
  ASSERT_TRUE(cache.flush());
  EXPECT_TRUE(std::holds_alternative<CacheMiss>(cache.lookup(a.cache_key())));
  EXPECT_EQ(cache.disk().list().size(), 1u);
}

TEST(KernelCache, WhatMemoryEvictsIsLeasedNoLonger) {
  const ScratchDirectory dir;
  KernelCache cache(dir.options(), /*memory_bytes=*/20'000);
  for (int i = 0; i < 10; ++i) cache.insert(make_record(i), object(i), 5000);
  ASSERT_TRUE(cache.flush());
  EXPECT_LT(cache.disk().stats().leased_rows, 5);
  EXPECT_EQ(cache.disk().stats().leased_rows, static_cast<int64_t>(cache.memory().size()));
  EXPECT_EQ(cache.clear(), 10);
  EXPECT_EQ(cache.memory().size(), 0u);
}

TEST(KernelCache, ServesManyThreadsAtOnce) {
  const ScratchDirectory dir;
  KernelCache cache(dir.options(), /*memory_bytes=*/200'000);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 400; ++round) {
        const int n = (round * (t + 3)) % 97;
        const CacheRecord r = make_record(n, 500);
        const CacheLookup found = cache.lookup(r.cache_key());
        if (const auto* hit = std::get_if<MemoryHit>(&found)) {
          wrong += value_of(hit->object) != n;
        } else if (const auto* disk = std::get_if<DiskHit>(&found)) {
          wrong += !same_content(disk->record, r);
          cache.loaded(r.cache_key(), object(n), 4000);
        } else {
          cache.insert(r, object(n), 4000);
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  ASSERT_TRUE(cache.flush());
  EXPECT_EQ(cache.disk().list().size(), 97u);
  EXPECT_TRUE(cache.disk().verify(false).sound());
}

TEST(DiskCache, StaysBelowItsBoundByDroppingWhatWasUsedLongestAgo) {
  const ScratchDirectory dir;
  constexpr int64_t kBound = 1 << 20;
  const int64_t evictions = count_of("cache.evictions");
  for (int process = 0; process < 10; ++process) {
    DiskCache cache(dir.options(kBound));  // its leases end with it, as a process's do
    EXPECT_EQ(cache.find(make_record(0).cache_key()).status, process == 0 ? Status::kMiss : Status::kHit);
    if (process == 0) cache.insert(make_record(0));
    for (int i = 1; i <= 40; ++i) cache.insert(make_record(100 * process + i, 6000));
    ASSERT_TRUE(cache.flush(120));
    EXPECT_LE(cache.stats().live_bytes, kBound);
    EXPECT_LE(cache.stats().file_bytes, kBound);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // last use is kept in milliseconds
  }
  EXPECT_GT(count_of("cache.evictions"), evictions);
  DiskCache cache(dir.options(kBound));
  EXPECT_EQ(cache.find(make_record(0).cache_key()).status, Status::kHit) << "used by every process";
  EXPECT_EQ(cache.find(make_record(940, 6000).cache_key()).status, Status::kHit) << "the newest";
  EXPECT_EQ(cache.find(make_record(1, 6000).cache_key()).status, Status::kMiss) << "the oldest";
  EXPECT_TRUE(cache.verify(false).sound());
}

TEST(DiskCache, DropsAWriteWhenAllThereIsIsInUse) {
  const ScratchDirectory dir;
  const int64_t dropped = count_of("cache.dropped_writes");
  DiskCache cache(dir.options(1 << 20));
  for (int i = 0; i < 400; ++i) cache.insert(make_record(i, 6000));
  ASSERT_TRUE(cache.flush(120));
  EXPECT_GT(count_of("cache.dropped_writes"), dropped);
  EXPECT_LE(cache.stats().live_bytes, 1 << 20);
  EXPECT_EQ(cache.find(make_record(0, 6000).cache_key()).status, Status::kHit);
  EXPECT_EQ(cache.find(make_record(399, 6000).cache_key()).status, Status::kMiss);
}

TEST(DiskCache, ARowTooLargeDrivesNothingOut) {
  const ScratchDirectory dir;
  {
    DiskCache earlier(dir.options(1 << 20));
    for (int i = 0; i < 50; ++i) earlier.insert(make_record(i));
  }
  DiskCache cache(dir.options(1 << 20));
  const int64_t dropped = count_of("cache.dropped_writes");
  cache.insert(make_record(1000, 2 << 20));
  ASSERT_TRUE(cache.flush(120));
  EXPECT_EQ(count_of("cache.dropped_writes") - dropped, 1);
  EXPECT_EQ(cache.stats().rows, 50);
}

TEST(DiskCache, AFullQueueDropsInsteadOfWaiting) {
  const ScratchDirectory dir;
  DiskOptions options = dir.options();
  options.queue_bytes = 50'000;
  DiskCache cache(options);
  const int64_t dropped = count_of("cache.dropped_writes"), writes = count_of("cache.writes");
  for (int i = 0; i < 200; ++i) cache.insert(make_record(i, 10'000));
  ASSERT_TRUE(cache.flush(120));
  const int64_t lost = count_of("cache.dropped_writes") - dropped;
  EXPECT_GT(lost, 0);
  EXPECT_EQ(count_of("cache.writes") - writes, 200 - lost);
  EXPECT_EQ(cache.stats().rows, 200 - lost);
}

TEST(DiskCache, FlushReachesEverythingQueuedAndCloseEndsIt) {
  const ScratchDirectory dir;
  DiskCache cache(dir.options());
  for (int round = 0; round < 20; ++round) {
    cache.insert(make_record(round));
    ASSERT_TRUE(cache.flush(120));
    ASSERT_EQ(cache.find(make_record(round).cache_key()).status, Status::kHit);
  }
  cache.insert(make_record(100));
  EXPECT_TRUE(cache.close(10));
  EXPECT_FALSE(cache.available());
  cache.insert(make_record(101));
  EXPECT_TRUE(cache.flush(1));
  EXPECT_EQ(cache.find(make_record(100).cache_key()).status, Status::kMiss);
  EXPECT_THROW(cache.list(), RuntimeError);
  DiskCache again(dir.options());
  EXPECT_EQ(again.stats().rows, 21);
  EXPECT_EQ(again.stats().leased_rows, 0);
}

TEST(DiskCache, OffTouchesNoFile) {
  const ScratchDirectory dir;
  DiskOptions options = dir.options();
  options.enabled = false;
  DiskCache cache(options);
  cache.insert(make_record(1));
  EXPECT_TRUE(cache.flush(1));
  EXPECT_EQ(cache.find(make_record(1).cache_key()).status, Status::kMiss);
  EXPECT_TRUE(dir.names("").empty());
}

class Environment {
 public:
  void set(const char* name, const char* value) {
    const char* old = getenv(name);
    saved_.emplace_back(name, old ? std::optional<std::string>(old) : std::nullopt);
    put(name, value);
  }
  ~Environment() {
    for (auto it = saved_.rbegin(); it != saved_.rend(); ++it)
      put(it->first.c_str(), it->second ? it->second->c_str() : nullptr);
  }

 private:
  static void put(const char* name, const char* value) {
    if (value)
      setenv(name, value, 1);
    else
      unsetenv(name);
  }
  std::vector<std::pair<std::string, std::optional<std::string>>> saved_;
};

TEST(DiskOptions, FollowTheEnvironment) {
  Environment env;
  for (const char* name : {"SMOLDER_CACHE", "SMOLDER_CACHE_DIR", "SMOLDER_CACHE_BYTES", "XDG_CACHE_HOME"})
    env.set(name, nullptr);
  env.set("HOME", "/home/somebody");
  EXPECT_EQ(DiskOptions::from_environment().directory, "/home/somebody/.cache/smolder");
  EXPECT_EQ(DiskOptions::from_environment().max_bytes, int64_t{2} << 30);
  EXPECT_TRUE(DiskOptions::from_environment().enabled);
  env.set("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(DiskOptions::from_environment().directory, "/home/somebody/.cache/smolder");
  env.set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(DiskOptions::from_environment().directory, "/xdg/smolder");
  env.set("SMOLDER_CACHE_DIR", "/chosen");
  EXPECT_EQ(DiskOptions::from_environment().directory, "/chosen");
  env.set("SMOLDER_CACHE_BYTES", "1000");
  EXPECT_EQ(DiskOptions::from_environment().max_bytes, 1000);
  env.set("SMOLDER_CACHE_BYTES", "1.5G");
  EXPECT_EQ(DiskOptions::from_environment().max_bytes, int64_t{3} << 29);
  for (const char* wrong : {"many", "-1", "10 X", "1e30", "nan"}) {
    env.set("SMOLDER_CACHE_BYTES", wrong);
    EXPECT_THROW(DiskOptions::from_environment(), ValueError) << wrong;
  }
  env.set("SMOLDER_CACHE_BYTES", nullptr);
  env.set("SMOLDER_CACHE", "off");
  EXPECT_FALSE(DiskOptions::from_environment().enabled);
  env.set("SMOLDER_CACHE", "perhaps");
  EXPECT_THROW(DiskOptions::from_environment(), ValueError);
}

}  // namespace
}  // namespace smolder::jit
