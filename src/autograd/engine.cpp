#include "smolder/autograd/engine.h"

#include <atomic>
#include <queue>
#include <unordered_map>

#include "smolder/autograd/anomaly.h"
#include "smolder/autograd/hooks.h"
#include "smolder/autograd/node.h"
#include "smolder/autograd/saved.h"
#include "smolder/autograd/sparse.h"
#include "smolder/lazy/autocast.h"
#include "smolder/lazy/batch.h"
#include "smolder/lazy/branch.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"
#include "smolder/lazy/result_layout.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"

namespace smolder::autograd {
namespace {

/// The value of a gradient as a tensor that nobody else holds: tensors may get the same value, and gradients are
/// written in place.
Tensor own_handle(const Tensor& grad, bool with_history) {
  lazy::refresh(grad.impl());
  Tensor out =
      unpack({lazy::value_now(grad.impl()), with_history ? gradient_edge(grad) : Edge{}, -1, nullptr}, nullptr);
  if (auto parts = sparse_parts(grad)) [[unlikely]]
    mark_sparse(out, std::move(parts));
  return out;
}

/// Whether a gradient of shape `from` counts as one of shape `to`: summed over what was broadcast.
bool broadcasts_to(const Dims& to, const Dims& from) {
  if (to.size() > from.size()) return false;
  const int lead = from.size() - to.size();
  for (int i = 0; i < to.size(); ++i) {
    if (to[i] != 1 && to[i] != from[lead + i]) return false;
  }
  return true;
}

/// Runs the hooks on tensors that `node` has for its outputs, and keeps what is to be kept.
void run_tensor_hooks(const Node& node, std::vector<Tensor>& grads, bool create) {
  if (!node.hooks()) return;
  const auto hooks = node.hooks()->tensor;  // hooks may register and remove hooks
  const bool many = node.custom() && node.custom()->stands_for_many();
  for (const auto& h : hooks) {
    if (many && !grads[h.output].defined()) continue;
    Tensor changed = h.call(grads[h.output]);
    if (changed.defined()) grads[h.output] = std::move(changed);
  }
  const auto retained = node.hooks()->retained;
  for (const Hooks::Retained& r : retained) {
    const auto slot = r.slot.lock();
    if (!slot || !grads[r.output].defined()) continue;
    const lazy::GradMode mode(create);
    // The retained gradient is a tensor of its own, as the gradient of a leaf is.
    *slot = slot->defined() ? add_gradients(*slot, grads[r.output]) : own_handle(grads[r.output], create);
  }
}

/// One run over the graph. Nodes run latest first once every gradient that flows into them is there, so
/// the order is that of recording reversed, whatever the shape of the graph.
class Run {
 public:
  Run(bool retain, bool create, bool ends_at_captured = false)
      : retain_(retain), create_(create), ends_at_captured_(ends_at_captured), outer_(std::exchange(t_run, this)) {}
  ~Run() { t_run = outer_; }
  Run(const Run&) = delete;

  /// The backward pass of this thread that is under way: hooks are called from it. Null outside.
  static thread_local Run* t_run;
  uint64_t id() const { return id_; }
  bool partial() const { return partial_; }
  bool reaches(const Edge& edge) const {
    const auto at = states_.find(edge.node.get());
    return at != states_.end() && at->second.seen && (!partial_ || leads_on(edge.node.get()));
  }

  void add_root(const Edge& edge, Tensor grad) {
    roots_.push_back(edge.node);
    receive(edge, std::move(grad));
  }
  /// Only what leads to `edge` runs, and gradients that arrive there are kept.
  void capture(const Edge& edge) {
    states_[edge.node.get()].captured = true;
    partial_ = true;
  }
  /// Only what leads to the leaf runs, and it gets its gradient; or the tensor that keeps its gradient.
  void accumulate_into(const Edge& edge) {
    states_[edge.node.get()].target = true;
    partial_ = true;
  }
  Tensor captured(const Edge& edge) {
    const auto& grads = states_[edge.node.get()].kept;
    return edge.output < grads.size() ? grads[edge.output] : Tensor();
  }

  void execute() {
    const lazy::GradMode mode(create_);
    count();
    for (const auto& root : roots_) {
      State& state = states_[root.get()];
      if (state.waiting == 0) enqueue(root, state);
    }
    while (!ready_.empty()) {
      const std::shared_ptr<Node> node = ready_.top().node;
      ready_.pop();
      run(node);
    }
  }

 private:
  struct State {
    std::vector<Tensor> grads, kept;
    std::vector<RowProduct> products;  ///< of output 0, to be added to its gradient
    int waiting = 0;
    bool shared = false;  ///< by several edges, so that gradients are added up
    bool seen = false, queued = false, captured = false, target = false;
    bool runs = true;  ///< or only its gradients are asked for
  };
  struct Ready {
    std::shared_ptr<Node> node;
    bool operator<(const Ready& o) const { return node->sequence < o.node->sequence; }
  };

  /// Counts, for each node that the roots reach, the edges into it; finds which nodes lead to a captured one.
  void count() {
    struct Visit {
      Node* node;
      State* state;
      size_t edge;
    };
    std::vector<Visit> stack;
    const auto enter = [&](Node* node) {
      State& state = states_[node];  // references into the map are stable
      if (std::exchange(state.seen, true)) return;
      state.runs = !partial_ || (state.target && node->leaf.defined());
      if (ends_at_captured_ && state.captured) return;
      stack.push_back({node, &state, 0});
    };
    for (const auto& root : roots_) {
      enter(root.get());
      while (!stack.empty()) {
        Visit& at = stack.back();
        if (at.edge > 0) at.state->runs |= leads_on(at.node->next[at.edge - 1].node.get());
        while (at.edge < at.node->next.size() && !at.node->next[at.edge].node) ++at.edge;
        if (at.edge == at.node->next.size()) {
          stack.pop_back();
          continue;
        }
        Node* const next = at.node->next[at.edge++].node.get();
        State& state = states_[next];
        state.shared = ++state.waiting > 1;
        enter(next);
      }
    }
  }

  /// Whether a gradient that flows to `node` is asked for by somebody.
  bool leads_on(const Node* node) const {
    const auto at = states_.find(const_cast<Node*>(node));
    return at != states_.end() && (at->second.runs || at->second.captured || at->second.target);
  }

  void enqueue(const std::shared_ptr<Node>& node, State& state) {
    if (!std::exchange(state.queued, true)) ready_.push(Ready{node});
  }

  /// Products that are small next to what they come to wait for the others, if a sum is made of them.
  void receive(const Edge& edge, RowProduct product) {
    State& state = states_[edge.node.get()];
    const bool waits = edge.output == 0 && product.is_small() && (state.shared || passes_on(*edge.node, state));
    if (waits) {
      state.products.push_back(std::move(product));
    } else {
      const lazy::NoAutocast plain;
      receive(edge, product.tensor());
    }
  }

  /// Whether the node only exchanges the axes of a matrix, so that a product goes through it as it is.
  static bool passes_on(const Node& node, const State& state) {
    const bool moves = node.op == ir::Op::kTranspose || node.op == ir::Op::kPermute;
    if (!moves || node.leaf.defined() || node.custom() || node.hooks()) return false;
    if (!state.runs || state.captured || state.target || node.outputs[0]->shape.size() != 2) return false;
    const int64_t first = normalize_axis(node.attrs[node.attrs.size() - 2], 2);
    return node.op == ir::Op::kPermute ? first == 1 : first != normalize_axis(node.attrs.back(), 2);
  }

  /// Adds up the products that waited.
  void add_products(State& state) {
    if (state.products.empty()) return;
    const lazy::NoAutocast plain;
    if (state.grads.empty()) state.grads.resize(1);
    Tensor& slot = state.grads[0];
    const Tensor sum = sum_of(state.products);
    slot = slot.defined() ? add_gradients(slot, sum) : sum;
    state.products.clear();
  }

  void receive(const Edge& edge, Tensor grad) {
    if (!grad.defined()) return;
    auto& slots = states_[edge.node.get()].grads;
    if (slots.size() <= edge.output) slots.resize(edge.output + 1);
    Tensor& slot = slots[edge.output];
    slot = slot.defined() ? add_gradients(slot, grad) : std::move(grad);
  }

  void run(const std::shared_ptr<Node>& node) {
    State& state = states_[node.get()];
    products_.assign(anomaly_mode() ? 0 : node->next.size(), {});  // where each gradient is looked at, none waits
    if (!products_.empty() && state.grads.empty() && state.products.size() == 1 && passes_on(*node, state)) {
      products_[0] = std::exchange(state.products, {})[0].transposed();
    }
    add_products(state);
    std::vector<Tensor> grads = std::move(state.grads);
    grads.resize(node->outputs.size());
    if (!state.runs && (state.captured || state.target)) run_tensor_hooks(*node, grads, create_);
    if (state.captured) state.kept = grads;
    std::vector<Tensor> results(node->next.size());
    if (state.runs) {
      if (anomaly_mode()) [[unlikely]] {
        run_watched(node, grads, results);
      } else {
        compute(node, grads, results);
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const Edge& e = node->next[i];
      if (!e.node) continue;
      if (i < products_.size() && products_[i].defined()) receive(e, std::exchange(products_[i], {}));
      receive(e, std::move(results[i]));
      State& next = states_[e.node.get()];
      if (--next.waiting == 0) enqueue(e.node, next);
    }
  }

  void run_watched(const std::shared_ptr<Node>& node, std::vector<Tensor>& grads, std::vector<Tensor>& results) {
    const RunningNode running(&node);
    try {
      compute(node, grads, results);
      // In vmap no element can be read.
      if (anomaly_checks_nan() && !node->leaf.defined() && lazy::batch_depth() == 0) check_for_nan(*node, results);
    } catch (const std::exception&) {
      report_anomaly(*node);
      throw;
    }
  }

  /// Gradients of a node's inputs, hooks and all.
  void compute(const std::shared_ptr<Node>& node, std::vector<Tensor>& grads, std::vector<Tensor>& results) {
    run_tensor_hooks(*node, grads, create_);
    if (node->hooks()) {
      const auto hooks = node->hooks()->before;
      for (const auto& h : hooks) {
        auto changed = h.call(grads);
        if (!changed.empty()) grads = std::move(changed);
      }
    }
    if (node->leaf.defined()) {
      if (grads[0].defined() && node->leaf.requires_grad()) accumulate(node->leaf, grads[0]);
      finish_leaf(*node, grads);
      return;
    }
    apply(node, grads, results);
    if (!node->hooks()) return;
    const auto hooks = node->hooks()->after;
    for (const auto& h : hooks) {
      auto changed = h.call(results, grads);
      if (!changed.empty()) results = std::move(changed);
    }
    if (!hooks.empty()) validate(*node, results);
  }

  void apply(const std::shared_ptr<Node>& node, std::vector<Tensor>& grads, std::vector<Tensor>& results) {
    const bool custom = node->custom() != nullptr;
    bool any = custom;  // which is given zeros for what is undefined
    for (const Tensor& g : grads) any |= g.defined();
    if (!any) return;
    if (!custom) refuse_sparse(*node, grads);
    const size_t n = node->next.size();
    const auto needed = std::make_unique<bool[]>(n);
    for (size_t i = 0; i < n; ++i) needed[i] = node->next[i].node && (!partial_ || leads_on(node->next[i].node.get()));
    if (custom || ir::is_user_op(node->op)) {  // what users wrote sees the state of who calls backward
      results = node->apply(node, grads, {needed.get(), n});
    } else {
      const lazy::NoAutocast plain;
      results = node->apply(node, grads, {needed.get(), n}, node->hooks() ? std::span<RowProduct>() : products_);
    }
    if (custom) validate(*node, results);
    if (!retain_) node->release();
  }

  /// Gradients of ops are computed of all elements.
  static void refuse_sparse(const Node& node, const std::vector<Tensor>& grads) {
    for (const Tensor& g : grads) {
      SMOLDER_CHECK(!g.defined() || !sparse_parts(g), NotImplementedError, node.name(),
                    " is not supported with a sparse gradient: a gradient is sparse where a leaf gets it");
    }
  }

  /// Brings gradients that users computed to the shapes and dtypes of the inputs, where they are meant for them.
  void validate(const Node& node, std::vector<Tensor>& results) {
    results.resize(node.next.size());
    for (size_t i = 0; i < results.size(); ++i) {
      Tensor& g = results[i];
      if (!node.next[i].node) {
        g = Tensor();
        continue;
      }
      if (!g.defined() || !node.inputs[i]) continue;
      const ir::Meta& wanted = *node.inputs[i];
      const auto parts = sparse_parts(g);
      const Dims& shape = parts ? parts->shape : g.shape();
      SMOLDER_CHECK(parts ? shape == wanted.shape : broadcasts_to(wanted.shape, shape), RuntimeError, "Function ",
                    node.name(), " returned an invalid gradient at index ", i, " - got ", shape,
                    " but expected shape compatible with ", wanted.shape);
      if (parts) continue;
      if (!(g.shape() == wanted.shape)) g = sum_to_size(g, wanted.shape);
      g = g.to(wanted.dtype);
    }
  }

  static void finish_leaf(const Node& node, const std::vector<Tensor>& grads) {
    if (!node.hooks()) return;
    const auto after = node.hooks()->after;
    for (const auto& h : after) h.call({}, grads);
    const auto accumulated = node.hooks()->accumulated;
    for (const auto& h : accumulated) h.call(node.leaf);
  }

  void accumulate(const Tensor& leaf, const Tensor& grad) {
    const Tensor before = leaf.grad();
    Tensor& variable = const_cast<Tensor&>(leaf);
    if (!before.defined()) {
      const Tensor own = own_handle(grad, create_);
      lazy::lay_out_gradient(own, leaf);
      variable.set_grad(own);
    } else if (create_ || sparse_parts(before)) {
      variable.set_grad(add_gradients(before, grad));
    } else {
      SMOLDER_CHECK(sparse_parts(grad) || broadcasts_to(grad.shape(), before.shape()), RuntimeError,
                    "output with shape ", before.shape(), " doesn't match the broadcast shape ", grad.shape(),
                    ": the gradient is added to the .grad of a tensor that had another shape");
      lazy::assign(before, add_gradients(before, grad).to(before.dtype()));
    }
  }

  static uint64_t next_id() {
    static std::atomic<uint64_t> counter{0};
    return ++counter;
  }

  bool retain_, create_, ends_at_captured_, partial_ = false;
  uint64_t id_ = next_id();
  Run* outer_;
  std::vector<std::shared_ptr<Node>> roots_;
  std::unordered_map<Node*, State> states_;
  std::vector<RowProduct> products_;  ///< of the running node's inputs; empty where none may wait
  std::priority_queue<Ready> ready_;
};

thread_local Run* Run::t_run = nullptr;

void check_roots(const std::vector<Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    lazy::refresh(tensors[i].impl());
    SMOLDER_CHECK(tensors[i].requires_grad(), RuntimeError, "element ", i,
                  " of tensors does not require grad and does not have a grad_fn");
  }
}

void add_roots(Run& run, const std::vector<Tensor>& tensors, const std::vector<Tensor>& grads) {
  SMOLDER_CHECK(grads.empty() || grads.size() == tensors.size(), RuntimeError, "got ", tensors.size(), " tensors and ",
                grads.size(), " gradients");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    Tensor g = grads.empty() ? Tensor() : grads[i];
    if (!g.defined()) {
      SMOLDER_CHECK(t.numel() == 1, RuntimeError,
                    "grad can be implicitly created only for scalar outputs; the output has shape ", t.shape());
      SMOLDER_CHECK(!is_complex(t.dtype()), RuntimeError,
                    "grad can be implicitly created only for real scalar outputs but got ", name(t.dtype()));
      const lazy::DeviceMode on(t.device());
      g = full(t.shape(), Scalar(1.0), t.dtype());
    }
    SMOLDER_CHECK(g.shape() == t.shape(), RuntimeError, "Mismatch in shape: grad_output[", i, "] has a shape of ",
                  g.shape(), " and output[", i, "] has a shape of ", t.shape(), ".");
    run.add_root(gradient_edge(t), g);
  }
}

}  // namespace

void backward(const std::vector<Tensor>& tensors, const std::vector<Tensor>& grad_tensors, bool retain_graph,
              bool create_graph, const std::vector<Tensor>& inputs) {
  SMOLDER_CHECK(!lazy::BranchTape::current(), RuntimeError,
                "backward() in a function of control flow would leave gradients in tensors outside of it: use "
                "autograd.grad, and return what it gives");
  SMOLDER_CHECK(lazy::batch_depth() == 0, RuntimeError,
                "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
                "functorch.vjp instead or call backward() outside of functorch transforms.");
  check_roots(tensors);
  Run run(retain_graph || create_graph, create_graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    lazy::refresh(t.impl());
    SMOLDER_CHECK(t.requires_grad(), RuntimeError, "One of the differentiated Tensors does not require grad");
    if (!t.is_leaf()) retain_grad(t);
    run.accumulate_into(gradient_edge(t));
  }
  {
    const lazy::GradMode mode(create_graph);
    add_roots(run, tensors, grad_tensors);
  }
  run.execute();
}

uint64_t current_backward() { return Run::t_run ? Run::t_run->id() : 0; }

bool backward_is_partial() { return Run::t_run && Run::t_run->partial(); }

bool backward_reaches(const Tensor& t) { return Run::t_run && Run::t_run->reaches(gradient_edge(t)); }

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs, bool retain_graph, bool create_graph,
                         bool allow_unused, bool ends_at_inputs) {
  check_roots(outputs);
  if (inputs.empty()) return {};  // a run that nothing is asked of would leave gradients in all leaves
  Run run(retain_graph || create_graph, create_graph, ends_at_inputs);
  std::vector<Edge> edges;
  for (const Tensor& t : inputs) {
    lazy::refresh(t.impl());
    SMOLDER_CHECK(t.requires_grad(), RuntimeError, "One of the differentiated Tensors does not require grad");
    edges.push_back(gradient_edge(t));
    run.capture(edges.back());
  }
  {
    const lazy::GradMode mode(create_graph);
    add_roots(run, outputs, grad_outputs);
  }
  run.execute();
  std::vector<Tensor> results;
  for (const Edge& e : edges) {
    results.push_back(run.captured(e));
    SMOLDER_CHECK(
        allow_unused || results.back().defined(), RuntimeError,
        "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if "
        "this is the desired behavior.");
  }
  return results;
}

}  // namespace smolder::autograd
