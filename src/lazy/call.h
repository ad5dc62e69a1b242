// Calls of ops by number, their arguments known at run time only: how ops that users register are called.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "smolder/ir/user_op.h"
#include "smolder/lazy/record.h"

namespace smolder::lazy {

/// Operands of the signature, each an absent optional, a tensor, a list of them or a number.
using OperandValue = std::variant<std::monostate, Tensor, std::vector<Tensor>, Scalar>;

/// Records the op, writes what it writes in place, and returns its results. Throws TypeError when operands are not what
/// the signature says, NotImplementedError when nothing can run the op on the CPU, and what record throws.
std::vector<Tensor> call_op(ir::Op op, std::span<const OperandValue> operands, std::span<const int64_t> words);

/// An argument of a call as a C++ program writes it.
class CallArgument {
 public:
  CallArgument(const Tensor& t) : operand(t.defined() ? OperandValue(t) : OperandValue()) {}
  CallArgument(std::vector<Tensor> list) : operand(std::move(list)) {}
  CallArgument(Scalar s) : operand(s), attribute(of(s)) {}
  CallArgument(double v) : CallArgument(Scalar(v)) {}
  CallArgument(int64_t v) : CallArgument(Scalar(v)) {}
  CallArgument(int v) : CallArgument(Scalar(int64_t{v})) {}
  CallArgument(bool v) : CallArgument(Scalar(v)) {}
  CallArgument(DType t) : attribute(t) {}
  CallArgument(const char* text) : attribute(std::string(text)) {}
  CallArgument(const Dims& d) : attribute(std::vector<int64_t>(d.begin(), d.end())) {}
  CallArgument(std::nullopt_t) {}

  OperandValue operand;
  ir::AttrValue attribute;

 private:
  static ir::AttrValue of(Scalar s) {
    if (s.category() == Category::kBool) return s.to_bool();
    if (s.category() == Category::kInt) return s.to_int();
    return s.to_double();
  }
};

}  // namespace smolder::lazy

namespace smolder {

/// An op to call by name. Arguments are given in order; those left out take their defaults.
class OpHandle {
 public:
  /// Throws ValueError when there is no op of that name.
  explicit OpHandle(std::string_view name) : op_(ir::find_op(name)) {}
  explicit OpHandle(ir::Op op) : op_(op) {}

  ir::Op op() const { return op_; }
  std::vector<Tensor> call(std::span<const lazy::CallArgument> arguments) const;
  std::vector<Tensor> call(std::initializer_list<lazy::CallArgument> arguments) const {
    return call(std::span(arguments.begin(), arguments.size()));
  }
  /// The same for an op of one result.
  template <class... T>
  Tensor operator()(const T&... arguments) const {
    std::vector<Tensor> out = call({lazy::CallArgument(arguments)...});
    SMOLDER_CHECK(out.size() == 1, RuntimeError, ir::name(op_), " has ", out.size(), " results: use call()");
    return std::move(out[0]);
  }

 private:
  ir::Op op_;
};

}  // namespace smolder
