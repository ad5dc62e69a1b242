#include "smolder/jit/cuda/shared.h"

#include "smolder/core/cuda/queue.h"
#include "smolder/core/error.h"
#include "smolder/jit/cuda/native/copy.h"

namespace smolder::jit::cuda {

using smolder::cuda::legacy_stream;
using smolder::cuda::Queue;

SharedUse::SharedUse(int device) : device_(device) { Queue::of(device).follow(legacy_stream()); }
SharedUse::~SharedUse() {
  try {
    Queue::of(device_).precede(legacy_stream());
  } catch (const Error&) {  // which the next call to the driver will tell
  }
}

void copy_shared(int device, const eager::TensorView& from, const eager::TensorView& to) {
  const SharedUse use(device);
  const auto view = [](const eager::TensorView& v) { return LibraryView{v.dtype, v.shape, v.strides}; };
  StridedCopy(NativeDevice::of(device), view(from), view(to)).run(from.data, to.data);
}

}  // namespace smolder::jit::cuda
