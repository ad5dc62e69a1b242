// How a size follows from the sizes that are dynamic: found from what it is for several of them.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "smolder/graph/state.h"

namespace smolder::graph {
namespace {

using ir::Dim;
using ir::SymTable;

constexpr int64_t kLargestDivisor = 64;  ///< of strides that are looked for

struct Problem {
  SymTable& sym;
  const std::vector<Dim>& symbols;
  const std::vector<std::vector<int64_t>>& at;
  const std::vector<int64_t>& values;
};

/// a * d + b.
Dim linear(SymTable& sym, int64_t a, Dim d, int64_t b) {
  const Dim scaled = sym.mul(Dim(a), d);
  return b < 0 ? sym.sub(scaled, Dim(-b)) : sym.add(scaled, Dim(b));
}

/// The factor and the rest with which all `values` are linear in `x`, if there are such.
std::optional<std::pair<int64_t, int64_t>> line(const std::vector<int64_t>& x, const std::vector<int64_t>& values) {
  const auto other = std::ranges::find_if(x, [&](int64_t v) { return v != x[0]; });
  if (other == x.end()) return {};
  const int64_t dx = *other - x[0], dy = values[other - x.begin()] - values[0];
  if (dy % dx != 0 || dy == 0) return {};
  const int64_t a = dy / dx, b = values[0] - a * x[0];
  for (size_t j = 0; j < x.size(); ++j) {
    if (a * x[j] + b != values[j]) return {};
  }
  return std::pair(a, b);
}

/// a * floor((s + r) / c) + b, of one symbol; c = 1 first.
std::optional<Dim> of_one(const Problem& p) {
  for (size_t s = 0; s < p.symbols.size(); ++s) {
    std::vector<int64_t> x(p.at.size());
    for (int64_t c = 1; c <= kLargestDivisor; ++c) {
      for (int64_t r = 0; r < c; ++r) {
        for (size_t j = 0; j < x.size(); ++j) x[j] = (p.at[j][s] + r) / c;
        const auto found = line(x, p.values);
        if (!found) continue;
        const Dim inner = p.sym.floor_div(p.sym.add(p.symbols[s], Dim(r)), Dim(c));
        return linear(p.sym, found->first, inner, found->second);
      }
    }
  }
  return {};
}

/// Which symbols a term multiplies: none, one, or two.
struct Monomial {
  int first = -1, second = -1;
  int64_t at(const std::vector<int64_t>& values) const {
    return (first < 0 ? 1 : values[first]) * (second < 0 ? 1 : values[second]);
  }
};

/// Solves for the coefficients by elimination; some of the equations are enough. Empty when they say too little.
std::vector<double> solve(std::vector<std::vector<double>> rows, size_t unknowns) {
  for (size_t c = 0; c < unknowns; ++c) {
    const auto pivot = std::ranges::max_element(rows.begin() + static_cast<ptrdiff_t>(std::min(c, rows.size())),
                                                rows.end(), {}, [&](const auto& row) { return std::abs(row[c]); });
    if (pivot == rows.end() || std::abs((*pivot)[c]) < 1e-6) return {};
    std::swap(rows[c], *pivot);
    for (size_t r = 0; r < rows.size(); ++r) {
      if (r == c) continue;
      const double factor = rows[r][c] / rows[c][c];
      for (size_t k = c; k <= unknowns; ++k) rows[r][k] -= factor * rows[c][k];
    }
  }
  std::vector<double> out;
  for (size_t c = 0; c < unknowns; ++c) out.push_back(rows[c][unknowns] / rows[c][c]);
  return out;
}

/// A polynomial with integer coefficients; of products of two symbols at most.
std::optional<Dim> polynomial(const Problem& p) {
  std::vector<Monomial> terms{{}};
  const int n = static_cast<int>(p.symbols.size());
  for (int i = 0; i < n; ++i) terms.push_back({i, -1});
  for (int i = 0; i < n; ++i) {
    for (int j = i; j < n; ++j) terms.push_back({i, j});
  }
  if (p.at.size() <= terms.size()) return {};
  std::vector<std::vector<double>> rows;
  for (size_t j = 0; j < p.at.size(); ++j) {
    std::vector<double>& row = rows.emplace_back();
    for (const Monomial& t : terms) row.push_back(static_cast<double>(t.at(p.at[j])));
    row.push_back(static_cast<double>(p.values[j]));
  }
  const std::vector<double> solution = solve(std::move(rows), terms.size());
  if (solution.empty()) return {};
  std::vector<int64_t> factors;
  for (const double c : solution) factors.push_back(std::llround(c));
  for (size_t j = 0; j < p.at.size(); ++j) {
    int64_t sum = 0;
    for (size_t t = 0; t < terms.size(); ++t) sum += factors[t] * terms[t].at(p.at[j]);
    if (sum != p.values[j]) return {};
  }
  std::optional<Dim> out;
  for (size_t t = 1; t < terms.size(); ++t) {
    if (factors[t] == 0) continue;
    Dim term = p.symbols[terms[t].first];
    if (terms[t].second >= 0) term = p.sym.mul(term, p.symbols[terms[t].second]);
    term = p.sym.mul(Dim(factors[t]), term);
    out = out ? p.sym.add(*out, term) : term;
  }
  return out ? linear(p.sym, 1, *out, factors[0]) : Dim(factors[0]);
}

}  // namespace

namespace {

constexpr size_t kMostNearby = 8;

/// A line in a product of some of the sizes nearby, or in the sum or difference of two.
std::optional<Dim> of_nearby(SymTable& sym, const std::vector<KnownSize>& nearby, const std::vector<int64_t>& values) {
  const auto try_one = [&](Dim d, const std::vector<int64_t>& x) -> std::optional<Dim> {
    const auto found = line(x, values);
    return found ? std::optional(linear(sym, found->first, d, found->second)) : std::nullopt;
  };
  const size_t n = std::min(nearby.size(), kMostNearby);
  for (uint32_t set = 1; set < 1u << n; ++set) {
    Dim product = 1;
    std::vector<int64_t> x(values.size(), 1);
    for (size_t i = 0; i < n; ++i) {
      if (!(set >> i & 1)) continue;
      product = sym.mul(product, nearby[i].size);
      for (size_t j = 0; j < x.size(); ++j) x[j] *= nearby[i].values[j];
    }
    if (const auto found = try_one(product, x)) return found;
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < n; ++k) {
      std::vector<int64_t> sum, difference;
      for (size_t j = 0; j < values.size(); ++j) {
        sum.push_back(nearby[i].values[j] + nearby[k].values[j]);
        difference.push_back(nearby[i].values[j] - nearby[k].values[j]);
      }
      if (const auto found = try_one(sym.add(nearby[i].size, nearby[k].size), sum)) return found;
      if (const auto found = try_one(sym.sub(nearby[i].size, nearby[k].size), difference)) return found;
    }
  }
  return {};
}

}  // namespace

std::vector<KnownSize> sizes_read(const State& s, const ir::Node& n, size_t assignments,
                                  const std::function<int64_t(size_t, ir::ValueId, int)>& extent) {
  std::vector<KnownSize> out;
  for (const ir::ValueId v : n.inputs) {
    if (v == ir::kNone) continue;
    const ir::SymDims& shape = s.ir.shape(v);
    for (int d = 0; d < shape.size(); ++d) {
      if (shape[d].is_constant()) continue;
      KnownSize& known = out.emplace_back(KnownSize{shape[d], {}});
      for (size_t a = 0; a < assignments; ++a) known.values.push_back(extent(a, v, d));
    }
  }
  return out;
}

std::optional<Dim> fit(SymTable& sym, const std::vector<Dim>& symbols, const std::vector<std::vector<int64_t>>& at,
                       const std::vector<int64_t>& values, const std::vector<KnownSize>& nearby) {
  if (std::ranges::all_of(values, [&](int64_t v) { return v == values[0]; })) return Dim(values[0]);
  const Problem p{sym, symbols, at, values};
  if (const auto found = of_one(p)) return found;
  if (const auto found = of_nearby(sym, nearby, values)) return found;
  return polynomial(p);
}

std::vector<std::vector<int64_t>> trials(const ir::SymTable& sym) {
  std::vector<int64_t> base(sym.num_symbols(), 1);
  for (const ir::SymExpr& e : sym.exprs()) {
    if (e.op == ir::SymOp::kSymbol) base[e.a.value] = e.b.value;
  }
  std::vector<std::vector<int64_t>> out{base};
  constexpr int64_t kMost = int64_t{1} << 40;  ///< beyond it nothing is tried: products would not fit
  for (size_t s = 0; s < base.size(); ++s) {
    const int64_t v = base[s];
    if (v > kMost) continue;
    for (const int64_t other : {v + 1, v + 2, v + 3, 2 * v, 2 * v + 1, 3 * v + 2, v - 1, v - 2, v - 3, v / 2}) {
      std::vector<int64_t> at = base;
      at[s] = other;
      if (other > 1 && std::ranges::find(out, at) == out.end()) out.push_back(std::move(at));
    }
  }
  if (base.size() > 1) {
    for (const int64_t by : {1, 2, -1}) {
      std::vector<int64_t> at = base;
      for (size_t s = 0; s < at.size(); ++s) at[s] = std::max<int64_t>(2, at[s] + by * static_cast<int64_t>(s % 5 + 1));
      if (std::ranges::find(out, at) == out.end()) out.push_back(std::move(at));
    }
  }
  const auto forbidden = [&](const std::vector<int64_t>& at) {
    std::vector<int64_t> values;
    ir::SymTable::evaluate(sym.exprs(), at, values);
    return !std::ranges::all_of(sym.guards(), [&](const ir::Guard& g) { return ir::SymTable::holds(g, values); });
  };
  out.erase(std::remove_if(out.begin() + 1, out.end(), forbidden), out.end());
  return out;
}

}  // namespace smolder::graph
