#include "smolder/jit/cache/disk_state.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "smolder/core/counters.h"

namespace smolder::jit {
namespace {

constexpr int kReaderBusyMs = 200;  // a lookup that waits longer is a miss: compiling takes 5 ms
constexpr int kMaxSetAsides = 3;
constexpr int kMaxFailures = 3;
constexpr int64_t kReapEveryMs = 60'000;
constexpr int64_t kLongLog = int64_t{1} << 20;  // bytes; replaying more would slow the next start
constexpr int kExitBusyMs = 100;

struct Counts {
  Counter& writes = counter("cache.writes");
  Counter& evictions = counter("cache.evictions");
  Counter& dropped_writes = counter("cache.dropped_writes");
  Counter& corrupt_rows = counter("cache.corrupt_rows");
  Counter& lock_timeouts = counter("cache.lock_timeouts");
};
Counts& counts() {
  static Counts c;
  return c;
}

bool is_damage(const SqliteError& e) { return e.fault() == SqliteFault::kDamaged || e.fault() == SqliteFault::kMisuse; }

}  // namespace

DiskCache::State::State(DiskOptions o)
    : ForkGuard(ForkRank::kDatabase),
      options(std::move(o)),
      file(options.directory, options.busy_ms, &give_up_),
      off(!options.enabled) {
  counts();  // so that they show, at zero, before anything happens
}

DiskCache::State::~State() { forget_forks(); }

Store& DiskCache::State::open(Slot& slot) {
  if (slot.store && slot.epoch == epoch) return *slot.store;
  slot.store.reset();
  DatabaseFile::Opened opened = file.open();
  if (&slot == &reader) opened.store.connection().set_busy_wait(kReaderBusyMs, &give_up_);
  slot.store.emplace(std::move(opened.store));
  slot.identity = opened.identity;
  // If this is not the file that the other slot has open, the new epoch makes that slot open it, too.
  const std::lock_guard lock(identity_mutex_);
  if (newest_ != opened.identity) ++epoch;
  newest_ = opened.identity;
  slot.epoch = epoch;
  return *slot.store;
}

Store& DiskCache::State::open_writer() {
  // Another process may have set the database aside, or a user removed it.
  if (writer.store && identity_of(file.path()) != writer.identity) ++epoch;
  return open(writer);
}

void DiskCache::State::turn_off(const std::string& why) {
  if (off.exchange(true)) return;
  warn("cache",
       "compiled kernels are kept in memory only: " + why +
           ". Set SMOLDER_CACHE_DIR to a writable directory on a local disk, or SMOLDER_CACHE=off to do without.");
}

void DiskCache::State::recover(Slot& slot, const SqliteError& error) try {
  const bool was_open = slot.store.has_value();
  if (error.fault() == SqliteFault::kBusy) {
    if (give_up_) return;
    counts().lock_timeouts.add();
    if (!was_open && ++slot.failures >= kMaxFailures) turn_off(error.what());
  } else if (error.fault() == SqliteFault::kFull) {
    if (!warned_full_.exchange(true)) warn("cache", std::string("compiled kernels are not stored: ") + error.what());
  } else if (!was_open) {
    turn_off(error.what());
  } else {
    slot.store.reset();
    if (is_damage(error)) {
      file.set_aside(slot.identity, error.what());
      ++epoch;
      if (++set_asides_ >= kMaxSetAsides) turn_off("the database in '" + options.directory + "' keeps being damaged");
    } else if (++slot.failures >= kMaxFailures) {
      turn_off(error.what());
    }
  }
} catch (const SqliteError& e) {
  if (e.fault() != SqliteFault::kBusy) turn_off(e.what());
}

void DiskCache::State::apply(WriteBatch batch) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(2 * options.busy_ms);
  for (bool retried = false;;) {
    {
      const std::lock_guard lock(writer.mutex);
      if (off) break;
      try {
        Store& store = open_writer();
        if (!batch.empty()) write(store, batch);
        if (batch.last) finish(store);
        writer.failures = 0;
        return;
      } catch (const SqliteError& e) {
        const bool busy = e.fault() == SqliteFault::kBusy && Clock::now() < deadline;
        if (!busy) {
          recover(writer, e);
          if (!is_damage(e) || std::exchange(retried, true)) break;
        }
      } catch (const std::exception& e) {  // no memory, say; nobody above could answer it
        turn_off(e.what());
        break;
      }
    }
    // Lets go of the lock: a fork may be waiting for it.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  counts().dropped_writes.add(static_cast<int64_t>(batch.ops.size()));
}

void DiskCache::State::write(Store& store, WriteBatch& batch) {
  int64_t written = 0, dropped = 0;
  Room room;
  Transaction transaction(store.connection());
  process_row_ = store.register_process(process_row_, boot_clock_ms());
  reap(store, kReapEveryMs);
  const int64_t moment = store.moment_of_use(wall_clock_ms());
  for (WriteOp& op : batch.ops) {
    if (auto* record = std::get_if<CacheRecord>(&op)) {
      const bool fits = make_room(store, *record, room);
      record->last_use = moment;
      if (fits) store.put(*record);
      ++(fits ? written : dropped);
    } else if (const auto* drop = std::get_if<DropRow>(&op)) {
      store.drop_if_broken(drop->id);
    } else if (const auto* discard = std::get_if<DiscardRow>(&op)) {
      store.discard(discard->key);
    } else {
      store.release(std::get<ReleaseRow>(op).key);
    }
  }
  for (const auto& [id, hits] : batch.uses) store.use(id, hits, moment);
  transaction.commit();
  counts().writes.add(written);
  counts().dropped_writes.add(dropped);
  counts().evictions.add(room.evicted);
}

void DiskCache::State::reap(Store& store, int64_t at_most_every_ms) {
  const int64_t now = boot_clock_ms();
  if (last_reap_ms_ != 0 && now - last_reap_ms_ < at_most_every_ms) return;
  store.reap_leases(now);
  last_reap_ms_ = now;
}

bool DiskCache::State::make_room(Store& store, const CacheRecord& record, Room& room) {
  // Rows share pages with others, and a long value leaves part of its last page unused.
  constexpr int64_t kSlack = 32 << 10;
  const int64_t bytes = kSlack + static_cast<int64_t>(record.structure.size() + record.target.size() +
                                                      record.payload.size() + record.source.size());
  const auto fits = [&] { return store.live_bytes() + bytes <= options.max_bytes; };
  if (fits()) return true;
  if (room.exhausted || bytes > options.max_bytes / 2) return false;  // one row shall not drive out all others
  reap(store, 1000);
  // A tenth more than needed, so that a full cache does not evict on every insert.
  room.evicted += store.evict_to(std::max<int64_t>(0, options.max_bytes - options.max_bytes / 10 - bytes));
  room.exhausted = !fits();
  return !room.exhausted;
}

void DiskCache::State::finish(Store& store) {
  {
    Transaction transaction(store.connection());
    store.unregister_process();
    transaction.commit();
  }
  struct stat log{};
  if (stat((file.path() + "-wal").c_str(), &log) != 0 || log.st_size < kLongLog) return;
  store.connection().set_busy_wait(kExitBusyMs, &give_up_);
  store.connection().run("PRAGMA wal_checkpoint(TRUNCATE)");
}

// SQLite keeps, per process and file, which locks it holds; a child inherits that belief but not the
// locks. So connections are closed before a fork, not merely left alone after it, and both sides open
// their own at the next use.
void DiskCache::State::before_fork() {
  give_up_ = true;
  writer.mutex.lock();
  reader.mutex.lock();
  give_up_ = false;
  queue->before_fork();
  writer.store.reset();
  reader.store.reset();
}

void DiskCache::State::after_fork_in_parent() {
  queue->after_fork_in_parent();
  reader.mutex.unlock();
  writer.mutex.unlock();
}

void DiskCache::State::after_fork_in_child() {
  queue->after_fork_in_child();
  reader.mutex.unlock();
  writer.mutex.unlock();
}

DiskCache::DiskCache(DiskOptions options) : state_(std::make_shared<State>(std::move(options))) {
  // The thread may outlive us when closing runs out of time.
  state_->queue.emplace(state_->options.queue_bytes, [weak = std::weak_ptr<State>(state_)](WriteBatch&& batch) {
    if (const auto state = weak.lock()) state->apply(std::move(batch));
  });
  state_->watch();
}

DiskCache::~DiskCache() { close(state_->options.exit_seconds); }

bool DiskCache::available() const { return !state_->off; }
const DiskOptions& DiskCache::options() const { return state_->options; }

DiskFind DiskCache::find(const CacheKey& key) {
  State& s = *state_;
  DiskFind out;
  if (s.off) return out;
  Store::FindResult found;
  {
    const std::lock_guard lock(s.reader.mutex);
    if (s.off) return out;
    try {
      found = s.open(s.reader).find(key);
      s.reader.failures = 0;
    } catch (const SqliteError& e) {
      s.recover(s.reader, e);
      return out;
    }
  }
  for (const int64_t id : found.broken) {
    counts().corrupt_rows.add();
    s.queue->push(DropRow{id});
  }
  if (found.found == Store::Found::kHit) {
    s.queue->touch(found.id);
    return {DiskFind::Status::kHit, std::move(found.record)};
  }
  if (found.found == Store::Found::kCollision) out.status = DiskFind::Status::kCollision;
  if (!found.broken.empty()) out.status = DiskFind::Status::kBroken;
  return out;
}

void DiskCache::insert(CacheRecord record) {
  if (state_->off) return;
  if (record.created == 0) record.created = wall_clock_ms();
  if (!state_->queue->push(std::move(record))) counts().dropped_writes.add();
}

void DiskCache::discard(const CacheKey& key) {
  if (!state_->off && !state_->queue->push(DiscardRow{row_key_of(key)})) counts().dropped_writes.add();
}

void DiskCache::release(const CacheKey& key) {
  // Losing one only keeps a row leased until we end.
  if (!state_->off) state_->queue->push(ReleaseRow{row_key_of(key)});
}

bool DiskCache::flush(double seconds) { return state_->off || state_->queue->flush(seconds); }

bool DiskCache::close(double seconds) {
  State& s = *state_;
  const bool ended = s.queue->stop(seconds);
  s.off = true;
  if (ended) {
    const std::lock_guard lock(s.writer.mutex);
    s.writer.store.reset();
  }
  const std::lock_guard lock(s.reader.mutex);
  s.reader.store.reset();
  return ended;
}

}  // namespace smolder::jit
