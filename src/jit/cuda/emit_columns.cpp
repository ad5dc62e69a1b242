// The frame of a kernel whose threads take chunks through the whole body: positions, tiles, and the loop over chunks.
#include <algorithm>
#include <utility>

#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

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
    if (shape_.group_split) return split_columns(loop);
    if (const Stmt* const tile = tile_loop(k_)) fill_tiles(*tile);
    line("const i64 position = static_cast<i64>(row) * blockDim.y + threadIdx.y;");
    line("if (position >= a.positions) return;");
    position("position");
  }
  line("const bool aligned = " + aligned() + ";");
  regular();
  line("const i64 n = " + extent(loop) + ";");
  if (is_coarsened()) return several_chunks();
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

/// Computes once what is the same for all elements of a position, then takes several chunks, of which one is loaded
/// while another is used. The elements behind the last whole chunk are the last block's.
void KernelEmitter::several_chunks() {
  const std::vector<Stmt>& all = shape_.chunk_loop->body;
  const Stmt& s = all.back();
  line("const i64 step = V * blockDim.x, start = tile * step * a.chunks, end = smaller(n, start + step * a.chunks);");
  line("const i64 first = start + threadIdx.x * V, all = aligned ? n - n % V : 0, whole = smaller(all, end);");
  loop_ = &s;
  vars_[s.vars[0]] = "(i + k)";
  std::string before = std::exchange(out_, {});
  std::string loads;
  for (const Stmt& x : s.body) {
    if (!x.ahead) continue;
    const std::string result = std::to_string(x.result);
    line(cat({pack(x.address.buffer), " loaded", result, ", next", result, ";"}));
    loads += cat({"load_whole(next", result, ", ", chunk_at(x.address), "); "});
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
  for (const Stmt& x : s.body) {
    if (x.ahead) line(cat({"loaded", std::to_string(x.result), " = next", std::to_string(x.result), ";"}));
  }
  if (!loads.empty()) line("if (const i64 i = j + step; i < whole) { " + loads + "}");
  line("chunk(j, Lanes<V>());");
  line("}");
  line("#pragma unroll 1");
  line("for (i64 i = (all > start ? all : start) + threadIdx.x; i < end; i += blockDim.x) chunk(i, Lanes<1>());");
  add_after_rows(std::move(before));
  loop_ = nullptr;
}

/// Loads that come before all that is computed.
void KernelEmitter::load_first() {
  for (const Stmt& s : shape_.chunk_loop->body) {
    if (s.ahead) statement(s);
    if (s.kind != StmtKind::kLanes) continue;
    loop_ = &s;
    for (const Stmt& inner : s.body) {
      if (inner.ahead) load_chunk(inner);
    }
    loop_ = nullptr;
  }
}

/// Fills tiles before the loop whose chunks threads take: a thread makes several copies, and all wait for them.
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
  if (effort_ == Effort::kQuick) return "false";
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
    const int all = size * shape_.vector * std::max(spread, 1), bytes = std::min(16, all & -all);
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

/// The thread's own lanes: the loop is around the whole body.
void KernelEmitter::vector_columns(const Stmt& s) {
  loop_ = &s;
  vars_[s.vars[0]] = "(i + k)";
  line("{");
  for (const Stmt& inner : s.body) is_uniform(inner) ? statement(inner) : varying(inner);
  line("}");
  loop_ = nullptr;
}

}  // namespace smolder::jit::cuda
