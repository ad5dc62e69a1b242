#include "smolder/jit/cuda/statements.h"

#include <utility>

namespace smolder::jit::cuda {

IntRef stride_of(const Affine& map, VarId v) {
  for (const auto& t : map.terms) {
    if (t.var == v) return t.stride;
  }
  return {};
}

Stmt placement_of(const Kernel& k, StmtKind kind, Address address, VarId from, VarId to) {
  Stmt s{};
  s.kind = kind;
  s.dtype = k.buffers[static_cast<size_t>(address.buffer)].dtype;
  s.address = std::move(address);
  for (auto& t : s.address.map.terms) {
    if (t.var == from) t.var = to;
  }
  return s;
}

}  // namespace smolder::jit::cuda
