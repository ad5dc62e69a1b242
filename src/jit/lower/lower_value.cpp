// Values while lowering: what a primitive becomes at an index.
#include <algorithm>
#include <limits>

#include "smolder/ir/scalar/primitive.h"
#include "smolder/jit/attributes.h"
#include "smolder/jit/cost.h"
#include "smolder/jit/lower/lowering.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::Dim;
using ir::Op;
using ir::ValueId;

bool Lowering::must_load(ValueId v) const {
  if (graph().op(v) == Op::kLeaf) return true;
  if (is_number(graph(), v)) return false;
  const GroupId g = program_.group_of[v];
  return g >= 0 && g != id_;
}

bool Lowering::is_plain_load(ValueId v) const {
  while (!must_load(v)) {
    const ir::Node& n = graph().producer(v);
    if (!is_movement(n.op)) return false;
    v = n.inputs[0];
  }
  return true;
}

LocalId Lowering::value(ValueId v, IndexId at) {
  // Movement comes first, so that all ways to one element of one value meet in one memo.
  while (!must_load(v)) {
    const ir::Node& n = graph().producer(v);
    if (!is_movement(n.op)) break;
    at = moved(n, at);
    v = n.inputs[0];
  }
  LoweringScratch::Head& head = scratch_.heads[v];
  if (head.stamp != scratch_.stamp) head = {scratch_.stamp, -1, -1};
  for (int i = head.memo; i >= 0; i = memo_[i].next) {
    const Memo& m = memo_[i];
    if (m.at == at && (locals_[m.local].level != kCell || m.phase == phase_)) return m.local;
  }
  const LocalId result = !kept_.empty() && at == full_ ? kept_or_computed(v, at) : compute(v, at);
  LoweringScratch::Head& after = scratch_.heads[v];
  memo_.push_back({at, result, phase_, after.memo});
  after.memo = static_cast<int>(memo_.size() - 1);
  return result;
}

LocalId Lowering::compute(ValueId v, IndexId at) {
  if (must_load(v)) return load(v, at);
  const ir::Node& n = graph().producer(v);
  switch (n.op) {
    case Op::kConstant:
      return constant(constant_of(n), graph().dtype(v));
    case Op::kParameter:
      return operand(v, at, graph().dtype(v));
    case Op::kExtent:
      return to_local({n.attrs[0], {}});
    case Op::kIota: {
      const auto dims = isolate(index(at), graph().shape(v));
      return to_local(flatten(dims[iota_axis(n)]));
    }
    case Op::kRandomBits:
      return random_bits(n, at);
    case Op::kCast:
      return convert(value(n.inputs[0], at), graph().dtype(v));
    case Op::kPad:
      return pad(n, v, at);
    case Op::kCat:
      return cat(n, v, at);
    case Op::kTake:
      return take(n, v, at, false);
    case Op::kGather:
      return take(n, v, at, true);
    case Op::kReduce:
      return reduction_result(v, at);
    default:
      SMOLDER_INVARIANT(ir::is_elementwise_primitive(n.op));
      return elementwise(n, v, at);
  }
}

LocalId Lowering::load(ValueId v, IndexId at) {
  const BufferId id = program_.buffer_of[v];
  SMOLDER_INVARIANT(id >= 0);
  const BufferInfo& info = program_.buffers[id];
  const Linear position = position_in(info, index(at));
  const Index& where = index(at);
  Stmt s = make_statement(StmtKind::kLoad);
  const int buffer = buffer_arg(id, false);
  s.address = address(buffer, position);
  for (const LinearBound& b : where.bounds) {
    s.bounds.push_back({affine(b.value), int_ref(b.lo), int_ref(b.hi)});
  }
  if (!where.bounds.empty()) s.constant = where.has_fill ? where.fill : Scalar(0.0);
  Level level = level_of(position);
  for (const LinearBound& b : where.bounds) level = std::max(level, level_of(b.value));
  note_access(buffer, s.address, false, !where.bounds.empty(), level);
  return emit(std::move(s), level, info.dtype);
}

LocalId Lowering::operand(ValueId v, IndexId at, DType compute) {
  if (!graph().info(v).weak) return value(v, at);
  // A number goes straight to the type of the arithmetic, whatever its own.
  const DType t = compute_type(compute);
  const ir::Node& n = graph().producer(v);
  if (n.op == Op::kConstant) return constant(constant_of(n), t);
  if (n.op != Op::kParameter) return convert(value(v, at), t);
  const ParameterAttributes p(n);
  int slot = 0;
  while (slot < static_cast<int>(scalars_.size()) && scalars_[slot].parameter != p.number) ++slot;
  if (slot == static_cast<int>(scalars_.size())) scalars_.push_back({p.number, p.category});
  for (const auto& [key, local] : scalar_locals_) {
    if (key.first == slot && key.second == t) return local;
  }
  Stmt s = make_statement(StmtKind::kScalar);
  s.slot = slot;
  const LocalId local = emit(std::move(s), kTop, t);
  scalar_locals_.push_back({{slot, t}, local});
  return local;
}

LocalId Lowering::elementwise(const ir::Node& n, ValueId v, IndexId at) {
  const DType t = arithmetic_dtype(graph(), n);
  std::vector<LocalId> args;
  args.reserve(n.inputs.size());
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const bool condition = n.op == Op::kWhere && i == 0;
    args.push_back(operand(n.inputs[i], at, condition ? DType::kBool : t));
  }
  const LocalId result = primitive(n.op, t, std::move(args));
  SMOLDER_INVARIANT(locals_[result].dtype == graph().dtype(v));
  return result;
}

LocalId Lowering::pad(const ir::Node& n, ValueId v, IndexId at) {
  const PadAttributes a(n);
  const ValueId x = n.inputs[0];
  const ir::SymDims& from = graph().shape(x);
  const DType t = graph().dtype(v);
  const Scalar fill = category(t) == Category::kFloat ? Scalar(a.fill) : Scalar(static_cast<int64_t>(a.fill));
  if (sym().numel(from) == Dim(0)) return constant(fill, t);
  const bool plain = is_plain_load(x) && index(at).bounds.empty();
  IndexId inner = at;
  LocalId ok = -1;
  for (int axis = 0; axis < from.size(); ++axis) {
    if (a.low[axis] == Dim(0) && a.high[axis] == Dim(0)) continue;
    // Each round sees the shape as padded from this axis on.
    ir::SymDims shape = graph().shape(v);
    for (int i = 0; i < axis; ++i) shape[i] = from[i];
    auto dims = isolate(index(inner), shape);
    Linear position = flatten(dims[axis]);
    position.offset = sym().sub(position.offset, a.low[axis]);
    if (!plain || !position.is_affine()) {
      const LocalId here = inside(position, 0, from[axis]);
      ok = ok < 0 ? here : primitive(Op::kLogicalAnd, DType::kBool, {ok, here});
    }
    const Index before = index(inner);
    inner = bounded(before, std::move(dims), axis, std::move(position), from[axis]);
  }
  if (plain && !index(inner).bounds.empty()) {
    Index filled = index(inner);
    filled.has_fill = true;
    filled.fill = fill;
    inner = intern(std::move(filled));
  }
  const LocalId x_here = value(x, inner);
  return ok < 0 ? x_here : primitive(Op::kWhere, t, {ok, x_here, constant(fill, t)});
}

LocalId Lowering::cat(const ir::Node& n, ValueId v, IndexId at) {
  const int axis = axis_of(n);
  const DType t = graph().dtype(v);
  const auto dims = isolate(index(at), graph().shape(v));
  const Linear position = flatten(dims[axis]);
  if (position.terms.empty() && position.offset.is_constant()) {
    // Which part it is of is known.
    Dim begin = 0;
    for (const ValueId part : n.inputs) {
      const Dim extent = graph().shape(part)[axis];
      if (!begin.is_constant() || !extent.is_constant()) break;
      if (const int64_t local = position.offset.value - begin.value; local >= 0 && local < extent.value) {
        auto of_part = dims;
        of_part[axis].clear();
        if (extent != Dim(1)) of_part[axis] = {Digit{Linear{local, {}}, extent}};
        Index inner{{}, index(at).bounds, index(at).has_fill, index(at).fill};
        for (const auto& d : of_part) inner.digits.insert(inner.digits.end(), d.begin(), d.end());
        return value(part, intern(std::move(inner)));
      }
      begin = sym().add(begin, extent);
    }
  }
  LocalId result = -1;
  // Last part first, so that each condition is one comparison: before this part's end?
  std::vector<Dim> ends;
  Dim end = 0;
  for (const ValueId part : n.inputs) ends.push_back(end = sym().add(end, graph().shape(part)[axis]));
  for (size_t p = n.inputs.size(); p-- > 0;) {
    const Dim extent = graph().shape(n.inputs[p])[axis];
    if (extent == Dim(0)) continue;
    Linear local = position;
    local.offset = sym().sub(local.offset, p == 0 ? Dim(0) : ends[p - 1]);
    const Index before = index(at);
    const LocalId x = value(n.inputs[p], bounded(before, dims, axis, std::move(local), extent));
    if (result < 0) {
      result = x;
    } else {
      const LocalId mine = inside(position, std::numeric_limits<int64_t>::min(), ends[p]);
      result = primitive(Op::kWhere, t, {mine, x, result});
    }
  }
  SMOLDER_INVARIANT(result >= 0);
  return result;
}

LocalId Lowering::take(const ir::Node& n, ValueId v, IndexId at, bool along) {
  const int axis = axis_of(n);
  const ValueId x = n.inputs[0], which = n.inputs[1];
  const ir::SymDims from = graph().shape(x);
  auto dims = isolate(index(at), graph().shape(v));
  const Index here = index(at);
  IndexId which_at = at;
  std::vector<std::vector<Digit>> source;
  if (along) {
    source = std::move(dims);
  } else {
    const int rank = graph().shape(which).size();
    Index i{{}, here.bounds, here.has_fill, here.fill};
    for (int d = axis; d < axis + rank; ++d) i.digits.insert(i.digits.end(), dims[d].begin(), dims[d].end());
    which_at = intern(std::move(i));
    source.assign(dims.begin(), dims.begin() + axis);
    source.emplace_back();
    source.insert(source.end(), dims.begin() + axis + rank, dims.end());
  }
  LocalId raw = convert(value(which, which_at), DType::kInt64);
  // Where a pad or a cat reads past this part nothing is taken, so what an index comes to there is no mistake. A load
  // gives 0 there by itself.
  if (!here.bounds.empty() && !is_plain_load(which)) {
    raw = primitive(Op::kWhere, DType::kInt64, {within(here.bounds), raw, constant(Scalar(int64_t{0}), DType::kInt64)});
  }
  Stmt check = make_statement(StmtKind::kCheckIndex);
  check.args = {raw};
  check.limit = int_ref(from[axis]);
  const OpSite site{n.origin.source, std::string(ir::name(n.origin_op()))};
  const auto known = std::ranges::find(errors_, site);
  check.slot = static_cast<int>(known - errors_.begin());
  if (known == errors_.end()) errors_.push_back(site);
  const Level level = locals_[raw].level;
  const LocalId position = emit(std::move(check), level, DType::kInt64);
  source[axis] = {Digit{Linear::local(position), from[axis]}};
  if (is_one(sym(), from[axis])) source[axis].clear();
  Index i{{}, here.bounds, here.has_fill, here.fill};
  for (auto& d : source) i.digits.insert(i.digits.end(), d.begin(), d.end());
  return value(x, intern(std::move(i)));
}

LocalId Lowering::random_bits(const ir::Node& n, IndexId at) {
  const LocalId position = to_local(flatten(index(at).digits));
  const LocalId seed = value(n.inputs[0], at), offset = value(n.inputs[1], at);
  return primitive(Op::kRandomBits, DType::kInt64,
                   {convert(seed, DType::kInt64), convert(offset, DType::kInt64), position});
}

LocalId Lowering::reduction_result(ValueId v, IndexId at) {
  const ir::Node& n = graph().producer(v);
  const ReduceAttributes a(n);
  if (numel(graph().shape(n.inputs[0]).values()) == 0) {
    return constant(reduce_identity(a.kind, graph().dtype(v)), graph().dtype(v));
  }
  if (is_one(sym(), graph().shape(n.inputs[0])[a.axis])) {
    // One element: what remains is the start of a sum, which turns -0 into +0.
    const LocalId x = value(n.inputs[0], at);
    const DType t = graph().dtype(v);
    return a.kind == ir::ReduceKind::kSum ? primitive(Op::kAdd, t, {x, constant(reduce_identity(a.kind, t), t)}) : x;
  }
  for (const auto& [value, local] : results_) {
    if (value == v && at == row_) return local;
  }
  throw CannotInline{v};
}

// -- statements

LocalId Lowering::emit(Stmt s, Level level, DType dtype) {
  s.dtype = dtype;
  s.result = static_cast<LocalId>(locals_.size());
  if (level == kCell) cost_ += statement_cost(s);
  locals_.push_back({dtype, emit_level(level)});
  lists_[emit_level(level)].push_back(std::move(s));
  return static_cast<LocalId>(locals_.size() - 1);
}

LocalId Lowering::primitive(Op op, DType dtype, std::vector<LocalId> args) {
  Level level = kTop;
  for (const LocalId a : args) level = std::max(level, locals_[a].level);
  Stmt s = make_statement(StmtKind::kPrimitive);
  s.op = op;
  s.args = std::move(args);
  const LocalId id = emit(std::move(s), level, dtype);
  if (ir::is_elementwise_primitive(op)) {
    locals_[id].dtype = ir::scalar::info(static_cast<ir::scalar::Primitive>(op)).result_dtype(dtype);
  }
  return id;
}

LocalId Lowering::convert(LocalId x, DType to) { return locals_[x].dtype == to ? x : primitive(Op::kCast, to, {x}); }

LocalId Lowering::constant(Scalar v, DType dtype) {
  for (const auto& [known, local] : constants_) {
    if (known == v && locals_[local].dtype == dtype) return local;
  }
  Stmt s = make_statement(StmtKind::kConstant);
  s.constant = v;
  const LocalId local = emit(std::move(s), kTop, dtype);
  constants_.push_back({v, local});
  return local;
}

IntRef Lowering::int_ref(Dim d) {
  int slot = 0;
  while (slot < static_cast<int>(pool_.size()) && !sym().known_equal(pool_[slot], d)) ++slot;
  if (slot == static_cast<int>(pool_.size())) pool_.push_back(d);
  return {0, slot};
}

/// A stride that is known beforehand makes better code: a load of every third element need not gather them.
IntRef Lowering::stride_ref(Dim d) {
  const bool known = std::ranges::any_of(scratch_.numbers, [&](Dim n) { return sym().known_equal(n, d); });
  return int_ref(known ? Dim(d.value) : d);
}

Affine Lowering::affine(const Linear& l) {
  Affine a;
  a.offset = int_ref(l.offset);
  for (const Linear::Term& t : l.terms) {
    SMOLDER_INVARIANT(!t.is_local);
    if (t.stride != Dim(0)) a.terms.push_back({t.id, stride_ref(t.stride)});
  }
  std::sort(a.terms.begin(), a.terms.end(), [](const auto& x, const auto& y) { return x.var < y.var; });
  return a;
}

Address Lowering::address(int buffer, const Linear& l) {
  Address a;
  a.buffer = buffer;
  Linear direct{l.offset, {}};
  for (const Linear::Term& t : l.terms) {
    if (t.is_local) {
      a.indirect.push_back({t.id, int_ref(t.stride)});
    } else {
      direct.terms.push_back(t);
    }
  }
  a.map = affine(direct);
  return a;
}

int Lowering::buffer_arg(BufferId b, bool write) {
  int i = 0;
  while (i < static_cast<int>(buffers_.size()) && buffers_[i] != b) ++i;
  if (i == static_cast<int>(buffers_.size())) {
    buffers_.push_back(b);
    buffer_args_.push_back({program_.buffers[b].dtype});
  }
  (write ? buffer_args_[i].write : buffer_args_[i].read) = true;
  return i;
}

void Lowering::note_access(int buffer, const Address& a, bool write, bool bounded, Level level) {
  accesses_.push_back({buffer, a, write, !bounded && a.indirect.empty() && level == kCell});
}

}  // namespace smolder::jit
