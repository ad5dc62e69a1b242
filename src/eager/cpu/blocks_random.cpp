#include "smolder/eager/cpu/blocks.h"
#include "smolder/eager/cpu/lanes.h"
#include "smolder/ir/scalar/random.h"

namespace smolder::eager::cpu {
namespace {

using B = scalar::LaneBuilder<8, scalar::LaneType::kI64>;
constexpr int kWords = 4;  ///< elements of one counter

/// The elements of counters first, ..., first + 7 of the stream.
void counters(int64_t seed, int64_t first, int64_t* out) {
  static constexpr int64_t kCount[B::kLanes] = {0, 1, 2, 3, 4, 5, 6, 7};
  B b;
  const auto all = [&b](int64_t v) { return scalar::constant<scalar::LaneType::kI64>(b, v); };
  const scalar::I64<B> lane{&b, B::load<scalar::LaneType::kI64>(kCount)};
  const auto words = scalar::random_words(all(seed), lane + all(first));
  uint32_t word[kWords][B::kLanes];
  for (int w = 0; w < kWords; ++w) B::store<scalar::LaneType::kI32>(word[w], words[w].v);
  for (int i = 0; i < B::kLanes; ++i) {
    for (int w = 0; w < kWords; ++w) out[i * kWords + w] = word[w][i];
  }
}

}  // namespace

void random_block(int64_t seed, int64_t offset, int64_t first, int64_t n, int64_t* out) {
  constexpr int64_t kPack = B::kLanes * kWords;
  // Element `first` may lie inside a counter: whole packs are made from there, and cut to what is asked.
  int64_t counter = first / kWords, skip = first % kWords;
  while (n > 0) {
    const auto at = static_cast<int64_t>(static_cast<uint64_t>(offset) + static_cast<uint64_t>(counter));
    if (skip == 0 && n >= kPack) {
      counters(seed, at, out);
      out += kPack;
      n -= kPack;
    } else {
      int64_t pack[kPack];
      counters(seed, at, pack);
      const int64_t count = std::min(n, kPack - skip);
      std::memcpy(out, pack + skip, count * sizeof(int64_t));
      out += count;
      n -= count;
      skip = 0;
    }
    counter += B::kLanes;
  }
}

}  // namespace smolder::eager::cpu
