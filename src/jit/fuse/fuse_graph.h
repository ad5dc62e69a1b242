// The graph as fusion sees it: nodes that compute, and edges that say how a reader's elements relate to those
// it reads. Movement primitives and numbers are in the edges.
#pragma once

#include <vector>

#include "smolder/jit/fuse/fuse_domain.h"
#include "smolder/jit/program.h"

namespace smolder::jit {

enum class EdgeKind : uint8_t {
  kSame,    ///< element for element, in the same order
  kSpread,  ///< each element read is one for all of a trailing part: a value a row
  kMoved,   ///< any other map: the reader can compute what it reads itself, if nothing reduces on the way
  kHard,    ///< only through memory
};

/// Which element of a value is meant, beside the one that a kernel's loops are at (0): equal numbers are one element.
/// The reverse does not hold, as maps that undo each other are not recognised.
using Position = uint64_t;
/// How the element that a reader needs of an operand follows from its own; 0: element for element, or spread.
using Move = uint64_t;
/// The position that `move` leads to from `at`.
Position moved_by(Position at, Move move);

/// `to` reads `value`, which `from` computes (kNone: a leaf).
struct Edge {
  ir::NodeId from = ir::kNone, to = ir::kNone;
  ir::ValueId value = ir::kNone;
  EdgeKind kind = EdgeKind::kSame;
  Move move = 0;  ///< other than 0 for kMoved
};

struct FuseGraph {
  std::vector<bool> live;                    ///< by node: needed by an output
  std::vector<bool> computes;                ///< by node: becomes part of a kernel, or a library call
  std::vector<bool> asked;                   ///< by value: must be in memory: output, library operand, behind a barrier
  std::vector<Edge> edges;                   ///< by reader, in program order
  std::vector<std::vector<int>> in, out;     ///< edges by node
  std::vector<std::vector<int>> leaf_reads;  ///< edges that read a leaf, by the leaf's node
};

FuseGraph build_fuse_graph(Program& program);

/// Where `v` comes from: past movement to a value that is computed or a leaf, and how it is moved.
struct Origin {
  ir::ValueId value = ir::kNone;
  EdgeKind kind = EdgeKind::kSame;
};
Origin origin_of(const Program& program, ir::ValueId v);

/// How a node itself reads an operand, movement primitives included.
Move move_of(const ir::Graph& g, const ir::Node& n, size_t operand);

/// Index space of what a node computes, and of its results (rows of it, when it reduces columns).
Space space_of(Program& program, ir::NodeId node);
/// Bytes of a value in the sample.
int64_t bytes_of(const ir::Graph& g, ir::ValueId v);

}  // namespace smolder::jit
