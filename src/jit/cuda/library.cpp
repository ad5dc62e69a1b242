#include "smolder/jit/cuda/library.h"

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "smolder/core/counters.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/error.h"
#include "smolder/eager/cuda/cufft.h"
#include "smolder/eager/cuda/matmul.h"
#include "smolder/jit/cuda/attention.h"
#include "smolder/jit/cuda/convolution.h"
#include "smolder/jit/cuda/fourier.h"
#include "smolder/jit/cuda/native/convolution.h"
#include "smolder/jit/cuda/native/copy.h"
#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/cuda/native/float_product.h"
#include "smolder/jit/cuda/native/product.h"
#include "smolder/jit/cuda/native/product_finish.h"
#include "smolder/jit/cuda/native/row_product.h"
#include "smolder/jit/cuda/native/scan.h"
#include "smolder/jit/cuda/native/scatter.h"
#include "smolder/jit/cuda/native/sort.h"
#include "smolder/jit/library/product_steps.h"
#include "smolder/jit/library/waits.h"

namespace smolder::jit::cuda {

namespace {

using Epilogue = eager::MatmulDesc::Epilogue;

constexpr int64_t kHalvesAtOnce = 8;  ///< in 16 bytes

/// A part of a product that is a call of its own: of some columns of the result, or of some of the depth.
struct ProductPart {
  eager::MatmulDesc desc;
  int64_t a = 0, b = 0, bias = 0, c = 0;  ///< where its operands begin, in bytes from where the product's do
  bool adds = false;                      ///< to what the part before left
};

/// Cuts `size` where it is no multiple of what is loaded at once, if `cuts`.
std::vector<std::pair<int64_t, int64_t>> ranges_of(int64_t size, bool cuts) {
  const int64_t whole = size / kHalvesAtOnce * kHalvesAtOnce;
  if (!cuts || whole == 0 || whole == size) return {{0, size}};
  return {{0, whole}, {whole, size - whole}};
}

/// Whether rows of a large product of halves begin where its operands are loaded 16 bytes at a time. cuBLASLt then has
/// kernels that do, but for depths and widths that are multiples of that, too: it takes six times as long for 50257
/// columns as for 50256.
bool is_worth_cutting(const eager::MatmulDesc& d) {
  constexpr double kLarge = 1 << 30;  // multiplications: 20 us of those kernels, which reached 100 TFLOP/s
  const auto is_apart = [](int64_t row, int64_t col) { return (row == 1 ? col : row) % kHalvesAtOnce == 0; };
  const int64_t steps = d.a_batch_stride | d.b_batch_stride | d.c_batch_stride;
  return is_half(d.dtype) && static_cast<double>(d.batch * d.m) * static_cast<double>(d.n * d.k) >= kLarge &&
         is_apart(d.a_row, d.a_col) && is_apart(d.b_row, d.b_col) && (d.batch == 1 || steps % kHalvesAtOnce == 0);
}

/// Columns are cut where rows of the result begin at such multiples, too.
std::vector<ProductPart> parts_of(const eager::MatmulDesc& d, bool cuts) {
  const auto item = static_cast<int64_t>(itemsize(d.dtype)), result_item = static_cast<int64_t>(itemsize(d.out_dtype));
  std::vector<ProductPart> parts;
  for (const auto& [column, columns] : ranges_of(d.n, cuts && d.c_row % kHalvesAtOnce == 0)) {
    for (const auto& [deep, depth] : ranges_of(d.k, cuts)) {
      ProductPart part{d};
      part.desc.n = columns, part.desc.k = depth;
      part.a = deep * d.a_col * item;
      part.b = (column * d.b_col + deep * d.b_row) * item;
      part.bias = part.c = column * result_item;
      part.adds = deep > 0;
      parts.push_back(part);
    }
  }
  return parts;
}

/// A matrix product by cuBLASLt, which adds the bias where it has an algorithm that does.
class DeviceProduct final : public BoundLibrary {
 public:
  DeviceProduct(int device, ProductSteps steps) : device_(NativeDevice::of(device)), steps_(std::move(steps)) {
    if (steps_.is_empty()) return;
    const eager::MatmulDesc d = without_relu(steps_.desc);
    const bool cuts_depth = ranges_of(d.k, true).size() > 1;
    if (is_worth_cutting(d) && bind(device, d, {.cuts = true, .keeps_sums = cuts_depth, .may_fail = true})) return;
    if (bind(device, d, {.may_fail = d.epilogue != Epilogue::kNone})) return;
    bind(device, d, {.keeps_sums = true});
  }
  bool run(std::span<void* const> addresses) const override {
    if (parts_.empty()) return true;
    BufferRef bias_holder, sums_holder;
    const void* const bias = steps_.desc.epilogue == Epilogue::kNone ? nullptr : aligned(addresses[2], bias_holder);
    if (sums_bytes_ > 0) sums_holder = device_.allocate(sums_bytes_);
    for (const ProductSteps::Offsets& o : steps_.offsets) {
      void* const c = at(addresses.back(), o.c);
      void* const sums = sums_holder ? sums_holder->data() : c;
      for (size_t i = 0; i < parts_.size(); ++i) {
        const ProductPart& part = parts_[i];
        products_[i]->run(at(addresses[0], o.a + part.a), at(addresses[1], o.b + part.b),
                          adds_bias_ ? at(bias, part.bias) : nullptr, at(sums, part.c));
      }
      if (finish_) finish_->run(sums, adds_bias_ ? nullptr : bias, c);
    }
    return true;
  }
  bool only_queues() const override { return true; }
  std::string describe() const override {
    return steps_.describe() + (parts_.size() > 1 ? " by cuBLASLt in parts" : " by cuBLASLt");
  }

  /// The epilogue that cuBLASLt runs: its relu takes nan for 0.
  static eager::MatmulDesc without_relu(eager::MatmulDesc d) {
    if (d.epilogue == Epilogue::kBiasRelu) d.epilogue = Epilogue::kBias;
    return d;
  }

 private:
  struct Way {
    bool cuts = false, keeps_sums = false;
    bool may_fail = false;  ///< or else throws
  };
  /// Whether cuBLASLt has algorithms for the product made so.
  bool bind(int device, eager::MatmulDesc d, const Way& way) {
    sums_bytes_ = 0;
    if (way.keeps_sums) keep_sums(d);
    parts_ = parts_of(d, way.cuts);
    products_.clear();
    try {
      for (const ProductPart& part : parts_) {
        products_.push_back(eager::cuda::DeviceMatmul::get(part.desc, device, part.adds));
      }
    } catch (const NotImplementedError&) {
      if (!way.may_fail) throw;
      return false;
    }
    adds_bias_ = d.epilogue != Epilogue::kNone;
    if (way.keeps_sums || steps_.desc.epilogue == Epilogue::kBiasRelu) finish_.emplace(device_, d, steps_.desc);
    return true;
  }

  /// Has the sums in memory of their own, in float32 where the result is halves, and what follows done with these.
  void keep_sums(eager::MatmulDesc& d) {
    d.epilogue = Epilogue::kNone;
    if (is_half(d.out_dtype)) d.out_dtype = DType::kFloat32;
    d.c_row = ceil_div(d.n, kHalvesAtOnce) * kHalvesAtOnce;
    d.c_batch_stride = d.m * d.c_row;
    sums_bytes_ = d.batch * d.c_batch_stride * static_cast<int64_t>(itemsize(d.out_dtype));
  }

  template <class T>
  static T* at(T* base, int64_t offset) {
    using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
    return static_cast<Byte*>(base) + offset;
  }

  /// The bias where cuBLASLt may read 16 bytes at once.
  const void* aligned(const void* bias, BufferRef& holder) const {
    if (reinterpret_cast<uintptr_t>(bias) % 16 == 0) return bias;
    const int64_t bytes = steps_.desc.n * static_cast<int64_t>(itemsize(steps_.desc.out_dtype));
    holder = device_.allocate(bytes);
    device_.copy(holder->data(), bias, bytes);
    return holder->data();
  }

  NativeDevice& device_;
  ProductSteps steps_;
  std::vector<ProductPart> parts_;
  std::vector<std::shared_ptr<const eager::cuda::DeviceMatmul>> products_;  ///< of the parts
  bool adds_bias_ = false;
  int64_t sums_bytes_ = 0;  ///< other than 0: cuBLASLt's result is in memory of its own
  std::optional<ProductFinish> finish_;
};

/// A product some of whose operands are copied first, so that they are dense.
class GatheredProduct final : public BoundLibrary {
 public:
  GatheredProduct(std::array<std::optional<DenseOperand>, 3> operands, std::unique_ptr<BoundLibrary> product)
      : operands_(std::move(operands)), product_(std::move(product)) {}
  bool run(std::span<void* const> addresses) const override {
    std::array<BufferRef, 3> holders;
    std::vector<void*> all(addresses.begin(), addresses.end());
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i]) all[i] = const_cast<void*>(operands_[i]->at(addresses[i], holders[i]));
    }
    return product_->run(all);
  }
  bool only_queues() const override { return true; }
  std::string describe() const override { return product_->describe() + ", from copies"; }

 private:
  std::array<std::optional<DenseOperand>, 3> operands_;
  std::unique_ptr<BoundLibrary> product_;
};

/// Null for products that neither cuBLASLt nor kernels of ours make.
std::unique_ptr<BoundLibrary> bind_lt_product(int device, const LibraryView& a, const LibraryView& b,
                                              const LibraryView& c, Epilogue epilogue) {
  const auto dense = [](LibraryView v) {
    v.strides = contiguous_strides(v.shape);
    return v;
  };
  NativeDevice& native = NativeDevice::of(device);
  for (const auto& [copies_a, copies_b] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
    ProductSteps steps(copies_a ? dense(a) : a, copies_b ? dense(b) : b, c, epilogue);
    if (!steps.is_empty() && !eager::cuda::can_multiply(DeviceProduct::without_relu(steps.desc))) continue;
    auto product = std::make_unique<DeviceProduct>(device, std::move(steps));
    if (!copies_a && !copies_b) return product;
    std::array<std::optional<DenseOperand>, 3> operands;
    if (copies_a) operands[0].emplace(native, a);
    if (copies_b) operands[1].emplace(native, b);
    return std::make_unique<GatheredProduct>(std::move(operands), std::move(product));
  }
  return nullptr;
}

/// An op of users that queues what it does on the device.
class QueuedCall final : public BoundLibrary {
 public:
  QueuedCall(int device, ir::Op op, const std::vector<LibraryView>& inputs, const std::vector<LibraryView>& outputs,
             std::vector<int64_t> attrs)
      : device_(device), op_(op), kernel_(*find_queued_kernel(op)), attrs_(std::move(attrs)) {
    const auto add = [&](const LibraryView& v) { views_.push_back({nullptr, v.dtype, v.shape, v.strides, v.weak}); };
    for (const LibraryView& v : inputs) {
      operands_.emplace_back(std::nullopt);
      const bool only_held = operands_.size() > 1 && waits_on_device(op);
      if (!v.weak && !only_held && !is_contiguous(v.shape, v.strides)) {
        operands_.back().emplace(NativeDevice::of(device), v);
      }
      add(operands_.back() ? operands_.back()->view() : v);
    }
    std::ranges::for_each(outputs, add);
  }

  bool run(std::span<void* const> addresses) const override {
    std::vector<eager::TensorView> views = views_;
    std::vector<BufferRef> holders(operands_.size());
    for (size_t i = 0; i < views.size(); ++i) {
      const bool copied = i < operands_.size() && operands_[i];
      views[i].data = copied ? const_cast<void*>(operands_[i]->at(addresses[i], holders[i])) : addresses[i];
    }
    const std::span<const eager::TensorView> all(views);
    eager::ErrorReport errors;
    kernel_(device_, {op_, all.first(operands_.size()), all.subspan(operands_.size()), attrs_, &errors}, holders);
    return true;
  }
  std::string describe() const override { return std::string(ir::name(op_)); }

 private:
  int device_;
  ir::Op op_;
  const QueuedKernel& kernel_;
  std::vector<int64_t> attrs_;
  std::vector<std::optional<DenseOperand>> operands_;
  std::vector<eager::TensorView> views_;
};

/// Runs a call on the host: operands are copied there, and results back.
class HostCall final : public BoundLibrary {
 public:
  HostCall(int device, ir::Op op, const std::vector<LibraryView>& inputs, const std::vector<LibraryView>& outputs,
           std::vector<int64_t> attrs)
      : device_(device),
        num_inputs_(inputs.size()),
        call_(jit::bind_library(DeviceType::kCPU, op, inputs, outputs, std::move(attrs))) {
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
          smolder::cuda::copy_to_host(memory[i]->data(), static_cast<char*>(addresses[i]) + e.first, e.bytes, device_);
          bytes.add(static_cast<int64_t>(e.bytes));
        }
      }
      host[i] = static_cast<char*>(memory[i]->data()) - e.first;
    }
    const bool good = call_->run(host);
    for (size_t i = num_inputs_; i < addresses.size(); ++i) {
      const Extent& e = extents_[i];
      if (!memory[i]) continue;
      smolder::cuda::copy_from_host(static_cast<char*>(addresses[i]) + e.first, memory[i]->data(), e.bytes, device_);
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

  int device_;
  size_t num_inputs_;
  std::unique_ptr<BoundLibrary> call_;
  std::vector<Extent> extents_;
};

}  // namespace

bool has_kernel(ir::Op op) {
  return op == ir::Op::kDot || op == ir::Op::kScan || op == ir::Op::kSorted || op == ir::Op::kSliceWrite ||
         op == ir::Op::kWideCat || is_scatter(op) || is_convolution(op) || is_attention(op) ||
         (is_transform(op) && eager::cuda::cufft_missing().empty());
}

std::string missing_for(ir::Op op) {
  return is_transform(op) && !has_kernel(op) ? "there is no cuFFT: " + eager::cuda::cufft_missing() : std::string();
}

std::unique_ptr<BoundLibrary> bind_native(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs,
                                          const std::vector<LibraryView>& outputs, const std::vector<int64_t>& attrs,
                                          bool guarded) {
  SMOLDER_INVARIANT(!guarded || can_guard(op));
  if (is_scatter(op)) return make_scatter(device, op, inputs, outputs[0], attrs, guarded);
  if (op == ir::Op::kSliceWrite) return std::make_unique<SliceWrite>(device, inputs, outputs[0], attrs);
  if (op == ir::Op::kWideCat) return std::make_unique<WideCat>(device, inputs, outputs[0], attrs);
  if (is_convolution(op)) return make_convolution(device, op, inputs, outputs[0], attrs);
  if (op == ir::Op::kScan) return make_scan(device, inputs[0], outputs[0], attrs);
  if (op == ir::Op::kSorted) return make_sorted(device, inputs[0], outputs, attrs);
  if (op == ir::Op::kDot) {
    ProductSteps steps(inputs[0], inputs[1], outputs[0], epilogue_of(inputs, attrs));
    if (auto product = make_row_product(device, steps)) return product;
    if (is_floating(inputs[0].dtype)) return make_float_product(device, steps);
    if (outputs[0].dtype == inputs[0].dtype) return make_integer_product(device, std::move(steps));
  }
  return nullptr;
}

std::unique_ptr<BoundLibrary> bind_library(int device, ir::Op op, std::vector<LibraryView> inputs,
                                           std::vector<LibraryView> outputs, std::vector<int64_t> attrs, bool guarded) {
  if (op == ir::Op::kDot && inputs.size() > 2 && !inputs[2].shape.empty() && inputs[2].strides[0] != 1) {
    std::array<std::optional<DenseOperand>, 3> operands;
    operands[2].emplace(NativeDevice::of(device), inputs[2]);
    inputs[2] = operands[2]->view();
    return std::make_unique<GatheredProduct>(std::move(operands),
                                             bind_library(device, op, inputs, outputs, std::move(attrs), guarded));
  }
  if (is_attention(op)) return bind_attention(device, op, inputs, outputs, attrs);
  if (is_transform(op) && has_kernel(op)) return bind_transform(device, op, inputs[0], outputs[0], attrs);
  if (is_convolution(op)) {
    if (auto convolution = bind_convolution(device, op, inputs, outputs[0], attrs)) return convolution;
  }
  if (auto native = bind_native(NativeDevice::of(device), op, inputs, outputs, attrs, guarded)) return native;
  if (op == ir::Op::kDot) {
    if (auto product = bind_lt_product(device, inputs[0], inputs[1], outputs[0], epilogue_of(inputs, attrs)))
      return product;
  }
  if (find_queued_kernel(op)) return std::make_unique<QueuedCall>(device, op, inputs, outputs, std::move(attrs));
  return std::make_unique<HostCall>(device, op, inputs, outputs, std::move(attrs));
}

}  // namespace smolder::jit::cuda
