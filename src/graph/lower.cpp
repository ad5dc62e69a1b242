#include "smolder/graph/lower.h"

#include <algorithm>

#include "smolder/graph/state.h"
#include "smolder/ir/rewrite.h"

namespace smolder::graph {

std::string lowered_text(std::string_view text, const std::vector<int>& keep) {
  State s = parse_state(text);
  s.ir = ir::rewrite(s.ir, [&](ir::Rewriter& r, const ir::Node& n) {
    const ir::OpInfo& row = ir::info(n.op);
    if (!row.decompose || std::ranges::find(keep, static_cast<int>(r.index(n))) != keep.end()) return false;
    ir::Node node = n;
    node.inputs = r.inputs(n);
    row.decompose(r.builder(), node, r.results(n), r.now_of(n));
    return true;
  });
  return text_of(s);
}

}  // namespace smolder::graph
