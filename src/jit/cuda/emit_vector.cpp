// What is in a vector loop. Each statement is done for all lanes that a thread has before the next is, as the CPU's
// vectors do it.
#include <algorithm>
#include <utility>

#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

namespace {

bool is_fixed(const Affine& a, VarId v) { return stride_of(a, v) == IntRef{}; }

/// What of a loop's body has a result.
const Stmt* definition(const Stmt& loop, LocalId x) {
  const auto it = std::ranges::find(loop.body, x, &Stmt::result);
  return it == loop.body.end() ? nullptr : &*it;
}

}  // namespace

// A chunk is V neighbouring elements from `i` on, all of them the loop's and aligned for the widest loads where there
// are several. What is not whole is taken as chunks of one, by the same text.

/// The thread's own lanes: the loop is around the whole body.
void KernelEmitter::vector_columns(const Stmt& s) {
  loop_ = &s;
  vars_[s.vars[0]] = "(i + k)";
  line("{");
  for (const Stmt& inner : s.body) is_uniform(inner) ? statement(inner) : varying(inner);
  line("}");
  loop_ = nullptr;
}

/// What all lanes share, and of what varies the names.
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

/// Of the loop's positions that are divided.
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
  const std::string whole = shape_.has_row_size() ? "whole" : "whole && n % V == 0";
  line("const auto chunk = [&](int c, int i, auto lanes) {");
  lanes_begin();
  for (const Stmt& inner : s.body) {
    if (!is_uniform(inner)) varying(inner);
  }
  line("};");
  const bool several = takes_several_chunks(s);
  const std::string copies = copy_next(s);
  const bool near_chunks = keeps_near() && several;
  if (shape_.vector == 1) {
    single_elements(s);
  } else if (near_chunks) {
    // The other text is for what hardly comes: were it longer, this one would have fewer registers.
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
  } else if (has_two_rows() && k_.row.chunks > 0 && several) {
    line("if constexpr (fits) {");
    line("const int first = t * V;");
    load_held(s, true);
    line("FOR_CHUNKS chunk(c, i, Lanes<V>());");
    load_next(s);
    line("} else if (" + whole + ") {");
  } else {
    if (k_.row.rest) line("const int all = whole ? n / V * V : 0;");
    line("if (" + whole + ") {");
    if (k_.row.rest) line("const int n = all;");
  }
  if (shape_.vector > 1 && !near_chunks) {
    line("#pragma unroll 1");
    if (several) {
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
    } else {
      line("for (int first = t * (V << pair); first < n; first += step << pair) {");
      line("for (int i = first; i < n && i < first + (V << pair); i += V) chunk(0, i, Lanes<V>());");
      line("}");
    }
    if (k_.row.rest) {
      line("}");
      line(may_deal_anew(s) ? std::string("for_any(all, n, chunk);")
                            : cat({"for_rest<V>(all, n, unit_of(", integer(s.extents[0]), "), chunk);"}));
    } else {
      line("} else {");
      single_elements(s);
      line("}");
    }
  }
  add_after_rows(std::move(before));
  line("}");
  loop_ = nullptr;
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

/// A chunk of a near row, on its way to shared memory.
std::string KernelEmitter::copy_near(const KernelShape::SharedRow& near, const std::string& from) const {
  const std::string b = std::to_string(near.buffer), type = type_name(storage_lane(k_.buffers[near.buffer].dtype));
  return cat({"copy_near<", type, ", V>(near", b, " + i, ", from, " + i); "});
}

/// What the loop is the last to read makes room for the next position's: where that is, and what copies a chunk of it.
std::string KernelEmitter::copy_next(const Stmt& s) {
  std::string copies;
  for (const auto& near : shape_.near_rows) {
    if (!walks() || near.vector != &s) continue;
    const KernelShape::HeldRow& row = *held_row(near.buffer);
    const std::string b = std::to_string(near.buffer);
    line("const auto next" + b + " = [&] {");
    position("now + a.blocks");
    line(cat({"return fixed(", buffer(near.buffer), " + (", affine(row.hold->address.map, row.var()), "));"}));
    line("}();");
    copies += copy_near(near, "next" + b);
  }
  if (!copies.empty()) line("const bool more = near && now + a.blocks < a.positions;");
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

/// What this loop finds of held rows nowhere but in memory: all on its way before any of it is used. `fits`: of two
/// texts, that of rows that fit; of near rows that is one chunk.
void KernelEmitter::load_held(const Stmt& s, bool fits) {
  std::string always, short_row, long_row;
  Loads first_turn;
  for (const auto& row : shape_.held) {
    const auto access = std::ranges::find_if(s.body, [&](const Stmt& inner) {
      return (inner.kind == StmtKind::kLoad || inner.kind == StmtKind::kStore) && inner.address.buffer == row.buffer;
    });
    const bool is_used = access != s.body.end(), is_first = !row.is_written() && row.first == &s;
    if (!is_first && (!is_used || access->kind == StmtKind::kStore)) continue;
    const Address& address = is_first ? row.hold->address : access->address;
    const VarId v = s.vars[0];
    if (fits && is_read_ahead(row)) {
      if (is_first) add_load(first_turn, address, v);
      continue;
    }
    std::string& loads = !is_first ? long_row : is_used ? always : short_row;
    const std::string b = std::to_string(row.buffer), at = row_at(address, v);
    const bool is_near =
        std::ranges::find(shape_.near_rows, row.buffer, &KernelShape::SharedRow::buffer) != shape_.near_rows.end();
    if (is_near) loads += cat({"if constexpr (near) load_whole(held", b, "[c], near", b, " + i); else "});
    loads += cat({"load_whole(held", b, "[c], ", at, " + i); "});
  }
  if (keeps_near() && fits) {
    if (!always.empty() || !long_row.empty()) line(always + long_row);
    return;
  }
  if (!always.empty()) line("FOR_CHUNKS { " + always + "}");
  load_chunks("if (starts)", first_turn);
  const bool known = shape_.has_row_size();
  if (!short_row.empty() && (fits || !known)) line((known ? "" : "if (fits) ") + ("FOR_CHUNKS { " + short_row + "}"));
  if (!long_row.empty() && !fits) line((known ? "" : "if (!fits) ") + ("FOR_CHUNKS { " + long_row + "}"));
}

/// The row of an access, whose address takes registers only there.
void KernelEmitter::add_load(Loads& loads, const Address& a, VarId v) {
  const std::string b = std::to_string(a.buffer);
  loads.places += cat({"const auto row", b, " = fixed_here(", buffer(a.buffer), " + (", affine(a.map, v), ")); "});
  loads.chunks += cat({"load_whole(held", b, "[c], row", b, " + i); "});
}

void KernelEmitter::load_chunks(const std::string& condition, const Loads& loads) {
  if (!loads.chunks.empty()) line(cat({condition, " { ", loads.places, "FOR_CHUNKS { ", loads.chunks, "} }"}));
}

/// What the next turn of a team loads, where this one needs its registers no more: all at once, as a chunk that is
/// computed after such a load may wait for it, whatever it reads.
void KernelEmitter::load_next(const Stmt& s) {
  Loads loads;
  for (const auto& row : shape_.held) {
    if (!is_read_ahead(row) || row.last != &s) continue;
    std::string& turn = vars_[shape_.team->vars[0]];
    const std::string name = std::exchange(turn, "next");
    add_load(loads, row.hold->address, row.var());
    turn = name;
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

std::string KernelEmitter::pack(int buffer) const {
  return std::string("Pack<") + type_name(storage_lane(k_.buffers[buffer].dtype)) + ", V>";
}

std::string KernelEmitter::chunk_at(const Address& a) {
  if (in_team_ && is_shared(a)) return cat({"shared_row", std::to_string(a.buffer), " + i"});
  if (shape_.takes_several || shape_.in_chunks()) return row_at(a, loop_->vars[0]) + " + i";
  return buffer(a.buffer) + " + (" + affine(a.map, loop_->vars[0]) + ") + i";
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
      return;  // see held_rows, load_held and shared_rows
    case StmtKind::kCombine:
      return combine(s);
    case StmtKind::kLoad:
      return varying_load(s);
    case StmtKind::kStore:
      return varying_store(s);
    case StmtKind::kUpdate: {
      const Accumulator& acc = accs_[s.acc];
      if (const Stmt* load = loaded_halves(s, *loop_); load && load->dtype == acc.half && !acc.pair.empty()) {
        return line(cat({functions_.extremum_of_pack(acc.step, acc.half), "<", std::to_string(acc.sides), ">(",
                         acc.address(), ", ", acc.pair, ", raw", std::to_string(load->result), ");"}));
      }
      return lanes(cat({acc.side(), " = ", functions_.primitive(acc.step, acc.dtype), "(", acc.side(), ", ",
                        value(s.args[0]), ");"}));
    }
    case StmtKind::kCheckIndex:
      declare_lanes(s);
      return line(cat({"if (clamp_lanes(", locals_[s.result].name, ", ", locals_[s.args[0]].name, ", ",
                       integer(s.limit), ")) ", functions_.report_lanes(), "(", error_slot(s), ", ",
                       locals_[s.args[0]].name, ", ", integer(s.limit), ");"}));
    default:
      break;
  }
  const std::string x = declare_lanes(s), kept = repeat_of(&KernelShape::Repeat::again, s);
  if (!kept.empty()) {
    line("if constexpr (V > 1 && fits) {");
    lanes(x + " = " + kept + ";");
    line("} else {");
  }
  if (!random_lanes(s) && !exp_lanes(s) && !rare_lanes(s) && !div_lanes(s) && !divide_chunk(s)) {
    lanes(x + " = " + unrounded(s) + ";");
  }
  if (!kept.empty()) line("}");
  if (rounds(s)) {
    line(std::string("round_lanes_") + (s.dtype == DType::kFloat16 ? "f16(" : "bf16(") + locals_[s.result].name + ");");
  }
  if (const std::string keeps = repeat_of(&KernelShape::Repeat::first, s); !keeps.empty()) {
    line("if constexpr (V > 1 && fits) {");
    lanes(keeps + " = " + x + ";");
    line("}");
  }
}

/// Where the thread keeps what a statement computes of a row that fits, for when it comes again.
std::string KernelEmitter::repeat_of(const Stmt* KernelShape::Repeat::* which, const Stmt& s) const {
  const auto it = std::ranges::find(shape_.repeats, &s, which);
  return it == shape_.repeats.end() ? "" : "repeat" + std::to_string(it->first->result) + "[c].x[k]";
}

/// Of the update of a float32 maximum or minimum with halves as they lie in a chunk, the load of these.
const Stmt* KernelEmitter::loaded_halves(const Stmt& update, const Stmt& loop) const {
  const Accumulator& acc = accs_[update.acc];
  if (acc.dtype != DType::kFloat32 || (acc.step != ir::Op::kMaximum && acc.step != ir::Op::kMinimum)) return nullptr;
  const Stmt* s = definition(loop, update.args[0]);
  if (s && s->kind == StmtKind::kPrimitive && s->op == ir::Op::kCast) s = definition(loop, s->args[0]);
  if (!s || s->kind != StmtKind::kLoad || !is_half(s->dtype) || kept_of(s->address.buffer)) return nullptr;
  return is_contiguous(s->address, loop.vars[0]) && s->bounds.empty() ? s : nullptr;
}

/// Of all updates of an accumulator such a load.
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
  if (!keeps_near()) {
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
    const bool is_ahead = std::ranges::find(shape_.ahead, &s) != shape_.ahead.end();
    if (!is_ahead && std::ranges::find(loaded_first_, &s) == loaded_first_.end()) load_chunk(s);
    const std::string raw = "raw" + std::to_string(s.result);
    return lanes(name + " = " + lane_of(s.dtype, is_ahead ? raw_ahead(s) : raw) + ";");
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
  if (std::ranges::find(taken_ahead_, &s) != taken_ahead_.end())
    return line(cat({"take_held(", raw, ", held", std::to_string(s.result), ", ", at, ");"}));
  if (!held_row(s.address.buffer)) return line("load_whole(" + raw + ", " + at + ");");
  line(cat({"take_held(", raw, ", held", std::to_string(s.address.buffer), "[c], ", at, ");"}));
}

/// All elements of a regular chunk as the first.
void KernelEmitter::load_regular(const Stmt& s, const std::string& name) {
  const bool ahead = std::ranges::find(shape_.ahead, &s) != shape_.ahead.end();
  const std::string raw = ahead ? raw_ahead(s) : "raw" + std::to_string(s.result);
  line("constexpr int k = 0;");
  const bool bounded = !s.bounds.empty();
  if (bounded) line("const bool inside = " + bounds(s) + ";");
  if (std::ranges::find(shape_.chunks.spread, &s) != shape_.chunks.spread.end()) {
    const std::string x = loaded(s.dtype, buffer(s.address.buffer) + "[" + element(s.address) + "]");
    const std::string fill = bounded ? literal(register_lane(s.dtype), register_bits(s.constant, s.dtype)) : "";
    line("const auto one = " + (bounded ? "inside ? " + x + " : " + fill : x) + ";");
    return lanes(name + " = one;");
  }
  if (!ahead) {
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
  if (is_contiguous(s.address)) {
    const std::string out = "out" + std::to_string(outs_++), n = std::to_string(s.address.buffer);
    line(pack(s.address.buffer) + " " + out + ";");
    lanes(out + ".x[k] = " + x + ";");
    if (const KernelShape::HeldRow* row = held_row(s.address.buffer);
        row && (row->is_scratch || row->last_store != &s)) {
      line(cat({"keep_held(held", n, "[c], ", out, ");"}));
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
  // All elements go to one place: the last stays.
  const bool one_place = is_fixed(s.address.map, v) && std::ranges::none_of(s.address.indirect, [&](const auto& i) {
                           return locals_[i.index].varies;
                         });
  const std::string store = b + "[" + element(s.address) + "] = " + x + ";";
  if (one_place) return lanes("if (" + vars_[v] + " == n - 1) " + store);
  lanes(store);
}

std::string KernelEmitter::lane_of(DType t, const std::string& pack) const {
  return t == DType::kBFloat16 ? "bf16_lane(" + pack + ", k)" : loaded(t, pack + ".x[k]");
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
