// The body of a loop over elements. Each statement is done for all lanes that a thread has before the next is,
// as the CPU's vectors do it. A chunk is V neighbouring elements from `i` on, all of them the loop's and aligned for
// the widest loads where there are several. What is not whole is taken as chunks of one, by the same text.
#include <algorithm>
#include <utility>

#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

namespace {

/// The statement of a loop's body that defines a value; null: none does.
const Stmt* definition(const Stmt& loop, LocalId x) {
  const auto it = std::ranges::find(loop.body, x, &Stmt::result);
  return it == loop.body.end() ? nullptr : &*it;
}

}  // namespace

/// Computes what all lanes share, and names what varies.
void KernelEmitter::uniform_part(const Stmt& s) {
  loop_ = &s;
  vars_[s.vars[0]] = "(i + k)";
  for (const Stmt& inner : s.body) {
    if (is_uniform(inner)) statement(inner);
    if (inner.result >= 0 && !is_uniform(inner)) define(inner, true);
    if (!divides_row(inner)) continue;
    const std::string name = locals_[inner.result].name, by = value(inner.args[1]);
    functions_.div_lanes();
    line(cat({"const Inverse inverse_", name, " = inverse_of(", by, ");"}));
  }
  if (shape_.in_chunks()) dividers(s);
}

/// Prepares the divisions of the loop's positions.
void KernelEmitter::dividers(const Stmt& loop) {
  std::vector<std::string> known;
  for (const auto& d : shape_.chunks.divisions) {
    if (std::ranges::none_of(loop.body, [&](const Stmt& s) { return &s == d.statement; })) continue;
    const std::string name = divider(d);
    if (std::ranges::find(known, name) != known.end()) continue;
    known.push_back(name);
    line(cat({"const Divider ", name, " = ", functions_.divider(), "(static_cast<u64>(",
              affine(d.position->map, loop.vars[0]), "), ", value(d.size->result), ");"}));
  }
}

/// A quotient or remainder of a position along the loop, or "".
std::string KernelEmitter::divided(const Stmt& s) const {
  const auto& all = shape_.chunks.divisions;
  const auto it = std::ranges::find(all, &s, &Chunks::Division::statement);
  if (it == all.end() || !loop_ || !shape_.in_chunks()) return "";
  return cat({"divide(", divider(*it), ", i + k)", s.op == ir::Op::kFloorDiv ? ".quotient" : ".rest"});
}

bool KernelEmitter::is_uniform(const Stmt& s) const {
  const VarId v = loop_->vars[0];
  const auto varies = [&](LocalId l) { return locals_[l].varies; };
  switch (s.kind) {
    case StmtKind::kStore:
    case StmtKind::kUpdate:
    case StmtKind::kCombine:
    case StmtKind::kHold:
    case StmtKind::kRelease:
    case StmtKind::kStage:
    case StmtKind::kUnstage:
      return false;
    case StmtKind::kLoad:
      return is_fixed(s.address.map, v) &&
             std::ranges::none_of(loop_->body,
                                  [&](const Stmt& other) {
                                    return other.kind == StmtKind::kStore && other.address.buffer == s.address.buffer;
                                  }) &&
             std::ranges::all_of(s.bounds, [&](const Bound& b) { return is_fixed(b.map, v); }) &&
             std::ranges::none_of(s.address.indirect, [&](const auto& i) { return varies(i.index); });
    case StmtKind::kIndex:
      return is_fixed(s.map, v);
    default:
      return std::ranges::none_of(s.args, varies);
  }
}

std::string KernelEmitter::declare_lanes(const Stmt& s) {
  const Local& l = define(s, true);
  line(std::string(type_name(register_lane(l.dtype))) + " " + l.name + "[V];");
  return l.name + "[k]";
}

void KernelEmitter::varying(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::kHold:
    case StmtKind::kRelease:
    case StmtKind::kStage:
    case StmtKind::kUnstage:
      return;  // see held_rows, load_held and common_rows
    case StmtKind::kCombine:
      return combine(s);
    case StmtKind::kLoad:
      return varying_load(s);
    case StmtKind::kStore:
      if (looks_late() && &s == &*std::ranges::find(loop_->body, StmtKind::kStore, &Stmt::kind))
        line("if (failed) return;");
      return varying_store(s);
    case StmtKind::kUpdate:
      return update(s);
    case StmtKind::kCheckIndex:
      declare_lanes(s);
      return line(cat({"if (clamp_lanes(", locals_[s.result].name, ", ", locals_[s.args[0]].name, ", ",
                       integer(s.limit), ")) ", functions_.report_lanes(), "(", error_slot(s), ", ",
                       locals_[s.args[0]].name, ", ", integer(s.limit), ");"}));
    default:
      return varying_value(s);
  }
}

void KernelEmitter::update(const Stmt& s) {
  const Accumulator& acc = accs_[s.acc];
  if (const Stmt* load = loaded_halves(s, *loop_); load && load->dtype == acc.half && !acc.pair.empty()) {
    return line(cat({functions_.extremum_of_pack(acc.step, acc.half), "<", std::to_string(acc.sides), ">(",
                     acc.address(), ", ", acc.pair, ", raw", std::to_string(load->result), ");"}));
  }
  lanes(cat(
      {acc.side(), " = ", functions_.primitive(acc.step, acc.dtype), "(", acc.side(), ", ", value(s.args[0]), ");"}));
}

void KernelEmitter::varying_value(const Stmt& s) {
  const std::string x = declare_lanes(s);
  if (s.again >= 0) {
    line("if constexpr (V > 1 && fits) {");
    lanes(x + " = " + kept_value(s.again) + ";");
    line("} else {");
  }
  if (!random_lanes(s) && !exp_lanes(s) && !rare_lanes(s) && !div_lanes(s) && !divide_chunk(s)) {
    lanes(x + " = " + unrounded(s) + ";");
  }
  if (s.again >= 0) line("}");
  if (rounds(s)) {
    line(std::string("round_lanes_") + (s.dtype == DType::kFloat16 ? "f16(" : "bf16(") + locals_[s.result].name + ");");
  }
  if (std::ranges::find(shape_.kept_values, s.result) != shape_.kept_values.end()) {
    line("if constexpr (V > 1 && fits) {");
    lanes(kept_value(s.result) + " = " + x + ";");
    line("}");
  }
}

/// The load of the halves with which an update computes a float32 maximum or minimum as they lie in a chunk; else null.
const Stmt* KernelEmitter::loaded_halves(const Stmt& update, const Stmt& loop) const {
  const Accumulator& acc = accs_[update.acc];
  if (acc.dtype != DType::kFloat32 || (acc.step != ir::Op::kMaximum && acc.step != ir::Op::kMinimum)) return nullptr;
  const Stmt* s = definition(loop, update.args[0]);
  if (s && s->kind == StmtKind::kPrimitive && s->op == ir::Op::kCast) s = definition(loop, s->args[0]);
  if (!s || s->kind != StmtKind::kLoad || !is_half(s->dtype) || kept_of(s->address.buffer)) return nullptr;
  return is_contiguous(s->address, loop.vars[0]) && s->bounds.empty() ? s : nullptr;
}

/// Such a load of any update of an accumulator.
const Stmt* KernelEmitter::any_halves(AccId acc) const {
  const Stmt* load = nullptr;
  for_each_statement(k_.root, [&](const Stmt& s, const Stmt* vector) {
    if (s.kind == StmtKind::kUpdate && s.acc == acc && vector && !load) load = loaded_halves(s, *vector);
  });
  return load;
}

bool KernelEmitter::exp_lanes(const Stmt& s) {
  const bool is_exp = s.kind == StmtKind::kPrimitive && s.op == ir::Op::kExp;
  if (!is_exp || compute_type(s.dtype) != DType::kFloat32 || !locals_[s.args[0]].varies) return false;
  const std::string function = functions_.exp_lanes();
  line(cat({function, "(", locals_[s.result].name, ", ", locals_[s.args[0]].name, ");"}));
  return true;
}

bool KernelEmitter::rare_lanes(const Stmt& s) {
  const auto varies = [&](LocalId x) { return locals_[x].varies; };
  const bool is_of_lanes = s.args.size() <= 2 && std::ranges::any_of(s.args, varies);
  if (s.kind != StmtKind::kPrimitive || s.op == ir::Op::kCast || !is_of_lanes) return false;
  const std::string function = functions_.rare_lanes(s.op, s.dtype);
  if (function.empty()) return false;
  std::string call = function + "(" + locals_[s.result].name;
  for (const LocalId x : s.args) call += ", " + (varies(x) ? locals_[x].name : value(x));
  line(call + ");");
  return true;
}

/// A row divided by one number, as most divisions of rows are.
bool KernelEmitter::divides_row(const Stmt& s) const {
  return !is_columns() && s.kind == StmtKind::kPrimitive && s.op == ir::Op::kDiv &&
         compute_type(s.dtype) == DType::kFloat32 && locals_[s.args[0]].varies && !locals_[s.args[1]].varies;
}

bool KernelEmitter::div_lanes(const Stmt& s) {
  if (!divides_row(s)) return false;
  const std::string function = functions_.div_lanes();
  const std::string name = locals_[s.result].name;
  const std::string call = cat(
      {function, "(", name, ", ", locals_[s.args[0]].name, ", ", locals_[s.args[1]].name, ", inverse_", name, ");"});
  if (!keeps_staged()) {
    line(call);
    return true;
  }
  // Where single elements called what chunks call for rare numbers, the compiler would keep registers free for that.
  line("if constexpr (V > 1) {");
  line(call);
  line("} else {");
  lanes(name + "[k] = " + unrounded(s) + ";");
  line("}");
  return true;
}

/// Once for a regular chunk.
bool KernelEmitter::divide_chunk(const Stmt& s) {
  const auto is_in = [&](const std::vector<const Stmt*>& list) { return std::ranges::find(list, &s) != list.end(); };
  const bool steps = is_in(shape_.chunks.steps);
  if (!steps && !is_in(shape_.chunks.same)) return false;
  const std::string x = unrounded(s), name = locals_[s.result].name + "[k]";
  line("if constexpr (R) {");
  line("constexpr int k = 0;");
  line("const u64 first = " + x + ";");
  lanes(name + (steps ? " = first + k;" : " = first;"));
  line("} else {");
  lanes(name + " = " + x + ";");
  line("}");
  return true;
}

/// Random numbers of one stream at consecutive positions.
bool KernelEmitter::random_lanes(const Stmt& s) {
  if (s.kind != StmtKind::kPrimitive || s.op != ir::Op::kRandomBits) return false;
  if (locals_[s.args[0]].varies || locals_[s.args[1]].varies) return false;
  const VarId v = loop_->vars[0];
  const auto position = std::ranges::find(loop_->body, s.args[2], &Stmt::result);
  if (position == loop_->body.end() || position->kind != StmtKind::kIndex) return false;
  if (stride_of(position->map, v) != IntRef{1}) return false;
  const std::string function = functions_.random_lanes();
  line(function + "(" + locals_[s.result].name + ", " + value(s.args[0]) + ", " + value(s.args[1]) +
       ", static_cast<u64>(" + affine(position->map, v) + " + i));");
  return true;
}

}  // namespace smolder::jit::cuda
