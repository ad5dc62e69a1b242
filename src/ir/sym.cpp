#include "smolder/ir/sym.h"

#include <algorithm>
#include <limits>

#include "smolder/core/hash.h"

namespace smolder::ir {
namespace {

/// Graphs are read from files too, so no operands may be undefined: what does not fit is the nearest that does.
int64_t apply(SymOp op, int64_t a, int64_t b) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  int64_t out = 0;
  if (b == -1 && (op == SymOp::kFloorDiv || op == SymOp::kCeilDiv)) return a == kLeast ? kMost : -a;
  if (b == -1 && op == SymOp::kMod) return 0;
  switch (op) {
    case SymOp::kAdd:
      return __builtin_add_overflow(a, b, &out) ? (a < 0 ? kLeast : kMost) : out;
    case SymOp::kSub:
      return __builtin_sub_overflow(a, b, &out) ? (a < 0 ? kLeast : kMost) : out;
    case SymOp::kMul:
      return __builtin_mul_overflow(a, b, &out) ? ((a < 0) != (b < 0) ? kLeast : kMost) : out;
    case SymOp::kFloorDiv:
      return b == 0 ? 0 : a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
    case SymOp::kCeilDiv:
      return b == 0 ? 0 : a / b + ((a % b != 0) && ((a < 0) == (b < 0)));
    case SymOp::kMod:
      if (b == 0) return 0;
      out = a % b;
      return out != 0 && (out < 0) != (b < 0) ? out + b : out;
    case SymOp::kMin:
      return std::min(a, b);
    case SymOp::kMax:
      return std::max(a, b);
    case SymOp::kSymbol:
      break;
  }
  return a;
}

bool commutes(SymOp op) { return op == SymOp::kAdd || op == SymOp::kMul || op == SymOp::kMin || op == SymOp::kMax; }

}  // namespace

Dim SymTable::symbol(int64_t sample) {
  const int number = num_symbols_++;
  if (sample <= 1) return sample;
  exprs_.push_back({SymOp::kSymbol, Dim(number), Dim(sample)});
  return {sample, static_cast<ExprId>(exprs_.size() - 1)};
}

Dim SymTable::combine(SymOp op, Dim a, Dim b) {
  const int64_t v = apply(op, a.value, b.value);
  if (a.is_constant() && b.is_constant()) return v;
  const auto is = [](Dim d, int64_t c) { return d.is_constant() && d.value == c; };
  if (op == SymOp::kMul && (is(a, 0) || is(b, 0))) return 0;
  if ((op == SymOp::kMul && is(a, 1)) || (op == SymOp::kAdd && is(a, 0))) return b;
  if ((op == SymOp::kMul || op == SymOp::kFloorDiv || op == SymOp::kCeilDiv) && is(b, 1)) return a;
  if ((op == SymOp::kAdd || op == SymOp::kSub) && is(b, 0)) return a;
  if (op == SymOp::kSub && a == b) return 0;
  if ((op == SymOp::kMin || op == SymOp::kMax) && a == b) return a;
  if (commutes(op) && compare(b, a) < 0) std::swap(a, b);
  // An expression stands for its operands' expressions, not for their values in the sample.
  const auto word = [](Dim d) { return d.is_constant() ? d.value : 0; };
  const Key key{op, word(a), a.expr, word(b), b.expr};
  const auto [it, fresh] = interned_.try_emplace(key, static_cast<ExprId>(exprs_.size()));
  if (fresh) exprs_.push_back({op, a, b});
  return {v, it->second};
}

int SymTable::compare(Dim a, Dim b) const {
  if (a.expr == b.expr && (!a.is_constant() || a.value == b.value)) return 0;
  if (a.is_constant() && b.is_constant()) return a.value < b.value ? -1 : 1;
  if (a.is_constant() || b.is_constant()) return a.is_constant() ? -1 : 1;
  const SymExpr &x = exprs_[a.expr], &y = exprs_[b.expr];
  if (x.op != y.op) return x.op < y.op ? -1 : 1;
  if (x.op == SymOp::kSymbol) return x.a.value < y.a.value ? -1 : 1;
  const int first = compare(x.a, y.a);
  return first != 0 ? first : compare(x.b, y.b);
}

size_t SymTable::GuardHash::operator()(const Guard& g) const {
  Hash128 h{static_cast<uint64_t>(g.kind), 0};
  for (const Dim& d : {g.a, g.b}) {
    mix(h, d.value);
    mix(h, d.expr);
  }
  return h.lo;
}

void SymTable::guard(GuardKind kind, Dim a, Dim b) {
  if (!known_guards_.insert({kind, a, b}).second) return;
  guards_.push_back({kind, a, b});
  if (kind != GuardKind::kEqual || a.is_constant() || b.is_constant()) return;
  while (same_.size() < exprs_.size()) same_.push_back(static_cast<ExprId>(same_.size()));
  const ExprId to = representative(b.expr);
  for (ExprId e = a.expr; e != to;) {  // the way gets short for whoever comes next
    const ExprId up = same_[e];
    same_[e] = to;
    if (up == e) break;
    e = up;
  }
}

ExprId SymTable::representative(ExprId e) const {
  while (static_cast<size_t>(e) < same_.size() && same_[e] != e) e = same_[e];
  return e;
}

bool SymTable::known_equal(Dim a, Dim b) const {
  if (a.value != b.value) return false;
  if (a.is_constant() || b.is_constant()) return a.is_constant() && b.is_constant();
  if (representative(a.expr) == representative(b.expr)) return true;
  const SymExpr &x = exprs_[a.expr], &y = exprs_[b.expr];
  return x.op == y.op && x.op != SymOp::kSymbol && known_equal(x.a, y.a) && known_equal(x.b, y.b);
}

bool SymTable::equal(Dim a, Dim b) {
  if (a.value != b.value) return false;
  if (a.expr != b.expr) guard(GuardKind::kEqual, a, b);
  return true;
}

bool SymTable::equal(const SymDims& a, const SymDims& b) {
  if (a.size() != b.size()) return false;
  for (int i = 0; i < a.size(); ++i) {
    if (a[i].value != b[i].value) return false;
  }
  for (int i = 0; i < a.size(); ++i) equal(a[i], b[i]);
  return true;
}

bool SymTable::less_equal(Dim a, Dim b) {
  const bool yes = a.value <= b.value;
  if (!(a.is_constant() && b.is_constant()) && a.expr != b.expr) {
    guard(yes ? GuardKind::kLessEqual : GuardKind::kGreater, a, b);
  }
  return yes;
}

Dim SymTable::numel(const SymDims& shape) {
  Dim n = 1;
  for (const Dim& d : shape) n = mul(n, d);
  return n;
}

SymDims SymTable::contiguous_strides(const SymDims& shape) {
  SymDims s = shape;
  Dim n = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    s[i] = n;
    if (shape[i].value != 0) n = mul(n, shape[i]);
  }
  return s;
}

void SymTable::evaluate(std::span<const SymExpr> exprs, std::span<const int64_t> symbols, std::vector<int64_t>& out) {
  out.resize(exprs.size());
  for (size_t i = 0; i < exprs.size(); ++i) {
    const SymExpr& e = exprs[i];
    out[i] = e.op == SymOp::kSymbol ? symbols[e.a.value] : apply(e.op, value(e.a, out), value(e.b, out));
  }
}

bool SymTable::holds(const Guard& g, std::span<const int64_t> evaluated) {
  const int64_t a = value(g.a, evaluated), b = value(g.b, evaluated);
  switch (g.kind) {
    case GuardKind::kEqual:
      return a == b;
    case GuardKind::kNotEqual:
      return a != b;
    case GuardKind::kLessEqual:
      return a <= b;
    case GuardKind::kGreater:
      return a > b;
  }
  return false;
}

std::string SymTable::to_string(Dim d) const {
  if (d.is_constant()) return std::to_string(d.value);
  const SymExpr& e = exprs_[d.expr];
  const std::string a = e.op == SymOp::kSymbol ? "" : to_string(e.a), b = e.op == SymOp::kSymbol ? "" : to_string(e.b);
  switch (e.op) {
    case SymOp::kSymbol:
      return "s" + std::to_string(e.a.value);
    case SymOp::kAdd:
      return "(" + a + "+" + b + ")";
    case SymOp::kSub:
      return "(" + a + "-" + b + ")";
    case SymOp::kMul:
      // Products are read from the left: a product on the right needs its own brackets.
      return a + "*" + (!e.b.is_constant() && exprs_[e.b.expr].op == SymOp::kMul ? "(" + b + ")" : b);
    case SymOp::kFloorDiv:
      return "(" + a + "/" + b + ")";
    case SymOp::kCeilDiv:
      return "ceildiv(" + a + "," + b + ")";
    case SymOp::kMod:
      return "(" + a + "%" + b + ")";
    case SymOp::kMin:
      return "min(" + a + "," + b + ")";
    case SymOp::kMax:
      return "max(" + a + "," + b + ")";
  }
  return "?";
}

std::string SymTable::to_string(const Guard& g) const {
  static constexpr const char* kSigns[] = {" == ", " != ", " <= ", " > "};
  return to_string(g.a) + kSigns[static_cast<int>(g.kind)] + to_string(g.b);
}

}  // namespace smolder::ir
