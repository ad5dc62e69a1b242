// The background writer: what the cache wants written, bounded, applied in batches by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include "smolder/jit/cache/store.h"

namespace smolder::jit {

struct DropRow {
  int64_t id;  ///< of a row seen broken
};
struct DiscardRow {
  RowKey key;  ///< of a row whose payload could not be used
};
struct ReleaseRow {
  RowKey key;  ///< of a row this process no longer uses
};
using WriteOp = std::variant<CacheRecord, DropRow, DiscardRow, ReleaseRow>;

struct WriteBatch {
  std::vector<WriteOp> ops;                   ///< in the order they were pushed
  std::unordered_map<int64_t, int64_t> uses;  ///< hits by row id
  bool last = false;                          ///< nothing follows: the queue was stopped
  bool empty() const { return ops.empty() && uses.empty(); }
};

/// Thread-safe. The thread starts at the first push and never delays a pusher: when the queue is full
/// the operation is dropped.
class WriteQueue {
 public:
  /// `apply` runs in the writer thread, one batch at a time, and must not throw.
  WriteQueue(size_t max_bytes, std::function<void(WriteBatch&&)> apply);
  /// Stops as with stop(0).
  ~WriteQueue();

  /// False when the queue is full or stopped, and the operation was dropped.
  bool push(WriteOp op);
  /// Counts one use of a row; written down within a fraction of a second.
  void touch(int64_t id);
  /// Waits until everything pushed before is applied; false when `seconds` passed first.
  bool flush(double seconds);
  /// Lets the thread apply what is queued and end; false when `seconds` passed first, and then the
  /// thread goes on alone and `apply` must stay callable. Later pushes are dropped.
  bool stop(double seconds);

  /// The three stages of a fork, by ForkGuard's rules. The child's queue is empty: the parent writes.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

 private:
  struct Shared;
  static void work(const std::shared_ptr<Shared>& shared);
  static bool start_thread(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> make_shared_state() const;

  size_t max_bytes_;
  std::function<void(WriteBatch&&)> apply_;
  std::shared_ptr<Shared> shared_;  // also held by the thread, which may outlive us
};

}  // namespace smolder::jit
