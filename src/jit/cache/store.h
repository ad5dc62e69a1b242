// One connection to the cache database and every statement the cache makes on it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "smolder/jit/cache/process.h"
#include "smolder/jit/cache/record.h"
#include "smolder/jit/cache/sqlite.h"

namespace smolder::jit {

/// Where a row is found: the digest of (kind, key, target) and that of the structure.
struct RowKey {
  Hash128 slot, structure;
};
RowKey row_key_of(const CacheKey& key);

/// A stored row as the tools see it.
struct CacheRow {
  CacheRecord record;
  int64_t id = 0;
  int64_t bytes = 0;    ///< of its columns; what eviction counts is pages
  int64_t leases = 0;   ///< processes that use it
  bool broken = false;  ///< a checksum does not hold; known after Detail::kFull only
};

/// Columns that a visit of rows reads.
enum class Detail {
  kKeys,  ///< no payload, no source, nothing checked: cheap also over gigabytes
  kFull,  ///< everything, with its checksums checked
};

/// Not thread-safe: the owner locks. Every member may throw SqliteError. Members that write must be
/// called inside a Transaction, unless they say otherwise.
class Store {
 public:
  /// Schema version; part of the file's name, so that versions live side by side.
  static constexpr int kVersion = 3;

  /// Rows are signed by `key`.
  explicit Store(Connection connection, const SecretKey& key);
  const SecretKey& key() const { return key_; }

  /// Makes the tables in an empty database.
  static void create_schema(Connection& connection);
  /// Throws SqliteError (kDamaged) unless the database is one of ours, of this version.
  static void check_schema(Connection& connection);

  enum class Found { kHit, kMiss, kCollision };
  struct FindResult {
    Found found = Found::kMiss;
    int64_t id = 0;
    CacheRecord record;           ///< on a hit, without source, last_use and hits
    std::vector<int64_t> broken;  ///< rows met whose checksum does not hold
  };
  FindResult find(const CacheKey& key);

  /// The time of a use now, later than those of all uses so far: the wall clock may have been set back since.
  int64_t moment_of_use(int64_t wall_ms);
  /// Inserts or replaces the row of the record's key; leases it when a process is registered.
  void put(const CacheRecord& record);
  /// Counts hits of a row.
  void use(int64_t id, int64_t hits, int64_t moment);
  void release(const RowKey& key);
  void discard(const RowKey& key);
  /// Drops the row if its checksum still does not hold: another process may have rebuilt it.
  bool drop_if_broken(int64_t id);

  /// Names this process as the one that leases. `row` is what an earlier call returned, on this or an
  /// earlier connection, or 0; returns it, or a new one when it is no longer ours. `now` is boot_clock_ms().
  int64_t register_process(int64_t row, int64_t now);
  /// Ends this process's leases.
  void unregister_process();
  /// Drops the leases of processes that are gone.
  void reap_leases(int64_t now);
  /// Drops least recently used rows that nobody leases until at most `bytes` are in use; the number
  /// dropped. What is leased may keep it above.
  int64_t evict_to(int64_t bytes);
  /// Drops every row, leased or not; the number dropped.
  int64_t clear();
  /// Adds what a damaged index or table left out: use of rows, rows of uses and sources.
  void repair_links();

  /// Bytes in pages that hold something.
  int64_t live_bytes();
  int64_t row_count();
  /// The signature of an exported file: who wrote it, and what. The cache itself has none.
  void sign(const Hash128& signature);
  std::optional<Hash128> signature();
  /// Gives free pages back to the file system and empties the log. Not inside a transaction.
  void shrink_file();
  /// First complaints of SQLite's own check, empty when it has none. Reads every page.
  std::string integrity_complaints();

  /// Visits rows of `kind` (all when empty), most recently used first, until `visit` returns false; no other than that
  /// of id `only` unless it is 0, and none whose payload does not hold `mentions`.
  void for_each(std::string_view kind, Detail detail, const std::function<bool(CacheRow&)>& visit, int64_t only = 0,
                std::string_view mentions = {});
  std::vector<ProcessName> leasing_processes();
  int64_t leased_row_count();

  struct KindTotals {
    std::string kind;
    int64_t rows = 0, bytes = 0, hits = 0;
    double build_ms = 0;  ///< spent building what is stored
    double saved_ms = 0;  ///< hits times build time
  };
  std::vector<KindTotals> totals();

  Connection& connection() { return connection_; }

 private:
  enum Query : int;
  static constexpr int kQueryCount = 32;
  Statement& query(Query which);
  std::optional<int64_t> id_of(const RowKey& key);
  void delete_row(int64_t id);
  void put_source(int64_t id, const CacheRecord& record);
  void lease(int64_t id);

  Connection connection_;
  SecretKey key_;
  std::array<Statement, kQueryCount> queries_;  // prepared at first use; destroyed before the connection
  int64_t process_ = 0;                         // our row in `process`, 0 while unregistered
  ProcessName self_;                            // known once registered; a store never survives a fork
};

}  // namespace smolder::jit
