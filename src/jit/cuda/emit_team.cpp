// A sequential loop whose turns the groups of a block take side by side, and what they add to columns: where groups
// take elements of a row each, and where they share out the elements of rows.
#include <algorithm>
#include <utility>

#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

// -- columns: a thread has the same elements of all its turns

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
  line("for_team_columns<V" + ways("whole", "tile, ") + ", [&](i64 first, auto lanes) {");
  lanes_begin();
  line("const i64 i = first + threadIdx.x * V;");
  line("if (groups == blockDim.y && first >= n) return;");
  line("const bool mine = i < n;");
  body(shape_.chunk_loop->body);
  line("});");
}

/// Rounds of as many strips as there are groups. What a strip comes to waits in a slot until all have theirs; then a
/// thread adds up an element, in order. One group alone goes from strip to strip, and adds at once.
void KernelEmitter::column_turns(const Stmt& s) {
  const std::string v = vars_[s.vars[0]], all = integer(s.extents[0]);
  const auto at = [&](const KernelShape::TeamColumn& c) {
    return cat({buffer(c.buffer), "[", affine(c.address().map, c.vector->vars[0]), " + first + column",
                std::to_string(c.buffer), "]"});
  };
  const auto chunk = [&](const KernelShape::TeamColumn& c) {
    return buffer(c.buffer) + " + (" + affine(c.address().map, c.vector->vars[0]) + ") + i";
  };
  const auto each = [&](const auto& visit) {
    for (const auto& c : shape_.columns) visit(c, std::to_string(c.buffer));
  };
  line("const bool alone = groups == 1;");
  line("const int slot = group * blockDim.x + threadIdx.x;");
  line("const bool adds = !alone && slot < blockDim.x * V;");
  if (std::ranges::any_of(shape_.columns, [](const auto& c) { return !c.has_initial(); })) line("__syncthreads();");
  each([&](const KernelShape::TeamColumn& c, const std::string& b) {
    const std::string type = type_name(storage_lane(k_.buffers[c.buffer].dtype));
    line(cat({type, "* const slots", b, " = reinterpret_cast<", type, "*>(shared + a.slots", b, ") + a.slot_size", b,
              " * (threadIdx.y / groups * groups);"}));
    line(cat({"const int column", b, " = slot_column<", type, ", V>(slot);"}));
    line(cat({"const bool owns", b, " = adds && first + column", b, " < n;"}));
    line(cat({type, " sum", b, " = ", c.has_initial() ? initial(c) : cat({"owns", b, " ? ", at(c), " : ", type, "()"}),
              ";"}));
    line(cat({pack(c.buffer), " own", b, ";"}));
    line("if (alone) {");
    c.has_initial() ? lanes(cat({"own", b, ".x[k] = sum", b, ";"}))
                    : line(cat({"if (mine) load_whole(own", b, ", ", chunk(c), ");"}));
    line(cat({"store_slot(slots", b, ", own", b, ");"}));
    line("}");
    lanes(cat({"own", b, ".x[k] = ", identity(c), ";"}));
  });
  line("const int end = static_cast<int>(" + extent(s) + "), all = static_cast<int>(" + all + ");");
  line("const int strip = static_cast<int>(a.strip), span = alone ? all : strip * groups;");
  line("int last = alone ? strip - 1 : -1;");
  line("#pragma unroll 1");
  line("for (int round = 0; round < all; round += span) {");
  line("const int begin = round + group * strip, stop = !mine ? 0 : alone ? end : smaller(begin + strip, end);");
  if (!shape_.ahead.empty()) places_ahead(s);
  line("#pragma unroll 1");
  line("for (int turn = begin; turn < stop; turn += U) {");
  if (!shape_.ahead.empty()) load_ahead(s);
  line("#pragma unroll");
  line("for (int u = 0; u < U; ++u) {");
  line("const int " + v + " = turn + u;");
  line("if (" + v + " < stop) {");
  in_team_ = true;
  body(s.body);
  in_team_ = false;
  line("if (" + v + " == last) {");
  each([&](const KernelShape::TeamColumn& c, const std::string& b) {
    add_strip(c);
    line(cat({"store_slot(slots", b, ", total", b, ");"}));
    lanes(cat({"own", b, ".x[k] = ", identity(c), ";"}));
  });
  line("last += strip;");
  line("}");
  line("}");
  line("}");
  line("}");
  line("if (alone) continue;");
  each([&](const KernelShape::TeamColumn& c, const std::string& b) {
    line(cat({"store_slot(slots", b, " + a.slot_size", b, " * group, own", b, ");"}));
    lanes(cat({"own", b, ".x[k] = ", identity(c), ";"}));
  });
  line("__syncthreads();");
  line("const int turns = smaller((end - round + strip - 1) / strip, groups);");
  each([&](const KernelShape::TeamColumn& c, const std::string& b) {
    line(cat({"if (owns", b, ") sum", b, " = add_slots(sum", b, ", slots", b, " + slot, a.slot_size", b, ", turns, ",
              step_of(c), ");"}));
  });
  line("if (V == 1 || round + span < all) __syncthreads();");
  line("}");
  each([&](const KernelShape::TeamColumn& c, const std::string& b) {
    line(cat({"if (owns", b, ") ", at(c), " = sum", b, ";"}));
    line("if (alone && mine) {");
    add_strip(c);
    line(cat({"store_whole(", chunk(c), ", total", b, ");"}));
    line("}");
  });
  if (&s != &body_of(k_).back()) line("__syncthreads();");
}

/// What a group that is alone has of all strips, which waits in its slot.
void KernelEmitter::add_strip(const KernelShape::TeamColumn& c) {
  const std::string b = std::to_string(c.buffer);
  line(cat({pack(c.buffer), " total", b, ";"}));
  line(cat({"load_slot(total", b, ", slots", b, ");"}));
  add_lanes(c, "total" + b + ".x[k]", "own" + b + ".x[k]");
}

void KernelEmitter::add_lanes(const KernelShape::TeamColumn& c, const std::string& to, const std::string& x) {
  const DType t = k_.buffers[c.buffer].dtype;
  lanes(to + " = " + stored(t, functions_.primitive(c.step(), t) + "(" + loaded(t, to) + ", " + loaded(t, x) + ")") +
        ";");
}

/// As memory has it.
std::string KernelEmitter::identity(const KernelShape::TeamColumn& c) const {
  const DType t = k_.buffers[c.buffer].dtype;
  return stored(t, literal(register_lane(t), register_bits(step_identity(c.step(), t), t)));
}

/// Where what the strip's turns load is.
void KernelEmitter::places_ahead(const Stmt& s) {
  for_each_statement(s, [&](const Stmt& x, const Stmt* vector) {
    if (!is_ahead(x) || !x.bounds.empty()) return;
    std::string& turn = vars_[s.vars[0]];
    const std::string name = std::exchange(turn, "begin");
    vars_[vector->vars[0]] = "i";
    const std::string number = std::to_string(x.result);
    const std::string at = cat({buffer(x.address.buffer), " + (", affine(x.address.map, vector->vars[0]), ") + i"});
    turn = name;
    if (!is_made_once(x)) return line(cat({"const auto* at", number, " = ", at, ";"}));
    line(cat({pack(x.address.buffer), " same", number, ";"}));
    line(cat({"if (begin < stop) load_whole(same", number, ", ", at, ");"}));
  });
}

/// What some turns load, all of it before the first is taken: what is loaded while a turn runs has that turn wait, as a
/// thread can tell only a few loads apart.
void KernelEmitter::load_ahead(const Stmt& s) {
  const std::string v = vars_[s.vars[0]];
  std::string steps;
  line(entry_ + "_loads<V> loads[U];");
  line("#pragma unroll");
  line("for (int u = 0; u < U; ++u) {");
  line(cat({"if (const int ", v, " = turn + u; ", v, " < stop) {"}));
  for_each_statement(s, [&](const Stmt& x, const Stmt* vector) {
    if (!is_ahead(x) || is_made_once(x)) return;
    const std::string number = std::to_string(x.result), to = "load_whole(loads[u].raw" + number + ", ";
    vars_[vector->vars[0]] = "i";
    if (!x.bounds.empty()) {
      return line(cat({"if (R && ", bounds(x), ") ", to, buffer(x.address.buffer), " + (",
                       affine(x.address.map, vector->vars[0]), ") + i);"}));
    }
    line(cat({to, "at", number, ");"}));
    steps += cat({steps.empty() ? "" : " ", "at", number, " += ", integer(stride_of(x.address.map, s.vars[0])), ";"});
  });
  line("}");
  if (!steps.empty()) line(steps);
  line("}");
}

std::string KernelEmitter::initial(const KernelShape::TeamColumn& c) const {
  return stored(k_.buffers[c.buffer].dtype, value(c.combine->args[1]));
}

std::string KernelEmitter::step_of(const KernelShape::TeamColumn& c) {
  const DType t = k_.buffers[c.buffer].dtype;
  const std::string type = type_name(storage_lane(t));
  const std::string sum = functions_.primitive(c.step(), t) + "(" + loaded(t, "x") + ", " + loaded(t, "y") + ")";
  return cat({"[](", type, " x, ", type, " y) { return static_cast<", type, ">(", stored(t, sum), "); }"});
}

// -- rows: the threads of a group share out the elements of a turn

/// What strips come to is in slots, in shared memory, or the device's for want of room.
void KernelEmitter::slots() {
  for (const auto& column : shape_.columns) {
    const std::string b = std::to_string(column.buffer);
    const std::string type = type_name(storage_lane(k_.buffers[column.buffer].dtype));
    line(cat({type, "* const slots", b, " = a.memory", b, " ? reinterpret_cast<", type, "*>(a.memory", b,
              ") + a.slot_size", b, " * a.strips * position : reinterpret_cast<", type, "*>(shared + a.slots", b,
              ");"}));
    line(cat({type, "* const sums", b, " = ", buffer(column.buffer), " + (",
              affine(column.address().map, column.vector->vars[0]), ");"}));
    if (column.in_registers) line(cat({pack(column.buffer), " own", b, "[C];"}));
  }
}

/// The thread's part of a strip begins.
void KernelEmitter::begin_strip() {
  for (const auto& c : shape_.columns) {
    const std::string b = std::to_string(c.buffer), identity = this->identity(c);
    const std::string type = type_name(storage_lane(k_.buffers[c.buffer].dtype));
    line(cat({type, "* const slot", b, " = slots", b, " + a.slot_size", b, " * s;"}));
    if (c.in_registers) {
      line("if constexpr (fits) {");
      line("#pragma unroll");
      line(cat({"for (int c = 0; c < C; ++c) FOR_LANES own", b, "[c].x[k] = ", identity, ";"}));
      line("} else {");
    }
    line("#pragma unroll 1");
    line(cat({"for (i64 j = t; j < ", extent(*c.vector), "; j += blockDim.x) slot", b, "[j] = ", identity, ";"}));
    if (c.in_registers) line("}");
  }
  line(group_sync());
}

/// What is in registers goes to the slot.
void KernelEmitter::end_strip() {
  for (const auto& c : shape_.columns) {
    if (!c.in_registers) continue;
    const std::string b = std::to_string(c.buffer);
    line("if constexpr (fits) {");
    line(cat({"const int n = static_cast<int>(", extent(*c.vector), "), first = t * V;"}));
    line(cat({"FOR_CHUNKS store_whole(slot", b, " + i, own", b, "[c]);"}));
    line("}");
  }
}

/// Rows of a turn that are on their way when the turn before ends.
bool KernelEmitter::is_read_ahead(const KernelShape::HeldRow& row) const {
  return shape_.team && has_two_rows() && !row.is_written() &&
         std::ranges::any_of(shape_.team->body, [&](const Stmt& s) { return &s == row.first; });
}

/// A number that all lanes load. It is used at once: as long as it may not have been, whatever its register is written
/// with waits for all loads, those of the next turn too.
void KernelEmitter::number_of_turn(const Stmt& s) {
  const Local& l = define(s, false);
  const std::string ahead = "ahead" + std::to_string(s.result);
  const bool is_ahead = is_number_ahead(s);
  const std::string raw = is_ahead ? ahead : cat({buffer(s.address.buffer), "[", element(s.address), "]"});
  line(cat(
      {"const ", type_name(register_lane(l.dtype)), " ", l.name, " = ", loaded(s.dtype, "same(" + raw + ")"), ";"}));
  if (is_ahead) line(cat({"if (next < end) ", ahead, " = ", number_at(s, "next"), ";"}));
}

/// Of such a number, whether it is on its way a turn before.
bool KernelEmitter::is_number_ahead(const Stmt& s) const {
  return s.kind == StmtKind::kLoad && s.bounds.empty() && s.address.indirect.empty() &&
         !k_.buffers[s.address.buffer].write;
}

std::string KernelEmitter::number_at(const Stmt& s, const std::string& turn) {
  const std::string name = std::exchange(vars_[shape_.team->vars[0]], turn);
  const std::string at = cat({buffer(s.address.buffer), "[", element(s.address), "]"});
  vars_[shape_.team->vars[0]] = name;
  return at;
}

/// Rounds of as many strips as there are slots, of which each group has some.
void KernelEmitter::team(const Stmt& s) {
  const std::string v = vars_[s.vars[0]];
  slots();
  shared_rows();
  line("const int end = static_cast<int>(" + extent(s) + "), strip = static_cast<int>(a.strip);");
  line("const int strips = static_cast<int>(a.strips);");
  line("__syncthreads();");
  line("#pragma unroll 1");
  line("for (int round = 0; round == 0 || round < end; round += strip * strips) {");
  line("#pragma unroll 1");
  line("for (int s = threadIdx.y; s < strips; s += blockDim.y) {");
  line("const int begin = round + strip * s, stop = smaller(begin + strip, end);");
  begin_strip();
  for (const Stmt& x : s.body) {
    if (!is_number_ahead(x)) continue;
    line(cat({type_name(storage_lane(x.dtype)), " ahead", std::to_string(x.result), " = begin < stop ? ",
              number_at(x, "begin"), " : ", type_name(storage_lane(x.dtype)), "();"}));
  }
  line("#pragma unroll 1");
  line("for (int " + v + " = begin; " + v + " < stop; ++" + v + ") {");
  line("const int next = " + v + " + 1 < stop ? " + v + " + 1 : begin + strip * blockDim.y;");
  if (has_two_rows()) line("const bool starts = " + v + " == strip * threadIdx.y, more = next < end;");
  in_team_ = true;
  body(s.body);
  in_team_ = false;
  line("}");
  end_strip();
  line("}");
  line("__syncthreads();");
  line("const int turns = smaller((end - round + strip - 1) / strip, strips);");
  for (size_t i = 0; i < shape_.columns.size(); ++i) add_in_order(i);
  line("__syncthreads();");
  line("}");
}

bool KernelEmitter::is_shared(const Address& a) const {
  return std::ranges::find(shape_.shared_rows, a.buffer, &KernelShape::SharedRow::buffer) != shape_.shared_rows.end();
}

/// Rows that all turns read: what is read of the device's memory beside them leaves the first-level cache no room.
void KernelEmitter::shared_rows() {
  for (const auto& row : shape_.shared_rows) {
    const std::string b = std::to_string(row.buffer), name = "shared_row" + b;
    const std::string type = type_name(storage_lane(k_.buffers[row.buffer].dtype));
    const std::string from =
        cat({buffer(row.buffer), " + (", affine(row.stage->address.map, row.vector->vars[0]), ")"});
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

/// Each column begins with other threads, so that they add side by side.
void KernelEmitter::add_in_order(size_t column) {
  const KernelShape::TeamColumn& c = shape_.columns[column];
  const std::string b = std::to_string(c.buffer);
  line(cat({"add_turns<V>(", std::to_string(column), ", ", std::to_string(shape_.columns.size()), ", sums", b, ", ",
            c.has_initial() ? "round == 0, " + initial(c) : "false, " + identity(c), ", slots", b, ", a.slot_size", b,
            ", turns, ", extent(*c.vector), shape_.vector > 1 ? ", aligned, " : ", false, ", step_of(c), ");"}));
}

/// Adds to a strip.
void KernelEmitter::combine(const Stmt& s) {
  const KernelShape::TeamColumn& c = *std::ranges::find(shape_.columns, &s, &KernelShape::TeamColumn::combine);
  const DType t = k_.buffers[c.buffer].dtype;
  const std::string b = std::to_string(c.buffer), x = value(s.args[0]);
  const auto add = [&](const std::string& own) {
    lanes(own + " = " + stored(t, functions_.primitive(c.step(), t) + "(" + loaded(t, own) + ", " + x + ")") + ";");
  };
  if (const Kept* kept = kept_of(c.buffer)) return add(kept->name + ".x[k]");
  if (is_columns()) return add("own" + b + ".x[k]");
  if (c.in_registers) {
    line("if constexpr (V > 1 && fits) {");
    add("own" + b + "[c].x[k]");
    line("} else {");
  }
  const std::string out = "out" + std::to_string(outs_++);
  line(pack(c.buffer) + " " + out + ";");
  line("load_whole(" + out + ", slot" + b + " + i);");
  add(out + ".x[k]");
  line("store_whole(slot" + b + " + i, " + out + ");");
  if (c.in_registers) line("}");
}

}  // namespace smolder::jit::cuda
