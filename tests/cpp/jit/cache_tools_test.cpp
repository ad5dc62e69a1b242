// The reads and changes of `smolder cache`.
#include <gtest/gtest.h>

#include "jit/cache_test_util.h"
#include "smolder/core/error.h"
#include "smolder/jit/cache/cache_file.h"
#include "smolder/jit/cache/disk.h"
#include "smolder/jit/cache/explain.h"

namespace smolder::jit {
namespace {

using test::make_record;
using test::same_content;
using test::ScratchDirectory;
using Status = DiskFind::Status;

TEST(CacheTools, StatsAddUp) {
  const ScratchDirectory dir;
  DiskCache cache(dir.options());
  for (int i = 0; i < 10; ++i) cache.insert(make_record(i));
  ASSERT_TRUE(cache.flush(120));
  for (int n = 0; n < 3; ++n) cache.find(make_record(4).cache_key());
  const CacheStats stats = cache.stats();
  EXPECT_EQ(stats.path, dir.database());
  EXPECT_EQ(stats.rows, 10);
  EXPECT_EQ(stats.leased_rows, 10);
  EXPECT_EQ(stats.processes, 1);
  EXPECT_GT(stats.live_bytes, 10 * 1500);
  ASSERT_EQ(stats.kinds.size(), 2u);
  EXPECT_EQ(stats.kinds[0].kind, "kernel");
  EXPECT_EQ(stats.kinds[0].rows, 8);
  EXPECT_EQ(stats.kinds[1].kind, "plan");
  EXPECT_EQ(stats.kinds[1].hits, 3);
  EXPECT_DOUBLE_EQ(stats.kinds[1].build_ms, 0.25 * (4 + 9));
  EXPECT_DOUBLE_EQ(stats.kinds[1].saved_ms, 3 * 0.25 * 4);
}

TEST(CacheTools, ListReadsWhileAnotherConnectionWrites) {
  const ScratchDirectory dir;
  DiskCache training(dir.options()), tool(dir.options());
  for (int i = 0; i < 100; ++i) training.insert(make_record(i));
  ASSERT_TRUE(training.flush(120));
  int seen = 0;
  tool.for_each({}, Detail::kKeys, [&](CacheRow& row) {
    if (seen++ == 0) {
      // One consistent view: what comes now is not in it.
      training.insert(make_record(1000));
      EXPECT_TRUE(training.flush(120));
    }
    EXPECT_TRUE(row.record.payload.empty());
    EXPECT_FALSE(row.record.structure.empty());
    return true;
  });
  EXPECT_EQ(seen, 100);
  EXPECT_EQ(tool.list().size(), 101u);
}

TEST(CacheTools, AFileIsReadWithoutChangingIt) {
  const ScratchDirectory dir;
  EXPECT_THROW(CacheFile(dir.database()), RuntimeError);
  EXPECT_TRUE(dir.names("cache").empty());
  DiskCache training(dir.options());
  for (int i = 0; i < 10; ++i) training.insert(make_record(i));
  ASSERT_TRUE(training.flush(120));
  EXPECT_EQ(CacheFile::path_of(dir.options()), dir.database());
  CacheFile file(dir.database());
  int seen = 0;
  file.for_each("plan", Detail::kKeys, [&](CacheRow& row) {
    const auto whole = file.row(row.id);
    EXPECT_TRUE(whole && same_content(whole->record, make_record(row.record.name == "kernel_4" ? 4 : 9)));
    ++seen;
    return true;
  });
  EXPECT_EQ(seen, 2);
  EXPECT_FALSE(file.row(1000));
  EXPECT_EQ(file.stats().leased_rows, 10);  // by who trains: reading takes none
  EXPECT_TRUE(file.verify().sound());
  training.insert(make_record(10));
  ASSERT_TRUE(training.flush(120));
  EXPECT_EQ(file.verify().rows, 11);

  const ScratchDirectory other;
  test::write_file(other.database(), std::string(5000, 'x'));
  EXPECT_THROW(CacheFile(other.database()), RuntimeError);
  EXPECT_EQ(test::read_file(other.database()), std::string(5000, 'x'));
  EXPECT_EQ(other.names("").size(), 1u);
}

TEST(CacheTools, PruneSparesLeasedRowsAndClearDoesNot) {
  const ScratchDirectory dir;
  {
    DiskCache earlier(dir.options());
    for (int i = 0; i < 100; ++i) earlier.insert(make_record(i, 6000));
  }
  DiskCache cache(dir.options());
  cache.find(make_record(5, 6000).cache_key());
  const int64_t before = cache.stats().live_bytes;
  EXPECT_EQ(cache.prune(0), 99);
  EXPECT_EQ(cache.find(make_record(5, 6000).cache_key()).status, Status::kHit);
  EXPECT_LT(cache.stats().file_bytes, before / 4);
  EXPECT_LT(cache.stats().log_bytes, before / 4);
  EXPECT_THROW(cache.prune(-1), ValueError);
  EXPECT_EQ(cache.clear(), 1);
  EXPECT_EQ(cache.find(make_record(5, 6000).cache_key()).status, Status::kMiss);
  cache.insert(make_record(6));
  ASSERT_TRUE(cache.flush(120));
  EXPECT_EQ(cache.stats().leased_rows, 1);
}

TEST(CacheTools, ExportAndImportCarryEveryWholeRow) {
  const ScratchDirectory from, to;
  const std::string file = from.path() + "/exported";
  constexpr size_t kBytes = 200'000;
  DiskCache source(from.options());
  for (int i = 0; i < 60; ++i) source.insert(make_record(i, kBytes));
  ASSERT_TRUE(source.flush(120));
  EXPECT_EQ(source.export_to(file), 60);
  EXPECT_THROW(source.export_to(file), ValueError) << "it exists";
  EXPECT_THROW(source.export_to(from.path() + "/no/such/place"), RuntimeError);
  EXPECT_EQ(from.names("exported"), std::vector<std::string>{"exported"});
  {
    Connection connection(file, Connection::Mode::kWrite);
    connection.run("UPDATE record SET payload = x'00' WHERE place = 'train.py:6'");
  }
  DiskCache target(to.options());
  target.insert(make_record(1000));
  EXPECT_THROW(target.import_from(file), ValueError) << "it is of another cache";
  EXPECT_EQ(target.stats().rows, 1);
  EXPECT_EQ(target.import_from(file, true), 59);
  EXPECT_EQ(target.stats().rows, 60);
  for (int i = 0; i < 60; ++i) {
    const CacheRecord made = make_record(i, kBytes);
    const DiskFind found = target.find(made.cache_key());
    ASSERT_EQ(found.status, i == 6 ? Status::kMiss : Status::kHit) << i;
    EXPECT_TRUE(i == 6 || same_content(found.record, made));
  }
  test::write_file(to.path() + "/text", std::string(5000, 'x'));
  EXPECT_THROW(target.import_from(to.path() + "/text"), ValueError);
  EXPECT_THROW(target.import_from(to.path() + "/absent"), ValueError);
  EXPECT_TRUE(source.available());
  EXPECT_TRUE(target.verify(false).sound());
}

TEST(CacheTools, WhatACacheExportedItselfNeedsNoTrustUnlessItWasChanged) {
  const ScratchDirectory dir;
  const std::string file = dir.path() + "/exported";
  DiskCache cache(dir.options());
  for (int i = 0; i < 5; ++i) cache.insert(make_record(i));
  ASSERT_TRUE(cache.flush(120));
  ASSERT_EQ(cache.export_to(file), 5);
  EXPECT_EQ(cache.clear(), 5);
  EXPECT_EQ(cache.import_from(file), 5);
  EXPECT_EQ(cache.find(make_record(3).cache_key()).status, Status::kHit);
  // A row more, whole by the sum that an exported file's rows have: anybody can make it.
  {
    Store forged(Connection(file, Connection::Mode::kWrite), {});
    Transaction transaction(forged.connection());
    forged.put(make_record(77));
    transaction.commit();
  }
  EXPECT_THROW(cache.import_from(file), ValueError);
  EXPECT_EQ(cache.stats().rows, 5);
  EXPECT_EQ(cache.import_from(file, true), 6);
}

// A view may never end and a computed column may be of any size: reading them would run what the file says.
TEST(CacheTools, AFileWhoseTablesArePrograms) {
  const ScratchDirectory dir;
  DiskCache cache(dir.options());
  cache.insert(make_record(0));
  ASSERT_TRUE(cache.flush(120));
  const char* const kPrograms[] = {
      "ALTER TABLE record RENAME TO kept; CREATE VIEW record AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i "
      "FROM n)"
      " SELECT kept.* FROM n, kept WHERE kept.id < 0",
      "ALTER TABLE record ADD COLUMN more AS (zeroblob(1 << 30))",
      "CREATE TRIGGER more AFTER INSERT ON usage BEGIN DELETE FROM record; END",
  };
  for (int i = 0; i < 3; ++i) {
    const std::string file = dir.path() + "/exported" + std::to_string(i);
    ASSERT_EQ(cache.export_to(file), 1);
    Connection(file, Connection::Mode::kWrite).run(kPrograms[i]);
    try {
      cache.import_from(file, true);
      ADD_FAILURE() << kPrograms[i];
    } catch (const ValueError& e) {
      EXPECT_NE(std::string(e.what()).find(file), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("views, triggers or computed columns"), std::string::npos) << e.what();
    }
    EXPECT_THROW(CacheFile{file}, RuntimeError);
  }
  EXPECT_EQ(cache.stats().rows, 1);
}

CacheRecord kernel(const std::string& structure, int64_t created, const std::string& where) {
  CacheRecord r;
  r.kind = "kernel";
  r.structure = structure;
  r.key = hash_bytes(structure.data(), structure.size());
  r.target = "x86-64;llvm 19";
  r.payload = "object";
  r.created = created;
  r.where = where;
  return r;
}

TEST(CacheTools, ExplainNamesTheNearestEarlierRowAndTheFirstDifference) {
  const ScratchDirectory dir;
  DiskCache cache(dir.options());
  const CacheRecord built = kernel("loop i < n\n  store float32\nend\n", 50, "train.py:9");
  EXPECT_FALSE(explain_build(cache, built));
  cache.insert(built);
  cache.insert(kernel("loop i < n\n  store bfloat16\nend\n", 10, "train.py:3"));
  cache.insert(kernel("reduce i < n\n  max\nend\n", 11, "train.py:4"));
  cache.insert(kernel("loop i < n\n  store float33\nend\n", 60, "train.py:5"));  // later: no reason
  CacheRecord plan = kernel("loop i < n\n  store float30\nend\n", 12, "train.py:6");
  plan.kind = "plan";
  cache.insert(plan);
  const auto found = explain_build(cache, built);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->nearest.where, "train.py:3");
  EXPECT_FALSE(found->target_differs);
  EXPECT_EQ(found->offset, 19u);
  EXPECT_EQ(found->wanted, "  store float32");
  EXPECT_EQ(found->found, "  store bfloat16");

  CacheRecord moved = kernel(built.structure, 13, "train.py:7");
  moved.target = "x86-64;llvm 18";
  cache.insert(moved);
  const auto target = explain_build(cache, built);
  ASSERT_TRUE(target);
  EXPECT_TRUE(target->target_differs);
  EXPECT_EQ(target->nearest.where, "train.py:7");
  EXPECT_EQ(target->wanted, "x86-64;llvm 19");
  EXPECT_EQ(target->found, "x86-64;llvm 18");

  const CacheRecord binary = kernel(std::string("loop i < n\x01\0", 12), 51, "");
  EXPECT_EQ(explain_build(cache, binary)->wanted, "loop i < n\\x01\\x00");
}

TEST(CacheTools, VerifyFindsAndRepairsBrokenRows) {
  const ScratchDirectory dir;
  DiskCache cache(dir.options());
  for (int i = 0; i < 30; ++i) cache.insert(make_record(i));
  ASSERT_TRUE(cache.flush(120));
  {
    Connection connection(dir.database(), Connection::Mode::kWrite);
    connection.run("UPDATE record SET payload = zeroblob(length(payload)) WHERE place = 'train.py:4'");
    connection.run("UPDATE record SET build_ms = build_ms + 1 WHERE place = 'train.py:5'");
    connection.run("UPDATE source SET text = 'another' WHERE id = (SELECT id FROM record WHERE place = 'train.py:6')");
    connection.run("DELETE FROM usage WHERE id = (SELECT id FROM record WHERE place = 'train.py:7')");
  }
  const VerifyReport found = cache.verify(false);
  EXPECT_EQ(found.broken, 3);
  EXPECT_EQ(found.dropped, 0);
  EXPECT_FALSE(found.sound());
  EXPECT_EQ(cache.verify(true).dropped, 3);
  const VerifyReport repaired = cache.verify(false);
  EXPECT_TRUE(repaired.sound());
  EXPECT_EQ(repaired.rows, 27) << "the row without use is listed again";
}

}  // namespace
}  // namespace smolder::jit
