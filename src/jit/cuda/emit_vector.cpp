// What is in a vector loop. Each statement is done for all lanes that a thread has before the next is, as the CPU's
// vectors do it.
#include <algorithm>

#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

namespace {

bool is_fixed(const Affine& a, VarId v) { return stride_of(a, v) == IntRef{}; }

}  // namespace

// Loads of lanes beyond the last read the last again: a valid place, without a branch.

/// The thread's own lanes, which are neighbours: the loop is around the whole body.
void KernelEmitter::vector_columns(const Stmt& s) {
  loop_ = &s;
  vars_[s.vars[0]] = "(i + k)";
  line("{");
  for (const Stmt& inner : s.body) is_uniform(inner) ? statement(inner) : varying(inner);
  line("}");
  loop_ = nullptr;
}

/// Lanes are dealt out to the threads of the group in turn: element j to thread j mod `lanes`.
void KernelEmitter::vector_rows(const Stmt& s) {
  const std::string v = std::to_string(s.vars[0]);
  if (shape_.synchronizes) line("group_sync();");
  line("if (const i64 n = " + extent(s) + "; n > 0) {");
  loop_ = &s;
  vars_[s.vars[0]] = "e[k]";
  line("const int lanes = lanes_of(" + integer(s.extents[0]) + ");");
  for (const Stmt& inner : s.body) {
    if (is_uniform(inner)) statement(inner);
    if (inner.result >= 0 && !is_uniform(inner)) define(inner, true);
  }
  find_rows();
  line("for (i64 j = t < lanes ? t : n; j < n; j += V * lanes) {");
  line("i64 e[V];");
  lanes("e[k] = smaller(j + k * lanes, n - 1);");
  for (const Stmt& inner : s.body) {
    if (!is_uniform(inner)) varying(inner);
  }
  line("}");
  line("}");
  loop_ = nullptr;
  if (shape_.synchronizes) line("group_sync();");
}

bool KernelEmitter::is_uniform(const Stmt& s) const {
  const VarId v = loop_->vars[0];
  const auto varies = [&](LocalId l) { return locals_[l].varies; };
  switch (s.kind) {
    case StmtKind::kStore:
    case StmtKind::kUpdate:
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
  const bool columns_mode = shape_.mode == KernelShape::kColumns;
  const std::string active = columns_mode ? "k < left" : "j + k * lanes < n";
  if (const KernelShape::TeamColumn* c = team_column(s)) {
    if (&s == c->store) varying_add(*c);
    return;
  }
  switch (s.kind) {
    case StmtKind::kLoad:
      return varying_load(s);
    case StmtKind::kStore:
      return varying_store(s);
    case StmtKind::kUpdate: {
      const Accumulator& acc = accs_[s.acc];
      return lanes("if (" + active + ") " + acc.name + " = " + functions_.primitive(acc.step, acc.dtype) + "(" +
                   acc.name + ", " + value(s.args[0]) + ");");
    }
    case StmtKind::kCheckIndex:
      lanes("if (" + active + " && " + value(s.args[0]) + " >= static_cast<u64>(" + integer(s.limit) + ")) a.errors[" +
            std::to_string(s.slot) + "] = 1;");
      break;
    default:
      break;
  }
  if (random_lanes(s)) return;
  const std::string x = unrounded(s), name = declare_lanes(s);
  lanes(name + " = " + x + ";");
  if (rounds(s)) {
    line(std::string("round_lanes_") + (s.dtype == DType::kFloat16 ? "f16(" : "bf16(") + locals_[s.result].name + ");");
  }
}

/// Random numbers of one stream at consecutive positions.
bool KernelEmitter::random_lanes(const Stmt& s) {
  if (s.kind != StmtKind::kPrimitive || s.op != ir::Op::kRandomBits || shape_.mode != KernelShape::kColumns)
    return false;
  if (locals_[s.args[0]].varies || locals_[s.args[1]].varies) return false;
  const VarId v = loop_->vars[0];
  const auto position = std::ranges::find(loop_->body, s.args[2], &Stmt::result);
  if (position == loop_->body.end() || position->kind != StmtKind::kIndex) return false;
  if (stride_of(position->map, v) != IntRef{1}) return false;
  const std::string function = functions_.random_lanes();
  declare_lanes(s);
  line(function + "(" + locals_[s.result].name + ", " + value(s.args[0]) + ", " + value(s.args[1]) +
       ", static_cast<u64>(" + affine(position->map, v) + " + i));");
  return true;
}

bool KernelEmitter::is_contiguous(const Address& a) const {
  return shape_.mode == KernelShape::kColumns && shape_.vector > 1 && a.indirect.empty() &&
         stride_of(a.map, loop_->vars[0]) == IntRef{1};
}

const KernelEmitter::Kept* KernelEmitter::kept_of(int buffer) const {
  const auto it = std::ranges::find(kept_, buffer, &Kept::buffer);
  return it == kept_.end() ? nullptr : &*it;
}

const KernelShape::KeptRow* KernelEmitter::kept_row(int buffer) const {
  if (shape_.mode != KernelShape::kRows) return nullptr;
  const auto it = std::ranges::find(shape_.kept, buffer, &KernelShape::KeptRow::buffer);
  return it == shape_.kept.end() ? nullptr : &*it;
}

/// Where this loop finds the rows that stay: in shared memory, or where they are for want of room.
void KernelEmitter::find_rows() {
  std::vector<int> found;
  for (const Stmt& s : loop_->body) {
    if (s.kind != StmtKind::kLoad && s.kind != StmtKind::kStore) continue;
    const int b = s.address.buffer;
    if (!kept_row(b) || std::ranges::find(found, b) != found.end()) continue;
    found.push_back(b);
    const std::string n = std::to_string(b), type = type_name(storage_lane(k_.buffers[b].dtype));
    line(cat({type, "* const found", n, " = row", n, " ? row", n, " : b", n, " + (",
              affine(s.address.map, loop_->vars[0]), ");"}));
  }
}

void KernelEmitter::varying_load(const Stmt& s) {
  const std::string name = declare_lanes(s), b = buffer(s.address.buffer);
  const std::string type = type_name(storage_lane(s.dtype));
  if (const Kept* kept = kept_of(s.address.buffer)) {
    return lanes(name + " = " + loaded(s.dtype, kept->name + "[k]") + ";");
  }
  if (const KernelShape::KeptRow* row = kept_row(s.address.buffer)) return load_of_row(s, *row);
  const bool columns_mode = shape_.mode == KernelShape::kColumns;
  std::string inside;
  if (columns_mode && s.address.indirect.empty()) {
    vars_[loop_->vars[0]] = "(i + (k < left ? k : left - 1))";
  } else if (columns_mode) {
    inside = "k < left";  // what it is indexed by may be anything beyond
  }
  if (!s.bounds.empty()) inside += (inside.empty() ? "" : " && ") + bounds(s);
  std::string masked = loaded(s.dtype, b + "[" + element(s.address) + "]");
  if (!inside.empty()) {
    const uint64_t fill = s.bounds.empty() ? 0 : register_bits(s.constant, s.dtype);
    masked = inside + " ? " + masked + " : " + literal(register_lane(s.dtype), fill);
  }
  if (columns_mode) vars_[loop_->vars[0]] = "(i + k)";
  if (!is_contiguous(s.address) || !s.bounds.empty()) return lanes(name + " = " + masked + ";");
  line("if (whole) {");
  line(type + " raw[V];");
  line("load_whole(raw, " + b + " + (" + affine(s.address.map, loop_->vars[0]) + ") + i);");
  lanes(name + " = " + loaded(s.dtype, "raw[k]") + ";");
  line("} else {");
  lanes(name + " = " + masked + ";");
  line("}");
}

/// Of a row that stays: its first loop brings it to shared memory.
void KernelEmitter::load_of_row(const Stmt& s, const KernelShape::KeptRow& row) {
  const std::string name = value(s.result), n = std::to_string(s.address.buffer);
  const std::string at = "[" + vars_[loop_->vars[0]] + "]";
  if (row.last_store || row.first != loop_) return lanes(name + " = " + loaded(s.dtype, "found" + n + at) + ";");
  const std::string raw = "raw" + std::to_string(s.result);
  line(std::string(type_name(storage_lane(s.dtype))) + " " + raw + "[V];");
  lanes(raw + "[k] = " + buffer(s.address.buffer) + "[" + element(s.address) + "];");
  line("if (row" + n + ") {");
  lanes("if (j + k * lanes < n) row" + n + at + " = " + raw + "[k];");
  line("}");
  lanes(name + " = " + loaded(s.dtype, raw + "[k]") + ";");
}

void KernelEmitter::varying_store(const Stmt& s) {
  const bool columns_mode = shape_.mode == KernelShape::kColumns;
  std::string active = columns_mode ? "k < left" : "j + k * lanes < n";
  const std::string x = stored(s.dtype, value(s.args[0]));
  if (const Kept* kept = kept_of(s.address.buffer)) return lanes(kept->name + "[k] = " + x + ";");
  const std::string b = buffer(s.address.buffer);
  const VarId v = loop_->vars[0];
  // All elements go to one place: the last stays.
  const bool one_place = is_fixed(s.address.map, v) && std::ranges::none_of(s.address.indirect, [&](const auto& i) {
                           return locals_[i.index].varies;
                         });
  if (const KernelShape::KeptRow* row = kept_row(s.address.buffer); row && row->last_store != &s) {
    return lanes("if (" + active + ") found" + std::to_string(s.address.buffer) + "[" + vars_[v] + "] = " + x + ";");
  }
  if (one_place) active = vars_[v] + " == n - 1";
  const std::string masked = "if (" + active + ") " + b + "[" + element(s.address) + "] = " + x + ";";
  if (!is_contiguous(s.address)) return lanes(masked);
  line("if (whole) {");
  line(std::string(type_name(storage_lane(s.dtype))) + " raw[V];");
  lanes("raw[k] = " + x + ";");
  line("store_whole(" + b + " + (" + affine(s.address.map, v) + ") + i, raw);");
  line("} else {");
  lanes(masked);
  line("}");
}

/// Adds to a column: after the round, or at once where there is one group.
void KernelEmitter::varying_add(const KernelShape::TeamColumn& c) {
  const DType t = k_.buffers[c.buffer].dtype;
  const std::string b = std::to_string(c.buffer), type = type_name(storage_lane(t)), x = value(c.step->args[1]);
  const std::string at = buffer(c.buffer) + "[" + element(c.load->address) + "]";
  line("if (slots" + b + ") {");
  line(type + "* const slot = reinterpret_cast<" + type + "*>(shared + a.slots" + b + " + a.slot_bytes" + b +
       " * threadIdx.y);");
  lanes("if (j + k * lanes < n) slot[" + vars_[loop_->vars[0]] + "] = " + stored(t, x) + ";");
  line("} else {");
  lanes("if (j + k * lanes < n) " + at + " = " +
        stored(t, functions_.primitive(c.step->op, t) + "(" + loaded(t, at) + ", " + x + ")") + ";");
  line("}");
}

/// Takes the elements of a loop to registers before it, and back after.
void KernelEmitter::transfer_kept(const Kept& kept, bool load) {
  const std::string type = type_name(storage_lane(k_.buffers[kept.buffer].dtype)), b = buffer(kept.buffer);
  vars_[kept.var] = "(i + k)";
  const bool contiguous = shape_.vector > 1 && stride_of(kept.address.map, kept.var) == IntRef{1};
  const std::string at = b + " + (" + affine(kept.address.map, kept.var) + ") + i";
  const std::string one = b + "[" + element(kept.address) + "]";
  if (load) line(type + " " + kept.name + "[V];");
  const std::string masked = load ? kept.name + "[k] = k < left ? " + one + " : static_cast<" + type + ">(0);"
                                  : "if (k < left) " + one + " = " + kept.name + "[k];";
  if (!contiguous) return lanes(masked);
  line("if (whole) {");
  line(load ? "load_whole(" + kept.name + ", " + at + ");" : "store_whole(" + at + ", " + kept.name + ");");
  line("} else {");
  lanes(masked);
  line("}");
}

}  // namespace smolder::jit::cuda
