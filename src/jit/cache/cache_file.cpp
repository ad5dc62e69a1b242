#include "smolder/jit/cache/cache_file.h"

#include <sys/stat.h>

#include <utility>

#include "smolder/core/error.h"
#include "smolder/jit/cache/database_file.h"

namespace smolder::jit {
namespace {

constexpr int kBusyMs = 5000;

int64_t file_size(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

}  // namespace

auto CacheFile::guarded(auto work) {
  try {
    return work();
  } catch (const SqliteError& e) {
    raise<RuntimeError>("the kernel cache '", path_, "' cannot be read: ", e.what());
  }
}

CacheFile::CacheFile(const std::string& path) : path_(path) {
  guarded([&] {
    SMOLDER_CHECK(file_size(path) > 0, RuntimeError, "the kernel cache '", path,
                  "' cannot be read: there is no such file, or it is empty");
    Connection connection(path, Connection::Mode::kRead);
    connection.set_busy_wait(kBusyMs, nullptr);
    Store::check_schema(connection);
    const bool exported = connection.get_int("SELECT count(*) FROM origin") > 0;
    store_.emplace(std::move(connection), exported ? SecretKey{} : DatabaseFile::key_beside(path));
  });
}

std::string CacheFile::path_of(const DiskOptions& options) {
  return DatabaseFile(options.directory, options.busy_ms, nullptr).path();
}

void CacheFile::for_each(std::string_view kind, Detail detail, const std::function<bool(CacheRow&)>& visit,
                         std::string_view mentions) {
  guarded([&] { store_->for_each(kind, detail, visit, 0, mentions); });
}

std::optional<CacheRow> CacheFile::row(int64_t id) {
  std::optional<CacheRow> out;
  const auto take = [&](CacheRow& row) {
    out = std::move(row);
    return false;
  };
  guarded([&] { store_->for_each({}, Detail::kFull, take, id); });
  return out;
}

CacheStats CacheFile::stats() {
  return guarded([&] { return stats_of(*store_, path_, 0); });
}

VerifyReport CacheFile::verify() {
  try {
    std::vector<int64_t> broken;
    return check_rows(*store_, broken);
  } catch (const SqliteError& e) {
    VerifyReport report;
    report.complaints = e.what();
    return report;
  }
}

CacheStats stats_of(Store& store, const std::string& path, int64_t max_bytes) {
  CacheStats stats;
  stats.path = path;
  stats.rows = store.row_count();
  stats.live_bytes = store.live_bytes();
  stats.file_bytes = file_size(path);
  stats.log_bytes = file_size(path + "-wal");
  stats.max_bytes = max_bytes;
  stats.leased_rows = store.leased_row_count();
  for (const ProcessName& process : store.leasing_processes())
    stats.processes += liveness_of(process) != Liveness::kDead;
  stats.kinds = store.totals();
  return stats;
}

VerifyReport check_rows(Store& store, std::vector<int64_t>& broken) {
  VerifyReport report;
  report.complaints = store.integrity_complaints();
  store.for_each({}, Detail::kFull, [&](CacheRow& row) {
    ++report.rows;
    if (row.broken) broken.push_back(row.id);
    return true;
  });
  report.broken = static_cast<int64_t>(broken.size());
  return report;
}

}  // namespace smolder::jit
