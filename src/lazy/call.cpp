#include "smolder/lazy/call.h"

#include <algorithm>

#include "smolder/eager/dispatcher.h"
#include "smolder/lazy/autocast.h"

namespace smolder {
namespace lazy {
namespace {

/// Throws where nothing would run the op when its step does.
void check_runnable(ir::Op op, std::span<const Operand> operands) {
  const auto tensor = std::ranges::find(operands, Operand::kTensor, &Operand::kind);
  const Device where = tensor == operands.end() ? creation_device() : tensor->impl()->value->device;
  const eager::DispatchKey key = eager::dispatch_key(where);
  if (ir::info(op).decompose || eager::find_kernel(key, op) || eager::resolve(key, op) != op) return;
  raise<NotImplementedError>("Could not run '", ir::name(op), "' with arguments from the '", eager::name(key),
                             "' backend: it has neither a kernel for it nor a decomposition");
}

/// Appends an operand, or those of a list, as the op is given them.
void append(const ir::OpInfo& row, const ir::OperandInfo& info, const OperandValue& value, std::vector<Operand>& out) {
  using Kind = ir::OperandInfo;
  if (const auto* const list = std::get_if<std::vector<Tensor>>(&value); list && info.kind == Kind::kTensorList) {
    for (const Tensor& t : *list) out.emplace_back(t);
  } else if (const auto* const number = std::get_if<Scalar>(&value);
             number && (info.kind == Kind::kNumber || info.kind == Kind::kTensorOrNumber)) {
    out.emplace_back(*number);
  } else if (const auto* const t = std::get_if<Tensor>(&value);
             t && info.kind != Kind::kTensorList && info.kind != Kind::kNumber) {
    out.emplace_back(*t);
  } else {
    SMOLDER_CHECK(std::holds_alternative<std::monostate>(value) && info.kind == Kind::kOptionalTensor, TypeError,
                  row.name, "(): argument '", info.name, "' is none that ", row.signature, " takes");
    out.push_back(Operand::none());
  }
}

}  // namespace

std::vector<Tensor> call_op(ir::Op op, std::span<const OperandValue> operands, std::span<const int64_t> words) {
  const ir::OpInfo& row = ir::info(op);
  SMOLDER_CHECK(operands.size() == row.operands.size(), TypeError, row.name, " takes ", row.operands.size(),
                " tensors and numbers, got ", operands.size());
  std::vector<Operand> flat;
  for (size_t i = 0; i < operands.size(); ++i) append(row, row.operands[i], operands[i], flat);
  check_runnable(op, flat);
  AutocastCall call(autocasting() ? cast_rules(row.name) : CastRules());
  for (const Operand& o : flat) call.see(o);
  if (call.applies()) {
    for (Operand& o : flat) o = call.cast(o);
  }
  std::vector<Tensor> out(row.num_outputs);
  record(op, flat, words, out.data());
  if (!ir::is_user_op(op)) return out;
  const ir::Schema& schema = ir::user_op(op).schema;
  size_t next = schema.num_returns;
  for (const ir::SchemaArgument& a : schema.arguments) {
    if (!a.mutated) continue;
    if (const auto* const t = std::get_if<Tensor>(&operands[a.position])) {
      Tensor self = *t;
      write_inplace(row.name, self, out[next]);
    }
    ++next;
  }
  out.resize(schema.num_returns);
  return out;
}

}  // namespace lazy

std::vector<Tensor> OpHandle::call(std::span<const lazy::CallArgument> arguments) const {
  const ir::Schema schema = ir::schema_of(op_);
  SMOLDER_CHECK(arguments.size() <= schema.arguments.size(), TypeError, schema.name, " takes ", schema.arguments.size(),
                " arguments, got ", arguments.size());
  std::vector<lazy::OperandValue> operands;
  std::vector<int64_t> words;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    const ir::SchemaArgument& a = schema.arguments[i];
    const bool given = i < arguments.size();
    if (!a.is_operand()) {
      ir::append_words(a, given ? arguments[i].attribute : ir::default_value(a), words);
    } else if (given) {
      operands.push_back(arguments[i].operand);
      if (auto* const n = std::get_if<Scalar>(&operands.back()); n && a.type == "float") *n = n->to_double();
    } else {
      const ir::AttrValue v = ir::default_value(a);
      if (const auto* b = std::get_if<bool>(&v)) {
        operands.emplace_back(Scalar(*b));
      } else if (const auto* n = std::get_if<int64_t>(&v)) {
        operands.emplace_back(Scalar(*n));
      } else if (const auto* d = std::get_if<double>(&v)) {
        operands.emplace_back(Scalar(*d));
      } else {
        operands.emplace_back();
      }
    }
  }
  return lazy::call_op(op_, operands, words);
}

}  // namespace smolder
