// Symbolic integers. A plan is compiled from one sample of sizes and must run at others, so every
// size the compiler handles carries its value in the sample and the expression it came from.
//
// Leaf extents and the `size` words of attributes are *symbols*. Arithmetic builds expressions. Where
// the compiler relies on a fact that the expressions do not prove (two extents are equal, a row is
// longer than a bound) the fact becomes a *guard*; an instance is accepted only when every guard holds
// at its own sizes. A wrong generalisation therefore costs a plan and never a result.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "smolder/core/dims.h"

namespace smolder::ir {

/// Index of an expression in its SymTable; kConstant for plain numbers.
using ExprId = int32_t;
inline constexpr ExprId kConstant = -1;

/// An integer: its value in the sample and where it came from. Made from plain integers implicitly.
struct Dim {
  int64_t value = 0;
  ExprId expr = kConstant;
  Dim() = default;
  Dim(int64_t v) : value(v) {}
  Dim(int64_t v, ExprId e) : value(v), expr(e) {}
  bool is_constant() const { return expr == kConstant; }
  /// Same value from the same expression (not: equal in the sample; see SymTable::equal).
  friend bool operator==(const Dim&, const Dim&) = default;
};

/// A shape of symbolic extents, or a list of symbolic attributes.
class SymDims : public AxisList<Dim> {
 public:
  SymDims() = default;
  SymDims(std::initializer_list<Dim> v) {
    for (const Dim& d : v) push_back(d);
  }
  explicit SymDims(const Dims& d) {
    for (int64_t v : d) push_back(v);
  }
  /// The extents in the sample.
  Dims values() const {
    Dims d;
    for (const Dim& e : *this) d.push_back(e.value);
    return d;
  }
};

enum class SymOp : uint8_t { kSymbol, kAdd, kSub, kMul, kFloorDiv, kCeilDiv, kMod, kMin, kMax };

/// One expression. `a` and `b` are operands; a kSymbol's `a.value` is its symbol number, `b.value` its value in the
/// sample.
struct SymExpr {
  SymOp op;
  Dim a, b;
};

enum class GuardKind : uint8_t { kEqual, kNotEqual, kLessEqual, kGreater };

/// A fact about sizes that a plan relies on.
struct Guard {
  GuardKind kind;
  Dim a, b;
  friend bool operator==(const Guard&, const Guard&) = default;
};

/// Expressions and guards of one graph. Expressions are hash-consed and topologically ordered, so
/// evaluating all of them at other sizes is one linear pass.
class SymTable {
 public:
  /// A new symbol with the given value in the sample. Values up to 1 stay constants: they are structural
  /// (empty, broadcast, "infer this one", counted from the end), and the plan key spells them out.
  Dim symbol(int64_t sample);

  Dim add(Dim a, Dim b) { return combine(SymOp::kAdd, a, b); }
  Dim sub(Dim a, Dim b) { return combine(SymOp::kSub, a, b); }
  Dim mul(Dim a, Dim b) { return combine(SymOp::kMul, a, b); }
  Dim floor_div(Dim a, Dim b) { return combine(SymOp::kFloorDiv, a, b); }
  Dim ceil_div(Dim a, Dim b) { return combine(SymOp::kCeilDiv, a, b); }
  Dim mod(Dim a, Dim b) { return combine(SymOp::kMod, a, b); }
  Dim min(Dim a, Dim b) { return combine(SymOp::kMin, a, b); }
  Dim max(Dim a, Dim b) { return combine(SymOp::kMax, a, b); }

  /// Are they equal? Records a guard when the sample says yes and the expressions do not prove it.
  /// A "no" is not guarded: callers must stay correct when the sizes coincide.
  bool equal(Dim a, Dim b);
  bool equal(const SymDims& a, const SymDims& b);
  /// Are they equal in every instance: by their expressions, or by what is guarded already?
  bool known_equal(Dim a, Dim b) const;
  /// Is a <= b (or a > b)? Guards whichever way the sample answers, unless both are constants.
  bool less_equal(Dim a, Dim b);
  /// Product of the extents.
  Dim numel(const SymDims& shape);
  /// Row-major strides in elements.
  SymDims contiguous_strides(const SymDims& shape);

  int num_symbols() const { return num_symbols_; }
  const std::vector<SymExpr>& exprs() const { return exprs_; }
  const std::vector<Guard>& guards() const { return guards_; }

  /// Values of all expressions for other symbol values: one pass. `out` is resized to exprs().size().
  static void evaluate(std::span<const SymExpr> exprs, std::span<const int64_t> symbols, std::vector<int64_t>& out);
  /// Value of `d` given evaluated expressions.
  static int64_t value(Dim d, std::span<const int64_t> evaluated) {
    return d.is_constant() ? d.value : evaluated[d.expr];
  }
  static bool holds(const Guard& g, std::span<const int64_t> evaluated);

  /// "(64*s0+1)". Combining the same operands again in the order written gives `d` back: the text form of graphs
  /// rests on it.
  std::string to_string(Dim d) const;
  /// "s0 <= 128".
  std::string to_string(const Guard& g) const;
  /// Records a fact that the caller relies on.
  void guard(GuardKind kind, Dim a, Dim b);

 private:
  Dim combine(SymOp op, Dim a, Dim b);
  /// Order of the operands of what commutes: by structure, so that it does not hang on which was made first.
  int compare(Dim a, Dim b) const;

  ExprId representative(ExprId e) const;

  int num_symbols_ = 0;
  std::vector<SymExpr> exprs_;
  struct GuardHash {
    size_t operator()(const Guard& g) const;
  };
  std::vector<Guard> guards_;
  std::unordered_set<Guard, GuardHash> known_guards_;
  std::vector<ExprId> same_;  ///< by expression, for some: another one that a guard says is equal, or itself
  using Key = std::tuple<SymOp, int64_t, ExprId, int64_t, ExprId>;
  std::map<Key, ExprId> interned_;
};

}  // namespace smolder::ir
