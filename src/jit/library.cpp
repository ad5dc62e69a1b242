#include "smolder/jit/library.h"

#include <algorithm>
#include <sstream>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/matmul.h"
#include "smolder/eager/dispatcher.h"

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

bool is_fallback(Op op) {
  switch (op) {
    case Op::kDot:
    case Op::kConvForward:
    case Op::kConvBackwardInput:
    case Op::kConvBackwardWeight:
    case Op::kScan:
    case Op::kSorted:
      return false;
    default:
      return is_library(op) && !ir::info(op).flags.updates && !is_users(op);
  }
}

bool is_users(Op op) { return ir::is_user_op(op) || !ir::info(op).flags.primitive; }

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

/// A matrix product: as many batches as one stride walks are one call, the others a loop. A bias is the third of four
/// addresses.
class Product final : public BoundLibrary {
 public:
  using Epilogue = eager::MatmulDesc::Epilogue;

  Product(const LibraryView& a, const LibraryView& b, const LibraryView& c, Epilogue epilogue) {
    const int rank = a.shape.size();
    eager::MatmulDesc d;
    d.dtype = a.dtype;
    d.out_dtype = c.dtype;
    d.epilogue = epilogue;
    d.m = c.shape[rank - 2];
    d.n = c.shape[rank - 1];
    d.k = a.shape[rank - 1];
    d.a_row = a.strides[rank - 2], d.a_col = a.strides[rank - 1];
    d.b_row = b.strides[rank - 2], d.b_col = b.strides[rank - 1];
    d.c_row = c.strides[rank - 2];
    int axis = rank - 3;
    for (; axis >= 0; --axis) {
      const int64_t extent = c.shape[axis];
      if (extent == 1) continue;
      if (d.batch == 1) {
        d.a_batch_stride = a.strides[axis], d.b_batch_stride = b.strides[axis], d.c_batch_stride = c.strides[axis];
      } else if (a.strides[axis] != d.a_batch_stride * d.batch || b.strides[axis] != d.b_batch_stride * d.batch ||
                 c.strides[axis] != d.c_batch_stride * d.batch) {
        break;
      }
      d.batch *= extent;
    }
    add_offsets(a, b, c, axis);
    flops_ = 2.0 * static_cast<double>(d.batch) * static_cast<double>(d.m) * static_cast<double>(d.n) *
             static_cast<double>(d.k);
    if (d.batch > 0 && d.m > 0 && d.n > 0 && !offsets_.empty()) product_ = eager::Matmul::get(d);
  }

  bool run(std::span<void* const> addresses) const override {
    if (!product_) return true;
    const void* const bias = product_->desc().epilogue == Epilogue::kNone ? nullptr : addresses[2];
    const auto one = [&](const Offsets& o) {
      product_->run(static_cast<char*>(addresses[0]) + o.a, static_cast<char*>(addresses[1]) + o.b,
                    static_cast<char*>(addresses.back()) + o.c, bias);
    };
    if (offsets_.size() == 1) {
      one(offsets_[0]);
    } else if (flops_ > kSharedFlops) {
      for (const Offsets& o : offsets_) one(o);
    } else {
      // Small ones share threads by the product rather than each in itself.
      const auto n = static_cast<int64_t>(offsets_.size());
      const auto grain = std::max<int64_t>(1, static_cast<int64_t>(kRangeFlops / std::max(flops_, 1.0)));
      parallel_for(n, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) one(offsets_[i]);
      });
    }
    return true;
  }

  std::string describe() const override {
    if (!product_) return "dot of nothing";
    const eager::MatmulDesc& d = product_->desc();
    std::ostringstream out;
    out << "dot " << offsets_.size() * d.batch << " x " << d.m << 'x' << d.n << 'x' << d.k
        << (d.a_col == 1 ? "" : ", a transposed") << (d.b_col == 1 ? "" : ", b transposed");
    if (d.epilogue != Epilogue::kNone) out << (d.epilogue == Epilogue::kBias ? ", bias" : ", bias and relu");
    return out.str();
  }

 private:
  static constexpr double kSharedFlops = 50e6, kRangeFlops = 1e6;
  struct Offsets {
    int64_t a, b, c;  ///< bytes
  };

  void add_offsets(const LibraryView& a, const LibraryView& b, const LibraryView& c, int last_axis) {
    offsets_.push_back({0, 0, 0});
    for (int axis = last_axis; axis >= 0; --axis) {
      std::vector<Offsets> all;
      for (int64_t i = 0; i < c.shape[axis]; ++i) {
        const int64_t da = i * a.strides[axis] * static_cast<int64_t>(itemsize(a.dtype)),
                      db = i * b.strides[axis] * static_cast<int64_t>(itemsize(b.dtype)),
                      dc = i * c.strides[axis] * static_cast<int64_t>(itemsize(c.dtype));
        for (const Offsets& o : offsets_) all.push_back({o.a + da, o.b + db, o.c + dc});
      }
      offsets_ = std::move(all);
    }
  }

  std::shared_ptr<const eager::Matmul> product_;
  std::vector<Offsets> offsets_;
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<BoundLibrary> bind_library(Op op, std::vector<LibraryView> inputs, std::vector<LibraryView> outputs,
                                           std::vector<int64_t> attrs) {
  if (op == Op::kDot) {
    const DType in = inputs[0].dtype, out = outputs[0].dtype;
    if (out == in || (is_half(in) && out == DType::kFloat32)) {
      using enum eager::MatmulDesc::Epilogue;
      const auto epilogue = inputs.size() < 3 ? kNone : attrs.back() != 0 ? kBiasRelu : kBias;  // see join_bias.h
      return std::make_unique<Product>(inputs[0], inputs[1], outputs[0], epilogue);
    }
  }
  return std::make_unique<EagerCall>(op, std::move(inputs), std::move(outputs), std::move(attrs));
}

}  // namespace smolder::jit
