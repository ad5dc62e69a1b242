// What becomes of a step that could not run as a plan: its ops run one by one, in the order of the program, each value
// freed after its last use. If all of them do, nothing is lost but speed. If one can't, tensors have what they had when
// the step began; what was made in it before that op has a value, what was recorded after has none.
#include <unordered_map>

#include "smolder/core/counters.h"
#include "smolder/core/memory_history.h"
#include "smolder/core/profile.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/known.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/run_op.h"
#include "smolder/lazy/step_log.h"

namespace smolder::lazy {
namespace {

/// Throws the exception being handled again, of the same class where that is known, saying where it was met.
[[noreturn]] void rethrow_from(const Trace& t, const Instr& e) {
  std::string shapes;
  for (const OperandWord w : t.inputs_of(e)) {
    if (w != kNoOperand && is_value(w)) shapes += (shapes.empty() ? "" : ", ") + to_string(*t.metas[w]);
  }
  const std::string where = resolve_source(e.source);
  const std::string site = "; met in " + std::string(called(ir::name(e.op))) + "(" + shapes + ") -> " +
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
  OneByOne(const Trace& t, Device device, std::span<const ValueRef> leaves, std::span<const uint64_t> parameters)
      : t_(t),
        device_(device),
        leaves_(leaves),
        parameters_(parameters),
        values_(t.metas.size()),
        uses_(t.metas.size()) {
    for (const OperandWord w : t.operands) {
      if (w != kNoOperand && is_value(w)) ++uses_[w];
    }
  }

  /// Runs instruction `i`, the one after the last.
  std::vector<eager::Array> run(size_t i) {
    const Instr& e = t_.instrs[i];
    for (uint32_t v = t_.values_before(i); v < e.first_output; ++v) {
      values_[v] = eager::Array::wrap(leaves_[next_leaf_++]->buffer, t_.metas[v]->shape, t_.metas[v]->dtype);
    }
    std::vector<eager::Array> inputs;
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
    const MemoryFor use(ir::name(e.op), e.source);
    std::vector<eager::Array> results = run_op(e.op, inputs, t_.attrs_of(e), device_, e.source);
    for (uint32_t k = 0; k < e.num_outputs; ++k) {
      results[k] = owned(results[k], device_);
      if (uses_[e.first_output + k]) values_[e.first_output + k] = results[k];
    }
    return results;
  }

 private:
  const Trace& t_;
  const Device device_;
  std::span<const ValueRef> leaves_;
  std::span<const uint64_t> parameters_;
  std::vector<eager::Array> values_;
  std::vector<uint32_t> uses_;  ///< still to come, by value number
  size_t next_leaf_ = 0, next_parameter_ = 0;
};

}  // namespace

void Tape::salvage(const Trace& t, const std::string& why) {
  run_one_by_one(t);
  static Counter& steps = counter("steps.op_by_op");
  steps.add();
  const std::string what = "a step could not run as a plan and ran op by op: " + why;
  const std::string where = resolve_source(t.instrs.front().source);
  record_event({"fallback", what, where});
  warn("fallback", what, where);
}

void Tape::run_on_device(std::string_view reason, SourceToken source) {
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

void Tape::run_one_by_one(const Trace& t) {
  std::unordered_map<uint32_t, ValueRef> written;  // by value number
  for (const Rewrite& r : rewrites_) written.emplace(r.value, ValueRef());
  std::vector<bool> made_here;  // by write: whether the tensor had no memory when the step began
  for (const Write& w : writes_) made_here.push_back(w.before->pending);
  OneByOne ops(t, device_, leaves_, parameters_);
  size_t done = 0;
  try {
    for (; done < t.instrs.size(); ++done) {
      const std::vector<eager::Array> results = ops.run(done);
      for (uint32_t k = 0; k < results.size(); ++k) {
        const uint32_t number = t.instrs[done].first_output + k;
        const auto wanted = written.find(number);
        if (Value* const v = slots_[number]) {
          v->buffer = results[k].buffer;
          v->pending = false;
          if (wanted != written.end()) wanted->second = ValueRef(v);
        } else if (wanted != written.end()) {
          wanted->second = adopt(results[k].buffer, t.metas[number]);
        }
      }
    }
  } catch (const std::exception&) {
    try {
      rethrow_from(t, t.instrs[done]);
    } catch (const Error& e) {
      give_back(done, written, made_here);
      abandon(e.what());
      throw;
    }
  }
}

/// Tensors that were made in this step get what they held when instruction `end` was about to be recorded. Others have
/// what they had when the step began: a step that failed changes nothing.
void Tape::give_back(size_t end, const std::unordered_map<uint32_t, ValueRef>& written,
                     const std::vector<bool>& made_here) {
  for (size_t i = 0; i < writes_.size(); ++i) {
    Write& w = writes_[i];
    if (!made_here[i]) continue;
    for (const Rewrite& r : rewrites_) {
      if (r.impl != w.tensor.impl() || r.position > end) continue;
      w.before->tape_refs = 0;
      w.before = r.known ? r.known : written.at(r.value);
    }
  }
}

}  // namespace smolder::lazy
