// Long steps whose plans were compiled before, on this machine: planning one takes longer than running it op by op, so
// a step waits for that only where its kernels are likely there.
#pragma once

#include <string_view>

#include "smolder/core/hash.h"
#include "smolder/lazy/trace.h"

namespace smolder::lazy {

/// Does planning it take some 5 ms or more?
inline bool is_long(const Trace& t) { return t.instrs.size() >= 500; }

/// Stands for a `plan_structure`, which may have hundreds of kilobytes. Two of one digest cost time alone.
Hash128 digest_of(std::string_view structure);
/// Did a process keep the kernels of a plan of that structure on disk? They may have been evicted since.
bool kernels_were_kept(const Hash128& digest);
/// All kernels of a plan of the trace are compiled.
void note_kernels_kept(const Trace& t, const Hash128& digest);

}  // namespace smolder::lazy
