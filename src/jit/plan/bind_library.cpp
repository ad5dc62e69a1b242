// Library calls, bound to sizes: who runs which.
#include <algorithm>
#include <utility>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/ir/control_flow.h"
#include "smolder/jit/device_target.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/library/product_steps.h"
#include "smolder/jit/plan/control_flow.h"

namespace smolder::jit {

using ir::Op;

namespace {

/// An eager kernel, through the dispatch table.
class EagerCall final : public BoundLibrary {
 public:
  EagerCall(Op op, std::vector<LibraryView> inputs, std::vector<LibraryView> outputs, std::vector<int64_t> attrs)
      : op_(op), num_inputs_(inputs.size()), attrs_(std::move(attrs)) {
    for (const auto* list : {&inputs, &outputs}) {
      for (const LibraryView& v : *list) views_.push_back({nullptr, v.dtype, v.shape, v.strides, v.weak});
    }
  }

  bool run(std::span<void* const> addresses) const override {
    std::vector<eager::TensorView> views = views_;
    for (size_t i = 0; i < views.size(); ++i) views[i].data = addresses[i];
    const std::span<const eager::TensorView> all(views);
    eager::ErrorReport errors;
    eager::dispatch(eager::DispatchKey::kCPU, {op_, all.first(num_inputs_), all.subspan(num_inputs_), attrs_, &errors});
    return !errors.has_bad_index();
  }
  std::string describe() const override { return std::string(ir::name(op_)); }

 private:
  Op op_;
  size_t num_inputs_;
  std::vector<int64_t> attrs_;
  std::vector<eager::TensorView> views_;
};

/// A matrix product on the CPU. A bias is the third address.
class Product final : public BoundLibrary {
 public:
  explicit Product(ProductSteps steps) : steps_(std::move(steps)) {
    if (!steps_.is_empty()) product_ = eager::Matmul::get(steps_.desc);
  }

  bool run(std::span<void* const> addresses) const override {
    if (!product_) return true;
    const void* const bias = addresses.size() > 3 ? addresses[2] : nullptr;
    const auto one = [&](const ProductSteps::Offsets& o) {
      product_->run(static_cast<char*>(addresses[0]) + o.a, static_cast<char*>(addresses[1]) + o.b,
                    static_cast<char*>(addresses.back()) + o.c, bias);
    };
    const std::vector<ProductSteps::Offsets>& offsets = steps_.offsets;
    if (offsets.size() == 1) {
      one(offsets[0]);
    } else if (steps_.flops() > kSharedFlops) {
      for (const ProductSteps::Offsets& o : offsets) one(o);
    } else {
      // Small ones share threads by the product rather than each in itself.
      const auto n = static_cast<int64_t>(offsets.size());
      const auto grain = std::max<int64_t>(1, static_cast<int64_t>(kRangeFlops / std::max(steps_.flops(), 1.0)));
      parallel_for(n, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) one(offsets[i]);
      });
    }
    return true;
  }

  std::string describe() const override { return steps_.describe(); }

 private:
  static constexpr double kSharedFlops = 50e6, kRangeFlops = 1e6;
  std::shared_ptr<const eager::Matmul> product_;
  ProductSteps steps_;
};

}  // namespace

std::vector<std::function<void()>> take_unready(DeviceType device) {
  DeviceTarget* const target = DeviceTarget::of(device);
  return target ? target->take_unready() : std::vector<std::function<void()>>{};
}

std::unique_ptr<BoundLibrary> bind_index_check(Device device, const LibraryView& index, int64_t extent) {
  return DeviceTarget::of(device.type)->bind_index_check(device.index, index, extent);
}

std::unique_ptr<BoundLibrary> bind_library(Device device, Op op, std::vector<LibraryView> inputs,
                                           std::vector<LibraryView> outputs, std::vector<int64_t> attrs, bool guarded) {
  if (ir::is_control_flow(op)) {
    return bind_control_flow(device, op, std::move(inputs), std::move(outputs), std::move(attrs));
  }
  if (DeviceTarget* const target = DeviceTarget::of(device.type)) {
    return target->bind_library(device.index, op, std::move(inputs), std::move(outputs), std::move(attrs), guarded);
  }
  if (op == Op::kDot) {
    const DType in = inputs[0].dtype, out = outputs[0].dtype;
    const auto epilogue = epilogue_of(inputs, attrs);
    const bool dense_bias = epilogue == eager::MatmulDesc::Epilogue::kNone || inputs[2].strides[0] == 1;
    if ((out == in || (is_half(in) && out == DType::kFloat32)) && dense_bias) {
      return std::make_unique<Product>(ProductSteps(inputs[0], inputs[1], outputs[0], epilogue));
    }
  }
  return std::make_unique<EagerCall>(op, std::move(inputs), std::move(outputs), std::move(attrs));
}

}  // namespace smolder::jit
