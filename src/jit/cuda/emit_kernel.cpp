// A kernel as a whole: its arguments, loops and what all threads of a group compute.
#include <algorithm>
#include <bit>
#include <utility>

#include "smolder/core/error.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"
#include "smolder/jit/cuda/together.h"

namespace smolder::jit::cuda {

KernelEmitter::KernelEmitter(const Kernel& kernel, std::string entry, Functions& functions, Effort effort)
    : effort_(effort),
      schedule_(kernel),
      k_(schedule_.kernel),
      shape_(schedule_.shape),
      entry_(std::move(entry)),
      functions_(functions),
      numbers_(k_),
      locals_(k_.num_locals),
      accs_(k_.num_accs) {
  for (int v = 0; v < k_.num_vars; ++v) vars_.push_back("v" + std::to_string(v));
}

void KernelEmitter::line(const std::string& text) {
  if (text.front() == '}') --depth_;
  out_.append(static_cast<size_t>(depth_) * 2, ' ');
  out_ += text;
  out_ += '\n';
  if (text.back() == '{') ++depth_;
}

std::string KernelEmitter::run() {
  if (!k_.name.empty()) line("// " + k_.name);
  out_ += arguments();
  // A compiler that is not told that one block will do may move what is held out of registers for the sake of two.
  std::string threads = std::to_string(is_columns() ? kColumnThreads : shape_.split_threads);
  if (is_columns() && shape_.group_split) threads += ", " + std::to_string(shape_.split_blocks);
  if (has_two_rows()) threads += ", " + std::to_string(std::max(k_.row.staged, 1));
  line("extern \"C\" __global__ void __launch_bounds__(" + threads + ") " + entry_ + "(const __grid_constant__ " +
       entry_ + "_arguments " + (k_.together ? "table" : "a") + ") {");
  if (k_.together) find_call();
  line("wait_for_kernel_before();");
  // All blocks find the same: what sets the word has ended. It is on its way while elements are, and of the blocks of a
  // multiprocessor most find it in the first-level cache.
  if (k_.guarded) line("const bool failed = *a.errors != 0;");
  if (k_.guarded && !looks_late()) line("if (failed) return;");
  is_columns() ? columns() : rows();
  line("}");
  return std::move(out_);
}

/// Whether the threads of a guarded kernel ask if a step has failed no sooner than they store: what is loaded then need
/// not wait for the answer.
bool KernelEmitter::looks_late() const {
  return k_.guarded && is_columns() && std::ranges::all_of(shape_.chunk_loop->body, [](const Stmt& s) {
           return s.body.empty() || s.kind == StmtKind::kLanes;
         });
}

std::string KernelEmitter::arguments() const {
  const std::string call = entry_ + (k_.together ? "_call" : "_arguments");
  std::string text = "struct " + call + " {\n";
  for (const Argument& x : schedule_.arguments) text += "  " + x.declaration + ";\n";
  text += "};\n";
  if (k_.together) {
    const std::string most = std::to_string(most_together(schedule_));
    text += cat(
        {"struct ", entry_, "_arguments {\n  ", call, " calls[", most, "];\n  u32 first[", most, "], count;\n};\n"});
  }
  if (shape_.ahead.empty()) return text;
  text += "template <int V> struct " + entry_ + "_loads {";
  for (const Stmt* s : shape_.ahead)
    text += cat({" ", pack(s->address.buffer), " raw", std::to_string(s->result), ";"});
  return text + " };\n";
}

/// Which of the table's calls the block is of: the last that begins no later.
void KernelEmitter::find_call() {
  const auto most = static_cast<unsigned>(most_together(schedule_));
  line("u32 call = 0;");
  line("#pragma unroll");
  line(cat({"for (u32 step = ", std::to_string(std::bit_floor(most - 1)), "; step > 0; step /= 2) {"}));
  line("if (call + step < table.count && table.first[call + step] <= blockIdx.x) call += step;");
  line("}");
  line("const " + entry_ + "_call a = table.calls[call];");
  line("const u32 block = blockIdx.x - table.first[call];");
}

/// Variables of the root loop from a position.
void KernelEmitter::position(const std::string& name) {
  const std::vector<VarId>& vars = k_.root.vars;
  if (vars.size() == 1) return line("const i64 " + vars_[vars[0]] + " = " + name + ";");
  line("u64 rest = static_cast<u64>(" + name + ");");
  for (size_t i = vars.size(); i-- > 1;) {
    line("const i64 " + vars_[vars[i]] + " = take_digit(rest, static_cast<u64>(" + integer(k_.root.extents[i]) + "));");
  }
  line("const i64 " + vars_[vars[0]] + " = static_cast<i64>(rest);");
}

void KernelEmitter::body(const std::vector<Stmt>& statements) {
  for (const Stmt& s : statements) {
    if (is_sequential(s.kind)) {
      if (&s == shape_.group_split) {
        is_columns() ? split_iterations(s) : split_rows(s);
      } else {
        sequential(s);
      }
    } else if (is_vector(s)) {
      const bool first_group = shape_.group_split && !in_split_;  // what is outside the loop is done once
      if (first_group) line(is_columns() ? "if (mine && group == 0) {" : "if (threadIdx.y == 0) {");
      is_columns() ? vector_columns(s) : shape_.in_chunks() ? vector_chunks(s) : vector_rows(s);
      if (first_group) line("}");
    } else if (s.kind == StmtKind::kShared || s.kind == StmtKind::kRegister) {
      continue;  // see scratch_rows and held_rows
    } else if (s.kind == StmtKind::kHold) {
      hold(s);
    } else if (s.kind == StmtKind::kRelease) {
      release(s);
    } else if (s.kind == StmtKind::kBarrier) {
      line(group_sync());
    } else if (in_split_ && !is_columns() && s.kind == StmtKind::kLoad && s.bounds.empty()) {
      number_of_iteration(s);
    } else if (!s.ahead) {  // else see load_first
      statement(s);
    }
  }
}

std::string KernelEmitter::extent(const Stmt& s) const {
  std::string n = integer(s.extents[0]);
  if (s.clamp_var < 0) return n;
  return "smaller(" + n + ", " + integer(s.clamp_total) + " - " + vars_[s.clamp_var] + " * " + n + ")";
}

void KernelEmitter::sequential(const Stmt& s) {
  const std::string v = vars_[s.vars[0]];
  segments(s, true);
  if (s.unroll > 0) line("#pragma unroll " + std::to_string(s.unroll));
  line("for (i64 " + v + " = 0, end_" + v + " = " + extent(s) + "; " + v + " < end_" + v + "; ++" + v + ") {");
  body(s.body);
  segments(s, false);
  line("}");
  if (&s != shape_.split) return;
  for (Kept& x : kept_) {
    if (std::ranges::find(shape_.sums, x.buffer, &KernelShape::SplitSum::buffer) != shape_.sums.end())
      x.name = "total" + std::to_string(x.buffer);
  }
}

/// Writes, for a split loop that no groups share, the totals before the loop, or in it the end of each segment.
void KernelEmitter::segments(const Stmt& s, bool before) {
  if (&s != shape_.split) return;
  const std::string v = vars_[s.vars[0]], end = "end_" + v;
  if (!before) line("if ((" + v + " + 1) % a.segment == 0 || " + v + " + 1 == " + end + ") {");
  for (const auto& c : shape_.sums) {
    const Kept* const kept = kept_of(c.buffer);
    if (!kept) raise<InternalError>("internal error: a column without registers");
    const std::string total = "total" + std::to_string(c.buffer);
    if (!before) {
      add_lanes(c, total + ".x[k]", kept->name + ".x[k]");
      lanes(kept->name + ".x[k] = " + identity(c) + ";");
      continue;
    }
    line(pack(c.buffer) + " " + total + " = " + kept->name + ";");
    lanes(kept->name + ".x[k] = " + identity(c) + ";");
  }
  if (!before) line("}");
}

KernelEmitter::Local& KernelEmitter::define(const Stmt& s, bool varies) {
  Local& l = locals_[s.result];
  l = {"x" + std::to_string(s.result), result_dtype(s), varies};
  return l;
}

/// A number that the host computes.
void KernelEmitter::number(const Stmt& s) {
  const auto it = std::ranges::find(numbers_.results(), &s);
  if (it == numbers_.results().end()) return;
  const size_t place = k_.scalars.size() + static_cast<size_t>(it - numbers_.results().begin());
  const std::string word = "a.scalars[" + std::to_string(place) + "]";
  const Local& l = define(s, false);
  const LaneType lane = register_lane(l.dtype);
  const std::string type = type_name(lane);
  const std::string x = lane == LaneType::kF64   ? "__longlong_as_double(static_cast<i64>(" + word + "))"
                        : lane == LaneType::kF32 ? "__uint_as_float(static_cast<u32>(" + word + "))"
                        : lane == LaneType::kI1  ? "(" + word + " & 1) != 0"
                                                 : "static_cast<" + type + ">(" + word + ")";
  line(cat({"const ", type, " ", l.name, " = ", x, ";"}));
}

void KernelEmitter::statement(const Stmt& s) {
  if (numbers_.has(s)) return number(s);
  switch (s.kind) {
    case StmtKind::kStore:
      return store(s);
    case StmtKind::kAcc:
      return declare(s);
    case StmtKind::kResult:
      if (const Accumulator& acc = accs_[s.acc]; !acc.pair.empty()) {
        line(cat({functions_.extremum_of_pack(acc.step, acc.half), "_both(", acc.address(), ", ", acc.pair, ");"}));
      }
      break;
    case StmtKind::kCheckIndex: {
      const std::string index = value(s.args[0]), limit = integer(s.limit);
      line(cat({"if (", index, " >= static_cast<u64>(", limit, ")) ", functions_.report(), "(", error_slot(s), ", ",
                index, ", ", limit, ");"}));
      break;
    }
    default:
      break;
  }
  const std::string x = expression(s);
  const Local& l = define(s, false);
  line(std::string("const ") + type_name(register_lane(l.dtype)) + " " + l.name + " = " + x + ";");
}

void KernelEmitter::declare(const Stmt& s) {
  Accumulator& acc = accs_[s.acc];
  acc = {.name = "a" + std::to_string(s.acc),
         .dtype = compute_type(s.dtype),
         .step = reduce_step(s.reduce),
         .pair = "",
         .sides = shape_.sides};
  const LaneType lane = register_lane(acc.dtype);
  const std::string first = literal(lane, register_bits(reduce_identity(s.reduce, s.dtype), acc.dtype));
  line(cat(
      {type_name(lane), " ", acc.name, acc.sides == 1 ? " = " + first : "[2] = {" + first + ", " + first + "}", ";"}));
  const Stmt* load = any_halves(s.acc);
  if (!load) return;
  acc.half = load->dtype;
  acc.pair = "pair" + std::to_string(s.acc);
  const bool is_max = acc.step == ir::Op::kMaximum;  // of two infinities
  line(cat({"u32 ", acc.pair, " = 0x",
            acc.half == DType::kFloat16 ? (is_max ? "fc00fc00" : "7c007c00") : (is_max ? "ff80ff80" : "7f807f80"),
            "u;"}));
}

/// One thread of the group.
void KernelEmitter::store(const Stmt& s) {
  const std::string first = shape_.group_split && !in_split_ ? "t == 0 && threadIdx.y == 0" : "t == 0";
  line("if (" + first + ") " + buffer(s.address.buffer) + "[" + element(s.address) +
       "] = " + stored(s.dtype, value(s.args[0])) + ";");
}

}  // namespace smolder::jit::cuda
