// What things cost, roughly, in nanoseconds on one core: enough to order fusions and to size work.
#pragma once

#include "smolder/core/scalar.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/graph.h"
#include "smolder/jit/loop_ir.h"

namespace smolder::jit {

/// Nanoseconds to move a byte between a core and memory.
inline constexpr double kByteCost = 0.04;

/// Nanoseconds an element from which on a load and a store are cheaper.
inline constexpr double kCostly = 0.12;

/// Nanoseconds an element of a primitive takes in vector code.
double op_cost(ir::Op op);
/// The same for a statement of a kernel; loads and stores by their bytes.
double statement_cost(const Stmt& s);

/// Dtype that an elementwise node computes in: that of its strong operands.
DType arithmetic_dtype(const ir::Graph& g, const ir::Node& n);
}  // namespace smolder::jit
