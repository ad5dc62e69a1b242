#include "smolder/jit/cuda/statements.h"

namespace smolder::jit::cuda {

IntRef stride_of(const Affine& map, VarId v) {
  for (const auto& t : map.terms) {
    if (t.var == v) return t.stride;
  }
  return {};
}

}  // namespace smolder::jit::cuda
