// A sequential loop whose turns the groups of a block take side by side, and what they add to columns: where groups
// take elements of a row each, and where they share out the elements of rows.
#include <algorithm>
#include <utility>

#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

// -- kColumns: a thread has the same elements of all its turns

/// As `columns`, where the threads of a block meet: all take the same way. A block may have several positions.
void KernelEmitter::team_of_columns(const Stmt& vector) {
  line("constexpr int U = " + std::to_string(shape_.at_once) + ";");
  line("const int groups = static_cast<int>(a.groups), group = threadIdx.y % groups;");
  line("const i64 place = static_cast<i64>(row) * (blockDim.y / groups) + threadIdx.y / groups;");
  line("const i64 position = smaller(place, a.positions - 1);");
  position("position");
  std::string whole = integer(vector.extents[0]) + " % V == 0";
  if (vector.clamp_var >= 0) whole += " && " + integer(vector.clamp_total) + " % V == 0";
  line("const bool whole = " + aligned() + " && " + whole + ";");
  line("const i64 n = place < a.positions ? " + extent(vector) + " : 0;");
  regular();
  line("for_team_columns<V>(tile, whole" + regular_argument() + ", [&](i64 first, auto lanes) {");
  lanes_begin();
  line("const i64 i = first + threadIdx.x * V;");
  line("if (groups == blockDim.y && first >= n) return;");
  line("const bool mine = i < n;");
  body(k_.root.body);
  line("});");
}

/// Rounds of as many turns as the groups have at once. What they add waits in slots until all have theirs; then a
/// thread adds up an element, in order. One group alone adds at once.
void KernelEmitter::column_turns(const Stmt& s) {
  const std::string v = vars_[s.vars[0]], turn = "const i64 " + v + " = round + u * groups + group;";
  const auto at = [&](const KernelShape::TeamColumn& c) {
    return cat({buffer(c.buffer), "[", affine(c.load->address.map, c.vector->vars[0]), " + first + column",
                std::to_string(c.buffer), "]"});
  };
  const auto chunk = [&](const KernelShape::TeamColumn& c) {
    return buffer(c.buffer) + " + (" + affine(c.load->address.map, c.vector->vars[0]) + ") + i";
  };
  const auto each = [&](const auto& visit) {
    for (const auto& c : shape_.columns) visit(c, std::to_string(c.buffer));
  };
  line("const bool alone = groups == 1;");
  line("const int slot = group * blockDim.x + threadIdx.x;");
  line("const bool adds = !alone && slot < blockDim.x * V;");
  if (std::ranges::any_of(shape_.columns, [](const auto& c) { return !c.initial; })) line("__syncthreads();");
  each([&](const KernelShape::TeamColumn& c, const std::string& b) {
    const std::string type = type_name(storage_lane(k_.buffers[c.buffer].dtype));
    line(cat({type, "* const slots", b, " = reinterpret_cast<", type, "*>(shared + a.slots", b, ") + a.slot_size", b,
              " * (threadIdx.y / groups * groups * U);"}));
    line(cat({"const int column", b, " = slot_column<", type, ", V>(slot);"}));
    line(cat({"const bool owns", b, " = adds && first + column", b, " < n;"}));
    line(
        cat({type, " sum", b, " = ", c.initial ? initial(c) : cat({"owns", b, " ? ", at(c), " : ", type, "()"}), ";"}));
    line(cat({pack(c.buffer), " own", b, ";"}));
    c.initial ? lanes(cat({"own", b, ".x[k] = sum", b, ";"}))
              : line(cat({"if (mine) load_whole(own", b, ", ", chunk(c), ");"}));
  });
  line("const i64 end = " + extent(s) + ";");
  if (!shape_.ahead.empty()) load_ahead(s);
  line("#pragma unroll 1");
  line("for (i64 round = 0; round < " + integer(s.extents[0]) + "; round += U * groups) {");
  line("#pragma unroll");
  line("for (int u = 0; u < U; ++u) {");
  line(turn);
  line("if (mine && " + v + " < end) {");
  in_team_ = true;
  body(s.body);
  in_team_ = false;
  line("}");
  line("}");
  if (!shape_.ahead.empty()) line("load(round + U * groups);");
  line("if (alone) continue;");
  line("__syncthreads();");
  line("const int turns = static_cast<int>(smaller(end - round, U * groups));");
  each([&](const KernelShape::TeamColumn& c, const std::string& b) {
    line(cat({"if (owns", b, ") sum", b, " = add_slots(sum", b, ", slots", b, " + slot, a.slot_size", b, ", turns, ",
              step_of(c), ");"}));
  });
  line("__syncthreads();");
  line("}");
  each([&](const KernelShape::TeamColumn& c, const std::string& b) {
    line(cat({"if (owns", b, ") ", at(c), " = sum", b, ";"}));
    line(cat({"if (alone && mine) store_whole(", chunk(c), ", own", b, ");"}));
  });
  if (&s != &k_.root.body.back()) line("__syncthreads();");
}

/// What turns of a round load, from its number.
void KernelEmitter::load_ahead(const Stmt& s) {
  const std::string v = vars_[s.vars[0]];
  line(entry_ + "_loads<V> loads[U];");
  line("const auto load = [&](i64 round) {");
  line("#pragma unroll");
  line("for (int u = 0; u < U; ++u) {");
  line("const i64 " + v + " = round + u * groups + group;");
  line("if (mine && " + v + " < end) {");
  for_each_statement(s, [&](const Stmt& x, const Stmt* vector) {
    if (std::ranges::find(shape_.ahead, &x) == shape_.ahead.end()) return;
    const std::string load = cat({"load_whole(loads[u].raw", std::to_string(x.result), ", ", buffer(x.address.buffer),
                                  " + (", affine(x.address.map, vector->vars[0]), ") + i);"});
    vars_[vector->vars[0]] = "i";
    line(x.bounds.empty() ? load : "if (R && " + bounds(x) + ") " + load);
  });
  line("}");
  line("}");
  line("};");
  line("load(0);");
}

/// Whether all that a loop does is what `initial` says of a column.
bool KernelEmitter::sets_column(const Stmt& s) const {
  return std::ranges::find(shape_.columns, &s, &KernelShape::TeamColumn::initial) != shape_.columns.end();
}

std::string KernelEmitter::initial(const KernelShape::TeamColumn& c) const {
  return stored(k_.buffers[c.buffer].dtype, value(c.initial->body[0].args[0]));
}

std::string KernelEmitter::step_of(const KernelShape::TeamColumn& c) {
  const DType t = k_.buffers[c.buffer].dtype;
  const std::string type = type_name(storage_lane(t));
  const std::string sum = functions_.primitive(c.step->op, t) + "(" + loaded(t, "x") + ", " + loaded(t, "y") + ")";
  return cat({"[](", type, " x, ", type, " y) { return static_cast<", type, ">(", stored(t, sum), "); }"});
}

// -- kRows: the threads of a group share out the elements of a turn

/// What groups add to columns waits in slots, in shared memory, where there are several. The sums are there too, or
/// where they belong for want of room.
void KernelEmitter::slots() {
  for (const auto& column : shape_.columns) {
    const std::string b = std::to_string(column.buffer);
    const std::string type = type_name(storage_lane(k_.buffers[column.buffer].dtype));
    const auto in_shared = [&](const std::string& name) {
      return cat({"reinterpret_cast<", type, "*>(shared + a.", name, b, ")"});
    };
    line(cat({type, "* const slots", b, " = ", in_shared("slots"), ";"}));
    const std::string at =
        buffer(column.buffer) + " + (" + affine(column.load->address.map, column.vector->vars[0]) + ")";
    line(cat({type, "* const sums", b, " = a.sums", b, " < 0 ? ", at, " : ", in_shared("sums"), ";"}));
  }
}

/// Rows of a turn that are on their way when the turn before ends.
bool KernelEmitter::is_read_ahead(const KernelShape::HeldRow& row) const {
  return shape_.team && row.load && row.last->clamp_var < 0 &&
         std::ranges::any_of(shape_.team->body, [&](const Stmt& s) { return &s == row.first; });
}

/// A number that all lanes load. It is used at once: as long as it may not have been, whatever its register is written
/// with waits for all loads, those of the next turn too.
void KernelEmitter::number_of_turn(const Stmt& s) {
  const Local& l = define(s, false);
  const std::string raw = cat({"same(", buffer(s.address.buffer), "[", element(s.address), "])"});
  line(cat({"const ", type_name(register_lane(l.dtype)), " ", l.name, " = ", loaded(s.dtype, raw), ";"}));
}

/// Rounds of as many turns as the block has groups. What they add to columns waits in slots until all have theirs.
void KernelEmitter::team(const Stmt& s) {
  const std::string v = vars_[s.vars[0]];
  line("__syncthreads();");
  slots();
  for (const auto& column : shape_.columns) move_sums(column, true);
  shared_rows();
  line("const int end = static_cast<int>(" + extent(s) + ");");
  line("__syncthreads();");
  line("#pragma unroll 1");
  line("for (int round = 0; round < end; round += blockDim.y) {");
  line("const int " + v + " = round + threadIdx.y, next = " + v + " + blockDim.y;");
  line("const bool more = fits && next < end;");
  line("if (" + v + " < end) {");
  in_team_ = true;
  body(s.body);
  in_team_ = false;
  line("}");
  line("if (blockDim.y == 1) continue;");
  line("__syncthreads();");
  line("const int turns = end - round < blockDim.y ? end - round : blockDim.y;");
  for (size_t i = 0; i < shape_.columns.size(); ++i) add_in_order(i);
  line("__syncthreads();");
  line("}");
  line("__syncthreads();");
  for (const auto& column : shape_.columns) move_sums(column, false);
  line("__syncthreads();");
}

bool KernelEmitter::is_shared(const Address& a) const {
  return std::ranges::find(shape_.shared_rows, a.buffer, &KernelShape::SharedRow::buffer) != shape_.shared_rows.end();
}

/// Rows that all turns read: what is read of the device's memory beside them leaves the first-level cache no room.
void KernelEmitter::shared_rows() {
  for (const auto& row : shape_.shared_rows) {
    const std::string b = std::to_string(row.buffer), name = "shared_row" + b;
    const std::string type = type_name(storage_lane(k_.buffers[row.buffer].dtype));
    const std::string from = cat({buffer(row.buffer), " + (", affine(row.load->address.map, row.vector->vars[0]), ")"});
    line(cat({type, "* const ", name, " = a.row", b, " < 0 ? ", from, " : reinterpret_cast<", type, "*>(shared + a.row",
              b, ");"}));
    line("if (a.row" + b + " >= 0) {");
    line("#pragma unroll 1");
    line("for (i64 j = threadIdx.y * blockDim.x + t; j < " + extent(*row.vector) + "; j += blockDim.x * blockDim.y) {");
    line(cat({name, "[j] = (", from, ")[j];"}));
    line("}");
    line("}");
  }
}

/// To shared memory before the loop, and back after it.
void KernelEmitter::move_sums(const KernelShape::TeamColumn& c, bool load) {
  const std::string b = std::to_string(c.buffer),
                    at = cat({buffer(c.buffer), "[", affine(c.load->address.map, c.vector->vars[0]), " + j]"});
  const bool sets = load && c.initial;
  if (!sets) line("if (a.sums" + b + " >= 0) {");
  line("#pragma unroll 1");
  line("for (i64 j = threadIdx.y * blockDim.x + t; j < " + extent(*c.vector) + "; j += blockDim.x * blockDim.y) {");
  line(load ? "sums" + b + "[j] = " + (sets ? initial(c) : at) + ";" : at + " = sums" + b + "[j];");
  line("}");
  if (!sets) line("}");
}

/// Each column begins with other threads, so that they add side by side. Where there are several groups there is room
/// for the sums, and a load that may be from anywhere would wait for those of the next turn.
void KernelEmitter::add_in_order(size_t column) {
  const KernelShape::TeamColumn& c = shape_.columns[column];
  const std::string b = std::to_string(c.buffer), type = type_name(storage_lane(k_.buffers[c.buffer].dtype));
  line(cat({"add_turns<V>(", std::to_string(column), ", ", std::to_string(shape_.columns.size()), ", reinterpret_cast<",
            type, "*>(shared + a.sums", b, "), slots", b, ", a.slot_size", b, ", turns, ", extent(*c.vector),
            ", aligned, ", step_of(c), ");"}));
}

/// The column that a statement is part of, where groups take turns.
const KernelShape::TeamColumn* KernelEmitter::team_column(const Stmt& s) const {
  if (!in_team_) return nullptr;
  const auto it = std::ranges::find_if(shape_.columns,
                                       [&](const auto& c) { return &s == c.load || &s == c.step || &s == c.store; });
  return it == shape_.columns.end() ? nullptr : &*it;
}

/// Adds to a column: after the round, or at once where there is one group.
void KernelEmitter::varying_add(const KernelShape::TeamColumn& c) {
  const DType t = k_.buffers[c.buffer].dtype;
  const std::string b = std::to_string(c.buffer), x = value(c.step->args[1]);
  const std::string out = "out" + std::to_string(outs_++);
  if (shape_.mode == KernelShape::kColumns) {
    const std::string own = "own" + b + ".x[k]";
    const std::string sum = functions_.primitive(c.step->op, t) + "(" + loaded(t, own) + ", " + x + ")";
    line("if (alone) {");
    lanes(own + " = " + stored(t, sum) + ";");
    line("} else {");
    line(pack(c.buffer) + " " + out + ";");
    lanes(out + ".x[k] = " + stored(t, x) + ";");
    line(cat({"store_slot(slots", b, " + a.slot_size", b, " * (u * groups + group), ", out, ");"}));
    return line("}");
  }
  line(pack(c.buffer) + " " + out + ";");
  line("if (blockDim.y > 1) {");
  lanes(out + ".x[k] = " + stored(t, x) + ";");
  line(cat({"store_shared(slots", b, " + a.slot_size", b, " * threadIdx.y + i, ", out, ");"}));
  line("} else {");
  line("load_whole(" + out + ", sums" + b + " + i);");
  const std::string sum = functions_.primitive(c.step->op, t) + "(" + loaded(t, out + ".x[k]") + ", " + x + ")";
  lanes(out + ".x[k] = " + stored(t, sum) + ";");
  line("store_whole(sums" + b + " + i, " + out + ");");
  line("}");
}

}  // namespace smolder::jit::cuda
