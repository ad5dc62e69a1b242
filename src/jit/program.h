// Data that the compiler's stages hand on to each other: the graph of primitives, then groups of it, then
// kernels and library calls over buffers, then the order they run in.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smolder/ir/graph.h"
#include "smolder/jit/backend.h"
#include "smolder/jit/loop/loop_ir.h"
#include "smolder/jit/plan.h"

namespace smolder::jit {

using BufferId = int32_t;
using GroupId = int32_t;

/// The positions a kernel visits, in row-major order: rows, then columns. No extent is one.
struct Domain {
  std::vector<ir::Dim> rows, columns;
  /// Row reductions run over the columns, which then are one extent; in chunks of `column_chunk` unless 0.
  bool reduces_columns = false;
  ir::Dim column_chunk = 0;
  /// Column reductions run over the last of the rows, in chunks of `row_chunk` unless 0.
  bool reduces_rows = false;
  ir::Dim row_chunk = 0;
};

/// Nodes that become one kernel, or one call of a library.
struct Group {
  enum Kind : uint8_t { kKernel, kLibrary } kind = kKernel;
  Domain domain;
  /// Values this group writes to memory, in program order.
  std::vector<ir::ValueId> sinks;
  /// Reductions computed in the kernel, in program order; those in `sinks` are written too.
  std::vector<ir::NodeId> reductions;
  ir::NodeId node = ir::kNone;  ///< kLibrary: the primitive
};

/// Memory a step reads or writes.
struct BufferInfo {
  enum Kind : uint8_t { kLeaf, kArena, kOutput } kind = kArena;
  int number = -1;  ///< of the leaf or output
  DType dtype = DType::kFloat32;
  ir::SymDims shape, strides;  ///< in elements
  ir::Dim offset;              ///< first element
  ir::Dim elements;            ///< product of the shape, and of an intermediate room behind its rows (align_rows.h)
  bool contiguous = true;
  ir::ValueId value = ir::kNone;
};

/// Where a kernel's run-time scalar comes from.
struct ScalarSource {
  int parameter = -1;
  Category category = Category::kFloat;
};

/// Two buffers of a step that may be the same memory: each element is written no sooner than it is last read.
struct InPlace {
  BufferId read, written;
};

/// A kernel with the arguments of one launch.
struct KernelCall {
  Kernel kernel;
  std::vector<BufferId> buffers;  ///< -1: scratch
  std::vector<ir::Dim> ints;
  std::vector<ScalarSource> scalars;
  std::vector<OpSite> errors;
  int code = -1;            ///< number of the kernel: equal kernels of a program have one
  ir::Dim positions;        ///< extent of the root loop
  ir::Dim elements;         ///< innermost iterations in all
  double element_cost = 0;  ///< nanoseconds each on one core, roughly: decides serial or parallel
  /// Buffer arguments that are memory of the running thread: rows that live for one iteration.
  struct Scratch {
    int argument;
    ir::Dim elements;
    int64_t itemsize;
  };
  std::vector<Scratch> scratch;
  std::vector<InPlace> in_place;
};

/// A call of a library or an eager kernel, over strided views of buffers.
struct LibraryCall {
  struct Operand {
    enum Kind : uint8_t { kBuffer, kAbsent, kParameter, kNumber } kind = kBuffer;
    BufferId buffer = -1;
    DType dtype = DType::kFloat32;
    ir::SymDims shape, strides;
    ir::Dim offset;  ///< in elements; of a number that is a size, that size
    int parameter = -1;
    Scalar number = 0.0;
    bool is_extent = false;
  };
  ir::Op op{};
  std::vector<Operand> inputs, outputs;
  std::vector<ir::Dim> attrs;
  OpSite site;  ///< who is told of a bad index
  std::vector<InPlace> in_place;
};

/// One step of the plan.
struct Step {
  GroupId group = -1;
  std::unique_ptr<KernelCall> kernel;
  std::unique_ptr<LibraryCall> library;
  std::vector<BufferId> reads, writes;
  // On a device.
  bool guarded = false;       ///< does nothing once a step has failed
  bool is_looked_at = false;  ///< a scatter: another launch looks at its index

  std::span<const InPlace> in_place() const { return kernel ? kernel->in_place : library->in_place; }
};

/// A fusion that was not done.
struct Refusal {
  ir::ValueId value;  ///< that the kernels hand on through memory
  ir::NodeId reader;
  std::string why;
};

/// Everything known while compiling.
struct Program {
  CompileOptions options;
  ir::Graph graph;

  // fuse
  std::vector<Group> groups;            ///< in an order that respects dependencies
  std::vector<GroupId> group_of;        ///< by value: the group that writes it, or -1
  std::vector<Refusal> refusals;        ///< fusions that were not done
  std::vector<ir::ValueId> keep_apart;  ///< values that no kernel reads that makes them

  // lower
  std::vector<BufferInfo> buffers;
  std::vector<BufferId> buffer_of;  ///< by value, or -1
  std::vector<Step> steps;
  std::vector<OutputInfo> outputs;
  std::vector<Donation> donations;
  std::vector<BufferId> output_buffers;  ///< by output; -1 when it is the same as a leaf or another output

  // schedule
  std::vector<int> launch_of;  ///< by step: steps of one launch run side by side
  bool checks = false;         ///< some step may find an index out of range
  int last_check = -1;         ///< the last launch that may, as far as that matters to one that overwrites a leaf
  /// On a device: scatters whose index is looked at by a launch of its own, right after the launch that makes it.
  struct EarlyCheck {
    int step, after;
  };
  std::vector<EarlyCheck> early_checks;

  // emit
  std::vector<CompiledKernel> kernels;
  std::vector<BuiltKernel> built;
  std::vector<size_t> missing;  ///< the first step of each kernel that is still to be compiled
};

/// Whom a step is told by: its op, or the last of those that its kernel holds, under the kernel's name.
OpSite site_of(const Program& program, const Step& step);

/// The nodes that compute values from what is in memory, in program order.
std::vector<ir::NodeId> nodes_of(const Program& program, std::span<const ir::ValueId> values);

/// Bytes of a buffer that a step reads or writes, each once: all of it, or as many as it can reach.
struct TouchedBuffer {
  BufferId buffer = -1;
  bool written = false;
  int64_t bytes = 0;
};
std::vector<TouchedBuffer> touched_buffers(const Program& program, const Step& step,
                                           std::span<const int64_t> evaluated);

}  // namespace smolder::jit
