#include "smolder/jit/lower/user_lowering.h"

#include <mutex>
#include <unordered_map>

#include "smolder/eager/dispatcher.h"
#include "smolder/ir/builder.h"
#include "smolder/jit/cost.h"
#include "smolder/jit/plan.h"

namespace smolder::jit {
namespace {

struct Lowerings {
  std::mutex lock;
  std::unordered_map<ir::Op, std::unique_ptr<const LoopLowering>> of;  ///< never taken out

  static Lowerings& get() {
    static Lowerings* const lowerings = new Lowerings;
    return *lowerings;
  }
};

LoopCall::Operand operand_of(const LibraryCall::Operand& x) {
  return {x.dtype,
          x.shape,
          x.strides,
          x.offset,
          x.kind == LibraryCall::Operand::kParameter,
          x.kind == LibraryCall::Operand::kAbsent};
}

double cost_of(const Stmt& s) {
  double cost = statement_cost(s);
  for (const Stmt& inner : s.body) cost += cost_of(inner);
  return cost;
}

/// Does the kernel fit the call? What `verify` checks is within the kernel.
void check(const LibraryCall& call, const Kernel& k, const KernelCall& made, size_t ints) {
  SMOLDER_CHECK(k.buffers.size() == made.buffers.size() && k.scalars.size() == made.scalars.size() &&
                    k.num_ints == static_cast<int>(ints) && k.num_errors == 0,
                ValueError, "it has ", k.buffers.size(), " buffers, ", k.scalars.size(), " scalars, ", k.num_ints,
                " ints and ", k.num_errors, " errors; the call has ", made.buffers.size(), ", ", made.scalars.size(),
                ", ", ints, " and 0");
  size_t b = 0;
  for (const auto* const list : {&call.inputs, &call.outputs}) {
    for (const LibraryCall::Operand& x : *list) {
      if (x.kind != LibraryCall::Operand::kBuffer) continue;
      SMOLDER_CHECK(k.buffers[b].dtype == x.dtype && k.buffers[b].write == (list == &call.outputs), ValueError, "b", b,
                    " must be of ", name(x.dtype), list == &call.outputs ? " and written" : " and read only");
      ++b;
    }
  }
}

/// One call by itself: a plan of one op at these sizes.
std::shared_ptr<const Instance> compiled(const eager::KernelCall& call) {
  ir::Graph g;
  ir::Builder b(g);
  std::vector<ir::ValueId> inputs;
  int leaves = 0, parameters = 0;
  for (const eager::TensorView& v : call.inputs) {
    if (v.weak) {
      inputs.push_back(b.parameter(parameters++, category(v.dtype)).id);
    } else if (!v.data && v.shape.empty()) {
      inputs.push_back(ir::kNone);
    } else {
      inputs.push_back(b.leaf(leaves++, v.dtype, ir::SymDims(v.shape), ir::SymDims(v.strides)).id);
    }
  }
  std::vector<ir::ValueInfo> results;
  for (const eager::TensorView& v : call.outputs) results.push_back({ir::kNone, v.dtype, false, ir::SymDims(v.shape)});
  const ir::ValueId first = g.append(call.op, std::move(inputs), {call.attrs.begin(), call.attrs.end()}, results);
  for (size_t i = 0; i < results.size(); ++i) g.outputs.push_back(first + static_cast<ir::ValueId>(i));
  return Plan::compile(g)->bind({});
}

/// A key of all in a call that its plan depends on.
std::string key_of(const eager::KernelCall& call) {
  std::string out;
  const auto put = [&](int64_t word) { out.append(reinterpret_cast<const char*>(&word), sizeof word); };
  for (const auto& list : {call.inputs, call.outputs}) {
    put(static_cast<int64_t>(list.size()));
    for (const eager::TensorView& v : list) {
      put(static_cast<int64_t>(v.dtype) << 16 | int64_t{v.weak} << 8 | int64_t{v.data != nullptr} << 4 |
          v.shape.size());
      for (const int64_t e : v.shape) put(e);
      for (const int64_t e : v.strides) put(e);
    }
  }
  for (const int64_t word : call.attrs) put(word);
  return out;
}

/// Runs an op eagerly by its lowering, remembering the plans.
class LoweredKernel {
 public:
  void operator()(const eager::KernelCall& call) const {
    std::vector<void*> leaves, outputs;
    std::vector<uint64_t> parameters;
    for (const eager::TensorView& v : call.inputs) {
      if (v.weak) {
        parameters.push_back(*static_cast<const uint64_t*>(v.data));
      } else if (v.data || !v.shape.empty()) {
        leaves.push_back(v.data);
      }
    }
    for (const eager::TensorView& v : call.outputs) outputs.push_back(v.data);
    instance(call)->run({leaves, parameters, outputs});
  }

 private:
  std::shared_ptr<const Instance> instance(const eager::KernelCall& call) const {
    constexpr size_t kMost = 1024;
    const std::string key = key_of(call);
    {
      const std::lock_guard hold(shared_->lock);
      if (const auto found = shared_->plans.find(key); found != shared_->plans.end()) return found->second;
    }
    auto made = compiled(call);
    const std::lock_guard hold(shared_->lock);
    if (shared_->plans.size() >= kMost) shared_->plans.clear();
    return shared_->plans.emplace(key, std::move(made)).first->second;
  }

  struct Shared {
    std::mutex lock;
    std::unordered_map<std::string, std::shared_ptr<const Instance>> plans;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace

void register_lowering(ir::Op op, LoopLowering lowering) {
  SMOLDER_CHECK(ir::is_user_op(op), RuntimeError, ir::name(op), ": its lowering is built in and can't be replaced");
  SMOLDER_CHECK(lowering, ValueError, ir::name(op), ": the lowering is empty");
  Lowerings& lowerings = Lowerings::get();
  {
    const std::lock_guard hold(lowerings.lock);
    SMOLDER_CHECK(lowerings.of.emplace(op, std::make_unique<const LoopLowering>(std::move(lowering))).second,
                  RuntimeError, ir::name(op), " has a lowering already");
  }
  if (!eager::find_kernel(eager::DispatchKey::kCPU, op)) {
    eager::register_kernel(eager::DispatchKey::kCPU, op, LoweredKernel());
  }
}

const LoopLowering* find_lowering(ir::Op op) {
  if (!ir::is_user_op(op)) return nullptr;
  Lowerings& lowerings = Lowerings::get();
  const std::lock_guard hold(lowerings.lock);
  const auto found = lowerings.of.find(op);
  return found == lowerings.of.end() ? nullptr : found->second.get();
}

std::unique_ptr<KernelCall> lower_call(Program& p, const LibraryCall& call, const LoopLowering& lowering) {
  auto made = std::make_unique<KernelCall>();
  std::vector<LoopCall::Operand> inputs, outputs;
  std::vector<BufferId> buffers;
  std::vector<ScalarSource> scalars;
  for (const LibraryCall::Operand& x : call.inputs) {
    SMOLDER_CHECK(x.kind != LibraryCall::Operand::kNumber, NotImplementedError, ir::name(call.op),
                  ": a lowering that is given a number computed in the step is not supported");
    inputs.push_back(operand_of(x));
    if (x.kind == LibraryCall::Operand::kBuffer) buffers.push_back(x.buffer);
    if (x.kind == LibraryCall::Operand::kParameter) scalars.push_back({x.parameter, category(x.dtype)});
  }
  for (const LibraryCall::Operand& x : call.outputs) {
    outputs.push_back(operand_of(x));
    buffers.push_back(x.buffer);
  }
  const LoopKernel written = lowering({p.graph.sym, inputs, outputs, call.attrs});
  made->buffers = buffers;
  made->scalars = scalars;
  Kernel& k = made->kernel;
  try {
    k = parse_loop(written.text);
    check(call, k, *made, written.ints.size());
    for (size_t i = 0; i < scalars.size(); ++i) k.scalars[i] = scalars[i].category;
    verify(k);
  } catch (const Error& e) {
    raise<ValueError>("the lowering of ", ir::name(call.op), ": ", e.what(), "; it is\n", written.text);
  }
  made->positions = 1;
  for (const IntRef& e : k.root.extents) {
    made->positions = p.graph.sym.mul(made->positions, e.is_constant() ? ir::Dim(e.constant) : written.ints[e.slot]);
  }
  made->elements = 1;
  for (const auto* const list : {&inputs, &outputs}) {
    for (const LoopCall::Operand& x : *list) {
      const ir::Dim n = p.graph.sym.numel(x.shape);
      if (n.value > made->elements.value) made->elements = n;
    }
  }
  made->element_cost = cost_of(k.root);
  const Renumbering r = canonicalize(k);
  made->buffers.clear();
  made->scalars.clear();
  for (const int32_t old : r.buffers) made->buffers.push_back(buffers[old]);
  for (const int32_t old : r.ints) made->ints.push_back(written.ints[old]);
  for (const int32_t old : r.scalars) made->scalars.push_back(scalars[old]);
  return made;
}

}  // namespace smolder::jit
