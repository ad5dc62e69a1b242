#include "smolder/autograd/control_flow.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "smolder/autograd/engine.h"
#include "smolder/autograd/function.h"
#include "smolder/core/error.h"
#include "smolder/ir/control_flow.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/branch.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/random.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"

namespace smolder {
namespace {

using autograd::CustomFunction;
using autograd::FunctionContext;
using lazy::BranchTape;
using lazy::Operand;
using Places = std::unordered_map<size_t, uint32_t>;  // of tensors from without: which operand each is

/// A function that was recorded, and what it returned, on its tape.
struct Recorded {
  std::shared_ptr<BranchTape> tape;
  std::vector<Tensor> results;
};

Device device_of(const std::vector<Tensor>& tensors) {
  return tensors.empty() ? lazy::creation_device() : tensors[0].device();
}

/// Ops of generators that several functions record: each begins where the first did.
class Draws {
 public:
  /// After a function was recorded: goes back to where its generators were before.
  void rewind(const BranchTape& tape) {
    for (const auto& [g, before] : tape.draws()) {
      uint64_t& end = ends_[g];
      end = std::max(end, g->state().second);
      g->go_to(before.second);
    }
  }
  /// In the end: past all that any of the functions drew.
  void finish() const {
    for (const auto& [g, end] : ends_) g->go_to(end);
  }
  /// For loops: how far one turn moves the only generator that there may be.
  int64_t of_one_turn(const char* what) const {
    SMOLDER_CHECK(ends_.size() <= 1, NotImplementedError, what,
                  ": a loop that takes random numbers of several generators is not supported");
    return ends_.empty() ? 0 : static_cast<int64_t>(ends_.begin()->second - ends_.begin()->first->state().second);
  }
  void finish_turns(uint64_t turns) const {
    for (const auto& [g, end] : ends_) {
      const uint64_t begin = g->state().second;
      g->go_to(begin + (end - begin) * turns);
    }
  }

 private:
  std::map<Generator*, uint64_t> ends_;
};

/// Refuses what torch refuses: results that share memory with an operand or with each other.
void check_pure(const char* what, const char* which, const Recorded& r) {
  std::unordered_set<const lazy::TensorImpl*> inputs, seen;
  for (const auto& o : r.tape->outside()) inputs.insert(o.stand_in.impl());
  for (const Tensor& t : r.results) {
    const lazy::TensorImpl* const owner = lazy::owner_of(t.impl());
    SMOLDER_CHECK(
        !inputs.contains(owner), RuntimeError, what, ": ", which,
        " returns its input or a view of it. Higher order ops do not support aliasing. Replace `return input` "
        "with `return input.clone()` to avoid aliasing");
    SMOLDER_CHECK(seen.insert(owner).second, RuntimeError, what, ": ", which,
                  " returns one tensor twice, or views of one. Higher order ops do not support aliasing. Clone one of "
                  "them");
  }
}

/// Records `f`, which is given stand-ins for `given`.
template <class F>
std::vector<Tensor> run_inside(BranchTape& tape, const std::vector<Tensor>& given, F&& f) {
  const BranchTape::Scope scope(tape);
  std::vector<Tensor> out = f(given);
  for (Tensor& t : out) t = tape.inside(t);
  return out;
}

std::vector<Tensor> stand_ins(const BranchTape& tape, std::span<const size_t> places) {
  std::vector<Tensor> out;
  for (const size_t place : places) out.push_back(tape.outside()[place].stand_in);
  return out;
}

/// Tensors and numbers as an op of control flow takes them.
struct Call {
  std::vector<Tensor> tensors;
  std::vector<Scalar> numbers;

  std::vector<const ir::Meta*> metas() const {
    std::vector<const ir::Meta*> out;
    for (const Tensor& t : tensors) out.push_back(&t.meta());
    return out;
  }
  std::vector<Tensor> record(ir::Op op, const std::vector<int64_t>& words) const {
    const lazy::GradMode none(false);
    std::vector<Operand> operands(tensors.begin(), tensors.end());
    operands.insert(operands.end(), numbers.begin(), numbers.end());
    std::vector<Tensor> out(ir::info(op).num_outputs);
    lazy::record(op, operands, words, out.data());
    return out;
  }
};

/// Gradients of `outputs` of a tape with respect to `inputs`, on the tape; undefined where there is none. Outputs that
/// require no gradient, and undefined gradients of outputs, count for nothing.
std::vector<Tensor> gradients_inside(const std::vector<Tensor>& outputs, const std::vector<Tensor>& grads,
                                     const std::vector<Tensor>& inputs) {
  std::vector<Tensor> from, given;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!grads[i].defined() || !outputs[i].requires_grad()) continue;
    from.push_back(outputs[i]);
    given.push_back(grads[i]);
  }
  if (from.empty() || inputs.empty()) return std::vector<Tensor>(inputs.size());
  return autograd::grad(from, inputs, given, true, lazy::grad_enabled(), true);
}

Tensor zeros_of(const ir::Meta& m, Device device) {
  const lazy::DeviceMode mode(device);
  return zeros(m.shape, m.dtype);
}

bool any_requires_grad(const std::vector<Tensor>& tensors) {
  return std::ranges::any_of(tensors, [](const Tensor& t) { return t.requires_grad(); });
}

// -- cond

using Branches = std::array<Recorded, 2>;

std::vector<Tensor> record_cond(const Tensor& predicate, Branches branches);

/// What cond leaves for backward: a cond of the branches' gradients, which are computed from the operands again.
class CondCall final : public CustomFunction {
 public:
  CondCall(Branches branches, std::array<Places, 2> places)
      : branches_(std::move(branches)), places_(std::move(places)) {}
  FunctionContext context;

  std::string name() const override { return "CondAutogradOpBackward"; }
  void release() override { context.release(); }

  std::vector<Tensor> backward(std::vector<Tensor> grads) override {
    const std::vector<Tensor> saved = context.saved_tensors();
    std::array<std::vector<Tensor>, 2> found;
    for (size_t b = 0; b < 2; ++b) found[b] = branch_gradients(b, saved, grads);
    Branches back;
    std::vector<size_t> operands;
    for (size_t k = 1; k < saved.size(); ++k) {
      if (found[0][k].defined() || found[1][k].defined()) operands.push_back(k);
    }
    for (size_t b = 0; b < 2; ++b) {
      back[b].tape = branches_[b].tape;
      const BranchTape::Scope scope(*back[b].tape);
      for (const size_t k : operands) {
        const Tensor& g = found[b][k];
        back[b].results.push_back(back[b].tape->inside(g.defined() ? g : zeros_of(saved[k].meta(), saved[k].device())));
      }
    }
    std::vector<Tensor> out(saved.size());
    if (!operands.empty()) {
      const std::vector<Tensor> results = record_cond(saved[0], back);
      for (size_t i = 0; i < operands.size(); ++i) out[operands[i]] = results[i];
    }
    for (const Recorded& r : branches_) r.tape->forget_outer();
    return out;
  }

 private:
  /// By operand; undefined where there is none.
  std::vector<Tensor> branch_gradients(size_t b, const std::vector<Tensor>& saved, const std::vector<Tensor>& grads) {
    BranchTape& tape = *branches_[b].tape;
    tape.set_tracks(lazy::grad_enabled());
    std::vector<Tensor> inputs, given;
    std::vector<uint32_t> numbers;
    for (const auto& [place, number] : places_[b]) {
      tape.set_outer(place, saved[number + 1]);
      if (!context.needs_input_grad(number + 1)) continue;
      inputs.push_back(tape.outside()[place].stand_in);
      numbers.push_back(number);
    }
    const BranchTape::Scope scope(tape);
    for (const Tensor& g : grads) given.push_back(g.defined() ? tape.inside(g) : Tensor());
    const std::vector<Tensor> found = gradients_inside(branches_[b].results, given, inputs);
    std::vector<Tensor> out(saved.size());
    for (size_t i = 0; i < found.size(); ++i) out[numbers[i] + 1] = found[i];
    return out;
  }

  Branches branches_;
  std::array<Places, 2> places_;
};

std::vector<Tensor> record_cond(const Tensor& predicate, Branches branches) {
  Call call;
  std::array<Places, 2> places;
  std::unordered_map<const lazy::TensorImpl*, uint32_t> numbers;
  for (size_t b = 0; b < 2; ++b) {
    for (const size_t place : branches[b].tape->reads(branches[b].results)) {
      const Tensor& outer = branches[b].tape->outside()[place].outer;
      const auto [at, fresh] = numbers.try_emplace(outer.impl(), static_cast<uint32_t>(call.tensors.size()));
      if (fresh) call.tensors.push_back(outer);
      places[b][place] = at->second;
    }
  }
  std::array<BranchTape::Extracted, 2> graphs;
  for (size_t b = 0; b < 2; ++b) {
    graphs[b] = branches[b].tape->extract(branches[b].results, call.metas(), places[b],
                                          static_cast<uint32_t>(call.numbers.size()));
    call.numbers.insert(call.numbers.end(), graphs[b].numbers.begin(), graphs[b].numbers.end());
  }
  call.tensors.insert(call.tensors.begin(), predicate);
  const size_t count = branches[0].results.size();
  const ir::CondAttrs attrs{graphs[0].graph, graphs[1].graph, static_cast<int64_t>(call.tensors.size())};
  std::vector<Tensor> out = call.record(ir::control_op(ir::ControlKind::kCond, count), attrs.words());
  std::vector<Tensor> constant;  // results without gradients
  for (size_t i = 0; i < count; ++i) {
    if (!branches[0].results[i].requires_grad() && !branches[1].results[i].requires_grad()) constant.push_back(out[i]);
  }
  for (const Recorded& r : branches) r.tape->forget_outer();
  if (!lazy::grad_enabled() || constant.size() == count || !any_requires_grad(call.tensors)) return out;
  const auto node = std::make_shared<CondCall>(std::move(branches), std::move(places));
  node->context.begin(call.tensors);
  node->context.save_for_backward(call.tensors);
  node->context.mark_non_differentiable(std::move(constant));
  node->context.finish("CondAutogradOp", node, out);
  return out;
}

/// The predicate as one bool on a device.
Tensor flag_on(const Tensor& predicate, Device device) {
  const Tensor plain = predicate.detach();
  const Tensor flag = plain.dtype() == DType::kBool ? plain : plain.ne(Scalar(int64_t{0}));
  return flag.to(device);
}

void check_same(size_t i, const ir::Meta& yes, const ir::Meta& no) {
  const std::string where = "When merging two branches' output in torch.cond,  expected same ";
  SMOLDER_CHECK(yes.dtype == no.dtype, RuntimeError, where, "dtype but got ", name(yes.dtype), " and ", name(no.dtype),
                " (result ", i, " of the true and of the false branch).");
  SMOLDER_CHECK(yes.shape == no.shape, RuntimeError, where, "shape but got ", yes.shape, " and ", no.shape, " (result ",
                i, " of the true and of the false branch).");
}

// -- loops

/// What a loop's function is recorded on, and where its operands are there.
struct Turn {
  Recorded body;
  std::vector<size_t> carried, scanned;
};

/// Tensors that a turn reads besides what is carried and scanned: their places, and themselves.
std::vector<size_t> others_of(const std::vector<size_t>& read, const std::vector<const std::vector<size_t>*>& known) {
  std::vector<size_t> out;
  for (const size_t place : read) {
    const bool other =
        std::ranges::none_of(known, [&](const auto* list) { return std::ranges::find(*list, place) != list->end(); });
    if (other) out.push_back(place);
  }
  return out;
}

/// Metadata of the stand-ins at these places, and their numbers as a graph's leaves, in this order.
struct Leaves {
  std::vector<const ir::Meta*> metas;
  Places numbers;
  void add(const BranchTape& tape, const std::vector<size_t>& places) {
    for (const size_t place : places) {
      numbers[place] = static_cast<uint32_t>(metas.size());
      metas.push_back(tape.outside()[place].stand_in.impl()->value->meta);
    }
  }
};

void add_outer(std::vector<Tensor>& to, const BranchTape& tape, const std::vector<size_t>& places) {
  for (const size_t place : places) to.push_back(tape.outside()[place].outer);
}

/// Says, as torch does, how what is carried changed.
void check_carried(const char* what, size_t i, const ir::Meta& got, const ir::Meta& init) {
  SMOLDER_CHECK(got.dtype == init.dtype, RuntimeError, what, " to have same metadata but found:\npair[", i,
                "] differ in 'dtype: ", name(got.dtype), " vs ", name(init.dtype), "'");
  SMOLDER_CHECK(got.shape == init.shape, RuntimeError, what, " to have same metadata but found:\npair[", i,
                "] differ in 'shape: ", got.shape, " vs ", init.shape, "'");
}

// -- scan

std::vector<Tensor> record_scan(Turn turn, bool reverse, int64_t draws);

/// What scan leaves for backward: a scan the other way, of the gradients of a turn.
class ScanCall final : public CustomFunction {
 public:
  ScanCall(Turn turn, std::vector<size_t> others, bool reverse, int64_t draws)
      : turn_(std::move(turn)), others_(std::move(others)), reverse_(reverse), draws_(draws) {}
  FunctionContext context;  ///< saves what is scanned, the others, and what each turn was given as carried

  std::string name() const override { return "ScanAutogradOpBackward"; }
  void release() override { context.release(); }

  std::vector<Tensor> backward(std::vector<Tensor> grads) override {
    const std::vector<Tensor> saved = context.saved_tensors();
    BranchTape& tape = *turn_.body.tape;
    tape.set_tracks(lazy::grad_enabled());
    const size_t carried = turn_.carried.size(), scanned = turn_.scanned.size();
    const auto needs = [&](size_t i) { return context.needs_input_grad(i); };
    for (size_t i = 0; i < scanned; ++i) tape.set_outer(turn_.scanned[i], saved[i]);
    for (size_t i = 0; i < others_.size(); ++i) tape.set_outer(others_[i], saved[scanned + i]);
    for (size_t i = 0; i < carried; ++i) tape.set_outer(turn_.carried[i], saved[scanned + others_.size() + i]);

    // What is carried backward: gradients of what is carried, then sums of those of the others.
    Turn back;
    back.body.tape = turn_.body.tape;
    std::vector<Tensor> given(turn_.body.results.size());
    std::vector<size_t> places;  // of what the gradients are of
    std::vector<size_t> number;  // of the input whose gradient is carried
    const auto carry = [&](const Tensor& outer, size_t place, size_t input) {
      back.carried.push_back(tape.add_apart(outer, outer.meta(), true));
      places.push_back(place);
      number.push_back(input);
    };
    for (size_t i = 0; i < carried; ++i) {
      const Tensor stand_in = tape.outside()[turn_.carried[i]].stand_in;
      if (!stand_in.requires_grad()) continue;
      carry(grads[i].defined() ? grads[i] : zeros_of(stand_in.meta(), saved[0].device()), turn_.carried[i], i);
      given[i] = tape.outside()[back.carried.back()].stand_in;
    }
    const size_t gradients = places.size();
    for (size_t i = 0; i < others_.size(); ++i) {
      const size_t input = carried + scanned + i;
      if (needs(input)) carry(zeros_of(saved[scanned + i].meta(), saved[0].device()), others_[i], input);
    }
    back.scanned = turn_.scanned;
    back.scanned.insert(back.scanned.end(), turn_.carried.begin(), turn_.carried.end());
    for (size_t i = carried; i < given.size(); ++i) {
      if (!grads[i].defined()) continue;
      back.scanned.push_back(tape.add_apart(grads[i], turn_.body.results[i].meta()));
      given[i] = tape.outside()[back.scanned.back()].stand_in;
    }
    std::vector<size_t> of_slices;  // the inputs that are scanned and need gradients
    for (size_t i = 0; i < scanned; ++i) {
      if (!needs(carried + i)) continue;
      of_slices.push_back(carried + i);
      places.push_back(turn_.scanned[i]);
    }
    {
      const BranchTape::Scope scope(tape);
      std::vector<Tensor> found = gradients_inside(turn_.body.results, given, stand_ins(tape, places));
      for (size_t i = 0; i < found.size(); ++i) {
        const bool sums = i >= gradients && i < number.size();
        const Tensor before = sums ? tape.outside()[back.carried[i]].stand_in : Tensor();
        if (!found[i].defined()) {
          const Tensor like = tape.outside()[places[i]].stand_in;
          found[i] = sums ? before : zeros_of(like.meta(), like.device());
        } else if (sums) {
          found[i] = before + found[i];
        }
        back.body.results.push_back(tape.inside(found[i]));
      }
    }
    std::vector<Tensor> out(carried + scanned + others_.size());
    if (!back.body.results.empty()) {
      const std::vector<Tensor> results = record_scan(std::move(back), !reverse_, -draws_);
      for (size_t i = 0; i < number.size(); ++i) {
        if (needs(number[i])) out[number[i]] = results[i];
      }
      for (size_t i = 0; i < of_slices.size(); ++i) out[of_slices[i]] = results[number.size() + i];
    }
    tape.forget_outer();
    return out;
  }

 private:
  Turn turn_;
  std::vector<size_t> others_;
  bool reverse_;
  int64_t draws_;
};

/// What is carried in the end, and results stacked.
std::vector<Tensor> record_scan(Turn turn, bool reverse, int64_t draws) {
  const BranchTape& tape = *turn.body.tape;
  const size_t count = turn.body.results.size(), carried = turn.carried.size();
  const std::vector<size_t> others = others_of(tape.reads(turn.body.results), {&turn.carried, &turn.scanned});
  Call call;
  const std::array<const std::vector<size_t>*, 3> in_order{&turn.carried, &turn.scanned, &others};
  for (const auto* places : in_order) add_outer(call.tensors, tape, *places);
  const bool differentiable =
      lazy::grad_enabled() && any_requires_grad(call.tensors) && any_requires_grad(turn.body.results);
  if (differentiable) {  // its backward wants what each turn was given
    for (const size_t place : turn.carried) turn.body.results.push_back(tape.outside()[place].stand_in);
  }
  Leaves leaves;
  for (const auto* places : in_order) leaves.add(tape, *places);
  const auto graph = tape.extract(turn.body.results, leaves.metas, leaves.numbers, 0);
  call.numbers = graph.numbers;
  const ir::ScanAttrs attrs{graph.graph,
                            static_cast<int64_t>(call.tensors.size()),
                            static_cast<int64_t>(carried),
                            static_cast<int64_t>(turn.scanned.size()),
                            reverse,
                            graph.draws ? draws : 0};
  std::vector<Tensor> out =
      call.record(ir::control_op(ir::ControlKind::kScan, turn.body.results.size()), attrs.words());
  turn.body.tape->forget_outer();
  if (!differentiable) return out;
  std::vector<Tensor> saved(call.tensors.begin() + static_cast<int64_t>(carried), call.tensors.end());
  saved.insert(saved.end(), out.begin() + static_cast<int64_t>(count), out.end());
  std::vector<Tensor> constant;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!turn.body.results[i].requires_grad()) constant.push_back(out[i]);
  }
  const auto node = std::make_shared<ScanCall>(std::move(turn), others, reverse, draws);
  node->context.begin(call.tensors);
  node->context.save_for_backward(std::move(saved));
  node->context.mark_non_differentiable(std::move(constant));
  node->context.finish("ScanAutogradOp", node, out);
  out.resize(count);
  return out;
}

// -- while_loop

/// The gradients of a loop have none.
class WhileGradCall final : public CustomFunction {
 public:
  FunctionContext context;
  std::string name() const override { return "WhileLoopGradOpBackward"; }
  void release() override {}
  std::vector<Tensor> backward(std::vector<Tensor>) override {
    raise<NotImplementedError>(
        "while_loop: a second derivative is not supported. Where the number of turns is known, "
        "scan has derivatives of every order");
  }
};

/// The graphs of a loop and their numbers, as its ops take them.
struct Loop {
  Recorded condition;
  Turn turn;
  std::vector<size_t> in_condition;  ///< places of what is carried on the condition's tape
  std::vector<size_t> others;        ///< places on the body's tape, and those of the condition's own
  std::vector<size_t> others_in_condition;
  int64_t draws = 0;

  /// Tensors: carried, the body's others, the condition's. `more`: leaves of the body's tape after these.
  struct Graphs {
    int64_t condition = 0, body = 0;
    std::vector<Scalar> numbers;
    Leaves leaves;
  };
  Graphs graphs() const {
    Graphs out;
    out.leaves.add(*turn.body.tape, turn.carried);
    out.leaves.add(*turn.body.tape, others);
    Places in_condition_numbers;
    for (size_t i = 0; i < in_condition.size(); ++i) in_condition_numbers[in_condition[i]] = static_cast<uint32_t>(i);
    for (const size_t place : others_in_condition) {
      in_condition_numbers[place] = static_cast<uint32_t>(out.leaves.metas.size());
      out.leaves.metas.push_back(condition.tape->outside()[place].stand_in.impl()->value->meta);
    }
    const auto first = condition.tape->extract(condition.results, out.leaves.metas, in_condition_numbers, 0);
    const auto second = turn.body.tape->extract(turn.body.results, out.leaves.metas, out.leaves.numbers,
                                                static_cast<uint32_t>(first.numbers.size()));
    out.condition = first.graph;
    out.body = second.graph;
    out.numbers = first.numbers;
    out.numbers.insert(out.numbers.end(), second.numbers.begin(), second.numbers.end());
    return out;
  }
  ir::WhileAttrs attrs(const Graphs& g, size_t tensors) const {
    return {g.condition, g.body, static_cast<int64_t>(tensors), static_cast<int64_t>(turn.carried.size()), draws};
  }
};

class WhileCall final : public CustomFunction {
 public:
  explicit WhileCall(Loop loop) : loop_(std::move(loop)) {}
  FunctionContext context;

  std::string name() const override { return "WhileLoopAutogradOpBackward"; }
  void release() override { context.release(); }

  std::vector<Tensor> backward(std::vector<Tensor> grads) override {
    const std::vector<Tensor> saved = context.saved_tensors();
    BranchTape& tape = *loop_.turn.body.tape;
    const size_t carried = loop_.turn.carried.size();
    const Device device = saved[0].device();
    Loop::Graphs graphs = loop_.graphs();
    Call call{saved, graphs.numbers};
    std::vector<Tensor> given(carried), results;
    std::vector<size_t> inputs, places, added;
    const auto add = [&](const Tensor& outer, size_t place, size_t input) {
      call.tensors.push_back(outer);
      added.push_back(tape.add_apart(outer, outer.meta()));
      places.push_back(place);
      inputs.push_back(input);
    };
    for (size_t i = 0; i < carried; ++i) {
      const Tensor stand_in = tape.outside()[loop_.turn.carried[i]].stand_in;
      if (!stand_in.requires_grad()) continue;
      add(grads[i].defined() ? grads[i] : zeros_of(stand_in.meta(), device), loop_.turn.carried[i], i);
      given[i] = tape.outside()[added.back()].stand_in;
    }
    const size_t gradients = places.size();
    for (size_t i = 0; i < loop_.others.size(); ++i) {
      if (context.needs_input_grad(carried + i))
        add(zeros_of(saved[carried + i].meta(), device), loop_.others[i], carried + i);
    }
    {
      const lazy::GradMode none(false);
      const BranchTape::Scope scope(tape);
      results = gradients_inside(loop_.turn.body.results, given, stand_ins(tape, places));
      for (size_t i = 0; i < results.size(); ++i) {
        const Tensor before = tape.outside()[added[i]].stand_in;
        if (!results[i].defined()) {
          results[i] = i < gradients ? zeros_of(before.meta(), device) : before;
        } else if (i >= gradients) {
          results[i] = before + results[i];
        }
        results[i] = tape.inside(results[i]);
      }
    }
    std::vector<Tensor> out(saved.size());
    if (results.empty()) return out;
    // What the gradients read that the loop does not, as functions of users may, has no place among the operands.
    std::vector<size_t> known = loop_.others;
    known.insert(known.end(), added.begin(), added.end());
    const std::vector<size_t> more = others_of(tape.reads(results), {&loop_.turn.carried, &known});
    SMOLDER_CHECK(more.empty(), NotImplementedError,
                  "while_loop: a gradient that reads tensors which the loop does not is not supported");
    graphs.leaves.add(tape, added);
    const auto back =
        tape.extract(results, graphs.leaves.metas, graphs.leaves.numbers, static_cast<uint32_t>(call.numbers.size()));
    call.numbers.insert(call.numbers.end(), back.numbers.begin(), back.numbers.end());
    const ir::WhileGradAttrs attrs{loop_.attrs(graphs, call.tensors.size()), back.graph,
                                   static_cast<int64_t>(gradients), static_cast<int64_t>(added.size() - gradients)};
    std::vector<Tensor> found = call.record(ir::control_op(ir::ControlKind::kWhileGrad, added.size()), attrs.words());
    if (lazy::grad_enabled()) {
      const auto node = std::make_shared<WhileGradCall>();
      node->context.begin(call.tensors);
      node->context.finish("WhileLoopGradOp", node, found);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (context.needs_input_grad(inputs[i])) out[inputs[i]] = found[i];
    }
    tape.forget_outer();
    return out;
  }

 private:
  Loop loop_;
};

std::vector<Tensor> record_while(Loop loop) {
  BranchTape& tape = *loop.turn.body.tape;
  loop.others = others_of(tape.reads(loop.turn.body.results), {&loop.turn.carried});
  loop.others_in_condition = others_of(loop.condition.tape->reads(loop.condition.results), {&loop.in_condition});
  const Loop::Graphs graphs = loop.graphs();
  Call call;
  add_outer(call.tensors, tape, loop.turn.carried);
  add_outer(call.tensors, tape, loop.others);
  add_outer(call.tensors, *loop.condition.tape, loop.others_in_condition);
  call.numbers = graphs.numbers;
  std::vector<Tensor> out = call.record(ir::control_op(ir::ControlKind::kWhileLoop, loop.turn.carried.size()),
                                        loop.attrs(graphs, call.tensors.size()).words());
  tape.forget_outer();
  loop.condition.tape->forget_outer();
  const std::vector<Tensor> inputs(
      call.tensors.begin(), call.tensors.begin() + static_cast<int64_t>(loop.turn.carried.size() + loop.others.size()));
  if (!lazy::grad_enabled() || !any_requires_grad(inputs) || !any_requires_grad(loop.turn.body.results)) return out;
  std::vector<Tensor> constant;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!is_floating(out[i].dtype())) constant.push_back(out[i]);
  }
  const auto node = std::make_shared<WhileCall>(std::move(loop));
  node->context.begin(call.tensors);
  node->context.save_for_backward(call.tensors);
  node->context.mark_non_differentiable(std::move(constant));
  node->context.finish("WhileLoopAutogradOp", node, out);
  return out;
}

}  // namespace

std::vector<Tensor> cond(const Tensor& predicate, const BranchFunction& true_fn, const BranchFunction& false_fn,
                         const std::vector<Tensor>& operands) {
  SMOLDER_CHECK(predicate.numel() == 1, RuntimeError,
                "Expected pred to be bool or single-element tensor, but got one of shape ", predicate.shape(), ".");
  SMOLDER_CHECK(true_fn && false_fn, RuntimeError, "Expect both branches to be callable.");
  const Device device = operands.empty() ? predicate.device() : device_of(operands);
  Branches branches;
  Draws draws;
  for (size_t b = 0; b < 2; ++b) {
    Recorded& r = branches[b];
    r.tape = std::make_shared<BranchTape>("cond", device);
    std::vector<size_t> places;
    for (const Tensor& t : operands) places.push_back(r.tape->add(t));
    r.results = run_inside(*r.tape, stand_ins(*r.tape, places), b == 0 ? true_fn : false_fn);
    check_pure("cond", b == 0 ? "the true branch" : "the false branch", r);
    draws.rewind(*r.tape);
  }
  draws.finish();
  const std::vector<Tensor>&yes = branches[0].results, &no = branches[1].results;
  SMOLDER_CHECK(yes.size() == no.size(), RuntimeError,
                "Expected to return same number of outputs but got:\n  true branch returns ", yes.size(),
                " item(s)\n  false branch returns ", no.size(), " item(s)");
  for (size_t i = 0; i < yes.size(); ++i) check_same(i, yes[i].meta(), no[i].meta());
  if (yes.empty()) return {};
  return record_cond(flag_on(predicate, device), std::move(branches));
}

std::vector<Tensor> while_loop(const std::function<Tensor(const std::vector<Tensor>&)>& condition,
                               const BranchFunction& body, const std::vector<Tensor>& carried) {
  SMOLDER_CHECK(condition && body, RuntimeError, "Expect cond_fn and body_fn to be callable.");
  if (carried.empty()) return {};
  const Device device = device_of(carried);
  Loop loop;
  Draws draws;
  loop.condition.tape = std::make_shared<BranchTape>("while_loop", device);
  loop.turn.body.tape = std::make_shared<BranchTape>("while_loop", device);
  for (const Tensor& t : carried) {
    lazy::refresh(t.impl());
    loop.in_condition.push_back(loop.condition.tape->add_apart(t, t.meta()));
    loop.turn.carried.push_back(loop.turn.body.tape->add_apart(t, t.meta(), is_floating(t.dtype())));
  }
  loop.condition.results =
      run_inside(*loop.condition.tape, stand_ins(*loop.condition.tape, loop.in_condition),
                 [&](const std::vector<Tensor>& given) { return std::vector<Tensor>{condition(given)}; });
  const ir::Meta& flag = loop.condition.results[0].meta();
  SMOLDER_CHECK(
      flag.dtype == DType::kBool && flag.shape.empty(), RuntimeError,
      "torch.while_loop: unsupported cond_fn return type: Expected cond_fn to return a scalar tensor or a bool "
      "but got ",
      ir::to_string(flag));
  draws.rewind(*loop.condition.tape);
  const int64_t of_condition = draws.of_one_turn("while_loop");
  loop.turn.body.results = run_inside(*loop.turn.body.tape, stand_ins(*loop.turn.body.tape, loop.turn.carried), body);
  check_pure("while_loop", "body_fn", loop.turn.body);
  const std::vector<Tensor>& results = loop.turn.body.results;
  SMOLDER_CHECK(results.size() == carried.size(), RuntimeError,
                "Expected body_fn_output and carried_inputs to have same number of outputs but got ", results.size(),
                " and ", carried.size());
  for (size_t i = 0; i < carried.size(); ++i) {
    check_carried("Expected body_fn_output and carried_inputs", i, results[i].meta(), carried[i].meta());
  }
  draws.rewind(*loop.turn.body.tape);
  loop.draws = std::max(of_condition, draws.of_one_turn("while_loop"));
  draws.finish_turns(uint64_t{1} << 20);  // how many there are is not known: past as many as there may well be
  return record_while(std::move(loop));
}

CarryAndSlices scan(const CombineFunction& combine, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
                    int64_t dim, bool reverse) {
  SMOLDER_CHECK(combine, RuntimeError, "Combine_fn must be a callable");
  SMOLDER_CHECK(!init.empty(), RuntimeError, "scan() operator requires init leaves.");
  if (xs.empty()) return {init, {}};
  const int axis = normalize_axis(dim, xs[0].dim());
  for (const Tensor& x : xs) {
    SMOLDER_CHECK(x.dim() > axis, RuntimeError, "All xs leaves must have at least 'dim + 1' dimensions");
    SMOLDER_CHECK(x.shape()[axis] == xs[0].shape()[axis], RuntimeError,
                  "All xs leaves must have the same scan dimension size");
  }
  Turn turn;
  BranchTape& tape = *(turn.body.tape = std::make_shared<BranchTape>("scan", device_of(init)));
  for (const Tensor& t : init) {
    lazy::refresh(t.impl());
    turn.carried.push_back(tape.add_apart(t, t.meta(), is_floating(t.dtype())));
  }
  for (const Tensor& x : xs) {
    const Tensor moved = axis == 0 ? x : x.movedim({axis}, {0});
    lazy::refresh(moved.impl());
    ir::Meta slice = moved.meta();
    slice.shape.erase(0);
    turn.scanned.push_back(tape.add_apart(moved, slice));
  }
  const int64_t turns = xs[0].shape()[axis];
  size_t carried = 0;
  turn.body.results = run_inside(tape, stand_ins(tape, turn.carried), [&](const std::vector<Tensor>& carry) {
    CarryAndSlices out = combine(carry, stand_ins(tape, turn.scanned));
    carried = out.first.size();
    out.first.insert(out.first.end(), out.second.begin(), out.second.end());
    return out.first;
  });
  check_pure("scan", "combine_fn", turn.body);
  SMOLDER_CHECK(carried == init.size(), RuntimeError, "Expected init and carry to have same number of outputs but got ",
                init.size(), " and ", carried);
  for (size_t i = 0; i < carried; ++i) {
    check_carried("Expected init and carry", i, init[i].meta(), turn.body.results[i].meta());
  }
  Draws draws;
  draws.rewind(tape);
  const int64_t of_turn = draws.of_one_turn("scan");
  draws.finish_turns(static_cast<uint64_t>(turns));
  std::vector<Tensor> all = record_scan(std::move(turn), reverse, of_turn);
  CarryAndSlices out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i < carried) {
      out.first.push_back(all[i]);
    } else {
      out.second.push_back(axis == 0 || axis >= all[i].dim() ? all[i] : all[i].movedim({0}, {axis}));
    }
  }
  return out;
}

namespace autograd {
namespace {

/// Records the ops of a graph.
std::vector<Tensor> play(int64_t number, const std::vector<Tensor>& leaves, const std::vector<Scalar>& numbers) {
  const ir::Graph& g = ir::subgraph(number).graph;
  std::vector<Tensor> tensors(g.values.size()), out;
  std::vector<std::optional<Scalar>> known(g.values.size());
  for (const ir::Node& n : g.nodes) {
    std::vector<int64_t> words;
    for (const ir::Dim& d : n.attrs) words.push_back(d.value);
    if (n.op == ir::Op::kLeaf) {
      tensors[n.first_output] = leaves[static_cast<size_t>(words[0])];
    } else if (n.op == ir::Op::kParameter) {
      known[n.first_output] = numbers[static_cast<size_t>(words[0])];
    } else if (n.op == ir::Op::kConstant && g.values[n.first_output].weak) {
      known[n.first_output] = Scalar::from_bits(static_cast<uint64_t>(words[1]), static_cast<Category>(words[0]));
    } else {
      std::vector<Operand> operands;
      for (const ir::ValueId v : n.inputs) {
        operands.push_back(v == ir::kNone         ? Operand::none()
                           : tensors[v].defined() ? Operand(tensors[v])
                                                  : Operand(*known[v]));
      }
      if (ir::is_control_flow(n.op)) {
        std::ranges::copy(call_control_flow(n.op, operands, words), &tensors[n.first_output]);
      } else {
        lazy::record(n.op, operands, words, &tensors[n.first_output]);
      }
    }
  }
  for (const ir::ValueId v : g.outputs) out.push_back(tensors[v]);
  return out;
}

}  // namespace

std::vector<Tensor> call_control_flow(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> words) {
  std::vector<Tensor> tensors;
  std::vector<Scalar> numbers;
  for (const Operand& o : operands) {
    if (o.kind() == Operand::kTensor) tensors.emplace_back(o.impl());
    if (o.kind() == Operand::kNumber) numbers.push_back(o.number());
  }
  const ir::ControlKind kind = ir::control_kind(op);
  if (!lazy::grad_enabled() || !any_requires_grad(tensors) || kind == ir::ControlKind::kWhileGrad) {
    std::vector<Tensor> out = Call{tensors, numbers}.record(op, {words.begin(), words.end()});
    if (kind != ir::ControlKind::kWhileGrad) return out;
    const auto node = std::make_shared<WhileGradCall>();
    node->context.begin(tensors);
    node->context.finish("WhileLoopGradOp", node, out);
    return out;
  }
  const Device device = device_of(tensors);
  const auto record_graph = [&](Recorded& r, int64_t graph, const std::vector<size_t>& places) {
    r.results = run_inside(*r.tape, stand_ins(*r.tape, places),
                           [&](const std::vector<Tensor>& leaves) { return play(graph, leaves, numbers); });
  };
  if (kind == ir::ControlKind::kCond) {
    const ir::CondAttrs attrs = ir::CondAttrs::read(words);
    Branches branches;
    for (Recorded& r : branches) {
      r.tape = std::make_shared<BranchTape>("cond", device);
      std::vector<size_t> places;
      for (size_t i = 1; i < tensors.size(); ++i) places.push_back(r.tape->add(tensors[i]));
      record_graph(r, &r == branches.data() ? attrs.true_graph : attrs.false_graph, places);
    }
    return record_cond(tensors[0], std::move(branches));
  }
  const bool scans = kind == ir::ControlKind::kScan;
  const ir::ScanAttrs scan = scans ? ir::ScanAttrs::read(words) : ir::ScanAttrs();
  const ir::WhileAttrs loop = scans ? ir::WhileAttrs() : ir::WhileAttrs::read(words);
  const auto carried = static_cast<size_t>(scans ? scan.carried : loop.carried);
  const auto scanned = static_cast<size_t>(scan.scanned);
  /// Stand-ins for all operands; what is carried is another each turn.
  const auto add_all = [&](BranchTape& tape, int64_t graph) {
    std::vector<size_t> places;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const ir::Meta& m = ir::subgraph(graph).leaves[i];
      lazy::refresh(tensors[i].impl());
      places.push_back(i < carried + scanned ? tape.add_apart(tensors[i], m, i < carried && is_floating(m.dtype))
                                             : tape.add(tensors[i]));
    }
    return places;
  };
  Turn turn;
  turn.body.tape = std::make_shared<BranchTape>(scans ? "scan" : "while_loop", device);
  const std::vector<size_t> places = add_all(*turn.body.tape, scans ? scan.graph : loop.body_graph);
  turn.carried.assign(places.begin(), places.begin() + static_cast<int64_t>(carried));
  turn.scanned.assign(places.begin() + static_cast<int64_t>(carried),
                      places.begin() + static_cast<int64_t>(carried + scanned));
  record_graph(turn.body, scans ? scan.graph : loop.body_graph, places);
  if (scans) return record_scan(std::move(turn), scan.reverse, scan.draws);
  Loop all;
  all.turn = std::move(turn);
  all.draws = loop.draws;
  all.condition.tape = std::make_shared<BranchTape>("while_loop", device);
  const std::vector<size_t> of_condition = add_all(*all.condition.tape, loop.cond_graph);
  all.in_condition.assign(of_condition.begin(), of_condition.begin() + static_cast<int64_t>(carried));
  record_graph(all.condition, loop.cond_graph, of_condition);
  return record_while(std::move(all));
}

}  // namespace autograd

}  // namespace smolder
