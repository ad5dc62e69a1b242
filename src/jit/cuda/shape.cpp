#include "smolder/jit/cuda/shape.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "smolder/jit/cost.h"
#include "smolder/jit/cuda/split_sums.h"

namespace smolder::jit::cuda {

namespace {

constexpr int64_t kNearBytes = 220 << 10;  // of shared memory, which a multiprocessor has for rows
constexpr int64_t kRowRegisters = 104;     // of the 128 that a thread has

/// Whether a held row, where it is long, is worth a place in shared memory: it is the position's, and read several
/// times.
bool is_near(const Kernel& k, const Accesses& facts, const KernelShape::HeldRow& row) {
  const auto b = static_cast<size_t>(row.buffer);
  const bool has_turns = std::ranges::any_of(body_of(k), is_sequential, &Stmt::kind);
  return row.load && !has_turns && facts.is_own_row(b) && facts.is_used_again(b);
}

/// Whether it computes what takes longer than memory does.
bool is_costly(const Kernel& k) {
  bool costly = false;
  for_each_statement(k.root, [&](const Stmt& s, const Stmt* vector) {
    costly = costly || (vector && s.kind == StmtKind::kPrimitive && op_cost(s.op) >= kCostly);
  });
  return costly;
}

/// Whether a vector loop computes of each element what another does.
bool is_same(const Kernel& k, const Stmt& loop, LocalId x, const Stmt& other, LocalId y) {
  if (x == y) return true;
  const auto a = std::ranges::find(loop.body, x, &Stmt::result), b = std::ranges::find(other.body, y, &Stmt::result);
  if (a == loop.body.end() || b == other.body.end() || a->kind != b->kind || a->dtype != b->dtype) return false;
  if (a->kind == StmtKind::kLoad) {
    return !k.buffers[a->address.buffer].write && a->address.buffer == b->address.buffer && a->bounds.empty() &&
           b->bounds.empty() && same_column(a->address, loop.vars[0], b->address, other.vars[0]);
  }
  if (a->kind != StmtKind::kPrimitive || a->op != b->op) return false;
  return std::ranges::equal(a->args, b->args, [&](LocalId p, LocalId q) { return is_same(k, loop, p, other, q); });
}

std::vector<KernelShape::Repeat> repeats_of(const Kernel& k, const Accesses& facts) {
  std::vector<KernelShape::Repeat> all;
  const auto is_costly = [](const Stmt& s) {
    return s.kind == StmtKind::kPrimitive && s.dtype == DType::kFloat32 && op_cost(s.op) >= kCostly;
  };
  for (size_t i = 1; i < facts.vectors.size(); ++i) {
    for (const Stmt& again : facts.vectors[i]->body) {
      if (!is_costly(again)) continue;
      for (size_t j = 0; j < i; ++j) {
        const Stmt& loop = *facts.vectors[j];
        const auto first = std::ranges::find_if(
            loop.body, [&](const Stmt& s) { return is_same(k, loop, s.result, *facts.vectors[i], again.result); });
        if (first == loop.body.end()) continue;
        all.push_back({&*first, &again});
        break;
      }
    }
  }
  return all;
}

/// The last loop that needs elements of the buffer for what is not kept.
const Stmt* last_to_read(const KernelShape& shape, const Accesses& facts, size_t buffer) {
  const auto needs = [&](const Stmt& loop) {
    std::vector<LocalId> needed;
    for (size_t i = loop.body.size(); i-- > 0;) {
      const Stmt& s = loop.body[i];
      const bool is_kept = std::ranges::find(shape.repeats, &s, &KernelShape::Repeat::again) != shape.repeats.end();
      if (is_kept || (s.result >= 0 && std::ranges::find(needed, s.result) == needed.end())) continue;
      if (s.kind == StmtKind::kLoad && s.address.buffer == static_cast<int>(buffer)) return true;
      needed.insert(needed.end(), s.args.begin(), s.args.end());
      for (const auto& index : s.address.indirect) needed.push_back(index.index);
    }
    return false;
  };
  const auto it =
      std::find_if(facts.vectors.rbegin(), facts.vectors.rend(), [&](const Stmt* loop) { return needs(*loop); });
  return it == facts.vectors.rend() ? facts.vectors.front() : *it;
}

/// Whether a thread may take several chunks of the kernel's one vector loop, and it pays.
bool takes_several(const Kernel& k, const KernelShape& shape) {
  if (k.root.vars.empty() || shape.vector == 1 || shape.transposed || !shape.chunks.loads.empty()) return false;
  const auto count = [&](StmtKind kind) { return std::ranges::count(body_of(k), kind, &Stmt::kind); };
  return std::ranges::none_of(body_of(k), is_sequential, &Stmt::kind) && count(StmtKind::kLanes) == 1 &&
         count(StmtKind::kLoad) > 0 && body_of(k).back().kind == StmtKind::kLanes;
}

/// What iterations of a split loop load whatever happens, and none of them writes.
void find_ahead(const Kernel& k, KernelShape& out) {
  // A turn of many statements has enough loads of its own on their way, and another one doubles what is compiled.
  constexpr int kFewStatements = 4, kManyStatements = 64;
  constexpr int64_t kManyBytes = 128;  // of a thread's loads at once: half of its registers, of four blocks
  int statements = -1 * static_cast<int>(out.columns.size());
  for_each_statement(*out.team, [&](const Stmt& s, const Stmt* vector) {
    ++statements;
    if (s.kind != StmtKind::kLoad || !vector || k.buffers[s.address.buffer].write) return;
    const bool whole = s.bounds.empty() || std::ranges::find(out.chunks.loads, &s) != out.chunks.loads.end();
    if (whole && s.address.indirect.empty() && stride_of(s.address.map, vector->vars[0]) == IntRef{1})
      out.ahead.push_back(&s);
  });
  const int loads = static_cast<int>(out.ahead.size());
  out.at_once = statements > kManyStatements ? 1 : statements - loads > kFewStatements ? 2 : 4;
  int64_t bytes = 0;
  for (const Stmt* load : out.ahead) {
    if (!is_same_in_turns(*load, out.team->vars[0])) bytes += out.vector * static_cast<int64_t>(itemsize(load->dtype));
  }
  if (bytes * out.at_once > kManyBytes) out.team_blocks = 2;
}

/// Rows that the position has, in order.
void find_shared(const Kernel& k, const Accesses& facts, KernelShape& out) {
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    const auto& all = facts.of_buffer[b];
    if (k.buffers[b].write || all.empty()) continue;
    const Access& first = all.front();
    const bool same = std::ranges::all_of(all, [&](const Access& a) {
      const Address& at = a.statement->address;
      return a.vector && a.outer == out.team && a.statement->bounds.empty() &&
             stride_of(at.map, a.var()) == IntRef{1} && stride_of(at.map, out.team->vars[0]) == IntRef{} &&
             same_column(at, a.var(), first.statement->address, first.var());
    });
    if (!same) continue;
    const auto size = static_cast<int64_t>(itemsize(k.buffers[b].dtype));
    out.shared_rows.push_back({static_cast<int>(b), first.statement, first.vector, size});
  }
}

/// The split loop and what it adds to.
void find_team(const Kernel& k, const Accesses& facts, KernelShape& out) {
  const auto it = std::ranges::find(body_of(k), StmtKind::kSplit, &Stmt::kind);
  if (it == body_of(k).end()) return;
  out.summed = &*it;
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    for (const Access& a : facts.of_buffer[b]) {
      if (a.statement->kind != StmtKind::kCombine) continue;
      out.columns.push_back(
          {static_cast<int>(b), a.statement, a.vector, static_cast<int64_t>(itemsize(k.buffers[b].dtype))});
    }
  }
  if (out.transposed) return;
  out.team = out.summed;
  out.chunk_loop ? find_ahead(k, out) : find_shared(k, facts, out);
}

/// What threads have registers for: what is written and what is used again first, then what only the trip to memory is
/// long for.
class RowHolder {
 public:
  RowHolder(const Kernel& k, const Accesses& facts, KernelShape& shape)
      : k_(k), facts_(facts), shape_(shape), live_(facts.vectors.size()) {}

  void hold() {
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      if (shared_row(k_, static_cast<int>(b))) hold_written(b, true);
    }
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      if (facts_.is_own_row(b) && is_written(b)) hold_written(b, false);
    }
    // A row that is the same for all positions is in a cache, which is near enough for what registers are too few for.
    // Of rows that do not fit some chunks are loaded at once, and nothing else is before they are stored.
    const bool common = shape_.has_row_size() && !shape_.team && (k_.row.chunks == 0 || k_.row.near > 0);
    for (const bool again : {true, false}) {
      for (size_t b = 0; b < k_.buffers.size(); ++b) {
        if (facts_.is_own_row(b, common) && !is_written(b) && facts_.is_used_again(b) == again) hold_read(b);
      }
    }
  }

 private:
  bool is_written(size_t b) const { return std::ranges::any_of(facts_.of_buffer[b], &Access::is_store); }
  size_t place_of(const Stmt* vector) const {
    return static_cast<size_t>(std::ranges::find(facts_.vectors, vector) - facts_.vectors.begin());
  }

  /// It must be written before it is read, and unless it is scratch at the end.
  void hold_written(size_t b, bool is_scratch) {
    const auto& all = facts_.of_buffer[b];
    const auto in_one_body = [&](const Access& a) { return a.vector && a.outer == all.front().outer; };
    if (!std::ranges::all_of(all, in_one_body) || !facts_.stays_in_column(b) || !facts_.is_used_again(b)) return;
    if (!all.front().is_store() || (!is_scratch && !all.back().is_store())) return;
    const Stmt* last_store = nullptr;
    for (const Access& a : all) {
      if (a.is_store()) last_store = a.statement;
    }
    add({static_cast<int>(b), nullptr, -1, all.front().vector, all.back().vector, last_store, is_scratch}, false);
  }

  void hold_read(size_t b) {
    const auto& all = facts_.of_buffer[b];
    const auto first = std::ranges::find_if(all.front().outer->body, is_vector);
    const bool in_turns = is_sequential(all.front().outer->kind);
    add({static_cast<int>(b), all.front().statement, all.front().var(), &*first, all.back().vector, nullptr, false},
        in_turns);
  }

  void add(const KernelShape::HeldRow& row, bool always) {
    const auto size = static_cast<int64_t>(itemsize(k_.buffers[static_cast<size_t>(row.buffer)].dtype));
    const int64_t elements = shape_.held_chunks * shape_.vector, registers = elements * size / 4;
    const size_t begin = always ? 0 : place_of(row.first);
    const size_t end = always ? live_.size() : place_of(row.last) + 1;
    const std::span<int64_t> live = std::span(live_).subspan(begin, end - begin);
    if (std::ranges::any_of(live, [&](int64_t n) { return n + registers > kRowRegisters; })) return;
    for (int64_t& n : live) n += registers;
    shape_.held.push_back(row);
  }

  const Kernel& k_;
  const Accesses& facts_;
  KernelShape& shape_;
  std::vector<int64_t> live_;  ///< by vector loop, registers that hold rows
};

/// What strips come to is in registers where rows leave many: what the compiler moves to memory costs more than slots
/// in shared memory do. Half as many threads have twice as many registers.
void hold_strips(KernelShape& shape, const Kernel& k) {
  constexpr int64_t kFewRegisters = 96, kManyRegisters = 144;
  const auto registers_of = [&](int64_t itemsize) { return shape.held_chunks * shape.vector * itemsize / 4; };
  int64_t registers = 0;
  for (const auto& row : shape.held) {
    registers += registers_of(static_cast<int64_t>(itemsize(k.buffers[static_cast<size_t>(row.buffer)].dtype)));
  }
  const int64_t rows = registers;
  for (const auto& c : shape.columns) registers += registers_of(c.itemsize);
  if (registers > kFewRegisters && k.row.threads < kMostRowThreads) shape.team_threads = kMostRowThreads / 2;
  const int64_t most = shape.team_threads < kMostRowThreads ? kManyRegisters : kFewRegisters;
  registers = rows;
  for (auto& c : shape.columns) {
    registers += registers_of(c.itemsize);
    c.in_registers = registers <= most;
  }
}

}  // namespace

RowSize row_size(const Kernel& kernel, const KernelShape& shape, std::span<const int64_t> ints) {
  if (!shape.has_row_size()) return {};
  const int64_t n = value_of(shape.thread_loops[0]->extents[0], ints);
  const Accesses facts(kernel);
  if (unit_of(n) == 1) return {.vector = 1};
  if (unit_of(n) > kUnit) {
    const bool rest = n % unit_of(n) != 0;
    if (shape.team) return {.vector = rest ? 1 : unit_of(n)};
    int64_t bytes = 0;
    for (const auto& row : shape.held) {
      if (is_near(kernel, facts, row)) bytes += n * static_cast<int64_t>(itemsize(kernel.buffers[row.buffer].dtype));
    }
    const int near = bytes == 0 || bytes > kNearBytes ? 0 : bytes > kNearBytes / 2 ? 1 : 2;
    RowSize row{.vector = unit_of(n), .near = near, .rest = rest};
    const int all = row.vector * kMostRowThreads, chunks = static_cast<int>((n + all - 1) / all);
    const auto repeats = static_cast<int64_t>(repeats_of(kernel, facts).size());
    const bool reads = std::ranges::all_of(shape.held, [](const auto& held) { return held.load != nullptr; });
    const bool kept = repeats > 0 && chunks * row.vector * repeats <= kRowRegisters;
    if (near == 0 || rest || !reads || !kept || has_shared_rows(kernel)) return row;
    row.near = 1;
    row.threads = kMostRowThreads;
    row.chunks = chunks;
    row.whole = n % all == 0;
    return row;
  }
  // Chunks of eight are of half as many threads, which have no registers for two rows.
  int64_t read = 0;
  for (const auto& held : shape.held) read += held.load ? itemsize(kernel.buffers[held.buffer].dtype) : 0;
  const bool in_eights = n % (2 * kUnit) == 0 && read <= 2 && facts.has_narrow_rows(kernel);
  RowSize row{.vector = in_eights ? 2 * kUnit : kUnit};
  row.sides = row.vector / kUnit;
  const int threads = std::max(lanes_of(n) / row.sides, 1), all = row.vector * threads;
  const int64_t chunks = (n + all - 1) / all;
  if (chunks * row.vector > kHeldElements / 2 * row.sides) return row;
  row.threads = threads;
  row.chunks = static_cast<int>(chunks);
  row.whole = n % all == 0;
  return row;
}

RowRange row_range(int64_t extent, const RowSize& row) {
  constexpr int64_t kShort = 128, kWarpRow = 1024;  // between which there are as many lanes
  // Others would go by single elements.
  if (row.near > 0 && row.chunks > 0) {
    const int64_t all = row.vector * row.threads, most = row.chunks * all;
    return {row.whole ? most - 1 : most - all, most};
  }
  if (extent > kLongRow) return {kLongRow, INT64_MAX};
  if (extent <= kShort) return {0, kShort};
  if (extent <= kWarpRow) return {kShort, kWarpRow};
  const auto last = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)));
  return {last / 2, last};
}

int lanes_of(int64_t extent) {
  constexpr int64_t kFew = 2, kShare = 32;  // units, and elements, that a thread has before there are more
  const auto groups_of = [&](int64_t size) {
    const auto n = static_cast<uint64_t>(std::max<int64_t>(extent, 1)), group = static_cast<uint64_t>(size);
    return static_cast<int64_t>(std::bit_ceil((n + group - 1) / group));
  };
  const int64_t few = std::min<int64_t>(groups_of(kFew * unit_of(extent)), kWarp);
  return static_cast<int>(std::clamp<int64_t>(std::max(few, groups_of(kShare)), 2, kMostRowThreads));
}

int64_t strip_of(int64_t turns) {
  constexpr int64_t kStrips = 16, kShortest = 4;
  return std::max<int64_t>((turns + kStrips - 1) / kStrips, kShortest);
}

const ReduceOrder& reduce_order() {
  const auto strips = [](const Kernel& k) {
    const Accesses accesses(k);
    const Sums sums = find_sums(k, accesses);
    ReduceOrder::Strips all{sums.loop, {}, strip_of};
    for (const auto& c : sums.columns) all.sums.push_back({c.load, c.step, c.store});
    return all;
  };
  static const auto* const kOrder =
      new ReduceOrder{[](int64_t n) { return ReduceOrder::Deal{lanes_of(n), unit_of(n)}; }, strips};
  return *kOrder;
}

namespace {

/// Of a kernel of columns.
KernelShape column_shape(const Kernel& k, const Accesses& facts) {
  KernelShape shape;
  shape.chunk_loop = chunk_loop(k);
  shape.vector = shape.chunk_loop->chunk;
  shape.uses_between = uses_between(facts);
  if (shape.vector > 1) shape.chunks = chunks_of(k, shape.vector);
  shape.transposed = tile_loop(k) || !transposed_accesses(k, facts).empty();
  shape.takes_several = takes_several(k, shape);
  // Each lane of such a load is a branch. With 21 of them this text took half of the time that compiling took.
  constexpr auto kManyBounds = 8;
  shape.only_regular =
      std::ranges::count_if(shape.chunks.loads, [](const Stmt* s) { return !s->bounds.empty(); }) > kManyBounds;
  find_team(k, facts, shape);
  return shape;
}

KernelShape row_shape(const Kernel& k, const Accesses& facts) {
  KernelShape shape;
  shape.thread_loops = facts.vectors;
  shape.separate_lanes = !facts.has_one_extent() || facts.written_across(k);
  if (shape.separate_lanes) return shape;
  find_team(k, facts, shape);
  if (shape.has_row_size()) {
    shape.vector = k.row.vector;
    shape.sides = k.row.sides;
    const bool near_chunks = k.row.chunks > 0 && k.row.near > 0;
    shape.held_chunks = k.row.chunks > 0 && !near_chunks ? k.row.chunks : kAtOnce / shape.vector;
    if (near_chunks) shape.repeats = repeats_of(k, facts);
  }
  constexpr int kManyStatements = 32;
  int statements = 0;
  for_each_statement(k.root, [&](const Stmt&, const Stmt* vector) { statements += vector != nullptr; });
  shape.is_long = statements > kManyStatements;
  shape.chunks = chunks_of(k, shape.vector, true);
  // Where there are texts for two lengths of rows a third is not worth the time to compile it.
  if (shape.has_row_size() || shape.team) shape.chunks = {.divisions = std::move(shape.chunks.divisions)};
  if (shape.vector > 1) RowHolder(k, facts, shape).hold();
  for (const auto& row : shape.held) {
    const auto b = static_cast<size_t>(row.buffer);
    if (k.row.near == 0 || !shape.has_row_size() || !is_near(k, facts, row)) continue;
    const auto size = static_cast<int64_t>(itemsize(k.buffers[b].dtype));
    shape.near_rows.push_back({row.buffer, row.load, last_to_read(shape, facts, b), size});
  }
  if (!shape.near_rows.empty() && (k.row.chunks > 0 || !is_costly(k))) shape.near_blocks = k.row.near;
  if (shape.team && shape.has_row_size() && k.row.chunks > 0) hold_strips(shape, k);
  return shape;
}

}  // namespace

KernelShape shape_of(const Kernel& k) {
  const Accesses accesses(k);
  return chunk_loop(k) ? column_shape(k, accesses) : row_shape(k, accesses);
}

}  // namespace smolder::jit::cuda
