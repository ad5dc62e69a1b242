// A kernel whose threads share out rows: what is before the loops, and the loops over chunks, with rows in registers
// (hold_rows.h) and in shared memory (stage_rows.h).
#include <algorithm>
#include <utility>

#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

void KernelEmitter::rows() {
  const std::string chunks = has_two_rows() ? "" : cat({", C = ", std::to_string(shape_.held_chunks), ", N = 0"});
  line(cat({"constexpr int V = ", std::to_string(shape_.vector), chunks, ";"}));
  line("const int t = threadIdx.x;");
  if (shape_.group_split || walks()) {
    line("const i64 position = " + block() + ";");
  } else {
    line("const i64 position = static_cast<i64>(" + block() + ") * blockDim.y + threadIdx.y;");
    line("if (position >= a.positions) return;");
  }
  if (!walks()) position("position");
  scratch_rows();
  if (!shape_.thread_loops.empty() && shape_.vector > 1) line("const bool aligned = " + aligned() + ";");
  if (shape_.in_chunks() && shape_.vector > 1) held_rows();
  if (k_.num_accs > 0) line("u32 parity = 0;");
  has_staged_rows() ? staged_positions() : body(k_.root.body);
  if (!has_two_rows()) return;
  line("};");
  const RowSize& r = k_.row;
  const int at_once = kAtOnce / shape_.vector, held = r.chunks > 0 ? r.chunks : at_once;
  const int sure = r.chunks == 0 ? 0 : r.whole ? held : held - 1;
  const int threads = r.chunks > 0 ? r.threads : kMostRowThreads;
  const int otherwise = r.chunks > 0 && shape_.is_long ? 1 : at_once;
  line(cat({"fits ? row(Row<", std::to_string(held), ", ", std::to_string(sure), ", ", std::to_string(threads),
            ">()) : row(Row<", std::to_string(otherwise), ">());"}));
}

/// Copies the rows of the first position that later loops read to shared memory. Blocks that walk go from there.
void KernelEmitter::staged_positions() {
  line("if constexpr (staged) {");
  if (walks()) position("position");
  line("const int n = static_cast<int>(" + integer(shape_.thread_loops[0]->extents[0]) + ")" +
       (k_.row.rest ? " / V * V;" : ";"));
  std::string copies;
  for (const auto& staged : shape_.staged_rows) {
    const KernelShape::HeldRow& row = *held_row(staged.buffer);
    const std::string at = buffer(staged.buffer) + " + (" + affine(row.hold->address.map, row.var()) + ")";
    copies += copy_staged(staged, "fixed(" + at + ")");
  }
  line("#pragma unroll 4");
  line("for (int i = t * V; i < n; i += step) { " + copies + "}");
  line("}");
  if (walks()) {
    line("#pragma unroll 1");
    line("for (i64 now = position; now < a.positions; now += a.blocks) {");
    position("now");
  }
  line("if constexpr (staged) wait_for_copies();");
  body(k_.root.body);
  if (walks()) line("}");
}

/// A row of scratch is the group's own, in shared memory (an offset; its step is negative) or in the device's.
void KernelEmitter::scratch_rows() {
  const std::string row = shape_.group_split ? "(position * blockDim.y + threadIdx.y)" : "position";
  for (size_t i = 0; i < k_.buffers.size(); ++i) {
    const int b = static_cast<int>(i);
    const std::string type = type_name(storage_lane(k_.buffers[i].dtype)), name = buffer(b);
    if (!shared_row(k_, b)) {
      line(cat({type, "* const ", name, " = a.", name, ";"}));
      continue;
    }
    const std::string step = "a.step" + std::to_string(b);
    line(cat({type, "* const ", name, " = reinterpret_cast<", type, "*>(", step, " < 0 ? from_address(shared) + ",
              "from_address(a.", name, ") - ", step, " * threadIdx.y : from_address(a.", name, ") + ", step, " * ", row,
              ");"}));
  }
}

/// The text for rows of the size that is expected begins, which is that of all others too: as a template.
void KernelEmitter::begin_row_sizes(const std::string& n) {
  std::string fits = "whole";
  for (const auto& row : shape_.staged_rows) fits += cat({" && a.staged", std::to_string(row.buffer), " >= 0"});
  if (k_.row.chunks > 0) {
    const int all = shape_.vector * k_.row.threads, most = k_.row.chunks * all;
    fits += " && blockDim.x == " + std::to_string(k_.row.threads);
    if (!k_.row.whole) fits += cat({" && ", n, " > ", std::to_string(most - all)});
    fits += cat({" && ", n, k_.row.whole ? " == " : " <= ", std::to_string(most)});
  }
  // Scratch that is the caller's memory is read there afterwards.
  for (const auto& row : shape_.held) {
    if (row.is_scratch && k_.row.chunks > 0) fits += cat({" && a.step", std::to_string(row.buffer), " != 0"});
  }
  line("const bool fits = " + fits + ";");
  line("const auto row = [&](auto kind) {");
  line("constexpr int C = decltype(kind)::kChunks, N = decltype(kind)::kSure, T = decltype(kind)::kThreads;");
  const std::string staged = has_staged_rows() ? ", staged = T > 0;" : ";";
  line(std::string("constexpr bool fits = ") + (k_.row.chunks > 0 ? "T > 0" : "false") + staged);
  line("const int step = V * (T > 0 ? T : blockDim.x);");
  for (const auto& row : shape_.staged_rows) {
    const std::string b = std::to_string(row.buffer), type = type_name(storage_lane(k_.buffers[row.buffer].dtype));
    line(cat({type, "* const staged", b, " = reinterpret_cast<", type, "*>(shared + a.staged", b, ");"}));
  }
}

/// Rows in registers, and whether they have room there. Where that is the same for all of a kernel, what follows is
/// written for either case: a compiler that sees that a row fits interleaves all of it.
void KernelEmitter::held_rows() {
  const std::string n = integer(shape_.thread_loops[0]->extents[0]);
  line("const int unit = unit_of(" + n + ");");
  if (!shape_.has_row_size()) {
    regular();
    line("const int pair = unit / 8;");
    line("const bool whole = aligned && unit > 1;");
  } else {
    line("constexpr int pair = 0;");
    const std::string of_unit = "unit == V / " + std::to_string(shape_.sides);
    line("const bool whole = aligned && " + (k_.row.rest ? "" : n + " % V == 0 && ") + of_unit + ";");
  }
  if (has_two_rows()) {
    begin_row_sizes(n);
  } else {
    line("const int step = V * blockDim.x;");
    line(shape_.has_row_size() ? "constexpr bool fits = false;" : "const bool fits = whole && " + n + " <= C * step;");
  }
  for (const auto& row : shape_.held) {
    const std::string b = std::to_string(row.buffer);
    line(cat({pack(row.buffer), " registers", b, "[C];"}));
    if (row.is_scratch)
      line(cat({"const bool stores", b, " = !fits", shape_.has_row_size() ? "" : " || a.step" + b + " == 0", ";"}));
  }
  for (const LocalId x : shape_.kept_values) line("Pack<f32, V> computed" + std::to_string(x) + "[C];");
}

/// Units are dealt out to the threads of the group in turn: unit j to thread j mod `lanes`.
void KernelEmitter::vector_rows(const Stmt& s) {
  line("if (const int n = static_cast<int>(" + extent(s) + "); n > 0) {");
  line("const int unit = unit_of(" + integer(s.extents[0]) + ");");
  uniform_part(s);
  line("const auto chunk = [&](int i, auto lanes) {");
  line("constexpr int V = decltype(lanes)::kCount;");
  for (const Stmt& inner : s.body) {
    if (!is_uniform(inner)) varying(inner);
  }
  line("};");
  line("for_units<V>(n, unit, aligned, a.lanes" + std::to_string(s.vars[0]) + ", chunk);");
  line("}");
  loop_ = nullptr;
}

/// The same units, as many at once as there are registers for. What is done with a chunk is written once, for whole
/// ones and for single elements. Of a row that fits, what is held of it stays in registers until the last loop that
/// uses it.
void KernelEmitter::vector_chunks(const Stmt& s) {
  line("if (const int n = static_cast<int>(" + extent(s) + "); n > 0) {");
  uniform_part(s);
  rows_at_.clear();
  std::string before = std::exchange(out_, {});
  line("const auto chunk = [&](int c, int i, auto lanes) {");
  lanes_begin();
  for (const Stmt& inner : s.body) {
    if (!is_uniform(inner)) varying(inner);
  }
  line("};");
  const bool several = takes_several_chunks(s);
  const std::string copies = copy_next(s);
  if (shape_.vector == 1) {
    single_elements(s);
  } else if (keeps_staged() && several) {
    staged_chunks(s, copies);
  } else {
    begin_whole_chunks(s, several);
    line("#pragma unroll 1");
    several ? chunks_at_once(s, copies) : chunks_one_by_one();
    rest_of_chunks(s);
  }
  add_after_rows(std::move(before));
  line("}");
  loop_ = nullptr;
}

/// The other text is for what hardly comes: were it longer, this one would have fewer registers.
void KernelEmitter::staged_chunks(const Stmt& s, const std::string& copies) {
  line("if constexpr (fits) {");
  line("const int first = t * V;");
  line("FOR_CHUNKS {");
  load_held(s, true);
  if (!copies.empty()) line("if (more) { " + copies + "}");
  line("chunk(c, i, Lanes<V>());");
  line("}");
  line("} else {");
  single_elements(s);
  line("}");
}

/// The text for rows that fit, if there is one, and the condition of that for others.
void KernelEmitter::begin_whole_chunks(const Stmt& s, bool several) {
  const std::string whole = shape_.has_row_size() ? "whole" : "whole && n % V == 0";
  if (has_two_rows() && k_.row.chunks > 0 && several) {
    line("if constexpr (fits) {");
    line("const int first = t * V;");
    load_held(s, true);
    line("FOR_CHUNKS chunk(c, i, Lanes<V>());");
    load_next(s);
    line("} else if (" + whole + ") {");
    return;
  }
  if (k_.row.rest) line("const int all = whole ? n / V * V : 0;");
  line("if (" + whole + ") {");
  if (k_.row.rest) line("const int n = all;");
}

/// As many chunks as there are registers for: all are loaded before one is computed.
void KernelEmitter::chunks_at_once(const Stmt& s, const std::string& copies) {
  line("for (int first = t * (V << pair); first < n; first += C * step) {");
  load_held(s, false);
  if (!copies.empty()) line("if (more) FOR_CHUNKS { " + copies + "}");
  const bool may_be_regular = !shape_.chunks.loads.empty();
  if (may_be_regular) {
    line("if (regular) {");
    line("FOR_CHUNKS chunk(c, i, Lanes<V, true>());");
    line("} else {");
  }
  line("FOR_CHUNKS {");
  line("chunk(c, i, Lanes<V>());");
  line("}");
  if (may_be_regular) line("}");
  line("}");
}

void KernelEmitter::chunks_one_by_one() {
  line("for (int first = t * (V << pair); first < n; first += step << pair) {");
  line("for (int i = first; i < n && i < first + (V << pair); i += V) chunk(0, i, Lanes<V>());");
  line("}");
}

/// Takes the elements that are in no whole chunk.
void KernelEmitter::rest_of_chunks(const Stmt& s) {
  if (k_.row.rest) {
    line("}");
    line(may_deal_anew(s) ? std::string("for_any(all, n, chunk);")
                          : cat({"for_rest<V>(all, n, unit_of(", integer(s.extents[0]), "), chunk);"}));
    return;
  }
  line("} else {");
  single_elements(s);
  line("}");
}

void KernelEmitter::single_elements(const Stmt& s) {
  std::string swaps;
  for (const Stmt& inner : s.body) {
    if (inner.kind == StmtKind::kUpdate && shape_.sides > 1) swaps += "swap_sides(" + accs_[inner.acc].name + "); ";
  }
  line(cat({"for_single<", std::to_string(shape_.sides), ">(n, unit_of(", integer(s.extents[0]), "), chunk, [&] { ",
            swaps, "});"}));
}

/// Whether any thread may take any element: the last loop, where it reduces nothing and all of the group waited for a
/// reduction since the loop before.
bool KernelEmitter::may_deal_anew(const Stmt& s) const {
  const std::vector<Stmt>& all = k_.root.body;
  const auto before = std::find_if(all.rbegin() + 1, all.rend(), [](const Stmt& x) {
    return x.kind == StmtKind::kResult || x.kind == StmtKind::kThread;
  });
  return &s == &all.back() && before != all.rend() && before->kind == StmtKind::kResult &&
         std::ranges::none_of(s.body, [](const Stmt& x) { return x.kind == StmtKind::kUpdate; });
}

/// A chunk of a staged row, on its way to shared memory.
std::string KernelEmitter::copy_staged(const KernelShape::StagedRow& staged, const std::string& from) const {
  const std::string b = std::to_string(staged.buffer), type = type_name(storage_lane(k_.buffers[staged.buffer].dtype));
  return cat({"copy_staged<", type, ", V>(staged", b, " + i, ", from, " + i); "});
}

/// Rows that the loop is the last to read make room for the next position's: writes where those are, and returns what
/// copies a chunk of them.
std::string KernelEmitter::copy_next(const Stmt& s) {
  std::string copies;
  for (const auto& staged : shape_.staged_rows) {
    if (!walks() || staged.vector != &s) continue;
    const KernelShape::HeldRow& row = *held_row(staged.buffer);
    const std::string b = std::to_string(staged.buffer);
    line("const auto next" + b + " = [&] {");
    position("now + a.blocks");
    line(cat({"return fixed(", buffer(staged.buffer), " + (", affine(row.hold->address.map, row.var()), "));"}));
    line("}();");
    copies += copy_staged(staged, "next" + b);
  }
  if (!copies.empty()) line("const bool more = staged && now + a.blocks < a.positions;");
  return copies;
}

/// Several chunks at once wait for memory together, or stay in registers; else they would only be more text.
bool KernelEmitter::takes_several_chunks(const Stmt& s) const {
  const auto needs_them = [&](const Stmt& inner) {
    const bool loads = inner.kind == StmtKind::kLoad && !is_uniform(inner);
    return loads || (inner.kind == StmtKind::kStore && held_row(inner.address.buffer));
  };
  const auto is_end = [&](const KernelShape::HeldRow& row) { return row.first == &s || row.last == &s; };
  return std::ranges::any_of(s.body, needs_them) || std::ranges::any_of(shape_.held, is_end);
}

/// Addresses that what was written since uses go before it.
void KernelEmitter::add_after_rows(std::string before) {
  const std::string since = std::exchange(out_, std::move(before));
  for (size_t i = 0; i < rows_at_.size(); ++i) line("const auto at" + std::to_string(i) + " = " + rows_at_[i] + ";");
  out_ += since;
}

/// Loads the held rows that this loop finds only in memory: all are on their way before any is used. `fits`: of two
/// texts, that of rows that fit; of staged rows that is one chunk.
void KernelEmitter::load_held(const Stmt& s, bool fits) {
  std::string always, short_row, long_row;
  Loads first_iteration;
  for (const auto& row : shape_.held) {
    const auto access = std::ranges::find_if(s.body, [&](const Stmt& inner) {
      return (inner.kind == StmtKind::kLoad || inner.kind == StmtKind::kStore) && inner.address.buffer == row.buffer;
    });
    const bool is_used = access != s.body.end(), is_first = !row.is_written() && row.first == &s;
    if (!is_first && (!is_used || access->kind == StmtKind::kStore)) continue;
    const Address& address = is_first ? row.hold->address : access->address;
    const VarId v = s.vars[0];
    if (fits && row.hold->ahead) {
      if (is_first) add_load(first_iteration, address, v);
      continue;
    }
    std::string& loads = !is_first ? long_row : is_used ? always : short_row;
    const std::string b = std::to_string(row.buffer), at = row_at(address, v);
    const bool is_staged =
        std::ranges::find(shape_.staged_rows, row.buffer, &KernelShape::StagedRow::buffer) != shape_.staged_rows.end();
    if (is_staged) loads += cat({"if constexpr (staged) load_whole(registers", b, "[c], staged", b, " + i); else "});
    loads += cat({"load_whole(registers", b, "[c], ", at, " + i); "});
  }
  if (keeps_staged() && fits) {
    if (!always.empty() || !long_row.empty()) line(always + long_row);
    return;
  }
  if (!always.empty()) line("FOR_CHUNKS { " + always + "}");
  load_chunks("if (starts)", first_iteration);
  const bool known = shape_.has_row_size();
  if (!short_row.empty() && (fits || !known)) line((known ? "" : "if (fits) ") + ("FOR_CHUNKS { " + short_row + "}"));
  if (!long_row.empty() && !fits) line((known ? "" : "if (!fits) ") + ("FOR_CHUNKS { " + long_row + "}"));
}

/// The row of an access, whose address takes registers only there.
void KernelEmitter::add_load(Loads& loads, const Address& a, VarId v) {
  const std::string b = std::to_string(a.buffer);
  loads.places += cat({"const auto row", b, " = fixed_here(", buffer(a.buffer), " + (", affine(a.map, v), ")); "});
  loads.chunks += cat({"load_whole(registers", b, "[c], row", b, " + i); "});
}

void KernelEmitter::load_chunks(const std::string& condition, const Loads& loads) {
  if (!loads.chunks.empty()) line(cat({condition, " { ", loads.places, "FOR_CHUNKS { ", loads.chunks, "} }"}));
}

/// Loads the rows of the next iteration of a split loop, where this one needs its registers no more: all at once, as a
/// chunk that is computed after such a load may wait for it, whatever it reads.
void KernelEmitter::load_next(const Stmt& s) {
  Loads loads;
  for (const auto& row : shape_.held) {
    if (!row.hold->ahead || row.last != &s) continue;
    std::string& iteration = vars_[shape_.group_split->vars[0]];
    const std::string name = std::exchange(iteration, "next");
    add_load(loads, row.hold->address, row.var());
    iteration = name;
  }
  load_chunks("if (more)", loads);
}

std::string KernelEmitter::row_at(const Address& a, VarId v) {
  const bool scratch = shared_row(k_, a.buffer) != nullptr;
  const std::string at = buffer(a.buffer) + " + (" + affine(a.map, v) + ")";
  const std::string text = scratch ? at : "fixed(" + at + ")";
  const auto it = std::ranges::find(rows_at_, text);
  const auto number = it - rows_at_.begin();
  if (it == rows_at_.end()) rows_at_.push_back(text);
  return "at" + std::to_string(number);
}

}  // namespace smolder::jit::cuda
