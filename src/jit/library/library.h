// Steps that are not generated kernels: matrix products, and primitives and ops that run as eager kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/ir/op.h"
#include "smolder/jit/program.h"

namespace smolder::jit {

/// Memory of an operand or a result of a library call; the address is known when it runs.
struct LibraryView {
  DType dtype = DType::kFloat32;
  Dims shape, strides;  ///< strides in elements
  bool weak = false;    ///< a number: eight bytes, as RunArguments::parameters has them
};

/// A library call bound to sizes. Immutable, and safe to run from several threads at once.
class BoundLibrary {
 public:
  virtual ~BoundLibrary() = default;
  /// Addresses of the inputs' first elements (null: absent), then the outputs'. Returns false when an index was out
  /// of range: it was clamped where read, dropped where written.
  virtual bool run(std::span<void* const> addresses) const = 0;
  /// A call that is queued on a device learns of such an index later: it then says so in a slot (cuda/reports.h).
  virtual bool has_error_slot() const { return false; }
  /// Where a queued call reports: the slot, or null where somebody else looks at its index; and, where it is
  /// guarded, a word on the device.
  struct Signals {
    uint32_t* error = nullptr;
    const uint32_t* failed = nullptr;
  };
  virtual bool queue(std::span<void* const> addresses, const Signals& /*signals*/) const { return run(addresses); }
  /// Whether that does no more than queue work on the stream of a device's queue, with temporaries from
  /// `allocate_temporary`, for equal addresses and numbers the same: it can be captured in a graph.
  virtual bool only_queues() const { return false; }
  /// The call is made again and again: what it was bound to so as not to wait for a compiler, though it takes longer,
  /// is replaced by what is best. That may be unready, unless `prepare_to_settle` asked for it and it was compiled
  /// since.
  virtual void settle() {}
  virtual void prepare_to_settle() {}
  /// The op and what of its sizes decides how long it takes.
  virtual std::string describe() const = 0;
};

/// Chooses how to run a call at these sizes on a device, where the addresses then are; but those of numbers, which are
/// the host's. `guarded`: on a device, does nothing where the word that it is given is other than 0 by then.
std::unique_ptr<BoundLibrary> bind_library(Device device, ir::Op op, std::vector<LibraryView> inputs,
                                           std::vector<LibraryView> outputs, std::vector<int64_t> attrs,
                                           bool guarded = false);

/// A function that runs an op of users on a device: it queues work after all that the device's queue was given, and the
/// host goes on. Inputs are row-major; addresses are the device's, but those of numbers. `copies` has the memory of
/// inputs that were copied to be row-major: whoever reads it beside the queue takes that. Of an op that waits the first
/// input alone is copied.
using QueuedKernel = std::function<void(int device, const eager::KernelCall& call, std::vector<BufferRef>& copies)>;
/// An op has one at most, for the life of the process. Thread-safe.
void register_queued_kernel(ir::Op op, QueuedKernel kernel);
/// Null where there is none: the op then runs on the host, between copies.
const QueuedKernel* find_queued_kernel(ir::Op op);

/// Looks, on a device, at the index of a scatter before that runs. Its address is all that it is given. `extent`: of
/// the axis.
std::unique_ptr<BoundLibrary> bind_index_check(Device device, const LibraryView& index, int64_t extent);
/// Whether a call on a device can be guarded.
bool can_guard(ir::Op op);

/// Compiles, each, a program that calls bound so far will launch and that is in no cache. On any thread; one that is
/// not made ready so is when it is launched.
std::vector<std::function<void()>> take_unready(DeviceType device);

/// Does loop IR not say this primitive? It then runs as a library call. Products, scatters, scans, sorts and what users
/// have kernels for always do on the CPU; others are fallbacks, and counted, as are on CUDA those that run on the host,
/// which waits for the device: all but products and what kernels written by hand do.
bool is_library(ir::Op op);
bool is_fallback(DeviceType device, ir::Op op);
/// Does a kernel that a user registered run it? It may throw.
bool is_users(ir::Op op);
/// Attention that kernels of a device take whole: what DeviceTarget::append_attention appends.
bool is_attention(ir::Op op);

}  // namespace smolder::jit
