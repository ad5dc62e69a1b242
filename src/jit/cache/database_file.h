// The cache database as a file: made, opened, recognised as damaged, set aside.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "smolder/jit/cache/store.h"

namespace smolder::jit {

/// Which file a connection has open; a path may since name another.
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
/// Zeros when there is no such file.
FileIdentity identity_of(const std::string& path);

/// The cache database of one directory. Making, opening and setting aside are serialised among
/// processes by a lock on a file beside it, so nobody sees a half-made or half-renamed database.
class DatabaseFile {
 public:
  /// `give_up` (may be null) cuts waiting short; it must outlive the object and its connections.
  DatabaseFile(std::string directory, int busy_ms, const std::atomic<bool>* give_up);

  const std::string& path() const { return path_; }

  struct Opened {
    Store store;
    FileIdentity identity;
  };
  /// Opens the database, making directory and file when missing. A damaged one is set aside first,
  /// with one warning. Throws SqliteError: kUnavailable where this place cannot hold a cache, or others can write it.
  Opened open();

  /// Renames the database to PATH.damaged-TIME, with its log, when it is still the file `seen`: another
  /// process may have done so already. True when this call did it. Throws SqliteError.
  bool set_aside(const FileIdentity& seen, const std::string& why);

  /// The key that signs rows of the database at `path`; zeros where we have no key to it.
  static SecretKey key_beside(const std::string& path);

  /// Makes an empty database at `path`, which must not exist: whole at once, by a rename.
  static void create(const std::string& path);

 private:
  Opened open_locked(const SecretKey& key);
  Opened open_or_replace(const SecretKey& key);
  void rename_damaged(const std::string& why);
  void check_place() const;

  std::string directory_, path_;
  int busy_ms_;
  const std::atomic<bool>* give_up_;
};

}  // namespace smolder::jit
