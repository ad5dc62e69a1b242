#include "smolder/autograd/node.h"

#include <algorithm>
#include <atomic>
#include <cctype>

#include "smolder/lazy/record.h"
#include "smolder/lazy/view.h"

namespace smolder::autograd {
namespace {

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

Node::~Node() {
  // Ancestors that only this node holds would be destroyed recursively; move them to a list instead.
  // Packed values, functions and hooks may hold nodes, too.
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
    {"fft_c2c", "FftC2CBackward0"},
    {"fft_c2r", "FftC2RBackward0"},
    {"fft_r2c", "FftR2CBackward0"},
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

}  // namespace smolder::autograd
