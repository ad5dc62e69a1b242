// Graphs in terms of primitives, for those that take them elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smolder::graph {

/// The text of a graph with every node but those numbered in `keep` (counted over all nodes, from 0) replaced by what
/// its op is made of. Sizes stay symbolic, sources are kept. Throws ValueError on malformed text.
std::string lowered_text(std::string_view text, const std::vector<int>& keep);

}  // namespace smolder::graph
