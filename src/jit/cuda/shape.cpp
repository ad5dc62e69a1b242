#include "smolder/jit/cuda/shape.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "smolder/jit/cost.h"

namespace smolder::jit::cuda {

namespace {

constexpr int64_t kNearBytes = 220 << 10;  // of shared memory, which a multiprocessor has for rows
constexpr int64_t kRowRegisters = 104;     // of the 128 that a thread has

struct Access {
  const Stmt* statement;
  const Stmt* vector;  ///< the loop it is in
  const Stmt* outer;   ///< and the one around that
  VarId var() const { return vector ? vector->vars[0] : -1; }
};

bool is_root_var(const Kernel& k, VarId v) { return std::ranges::find(k.root.vars, v) != k.root.vars.end(); }

bool same_extent(const Stmt& a, const Stmt& b) {
  return a.extents[0] == b.extents[0] && a.clamp_var == b.clamp_var && a.clamp_total == b.clamp_total;
}

/// Everything that shape_of asks about.
struct Facts {
  std::vector<const Stmt*> vectors;
  bool has_accumulators = false, stores_outside = false, clamped_inside = false;
  std::vector<std::vector<Access>> accesses;  ///< by buffer

  explicit Facts(const Kernel& k) : accesses(k.buffers.size()) {
    std::vector<std::pair<const Stmt*, const Stmt*>> outer;  // of vector loops
    for_each_statement(k.root, [&](const Stmt& s, const Stmt* vector) {
      for (const Stmt& inner : s.body) {
        if (inner.kind == StmtKind::kVector) outer.push_back({&inner, &s});
      }
      if (s.kind == StmtKind::kVector || s.kind == StmtKind::kParallelVector) vectors.push_back(&s);
      if (s.kind == StmtKind::kAcc) has_accumulators = true;
      if (s.clamp_var >= 0 && !is_root_var(k, s.clamp_var)) clamped_inside = true;
      if (s.kind != StmtKind::kLoad && s.kind != StmtKind::kStore) return;
      if (s.kind == StmtKind::kStore && !vector) stores_outside = true;
      const auto it = std::ranges::find(outer, vector, &std::pair<const Stmt*, const Stmt*>::first);
      accesses[s.address.buffer].push_back({&s, vector, it == outer.end() ? nullptr : it->second});
    });
    // Of what is not written, single elements that are read besides rows say nothing of these.
    for (auto& all : accesses) {
      const bool has_rows = std::ranges::any_of(all, [](const Access& a) { return a.vector != nullptr; });
      if (has_rows && std::ranges::none_of(all, is_store))
        std::erase_if(all, [](const Access& a) { return a.vector == nullptr; });
    }
  }

  /// Whether each thread finds what it wrote itself, provided that it has the same elements in each loop.
  bool stays_in_column(size_t buffer) const {
    const auto& all = accesses[buffer];
    if (all.size() < 2 || are_joined(all)) return true;
    return std::ranges::all_of(all, [&](const Access& a) {
      const Access& first = all.front();
      return a.vector && first.vector && same_extent(*a.vector, *first.vector) &&
             stride_of(a.statement->address.map, a.var()) != IntRef{} &&
             same_column(a.statement->address, a.var(), first.statement->address, first.var());
    });
  }

  static bool are_joined(const std::vector<Access>& all) {
    const Access& first = all.front();
    return first.vector && joined_stores(*first.vector, *first.statement).size() == all.size();
  }

  /// Read and written at the loop's element alone: whatever the position, the same places.
  /// What is read only to be added to there is not: nobody would see the sums.
  bool is_scratch(size_t buffer) const {
    return !only_collects(buffer) && std::ranges::all_of(accesses[buffer], [](const Access& a) {
      const Address& at = a.statement->address;
      return a.vector && at.indirect.empty() && at.map.offset == IntRef{} && at.map.terms.size() == 1 &&
             at.map.terms[0] == Affine::Term{a.var(), IntRef{1}};
    });
  }

  /// Whether the elements are of the position's row, in order, and used in loops of one body alone. `common`: or of a
  /// row that all positions have.
  bool is_own_row(size_t buffer, bool common = false) const {
    const auto& all = accesses[buffer];
    return !all.empty() && stays_in_column(buffer) && std::ranges::all_of(all, [&](const Access& a) {
      const Address& at = a.statement->address;
      return a.vector && a.outer == all.front().outer && a.statement->bounds.empty() && at.indirect.empty() &&
             at.map.terms.size() > (common ? 0 : 1) && stride_of(at.map, a.var()) == IntRef{1};
    });
  }
  /// Whether what is read goes nowhere but, with something added, to the same place again.
  bool only_collects(size_t buffer) const {
    if (std::ranges::all_of(accesses[buffer], is_store)) return false;
    return std::ranges::all_of(accesses[buffer], [&](const Access& a) {
      if (is_store(a)) return true;
      if (!a.vector) return false;
      const Stmt* const sum = only_use(*a.vector, a.statement->result);
      const Stmt* const store = sum ? only_use(*a.vector, sum->result) : nullptr;
      return store && store->kind == StmtKind::kStore && store->address.buffer == static_cast<int>(buffer);
    });
  }
  static const Stmt* only_use(const Stmt& loop, LocalId x) {
    const Stmt* use = nullptr;
    for (const Stmt& s : loop.body) {
      const auto count = std::ranges::count(s.args, x);
      if (count == 0) continue;
      if (use || count > 1 || x < 0) return nullptr;
      use = &s;
    }
    return use;
  }
  /// Whether all that the position has rows of takes two bytes an element or less.
  bool has_narrow_rows(const Kernel& k) const {
    for (size_t b = 0; b < accesses.size(); ++b) {
      const bool is_row = std::ranges::any_of(accesses[b], [](const Access& a) {
        const Affine& map = a.statement->address.map;
        return a.vector && map.terms.size() > 1 && stride_of(map, a.var()) == IntRef{1};
      });
      if (is_row && itemsize(k.buffers[b].dtype) > 2) return false;
    }
    return true;
  }
  static bool is_store(const Access& a) { return a.statement->kind == StmtKind::kStore; }
  bool is_used_again(size_t buffer) const { return accesses[buffer].front().vector != accesses[buffer].back().vector; }
};

/// Whether what lies between the elements of spread accesses is of use to the kernel, too.
bool uses_between(const Facts& facts) {
  return std::ranges::any_of(facts.accesses, [](const std::vector<Access>& all) {
    return std::ranges::any_of(all, [&](const Access& a) {
      if (!a.vector || spread_of(*a.statement, a.var()) == 0) return false;
      if (Facts::is_store(a)) return !joined_stores(*a.vector, *a.statement).empty();
      return a.statement->address.map.offset != all.front().statement->address.map.offset;
    });
  });
}

/// Elements a thread takes, so that the narrowest of them fill 16 bytes where that is not too many.
int vector_of(const Kernel& k, const Facts& facts) {
  constexpr int kBytes = 16, kMost = 8;
  int narrowest = kBytes, widest = 1, spread = 0;
  for (const auto& list : facts.accesses) {
    for (const Access& a : list) {
      if (!a.vector) continue;
      const auto size = static_cast<int>(itemsize(k.buffers[a.statement->address.buffer].dtype));
      spread = std::max(spread, size * static_cast<int>(spread_of(*a.statement, a.var())));
      if (stride_of(a.statement->address.map, a.var()) != IntRef{1}) continue;
      narrowest = std::min(narrowest, std::max(size, 2));
      widest = std::max(widest, size);
    }
  }
  if (spread > 0 && uses_between(facts)) return std::clamp(kBytes / spread, 2, kMost);
  if (narrowest == kBytes) return 1;
  // Chunks beyond 16 bytes are stored in pieces between which lie those of other threads. Where all goes to memory and
  // not just sums of it, that costs more than narrow loads do.
  const int most = k.root.kind == StmtKind::kParallelVector ? std::max(kUnit, kBytes / widest) : kMost;
  return std::min(most, kBytes / narrowest);
}

/// Whether a held row, where it is long, is worth a place in shared memory: it is the position's, and read several
/// times.
bool is_near(const Kernel& k, const Facts& facts, const KernelShape::HeldRow& row) {
  const auto b = static_cast<size_t>(row.buffer);
  const bool has_turns = std::ranges::find(k.root.body, StmtKind::kLoop, &Stmt::kind) != k.root.body.end();
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

std::vector<KernelShape::Repeat> repeats_of(const Kernel& k, const Facts& facts) {
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
const Stmt* last_to_read(const KernelShape& shape, const Facts& facts, size_t buffer) {
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

/// Loads that go along the last variable of the root loop and across the vector loop.
std::vector<const Stmt*> transposed_loads(const Kernel& k, const Facts& facts) {
  std::vector<const Stmt*> loads;
  if (k.root.kind != StmtKind::kParallel) return loads;
  for (const auto& list : facts.accesses) {
    for (const Access& a : list) {
      const Affine& map = a.statement->address.map;
      if (!a.vector || stride_of(map, k.root.vars.back()) != IntRef{1}) continue;
      const IntRef across = stride_of(map, a.var());
      if (across != IntRef{} && across != IntRef{1}) loads.push_back(a.statement);
    }
  }
  return loads;
}

/// Whether a block can make these loads before all else.
bool can_turn(const Kernel& k, const Facts& facts, const std::vector<const Stmt*>& loads) {
  constexpr size_t kMost = 4;
  if (loads.size() > kMost || std::ranges::any_of(k.root.body, [](const Stmt& s) { return s.kind == StmtKind::kLoop; }))
    return false;
  return std::ranges::all_of(loads, [&](const Stmt* s) {
    const auto& uses = facts.accesses[static_cast<size_t>(s->address.buffer)];
    return s->kind == StmtKind::kLoad && s->bounds.empty() && s->address.indirect.empty() &&
           std::ranges::none_of(uses, Facts::is_store);
  });
}

/// Whether a thread may take several chunks of the kernel's one vector loop, and it pays.
bool takes_several(const Kernel& k, const KernelShape& shape) {
  if (k.root.kind != StmtKind::kParallel || shape.vector == 1 || shape.transposed || !shape.chunks.loads.empty())
    return false;
  const auto count = [&](StmtKind kind) { return std::ranges::count(k.root.body, kind, &Stmt::kind); };
  return count(StmtKind::kLoop) == 0 && count(StmtKind::kVector) == 1 && count(StmtKind::kLoad) > 0 &&
         k.root.body.back().kind == StmtKind::kVector;
}

/// Fills `team` and `columns` where the kernel's sequential loop allows it.
class TeamFinder {
 public:
  TeamFinder(const Kernel& k, const Facts& facts, const KernelShape& shape) : k_(k), facts_(facts), shape_(shape) {}

  void find(KernelShape& out) {
    for (const Stmt& s : k_.root.body) {
      if (s.kind == StmtKind::kAcc || (s.kind == StmtKind::kLoop && loop_)) return;
      if (s.kind == StmtKind::kLoop) loop_ = &s;
    }
    if (!loop_ || std::ranges::any_of(loop_->body, [](const Stmt& s) { return s.kind == StmtKind::kLoop; })) return;
    std::vector<KernelShape::TeamColumn> columns;
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      if (!k_.buffers[b].write) continue;
      const std::vector<const Stmt*> inside = accesses_inside(b);
      if (inside.empty() || is_scratch(b)) continue;
      if (auto column = column_of(b, inside)) {
        columns.push_back(*column);
      } else if (inside.size() != facts_.accesses[b].size() || !is_own_row(b)) {
        return;
      }
    }
    if (columns.empty()) return;
    out.summed = loop_;
    out.columns = std::move(columns);
    if (out.transposed) return;
    out.team = loop_;
    out.mode == KernelShape::kColumns ? find_ahead(out) : find_shared(out);
  }

 private:
  bool is_scratch(size_t b) const {
    return std::ranges::find(shape_.scratch, static_cast<int>(b), &KernelShape::ScratchRow::buffer) !=
           shape_.scratch.end();
  }
  std::vector<const Stmt*> accesses_inside(size_t b) const {
    std::vector<const Stmt*> inside;
    for_each_statement(*loop_, [&](const Stmt& s, const Stmt*) {
      const bool access = s.kind == StmtKind::kLoad || s.kind == StmtKind::kStore;
      if (access && s.address.buffer == static_cast<int>(b)) inside.push_back(&s);
    });
    return inside;
  }

  /// Each turn writes places of its own, and reads none but those.
  bool is_own_row(size_t b) const {
    const auto& all = facts_.accesses[b];
    return std::ranges::all_of(all, [&](const Access& a) {
      const Address& at = a.statement->address;
      return at.indirect.empty() && stride_of(at.map, loop_->vars[0]) != IntRef{} &&
             (all.size() == 1 || same_column(at, a.var(), all[0].statement->address, all[0].var()));
    });
  }

  /// What turns load whatever happens, and none of them writes.
  void find_ahead(KernelShape& out) const {
    constexpr int kFewStatements = 4;
    constexpr int64_t kManyBytes = 128;  // of a thread's loads at once: half of its registers, of four blocks
    int statements = -3 * static_cast<int>(out.columns.size());
    for_each_statement(*loop_, [&](const Stmt& s, const Stmt* vector) {
      ++statements;
      if (s.kind != StmtKind::kLoad || !vector || k_.buffers[s.address.buffer].write) return;
      const bool whole = s.bounds.empty() || std::ranges::find(out.chunks.loads, &s) != out.chunks.loads.end();
      if (whole && s.address.indirect.empty() && stride_of(s.address.map, vector->vars[0]) == IntRef{1})
        out.ahead.push_back(&s);
    });
    const int loads = static_cast<int>(out.ahead.size());
    out.at_once = statements - loads > kFewStatements ? 2 : 4;
    int64_t bytes = 0;
    for (const Stmt* load : out.ahead) {
      if (!is_same_in_turns(*load, loop_->vars[0])) bytes += out.vector * static_cast<int64_t>(itemsize(load->dtype));
    }
    if (bytes * out.at_once > kManyBytes) out.team_blocks = 2;
  }

  /// Rows that the position has, in order.
  void find_shared(KernelShape& out) const {
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      const auto& all = facts_.accesses[b];
      if (k_.buffers[b].write || all.empty()) continue;
      const Access& first = all.front();
      const bool same = std::ranges::all_of(all, [&](const Access& a) {
        const Address& at = a.statement->address;
        return a.vector && a.outer == loop_ && a.statement->bounds.empty() && stride_of(at.map, a.var()) == IntRef{1} &&
               stride_of(at.map, loop_->vars[0]) == IntRef{} &&
               same_column(at, a.var(), first.statement->address, first.var());
      });
      if (!same) continue;
      const auto size = static_cast<int64_t>(itemsize(k_.buffers[b].dtype));
      out.shared_rows.push_back({static_cast<int>(b), first.statement, first.vector, size});
    }
  }

  /// The loop before the team's that stores one value to all elements of the column, and does nothing else.
  const Stmt* initial_of(const KernelShape::TeamColumn& c) const {
    const auto& all = facts_.accesses[static_cast<size_t>(c.buffer)];
    const Access& first = all[0];
    if (!Facts::is_store(first) || all[1].statement != c.load || !first.vector || first.vector->body.size() != 1)
      return {};
    const bool same = same_extent(*first.vector, *c.vector) &&
                      same_column(first.statement->address, first.var(), c.load->address, c.vector->vars[0]);
    const bool is_outer = std::ranges::any_of(k_.root.body, [&](const Stmt& s) { return &s == first.vector; });
    return same && is_outer ? first.vector : nullptr;
  }

  /// b[column] = step(b[column], x), the one use of the buffer in the loop.
  std::optional<KernelShape::TeamColumn> column_of(size_t b, const std::vector<const Stmt*>& inside) const {
    if (inside.size() != 2 || inside[0]->kind != StmtKind::kLoad || inside[1]->kind != StmtKind::kStore) return {};
    const DType t = k_.buffers[b].dtype;
    if (compute_type(t) != t) return {};  // an operand may be unrounded
    KernelShape::TeamColumn c{
        static_cast<int>(b), inside[0], nullptr, inside[1], nullptr, nullptr, static_cast<int64_t>(itemsize(t))};
    int uses = 0, step_uses = 0;
    for_each_statement(*loop_, [&](const Stmt& s, const Stmt* vector) {
      if (&s == c.store) c.vector = vector;
      uses += static_cast<int>(std::ranges::count(s.args, c.load->result));
      step_uses += static_cast<int>(std::ranges::count(s.args, c.store->args[0]));
      if (s.result >= 0 && s.result == c.store->args[0]) c.step = &s;
    });
    if (!c.vector || !c.step || uses != 1 || step_uses != 1 || !is_step(*c.step, *c.load)) return {};
    const VarId v = c.vector->vars[0];
    const bool plain = c.load->bounds.empty() && same_column(c.load->address, v, c.store->address, v) &&
                       stride_of(c.load->address.map, v) == IntRef{1} &&
                       stride_of(c.load->address.map, loop_->vars[0]) == IntRef{};
    if (!plain) return {};
    c.initial = initial_of(c);
    return c;
  }
  static bool is_step(const Stmt& s, const Stmt& load) {
    if (s.kind != StmtKind::kPrimitive || s.args.size() != 2 || s.args[0] != load.result) return false;
    using ir::Op;
    constexpr Op kSteps[] = {Op::kAdd, Op::kMul, Op::kMaximum, Op::kMinimum, Op::kLogicalOr, Op::kLogicalAnd};
    return std::ranges::find(kSteps, s.op) != std::end(kSteps) && result_dtype(s) == load.dtype &&
           s.dtype == load.dtype;
  }

  const Kernel& k_;
  const Facts& facts_;
  const KernelShape& shape_;
  const Stmt* loop_ = nullptr;
};

/// What threads have registers for: what is written and what is used again first, then what only the trip to memory is
/// long for.
class RowHolder {
 public:
  RowHolder(const Kernel& k, const Facts& facts, KernelShape& shape)
      : k_(k), facts_(facts), shape_(shape), live_(facts.vectors.size()) {}

  void hold() {
    for (const auto& row : shape_.scratch) hold_written(static_cast<size_t>(row.buffer), true);
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
  bool is_written(size_t b) const { return std::ranges::any_of(facts_.accesses[b], Facts::is_store); }
  size_t place_of(const Stmt* vector) const {
    return static_cast<size_t>(std::ranges::find(facts_.vectors, vector) - facts_.vectors.begin());
  }

  /// It must be written before it is read, and unless it is scratch at the end.
  void hold_written(size_t b, bool is_scratch) {
    const auto& all = facts_.accesses[b];
    const auto in_one_body = [&](const Access& a) { return a.vector && a.outer == all.front().outer; };
    if (!std::ranges::all_of(all, in_one_body) || !facts_.stays_in_column(b) || !facts_.is_used_again(b)) return;
    if (!Facts::is_store(all.front()) || (!is_scratch && !Facts::is_store(all.back()))) return;
    const Stmt* last_store = nullptr;
    for (const Access& a : all) {
      if (Facts::is_store(a)) last_store = a.statement;
    }
    add({static_cast<int>(b), nullptr, -1, all.front().vector, all.back().vector, last_store, is_scratch}, false);
  }

  void hold_read(size_t b) {
    const auto& all = facts_.accesses[b];
    const auto first = std::ranges::find(all.front().outer->body, StmtKind::kVector, &Stmt::kind);
    const bool in_turns = all.front().outer->kind == StmtKind::kLoop;
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
  const Facts& facts_;
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

/// Of loads that may be turned those that there is room for.
std::vector<const Stmt*> that_fit(const Kernel& k, const KernelShape& shape, std::vector<const Stmt*> loads) {
  constexpr size_t kMostStatic = 48 << 10;  // shared memory of a block that need not be asked for
  size_t bytes = 0;
  std::erase_if(loads, [&](const Stmt* s) {
    const size_t more = static_cast<size_t>(tile_elements(shape.vector)) * itemsize(k.buffers[s->address.buffer].dtype);
    if (bytes + more > kMostStatic) return true;
    bytes += more;
    return false;
  });
  return loads;
}

}  // namespace

RowSize row_size(const Kernel& kernel, std::span<const int64_t> ints) {
  const KernelShape shape = shape_of(kernel);
  if (!shape.has_row_size()) return {};
  const int64_t n = value_of(shape.extents[0], ints);
  const Facts facts(kernel);
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
    if (near == 0 || rest || !reads || !kept || !shape.scratch.empty()) return row;
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

IntRef row_extent(const Kernel& kernel) {
  const KernelShape shape = shape_of(kernel);
  return shape.has_row_size() ? shape.extents[0] : IntRef{};
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
    const KernelShape shape = shape_of(k);
    ReduceOrder::Strips all{shape.summed, {}, strip_of};
    for (const auto& c : shape.columns) all.sums.push_back({c.load, c.step, c.store});
    return all;
  };
  static const auto* const kOrder =
      new ReduceOrder{[](int64_t n) { return ReduceOrder::Deal{lanes_of(n), unit_of(n)}; }, strips};
  return *kOrder;
}

int64_t spread_of(const Stmt& s, VarId v) {
  const IntRef stride = stride_of(s.address.map, v), offset = s.address.map.offset;
  const bool known = stride.is_constant() && (stride.constant == 2 || stride.constant == 4) && offset.is_constant() &&
                     offset.constant >= 0 && offset.constant < stride.constant;
  return known && s.bounds.empty() && s.address.indirect.empty() ? stride.constant : 0;
}

std::vector<const Stmt*> joined_stores(const Stmt& loop, const Stmt& s) {
  const int64_t spread = s.kind == StmtKind::kStore ? spread_of(s, loop.vars[0]) : 0;
  if (spread == 0) return {};
  std::vector<const Stmt*> all(static_cast<size_t>(spread));
  for (const Stmt& other : loop.body) {
    if (other.kind != StmtKind::kStore || other.address.buffer != s.address.buffer) continue;
    if (spread_of(other, loop.vars[0]) != spread || other.address.map.terms != s.address.map.terms) return {};
    all[static_cast<size_t>(other.address.map.offset.constant)] = &other;
  }
  return std::ranges::find(all, nullptr) == all.end() ? all : std::vector<const Stmt*>();
}

bool same_column(const Address& a, VarId va, const Address& b, VarId vb) {
  if (!a.indirect.empty() || !b.indirect.empty() || a.map.offset != b.map.offset) return false;
  if (a.map.terms.size() != b.map.terms.size()) return false;
  if (stride_of(a.map, va) != stride_of(b.map, vb)) return false;
  // Other variables may differ in name only where each has one loop; asking for the same ones is enough for us.
  return std::ranges::all_of(a.map.terms,
                             [&](const auto& t) { return t.var == va || t.stride == stride_of(b.map, t.var); });
}

KernelShape shape_of(const Kernel& k) {
  const Facts facts(k);
  KernelShape shape;
  const auto written_across = [&] {
    for (size_t b = 0; b < k.buffers.size(); ++b) {
      if (k.buffers[b].write && !facts.stays_in_column(b)) return true;
    }
    return false;
  };
  const bool one_extent = !facts.vectors.empty() && std::ranges::all_of(facts.vectors, [&](const Stmt* s) {
    return same_extent(*s, *facts.vectors[0]);
  });
  if (k.root.kind == StmtKind::kParallelVector ||
      (one_extent && !facts.has_accumulators && !facts.stores_outside && !facts.clamped_inside && !written_across())) {
    shape.mode = KernelShape::kColumns;
    shape.vector = vector_of(k, facts);
    shape.uses_between = uses_between(facts);
    shape.extent = facts.vectors[0]->extents[0];
    if (facts.vectors[0]->clamp_var >= 0) shape.total = facts.vectors[0]->clamp_total;
    if (shape.vector > 1) shape.chunks = chunks_of(k, shape.vector);
    const auto loads = transposed_loads(k, facts);
    shape.transposed = !loads.empty();
    if (shape.transposed && can_turn(k, facts, loads)) shape.turned = that_fit(k, shape, loads);
    shape.takes_several = takes_several(k, shape);
    TeamFinder(k, facts, shape).find(shape);
    return shape;
  }
  shape.mode = KernelShape::kRows;
  for (const Stmt* s : facts.vectors) {
    shape.extents.push_back(s->extents[0]);
    shape.clamped = shape.clamped || s->clamp_var >= 0;
  }
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    const BufferArg& arg = k.buffers[b];
    if (arg.read && arg.write && facts.is_scratch(b)) {  // unless the caller gives memory: there is one position then
      const Stmt& loop = *facts.accesses[b][0].vector;
      shape.scratch.push_back({static_cast<int>(b), loop.extents[0], static_cast<int64_t>(itemsize(arg.dtype))});
    }
  }
  shape.synchronizes = !one_extent || written_across();
  if (!shape.synchronizes) {
    TeamFinder(k, facts, shape).find(shape);
    if (shape.has_row_size()) {
      shape.vector = k.row.vector;
      shape.sides = k.row.sides;
      const bool near_chunks = k.row.chunks > 0 && k.row.near > 0;
      shape.held_chunks = k.row.chunks > 0 && !near_chunks ? k.row.chunks : kAtOnce / shape.vector;
      if (near_chunks) shape.repeats = repeats_of(k, facts);
    }
    if (shape.in_chunks()) {
      shape.chunks = chunks_of(k, shape.vector, true);
      // Where there are texts for two lengths of rows a third is not worth the time to compile it.
      if (shape.has_row_size() || shape.team) shape.chunks = {.divisions = std::move(shape.chunks.divisions)};
    }
    if (shape.vector > 1) RowHolder(k, facts, shape).hold();
    for (const auto& row : shape.held) {
      const auto b = static_cast<size_t>(row.buffer);
      if (k.row.near == 0 || !shape.has_row_size() || !is_near(k, facts, row)) continue;
      const auto size = static_cast<int64_t>(itemsize(k.buffers[b].dtype));
      shape.near_rows.push_back({row.buffer, row.load, last_to_read(shape, facts, b), size});
    }
    if (!shape.near_rows.empty() && (k.row.chunks > 0 || !is_costly(k))) shape.near_blocks = k.row.near;
    if (shape.team && shape.has_row_size() && k.row.chunks > 0) hold_strips(shape, k);
  }
  return shape;
}

}  // namespace smolder::jit::cuda
