#include "smolder/autograd/control_flow.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>

#include "smolder/autograd/control_flow_calls.h"
#include "smolder/core/error.h"
#include "smolder/ir/control_flow.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/random.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"

namespace smolder {
namespace {

using autograd::Branches;
using autograd::Loop;
using autograd::Recorded;
using autograd::stand_ins;
using autograd::Turn;
using lazy::BranchTape;
using lazy::Operand;

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
std::vector<Tensor> run_inside(BranchTape& tape, const std::vector<Tensor>& given, auto&& f) {
  const BranchTape::Scope scope(tape);
  std::vector<Tensor> out = f(given);
  for (Tensor& t : out) t = tape.inside(t);
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

/// Says, as torch does, how what is carried changed.
void check_carried(const char* what, size_t i, const ir::Meta& got, const ir::Meta& init) {
  SMOLDER_CHECK(got.dtype == init.dtype, RuntimeError, what, " to have same metadata but found:\npair[", i,
                "] differ in 'dtype: ", name(got.dtype), " vs ", name(init.dtype), "'");
  SMOLDER_CHECK(got.shape == init.shape, RuntimeError, what, " to have same metadata but found:\npair[", i,
                "] differ in 'shape: ", got.shape, " vs ", init.shape, "'");
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
  return autograd::record_cond(flag_on(predicate, device), std::move(branches));
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
  return autograd::record_while(std::move(loop));
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
  std::vector<Tensor> all = autograd::record_scan(std::move(turn), reverse, of_turn);
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
    if (kind == ir::ControlKind::kWhileGrad) refuse_second_derivative(tensors, out);
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
