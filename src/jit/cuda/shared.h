// Memory that other libraries use too, on streams of theirs. It is used in order with the legacy default stream, which
// is theirs unless they say otherwise: our queue waits for it before, and it for our queue after.
#pragma once

#include "smolder/eager/dispatcher.h"

namespace smolder::jit::cuda {

/// A scope in which the queue of a device uses such memory.
class SharedUse {
 public:
  explicit SharedUse(int device);
  ~SharedUse();
  SharedUse(const SharedUse&) = delete;
  SharedUse& operator=(const SharedUse&) = delete;

 private:
  int device_;
};

/// Copies elements between views of one shape that do not overlap, of which one is in such memory of a device.
void copy_shared(int device, const eager::TensorView& from, const eager::TensorView& to);

}  // namespace smolder::jit::cuda
