#include "smolder/jit/cuda/native/product_finish.h"

#include <string>

namespace smolder::jit::cuda {

namespace {

// The program names Sum and Result.
constexpr const char* kText = R"cuda(
struct FinishArguments {
  const Sum* sums;
  const Result* bias;
  Result* c;
  i64 m, n, sums_row, sums_batch, c_row, c_batch, elements, relu;
};
KERNEL(finish_product, FinishArguments) {
  const i64 i = thread_number();
  if (i >= a.elements) return;
  u64 rest = static_cast<u64>(i);
  const i64 column = take_digit(rest, static_cast<u64>(a.n)), row = take_digit(rest, static_cast<u64>(a.m));
  const i64 batch = static_cast<i64>(rest);
  auto x = widen(a.sums[batch * a.sums_batch + row * a.sums_row + column]);
  typedef decltype(x) Wide;
  if (a.bias) x += static_cast<Wide>(widen(a.bias[column]));
  a.c[batch * a.c_batch + row * a.c_row + column] = Narrow<Result>::of(a.relu && x < 0 ? Wide(0) : x);
}
)cuda";

}  // namespace

ProductFinish::ProductFinish(NativeDevice& device, const eager::MatmulDesc& sums, const eager::MatmulDesc& result)
    : sums_(sums),
      result_(result),
      kernel_(device.function(typedef_of("Sum", sums.out_dtype) + typedef_of("Result", result.out_dtype) + kText,
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
