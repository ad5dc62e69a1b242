// Runs a step that could not run as a plan, or has none yet: its ops run one by one, in the order of the
// program, but for those that nothing needs, each value freed after its last use. If all of them do, nothing is lost
// but speed. If one can't, tensors have what they had when the step began; what was made in it before that op has a
// value, what was recorded after has none.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/interrupt.h"
#include "smolder/core/memory_history.h"
#include "smolder/core/meta_device.h"
#include "smolder/core/profile.h"
#include "smolder/core/size.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/plan_queue.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/run_op.h"
#include "smolder/lazy/step_log.h"
#include "smolder/lazy/step_undo.h"
#include "smolder/lazy/tape.h"

namespace smolder::lazy {
namespace {

/// Throws the exception being handled again, of the same class where that is known, saying where it was met.
[[noreturn]] void rethrow_from(const Trace& t, const Instr& e) {
  std::string shapes;
  for (const OperandWord w : t.inputs_of(e)) {
    if (w != kNoOperand && is_value(w)) shapes += (shapes.empty() ? "" : ", ") + to_string(*t.metas[w]);
  }
  const std::string where = resolve_source(e.source);
  const std::string site = "; met in " + std::string(ir::called(e.op)) + "(" + shapes + ") -> " +
                           to_string(*t.metas[e.first_output]) + (where.empty() ? "" : " at " + where);
  try {
    throw;
  } catch (const ForeignError& error) {
    error.rethrow(site.substr(2));
    throw;  // not reached, which GCC does not see of a virtual function
  } catch (const OutOfMemoryError& error) {
    throw OutOfMemoryError(error.what() + site);
  } catch (const IndexError& error) {
    throw IndexError(error.what() + site);
  } catch (const NotImplementedError& error) {
    throw NotImplementedError(error.what() + site);
  } catch (const TypeError& error) {
    throw TypeError(error.what() + site);
  } catch (const ValueError& error) {
    throw ValueError(error.what() + site);
  } catch (const std::exception& error) {
    throw RuntimeError(error.what() + site);
  }
}

/// The values of a step while its ops run one by one.
class OneByOne {
 public:
  /// `kept`, by value number: those that are wanted of it.
  OneByOne(const Trace& t, Device device, std::span<const ValueRef> leaves, std::span<const uint64_t> parameters,
           std::vector<bool> kept)
      : t_(t),
        device_(device),
        leaves_(leaves),
        parameters_(parameters),
        kept_(std::move(kept)),
        values_(t.metas.size()),
        uses_(t.metas.size()) {
    for (size_t i = t.instrs.size(); i-- > 0;) {
      if (!is_needed(t.instrs[i])) continue;
      for (const OperandWord w : t.inputs_of(t.instrs[i])) {
        if (w != kNoOperand && is_value(w)) ++uses_[w];
      }
    }
  }

  /// Runs instruction `i`, the one after the last; no results where nothing needs them.
  std::vector<eager::Array> run(size_t i) {
    const Instr& e = t_.instrs[i];
    const bool needed = is_needed(e);
    const std::vector<eager::Array> inputs = take_inputs(i, needed);
    if (!needed) return {};
    const MemoryFor use(ir::name(e.op), e.source);
    std::vector<eager::Array> results = run_op(e.op, inputs, t_.attrs_of(e), device_, e.source);
    // Views of intermediates stay views; what is kept is row-major, as are operands of a device that somebody wrote.
    const bool all_dense = device_.type >= DeviceType::kFirstUser;
    for (uint32_t k = 0; k < e.num_outputs; ++k) {
      const uint32_t v = e.first_output + k;
      if (kept_[v] || all_dense) results[k] = owned(results[k], device_);
      if (uses_[v]) values_[v] = results[k];
    }
    return results;
  }

  /// Passes over instruction `i`, the one after the last.
  void skip(size_t i) { take_inputs(i, is_needed(t_.instrs[i])); }

 private:
  /// Comes to instruction `i`: what it is given, if it is needed.
  std::vector<eager::Array> take_inputs(size_t i, bool needed) {
    const Instr& e = t_.instrs[i];
    for (uint32_t v = t_.values_before(i); v < e.first_output; ++v) {
      const ValueRef& leaf = leaves_[next_leaf_++];
      if (uses_[v]) values_[v] = array_of(*leaf);
    }
    std::vector<eager::Array> inputs;
    if (!needed) {
      next_parameter_ += std::ranges::count_if(t_.inputs_of(e), is_number);
      return inputs;
    }
    for (const OperandWord w : t_.inputs_of(e)) {
      if (w == kNoOperand) {
        inputs.emplace_back();
      } else if (is_number(w)) {
        const auto category = static_cast<Category>(w & ~kNumberBit);
        inputs.push_back(eager::Array::from_number(Scalar::from_bits(parameters_[next_parameter_++], category)));
      } else {
        inputs.push_back(values_[w]);
        if (--uses_[w] == 0) values_[w] = {};
      }
    }
    return inputs;
  }

  static eager::Array array_of(const Value& leaf) {
    const auto& [shape, dtype, weak] = *leaf.meta;
    return leaf.buffer ? eager::Array::wrap(leaf.buffer, shape, dtype) : eager::Array::empty(shape, dtype, leaf.device);
  }

  bool is_needed(const Instr& e) const {
    for (uint32_t v = e.first_output; v < e.first_output + e.num_outputs; ++v) {
      if (kept_[v] || uses_[v] > 0) return true;
    }
    return ir::info(e.op).flags.effect;
  }

  const Trace& t_;
  const Device device_;
  std::span<const ValueRef> leaves_;
  std::span<const uint64_t> parameters_;
  const std::vector<bool> kept_;
  std::vector<eager::Array> values_;
  std::vector<uint32_t> uses_;  ///< still to come, by value number
  size_t next_leaf_ = 0, next_parameter_ = 0;
};

bool is_of_memory(const std::exception& e) {
  return dynamic_cast<const OutOfMemoryError*>(&e) || dynamic_cast<const std::bad_alloc*>(&e);
}

void count_op_by_op() {
  static Counter& steps = counter("steps.op_by_op");
  steps.add();
}

}  // namespace

/// Threads whose ops could not run in a step that others have a part in: nothing of these that came later runs, nor
/// what needs a value of theirs.
struct Tape::Losses {
  struct Loss {
    Turns::Thread thread;
    size_t end;  ///< its first op that could not run
    std::exception_ptr error;
    std::string why;
  };

  const Trace& t;
  const Turns& turns;
  std::vector<Loss> all;
  std::vector<bool> without_value = std::vector<bool>(t.metas.size());

  const Loss* of(const Turns::Thread& thread) const {
    const auto found = std::ranges::find(all, thread, &Loss::thread);
    return found == all.end() ? nullptr : &*found;
  }
  /// Runs op `i`, the one after the last, where it can. What its thread is to hear of is noted, and no results come.
  std::vector<eager::Array> run(OneByOne& ops, size_t i, bool gives_up) {
    if (takes(i)) {
      ops.skip(i);
      return {};
    }
    if (!turns.mixed()) return ops.run(i);
    try {
      return ops.run(i);
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& e) {
      if (gives_up && is_of_memory(e)) throw;
      add(i);
      return {};
    }
  }

 private:
  /// Whether op `i` can't run any more. Its thread fails with who made what it needs.
  bool takes(size_t i) {
    if (all.empty()) return false;
    if (!of(turns.recorder(i))) {
      const auto lost = std::ranges::find_if(
          t.inputs_of(t.instrs[i]), [&](OperandWord w) { return w != kNoOperand && is_value(w) && without_value[w]; });
      if (lost == t.inputs_of(t.instrs[i]).end()) return false;
      const size_t maker = &t.maker_of(*lost) - t.instrs.data();
      Loss same = *of(turns.recorder(maker));
      same.thread = turns.recorder(i);
      same.end = i;
      all.push_back(std::move(same));
    }
    pass(i);
    return true;
  }
  /// Op `i` failed, with the error that is being handled.
  void add(size_t i) {
    try {
      rethrow_from(t, t.instrs[i]);
    } catch (const Error& error) {
      all.push_back({turns.recorder(i), i, std::current_exception(), error.what()});
    }
    pass(i);
  }

  void pass(size_t i) {
    const Instr& e = t.instrs[i];
    for (uint32_t v = e.first_output; v < e.first_output + e.num_outputs; ++v) without_value[v] = true;
  }
};

void Tape::salvage(const Trace& t, const std::string& why) {
  run_one_by_one(t);
  count_op_by_op();
  const std::string what = "a step could not run as a plan and ran op by op: " + why;
  const std::string where = resolve_source(t.instrs.front().source);
  record_event({"fallback", what, where});
  warn("fallback", what, where);
}

void Tape::run_on_device(std::string_view reason, SourceToken source) {
  if (device_ == meta_device_type()) {  // what was recorded was checked, and has no elements
    for (Value* const v : slots_) {
      if (!v || !v->pending) continue;
      v->buffer = smolder::allocate(static_cast<size_t>(storage_bytes(v->meta->shape, v->meta->dtype)), device_);
      v->pending = false;
    }
    return finish_step(nullptr);
  }
  const int64_t began = StepLog::is_on() ? now_ns() : 0;
  Trace* const t = current_trace();
  run_one_by_one(*t);
  if (began) {
    RanStep ran{.how = RanStep::kOneByOne, .device = device_, .reason = std::string(reason), .source = source};
    ran.ops = ops_of(*t);
    ran.ms = static_cast<double>(now_ns() - began) / 1e6;
    StepLog::note(ran);
  }
  ++t->runs;
  finish_step(t);
}

/// Runs a step whose plan is compiled meanwhile, or could not be. Returns what a plan reports.
std::vector<jit::IndexReport> Tape::run_before_plan(Trace& t, RanStep* ran) {
  static Counter& steps = counter("steps.op_by_op_while_compiling");
  const std::shared_ptr<PlanJob> job = std::exchange(awaited_, nullptr);
  const bool failed = job && job->state() == PlanJob::kFailed;
  if (ran) {
    ran->how = RanStep::kOneByOne;
    ran->note = failed ? job->error : "its plan is being compiled";
    ran->ops = ops_of(t);
  }
  if (failed) {
    // Told once. It would fail again, and as long as that takes.
    if (std::exchange(job->told, true)) {
      run_one_by_one(t);
      count_op_by_op();
    } else {
      salvage(t, job->error);
    }
    ++t.runs;
    return {};
  }
  const int64_t began = now_ns();
  if (run_one_by_one(t, true)) {
    steps.add();
    if (job) PlanQueue::get().note_run(*job, now_ns() - began);
    ++t.runs;
    return {};
  }
  // There is no memory for all that op by op is kept at once. A plan needs less.
  if (ran) ran->note = "there was no memory to run it op by op while its plan is being compiled";
  try {
    return run(t, *find_plan(t, true));
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {
    salvage(t, e.what());
    return {};
  }
}

/// `gives_up`: where memory does not suffice the step is as it was before, and the result false.
bool Tape::run_one_by_one(const Trace& t, bool gives_up) {
  std::vector<bool> made_here;  // by write: whether the tensor had no memory when the step began
  for (const Write& w : writes_) made_here.push_back(w.before->pending);
  std::unordered_set<const TensorImpl*> given_back;  // what they held in between, if an op cannot run
  for (size_t i = 0; i < writes_.size(); ++i) {
    if (made_here[i]) given_back.insert(writes_[i].tensor.impl());
  }
  std::unordered_map<uint32_t, ValueRef> written;  // by value number
  for (const Rewrite& r : rewrites_) {
    if (!r.known && given_back.contains(r.impl)) written.emplace(r.value, ValueRef());
  }
  const std::vector<uint32_t> wanted = numbers_alive();
  std::vector<bool> kept(t.metas.size());
  for (const uint32_t v : wanted) kept[v] = true;
  for (const auto& [v, value] : written) kept[v] = true;
  OneByOne ops(t, device_, leaves_, parameters_, std::move(kept));
  size_t done = 0;
  const auto forget_results = [&] {
    for (const uint32_t number : wanted) {
      if (Value* const v = slots_[number]) {
        v->buffer.reset();
        v->pending = true;
      }
    }
  };
  Losses losses{t, turns_, {}};
  try {
    for (; done < t.instrs.size(); ++done) {
      check_interrupt_between();
      const std::vector<eager::Array> results = losses.run(ops, done, gives_up);
      for (uint32_t k = 0; k < results.size(); ++k) {
        const uint32_t number = t.instrs[done].first_output + k;
        const auto also = written.find(number);
        if (Value* const v = slots_[number]) {
          v->buffer = results[k].buffer;
          v->pending = false;
          if (also != written.end()) also->second = ValueRef(v);
        } else if (also != written.end()) {
          also->second = adopt(results[k].buffer, t.metas[number]);
        }
      }
    }
  } catch (const Interrupted&) {
    forget_results();  // the step is still to be run
    throw;
  } catch (const std::exception& e) {
    if (gives_up && is_of_memory(e)) {
      forget_results();
      return false;
    }
    try {
      rethrow_from(t, t.instrs[done]);
    } catch (const Error& error) {
      for (size_t i = 0; i < writes_.size(); ++i) {
        if (made_here[i]) give_back(i, done, written);
      }
      if (turns_.of_another()) turns_.tell_later(turns_.recorder(0), std::current_exception());
      abandon(error.what());
      throw;
    }
  }
  if (!losses.all.empty()) lose(losses, written, made_here);
  return true;
}

/// After a step of several threads: those that lost ops hear why and have what they had before; the others have all.
void Tape::lose(const Losses& losses, const std::unordered_map<uint32_t, ValueRef>& written,
                const std::vector<bool>& made_here) {
  for (size_t i = 0; i < writes_.size(); ++i) {
    TensorImpl* const impl = writes_[i].tensor.impl();
    const auto lost = std::ranges::find_if(
        rewrites_, [&](const Rewrite& r) { return r.impl == impl && losses.of(r.thread) != nullptr; });
    if (lost == rewrites_.end()) continue;
    if (made_here[i]) give_back(i, losses.of(lost->thread)->end, written);
    impl->value = writes_[i].before;
    impl->written();  // its views hold what failed
  }
  for (Value* const v : slots_) {
    if (v && v->pending) v->pending = false;
  }
  failure_ = losses.all.front().why;
  const Losses::Loss* const mine = losses.of(Turns::this_thread());
  const Losses::Loss* raised = mine;  // else of a thread that has ended, as nobody else will hear
  for (const Losses::Loss& loss : losses.all) {
    if (!*loss.thread && &loss != mine) turns_.tell_later(loss.thread, loss.error);
    if (*loss.thread && !raised) raised = &loss;
  }
  if (!raised) return;
  if (mine && !makes_parameters_ && !is_own_) DrawLog::undo();
  if (mine && !is_own_) StepUndo::fail();
  finish_step(nullptr);
  std::rethrow_exception(raised->error);
}

/// A tensor that was made in this step is to get what it held when instruction `end` was about to be recorded. Others
/// get what they had when the step began: a step that failed changes nothing.
void Tape::give_back(size_t write, size_t end, const std::unordered_map<uint32_t, ValueRef>& written) {
  Write& w = writes_[write];
  for (const Rewrite& r : rewrites_) {
    if (r.impl != w.tensor.impl() || r.position > end) continue;
    w.before->tape_refs = 0;
    w.before = r.known ? r.known : written.at(r.value);
  }
}

}  // namespace smolder::lazy
