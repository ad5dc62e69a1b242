#include "smolder/jit/library/library.h"

#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "smolder/jit/device_target.h"
#include "smolder/jit/library/waits.h"

namespace smolder::jit {

using ir::Op;

namespace {

struct QueuedKernels {
  std::mutex lock;
  std::unordered_map<Op, QueuedKernel> of;  // whose elements stay where they are
  std::unordered_set<Op> wait, in_place;
  static QueuedKernels& get() {
    static QueuedKernels* const kernels = new QueuedKernels;
    return *kernels;
  }
};

}  // namespace

void register_queued_kernel(Op op, QueuedKernel kernel) {
  QueuedKernels& all = QueuedKernels::get();
  const std::lock_guard hold(all.lock);
  SMOLDER_INVARIANT(all.of.emplace(op, std::move(kernel)).second);
}

const QueuedKernel* find_queued_kernel(Op op) {
  QueuedKernels& all = QueuedKernels::get();
  const std::lock_guard hold(all.lock);
  const auto at = all.of.find(op);
  return at == all.of.end() ? nullptr : &at->second;
}

void set_waits_on_device(Op op) {
  QueuedKernels& all = QueuedKernels::get();
  const std::lock_guard hold(all.lock);
  all.wait.insert(op);
  all.in_place.insert(op);
}

bool waits_on_device(Op op) {
  QueuedKernels& all = QueuedKernels::get();
  const std::lock_guard hold(all.lock);
  return all.wait.contains(op);
}

void set_in_place_on_device(Op op) {
  QueuedKernels& all = QueuedKernels::get();
  const std::lock_guard hold(all.lock);
  all.in_place.insert(op);
}

bool is_in_place_on_device(Op op) {
  QueuedKernels& all = QueuedKernels::get();
  const std::lock_guard hold(all.lock);
  return all.in_place.contains(op);
}

bool is_library(Op op) {
  switch (op) {
    case Op::kLeaf:
    case Op::kParameter:
    case Op::kConstant:
    case Op::kExtent:
    case Op::kIota:
    case Op::kRandomBits:
    case Op::kCast:
    case Op::kReduce:
    case Op::kReshape:
    case Op::kPermute:
    case Op::kExpand:
    case Op::kSlice:
    case Op::kFlip:
    case Op::kPad:
    case Op::kCat:
    case Op::kTake:
    case Op::kGather:
    case Op::kBarrier:
      return false;
    default:
      return !ir::is_elementwise_primitive(op);
  }
}

bool is_fallback(DeviceType device, Op op) {
  if (DeviceTarget* const target = DeviceTarget::of(device)) {
    return is_library(op) && !target->has_kernel(op) && !is_users(op);
  }
  switch (op) {
    case Op::kDot:
    case Op::kConvForward:
    case Op::kConvBackwardInput:
    case Op::kConvBackwardWeight:
    case Op::kFftC2c:
    case Op::kFftR2c:
    case Op::kFftC2r:
    case Op::kScan:
    case Op::kSorted:
    case Op::kWideCat:
      return false;
    default:
      return is_library(op) && !ir::info(op).flags.updates && !is_users(op);
  }
}

bool is_attention(Op op) {
  return op == Op::kFlashAttention || op == Op::kFlashAttentionMasked || op == Op::kFlashAttentionBackward ||
         op == Op::kFlashAttentionBackwardMasked || op == Op::kFlashAttentionBackwardJoined;
}

bool is_users(Op op) { return ir::is_user_op(op) || (!ir::info(op).flags.primitive && !is_attention(op)); }

bool can_guard(Op op) {
  return op == Op::kSliceWrite || op == Op::kIndexAdd || op == Op::kIndexSet || op == Op::kScatterAdd ||
         op == Op::kScatterInto;
}

}  // namespace smolder::jit
