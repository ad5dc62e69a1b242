// The disk tier of the kernel cache: one SQLite database shared by every process of the user.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "smolder/jit/cache/record.h"
#include "smolder/jit/cache/store.h"

namespace smolder::jit {

struct DiskOptions {
  bool enabled = true;
  std::string directory;                  ///< holds the database; made when missing
  int64_t max_bytes = int64_t{2} << 30;   ///< of pages in use; the log adds at most about 8 MB
  size_t queue_bytes = size_t{64} << 20;  ///< of records waiting for the writer; more are dropped
  int busy_ms = 5000;                     ///< wait for another process's lock, off the step path
  double exit_seconds = 2;                ///< bound on finishing writes when closing

  /// From SMOLDER_CACHE (on, off), SMOLDER_CACHE_DIR (else XDG_CACHE_HOME/smolder, else
  /// ~/.cache/smolder) and SMOLDER_CACHE_BYTES (a number, or one with K, M, G or T). ValueError for
  /// anything else they hold.
  static DiskOptions from_environment();
};

struct DiskFind {
  enum class Status {
    kHit,
    kMiss,
    kCollision,  ///< rows with this key exist, of another structure
    kBroken,     ///< the row was there, its checksum does not hold; it is being dropped
  };
  Status status = Status::kMiss;
  CacheRecord record;  ///< on a hit; without source, last_use and hits
};

struct CacheStats {
  std::string path;  ///< of the database; empty when the disk tier is off
  int64_t rows = 0;
  int64_t live_bytes = 0;  ///< in pages that hold something
  int64_t file_bytes = 0;  ///< of the database file
  int64_t log_bytes = 0;   ///< of its log beside it
  int64_t max_bytes = 0;
  int64_t leased_rows = 0;
  int64_t processes = 0;                 ///< that hold leases
  std::vector<Store::KindTotals> kinds;  ///< by name
};

struct VerifyReport {
  int64_t rows = 0;
  int64_t broken = 0;      ///< rows whose checksum does not hold
  int64_t dropped = 0;     ///< of them, now dropped
  std::string complaints;  ///< of SQLite's check of the file itself; empty when sound
  bool sound() const { return broken == 0 && complaints.empty(); }
};

/// Thread-safe, safe across processes, fork and kill. Nothing here fails because the disk does: the
/// tier then turns itself off, with one warning, and every lookup misses. Only the tools' part throws.
class DiskCache {
 public:
  /// Touches no file until first used.
  explicit DiskCache(DiskOptions options);
  /// close(exit_seconds).
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  /// Reads from the database alone: an insert is found once written, see flush(). A hit leases the row.
  DiskFind find(const CacheKey& key);
  /// Queues the record for the background writer, replacing the row of its key; leases it. Dropped,
  /// and counted, when the queue is full.
  void insert(CacheRecord record);
  /// Queues the row's removal: its payload cannot be used here.
  void discard(const CacheKey& key);
  /// Queues the end of this process's lease: the row may be evicted.
  void release(const CacheKey& key);
  /// Waits until everything queued so far is committed; false when `seconds` passed first.
  bool flush(double seconds);
  /// Writes what is queued, gives the leases back and turns the tier off. False when `seconds` passed
  /// first; what was not written then is lost.
  bool close(double seconds);

  /// False when turned off, by options, by close() or because the place cannot hold a database.
  bool available() const;
  const DiskOptions& options() const;

  // For tools. Each first waits for queued writes; each throws RuntimeError when the tier is off or
  // the database cannot be read. Lookups go on meanwhile, writes wait.

  /// Visits rows of `kind` (all when empty), most recently used first, until `visit` returns false.
  /// One consistent view of the database. `visit` must call neither these members nor flush().
  void for_each(std::string_view kind, Detail detail, const std::function<bool(CacheRow&)>& visit);
  std::vector<CacheRow> list(std::string_view kind = {}, Detail detail = Detail::kKeys);
  CacheStats stats();
  /// Checks every row and the file. With `repair`, drops broken rows, and sets the database aside when
  /// the file is damaged.
  VerifyReport verify(bool repair);
  /// Evicts to `bytes`, least recently used first, never leased rows, and shrinks the file; the number
  /// of rows dropped.
  int64_t prune(int64_t bytes);
  /// Drops every row, leased or not, and shrinks the file; the number dropped.
  int64_t clear();
  /// Writes every whole row to a new database at `path`; the number written. ValueError if it exists.
  int64_t export_to(const std::string& path);
  /// Adds the whole rows of a database made by export_to(); the number added. What it holds will be run
  /// as code: unless `trust` is set it must be what this cache exported. ValueError if it is not, or no such database.
  int64_t import_from(const std::string& path, bool trust = false);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace smolder::jit
