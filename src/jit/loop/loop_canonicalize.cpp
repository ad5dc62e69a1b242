// One numbering for kernels that differ in numbering only.
#include <algorithm>
#include <vector>

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

namespace {

/// New numbers in order of first use.
class Numbers {
 public:
  int32_t operator()(int32_t old) {
    if (old >= static_cast<int32_t>(new_of_.size())) new_of_.resize(old + 1, -1);
    if (new_of_[old] < 0) {
      new_of_[old] = static_cast<int32_t>(old_of_.size());
      old_of_.push_back(old);
    }
    return new_of_[old];
  }
  int count() const { return static_cast<int>(old_of_.size()); }
  std::vector<int32_t> take() { return std::move(old_of_); }

 private:
  std::vector<int32_t> new_of_, old_of_;
};

class Canonicalizer {
 public:
  explicit Canonicalizer(Kernel& k) : k_(k) {}

  Renumbering run() {
    statement(k_.root);
    k_.num_vars = vars_.count();
    k_.num_locals = locals_.count();
    k_.num_accs = accs_.count();
    k_.num_ints = ints_.count();
    k_.num_errors = errors_.count();
    Renumbering r{buffers_.take(), ints_.take(), scalars_.take(), errors_.take()};
    std::vector<BufferArg> buffers;
    for (const int32_t old : r.buffers) buffers.push_back(k_.buffers[old]);
    k_.buffers = std::move(buffers);
    std::vector<Category> scalars;
    for (const int32_t old : r.scalars) scalars.push_back(k_.scalars[old]);
    k_.scalars = std::move(scalars);
    return r;
  }

 private:
  void statement(Stmt& s) {
    for (VarId& v : s.vars) v = vars_(v);
    for (IntRef& e : s.extents) integer(e);
    if (s.clamp_var >= 0) {
      s.clamp_var = vars_(s.clamp_var);
      integer(s.clamp_total);
    }
    for (LocalId& a : s.args) a = locals_(a);
    if (s.kind == StmtKind::kLoad || s.kind == StmtKind::kStore) {
      s.address.buffer = buffers_(s.address.buffer);
      affine(s.address.map);
      for (auto& i : s.address.indirect) {
        i.index = locals_(i.index);
        integer(i.stride);
      }
    }
    for (Bound& b : s.bounds) {
      affine(b.map);
      integer(b.lo);
      integer(b.hi);
    }
    if (s.kind == StmtKind::kIndex) affine(s.map);
    if (s.acc >= 0) s.acc = accs_(s.acc);
    if (s.kind == StmtKind::kScalar) s.slot = scalars_(s.slot);
    if (s.kind == StmtKind::kCheckIndex) {
      s.slot = errors_(s.slot);
      integer(s.limit);
    }
    if (s.result >= 0) s.result = locals_(s.result);
    for (Stmt& inner : s.body) statement(inner);
  }

  // Variables are declared before they are used, so their new numbers are known, and sorting by them does not
  // depend on the old ones.
  void affine(Affine& a) {
    std::erase_if(a.terms, [](const Affine::Term& t) { return t.stride == IntRef{}; });
    for (auto& t : a.terms) t.var = vars_(t.var);
    std::sort(a.terms.begin(), a.terms.end(), [](const auto& x, const auto& y) { return x.var < y.var; });
    integer(a.offset);
    for (auto& t : a.terms) integer(t.stride);
  }

  void integer(IntRef& r) {
    if (!r.is_constant()) r.slot = ints_(r.slot);
  }

  Kernel& k_;
  Numbers vars_, locals_, accs_, buffers_, ints_, scalars_, errors_;
};

}  // namespace

Renumbering canonicalize(Kernel& k) { return Canonicalizer(k).run(); }

}  // namespace smolder::jit
