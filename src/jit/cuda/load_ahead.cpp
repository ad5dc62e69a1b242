#include "smolder/jit/cuda/load_ahead.h"

#include <algorithm>
#include <vector>

#include "smolder/jit/cuda/accesses.h"
#include "smolder/jit/cuda/chunks.h"
#include "smolder/jit/cuda/shape.h"
#include "smolder/jit/cuda/statements.h"

namespace smolder::jit::cuda {

namespace {

/// Whether a load is of the thread's chunk as it lies in memory, wherever that is.
bool is_plain(const Stmt& s, const Stmt& loop) {
  return s.kind == StmtKind::kLoad && s.bounds.empty() && s.address.indirect.empty() &&
         stride_of(s.address.map, loop.vars[0]) == IntRef{1};
}

/// Whether a thread may take several chunks of the kernel's one loop over lanes, and it pays: there are loads before.
bool is_worth_coarsening(const Kernel& k, const Stmt& loop, const Chunks& chunks) {
  if (k.root.vars.empty() || loop.chunk == 1 || !chunks.loads.empty()) return false;
  const auto count = [&](StmtKind kind) { return std::ranges::count(loop.body, kind, &Stmt::kind); };
  return std::ranges::none_of(loop.body, is_sequential, &Stmt::kind) && count(StmtKind::kLanes) == 1 &&
         count(StmtKind::kLoad) > 0 && loop.body.back().kind == StmtKind::kLanes;
}

/// Loads of lanes that wait for nothing. `written`: buffers that a statement before wrote.
void mark_lanes(Stmt& lanes, std::vector<int>& written, bool in_chunks = true) {
  for (Stmt& s : lanes.body) {
    if (s.kind == StmtKind::kStore) written.push_back(s.address.buffer);
    s.ahead = in_chunks && is_plain(s, lanes) && std::ranges::find(written, s.address.buffer) == written.end();
  }
}

/// A load through an index waits for its address: more threads hide that, and they need the registers.
void mark_next_chunk(Stmt& lanes) {
  std::vector<int> written;
  if (std::ranges::all_of(lanes.body, [](const Stmt& s) { return s.address.indirect.empty(); }))
    mark_lanes(lanes, written);
}

/// Work done once a position may take as long as a trip to memory, and the compiler moves no load across a
/// branch.
void mark_position(Stmt& loop) {
  std::vector<int> written;
  if (std::ranges::find(loop.body, StmtKind::kLoad, &Stmt::kind) == loop.body.end()) return;
  for (Stmt& s : loop.body) {
    if (is_sequential(s.kind)) return;
    if (s.kind == StmtKind::kStore) written.push_back(s.address.buffer);
    s.ahead = s.kind == StmtKind::kLoad && s.bounds.empty() && s.address.indirect.empty() &&
              std::ranges::find(written, s.address.buffer) == written.end();
    if (s.kind == StmtKind::kLanes) mark_lanes(s, written, loop.chunk > 1);
  }
}

/// Loads that iterations of a split loop make whatever happens, of what none of them writes.
class IterationMarker {
 public:
  IterationMarker(const Kernel& k, const Chunks& chunks) : k_(k), chunks_(chunks) {}

  void run(Stmt& split, int sums) {
    // An iteration of many statements has enough loads of its own on their way, and another one doubles what is
    // compiled.
    constexpr int kFewStatements = 4, kManyStatements = 64;
    mark(split, nullptr);
    const int statements = statements_ - sums;
    split.unroll = statements > kManyStatements ? 1 : statements - loads_ > kFewStatements ? 2 : 4;
  }

 private:
  void mark(Stmt& s, const Stmt* vector) {
    statements_ += !is_placement(s.kind);
    if (s.kind == StmtKind::kLoad && vector && !k_.buffers[static_cast<size_t>(s.address.buffer)].write) {
      const bool whole = s.bounds.empty() || std::ranges::find(chunks_.loads, &s) != chunks_.loads.end();
      s.ahead = whole && s.address.indirect.empty() && stride_of(s.address.map, vector->vars[0]) == IntRef{1};
      loads_ += s.ahead;
    }
    for (Stmt& inner : s.body) mark(inner, is_vector(s) ? &s : vector);
  }

  const Kernel& k_;
  const Chunks& chunks_;
  int statements_ = 0, loads_ = 0;
};

/// Numbers of the next iteration, and rows of it that threads have in registers.
void mark_next_iteration(const Kernel& k, Stmt& split, bool holds_rows) {
  const auto is_read = [&](const Stmt& s) { return !k.buffers[static_cast<size_t>(s.address.buffer)].write; };
  for (Stmt& s : split.body) {
    s.ahead = s.kind == StmtKind::kLoad && s.bounds.empty() && s.address.indirect.empty() && is_read(s);
    for (Stmt& inner : s.body) {
      if (inner.kind == StmtKind::kHold) inner.ahead = holds_rows && is_read(inner);
    }
  }
}

}  // namespace

void load_ahead(Kernel& k) {
  const KernelShape shape = shape_of(k);
  Stmt* const loop = chunk_loop(k);
  std::vector<Stmt>& body = loop ? loop->body : k.root.body;
  if (shape.group_split) {
    Stmt& split = *std::ranges::find(body, StmtKind::kSplit, &Stmt::kind);
    loop ? IterationMarker(k, shape.chunks).run(split, static_cast<int>(shape.sums.size()))
         : mark_next_iteration(k, split, shape.has_row_size() && k.row.chunks > 0);
  } else if (loop) {
    loop->coarsened = !shape.transposed && is_worth_coarsening(k, *loop, shape.chunks);
    loop->coarsened ? mark_next_chunk(loop->body.back()) : mark_position(*loop);
  }
}

}  // namespace smolder::jit::cuda
