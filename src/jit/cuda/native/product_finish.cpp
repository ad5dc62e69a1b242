#include "smolder/jit/cuda/native/product_finish.h"

#include <string>

#include "smolder/jit/cuda/device/product_finish.h"

namespace smolder::jit::cuda {

ProductFinish::ProductFinish(NativeDevice& device, const eager::MatmulDesc& sums, const eager::MatmulDesc& result)
    : sums_(sums),
      result_(result),
      kernel_(
          device.function(typedef_of("Sum", sums.out_dtype) + typedef_of("Result", result.out_dtype) + kProductFinish,
                          "finish_product")) {}

void ProductFinish::run(const void* sums, const void* bias, void* c) const {
  constexpr int kThreads = 256;
  const int64_t elements = result_.batch * result_.m * result_.n;
  const int64_t relu = result_.epilogue == eager::MatmulDesc::Epilogue::kBiasRelu;
  kernel_->launch(ceil_div(elements, kThreads), kThreads,
                  words(sums, bias, c, result_.m, result_.n, sums_.c_row, sums_.c_batch_stride, result_.c_row,
                        result_.c_batch_stride, elements, relu));
}

}  // namespace smolder::jit::cuda
