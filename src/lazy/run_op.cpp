#include "smolder/lazy/run_op.h"

#include <memory>
#include <string>
#include <utility>

#include "smolder/core/profile.h"
#include "smolder/eager/execute.h"

namespace smolder::lazy {
namespace {

/// Raises unless the op's row takes the operand.
void check(ir::Op op, const eager::Array& input, std::span<const int64_t> attrs) {
  const ir::Meta given = input.meta();
  const ir::Meta* const inputs[] = {&given};
  ir::Meta result;
  ir::info(op).infer({inputs, attrs}, &result);
}

}  // namespace

std::vector<eager::Array> run_op(ir::Op op, std::span<const eager::Array> inputs, std::span<const int64_t> attrs,
                                 Device device, SourceToken source) {
  SpanScope scope(SpanKind::kEager, ir::name(op), source);
  std::vector<eager::Array> results;
  if (op == ir::Op::kViewAsReal) {
    check(op, inputs[0], attrs);
    results.push_back(eager::as_pairs(inputs[0]));
  } else if (op == ir::Op::kViewAsComplex) {
    check(op, inputs[0], attrs);
    const bool whole = inputs[0].is_contiguous();
    results.push_back(eager::from_pairs(whole ? inputs[0] : eager::contiguous(inputs[0], eager::dispatch_key(device))));
  } else {
    results = eager::execute(op, inputs, attrs, eager::dispatch_key(device));
  }
  Span* const span = scope.span();
  if (!span) return results;
  span->device = device;
  for (const auto& list : {inputs, std::span<const eager::Array>(results)}) {
    for (const eager::Array& a : list) {
      if (a.defined() && !a.weak) span->bytes += static_cast<int64_t>(a.bytes());
    }
  }
  if (!profiles_shapes()) return results;
  std::vector<std::string> shapes;
  for (const eager::Array& a : inputs) {
    if (a.defined()) shapes.push_back(std::string(name(a.dtype)) + to_string(a.shape));
  }
  span->shapes = std::make_shared<const std::vector<std::string>>(std::move(shapes));
  return results;
}

}  // namespace smolder::lazy
