#include "smolder/lazy/recompile.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <ranges>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/fork.h"
#include "smolder/ir/attr_words.h"
#include "smolder/jit/cache/kernel_cache.h"
#include "smolder/lazy/autocast.h"

namespace smolder::lazy {
namespace {

constexpr size_t kMaxKept = 256;       // explanations of the process
constexpr size_t kMaxCompared = 32;    // traces that the nearest is looked for among
constexpr size_t kReach = 4096;        // ops looked ahead for where two traces go on alike
constexpr uint8_t kAutocast = 1 << 7;  // of recording modes; the other bits are the dtype

std::string quoted(ir::Op op) { return "`" + std::string(ir::name(op)) + "`"; }

std::string meta_text(const ir::Meta& m) {
  std::string out = std::string(name(m.dtype)) + "[";
  for (int i = 0; i < m.shape.size(); ++i) out += (i ? ", " : "") + std::to_string(m.shape[i]);
  return out + "]";
}

/// A size as plans see it: 0, 1, or some size.
constexpr int64_t size_class(int64_t size) { return std::min<int64_t>(size, 2); }

/// Compares two traces, with sizes as they are or as plans see them.
class Comparison {
 public:
  Comparison(const Trace& now, const Trace& known, bool exact) : now_(now), known_(known), exact_(exact) {}

  /// The first instruction that differs, which may be one past the end of either; none when all are alike.
  std::optional<size_t> first_difference() const {
    const size_t n = std::min(now_.instrs.size(), known_.instrs.size());
    for (size_t i = 0; i < n; ++i) {
      if (!alike(i)) return i;
    }
    if (now_.instrs.size() == known_.instrs.size()) return {};
    return n;
  }

  /// The difference there.
  Recompile describe(size_t i) const {
    if (i == now_.instrs.size()) return missing(i, known_.instrs.size() - i);
    if (i == known_.instrs.size()) return extra(i, now_.instrs.size() - i);
    const Instr &x = now_.instrs[i], &y = known_.instrs[i];
    if (autocast_changed(x, y)) return autocast(i);
    if (x.op != y.op || x.source != y.source) {
      if (const auto shifted = more_or_fewer(i)) return *shifted;
    }
    if (x.op != y.op) return other_op(i);
    if (x.num_inputs != y.num_inputs) {
      return at(
          i, Cause::kTopology,
          quoted(x.op) + " takes " + std::to_string(x.num_inputs) + " operands, took " + std::to_string(y.num_inputs));
    }
    const uint32_t first = now_.values_before(i);
    for (uint16_t k = 0; k < x.num_inputs; ++k) {
      const OperandWord a = now_.inputs_of(x)[k], b = known_.inputs_of(y)[k];
      if (a != b) return other_operand(i, k);
      const bool is_new_leaf = is_value(a) && a != kNoOperand && a >= first && a < x.first_output;
      if (is_new_leaf && !same_meta(*now_.metas[a], *known_.metas[a])) return other_leaf(i, k, a);
    }
    return other_attribute(i);
  }

 private:
  bool alike(size_t i) const {
    const Instr &x = now_.instrs[i], &y = known_.instrs[i];
    if (x.op != y.op || !std::ranges::equal(now_.inputs_of(x), known_.inputs_of(y))) return false;
    for (uint32_t v = now_.values_before(i); v < x.first_output; ++v) {
      if (!same_meta(*now_.metas[v], *known_.metas[v])) return false;
    }
    return same_attrs(x, y);
  }

  int64_t size(int64_t n) const { return exact_ ? n : size_class(n); }
  bool same_meta(const ir::Meta& a, const ir::Meta& b) const {
    return a.dtype == b.dtype &&
           std::ranges::equal(
               a.shape, b.shape, {}, [&](int64_t n) { return size(n); }, [&](int64_t n) { return size(n); });
  }
  std::vector<int64_t> attr_words(const Trace& t, const Instr& e) const {
    const auto words = t.attrs_of(e);
    std::vector<int64_t> out(words.begin(), words.end());
    ir::for_each_attr_word(ir::info(e.op), words, [&](size_t w, ir::WordRole role) {
      if (role != ir::kFixedWord) out[w] = role == ir::kPositionWord && !exact_ ? 0 : size(out[w]);
    });
    return out;
  }
  bool same_attrs(const Instr& x, const Instr& y) const {
    return std::ranges::equal(now_.attrs_of(x), known_.attrs_of(y)) ||
           (x.num_attrs == y.num_attrs && attr_words(now_, x) == attr_words(known_, y));
  }

  Recompile at(size_t i, Cause cause, std::string reason) const {
    const auto line = [&](const Trace& t) {
      return t.instrs.empty() ? std::string() : resolve_source(t.instrs[std::min(i, t.instrs.size() - 1)].source);
    };
    Recompile out;
    out.cause = cause;
    out.reason = std::move(reason);
    out.where = line(now_);
    out.before = line(known_);
    return out;
  }

  /// "`relu`, `mul` and 3 more ops are", of `count` instructions.
  static std::string list(const Trace& t, size_t first, size_t count) {
    std::string out;
    const size_t shown = count <= 3 ? count : 2;
    for (size_t i = 0; i < shown; ++i) {
      if (i) out += i + 1 == count ? " and " : ", ";
      out += quoted(t.instrs[first + i].op);
    }
    if (shown < count) out += " and " + std::to_string(count - shown) + " more ops";
    return out + (count == 1 ? " is" : " are");
  }
  Recompile extra(size_t i, size_t count) const {
    return at(i, Cause::kTopology,
              list(now_, i, count) + " recorded here, and " + (count == 1 ? "was" : "were") + " not");
  }
  Recompile missing(size_t i, size_t count) const {
    const std::string next =
        i < now_.instrs.size() ? "; " + quoted(now_.instrs[i].op) + " follows at once" : "; the step ends before";
    return at(i, Cause::kTopology, list(known_, i, count) + " no longer recorded" + next);
  }

  /// How far behind `from` an instruction like `wanted` is, if possible followed by one like its successor; 0 when
  /// there is none.
  static size_t find(const Trace& in, size_t from, const Trace& of, size_t wanted) {
    const auto like = [&](size_t a, size_t b) {
      if (a >= in.instrs.size() || b >= of.instrs.size()) return a == in.instrs.size() && b == of.instrs.size();
      return in.instrs[a].op == of.instrs[b].op && in.instrs[a].source == of.instrs[b].source;
    };
    size_t alone = 0;
    for (size_t k = 1; k <= kReach && from + k < in.instrs.size(); ++k) {
      if (!like(from + k, wanted)) continue;
      if (like(from + k + 1, wanted + 1)) return k;
      if (!alone) alone = k;
    }
    return alone;
  }
  std::optional<Recompile> more_or_fewer(size_t i) const {
    const size_t more = find(now_, i, known_, i), fewer = find(known_, i, now_, i);
    if (more && (!fewer || more <= fewer)) return extra(i, more);
    if (fewer) return missing(i, fewer);
    return {};
  }
  Recompile other_op(size_t i) const {
    const Instr &x = now_.instrs[i], &y = known_.instrs[i];
    if (ir::name(x.op) == ir::name(y.op)) return at(i, Cause::kMode, quoted(x.op) + " was registered anew");
    return at(i, Cause::kTopology, quoted(x.op) + " is recorded, was " + quoted(y.op));
  }

  /// The name of an operand in the op's signature; its number where lists are flattened.
  static std::string operand_name(const Instr& e, size_t k) {
    const auto operands = ir::info(e.op).operands;
    const bool lists =
        std::ranges::any_of(operands, [](const auto& o) { return o.kind == ir::OperandInfo::kTensorList; });
    if (!lists && k < operands.size()) return "`" + std::string(operands[k].name) + "`";
    return "operand " + std::to_string(k);
  }
  static std::string operand_text(const Trace& t, size_t i, size_t k) {
    const auto inputs = t.inputs_of(t.instrs[i]);
    const OperandWord w = inputs[k];
    if (w == kNoOperand) return "nothing";
    if (is_number(w)) {
      static constexpr const char* kNumbers[] = {"a bool", "an int", "a float"};
      return kNumbers[w & ~kNumberBit];
    }
    const std::string meta = meta_text(*t.metas[w]);
    if (!t.is_leaf[w]) {
      const auto after = std::ranges::upper_bound(t.instrs, w, {}, &Instr::first_output);
      return "the result of " + quoted(std::prev(after)->op) + ", " + meta;
    }
    const bool seen = w < t.values_before(i) || std::ranges::find(inputs.first(k), w) != inputs.begin() + k;
    return (seen ? "a tensor that the step used before, " : "a tensor, ") + meta;
  }
  Recompile other_operand(size_t i, size_t k) const {
    const Instr& x = now_.instrs[i];
    const OperandWord a = now_.inputs_of(x)[k], b = known_.inputs_of(known_.instrs[i])[k];
    const bool numbers = a != kNoOperand && b != kNoOperand && is_number(a) && is_number(b);
    return at(i, numbers ? Cause::kDType : Cause::kTopology,
              quoted(x.op) + " takes as " + operand_name(x, k) + " " + operand_text(now_, i, k) + "; took " +
                  operand_text(known_, i, k));
  }
  Recompile other_leaf(size_t i, size_t k, uint32_t leaf) const {
    const ir::Meta &a = *now_.metas[leaf], &b = *known_.metas[leaf];
    return at(i, a.dtype != b.dtype ? Cause::kDType : Cause::kShape,
              quoted(now_.instrs[i].op) + " takes as " + operand_name(now_.instrs[i], k) + " a tensor " + meta_text(a) +
                  "; took " + meta_text(b));
  }

  struct Argument {
    ir::AttrKind kind;
    std::string_view name;
    std::string text;
    std::vector<int64_t> words;
  };
  std::vector<Argument> arguments(const Trace& t, const Instr& e) const {
    std::vector<Argument> out;
    const auto words = t.attrs_of(e);
    const std::vector<int64_t> classes = attr_words(t, e);
    ir::for_each_attr(ir::info(e.op), words, [&](const ir::AttrInfo& a, size_t first, size_t count) {
      const auto begin = classes.begin() + static_cast<ptrdiff_t>(first);
      out.push_back({a.kind,
                     a.name,
                     ir::attr_text(a, words.subspan(first, count)),
                     {begin, begin + static_cast<ptrdiff_t>(count)}});
    });
    return out;
  }
  static Cause cause_of(ir::AttrKind kind) {
    switch (kind) {
      case ir::AttrKind::kDType:
      case ir::AttrKind::kOptionalDType:
        return Cause::kDType;
      case ir::AttrKind::kSize:
      case ir::AttrKind::kOptionalSize:
      case ir::AttrKind::kSizeList:
        return Cause::kShape;
      default:
        return Cause::kAttribute;
    }
  }
  Recompile other_attribute(size_t i) const {
    const Instr &x = now_.instrs[i], &y = known_.instrs[i];
    const std::vector<Argument> a = arguments(now_, x), b = arguments(known_, y);
    for (size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
      if (a[k].words == b[k].words) continue;
      return at(i, cause_of(a[k].kind),
                quoted(x.op) + ": `" + std::string(a[k].name) + "` is " + a[k].text + ", was " + b[k].text);
    }
    return at(i, Cause::kAttribute, "the arguments of " + quoted(x.op) + " differ");
  }

  /// Ops of one line that differ, one recorded within autocast and the other not, or in regions of other dtypes.
  static bool autocast_changed(const Instr& x, const Instr& y) {
    return x.modes != y.modes && x.source == y.source && x.source;
  }
  Recompile autocast(size_t i) const {
    const Instr &x = now_.instrs[i], &y = known_.instrs[i];
    const auto dtype = [](uint8_t modes) { return std::string(name(static_cast<DType>(modes & ~kAutocast))); };
    const std::string ops = ": " + quoted(x.op) + " is recorded, was " + quoted(y.op);
    if (!(x.modes & kAutocast)) return at(i, Cause::kMode, "autocast is off, was on (" + dtype(y.modes) + ")" + ops);
    if (!(y.modes & kAutocast)) return at(i, Cause::kMode, "autocast is on (" + dtype(x.modes) + "), was off" + ops);
    return at(i, Cause::kMode, "autocast is to " + dtype(x.modes) + ", was to " + dtype(y.modes) + ops);
  }

  const Trace &now_, &known_;
  bool exact_;
};

/// How alike traces are to one: ops, lines, and calls with their arguments that they share, wherever they stand.
class Likeness {
 public:
  explicit Likeness(const Trace& t) : trace_(t) {
    each_key(t, [&](uint64_t key) {
      const auto [at, fresh] = index_.try_emplace(key, counts_.size());
      if (fresh) counts_.push_back(0);
      ++counts_[at->second];
    });
  }

  /// 0 to 1: the share of the longer trace, and that of the shorter. Ops alike, from other lines, are a third, as are
  /// other ops of the same lines.
  std::pair<double, double> of(const Trace& other) const {
    std::vector<uint32_t> left = counts_;
    int64_t common = 0;
    each_key(other, [&](uint64_t key) {
      const auto found = index_.find(key);
      if (found == index_.end() || left[found->second] == 0) return;
      --left[found->second];
      ++common;
    });
    const auto [fewer, more] = std::minmax({trace_.instrs.size(), other.instrs.size()});
    const auto share = [&](size_t of) { return static_cast<double>(common) / (3.0 * static_cast<double>(of)); };
    return {share(more), share(fewer)};
  }

  /// Instructions at the start that are equal.
  size_t prefix(const Trace& other) const {
    const size_t n = std::min(trace_.instrs.size(), other.instrs.size());
    const auto range = std::views::iota(size_t{0}, n);
    return *std::ranges::partition_point(range, [&](size_t i) { return trace_.prefix[i] == other.prefix[i]; });
  }

 private:
  static void each_key(const Trace& t, auto f) {
    for (const Instr& e : t.instrs) {
      f(static_cast<uint64_t>(e.op));
      f(uint64_t{1} << 32 | e.source);
      Hash128 call{static_cast<uint64_t>(e.op), e.source};
      for (const int64_t word : t.attrs_of(e)) mix(call, static_cast<uint64_t>(word));
      f(call.lo | uint64_t{1} << 63);
    }
  }

  const Trace& trace_;
  std::unordered_map<uint64_t, size_t> index_;
  std::vector<uint32_t> counts_;
};

/// The trace most like the step's; of equals that which starts alike for longest, then the one that ran last, then the
/// latest. Null when none has much in common with it.
const Trace* nearest(const Trace& t, std::span<const std::shared_ptr<Trace>> known, const Trace* last, auto may) {
  constexpr double kLittle = 0.3, kContained = 0.6;
  using Rank = std::tuple<double, size_t, bool>;
  const Likeness likeness(t);
  const Trace* best = nullptr;
  Rank most{0, 0, false};
  size_t seen = 0;
  const auto look_at = [&](const Trace& other) {
    if (&other == &t || !may(other)) return;
    ++seen;
    const auto [of_longer, of_shorter] = likeness.of(other);
    if (of_longer < kLittle && of_shorter < kContained) return;
    const Rank rank{of_longer, likeness.prefix(other), &other == last};
    if (rank > most) most = rank, best = &other;
  };
  if (last) look_at(*last);
  for (auto other = known.rbegin(); other != known.rend() && seen < kMaxCompared; ++other) look_at(**other);
  return best;
}

const Instr& maker_of(const Trace& t, uint32_t value) {
  return *std::prev(std::ranges::upper_bound(t.instrs, value, {}, &Instr::first_output));
}

/// The step `t` holds other results than `known`, which is alike, was compiled for.
Recompile explain_liveness(const Trace& t, std::span<const uint32_t> produced, const Trace& known) {
  std::vector<uint32_t> more, fewer;
  for (const PlanEntry& e : known.plans) {
    std::vector<uint32_t> in, out;
    std::ranges::set_difference(produced, e.produced, std::back_inserter(in));
    std::ranges::set_difference(e.produced, produced, std::back_inserter(out));
    if (&e != &known.plans.front() && in.size() + out.size() >= more.size() + fewer.size()) continue;
    more = std::move(in), fewer = std::move(out);
  }
  Recompile out;
  out.cause = Cause::kLiveness;
  const bool held = !more.empty();
  const std::vector<uint32_t>& values = held ? more : fewer;
  if (values.empty()) {
    out.reason = "the results that are held were held before in another order";
    out.where = out.before = resolve_source(t.instrs[0].source);
    return out;
  }
  const Instr& maker = maker_of(t, values[0]);
  out.reason = "the result of " + quoted(maker.op) + ", " + meta_text(*t.metas[values[0]]) + ", " +
               (held ? "is held when the step ends, and was not" : "is no longer held when the step ends");
  if (values.size() > 1) out.reason += " (and so of " + std::to_string(values.size() - 1) + " more)";
  out.where = resolve_source(maker.source);
  out.before = resolve_source(maker_of(known, values[0]).source);
  return out;
}

/// Where a symbol of a trace's plan comes from.
struct SymbolSite {
  std::string text;
  const Instr* instr;
};
std::vector<SymbolSite> symbol_sites(const Trace& t) {
  std::vector<SymbolSite> out;
  for (size_t i = 0; i < t.instrs.size(); ++i) {
    const Instr& e = t.instrs[i];
    for (uint32_t v = t.values_before(i); v < e.first_output; ++v) {
      for (int axis = 0; axis < t.metas[v]->shape.size(); ++axis) {
        out.push_back({"extent " + std::to_string(axis) + " of the " + meta_text(*t.metas[v]) + " that " +
                           quoted(e.op) + " takes",
                       &e});
      }
    }
    ir::for_each_attr_word(ir::info(e.op), t.attrs_of(e), [&](size_t, ir::WordRole role) {
      if (role == ir::kFixedWord) return;
      out.push_back(
          {(role == ir::kSizeWord ? "a size that " : "a position, plus 2, that ") + quoted(e.op) + " is given", &e});
    });
  }
  return out;
}

/// A plan of the same structure does not serve these sizes.
Recompile explain_guard(const Trace& t, const Trace* known, const jit::Plan& plan) {
  const std::vector<int64_t> now = symbol_values(t), before = known ? symbol_values(*known) : now;
  const std::string guard = plan.failed_guard(now);
  const std::vector<SymbolSite> sites = symbol_sites(t);
  Recompile out;
  out.cause = Cause::kShape;
  out.reason = "the known plan needs " + guard;
  const SymbolSite* chosen = nullptr;
  std::vector<size_t> told;
  for (size_t at = 0; at < guard.size(); ++at) {
    if (guard[at] != 's' || at + 1 == guard.size() || !std::isdigit(static_cast<unsigned char>(guard[at + 1])))
      continue;
    const auto symbol = static_cast<size_t>(std::strtoul(guard.c_str() + at + 1, nullptr, 10));
    if (symbol >= sites.size() || std::ranges::find(told, symbol) != told.end()) continue;
    out.reason += (told.empty() ? ": s" : ", s") + std::to_string(symbol) + " is " + std::to_string(now[symbol]);
    told.push_back(symbol);
    const bool changed = symbol < before.size() && before[symbol] != now[symbol];
    if (changed) out.reason += ", was " + std::to_string(before[symbol]);
    out.reason += " (" + sites[symbol].text + ")";
    if (!chosen || changed) chosen = &sites[symbol];
  }
  const Instr& blamed = chosen ? *chosen->instr : t.instrs[0];
  out.where = resolve_source(blamed.source);
  if (known) out.before = resolve_source(known->instrs[static_cast<size_t>(&blamed - t.instrs.data())].source);
  return out;
}

Recompile new_step(const Trace& t) {
  Recompile out;
  out.reason = "no step like it is known";
  out.where = t.instrs.empty() ? "" : resolve_source(t.instrs[0].source);
  return out;
}

RecompileLog log_from_environment() {
  const char* const text = std::getenv("SMOLDER_LOGS");
  std::string_view rest = text ? text : "";
  RecompileLog out = RecompileLog::kOff;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, comma);
    if (word == "recompiles")
      out = std::max(out, RecompileLog::kRecompiles);
    else if (word == "recompiles_verbose")
      out = RecompileLog::kVerbose;
    else if (word != "guards" && word != "graph_breaks")  // which are told by smolder.compiler
      debug(0, "logs",
            "SMOLDER_LOGS knows recompiles, recompiles_verbose, guards and graph_breaks, found '" + std::string(word) +
                "'");
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return out;
}
std::atomic<RecompileLog>& the_log() {
  static std::atomic<RecompileLog> log{log_from_environment()};
  return log;
}
std::atomic<OnRecompile> g_action{OnRecompile::kIgnore};

/// Never destroyed: steps may still run while statics are.
struct Kept {
  ForkMutex lock;
  std::deque<Recompile> all;
};
Kept& kept() {
  static auto* const k = new Kept;
  return *k;
}
/// Made before any lock is held, as its lock asks.
[[maybe_unused]] const Kept& g_made = kept();

/// A row for `smolder cache why`. Equal explanations are one row; that of a process which found all kernels is another,
/// so that what was built stays known.
void store(const Recompile& what) {
  jit::DiskCache& disk = jit::KernelCache::global().disk();
  if (!disk.available()) return;
  jit::CacheRecord record;
  record.kind = "recompile";
  record.structure = std::string(name(what.cause)) + "\n" + what.reason + "\n" + what.where + "\n" + what.before + "\n";
  if (!what.kernels.empty()) record.structure += "kernels were built\n";
  for (const jit::BuiltKernel& k : what.kernels) {
    record.payload += to_hex(k.key) + " " + std::to_string(k.milliseconds) + " " + k.name + "\n";
  }
  record.key = hash_bytes(record.structure.data(), record.structure.size());
  record.where = what.where;
  record.name = what.reason;
  record.build_ms = what.milliseconds;
  const std::string structure = record.structure;
  const jit::CacheKey key{"recompile", record.key, structure, {}};
  disk.insert(std::move(record));
  disk.release(key);  // nobody runs it
}

}  // namespace

std::string_view name(Cause cause) {
  static constexpr std::string_view kNames[] = {"new", "shape", "dtype", "attribute", "topology", "liveness", "mode"};
  return kNames[static_cast<int>(cause)];
}

std::string Recompile::text() const {
  char took[64];
  std::snprintf(took, sizeof took, " in %.1f ms, %zu kernel%s built", milliseconds, kernels.size(),
                kernels.size() == 1 ? "" : "s");
  std::string out = compiled ? std::string(cause == Cause::kNew ? "a step was compiled" : "a step was compiled again") +
                                   (behind ? " behind the program" : "") + took
                             : "a step was recorded anew and ran a known plan";
  out += "\n  " + std::string(name(cause)) + ": " + reason;
  if (!where.empty()) out += "\n  now at     " + where;
  if (!before.empty()) out += "\n  before at  " + before;
  return out;
}

std::vector<Recompile> recompiles() {
  const std::lock_guard hold(kept().lock);
  return {kept().all.begin(), kept().all.end()};
}

void forget_recompiles() {
  const std::lock_guard hold(kept().lock);
  kept().all.clear();
}

RecompileLog recompile_log() { return the_log().load(std::memory_order_relaxed); }
void set_recompile_log(RecompileLog log) { the_log() = log; }
OnRecompile on_recompile() { return g_action; }
void set_on_recompile(OnRecompile action) { g_action = action; }

Recompile explain(const Uncovered& step) {
  const Trace& t = step.trace;
  const auto has_plans = [](const Trace& other) { return !other.plans.empty(); };
  const Trace* const known = nearest(t, step.known, step.last, has_plans);
  const bool alike = known && !Comparison(t, *known, false).first_difference();
  if (step.refused) return explain_guard(t, alike ? known : nullptr, *step.refused);
  const auto of_these_sizes = [](const PlanEntry& e) { return e.constant_sizes; };
  if (step.constant_sizes && !t.plans.empty() && std::ranges::none_of(t.plans, of_these_sizes)) {
    Recompile out = new_step(t);
    out.cause = Cause::kMode;
    out.reason = "its sizes are to be constants (dynamic=False)";
    out.before = out.where;
    return out;
  }
  if (!t.plans.empty()) return explain_liveness(t, step.produced, t);
  if (t.dropped) {
    Recompile out = new_step(t);
    out.cause = Cause::kMode;
    out.reason = t.dropped;
    out.before = out.where;
    return out;
  }
  if (!known) return new_step(t);
  const Comparison exact(t, *known, true);
  if (const auto size = exact.first_difference(); alike && step.constant_sizes && size) return exact.describe(*size);
  if (alike) return explain_liveness(t, step.produced, *known);
  const Comparison compared(t, *known, false);
  return compared.describe(*compared.first_difference());
}

Recompile explain_recording(const Trace& trace, std::span<const std::shared_ptr<Trace>> known, const Trace* last) {
  const Trace* const near = nearest(trace, known, last, [](const Trace&) { return true; });
  Recompile out = new_step(trace);
  if (near) {
    const Comparison compared(trace, *near, true);
    if (const auto i = compared.first_difference()) out = compared.describe(*i);
  }
  out.compiled = false;
  return out;
}

std::optional<Recompile> compare(const Trace& now, std::span<const uint32_t> produced, const Trace& before) {
  const Comparison compared(now, before, true);
  if (const auto i = compared.first_difference()) return compared.describe(*i);
  if (std::ranges::equal(produced, before.plans.front().produced)) return std::nullopt;
  return explain_liveness(now, produced, before);
}

std::string tell(Recompile what) {
  static Counter& again = counter("plans.recompiled");
  const bool is_new = what.cause == Cause::kNew;
  const std::string text = what.text();
  if (what.compiled && !is_new) {
    again.add();
    record_event({"recompile", std::string(name(what.cause)) + ": " + what.reason, what.where, what.milliseconds});
  }
  const RecompileLog level = what.compiled && !is_new ? RecompileLog::kRecompiles : RecompileLog::kVerbose;
  if (recompile_log() >= level) debug(0, "recompiles", text);
  if (what.compiled && (!is_new || !what.kernels.empty())) store(what);
  const OnRecompile action = what.compiled ? on_recompile() : OnRecompile::kIgnore;
  const std::string where = what.where;
  {
    const std::lock_guard hold(kept().lock);
    kept().all.push_back(std::move(what));
    if (kept().all.size() > kMaxKept) kept().all.pop_front();
  }
  if (action == OnRecompile::kWarn) warn("recompile", text, where);
  return action == OnRecompile::kRaise ? text + "\n  (on_recompile(\"raise\") is set; the step completed)" : "";
}

uint8_t recording_modes(DeviceType device) {
  if (!AutocastCall::within(device)) return 0;
  return kAutocast | static_cast<uint8_t>(get_autocast_dtype(device));
}

}  // namespace smolder::lazy
