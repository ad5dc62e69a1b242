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

DeviceType device_of(const std::vector<Tensor>& tensors) {
  return tensors.empty() ? lazy::creation_device() : tensors[0].device().type;
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

/// Refuses what torch refuses: results that share memory with an operand or with each other, and writes to operands.
void check_pure(const char* what, const char* which, const Recorded& r) {
  for (size_t place = 0; place < r.tape->outside().size(); ++place) {
    SMOLDER_CHECK(!r.tape->was_written(place), RuntimeError, what, ": ", which,
                  " writes to its input in place. Higher order ops do not support input mutation. Clone it first");
  }
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

Tensor zeros_of(const ir::Meta& m, DeviceType device) {
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
        back[b].results.push_back(
            back[b].tape->inside(g.defined() ? g : zeros_of(saved[k].meta(), saved[k].device().type)));
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
Tensor flag_on(const Tensor& predicate, DeviceType device) {
  const Tensor plain = predicate.detach();
  const Tensor flag = plain.dtype() == DType::kBool ? plain : plain.ne(Scalar(int64_t{0}));
  return flag.to(Device{device, 0});
}

void check_same(size_t i, const ir::Meta& yes, const ir::Meta& no) {
  const std::string where = "When merging two branches' output in torch.cond,  expected same ";
  SMOLDER_CHECK(yes.dtype == no.dtype, RuntimeError, where, "dtype but got ", name(yes.dtype), " and ", name(no.dtype),
                " (result ", i, " of the true and of the false branch).");
  SMOLDER_CHECK(yes.shape == no.shape, RuntimeError, where, "shape but got ", yes.shape, " and ", no.shape, " (result ",
                i, " of the true and of the false branch).");
}

}  // namespace

std::vector<Tensor> cond(const Tensor& predicate, const BranchFunction& true_fn, const BranchFunction& false_fn,
                         const std::vector<Tensor>& operands) {
  SMOLDER_CHECK(predicate.numel() == 1, RuntimeError,
                "Expected pred to be bool or single-element tensor, but got one of shape ", predicate.shape(), ".");
  SMOLDER_CHECK(true_fn && false_fn, RuntimeError, "Expect both branches to be callable.");
  const DeviceType device = operands.empty() ? predicate.device().type : device_of(operands);
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

}  // namespace smolder
