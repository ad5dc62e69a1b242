// Rules that many rows share, and those of products, movement and indices.
#include "smolder/lazy/batch_rules.h"

#include <optional>

#include "smolder/ir/attr_words.h"
#include "smolder/ir/decompose.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/batch_rule_names.h"  // generated
#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"  // generated

namespace smolder::lazy::batch {
namespace {

using Words = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

bool is_axis(std::string_view name) { return name == "dim" || name == "dims" || name == "dim0" || name == "dim1"; }

/// Attribute words for all elements: axes of one are one further on. `rank` is what they are numbered in; a list of no
/// axes means all where it is called `dim`.
Words shifted(const BatchCall& c, int rank) {
  Words out(c.attrs.begin(), c.attrs.end());
  ir::for_each_attr(ir::info(c.op), c.attrs, [&](const ir::AttrInfo& a, size_t first, size_t n) {
    if (!is_axis(a.name)) return;
    const auto shift = [&](int64_t axis) { return normalize_axis(axis, std::max(rank, 1)) + 1; };
    const bool list = a.kind == ir::AttrKind::kIntList;
    const bool optional = a.kind == ir::AttrKind::kOptionalInt;
    if (optional && !c.attrs[first]) return;
    for (size_t i = first + (list || optional); i < first + n; ++i) out[i] = shift(c.attrs[i]);
  });
  return out;
}

/// The same, where the first attribute is a list of axes of which none means all.
Words with_all_axes(const BatchCall& c, Words words, int rank) {
  bool done = false;
  ir::for_each_attr(ir::info(c.op), c.attrs, [&](const ir::AttrInfo& a, size_t first, size_t n) {
    if (done || a.kind != ir::AttrKind::kIntList || a.name != "dim" || n > 1) return;
    done = true;
    Words list{std::max(rank, 1)};
    for (int i = 1; i <= std::max(rank, 1); ++i) list.push_back(i);
    words.erase(words.begin() + static_cast<int64_t>(first));
    words.insert(words.begin() + static_cast<int64_t>(first), list.begin(), list.end());
  });
  return words;
}

/// The word of the attribute called `name`.
size_t word_of(const BatchCall& c, std::string_view name) {
  std::optional<size_t> at;
  ir::for_each_attr(ir::info(c.op), c.attrs, [&](const ir::AttrInfo& a, size_t first, size_t) {
    if (a.name == name) at = first;
  });
  SMOLDER_INVARIANT(at);
  return *at;
}
Dims list_of(const BatchCall& c, std::string_view name) {
  const size_t at = word_of(c, name);
  return Dims(c.attrs.subspan(at + 1, static_cast<size_t>(c.attrs[at])));
}

/// `t` [batch] as [batch, 1]: an element without dimensions counts as a row of one.
Tensor with_dimension(const Tensor& t) { return t.dim() == 1 ? unsqueeze(t, 1) : t; }

Dims after_batch(const BatchCall& c, const Dims& shape) {
  Dims out = shape;
  out.insert(0, c.size);
  return out;
}

int most_dimensions(const BatchCall& c) {
  int rank = 0;
  for (size_t i = 0; i < c.count(); ++i) rank = c.has(i) ? std::max(rank, c.rank(i)) : rank;
  return rank;
}

/// Operands of an op that broadcasts, batch first, with elements of one rank. An element without dimensions promotes as
/// such: it is brought to the dtype that it is computed in.
std::vector<Operand> aligned(const BatchCall& c, Tensors& kept) {
  const int rank = most_dimensions(c);
  std::vector<const ir::Meta*> one, all;
  std::vector<Operand> given(c.operands.begin(), c.operands.end());
  kept.resize(c.count());
  for (size_t i = 0; i < c.count(); ++i) {
    one.push_back(c.operands[i].meta());
    if (c.has(i)) given[i] = Operand(kept[i] = c.padded(i, rank));
    all.push_back(given[i].meta());
  }
  if (rank == 0) return given;
  const DType wanted = ir::result_type(one);
  if (ir::result_type(all) == wanted) return given;
  for (size_t i = 0; i < c.count(); ++i) {
    if (!c.spread(i) || c.rank(i) > 0 || kept[i].dtype() == DType::kBool) continue;
    given[i] = Operand(kept[i] = kept[i].to(smolder::compute_type(wanted)));
  }
  return given;
}

}  // namespace

// -- shared

Tensors elementwise(const BatchCall& c) {
  Tensors kept;
  return c.call(aligned(c, kept), c.attrs);
}

Tensors front(const BatchCall& c) {
  std::vector<Operand> given(c.operands.begin(), c.operands.end());
  Tensors kept(c.count());
  const int rank = c.has(0) ? c.rank(0) : 0;
  for (size_t i = 0; i < c.count(); ++i) {
    if (!c.has(i)) continue;
    const bool number = c.rank(i) == 0 && rank > 0;  // as the step that an optimizer is at
    if (number && c.spread(i)) return batch_loop(c);
    given[i] = Operand(kept[i] = number ? c.elements(i) : c.front(i));
  }
  return c.call(given, c.attrs);
}

Tensors axes(const BatchCall& c) {
  std::vector<Operand> given(c.operands.begin(), c.operands.end());
  Tensors kept(c.count());
  for (size_t i = 0; i < c.count(); ++i) {
    if (c.has(i)) given[i] = Operand(kept[i] = with_dimension(c.front(i)));
  }
  const int rank = c.rank(0);
  return c.call(given, with_all_axes(c, shifted(c, rank), rank));
}

Tensors loss(const BatchCall& c) {
  Tensors kept;
  std::vector<Operand> given = aligned(c, kept);
  for (size_t i = 0; i < c.count(); ++i) {  // some want operands of one shape
    if (c.has(i) && !c.spread(i) && c.rank(i) == most_dimensions(c)) given[i] = Operand(kept[i] = c.front(i));
  }
  Words words(c.attrs.begin(), c.attrs.end());
  int64_t& reduction = words[word_of(c, "reduction")];
  const int64_t asked = std::exchange(reduction, 0);  // none, mean, sum
  const Tensor each = c.call(given, words)[0];
  if (asked == 0) return {each};
  if (each.dim() == 1) return {each};
  Dims inner;
  for (int i = 1; i < each.dim(); ++i) inner.push_back(i);
  return {asked == 1 ? smolder::mean(each, inner) : smolder::sum(each, inner)};
}

Tensors flattened(const BatchCall& c) {  // argmax and argmin, of one dimension or of all elements
  if (c.attrs[word_of(c, "dim")]) return axes(c);
  Words words(c.attrs.begin(), c.attrs.end());
  const size_t at = word_of(c, "dim");
  words[at] = 1;
  words[at + 1] = 1;
  const Tensor rows = reshape(c.front(0), {c.size, numel(c.shape(0))});
  const Operand given[] = {rows};
  return c.call(given, words);
}

// -- random numbers

bool is_apart(const BatchCall& c, size_t seed) { return drawn_apart(c.level, c.number(seed), c.number(seed + 1)); }

Tensors drawn(const BatchCall& c) {  // [size]: by the size attribute, which comes first
  if (!is_apart(c, 0)) {
    const Tensor same = c.call(c.operands, c.attrs)[0];
    return {expand(same, after_batch(c, same.shape()))};
  }
  Words words(c.attrs.begin(), c.attrs.end());
  ++words[0];
  words.insert(words.begin() + 1, c.size);
  return c.call(c.operands, words);
}

Tensors dropout(const BatchCall& c) {
  const Tensor all = c.front(0);
  std::vector<Operand> given(c.operands.begin(), c.operands.end());
  if (is_apart(c, 2)) {
    given[0] = all;
    return c.call(given, c.attrs);
  }
  const Tensor ones = smolder::ones(c.shape(0), all.dtype());
  given[0] = ones;
  const Tensor factors = c.call(given, c.attrs)[0];
  return {where(factors != 0, all * factors, 0.0)};
}

Tensors bernoulli(const BatchCall& c) {
  const Tensor p = c.front(0);
  if (is_apart(c, 1)) {
    const Operand given[] = {p, c.operands[1], c.operands[2]};
    return c.call(given, c.attrs);
  }
  SMOLDER_CHECK(batch_level(c.level).randomness != Randomness::kSame, RuntimeError,
                "Vmap does not currently support same randomness with a batched tensor input");
  const Tensor u = random_uniform(c.shape(0), c.number(1), c.number(2), 0.0, 1.0, DType::kFloat32);
  return {lt(u, p.to(smolder::compute_type(p.dtype()))).to(p.dtype())};
}

// -- products

namespace {

/// `a` @ `b`, of which either may be the same for all; `ra` and `rb` are the ranks of elements.
Tensor product(const BatchCall& c, size_t a, size_t b) {
  const int ra = c.rank(a), rb = c.rank(b);
  const Tensor x = c.elements(a), y = c.elements(b);
  if (ra == 1 && rb == 1) {  // as one product of vectors is computed
    const DType compute = smolder::compute_type(x.dtype());
    return sum(x.to(compute) * y.to(compute), {-1}).to(x.dtype());
  }
  if (!c.spread(b) && rb <= 2 && ra >= 1) return smolder::matmul(x, y);
  if (!c.spread(a) && rb == 1 && ra <= 2) return smolder::matmul(y, ra == 2 ? transpose(x, 0, 1) : x);
  const int lead = std::max({ra, rb, 2}) - 2;
  const auto matrices = [&](const Tensor& t, bool spread, int rank, bool row) {
    Tensor m = rank == 1 ? unsqueeze(t, row ? -2 : -1) : t;
    if (!spread) return m;
    Dims shape{c.size};
    for (int i = m.dim() - 1; i < lead + 2; ++i) shape.push_back(1);
    for (int i = 1; i < m.dim(); ++i) shape.push_back(m.shape()[i]);
    return reshape(m, shape);
  };
  Tensor out = smolder::matmul(matrices(x, c.spread(a), ra, true), matrices(y, c.spread(b), rb, false));
  if (rb == 1) out = squeeze(out, -1);
  if (ra == 1) out = squeeze(out, -2);
  return out;
}

}  // namespace

Tensors matmul(const BatchCall& c) { return {product(c, 0, 1)}; }

Tensors linear(const BatchCall& c) {
  if (!c.any_spread({1, 2})) return {smolder::linear(c.elements(0), c.elements(1), c.elements(2))};
  return c.parts([&]() -> Tensors {
    const Tensor y = smolder::matmul(c.element(0), transpose(c.element(1), 0, 1));
    return {c.has(2) ? y + c.element(2) : y};
  });
}

Tensors int8_product(const BatchCall& c) {
  return c.parts([&]() -> Tensors {
    const DType dtype = c.element(0).dtype(), compute = compute_type(dtype);
    const Tensor x = c.element(0).to(compute), w = c.element(1).to(compute);
    const Tensor y = x.size(0) <= ir::kFewInt8Rows ? sum(unsqueeze(x, 1) * unsqueeze(w, 0), {2})
                                                   : smolder::matmul(x, transpose(w, 0, 1));
    return {(y * c.element(2).to(compute)).to(dtype)};
  });
}

Tensors add_product(const BatchCall& c) {  // addmm and baddbmm
  return c.parts([&]() -> Tensors {
    const Tensor ab = smolder::matmul(c.element(1), c.element(2)) * c.number(4);
    if (c.number(3).to_double() == 0) return {ab.to(c.results[0].dtype)};
    return {(c.element(0) * c.number(3) + ab).to(c.results[0].dtype)};
  });
}

// -- movement

Tensors reshape_to(const BatchCall& c) { return {smolder::reshape(c.front(0), after_batch(c, c.results[0].shape))}; }

Tensors expand_to(const BatchCall& c) {
  const Dims& shape = c.results[0].shape;
  return {smolder::expand(c.padded(0, shape.size()), after_batch(c, shape))};
}

Tensors sum_to(const BatchCall& c) {
  Dims shape{c.size};
  for (int i = c.results[0].shape.size(); i < c.rank(0); ++i) shape.push_back(1);
  for (const int64_t n : c.results[0].shape) shape.push_back(n);
  return {smolder::sum_to_size(c.front(0), shape)};
}

Tensors insert_axis(const BatchCall& c) { return {smolder::unsqueeze(c.front(0), shifted(c, c.rank(0) + 1)[0])}; }

Tensors exchange_axes(const BatchCall& c) {  // transpose and squeeze: of no dimensions they change nothing
  if (c.rank(0) == 0) return {c.front(0)};
  return axes(c);
}

Tensors permute_axes(const BatchCall& c) {
  Dims order{0};
  for (const int64_t axis : list_of(c, "dims")) order.push_back(normalize_axis(axis, c.rank(0)) + 1);
  return {smolder::permute(c.front(0), order)};
}

Tensors pad_with(const BatchCall& c) {
  Words words;
  ir::for_each_attr(ir::info(c.op), c.attrs, [&](const ir::AttrInfo& a, size_t first, size_t n) {
    words.insert(words.end(), c.attrs.begin() + first, c.attrs.begin() + first + n);
    if (a.kind != ir::AttrKind::kSizeList) return;
    const size_t at = words.size() - n;
    ++words[at];
    words.insert(words.begin() + at + 1, 0);
  });
  const Tensor all = c.front(0);
  const Operand given[] = {all};
  return c.call(given, words);
}

Tensors join(const BatchCall& c) {  // cat and stack
  const bool stacks = c.op == ir::Op::kStack;
  const int rank = most_dimensions(c);
  Tensors parts;
  for (size_t i = 0; i < c.count(); ++i) {
    if (c.rank(i) == rank) parts.push_back(c.front(i));  // cat leaves out what is empty and of another rank
  }
  const int64_t axis = shifted(c, rank + stacks)[0];
  return {stacks ? smolder::stack(parts, axis) : smolder::cat(parts, axis)};
}

Tensors write_to(const BatchCall& c) {  // copy: the second operand broadcasts to the first
  const Tensor to = c.front(0), from = c.padded(1, c.rank(0));
  const Operand given[] = {to, from};
  return c.call(given, c.attrs);
}

// -- indices

namespace {

/// A vector of indices that differs from element to element as `index` of `axis` of a gather or scatter of slices.
Tensor slices_at(const BatchCall& c, size_t index, int64_t axis, const Tensor& like) {
  const int64_t n = numel(c.shape(index));
  Dims shape = Dims::filled(like.dim(), 1), whole = like.shape();
  shape[0] = c.size;
  shape[static_cast<int>(axis)] = whole[static_cast<int>(axis)] = n;
  return expand(reshape(c.front(index), shape), whole);
}

}  // namespace

Tensors index_rows(const BatchCall& c) {  // index_select(self, dim, index)
  if (!c.spread(1)) {
    const Tensor all = with_dimension(c.front(0));
    return {smolder::index_select(all, shifted(c, c.rank(0))[0], c.elements(1))};
  }
  if (c.spread(0) || c.rank(0) == 0) {
    const Tensor all = with_dimension(c.front(0));
    const int64_t axis = shifted(c, c.rank(0))[0];
    return {smolder::gather(all, axis, slices_at(c, 1, axis, all))};
  }
  const int64_t axis = shifted(c, c.rank(0))[0] - 1, n = numel(c.shape(1));
  const Tensor rows = smolder::index_select(c.elements(0), axis, reshape(c.front(1), {c.size * n}));
  return {c.unfolded(rows, static_cast<int>(axis))};
}

Tensors change_rows(const BatchCall& c) {  // index_add, index_copy and index_fill of (self, dim, index, source)
  const Tensor all = with_dimension(c.front(0));
  const int64_t axis = shifted(c, c.rank(0))[0];
  const bool fills = c.op == ir::Op::kIndexFill;
  Dims rows = all.shape();
  rows[static_cast<int>(axis)] = numel(c.shape(1));
  if (!c.spread(1)) {
    const Tensor index = c.elements(1), source = fills ? Tensor() : reshape(c.front(2), rows);
    const Operand given[] = {all, index, fills ? c.operands[2] : Operand(source)};
    return c.call(given, shifted(c, c.rank(0)));
  }
  const Tensor source = fills ? full(rows, c.number(2), all.dtype()) : reshape(c.front(2), rows);
  Tensor index = slices_at(c, 1, axis, all);
  if (fills) index = where(index < 0, index + all.size(static_cast<int>(axis)), index);
  if (c.op == ir::Op::kIndexAddRows) return {smolder::scatter_add(all, axis, index, source)};
  return {smolder::scatter(all, axis, index, source)};
}

namespace {

/// Numbers of rows, [batch, n], as indices of [batch, rows, width].
Tensor of_rows(const BatchCall& c, const Tensor& numbers, int64_t width) {
  const int64_t n = numbers.numel() / std::max<int64_t>(c.size, 1);
  return expand(reshape(numbers, {c.size, n, 1}), {c.size, n, width});
}

}  // namespace

Tensors embed(const BatchCall& c) {  // embedding(weight, indices, padding_idx)
  const int64_t padding = c.attrs[0];
  if (!c.spread(0)) return {smolder::embedding(c.elements(0), c.elements(1), padding)};
  const Tensor table = c.front(0), numbers = c.front(1);
  const Tensor index = of_rows(c, numbers, table.size(2));
  Tensor rows = smolder::gather(table, 1, index);
  if (padding >= 0) rows = where(index == padding, rows.detach(), rows);
  return {rows};
}

Tensors embed_back(const BatchCall& c) {  // (grad_output, indices, num_weights, padding_idx)
  const int64_t rows = c.attrs[0], padding = c.attrs[1], width = c.shape(0).back();
  const Tensor numbers = c.front(1), index = of_rows(c, numbers, width);
  Tensor grads = reshape(c.front(0), index.shape());
  if (padding >= 0) grads = where(index == padding, 0.0, grads);
  return {smolder::scatter_add(zeros({c.size, rows, width}, grads.dtype()), 1, index, grads)};
}

Tensors hand_out(const BatchCall& c) {  // masked_rows(source, mask, dim, exact), as it is decomposed
  return c.parts([&]() -> Tensors {
    const Tensor source = c.element(0), mask = c.element(1);
    const int axis = normalize_axis(c.attrs[0], source.dim());
    const int64_t n = mask.numel(), rows = source.size(axis);
    const Tensor flat = reshape(mask, {n}), last = cumsum(flat.to(DType::kInt64), 0) - 1;
    Tensor at = where(flat, last, 0);
    if (c.attrs[1]) at = where(slice_range(last, 0, n - 1, n) == rows - 1, at, rows);
    Dims shape;
    for (int i = 0; i < axis; ++i) shape.push_back(source.size(i));
    for (const int64_t e : mask.shape()) shape.push_back(e);
    for (int i = axis + 1; i < source.dim(); ++i) shape.push_back(source.size(i));
    return {reshape(smolder::index_select(source, axis, at), shape)};
  });
}

}  // namespace smolder::lazy::batch
