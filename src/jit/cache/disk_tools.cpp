// DiskCache for people: settings, and what the command line reads and changes.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/jit/cache/cache_file.h"
#include "smolder/jit/cache/disk.h"
#include "smolder/jit/cache/disk_state.h"

namespace smolder::jit {
namespace {

constexpr double kToolFlushSeconds = 60;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string home_directory() {
  if (std::string home = environment("HOME"); !home.empty()) return home;
  const passwd* user = getpwuid(geteuid());
  return user && user->pw_dir ? user->pw_dir : "/nonexistent";
}

std::string cache_directory() {
  if (std::string chosen = environment("SMOLDER_CACHE_DIR"); !chosen.empty()) return chosen;
  // The XDG rules ignore a path that is not absolute.
  if (std::string xdg = environment("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/smolder";
  return home_directory() + "/.cache/smolder";
}

int64_t parse_bytes(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  double scale = 0;
  if (unit.empty()) scale = 1;
  if (unit == "K") scale = 0x1p10;
  if (unit == "M") scale = 0x1p20;
  if (unit == "G") scale = 0x1p30;
  if (unit == "T") scale = 0x1p40;
  SMOLDER_CHECK(end != text.c_str() && scale > 0 && number >= 0 && number * scale < 0x1p62, ValueError,
                "SMOLDER_CACHE_BYTES is '", text, "': give a number of bytes, or one followed by K, M, G or T");
  return static_cast<int64_t>(number * scale);
}

[[noreturn]] void fail(const std::string& directory, const SqliteError& e) {
  raise<RuntimeError>("the kernel cache in '", directory, "' cannot be used: ", e.what());
}

/// Runs `work(store)` on the writer's connection, with its lock.
template <class State, class Work>
auto with_writer(State& state, Work work) {
  const auto refuse = [&] {
    SMOLDER_CHECK(!state.off, RuntimeError, "the kernel cache on disk is off ('", state.options.directory,
                  "' cannot be used, SMOLDER_CACHE=off, or it was closed)");
  };
  refuse();
  state.queue->flush(kToolFlushSeconds);
  const std::lock_guard lock(state.writer.mutex);
  refuse();
  try {
    return work(state.open_writer());
  } catch (const SqliteError& e) {
    state.recover(state.writer, e);
    fail(state.options.directory, e);
  }
}

/// Rows cross in transactions of some size, so that other processes get to write between them.
class RowCopier {
 public:
  explicit RowCopier(std::function<void(const std::vector<CacheRecord>&)> write) : write_(std::move(write)) {}
  void add(CacheRecord record) {
    bytes_ += record.payload.size() + record.source.size();
    records_.push_back(std::move(record));
    if (bytes_ >= (size_t{4} << 20)) flush();
  }
  void flush() {
    if (!records_.empty()) write_(records_);
    records_.clear();
    bytes_ = 0;
  }

 private:
  std::function<void(const std::vector<CacheRecord>&)> write_;
  std::vector<CacheRecord> records_;
  size_t bytes_ = 0;
};

/// A checksum of a file's rows, in any order.
class Signatures {
 public:
  void add(const CacheRecord& record, const SecretKey& key) {
    each_.push_back(SipHash(key).add(checksum_of(record, key)).add(source_checksum_of(record, key)).digest());
  }
  Hash128 all(const SecretKey& key) {
    std::ranges::sort(each_);
    SipHash hash(key);
    for (const Hash128& h : each_) hash.add(h);
    return hash.digest();
  }

 private:
  std::vector<Hash128> each_;
};

}  // namespace

DiskOptions DiskOptions::from_environment() {
  DiskOptions options;
  const std::string mode = environment("SMOLDER_CACHE");
  SMOLDER_CHECK(mode.empty() || mode == "on" || mode == "off", ValueError, "SMOLDER_CACHE is '", mode,
                "': set it to on or off");
  options.enabled = mode != "off";
  options.directory = cache_directory();
  if (const std::string bytes = environment("SMOLDER_CACHE_BYTES"); !bytes.empty())
    options.max_bytes = parse_bytes(bytes);
  return options;
}

void DiskCache::for_each(std::string_view kind, Detail detail, const std::function<bool(CacheRow&)>& visit) {
  with_writer(*state_, [&](Store& store) { store.for_each(kind, detail, visit); });
}

std::vector<CacheRow> DiskCache::list(std::string_view kind, Detail detail) {
  std::vector<CacheRow> rows;
  for_each(kind, detail, [&](CacheRow& row) {
    rows.push_back(std::move(row));
    return true;
  });
  return rows;
}

CacheStats DiskCache::stats() {
  return with_writer(*state_,
                     [&](Store& store) { return stats_of(store, state_->file.path(), state_->options.max_bytes); });
}

VerifyReport DiskCache::verify(bool repair) {
  return with_writer(*state_, [&](Store& store) {
    VerifyReport report;
    try {
      std::vector<int64_t> broken;
      report = check_rows(store, broken);
      if (repair && report.complaints.empty()) {
        Transaction transaction(store.connection());
        for (const int64_t id : broken) report.dropped += store.drop_if_broken(id);
        store.repair_links();
        transaction.commit();
      }
    } catch (const SqliteError& e) {
      if (e.fault() != SqliteFault::kDamaged) throw;
      report.complaints = e.what();
    }
    if (repair && !report.complaints.empty())
      state_->recover(state_->writer, SqliteError(SqliteFault::kDamaged, report.complaints));
    return report;
  });
}

int64_t DiskCache::prune(int64_t bytes) {
  SMOLDER_CHECK(bytes >= 0, ValueError, "cannot prune the kernel cache to ", bytes, " bytes: give 0 or more");
  return with_writer(*state_, [&](Store& store) {
    Transaction transaction(store.connection());
    store.reap_leases(boot_clock_ms());
    const int64_t dropped = store.evict_to(bytes);
    transaction.commit();
    store.shrink_file();
    return dropped;
  });
}

int64_t DiskCache::clear() {
  return with_writer(*state_, [&](Store& store) {
    Transaction transaction(store.connection());
    const int64_t dropped = store.clear();
    transaction.commit();
    store.shrink_file();
    return dropped;
  });
}

int64_t DiskCache::export_to(const std::string& path) {
  SMOLDER_CHECK(access(path.c_str(), F_OK) != 0, ValueError, "cannot export the kernel cache to '", path,
                "': it exists");
  const std::string part = path + ".part";
  unlink(part.c_str());
  // A failure on the new file must not count as a fault of the cache.
  const auto on_new_file = [&](auto work) {
    try {
      return work();
    } catch (const SqliteError& e) {
      raise<RuntimeError>("cannot export the kernel cache to '", path, "': ", e.what());
    }
  };
  int64_t count = 0;
  const SecretKey key = with_writer(*state_, [](Store& store) { return store.key(); });
  Signatures signatures;
  {
    Store out = on_new_file([&] {
      DatabaseFile::create(part);
      return Store(Connection(part, Connection::Mode::kWrite), {});
    });
    RowCopier copier([&](const std::vector<CacheRecord>& records) {
      on_new_file([&] {
        Transaction transaction(out.connection());
        for (const CacheRecord& record : records) out.put(record);
        transaction.commit();
      });
      count += static_cast<int64_t>(records.size());
    });
    for_each({}, Detail::kFull, [&](CacheRow& row) {
      if (row.broken) return true;
      signatures.add(row.record, key);
      copier.add(std::move(row.record));
      return true;
    });
    copier.flush();
    on_new_file([&] { out.sign(signatures.all(key)); });
    // One file, readable from anywhere.
    on_new_file([&] { out.connection().run("PRAGMA journal_mode = DELETE"); });
  }
  SMOLDER_CHECK(rename(part.c_str(), path.c_str()) == 0, RuntimeError, "cannot rename '", part, "' to '", path,
                "': ", std::strerror(errno));
  return count;
}

int64_t DiskCache::import_from(const std::string& path, bool trust) {
  const auto refuse = [&](const SqliteError& e) {
    raise<ValueError>("cannot import '", path, "' into the kernel cache: ", e.what());
  };
  std::optional<Store> in;
  try {
    Connection connection(path, Connection::Mode::kRead);
    Store::check_schema(connection);
    in.emplace(std::move(connection), SecretKey{});
  } catch (const SqliteError& e) {
    refuse(e);
  }
  const auto each_whole = [&](const auto& take) {
    try {
      in->for_each({}, Detail::kFull, [&](CacheRow& row) {
        if (!row.broken) take(std::move(row.record));
        return true;
      });
    } catch (const SqliteError& e) {
      refuse(e);
    }
  };
  if (!trust) {
    const SecretKey key = with_writer(*state_, [](Store& store) { return store.key(); });
    Signatures signatures;
    each_whole([&](const CacheRecord& record) { signatures.add(record, key); });
    SMOLDER_CHECK(in->signature() == signatures.all(key), ValueError, "cannot import '", path,
                  "' into the kernel cache: it was not exported from this cache, or was changed since, and what it "
                  "holds is run as code. Import it with --trust if you trust whoever made it");
  }
  int64_t count = 0;
  RowCopier copier([&](const std::vector<CacheRecord>& records) {
    count += with_writer(*state_, [&](Store& store) {
      int64_t added = 0;
      State::Room room;
      Transaction transaction(store.connection());
      for (const CacheRecord& record : records) {
        if (!state_->make_room(store, record, room)) continue;
        store.put(record);
        ++added;
      }
      transaction.commit();
      return added;
    });
  });
  each_whole([&](CacheRecord record) {
    record.last_use = std::min(record.last_use, wall_clock_ms());  // the file's clock may have been another
    copier.add(std::move(record));
  });
  copier.flush();
  return count;
}

}  // namespace smolder::jit
