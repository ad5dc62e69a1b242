#include "smolder/jit/cuda/stage_rows.h"

#include <algorithm>
#include <vector>

#include "smolder/jit/cuda/shape.h"

namespace smolder::jit::cuda {

namespace {

class RowStager {
 public:
  RowStager(const Kernel& k, const KernelShape& shape) : k_(k), accesses_(k), shape_(shape) {}

  void run(std::vector<Stmt>& body) {
    if (shape_.group_split) find_common();
    if (shape_.has_row_size() && k_.row.staged > 0) find_long();
    insert(body);
  }

 private:
  struct Row {
    Address address;
    VarId var;          ///< of the loop over elements in it
    const Stmt* first;  ///< the loop from which on it is staged
    const Stmt* last;   ///< the loop that is the last to read it; null: the split loop's end
  };

  /// Rows that all iterations read, in order.
  void find_common() {
    const VarId iteration = shape_.group_split->vars[0];
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      const auto& all = accesses_.of_buffer[b];
      if (k_.buffers[b].write || all.empty()) continue;
      const Access& first = all.front();
      const bool same = std::ranges::all_of(all, [&](const Access& a) {
        const Address& at = a.statement->address;
        return a.vector && a.outer == shape_.group_split && a.statement->bounds.empty() &&
               stride_of(at.map, a.var()) == IntRef{1} && stride_of(at.map, iteration) == IntRef{} &&
               same_column(at, a.var(), first.statement->address, first.var());
      });
      if (same) rows_.push_back({first.statement->address, first.var(), first.vector, nullptr});
    }
  }

  void find_long() {
    for (const auto& row : shape_.held) {
      if (row.is_written() || !is_worth_staging(k_, accesses_, row.buffer)) continue;
      rows_.push_back({row.hold->address, row.var(), row.first, last_to_read(row.buffer)});
    }
  }

  /// The last loop that needs elements of the buffer for what it does not find in registers.
  const Stmt* last_to_read(int buffer) const {
    const auto it = std::find_if(accesses_.vectors.rbegin(), accesses_.vectors.rend(),
                                 [&](const Stmt* loop) { return reads(*loop, buffer); });
    return it == accesses_.vectors.rend() ? accesses_.vectors.front() : *it;
  }
  bool reads(const Stmt& loop, int buffer) const {
    std::vector<LocalId> needed;
    for (size_t i = loop.body.size(); i-- > 0;) {
      const Stmt& s = loop.body[i];
      if (s.again >= 0 || (s.result >= 0 && std::ranges::find(needed, s.result) == needed.end())) continue;
      if (s.kind == StmtKind::kLoad && s.address.buffer == buffer) return true;
      needed.insert(needed.end(), s.args.begin(), s.args.end());
      for (const auto& index : s.address.indirect) needed.push_back(index.index);
    }
    return false;
  }

  void insert(std::vector<Stmt>& body) const {
    for (Stmt& s : body) {
      if (!is_vector(s)) {
        insert(s.body);
        continue;
      }
      std::vector<Stmt> stages;
      for (const Row& row : rows_) {
        if (row.first == &s) stages.push_back(placement_of(k_, StmtKind::kStage, row.address, row.var, s.vars[0]));
      }
      for (const Row& row : rows_) {
        if (row.last == &s) s.body.push_back(placement_of(k_, StmtKind::kUnstage, row.address, row.var, s.vars[0]));
      }
      s.body.insert(s.body.begin(), stages.begin(), stages.end());
    }
  }

  const Kernel& k_;
  const Accesses accesses_;
  const KernelShape& shape_;
  std::vector<Row> rows_;
};

}  // namespace

void stage_rows(Kernel& k) {
  if (chunk_loop(k)) return;
  const KernelShape shape = shape_of(k);
  if (shape.in_chunks()) RowStager(k, shape).run(k.root.body);
}

bool is_worth_staging(const Kernel& k, const Accesses& accesses, int buffer) {
  const auto b = static_cast<size_t>(buffer);
  const bool has_iterations = std::ranges::any_of(body_of(k), is_sequential, &Stmt::kind);
  return !has_iterations && accesses.is_own_row(b) && accesses.is_used_again(b);
}

}  // namespace smolder::jit::cuda
