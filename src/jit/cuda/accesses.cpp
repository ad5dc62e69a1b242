#include "smolder/jit/cuda/accesses.h"

#include <algorithm>
#include <utility>

namespace smolder::jit::cuda {

namespace {

bool is_root_var(const Kernel& k, VarId v) { return std::ranges::find(k.root.vars, v) != k.root.vars.end(); }

bool are_joined(const std::vector<Access>& all) {
  const Access& first = all.front();
  return first.vector && joined_stores(*first.vector, *first.statement).size() == all.size();
}

const Stmt* only_use(const Stmt& loop, LocalId x) {
  const Stmt* use = nullptr;
  for (const Stmt& s : loop.body) {
    const auto count = std::ranges::count(s.args, x);
    if (count == 0) continue;
    if (use || count > 1 || x < 0) return nullptr;
    use = &s;
  }
  return use;
}

}  // namespace

Accesses::Accesses(const Kernel& k) : of_buffer(k.buffers.size()) {
  std::vector<std::pair<const Stmt*, const Stmt*>> outer;  // of vector loops
  for_each_statement(k.root, [&](const Stmt& s, const Stmt* vector) {
    for (const Stmt& inner : s.body) {
      if (is_vector(inner)) outer.push_back({&inner, &s});
    }
    if (is_vector(s)) vectors.push_back(&s);
    if (s.kind == StmtKind::kAcc) has_accumulators = true;
    if (s.clamp_var >= 0 && !is_root_var(k, s.clamp_var)) clamped_inside = true;
    if (!is_access(s)) return;
    if (s.kind == StmtKind::kStore && !vector) stores_outside = true;
    const auto it = std::ranges::find(outer, vector, &std::pair<const Stmt*, const Stmt*>::first);
    of_buffer[s.address.buffer].push_back({&s, vector, it == outer.end() ? nullptr : it->second});
  });
  // Where a buffer is not written, single elements that are read besides rows say nothing of these.
  for (auto& all : of_buffer) {
    const bool has_rows = std::ranges::any_of(all, [](const Access& a) { return a.vector != nullptr; });
    if (has_rows && std::ranges::none_of(all, &Access::is_store))
      std::erase_if(all, [](const Access& a) { return a.vector == nullptr; });
  }
}

bool Accesses::has_one_extent() const {
  return !vectors.empty() && std::ranges::all_of(vectors, [&](const Stmt* s) { return same_extent(*s, *vectors[0]); });
}

bool Accesses::written_across(const Kernel& k) const {
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    if (k.buffers[b].write && !stays_in_column(b)) return true;
  }
  return false;
}

bool Accesses::stays_in_column(size_t buffer) const {
  const auto& all = of_buffer[buffer];
  if (all.size() < 2 || are_joined(all)) return true;
  return std::ranges::all_of(all, [&](const Access& a) {
    const Access& first = all.front();
    return a.vector && first.vector && same_extent(*a.vector, *first.vector) &&
           stride_of(a.statement->address.map, a.var()) != IntRef{} &&
           same_column(a.statement->address, a.var(), first.statement->address, first.var());
  });
}

bool Accesses::is_scratch(size_t buffer) const {
  return !only_collects(buffer) && std::ranges::all_of(of_buffer[buffer], [](const Access& a) {
    const Address& at = a.statement->address;
    return a.vector && at.indirect.empty() && at.map.offset == IntRef{} && at.map.terms.size() == 1 &&
           at.map.terms[0] == Affine::Term{a.var(), IntRef{1}};
  });
}

bool Accesses::is_own_row(size_t buffer, bool common) const {
  const auto& all = of_buffer[buffer];
  return !all.empty() && stays_in_column(buffer) && std::ranges::all_of(all, [&](const Access& a) {
    const Address& at = a.statement->address;
    return a.vector && a.outer == all.front().outer && a.statement->bounds.empty() && at.indirect.empty() &&
           at.map.terms.size() > (common ? 0 : 1) && stride_of(at.map, a.var()) == IntRef{1};
  });
}

bool Accesses::only_collects(size_t buffer) const {
  if (std::ranges::all_of(of_buffer[buffer], &Access::is_store)) return false;
  return std::ranges::all_of(of_buffer[buffer], [&](const Access& a) {
    if (a.is_store()) return true;
    if (!a.vector) return false;
    const Stmt* const sum = only_use(*a.vector, a.statement->result);
    const Stmt* const store = sum ? only_use(*a.vector, sum->result) : nullptr;
    return store && store->kind == StmtKind::kStore && store->address.buffer == static_cast<int>(buffer);
  });
}

bool Accesses::has_narrow_rows(const Kernel& k) const {
  for (size_t b = 0; b < of_buffer.size(); ++b) {
    const bool is_row = std::ranges::any_of(of_buffer[b], [](const Access& a) {
      const Affine& map = a.statement->address.map;
      return a.vector && map.terms.size() > 1 && stride_of(map, a.var()) == IntRef{1};
    });
    if (is_row && itemsize(k.buffers[b].dtype) > 2) return false;
  }
  return true;
}

bool same_extent(const Stmt& a, const Stmt& b) {
  return a.extents[0] == b.extents[0] && a.clamp_var == b.clamp_var && a.clamp_total == b.clamp_total;
}

int64_t spread_of(const Stmt& s, VarId v) {
  const IntRef stride = stride_of(s.address.map, v), offset = s.address.map.offset;
  const bool known = stride.is_constant() && stride.constant >= 2 && stride.constant <= 4 && offset.is_constant() &&
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

bool uses_between(const Accesses& accesses) {
  return std::ranges::any_of(accesses.of_buffer, [](const std::vector<Access>& all) {
    return std::ranges::any_of(all, [&](const Access& a) {
      if (!a.vector || spread_of(*a.statement, a.var()) == 0) return false;
      if (a.is_store()) return !joined_stores(*a.vector, *a.statement).empty();
      return a.statement->address.map.offset != all.front().statement->address.map.offset;
    });
  });
}

std::vector<const Stmt*> transposed_accesses(const Kernel& k, const Accesses& accesses) {
  std::vector<const Stmt*> across;
  if (!chunk_loop(k) || k.root.vars.empty()) return across;
  for (const auto& list : accesses.of_buffer) {
    for (const Access& a : list) {
      const Affine& map = a.statement->address.map;
      if (!a.vector || stride_of(map, k.root.vars.back()) != IntRef{1}) continue;
      const IntRef stride = stride_of(map, a.var());
      if (stride != IntRef{} && stride != IntRef{1}) across.push_back(a.statement);
    }
  }
  return across;
}

}  // namespace smolder::jit::cuda
