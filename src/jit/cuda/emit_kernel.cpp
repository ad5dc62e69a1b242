#include <algorithm>
#include <bit>
#include <utility>

#include "smolder/core/error.h"
#include "smolder/ir/scalar/primitive.h"
#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/reports.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"
#include "smolder/jit/cuda/together.h"

namespace smolder::jit::cuda {

KernelEmitter::KernelEmitter(const Kernel& kernel, std::string entry, Functions& functions)
    : schedule_(kernel),
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
  std::string threads = std::to_string(is_columns() ? kColumnThreads : shape_.team_threads);
  if (is_columns() && shape_.team) threads += ", " + std::to_string(shape_.team_blocks);
  if (has_two_rows()) threads += ", " + std::to_string(std::max(k_.row.near, 1));
  line("extern \"C\" __global__ void __launch_bounds__(" + threads + ") " + entry_ + "(const __grid_constant__ " +
       entry_ + "_arguments " + (k_.together ? "table" : "a") + ") {");
  if (k_.together) find_call();
  line("wait_for_kernel_before();");
  // All blocks find the same: what sets the word has ended.
  if (k_.guarded) line("if (*static_cast<const volatile u32*>(a.errors) != 0) return;");
  is_columns() ? columns() : rows();
  line("}");
  return std::move(out_);
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

// -- structure

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

void KernelEmitter::columns() {
  const Stmt& loop = *shape_.chunk_loop;
  line("constexpr int V = " + std::to_string(shape_.vector) + ";");
  for (size_t b = 0; b < k_.buffers.size(); ++b) {
    if (k_.buffers[b].space != MemorySpace::kGlobal) continue;
    const std::string name = buffer(static_cast<int>(b));
    line(cat({type_name(storage_lane(k_.buffers[b].dtype)), "* const ", name, " = a.", name, ";"}));
  }
  if (schedule_.is_flat()) {
    line("const i64 tile = " + block() + ";");
  } else {
    line(cat({"const u32 tiles = static_cast<u32>(a.tiles), row = ", block(), " / tiles, tile = ", block(),
              " - row * tiles;"}));
    if (shape_.team) return team_of_columns(loop);
    if (const Stmt* const tile = tile_loop(k_)) fill_tiles(*tile);
    line("const i64 position = static_cast<i64>(row) * blockDim.y + threadIdx.y;");
    line("if (position >= a.positions) return;");
    position("position");
  }
  line("const bool aligned = " + aligned() + ";");
  regular();
  line("const i64 n = " + extent(loop) + ";");
  if (shape_.takes_several) return several_chunks();
  line(moves_rows() ? std::string("for_moved_columns<V>(tile, n, aligned, [&](auto i, auto lanes) {")
                    : "for_columns<V" + ways("aligned", "tile, n, ") + ", [&](i64 i, auto lanes) {");
  lanes_begin();
  load_first();
  body(loop.body);
  line("});");
}

/// Whether the kernel does no more than to move rows, so that it costs little to have it written once more.
bool KernelEmitter::moves_rows() const {
  const std::vector<Stmt>& all = shape_.chunk_loop->body;
  if (shape_.vector == 1 || schedule_.is_flat() || all.size() != 1 || all[0].kind != StmtKind::kLanes) return false;
  const Stmt& loop = all[0];
  return std::ranges::all_of(loop.body, [&](const Stmt& s) {
    const bool moves = s.kind == StmtKind::kLoad || s.kind == StmtKind::kStore;
    return moves ? s.bounds.empty() && is_contiguous(s.address, loop.vars[0]) : s.op == ir::Op::kCast;
  });
}

/// What is the same for all elements of a position, once; and chunks of it, of which one is loaded while another is
/// used. What is left behind the last whole one is the last block's.
void KernelEmitter::several_chunks() {
  const std::vector<Stmt>& all = shape_.chunk_loop->body;
  const Stmt& s = all.back();
  line("const i64 step = V * blockDim.x, start = tile * step * a.chunks, end = smaller(n, start + step * a.chunks);");
  line("const i64 first = start + threadIdx.x * V, all = aligned ? n - n % V : 0, whole = smaller(all, end);");
  loop_ = &s;
  vars_[s.vars[0]] = "(i + k)";
  std::string before = std::exchange(out_, {});
  std::vector<int> written;
  std::string loads;
  // What is looked up waits for its address: more threads hide that, and they need the registers.
  const bool looks_up = std::ranges::any_of(s.body, [](const Stmt& x) { return !x.address.indirect.empty(); });
  for (const Stmt& x : s.body) {
    if (x.kind == StmtKind::kStore) written.push_back(x.address.buffer);
    const bool ahead = x.kind == StmtKind::kLoad && !is_uniform(x) && is_contiguous(x.address) && x.bounds.empty() &&
                       std::ranges::find(written, x.address.buffer) == written.end();
    if (!ahead || looks_up) continue;
    const std::string result = std::to_string(x.result);
    line(cat({pack(x.address.buffer), " held", result, ", next", result, ";"}));
    loads += cat({"load_whole(next", result, ", ", chunk_at(x.address), "); "});
    taken_ahead_.push_back(&x);
  }
  if (!loads.empty()) line("if (const i64 i = first; i < whole) { " + loads + "}");
  for (const Stmt& x : all) {
    if (&x != &s) statement(x);
  }
  uniform_part(s);
  line("const auto chunk = [&](i64 i, auto lanes) {");
  line("constexpr int V = decltype(lanes)::kCount;");
  for (const Stmt& inner : s.body) {
    if (!is_uniform(inner)) varying(inner);
  }
  line("};");
  line("#pragma unroll 1");
  line("for (i64 j = first; j < whole; j += step) {");
  for (const Stmt* x : taken_ahead_) {
    line(cat({"held", std::to_string(x->result), " = next", std::to_string(x->result), ";"}));
  }
  if (!loads.empty()) line("if (const i64 i = j + step; i < whole) { " + loads + "}");
  line("chunk(j, Lanes<V>());");
  line("}");
  line("#pragma unroll 1");
  line("for (i64 i = (all > start ? all : start) + threadIdx.x; i < end; i += blockDim.x) chunk(i, Lanes<1>());");
  add_after_rows(std::move(before));
  loop_ = nullptr;
}

/// Loads of a thread's elements that wait for nothing, ahead of what is computed once a position: that may take as long
/// as a trip to memory, and the compiler moves no load across a branch.
void KernelEmitter::load_first() {
  std::vector<int> written;
  const std::vector<Stmt>& all = shape_.chunk_loop->body;
  const bool waits = std::ranges::any_of(all, [](const Stmt& s) { return s.kind == StmtKind::kLoad; });
  const auto may_read = [&](const Stmt& s) { return std::ranges::find(written, s.address.buffer) == written.end(); };
  for (const Stmt& loop : all) {
    if (!waits || is_sequential(loop.kind)) return;
    if (loop.kind == StmtKind::kStore) written.push_back(loop.address.buffer);
    if (loop.kind == StmtKind::kLoad && loop.bounds.empty() && loop.address.indirect.empty() && may_read(loop)) {
      statement(loop);
      loaded_first_.push_back(&loop);
    }
    if (loop.kind != StmtKind::kLanes) continue;
    loop_ = &loop;
    vars_[loop.vars[0]] = "(i + k)";
    for (const Stmt& s : loop.body) {
      if (s.kind == StmtKind::kStore) written.push_back(s.address.buffer);
      const bool here = s.kind == StmtKind::kLoad && !is_uniform(s) && is_contiguous(s.address) && s.bounds.empty();
      if (!here || !may_read(s)) continue;
      load_chunk(s);
      loaded_first_.push_back(&s);
    }
    loop_ = nullptr;
  }
}

/// What comes before the loop whose chunks threads take: copies of which a thread makes several, and waiting for them.
void KernelEmitter::fill_tiles(const Stmt& tile) {
  const std::string positions = std::to_string(tile.extents[0].constant);
  const Stmt* copies = nullptr;
  line("const i64 first = static_cast<i64>(tile) * blockDim.x * V;");
  vars_[tile.vars[1]] = "first";
  for (const Stmt& s : tile.body) {
    if (s.kind == StmtKind::kShared) {
      const DType t = k_.buffers[s.address.buffer].dtype;
      line(cat({"__shared__ ", type_name(storage_lane(t)), " ", buffer(s.address.buffer), "[",
                std::to_string(s.limit.constant), "];"}));
    } else if (s.kind == StmtKind::kBarrier) {
      if (copies) line("}");
      line("__syncthreads();");
    } else if (s.across > 0) {
      if (!std::exchange(copies, &s)) {
        line("{");
        line("const int t = threadIdx.y * blockDim.x + threadIdx.x, in_tile = t % " + positions + ";");
        line(
            cat({"const i64 position = smaller(static_cast<i64>(row) * ", positions, " + in_tile, a.positions - 1);"}));
        position("position");
        line("const i64 n = " + extent(s) + ";");
        vars_[tile.vars[0]] = "in_tile";
      }
      copy_across(s, positions);
    }
  }
  vars_[tile.vars[0]] = "threadIdx.y";
}

/// Beyond the last element, and the last position, threads copy what nobody reads.
void KernelEmitter::copy_across(const Stmt& loop, const std::string& positions) {
  line("#pragma unroll");
  line("for (int e = 0; e < V; ++e) {");
  line(cat({"const i64 j = first + t / ", positions, " + e * ", std::to_string(loop.across), ";"}));
  for (const Stmt& s : loop.body) {
    vars_[loop.vars[0]] = "j";
    const std::string to = cat({buffer(s.address.buffer), "[", element(s.address), "]"});
    vars_[loop.vars[0]] = "smaller(j, n - 1)";
    line(cat({to, " = ", buffer(s.source.buffer), "[", element(s.source), "];"}));
  }
  line("}");
}

/// Whether every access to neighbouring elements is aligned for the widest loads, whatever the loops' variables.
std::string KernelEmitter::aligned() const {
  std::vector<std::string> terms;
  const auto add = [&](std::string term) {
    if (std::ranges::find(terms, term) == terms.end()) terms.push_back(std::move(term));
  };
  for_each_statement(k_.root, [&](const Stmt& s, const Stmt* vector) {
    if (!is_access(s) || !vector) return;
    const auto spread = static_cast<int>(is_spread(s, *vector) ? spread_of(s, vector->vars[0]) : 0);
    const bool is_next = stride_of(s.address.map, vector->vars[0]) == IntRef{1} && s.address.indirect.empty();
    if (spread == 0 && (!is_next || !s.bounds.empty())) return;
    const auto size = static_cast<int>(itemsize(k_.buffers[s.address.buffer].dtype));
    const int bytes = std::min(16, size * shape_.vector * std::max(spread, 1));
    if (bytes == size) return;
    const auto misaligned = [&](const std::string& x) { add("(" + x + " & " + std::to_string(bytes - 1) + ")"); };
    const auto scaled = [&](IntRef r) {
      if (r.is_constant() && r.constant * size % bytes == 0) return;
      misaligned(integer(r) + " * " + std::to_string(size));
    };
    misaligned("from_address(" + buffer(s.address.buffer) + ")");
    if (spread == 0) scaled(s.address.map.offset);
    for (const auto& t : s.address.map.terms) {
      if (t.var != vector->vars[0]) scaled(t.stride);
    }
  });
  std::string all;
  for (const std::string& t : terms) all += (all.empty() ? "" : " | ") + t;
  return all.empty() ? "true" : "(" + all + ") == 0";
}

/// The end of a call of a function that writes its body for whole chunks and for single elements: whether it writes it
/// for regular chunks besides, or for no other whole ones.
std::string KernelEmitter::ways(const std::string& whole, const std::string& first_arguments) const {
  if (shape_.chunks.loads.empty()) return ">(" + first_arguments + whole;
  if (shape_.only_regular) return ", true>(" + first_arguments + whole + " && regular";
  return ">(" + first_arguments + whole + ", regular";
}

/// Whether chunks are regular.
void KernelEmitter::regular() {
  if (shape_.chunks.loads.empty()) return;
  std::string sizes, addresses;
  for (const IntRef r : shape_.chunks.multiples) sizes += (sizes.empty() ? "" : " | ") + integer(r);
  std::vector<int> buffers;
  for (const Stmt* s : shape_.chunks.loads) {
    if (std::ranges::find(shape_.chunks.spread, s) != shape_.chunks.spread.end()) continue;
    if (std::ranges::find(buffers, s->address.buffer) == buffers.end()) buffers.push_back(s->address.buffer);
  }
  for (const int b : buffers) {
    const auto bytes = static_cast<int>(itemsize(k_.buffers[b].dtype)) * shape_.vector;
    addresses += cat({" && (from_address(", buffer(b), ") & ", std::to_string(std::min(16, bytes) - 1), ") == 0"});
  }
  line("const bool regular = ((" + (sizes.empty() ? "0" : sizes) + ") & (V - 1)) == 0" + addresses + ";");
}

void KernelEmitter::lanes_begin() {
  line("constexpr int V = decltype(lanes)::kCount;");
  if (!shape_.chunks.loads.empty()) line("constexpr bool R = decltype(lanes)::kRegular;");
}

void KernelEmitter::rows() {
  const std::string chunks = has_two_rows() ? "" : cat({", C = ", std::to_string(shape_.held_chunks), ", N = 0"});
  line(cat({"constexpr int V = ", std::to_string(shape_.vector), chunks, ";"}));
  line("const int t = threadIdx.x;");
  if (shape_.team || walks()) {
    line("const i64 position = " + block() + ";");
  } else {
    line("const i64 position = static_cast<i64>(" + block() + ") * blockDim.y + threadIdx.y;");
    line("if (position >= a.positions) return;");
  }
  if (!walks()) position("position");
  scratch_rows();
  if (!shape_.thread_loops.empty() && shape_.vector > 1) line("const bool aligned = " + aligned() + ";");
  if (shape_.in_chunks() && shape_.vector > 1) held_rows();
  if (k_.num_accs > 0) line("u32 turn = 0;");
  has_near_rows() ? near_positions() : body(k_.root.body);
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

/// What later loops read of the first position's row, on its way to shared memory. Blocks that walk go from there.
void KernelEmitter::near_positions() {
  line("if constexpr (near) {");
  if (walks()) position("position");
  line("const int n = static_cast<int>(" + integer(shape_.thread_loops[0]->extents[0]) + ")" +
       (k_.row.rest ? " / V * V;" : ";"));
  std::string copies;
  for (const auto& near : shape_.near_rows) {
    const KernelShape::HeldRow& row = *held_row(near.buffer);
    const std::string at = buffer(near.buffer) + " + (" + affine(row.hold->address.map, row.var()) + ")";
    copies += copy_near(near, "fixed(" + at + ")");
  }
  line("#pragma unroll 4");
  line("for (int i = t * V; i < n; i += step) { " + copies + "}");
  line("}");
  if (walks()) {
    line("#pragma unroll 1");
    line("for (i64 now = position; now < a.positions; now += a.blocks) {");
    position("now");
  }
  line("if constexpr (near) wait_for_copies();");
  body(k_.root.body);
  if (walks()) line("}");
}

/// A row of scratch is the group's own, in shared memory (an offset; its step is negative) or in the device's.
void KernelEmitter::scratch_rows() {
  const std::string row = shape_.team ? "(position * blockDim.y + threadIdx.y)" : "position";
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
    std::string fits = "whole";
    for (const auto& row : shape_.near_rows) fits += cat({" && a.near", std::to_string(row.buffer), " >= 0"});
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
    const std::string near = has_near_rows() ? ", near = T > 0;" : ";";
    line(std::string("constexpr bool fits = ") + (k_.row.chunks > 0 ? "T > 0" : "false") + near);
    line("const int step = V * (T > 0 ? T : blockDim.x);");
    for (const auto& row : shape_.near_rows) {
      const std::string b = std::to_string(row.buffer), type = type_name(storage_lane(k_.buffers[row.buffer].dtype));
      line(cat({type, "* const near", b, " = reinterpret_cast<", type, "*>(shared + a.near", b, ");"}));
    }
  } else {
    line("const int step = V * blockDim.x;");
    line(shape_.has_row_size() ? "constexpr bool fits = false;" : "const bool fits = whole && " + n + " <= C * step;");
  }
  for (const auto& row : shape_.held) {
    const std::string b = std::to_string(row.buffer);
    line(cat({pack(row.buffer), " held", b, "[C];"}));
    if (row.is_scratch)
      line(cat({"const bool stores", b, " = !fits", shape_.has_row_size() ? "" : " || a.step" + b + " == 0", ";"}));
  }
  for (const auto& repeat : shape_.repeats) {
    line(cat({"Pack<f32, V> repeat", std::to_string(repeat.first->result), "[C];"}));
  }
}

std::string KernelEmitter::extent(const Stmt& s) const {
  std::string n = integer(s.extents[0]);
  if (s.clamp_var < 0) return n;
  return "smaller(" + n + ", " + integer(s.clamp_total) + " - " + vars_[s.clamp_var] + " * " + n + ")";
}

void KernelEmitter::body(const std::vector<Stmt>& statements) {
  for (const Stmt& s : statements) {
    if (is_sequential(s.kind)) {
      if (&s == shape_.team) {
        is_columns() ? column_turns(s) : team(s);
      } else {
        sequential(s);
      }
    } else if (is_vector(s)) {
      const bool first_group = shape_.team && !in_team_;  // what is outside the loop is done once
      if (first_group) line(is_columns() ? "if (mine && group == 0) {" : "if (threadIdx.y == 0) {");
      is_columns() ? vector_columns(s) : shape_.in_chunks() ? vector_chunks(s) : vector_rows(s);
      if (first_group) line("}");
    } else if (s.kind == StmtKind::kShared || s.kind == StmtKind::kRegister) {
      continue;  // see scratch_rows and held_rows
    } else if (s.kind == StmtKind::kBarrier) {
      line(group_sync());
    } else if (in_team_ && !is_columns() && s.kind == StmtKind::kLoad && s.bounds.empty()) {
      number_of_turn(s);
    } else if (std::ranges::find(loaded_first_, &s) == loaded_first_.end()) {
      statement(s);
    }
  }
}

void KernelEmitter::sequential(const Stmt& s) {
  std::vector<Kept> kept = is_columns() ? find_kept(s) : std::vector<Kept>{};
  for (const Kept& x : kept) transfer_kept(x, true);
  const size_t before = kept_.size();
  kept_.insert(kept_.end(), kept.begin(), kept.end());
  const std::string v = vars_[s.vars[0]];
  strips(s, kept, true);
  if (reads_ahead(s, kept)) line("#pragma unroll 8");
  line("for (i64 " + v + " = 0, end_" + v + " = " + extent(s) + "; " + v + " < end_" + v + "; ++" + v + ") {");
  body(s.body);
  strips(s, kept, false);
  line("}");
  kept_.resize(before);
  if (&s == shape_.summed) {
    for (Kept& x : kept) {
      if (std::ranges::find(shape_.columns, x.buffer, &KernelShape::TeamColumn::buffer) != shape_.columns.end())
        x.name = "total" + std::to_string(x.buffer);
    }
  }
  for (const Kept& x : kept) transfer_kept(x, false);
}

/// Of a loop that has no team, the totals of columns before the loop, or its strips' ends in the loop.
void KernelEmitter::strips(const Stmt& s, const std::vector<Kept>& kept, bool before) {
  if (&s != shape_.summed) return;
  const std::string v = vars_[s.vars[0]], end = "end_" + v;
  if (!before) line("if ((" + v + " + 1) % a.strip == 0 || " + v + " + 1 == " + end + ") {");
  for (const auto& c : shape_.columns) {
    const auto it = std::ranges::find(kept, c.buffer, &Kept::buffer);
    if (it == kept.end()) raise<InternalError>("internal error: a column without registers");
    const std::string total = "total" + std::to_string(c.buffer);
    if (!before) {
      add_lanes(c, total + ".x[k]", it->name + ".x[k]");
      lanes(it->name + ".x[k] = " + identity(c) + ";");
      continue;
    }
    line(pack(c.buffer) + " " + total + " = " + it->name + ";");
    lanes(it->name + ".x[k] = " + identity(c) + ";");
  }
  if (!before) line("}");
}

/// Whether no turn writes to memory, so that the loads of several turns can be on their way at once.
bool KernelEmitter::reads_ahead(const Stmt& loop, const std::vector<Kept>& kept) const {
  bool writes = kept.empty();
  for_each_statement(loop, [&](const Stmt& s, const Stmt*) {
    writes = writes || s.kind == StmtKind::kCheckIndex ||
             (s.kind == StmtKind::kStore && std::ranges::find(kept, s.address.buffer, &Kept::buffer) == kept.end());
  });
  return !writes;
}

/// Elements that the loop both reads and writes, in one place whatever its variable.
std::vector<KernelEmitter::Kept> KernelEmitter::find_kept(const Stmt& loop) const {
  struct Uses {
    int loads = 0, stores = 0;
    bool same = true;
    Kept kept;
  };
  std::vector<Uses> uses(k_.buffers.size());
  std::vector<VarId> inner;
  for_each_statement(loop, [&](const Stmt& s, const Stmt*) {
    if (is_sequential(s.kind)) inner.push_back(s.vars[0]);
  });
  for_each_statement(loop, [&](const Stmt& s, const Stmt* vector) {
    if (!is_access(s)) return;
    Uses& u = uses[s.address.buffer];
    u.loads += s.kind != StmtKind::kStore;
    u.stores += s.kind != StmtKind::kLoad;
    if (!vector || !s.bounds.empty() || !s.address.indirect.empty()) {
      u.same = false;
      return;
    }
    const VarId v = vector->vars[0];
    for (const VarId outer : inner) u.same = u.same && stride_of(s.address.map, outer) == IntRef{};
    u.same = u.same && stride_of(s.address.map, v) != IntRef{};
    if (u.kept.var < 0) {
      u.kept = {s.address.buffer, "kept" + std::to_string(s.address.buffer) + "_" + std::to_string(loop.vars[0]),
                s.address, v};
    }
    u.same = u.same && same_column(u.kept.address, u.kept.var, s.address, v);
  });
  std::vector<Kept> kept;
  for (const Uses& u : uses) {
    if (u.loads > 0 && u.stores > 0 && u.same && !kept_of(u.kept.buffer)) kept.push_back(u.kept);
  }
  return kept;
}

// -- statements that are the same for all lanes

KernelEmitter::Local& KernelEmitter::define(const Stmt& s, bool varies) {
  Local& l = locals_[s.result];
  l = {"x" + std::to_string(s.result), result_dtype(s), varies};
  return l;
}

/// What the host computes.
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
  const std::string first = shape_.team && !in_team_ ? "t == 0 && threadIdx.y == 0" : "t == 0";
  line("if (" + first + ") " + buffer(s.address.buffer) + "[" + element(s.address) +
       "] = " + stored(s.dtype, value(s.args[0])) + ";");
}

// -- expressions

std::string KernelEmitter::value(LocalId v) const { return locals_[v].name + (locals_[v].varies ? "[k]" : ""); }

std::string KernelEmitter::expression(const Stmt& s) {
  return rounds(s) ? rounded(s.dtype, unrounded(s)) : unrounded(s);
}

bool KernelEmitter::rounds(const Stmt& s) const {
  if (!is_half(s.dtype)) return false;
  if (s.kind == StmtKind::kResult || s.kind == StmtKind::kScalar) return true;
  if (s.kind != StmtKind::kPrimitive) return false;
  if (s.op == ir::Op::kCast) return locals_[s.args[0]].dtype != s.dtype;
  const auto& info = ir::scalar::info(static_cast<ir::scalar::Primitive>(s.op));
  return info.rounding == ir::scalar::PrimitiveInfo::kRounded;
}

std::string KernelEmitter::unrounded(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::kLoad: {
      std::string x = loaded(s.dtype, buffer(s.address.buffer) + "[" + element(s.address) + "]");
      if (s.bounds.empty()) return x;
      return bounds(s) + " ? " + x + " : " + literal(register_lane(s.dtype), register_bits(s.constant, s.dtype));
    }
    case StmtKind::kPrimitive: {
      if (std::string x = divided(s); !x.empty()) return x;
      if (s.op == ir::Op::kCast) return cast(locals_[s.args[0]].dtype, s.dtype, value(s.args[0]));
      std::string args;
      for (const LocalId a : s.args) args += (args.empty() ? "" : ", ") + value(a);
      if (s.op == ir::Op::kRandomBits) return functions_.random_bits() + "(" + args + ")";
      return functions_.primitive(s.op, s.dtype) + "(" + args + ")";
    }
    case StmtKind::kConstant:
      return literal(register_lane(s.dtype), register_bits(s.constant, s.dtype));
    case StmtKind::kScalar: {
      const bool is_float = k_.scalars[s.slot] == Category::kFloat;
      const std::string word = "a.scalars[" + std::to_string(s.slot) + "]";
      return is_float ? cast(DType::kFloat64, s.dtype, "__longlong_as_double(static_cast<i64>(" + word + "))")
                      : cast(DType::kInt64, s.dtype, word);
    }
    case StmtKind::kIndex:
      return "static_cast<u64>(" + affine(s.map) + ")";
    case StmtKind::kCheckIndex:
      return "clamp_index(" + value(s.args[0]) + ", " + integer(s.limit) + ")";
    case StmtKind::kResult: {
      const Accumulator& acc = accs_[s.acc];
      const std::string type = type_name(register_lane(acc.dtype));
      const std::string kind = shape_.team ? "<true>" : has_two_rows() ? "<false, T>" : "";
      std::string x = cat({"combine", kind, "(", acc.name, ", turn, [](", type, " x, ", type, " y) { return ",
                           functions_.primitive(acc.step, acc.dtype), "(x, y); })"});
      return is_small_signed(s.dtype) ? cast(acc.dtype, s.dtype, x) : x;
    }
    default:
      raise<InternalError>("internal error: a statement without a value");
  }
}

std::string KernelEmitter::loaded(DType t, const std::string& raw) const {
  if (t == DType::kBool) return raw + " != 0";
  if (t == DType::kFloat16) return "f16_to_f32(" + raw + ")";
  if (t == DType::kBFloat16) return "bf16_to_f32(" + raw + ")";
  if (t == DType::kInt8) return "extend_i8(" + raw + ")";
  if (t == DType::kInt16) return "extend_i16(" + raw + ")";
  return raw;
}
std::string KernelEmitter::stored(DType t, const std::string& x) const {
  if (t == DType::kFloat16) return "f32_to_f16(" + x + ")";
  if (t == DType::kBFloat16) return "bf16_bits(" + x + ")";
  if (is_small_signed(t) || t == DType::kBool) {
    return std::string("static_cast<") + type_name(storage_lane(t)) + ">(" + x + ")";
  }
  return x;
}
std::string KernelEmitter::rounded(DType t, std::string x) const {
  if (t == DType::kFloat16) return "round_f16(" + x + ")";
  if (t == DType::kBFloat16) return "round_bf16(" + x + ")";
  return x;
}

std::string KernelEmitter::cast(DType from, DType to, const std::string& x) {
  if (is_half(from)) from = DType::kFloat32;
  if (is_half(to)) to = DType::kFloat32;
  return from == to ? x : functions_.cast(from, to) + "(" + x + ")";
}

std::string KernelEmitter::integer(IntRef r) const {
  if (!r.is_constant()) return "a.n" + std::to_string(r.slot);
  if (r.constant == INT64_MIN) return "(-9223372036854775807ll - 1)";
  return r.constant < 0 ? "(" + std::to_string(r.constant) + "ll)" : std::to_string(r.constant) + "ll";
}

std::string KernelEmitter::affine(const Affine& a, VarId skipped) const {
  std::string sum;
  const auto add = [&](const std::string& term) { sum += (sum.empty() ? "" : " + ") + term; };
  if (a.offset != IntRef{}) add(integer(a.offset));
  for (const auto& t : a.terms) {
    if (t.var == skipped || t.stride == IntRef{}) continue;
    add(t.stride == IntRef{1} ? vars_[t.var] : vars_[t.var] + " * " + integer(t.stride));
  }
  return sum.empty() ? "0ll" : sum;
}

std::string KernelEmitter::element(const Address& a, VarId skipped) const {
  std::string sum = affine(a.map, skipped);
  for (const auto& i : a.indirect) {
    sum += " + static_cast<i64>(" + value(i.index) + ")";
    if (i.stride != IntRef{1}) sum += " * " + integer(i.stride);
  }
  return sum;
}

/// Where what a check finds is told.
std::string KernelEmitter::error_slot(const Stmt& s) const {
  return s.slot == 0 ? "a.errors" : "a.errors + " + std::to_string(s.slot * kReportWords);
}

std::string KernelEmitter::bounds(const Stmt& s) const {
  std::string all;
  for (const Bound& b : s.bounds) {
    const std::string x = affine(b.map);
    all += cat({all.empty() ? "" : " && ", integer(b.lo), " <= ", x, " && ", x, " < ", integer(b.hi)});
  }
  return "(" + all + ")";
}

}  // namespace smolder::jit::cuda
