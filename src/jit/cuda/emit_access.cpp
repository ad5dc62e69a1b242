// Loads and stores of a loop over elements.
#include <algorithm>
#include <utility>

#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

std::string KernelEmitter::pack(int buffer) const {
  return std::string("Pack<") + type_name(storage_lane(k_.buffers[buffer].dtype)) + ", V>";
}

std::string KernelEmitter::chunk_at(const Address& a) {
  if (in_split_ && is_common(a)) return cat({"shared_row", std::to_string(a.buffer), " + i"});
  if (is_coarsened() || shape_.in_chunks()) return row_at(a, loop_->vars[0]) + " + i";
  return buffer(a.buffer) + " + (" + affine(a.map, loop_->vars[0]) + ") + i";
}

bool KernelEmitter::is_contiguous(const Address& a, VarId v) const {
  return shape_.vector > 1 && a.indirect.empty() && stride_of(a.map, v) == IntRef{1};
}

/// Whether chunks are taken with what lies between their elements.
bool KernelEmitter::is_spread(const Stmt& s, const Stmt& loop) const {
  if (!shape_.uses_between || shape_.vector == 1 || spread_of(s, loop.vars[0]) == 0) return false;
  return s.kind == StmtKind::kLoad || !joined_stores(loop, s).empty();
}

void KernelEmitter::load_spread(const Stmt& s, const std::string& name) {
  const std::string raw = "raw" + std::to_string(s.result), spread = std::to_string(spread_of(s, loop_->vars[0]));
  const std::string begin = std::to_string(s.address.map.offset.constant), k = cat({spread, " * k + ", begin});
  line("if constexpr (V > 1) {");
  line("constexpr int k = 0;");
  line(cat({"Pack<", type_name(storage_lane(s.dtype)), ", V * ", spread, "> ", raw, ";"}));
  line(cat({"load_whole(", raw, ", ", buffer(s.address.buffer), " + (", element(s.address), ") - ", begin, ");"}));
  const std::string x =
      s.dtype == DType::kBFloat16 ? cat({"bf16_lane(", raw, ", ", k, ")"}) : loaded(s.dtype, cat({raw, ".x[", k, "]"}));
  lanes(name + " = " + x + ";");
  line("} else {");
  load_lanes(s, name);
  line("}");
}

/// With the last of the stores whose elements lie between each other's.
void KernelEmitter::store_joined(const Stmt& s) {
  const std::vector<const Stmt*> all = joined_stores(*loop_, s);
  const bool is_last = std::none_of(&s + 1, loop_->body.data() + loop_->body.size(),
                                    [&](const Stmt& other) { return std::ranges::find(all, &other) != all.end(); });
  if (!is_last) return;
  const std::string out = "out" + std::to_string(outs_++), spread = std::to_string(all.size());
  line("if constexpr (V > 1) {");
  line(cat({"Pack<", type_name(storage_lane(s.dtype)), ", V * ", spread, "> ", out, ";"}));
  for (size_t i = 0; i < all.size(); ++i) {
    lanes(
        cat({out, ".x[", spread, " * k + ", std::to_string(i), "] = ", stored(s.dtype, value(all[i]->args[0])), ";"}));
  }
  line("constexpr int k = 0;");
  line(cat({"store_global(", buffer(s.address.buffer), " + (", element(all[0]->address), "), ", out, ");"}));
  line("} else {");
  for (const Stmt* one : all) {
    lanes(
        cat({buffer(s.address.buffer), "[", element(one->address), "] = ", stored(s.dtype, value(one->args[0])), ";"}));
  }
  line("}");
}

const KernelEmitter::Kept* KernelEmitter::kept_of(int buffer) const {
  const auto it = std::ranges::find(kept_, buffer, &Kept::buffer);
  return it == kept_.end() ? nullptr : &*it;
}

const KernelShape::HeldRow* KernelEmitter::held_row(int buffer) const {
  const auto it = std::ranges::find(shape_.held, buffer, &KernelShape::HeldRow::buffer);
  return it == shape_.held.end() ? nullptr : &*it;
}

void KernelEmitter::varying_load(const Stmt& s) {
  const std::string name = declare_lanes(s), b = buffer(s.address.buffer);
  if (const Kept* kept = kept_of(s.address.buffer)) {
    return lanes(name + " = " + lane_of(s.dtype, kept->name) + ";");
  }
  if (is_contiguous(s.address) && s.bounds.empty()) {
    if (!s.ahead || is_coarsened()) load_chunk(s);
    const std::string raw = s.ahead && in_split_ ? raw_ahead(s) : "raw" + std::to_string(s.result);
    return lanes(name + " = " + lane_of(s.dtype, raw) + ";");
  }
  if (is_spread(s, *loop_)) return load_spread(s, name);
  if (std::ranges::find(shape_.chunks.loads, &s) == shape_.chunks.loads.end()) return load_lanes(s, name);
  line("if constexpr (R) {");
  load_regular(s, name);
  line("} else {");
  load_lanes(s, name);
  line("}");
}

void KernelEmitter::load_lanes(const Stmt& s, const std::string& name) {
  const std::string x = loaded(s.dtype, buffer(s.address.buffer) + "[" + element(s.address) + "]");
  if (s.bounds.empty()) return lanes(name + " = " + x + ";");
  const std::string fill = literal(register_lane(s.dtype), register_bits(s.constant, s.dtype));
  lanes(name + " = " + bounds(s) + " ? " + x + " : " + fill + ";");
}

/// The chunk of a load whose lanes are next to each other, as it lies in memory.
void KernelEmitter::load_chunk(const Stmt& s) {
  const std::string raw = "raw" + std::to_string(s.result), at = chunk_at(s.address);
  line(pack(s.address.buffer) + " " + raw + ";");
  if (s.ahead && is_coarsened())
    return line(cat({"from_registers(", raw, ", loaded", std::to_string(s.result), ", ", at, ");"}));
  if (!held_row(s.address.buffer)) return line("load_whole(" + raw + ", " + at + ");");
  line(cat({"from_registers(", raw, ", registers", std::to_string(s.address.buffer), "[c], ", at, ");"}));
}

/// All elements of a regular chunk as the first.
void KernelEmitter::load_regular(const Stmt& s, const std::string& name) {
  const std::string raw = s.ahead ? raw_ahead(s) : "raw" + std::to_string(s.result);
  line("constexpr int k = 0;");
  const bool bounded = !s.bounds.empty();
  if (bounded) line("const bool inside = " + bounds(s) + ";");
  if (std::ranges::find(shape_.chunks.spread, &s) != shape_.chunks.spread.end()) {
    const std::string x = loaded(s.dtype, buffer(s.address.buffer) + "[" + element(s.address) + "]");
    const std::string fill = bounded ? literal(register_lane(s.dtype), register_bits(s.constant, s.dtype)) : "";
    line("const auto one = " + (bounded ? "inside ? " + x + " : " + fill : x) + ";");
    return lanes(name + " = one;");
  }
  if (!s.ahead) {
    line(pack(s.address.buffer) + " " + raw + ";");
    line(std::string(bounded ? "if (inside) " : "") + "load_whole(" + raw + ", " + buffer(s.address.buffer) + " + (" +
         element(s.address) + "));");
  }
  if (!bounded) return lanes(name + " = " + lane_of(s.dtype, raw) + ";");
  const std::string fill = literal(register_lane(s.dtype), register_bits(s.constant, s.dtype));
  lanes(name + " = inside ? " + lane_of(s.dtype, raw) + " : " + fill + ";");
}

void KernelEmitter::varying_store(const Stmt& s) {
  if (is_spread(s, *loop_)) return store_joined(s);
  const std::string x = stored(s.dtype, value(s.args[0])), b = buffer(s.address.buffer);
  const VarId v = loop_->vars[0];
  if (const Kept* kept = kept_of(s.address.buffer)) return lanes(kept->name + ".x[k] = " + x + ";");
  if (is_contiguous(s.address)) return store_chunk(s, x);
  // All elements go to one place: the last stays.
  const bool one_place = is_fixed(s.address.map, v) && std::ranges::none_of(s.address.indirect, [&](const auto& i) {
                           return locals_[i.index].varies;
                         });
  const std::string store = b + "[" + element(s.address) + "] = " + x + ";";
  if (one_place) return lanes("if (" + vars_[v] + " == n - 1) " + store);
  lanes(store);
}

/// A chunk that is whole, as memory has it. What is held in registers goes there only where it must.
void KernelEmitter::store_chunk(const Stmt& s, const std::string& x) {
  const std::string out = "out" + std::to_string(outs_++), n = std::to_string(s.address.buffer);
  line(pack(s.address.buffer) + " " + out + ";");
  lanes(out + ".x[k] = " + x + ";");
  if (const KernelShape::HeldRow* row = held_row(s.address.buffer); row && (row->is_scratch || row->last_store != &s)) {
    line(cat({"to_registers(registers", n, "[c], ", out, ");"}));
    const std::string stores = row->is_scratch && row->last_store == &s ? "stores" + n : "!fits";
    const std::string store = shared_row(k_, s.address.buffer) ? "store_whole(" : "store_global(";
    return line(cat({"if (V == 1 || ", stores, ") ", store, chunk_at(s.address), ", ", out, ");"}));
  }
  const bool streams = s.streaming && !is_columns();
  const std::string store = streams                            ? "stream_whole("
                            : shared_row(k_, s.address.buffer) ? "store_whole("
                                                               : "store_global(";
  return line(cat({store, chunk_at(s.address), ", ", out, ");"}));
}

std::string KernelEmitter::lane_of(DType t, const std::string& pack) const {
  return t == DType::kBFloat16 ? "bf16_lane(" + pack + ", k)" : loaded(t, pack + ".x[k]");
}

void KernelEmitter::hold(const Stmt& s) {
  const int b = s.address.buffer;
  kept_.push_back(
      {b, cat({"registers", std::to_string(b), "_", std::to_string(held_++)}), s.address, shape_.chunk_loop->vars[0]});
  transfer_kept(kept_.back(), true);
}

void KernelEmitter::release(const Stmt& s) {
  const auto it = std::ranges::find(kept_, s.address.buffer, &Kept::buffer);
  transfer_kept(*it, false);
  kept_.erase(it);
}

/// Takes the elements of a loop to registers before it, and back after.
void KernelEmitter::transfer_kept(const Kept& kept, bool load) {
  const std::string b = buffer(kept.buffer);
  vars_[kept.var] = "(i + k)";
  if (load) line(pack(kept.buffer) + " " + kept.name + ";");
  if (shape_.vector > 1 && stride_of(kept.address.map, kept.var) == IntRef{1}) {
    const std::string at = b + " + (" + affine(kept.address.map, kept.var) + ") + i";
    return line(load ? "load_whole(" + kept.name + ", " + at + ");" : "store_whole(" + at + ", " + kept.name + ");");
  }
  const std::string one = b + "[" + element(kept.address) + "]";
  lanes(load ? kept.name + ".x[k] = " + one + ";" : one + " = " + kept.name + ".x[k];");
}

}  // namespace smolder::jit::cuda
