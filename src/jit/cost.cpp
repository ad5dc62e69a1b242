#include "smolder/jit/cost.h"

#include "smolder/ir/scalar/primitive.h"

namespace smolder::jit {

using ir::Op;

double worth_on(DeviceType device) { return device == DeviceType::kCUDA ? 8.0 : 2.0; }

double launch_cost(DeviceType device) { return device == DeviceType::kCUDA ? 5e6 * kByteCost / worth_on(device) : 500; }

double op_cost(Op op) {
  if (op == Op::kRandomBits) return 1.0;
  return ir::is_elementwise_primitive(op) ? ir::scalar::info(static_cast<ir::scalar::Primitive>(op)).cost : 0.02;
}

double statement_cost(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::kLoad:
    case StmtKind::kStore:
      return static_cast<double>(itemsize(s.dtype)) * kByteCost + (s.address.indirect.empty() ? 0 : 0.5);
    case StmtKind::kPrimitive:
      return op_cost(s.op);
    case StmtKind::kUpdate:
      return 0.02;
    default:
      return 0;
  }
}

DType arithmetic_dtype(const ir::Graph& g, const ir::Node& n) {
  const size_t first = n.op == Op::kWhere ? 1 : 0;
  for (size_t i = first; i < n.inputs.size(); ++i) {
    if (!g.info(n.inputs[i]).weak) return g.dtype(n.inputs[i]);
  }
  const DType result = g.dtype(n.first_output);
  if (result != DType::kBool) return result;
  DType t = g.dtype(n.inputs[first]);
  for (size_t i = first + 1; i < n.inputs.size(); ++i) t = promote(t, g.dtype(n.inputs[i]));
  return t;
}

}  // namespace smolder::jit
