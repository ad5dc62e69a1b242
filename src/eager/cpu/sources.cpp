// Primitives that make elements out of nothing: positions and random bits.
#include <algorithm>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/blocks.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/strided.h"
#include "smolder/eager/dispatcher.h"

namespace smolder::eager::cpu {
namespace {

struct alignas(64) Block {
  int64_t elements[kBlock];
};

/// Fills `out` block by block: `f(begin, count, elements)`.
void generate(const TensorView& out, auto f) {
  const Sequence to(out);
  parallel_for(numel(out.shape), kGrain, [&](int64_t begin, int64_t end) {
    Block block;
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      f(at, count, block.elements);
      to.write(at, count, block.elements);
    }
  });
}

}  // namespace

void run_iota(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const int axis = normalize_axis(call.attrs.back(), out.shape.size());
  int64_t inner = 1;
  for (int a = axis + 1; a < out.shape.size(); ++a) inner *= out.shape[a];
  const int64_t n = out.shape[axis];
  generate(out, [&](int64_t begin, int64_t count, int64_t* elements) {
    int64_t position = begin / inner % n, within = begin % inner;
    for (int64_t i = 0; i < count; ++i) {
      elements[i] = position;
      if (++within == inner) {
        within = 0;
        if (++position == n) position = 0;
      }
    }
  });
}

void run_random_bits(const KernelCall& call) {
  int64_t words[2];  // seed, offset
  for (int i = 0; i < 2; ++i) {
    const TensorView& v = call.inputs[i];
    SMOLDER_CHECK(numel(v.shape) == 1 && !is_floating(v.dtype), TypeError,
                  "random_bits: seed and offset must be single integers, got ", describe(call));
    cast_fn(v.weak ? DType::kInt64 : v.dtype, DType::kInt64)(v.data, &words[i], 1);
  }
  generate(call.outputs[0], [&](int64_t begin, int64_t count, int64_t* elements) {
    random_block(words[0], words[1], begin, count, elements);
  });
}

}  // namespace smolder::eager::cpu
