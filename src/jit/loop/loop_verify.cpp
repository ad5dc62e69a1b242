// The structure rules of loop_ir.h.
#include <algorithm>
#include <string>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/ir/scalar/primitive.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

namespace {

/// Throws with the statement's number in print order, counted from the root.
#define VERIFY(condition, ...)                                                                                     \
  SMOLDER_CHECK(condition, InternalError, "internal error: loop IR breaks a rule at statement ", number_, " of\n", \
                print(k_), __VA_ARGS__)

class Verifier {
 public:
  explicit Verifier(const Kernel& k)
      : k_(k),
        vars_(k.num_vars),
        locals_(k.num_locals),
        accs_(k.num_accs),
        in_registers_(k.buffers.size()),
        held_(k.buffers.size()),
        staged_(k.buffers.size()) {}

  void run() {
    const Stmt& root = k_.root;
    VERIFY(root.kind == StmtKind::kParallel || root.kind == StmtKind::kParallelVector || root.kind == StmtKind::kGrid,
           "the root is no parallel loop");
    VERIFY(root.clamp_var < 0, "the root's extent is clamped");
    loop(root);
    if (root.kind == StmtKind::kGrid) return;  // no key; passes leave numbers out
    // Every number stands for something: kernels that differ in a count only would be one kernel.
    for (size_t v = 0; v < vars_.size(); ++v) VERIFY(vars_[v].declared, "variable v", v, " is not declared");
    for (size_t l = 0; l < locals_.size(); ++l) VERIFY(locals_[l].declared, "value %", l, " is not defined");
    for (size_t a = 0; a < accs_.size(); ++a) VERIFY(accs_[a].declared, "accumulator a", a, " is not declared");
  }

 private:
  struct Named {
    bool declared = false, visible = false;
  };
  struct Local : Named {
    DType dtype = DType::kFloat32;
  };
  struct Acc : Named {
    DType dtype = DType::kFloat32;
  };

  void loop(const Stmt& s) {
    const bool vector = is_vector(s), root = &s == &k_.root, grid = s.kind == StmtKind::kGrid;
    const bool block = s.kind == StmtKind::kBlock;
    const bool takes_chunks = s.kind == StmtKind::kThread && s.chunk > 0;
    VERIFY(s.vars.size() == s.extents.size() && (grid || !s.vars.empty()), "a loop has an extent for each variable");
    VERIFY(s.kind == StmtKind::kParallel || grid || block || s.vars.size() == 1,
           "only a parallel loop has several variables");
    for (const IntRef& e : s.extents) integer(e);
    if (s.clamp_var >= 0) {
      var(s.clamp_var);
      integer(s.clamp_total);
    }
    for (const VarId v : s.vars) declare(vars_, v, "variable v");
    std::vector<LocalId> locals;
    std::vector<AccId> accs;
    ++in_loops_;
    in_block_ += block;
    in_vector_ += vector;
    in_chunks_ += takes_chunks;
    in_split_ += s.kind == StmtKind::kSplit;
    for (const Stmt& inner : s.body) {
      ++number_;
      VERIFY(!vector || !is_loop(inner.kind), "a vector loop holds a loop");
      statement(inner);
      if (inner.result >= 0) locals.push_back(inner.result);
      if (inner.kind == StmtKind::kAcc) accs.push_back(inner.acc);
    }
    --in_loops_;
    in_block_ -= block;
    in_vector_ -= vector;
    in_chunks_ -= takes_chunks;
    in_split_ -= s.kind == StmtKind::kSplit;
    if (root) return;
    for (const VarId v : s.vars) vars_[v].visible = false;
    for (const LocalId l : locals) locals_[l].visible = false;
    for (const AccId a : accs) accs_[a].visible = false;
  }

  void statement(const Stmt& s) {
    VERIFY(defines(s.kind) == (s.result >= 0), "a statement defines a value exactly when its kind does");
    switch (s.kind) {
      case StmtKind::kParallel:
      case StmtKind::kParallelVector:
      case StmtKind::kGrid:
        VERIFY(false, "a parallel loop is not the root");
        break;
      case StmtKind::kVector:
        VERIFY(k_.root.kind != StmtKind::kGrid, "a vector loop in a scheduled kernel");
        loop(s);
        return;
      case StmtKind::kBlock:
        VERIFY(k_.root.kind == StmtKind::kGrid && in_loops_ == 1 && k_.root.body.size() == 1,
               "a block is not all that is in a grid");
        VERIFY(s.vars.size() == 2 && s.chunk > 0 && s.extents[0].is_constant() && s.extents[0].constant > 0,
               "a block is of a known number of positions and elements");
        loop(s);
        return;
      case StmtKind::kThread:
        VERIFY(k_.root.kind == StmtKind::kGrid && in_chunks_ == 0, "a thread loop is in another, or in no grid");
        VERIFY((s.across > 0) == (in_block_ != 0 && s.chunk == 0),
               "threads that take no chunks go across the positions of a block, and of nothing else");
        VERIFY(!s.coarsened || is_coarse(s),
               "a coarsened loop is of more than a loop over lanes and what is before it");
        loop(s);
        return;
      case StmtKind::kLanes:
        VERIFY(in_chunks_ != 0, "lanes are in no thread loop of chunks");
        loop(s);
        return;
      case StmtKind::kSplit:
        VERIFY(k_.root.kind == StmtKind::kGrid && in_split_ == 0, "a split loop is in another, or in no grid");
        loop(s);
        return;
      case StmtKind::kLoop:
        loop(s);
        return;
      case StmtKind::kCombine:
        address(s.address);
        VERIFY(in_split_ != 0 && in_vector_ != 0, "elements are combined in no split loop");
        VERIFY(k_.buffers[s.address.buffer].write, "a store to a buffer that is not written");
        VERIFY(s.args.size() == 1 || s.args.size() == 2, "a statement has ", s.args.size(), " operands, not 1");
        for (int i = 0; i < static_cast<int>(s.args.size()); ++i) {
          VERIFY(argument(s, i) == s.dtype, "a value of ", name(argument(s, i)), " is stored as ", name(s.dtype));
        }
        break;
      case StmtKind::kShared:
        VERIFY(k_.root.kind == StmtKind::kGrid && in_loops_ == 1 + in_block_,
               "a row is shared in a loop, or in no grid");
        address(s.address);
        integer(s.limit);
        break;
      case StmtKind::kBarrier:
        VERIFY(k_.root.kind == StmtKind::kGrid && in_vector_ == 0 && in_chunks_ == 0,
               "a barrier where not all threads of a group come");
        break;
      case StmtKind::kRegister:
        VERIFY(k_.root.kind == StmtKind::kGrid && in_loops_ == 1 && s.limit.is_constant() && s.limit.constant > 0,
               "registers are for no known number of elements of a grid's positions");
        address(s.address);
        in_registers_[static_cast<size_t>(s.address.buffer)] = true;
        break;
      case StmtKind::kHold:
      case StmtKind::kRelease:
      case StmtKind::kStage:
      case StmtKind::kUnstage:
        placement(s);
        break;
      case StmtKind::kFetch:
        VERIFY(in_vector_ != 0 && k_.root.kind != StmtKind::kGrid, "a row is fetched in no vector loop of a host");
        address(s.address);
        if (!s.vars.empty()) var(s.vars[0]);
        break;
      case StmtKind::kCopy:
        address(s.address);
        address(s.source);
        VERIFY(in_vector_ != 0 && k_.buffers[s.address.buffer].write && k_.buffers[s.source.buffer].read &&
                   s.dtype == k_.buffers[s.address.buffer].dtype && s.dtype == k_.buffers[s.source.buffer].dtype,
               "a copy is of one dtype, from what is read to what is written, in a loop over elements");
        break;
      case StmtKind::kLoad:
        address(s.address);
        VERIFY(k_.buffers[s.address.buffer].read, "a load of a buffer that is not read");
        VERIFY(s.dtype == k_.buffers[s.address.buffer].dtype, "a load of another dtype than the buffer's");
        early(s);
        for (const Bound& b : s.bounds) {
          affine(b.map);
          integer(b.lo);
          integer(b.hi);
        }
        break;
      case StmtKind::kStore:
        address(s.address);
        VERIFY(k_.buffers[s.address.buffer].write, "a store to a buffer that is not written");
        VERIFY(s.dtype == k_.buffers[s.address.buffer].dtype, "a store of another dtype than the buffer's");
        arity(s, 1);
        VERIFY(argument(s, 0) == s.dtype, "a value of ", name(argument(s, 0)), " is stored as ", name(s.dtype));
        break;
      case StmtKind::kPrimitive:
        primitive(s);
        if (s.again >= 0) again(s);
        break;
      case StmtKind::kConstant:
        break;
      case StmtKind::kScalar:
        VERIFY(s.slot >= 0 && s.slot < static_cast<int>(k_.scalars.size()), "scalar s", s.slot, " does not exist");
        break;
      case StmtKind::kIndex:
        VERIFY(s.dtype == DType::kInt64, "an index is int64");
        affine(s.map);
        break;
      case StmtKind::kAcc:
        VERIFY(in_vector_ == 0 && in_chunks_ == 0, "an accumulator is declared in a vector loop");
        declare(accs_, s.acc, "accumulator a");
        accs_[s.acc].dtype = s.dtype;
        VERIFY(s.dtype == DType::kBool || (s.reduce != ir::ReduceKind::kAny && s.reduce != ir::ReduceKind::kAll),
               "any and all reduce bools");
        break;
      case StmtKind::kUpdate:
        VERIFY(in_vector_ != 0 && k_.root.kind != StmtKind::kParallelVector, "an update outside a vector loop");
        arity(s, 1);
        VERIFY(argument(s, 0) == acc(s.acc), "a value of ", name(argument(s, 0)), " updates ", name(acc(s.acc)));
        break;
      case StmtKind::kResult:
        VERIFY(in_vector_ == 0, "the result of an accumulator is taken in a vector loop");
        VERIFY(s.dtype == acc(s.acc), "a result has another dtype than its accumulator");
        break;
      case StmtKind::kCheckIndex:
        arity(s, 1);
        VERIFY(argument(s, 0) == DType::kInt64 && s.dtype == DType::kInt64, "an index is int64");
        integer(s.limit);
        VERIFY(s.slot >= 0 && s.slot < k_.num_errors, "error e", s.slot, " does not exist");
        break;
    }
    if (s.result >= 0) {
      declare(locals_, s.result, "value %");
      locals_[s.result].dtype = result_dtype(s);
    }
  }

  static bool defines(StmtKind k) {
    return k == StmtKind::kLoad || k == StmtKind::kPrimitive || k == StmtKind::kConstant || k == StmtKind::kScalar ||
           k == StmtKind::kIndex || k == StmtKind::kResult || k == StmtKind::kCheckIndex;
  }

  static bool is_coarse(const Stmt& s) {
    const auto is_last = [&](const Stmt& inner) { return &inner == &s.body.back(); };
    return s.chunk > 0 && !s.body.empty() && s.body.back().kind == StmtKind::kLanes &&
           std::ranges::all_of(s.body, [&](const Stmt& inner) { return is_last(inner) || defines(inner.kind); });
  }

  void early(const Stmt& s) {
    VERIFY(!s.ahead || (k_.root.kind == StmtKind::kGrid && s.address.indirect.empty()),
           "a load is made early whose address is not known by then");
  }

  void again(const Stmt& s) {
    VERIFY(in_vector_ != 0 && s.again < static_cast<LocalId>(locals_.size()) && locals_[s.again].declared &&
               !locals_[s.again].visible && locals_[s.again].dtype == result_dtype(s),
           "a value is computed again that no earlier loop computed");
  }

  /// A statement that lets elements go follows one that took the same.
  void placement(const Stmt& s) {
    const bool in_row = in_vector_ != 0 && in_chunks_ == 0, holds = s.kind <= StmtKind::kRelease;
    VERIFY(k_.root.kind == StmtKind::kGrid && (in_row || (holds && in_vector_ == 0 && in_chunks_ != 0)),
           "an element is kept where threads do not share out a row");
    address(s.address);
    early(s);
    const auto b = static_cast<size_t>(s.address.buffer);
    VERIFY(s.kind != StmtKind::kHold || !in_row || in_registers_[b],
           "an element is held that there are no registers for");
    VERIFY(s.kind != StmtKind::kRelease || held_[b], "an element is released that is not held");
    VERIFY(s.kind != StmtKind::kStage || !k_.buffers[b].write, "an element is staged that is written");
    VERIFY(s.kind != StmtKind::kUnstage || staged_[b], "an element is unstaged that is not staged");
    if (s.kind == StmtKind::kHold) held_[b] = true;
    if (s.kind == StmtKind::kStage) staged_[b] = true;
  }

  void primitive(const Stmt& s) {
    if (s.op == ir::Op::kCast) {
      arity(s, 1);
      argument(s, 0);
      return;
    }
    if (s.op == ir::Op::kRandomBits) {
      arity(s, 3);
      VERIFY(s.dtype == DType::kInt64, "random bits are int64");
      for (int i = 0; i < 3; ++i) VERIFY(argument(s, i) == DType::kInt64, "random bits are of int64 operands");
      return;
    }
    VERIFY(ir::is_elementwise_primitive(s.op), name(s.op), " is not elementwise");
    const auto p = static_cast<ir::scalar::Primitive>(s.op);
    const auto& info = ir::scalar::info(p);
    arity(s, info.arity);
    VERIFY(info.takes(s.dtype), info.name, " of ", name(s.dtype));
    for (int i = 0; i < info.arity; ++i) {
      const DType want = p == ir::scalar::Primitive::kWhere && i == 0 ? DType::kBool : s.dtype;
      const DType t = argument(s, i);
      VERIFY(t == want || t == compute_type(want), "operand ", i, " of ", info.name, " is ", name(t), ", not ",
             name(want));
    }
  }

  void arity(const Stmt& s, int n) {
    VERIFY(static_cast<int>(s.args.size()) == n, "a statement has ", s.args.size(), " operands, not ", n);
  }
  DType argument(const Stmt& s, int i) { return visible(locals_, s.args[i], "value %").dtype; }
  DType acc(AccId a) { return visible(accs_, a, "accumulator a").dtype; }
  void var(VarId v) { visible(vars_, v, "variable v"); }

  void address(const Address& a) {
    VERIFY(a.buffer >= 0 && a.buffer < static_cast<int>(k_.buffers.size()), "buffer b", a.buffer, " does not exist");
    affine(a.map);
    for (const auto& i : a.indirect) {
      VERIFY(visible(locals_, i.index, "value %").dtype == DType::kInt64, "an address term is int64");
      integer(i.stride);
    }
  }
  void affine(const Affine& a) {
    integer(a.offset);
    for (const auto& t : a.terms) {
      var(t.var);
      integer(t.stride);
    }
  }
  void integer(IntRef r) {
    VERIFY(r.slot < k_.num_ints, "integer n", r.slot, " does not exist");
    VERIFY(r.is_constant() || r.constant == 0, "integer n", r.slot, " is a constant too");
  }

  template <class T>
  void declare(std::vector<T>& table, int32_t id, const char* what) {
    VERIFY(id >= 0 && id < static_cast<int32_t>(table.size()), what, id, " is past the kernel's count");
    VERIFY(!table[id].declared, what, id, " is declared twice");
    table[id].declared = table[id].visible = true;
  }
  template <class T>
  const T& visible(const std::vector<T>& table, int32_t id, const char* what) {
    VERIFY(id >= 0 && id < static_cast<int32_t>(table.size()) && table[id].visible, what, id, " is not visible");
    return table[id];
  }

  const Kernel& k_;
  std::vector<Named> vars_;
  std::vector<Local> locals_;
  std::vector<Acc> accs_;
  std::vector<bool> in_registers_, held_, staged_;  ///< by buffer
  int in_loops_ = 0, in_block_ = 0, in_vector_ = 0, in_chunks_ = 0, in_split_ = 0;
  int number_ = 0;
};

}  // namespace

void verify(const Kernel& k) { Verifier(k).run(); }

}  // namespace smolder::jit
