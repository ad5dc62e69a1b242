// A split loop where threads take chunks: groups of a block take its segments side by side, each thread the same
// elements in all iterations, and add up what segments come to.
#include <algorithm>
#include <utility>

#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

/// As `columns`, where the threads of a block meet: all take the same way. A block may have several positions.
void KernelEmitter::split_columns(const Stmt& vector) {
  line("constexpr int U = " + std::to_string(shape_.group_split->unroll) + ";");
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

/// Calls `visit` with each sum and the number of its buffer.
void KernelEmitter::each_sum(const auto& visit) const {
  for (const auto& c : shape_.sums) visit(c, std::to_string(c.buffer));
}

/// The element of a sum that the thread adds up in the end.
std::string KernelEmitter::summed_element(const KernelShape::SplitSum& c) const {
  return cat({buffer(c.buffer), "[", affine(c.address().map, c.vector->vars[0]), " + first + column",
              std::to_string(c.buffer), "]"});
}

std::string KernelEmitter::summed_chunk(const KernelShape::SplitSum& c) const {
  return buffer(c.buffer) + " + (" + affine(c.address().map, c.vector->vars[0]) + ") + i";
}

/// Rounds of as many segments as there are groups. What a segment comes to waits in a slot until all have theirs; then
/// a thread adds up an element, in order. One group alone goes from segment to segment, and adds at once.
void KernelEmitter::split_iterations(const Stmt& s) {
  const std::string all = integer(s.extents[0]);
  begin_column_sums();
  line("const int end = static_cast<int>(" + extent(s) + "), all = static_cast<int>(" + all + ");");
  line("const int segment = static_cast<int>(a.segment), span = alone ? all : segment * groups;");
  line("int last = alone ? segment - 1 : -1;");
  line("#pragma unroll 1");
  line("for (int round = 0; round < all; round += span) {");
  column_segment(s);
  line("if (alone) continue;");
  each_sum([&](const KernelShape::SplitSum& c, const std::string& b) {
    line(cat({"store_slot(slots", b, " + a.slot_size", b, " * group, own", b, ");"}));
    lanes(cat({"own", b, ".x[k] = ", identity(c), ";"}));
  });
  line("__syncthreads();");
  line("const int filled = smaller((end - round + segment - 1) / segment, groups);");
  each_sum([&](const KernelShape::SplitSum& c, const std::string& b) {
    line(cat({"if (owns", b, ") sum", b, " = add_slots(sum", b, ", slots", b, " + slot, a.slot_size", b, ", filled, ",
              step_of(c), ");"}));
  });
  line("if (V == 1 || round + span < all) __syncthreads();");
  line("}");
  end_column_sums();
  if (&s != &body_of(k_).back()) line("__syncthreads();");
}

/// Where the sums of segments wait, and what each begins with.
void KernelEmitter::begin_column_sums() {
  line("const bool alone = groups == 1;");
  line("const int slot = group * blockDim.x + threadIdx.x;");
  line("const bool adds = !alone && slot < blockDim.x * V;");
  if (std::ranges::any_of(shape_.sums, [](const auto& c) { return !c.has_initial(); })) line("__syncthreads();");
  each_sum([&](const KernelShape::SplitSum& c, const std::string& b) {
    const std::string type = type_name(storage_lane(k_.buffers[c.buffer].dtype));
    line(cat({type, "* const slots", b, " = reinterpret_cast<", type, "*>(shared + a.slots", b, ") + a.slot_size", b,
              " * (threadIdx.y / groups * groups);"}));
    line(cat({"const int column", b, " = slot_column<", type, ", V>(slot);"}));
    line(cat({"const bool owns", b, " = adds && first + column", b, " < n;"}));
    line(cat({type, " sum", b, " = ",
              c.has_initial() ? initial(c) : cat({"owns", b, " ? ", summed_element(c), " : ", type, "()"}), ";"}));
    line(cat({pack(c.buffer), " own", b, ";"}));
    line("if (alone) {");
    c.has_initial() ? lanes(cat({"own", b, ".x[k] = sum", b, ";"}))
                    : line(cat({"if (mine) load_whole(own", b, ", ", summed_chunk(c), ");"}));
    line(cat({"store_slot(slots", b, ", own", b, ");"}));
    line("}");
    lanes(cat({"own", b, ".x[k] = ", identity(c), ";"}));
  });
}

/// The iterations of a group's segment, a few at once.
void KernelEmitter::column_segment(const Stmt& s) {
  const std::string v = vars_[s.vars[0]];
  line("const int begin = round + group * segment, stop = !mine ? 0 : alone ? end : smaller(begin + segment, end);");
  if (!shape_.ahead.empty()) places_ahead(s);
  line("#pragma unroll 1");
  line("for (int iteration = begin; iteration < stop; iteration += U) {");
  if (!shape_.ahead.empty()) load_ahead(s);
  line("#pragma unroll");
  line("for (int u = 0; u < U; ++u) {");
  line("const int " + v + " = iteration + u;");
  line("if (" + v + " < stop) {");
  in_split_ = true;
  body(s.body);
  in_split_ = false;
  line("if (" + v + " == last) {");
  each_sum([&](const KernelShape::SplitSum& c, const std::string& b) {
    add_segment(c);
    line(cat({"store_slot(slots", b, ", total", b, ");"}));
    lanes(cat({"own", b, ".x[k] = ", identity(c), ";"}));
  });
  line("last += segment;");
  for (int depth = 0; depth < 4; ++depth) line("}");
}

/// The sums go to memory.
void KernelEmitter::end_column_sums() {
  each_sum([&](const KernelShape::SplitSum& c, const std::string& b) {
    line(cat({"if (owns", b, ") ", summed_element(c), " = sum", b, ";"}));
    line("if (alone && mine) {");
    add_segment(c);
    line(cat({"store_whole(", summed_chunk(c), ", total", b, ");"}));
    line("}");
  });
}

/// Adds up what a group that is alone has of all segments, which waits in its slot.
void KernelEmitter::add_segment(const KernelShape::SplitSum& c) {
  const std::string b = std::to_string(c.buffer);
  line(cat({pack(c.buffer), " total", b, ";"}));
  line(cat({"load_slot(total", b, ", slots", b, ");"}));
  add_lanes(c, "total" + b + ".x[k]", "own" + b + ".x[k]");
}

void KernelEmitter::add_lanes(const KernelShape::SplitSum& c, const std::string& to, const std::string& x) {
  const DType t = k_.buffers[c.buffer].dtype;
  lanes(to + " = " + stored(t, functions_.primitive(c.step(), t) + "(" + loaded(t, to) + ", " + loaded(t, x) + ")") +
        ";");
}

/// As memory has it.
std::string KernelEmitter::identity(const KernelShape::SplitSum& c) const {
  const DType t = k_.buffers[c.buffer].dtype;
  return stored(t, literal(register_lane(t), register_bits(step_identity(c.step(), t), t)));
}

/// Where what the segment's iterations load is.
void KernelEmitter::places_ahead(const Stmt& s) {
  for_each_statement(s, [&](const Stmt& x, const Stmt* vector) {
    if (!x.ahead || !x.bounds.empty()) return;
    std::string& iteration = vars_[s.vars[0]];
    const std::string name = std::exchange(iteration, "begin");
    vars_[vector->vars[0]] = "i";
    const std::string number = std::to_string(x.result);
    const std::string at = cat({buffer(x.address.buffer), " + (", affine(x.address.map, vector->vars[0]), ") + i"});
    iteration = name;
    if (!is_made_once(x)) return line(cat({"const auto* at", number, " = ", at, ";"}));
    line(cat({pack(x.address.buffer), " same", number, ";"}));
    line(cat({"if (begin < stop) load_whole(same", number, ", ", at, ");"}));
  });
}

/// Makes the loads of some iterations before the first is taken: one that is made while an iteration runs has that
/// iteration wait, as a thread can tell only a few loads apart.
void KernelEmitter::load_ahead(const Stmt& s) {
  const std::string v = vars_[s.vars[0]];
  std::string steps;
  line(entry_ + "_loads<V> loads[U];");
  line("#pragma unroll");
  line("for (int u = 0; u < U; ++u) {");
  line(cat({"if (const int ", v, " = iteration + u; ", v, " < stop) {"}));
  for_each_statement(s, [&](const Stmt& x, const Stmt* vector) {
    if (!x.ahead || is_made_once(x)) return;
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

std::string KernelEmitter::initial(const KernelShape::SplitSum& c) const {
  return stored(k_.buffers[c.buffer].dtype, value(c.combine->args[1]));
}

std::string KernelEmitter::step_of(const KernelShape::SplitSum& c) {
  const DType t = k_.buffers[c.buffer].dtype;
  const std::string type = type_name(storage_lane(t));
  const std::string sum = functions_.primitive(c.step(), t) + "(" + loaded(t, "x") + ", " + loaded(t, "y") + ")";
  return cat({"[](", type, " x, ", type, " y) { return static_cast<", type, ">(", stored(t, sum), "); }"});
}

}  // namespace smolder::jit::cuda
