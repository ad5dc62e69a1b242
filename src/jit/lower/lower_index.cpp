// Indices while lowering: how movement primitives change them, and how they become integers in the kernel.
#include <algorithm>
#include <limits>

#include "smolder/jit/attributes.h"
#include "smolder/jit/lower/lowering.h"

namespace smolder::jit {

using ir::Dim;
using ir::Op;
using ir::SymDims;

Lowering::IndexId Lowering::intern(Index index) {
  // Where both halves of a cut digit stand side by side, they are the whole digit again: two reshapes that undo each
  // other cost nothing.
  auto& d = index.digits;
  for (size_t i = 0; i + 1 < d.size(); ++i) {
    if (d[i].cut >= 0 && d[i].cut == d[i + 1].cut && d[i].high && !d[i + 1].high) {
      d[i] = cuts_[d[i].cut].whole;
      d.erase(d.begin() + i + 1);
      i = static_cast<size_t>(-1);
    }
  }
  const uint64_t h = hash_of(index);
  for (size_t i = 0; i < indices_.size(); ++i) {
    if (index_hash_[i] == h && indices_[i] == index) return static_cast<IndexId>(i);
  }
  indices_.push_back(std::move(index));
  index_hash_.push_back(h);
  return static_cast<IndexId>(indices_.size() - 1);
}

Lowering::Level Lowering::level_of(const Linear& l) const {
  Level level = kTop;
  for (const Linear::Term& t : l.terms) level = std::max(level, t.is_local ? locals_[t.id].level : var_level_[t.id]);
  return level;
}

Lowering::Level Lowering::level_of(const Index& i) const {
  Level level = kTop;
  for (const Digit& d : i.digits) level = std::max(level, level_of(d.value));
  for (const LinearBound& b : i.bounds) level = std::max(level, level_of(b.value));
  return level;
}

namespace {

/// a / b, where it is known to be whole.
Dim divide(ir::SymTable& sym, Dim a, Dim b) {
  if (!a.is_constant()) {
    const ir::SymExpr& e = sym.exprs()[a.expr];
    if (e.op == ir::SymOp::kMul && e.a == b) return e.b;
    if (e.op == ir::SymOp::kMul && e.b == b) return e.a;
  }
  const Dim q = sym.floor_div(a, b);
  SMOLDER_INVARIANT(sym.equal(sym.mul(q, b), a));
  return q;
}

}  // namespace

void Lowering::ask_finer(const Digit& d, Dim inner) {
  if (d.atom < 0 || refined_) return;
  const int num_rows = static_cast<int>(domain_.rows.size());
  const bool in_rows = d.atom < num_rows;
  // An axis that is reduced stays one loop: the order of its elements is the canonical one.
  if (in_rows ? domain_.reduces_rows && d.atom == num_rows - 1 : domain_.reduces_columns) return;
  Domain finer = domain_;
  auto& axes = in_rows ? finer.rows : finer.columns;
  const int i = in_rows ? d.atom : d.atom - num_rows;
  const Dim outer = divide(sym(), axes[i], inner);
  axes[i] = outer;
  axes.insert(axes.begin() + i + 1, inner);
  refined_ = std::move(finer);
}

/// The halves of where a chunk of a reduced axis begins and how far from there, where a chunk is cut off.
std::optional<std::pair<Digit, Digit>> Lowering::cut_chunk(const Digit& d, Dim inner) {
  const auto halves = [&](bool chunked, const Digit& chunk, Dim size, VarId v) {
    const auto has = [&](const Linear::Term& t) { return std::ranges::find(d.value.terms, t) != d.value.terms.end(); };
    return chunked && size == inner && d.value.offset == Dim(0) && d.value.terms.size() == 2 &&
           has({v, false, Dim(1)}) && has({chunk.value.terms[0].id, false, size});
  };
  const auto pair = [&](const Digit& chunk, VarId v) {
    return std::pair{Digit{chunk.value, divide(sym(), d.extent, inner)}, Digit{Linear::var(v), inner}};
  };
  if (halves(has_row_chunk_, row_chunk_digit_, domain_.row_chunk, seq_var_)) return pair(row_chunk_digit_, seq_var_);
  if (halves(has_column_chunk_, column_chunk_digit_, domain_.column_chunk, vector_var_))
    return pair(column_chunk_digit_, vector_var_);
  return {};
}

std::pair<Digit, Digit> Lowering::cut(const Digit& d, Dim inner) {
  if (const auto halves = cut_chunk(d, inner)) return *halves;
  for (const CutLocals& c : cut_digits_) {
    if (c.whole == d && c.low.extent == inner && (level_of(d.value) != kCell || c.phase == phase_)) {
      return {c.high, c.low};
    }
  }
  ask_finer(d, inner);
  const LocalId position = to_local(d.value), divisor = to_local({inner, {}});
  const int ordinal = static_cast<int>(cuts_.size());
  const Digit high{Linear::local(primitive(Op::kFloorDiv, DType::kInt64, {position, divisor})),
                   divide(sym(), d.extent, inner), -1, ordinal, true};
  const Digit low{Linear::local(primitive(Op::kRemainder, DType::kInt64, {position, divisor})), inner, -1, ordinal,
                  false};
  cuts_.push_back({d});
  cut_digits_.push_back({d, high, low, phase_});
  return {high, low};
}

std::vector<std::vector<Digit>> Lowering::isolate(const Index& at, const SymDims& shape) {
  std::vector<std::vector<Digit>> dims(shape.size());
  std::vector<Digit> rest = at.digits;
  const auto join = [&](const Digit& high, const Digit& low) {
    Digit d{low.value, sym().mul(high.extent, low.extent)};
    add_scaled(sym(), d.value, high.value, low.extent);
    return d;
  };
  for (int i = shape.size() - 1; i >= 0; --i) {
    Dim need = shape[i];
    if (is_one(sym(), need)) continue;
    auto& digits = dims[i];  // innermost first while collecting
    while (!is_one(sym(), need)) {
      SMOLDER_INVARIANT(!rest.empty());
      Digit d = rest.back();
      rest.pop_back();
      if (sym().equal(d.extent, need)) {
        digits.push_back(d);
        break;
      }
      if (need.value % d.extent.value == 0) {
        need = divide(sym(), need, d.extent);
        digits.push_back(d);
        continue;
      }
      // The boundary lies inside a digit: join what it takes to hold whole copies of `need`, then cut.
      while (d.extent.value % need.value != 0) {
        SMOLDER_INVARIANT(!rest.empty());
        d = join(rest.back(), d);
        rest.pop_back();
      }
      if (sym().equal(d.extent, need)) {
        digits.push_back(d);
        break;
      }
      const auto [high, low] = cut(d, need);
      digits.push_back(low);
      rest.push_back(high);
      break;
    }
    std::reverse(digits.begin(), digits.end());
  }
  SMOLDER_INVARIANT(rest.empty());
  return dims;
}

Linear Lowering::position_in(const BufferInfo& info, const Index& at) {
  Linear position{info.offset, {}};
  if (info.contiguous) {
    add_scaled(sym(), position, flatten(at.digits), 1);
    return position;
  }
  SymDims shape = info.shape, strides = info.strides;
  if (info.kind != BufferInfo::kLeaf) {
    // Only its rows lie apart: the dims that they are of need not be told from each other.
    const int last = shape.size() - 1;
    Dim rows = 1;
    for (int i = 0; i < last; ++i) rows = sym().mul(rows, shape[i]);
    shape = {rows, info.shape[last]};
    strides = {info.strides[last - 1], 1};
  }
  const auto dims = isolate(at, shape);
  for (int i = 0; i < shape.size(); ++i) {
    if (!dims[i].empty()) add_scaled(sym(), position, flatten(dims[i]), strides[i]);
  }
  return position;
}

namespace {

Index with_digits(const Index& at, std::vector<std::vector<Digit>>&& dims) {
  Index out{{}, at.bounds, at.has_fill, at.fill};
  for (auto& d : dims) out.digits.insert(out.digits.end(), d.begin(), d.end());
  return out;
}

}  // namespace

Lowering::IndexId Lowering::moved(const ir::Node& n, IndexId at) {
  const SymDims &from = graph().shape(n.inputs[0]), &to = graph().shape(n.first_output);
  switch (n.op) {
    case Op::kReshape:
    case Op::kBarrier:
      return at;
    case Op::kExpand: {
      auto dims = isolate(index(at), to);
      const int lead = to.size() - from.size();
      std::vector<std::vector<Digit>> kept(from.size());
      for (int i = 0; i < from.size(); ++i) {
        if (!is_one(sym(), from[i])) kept[i] = std::move(dims[i + lead]);
      }
      return intern(with_digits(index(at), std::move(kept)));
    }
    case Op::kPermute: {
      auto dims = isolate(index(at), to);
      std::vector<std::vector<Digit>> moved(dims.size());
      const Dims axes = axes_of(n);
      for (int i = 0; i < axes.size(); ++i) moved[axes[i]] = std::move(dims[i]);
      return intern(with_digits(index(at), std::move(moved)));
    }
    case Op::kSlice: {
      const SliceAttributes a(n);
      auto dims = isolate(index(at), to);
      Linear position{a.start, {}};
      add_scaled(sym(), position, flatten(dims[a.axis]), a.step);
      dims[a.axis] = {Digit{std::move(position), from[a.axis]}};
      if (is_one(sym(), from[a.axis])) dims[a.axis].clear();
      return intern(with_digits(index(at), std::move(dims)));
    }
    case Op::kFlip: {
      auto dims = isolate(index(at), to);
      for (const int64_t axis : axes_of(n)) {
        if (dims[axis].empty()) continue;
        Linear position{sym().sub(to[axis], 1), {}};
        add_scaled(sym(), position, flatten(dims[axis]), -1);
        dims[axis] = {Digit{std::move(position), to[axis]}};
      }
      return intern(with_digits(index(at), std::move(dims)));
    }
    default:
      raise<InternalError>("internal error: ", ir::name(n.op), " does not move elements");
  }
}

LocalId Lowering::to_local(const Linear& l) {
  const Level level = level_of(l);
  for (const LinearLocal& known : linear_locals_) {
    if (known.value == l && (level != kCell || known.phase == phase_)) return known.local;
  }
  Linear base{l.offset, {}};
  for (const Linear::Term& t : l.terms) {
    if (!t.is_local) base.terms.push_back(t);
  }
  LocalId sum = -1;
  const auto add = [&](LocalId x) { sum = sum < 0 ? x : primitive(Op::kAdd, DType::kInt64, {sum, x}); };
  for (const Linear::Term& t : l.terms) {
    if (!t.is_local) continue;
    const bool unit = t.stride == Dim(1);
    add(unit ? t.id : primitive(Op::kMul, DType::kInt64, {t.id, to_local({t.stride, {}})}));
  }
  if (sum < 0 || !base.terms.empty() || base.offset != Dim(0)) {
    Stmt s = make_statement(StmtKind::kIndex);
    s.map = affine(base);
    add(emit(std::move(s), level_of(base), DType::kInt64));
  }
  linear_locals_.push_back({l, sum, phase_});
  return sum;
}

LocalId Lowering::inside(const Linear& value, Dim lo, Dim hi) {
  const LocalId x = to_local(value);
  LocalId ok = -1;
  if (lo != Dim(std::numeric_limits<int64_t>::min())) {
    ok = primitive(Op::kLe, DType::kInt64, {to_local({lo, {}}), x});
  }
  if (hi != Dim(std::numeric_limits<int64_t>::max())) {
    const LocalId below = primitive(Op::kLt, DType::kInt64, {x, to_local({hi, {}})});
    ok = ok < 0 ? below : primitive(Op::kLogicalAnd, DType::kBool, {ok, below});
  }
  return ok;
}

LocalId Lowering::within(const std::vector<LinearBound>& bounds) {
  LocalId all = -1;
  for (const LinearBound& b : bounds) {
    const LocalId ok = inside(b.value, b.lo, b.hi);
    all = all < 0 ? ok : primitive(Op::kLogicalAnd, DType::kBool, {all, ok});
  }
  return all;
}

Lowering::IndexId Lowering::bounded(const Index& at, std::vector<std::vector<Digit>> dims, int axis, Linear position,
                                    Dim extent) {
  Index moved = with_digits(at, {});
  if (position.is_affine()) {
    moved.bounds.push_back({position, 0, extent});
  } else {
    // A computed position is clamped where it is computed; what is read there is not used.
    const LocalId low = primitive(Op::kMaximum, DType::kInt64, {to_local(position), to_local({0, {}})});
    position = Linear::local(primitive(Op::kMinimum, DType::kInt64, {low, to_local({sym().sub(extent, 1), {}})}));
  }
  dims[axis] = {Digit{std::move(position), extent}};
  // An axis of one element has no digit: its bound alone says where it is.
  if (is_one(sym(), extent)) dims[axis].clear();
  for (auto& d : dims) moved.digits.insert(moved.digits.end(), d.begin(), d.end());
  return intern(std::move(moved));
}

}  // namespace smolder::jit
