// A plan bound to sizes as data: its steps with the user's ops that each holds, the memory it moves, what it computes
// and why it ends where it does. For tools; nothing here runs anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "smolder/core/device.h"
#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"
#include "smolder/core/hash.h"
#include "smolder/core/source_line.h"

namespace smolder::jit {

/// Memory of a plan.
struct ReportedBuffer {
  enum Kind : uint8_t { kLeaf, kArena, kOutput } kind = kArena;
  int number = -1;  ///< of the leaf or output
  DType dtype = DType::kFloat32;
  Dims shape;
  int64_t bytes = 0;
  int64_t arena_offset = -1;              ///< bytes from the arena's start; -1 outside of it
  int first_launch = 0, last_launch = 0;  ///< in the arena: when it is needed
};

/// One of the user's ops, or the part of it that a step computes: neighbours of one op and line are one.
struct ReportedOp {
  std::string name;
  SourceToken source = 0;
  std::vector<std::string> primitives;  ///< what it was decomposed into, in program order
  std::vector<int> inputs;              ///< ops of this step that it reads, by number in it
  std::vector<int> reads, writes;       ///< buffers of the plan
};

/// A buffer that a step moves, and how many bytes of it: each counts once, however often it is read.
struct ReportedMove {
  int buffer = -1;
  bool written = false;
  int64_t bytes = 0;
};

struct ReportedStep {
  /// kInterpreted, kQuick: a kernel whose own code is not compiled yet.
  enum Kind : uint8_t { kKernel, kLibrary, kFallback, kInterpreted, kQuick } kind = kKernel;
  std::string name;  ///< of the kernel, or of the op that a library or an eager kernel runs
  SourceToken source = 0;
  int launch = 0;        ///< steps of one launch run side by side, and are timed together
  int kernel = -1;       ///< equal kernels of a plan have one number; -1 for calls
  Hash128 key;           ///< of a kernel in the cache
  double built_ms = -1;  ///< what compiling took; negative where it came from a cache
  std::vector<ReportedOp> ops;
  std::vector<ReportedMove> moves;
  int64_t bytes = 0;  ///< of all moves
  /// Multiplications and additions of products, convolutions and attention, and their dtype.
  double product_flops = 0;
  DType product_dtype = DType::kFloat32;
  /// Elements that arithmetic primitives compute, and those that reductions and scans read.
  double other_flops = 0;
};

/// Two steps, the second of which reads what the first writes, and why they are not one kernel.
struct ReportedRefusal {
  int from = -1, to = -1;
  int buffer = -1;
  std::string op, reader;  ///< the user's ops
  SourceToken source = 0, reader_source = 0;
  std::string why;
};

struct PlanReport {
  uint64_t plan = 0;  ///< Plan::id()
  Device device = {};
  std::vector<ReportedBuffer> buffers;
  std::vector<ReportedStep> steps;  ///< in the order in which they run
  int launches = 0;
  int64_t arena_bytes = 0;
  bool runs_user_code = false;  ///< some of the steps are kernels that a user registered
  std::vector<ReportedRefusal> refusals;
};

}  // namespace smolder::jit
