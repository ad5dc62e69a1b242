#include "smolder/jit/cache/sqlite.h"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace smolder::jit {
namespace {

// Bytes of a row: twice what waits to be written at most. A damaged row may say that it is a gigabyte.
constexpr int kLongestValue = 128 << 20;

SqliteFault fault_of(int code) {
  if (code == SQLITE_IOERR_SHORT_READ || code == SQLITE_IOERR_CORRUPTFS || code == SQLITE_IOERR_DATA)
    return SqliteFault::kDamaged;
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CONSTRAINT:  // our statements break no constraint: an index and its table disagree
    case SQLITE_FORMAT:
      return SqliteFault::kDamaged;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return SqliteFault::kBusy;
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
      return SqliteFault::kFull;
    case SQLITE_ERROR:
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
    case SQLITE_MISMATCH:
      return SqliteFault::kMisuse;
    default:
      return SqliteFault::kUnavailable;
  }
}

[[noreturn]] void fail(sqlite3* db, int code, const char* doing) {
  std::string what = std::string("SQLite: ") + doing + ": " + sqlite3_errstr(code);
  if (db) what += std::string(" (") + sqlite3_errmsg(db) + ")";
  throw SqliteError(fault_of(code), what);
}

}  // namespace

Connection::Connection(const std::string& path, Mode mode) {
  int flags = mode == Mode::kRead ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  if (mode == Mode::kCreate) flags |= SQLITE_OPEN_CREATE;
  // One thread at a time by the caller's lock, so SQLite's own mutexes would only cost.
  flags |= SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.c_str(), &db_, flags, nullptr);
  if (code == SQLITE_OK) {
    sqlite3_limit(db_, SQLITE_LIMIT_LENGTH, kLongestValue);
    return;
  }
  std::string what = "SQLite: opening '" + path + "': " + sqlite3_errstr(code);
  sqlite3_close_v2(std::exchange(db_, nullptr));
  throw SqliteError(fault_of(code), what);
}

Connection::Connection(Connection&& other) noexcept
    : db_(std::exchange(other.db_, nullptr)), busy_(std::exchange(other.busy_, nullptr)) {}

Connection& Connection::operator=(Connection&& other) noexcept {
  std::swap(db_, other.db_);
  std::swap(busy_, other.busy_);
  return *this;
}

Connection::~Connection() {
  if (db_) sqlite3_close_v2(db_);
  delete busy_;
}

int Connection::on_busy(void* self, int calls) {
  const auto& wait = *static_cast<const BusyWait*>(self);
  // SQLite counts calls for one lock, and each call sleeps 1 ms, so calls measure the time.
  if (calls >= wait.milliseconds || (wait.give_up && wait.give_up->load(std::memory_order_relaxed))) return 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return 1;
}

void Connection::set_busy_wait(int milliseconds, const std::atomic<bool>* give_up) {
  if (!busy_) busy_ = new BusyWait;
  *busy_ = {milliseconds, give_up};
  sqlite3_busy_handler(db_, &Connection::on_busy, busy_);
}

void Connection::run(const char* sql) {
  if (const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr); code != SQLITE_OK) fail(db_, code, sql);
}

int64_t Connection::get_int(const char* sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.get_int(0) : 0;
}

std::string Connection::get_text(const char* sql) {
  Statement statement(*this, sql);
  return statement.step() ? std::string(statement.get_bytes(0)) : std::string();
}

int64_t Connection::changes() const { return sqlite3_changes64(db_); }
int64_t Connection::last_insert_id() const { return sqlite3_last_insert_rowid(db_); }
void Connection::keep_log_on_close() { sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr); }

Statement::Statement(const Connection& connection, const char* sql) {
  sqlite3* db = connection.handle();
  const int code = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
  if (code != SQLITE_OK) fail(db, code, sql);
}

Statement::Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(statement_, other.statement_);
  return *this;
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_, index, value);
  return *this;
}

Statement& Statement::bind(int index, double value) {
  sqlite3_bind_double(statement_, index, value);
  return *this;
}

// SQLite reads a null pointer as NULL; an empty view may hold one and means an empty value.
Statement& Statement::bind_text(int index, std::string_view value) {
  sqlite3_bind_text64(statement_, index, value.data() ? value.data() : "", value.size(), SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind_blob(int index, std::string_view value) {
  sqlite3_bind_blob64(statement_, index, value.data() ? value.data() : "", value.size(), SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind(int index, const Hash128& value) {
  char bytes[16];
  std::memcpy(bytes, &value.lo, 8);
  std::memcpy(bytes + 8, &value.hi, 8);
  sqlite3_bind_blob(statement_, index, bytes, sizeof bytes, SQLITE_TRANSIENT);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  sqlite3* db = sqlite3_db_handle(statement_);
  fail(db, sqlite3_extended_errcode(db), sqlite3_sql(statement_));
}

void Statement::reset() noexcept {
  if (!statement_) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void Statement::run() {
  const ResetGuard guard(*this);
  while (step()) {
  }
}

int64_t Statement::get_int(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::get_double(int column) const { return sqlite3_column_double(statement_, column); }

std::string_view Statement::get_bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
  return data ? std::string_view(static_cast<const char*>(data), size) : std::string_view();
}

Hash128 Statement::get_hash(int column) const {
  const std::string_view bytes = get_bytes(column);
  Hash128 h;
  if (bytes.size() != 16) return h;
  std::memcpy(&h.lo, bytes.data(), 8);
  std::memcpy(&h.hi, bytes.data() + 8, 8);
  return h;
}

Transaction::Transaction(Connection& connection) : connection_(connection) { connection_.run("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  // An error may have rolled back already; a second ROLLBACK then fails and means nothing.
  if (open_) sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  connection_.run("COMMIT");
  open_ = false;
}

}  // namespace smolder::jit
