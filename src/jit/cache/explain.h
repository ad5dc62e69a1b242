// Why something was compiled although the cache was not empty: the earlier row most like it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "smolder/jit/cache/cache_file.h"
#include "smolder/jit/cache/disk.h"

namespace smolder::jit {

struct CacheExplanation {
  CacheRecord nearest;          ///< without payload and source; `where` is the line that first needed it
  bool target_differs = false;  ///< else the structure does
  size_t offset = 0;            ///< of the first difference, in bytes of the target or the structure
  std::string wanted, found;    ///< the text around it, in the built record and in the nearest one
};

/// Looks among rows of the record's kind made no later than it. A row of the same structure for another
/// target is nearest of all; then one of the same target counts before others, and among those the one
/// that shares the most bytes at start and end. Nothing when there is no earlier row of the kind. Throws
/// as DiskCache::for_each() does; reads every key of the kind, about 1 ms for 1,000.
std::optional<CacheExplanation> explain_build(DiskCache& cache, const CacheRecord& built);
std::optional<CacheExplanation> explain_build(CacheFile& file, const CacheRecord& built);

}  // namespace smolder::jit
