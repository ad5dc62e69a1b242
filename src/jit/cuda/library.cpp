#include "smolder/jit/cuda/library.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/eager/cuda/matmul.h"
#include "smolder/jit/cuda/attention.h"
#include "smolder/jit/cuda/convolution.h"
#include "smolder/jit/cuda/native/convolution.h"
#include "smolder/jit/cuda/native/copy.h"
#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/cuda/native/float_product.h"
#include "smolder/jit/cuda/native/product.h"
#include "smolder/jit/cuda/native/scan.h"
#include "smolder/jit/cuda/native/scatter.h"
#include "smolder/jit/cuda/native/sort.h"
#include "smolder/jit/product_steps.h"

namespace smolder::jit::cuda {

namespace {

using smolder::cuda::kDevice;

/// What a product does with a bias, which is its third operand: see join_bias.h.
eager::MatmulDesc::Epilogue epilogue_of(const std::vector<LibraryView>& inputs, const std::vector<int64_t>& attrs) {
  using enum eager::MatmulDesc::Epilogue;
  return inputs.size() < 3 ? kNone : attrs.back() != 0 ? kBiasRelu : kBias;
}

/// A matrix product by cuBLASLt.
class DeviceProduct final : public BoundLibrary {
 public:
  explicit DeviceProduct(ProductSteps steps) : steps_(std::move(steps)) {
    if (!steps_.is_empty()) product_ = eager::cuda::DeviceMatmul::get(steps_.desc, kDevice);
  }
  bool run(std::span<void* const> addresses) const override {
    if (!product_) return true;
    for (const ProductSteps::Offsets& o : steps_.offsets) {
      product_->run(static_cast<char*>(addresses[0]) + o.a, static_cast<char*>(addresses[1]) + o.b,
                    static_cast<char*>(addresses[2]) + o.c);
    }
    return true;
  }
  bool only_queues() const override { return true; }
  std::string describe() const override { return steps_.describe() + " by cuBLASLt"; }

 private:
  std::shared_ptr<const eager::cuda::DeviceMatmul> product_;
  ProductSteps steps_;
};

/// The same where cuBLASLt does not take an operand as it lies: it is copied first.
class GatheredProduct final : public BoundLibrary {
 public:
  GatheredProduct(NativeDevice& device, const LibraryView& a, const LibraryView& b, bool copies_a, bool copies_b,
                  ProductSteps steps)
      : product_(std::move(steps)) {
    if (copies_a) operands_[0].emplace(device, a);
    if (copies_b) operands_[1].emplace(device, b);
  }
  bool run(std::span<void* const> addresses) const override {
    BufferRef holders[2];
    void* all[] = {addresses[0], addresses[1], addresses[2]};
    for (int i = 0; i < 2; ++i) {
      if (operands_[i]) all[i] = const_cast<void*>(operands_[i]->at(addresses[i], holders[i]));
    }
    return product_.run(all);
  }
  bool only_queues() const override { return true; }
  std::string describe() const override { return product_.describe() + ", from copies"; }

 private:
  std::optional<DenseOperand> operands_[2];
  DeviceProduct product_;
};

/// Null for products that neither cuBLASLt nor kernels of ours make.
std::unique_ptr<BoundLibrary> bind_product(const LibraryView& a, const LibraryView& b, const LibraryView& c) {
  const auto dense = [](LibraryView v) {
    v.strides = contiguous_strides(v.shape);
    return v;
  };
  for (const auto& [copies_a, copies_b] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
    ProductSteps steps(copies_a ? dense(a) : a, copies_b ? dense(b) : b, c);
    if (!steps.is_empty() && !eager::cuda::can_multiply(steps.desc)) continue;
    if (!copies_a && !copies_b) return std::make_unique<DeviceProduct>(std::move(steps));
    return std::make_unique<GatheredProduct>(NativeDevice::of(kDevice), a, b, copies_a, copies_b, std::move(steps));
  }
  return nullptr;
}

/// What the host does: operands are copied there, and results back.
class HostCall final : public BoundLibrary {
 public:
  HostCall(ir::Op op, const std::vector<LibraryView>& inputs, const std::vector<LibraryView>& outputs,
           std::vector<int64_t> attrs)
      : num_inputs_(inputs.size()), call_(jit::bind_library(DeviceType::kCPU, op, inputs, outputs, std::move(attrs))) {
    for (const auto* list : {&inputs, &outputs}) {
      for (const LibraryView& v : *list) extents_.push_back(extent_of(v));
    }
  }

  bool run(std::span<void* const> addresses) const override {
    static Counter& bytes = counter("fallbacks.bytes_copied");
    std::vector<void*> host(addresses.begin(), addresses.end());
    std::vector<BufferRef> memory(addresses.size());
    for (size_t i = 0; i < addresses.size(); ++i) {
      const Extent& e = extents_[i];
      if (e.is_number || !addresses[i] || e.bytes == 0) continue;
      const bool is_output = i >= num_inputs_;
      if (is_output && num_inputs_ > 0 && addresses[i] == addresses[0] && memory[0]) {  // updates its first operand
        memory[i] = memory[0];
      } else {
        memory[i] = smolder::allocate(e.bytes);
        if (!is_output || !e.dense) {
          smolder::cuda::copy_to_host(memory[i]->data(), static_cast<char*>(addresses[i]) + e.first, e.bytes, kDevice);
          bytes.add(static_cast<int64_t>(e.bytes));
        }
      }
      host[i] = static_cast<char*>(memory[i]->data()) - e.first;
    }
    const bool good = call_->run(host);
    for (size_t i = num_inputs_; i < addresses.size(); ++i) {
      const Extent& e = extents_[i];
      if (!memory[i]) continue;
      smolder::cuda::copy_from_host(static_cast<char*>(addresses[i]) + e.first, memory[i]->data(), e.bytes, kDevice);
      bytes.add(static_cast<int64_t>(e.bytes));
    }
    return good;
  }
  std::string describe() const override { return call_->describe() + " on the host"; }

 private:
  /// The bytes of a view: where they start from its first element, and how many they are.
  struct Extent {
    int64_t first = 0;
    size_t bytes = 0;
    bool dense = false;  ///< all of them are its elements
    bool is_number = false;
  };

  static Extent extent_of(const LibraryView& v) {
    Extent e;
    e.is_number = v.weak;
    if (numel(v.shape) == 0) return e;
    const auto item = static_cast<int64_t>(itemsize(v.dtype));
    int64_t low = 0, high = 0;
    for (int i = 0; i < v.shape.size(); ++i) {
      const int64_t reach = (v.shape[i] - 1) * v.strides[i];
      (reach < 0 ? low : high) += reach;
    }
    e.first = low * item;
    e.bytes = static_cast<size_t>((high - low + 1) * item);
    e.dense = high - low + 1 == numel(v.shape);
    return e;
  }

  size_t num_inputs_;
  std::unique_ptr<BoundLibrary> call_;
  std::vector<Extent> extents_;
};

}  // namespace

bool has_kernel(ir::Op op) {
  return op == ir::Op::kDot || op == ir::Op::kScan || op == ir::Op::kSorted || op == ir::Op::kSliceWrite ||
         is_scatter(op) || is_convolution(op) || is_attention(op);
}

std::unique_ptr<BoundLibrary> bind_native(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs,
                                          const std::vector<LibraryView>& outputs, const std::vector<int64_t>& attrs) {
  if (is_scatter(op)) return make_scatter(device, op, inputs, outputs[0], attrs);
  if (op == ir::Op::kSliceWrite) return std::make_unique<SliceWrite>(device, inputs, outputs[0], attrs);
  if (is_convolution(op)) return make_convolution(device, op, inputs, outputs[0], attrs);
  if (op == ir::Op::kScan) return make_scan(device, inputs[0], outputs[0], attrs);
  if (op == ir::Op::kSorted) return make_sorted(device, inputs[0], outputs, attrs);
  if (op == ir::Op::kDot) {
    ProductSteps steps(inputs[0], inputs[1], outputs[0], epilogue_of(inputs, attrs));
    if (is_floating(inputs[0].dtype)) return make_float_product(device, steps);
    if (outputs[0].dtype == inputs[0].dtype) return make_integer_product(device, std::move(steps));
  }
  return nullptr;
}

std::unique_ptr<BoundLibrary> bind_library(ir::Op op, std::vector<LibraryView> inputs, std::vector<LibraryView> outputs,
                                           std::vector<int64_t> attrs) {
  if (is_attention(op)) return bind_attention(op, inputs, outputs, attrs);
  if (is_convolution(op)) {
    if (auto convolution = bind_convolution(op, inputs, outputs[0], attrs)) return convolution;
  }
  if (auto native = bind_native(NativeDevice::of(kDevice), op, inputs, outputs, attrs)) return native;
  if (op == ir::Op::kDot) {
    if (auto product = bind_product(inputs[0], inputs[1], outputs[0])) return product;
  }
  return std::make_unique<HostCall>(op, inputs, outputs, std::move(attrs));
}

}  // namespace smolder::jit::cuda
