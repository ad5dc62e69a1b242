// Rough costs, in nanoseconds on one core: enough to order fusions and to size work.
#pragma once

#include "smolder/core/device.h"
#include "smolder/core/scalar.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/graph.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

/// Nanoseconds to move a byte between a core and memory.
inline constexpr double kByteCost = 0.04;

/// Nanoseconds an element from which on a load and a store are cheaper.
inline constexpr double kCostly = 0.12;

/// How much more than the time it saves computing again may cost: it saves memory as well. Costs are a CPU core's,
/// beside whose memory arithmetic is four times as dear as on a GPU.
double worth_on(DeviceType device);

/// Time saved by a kernel that disappears, beside its bytes, in nanoseconds of a core. On a GPU a launch takes one
/// microsecond, in which it moves some 5 MB; it saves no memory, so that is all it is worth.
double launch_cost(DeviceType device);

/// Nanoseconds an element of a primitive takes in vector code.
double op_cost(ir::Op op);
/// The same for a statement of a kernel; loads and stores by their bytes.
double statement_cost(const Stmt& s);

/// Dtype that an elementwise node computes in: that of its strong operands.
DType arithmetic_dtype(const ir::Graph& g, const ir::Node& n);
}  // namespace smolder::jit
