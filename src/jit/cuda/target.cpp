#include "smolder/jit/cuda/target.h"

#include <utility>

#include "smolder/jit/cuda/attention.h"
#include "smolder/jit/cuda/backend.h"
#include "smolder/jit/cuda/join_gradients.h"
#include "smolder/jit/cuda/library.h"
#include "smolder/jit/cuda/native/copy.h"
#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/cuda/native/scatter.h"
#include "smolder/jit/cuda/row_size.h"
#include "smolder/jit/cuda/schedule.h"
#include "smolder/jit/cuda/together.h"
#include "smolder/jit/program.h"

namespace smolder::jit::cuda {
namespace {

/// Keeps a plan to rows for which a kernel that is made for those of the sample is not slow.
void guard_rows(ir::SymTable& sym, ir::Dim n, const RowSize& row) {
  const RowRange range = row_range(n.value, row);
  if (range.first > 0) sym.less_equal(n, range.first);
  if (range.last < INT64_MAX) sym.less_equal(n, range.last);
  if (row.vector > 1 && !row.rest) {
    sym.equal(sym.mod(n, row.vector), 0);
  } else if (!n.is_constant()) {
    sym.guard(ir::GuardKind::kNotEqual, sym.mod(n, n.value > kLongRow ? 2 * kUnit : kUnit), 0);
  }
}

/// How long rows of the sample are says how a kernel is made: it takes others, too. A reduction of all there is has as
/// many elements as a batch, which may be another each time, and a plan is not made anew for that.
void set_rows(Program& p) {
  std::vector<int64_t> ints;
  for (Step& step : p.steps) {
    if (!step.kernel || step.kernel->positions.value <= 1) continue;
    ints.clear();
    for (const ir::Dim& d : step.kernel->ints) ints.push_back(d.value);
    const RowSize row = row_size(step.kernel->kernel, ints);
    step.kernel->kernel.row = row;
    if (row == RowSize{}) continue;
    const IntRef n = row_extent(step.kernel->kernel);
    if (!n.is_constant()) guard_rows(p.graph.sym, step.kernel->ints[static_cast<size_t>(n.slot)], row);
  }
}

class CudaTarget final : public DeviceTarget {
 public:
  Backend& backend(int device) override { return cuda_backend(device); }

  const ReduceOrder& reduce_order() override { return cuda::reduce_order(); }
  bool takes_attention(int device, ir::Graph& g, const ir::Node& n, bool mask_has_gradient, bool allow_tf32) override {
    return cuda::takes_attention(device, g, n, mask_has_gradient, allow_tf32);
  }
  void append_attention(ir::Builder& b, ir::Graph& g, const ir::Node& n, bool rows_first,
                        ir::ValueId* results) override {
    cuda::append_attention(b, g, n, rows_first, results);
  }
  bool join_gradients(Program& program) override { return cuda::join_gradients(program); }
  void set_row_sizes(Program& program) override { set_rows(program); }
  bool may_run_together(const Kernel& kernel) override { return cuda::may_run_together(kernel); }

  bool has_kernel(ir::Op op) override { return cuda::has_kernel(op); }
  std::string missing_for(ir::Op op) override { return cuda::missing_for(op); }
  std::unique_ptr<BoundLibrary> bind_library(int device, ir::Op op, std::vector<LibraryView> inputs,
                                             std::vector<LibraryView> outputs, std::vector<int64_t> attrs,
                                             bool guarded) override {
    return cuda::bind_library(device, op, std::move(inputs), std::move(outputs), std::move(attrs), guarded);
  }
  std::unique_ptr<BoundLibrary> bind_index_check(int device, const LibraryView& index, int64_t extent) override {
    return make_index_check(NativeDevice::of(device), index, extent);
  }
  std::vector<std::function<void()>> take_unready() override { return NativeDevice::take_unready(); }
  void copy(int device, void* to, const void* from, int64_t bytes) override {
    NativeDevice::of(device).copy(to, from, bytes);
  }
  void* dense(int device, const LibraryView& view, void* address, BufferRef& holder) override {
    const DenseOperand operand(NativeDevice::of(device), view);
    return const_cast<void*>(operand.at(address, holder));
  }
};

}  // namespace

DeviceTarget& target() {
  static CudaTarget only;
  return only;
}

}  // namespace smolder::jit::cuda
