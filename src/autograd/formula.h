// Gradient formulas as the engine sees them. The table is generated from the `grad` fields of the op table.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "smolder/autograd/row_products.h"
#include "smolder/ir/op.h"
#include "smolder/lazy/tensor.h"

namespace smolder::autograd {

/// The facts that a formula may ask of an input without its value.
class InputInfo {
 public:
  explicit InputInfo(const ir::Meta* meta) : meta_(meta) {}
  /// False for an optional input that was absent.
  bool defined() const { return meta_ != nullptr; }
  const Dims& shape() const { return meta_->shape; }
  DType dtype() const { return meta_->dtype; }
  int dim() const { return shape().size(); }
  int64_t size(int64_t axis) const { return shape()[normalize_axis(axis, dim())]; }
  int64_t numel() const { return smolder::numel(shape()); }

 private:
  const ir::Meta* meta_;
};

/// One call of a formula: what the engine gives and gets. Inputs are numbered as the call's operands were,
/// lists flattened. The engine fills the spans; formulas use the functions.
struct FormulaContext {
  std::span<const ir::Meta* const> metas;  ///< of each input; null where absent
  std::span<const Tensor> inputs;          ///< defined where saved
  std::span<const Scalar> numbers;         ///< read only where the input is a number (`metas` is weak)
  std::span<const Tensor> outputs;         ///< defined where saved
  std::span<const int64_t> attrs;          ///< words of the call
  std::span<const Tensor> grads;           ///< of each output; undefined means zero
  std::span<const bool> needed;            ///< of each input: whether its gradient is wanted
  std::span<Tensor> results;               ///< of each input; stays undefined where the gradient is zero
  std::span<RowProduct> products;          ///< of each input, for products not to be computed yet; or empty

  int num_inputs() const { return static_cast<int>(metas.size()); }
  const Tensor& input(int i) const { return inputs[i]; }
  const Tensor& output(int i) const { return outputs[i]; }
  bool has_number(int i) const { return metas[i] && metas[i]->weak; }
  Scalar number(int i) const { return numbers[i]; }
  InputInfo input_info(int i) const { return InputInfo(metas[i]); }
  const Dims& input_shape(int i) const { return metas[i]->shape; }
  DType input_dtype(int i) const { return metas[i]->dtype; }
  const Tensor& grad(int i) const { return grads[i]; }
  bool needs(int i) const { return needed[i]; }
  /// Stores a gradient, summed to the input's shape and cast to its dtype where they differ.
  void set(int i, Tensor g);
  /// Stores a gradient that is of the input's shape and dtype, among the products if it may wait.
  void set(int i, const MatrixGradient& g);
  /// Calls `f` with the input as a Tensor or as a Scalar.
  void visit(int i, auto&& f) const {
    if (has_number(i)) {
      f(number(i));
    } else {
      f(input(i));
    }
  }
};

/// The values that must be kept of a call: a bit per operand of the signature (a list is one operand, the last), a bit
/// per output.
struct Saves {
  uint32_t inputs = 0, outputs = 0;
};

/// How an op is differentiated.
struct GradInfo {
  uint32_t differentiable_inputs;  ///< a bit per operand of the signature
  std::span<const Saves> saves;    ///< per operand: what its gradient needs
  /// Sets the gradient of every input that needs one. Runs ops, which are recorded and are themselves
  /// differentiable when grad mode is on.
  ir::RowFunction<void(FormulaContext&)> formula;

  /// The values that the gradients of the operands in `needed` need together.
  Saves saves_for(uint32_t needed) const {
    Saves all;
    for (size_t i = 0; i < saves.size(); ++i) {
      if (!(needed >> i & 1)) continue;
      all.inputs |= saves[i].inputs;
      all.outputs |= saves[i].outputs;
    }
    return all;
  }
};

/// Null for ops that have no gradient.
const GradInfo* grad_info(ir::Op op);

/// How an op that a user registered is differentiated. `saves` names the operands and the numbers of the results that
/// `formula` reads; of others it has the metadata. Throws RuntimeError when the op has a gradient already.
struct UserGradient {
  std::vector<std::string> saves;
  std::vector<int> saves_results;
  std::function<void(FormulaContext&)> formula;
};
void register_gradient(ir::Op op, UserGradient gradient);
/// One that raises, saying that there is none, where none is registered.
const GradInfo* user_grad_info(ir::Op op);

}  // namespace smolder::autograd
