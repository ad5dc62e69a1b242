#include "smolder/jit/cuda/shape.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "smolder/jit/cost.h"
#include "smolder/jit/cuda/split_sums.h"

namespace smolder::jit::cuda {

namespace {

/// Whether it computes what takes longer than memory does.
bool is_costly(const Kernel& k) {
  bool costly = false;
  for_each_statement(k.root, [&](const Stmt& s, const Stmt* vector) {
    costly = costly || (vector && s.kind == StmtKind::kPrimitive && op_cost(s.op) >= kCostly);
  });
  return costly;
}

/// Loads that are made before their iteration, and what registers they leave.
void find_ahead(KernelShape& out) {
  constexpr int64_t kManyBytes = 128;  // of a thread's loads at once: half of its registers, of four blocks
  int64_t bytes = 0;
  for_each_statement(*out.group_split, [&](const Stmt& s, const Stmt*) {
    if (!s.ahead) return;
    out.ahead.push_back(&s);
    if (!is_same_in_iterations(s, out.group_split->vars[0]))
      bytes += out.vector * static_cast<int64_t>(itemsize(s.dtype));
  });
  if (bytes * out.group_split->unroll > kManyBytes) out.split_blocks = 2;
}

/// Reads `register`, `hold` and `release`.
std::vector<KernelShape::HeldRow> held_rows(const Kernel& k, const Accesses& accesses) {
  std::vector<KernelShape::HeldRow> all;
  for (const Stmt& registers : k.root.body) {
    if (registers.kind != StmtKind::kRegister) continue;
    const int buffer = registers.address.buffer;
    KernelShape::HeldRow row{buffer, nullptr, nullptr, nullptr, nullptr, shared_row(k, buffer) != nullptr};
    for (const Stmt* loop : accesses.vectors) {
      for (const Stmt& s : loop->body) {
        if (s.address.buffer != buffer) continue;
        if (s.kind == StmtKind::kHold) row.hold = &s, row.first = loop;
        if (s.kind == StmtKind::kRelease) row.last = loop;
        if (s.kind == StmtKind::kStore) row.last_store = &s;
      }
    }
    if (row.hold) all.push_back(row);
  }
  return all;
}

/// Reads `stage` and `unstage` of a buffer. The row has no statement where there are none.
KernelShape::StagedRow staged_row(const Kernel& k, const Accesses& accesses, int buffer) {
  const auto size = static_cast<int64_t>(itemsize(k.buffers[static_cast<size_t>(buffer)].dtype));
  KernelShape::StagedRow row{buffer, nullptr, nullptr, size};
  for (const Stmt* loop : accesses.vectors) {
    for (const Stmt& s : loop->body) {
      if (s.address.buffer != buffer) continue;
      if (s.kind == StmtKind::kStage) row.stage = &s;
      if (s.kind == StmtKind::kStage || s.kind == StmtKind::kUnstage) row.vector = loop;
    }
  }
  return row;
}

/// The split loop and what it adds to.
void find_split(const Kernel& k, const Accesses& facts, KernelShape& out) {
  const auto it = std::ranges::find(body_of(k), StmtKind::kSplit, &Stmt::kind);
  if (it == body_of(k).end()) return;
  out.split = &*it;
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    for (const Access& a : facts.of_buffer[b]) {
      if (a.statement->kind != StmtKind::kCombine) continue;
      out.sums.push_back(
          {static_cast<int>(b), a.statement, a.vector, static_cast<int64_t>(itemsize(k.buffers[b].dtype))});
    }
  }
  if (out.transposed) return;
  out.group_split = out.split;
  if (out.group_split->limit != IntRef{}) out.split_threads = static_cast<int>(out.group_split->limit.constant);
  if (out.chunk_loop) {
    find_ahead(out);
    return;
  }
  for (auto& c : out.sums) c.in_registers = registers_for(k, c.buffer) != nullptr;
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    const KernelShape::StagedRow row = staged_row(k, facts, static_cast<int>(b));
    if (row.stage) out.common_rows.push_back(row);
  }
}

}  // namespace

int lanes_of(int64_t extent) {
  constexpr int64_t kFew = 2, kShare = 32;  // units, and elements, that a thread has before there are more
  const auto groups_of = [&](int64_t size) {
    const auto n = static_cast<uint64_t>(std::max<int64_t>(extent, 1)), group = static_cast<uint64_t>(size);
    return static_cast<int64_t>(std::bit_ceil((n + group - 1) / group));
  };
  const int64_t few = std::min<int64_t>(groups_of(kFew * unit_of(extent)), kWarp);
  return static_cast<int>(std::clamp<int64_t>(std::max(few, groups_of(kShare)), 2, kMostRowThreads));
}

int64_t segment_of(int64_t iterations) {
  constexpr int64_t kSegments = 16, kShortest = 4;
  return std::max<int64_t>((iterations + kSegments - 1) / kSegments, kShortest);
}

const ReduceOrder& reduce_order() {
  const auto segments = [](const Kernel& k) {
    const Accesses accesses(k);
    const Sums sums = find_sums(k, accesses);
    ReduceOrder::Segments all{sums.loop, {}, segment_of};
    for (const auto& c : sums.columns) all.sums.push_back({c.load, c.step, c.store});
    return all;
  };
  static const auto* const kOrder =
      new ReduceOrder{[](int64_t n) { return ReduceOrder::Deal{lanes_of(n), unit_of(n)}; }, segments};
  return *kOrder;
}

namespace {

KernelShape column_shape(const Kernel& k, const Accesses& facts) {
  KernelShape shape;
  shape.chunk_loop = chunk_loop(k);
  shape.vector = shape.chunk_loop->chunk;
  shape.uses_between = uses_between(facts);
  if (shape.vector > 1 && std::has_single_bit(static_cast<unsigned>(shape.vector)))
    shape.chunks = chunks_of(k, shape.vector);
  shape.transposed = tile_loop(k) || !transposed_accesses(k, facts).empty();
  // Each lane of such a load is a branch. With 21 of them this text took half of the time that compiling took.
  constexpr auto kManyBounds = 8;
  shape.only_regular =
      std::ranges::count_if(shape.chunks.loads, [](const Stmt* s) { return !s->bounds.empty(); }) > kManyBounds;
  find_split(k, facts, shape);
  return shape;
}

KernelShape row_shape(const Kernel& k, const Accesses& facts) {
  KernelShape shape;
  shape.thread_loops = facts.vectors;
  shape.separate_lanes = !facts.has_one_extent() || facts.written_across(k);
  if (shape.separate_lanes) return shape;
  find_split(k, facts, shape);
  if (shape.has_row_size()) {
    shape.vector = k.row.vector;
    shape.sides = k.row.sides;
    const bool staged_chunks = k.row.chunks > 0 && k.row.staged > 0;
    shape.held_chunks = k.row.chunks > 0 && !staged_chunks ? k.row.chunks : kAtOnce / shape.vector;
  }
  constexpr int kManyStatements = 32;
  int statements = 0;
  for_each_statement(k.root, [&](const Stmt& s, const Stmt* vector) {
    statements += vector && !is_placement(s.kind);
    const bool is_known = std::ranges::find(shape.kept_values, s.again) != shape.kept_values.end();
    if (s.again >= 0 && !is_known) shape.kept_values.push_back(s.again);
  });
  shape.is_long = statements > kManyStatements;
  shape.chunks = chunks_of(k, shape.vector, true);
  // Where there are texts for two lengths of rows a third is not worth the time to compile it.
  if (shape.has_row_size() || shape.group_split) shape.chunks = {.divisions = std::move(shape.chunks.divisions)};
  shape.held = held_rows(k, facts);
  for (const auto& held : shape.held) {
    const KernelShape::StagedRow row = staged_row(k, facts, held.buffer);
    if (row.stage && !shape.group_split) shape.staged_rows.push_back(row);
  }
  if (!shape.staged_rows.empty() && (k.row.chunks > 0 || !is_costly(k))) shape.staged_blocks = k.row.staged;
  return shape;
}

}  // namespace

KernelShape shape_of(const Kernel& k) {
  const Accesses accesses(k);
  return chunk_loop(k) ? column_shape(k, accesses) : row_shape(k, accesses);
}

}  // namespace smolder::jit::cuda
