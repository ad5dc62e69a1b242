#include "smolder/ir/graph.h"

#include <utility>

namespace smolder::ir {

ValueId Graph::append(Op op, std::vector<ValueId> inputs, std::vector<Dim> attrs, std::span<const ValueInfo> outputs,
                      Origin origin) {
  const auto first = static_cast<ValueId>(values.size());
  const auto node = static_cast<NodeId>(nodes.size());
  nodes.push_back({.op = op,
                   .num_outputs = static_cast<uint16_t>(outputs.size()),
                   .first_output = first,
                   .inputs = std::move(inputs),
                   .attrs = std::move(attrs),
                   .origin = origin});
  for (const ValueInfo& info : outputs) {
    values.push_back(info);
    values.back().node = node;
  }
  return first;
}

}  // namespace smolder::ir
