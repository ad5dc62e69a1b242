// The primitives of the reference interpreter that read or write where an index says.
#pragma once

#include "smolder/ir/interpret_step.h"

namespace smolder::ir::reference {

PlainTensor run_take(const Step& s);
PlainTensor run_gather(const Step& s);
PlainTensor run_index_add(const Step& s);
PlainTensor run_index_set(const Step& s);
PlainTensor run_scatter_add(const Step& s);
PlainTensor run_scatter_into(const Step& s);
PlainTensor run_slice_write(const Step& s);

/// The larger of two, or the smaller: nan wins, the one there first; of equal elements the one there stays.
Scalar extreme(const Scalar& there, const Scalar& x, bool largest);

}  // namespace smolder::ir::reference
