// Differences between a kind of device and the host, in compiling and in running: the compiler's one way to
// the folder of a device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/ir/builder.h"
#include "smolder/jit/backend.h"

namespace smolder::jit {

class BoundLibrary;
struct LibraryView;
struct Program;

/// Thread-safe.
class DeviceTarget {
 public:
  virtual ~DeviceTarget() = default;
  /// The target for a type of device; null where plans run on the host.
  static DeviceTarget* of(DeviceType type);

  /// The code generator for a device. Throws RuntimeError when there is no such device or no compiler for it.
  virtual Backend& backend(int device) = 0;

  // -- stages of the compiler

  /// In which order reductions of rows combine elements.
  virtual const ReduceOrder& reduce_order() = 0;
  /// Whether kernels of the device take `attention` or its backward whole. Guards what that says about sizes.
  virtual bool takes_attention(int device, ir::Graph& g, const ir::Node& n, bool mask_has_gradient,
                               bool allow_tf32) = 0;
  /// Appends such a node as one call and its results to `results`. With `rows_first` results lie as [..., L, heads, E].
  virtual void append_attention(ir::Builder& b, ir::Graph& g, const ir::Node& n, bool rows_first,
                                ir::ValueId* results) = 0;
  /// Lets backward passes of attention write their gradients side by side where the graph joins them. Whether it did.
  virtual bool join_gradients(Program& program) = 0;
  /// Makes kernels for rows as long as those of the sample, and guards that.
  virtual void set_row_sizes(Program& program) = 0;
  /// Whether it makes sense to set `Kernel::together`.
  virtual bool may_run_together(const Kernel& kernel) = 0;

  // -- steps that are not generated kernels

  /// Whether some operands of a primitive that loop IR does not say stay on the device.
  virtual bool has_kernel(ir::Op op) = 0;
  /// For a primitive without one: the library that would run it and why it is not there; empty where none would.
  virtual std::string missing_for(ir::Op op) = 0;
  /// As jit::bind_library and jit::bind_index_check.
  virtual std::unique_ptr<BoundLibrary> bind_library(int device, ir::Op op, std::vector<LibraryView> inputs,
                                                     std::vector<LibraryView> outputs, std::vector<int64_t> attrs,
                                                     bool guarded) = 0;
  virtual std::unique_ptr<BoundLibrary> bind_index_check(int device, const LibraryView& index, int64_t extent) = 0;
  /// As jit::take_unready.
  virtual std::vector<std::function<void()>> take_unready() = 0;
  /// Queues a copy in the memory of a device.
  virtual void copy(int device, void* to, const void* from, int64_t bytes) = 0;
  /// The operand row-major: itself, or a copy that is queued, which `holder` keeps.
  virtual void* dense(int device, const LibraryView& view, void* address, BufferRef& holder) = 0;
};

}  // namespace smolder::jit
