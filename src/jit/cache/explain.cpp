#include "smolder/jit/cache/explain.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

namespace smolder::jit {
namespace {

constexpr size_t kSnippet = 80;  // bytes of a line that are shown

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin()).first -
                             a.begin());
}

/// Bytes shared at start and end, none counted twice.
size_t common_ends(std::string_view a, std::string_view b) {
  const size_t prefix = common_prefix(a, b);
  const size_t rest = std::min(a.size(), b.size()) - prefix;
  size_t suffix = 0;
  while (suffix < rest && a[a.size() - 1 - suffix] == b[b.size() - 1 - suffix]) ++suffix;
  return prefix + suffix;
}

/// The line that holds `offset`, cut to kSnippet bytes around it; what is not text as \xNN.
std::string text_around(std::string_view bytes, size_t offset) {
  const size_t at = std::min(offset, bytes.size());
  const size_t line = at == 0 ? 0 : bytes.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  const size_t start = at - line > kSnippet / 2 ? at - kSnippet / 2 : line;
  const size_t end = std::min({bytes.find('\n', at), bytes.size(), start + kSnippet});
  std::string out;
  for (const char c : bytes.substr(start, end - start)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      static constexpr char kDigits[] = "0123456789abcdef";
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

std::optional<CacheExplanation> explain(auto& cache, const CacheRecord& built) {
  using Likeness = std::tuple<bool, bool, size_t>;
  std::optional<CacheRecord> nearest;
  Likeness best;
  cache.for_each(built.kind, Detail::kKeys, [&](CacheRow& row) {
    CacheRecord& other = row.record;
    const bool same_structure = other.structure == built.structure, same_target = other.target == built.target;
    if ((same_structure && same_target) || other.created > built.created) return true;
    const Likeness likeness{same_structure, same_target, common_ends(other.structure, built.structure)};
    if (!nearest || likeness > best) {
      best = likeness;
      nearest = std::move(other);
    }
    return true;
  });
  if (!nearest) return std::nullopt;
  CacheExplanation out;
  out.target_differs = nearest->structure == built.structure;
  const std::string& mine = out.target_differs ? built.target : built.structure;
  const std::string& theirs = out.target_differs ? nearest->target : nearest->structure;
  out.offset = common_prefix(mine, theirs);
  out.wanted = text_around(mine, out.offset);
  out.found = text_around(theirs, out.offset);
  out.nearest = std::move(*nearest);
  return out;
}

}  // namespace

std::optional<CacheExplanation> explain_build(DiskCache& cache, const CacheRecord& built) {
  return explain(cache, built);
}
std::optional<CacheExplanation> explain_build(CacheFile& file, const CacheRecord& built) {
  return explain(file, built);
}

}  // namespace smolder::jit
