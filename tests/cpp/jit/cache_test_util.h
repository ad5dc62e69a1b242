// Shared by the kernel cache tests: scratch directories, records that carry their own proof, workers.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "smolder/jit/cache/disk.h"

namespace smolder::jit::test {

/// A directory of its own, removed with the object.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string database() const;
  DiskOptions options(int64_t max_bytes = int64_t{1} << 30) const;
  /// Names in the directory that contain `part`, sorted.
  std::vector<std::string> names(const std::string& part) const;

 private:
  std::string path_;
};

/// Divides the rounds of long tests: under sanitizers a process takes ten times as long to start.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int kSlowdown = 5;
#else
inline constexpr int kSlowdown = 1;
#endif

/// A record whose every field follows from `n`: a payload of about `bytes`, pseudo-random.
CacheRecord make_record(int n, size_t bytes = 3000);
/// True when `found` holds exactly what make_record(n, bytes) made.
bool same_content(const CacheRecord& found, const CacheRecord& made);

int64_t count_of(const std::string& counter_name);
/// Times `part` occurs in `text`.
int occurrences(const std::string& text, const std::string& part);

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& content);

/// A new process of this test binary that runs the disabled test CacheWorker.DISABLED_Run, with
/// `arguments` (words without blanks) in SMOLDER_CACHE_WORKER. It tells us that it is ready by a byte
/// on its descriptor 3, and may wait for a byte on descriptor 0.
class Worker {
 public:
  explicit Worker(const std::vector<std::string>& arguments);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// False when the worker ended without having been ready.
  bool wait_ready();
  /// kill -9, and waits for its end.
  void kill_now();
  void release();
  /// Waits for its end; its exit code, or minus the signal that killed it.
  int wait();

 private:
  pid_t pid_ = -1;
  int from_worker_ = -1, to_worker_ = -1;
};

}  // namespace smolder::jit::test
