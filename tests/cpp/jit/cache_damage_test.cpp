// The kernel cache with a damaged database, a broken row, and a place that cannot hold one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <random>

#include "jit/cache_test_util.h"
#include "smolder/jit/cache/database_file.h"
#include "smolder/jit/cache/kernel_cache.h"

namespace smolder::jit {
namespace {

using test::count_of;
using test::make_record;
using test::occurrences;
using test::read_file;
using test::same_content;
using test::ScratchDirectory;
using test::write_file;
using Status = DiskFind::Status;
constexpr int kRows = 40;

/// A database of kRows records, checkpointed: everything is in the one file.
void make_database(const ScratchDirectory& dir) {
  DiskCache cache(dir.options());
  for (int i = 0; i < kRows; ++i) cache.insert(make_record(i));
  ASSERT_TRUE(cache.flush(120));
  cache.prune(int64_t{1} << 30);
}

/// Every lookup is exact or a miss, and inserting again makes everything whole.
void expect_heals(const ScratchDirectory& dir) try {
  DiskCache cache(dir.options());
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < kRows; ++i) {
      const CacheRecord r = make_record(i);
      const DiskFind found = cache.find(r.cache_key());
      if (found.status == Status::kHit)
        ASSERT_TRUE(same_content(found.record, r)) << i;
      else
        cache.insert(r);
    }
    ASSERT_TRUE(cache.flush(120));
    cache.verify(/*repair=*/true);
  }
  for (int i = 0; i < kRows; ++i) ASSERT_EQ(cache.find(make_record(i).cache_key()).status, Status::kHit) << i;
  EXPECT_TRUE(cache.verify(false).sound());
} catch (const std::exception& e) {
  FAIL() << e.what();
}

struct Damage {
  const char* name;
  std::function<void(const std::string& path)> apply;
};

std::string noise(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string s(bytes, '\0');
  for (char& c : s) c = static_cast<char>(random());
  return s;
}

const Damage kDamages[] = {
    {"RandomBytes", [](const std::string& path) { write_file(path, noise(100'000, 1)); }},
    {"OneByte", [](const std::string& path) { write_file(path, "x"); }},
    {"ZeroLength", [](const std::string& path) { write_file(path, ""); }},
    {"TruncatedInThePageOfTheSchema", [](const std::string& path) { std::filesystem::resize_file(path, 1000); }},
    {"WrongVersion",
     [](const std::string& path) { Connection(path, Connection::Mode::kWrite).run("PRAGMA user_version = 77"); }},
    {"AnotherProgramsDatabase",
     [](const std::string& path) {
       std::filesystem::remove(path);
       Connection(path, Connection::Mode::kCreate).run("CREATE TABLE record (name TEXT); PRAGMA user_version = 1");
     }},
    {"MissingTable",
     [](const std::string& path) { Connection(path, Connection::Mode::kWrite).run("DROP TABLE record"); }},
    {"MissingColumn",
     [](const std::string& path) {
       Connection(path, Connection::Mode::kWrite).run("ALTER TABLE record RENAME COLUMN payload TO load");
     }},
};

class DamagedDatabase : public testing::TestWithParam<Damage> {};

TEST_P(DamagedDatabase, IsSetAsideWithOneWarningAndRebuilt) {
  const ScratchDirectory dir;
  make_database(dir);
  GetParam().apply(dir.database());
  const std::string damaged = read_file(dir.database());
  const int64_t before = count_of("cache.databases_set_aside");
  testing::internal::CaptureStderr();
  {
    DiskCache cache(dir.options());
    for (int i = 0; i < kRows; ++i) EXPECT_EQ(cache.find(make_record(i).cache_key()).status, Status::kMiss);
    for (int i = 0; i < kRows; ++i) cache.insert(make_record(i));
    EXPECT_TRUE(cache.flush(120));
    for (int i = 0; i < kRows; ++i) EXPECT_EQ(cache.find(make_record(i).cache_key()).status, Status::kHit);
    EXPECT_TRUE(cache.verify(false).sound());
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(said, "warning"), 1) << said;
  EXPECT_EQ(occurrences(said, "is damaged"), 1) << said;
  EXPECT_EQ(count_of("cache.databases_set_aside") - before, 1);
  const auto aside = dir.names(".damaged-");
  ASSERT_FALSE(aside.empty());
  EXPECT_EQ(read_file(dir.path() + "/" + aside[0]), damaged);
}

INSTANTIATE_TEST_SUITE_P(Cache, DamagedDatabase, testing::ValuesIn(kDamages),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CacheDamage, ATableMissingForTheWriterIsNoticedToo) {
  const ScratchDirectory dir;
  make_database(dir);
  Connection(dir.database(), Connection::Mode::kWrite).run("DROP TABLE usage");
  testing::internal::CaptureStderr();
  expect_heals(dir);
  EXPECT_EQ(occurrences(testing::internal::GetCapturedStderr(), "is damaged"), 1);
}

TEST(CacheDamage, ATruncatedDatabaseHeals) {
  for (const double part : {0.05, 0.3, 0.5, 0.9, 0.99}) {
    const ScratchDirectory dir;
    make_database(dir);
    std::filesystem::resize_file(dir.database(),
                                 static_cast<uintmax_t>(part * static_cast<double>(read_file(dir.database()).size())));
    testing::internal::CaptureStderr();
    expect_heals(dir);
    EXPECT_LE(occurrences(testing::internal::GetCapturedStderr(), "is damaged"), 1);
  }
}

TEST(CacheDamage, ScribbledPagesNeverGiveAWrongPayload) {
  const ScratchDirectory dir;
  make_database(dir);
  const std::string whole = read_file(dir.database());
  for (uint64_t seed = 0; seed < 150 / test::kSlowdown && !testing::Test::HasFatalFailure(); ++seed) {
    std::mt19937_64 random(seed);
    std::string bytes = whole;
    for (uint64_t n = 1 + random() % 20; n > 0; --n) {
      const size_t length = 1 + random() % (seed % 3 == 0 ? 4096 : 8);
      bytes.replace(random() % (bytes.size() - length), length, noise(length, random()));
    }
    for (const std::string& name : dir.names("")) std::filesystem::remove(dir.path() + "/" + name);
    write_file(dir.database(), bytes);
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::internal::CaptureStderr();
    expect_heals(dir);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_LE(occurrences(said, "is damaged"), 1) << said;
  }
}

TEST(CacheDamage, AScribbledLogIsIgnoredFromThereOn) {
  const ScratchDirectory dir;
  for (uint64_t seed = 0; seed < 20 && !testing::Test::HasFatalFailure(); ++seed) {
    for (const std::string& name : dir.names("")) std::filesystem::remove(dir.path() + "/" + name);
    {
      DiskCache cache(dir.options());
      for (int i = 0; i < kRows; ++i) cache.insert(make_record(i));
    }
    std::string log = read_file(dir.database() + "-wal");
    ASSERT_GT(log.size(), 100'000u);
    log.replace(noise(1, seed).size() + seed * log.size() / 20, 40, noise(40, seed));
    write_file(dir.database() + "-wal", log);
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_heals(dir);
  }
}

TEST(CacheDamage, ABrokenRowIsDroppedCountedAndRebuilt) {
  const ScratchDirectory dir;
  make_database(dir);
  {
    Connection connection(dir.database(), Connection::Mode::kWrite);
    connection.run("UPDATE record SET payload = zeroblob(length(payload)) WHERE place = 'train.py:7'");
  }
  KernelCache cache(dir.options());
  const CacheRecord r = make_record(7);
  const int64_t corrupt = count_of("cache.corrupt_rows"), misses = count_of("cache.misses");
  const CacheLookup found = cache.lookup(r.cache_key());
  ASSERT_TRUE(std::holds_alternative<CacheMiss>(found));
  EXPECT_TRUE(std::get<CacheMiss>(found).broken);
  EXPECT_EQ(count_of("cache.corrupt_rows") - corrupt, 1);
  EXPECT_EQ(count_of("cache.misses") - misses, 1);
  ASSERT_TRUE(cache.flush());
  EXPECT_EQ(cache.disk().stats().rows, kRows - 1);
  cache.insert(r, std::make_shared<int>(7), 10);
  ASSERT_TRUE(cache.flush());
  EXPECT_TRUE(same_content(cache.disk().find(r.cache_key()).record, r));
  EXPECT_TRUE(cache.disk().verify(false).sound());
  EXPECT_TRUE(dir.names("damaged").empty()) << "one row, not the database";
}

TEST(CacheDamage, ARowRebuiltByAnotherProcessIsNotDropped) {
  const ScratchDirectory dir;
  make_database(dir);
  Store store = DatabaseFile(dir.path(), 100, nullptr).open().store;
  const auto find = [&] { return store.find(make_record(7).cache_key()); };
  const int64_t id = find().id;
  store.connection().run("UPDATE record SET build_ms = -1 WHERE place = 'train.py:7'");
  ASSERT_EQ(find().broken, std::vector{id});
  Transaction transaction(store.connection());
  store.put(make_record(7));
  EXPECT_FALSE(store.drop_if_broken(id));
  EXPECT_EQ(find().found, Store::Found::kHit);
  store.connection().run("UPDATE record SET build_ms = -1 WHERE place = 'train.py:7'");
  EXPECT_TRUE(store.drop_if_broken(id));
  EXPECT_FALSE(store.drop_if_broken(id));
  transaction.commit();
}

TEST(CacheDamage, OpenCachesFollowWhenTheDatabaseIsReplaced) {
  const ScratchDirectory dir;
  make_database(dir);
  DiskCache first(dir.options()), second(dir.options());
  ASSERT_EQ(first.find(make_record(1).cache_key()).status, Status::kHit);
  ASSERT_EQ(second.find(make_record(1).cache_key()).status, Status::kHit);
  // The first finds damage and sets aside what the second has open.
  testing::internal::CaptureStderr();
  Connection(dir.database(), Connection::Mode::kWrite).run("DROP INDEX usage_by_time; DROP TABLE usage");
  first.insert(make_record(100));
  ASSERT_TRUE(first.flush(120));
  EXPECT_EQ(first.find(make_record(100).cache_key()).status, Status::kHit) << "written to the new one";
  second.insert(make_record(101));
  ASSERT_TRUE(second.flush(120));
  EXPECT_EQ(second.find(make_record(100).cache_key()).status, Status::kHit);
  EXPECT_EQ(first.find(make_record(101).cache_key()).status, Status::kHit);
  EXPECT_EQ(occurrences(testing::internal::GetCapturedStderr(), "is damaged"), 1);
  EXPECT_TRUE(first.verify(false).sound());
  // And a user removes the directory under both.
  std::filesystem::remove_all(dir.path());
  first.insert(make_record(102));
  ASSERT_TRUE(first.flush(120));
  second.insert(make_record(103));
  ASSERT_TRUE(second.flush(120));
  EXPECT_EQ(first.find(make_record(103).cache_key()).status, Status::kHit);
  EXPECT_EQ(second.find(make_record(102).cache_key()).status, Status::kHit);
}

TEST(CacheDamage, ADatabaseDamagedAgainAndAgainTurnsTheTierOff) {
  const ScratchDirectory dir;
  testing::internal::CaptureStderr();
  DiskCache cache(dir.options());
  for (int n = 0; n < 6; ++n) {
    if (cache.available()) Connection(dir.database(), Connection::Mode::kCreate).run("DROP TABLE IF EXISTS usage");
    cache.insert(make_record(n));
    ASSERT_TRUE(cache.flush(120));
  }
  EXPECT_FALSE(cache.available());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(said, "kept in memory only"), 1) << said;
  EXPECT_LE(dir.names(".damaged-").size(), 6u) << "three files with their logs";
}

/// Expects that `directory` gives one warning and a cache that works in memory.
void expect_memory_only(const DiskOptions& options) {
  testing::internal::CaptureStderr();
  KernelCache cache(options);
  for (int i = 0; i < 3; ++i) {
    const CacheRecord r = make_record(i);
    EXPECT_TRUE(std::holds_alternative<CacheMiss>(cache.lookup(r.cache_key())));
    cache.insert(r, std::make_shared<int>(i), 10);
    EXPECT_TRUE(std::holds_alternative<MemoryHit>(cache.lookup(r.cache_key())));
  }
  EXPECT_TRUE(cache.flush());
  EXPECT_FALSE(cache.disk().available());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(said, "warning"), 1) << said;
  EXPECT_EQ(occurrences(said, "kept in memory only"), 1) << said;
}

/// Root may write anywhere: become nobody for a while.
class Unprivileged {
 public:
  Unprivileged() {
    if (geteuid() == 0 && seteuid(65534) == 0) was_root_ = true;
  }
  ~Unprivileged() {
    if (was_root_ && seteuid(0) != 0) ADD_FAILURE() << "cannot become root again";
  }

 private:
  bool was_root_ = false;
};

TEST(CachePlace, AReadOnlyDirectoryMeansMemoryOnly) {
  const ScratchDirectory dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0555), 0);
  const Unprivileged user;
  expect_memory_only(dir.options());
}

TEST(CachePlace, AReadOnlyDatabaseMeansMemoryOnly) {
  const ScratchDirectory dir;
  make_database(dir);
  for (const std::string& name : dir.names("")) ASSERT_EQ(chmod((dir.path() + "/" + name).c_str(), 0444), 0);
  ASSERT_EQ(chmod(dir.path().c_str(), 0555), 0);
  const Unprivileged user;
  expect_memory_only(dir.options());
}

TEST(CachePlace, AFileWhereTheDirectoryShouldBeMeansMemoryOnly) {
  const ScratchDirectory dir;
  write_file(dir.path() + "/file", "x");
  DiskOptions options = dir.options();
  options.directory += "/file/below";
  expect_memory_only(options);
}

TEST(CachePlace, ALockNobodyGivesBackMeansMemoryOnly) {
  const ScratchDirectory dir;
  const int file = open((dir.path() + "/lock").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(flock(file, LOCK_EX), 0);
  DiskOptions options = dir.options();
  options.busy_ms = 50;
  expect_memory_only(options);
  close(file);
}

/// Files whose contents run as code: the database, its log, the index of that, and what they lie in.
std::vector<std::string> what_is_run(const ScratchDirectory& dir) {
  return {dir.path(), dir.database(), dir.database() + "-wal", dir.database() + "-shm"};
}

TEST(CachePlace, WhatOthersCanWriteIsNotRun) {
  for (const mode_t others : {0020, 0002}) {
    for (size_t i = 0; i < 4; ++i) {
      const ScratchDirectory dir;
      make_database(dir);
      const std::string name = what_is_run(dir)[i];
      struct stat info{};
      if (stat(name.c_str(), &info) != 0) test::write_file(name, "");  // as it is laid there for us to read
      ASSERT_EQ(stat(name.c_str(), &info), 0);
      ASSERT_EQ(chmod(name.c_str(), (info.st_mode & 0777) | others), 0);
      SCOPED_TRACE(name);
      expect_memory_only(dir.options());
    }
  }
}

TEST(CachePlace, WhatIsAnotherUsersIsNotRun) {
  if (geteuid() != 0) GTEST_SKIP() << "needs to be root, to give files away";
  for (size_t i = 0; i < 4; ++i) {
    const ScratchDirectory dir;
    make_database(dir);
    const std::string name = what_is_run(dir)[i];
    if (access(name.c_str(), F_OK) != 0) test::write_file(name, "");
    ASSERT_EQ(chown(name.c_str(), 65534, 65534), 0);
    SCOPED_TRACE(name);
    expect_memory_only(dir.options());
  }
}

TEST(CachePlace, ALinkInThePlaceOfAFileIsNotFollowed) {
  for (size_t i = 1; i < 4; ++i) {
    const ScratchDirectory dir, elsewhere;
    make_database(dir);
    const std::string name = what_is_run(dir)[i];
    test::write_file(elsewhere.path() + "/file", "");
    unlink(name.c_str());
    ASSERT_EQ(symlink((elsewhere.path() + "/file").c_str(), name.c_str()), 0);
    SCOPED_TRACE(name);
    expect_memory_only(dir.options());
  }
}

TEST(CachePlace, AKeyThatOthersCanReadIsNotUsed) {
  for (const mode_t mode : {0640, 0604}) {
    const ScratchDirectory dir;
    make_database(dir);
    ASSERT_EQ(chmod((dir.path() + "/key").c_str(), mode), 0);
    expect_memory_only(dir.options());
  }
}

TEST(CachePlace, ARowSignedByAnotherKeyIsNoHit) {
  const ScratchDirectory dir, other;
  make_database(dir);
  make_database(other);
  struct stat info{};
  ASSERT_EQ(stat((dir.path() + "/key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // Another's rows in our database, as whoever may write it could put them there: signed, but not by our key.
  {
    Store forged(Connection(dir.database(), Connection::Mode::kWrite), {1, 2});
    Transaction transaction(forged.connection());
    forged.put(make_record(1000));
    transaction.commit();
  }
  DiskCache cache(dir.options());
  EXPECT_EQ(cache.find(make_record(1000).cache_key()).status, Status::kBroken);
  ASSERT_TRUE(cache.flush(120));
  EXPECT_EQ(cache.find(make_record(1000).cache_key()).status, Status::kMiss);
}

TEST(CachePlace, WithoutItsKeyADatabaseIsBuiltAnew) {
  for (const bool cut : {false, true}) {
    const ScratchDirectory dir;
    make_database(dir);
    if (cut) {
      ASSERT_EQ(truncate((dir.path() + "/key").c_str(), 7), 0);
    } else {
      ASSERT_EQ(unlink((dir.path() + "/key").c_str()), 0);
    }
    DiskCache cache(dir.options());
    EXPECT_EQ(cache.stats().rows, 0);
    cache.insert(make_record(1));
    ASSERT_TRUE(cache.flush(120));
    EXPECT_EQ(DiskCache(dir.options()).find(make_record(1).cache_key()).status, Status::kHit);
  }
}

TEST(CachePlace, MissingDirectoriesAreMadePrivate) {
  const ScratchDirectory dir;
  DiskOptions options = dir.options();
  options.directory += "/a/b";
  DiskCache cache(options);
  cache.insert(make_record(1));
  ASSERT_TRUE(cache.flush(120));
  EXPECT_EQ(cache.find(make_record(1).cache_key()).status, Status::kHit);
  struct stat info{};
  ASSERT_EQ(stat((dir.path() + "/a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

}  // namespace
}  // namespace smolder::jit
