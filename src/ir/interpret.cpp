#include "smolder/ir/interpret.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "smolder/ir/attrs.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/infer.h"
#include "smolder/ir/interpret_fourier.h"
#include "smolder/ir/interpret_index.h"
#include "smolder/ir/interpret_number.h"

namespace smolder::ir {
namespace reference {
namespace {

using scalar::Primitive;

/// The element that numpy broadcasting puts at `index` of a shape of higher or equal rank.
Scalar broadcast_element(const PlainTensor& t, const Dims& index) {
  Dims own;
  for (int a = 0; a < t.shape.size(); ++a) {
    own.push_back(t.shape[a] == 1 ? 0 : index[index.size() - t.shape.size() + a]);
  }
  return t.elements[position(own, t.shape)];
}

// -- elementwise

PlainTensor run_elementwise(const Step& s) {
  const auto primitive = static_cast<Primitive>(s.op);
  std::vector<Meta> metas;
  std::vector<const Meta*> pointers;
  metas.reserve(s.in.size());
  for (const PlainTensor* t : s.in) metas.push_back({t->shape, t->dtype, t->weak});
  for (const Meta& m : metas) pointers.push_back(&m);
  const bool to_bool = scalar::info(primitive).result == scalar::PrimitiveInfo::kBool;
  const DType t = to_bool ? elementwise_types(s.op, pointers).compute : s.out[0].dtype;
  return make(s.out[0], [&](const Dims& index, int64_t) {
    std::vector<Scalar> operands;
    for (size_t i = 0; i < s.in.size(); ++i) {
      const Scalar v = broadcast_element(*s.in[i], index);
      const bool condition = s.op == Op::kWhere && i == 0;
      operands.push_back(convert(v, condition ? DType::kBool : s.in[i]->weak ? number_type(s.op, t) : t));
    }
    return evaluate(primitive, t, operands);
  });
}

PlainTensor run_cast(const Step& s) {
  return make(s.out[0], [&](const Dims&, int64_t p) { return convert(s.operand(0).elements[p], s.out[0].dtype); });
}

// -- sources

PlainTensor run_iota(const Step& s) {
  const int axis = normalize_axis(s.attrs.back(), s.out[0].shape.size());
  return make(s.out[0], [&](const Dims& index, int64_t) { return Scalar(index[axis]); });
}

PlainTensor run_random_bits(const Step& s) {
  const auto key = static_cast<uint64_t>(s.operand(0).elements[0].to_int());
  const auto offset = static_cast<uint64_t>(s.operand(1).elements[0].to_int());
  return make(s.out[0], [&](const Dims&, int64_t p) {
    return Scalar(int64_t{philox(offset + static_cast<uint64_t>(p) / 4, 0, key).word[p % 4]});
  });
}

// -- reductions and products

PlainTensor run_reduce(const Step& s) {
  const auto kind = static_cast<ReduceKind>(s.attrs[0]);
  const PlainTensor& x = s.operand(0);
  const int axis = normalize_axis(s.attrs[1], x.shape.size());
  const int64_t n = x.shape[axis], chunk = s.attrs[2] == 0 ? n : s.attrs[2];
  return make(s.out[0], [&](Dims index, int64_t) {
    Scalar sum = identity(kind, x.dtype);
    const int64_t begin = index[axis] * chunk;
    for (int64_t j = begin; j < std::min(begin + chunk, n); ++j) {
      index[axis] = j;
      sum = accumulate(kind, sum, x.elements[position(index, x.shape)]);
    }
    return convert(sum, x.dtype);
  });
}

PlainTensor run_dot(const Step& s) {
  const PlainTensor &a = s.operand(0), &b = s.operand(1);
  const int rank = a.shape.size();
  return make(s.out[0], [&](const Dims& index, int64_t) {
    Scalar sum = identity(ReduceKind::kSum, a.dtype);
    Dims at_a = index, at_b = index;
    for (int64_t k = 0; k < a.shape[rank - 1]; ++k) {
      at_a[rank - 1] = at_b[rank - 2] = k;
      const DType wide = is_floating(a.dtype) ? DType::kFloat64 : DType::kInt64;
      const Scalar factors[] = {a.elements[position(at_a, a.shape)], b.elements[position(at_b, b.shape)]};
      sum = accumulate(ReduceKind::kSum, sum, evaluate(Primitive::kMul, wide, factors));
    }
    if (s.in.size() > 2 && s.in[2]) {
      const Scalar terms[] = {sum, s.operand(2).elements[index[rank - 1]]};
      sum = evaluate(Primitive::kAdd, DType::kFloat64, terms);
    }
    return convert(sum, s.out[0].dtype);
  });
}

/// The three primitives of convolution: input, weight and output, one of which is summed up from the other two.
PlainTensor run_conv(const Step& s) {
  AttrReader words(s.attrs);
  if (s.op != Op::kConvForward) words.sizes();
  const Dims stride = words.integers(), padding = words.integers(), dilation = words.integers();
  const int64_t groups = words.integer();
  const PlainTensor &a = s.operand(0), &b = s.operand(1);
  const Dims &result = s.out[0].shape,
             &x = s.op == Op::kConvForward         ? a.shape
                  : s.op == Op::kConvBackwardInput ? result
                                                   : b.shape,
             &w = s.op == Op::kConvBackwardWeight ? result : b.shape, &y = s.op == Op::kConvForward ? result : a.shape;
  std::vector<double> sums(numel(result), 0.0);
  const Dims all{y[0], y[1], y[2], y[3], w[1], w[2], w[3]};
  for (int64_t i = 0; i < numel(all); ++i) {
    Dims at;
    int64_t rest = i;
    for (int k = all.size(); k-- > 0; rest /= all[k]) at.insert(0, rest % all[k]);
    const int64_t row = at[2] * stride[0] + at[5] * dilation[0] - padding[0];
    const int64_t column = at[3] * stride[1] + at[6] * dilation[1] - padding[1];
    if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
    const int64_t channel = at[1] / (y[1] / groups) * w[1] + at[4];
    const int64_t in = position({at[0], channel, row, column}, x), tap = position({at[1], at[4], at[5], at[6]}, w),
                  out = position({at[0], at[1], at[2], at[3]}, y);
    const auto product = [](const PlainTensor& f, int64_t j, const PlainTensor& g, int64_t k) {
      return f.elements[j].to_double() * g.elements[k].to_double();
    };
    if (s.op == Op::kConvForward) {
      sums[out] += product(a, in, b, tap);
    } else if (s.op == Op::kConvBackwardInput) {
      sums[in] += product(a, out, b, tap);
    } else {
      sums[tap] += product(a, out, b, in);
    }
  }
  return make(s.out[0], [&](const Dims&, int64_t p) { return convert(sums[p], s.out[0].dtype); });
}

PlainTensor run_transform(const Step& s) {
  std::vector<double> x;
  for (const Scalar& v : s.operand(0).elements) x.push_back(v.to_double());
  x = transform(s.op, x, s.operand(0).shape, s.attrs);
  return make(s.out[0], [&](const Dims&, int64_t p) { return convert(Scalar(x[p]), s.out[0].dtype); });
}

// -- movement

PlainTensor run_reshape(const Step& s) {
  return {s.out[0].dtype, s.out[0].shape, s.operand(0).elements, s.out[0].weak};
}

PlainTensor run_expand(const Step& s) {
  return make(s.out[0], [&](const Dims& index, int64_t) { return broadcast_element(s.operand(0), index); });
}

/// Moves elements: `from` maps an index of the result to one of the operand.
PlainTensor moved(const Step& s, auto from) {
  const PlainTensor& x = s.operand(0);
  return make(s.out[0], [&](const Dims& index, int64_t) { return x.elements[position(from(index), x.shape)]; });
}

PlainTensor run_permute(const Step& s) {
  const int rank = s.out[0].shape.size();
  return moved(s, [&](const Dims& index) {
    Dims at = index;
    for (int a = 0; a < rank; ++a) at[normalize_axis(s.attrs[1 + a], rank)] = index[a];
    return at;
  });
}

PlainTensor run_slice(const Step& s) {
  const int axis = normalize_axis(s.attrs[0], s.out[0].shape.size());
  return moved(s, [&](Dims index) {
    index[axis] = s.attrs[1] + index[axis] * s.attrs[3];
    return index;
  });
}

PlainTensor run_flip(const Step& s) {
  const Dims& shape = s.out[0].shape;
  return moved(s, [&](Dims index) {
    for (size_t i = 1; i < s.attrs.size(); ++i) {
      const int a = normalize_axis(s.attrs[i], shape.size());
      index[a] = shape[a] - 1 - index[a];
    }
    return index;
  });
}

PlainTensor run_pad(const Step& s) {
  const PlainTensor& x = s.operand(0);
  AttrReader attrs(s.attrs);
  const Dims low = attrs.sizes();
  attrs.sizes();
  const Scalar fill = convert(attrs.real(), x.dtype);
  return make(s.out[0], [&](Dims index, int64_t) {
    for (int a = 0; a < index.size(); ++a) {
      index[a] -= low[a];
      if (index[a] < 0 || index[a] >= x.shape[a]) return fill;
    }
    return x.elements[position(index, x.shape)];
  });
}

PlainTensor run_cat(const Step& s) {
  const int axis = normalize_axis(s.attrs[0], s.out[0].shape.size());
  return make(s.out[0], [&](Dims index, int64_t) {
    size_t part = 0;
    for (; index[axis] >= s.in[part]->shape[axis]; ++part) index[axis] -= s.in[part]->shape[axis];
    return convert(s.in[part]->elements[position(index, s.in[part]->shape)], s.out[0].dtype);
  });
}

// -- scans and sorts

/// A running sum of floats of a row: groups of four are summed within, then what came before is added.
void sum_floats(std::span<double> row) {
  constexpr size_t kGroup = 4;
  double carry = 0;
  for (size_t i = 0; i < row.size(); i += kGroup) {
    std::array<double, kGroup> v{}, w{};
    for (size_t k = 0; k < kGroup && i + k < row.size(); ++k) v[k] = row[i + k];
    for (size_t k = 0; k < kGroup; ++k) w[k] = v[k] + (k < 1 ? 0.0 : v[k - 1]);
    for (size_t k = 0; k < kGroup; ++k) v[k] = w[k] + (k < 2 ? 0.0 : w[k - 2]) + carry;
    for (size_t k = 0; k < kGroup && i + k < row.size(); ++k) row[i + k] = v[k];
    carry = v[kGroup - 1];
  }
}

void scan_floats(ScanKind kind, bool last, std::span<double> row) {
  if (kind == ScanKind::kSum && last) return sum_floats(row);
  double sum = kind == ScanKind::kProd ? 1 : 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (kind == ScanKind::kMax || kind == ScanKind::kMin) {
      sum = i == 0 ? row[0] : extreme(sum, row[i], kind == ScanKind::kMax).to_double();
    } else {
      sum = kind == ScanKind::kSum ? sum + row[i] : sum * row[i];
    }
    row[i] = sum;
  }
}

void scan_integers(ScanKind kind, DType t, std::span<Scalar> row) {
  const auto both = [&](const Scalar& a, const Scalar& b) {
    if (kind == ScanKind::kMax || kind == ScanKind::kMin) return extreme(a, b, kind == ScanKind::kMax);
    return evaluate(kind == ScanKind::kSum ? Primitive::kAdd : Primitive::kMul, t, std::array{a, b});
  };
  for (size_t i = 1; i < row.size(); ++i) row[i] = both(row[i - 1], row[i]);
}

/// Calls `f(first, step)` for every row along `axis`: its first position and how far apart its elements are.
void for_each_row(const Dims& shape, int axis, auto f) {
  int64_t step = 1;
  for (int a = axis + 1; a < shape.size(); ++a) step *= shape[a];
  for_each_index(shape, [&](const Dims& at, int64_t p) {
    if (at[axis] == 0) f(p, step);
  });
}

PlainTensor run_scan(const Step& s) {
  const auto kind = static_cast<ScanKind>(s.attrs[0]);
  const int axis = normalize_axis(s.attrs[1], s.out[0].shape.size());
  PlainTensor out = s.operand(0);
  const int64_t n = out.shape[axis];
  for_each_row(out.shape, axis, [&](int64_t first, int64_t step) {
    if (is_floating(out.dtype)) {
      std::vector<double> row;
      for (int64_t i = 0; i < n; ++i) row.push_back(out.elements[first + i * step].to_double());
      scan_floats(kind, step == 1, row);
      for (int64_t i = 0; i < n; ++i) out.elements[first + i * step] = convert(row[i], out.dtype);
    } else {
      std::vector<Scalar> row;
      for (int64_t i = 0; i < n; ++i) row.push_back(out.elements[first + i * step]);
      scan_integers(kind, out.dtype, row);
      for (int64_t i = 0; i < n; ++i) out.elements[first + i * step] = row[i];
    }
  });
  return out;
}

/// Whether `a` comes before `b` in ascending order: nan is the largest.
bool ordered(const Scalar& a, const Scalar& b) {
  if (a.category() != Category::kFloat) return a.to_int() < b.to_int();
  const double x = a.to_double(), y = b.to_double();
  return std::isnan(y) ? !std::isnan(x) : x < y;
}

std::vector<PlainTensor> run_sorted(const Step& s) {
  const PlainTensor& x = s.operand(0);
  const int axis = normalize_axis(s.attrs[0], x.shape.size());
  const bool descending = s.attrs[1] != 0;
  const int64_t n = x.shape[axis], limit = s.attrs[2];
  std::vector<PlainTensor> out;
  for (const Meta& m : s.out)
    out.push_back({m.dtype, m.shape, std::vector<Scalar>(numel(m.shape), Scalar(false)), false});
  std::vector<int64_t> firsts;
  for_each_row(out[0].shape, axis, [&](int64_t first, int64_t) { firsts.push_back(first); });
  size_t row = 0;
  for_each_row(x.shape, axis, [&](int64_t first, int64_t step) {
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    const auto element = [&](int64_t i) -> const Scalar& { return x.elements[first + i * step]; };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return descending ? ordered(element(b), element(a)) : ordered(element(a), element(b));
    });
    if (firsts.empty()) return;
    const int64_t to = firsts[row++];
    for (int64_t i = 0; i < limit; ++i) {
      out[0].elements[to + i * step] = element(order[i]);
      out[1].elements[to + i * step] = Scalar(order[i]);
    }
  });
  return out;
}

PlainTensor run_primitive(const Step& s) {
  if (is_elementwise_primitive(s.op)) return run_elementwise(s);
  switch (s.op) {
    case Op::kIota:
      return run_iota(s);
    case Op::kRandomBits:
      return run_random_bits(s);
    case Op::kCast:
      return run_cast(s);
    case Op::kReduce:
      return run_reduce(s);
    case Op::kDot:
      return run_dot(s);
    case Op::kConvForward:
    case Op::kConvBackwardInput:
    case Op::kConvBackwardWeight:
      return run_conv(s);
    case Op::kFftC2c:
    case Op::kFftR2c:
    case Op::kFftC2r:
      return run_transform(s);
    case Op::kReshape:
    case Op::kBarrier:
      return run_reshape(s);
    case Op::kExpand:
      return run_expand(s);
    case Op::kPermute:
      return run_permute(s);
    case Op::kSlice:
      return run_slice(s);
    case Op::kFlip:
      return run_flip(s);
    case Op::kPad:
      return run_pad(s);
    case Op::kCat:
    case Op::kWideCat:
      return run_cat(s);
    case Op::kTake:
      return run_take(s);
    case Op::kGather:
      return run_gather(s);
    case Op::kIndexAdd:
      return run_index_add(s);
    case Op::kScatterAdd:
      return run_scatter_add(s);
    case Op::kIndexSet:
      return run_index_set(s);
    case Op::kSliceWrite:
      return run_slice_write(s);
    case Op::kScatterInto:
      return run_scatter_into(s);
    case Op::kScan:
      return run_scan(s);
    default:
      raise<NotImplementedError>("the interpreter does not know primitive ", name(s.op));
  }
}

std::vector<PlainTensor> run_primitives(const Step& s) {
  if (s.op == Op::kSorted) return run_sorted(s);
  return {run_primitive(s)};
}

/// An op that is no primitive: decomposed for the sizes at hand, and run.
std::vector<PlainTensor> run_op(const Step& s) {
  Graph g;
  Builder b(g);
  Node node{s.op, static_cast<uint16_t>(s.out.size()), kNone, {}, {}, {}};
  std::vector<PlainTensor> leaves;
  std::vector<uint64_t> parameters;
  for (const PlainTensor* t : s.in) {
    if (!t) {
      node.inputs.push_back(kNone);
    } else if (t->weak) {
      node.inputs.push_back(b.parameter(static_cast<int>(parameters.size()), category(t->dtype)).id);
      parameters.push_back(t->elements[0].bits());
    } else {
      node.inputs.push_back(b.leaf(static_cast<int>(leaves.size()), t->dtype, SymDims(t->shape)).id);
      leaves.push_back(*t);
    }
  }
  node.attrs.assign(s.attrs.begin(), s.attrs.end());
  std::vector<ValueInfo> results;
  for (const Meta& m : s.out) results.push_back({kNone, m.dtype, m.weak, SymDims(m.shape)});
  g.outputs.resize(s.out.size());
  info(s.op).decompose(b, node, results, g.outputs.data());
  return interpret(g, leaves, parameters);
}

class Interpreter {
 public:
  Interpreter(const Graph& g, std::span<const PlainTensor> leaves, std::span<const uint64_t> parameters,
              std::span<const int64_t> symbols)
      : g_(g), leaves_(leaves), parameters_(parameters) {
    if (!symbols.empty()) SymTable::evaluate(g.sym.exprs(), symbols, sizes_);
  }

  std::vector<PlainTensor> run() {
    std::vector<PlainTensor> values(g_.values.size()), outputs;
    for (const Node& n : g_.nodes) {
      Step s{n.op, {}, {}, {}};
      for (ValueId v : n.inputs) s.in.push_back(v == kNone ? nullptr : &values[v]);
      for (const Dim& d : n.attrs) s.attrs.push_back(size(d));
      for (int i = 0; i < n.num_outputs; ++i) s.out.push_back(meta(n.first_output + i));
      std::vector<PlainTensor> results = step(s);
      std::move(results.begin(), results.end(), values.begin() + n.first_output);
    }
    for (ValueId v : g_.outputs) outputs.push_back(values[v]);
    return outputs;
  }

 private:
  int64_t size(const Dim& d) const { return sizes_.empty() ? d.value : SymTable::value(d, sizes_); }

  Meta meta(ValueId v) const {
    Meta m{{}, g_.dtype(v), g_.info(v).weak};
    for (const Dim& d : g_.shape(v)) m.shape.push_back(size(d));
    return m;
  }

  std::vector<PlainTensor> step(const Step& s) const {
    switch (s.op) {
      case Op::kLeaf:
        return {leaf(s)};
      case Op::kParameter:
        SMOLDER_CHECK(s.attrs[0] < static_cast<int64_t>(parameters_.size()), ValueError, "no parameter ", s.attrs[0]);
        return {weak(Scalar::from_bits(parameters_[s.attrs[0]], static_cast<Category>(s.attrs[1])))};
      case Op::kConstant: {
        const Scalar v = Scalar::from_bits(static_cast<uint64_t>(s.attrs[1]), static_cast<Category>(s.attrs[0]));
        if (s.out[0].weak) return {weak(v)};
        return {{s.out[0].dtype, {}, {convert(v, s.out[0].dtype)}, false}};
      }
      case Op::kExtent:
        return {weak(Scalar(s.attrs[0]))};
      default:
        break;
    }
    return info(s.op).flags.primitive ? run_primitives(s) : run_op(s);
  }

  static PlainTensor weak(Scalar v) { return {v.dtype(DType::kFloat64), {}, {v}, true}; }

  PlainTensor leaf(const Step& s) const {
    const int64_t number = s.attrs[0];
    SMOLDER_CHECK(number < static_cast<int64_t>(leaves_.size()), ValueError, "no leaf ", number);
    const PlainTensor& t = leaves_[number];
    SMOLDER_CHECK(t.shape == s.out[0].shape && t.dtype == s.out[0].dtype, ValueError, "leaf ", number, " is ",
                  to_string({t.shape, t.dtype}), ", the graph expects ", to_string(s.out[0]));
    return t;
  }

  const Graph& g_;
  std::span<const PlainTensor> leaves_;
  std::span<const uint64_t> parameters_;
  std::vector<int64_t> sizes_;  ///< value of each expression; empty for the sample
};

}  // namespace
}  // namespace reference

std::vector<PlainTensor> interpret(const Graph& g, std::span<const PlainTensor> leaves,
                                   std::span<const uint64_t> parameters, std::span<const int64_t> symbols) {
  return reference::Interpreter(g, leaves, parameters, symbols).run();
}

std::vector<PlainTensor> interpret(Op op, std::span<const PlainTensor* const> inputs, std::span<const int64_t> attrs) {
  const OpInfo& row = info(op);
  SMOLDER_CHECK(row.infer, ValueError, row.name, " is no op to run by itself");
  reference::Step s{
      op, {inputs.begin(), inputs.end()}, {attrs.begin(), attrs.end()}, std::vector<Meta>(row.num_outputs)};
  std::vector<Meta> metas(inputs.size());
  std::vector<const Meta*> pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) metas[i] = {inputs[i]->shape, inputs[i]->dtype, inputs[i]->weak};
    pointers.push_back(inputs[i] ? &metas[i] : nullptr);
  }
  row.infer({pointers, attrs}, s.out.data());
  if (op == Op::kExtent) return {{DType::kInt64, {}, {Scalar(attrs[0])}, true}};
  return row.flags.primitive ? reference::run_primitives(s) : reference::run_op(s);
}

}  // namespace smolder::ir
