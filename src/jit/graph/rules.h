// Rewrite rules as data (rules.def), parsed once, found by the op at their root.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "smolder/ir/builder.h"

namespace smolder::jit {

/// A term of a rule. Terms of one rule lie in one list, operands before what uses them.
struct Term {
  enum Kind : uint8_t { kVariable, kNumber, kOp } kind;
  int variable = 0;  ///< 0 x, 1 y, 2 z
  double number = 0;
  ir::Op op{};
  std::vector<Term> operands{};
};

struct Rule {
  enum Guard : uint8_t { kAny, kFloat, kInteger, kBool };
  std::string_view name;
  Term before, after;
  Guard guard;
};

/// All rules.
std::span<const Rule> rules();
/// Those whose left side is an application of `op`.
std::span<const Rule* const> rules_of(ir::Op op);
/// "mul(x, 1)" as a term. Throws ValueError naming the place where it is none.
Term parse_term(std::string_view text);

/// If all elements of `v` are one number known here, that number as its dtype holds it.
struct UniformNumber {
  bool known = false;
  Scalar value = 0.0;
};
UniformNumber uniform_number(const ir::Graph& g, ir::ValueId v);

/// The variables of a rule that matched.
struct Match {
  ir::ValueId variables[3] = {ir::kNone, ir::kNone, ir::kNone};
};
/// Does the node that made `v` look like `rule.before`, with the guard holding?
bool matches(const ir::Graph& g, const Rule& rule, ir::ValueId v, Match& match);

}  // namespace smolder::jit
