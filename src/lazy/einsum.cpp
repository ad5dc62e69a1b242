// einsum: an equation read, then pairs of operands contracted from left to right, each as one batched product.
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "smolder/ir/infer.h"
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"

namespace smolder::lazy {
namespace {

/// A dimension's name: a letter, or below 0 one of those that `...` stands for, -1 the last.
using Label = int;
using Labels = std::vector<Label>;

bool has(const Labels& labels, Label l) { return std::find(labels.begin(), labels.end(), l) != labels.end(); }

struct Term {
  Labels labels;
  Tensor x;
  int64_t extent(Label l) const {
    const auto at = std::find(labels.begin(), labels.end(), l);
    return at == labels.end() ? 1 : x.size(at - labels.begin());
  }
};

std::vector<std::string> split_terms(std::string_view text) {
  std::vector<std::string> out{""};
  for (char c : text) {
    if (c == ' ') continue;
    if (c == ',') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

/// The labels of a term; `dots` is how many dimensions its `...` has, or has in the result.
Labels read_term(const std::string& text, int64_t dots, bool& ellipsis) {
  Labels out;
  ellipsis = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      SMOLDER_CHECK(text.compare(i, 3, "...") == 0 && !ellipsis, RuntimeError, "einsum(): found '.' in '", text,
                    "' that is not part of any ellipsis, or a second ellipsis");
      ellipsis = true;
      for (int64_t k = dots; k > 0; --k) out.push_back(static_cast<Label>(-k));
      i += 2;
    } else {
      SMOLDER_CHECK(std::isalpha(static_cast<unsigned char>(text[i])), RuntimeError,
                    "einsum(): invalid subscript given in '", text, "', subscripts must be in [a-zA-Z]");
      out.push_back(text[i]);
    }
  }
  return out;
}

/// Repeated labels of a term become diagonals.
Term without_repeats(Term t) {
  for (size_t i = 0; i < t.labels.size(); ++i) {
    for (size_t j = i + 1; j < t.labels.size(); ++j) {
      if (t.labels[i] != t.labels[j]) continue;
      SMOLDER_CHECK(t.x.size(i) == t.x.size(j), RuntimeError, "einsum(): subscript ", static_cast<char>(t.labels[i]),
                    " is repeated for dimensions of different sizes in shape ", t.x.shape());
      t.x = move_axes(lazy::diagonal(t.x, 0, i, j), {-1}, {static_cast<int64_t>(i)});
      t.labels.erase(t.labels.begin() + j--);
    }
  }
  return t;
}

/// Sums the dimensions whose labels are not kept. Integers become int64 by that, as sum()'s do.
Term summed(const Term& t, const Labels& kept) {
  Dims axes;
  Term out{{}, t.x};
  for (size_t i = 0; i < t.labels.size(); ++i) {
    if (has(kept, t.labels[i])) {
      out.labels.push_back(t.labels[i]);
    } else {
      axes.push_back(i);
    }
  }
  if (!axes.empty()) out.x = sum(t.x, axes);
  return out;
}

/// t's dimensions in the order of the lists, each list as one dimension, broadcast to what `extent` says.
Tensor grouped(const Term& t, const std::vector<Labels>& lists, const auto& extent) {
  Dims order, wide, shape;
  for (const Labels& list : lists) {
    shape.push_back(1);
    for (Label l : list) {
      order.push_back(std::find(t.labels.begin(), t.labels.end(), l) - t.labels.begin());
      wide.push_back(extent(l));
      shape.back() *= extent(l);
    }
  }
  const Tensor x = permute(t.x, order);
  return reshape(x.shape() == wide ? x : expand(x, wide), shape);
}

/// The product of two terms, summed over labels that are not kept.
Term contracted(Term a, Term b, const Labels& kept) {
  const auto in_either = [&](const Term& other) {
    Labels out = kept;
    out.insert(out.end(), other.labels.begin(), other.labels.end());
    return out;
  };
  const bool alike = a.x.dtype() == b.x.dtype();
  a = summed(a, in_either(b));
  b = summed(b, in_either(a));
  if (alike && a.x.dtype() != b.x.dtype()) {  // one of the two was summed
    a.x = a.x.to(DType::kInt64);
    b.x = b.x.to(DType::kInt64);
  }
  Labels batch, left, right, inner;
  for (Label l : a.labels) (!has(b.labels, l) ? left : has(kept, l) ? batch : inner).push_back(l);
  for (Label l : b.labels) {
    if (!has(a.labels, l)) right.push_back(l);
  }
  const auto extent = [&](Label l) {
    const int64_t m = a.extent(l), n = b.extent(l);
    SMOLDER_CHECK(m == n || m == 1 || n == 1, RuntimeError,
                  "einsum(): operands do not broadcast with remapped shapes: subscript ",
                  l < 0 ? std::string("...") : std::string(1, static_cast<char>(l)), " has size ", n,
                  " and was seen with size ", m, " before, in operands of shapes ", a.x.shape(), " and ", b.x.shape());
    return m == 1 ? n : m;
  };
  Term out;
  Dims shape;
  for (const Labels& list : {batch, left, right}) {
    for (Label l : list) {
      out.labels.push_back(l);
      shape.push_back(extent(l));
    }
  }
  const Tensor x = grouped(a, {batch, left, inner}, extent), y = grouped(b, {batch, inner, right}, extent);
  // Nothing to sum: a product of elements, which fuses with what is around it.
  out.x = reshape(inner.empty() ? x * y : matmul(x, y), shape);
  return out;
}

}  // namespace

Tensor einsum(std::string_view equation, TensorList operands) {
  SMOLDER_CHECK(operands.size() > 0, RuntimeError, "einsum(): must provide at least one operand");
  const size_t arrow = equation.find("->");
  const std::vector<std::string> texts = split_terms(equation.substr(0, arrow));
  SMOLDER_CHECK(texts.size() == operands.size(), RuntimeError,
                "einsum(): ", texts.size() > operands.size() ? "fewer" : "more",
                " operands were provided than specified in the equation");
  std::vector<Term> terms;
  int64_t most_dots = 0;
  bool ellipsis = false, any_ellipsis = false;
  for (size_t i = 0; i < texts.size(); ++i) {
    const Tensor& x = operands.data()[i];
    const int64_t named = static_cast<int64_t>(read_term(texts[i], 0, ellipsis).size()), dots = x.dim() - named;
    SMOLDER_CHECK(ellipsis ? dots >= 0 : dots == 0, RuntimeError,
                  "einsum(): the number of subscripts in the equation (", named, ") ",
                  ellipsis ? "is more than" : "does not match", " the number of dimensions (", x.dim(),
                  ") for operand ", i, ellipsis ? "" : " and no ellipsis was given");
    any_ellipsis |= ellipsis;
    if (ellipsis) most_dots = std::max(most_dots, dots);
    terms.push_back(without_repeats({read_term(texts[i], dots, ellipsis), x}));
  }
  Labels result;
  if (arrow == std::string_view::npos) {  // those that occur once, in order
    for (int64_t k = most_dots; any_ellipsis && k > 0; --k) result.push_back(static_cast<Label>(-k));
    for (int c = 'A'; c <= 'z'; ++c) {
      int64_t count = 0;
      for (const std::string& t : texts) count += std::count(t.begin(), t.end(), static_cast<char>(c));
      if (count == 1 && std::isalpha(c)) result.push_back(c);
    }
  } else {
    result = read_term(split_terms(equation.substr(arrow + 2))[0], most_dots, ellipsis);
    for (Label l : result) {
      SMOLDER_CHECK(std::count(result.begin(), result.end(), l) == 1, RuntimeError, "einsum(): output subscript ",
                    static_cast<char>(l), " appears more than once in the output");
      SMOLDER_CHECK(l < 0 || std::any_of(
                                 terms.begin(), terms.end(), [&](const Term& t) { return has(t.labels, l); }),
                    RuntimeError, "einsum(): output subscript ", static_cast<char>(l),
                    " does not appear in the equation for any input operand");
    }
  }
  Term done = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    Labels kept = result;
    for (size_t k = i + 1; k < terms.size(); ++k)
      kept.insert(kept.end(), terms[k].labels.begin(), terms[k].labels.end());
    done = contracted(done, terms[i], kept);
  }
  done = summed(done, result);
  Dims order;
  for (Label l : result) order.push_back(std::find(done.labels.begin(), done.labels.end(), l) - done.labels.begin());
  return permute(done.x, order);
}

}  // namespace smolder::lazy
