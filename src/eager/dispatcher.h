// The dispatch table: for a dispatch key and an op, the kernel that runs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"
#include "smolder/eager/dispatch_key.h"
#include "smolder/ir/op.h"

namespace smolder::eager {

/// Memory of an operand or a result, as a kernel sees it.
struct TensorView {
  void* data = nullptr;  ///< the element at index 0 of every axis; null for an absent optional operand
  DType dtype = DType::kFloat32;
  Dims shape;
  Dims strides;  ///< in elements; 0 where broadcast, negative where flipped
  /// A run-time number: `data` holds its eight bytes (int64 for bool and int, double for float), whatever `dtype`.
  bool weak = false;
};

/// A report of a kernel to its caller beside its results. Kernels may set it from several threads.
class ErrorReport {
 public:
  /// An index was outside its axis of `extent` elements: it was clamped (reads) or dropped (writes).
  void bad_index(int64_t index, int64_t extent) {
    if (bad_index_.exchange(true, std::memory_order_relaxed)) return;
    index_ = index;
    extent_ = extent;
  }
  bool has_bad_index() const { return bad_index_.load(std::memory_order_relaxed); }
  /// One of them, once the kernel has run.
  int64_t index() const { return index_; }
  int64_t extent() const { return extent_; }

 private:
  std::atomic<bool> bad_index_{false};
  int64_t index_ = 0, extent_ = 0;
};

/// One call of an op. A kernel reads inputs of any strides and fills every element of the outputs. These have their
/// shapes and dtypes, and overlap neither each other nor an input, with one exception: the result of an op that updates
/// its first operand (ir::OpFlags::updates) may be that operand.
struct KernelCall {
  ir::Op op;
  std::span<const TensorView> inputs;  ///< as the op's signature, lists flattened
  std::span<const TensorView> outputs;
  std::span<const int64_t> attrs;  ///< words, as ir::AttrKind says
  ErrorReport* errors;             ///< never null
};

using Kernel = std::function<void(const KernelCall&)>;

/// Makes `kernel` run `op` for `key`. Throws ValueError when the place is taken (see override_kernel) or the
/// kernel is empty. Thread-safe, as everything here.
void register_kernel(DispatchKey key, ir::Op op, Kernel kernel);
/// Replaces whatever runs `op` wherever it is run, in decompositions of other ops too; an empty kernel leaves the place
/// empty. Returns what was there, which may be empty. Calls that have begun finish with the old one. An override of an
/// op that is not a primitive takes it whole: it is no longer decomposed.
Kernel override_kernel(DispatchKey key, ir::Op op, Kernel kernel);

/// From now on calls of `op` as users write them run `kernel`, with operands as they were given: nothing is promoted,
/// broadcast or decomposed before. Other ops made of it do not. Returns an op of its own that stands for it, which
/// `remove_override` takes back; the latest that is left counts.
ir::Op add_override(DispatchKey key, ir::Op op, Kernel kernel);
void remove_override(DispatchKey key, ir::Op op, ir::Op stand_in);
/// The op that stands for `op`, or `op` itself.
ir::Op resolve(DispatchKey key, ir::Op op);
/// Changes whenever what runs an op may have changed: plans made before do not hold.
uint64_t dispatch_generation();

/// The kernel, or null. Valid for the life of the process, also when it is replaced.
const Kernel* find_kernel(DispatchKey key, ir::Op op);
/// Runs the kernel of `call.op`. Throws NotImplementedError naming op, key and dtypes when there is none.
void dispatch(DispatchKey key, const KernelCall& call);

/// "float32[2, 3], number float64[]": a call's operands for messages.
std::string describe(const KernelCall& call);

}  // namespace smolder::eager
