// Elementwise primitives and casts: operands are brought, a block at a time, into plain arrays of the compute
// type, where that is not what they are already.
#include <algorithm>
#include <optional>
#include <vector>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/blocks.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/strided.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/ir/infer.h"

namespace smolder::eager::cpu {
namespace {

using ir::scalar::Primitive;
using ir::scalar::PrimitiveInfo;

constexpr int kMaxOperands = 3;
/// Blocks below which arithmetic that costs some ten cycles an element stays on one thread.
constexpr int64_t kCostlyGrain = 8 * kBlock;

struct alignas(64) Block {
  char bytes[kBlock * sizeof(double)];
};

/// A run-time number lies in memory as int64 or double, whatever its dtype.
TensorView stored(TensorView v) {
  if (v.weak) v.dtype = is_floating(v.dtype) ? DType::kFloat64 : DType::kInt64;
  return v;
}

/// One operand as blocks of `dtype`.
class Source {
 public:
  Source(const TensorView& v, const Dims& shape, DType dtype)
      : sequence_(v, shape), convert_(v.dtype == dtype ? nullptr : cast_fn(v.dtype, dtype)) {}

  bool uniform() const { return sequence_.uniform(); }

  /// Elements [begin, begin + count): where they lie, or in `block`.
  const void* get(int64_t begin, int64_t count, Block& block) const {
    const void* at = sequence_.direct(begin, count);
    if (at && !convert_) return at;
    if (!convert_) {
      sequence_.read(begin, count, block.bytes);
      return block.bytes;
    }
    Block raw;
    if (!at) {
      sequence_.read(begin, count, raw.bytes);
      at = raw.bytes;
    }
    convert_(at, block.bytes, count);
    return block.bytes;
  }

 private:
  Sequence sequence_;
  CastFn convert_;
};

/// The result, from blocks of `dtype`.
class Sink {
 public:
  Sink(const TensorView& v, DType dtype)
      : sequence_(v), convert_(v.dtype == dtype ? nullptr : cast_fn(dtype, v.dtype)) {}

  /// Where to put elements [begin, begin + count): straight into the result when that will do.
  void* place(int64_t begin, int64_t count, Block& block) const {
    void* at = convert_ ? nullptr : sequence_.direct(begin, count);
    return at ? at : block.bytes;
  }
  void put(int64_t begin, int64_t count, const void* from) const {
    void* at = sequence_.direct(begin, count);
    if (at == from) return;
    if (!convert_) return sequence_.write(begin, count, from);
    if (at) return convert_(from, at, count);
    Block raw;
    convert_(from, raw.bytes, count);
    sequence_.write(begin, count, raw.bytes);
  }

 private:
  Sequence sequence_;
  CastFn convert_;
};

/// Dtype that the primitive computes in.
DType arithmetic_dtype(const KernelCall& call) {
  const bool select = call.op == ir::Op::kWhere;
  for (const TensorView& v : call.inputs.subspan(select ? 1 : 0)) {
    if (!v.weak) return v.dtype;
  }
  if (ir::info(call.op).dtype_rule != ir::DTypeRule::kBool) return call.outputs[0].dtype;
  ir::Meta metas[kMaxOperands];
  const ir::Meta* pointers[kMaxOperands];
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    metas[i] = {{}, call.inputs[i].dtype, true};
    pointers[i] = &metas[i];
  }
  return ir::elementwise_types(call.op, {pointers, call.inputs.size()}).compute;
}

/// Arithmetic with a polynomial or a division in it.
bool is_costly(Primitive p) {
  const PrimitiveInfo& row = ir::scalar::info(p);
  if (row.rounding == PrimitiveInfo::kExact) return false;
  return p != Primitive::kAdd && p != Primitive::kSub && p != Primitive::kMul && p != Primitive::kFma;
}

/// Runs `fn` over [begin, end) of the result.
void run_range(BlockFn fn, std::span<const std::optional<Source>> sources, const Sink& sink, int64_t begin,
               int64_t end) {
  Block blocks[kMaxOperands], result;
  const void* in[kMaxOperands];
  // Values that are the same everywhere are laid out once.
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i]->uniform()) in[i] = sources[i]->get(begin, std::min(kBlock, end - begin), blocks[i]);
  }
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    for (size_t i = 0; i < sources.size(); ++i) {
      if (!sources[i]->uniform()) in[i] = sources[i]->get(at, count, blocks[i]);
    }
    void* out = sink.place(at, count, result);
    fn(in, out, count);
    sink.put(at, count, out);
  }
}

}  // namespace

void run_elementwise(const KernelCall& call) {
  const auto primitive = static_cast<Primitive>(call.op);
  const DType dtype = arithmetic_dtype(call), compute = compute_type(dtype);
  const TensorView out = stored(call.outputs[0]);
  SMOLDER_INVARIANT(call.inputs.size() <= kMaxOperands);
  std::optional<Source> sources[kMaxOperands];
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const bool condition = call.op == ir::Op::kWhere && i == 0;
    sources[i].emplace(stored(call.inputs[i]), out.shape, condition ? DType::kBool : compute);
  }
  const BlockFn fn = block_fn(primitive, compute);
  const Sink sink(out, ir::scalar::info(primitive).result_dtype(compute));
  parallel_for(numel(out.shape), is_costly(primitive) ? kCostlyGrain : kGrain,
               [&](int64_t begin, int64_t end) { run_range(fn, {sources, call.inputs.size()}, sink, begin, end); });
}

void run_cast(const KernelCall& call) {
  const TensorView in = stored(call.inputs[0]), out = stored(call.outputs[0]);
  const Source source(in, out.shape, out.dtype);
  const Sink sink(out, out.dtype);
  parallel_for(numel(out.shape), kGrain, [&](int64_t begin, int64_t end) {
    Block block;
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      sink.put(at, count, source.get(at, count, block));
    }
  });
}

}  // namespace smolder::eager::cpu
