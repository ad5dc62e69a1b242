#include "smolder/jit/cache/store.h"

#include <algorithm>
#include <utility>

namespace smolder::jit {
namespace {

constexpr int64_t kApplicationId = 0x534d4b43;  // "SMKC", in the file's header
// Leases of processes that cannot be asked (another container) run out after a day unseen.
constexpr int64_t kUnknownLeaseMs = int64_t{24} * 3600 * 1000;

// Small columns stand first: SQLite walks a row's overflow pages in order. What changes with use is
// apart from the payload, so that counting a hit rewrites 30 bytes; so is the source, which no lookup
// needs. Free pages go back to the file system on prune (incremental vacuum).
constexpr const char* kSchema = R"sql(
CREATE TABLE record (
  id INTEGER PRIMARY KEY,
  slot BLOB NOT NULL,            -- digest of kind, key, target
  structure_hash BLOB NOT NULL,
  kind TEXT NOT NULL,
  key BLOB NOT NULL,
  build_ms REAL NOT NULL,
  created INTEGER NOT NULL,
  checksum BLOB NOT NULL,
  place TEXT NOT NULL,
  name TEXT NOT NULL,
  target TEXT NOT NULL,
  structure BLOB NOT NULL,
  payload BLOB NOT NULL,
  UNIQUE (slot, structure_hash));
CREATE TABLE source (
  id INTEGER PRIMARY KEY,
  checksum BLOB NOT NULL,
  text TEXT NOT NULL);
CREATE TABLE usage (
  id INTEGER PRIMARY KEY,
  last_use INTEGER NOT NULL,
  hits INTEGER NOT NULL,
  bytes INTEGER NOT NULL);
CREATE INDEX usage_by_time ON usage (last_use);
CREATE TABLE process (
  id INTEGER PRIMARY KEY,
  pid INTEGER NOT NULL,
  start INTEGER NOT NULL,
  host TEXT NOT NULL,
  seen INTEGER NOT NULL);
CREATE TABLE lease (
  record INTEGER NOT NULL,
  process INTEGER NOT NULL,
  PRIMARY KEY (record, process)) WITHOUT ROWID;
CREATE INDEX lease_by_process ON lease (process);
CREATE TABLE origin (
  signature BLOB NOT NULL);        -- of an exported file: by the key of the cache that it is of
)sql";

/// Reads columns kind, key, build_ms, created, checksum, place, name, target, structure, payload
/// from `first` on; false when the checksum does not hold.
bool read_record(const Statement& row, int first, CacheRecord& out, const SecretKey& key) {
  out.kind = row.get_bytes(first);
  out.key = row.get_hash(first + 1);
  out.build_ms = row.get_double(first + 2);
  out.created = row.get_int(first + 3);
  const Hash128 checksum = row.get_hash(first + 4);
  out.where = row.get_bytes(first + 5);
  out.name = row.get_bytes(first + 6);
  out.target = row.get_bytes(first + 7);
  out.structure = row.get_bytes(first + 8);
  out.payload = row.get_bytes(first + 9);
  return checksum == checksum_of(out, key);
}

/// Reads columns checksum and text of a record's source from `first` on (NULL when it has none).
bool read_source(const Statement& row, int first, CacheRecord& out, const SecretKey& key) {
  out.source = row.get_bytes(first + 1);
  return out.source.empty() || row.get_hash(first) == source_checksum_of(out, key);
}

int64_t size_of(const CacheRecord& r) {
  return static_cast<int64_t>(r.kind.size() + r.structure.size() + r.target.size() + r.payload.size() +
                              r.source.size() + r.where.size() + r.name.size());
}

}  // namespace

enum Store::Query : int {
  kFind,
  kPutRecord,
  kPutSource,
  kDropSource,
  kPutUsage,
  kUse,
  kLastUse,
  kIdOf,
  kReadRow,
  kDeleteRecord,
  kDeleteUsage,
  kDeleteLeases,
  kAddProcess,
  kSeeProcess,
  kListProcesses,
  kDropProcess,
  kDropProcessLeases,
  kLease,
  kRelease,
  kOldest,
  kPageCount,
  kFreePages,
  kPageSize,
  kRowCount,
};

Statement& Store::query(Query which) {
  static constexpr auto kText = [] {
    std::array<const char*, kQueryCount> text{};
    text[kFind] =
        "SELECT id, kind, key, build_ms, created, checksum, place, name, target, structure, payload"
        " FROM record WHERE slot = ?1";
    text[kPutRecord] =
        "INSERT INTO record (slot, structure_hash, kind, key, build_ms, created, checksum, place, name, target,"
        " structure, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
        " ON CONFLICT (slot, structure_hash) DO UPDATE SET kind = excluded.kind, key = excluded.key,"
        " build_ms = excluded.build_ms, created = excluded.created, checksum = excluded.checksum,"
        " place = excluded.place, name = excluded.name, target = excluded.target, structure = excluded.structure,"
        " payload = excluded.payload RETURNING id";
    text[kPutSource] = "INSERT OR REPLACE INTO source (id, checksum, text) VALUES (?1, ?2, ?3)";
    text[kDropSource] = "DELETE FROM source WHERE id = ?1";
    text[kPutUsage] =
        "INSERT INTO usage (id, last_use, hits, bytes) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO UPDATE SET"
        " last_use = max(last_use, excluded.last_use), hits = max(hits, excluded.hits), bytes = excluded.bytes";
    text[kUse] = "UPDATE usage SET hits = hits + ?2, last_use = max(last_use, ?3) WHERE id = ?1";
    text[kLastUse] = "SELECT max(last_use) FROM usage";
    text[kIdOf] = "SELECT id FROM record WHERE slot = ?1 AND structure_hash = ?2";
    text[kReadRow] =
        "SELECT r.kind, r.key, r.build_ms, r.created, r.checksum, r.place, r.name, r.target, r.structure,"
        " r.payload, s.checksum, s.text FROM record r LEFT JOIN source s ON s.id = r.id WHERE r.id = ?1";
    text[kDeleteRecord] = "DELETE FROM record WHERE id = ?1";
    text[kDeleteUsage] = "DELETE FROM usage WHERE id = ?1";
    text[kDeleteLeases] = "DELETE FROM lease WHERE record = ?1";
    text[kAddProcess] = "INSERT INTO process (pid, start, host, seen) VALUES (?1, ?2, ?3, ?4)";
    text[kSeeProcess] = "UPDATE process SET seen = ?4 WHERE id = ?5 AND pid = ?1 AND start = ?2 AND host = ?3";
    text[kListProcesses] = "SELECT id, pid, start, host, seen FROM process";
    text[kDropProcess] = "DELETE FROM process WHERE id = ?1";
    text[kDropProcessLeases] = "DELETE FROM lease WHERE process = ?1";
    // A row that another process dropped meanwhile must not leave a lease on whatever takes its id.
    text[kLease] = "INSERT OR IGNORE INTO lease (record, process) SELECT id, ?2 FROM usage WHERE id = ?1";
    text[kRelease] = "DELETE FROM lease WHERE record = ?1 AND process = ?2";
    text[kOldest] =
        "SELECT id FROM usage WHERE NOT EXISTS (SELECT 1 FROM lease WHERE lease.record = usage.id)"
        " ORDER BY last_use, id LIMIT 64";
    text[kPageCount] = "PRAGMA page_count";
    text[kFreePages] = "PRAGMA freelist_count";
    text[kPageSize] = "PRAGMA page_size";
    text[kRowCount] = "SELECT count(*) FROM usage";
    return text;
  }();
  Statement& statement = queries_[which];
  if (!statement) statement = Statement(connection_, kText[which]);
  return statement;
}

RowKey row_key_of(const CacheKey& key) {
  return {slot_of(key), hash_bytes(key.structure.data(), key.structure.size())};
}

Store::Store(Connection connection, const SecretKey& key) : connection_(std::move(connection)), key_(key) {
  query(kFind);
}

void Store::create_schema(Connection& connection) {
  // Unflushed: a first step must not wait for the disk. If power fails before the system has written the
  // file, what is left is recognised as damaged, and it was empty.
  connection.run(
      "PRAGMA synchronous = OFF; PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL;"
      "PRAGMA journal_mode = WAL");
  Transaction transaction(connection);
  connection.run(kSchema);
  connection.run(("PRAGMA application_id = " + std::to_string(kApplicationId) +
                  "; PRAGMA user_version = " + std::to_string(kVersion))
                     .c_str());
  transaction.commit();
}

void Store::check_schema(Connection& connection) {
  connection.run("PRAGMA trusted_schema = OFF");
  const int64_t application = connection.get_int("PRAGMA application_id");
  const int64_t version = connection.get_int("PRAGMA user_version");
  if (application != kApplicationId || version != kVersion)
    throw SqliteError(SqliteFault::kDamaged, "it is not a Smolder cache of version " + std::to_string(kVersion) +
                                                 " (application id " + std::to_string(application) + ", version " +
                                                 std::to_string(version) + ")");
  // A table of a file may be a program: a view that never ends, a column computed to any size.
  const int64_t programs = connection.get_int(
      "SELECT (SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR coalesce(rootpage, 0) = 0) +"
      " (SELECT count(*) FROM sqlite_schema t JOIN pragma_table_xinfo(t.name) c WHERE t.type = 'table' AND c.hidden)");
  if (programs != 0)
    throw SqliteError(SqliteFault::kDamaged, "it has views, triggers or computed columns, which no Smolder cache has");
}

Store::FindResult Store::find(const CacheKey& key) {
  FindResult result;
  Statement& rows = query(kFind);
  const ResetGuard guard(rows);
  rows.bind(1, slot_of(key));
  while (rows.step()) {
    const int64_t id = rows.get_int(0);
    CacheRecord& record = result.record;
    if (!read_record(rows, 1, record, key_)) {
      result.broken.push_back(id);
    } else if (record.kind != key.kind || record.key != key.key || record.target != key.target) {
      // The row is whole and belongs to another slot: the index that led here is not.
      throw SqliteError(SqliteFault::kDamaged, "an index of the cache database names the wrong row");
    } else if (record.structure == key.structure) {
      result.found = Found::kHit;
      result.id = id;
      return result;
    } else {
      result.found = Found::kCollision;
    }
  }
  result.record = {};
  return result;
}

void Store::put(const CacheRecord& record) {
  const RowKey at = row_key_of(record.cache_key());
  Statement& insert = query(kPutRecord);
  int64_t id = 0;
  {
    const ResetGuard guard(insert);
    insert.bind(1, at.slot).bind(2, at.structure).bind_text(3, record.kind).bind(4, record.key);
    insert.bind(5, record.build_ms).bind(6, record.created).bind(7, checksum_of(record, key_));
    insert.bind_text(8, record.where).bind_text(9, record.name).bind_text(10, record.target);
    insert.bind_blob(11, record.structure).bind_blob(12, record.payload);
    while (insert.step()) id = insert.get_int(0);
  }
  put_source(id, record);
  query(kPutUsage).bind(1, id).bind(2, record.last_use).bind(3, record.hits).bind(4, size_of(record)).run();
  lease(id);
}

void Store::put_source(int64_t id, const CacheRecord& record) {
  if (record.source.empty()) return query(kDropSource).bind(1, id).run();
  query(kPutSource).bind(1, id).bind(2, source_checksum_of(record, key_)).bind_text(3, record.source).run();
}

void Store::lease(int64_t id) {
  if (process_ != 0) query(kLease).bind(1, id).bind(2, process_).run();
}

int64_t Store::moment_of_use(int64_t wall_ms) {
  Statement& last = query(kLastUse);
  const ResetGuard guard(last);
  return std::max(wall_ms, last.step() ? last.get_int(0) + 1 : 0);
}

void Store::use(int64_t id, int64_t hits, int64_t moment) {
  query(kUse).bind(1, id).bind(2, hits).bind(3, moment).run();
  lease(id);
}

std::optional<int64_t> Store::id_of(const RowKey& key) {
  Statement& find = query(kIdOf);
  const ResetGuard guard(find);
  find.bind(1, key.slot).bind(2, key.structure);
  return find.step() ? std::optional(find.get_int(0)) : std::nullopt;
}

void Store::release(const RowKey& key) {
  if (process_ == 0) return;
  if (const auto id = id_of(key)) query(kRelease).bind(1, *id).bind(2, process_).run();
}

void Store::discard(const RowKey& key) {
  if (const auto id = id_of(key)) delete_row(*id);
}

bool Store::drop_if_broken(int64_t id) {
  {
    Statement& row = query(kReadRow);
    const ResetGuard guard(row);
    row.bind(1, id);
    CacheRecord record;
    if (!row.step() || (read_record(row, 0, record, key_) && read_source(row, 10, record, key_))) return false;
  }
  delete_row(id);
  return true;
}

void Store::delete_row(int64_t id) {
  for (const Query q : {kDeleteRecord, kDropSource, kDeleteUsage, kDeleteLeases}) query(q).bind(1, id).run();
}

int64_t Store::register_process(int64_t row, int64_t now) {
  if (self_.pid == 0) self_ = this_process();
  const auto name = [this](Statement& statement) -> Statement& {
    return statement.bind(1, self_.pid).bind(2, self_.start).bind_text(3, self_.host);
  };
  name(query(kSeeProcess)).bind(4, now).bind(5, row).run();
  if (connection_.changes() == 1) return process_ = row;
  name(query(kAddProcess)).bind(4, now).run();
  return process_ = connection_.last_insert_id();
}

void Store::unregister_process() {
  if (process_ == 0) return;
  query(kDropProcessLeases).bind(1, process_).run();
  query(kDropProcess).bind(1, process_).run();
  process_ = 0;
}

void Store::reap_leases(int64_t now) {
  std::vector<int64_t> gone;
  {
    Statement& rows = query(kListProcesses);
    const ResetGuard guard(rows);
    while (rows.step()) {
      const int64_t id = rows.get_int(0);
      if (id == process_) continue;
      const Liveness alive = liveness_of({rows.get_int(1), rows.get_int(2), std::string(rows.get_bytes(3))});
      const bool expired = alive == Liveness::kUnknown && now - rows.get_int(4) > kUnknownLeaseMs;
      if (alive == Liveness::kDead || expired) gone.push_back(id);
    }
  }
  for (const int64_t id : gone) {
    query(kDropProcessLeases).bind(1, id).run();
    query(kDropProcess).bind(1, id).run();
  }
}

int64_t Store::evict_to(int64_t bytes) {
  int64_t dropped = 0;
  while (live_bytes() > bytes) {
    std::vector<int64_t> oldest;
    {
      Statement& rows = query(kOldest);
      const ResetGuard guard(rows);
      while (rows.step()) oldest.push_back(rows.get_int(0));
    }
    if (oldest.empty()) break;
    for (const int64_t id : oldest) {
      delete_row(id);
      ++dropped;
      if (live_bytes() <= bytes) break;
    }
  }
  return dropped;
}

int64_t Store::clear() {
  const int64_t rows = row_count();
  connection_.run("DELETE FROM record; DELETE FROM source; DELETE FROM usage; DELETE FROM lease");
  return rows;
}

void Store::repair_links() {
  connection_.run(
      "INSERT OR IGNORE INTO usage (id, last_use, hits, bytes) SELECT id, created, 0, 0 FROM record;"
      "DELETE FROM usage WHERE id NOT IN (SELECT id FROM record);"
      "DELETE FROM source WHERE id NOT IN (SELECT id FROM record)");
}

int64_t Store::live_bytes() {
  const auto get = [&](Query which) {
    Statement& statement = query(which);
    const ResetGuard guard(statement);
    return statement.step() ? statement.get_int(0) : int64_t{0};
  };
  return (get(kPageCount) - get(kFreePages)) * get(kPageSize);
}

int64_t Store::row_count() {
  Statement& statement = query(kRowCount);
  const ResetGuard guard(statement);
  return statement.step() ? statement.get_int(0) : 0;
}

void Store::sign(const Hash128& signature) {
  Statement(connection_, "INSERT INTO origin (signature) VALUES (?1)").bind(1, signature).run();
}

std::optional<Hash128> Store::signature() {
  Statement row(connection_, "SELECT signature FROM origin");
  return row.step() ? std::optional(row.get_hash(0)) : std::nullopt;
}

void Store::shrink_file() { connection_.run("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)"); }

std::string Store::integrity_complaints() {
  Statement rows(connection_, "PRAGMA integrity_check(5)");
  std::string complaints;
  while (rows.step()) {
    const std::string_view line = rows.get_bytes(0);
    if (line == "ok") continue;
    if (!complaints.empty()) complaints += "; ";
    complaints += line;
  }
  return complaints;
}

void Store::for_each(std::string_view kind, Detail detail, const std::function<bool(CacheRow&)>& visit, int64_t only,
                     std::string_view mentions) {
  const bool full = detail == Detail::kFull;
  const std::string columns =
      "SELECT r.id, u.last_use, u.hits, u.bytes, (SELECT count(*) FROM lease WHERE lease.record = r.id),"
      " r.kind, r.key, r.build_ms, r.created, r.checksum, r.place, r.name, r.target, r.structure";
  const std::string from = " FROM usage u JOIN record r ON r.id = u.id";
  const std::string order = std::string(" WHERE (?1 = '' OR r.kind = ?1)") +
                            (mentions.empty() ? "" : " AND instr(CAST(r.payload AS TEXT), ?3) > 0") +
                            (only != 0 ? " AND r.id = ?2" : " ORDER BY u.last_use DESC, u.id DESC");
  const std::string sql =
      full ? columns + ", r.payload, s.checksum, s.text" + from + " LEFT JOIN source s ON s.id = r.id" + order
           : columns + ", x''" + from + order;
  Statement rows(connection_, sql.c_str());
  rows.bind_text(1, kind);
  if (only != 0) rows.bind(2, only);
  if (!mentions.empty()) rows.bind_text(3, mentions);
  while (rows.step()) {
    CacheRow row;
    const bool whole = read_record(rows, 5, row.record, key_);
    row.id = rows.get_int(0);
    row.record.last_use = rows.get_int(1);
    row.record.hits = rows.get_int(2);
    row.bytes = rows.get_int(3);
    row.leases = rows.get_int(4);
    if (full) row.broken = !read_source(rows, 15, row.record, key_) || !whole;
    if (!visit(row)) break;
  }
}

std::vector<ProcessName> Store::leasing_processes() {
  std::vector<ProcessName> out;
  Statement& rows = query(kListProcesses);
  const ResetGuard guard(rows);
  while (rows.step()) out.push_back({rows.get_int(1), rows.get_int(2), std::string(rows.get_bytes(3))});
  return out;
}

int64_t Store::leased_row_count() { return connection_.get_int("SELECT count(DISTINCT record) FROM lease"); }

std::vector<Store::KindTotals> Store::totals() {
  Statement rows(connection_,
                 "SELECT r.kind, count(*), sum(u.bytes), sum(u.hits), sum(r.build_ms), sum(r.build_ms * u.hits)"
                 " FROM usage u JOIN record r ON r.id = u.id GROUP BY r.kind ORDER BY r.kind");
  std::vector<KindTotals> out;
  while (rows.step())
    out.push_back({std::string(rows.get_bytes(0)), rows.get_int(1), rows.get_int(2), rows.get_int(3),
                   rows.get_double(4), rows.get_double(5)});
  return out;
}

}  // namespace smolder::jit
