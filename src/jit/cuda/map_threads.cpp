#include "smolder/jit/cuda/map_threads.h"

#include <algorithm>
#include <utility>

namespace smolder::jit::cuda {

namespace {

/// Elements a thread takes, so that the narrowest of them fill 16 bytes where that is not too many.
int vector_of(const Kernel& k, const Accesses& accesses) {
  constexpr int kBytes = 16, kMost = 8;
  // Columns that are so few are one thread's: what is computed for a row is computed once.
  const IntRef extent = accesses.vectors[0]->extents[0];
  if (k.root.kind == StmtKind::kParallel && extent.is_constant() && extent.constant > 1 && extent.constant <= kUnit)
    return static_cast<int>(extent.constant);
  int narrowest = kBytes, widest = 1, spread = 0;
  for (const auto& list : accesses.of_buffer) {
    for (const Access& a : list) {
      if (!a.vector) continue;
      const auto size = static_cast<int>(itemsize(k.buffers[a.statement->address.buffer].dtype));
      spread = std::max(spread, size * static_cast<int>(spread_of(*a.statement, a.var())));
      if (stride_of(a.statement->address.map, a.var()) != IntRef{1}) continue;
      narrowest = std::min(narrowest, std::max(size, 2));
      widest = std::max(widest, size);
    }
  }
  if (spread > 0 && uses_between(accesses)) return std::clamp(kBytes / (spread & -spread), 2, kMost);
  if (narrowest == kBytes) return 1;
  // Chunks beyond 16 bytes are stored in pieces between which lie those of other threads. Where all goes to memory and
  // not just sums of it, that costs more than narrow loads do.
  const int most = k.root.kind == StmtKind::kParallelVector ? std::max(kUnit, kBytes / widest) : kMost;
  return std::min(most, kBytes / narrowest);
}

void rename_loops(std::vector<Stmt>& body, StmtKind kind) {
  for (Stmt& s : body) {
    if (s.kind == StmtKind::kVector) s.kind = kind;
    rename_loops(s.body, kind);
  }
}

void map_chunks(Kernel& k, const Accesses& accesses) {
  const Stmt& loop = *accesses.vectors[0];
  Stmt threads{};
  threads.kind = StmtKind::kThread;
  threads.vars = {k.num_vars++};
  threads.extents = loop.extents;
  threads.clamp_var = loop.clamp_var;
  threads.clamp_total = loop.clamp_total;
  threads.chunk = vector_of(k, accesses);
  Stmt grid{};
  grid.kind = StmtKind::kGrid;
  if (k.root.kind == StmtKind::kParallelVector) {
    k.root.kind = StmtKind::kLanes;
    threads.body.push_back(std::move(k.root));
  } else {
    grid.vars = std::move(k.root.vars);
    grid.extents = std::move(k.root.extents);
    threads.body = std::move(k.root.body);
    rename_loops(threads.body, StmtKind::kLanes);
  }
  grid.body.push_back(std::move(threads));
  k.root = std::move(grid);
}

void map_rows(Kernel& k, const Accesses& accesses) {
  std::vector<Stmt> rows;
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    if (!is_shared_row(k, accesses, b)) continue;
    Stmt& row = rows.emplace_back();
    row.kind = StmtKind::kShared;
    row.address.buffer = static_cast<int>(b);
    row.limit = accesses.of_buffer[b][0].vector->extents[0];
  }
  k.root.kind = StmtKind::kGrid;
  rename_loops(k.root.body, StmtKind::kThread);
  k.root.body.insert(k.root.body.begin(), rows.begin(), rows.end());
}

}  // namespace

bool takes_chunks(const Kernel& k, const Accesses& accesses) {
  if (k.root.kind == StmtKind::kGrid) return chunk_loop(k) != nullptr;
  return k.root.kind == StmtKind::kParallelVector ||
         (accesses.has_one_extent() && !accesses.has_accumulators && !accesses.stores_outside &&
          !accesses.clamped_inside && !accesses.written_across(k));
}

bool is_shared_row(const Kernel& k, const Accesses& accesses, size_t buffer) {
  const BufferArg& arg = k.buffers[buffer];
  if (k.root.kind == StmtKind::kGrid) return shared_row(k, static_cast<int>(buffer)) != nullptr;
  return !takes_chunks(k, accesses) && arg.read && arg.write && accesses.is_scratch(buffer);
}

void map_threads(Kernel& k) {
  const Accesses accesses(k);
  takes_chunks(k, accesses) ? map_chunks(k, accesses) : map_rows(k, accesses);
}

}  // namespace smolder::jit::cuda
