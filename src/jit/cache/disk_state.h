// State of DiskCache: two connections, the writer's queue, and the handling of SQLite's failures.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "smolder/core/fork.h"
#include "smolder/jit/cache/database_file.h"
#include "smolder/jit/cache/disk.h"
#include "smolder/jit/cache/write_queue.h"

namespace smolder::jit {

/// Locks are taken in this order: writer, reader, the queue's.
class DiskCache::State : public ForkGuard {
 public:
  explicit State(DiskOptions options);
  ~State();
  /// Once the queue is there: from now on forks are prepared for.
  void watch() { watch_forks(); }

  /// A connection with its lock. The reader serves lookups, which must not wait for the writer's
  /// transactions; the writer serves the background thread and the tools.
  struct Slot {
    std::mutex mutex;
    std::optional<Store> store;  // empty until first used, after a fault, and after a fork
    FileIdentity identity;       // of the file that `store` has open
    uint64_t epoch = 0;          // State::epoch when it was opened
    int failures = 0;            // in a row, to read or to get the lock
  };

  const DiskOptions options;
  DatabaseFile file;
  Slot reader, writer;
  std::atomic<bool> off{false};
  std::atomic<uint64_t> epoch{0};  // grows when the database is replaced: open connections are stale

  /// With the slot's lock held: its store, opened when needed. Throws SqliteError.
  Store& open(Slot& slot);
  /// The same for the writer, which also looks whether the path still names the file it has open.
  Store& open_writer();
  /// With the slot's lock held: closes, sets the database aside or turns the tier off, as `error` asks.
  void recover(Slot& slot, const SqliteError& error);
  void turn_off(const std::string& why);

  /// The background thread's work.
  void apply(WriteBatch batch);

  /// Rows that one transaction evicted.
  struct Room {
    int64_t evicted = 0;
    bool exhausted = false;  // nothing is left to evict: do not look again
  };
  /// Inside a transaction: evicts until `record` fits; false when what is leased leaves no room.
  bool make_room(Store& store, const CacheRecord& record, Room& room);

 private:
  void before_fork() override;
  void after_fork_in_parent() override;
  void after_fork_in_child() override;
  void write(Store& store, WriteBatch& batch);
  void finish(Store& store);
  void reap(Store& store, int64_t at_most_every_ms);

  std::atomic<bool> give_up_{false};  // a fork waits: busy waits end at once
  std::atomic<bool> warned_full_{false};
  std::atomic<int> set_asides_{0};
  std::mutex identity_mutex_;  // taken last of all
  FileIdentity newest_;        // of the file opened last, by either slot
  int64_t last_reap_ms_ = 0;   // by the boot clock; under the writer's lock, as is the next
  int64_t process_row_ = 0;    // what Store::register_process() returned last

 public:
  std::optional<WriteQueue> queue;  // last: its thread uses all of the above
};

}  // namespace smolder::jit
