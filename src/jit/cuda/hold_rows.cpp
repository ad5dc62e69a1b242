#include "smolder/jit/cuda/hold_rows.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "smolder/jit/cuda/accesses.h"
#include "smolder/jit/cuda/shape.h"

namespace smolder::jit::cuda {

namespace {

constexpr int64_t kRowRegisters = 104;  // of the 128 that a thread has

class RowHolder {
 public:
  RowHolder(const Kernel& k, const KernelShape& shape)
      : k_(k), accesses_(k), shape_(shape), live_(accesses_.vectors.size()) {}

  /// Rows in the order in which registers are given to them.
  void choose() {
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      if (shared_row(k_, static_cast<int>(b))) choose_written(b, true);
    }
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      if (accesses_.is_own_row(b) && is_written(b)) choose_written(b, false);
    }
    // A row that is the same for all positions is in a cache, which will do where registers are too few.
    // Where rows do not fit some chunks are loaded at once, and nothing else is loaded before they are stored.
    const bool common = shape_.has_row_size() && !shape_.group_split && (k_.row.chunks == 0 || k_.row.staged > 0);
    for (const bool again : {true, false}) {
      for (size_t b = 0; b < k_.buffers.size(); ++b) {
        if (accesses_.is_own_row(b, common) && !is_written(b) && accesses_.is_used_again(b) == again) choose_read(b);
      }
    }
    if (shape_.group_split && shape_.has_row_size() && k_.row.chunks > 0) choose_segments();
  }

  void rewrite(Kernel& k) const {
    insert(k.root.body);
    std::vector<Stmt> registers;
    for (const Row& row : rows_) registers.push_back(registers_for(row.buffer));
    for (const int b : segments_) registers.push_back(registers_for(b));
    const auto at = std::ranges::find_if(k.root.body, [](const Stmt& s) { return s.kind != StmtKind::kShared; });
    k.root.body.insert(at, registers.begin(), registers.end());
  }

 private:
  struct Row {
    int buffer;
    Address address;
    VarId var;                 ///< of the loop over elements in it
    const Stmt *first, *last;  ///< the loops between which threads keep it
  };

  bool is_written(size_t b) const { return std::ranges::any_of(accesses_.of_buffer[b], &Access::is_store); }
  size_t place_of(const Stmt* vector) const {
    return static_cast<size_t>(std::ranges::find(accesses_.vectors, vector) - accesses_.vectors.begin());
  }
  int64_t registers_of(int buffer) const {
    const auto size = static_cast<int64_t>(itemsize(k_.buffers[static_cast<size_t>(buffer)].dtype));
    return shape_.held_chunks * shape_.vector * size / 4;
  }

  /// It must be written before it is read, and unless it is a shared row at the end, which memory gets.
  void choose_written(size_t b, bool is_scratch) {
    const auto& all = accesses_.of_buffer[b];
    const auto in_one_body = [&](const Access& a) { return a.vector && a.outer == all.front().outer; };
    if (!std::ranges::all_of(all, in_one_body) || !accesses_.stays_in_column(b) || !accesses_.is_used_again(b)) return;
    if (!all.front().is_store() || (!is_scratch && !all.back().is_store())) return;
    add(all.front(), all.front().vector, all.back().vector, false);
  }

  /// A row that iterations read is held from the first loop of each on: all of it is on its way before anything is
  /// computed.
  void choose_read(size_t b) {
    const auto& all = accesses_.of_buffer[b];
    const auto first = std::ranges::find_if(all.front().outer->body, is_vector);
    add(all.front(), &*first, all.back().vector, is_sequential(all.front().outer->kind));
  }

  /// `always`: its registers are nobody else's in any loop.
  void add(const Access& access, const Stmt* first, const Stmt* last, bool always) {
    const int buffer = access.statement->address.buffer;
    const size_t begin = always ? 0 : place_of(first), end = always ? live_.size() : place_of(last) + 1;
    const std::span<int64_t> live = std::span(live_).subspan(begin, end - begin);
    const int64_t registers = registers_of(buffer);
    if (std::ranges::any_of(live, [&](int64_t n) { return n + registers > kRowRegisters; })) return;
    for (int64_t& n : live) n += registers;
    rows_.push_back({buffer, access.statement->address, access.var(), first, last});
  }

  /// Sums of segments are in registers where rows leave many: what the compiler moves to memory costs more than
  /// slots in shared memory do. Half as many threads have twice as many registers.
  void choose_segments() {
    constexpr int64_t kFewRegisters = 96, kManyRegisters = 144;
    int64_t rows = 0, sums = 0;
    for (const Row& row : rows_) rows += registers_of(row.buffer);
    for (const auto& c : shape_.sums) sums += registers_of(c.buffer);
    if (rows + sums > kFewRegisters && k_.row.threads < kMostRowThreads) split_threads_ = kMostRowThreads / 2;
    const int64_t most = split_threads_ > 0 ? kManyRegisters : kFewRegisters;
    int64_t registers = rows;
    for (const auto& c : shape_.sums) {
      registers += registers_of(c.buffer);
      if (registers <= most) segments_.push_back(c.buffer);
    }
  }

  void insert(std::vector<Stmt>& body) const {
    for (Stmt& s : body) {
      if (s.kind == StmtKind::kSplit) s.limit = IntRef{split_threads_};
      if (!is_vector(s)) {
        insert(s.body);
        continue;
      }
      std::vector<Stmt> holds;
      for (const Row& row : rows_) {
        if (row.first == &s) holds.push_back(placement(StmtKind::kHold, row, s.vars[0]));
      }
      for (const Row& row : rows_) {
        if (row.last == &s) s.body.push_back(placement(StmtKind::kRelease, row, s.vars[0]));
      }
      s.body.insert(s.body.begin(), holds.begin(), holds.end());
    }
  }
  Stmt placement(StmtKind kind, const Row& row, VarId element) const {
    return placement_of(k_, kind, row.address, row.var, element);
  }
  Stmt registers_for(int buffer) const {
    Stmt s{};
    s.kind = StmtKind::kRegister;
    s.address.buffer = buffer;
    s.limit = IntRef{shape_.held_chunks * shape_.vector};
    return s;
  }

  const Kernel& k_;
  const Accesses accesses_;
  const KernelShape& shape_;
  std::vector<int64_t> live_;  ///< by loop over elements: registers that hold rows
  std::vector<Row> rows_;
  std::vector<int> segments_;  ///< buffers whose sums of a segment are in registers
  int split_threads_ = 0;
};

}  // namespace

void hold_rows(Kernel& k) {
  if (chunk_loop(k)) return;
  const KernelShape shape = shape_of(k);
  if (!shape.in_chunks() || shape.vector == 1) return;
  RowHolder holder(k, shape);
  holder.choose();
  holder.rewrite(k);
}

}  // namespace smolder::jit::cuda
