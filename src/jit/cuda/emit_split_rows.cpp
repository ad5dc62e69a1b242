// A split loop where threads share out rows: groups of a block take its segments side by side, and add up what segments
// come to in shared memory.
#include <algorithm>
#include <utility>

#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

/// Finds the slots for what segments come to: in shared memory, or in the device's for want of room.
void KernelEmitter::slots() {
  for (const auto& column : shape_.sums) {
    const std::string b = std::to_string(column.buffer);
    const std::string type = type_name(storage_lane(k_.buffers[column.buffer].dtype));
    line(cat({type, "* const slots", b, " = a.memory", b, " ? reinterpret_cast<", type, "*>(a.memory", b,
              ") + a.slot_size", b, " * a.segments * position : reinterpret_cast<", type, "*>(shared + a.slots", b,
              ");"}));
    line(cat({type, "* const sums", b, " = ", buffer(column.buffer), " + (",
              affine(column.address().map, column.vector->vars[0]), ");"}));
    if (column.in_registers) line(cat({pack(column.buffer), " own", b, "[C];"}));
  }
}

/// The thread's part of a segment begins.
void KernelEmitter::begin_segment() {
  for (const auto& c : shape_.sums) {
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

/// Stores to the slot what is in registers.
void KernelEmitter::end_segment() {
  for (const auto& c : shape_.sums) {
    if (!c.in_registers) continue;
    const std::string b = std::to_string(c.buffer);
    line("if constexpr (fits) {");
    line(cat({"const int n = static_cast<int>(", extent(*c.vector), "), first = t * V;"}));
    line(cat({"FOR_CHUNKS store_whole(slot", b, " + i, own", b, "[c]);"}));
    line("}");
  }
}

/// A number that all lanes load. It is used at once: as long as it may not have been, whatever its register is written
/// with waits for all loads, those of the next iteration too.
void KernelEmitter::number_of_iteration(const Stmt& s) {
  const Local& l = define(s, false);
  const std::string ahead = "ahead" + std::to_string(s.result);
  const std::string raw = s.ahead ? ahead : cat({buffer(s.address.buffer), "[", element(s.address), "]"});
  line(cat(
      {"const ", type_name(register_lane(l.dtype)), " ", l.name, " = ", loaded(s.dtype, "same(" + raw + ")"), ";"}));
  if (s.ahead) line(cat({"if (next < end) ", ahead, " = ", number_at(s, "next"), ";"}));
}

std::string KernelEmitter::number_at(const Stmt& s, const std::string& iteration) {
  const std::string name = std::exchange(vars_[shape_.group_split->vars[0]], iteration);
  const std::string at = cat({buffer(s.address.buffer), "[", element(s.address), "]"});
  vars_[shape_.group_split->vars[0]] = name;
  return at;
}

/// Rounds of as many segments as there are slots, of which each group has some.
void KernelEmitter::split_rows(const Stmt& s) {
  const std::string v = vars_[s.vars[0]];
  slots();
  common_rows();
  line("const int end = static_cast<int>(" + extent(s) + "), segment = static_cast<int>(a.segment);");
  line("const int segments = static_cast<int>(a.segments);");
  line("__syncthreads();");
  line("#pragma unroll 1");
  line("for (int round = 0; round == 0 || round < end; round += segment * segments) {");
  line("#pragma unroll 1");
  line("for (int s = threadIdx.y; s < segments; s += blockDim.y) {");
  line("const int begin = round + segment * s, stop = smaller(begin + segment, end);");
  begin_segment();
  for (const Stmt& x : s.body) {
    if (!x.ahead) continue;
    line(cat({type_name(storage_lane(x.dtype)), " ahead", std::to_string(x.result), " = begin < stop ? ",
              number_at(x, "begin"), " : ", type_name(storage_lane(x.dtype)), "();"}));
  }
  line("#pragma unroll 1");
  line("for (int " + v + " = begin; " + v + " < stop; ++" + v + ") {");
  line("const int next = " + v + " + 1 < stop ? " + v + " + 1 : begin + segment * blockDim.y;");
  if (has_two_rows()) line("const bool starts = " + v + " == segment * threadIdx.y, more = next < end;");
  in_split_ = true;
  body(s.body);
  in_split_ = false;
  line("}");
  end_segment();
  line("}");
  line("__syncthreads();");
  line("const int filled = smaller((end - round + segment - 1) / segment, segments);");
  for (size_t i = 0; i < shape_.sums.size(); ++i) add_in_order(i);
  line("__syncthreads();");
  line("}");
}

bool KernelEmitter::is_common(const Address& a) const {
  return std::ranges::find(shape_.common_rows, a.buffer, &KernelShape::StagedRow::buffer) != shape_.common_rows.end();
}

/// Rows that all iterations read: what is read of the device's memory beside them leaves the first-level cache no room.
void KernelEmitter::common_rows() {
  for (const auto& row : shape_.common_rows) {
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
  const KernelShape::SplitSum& c = shape_.sums[column];
  const std::string b = std::to_string(c.buffer);
  line(cat({"add_segments<V>(", std::to_string(column), ", ", std::to_string(shape_.sums.size()), ", sums", b, ", ",
            c.has_initial() ? "round == 0, " + initial(c) : "false, " + identity(c), ", slots", b, ", a.slot_size", b,
            ", filled, ", extent(*c.vector), shape_.vector > 1 ? ", aligned, " : ", false, ", step_of(c), ");"}));
}

/// Adds to a segment.
void KernelEmitter::combine(const Stmt& s) {
  const KernelShape::SplitSum& c = *std::ranges::find(shape_.sums, &s, &KernelShape::SplitSum::combine);
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
