#include "jit/random_kernel.h"

#include <algorithm>
#include <bit>
#include <random>

#include "jit/kernel_test_util.h"
#include "smolder/ir/scalar/primitive.h"

namespace smolder::jit::test {

namespace {

using ir::scalar::Primitive;

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  RandomKernel run() {
    const bool flat = chance(30);
    Stmt root{};
    root.kind = flat ? StmtKind::kParallelVector : StmtKind::kParallel;
    const int vars = flat ? 1 : 1 + below(3);
    for (int i = 0; i < vars; ++i) open(root, flat ? 1 + below(200) : 1 + below(i == 0 ? 6 : 3));
    for (const VarId v : root.vars) r_.positions *= extent_[v];
    std::vector<Stmt>& body = root.body;
    if (flat) {
      straight_line(body, root.vars[0], 2 + below(8));
    } else {
      level(body, 2);
    }
    r_.kernel.root = std::move(root);
    r_.kernel.num_ints = static_cast<int>(r_.ints.size());
    r_.kernel.num_vars = static_cast<int>(extent_.size());
    r_.kernel.num_locals = static_cast<int>(locals_.size());
    r_.kernel.num_accs = num_accs_;
    return std::move(r_);
  }

 private:
  struct Local {
    DType dtype;
    int64_t limit = -1;  ///< known to be in [0, limit)
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  const T& pick(const std::vector<T>& v) {
    return v[random_() % v.size()];
  }
  DType dtype() { return kDTypes[below(kNumDTypes)]; }

  /// A number, as a constant of the structure or a run-time integer.
  IntRef integer(int64_t v) {
    if ((v == 0 || v == 1) && chance(80)) return {v};
    if (chance(20)) return {v};
    r_.ints.push_back(v);
    return {0, static_cast<int32_t>(r_.ints.size() - 1)};
  }

  void open(Stmt& loop, int64_t extent) {
    loop.vars.push_back(static_cast<VarId>(extent_.size()));
    loop.extents.push_back(integer(extent));
    extent_.push_back(extent);
    scope_.push_back(loop.vars.back());
  }
  /// A loop over up to `most` elements, sometimes cut short by an outer variable.
  Stmt loop(StmtKind kind, int most) {
    Stmt s{};
    s.kind = kind;
    const VarId outer = pick(scope_);
    open(s, 1 + below(most));
    if (chance(25)) {
      s.clamp_var = outer;
      s.clamp_total = integer(below(static_cast<int>(extent_[outer] * extent_[s.vars[0]] + 1)));
    }
    return s;
  }
  void close(const Stmt&) { scope_.pop_back(); }

  // -- addresses

  int64_t value(IntRef r) const { return r.is_constant() ? r.constant : r_.ints[r.slot]; }
  std::pair<int64_t, int64_t> range(const Affine& a) const {
    int64_t low = value(a.offset), high = low;
    for (const auto& t : a.terms) {
      const int64_t reach = (extent_[t.var] - 1) * value(t.stride);
      (reach < 0 ? low : high) += reach;
    }
    return {low, high};
  }
  Affine affine(VarId inner) {
    Affine a;
    for (const VarId v : scope_) {
      if (v == inner ? chance(15) : chance(50)) continue;
      const int64_t stride = v == inner && chance(60) ? 1 : below(9) - 2;
      if (stride != 0) a.terms.push_back({v, integer(stride)});
    }
    return a;
  }
  int buffer(DType t, bool read, bool write, int64_t size, int64_t limit = -1) {
    r_.kernel.buffers.push_back({t, read, write});
    r_.sizes.push_back(size);
    r_.index_limit.push_back(limit);
    return static_cast<int>(r_.sizes.size() - 1);
  }
  /// All elements apart from each other: a different one for each value of the variables in scope but `without`.
  Affine injective(VarId without, int64_t* size) {
    std::vector<VarId> vars = scope_;
    std::erase(vars, without);
    if (chance(25)) std::shuffle(vars.begin(), vars.end(), random_);
    Affine a;
    int64_t stride = chance(80) ? 1 : 2, offset = 0;
    for (size_t i = vars.size(); i-- > 0;) {
      const bool backward = chance(10);
      a.terms.push_back({vars[i], integer(backward ? -stride : stride)});
      if (backward) offset += stride * (extent_[vars[i]] - 1);
      stride *= extent_[vars[i]] + below(2);
    }
    std::sort(a.terms.begin(), a.terms.end(), [](const auto& x, const auto& y) { return x.var < y.var; });
    a.offset = integer(offset);
    *size = range(a).second + 1;
    return a;
  }

  // -- statements

  LocalId define(std::vector<Stmt>& out, Stmt s, DType t, int64_t limit = -1) {
    s.result = static_cast<LocalId>(locals_.size());
    locals_.push_back({t, limit});
    visible_.push_back(s.result);
    out.push_back(std::move(s));
    return static_cast<LocalId>(locals_.size() - 1);
  }

  LocalId load(std::vector<Stmt>& out, DType t, VarId inner) {
    Stmt s{};
    s.kind = StmtKind::kLoad;
    s.dtype = t;
    s.address.map = affine(inner);
    int64_t size;
    if (chance(20)) {
      // Only what the bounds admit exists.
      const auto [low, high] = range(s.address.map);
      s.address.map.offset = integer(-(low + high) / 2 + below(5));
      const auto [l, h] = range(s.address.map);
      size = std::max<int64_t>(1, h - below(10));
      s.bounds.push_back({s.address.map, integer(0), integer(size)});
      if (chance(30)) s.bounds.push_back({affine(inner), integer(-3), integer(below(30))});
      s.constant = category(t) == Category::kFloat ? Scalar(chance(50) ? 0.0 : -1.25) : Scalar(chance(50));
    } else {
      s.address.map.offset = integer(-std::min<int64_t>(0, range(s.address.map).first) + below(3));
      int64_t most = range(s.address.map).second;
      for (const LocalId l : visible_) {
        if (locals_[l].limit < 0 || !chance(40)) continue;
        const int64_t stride = 1 + below(4);
        s.address.indirect.push_back({l, integer(stride)});
        most += std::max<int64_t>(locals_[l].limit - 1, 0) * stride;
      }
      size = most + 1;
    }
    s.address.buffer = buffer(t, true, false, size);
    return define(out, std::move(s), t);
  }

  LocalId index(std::vector<Stmt>& out, VarId inner) {
    const int64_t limit = below(20);
    Stmt l{};
    l.kind = StmtKind::kLoad;
    l.dtype = DType::kInt64;
    l.address.map = affine(inner);
    l.address.map.offset = integer(-std::min<int64_t>(0, range(l.address.map).first));
    l.address.buffer = buffer(DType::kInt64, true, false, range(l.address.map).second + 1, limit);
    const LocalId raw = define(out, std::move(l), DType::kInt64);
    Stmt s{};
    s.kind = StmtKind::kCheckIndex;
    s.dtype = DType::kInt64;
    s.args = {raw};
    s.limit = integer(limit);
    if (r_.kernel.num_errors == 0 || chance(50)) ++r_.kernel.num_errors;
    s.slot = below(r_.kernel.num_errors);
    return define(out, std::move(s), DType::kInt64, limit);
  }

  LocalId simple(std::vector<Stmt>& out, VarId inner) {
    Stmt s{};
    s.dtype = dtype();
    switch (below(3)) {
      case 0:
        s.kind = StmtKind::kConstant;
        s.constant = category(s.dtype) == Category::kFloat ? Scalar(below(9) * 0.75 - 3) : Scalar(int64_t{below(9)});
        break;
      case 1: {
        s.kind = StmtKind::kScalar;
        s.slot = static_cast<int>(r_.scalars.size());
        const bool is_float = chance(50);
        r_.kernel.scalars.push_back(is_float ? Category::kFloat : Category::kInt);
        r_.scalars.push_back(is_float ? std::bit_cast<uint64_t>(below(100) * 0.37 - 18) : below(100) - 50);
        break;
      }
      default:
        s.kind = StmtKind::kIndex;
        s.dtype = DType::kInt64;
        s.map = affine(inner);
        s.map.offset = integer(below(100) - 50);
    }
    const DType t = s.dtype;
    return define(out, std::move(s), t);
  }

  /// A visible value of dtype `t`: one there is, or a cast or load.
  LocalId value_of(std::vector<Stmt>& out, DType t, VarId inner) {
    std::vector<LocalId> fits;
    for (const LocalId l : visible_) {
      if (locals_[l].dtype == t || (is_half(t) && locals_[l].dtype == DType::kFloat32)) fits.push_back(l);
    }
    if (!fits.empty() && chance(80)) return pick(fits);
    if (visible_.empty() || chance(40)) return load(out, t, inner);
    Stmt s{};
    s.kind = StmtKind::kPrimitive;
    s.op = ir::Op::kCast;
    s.dtype = t;
    s.args = {pick(visible_)};
    return define(out, std::move(s), t);
  }

  LocalId primitive(std::vector<Stmt>& out, VarId inner) {
    for (;;) {
      const auto p = static_cast<Primitive>(below(ir::scalar::kNumPrimitives));
      const DType t = dtype();
      const auto& info = ir::scalar::info(p);
      if (!info.takes(t)) continue;
      Stmt s{};
      s.kind = StmtKind::kPrimitive;
      s.op = static_cast<ir::Op>(p);
      s.dtype = t;
      for (int i = 0; i < info.arity; ++i) {
        s.args.push_back(value_of(out, p == Primitive::kWhere && i == 0 ? DType::kBool : t, inner));
      }
      return define(out, std::move(s), info.result_dtype(t));
    }
  }

  LocalId random_bits(std::vector<Stmt>& out, VarId inner) {
    Stmt s{};
    s.kind = StmtKind::kPrimitive;
    s.op = ir::Op::kRandomBits;
    s.dtype = DType::kInt64;
    for (int i = 0; i < 3; ++i) s.args.push_back(value_of(out, DType::kInt64, inner));
    return define(out, std::move(s), DType::kInt64);
  }

  void store(std::vector<Stmt>& out, VarId inner) {
    const LocalId x = pick(visible_);
    Stmt s{};
    s.kind = StmtKind::kStore;
    s.dtype = locals_[x].dtype;
    s.args = {x};
    int64_t size;
    // Sometimes each element of the inner loop goes to one place, where the last stays.
    s.address.map = injective(inner >= 0 && chance(8) ? inner : -1, &size);
    s.streaming = chance(30);
    s.address.buffer = buffer(s.dtype, false, true, size);
    out.push_back(std::move(s));
  }

  void straight_line(std::vector<Stmt>& out, VarId inner, int statements) {
    if (visible_.empty()) load(out, dtype(), inner);
    for (int i = 0; i < statements; ++i) {
      const int kind = below(20);
      if (kind < 5) {
        load(out, dtype(), inner);
      } else if (kind < 6) {
        index(out, inner);
      } else if (kind < 9) {
        simple(out, inner);
      } else if (kind < 10) {
        random_bits(out, inner);
      } else {
        primitive(out, inner);
      }
    }
    store(out, inner);
    if (chance(40)) store(out, inner);
  }

  void vector(std::vector<Stmt>& out, const std::vector<AccId>& accs) {
    const size_t before = visible_.size();
    Stmt s = loop(StmtKind::kVector, chance(50) ? 70 : 20);
    const VarId v = s.vars[0];
    straight_line(s.body, v, 1 + below(6));
    for (const AccId a : accs) {
      if (chance(30)) continue;
      Stmt u{};
      u.kind = StmtKind::kUpdate;
      u.acc = a;
      u.args = {exactly(s.body, acc_dtype_[a], v)};
      s.body.push_back(std::move(u));
    }
    close(s);
    visible_.resize(before);
    out.push_back(std::move(s));
  }
  /// As value_of, but of that very dtype.
  LocalId exactly(std::vector<Stmt>& out, DType t, VarId inner) {
    const LocalId l = value_of(out, t, inner);
    if (locals_[l].dtype == t) return l;
    Stmt s{};
    s.kind = StmtKind::kPrimitive;
    s.op = ir::Op::kCast;
    s.dtype = t;
    s.args = {l};
    return define(out, std::move(s), t);
  }

  AccId accumulator(std::vector<Stmt>& out) {
    Stmt s{};
    s.kind = StmtKind::kAcc;
    s.acc = num_accs_++;
    s.reduce = static_cast<ir::ReduceKind>(below(6));
    s.dtype = s.reduce >= ir::ReduceKind::kAny ? DType::kBool : dtype();
    acc_dtype_.push_back(s.dtype);
    out.push_back(std::move(s));
    return num_accs_ - 1;
  }
  void result(std::vector<Stmt>& out, AccId a) {
    Stmt s{};
    s.kind = StmtKind::kResult;
    s.acc = a;
    s.dtype = acc_dtype_[a];
    const DType t = s.dtype;
    define(out, std::move(s), t);
  }

  /// Partial results per column, in memory: read, added to and written in every row.
  void columns(std::vector<Stmt>& out) {
    const size_t before = visible_.size();
    Stmt rows = loop(StmtKind::kLoop, 6);
    Stmt v = loop(StmtKind::kVector, 40);
    const DType t = DType::kFloat32;
    Stmt l{};
    l.kind = StmtKind::kLoad;
    l.dtype = t;
    int64_t size;
    l.address.map = injective(rows.vars[0], &size);
    l.address.buffer = buffer(t, true, true, size);
    const Address at = l.address;
    const LocalId sum = define(v.body, std::move(l), t);
    Stmt add{};
    add.kind = StmtKind::kPrimitive;
    add.op = ir::Op::kAdd;
    add.dtype = t;
    add.args = {sum, exactly(v.body, t, v.vars[0])};
    const LocalId next = define(v.body, std::move(add), t);
    Stmt s{};
    s.kind = StmtKind::kStore;
    s.dtype = t;
    s.args = {next};
    s.address = at;
    v.body.push_back(std::move(s));
    close(v);
    close(rows);
    rows.body.push_back(std::move(v));
    visible_.resize(before);
    out.push_back(std::move(rows));
  }

  void level(std::vector<Stmt>& out, int depth) {
    std::vector<AccId> accs;
    for (int i = 1 + below(3); i > 0; --i) {
      if (chance(40)) simple(out, -1);
      if (chance(30)) load(out, dtype(), -1);
      if (chance(30) && !visible_.empty()) primitive(out, -1);
      if (chance(15)) index(out, -1);
      if (chance(50)) accs.push_back(accumulator(out));
      if (depth > 0 && chance(30)) {
        const size_t before = visible_.size();
        Stmt s = loop(StmtKind::kLoop, 5);
        vector(s.body, accs);
        if (chance(50)) level(s.body, depth - 1);
        close(s);
        visible_.resize(before);
        out.push_back(std::move(s));
      } else {
        vector(out, accs);
      }
      if (chance(15)) columns(out);
      if (!accs.empty() && chance(70)) {
        result(out, accs.back());
        accs.pop_back();
        store(out, -1);
      }
    }
  }

  std::mt19937_64 random_;
  RandomKernel r_;
  std::vector<int64_t> extent_;
  std::vector<VarId> scope_;
  std::vector<Local> locals_;
  std::vector<LocalId> visible_;
  std::vector<DType> acc_dtype_;
  int num_accs_ = 0;
};

}  // namespace

RandomKernel random_kernel(uint64_t seed) { return Generator(seed).run(); }

}  // namespace smolder::jit::test
