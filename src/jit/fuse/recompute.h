// Values that are computed twice so that no memory holds them in between.
#pragma once

#include <cstdint>

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Bytes of intermediates at once that no device lacks: where a plan for one takes more, it is made to take less. Tests
/// set others; plans that there are keep to theirs.
int64_t scarce_bytes();
void set_scarce_bytes(int64_t bytes);

/// How much time and traffic may be spent to save memory.
struct RecomputeLimits {
  int64_t scarce = scarce_bytes();  ///< in the sample
  double share = 0.02;              ///< of a step's time, as estimated from what it moves and multiplies
  double saved = 0.5;               ///< bytes to be saved at the peak for each that is moved, at least
};

/// Where the groups' values take most memory, some wait that a kernel could make again from others that wait as well,
/// or that a kernel which reads those anyway could write beside its own results: a gelu, which its gradient is not
/// computed from but the next weight's is, from what its own gradient reads; a normalised row from the row. Gives such
/// values nodes of their own for what reads them after the peak, best first. Says whether there are any: groups are to
/// be made anew then.
bool recompute(Program& program, const RecomputeLimits& limits = {});

}  // namespace smolder::jit
