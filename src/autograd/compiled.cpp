#include "smolder/autograd/compiled.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "smolder/autograd/engine.h"
#include "smolder/autograd/hooks.h"
#include "smolder/ir/graph.h"
#include "smolder/ir/infer.h"
#include "smolder/lazy/autocast.h"
#include "smolder/lazy/extract.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"

namespace smolder::autograd {

using lazy::TensorImpl;
using lazy::ValueRef;
using lazy::ValueSource;

namespace {

TensorMeta* find_meta(const TensorImpl* impl) { return static_cast<TensorMeta*>(impl->autograd.get()); }

Node* grad_fn_of(const TensorImpl* impl) {
  const TensorMeta* const m = find_meta(impl);
  return m ? m->grad_fn.node.get() : nullptr;
}

/// Results with gradients, each of which has a backward of its own besides that of all.
constexpr size_t kMostOutputs = 64;

/// A detached tensor sees the write of its storage, as a write by its own name would show it.
void follow_write(TensorImpl* impl, const ValueRef& now) {
  impl->value = now;
  impl->saw_base();
  impl->written();
}

/// The findings of a walk from a tensor's history to the leaves.
struct History {
  bool hooks = false;    ///< of the program, which would run where gradients are computed
  bool freed = false;    ///< by a backward
  bool program = false;  ///< whether the program's code computes a part of the gradient
};

History look_at(const Edge& root) {
  History out;
  std::vector<const Node*> stack{root.node.get()};
  std::unordered_set<const Node*> seen;
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    if (!node || !seen.insert(node).second) continue;
    out.freed |= node->released;
    out.program |= node->custom() && node->custom()->is_program();
    for (const auto* const saved : {&node->saved_inputs, &node->saved_outputs}) {
      out.program |= std::ranges::any_of(*saved, [](const SavedTensor& s) { return s.extra && s.extra->hooks; });
    }
    if (const Hooks* const h = node->hooks()) {
      out.hooks |= !(h->tensor.empty() && h->retained.empty() && h->before.empty() && h->after.empty());
    }
    for (const Edge& e : node->next) stack.push_back(e.node.get());
  }
  return out;
}

}  // namespace

/// The state of one call of a compiled function.
struct CompiledStep::Call {
  std::vector<Tensor> inputs;  ///< the used ones, then gradients
  std::vector<ValueRef> before, results, made;
  lazy::RunNumbers numbers;
  std::vector<Edge> edges;  ///< of the inputs that gradients go to, as they were before
  std::shared_ptr<Node> node;

  ValueRef value(const CompiledStep& step, ValueSource s) const {
    if (s.kind == ValueSource::kInput) return before[s.index];
    return s.kind == ValueSource::kConstant ? step.constants_[s.index] : results[s.index];
  }
};

/// The place of a compiled function in the history of what it returned.
class CompiledNode final : public CustomFunction {
 public:
  CompiledNode(std::shared_ptr<const CompiledStep> step, const CompiledStep::Call& call)
      : step_(std::move(step)), numbers_(call.numbers) {
    for (const CompiledStep::Backward& b : step_->backwards_) {
      std::vector<ValueRef>& saved = saved_.emplace_back();
      for (const auto* const sources : {&b.step.leaves, &b.gradients}) {
        for (const ValueSource s : *sources) {
          const bool later = s.kind == ValueSource::kGiven || s.kind == ValueSource::kGradient;
          saved.push_back(later ? ValueRef() : call.value(*step_, s));
        }
      }
    }
  }

  std::string name() const override { return "CompiledFunctionBackward"; }
  bool stands_for_many() const override { return true; }

  std::vector<Tensor> backward(std::vector<Tensor> grads) override {
    SMOLDER_CHECK(!lazy::grad_enabled(), RuntimeError,
                  "smolder.compile does not currently support double backward: the gradient of a compiled function has "
                  "no history. Call the function itself where create_graph=True.");
    SMOLDER_CHECK(step_->known(), RuntimeError,
                  "the traces of a compiled function were forgotten between its call and its backward");
    const lazy::NoAutocast plain;
    std::vector<Tensor> out(step_->differentiable_.size());
    std::vector<size_t> given;
    bool freed = false;
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      lazy::refresh(grads[i].impl());
      given.push_back(i);
      freed |= step_->freed_[i];
    }
    SMOLDER_CHECK(!released_ && !freed, RuntimeError,
                  "Trying to backward through the graph a second time (or directly access saved tensors after they "
                  "have already been freed): the saved values of CompiledFunctionBackward were freed by the first "
                  ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph "
                  "a second time or if you need to access saved tensors after calling backward.");
    if (given.size() == grads.size() && step_->backwards_.size() > 0) {
      run(0, grads, out);
    } else {  // a gradient of zeros in the place of none could make nans
      for (const size_t i : given) run(1 + i, grads, out);
    }
    return out;
  }

  void release() override {
    released_ = true;
    saved_.clear();
  }

 private:
  /// Adds what the backward numbered `which` gives to `out`.
  void run(size_t which, const std::vector<Tensor>& grads, std::vector<Tensor>& out) const {
    const CompiledStep::Backward& b = step_->backwards_[which];
    const std::vector<ValueRef>& saved = saved_[which];
    const auto value = [&](ValueSource s, size_t at) {
      return s.kind == ValueSource::kGiven ? lazy::value_now(grads[s.index].impl()) : saved[at];
    };
    std::vector<ValueRef> leaves, results;
    for (size_t i = 0; i < b.step.leaves.size(); ++i) leaves.push_back(value(b.step.leaves[i], i));
    if (b.step.tape) {
      const SourceToken source = capture_source();
      std::vector<uint64_t> parameters = lazy::parameters_of(b.step, numbers_);
      const std::lock_guard hold(b.step.tape->mutex());
      b.step.tape->sync("compiled function", source);  // what is pending runs as ever
      const jit::RunModeScope scope(step_->mode_.value_or(jit::run_mode()));
      b.step.tape->replay(
          b.step, std::move(leaves), std::move(parameters),
          [&](std::span<const ValueRef> wanted) { results.assign(wanted.begin(), wanted.end()); }, source);
    }
    for (size_t i = 0; i < b.to.size(); ++i) {
      const ValueSource s = b.gradients[i];
      const bool computed = s.kind == ValueSource::kGradient;
      const Tensor gradient(new TensorImpl(computed ? results[s.index] : value(s, b.step.leaves.size() + i)));
      Tensor& sum = out[b.to[i]];
      sum = sum.defined() ? sum + gradient : gradient;
    }
  }

  std::shared_ptr<const CompiledStep> step_;
  lazy::RunNumbers numbers_;
  std::vector<std::vector<ValueRef>> saved_;  ///< what each backward reads, then gradients that nobody computes
  bool released_ = false;
};

Tensor CompiledStep::Relative::find(const std::vector<Tensor>& inputs) const {
  return gradient ? inputs[of].grad() : Tensor(lazy::owner_of(inputs[of].impl()));
}

// -- graphs

void StepGraph::check_known() const {
  SMOLDER_CHECK(record_.known(), RuntimeError, "the trace of this graph was forgotten");
}

std::string StepGraph::text() const {
  check_known();
  return record_.tape ? ir::print(lazy::to_graph(*record_.trace, record_.wanted)) : "";
}

std::vector<ir::Meta> StepGraph::leaves() const {
  check_known();
  std::vector<ir::Meta> out;
  for (size_t v = 0; record_.tape && v < record_.trace->metas.size(); ++v) {
    if (record_.trace->is_leaf[v]) out.push_back(*record_.trace->metas[v]);
  }
  return out;
}

std::vector<ir::Meta> StepGraph::results() const {
  check_known();
  std::vector<ir::Meta> out;
  for (const uint32_t v : record_.wanted) out.push_back(*record_.trace->metas[v]);
  return out;
}

std::vector<Tensor> StepGraph::run(const std::vector<Tensor>& leaves, const std::vector<Scalar>& numbers) const {
  const std::vector<ir::Meta> expected = this->leaves();
  SMOLDER_CHECK(leaves.size() == expected.size() && numbers.size() == record_.patches.size(), TypeError,
                "this graph takes ", expected.size(), " tensors and ", record_.patches.size(), " numbers, got ",
                leaves.size(), " and ", numbers.size());
  std::vector<ValueRef> values;
  for (size_t i = 0; i < leaves.size(); ++i) {
    lazy::refresh(leaves[i].impl());
    SMOLDER_CHECK(leaves[i].meta() == expected[i], TypeError, "tensor ", i, " of this graph is ",
                  ir::to_string(expected[i]), ", got ", ir::to_string(leaves[i].meta()));
    values.push_back(lazy::value_now(leaves[i].impl()));
  }
  std::vector<Tensor> out;
  if (!record_.tape) return out;
  const SourceToken source = capture_source();
  const std::lock_guard hold(record_.tape->mutex());
  record_.tape->replay(
      record_, std::move(values), lazy::parameters_of(record_, numbers),
      [&](std::span<const ValueRef> results) {
        for (const ValueRef& v : results) out.emplace_back(new TensorImpl(v));
      },
      source);
  return out;
}

// -- running

std::vector<Tensor> CompiledStep::run(const std::vector<Tensor>& inputs, std::vector<uint64_t> run_time) const {
  Call call;
  call.inputs = inputs;
  for (const Relative& r : relatives_) call.inputs.push_back(r.find(inputs));
  for (const Tensor& t : call.inputs) lazy::refresh(t.impl());
  for (const uint32_t i : differentiable_) call.edges.push_back(gradient_edge(call.inputs[i]));
  call.numbers = {lazy::draw_again(generators_, draws_), std::move(run_time)};
  for (const Tensor& t : call.inputs) call.before.push_back(t.impl()->value);
  const auto begin = [&](std::span<const ValueRef> results) {
    call.results.assign(results.begin(), results.end());
    std::vector<ValueRef> written;
    for (const Write& w : writes_) written.push_back(call.value(*this, w.value));
    for (const Made& m : made_) call.made.push_back(call.value(*this, m.value));
    for (size_t i = 0; i < writes_.size(); ++i) {
      TensorImpl* const impl = call.inputs[writes_[i].input].impl();
      lazy::write_value(*forward_.tape, impl, written[i]);
      impl->version += writes_[i].times - 1;
      for (const uint32_t f : writes_[i].followers) follow_write(call.inputs[f].impl(), written[i]);
    }
    if (has_backward()) call.node = new_node(std::make_shared<CompiledNode>(shared_from_this(), call));
    // Its old value must not outlive the write, or the memory could not be written in place.
    for (const Write& w : writes_) {
      call.before[w.input].reset();
      for (const uint32_t f : w.followers) call.before[f].reset();
    }
    // Nor must gradients that are replaced outlive it: new ones find their memory, in each call the same.
    for (const NewGrad& g : grads_) Tensor(call.inputs[g.input]).set_grad(Tensor());
  };
  if (!forward_.tape) {
    begin({});
  } else if (runner_) {
    std::vector<Tensor> leaves;
    for (const ValueSource s : forward_.leaves) leaves.emplace_back(new TensorImpl(call.value(*this, s)));
    const std::vector<ValueRef> results = run_by_runner(leaves, lazy::patched(forward_, call.numbers));
    const std::lock_guard hold(forward_.tape->mutex());
    begin(results);
  } else {
    std::vector<ValueRef> leaves;
    for (const ValueSource s : forward_.leaves) leaves.push_back(call.value(*this, s));
    std::vector<uint64_t> parameters = lazy::parameters_of(forward_, call.numbers);
    const SourceToken source = capture_source();
    const std::lock_guard hold(forward_.tape->mutex());
    forward_.tape->sync("compiled function", source);  // what is pending runs as ever
    const jit::RunModeScope scope(mode_.value_or(jit::run_mode()));
    forward_.tape->replay(forward_, std::move(leaves), std::move(parameters), begin, source);
  }
  return make(call);
}

std::vector<ValueRef> CompiledStep::run_by_runner(const std::vector<Tensor>& leaves,
                                                  const std::vector<Scalar>& numbers) const {
  const std::vector<Tensor> results = runner_(leaves, numbers);
  const std::vector<ir::Meta> expected = graph().results();
  SMOLDER_CHECK(results.size() == expected.size(), RuntimeError, "the backend's callable returned ", results.size(),
                " tensors where the graph has ", expected.size());
  std::vector<ValueRef> out;
  for (size_t i = 0; i < results.size(); ++i) {
    lazy::refresh(results[i].impl());
    SMOLDER_CHECK(results[i].meta() == expected[i], RuntimeError, "the backend's callable returned ",
                  ir::to_string(results[i].meta()), " for result ", i, ", which is ", ir::to_string(expected[i]));
    out.push_back(lazy::value_now(results[i].impl()));
  }
  return out;
}

std::vector<Tensor> CompiledStep::make(Call& call) const {
  if (call.node) {
    call.node->next = call.edges;
    for (const uint32_t i : differentiable_) call.node->inputs.push_back(call.inputs[i].impl()->value->meta);
    call.node->outputs = outputs_;
  }
  std::vector<Tensor> out;
  for (size_t i = 0; i < made_.size(); ++i) {
    const Made& m = made_[i];
    out.push_back(Tensor::first(new TensorImpl(std::move(call.made[i]))));
    TensorImpl* const impl = out.back().impl();
    impl->inference = m.inference;
    impl->origin = m.origin;
    if (!m.order.empty()) impl->order = std::make_unique<const Dims>(m.order);
    if (m.of_made >= 0 || m.of_input >= 0) {
      TensorImpl* const base = (m.of_made >= 0 ? out[m.of_made] : call.inputs[m.of_input]).impl();
      base->refs.fetch_add(1, std::memory_order_relaxed);
      impl->base = base;
      impl->steps = m.steps;
      impl->detached = m.detached;
      impl->saw_base();
    }
    if (m.output >= 0) {
      impl->requires_grad = true;
      meta_of(impl).grad_fn = {call.node, static_cast<uint32_t>(m.output)};
    }
  }
  for (const NewGrad& g : grads_) {
    Tensor(call.inputs[g.input])
        .set_grad(g.made >= 0       ? out[g.made]
                  : g.of_input >= 0 ? call.inputs[g.of_input]
                                    : Tensor());
  }
  return out;
}

// -- recording

StepCapture::StepCapture(const std::vector<Tensor>& known, bool whole, bool pure)
    : capture_(whole), known_(known.size()), pure_(pure) {
  {
    const lazy::Capture::Pause before;
    const SourceToken source = capture_source();
    for (const Tensor& t : known) lazy::refresh(t.impl());
    lazy::Tape::each([&](lazy::Tape& tape) { tape.sync("compiled function", source); });
    for (const Tensor& t : known) add(t);
    for (uint32_t i = 0; i < known_; ++i) {
      for (const bool gradient : {true, false}) {
        const CompiledStep::Relative r{i, gradient};
        const Tensor found = r.find(known);
        if (!found.defined() || input_of(found.impl()) >= 0) continue;
        relatives_.push_back(r);
        add(found);
      }
    }
  }
  for (const Before& b : inputs_) {
    if (b.tensor.impl()->value->external) stop("a tensor on memory that is shared with arrays");
  }
}

void StepCapture::add(const Tensor& t) {
  TensorImpl* const impl = t.impl();
  inputs_.push_back({t, impl->value, t.grad(), grad_fn_of(impl), impl->version, impl->requires_grad});
  sources_.try_emplace(impl->value.get(), ValueSource{ValueSource::kInput, static_cast<uint32_t>(inputs_.size() - 1)});
}

void StepCapture::stop(std::string_view why) { capture_.note_break(why, 0); }

int StepCapture::input_of(const TensorImpl* impl) const {
  const auto at = std::ranges::find(inputs_, impl, [](const Before& b) { return b.tensor.impl(); });
  return at == inputs_.end() ? -1 : static_cast<int>(at - inputs_.begin());
}

ValueSource StepCapture::source_of(const ValueRef& v) {
  if (const auto known = sources_.find(v.get()); known != sources_.end()) return known->second;
  const auto& constants = capture_.constants();
  if (const auto at = std::ranges::find(constants, v.get(), &ValueRef::get); at != constants.end()) {
    return {ValueSource::kConstant, static_cast<uint32_t>(at - constants.begin())};
  }
  const auto alive = std::ranges::find(alive_, v.get(), [](const auto& a) { return a.second.get(); });
  if (alive == alive_.end()) {
    stop("a tensor on memory that the function did not compute");
    return {};
  }
  return {ValueSource::kResult, step_->forward_.want(alive->first)};
}

/// The place of a tensor of the function's among what it makes; -1 - its place among the inputs for one of those.
int StepCapture::make(TensorImpl* impl) {
  if (const int input = input_of(impl); input >= 0) return -1 - input;
  const auto known = std::ranges::find(made_, impl, &Tensor::impl);
  if (known != made_.end()) return static_cast<int>(known - made_.begin());
  CompiledStep::Made m;
  if (impl->base) {
    const int base = make(impl->base);
    (base >= 0 ? m.of_made : m.of_input) = base >= 0 ? base : -1 - base;
    m.steps = impl->steps;
    m.detached = impl->detached;
  }
  if (impl->external) stop("a tensor on memory that is shared with arrays");
  m.value = source_of(impl->value);
  m.origin = impl->origin;
  m.inference = impl->inference;
  if (impl->order) m.order = *impl->order;
  if (impl->requires_grad) {
    if (!grad_fn_of(impl)) stop("a new leaf that requires a gradient");
    m.output = static_cast<int>(step_->outputs_.size());
    step_->outputs_.push_back(impl->value->meta);
  }
  made_.emplace_back(impl);
  step_->made_.push_back(std::move(m));
  return static_cast<int>(made_.size() - 1);
}

void StepCapture::find_effects(const std::vector<Tensor>& outputs) {
  find_writes();
  for (const Tensor& t : outputs) step_->places_.push_back(make(t.impl()));
  const lazy::Capture::Pause looking;
  for (size_t i = 0; i < known_; ++i) {
    const Before& b = inputs_[i];
    const TensorImpl* const impl = b.tensor.impl();
    if (impl->requires_grad != b.requires_grad || grad_fn_of(impl) != b.grad_fn) {
      stop("an argument, or another tensor from before, whose history changes");
    }
    const Tensor now = b.tensor.grad();
    if (now.impl() == b.grad.impl()) continue;
    CompiledStep::NewGrad g{static_cast<uint32_t>(i)};
    if (now.defined()) {
      if (now.requires_grad()) stop("a gradient that has a history");
      const int at = make(now.impl());
      (at >= 0 ? g.made : g.of_input) = at >= 0 ? at : -1 - at;
    }
    step_->grads_.push_back(g);
  }
}

void StepCapture::find_writes() {
  if (!step_->forward_.tape) return;
  for (const Tensor& t : step_->forward_.tape->written()) {
    const int input = input_of(t.impl());
    if (input < 0 && capture_.made(t.impl())) continue;
    if (input < 0) return stop("a write to a tensor that no guard reaches");
    const Before& b = inputs_[input];
    step_->writes_.push_back(
        {static_cast<uint32_t>(input), source_of(t.impl()->value), t.impl()->version - b.version, {}});
    for (uint32_t i = 0; i < known_; ++i) {
      const TensorImpl* const impl = inputs_[i].tensor.impl();
      if (impl->base == t.impl() && impl->detached && !impl->steps) step_->writes_.back().followers.push_back(i);
    }
  }
}

std::shared_ptr<CompiledStep> StepCapture::finish(const std::vector<Tensor>& outputs,
                                                  const std::vector<Generator*>& generators) {
  for (const Tensor& t : outputs) lazy::refresh(t.impl());
  // A view of what was written gets its new value and history when it is read.
  for (size_t i = 0; i < known_; ++i) lazy::refresh(inputs_[i].tensor.impl());
  step_ = std::make_shared<CompiledStep>();
  if (capture_.broken()) return nullptr;
  step_->forward_ = capture_.step(sources_);
  lazy::Tape* const tape = step_->forward_.tape;
  if (tape) {
    const std::lock_guard hold(tape->mutex());
    for (const ValueRef& v : tape->alive()) alive_.emplace_back(*tape->number_of(*v), v);
  }
  find_effects(outputs);
  step_->generators_ = capture_.generators(generators);
  {
    const lazy::Capture::Pause running;
    const SourceToken source = capture_source();
    lazy::Tape::each([&](lazy::Tape& any) { any.sync("compiled function", source); });
  }
  if (!capture_.broken() && !step_->outputs_.empty()) record_backward();
  step_->draws_ = capture_.draws();
  step_->constants_ = capture_.constants();
  if (capture_.broken()) return nullptr;
  for (const Tensor& t : made_) {  // outside of the function, as in its next calls, a copy of what it was picked from
    if (!t.impl()->base) t.impl()->steps = nullptr;
  }
  forget_unused();
  return step_;
}

std::vector<Tensor> StepCapture::gradients(const std::vector<Tensor>& from, const std::vector<Tensor>& to,
                                           const std::vector<Tensor>& given) {
  std::vector<Tensor> out;
  try {
    // The history stays, in case something else is in the way. An input may be computed from another: what flows on
    // from there is no part of the function.
    out = grad(from, to, given, true, false, true, true);
  } catch (const Error& e) {
    stop(std::string("its gradient cannot be recorded: ") + e.what());
  }
  for (const Tensor& g : out) {
    if (g.defined()) lazy::refresh(g.impl());
  }
  return out;
}

void StepCapture::record_backward() {
  std::vector<Tensor> from, to, given;
  std::vector<uint32_t> may;
  for (const Tensor& t : made_) {
    if (!t.requires_grad()) continue;
    from.push_back(t);
    const History history = look_at(gradient_edge(t));
    if (history.hooks) return stop("hooks on gradients that flow through the function");
    // The program's code would have to run each time that a gradient flows back, not once as this is recorded.
    if (history.program && !pure_) return stop("a gradient that code of the program computes, after the function");
    step_->freed_.push_back(history.freed);
    const auto bytes = static_cast<size_t>(t.numel()) * itemsize(t.dtype());
    given.push_back(Tensor::from_buffer(allocate(bytes, t.device()), t.shape(), t.dtype()));
    sources_.insert_or_assign(given.back().impl()->value.get(),
                              ValueSource{ValueSource::kGiven, static_cast<uint32_t>(given.size() - 1)});
  }
  for (size_t i = 0; i < known_; ++i) {
    if (!inputs_[i].requires_grad) continue;
    may.push_back(static_cast<uint32_t>(i));
    to.push_back(inputs_[i].tensor);
  }
  for (const auto& [number, value] : alive_) {
    sources_.try_emplace(value.get(), ValueSource{ValueSource::kResult, number});  // a number until it is wanted
  }
  if (from.size() > kMostOutputs) return stop("more results with gradients than 64");
  const bool any_freed = std::ranges::find(step_->freed_, true) != step_->freed_.end();
  step_->backwards_.push_back(any_freed ? CompiledStep::Backward{} : backward_of(from, to, given));
  for (size_t i = 0; i < from.size() && (any_freed || from.size() > 1); ++i) {
    step_->backwards_.push_back(step_->freed_[i] ? CompiledStep::Backward{} : backward_of({from[i]}, to, {given[i]}));
  }
  std::vector<uint32_t> reached;
  for (const CompiledStep::Backward& b : step_->backwards_) reached.insert(reached.end(), b.to.begin(), b.to.end());
  std::ranges::sort(reached);
  reached.erase(std::ranges::unique(reached).begin(), reached.end());
  for (const uint32_t place : reached) step_->differentiable_.push_back(may[place]);
  for (CompiledStep::Backward& b : step_->backwards_) {
    for (uint32_t& place : b.to) {
      place = static_cast<uint32_t>(std::ranges::lower_bound(reached, place) - reached.begin());
    }
  }
}

CompiledStep::Backward StepCapture::backward_of(const std::vector<Tensor>& from, const std::vector<Tensor>& to,
                                                const std::vector<Tensor>& given) {
  CompiledStep::Backward out;
  const std::vector<Tensor> grads = gradients(from, to, given);
  out.step = capture_.step(sources_);
  lazy::Tape* const tape = out.step.tape;
  const auto wanted = [&](ValueSource s) {
    if (s.kind == ValueSource::kResult) s.index = step_->forward_.want(s.index);
    return s;
  };
  for (ValueSource& s : out.step.leaves) s = wanted(s);
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) continue;
    out.to.push_back(static_cast<uint32_t>(i));
    const ValueRef& v = grads[i].impl()->value;
    const auto known = sources_.find(v.get());
    const auto number = tape ? tape->number_of(*v) : std::nullopt;
    if (known != sources_.end()) {
      out.gradients.push_back(wanted(known->second));
    } else if (number) {
      out.gradients.push_back({ValueSource::kGradient, out.step.want(*number)});
    } else {
      out.gradients.push_back(source_of(v));
    }
  }
  if (tape) {
    const std::lock_guard hold(tape->mutex());
    if (!capture_.broken()) tape->drop_pending();  // else another thread's ops may be among it
  }
  return out;
}

/// Keeps the inputs that matter.
void StepCapture::forget_unused() {
  CompiledStep& s = *step_;
  std::vector<int> place(inputs_.size(), -1);
  std::vector<ValueSource*> sources;
  std::vector<uint32_t*> inputs;
  const auto add_all = [&](std::vector<ValueSource>& list) {
    for (ValueSource& each : list) sources.push_back(&each);
  };
  add_all(s.forward_.leaves);
  for (auto& b : s.backwards_) {
    add_all(b.step.leaves);
    add_all(b.gradients);
  }
  for (auto& w : s.writes_) {
    sources.push_back(&w.value);
    inputs.push_back(&w.input);
    for (uint32_t& f : w.followers) inputs.push_back(&f);
  }
  for (auto& m : s.made_) sources.push_back(&m.value);
  for (auto& i : s.differentiable_) inputs.push_back(&i);
  for (auto& g : s.grads_) inputs.push_back(&g.input);
  for (ValueSource* const v : sources) {
    if (v->kind == ValueSource::kInput) inputs.push_back(&v->index);
  }
  for (auto& m : s.made_) {
    if (m.of_input >= 0) inputs.push_back(reinterpret_cast<uint32_t*>(&m.of_input));
  }
  std::vector<bool> uses(inputs_.size());
  for (const uint32_t* const i : inputs) uses[*i] = true;
  for (const auto& g : s.grads_) {
    if (g.of_input >= 0) uses[g.of_input] = true;
  }
  for (const int p : s.places_) {
    if (p < 0) uses[-1 - p] = true;
  }
  for (size_t i = known_; i < inputs_.size(); ++i) {
    if (uses[i]) uses[relatives_[i - known_].of] = true;
  }
  for (size_t i = 0; i < known_; ++i) {
    if (!uses[i]) continue;
    place[i] = static_cast<int>(s.used_.size());
    s.used_.push_back(static_cast<uint32_t>(i));
  }
  for (size_t i = known_; i < inputs_.size(); ++i) {
    if (!uses[i]) continue;
    place[i] = static_cast<int>(s.used_.size() + s.relatives_.size());
    const CompiledStep::Relative& r = relatives_[i - known_];
    s.relatives_.push_back({static_cast<uint32_t>(place[r.of]), r.gradient});
  }
  for (uint32_t* const i : inputs) *i = static_cast<uint32_t>(place[*i]);
  for (auto& g : s.grads_) {
    if (g.of_input >= 0) g.of_input = place[g.of_input];
  }
  for (int& p : s.places_) {
    if (p < 0) p = -1 - place[-1 - p];
  }
}

std::vector<Tensor> StepCapture::first_results() {
  CompiledStep::Call call;
  for (uint32_t i = 0; i < step_->used_.size() + step_->relatives_.size(); ++i) {
    call.inputs.push_back(input_at(i).tensor);
    call.before.push_back(input_at(i).value);
  }
  for (const uint32_t number : step_->forward_.wanted) {
    call.results.push_back(std::ranges::find(alive_, number, [](const auto& a) { return a.first; })->second);
  }
  for (const uint32_t i : step_->differentiable_) call.edges.push_back(gradient_edge(call.inputs[i]));
  call.numbers = {capture_.drawn(), capture_.run_time_numbers()};
  made_.clear();
  for (const auto& m : step_->made_) call.made.push_back(call.value(*step_, m.value));
  if (step_->has_backward()) call.node = new_node(std::make_shared<CompiledNode>(step_, call));
  return step_->make(call);
}

std::pair<std::vector<Tensor>, std::vector<Scalar>> StepCapture::example() const {
  std::pair<std::vector<Tensor>, std::vector<Scalar>> out;
  const lazy::StepRecord& record = step_->forward_;
  for (const ValueSource s : record.leaves) {
    const bool constant = s.kind == ValueSource::kConstant;
    out.first.emplace_back(new TensorImpl(constant ? step_->constants_[s.index] : input_at(s.index).value));
  }
  out.second = lazy::patched(record, {capture_.drawn(), capture_.run_time_numbers()});
  return out;
}

const StepCapture::Before& StepCapture::input_at(uint32_t place) const {
  if (place < step_->used_.size()) return inputs_[step_->used_[place]];
  const auto& r = step_->relatives_[place - step_->used_.size()];
  const auto at = std::ranges::find_if(
      relatives_, [&](const auto& all) { return all.of == step_->used_[r.of] && all.gradient == r.gradient; });
  return inputs_[known_ + static_cast<size_t>(at - relatives_.begin())];
}

bool StepCapture::leaks() const {
  // A view of a written tensor holds the value that it read last. That is no leak: each run reads the base again.
  std::vector<const TensorImpl*> views;
  for (const Before& b : inputs_) {
    const TensorImpl* const impl = b.tensor.impl();
    if (impl->base && std::ranges::find(views, impl) == views.end()) views.push_back(impl);
  }
  const auto held = [&](const auto& a) {
    const auto reads = std::ranges::count(views, a.second.get(), [](const TensorImpl* v) { return v->value.get(); });
    return std::ranges::find(step_->forward_.wanted, a.first) == step_->forward_.wanted.end() &&
           a.second->refs.load(std::memory_order_acquire) > 1 + reads;
  };
  return std::ranges::any_of(alive_, held);
}

}  // namespace smolder::autograd
