#include "smolder/distributed/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <mutex>
#include <thread>

#include "smolder/core/interrupt.h"
#include "smolder/distributed/error.h"

namespace smolder::distributed {

std::string Store::get(const std::string& key) {
  wait({key}, timeout_);
  std::optional<std::string> value = find(key);
  if (!value) raise<DistStoreError>("the key '", key, "' of ", describe(), " was deleted while it was waited for");
  return *std::move(value);
}

void Store::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  Milliseconds pause{1};
  for (const std::string& key : keys) {
    while (!find(key)) {
      check_interrupt();
      const auto now = std::chrono::steady_clock::now();
      if (now >= until) {
        raise<DistStoreError>("wait timeout after ", timeout.count(), "ms, keys: /", key, ": no process has set it in ",
                              describe());
      }
      std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(pause, until - now));
      pause = std::min(pause * 2, Milliseconds{20});
    }
  }
}

// -- a map

std::optional<std::string> KeyValues::find(const std::string& key) const {
  const auto at = map_.find(key);
  return at == map_.end() ? std::nullopt : std::optional(at->second);
}

int64_t KeyValues::add(const std::string& key, int64_t amount) {
  int64_t now = 0;
  if (const auto at = map_.find(key); at != map_.end()) {
    const std::string& text = at->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), now);
    if (error != std::errc() || end != text.data() + text.size()) {
      raise<DistStoreError>("add: the value of the key '", key, "' is no number");
    }
  }
  now = static_cast<int64_t>(static_cast<uint64_t>(now) + static_cast<uint64_t>(amount));
  map_[key] = std::to_string(now);
  return now;
}

std::string KeyValues::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  const auto at = map_.find(key);
  if (at == map_.end()) {
    if (!expected.empty()) return expected;
    return map_[key] = desired;
  }
  if (at->second == expected) at->second = desired;
  return at->second;
}

// -- of one process

void HashStore::set(const std::string& key, const std::string& value) {
  const std::lock_guard hold(lock_);
  values_.set(key, value);
}
std::optional<std::string> HashStore::find(const std::string& key) {
  const std::lock_guard hold(lock_);
  return values_.find(key);
}
int64_t HashStore::add(const std::string& key, int64_t amount) {
  const std::lock_guard hold(lock_);
  return values_.add(key, amount);
}
std::string HashStore::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  const std::lock_guard hold(lock_);
  return values_.compare_set(key, expected, desired);
}
void HashStore::append(const std::string& key, const std::string& value) {
  const std::lock_guard hold(lock_);
  values_.append(key, value);
}
bool HashStore::erase(const std::string& key) {
  const std::lock_guard hold(lock_);
  return values_.erase(key);
}
int64_t HashStore::num_keys() {
  const std::lock_guard hold(lock_);
  return values_.size();
}

// -- a file
//
// "SMDSTOR1", then records: 'S' (set) or 'D' (delete), two lengths of four bytes, key and value.

namespace {

constexpr char kFileMagic[] = "SMDSTOR1";
constexpr size_t kMagicBytes = 8, kHeadBytes = 9;
constexpr uint32_t kMostBytes = 64 << 20;

[[noreturn]] void fail(const std::string& path, const char* what) {
  raise<DistStoreError>("the file store ", path, ": ", what, ": ", std::strerror(errno));
}

void write_all(int file, const std::string& bytes, const std::string& path) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "it cannot be written");
    done += static_cast<size_t>(n);
  }
}

std::string record(char kind, const std::string& key, const std::string& value) {
  if (key.size() > kMostBytes || value.size() > kMostBytes) {
    raise<DistStoreError>("a key or a value of more than ", kMostBytes >> 20, " MiB is not stored");
  }
  std::string out(kHeadBytes, kind);
  const auto of_key = static_cast<uint32_t>(key.size()), of_value = static_cast<uint32_t>(value.size());
  std::memcpy(out.data() + 1, &of_key, 4);
  std::memcpy(out.data() + 5, &of_value, 4);
  return out + key + value;
}

}  // namespace

/// The file under its lock, with all that others wrote read.
class FileStore::Locked {
 public:
  explicit Locked(FileStore& store) : store_(store), hold_(store.lock_) {
    file_ = ::open(store.path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file_ < 0) fail(store.path_, "it cannot be opened");
    try {
      while (::flock(file_, LOCK_EX) != 0) {
        if (errno != EINTR) fail(store.path_, "it cannot be locked");
      }
      read();
    } catch (...) {
      ::close(file_);
      throw;
    }
  }
  ~Locked() { ::close(file_); }
  Locked(const Locked&) = delete;

  void write(char kind, const std::string& key, const std::string& value) {
    write_all(file_, record(kind, key, value), store_.path_);
    read();
  }

 private:
  void read() {
    struct stat about{};
    if (::fstat(file_, &about) != 0) fail(store_.path_, "its size is not known");
    if (about.st_size == 0) {
      write_all(file_, std::string(kFileMagic, kMagicBytes), store_.path_);
      about.st_size = kMagicBytes;
    }
    if (store_.read_to_ == 0) {
      if (bytes(0, kMagicBytes) != std::string(kFileMagic, kMagicBytes)) {
        raise<DistStoreError>("the file ", store_.path_, " is no store of this version of Smolder's");
      }
      store_.read_to_ = kMagicBytes;
    }
    while (store_.read_to_ < about.st_size) {
      const std::string head = bytes(store_.read_to_, kHeadBytes);
      uint32_t of_key = 0, of_value = 0;
      std::memcpy(&of_key, head.data() + 1, 4);
      std::memcpy(&of_value, head.data() + 5, 4);
      if ((head[0] != 'S' && head[0] != 'D') || of_key > kMostBytes || of_value > kMostBytes) {
        raise<DistStoreError>("the file store ", store_.path_, " is damaged at byte ", store_.read_to_);
      }
      const std::string key = bytes(store_.read_to_ + static_cast<int64_t>(kHeadBytes), of_key);
      const std::string value = bytes(store_.read_to_ + static_cast<int64_t>(kHeadBytes) + of_key, of_value);
      head[0] == 'S' ? store_.values_.set(key, value) : static_cast<void>(store_.values_.erase(key));
      store_.read_to_ += static_cast<int64_t>(kHeadBytes) + of_key + of_value;
    }
  }

  std::string bytes(int64_t from, size_t count) const {
    std::string out(count, '\0');
    size_t done = 0;
    while (done < count) {
      const ssize_t n = ::pread(file_, out.data() + done, count - done, from + static_cast<int64_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) raise<DistStoreError>("the file store ", store_.path_, " ends within a record");
      done += static_cast<size_t>(n);
    }
    return out;
  }

  FileStore& store_;
  const std::lock_guard<ForkMutex> hold_;
  int file_ = -1;
};

FileStore::FileStore(std::string path, int64_t world_size, Milliseconds timeout)
    : Store(timeout), path_(std::move(path)), world_size_(world_size) {
  if (world_size_ > 0) add("users", 1);
}

FileStore::~FileStore() {
  if (world_size_ <= 0) return;
  try {
    if (add("users", -1) == 0) ::unlink(path_.c_str());
  } catch (const Error&) {  // it stays
  }
}

void FileStore::set(const std::string& key, const std::string& value) { Locked(*this).write('S', key, value); }
std::optional<std::string> FileStore::find(const std::string& key) {
  const Locked file(*this);
  return values_.find(key);
}
int64_t FileStore::add(const std::string& key, int64_t amount) {
  Locked file(*this);
  const int64_t sum = values_.add(key, amount);
  file.write('S', key, std::to_string(sum));
  return sum;
}
std::string FileStore::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  Locked file(*this);
  const std::optional<std::string> before = values_.find(key);
  const std::string after = values_.compare_set(key, expected, desired);
  if (values_.find(key) != before) file.write('S', key, after);
  return after;
}
void FileStore::append(const std::string& key, const std::string& value) {
  Locked file(*this);
  file.write('S', key, values_.find(key).value_or("") + value);
}
bool FileStore::erase(const std::string& key) {
  Locked file(*this);
  if (!values_.find(key)) return false;
  file.write('D', key, "");
  return true;
}
int64_t FileStore::num_keys() {
  const Locked file(*this);
  return values_.size();
}

}  // namespace smolder::distributed
