#include "smolder/jit/cuda/native/product.h"

#include <utility>

#include "smolder/jit/cuda/device/product.h"
#include "smolder/jit/cuda/native/device.h"

namespace smolder::jit::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kSide = 64;

class IntegerProduct final : public BoundLibrary {
 public:
  IntegerProduct(NativeDevice& device, ProductSteps steps) : steps_(std::move(steps)) {
    const DType dtype = steps_.desc.dtype;
    const char* const sum = dtype == DType::kInt64 ? "u64" : "u32";
    if (!steps_.is_empty()) {
      multiply_ = device.function(typedef_of("Element", dtype) + "typedef " + sum + " Sum;\n" + kProduct, "multiply");
    }
  }
  bool run(std::span<void* const> addresses) const override {
    if (!multiply_) return true;
    const eager::MatmulDesc& d = steps_.desc;
    const auto at = [](void* address, int64_t offset) { return static_cast<char*>(address) + offset; };
    for (const ProductSteps::Offsets& o : steps_.offsets) {
      multiply_->launch(
          d.batch * ceil_div(d.m, kSide) * ceil_div(d.n, kSide), kThreads,
          words(at(addresses[0], o.a), at(addresses[1], o.b), at(addresses.back(), o.c), d.batch, d.m, d.n, d.k,
                d.a_row, d.a_col, d.b_row, d.b_col, d.c_row, d.a_batch_stride, d.b_batch_stride, d.c_batch_stride));
    }
    return true;
  }
  bool only_queues() const override { return true; }
  std::string describe() const override { return steps_.describe(); }

 private:
  ProductSteps steps_;
  NativeRef multiply_;
};

}  // namespace

std::unique_ptr<BoundLibrary> make_integer_product(NativeDevice& device, ProductSteps steps) {
  return std::make_unique<IntegerProduct>(device, std::move(steps));
}

}  // namespace smolder::jit::cuda
