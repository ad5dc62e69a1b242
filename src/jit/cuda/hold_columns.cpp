#include "smolder/jit/cuda/hold_columns.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "smolder/jit/cuda/accesses.h"
#include "smolder/jit/cuda/shape.h"

namespace smolder::jit::cuda {

namespace {

constexpr int kUnrolled = 8;  // iterations

class ColumnHolder {
 public:
  ColumnHolder(const Kernel& k, const KernelShape& shape)
      : k_(k), chunk_var_(shape.chunk_loop->vars[0]), split_(shape.group_split) {}

  /// `outer`: buffers that a loop around holds.
  void run(std::vector<Stmt>& body, const std::vector<int>& outer) {
    std::vector<Stmt> all;
    for (Stmt& s : body) {
      // Sums of segments that groups take side by side have registers of their own.
      const bool holds = is_sequential(s.kind) && &s != split_;
      const std::vector<Column> columns = holds ? columns_of(s, outer) : std::vector<Column>{};
      std::vector<int> held = outer;
      for (const Column& c : columns) {
        all.push_back(placement_of(k_, StmtKind::kHold, c.address, c.var, chunk_var_));
        held.push_back(c.address.buffer);
      }
      if (!columns.empty() && writes_only(s, std::span<const int>(held).subspan(outer.size()))) s.unroll = kUnrolled;
      if (is_sequential(s.kind)) run(s.body, held);
      all.push_back(std::move(s));
      for (const Column& c : columns) {
        all.push_back(placement_of(k_, StmtKind::kRelease, c.address, c.var, chunk_var_));
      }
    }
    body = std::move(all);
  }

 private:
  struct Column {
    Address address;
    VarId var = -1;  ///< of the loop over elements in it
    int loads = 0, stores = 0;
    bool same = true;
  };

  /// Elements that the loop both reads and writes, in one place whatever its variable.
  std::vector<Column> columns_of(const Stmt& loop, const std::vector<int>& outer) const {
    std::vector<VarId> inner;
    for_each_statement(loop, [&](const Stmt& s, const Stmt*) {
      if (is_sequential(s.kind)) inner.push_back(s.vars[0]);
    });
    std::vector<Column> of_buffer(k_.buffers.size());
    for_each_statement(loop, [&](const Stmt& s, const Stmt* vector) {
      if (!is_access(s)) return;
      Column& c = of_buffer[static_cast<size_t>(s.address.buffer)];
      c.loads += s.kind != StmtKind::kStore;
      c.stores += s.kind != StmtKind::kLoad;
      c.same = c.same && vector && s.bounds.empty() && s.address.indirect.empty();
      if (!c.same) return;
      const VarId v = vector->vars[0];
      for (const VarId iteration : inner) c.same = c.same && is_fixed(s.address.map, iteration);
      if (c.var < 0) c.address = s.address, c.var = v;
      c.same = c.same && !is_fixed(s.address.map, v) && same_column(c.address, c.var, s.address, v);
    });
    std::erase_if(of_buffer, [&](const Column& c) {
      return c.loads == 0 || c.stores == 0 || !c.same || std::ranges::find(outer, c.address.buffer) != outer.end();
    });
    return of_buffer;
  }

  /// Whether no iteration writes to memory.
  static bool writes_only(const Stmt& loop, std::span<const int> held) {
    bool writes = false;
    for_each_statement(loop, [&](const Stmt& s, const Stmt*) {
      writes = writes || s.kind == StmtKind::kCheckIndex ||
               (s.kind == StmtKind::kStore && std::ranges::find(held, s.address.buffer) == held.end());
    });
    return !writes;
  }

  const Kernel& k_;
  const VarId chunk_var_;
  const Stmt* const split_;
};

}  // namespace

void hold_columns(Kernel& k) {
  Stmt* const loop = chunk_loop(k);
  if (!loop || std::ranges::none_of(loop->body, is_sequential, &Stmt::kind)) return;
  const KernelShape shape = shape_of(k);
  ColumnHolder(k, shape).run(loop->body, {});
}

}  // namespace smolder::jit::cuda
