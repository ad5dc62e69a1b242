#include "smolder/jit/graph/rules.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>

#include "smolder/jit/attributes.h"
#include "smolder/jit/cost.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::Op;
using ir::ValueId;

namespace {

class TermParser {
 public:
  explicit TermParser(std::string_view text) : text_(text) {}

  Term whole() {
    Term t = term();
    skip();
    if (at_ != text_.size()) fail();
    return t;
  }

 private:
  [[noreturn]] void fail() const { raise<ValueError>("rule term '", text_, "' is wrong at ", at_); }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Term term() {
    skip();
    if (at_ == text_.size()) fail();
    const char c = text_[at_];
    if (c == '-' || std::isdigit(static_cast<unsigned char>(c))) return number();
    const size_t start = at_;
    while (at_ < text_.size() && (std::islower(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    if (word == "x" || word == "y" || word == "z") return {.kind = Term::kVariable, .variable = word[0] - 'x'};
    Term t{.kind = Term::kOp, .op = ir::find_op(word)};
    if (!take('(')) fail();
    do {
      t.operands.push_back(term());
    } while (take(','));
    if (!take(')')) fail();
    return t;
  }

  Term number() {
    Term t{.kind = Term::kNumber};
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), t.number);
    if (error != std::errc()) fail();
    at_ = end - text_.data();
    return t;
  }

  std::string_view text_;
  size_t at_ = 0;
};

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule>* rules = new std::vector<Rule>{
#define RULE(name, before, after, guard) {#name, parse_term(before), parse_term(after), Rule::guard},
#include "smolder/jit/graph/rules.def"
  };
  return *rules;
}

}  // namespace

Term parse_term(std::string_view text) { return TermParser(text).whole(); }

std::span<const Rule> rules() { return all_rules(); }

std::span<const Rule* const> rules_of(Op op) {
  static const auto* by_op = [] {
    auto* lists = new std::vector<std::vector<const Rule*>>(ir::op_table().size());
    for (const Rule& r : all_rules()) (*lists)[static_cast<size_t>(r.before.op)].push_back(&r);
    return lists;
  }();
  if (ir::is_user_op(op)) return {};
  return (*by_op)[static_cast<size_t>(op)];
}

UniformNumber uniform_number(const ir::Graph& g, ValueId v) {
  for (;;) {
    const ir::Node& n = g.producer(v);
    if (n.op == Op::kConstant) return {true, constant_of(n)};
    if (n.op == Op::kCast) {
      // Only where the number is the same in both types.
      const UniformNumber x = uniform_number(g, n.inputs[0]);
      const double d = x.known ? x.value.to_double() : 0.5;
      const bool small = d == std::floor(d) && std::abs(d) < 128;
      const DType t = g.dtype(v);
      if (!x.known || !small || (d < 0 && (t == DType::kUInt8 || t == DType::kBool))) return {};
      if (t == DType::kBool) return {true, Scalar(d != 0)};
      if (!is_floating(t)) return {true, Scalar(static_cast<int64_t>(d))};
      return {true, Scalar(d)};
    }
    if (!is_movement(n.op) || n.op == Op::kBarrier) return {};
    v = n.inputs[0];
  }
}

namespace {

bool is_number(const ir::Graph& g, ValueId v, double wanted) {
  const UniformNumber x = uniform_number(g, v);
  if (!x.known) return false;
  const double have = x.value.to_double();
  // -0 is no 0: adding the one changes nothing, adding the other turns -0 into 0.
  return have == wanted && std::signbit(have) == std::signbit(wanted);
}

bool match_term(const ir::Graph& g, const Term& t, ValueId v, Match& m) {
  switch (t.kind) {
    case Term::kVariable: {
      ValueId& bound = m.variables[t.variable];
      if (bound == ir::kNone) bound = v;
      return bound == v;
    }
    case Term::kNumber:
      return is_number(g, v, t.number);
    case Term::kOp:
      break;
  }
  const ir::Node& n = g.producer(v);
  if (n.op != t.op || n.inputs.size() != t.operands.size()) return false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (!match_term(g, t.operands[i], n.inputs[i], m)) return false;
  }
  return true;
}

}  // namespace

bool matches(const ir::Graph& g, const Rule& rule, ValueId v, Match& match) {
  match = {};
  if (rule.guard != Rule::kAny) {
    const Category c = category(arithmetic_dtype(g, g.producer(v)));
    const Category wanted = rule.guard == Rule::kFloat     ? Category::kFloat
                            : rule.guard == Rule::kInteger ? Category::kInt
                                                           : Category::kBool;
    if (c != wanted) return false;
  }
  return match_term(g, rule.before, v, match);
}

}  // namespace smolder::jit
