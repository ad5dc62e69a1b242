#include "smolder/graph/lower.h"

#include <algorithm>

#include "smolder/graph/state.h"
#include "smolder/ir/builder.h"

namespace smolder::graph {

std::string lowered_text(std::string_view text, const std::vector<int>& keep) {
  State s = parse_state(text);
  const ir::Graph from = std::move(s.ir);
  s.ir = {};
  s.ir.sym = from.sym;
  ir::Builder builder(s.ir);
  std::vector<ir::ValueId> now(from.values.size(), ir::kNone);
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    ir::Node node = from.nodes[i];
    for (ir::ValueId& x : node.inputs) {
      if (x != ir::kNone) x = now[x];
    }
    const std::span<const ir::ValueInfo> results(from.values.data() + node.first_output, node.num_outputs);
    ir::ValueId* const out = now.data() + node.first_output;
    const ir::OpInfo& row = ir::info(node.op);
    builder.set_origin(node.origin);
    if (row.decompose && std::ranges::find(keep, static_cast<int>(i)) == keep.end()) {
      row.decompose(builder, node, results, out);
    } else {
      const ir::ValueId first = s.ir.append(node.op, node.inputs, node.attrs, results, node.origin);
      for (int k = 0; k < node.num_outputs; ++k) out[k] = first + k;
    }
  }
  for (const ir::ValueId v : from.outputs) s.ir.outputs.push_back(now[v]);
  return text_of(s);
}

}  // namespace smolder::graph
