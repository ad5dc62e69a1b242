#include "smolder/jit/loop/loop_interpret.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/ir/scalar/emit.h"
#include "smolder/ir/scalar/evaluate.h"
#include "smolder/ir/scalar/random.h"

namespace smolder::jit {

namespace {

namespace scalar = ir::scalar;
using scalar::HostBuilder;
using V = HostBuilder::V;
using ir::Op;

V load_element(const void* base, int64_t at, DType t) {
  V raw{0};
  std::memcpy(&raw.bits, static_cast<const char*>(base) + at * static_cast<int64_t>(itemsize(t)), itemsize(t));
  HostBuilder b;
  return scalar::emit_load(b, t, raw);
}

void store_element(void* base, int64_t at, DType t, V v) {
  HostBuilder b;
  const V raw = scalar::emit_store(b, t, v);
  std::memcpy(static_cast<char*>(base) + at * static_cast<int64_t>(itemsize(t)), &raw.bits, itemsize(t));
}

/// A number as a register of dtype `t` holds it.
V number(Scalar s, DType t) {
  HostBuilder b;
  const DType from = s.category() == Category::kFloat ? DType::kFloat64 : DType::kInt64;
  return scalar::emit_cast(b, from, t, V{s.bits()});
}

V evaluate(scalar::Primitive p, DType t, std::span<const V> args) {
  HostBuilder b;
  return scalar::emit_primitive(b, p, t, args);
}

class Interpreter {
 public:
  Interpreter(const Kernel& k, void* const* buffers, const int64_t* ints, const uint64_t* scalars, uint32_t* errors,
              const ReduceOrder* order)
      : k_(k),
        buffers_(buffers),
        ints_(ints),
        scalars_(scalars),
        errors_(errors),
        vars_(k.num_vars),
        locals_(k.num_locals),
        accs_(k.num_accs),
        order_(order) {
    note_dtypes(k.root);
    if (order && order->strips) strips_ = order->strips(k);
    totals_.resize(strips_.sums.size());
  }

  void run(int64_t begin, int64_t end) {
    const Stmt& root = k_.root;
    for (int64_t position = begin; position < end; ++position) {
      int64_t rest = position;
      for (size_t i = root.vars.size(); i-- > 0;) {
        const int64_t extent = integer(root.extents[i]);
        vars_[root.vars[i]] = rest % extent;
        rest /= extent;
      }
      body(root);
    }
  }

 private:
  struct Local {
    V value{0};
    DType dtype = DType::kFloat32;
  };
  struct Accumulator {
    std::vector<V> lanes;
    const Stmt* declared = nullptr;
  };

  void note_dtypes(const Stmt& s) {
    if (s.result >= 0) locals_[s.result].dtype = result_dtype(s);
    for (const Stmt& inner : s.body) note_dtypes(inner);
  }

  int64_t integer(IntRef r) const { return r.is_constant() ? r.constant : ints_[r.slot]; }
  int64_t at(const Affine& a) const {
    int64_t sum = integer(a.offset);
    for (const auto& t : a.terms) sum += vars_[t.var] * integer(t.stride);
    return sum;
  }
  int64_t at(const Address& a) const {
    int64_t sum = at(a.map);
    for (const auto& i : a.indirect) sum += static_cast<int64_t>(locals_[i.index].value.bits) * integer(i.stride);
    return sum;
  }

  void body(const Stmt& s) {
    for (const Stmt& inner : s.body) run(inner);
  }

  void loop(const Stmt& s) {
    int64_t extent = integer(s.extents[0]);
    const ReduceOrder::Deal deal = order_ ? order_->deal(extent) : ReduceOrder::Deal{kReduceLanes, 1};
    const bool in_strips = &s == strips_.loop;
    const int64_t strip = in_strips ? strips_.turns(extent) : 1;
    if (s.clamp_var >= 0) extent = std::min(extent, integer(s.clamp_total) - vars_[s.clamp_var] * extent);
    for (int64_t i = 0; i < extent; ++i) {
      vars_[s.vars[0]] = i;
      if (in_strips) {
        begins_strip_ = i % strip == 0;
        ends_strip_ = i % strip == strip - 1 || i == extent - 1;
      }
      lane_ = s.kind == StmtKind::kVector ? static_cast<int>(i / deal.unit % deal.lanes) : 0;
      body(s);
    }
  }

  void run(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::kParallel:
      case StmtKind::kParallelVector:
        raise<InternalError>("internal error: a parallel loop is not the root");
      case StmtKind::kLoop:
      case StmtKind::kVector:
        return loop(s);
      case StmtKind::kLoad:
        return set(s, from_strip(s, load(s)));
      case StmtKind::kStore:
        return store_element(buffers_[s.address.buffer], at(s.address), s.dtype,
                             with_total(s, locals_[s.args[0]].value));
      case StmtKind::kPrimitive:
        return set(s, primitive(s));
      case StmtKind::kConstant:
        return set(s, number(s.constant, s.dtype));
      case StmtKind::kScalar:
        return set(s, number(Scalar::from_bits(scalars_[s.slot], k_.scalars[s.slot]), s.dtype));
      case StmtKind::kIndex:
        return set(s, V{static_cast<uint64_t>(at(s.map))});
      case StmtKind::kAcc:
        // A loop of fewer lanes than there may be leaves the others at the identity, which changes no bit.
        accs_[s.acc].lanes.assign(order_ ? kMostReduceLanes : kReduceLanes,
                                  number(reduce_identity(s.reduce, s.dtype), s.dtype));
        accs_[s.acc].declared = &s;
        return;
      case StmtKind::kUpdate: {
        V& lane = accs_[s.acc].lanes[lane_];
        lane = step(*accs_[s.acc].declared, lane, locals_[s.args[0]].value);
        return;
      }
      case StmtKind::kResult:
        return set(s, combined(accs_[s.acc]));
      case StmtKind::kCheckIndex:
        return set(s, check_index(s));
    }
  }

  void set(const Stmt& s, V v) { locals_[s.result].value = v; }

  V load(const Stmt& s) const {
    for (const Bound& b : s.bounds) {
      const int64_t x = at(b.map);
      if (x < integer(b.lo) || x >= integer(b.hi)) return number(s.constant, s.dtype);
    }
    return load_element(buffers_[s.address.buffer], at(s.address), s.dtype);
  }

  /// What is in memory is a strip's sum from its first turn on, and the total again after its last.
  V from_strip(const Stmt& s, V loaded) {
    if (!begins_strip_) return loaded;
    for (size_t i = 0; i < strips_.sums.size(); ++i) {
      if (strips_.sums[i].load != &s) continue;
      totals_[i][at(s.address)] = loaded;
      return number(step_identity(strips_.sums[i].step->op, s.dtype), s.dtype);
    }
    return loaded;
  }
  V with_total(const Stmt& s, V sum) {
    if (!ends_strip_) return sum;
    for (size_t i = 0; i < strips_.sums.size(); ++i) {
      if (strips_.sums[i].store != &s) continue;
      const std::array<V, 2> args{totals_[i].at(at(s.address)), sum};
      return evaluate(static_cast<scalar::Primitive>(strips_.sums[i].step->op), s.dtype, args);
    }
    return sum;
  }

  V primitive(const Stmt& s) {
    HostBuilder b;
    if (s.op == Op::kCast) return scalar::emit_cast(b, locals_[s.args[0]].dtype, s.dtype, locals_[s.args[0]].value);
    if (s.op == Op::kRandomBits) {
      const auto arg = [&](int i) {
        return scalar::I64<HostBuilder>{&b, HostBuilder::unwrap<ir::scalar::LaneType::kI64>(locals_[s.args[i]].value)};
      };
      return {static_cast<uint32_t>(scalar::random_bits(arg(0), arg(1), arg(2)).v)};
    }
    std::array<V, 3> args{};
    for (size_t i = 0; i < s.args.size(); ++i) args[i] = locals_[s.args[i]].value;
    return evaluate(static_cast<scalar::Primitive>(s.op), s.dtype, {args.data(), s.args.size()});
  }

  V step(const Stmt& acc, V a, V x) const {
    const std::array<V, 2> args{a, x};
    // Halves are kept in float32 while they accumulate.
    return evaluate(static_cast<scalar::Primitive>(reduce_step(acc.reduce)), compute_type(acc.dtype), args);
  }

  /// Until the first lane is all: by halves on a host, neighbours on a device.
  V combined(Accumulator& acc) const {
    const size_t n = acc.lanes.size();
    for (size_t pairs = n / 2; pairs > 0; pairs /= 2) {
      for (size_t i = 0; i < pairs; ++i) {
        acc.lanes[i] = order_ ? step(*acc.declared, acc.lanes[2 * i], acc.lanes[2 * i + 1])
                              : step(*acc.declared, acc.lanes[i], acc.lanes[i + pairs]);
      }
    }
    HostBuilder b;
    const DType t = acc.declared->dtype;
    return scalar::emit_cast(b, compute_type(t), t, acc.lanes[0]);
  }

  V check_index(const Stmt& s) {
    const int64_t limit = integer(s.limit);
    const int64_t i = static_cast<int64_t>(locals_[s.args[0]].value.bits);
    if (i < 0 || i >= limit) errors_[s.slot] = 1;
    return {static_cast<uint64_t>(std::clamp<int64_t>(i, 0, std::max<int64_t>(limit - 1, 0)))};
  }

  const Kernel& k_;
  void* const* buffers_;
  const int64_t* ints_;
  const uint64_t* scalars_;
  uint32_t* errors_;
  std::vector<int64_t> vars_;
  std::vector<Local> locals_;
  std::vector<Accumulator> accs_;
  const ReduceOrder* const order_;
  ReduceOrder::Strips strips_;
  std::vector<std::unordered_map<int64_t, V>> totals_;  ///< by sum and element, while a strip of it is added up
  bool begins_strip_ = false, ends_strip_ = false;
  int lane_ = 0;
};

}  // namespace

uint64_t evaluate(const Stmt& s, std::span<const DType> dtypes, std::span<const uint64_t> values) {
  std::array<V, 3> args{};
  for (size_t i = 0; i < s.args.size(); ++i) args[i] = {values[static_cast<size_t>(s.args[i])]};
  HostBuilder b;
  if (s.op == Op::kCast) return scalar::emit_cast(b, dtypes[static_cast<size_t>(s.args[0])], s.dtype, args[0]).bits;
  return evaluate(static_cast<scalar::Primitive>(s.op), s.dtype, {args.data(), s.args.size()}).bits;
}

Scalar evaluate(Op op, DType t, std::span<const Scalar> operands) {
  std::vector<V> args;
  for (const Scalar& x : operands) {
    args.push_back(number(x, op == Op::kWhere && args.empty() ? DType::kBool : compute_type(t)));
  }
  const auto p = static_cast<scalar::Primitive>(op);
  const DType result = scalar::info(p).result_dtype(t);
  HostBuilder b;
  const Category c = category(result);
  const DType wide = c == Category::kFloat ? DType::kFloat64 : DType::kInt64;
  const V v = scalar::emit_cast(b, compute_type(result), wide, evaluate(p, t, args));
  return Scalar::from_bits(v.bits, c);
}

void interpret(const Kernel& k, void* const* buffers, const int64_t* ints, const uint64_t* scalars, uint32_t* errors,
               int64_t begin, int64_t end, const ReduceOrder* order) {
  Interpreter(k, buffers, ints, scalars, errors, order).run(begin, end);
}

}  // namespace smolder::jit
