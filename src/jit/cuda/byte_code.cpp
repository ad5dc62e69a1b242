#include "smolder/jit/cuda/byte_code.h"

#include <algorithm>
#include <map>
#include <utility>

#include "smolder/ir/scalar/primitive.h"
#include "smolder/jit/cuda/accesses.h"
#include "smolder/jit/cuda/device/interpreter.h"
#include "smolder/jit/cuda/device/prelude.h"
#include "smolder/jit/cuda/functions.h"
#include "smolder/jit/cuda/map_threads.h"
#include "smolder/jit/cuda/numbers.h"
#include "smolder/jit/cuda/reports.h"
#include "smolder/jit/cuda/schedule.h"
#include "smolder/jit/cuda/split_sums.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

namespace {

/// Slots of what a kernel defines, each taken again when nothing needs it any more.
class Slots {
 public:
  enum Kind : uint8_t { kLocal, kVar, kAcc };
  using Name = std::pair<Kind, int>;

  explicit Slots(const Stmt& root) {
    std::vector<std::pair<int, int>> loops;
    walk(root, loops);
    assign();
  }
  int of(Kind kind, int number) const { return ranges_.at({kind, number}).slot; }
  int count() const { return count_; }
  int add() { return count_++; }

 private:
  struct Range {
    int begin, end, slot = -1;
    size_t depth;  ///< loops around the definition
  };

  void define(Name name, size_t depth) { ranges_.try_emplace(name, Range{time_, time_, -1, depth}); }
  /// A value that is defined before a loop and used in it is used until the loop ends.
  void use(Name name, std::vector<Range*>& until_end, size_t depth) {
    Range& r = ranges_.at(name);
    r.end = std::max(r.end, time_);
    if (r.depth < depth) until_end.push_back(&r);
  }
  void use_map(const Affine& a, std::vector<Range*>& until_end, size_t depth) {
    for (const auto& t : a.terms) use({kVar, t.var}, until_end, depth);
  }

  /// Returns what must live to the end of the loop that the statement is in.
  std::vector<Range*> walk(const Stmt& s, std::vector<std::pair<int, int>>& loops) {
    std::vector<Range*> used;
    ++time_;
    const size_t depth = loops.size();
    for (const LocalId x : s.args) use({kLocal, x}, used, depth);
    for (const auto& i : s.address.indirect) use({kLocal, i.index}, used, depth);
    use_map(s.address.map, used, depth);
    use_map(s.map, used, depth);
    for (const Bound& b : s.bounds) use_map(b.map, used, depth);
    if (s.kind == StmtKind::kUpdate || s.kind == StmtKind::kResult) use({kAcc, s.acc}, used, depth);
    if (s.clamp_var >= 0) use({kVar, s.clamp_var}, used, depth);
    ++time_;  // a result may not take the slot of an operand that comes back: see kResult
    if (s.kind == StmtKind::kAcc) define({kAcc, s.acc}, depth);
    if (s.result >= 0) define({kLocal, s.result}, depth);
    if (!is_loop(s.kind)) return used;
    loops.emplace_back();
    for (const VarId v : s.vars) define({kVar, v}, depth + 1);
    std::vector<Range*> inside;
    for (const Stmt& inner : s.body) {
      for (Range* r : walk(inner, loops)) inside.push_back(r);
    }
    loops.pop_back();
    ++time_;
    for (const VarId v : s.vars) ranges_.at({kVar, v}).end = time_;
    for (Range* r : inside) {
      r->end = std::max(r->end, time_);
      if (r->depth < depth) used.push_back(r);
    }
    if (s.clamp_var >= 0) ranges_.at({kVar, s.clamp_var}).end = std::max(ranges_.at({kVar, s.clamp_var}).end, time_);
    return used;
  }

  void assign() {
    std::vector<Range*> all;
    for (auto& [name, range] : ranges_) all.push_back(&range);
    std::ranges::sort(all, {}, &Range::begin);
    std::vector<int> free_at;
    for (Range* r : all) {
      const auto slot = std::ranges::find_if(free_at, [&](int end) { return end < r->begin; });
      r->slot = static_cast<int>(slot - free_at.begin());
      if (slot == free_at.end()) {
        free_at.push_back(r->end);
      } else {
        *slot = r->end;
      }
    }
    count_ = static_cast<int>(free_at.size());
  }

  std::map<Name, Range> ranges_;
  int time_ = 0, count_ = 0;
};

class Encoder {
 public:
  explicit Encoder(const Kernel& k)
      : k_(k), accesses_(k), sums_(find_sums(k, accesses_)), schedule_(k), numbers_(schedule_.kernel), slots_(k.root) {
    out_.takes_columns = takes_chunks(k, accesses_);
    out_.is_flat = k.root.kind == StmtKind::kParallelVector;
    out_.guarded = k.guarded;
    out_.num_ints = k.num_ints;
    out_.num_buffers = static_cast<int>(k.buffers.size());
    out_.rows.resize(k.buffers.size());
    for (size_t b = 0; b < k.buffers.size(); ++b) {
      if (accesses_.of_buffer[b].empty() || !accesses_.is_scratch(b)) continue;
      out_.rows[b] = {accesses_.of_buffer[b][0].vector->extents[0], static_cast<int64_t>(itemsize(k.buffers[b].dtype))};
    }
    for (const auto& column : sums_.columns) {
      if (out_.takes_columns) {
        totals_.push_back({slots_.add(), -1});
      } else {
        totals_.push_back({-1, static_cast<int>(out_.rows.size())});
        out_.rows.push_back({column.vector->extents[0], 8});
      }
    }
    dtypes_.resize(static_cast<size_t>(k.num_locals));
    for_each_statement(k.root, [&](const Stmt& s, const Stmt*) {
      if (s.result >= 0) dtypes_[static_cast<size_t>(s.result)] = result_dtype(s);
      if (s.kind == StmtKind::kAcc) accs_[s.acc] = &s;
    });
  }

  ByteCode run() && {
    const Stmt& root = k_.root;
    // A position: its variables' slots, and the words of their extents.
    put(static_cast<int32_t>(out_.is_flat ? 0 : root.vars.size()));
    for (size_t i = 0; !out_.is_flat && i < root.vars.size(); ++i)
      put(var(root.vars[i])), put_word(word(root.extents[i]));
    if (out_.is_flat) {
      out_.columns = root.extents[0];
      vector(root);
    } else {
      if (out_.takes_columns) out_.columns = accesses_.vectors[0]->extents[0];
      body(root);
    }
    put(Code::kEnd);
    const int32_t first_constant = first_derived() + static_cast<int32_t>(out_.derived.size());
    for (const size_t at : words_) {
      int32_t& w = out_.code[at];
      w = w >= kConstants ? first_constant + (w - kConstants) : w >= kDerived ? first_derived() + (w - kDerived) : w;
    }
    out_.slots = slots_.count();
    return std::move(out_);
  }

 private:
  // -- words

  int32_t first_int() const { return static_cast<int32_t>(2 * out_.rows.size()); }
  int32_t first_derived() const { return first_int() + k_.num_ints; }
  /// Until all is encoded, what is derived and constants are counted from numbers that no word has.
  int32_t word(IntRef r) { return r.is_constant() ? constant(r.constant) : first_int() + r.slot; }
  int32_t constant(int64_t bits) {
    const auto it = std::ranges::find(out_.constants, bits);
    const auto at = static_cast<int32_t>(it - out_.constants.begin());
    if (it == out_.constants.end()) out_.constants.push_back(bits);
    return kConstants + at;
  }
  int32_t derive(ByteCode::Derived::Kind kind, IntRef extent) {
    out_.derived.push_back({kind, extent});
    return kDerived + static_cast<int32_t>(out_.derived.size()) - 1;
  }

  static constexpr int32_t kConstants = 1 << 20, kDerived = 1 << 19;

  // -- numbers of the code

  void put(int32_t x) { out_.code.push_back(x); }
  void put(Code c) { put(static_cast<int32_t>(c)); }
  void put_word(int32_t w) {
    words_.push_back(out_.code.size());
    put(w);
  }
  size_t hole() {
    put(0);
    return out_.code.size() - 1;
  }
  void fill(size_t hole) { out_.code[hole] = static_cast<int32_t>(out_.code.size()); }
  int local(LocalId x) const { return slots_.of(Slots::kLocal, x); }
  int var(VarId v) const { return slots_.of(Slots::kVar, v); }
  int acc(AccId a) const { return slots_.of(Slots::kAcc, a); }

  void sum(const Affine& a, const std::vector<Address::Indirect>& indirect = {}) {
    const size_t count = hole();
    put_word(word(a.offset));
    for (const auto& t : a.terms) {
      if (t.stride == IntRef{}) continue;
      put(var(t.var)), put_word(word(t.stride));
      ++out_.code[count];
    }
    for (const auto& i : indirect) {
      put(local(i.index)), put_word(word(i.stride));
      ++out_.code[count];
    }
  }
  void count(const Stmt& loop) {
    put_word(word(loop.extents[0]));
    put(loop.clamp_var < 0 ? -1 : var(loop.clamp_var));
    put_word(word(loop.clamp_var < 0 ? IntRef{} : loop.clamp_total));
  }
  void apply(int result, int function, int x, int y = 0, int z = 0) {
    put(Code::kApply), put(result), put(function), put(x), put(y), put(z);
  }
  void total(size_t column) {
    const auto [slot, buffer] = totals_[column];
    put(slot), put(buffer), put(slot < 0 ? var(sums_.columns[column].vector->vars[0]) : 0);
  }

  // -- statements

  void body(const Stmt& s) {
    for (const Stmt& inner : s.body) statement(inner);
  }

  void loop(const Stmt& s) {
    put(Code::kLoop), put(var(s.vars[0])), count(s);
    const size_t after = hole();
    const auto iteration = static_cast<int32_t>(out_.code.size());
    body(s);
    put(Code::kEndLoop), put(var(s.vars[0])), count(s), put(iteration);
    fill(after);
  }

  void vector(const Stmt& s) {
    using Derived = ByteCode::Derived;
    const bool reduces = std::ranges::any_of(s.body, [](const Stmt& x) { return x.kind == StmtKind::kUpdate; });
    out_.vectors.push_back(s.extents[0]);
    put(Code::kVector), put(var(s.vars[0])), count(s);
    const size_t after = hole();
    put_word(derive(reduces ? Derived::kLanes : Derived::kAllLanes, s.extents[0]));
    derive(reduces ? Derived::kUnit : Derived::kOne, s.extents[0]);
    const auto element = static_cast<int32_t>(out_.code.size());
    vector_ = &s;
    body(s);
    vector_ = nullptr;
    put(Code::kEndVector), put(var(s.vars[0])), put(element);
    fill(after);
  }

  void statement(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::kLoop:
        return loop(s);
      case StmtKind::kVector:
        return vector(s);
      case StmtKind::kLoad:
        return load(s);
      case StmtKind::kStore:
        return store(s);
      case StmtKind::kPrimitive:
        return primitive(s);
      case StmtKind::kConstant:
        if (numbers_.has(s)) return computed(s);
        put(Code::kWord), put(local(s.result));
        return put_word(constant(static_cast<int64_t>(register_bits(s.constant, s.dtype))));
      case StmtKind::kScalar:
        if (numbers_.has(s)) return computed(s);
        put(Code::kScalar), put(local(s.result)), put(s.slot);
        return cast(s, k_.scalars[static_cast<size_t>(s.slot)] == Category::kFloat ? DType::kFloat64 : DType::kInt64,
                    local(s.result), true);
      case StmtKind::kIndex:
        put(Code::kIndex), put(local(s.result));
        return sum(s.map);
      case StmtKind::kAcc:
        put(Code::kWord), put(acc(s.acc));
        return put_word(constant(static_cast<int64_t>(register_bits(reduce_identity(s.reduce, s.dtype), s.dtype))));
      case StmtKind::kUpdate:
        return apply(acc(s.acc), step_of(*accs_.at(s.acc)), acc(s.acc), local(s.args[0]));
      case StmtKind::kResult: {
        const Stmt& declared = *accs_.at(s.acc);
        put(Code::kResult), put(local(s.result)), put(acc(s.acc)), put(step_of(declared));
        // Halves are kept in float32 while they accumulate.
        return cast(s, compute_type(declared.dtype), local(s.result), true, declared.dtype);
      }
      case StmtKind::kCheckIndex:
        put(Code::kCheck), put(local(s.result)), put(local(s.args[0])), put_word(word(s.limit)), put(s.slot);
        return;
      default:
        raise<InternalError>("internal error: a scheduled kernel is no kernel for the interpreter");
    }
  }

  static int step_of(const Stmt& declared) {
    return Function::primitive(reduce_step(declared.reduce), compute_type(declared.dtype));
  }

  /// The host computes it, or what only such statements use.
  void computed(const Stmt& s) {
    const auto& all = numbers_.results();
    const auto it = std::ranges::find(all, s.result, &Stmt::result);
    if (it == all.end()) return;
    put(Code::kScalar), put(local(s.result));
    put(static_cast<int32_t>(k_.scalars.size()) + static_cast<int32_t>(it - all.begin()));
  }

  void load(const Stmt& s) {
    put(Code::kLoad), put(local(s.result)), put(static_cast<int32_t>(s.dtype)), put(s.address.buffer);
    const size_t next = hole();
    put_word(s.bounds.empty() ? constant(0) : constant(static_cast<int64_t>(register_bits(s.constant, s.dtype))));
    put(static_cast<int32_t>(s.bounds.size()));
    for (const Bound& b : s.bounds) {
      put_word(word(b.lo)), put_word(word(b.hi));
      sum(b.map);
    }
    sum(s.address.map, s.address.indirect);
    fill(next);
    for (size_t c = 0; c < sums_.columns.size(); ++c) {
      if (sums_.columns[c].load != &s) continue;
      const Scalar identity = step_identity(sums_.columns[c].step->op, s.dtype);
      put(Code::kBeginStrip), put(local(s.result)), put(var(sums_.loop->vars[0]));
      put_word(derive(ByteCode::Derived::kSegment, sums_.loop->extents[0]));
      put_word(constant(static_cast<int64_t>(register_bits(identity, s.dtype))));
      total(c);
    }
  }

  void store(const Stmt& s) {
    const int value = local(s.args[0]);
    for (size_t c = 0; c < sums_.columns.size(); ++c) {
      if (sums_.columns[c].store != &s) continue;
      put(Code::kEndStrip), put(value), put(var(sums_.loop->vars[0]));
      put_word(derive(ByteCode::Derived::kSegment, sums_.loop->extents[0]));
      count(*sums_.loop);
      total(c);
      put(Function::primitive(sums_.columns[c].step->op, s.dtype));
    }
    put(Code::kStore), put(value), put(static_cast<int32_t>(s.dtype)), put(s.address.buffer);
    // Where all elements go to one place, the last stays.
    const bool is_last = vector_ && !varies(s);
    put(is_last ? 2 : !vector_ && !out_.takes_columns ? 1 : 0), put(is_last ? var(vector_->vars[0]) : 0);
    sum(s.address.map, s.address.indirect);
  }

  /// Whether a statement of the vector loop has another address or value for another element.
  bool varies(const Stmt& s) const {
    const VarId v = vector_->vars[0];
    const auto moves = [&](const Affine& a) { return stride_of(a, v) != IntRef{}; };
    const auto defined = [&](LocalId x) {
      const auto it = std::ranges::find(vector_->body, x, &Stmt::result);
      return it != vector_->body.end() && varies(*it);
    };
    if (moves(s.address.map) || moves(s.map)) return true;
    if (std::ranges::any_of(s.bounds, [&](const Bound& b) { return moves(b.map); })) return true;
    if (std::ranges::any_of(s.address.indirect, [&](const auto& i) { return defined(i.index); })) return true;
    return s.kind != StmtKind::kStore && std::ranges::any_of(s.args, defined);
  }

  void primitive(const Stmt& s) {
    if (numbers_.has(s)) return computed(s);
    const int result = local(s.result);
    if (s.op == ir::Op::kCast) return cast(s, dtypes_[static_cast<size_t>(s.args[0])], local(s.args[0]));
    const bool is_random = s.op == ir::Op::kRandomBits;
    const auto arg = [&](size_t i) { return i < s.args.size() ? local(s.args[i]) : 0; };
    apply(result, is_random ? Function::kRandomBits : Function::primitive(s.op, s.dtype), arg(0), arg(1), arg(2));
    if (is_random || !is_half(s.dtype)) return;
    const auto& info = ir::scalar::info(static_cast<ir::scalar::Primitive>(s.op));
    if (info.rounding == ir::scalar::PrimitiveInfo::kRounded) apply(result, Function::round(s.dtype), result);
  }

  /// `in_place`: what is converted lies where the result does.
  void cast(const Stmt& s, DType from, int x, bool in_place = false, std::optional<DType> to = {}) {
    const DType t = to.value_or(s.dtype);
    const int result = local(s.result), function = Function::cast(from, t);
    if (function != Function::kMove || !in_place) apply(result, function, x);
    if (is_half(t) && from != t) apply(result, Function::round(t), result);
  }

  const Kernel& k_;
  const Accesses accesses_;
  const Sums sums_;
  const Schedule schedule_;
  const Numbers numbers_;  ///< of the schedule's: statements are told by their results
  Slots slots_;
  ByteCode out_;
  std::vector<size_t> words_;  ///< of the code that are numbers of words
  struct Total {
    int slot, buffer;
  };
  std::vector<Total> totals_;  ///< by column
  std::vector<DType> dtypes_;  ///< by result
  std::map<AccId, const Stmt*> accs_;
  const Stmt* vector_ = nullptr;  ///< the loop that is encoded
};

}  // namespace

ByteCode encode(const Kernel& kernel) { return Encoder(kernel).run(); }

// -- functions

namespace {

using ir::scalar::LaneType;
namespace scalar = ir::scalar;

/// The dtype of arithmetic: float32 for a half.
constexpr DType kKinds[] = {DType::kBool,  DType::kUInt8, DType::kInt8,    DType::kInt16,
                            DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64};
constexpr int kNumKinds = std::size(kKinds), kFirstPrimitive = Function::kFirstCast + kNumKinds * kNumKinds;

int kind_of(DType t) {
  return static_cast<int>(std::ranges::find(kKinds, is_half(t) ? DType::kFloat32 : t) - std::begin(kKinds));
}

/// A value of a slot as its type, and back.
std::string value_of_word(DType t, const std::string& word) {
  const LaneType lane = register_lane(t);
  if (lane == LaneType::kI1) return word + " != 0";
  if (lane == LaneType::kF32) return "__uint_as_float(static_cast<u32>(" + word + "))";
  if (lane == LaneType::kF64) return "__longlong_as_double(static_cast<i64>(" + word + "))";
  return std::string("static_cast<") + type_name(lane) + ">(" + word + ")";
}
std::string word_of_value(DType t, const std::string& value) {
  const LaneType lane = register_lane(t);
  if (lane == LaneType::kF32) return "__float_as_uint(" + value + ")";
  if (lane == LaneType::kF64) return "static_cast<u64>(__double_as_longlong(" + value + "))";
  return value;
}

}  // namespace

int Function::primitive(ir::Op op, DType t) { return kFirstPrimitive + static_cast<int>(op) * kNumKinds + kind_of(t); }
int Function::cast(DType from, DType to) {
  const int a = kind_of(from), b = kind_of(to);
  return a == b ? kMove : kFirstCast + a * kNumKinds + b;
}
int Function::round(DType half) { return half == DType::kFloat16 ? kRoundF16 : kRoundBF16; }

std::string interpreter_text() {
  Functions functions;
  std::string cases;
  const auto add = [&](int number, DType result, const std::string& call) {
    cases += cat({"    case ", std::to_string(number), ": return ", word_of_value(result, call), ";\n"});
  };
  for (const DType from : kKinds) {
    for (const DType to : kKinds) {
      if (from == to) continue;
      add(Function::cast(from, to), to, functions.cast(from, to) + "(" + value_of_word(from, "x") + ")");
    }
  }
  for (int i = 0; i < scalar::kNumPrimitives; ++i) {
    const auto p = static_cast<scalar::Primitive>(i);
    const auto op = static_cast<ir::Op>(i);
    for (const DType t : kKinds) {
      if (!scalar::info(p).takes(t)) continue;
      const DType first = p == scalar::Primitive::kWhere ? DType::kBool : t;
      std::string call = functions.primitive(op, t) + "(" + value_of_word(first, "x");
      if (scalar::info(p).arity > 1) call += ", " + value_of_word(t, "y");
      if (scalar::info(p).arity > 2) call += ", " + value_of_word(t, "z");
      add(Function::primitive(op, t), scalar::info(p).result_dtype(t), call + ")");
    }
  }
  const auto rounded = [](const char* function) {
    return cat({"__float_as_uint(", function, "(", value_of_word(DType::kFloat32, "x"), "))"});
  };
  cases += cat({"    case ", std::to_string(Function::kRoundF16), ": return ", rounded("round_f16"), ";\n    case ",
                std::to_string(Function::kRoundBF16), ": return ", rounded("round_bf16"), ";\n    case ",
                std::to_string(Function::kRandomBits), ": return ", functions.random_bits(), "(x, y, z);\n"});
  functions.report();
  return cat({kPrelude, functions.text(),
              "static __device__ __noinline__ u64 apply(int function, u64 x, u64 y, u64 z) {\n  switch (function) {\n",
              cases, "    default: return x;\n  }\n}\nconstexpr int kReportWords = ", std::to_string(kReportWords),
              ", kWords = ", std::to_string(kInterpreterWords), ";\n", kInterpreter});
}

}  // namespace smolder::jit::cuda
