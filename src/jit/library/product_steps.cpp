#include "smolder/jit/library/product_steps.h"

#include <sstream>

#include "smolder/core/size.h"

namespace smolder::jit {

using Epilogue = eager::MatmulDesc::Epilogue;

Epilogue epilogue_of(const std::vector<LibraryView>& inputs, const std::vector<int64_t>& attrs) {
  if (inputs.size() < 3 || inputs[2].shape.empty()) return Epilogue::kNone;
  return attrs.size() > 1 && attrs.back() != 0 ? Epilogue::kBiasRelu : Epilogue::kBias;
}

ProductSteps::ProductSteps(const LibraryView& a, const LibraryView& b, const LibraryView& c, Epilogue epilogue) {
  const int rank = a.shape.size();
  eager::MatmulDesc& d = desc;
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
  constexpr int64_t kMostCalls = int64_t{1} << 24;
  Size calls = 1;
  for (int i = 0; i <= axis; ++i) calls = calls * c.shape[i];
  SMOLDER_CHECK(calls.value() <= kMostCalls, NotImplementedError, "a product of matrices in ", c.shape,
                " that lie in no order is not supported: at most ", kMostCalls, " of them");
  offsets.push_back({0, 0, 0});
  for (; axis >= 0; --axis) {
    std::vector<Offsets> all;
    for (int64_t i = 0; i < c.shape[axis]; ++i) {
      const int64_t da = i * a.strides[axis] * static_cast<int64_t>(itemsize(a.dtype)),
                    db = i * b.strides[axis] * static_cast<int64_t>(itemsize(b.dtype)),
                    dc = i * c.strides[axis] * static_cast<int64_t>(itemsize(c.dtype));
      for (const Offsets& o : offsets) all.push_back({o.a + da, o.b + db, o.c + dc});
    }
    offsets = std::move(all);
  }
}

std::string ProductSteps::describe() const {
  if (is_empty()) return "dot of nothing";
  std::ostringstream out;
  out << "dot " << static_cast<int64_t>(offsets.size()) * desc.batch << " x " << desc.m << 'x' << desc.n << 'x'
      << desc.k << (desc.a_col == 1 ? "" : ", a transposed") << (desc.b_col == 1 ? "" : ", b transposed");
  if (desc.epilogue != Epilogue::kNone) out << (desc.epilogue == Epilogue::kBias ? ", bias" : ", bias and relu");
  return out.str();
}

}  // namespace smolder::jit
