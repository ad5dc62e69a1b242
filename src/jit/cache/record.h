// Records of the kernel cache: one a kernel or tuning result, and the key it is found by.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "smolder/core/hash.h"
#include "smolder/core/siphash.h"

namespace smolder::jit {

/// Arguments of a lookup. The views must outlive the call.
struct CacheKey {
  std::string_view kind;       ///< "kernel", "native" or "product"; any short name is accepted
  Hash128 key;                 ///< digest of `structure`; two structures may share one (a collision)
  std::string_view structure;  ///< canonical bytes, compared in full before anything is called a hit
  std::string_view target;     ///< CPU features or GPU, compiler and its version, flags
};

/// One row of the cache.
struct CacheRecord {
  std::string kind;
  Hash128 key;
  std::string structure;
  std::string target;
  std::string payload;   ///< object bytes, as the code generator made them
  std::string source;    ///< text for people (LLVM IR, loop IR); may be empty, and no lookup reads it
  double build_ms = 0;   ///< what building the payload took
  int64_t created = 0;   ///< milliseconds since 1970; 0 on insert means now
  int64_t last_use = 0;  ///< milliseconds since 1970
  int64_t hits = 0;      ///< times the payload was taken from disk
  std::string where;     ///< the user's source line that first needed it, "file.py:12"
  std::string name;      ///< for people: the ops that a kernel holds

  CacheKey cache_key() const { return {kind, key, structure, target}; }
};

/// Digest of (kind, key, target): equal for records that collide, which then differ in structure.
Hash128 slot_of(const CacheKey& key);

/// Signature of everything fixed at insert except `source`; stored with the row to tell a broken one, and one that
/// somebody made who does not know the key.
Hash128 checksum_of(const CacheRecord& record, const SecretKey& key);

/// Signature of `source`, bound to its record so that a source cannot pass for another row's.
Hash128 source_checksum_of(const CacheRecord& record, const SecretKey& key);

/// Wall clock in milliseconds since 1970, as records hold it. It may be set at any time: what must not go back, or
/// wait, asks the other.
int64_t wall_clock_ms();
/// Milliseconds since this machine was started, the same for all its processes. Nobody sets it.
int64_t boot_clock_ms();

}  // namespace smolder::jit
