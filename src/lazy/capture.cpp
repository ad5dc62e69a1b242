#include "smolder/lazy/capture.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "smolder/core/counters.h"
#include "smolder/ir/control_flow.h"
#include "smolder/ir/infer.h"

namespace smolder::lazy {
namespace {

/// The marks of run-time numbers while a step is recorded: integers and nans that no program has.
constexpr uint64_t kIntTag = 0x5eedc0de00000000ull, kFloatTag = 0x7ff85eed00000000ull;

}  // namespace

bool StepRecord::known() const { return !tape || tape->forgotten() == forgotten; }

uint32_t StepRecord::want(uint32_t number) {
  const auto at = std::ranges::find(wanted, number);
  if (at == wanted.end()) wanted.push_back(number);
  return static_cast<uint32_t>(std::ranges::find(wanted, number) - wanted.begin());
}

Capture::Capture(bool whole, const char* who) : outer_(std::exchange(current_, nullptr)), whole_(whole), who_(who) {
  const SourceToken source = capture_source();
  Tape::each([&](Tape& tape) {
    tape.sync("compiled function", source);
    if (!tape.mutex().reserve(&interrupted_)) return;  // by an outer capture
    tape.set_capture(this);
    tapes_.push_back(&tape);
  });
  current_ = this;
}

/// Ops recorded from now on need not be the thread's alone.
void Capture::let_others() {
  for (Tape* const tape : tapes_) tape->mutex().release();
}

Capture::~Capture() {
  current_ = outer_;
  // Ops that are still pending, as after an error, run as if they had been recorded by themselves.
  for (Tape* const tape : tapes_) {
    const std::lock_guard hold(tape->mutex());
    settle(tape->parameters());
    tape->set_capture(nullptr);
  }
  let_others();
}

void Capture::note_break(std::string_view reason, SourceToken source) {
  if (broken_) return;
  broken_ = true;
  reason_ = reason;
  where_ = resolve_source(source);
  let_others();
  SMOLDER_CHECK(!whole_, RuntimeError, who_, ": the graph breaks at '", reason, "'",
                where_.empty() ? "" : ", " + where_, ": it needs values while the function is recorded");
}

Capture::Used& Capture::use_of(Generator* g, GeneratorState state) {
  const auto at = std::ranges::find(used_, g, &Used::generator);
  if (at == used_.end()) {
    used_.push_back({g, state, state, true, {}});
    return used_.back();
  }
  if (at->now != state) note_break("random numbers of a generator that another thread uses", capture_source());
  return *at;
}

void Capture::note_draw(Generator* g, GeneratorState state, uint64_t offset) {
  Used& u = use_of(g, state);
  u.now.second = offset;
  const auto at = static_cast<uint32_t>(&u - used_.data());
  const Draw draw{at, u.relative, state.first, state.second - (u.relative ? u.begin.second : 0)};
  const auto [found, fresh] = draw_at_.try_emplace(state, static_cast<uint32_t>(draws_.size()));
  const Draw* const other = fresh ? nullptr : &draws_[found->second];
  // Two streams that happen to be at one place can't be told apart by the numbers that ops got.
  if (other && (other->generator != draw.generator || other->relative != draw.relative)) {
    note_break("two generators at the same seed and offset", capture_source());
  }
  draws_.push_back(draw);
  drawn_.push_back(state);
}

void Capture::note_move(Generator* g, GeneratorState state, uint64_t offset) { use_of(g, state).now.second = offset; }

void Capture::note_state_read(Generator* g, GeneratorState state) {
  Used& u = use_of(g, state);
  if (u.relative) u.seen.push_back(state.second);
}

void Capture::note_state(Generator* g, GeneratorState before, GeneratorState state) {
  Used& u = use_of(g, before);
  u.now = state;
  u.relative = state.first == u.begin.first && std::ranges::find(u.seen, state.second) != u.seen.end();
}

Scalar Capture::run_time_number(Scalar now) {
  if (broken()) return now;
  const std::lock_guard hold(run_time_mutex_);
  run_time_.push_back(now.bits());
  const uint64_t tag = now.category() == Category::kFloat ? kFloatTag : kIntTag;
  return Scalar::from_bits(tag + run_time_.size() - 1, now.category());
}

std::optional<uint32_t> Capture::run_time_at(uint64_t bits) const {
  const uint64_t tag = bits & ~uint64_t{0xffffffff}, number = bits & 0xffffffff;
  if ((tag != kIntTag && tag != kFloatTag) || number >= run_time_.size()) return {};
  return static_cast<uint32_t>(number);
}

void Capture::settle(std::span<uint64_t> parameters) const {
  const std::lock_guard hold(run_time_mutex_);
  if (run_time_.empty()) return;
  for (uint64_t& bits : parameters) {
    if (const auto number = run_time_at(bits)) bits = run_time_[*number];
  }
}

std::vector<GeneratorUse> Capture::generators(const std::vector<Generator*>& known) {
  std::vector<GeneratorUse> out;
  for (const Used& u : used_) {
    if (std::ranges::find(known, u.generator) == known.end()) {
      note_break("random numbers of a generator that the function made, or that no guard reaches", capture_source());
      return {};
    }
    const auto [seed, offset] = u.now;
    out.push_back({u.generator, u.relative, seed, offset - (u.relative ? u.begin.second : 0)});
  }
  return out;
}

void Capture::find_patches(StepRecord& s) {
  uint32_t parameter = 0;
  for (const Instr& e : s.trace->instrs) {
    const auto words = s.trace->inputs_of(e);
    const std::vector<ir::DrawnNumbers> drawn = ir::drawn_numbers(e.op, s.trace->attrs_of(e));
    std::vector<uint32_t> parameter_of(words.size());
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == kNoOperand || !is_number(words[i])) continue;
      if (const auto number = run_time_at(s.parameters[parameter])) {
        const auto category = static_cast<Category>(words[i] & ~kNumberBit);
        s.patches.push_back({parameter, NumberPatch::kRunTime, *number, category});
      }
      parameter_of[i] = parameter++;
    }
    for (const ir::DrawnNumbers& d : drawn) {
      if (!is_number(words[d.seed]) || !is_number(words[d.offset])) continue;
      const uint32_t seed = parameter_of[d.seed], offset = parameter_of[d.offset];
      const auto at = draw_at_.find({s.parameters[seed], s.parameters[offset]});
      if (at == draw_at_.end()) continue;
      s.patches.push_back({seed, NumberPatch::kSeed, at->second});
      s.patches.push_back({offset, NumberPatch::kOffset, at->second});
    }
  }
}

StepRecord Capture::step(const Sources& sources) {
  StepRecord out;
  Tape* pending = nullptr;
  Tape::each([&](Tape& tape) {
    if (!tape.has_pending()) return;
    if (pending || tape.device().type >= DeviceType::kFirstUser) note_break("ops on several devices", 0);
    pending = &tape;
  });
  if (!pending) return out;
  const std::lock_guard hold(pending->mutex());
  if (broken()) return out;
  out.tape = pending;
  out.trace = pending->pending_trace()->shared_from_this();
  out.forgotten = pending->forgotten();
  for (const ValueRef& leaf : pending->leaves()) {
    const auto known = sources.find(leaf.get());
    const auto constant = std::ranges::find(constants_, leaf.get(), &ValueRef::get);
    if (known != sources.end()) {
      out.leaves.push_back(known->second);
    } else if (constant != constants_.end()) {
      out.leaves.push_back({ValueSource::kConstant, static_cast<uint32_t>(constant - constants_.begin())});
    } else {
      note_break("a tensor of " + ir::to_string(*leaf->meta) + " that no guard reaches", 0);
      out.leaves.emplace_back();
    }
  }
  out.parameters.assign(pending->parameters().begin(), pending->parameters().end());
  find_patches(out);
  settle(pending->parameters());
  return out;
}

std::vector<std::pair<uint64_t, uint64_t>> draw_again(const std::vector<GeneratorUse>& generators,
                                                      const std::vector<Draw>& draws) {
  std::vector<std::pair<uint64_t, uint64_t>> begin, out;
  for (const GeneratorUse& g : generators) {
    DrawLog::note(*g.generator);
    begin.push_back(g.relative ? g.generator->advance(g.offset) : g.generator->state());
    if (!g.relative) g.generator->set_state({g.seed, g.offset});
  }
  for (const Draw& d : draws) {
    const auto [seed, offset] = begin[d.generator];
    out.push_back(d.relative ? std::pair(seed, offset + d.offset) : std::pair(d.seed, d.offset));
  }
  return out;
}

std::vector<Scalar> patched(const StepRecord& s, const RunNumbers& numbers) {
  std::vector<Scalar> out;
  out.reserve(s.patches.size());
  for (const NumberPatch& p : s.patches) {
    const uint64_t bits = p.kind == NumberPatch::kRunTime ? numbers.run_time[p.index]
                          : p.kind == NumberPatch::kSeed  ? numbers.draws[p.index].first
                                                          : numbers.draws[p.index].second;
    out.push_back(Scalar::from_bits(bits, p.category));
  }
  return out;
}

std::vector<uint64_t> parameters_of(const StepRecord& s, const std::vector<Scalar>& patched) {
  std::vector<uint64_t> out = s.parameters;
  for (size_t i = 0; i < patched.size(); ++i) out[s.patches[i].parameter] = patched[i].bits();
  return out;
}

Trace* Tape::pending_trace() {
  drain();
  return has_pending() ? current_trace() : nullptr;
}

std::vector<Tensor> Tape::written() const {
  std::vector<Tensor> out;
  for (const Write& w : writes_) out.push_back(w.tensor);
  return out;
}

std::vector<ValueRef> Tape::alive() const {
  std::vector<ValueRef> out;
  for (Value* const v : slots_) {
    if (v && v->pending) out.emplace_back(v);
  }
  return out;
}

void Tape::drop_pending() {
  for (Value* const v : slots_) {
    if (v) v->pending = false;
  }
  finish_step(nullptr);
}

}  // namespace smolder::lazy
