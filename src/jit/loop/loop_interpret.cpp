#include "smolder/jit/loop/loop_interpret.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/ir/scalar/emit.h"
#include "smolder/ir/scalar/evaluate.h"
#include "smolder/ir/scalar/random.h"
#include "smolder/jit/loop/loop_races.h"

namespace smolder::jit {

namespace {

namespace scalar = ir::scalar;
using scalar::HostBuilder;
using V = HostBuilder::V;
using ir::Op;

V load_element(const void* place, DType t) {
  V raw{0};
  std::memcpy(&raw.bits, place, itemsize(t));
  HostBuilder b;
  return scalar::emit_load(b, t, raw);
}

void store_element(void* place, DType t, V v) {
  HostBuilder b;
  const V raw = scalar::emit_store(b, t, v);
  std::memcpy(place, &raw.bits, itemsize(t));
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
    if (order && order->segments) segments_ = order->segments(k);
    totals_.resize(segments_.sums.size());
  }

  void run(int64_t begin, int64_t end) {
    const Stmt& root = k_.root;
    if (root.kind == StmtKind::kGrid && root.vars.empty()) {  // its positions are elements
      elements_ = {begin, end};
      return body(root);
    }
    if (root.kind == StmtKind::kGrid && !root.body.empty() && root.body[0].kind == StmtKind::kBlock)
      return blocks(root.body[0], begin, end);
    for (int64_t position = begin; position < end; ++position) {
      go_to(position);
      races_.next_position();
      placements_.next_position();
      computed_.clear();
      body(root);
    }
  }

 private:
  using Range = std::pair<int64_t, int64_t>;
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
    if (s.again >= 0) computed_again_.insert(s.again);
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

  void go_to(int64_t position) {
    for (size_t i = k_.root.vars.size(); i-- > 0;) {
      const int64_t extent = integer(k_.root.extents[i]);
      vars_[k_.root.vars[i]] = position % extent;
      position /= extent;
    }
  }
  int64_t extent_of(const Stmt& loop) const {
    const int64_t extent = integer(loop.extents[0]);
    return loop.clamp_var < 0 ? extent : std::min(extent, integer(loop.clamp_total) - vars_[loop.clamp_var] * extent);
  }

  /// A row of the group, which holds whatever others left there.
  void share(const Stmt& s) {
    std::vector<char>& row = shared_[s.address.buffer];
    row.assign(static_cast<size_t>(integer(s.limit)) * itemsize(k_.buffers[s.address.buffer].dtype), '\xa5');
  }
  bool is_own(int buffer) const { return k_.buffers[buffer].space != MemorySpace::kGlobal || !buffers_[buffer]; }
  char* memory(int buffer) { return is_own(buffer) ? shared_.at(buffer).data() : static_cast<char*>(buffers_[buffer]); }
  /// Where an element is. Of a scheduled kernel, races are looked for; where all iterations store to one place, the
  /// last alone does.
  char* touch(const Address& a, bool writes) {
    const int64_t element = at(a);
    char* const place = place_of(a.buffer, element);
    if (k_.root.kind != StmtKind::kGrid) return place;  // what follows takes time
    const bool is_fixed = a.indirect.empty() && std::ranges::none_of(a.map.terms, [&](const auto& t) {
                            return t.var == element_var_ && t.stride != IntRef{};
                          });
    if (writes && is_fixed && thread_ != Races::kAll && !is_last_) return place;
    const int thread = thread_ != Races::kAll ? thread_ : writes ? 0 : Races::kAll;
    races_.touch(k_, a.buffer, place, element, thread, writes, is_own(a.buffer));
    if (chunks_) placements_.touch_lane(k_, a.buffer, place, element, lane_);
    placements_.touch(k_, a.buffer, place, element, thread, writes);
    return place;
  }
  char* place_of(int buffer, int64_t element) {
    return memory(buffer) + element * static_cast<int64_t>(itemsize(k_.buffers[buffer].dtype));
  }
  /// Runs a statement that says where elements are kept. A buffer that is only read is fetched here.
  void placement(const Stmt& s) {
    const bool fetches = s.kind == StmtKind::kHold || s.kind == StmtKind::kStage;
    const auto place = [&] {
      if (fetches && !k_.buffers[s.address.buffer].write) fetch(s);
      placements_.run(s, place_of(s.address.buffer, at(s.address)), thread_);
    };
    if (!chunks_) return place();
    int64_t& i = vars_[chunks_->vars[0]];  // in a loop of chunks: of all of its elements
    const int64_t first = i;
    if (s.kind == StmtKind::kRelease) placements_.release_chunk(s.address.buffer);
    for (i = lanes_.first; i < lanes_.second; ++i) {
      place();
      if (s.kind == StmtKind::kHold) placements_.hold_lane(s.address.buffer, place_of(s.address.buffer, at(s.address)));
    }
    i = first;
  }
  char* fetch(const Stmt& s) {
    if (s.ahead) races_.touch_early(k_, s.address.buffer, place_of(s.address.buffer, at(s.address)), at(s.address));
    return touch(s.address, false);
  }

  void body(const Stmt& s) {
    for (const Stmt& inner : s.body) run(inner);
  }

  /// Each group's tile.
  void blocks(const Stmt& s, int64_t begin, int64_t end) {
    const int64_t most = integer(s.extents[0]), elements = integer(s.extents[1]);
    for (int64_t position = begin; position < end; position += most) {
      for (int64_t first = 0; first < elements; first += s.chunk) {
        tile_ = {&s, position, std::min(position + most, end)};
        vars_[s.vars[1]] = first;
        races_.next_position();
        body(s);
      }
    }
  }

  void thread(const Stmt& s) {
    if (!tile_.loop)
      return s.chunk > 0 ? chunks(s, k_.root.vars.empty() ? elements_ : Range{0, extent_of(s)}) : loop(s);
    const int64_t most = integer(tile_.loop->extents[0]), first = vars_[tile_.loop->vars[1]];
    for (int64_t position = tile_.begin; position < tile_.end; ++position) {
      go_to(position);
      const int64_t number = vars_[tile_.loop->vars[0]] = position - tile_.begin;
      const Range elements{first, std::min(first + tile_.loop->chunk, extent_of(s))};
      if (s.chunk > 0) {
        chunks(s, elements, number * (tile_.loop->chunk / s.chunk));
        continue;
      }
      for (int64_t i = elements.first; i < elements.second; ++i) {
        thread_ = static_cast<int>((i - first) % s.across * most + number);
        vars_[s.vars[0]] = i;
        body(s);
      }
    }
    thread_ = Races::kAll;
  }

  /// Each thread's chunk, through the whole body.
  void chunks(const Stmt& s, Range elements, int64_t first_thread = 0) {
    chunks_ = &s;
    row_end_ = k_.root.vars.empty() ? elements.second : extent_of(s);
    const int64_t phase = races_.phase();
    for (int64_t i = elements.first; i < elements.second; i += s.chunk) {
      races_.begin_thread(phase);
      lanes_ = {i, std::min(i + s.chunk, elements.second)};
      thread_ = static_cast<int>(first_thread + (i - elements.first) / s.chunk);
      vars_[s.vars[0]] = i;
      body(s);
    }
    thread_ = Races::kAll;
    chunks_ = nullptr;
  }

  void lanes(const Stmt& s) {
    element_var_ = s.vars[0];
    for (int64_t i = lanes_.first; i < lanes_.second; ++i) {
      is_last_ = i == row_end_ - 1;
      vars_[s.vars[0]] = i;
      lane_ = static_cast<int>(i - lanes_.first);
      body(s);
    }
  }

  void loop(const Stmt& s) {
    int64_t extent = integer(s.extents[0]);
    const ReduceOrder::Deal deal = order_ ? order_->deal(extent) : ReduceOrder::Deal{kReduceLanes, 1};
    const bool is_split = s.kind == StmtKind::kSplit, in_segments = is_split || &s == segments_.loop;
    const int64_t segment =
        in_segments && segments_.iterations ? segments_.iterations(extent) : std::max<int64_t>(extent, 1);
    extent = extent_of(s);
    if (is_split) {
      begin_sums_ = true;
      body(s);
      begin_sums_ = false;
      races_.begin_split();
    }
    for (int64_t i = 0; i < extent; ++i) {
      vars_[s.vars[0]] = i;
      if (is_split) races_.segment(i / segment);
      if (in_segments) {
        begins_segment_ = i % segment == 0;
        ends_segment_ = i % segment == segment - 1 || i == extent - 1;
      }
      lane_ = is_vector(s) ? static_cast<int>(i / deal.unit % deal.lanes) : 0;
      if (s.kind == StmtKind::kThread) {
        thread_ = lane_;
        element_var_ = s.vars[0];
        is_last_ = i == extent - 1;
      }
      body(s);
    }
    if (s.kind == StmtKind::kThread) thread_ = Races::kAll;
    if (is_split) {
      races_.end_split();
      placements_.end_split();
    }
  }

  /// Each segment's own from the identity on, and the segments' in order.
  void combine(const Stmt& s) {
    const int64_t element = at(s.address);
    char* const place = place_of(s.address.buffer, element);
    if (chunks_) placements_.touch_lane(k_, s.address.buffer, place, element, lane_);
    if (begin_sums_) {
      if (s.args.size() > 1) store_element(place, s.dtype, locals_[s.args[1]].value);
      return;
    }
    V& own = sums_[&s][element];
    if (begins_segment_) own = number(step_identity(s.op, s.dtype), s.dtype);
    const auto p = static_cast<scalar::Primitive>(s.op);
    own = evaluate(p, s.dtype, std::array<V, 2>{own, locals_[s.args[0]].value});
    if (ends_segment_)
      store_element(place, s.dtype, evaluate(p, s.dtype, std::array<V, 2>{load_element(place, s.dtype), own}));
  }

  void run(const Stmt& s) {
    if (begin_sums_ && !is_vector(s) && s.kind != StmtKind::kCombine) return;
    switch (s.kind) {
      case StmtKind::kParallel:
      case StmtKind::kParallelVector:
      case StmtKind::kGrid:
      case StmtKind::kBlock:
        raise<InternalError>("internal error: a parallel loop is not the root");
      case StmtKind::kLoop:
      case StmtKind::kVector:
        return loop(s);
      case StmtKind::kThread:
        return thread(s);
      case StmtKind::kLanes:
        return lanes(s);
      case StmtKind::kSplit:
        return loop(s);
      case StmtKind::kCombine:
        return combine(s);
      case StmtKind::kCopy: {
        const char* const from = touch(s.source, false);
        std::memcpy(touch(s.address, true), from, itemsize(s.dtype));
        return;
      }
      case StmtKind::kShared:
        return share(s);
      case StmtKind::kRegister:
      case StmtKind::kFetch:
        return;
      case StmtKind::kHold:
      case StmtKind::kRelease:
      case StmtKind::kStage:
      case StmtKind::kUnstage:
        return placement(s);
      case StmtKind::kBarrier:
        return races_.barrier();
      case StmtKind::kLoad:
        return set(s, from_segment(s, load(s)));
      case StmtKind::kStore:
        return store_element(touch(s.address, true), s.dtype, with_total(s, locals_[s.args[0]].value));
      case StmtKind::kPrimitive:
        return set(s, compare(s, primitive(s)));
      case StmtKind::kConstant:
        return set(s, number(s.constant, s.dtype));
      case StmtKind::kScalar:
        return set(s, number(Scalar::from_bits(scalars_[s.slot], k_.scalars[s.slot]), s.dtype));
      case StmtKind::kIndex:
        return set(s, V{static_cast<uint64_t>(at(s.map))});
      case StmtKind::kAcc:
        // There is room for the most lanes. A loop of fewer leaves the rest at the identity, which changes no bit.
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

  V load(const Stmt& s) {
    for (const Bound& b : s.bounds) {
      const int64_t x = at(b.map);
      if (x < integer(b.lo) || x >= integer(b.hi)) return number(s.constant, s.dtype);
    }
    return load_element(fetch(s), s.dtype);
  }

  /// Throws InternalError where what is computed again of an element is another value.
  V compare(const Stmt& s, V v) {
    if (computed_again_.contains(s.result)) computed_[{s.result, vars_[element_var_]}] = v.bits;
    if (s.again < 0) return v;
    const auto it = computed_.find({s.again, vars_[element_var_]});
    SMOLDER_CHECK(it != computed_.end() && it->second == v.bits, InternalError, "internal error: %", s.result,
                  " is computed again, but is another value than %", s.again, ", in\n", print(k_));
    return v;
  }

  /// Memory holds a segment's sum from its first iteration on, and the total again after its last.
  V from_segment(const Stmt& s, V loaded) {
    if (!begins_segment_) return loaded;
    for (size_t i = 0; i < segments_.sums.size(); ++i) {
      if (segments_.sums[i].load != &s) continue;
      totals_[i][at(s.address)] = loaded;
      return number(step_identity(segments_.sums[i].step->op, s.dtype), s.dtype);
    }
    return loaded;
  }
  V with_total(const Stmt& s, V sum) {
    if (!ends_segment_) return sum;
    for (size_t i = 0; i < segments_.sums.size(); ++i) {
      if (segments_.sums[i].store != &s) continue;
      const std::array<V, 2> args{totals_[i].at(at(s.address)), sum};
      return evaluate(static_cast<scalar::Primitive>(segments_.sums[i].step->op), s.dtype, args);
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
  ReduceOrder::Segments segments_;
  std::vector<std::unordered_map<int64_t, V>> totals_;  ///< by sum and element, while a segment of it is added up
  bool begins_segment_ = false, ends_segment_ = false;
  int lane_ = 0;
  // For scheduled kernels:
  Races races_;
  Placements placements_;
  std::unordered_map<const Stmt*, std::unordered_map<int64_t, V>> sums_;  ///< by combination and element: a segment's
  bool begin_sums_ = false;                                               ///< elements get what they begin with
  std::unordered_map<int, std::vector<char>> shared_;                     ///< by buffer
  std::unordered_set<LocalId> computed_again_;
  std::map<std::pair<LocalId, int64_t>, uint64_t> computed_;  ///< of these: the bits, by element
  Range elements_{0, 0}, lanes_{0, 0};                        ///< of a grid without variables; of the thread
  const Stmt* chunks_ = nullptr;                              ///< the loop of chunks it is in
  struct {
    const Stmt* loop = nullptr;
    int64_t begin = 0, end = 0;
  } tile_;  ///< and its positions
  int64_t row_end_ = 0;
  int thread_ = Races::kAll;
  VarId element_var_ = -1;  ///< of the loop over elements
  bool is_last_ = false;    ///< in its last iteration
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
