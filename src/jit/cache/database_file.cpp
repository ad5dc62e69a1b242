#include "smolder/jit/cache/database_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "smolder/core/counters.h"

namespace smolder::jit {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKeptDamagedFiles = 3;

[[noreturn]] void unavailable(const std::string& what) { throw SqliteError(SqliteFault::kUnavailable, what); }

std::string log_of(const std::string& path) { return path + "-wal"; }
std::string index_of(const std::string& path) { return path + "-shm"; }

/// An exclusive lock among processes, held while the object lives; a killed holder drops it.
class DirectoryLock {
 public:
  DirectoryLock(const std::string& path, int wait_ms, const std::atomic<bool>* give_up) {
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file_ < 0) unavailable("cannot write '" + path + "': " + std::strerror(errno));
    for (int waited = 0; flock(file_, LOCK_EX | LOCK_NB) != 0; ++waited) {
      const int error = errno;
      const bool again = error == EWOULDBLOCK || error == EINTR;
      const bool stop = waited >= wait_ms || (give_up && give_up->load(std::memory_order_relaxed));
      if (again && !stop) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      ::close(file_);
      if (again && waited < wait_ms) throw SqliteError(SqliteFault::kBusy, "gave up waiting for '" + path + "'");
      unavailable(again ? "another process holds '" + path + "' locked"
                        : "cannot lock '" + path + "': " + std::strerror(error));
    }
  }
  ~DirectoryLock() { ::close(file_); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int file_;
};

/// A directory that only we can write, as long as the object lives the same one: by descriptor, whatever becomes of its
/// name. Of files only names are opened (O_PATH), since closing a file would drop the locks that SQLite has on it.
class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {
    at_ = ::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at_ < 0) unavailable("cannot open '" + path_ + "': " + std::strerror(errno));
    try {
      check_ours(at_, path_, S_IFDIR);
    } catch (...) {
      ::close(at_);
      throw;
    }
  }
  ~Folder() { ::close(at_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  /// Throws unless the database at `path`, in here, and what SQLite keeps beside it are ours, or not there.
  void check_database(const std::string& path) const {
    for (const std::string& name : {path, log_of(path), index_of(path)}) {
      const int file = ::openat(at_, fs::path(name).filename().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
      if (file >= 0) {
        const Closed closed{file};
        check_ours(file, name, S_IFREG);
      } else if (errno != ENOENT) {
        unavailable("cannot open '" + name + "': " + std::strerror(errno));
      }
    }
  }
  /// Throws unless its name is still its own.
  void check_name() const {
    struct stat here{}, named{};
    if (fstat(at_, &here) != 0 || stat(path_.c_str(), &named) != 0 || here.st_dev != named.st_dev ||
        here.st_ino != named.st_ino)
      unavailable("'" + path_ + "' became another directory while it was opened");
  }

  /// The key that signs rows; empty where there is none, or none whole.
  std::optional<SecretKey> read_key() const {
    const int file = ::openat(at_, "key", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 && errno == ENOENT) return std::nullopt;
    if (file < 0) unavailable("cannot read '" + path_ + "/key': " + std::strerror(errno));
    const Closed closed{file};
    const struct stat info = check_ours(file, path_ + "/key", S_IFREG);
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
      unavailable("'" + path_ + "/key' can be read by other users, who could sign code with it; remove it");
    SecretKey key;
    return ::read(file, key.data(), sizeof key) == sizeof key ? std::optional(key) : std::nullopt;
  }
  SecretKey make_key() const {
    SecretKey key;
    if (getrandom(key.data(), sizeof key, 0) != sizeof key) unavailable("the system gives no random numbers");
    unlinkat(at_, "key.new", 0);  // left by a process killed here
    const int file = ::openat(at_, "key.new", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) unavailable("cannot write '" + path_ + "/key': " + std::strerror(errno));
    const Closed closed{file};
    if (::write(file, key.data(), sizeof key) != sizeof key || renameat(at_, "key.new", at_, "key") != 0)
      unavailable("cannot write '" + path_ + "/key': " + std::strerror(errno));
    return key;
  }

 private:
  struct Closed {
    int file;
    ~Closed() { ::close(file); }
  };
  static struct stat check_ours(int file, const std::string& name, mode_t type) {
    struct stat info{};
    if (fstat(file, &info) != 0) unavailable("cannot look at '" + name + "': " + std::strerror(errno));
    const bool is_ours = (info.st_mode & S_IFMT) == type && info.st_uid == geteuid();
    if (!is_ours || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
      unavailable("'" + name + "' " + (is_ours ? "can be written by other users" : "is not a file of this user's own") +
                  ", and what it holds would be run as code");
    return info;
  }

  std::string path_;
  int at_ = -1;
};

/// SQLite's log shares memory between processes, which hosts on a network file system cannot.
const char* network_file_system(const std::string& directory) {
  struct statfs info{};
  if (statfs(directory.c_str(), &info) != 0) return nullptr;
  switch (static_cast<unsigned long>(info.f_type) & 0xfffffffful) {
    case NFS_SUPER_MAGIC:
      return "NFS";
    case SMB_SUPER_MAGIC:
    case 0xff534d42ul:  // CIFS
    case 0xfe534d42ul:  // SMB2
      return "SMB";
    case AFS_SUPER_MAGIC:
    case AFS_FS_MAGIC:
      return "AFS";
    case CODA_SUPER_MAGIC:
      return "Coda";
    case CEPH_SUPER_MAGIC:
      return "Ceph";
    case 0x0bd00bd0ul:
      return "Lustre";
    case 0x47504653ul:
      return "GPFS";
    default:
      return nullptr;
  }
}

/// Directories are made private: what lies in them is run as code.
void make_directories(const std::string& directory) {
  fs::path made;
  for (const fs::path& part : fs::path(directory)) {
    made /= part;
    if (mkdir(made.c_str(), 0700) == 0) continue;
    const int error = errno;
    std::error_code ignored;
    if (!fs::is_directory(made, ignored))
      unavailable("cannot make the directory '" + made.string() + "': " + std::strerror(error));
  }
}

void remove_database(const std::string& path) {
  for (const std::string& name : {path, log_of(path), index_of(path)}) unlink(name.c_str());
}

/// A failing disk must not fill itself with damaged copies. Names sort by time, unless the clock was set back: `newest`
/// stays in any case.
void drop_old_damaged(const std::string& prefix, const std::string& newest) {
  std::vector<std::string> kept;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(prefix).parent_path(), ignored)) {
    const std::string name = entry.path().string();
    if (name.starts_with(prefix) && !name.ends_with("-wal") && name != newest) kept.push_back(name);
  }
  std::sort(kept.begin(), kept.end());
  for (size_t i = 0; i + kKeptDamagedFiles - 1 < kept.size(); ++i) remove_database(kept[i]);
}

/// No memory mapping: it saves 2 to 5 us a lookup, and turns a failing disk, or a file cut short by
/// somebody else, into a SIGBUS.
void configure(Connection& connection, int busy_ms, const std::atomic<bool>* give_up) {
  connection.set_busy_wait(busy_ms, give_up);
  connection.keep_log_on_close();
  connection.run(
      "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA synchronous = NORMAL;"
      "PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 8388608;"
      "PRAGMA mmap_size = 0");
}

}  // namespace

FileIdentity identity_of(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return {};
  return {static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino)};
}

DatabaseFile::DatabaseFile(std::string directory, int busy_ms, const std::atomic<bool>* give_up)
    : directory_(std::move(directory)),
      path_(directory_ + "/cache-v" + std::to_string(Store::kVersion) + ".db"),
      busy_ms_(busy_ms),
      give_up_(give_up) {}

DatabaseFile::Opened DatabaseFile::open() {
  make_directories(directory_);
  check_place();
  const Folder folder(directory_);
  const DirectoryLock lock(directory_ + "/lock", busy_ms_, give_up_);
  folder.check_database(path_);
  std::optional<SecretKey> key = folder.read_key();
  if (!key) {
    remove_database(path_);  // nobody can tell its rows from those of others
    key = folder.make_key();
  }
  Opened opened = open_or_replace(*key);
  // SQLite opens by name: the names are to be of the same files still, and those that it made are to be ours.
  folder.check_database(path_);
  folder.check_name();
  return opened;
}

DatabaseFile::Opened DatabaseFile::open_or_replace(const SecretKey& key) {
  try {
    return open_locked(key);
  } catch (const SqliteError& e) {
    if (e.fault() != SqliteFault::kDamaged && e.fault() != SqliteFault::kMisuse) throw;
    rename_damaged(e.what());
  }
  return open_locked(key);
}

SecretKey DatabaseFile::key_beside(const std::string& path) {
  const size_t end = path.rfind('/');
  try {
    return Folder(end == std::string::npos ? "." : path.substr(0, end + 1)).read_key().value_or(SecretKey{});
  } catch (const SqliteError&) {
    return {};
  }
}

void DatabaseFile::check_place() const {
  if (const char* name = network_file_system(directory_))
    unavailable("'" + directory_ + "' is on a network file system (" + name + "), where the database cannot be shared");
}

DatabaseFile::Opened DatabaseFile::open_locked(const SecretKey& key) {
  struct stat info{};
  if (stat(path_.c_str(), &info) != 0) {
    // A log left without its database belongs to none, but SQLite would apply it to the new one.
    remove_database(path_);
    create(path_);
  } else if (info.st_size == 0) {
    // To SQLite an empty file is an empty database; ours appear whole, so this one was cut off.
    throw SqliteError(SqliteFault::kDamaged, "the file is empty");
  }
  Connection connection(path_, Connection::Mode::kWrite);
  configure(connection, busy_ms_, give_up_);
  Store::check_schema(connection);
  if (connection.get_text("PRAGMA journal_mode = WAL") != "wal")
    unavailable("the file system of '" + path_ + "' cannot hold a shared log");
  connection.get_int("SELECT id FROM record LIMIT 1");  // opens the log, and replays one left by a kill
  return {Store(std::move(connection), key), identity_of(path_)};
}

void DatabaseFile::create(const std::string& path) {
  const std::string fresh = path + ".new";
  remove_database(fresh);  // left by a process killed here
  {
    Connection connection(fresh, Connection::Mode::kCreate);
    Store::create_schema(connection);
  }  // closing empties the log into the file and removes it
  if (rename(fresh.c_str(), path.c_str()) != 0) unavailable("cannot make '" + path + "': " + std::strerror(errno));
}

bool DatabaseFile::set_aside(const FileIdentity& seen, const std::string& why) {
  const DirectoryLock lock(directory_ + "/lock", busy_ms_, give_up_);
  if (identity_of(path_) != seen) return false;
  rename_damaged(why);
  return true;
}

void DatabaseFile::rename_damaged(const std::string& why) {
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%S", &utc);
  const std::string prefix = path_ + ".damaged-";
  std::string aside = prefix + stamp;
  for (int n = 2; access(aside.c_str(), F_OK) == 0; ++n) aside = prefix + stamp + "-" + std::to_string(n);
  if (rename(path_.c_str(), aside.c_str()) != 0)
    unavailable("cannot set the damaged database '" + path_ + "' aside: " + std::strerror(errno));
  // Processes that still have the old file open go on with it by descriptor and notice before their next
  // write; names are not theirs to unlink (keep_log_on_close).
  rename(log_of(path_).c_str(), log_of(aside).c_str());
  unlink(index_of(path_).c_str());

  static Counter& count = counter("cache.databases_set_aside");
  count.add();
  warn("cache", "the kernel cache '" + path_ + "' is damaged: " + why + ". It was set aside as '" + aside +
                    "' and is built anew.");

  drop_old_damaged(prefix, aside);
}

}  // namespace smolder::jit
