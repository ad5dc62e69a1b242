#include "smolder/jit/library/library.h"

#include "smolder/jit/device_target.h"

namespace smolder::jit {

using ir::Op;

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
