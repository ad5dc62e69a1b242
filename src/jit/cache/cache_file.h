// A cache database read as a file: for tools, while other processes use it, and for exported ones.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "smolder/jit/cache/disk.h"

namespace smolder::jit {

/// Changes nothing: makes no database, takes no lease, and sets no damaged one aside. Not thread-safe. Every member may
/// throw RuntimeError, when the file turns out to be damaged or stays locked.
class CacheFile {
 public:
  /// Throws RuntimeError unless `path` is a database of ours.
  explicit CacheFile(const std::string& path);

  /// Where DiskCache keeps the database of these options.
  static std::string path_of(const DiskOptions& options);

  /// As DiskCache::for_each(); no rows whose payload does not hold `mentions`.
  void for_each(std::string_view kind, Detail detail, const std::function<bool(CacheRow&)>& visit,
                std::string_view mentions = {});
  /// One row by its id, with everything; nothing when it is gone.
  std::optional<CacheRow> row(int64_t id);
  /// With max_bytes of 0.
  CacheStats stats();
  /// Checks every row and the file; repairs nothing.
  VerifyReport verify();

 private:
  auto guarded(auto work);

  std::string path_;
  std::optional<Store> store_;
};

/// Result of a cache's stats().
CacheStats stats_of(Store& store, const std::string& path, int64_t max_bytes);
/// Result of verify() before any repair; `broken` receives the ids of broken rows. Throws SqliteError.
VerifyReport check_rows(Store& store, std::vector<int64_t>& broken);

}  // namespace smolder::jit
