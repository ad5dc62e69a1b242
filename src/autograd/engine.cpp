#include "smolder/autograd/engine.h"

#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "smolder/autograd/node.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"
#include "smolder/lazy/view.h"

namespace smolder::autograd {
namespace {

/// One run over the graph. Nodes run latest first once every gradient that flows into them is there, so
/// the order is that of recording reversed, whatever the shape of the graph.
class Run {
 public:
  Run(bool retain, bool create, bool accumulate) : retain_(retain), create_(create), accumulate_(accumulate) {}

  void add_root(const Edge& edge, Tensor grad) {
    roots_.push_back(edge.node);
    receive(edge, std::move(grad));
  }
  /// Gradients that arrive at `edge` are kept instead of accumulated.
  void capture(const Edge& edge) { captured_[edge.node.get()]; }
  Tensor captured(const Edge& edge) {
    auto& grads = captured_[edge.node.get()];
    return edge.output < grads.size() ? grads[edge.output] : Tensor();
  }

  void execute() {
    const lazy::GradMode mode(create_);
    count();
    for (const auto& root : roots_) {
      if (waiting_[root.get()] == 0) enqueue(root);
    }
    while (!ready_.empty()) {
      const std::shared_ptr<Node> node = ready_.top().node;
      ready_.pop();
      std::vector<Tensor> grads = std::move(received_[node.get()]);
      grads.resize(node->outputs.size());
      if (const auto wanted = captured_.find(node.get()); wanted != captured_.end()) wanted->second = grads;
      step(node, grads);
    }
  }

 private:
  struct Ready {
    std::shared_ptr<Node> node;
    bool operator<(const Ready& o) const { return node->sequence < o.node->sequence; }
  };

  /// Counts, for each node that the roots reach, the edges into it; notes which lead to a captured one.
  void count() {
    std::vector<Node*> stack;
    std::unordered_set<Node*> seen;
    for (const auto& root : roots_) {
      if (seen.insert(root.get()).second) stack.push_back(root.get());
    }
    while (!stack.empty()) {
      Node* const node = stack.back();
      stack.pop_back();
      for (const Edge& e : node->next) {
        if (!e.node) continue;
        ++waiting_[e.node.get()];
        if (seen.insert(e.node.get()).second) stack.push_back(e.node.get());
      }
    }
  }

  void enqueue(const std::shared_ptr<Node>& node) {
    if (queued_.insert(node.get()).second) ready_.push(Ready{node});
  }

  void receive(const Edge& edge, Tensor grad) {
    if (!grad.defined()) return;
    auto& slots = received_[edge.node.get()];
    if (slots.size() <= edge.output) slots.resize(edge.output + 1);
    Tensor& slot = slots[edge.output];
    slot = slot.defined() ? slot + grad : std::move(grad);
  }

  void step(const std::shared_ptr<Node>& node, std::vector<Tensor>& grads) {
    if (node->leaf.defined()) {
      if (accumulate_ && grads[0].defined()) accumulate(node->leaf, grads[0]);
      return;
    }
    bool any = false;
    for (const Tensor& g : grads) any |= g.defined();
    std::vector<Tensor> results(node->next.size());
    if (any) {
      results = node->apply(node, grads);
      if (!retain_) node->release();
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const Edge& e = node->next[i];
      if (!e.node) continue;
      receive(e, std::move(results[i]));
      if (--waiting_[e.node.get()] == 0) enqueue(e.node);
    }
  }

  void accumulate(const Tensor& leaf, const Tensor& grad) {
    const Tensor before = leaf.grad();
    Tensor& variable = const_cast<Tensor&>(leaf);
    if (!before.defined()) {
      // A handle of its own: leaves may get the same value, and their gradients are written in place.
      lazy::refresh(grad.impl());
      variable.set_grad(unpack({grad.impl()->value, create_ ? gradient_edge(grad) : Edge{}}, nullptr));
    } else if (create_) {
      variable.set_grad(before + grad);
    } else {
      lazy::assign(before, before + grad);
    }
  }

  bool retain_, create_, accumulate_;
  std::vector<std::shared_ptr<Node>> roots_;
  std::unordered_map<Node*, std::vector<Tensor>> received_, captured_;
  std::unordered_map<Node*, int> waiting_;
  std::unordered_set<Node*> queued_;
  std::priority_queue<Ready> ready_;
};

void add_roots(Run& run, const std::vector<Tensor>& tensors, const std::vector<Tensor>& grads) {
  SMOLDER_CHECK(grads.empty() || grads.size() == tensors.size(), RuntimeError, "got ", tensors.size(), " tensors and ",
                grads.size(), " gradients");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    lazy::refresh(t.impl());
    SMOLDER_CHECK(t.requires_grad(), RuntimeError, "element ", i,
                  " of tensors does not require grad and does not have a grad_fn");
    Tensor g = grads.empty() ? Tensor() : grads[i];
    if (!g.defined()) {
      SMOLDER_CHECK(t.numel() == 1, RuntimeError,
                    "grad can be implicitly created only for scalar outputs; the output has shape ", t.shape());
      g = full(t.shape(), Scalar(1.0), t.dtype());
    }
    SMOLDER_CHECK(g.shape() == t.shape(), RuntimeError, "Mismatch in shape: grad_output[", i, "] has a shape of ",
                  g.shape(), " and output[", i, "] has a shape of ", t.shape(), ".");
    run.add_root(gradient_edge(t), g);
  }
}

}  // namespace

void backward(const std::vector<Tensor>& tensors, const std::vector<Tensor>& grad_tensors, bool retain_graph,
              bool create_graph) {
  Run run(retain_graph || create_graph, create_graph, true);
  {
    const lazy::GradMode mode(create_graph);
    add_roots(run, tensors, grad_tensors);
  }
  run.execute();
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs, bool retain_graph, bool create_graph,
                         bool allow_unused) {
  Run run(retain_graph || create_graph, create_graph, false);
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
