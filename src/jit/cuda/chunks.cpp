#include "smolder/jit/cuda/chunks.h"

#include <algorithm>

#include "smolder/jit/cuda/statements.h"

namespace smolder::jit::cuda {

namespace {

class Finder {
 public:
  Finder(const Kernel& k, int vector, bool spreads)
      : vector_(vector), spreads_(spreads), values_(static_cast<size_t>(k.num_locals)) {
    for_each_statement(k.root, [&](const Stmt& s, const Stmt* vector) {
      if (s.result >= 0) values_[static_cast<size_t>(s.result)] = value(s, vector ? vector->vars[0] : kNoVar);
    });
    if (found_.loads.empty()) {
      found_ = {.divisions = std::move(found_.divisions)};
      return;
    }
    for (const auto* divisions : {&found_.same, &found_.steps}) {
      for (const Stmt* s : *divisions) require(value_of(s->result).multiples);
    }
  }
  Chunks take() && { return std::move(found_); }

 private:
  static constexpr VarId kNoVar = -1;
  struct Value {
    enum Along : uint8_t { kAny, kSame, kSteps } along = kAny;  ///< how the elements of a chunk differ: by one in steps
    std::vector<IntRef> multiples;                              ///< for that, and for steps from a multiple on
    const Stmt* by = nullptr;
  };

  const Value& value_of(LocalId x) const { return values_[static_cast<size_t>(x)]; }
  void require(const std::vector<IntRef>& multiples) {
    for (const IntRef& r : multiples) {
      if (!r.is_constant() && std::ranges::find(found_.multiples, r) == found_.multiples.end())
        found_.multiples.push_back(r);
    }
  }

  bool possible(const std::vector<IntRef>& multiples) const {
    return std::ranges::none_of(multiples, [&](IntRef r) { return r.is_constant() && r.constant % vector_ != 0; });
  }

  /// Adds the parts of a map but for `v`.
  static void rest_of(const Affine& map, VarId v, std::vector<IntRef>& to) {
    to.push_back(map.offset);
    for (const auto& t : map.terms) {
      if (t.var != v) to.push_back(t.stride);
    }
  }

  Value value(const Stmt& s, VarId v) {
    if (v == kNoVar) return {Value::kSame, {}, &s};
    Value x{Value::kAny, {}, &s};
    if (s.kind == StmtKind::kIndex) {
      const IntRef stride = stride_of(s.map, v);
      if (stride == IntRef{}) x.along = Value::kSame;
      if (stride == IntRef{1}) {
        x.along = Value::kSteps;
        rest_of(s.map, v, x.multiples);
      }
    } else if (s.kind == StmtKind::kPrimitive) {
      divides(s, x);
      compares(s, x);
    } else if (s.kind == StmtKind::kConstant || s.kind == StmtKind::kScalar) {
      x.along = Value::kSame;
    } else if (s.kind == StmtKind::kLoad && (!s.bounds.empty() || !s.address.indirect.empty())) {
      load(s, v);
    }
    return x;
  }

  /// An index by a size, or what is the same for all by what is.
  void divides(const Stmt& s, Value& out) {
    if ((s.op != ir::Op::kFloorDiv && s.op != ir::Op::kRemainder) || s.dtype != DType::kInt64) return;
    const Value &x = value_of(s.args[0]), &y = value_of(s.args[1]);
    const bool size = y.by && y.by->kind == StmtKind::kIndex && y.by->map.terms.empty();
    const bool of_position = x.along == Value::kSteps && x.by->kind == StmtKind::kIndex;
    if (of_position && size) found_.divisions.push_back({&s, x.by, y.by});
    const bool both_same = x.along == Value::kSame && y.along == Value::kSame;
    if (!both_same && !(x.along == Value::kSteps && size && possible(x.multiples))) return;
    out.along = both_same || s.op == ir::Op::kFloorDiv ? Value::kSame : Value::kSteps;
    out.multiples = x.multiples;
    const std::vector<IntRef> of_divisor = both_same ? y.multiples : std::vector{y.by->map.offset};
    out.multiples.insert(out.multiples.end(), of_divisor.begin(), of_divisor.end());
    (out.along == Value::kSame ? found_.same : found_.steps).push_back(&s);
  }

  /// Whether an index is below a size, or not: it passes that between chunks.
  void compares(const Stmt& s, Value& out) {
    const auto is_size = [](const Value& x) {
      return x.by && x.by->kind == StmtKind::kIndex && x.by->map.terms.empty();
    };
    if (s.op == ir::Op::kLogicalAnd) {
      const Value &x = value_of(s.args[0]), &y = value_of(s.args[1]);
      if (x.along != Value::kSame || y.along != Value::kSame || (x.multiples.empty() && y.multiples.empty())) return;
      out.along = Value::kSame;
      out.multiples = x.multiples;
      out.multiples.insert(out.multiples.end(), y.multiples.begin(), y.multiples.end());
    } else if ((s.op == ir::Op::kLt || s.op == ir::Op::kLe) && s.dtype == DType::kInt64) {
      const bool below = s.op == ir::Op::kLt;
      const Value &index = value_of(s.args[below ? 0 : 1]), &size = value_of(s.args[below ? 1 : 0]);
      if (index.along != Value::kSteps || !is_size(size)) return;
      std::vector<IntRef> multiples = index.multiples;
      multiples.push_back(size.by->map.offset);
      if (!possible(multiples)) return;
      out.along = Value::kSame;
      out.multiples = std::move(multiples);
    } else {
      return;
    }
    found_.same.push_back(&s);
  }

  void load(const Stmt& s, VarId v) {
    std::vector<IntRef> multiples;
    for (const Bound& b : s.bounds) {
      const IntRef stride = stride_of(b.map, v);
      if (stride == IntRef{}) continue;
      if (stride != IntRef{1}) return;
      rest_of(b.map, v, multiples);
      multiples.insert(multiples.end(), {b.lo, b.hi});
    }
    const IntRef stride = stride_of(s.address.map, v);
    if (stride != IntRef{} && stride != IntRef{1}) return;
    std::vector<IntRef> place;  // must be multiples for what is next to each other
    rest_of(s.address.map, v, place);
    int steps = stride == IntRef{1} ? 1 : 0;
    for (const auto& i : s.address.indirect) {
      const Value& index = value_of(i.index);
      if (index.along == Value::kAny || (index.along == Value::kSteps && i.stride != IntRef{1})) return;
      multiples.insert(multiples.end(), index.multiples.begin(), index.multiples.end());
      if (index.along == Value::kSame) place.push_back(i.stride);
      steps += index.along == Value::kSteps ? 1 : 0;
    }
    if (steps == 1) multiples.insert(multiples.end(), place.begin(), place.end());
    const bool is_spread = steps == 0 && spreads_;
    if ((steps != 1 && !is_spread) || !possible(multiples)) return;
    found_.loads.push_back(&s);
    if (is_spread) found_.spread.push_back(&s);
    require(multiples);
  }

  const int vector_;
  const bool spreads_;
  std::vector<Value> values_;
  Chunks found_;
};

}  // namespace

Chunks chunks_of(const Kernel& kernel, int vector, bool spreads) { return Finder(kernel, vector, spreads).take(); }

}  // namespace smolder::jit::cuda
