#include "smolder/jit/cache/record.h"

#include <bit>
#include <chrono>
#include <ctime>

namespace smolder::jit {
namespace {

/// Hashes fields one by one, so that a large payload is never copied next to the others.
class FieldHash {
 public:
  FieldHash& add(std::string_view bytes) {
    const Hash128 h = hash_bytes(bytes.data(), bytes.size());
    mix(state_, h.lo);
    mix(state_, h.hi);
    mix(state_, bytes.size());
    return *this;
  }
  FieldHash& add(const Hash128& h) {
    mix(state_, h.lo);
    mix(state_, h.hi);
    return *this;
  }
  Hash128 digest() const { return state_; }

 private:
  Hash128 state_;
};

}  // namespace

Hash128 slot_of(const CacheKey& key) { return FieldHash().add(key.kind).add(key.key).add(key.target).digest(); }

Hash128 checksum_of(const CacheRecord& record, const SecretKey& key) {
  return SipHash(key)
      .add(record.kind)
      .add(record.key)
      .add(record.target)
      .add(record.structure)
      .add(record.payload)
      .add(std::bit_cast<uint64_t>(record.build_ms))
      .add(static_cast<uint64_t>(record.created))
      .add(record.where)
      .add(record.name)
      .digest();
}

Hash128 source_checksum_of(const CacheRecord& record, const SecretKey& key) {
  return SipHash(key).add(slot_of(record.cache_key())).add(record.structure).add(record.source).digest();
}

int64_t wall_clock_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

int64_t boot_clock_ms() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace smolder::jit
