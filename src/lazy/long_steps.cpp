#include "smolder/lazy/long_steps.h"

#include <string>
#include <utility>

#include "smolder/core/source_line.h"
#include "smolder/jit/cache/kernel_cache.h"

namespace smolder::lazy {
namespace {

jit::CacheKey key_of(const Hash128& digest, std::string_view hex) { return {"plan", digest, hex, {}}; }

}  // namespace

Hash128 digest_of(std::string_view structure) { return hash_bytes(structure.data(), structure.size()); }

bool kernels_were_kept(const Hash128& digest) {
  jit::KernelCache& cache = jit::KernelCache::global();
  jit::DiskCache& disk = cache.disk();
  if (cache.is_cold() || !disk.available()) return false;
  const std::string hex = to_hex(digest);
  const bool found = disk.find(key_of(digest, hex)).status == jit::DiskFind::Status::kHit;
  if (found) disk.release(key_of(digest, hex));  // nobody runs it
  return found;
}

void note_kernels_kept(const Trace& t, const Hash128& digest) {
  jit::DiskCache& disk = jit::KernelCache::global().disk();
  if (!disk.available()) return;
  const std::string hex = to_hex(digest);
  jit::CacheRecord record;
  record.kind = "plan";
  record.key = digest;
  record.structure = hex;
  record.where = resolve_source(t.instrs[0].source);
  record.name = "a step of " + std::to_string(t.instrs.size()) + " ops";
  disk.insert(std::move(record));
  disk.release(key_of(digest, hex));
}

}  // namespace smolder::lazy
