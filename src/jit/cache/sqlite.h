// A thin owner of SQLite connections and statements: errors become SqliteError, sorted by what the
// cache must do about them. sqlite3.h itself is included by sqlite.cpp alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "smolder/core/hash.h"

struct sqlite3;
struct sqlite3_stmt;

namespace smolder::jit {

/// The meaning of a failed call for the caller.
enum class SqliteFault {
  kDamaged,      ///< the file is not the database it should be: set it aside
  kBusy,         ///< another process holds the lock for longer than the busy timeout: try later
  kFull,         ///< no room, or a value too large: this write is lost, later ones may succeed
  kUnavailable,  ///< cannot be opened, locked, read or written here
  kMisuse,       ///< the statement is wrong: the schema is not ours, or a bug of ours
};

class SqliteError : public std::runtime_error {
 public:
  SqliteError(SqliteFault fault, const std::string& what) : std::runtime_error(what), fault_(fault) {}
  SqliteFault fault() const { return fault_; }

 private:
  SqliteFault fault_;
};

/// One connection, used by one thread at a time (the caller locks). Never use, or close, across a fork.
class Connection {
 public:
  enum class Mode { kRead, kWrite, kCreate };

  Connection() = default;
  /// Opens a file, which must exist unless `mode` is kCreate. Throws SqliteError.
  Connection(const std::string& path, Mode mode);
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;
  ~Connection();

  /// Waits up to `milliseconds` on a lock held elsewhere, less when `*give_up` turns true. `give_up`
  /// may be null; it must outlive the connection.
  void set_busy_wait(int milliseconds, const std::atomic<bool>* give_up);
  /// Runs statements that return no rows worth reading.
  void run(const char* sql);
  /// First column of the first row, as integer or text.
  int64_t get_int(const char* sql);
  std::string get_text(const char* sql);
  /// Rows changed by the last INSERT, UPDATE or DELETE, and the row id of the last INSERT.
  int64_t changes() const;
  int64_t last_insert_id() const;
  /// Leaves the log in place on close. Else the last to close copies it into the file, which costs a
  /// flush to disk, and unlinks it by name, which may by then be another database's.
  void keep_log_on_close();
  sqlite3* handle() const { return db_; }

 private:
  struct BusyWait {
    int milliseconds = 0;
    const std::atomic<bool>* give_up = nullptr;
  };
  static int on_busy(void* self, int calls);

  sqlite3* db_ = nullptr;
  BusyWait* busy_ = nullptr;  // on the heap: SQLite keeps its address while the connection may move
};

/// A prepared statement. Parameters are numbered from 1, columns from 0. Bound text and blobs are not
/// copied: they must live until reset().
class Statement {
 public:
  Statement() = default;
  /// Throws SqliteError (kMisuse when the schema lacks what the statement names).
  Statement(const Connection& connection, const char* sql);
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();
  explicit operator bool() const { return statement_ != nullptr; }

  Statement& bind(int index, int64_t value);
  Statement& bind(int index, double value);
  Statement& bind_text(int index, std::string_view value);
  Statement& bind_blob(int index, std::string_view value);
  Statement& bind(int index, const Hash128& value);

  /// True when a row is ready, false at the end. Throws SqliteError.
  bool step();
  /// Ends the statement and its read transaction; keeps nothing bound.
  void reset() noexcept;
  /// step() to the end, then reset().
  void run();

  int64_t get_int(int column) const;
  double get_double(int column) const;
  /// Valid until the next step() or reset().
  std::string_view get_bytes(int column) const;
  /// Zero when the column does not hold 16 bytes.
  Hash128 get_hash(int column) const;

 private:
  sqlite3_stmt* statement_ = nullptr;
};

/// Resets a statement when the scope ends, also by an exception: an open read would hold the log.
class ResetGuard {
 public:
  explicit ResetGuard(Statement& statement) : statement_(statement) {}
  ~ResetGuard() { statement_.reset(); }
  ResetGuard(const ResetGuard&) = delete;
  ResetGuard& operator=(const ResetGuard&) = delete;

 private:
  Statement& statement_;
};

/// A write transaction: rolled back unless commit() was reached.
class Transaction {
 public:
  explicit Transaction(Connection& connection);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Connection& connection_;
  bool open_ = true;
};

}  // namespace smolder::jit
