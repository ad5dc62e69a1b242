#include "smolder/jit/cuda/split_sums.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "smolder/jit/cuda/map_threads.h"

namespace smolder::jit::cuda {

namespace {

class SumFinder {
 public:
  SumFinder(const Kernel& k, const Accesses& accesses) : k_(k), accesses_(accesses) {}

  Sums find() {
    if (!takes_chunks(k_, accesses_) && (!accesses_.has_one_extent() || accesses_.written_across(k_))) return {};
    for (const Stmt& s : body_of(k_)) {
      if (s.kind == StmtKind::kAcc || (s.kind == StmtKind::kLoop && loop_)) return {};
      if (s.kind == StmtKind::kLoop) loop_ = &s;
    }
    if (!loop_ || std::ranges::any_of(loop_->body, [](const Stmt& s) { return s.kind == StmtKind::kLoop; })) return {};
    Sums sums;
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      if (!k_.buffers[b].write) continue;
      const std::vector<const Stmt*> inside = accesses_inside(b);
      if (inside.empty() || is_shared_row(k_, accesses_, b)) continue;
      if (auto column = column_of(b, inside)) {
        sums.columns.push_back(*column);
      } else if (inside.size() != accesses_.of_buffer[b].size() || !is_own_row(b)) {
        return {};
      }
    }
    if (!sums.columns.empty()) sums.loop = loop_;
    return sums;
  }

 private:
  std::vector<const Stmt*> accesses_inside(size_t b) const {
    std::vector<const Stmt*> inside;
    for_each_statement(*loop_, [&](const Stmt& s, const Stmt*) {
      const bool access = s.kind == StmtKind::kLoad || s.kind == StmtKind::kStore;
      if (access && s.address.buffer == static_cast<int>(b)) inside.push_back(&s);
    });
    return inside;
  }

  /// Each iteration writes places of its own, and reads none but those.
  bool is_own_row(size_t b) const {
    const auto& all = accesses_.of_buffer[b];
    return std::ranges::all_of(all, [&](const Access& a) {
      const Address& at = a.statement->address;
      return at.indirect.empty() && stride_of(at.map, loop_->vars[0]) != IntRef{} &&
             (all.size() == 1 || same_column(at, a.var(), all[0].statement->address, all[0].var()));
    });
  }

  /// The loop before that stores one value to all elements of the column, and does nothing else.
  const Stmt* initial_of(const Sums::Column& c) const {
    const auto& all = accesses_.of_buffer[static_cast<size_t>(c.load->address.buffer)];
    const Access& first = all[0];
    if (!first.is_store() || all[1].statement != c.load || !first.vector || first.vector->body.size() != 1) return {};
    const bool same = same_extent(*first.vector, *c.vector) &&
                      same_column(first.statement->address, first.var(), c.load->address, c.vector->vars[0]);
    const bool is_outer = std::ranges::any_of(body_of(k_), [&](const Stmt& s) { return &s == first.vector; });
    return same && is_outer ? first.vector : nullptr;
  }

  /// b[column] = step(b[column], x), the one use of the buffer in the loop.
  std::optional<Sums::Column> column_of(size_t b, const std::vector<const Stmt*>& inside) const {
    if (inside.size() != 2 || inside[0]->kind != StmtKind::kLoad || inside[1]->kind != StmtKind::kStore) return {};
    const DType t = k_.buffers[b].dtype;
    if (compute_type(t) != t) return {};  // an operand may be unrounded
    Sums::Column c{inside[0], nullptr, inside[1], nullptr, nullptr};
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
  const Accesses& accesses_;
  const Stmt* loop_ = nullptr;
};

class Splitter {
 public:
  Splitter(const Sums& sums, bool side_by_side) : sums_(sums), side_by_side_(side_by_side) {}

  void rewrite(std::vector<Stmt>& body) const {
    using Column = Sums::Column;
    const auto is_part = [&](const Stmt* Column::* part, const Stmt& s) {
      return std::ranges::find(sums_.columns, &s, part) != sums_.columns.end();
    };
    std::vector<Stmt> kept;
    for (Stmt& s : body) {
      if (is_part(&Column::load, s) || is_part(&Column::step, s)) continue;
      if (side_by_side_ && is_part(&Column::initial, s)) continue;
      if (is_part(&Column::store, s)) {
        kept.push_back(combination(*std::ranges::find(sums_.columns, &s, &Column::store)));
        continue;
      }
      if (&s == sums_.loop) s.kind = StmtKind::kSplit;
      rewrite(s.body);
      kept.push_back(std::move(s));
    }
    body = std::move(kept);
  }

 private:
  Stmt combination(const Sums::Column& c) const {
    Stmt s{};
    s.kind = StmtKind::kCombine;
    s.dtype = c.store->dtype;
    s.op = c.step->op;
    s.address = c.load->address;
    s.args = {c.step->args[1]};
    if (side_by_side_ && c.initial) s.args.push_back(c.initial->body[0].args[0]);
    return s;
  }

  const Sums& sums_;
  const bool side_by_side_;
};

}  // namespace

Sums find_sums(const Kernel& k, const Accesses& accesses) { return SumFinder(k, accesses).find(); }

void split_sums(Kernel& k) {
  const Accesses accesses(k);
  const Sums sums = find_sums(k, accesses);
  if (sums.loop) Splitter(sums, transposed_accesses(k, accesses).empty()).rewrite(k.root.body);
}

}  // namespace smolder::jit::cuda
