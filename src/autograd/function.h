// Functions that users write, with a gradient that users write: as torch's autograd.Function.
#pragma once

#include <any>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include "smolder/autograd/node.h"
#include "smolder/lazy/record.h"

namespace smolder::autograd {

/// The context that forward leaves for backward, with what it says about its results. Used by one thread at a time.
class FunctionContext {
 public:
  /// Tensors that backward wants; called at most once, by forward.
  void save_for_backward(std::vector<Tensor> tensors) { to_save_ = std::move(tensors); }
  /// The saved tensors, with their history. Throws RuntimeError when it was freed by an earlier backward.
  std::vector<Tensor> saved_tensors() const;
  /// Says that these inputs were written in place; each must be a result.
  void mark_dirty(std::vector<Tensor> inputs) { dirty_ = std::move(inputs); }
  /// Says that these results have no gradient.
  void mark_non_differentiable(std::vector<Tensor> outputs) { non_differentiable_ = std::move(outputs); }
  /// Whether backward gets zeros instead of undefined gradients: it does unless this says otherwise.
  void set_materialize_grads(bool on) { materialize_ = on; }
  bool needs_input_grad(size_t i) const { return i < needs_.size() && needs_[i]; }
  /// Anything else to keep.
  std::unordered_map<std::string, std::any> saved_data;

  // -- for those who run functions

  /// Before forward: which arguments (undefined where no tensor) are to have gradients.
  void begin(std::vector<Tensor> inputs);
  /// After forward: makes results of a call what their history says, and keeps what is to be saved. Undefined results
  /// are results that are no tensors. `function` computes the gradient; `outputs` may be replaced by other handles.
  void finish(const std::string& name, std::shared_ptr<CustomFunction> function, std::vector<Tensor>& outputs);
  /// Gradients of results as backward is to see them.
  std::vector<Tensor> materialized(std::vector<Tensor> grads) const;
  /// The gradients of the arguments that are tensors, among those that backward returned, one an argument.
  std::vector<Tensor> of_tensors(const std::string& name, std::vector<Tensor> grads) const;
  size_t num_arguments() const { return needs_.size(); }
  void release();
  std::shared_ptr<Node> node() const { return node_.lock(); }

 private:
  Tensor with_history(const std::string& name, const Tensor& output, uint32_t number,
                      const std::shared_ptr<Node>& node);

  std::vector<Tensor> inputs_, to_save_, dirty_, non_differentiable_;
  std::vector<bool> needs_, is_tensor_;  ///< by argument
  std::vector<SavedTensor> saved_;
  std::weak_ptr<Node> node_;  ///< which owns this
  bool materialize_ = true, released_ = false;
};

/// Derive from Function<Self> and write
///   static Tensor forward(FunctionContext&, args...)         or a vector of tensors
///   static std::vector<Tensor> backward(FunctionContext&, std::vector<Tensor> grads)
/// where backward returns one gradient for each argument of forward (for each tensor of a vector of them), undefined
/// for those that are no tensors or need none. Then Self::apply(args...) calls forward, and its result has the
/// gradient. backward may itself be differentiated when it is made of ops.
template <class Self>
class Function {
 public:
  template <class... Args>
  static auto apply(const Args&... args) {
    const auto self = std::make_shared<Call>();
    std::vector<Tensor> inputs;
    (add_tensors(inputs, args), ...);
    self->context.begin(std::move(inputs));
    const auto result = [&] {
      const lazy::GradMode none(false);
      return Self::forward(self->context, args...);
    }();
    if constexpr (std::is_same_v<std::decay_t<decltype(result)>, Tensor>) {
      std::vector<Tensor> outputs{result};
      self->context.finish(name(), self, outputs);
      return outputs[0];
    } else {
      std::vector<Tensor> outputs = result;
      self->context.finish(name(), self, outputs);
      return outputs;
    }
  }

 private:
  struct Call : CustomFunction {
    FunctionContext context;
    std::string name() const override { return Function::name() + "Backward"; }
    std::vector<Tensor> backward(std::vector<Tensor> grads) override {
      return context.of_tensors(name(), Self::backward(context, context.materialized(std::move(grads))));
    }
    void release() override { context.release(); }
  };
  template <class T>
  static void add_tensors(std::vector<Tensor>& inputs, const T& argument) {
    if constexpr (std::is_same_v<T, Tensor>) {
      inputs.push_back(argument);
    } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
      inputs.insert(inputs.end(), argument.begin(), argument.end());
    } else {
      inputs.emplace_back();
    }
  }
  static std::string name();
};

/// A type's name as its author wrote it, without namespaces.
std::string short_name(const std::type_info& type);

template <class Self>
std::string Function<Self>::name() {
  return short_name(typeid(Self));
}

}  // namespace smolder::autograd
