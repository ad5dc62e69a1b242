#include "smolder/autograd/control_flow_calls.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "smolder/autograd/engine.h"
#include "smolder/autograd/function.h"
#include "smolder/core/error.h"
#include "smolder/ir/control_flow.h"
#include "smolder/lazy/ops.h"  // generated

namespace smolder::autograd {
namespace {

using lazy::BranchTape;
using lazy::Operand;
using Places = std::unordered_map<size_t, uint32_t>;  // of tensors from without: which operand each is

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

// -- cond

/// The node that cond leaves for backward: a cond of the branches' gradients, which are computed from the operands
/// again.
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

// -- scan

/// The node that scan leaves for backward: a scan the other way, of the gradients of an iteration.
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

    // The values carried backward: gradients of those carried forward, then sums of the others' gradients.
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

/// A loop with what its functions read besides what is carried.
struct LoopCall : Loop {
  std::vector<size_t> others;  ///< places on the body's tape, and those of the condition's own
  std::vector<size_t> others_in_condition;

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
  explicit WhileCall(LoopCall loop) : loop_(std::move(loop)) {}
  FunctionContext context;

  std::string name() const override { return "WhileLoopAutogradOpBackward"; }
  void release() override { context.release(); }

  std::vector<Tensor> backward(std::vector<Tensor> grads) override {
    const std::vector<Tensor> saved = context.saved_tensors();
    BranchTape& tape = *loop_.turn.body.tape;
    const size_t carried = loop_.turn.carried.size();
    const Device device = saved[0].device();
    LoopCall::Graphs graphs = loop_.graphs();
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
    // A gradient that a user wrote may read tensors that the loop does not read: they are no operands of the loop.
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
    if (lazy::grad_enabled()) refuse_second_derivative(call.tensors, found);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (context.needs_input_grad(inputs[i])) out[inputs[i]] = found[i];
    }
    tape.forget_outer();
    return out;
  }

 private:
  LoopCall loop_;
};

}  // namespace

std::vector<const ir::Meta*> Call::metas() const {
  std::vector<const ir::Meta*> out;
  for (const Tensor& t : tensors) out.push_back(&t.meta());
  return out;
}

std::vector<Tensor> Call::record(ir::Op op, const std::vector<int64_t>& words) const {
  const lazy::GradMode none(false);
  std::vector<Operand> operands(tensors.begin(), tensors.end());
  operands.insert(operands.end(), numbers.begin(), numbers.end());
  std::vector<Tensor> out(ir::info(op).num_outputs);
  lazy::record(op, operands, words, out.data());
  return out;
}

bool any_requires_grad(const std::vector<Tensor>& tensors) {
  return std::ranges::any_of(tensors, [](const Tensor& t) { return t.requires_grad(); });
}

std::vector<Tensor> stand_ins(const BranchTape& tape, std::span<const size_t> places) {
  std::vector<Tensor> out;
  for (const size_t place : places) out.push_back(tape.outside()[place].stand_in);
  return out;
}

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

void refuse_second_derivative(const std::vector<Tensor>& inputs, std::vector<Tensor>& gradients) {
  const auto node = std::make_shared<WhileGradCall>();
  node->context.begin(inputs);
  node->context.finish("WhileLoopGradOp", node, gradients);
}

std::vector<Tensor> record_while(Loop functions) {
  LoopCall loop{std::move(functions), {}, {}};
  BranchTape& tape = *loop.turn.body.tape;
  loop.others = others_of(tape.reads(loop.turn.body.results), {&loop.turn.carried});
  loop.others_in_condition = others_of(loop.condition.tape->reads(loop.condition.results), {&loop.in_condition});
  const LoopCall::Graphs graphs = loop.graphs();
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

}  // namespace smolder::autograd
