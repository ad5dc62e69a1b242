#include "smolder/autograd/node.h"

#include <algorithm>
#include <atomic>
#include <cctype>

#include "smolder/autograd/anomaly.h"
#include "smolder/autograd/saved.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/view.h"

namespace smolder::autograd {
namespace {

uint64_t next_sequence() {
  static std::atomic<uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

/// Signature operand of flattened input `i`: a list is the last operand and takes all that remain.
uint32_t operand_bit(const ir::OpInfo& row, size_t i) { return 1u << std::min(i, row.operands.size() - 1); }

/// Records the history of a call; called by lazy::record.
void on_record(ir::Op op, std::span<const lazy::Operand> operands, std::span<const int64_t> attrs, Tensor* outputs) {
  const GradInfo* const grad = grad_info(op);
  const ir::OpInfo& row = ir::info(op);
  if (!grad) return;
  uint32_t needed = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].kind() == lazy::Operand::kTensor && operands[i].impl()->requires_grad) {
      needed |= operand_bit(row, i) & grad->differentiable_inputs;
    }
  }
  if (!needed) return;
  auto node = std::make_shared<Node>(op, next_sequence());
  node->called = lazy::HistoryName::current();
  const Saves saves = grad->saves_for(needed);
  const size_t n = operands.size();
  node->next.resize(n);
  node->inputs.resize(n);
  node->numbers.assign(n, Scalar(false));
  node->saved_inputs.resize(n);
  node->attrs.assign(attrs.begin(), attrs.end());
  for (size_t i = 0; i < n; ++i) {
    const lazy::Operand& o = operands[i];
    node->inputs[i] = o.meta();
    if (o.kind() == lazy::Operand::kNumber) {
      node->numbers[i] = o.number();
    } else if (o.kind() == lazy::Operand::kTensor) {
      const Tensor t(o.impl());
      const Edge edge = gradient_edge(t);
      const uint32_t bit = operand_bit(row, i);
      if (bit & grad->differentiable_inputs) node->next[i] = edge;
      if (bit & saves.inputs) node->saved_inputs[i] = save(o.impl(), edge);
    }
  }
  if (anomaly_mode()) [[unlikely]]
    note_anomaly(*node);
  node->saved_outputs.resize(row.num_outputs);
  for (uint32_t i = 0; i < row.num_outputs; ++i) {
    lazy::TensorImpl* const impl = outputs[i].impl();
    node->outputs.push_back(impl->value->meta);
    if (saves.outputs >> i & 1) node->saved_outputs[i] = save(impl, {}, static_cast<int>(i));
    if (!is_floating(outputs[i].dtype())) continue;
    impl->requires_grad = true;
    meta_of(impl).grad_fn = {node, i};
  }
}

/// An in-place write replaced the value of `impl` by that of `from`.
void on_rebase(lazy::TensorImpl* impl, lazy::TensorImpl* from) {
  if (!lazy::grad_enabled()) return;
  impl->requires_grad = from->requires_grad;
  if (!from->requires_grad && !impl->autograd) return;
  TensorMeta& meta = meta_of(impl);
  const Edge before = std::exchange(meta.grad_fn, from->autograd ? meta_of(from).grad_fn : Edge{});
  if (meta.retained) [[unlikely]]
    move_retained(meta, before);
}

/// Why a view must not be written in place, in torch's words.
void refuse_write(const lazy::TensorImpl* view) {
  const auto* const meta = static_cast<const TensorMeta*>(view->autograd.get());
  const std::shared_ptr<Node> node = meta ? meta->grad_fn.node : nullptr;
  const std::string of = node ? "Output " + std::to_string(view->steps->number) + " of " +
                                    node->name().substr(0, node->name().rfind("Backward")) + " is a view"
                              : "";
  const bool several = view->origin == lazy::ViewOrigin::kOneOfSeveral;
  const std::string mode = view->origin == lazy::ViewOrigin::kInference ? "inference" : "no_grad";
  std::string why;
  if (node && several) {
    why = of + " and is being modified inplace.";
  } else {
    why = (node ? of + " of a view which was created in " : "A view was created in ") + mode +
          " mode and is being modified inplace " +
          (mode == "inference" ? "in normal mode." : "with grad mode enabled.");
  }
  if (several) {
    raise<RuntimeError>(why,
                        " This view is the output of a function that returns multiple views. Such functions do not "
                        "allow the output views to be modified inplace. You should replace the inplace operation by "
                        "an out-of-place one.");
  }
  raise<RuntimeError>(why,
                      " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
                      "code by moving both the view and the inplace either both inside the ",
                      mode == "inference" ? "inference_mode" : mode,
                      " block (if you don't want the inplace to be tracked) or both outside (if you want the inplace "
                      "to be tracked).");
}

[[maybe_unused]] const bool g_installed = [] {
  lazy::set_grad_hook(&on_record);
  lazy::set_rebase_hook(&on_rebase);
  lazy::set_refuse_hook(&refuse_write);
  return true;
}();

/// An accumulator has no op; this one is never looked at.
constexpr ir::Op kNoOp{};

}  // namespace

Edge gradient_edge(const Tensor& t) {
  lazy::TensorImpl* const impl = t.impl();
  if (!impl->requires_grad) return {};
  TensorMeta& meta = meta_of(impl);
  if (meta.grad_fn.node) return meta.grad_fn;
  auto accumulator = meta.accumulator.lock();
  if (!accumulator) {
    accumulator = std::make_shared<Node>(kNoOp, ~0ull);  // runs as soon as its gradient is complete
    accumulator->leaf = t;
    accumulator->outputs = {impl->value->meta};
    if (meta.leaf_hooks) accumulator->extra().hooks = meta.leaf_hooks;
    meta.accumulator = accumulator;
  }
  return {accumulator, 0};
}

TensorMeta& meta_of(lazy::TensorImpl* impl) {
  if (!impl->autograd) impl->autograd = std::make_unique<TensorMeta>();
  return static_cast<TensorMeta&>(*impl->autograd);
}

std::shared_ptr<Node> new_node(std::shared_ptr<CustomFunction> custom) {
  auto node = std::make_shared<Node>(kNoOp, next_sequence());
  node->extra().custom = std::move(custom);
  if (anomaly_mode()) note_anomaly(*node);
  return node;
}

Node::~Node() {
  // Ancestors that only this node holds would be destroyed recursively; move them to a list instead.
  // What is packed, functions and hooks may hold nodes, too.
  using Doomed = std::vector<std::shared_ptr<void>>;
  thread_local Doomed* t_doomed = nullptr;
  const auto hand_over = [&](Doomed& list) {
    for (Edge& e : next) {
      if (e.node) list.push_back(std::move(e.node));
    }
    for (auto* const saved : {&saved_inputs, &saved_outputs}) {
      for (SavedTensor& s : *saved) {
        if (s.edge.node) list.push_back(std::move(s.edge.node));
        if (s.extra) list.push_back(std::move(s.extra));
      }
    }
    if (extra_) list.push_back(std::shared_ptr<NodeExtra>(std::move(extra_)));
  };
  if (t_doomed) {
    hand_over(*t_doomed);
    return;
  }
  Doomed doomed;
  t_doomed = &doomed;
  hand_over(doomed);
  while (!doomed.empty()) {
    const std::shared_ptr<void> next_one = std::move(doomed.back());
    doomed.pop_back();
  }
  t_doomed = nullptr;
}

namespace {

/// Ops that go by another name than torch's node for them.
struct OtherName {
  std::string_view op, node;
};
constexpr OtherName kOtherNames[] = {
    {"add_scaled", "AddBackward0"},
    {"avg_pool", "AvgPool2DBackward0"},
    {"batch_norm_train", "NativeBatchNormBackward0"},
    {"clamp", "ClampBackward1"},
    {"clamp_max", "ClampBackward1"},
    {"clamp_min", "ClampBackward1"},
    {"conv_forward", "ConvolutionBackward0"},
    {"copy", "CopyBackwards"},
    {"cross_entropy", "NllLossBackward0"},
    {"index_add_rows", "IndexAddBackward0"},
    {"layer_norm", "NativeLayerNormBackward0"},
    {"log1p", "Log1PBackward0"},
    {"logsigmoid", "LogSigmoidBackward0"},
    {"max_dim", "MaxBackward0"},
    {"max_pool", "MaxPool2DWithIndicesBackward0"},
    {"min_dim", "MinBackward0"},
    {"norm", "LinalgVectorNormBackward0"},
    {"pad", "ConstantPadNdBackward0"},
    {"pow_int", "PowBackward0"},
    {"relu6", "HardtanhBackward0"},
    {"reshape", "ViewBackward0"},
    {"selu", "EluBackward0"},
    {"softplus_unit", "SoftplusBackward0"},
    {"softsign", "DivBackward0"},
    {"square", "PowBackward0"},
    {"squeeze", "SqueezeBackward1"},
    {"sub_scaled", "SubBackward0"},
    {"tanhshrink", "SubBackward0"},
    {"to", "ToCopyBackward0"},
};

/// torch's nodes of products of matrices and vectors; of more dimensions, those of the product itself.
const char* name_of_product(const Node& n) {
  const int left = n.inputs[0]->shape.size(), right = n.inputs[1]->shape.size();
  if (left > 2 || right > 2) return "BmmBackward0";
  if (left == 2) return right == 2 ? "MmBackward0" : "MvBackward0";
  return right == 2 ? "SqueezeBackward4" : "DotBackward0";
}

const char* name_of_linear(const Node& n) {
  const bool bias = n.inputs.size() > 2 && n.inputs[2];
  return n.inputs[0]->shape.size() == 2 && n.inputs[1]->shape.size() == 2 ? bias ? "AddmmBackward0" : "MmBackward0"
                                                                          : "LinearBackward0";
}

bool is_number(const Node& n, size_t i) { return n.inputs[i] && n.inputs[i]->weak; }

/// torch numbers the nodes of an op by its overloads, which differ in what the operands and attributes are.
const char* overloaded(const Node& n) {
  const std::string_view op = ir::name(n.op);
  if (op == "matmul") return name_of_product(n);
  if (op == "linear") return name_of_linear(n);
  if (op == "sum" && n.attrs[0] > 0) return "SumBackward1";
  if (op == "mean" && n.attrs[0] > 0) return "MeanBackward1";
  if (op == "prod" && n.attrs[0] > 0) return "ProdBackward1";
  if (op == "pow" && is_number(n, 0)) return "PowBackward2";
  if (op == "pow" && !is_number(n, 1)) return "PowBackward1";
  if (op == "remainder" && !is_number(n, 1)) return "RemainderBackward1";
  if (op == "lerp" && !is_number(n, 2)) return "LerpBackward1";
  if (op == "sub" && is_number(n, 0)) return "RsubBackward1";
  if (op == "div" && is_number(n, 0)) return "MulBackward0";
  return nullptr;
}

}  // namespace

std::string Node::name() const {
  if (leaf.defined()) return "AccumulateGrad";
  if (custom()) return custom()->name();
  if (called) return called;
  if (const char* const found = overloaded(*this)) return found;
  for (const OtherName& other : kOtherNames) {
    if (other.op == ir::name(op)) return std::string(other.node);
  }
  std::string out;
  bool upper = true;
  for (char c : ir::name(op)) {
    if (c == '_') {
      upper = true;
    } else {
      out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      upper = false;
    }
  }
  return out + "Backward0";
}

void Node::release() {
  if (custom()) return custom()->release();
  const auto holds = [](const SavedTensor& s) { return s.holds(); };
  released |= std::ranges::any_of(saved_inputs, holds) || std::ranges::any_of(saved_outputs, holds);
  saved_inputs.assign(saved_inputs.size(), {});
  saved_outputs.assign(saved_outputs.size(), {});
}

void refuse_released(const Node& node) {
  SMOLDER_CHECK(!node.released, RuntimeError,
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed): the saved values of ",
                node.name(),
                " were freed by the first .backward() or autograd.grad(). Specify retain_graph=True if you need to "
                "backward through the graph a second time or if you need to access saved tensors after calling "
                "backward.");
}

std::vector<Tensor> Node::apply(const std::shared_ptr<Node>& self, std::span<const Tensor> grads,
                                std::span<const bool> needed) {
  const auto given = std::ranges::find_if(grads, [](const Tensor& g) { return g.defined(); });
  const lazy::DeviceMode on(given == grads.end() ? lazy::creation_mode() : given->device());
  if (custom()) return custom()->backward({grads.begin(), grads.end()});
  refuse_released(*this);
  std::vector<Tensor> saved_in, saved_out;
  for (const SavedTensor& s : saved_inputs) saved_in.push_back(unpack(s, self));
  for (const SavedTensor& s : saved_outputs) saved_out.push_back(unpack(s, self));
  std::vector<Tensor> results(next.size());
  FormulaContext context{inputs, saved_in, numbers, saved_out, attrs, grads, needed, results};
  grad_info(op)->formula(context);
  return results;
}

}  // namespace smolder::autograd
