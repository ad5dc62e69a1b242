#include "smolder/jit/lower/memory_view.h"

namespace smolder::jit {

using ir::ValueId;

ValueId storage_root(const Program& p, ValueId v) {
  while (p.group_of[v] < 0 && is_alias(p.graph.op(v))) v = p.graph.producer(v).inputs[0];
  return v;
}

std::optional<StridedView> view_in_memory(Program& p, ValueId v) {
  return view_from(p.graph.sym, p.graph, v, [&](ValueId x) -> std::optional<StridedView> {
    if (p.buffer_of[x] < 0) return std::nullopt;
    const BufferInfo& info = p.buffers[p.buffer_of[x]];
    return StridedView{x, info.shape, info.strides, info.offset};
  });
}

}  // namespace smolder::jit
