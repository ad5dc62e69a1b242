#include "smolder/eager/cuda/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>

#include "smolder/core/buffer.h"
#include "smolder/core/counters.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/precision.h"

namespace smolder::eager::cuda {
namespace {

using smolder::cuda::Queue;

constexpr int64_t kMostWorkspace = int64_t{1} << 31;
constexpr size_t kRunners = 8;  ///< plans that a race is between

/// A handle is told its stream before each call, so calls take turns.
std::mutex& handle_mutex() {
  static std::mutex mutex;
  return mutex;
}

int64_t bytes_of(DnnData data) {
  return data == DnnData::kFloat32 || data == DnnData::kInt32 ? 4 : data == DnnData::kBoolean ? 1 : 2;
}

}  // namespace

DnnDescriptor::DnnDescriptor(DnnKind kind) { check_dnn(cudnn().object_create(kind, &object_), "create"); }
DnnDescriptor::~DnnDescriptor() {
  if (object_) cudnn().object_destroy(object_);
}

const DnnTarget& DnnTarget::of(int device) {
  static std::mutex mutex;
  static std::array<DnnTarget*, kMaxCudaDevices> all{};
  const std::lock_guard hold(mutex);
  if (!all[device]) {
    smolder::cuda::make_current(device);
    auto made = std::unique_ptr<DnnTarget>(new DnnTarget);
    made->device = device;
    check_dnn(cudnn().create(&made->handle), "create");
    all[device] = made.release();
  }
  return *all[device];
}

DnnTarget::DnnTarget(const std::string& text) {
  description.emplace(DnnKind::kDevice);
  description->set(DnnAttribute::kDeviceText, DnnType::kChar, std::span<const char>(text));
  description->finalize();
}

DnnAllowed dnn_allowed() {
  const Precision p = precision();
  return {.tf32 = p.cudnn_allow_tf32,
          .nondeterministic = p.cudnn_benchmark && !p.cudnn_deterministic,
          .timed = p.cudnn_benchmark};
}

DnnPlan::DnnPlan(const DnnTarget& target, const DnnDescriptor& config, std::vector<int64_t> ids)
    : target_(target), ids_(std::move(ids)) {
  if (target.handle) plan_.set(DnnAttribute::kPlanHandle, DnnType::kHandle, target.handle);
  plan_.set(DnnAttribute::kPlanConfig, config);
  if (target.description) plan_.set(DnnAttribute::kPlanDevice, *target.description);
  plan_.finalize();
  int64_t count = 0;
  check_dnn(cudnn().object_get(plan_.object(), DnnAttribute::kPlanWorkspaceBytes, DnnType::kInt64, 1, &count,
                               &workspace_bytes_),
            "get");
}

void DnnPlan::run(std::span<void* const> data, void* workspace, DriverStream stream) const {
  if (smolder::cuda::Rehearsal::current()) return;
  smolder::cuda::make_current(target_.device);
  DnnDescriptor pack(DnnKind::kVariantPack);
  pack.set(DnnAttribute::kVariantIds, DnnType::kInt64, std::span<const int64_t>(ids_));
  pack.set(DnnAttribute::kVariantAddresses, DnnType::kPointer, data);
  pack.set(DnnAttribute::kVariantWorkspace, DnnType::kPointer, workspace);
  pack.finalize();
  const std::lock_guard hold(handle_mutex());
  check_dnn(cudnn().set_stream(target_.handle, stream), "set_stream");
  check_dnn(cudnn().execute(target_.handle, plan_.object(), pack.object()), "execute");
}

DnnData dnn_data(DType dtype) {
  return dtype == DType::kFloat16    ? DnnData::kFloat16
         : dtype == DType::kBFloat16 ? DnnData::kBFloat16
                                     : DnnData::kFloat32;
}

// -- graphs

DnnGraph::Tensor DnnGraph::add(const Info& info) {
  const auto id = static_cast<int64_t>(infos_.size());
  DnnDescriptor& t = tensors_.emplace_back(DnnKind::kTensor);
  t.set(DnnAttribute::kTensorData, DnnType::kData, info.data);
  t.set(DnnAttribute::kTensorShape, info.shape);
  t.set(DnnAttribute::kTensorStrides, info.strides);
  t.set(DnnAttribute::kTensorId, DnnType::kInt64, id);
  t.set(DnnAttribute::kTensorAlignment, DnnType::kInt64, int64_t{16});
  t.set(DnnAttribute::kTensorIsVirtual, DnnType::kBoolean, !info.in_memory && !info.is_number);
  t.set(DnnAttribute::kTensorIsNumber, DnnType::kBoolean, info.is_number);
  t.finalize();
  if (info.in_memory || info.is_number) ids_.push_back(id);
  infos_.push_back(info);
  return static_cast<Tensor>(id);
}
DnnGraph::Tensor DnnGraph::tensor(DnnData data, const Dims& shape, const Dims& strides) {
  return add({data, shape, strides, true, false});
}
DnnGraph::Tensor DnnGraph::number(int rank) {
  const Dims ones = Dims::filled(rank, 1);
  return add({DnnData::kFloat32, ones, ones, false, true});
}
DnnGraph::Tensor DnnGraph::inner(DnnData data, const Dims& shape, const Dims& strides) {
  return add({data, shape, strides, false, false});
}

DnnDescriptor& DnnGraph::operation(DnnKind kind) { return operations_.emplace_back(kind); }

void DnnGraph::convolution(DnnKind kind, Tensor x, Tensor w, Tensor y, const Dims& stride, const Dims& padding,
                           const Dims& dilation) {
  DnnDescriptor& c = parts_.emplace_back(DnnKind::kConvolution);
  c.set(DnnAttribute::kConvolutionPrecision, DnnType::kData, DnnData::kFloat32);
  c.set(DnnAttribute::kConvolutionMode, DnnType::kConvolutionMode, 1);  // filters are not turned round
  c.set(DnnAttribute::kConvolutionRank, DnnType::kInt64, int64_t{stride.size()});
  c.set(DnnAttribute::kConvolutionStrides, stride);
  c.set(DnnAttribute::kConvolutionPaddingBefore, padding);
  c.set(DnnAttribute::kConvolutionPaddingAfter, padding);
  c.set(DnnAttribute::kConvolutionDilations, dilation);
  c.finalize();
  const bool forward = kind == DnnKind::kConvolutionForward, to_input = kind == DnnKind::kConvolutionInput;
  const auto first = static_cast<int>(forward    ? DnnAttribute::kForwardAlpha
                                      : to_input ? DnnAttribute::kInputAlpha
                                                 : DnnAttribute::kWeightAlpha);
  const auto attribute = [&](int i) { return static_cast<DnnAttribute>(first + i); };
  DnnDescriptor& o = operation(kind);
  o.set(attribute(0), DnnType::kFloat, 1.0f);
  o.set(attribute(1), DnnType::kFloat, 0.0f);
  o.set(attribute(2), c);
  o.set(attribute(3), tensors_[w]);
  o.set(attribute(4), tensors_[x]);
  o.set(attribute(5), tensors_[y]);
  o.finalize();
}

void DnnGraph::matmul(Tensor a, Tensor b, Tensor c) {
  DnnDescriptor& m = parts_.emplace_back(DnnKind::kMatmul);
  m.set(DnnAttribute::kMatmulPrecision, DnnType::kData, DnnData::kFloat32);
  m.finalize();
  DnnDescriptor& o = operation(DnnKind::kMatmulOperation);
  o.set(DnnAttribute::kMatmulA, tensors_[a]);
  o.set(DnnAttribute::kMatmulB, tensors_[b]);
  o.set(DnnAttribute::kMatmulC, tensors_[c]);
  o.set(DnnAttribute::kMatmulOperation, m);
  o.finalize();
}

void DnnGraph::reduce(DnnReduction how, Tensor x, Tensor y) {
  DnnDescriptor& r = parts_.emplace_back(DnnKind::kReduction);
  r.set(DnnAttribute::kReductionPrecision, DnnType::kData, DnnData::kFloat32);
  r.set(DnnAttribute::kReduction, DnnType::kReduction, how);
  r.finalize();
  DnnDescriptor& o = operation(DnnKind::kReductionOperation);
  o.set(DnnAttribute::kReductionX, tensors_[x]);
  o.set(DnnAttribute::kReductionY, tensors_[y]);
  o.set(DnnAttribute::kReductionOperation, r);
  o.finalize();
}

void DnnGraph::pointwise(DnnPointwise mode, Tensor x, Tensor y, std::optional<Tensor> b,
                         std::optional<Tensor> condition) {
  DnnDescriptor& p = parts_.emplace_back(DnnKind::kPointwise);
  p.set(DnnAttribute::kPointwiseMode, DnnType::kPointwiseMode, mode);
  p.set(DnnAttribute::kPointwisePrecision, DnnType::kData,
        mode == DnnPointwise::kGreaterEqual ? DnnData::kBoolean : DnnData::kFloat32);
  p.finalize();
  DnnDescriptor& o = operation(DnnKind::kPointwiseOperation);
  o.set(DnnAttribute::kPointwiseOperation, p);
  o.set(DnnAttribute::kPointwiseX, tensors_[x]);
  if (b) o.set(DnnAttribute::kPointwiseB, tensors_[*b]);
  if (condition) o.set(DnnAttribute::kPointwiseCondition, tensors_[*condition]);
  o.set(DnnAttribute::kPointwiseY, tensors_[y]);
  o.finalize();
}

void DnnGraph::index(Tensor x, Tensor y, int64_t axis) {
  DnnDescriptor& p = parts_.emplace_back(DnnKind::kPointwise);
  p.set(DnnAttribute::kPointwiseMode, DnnType::kPointwiseMode, DnnPointwise::kIndex);
  p.set(DnnAttribute::kPointwisePrecision, DnnType::kData, DnnData::kFloat32);
  p.set(DnnAttribute::kPointwiseAxis, DnnType::kInt64, axis);
  p.finalize();
  DnnDescriptor& o = operation(DnnKind::kPointwiseOperation);
  o.set(DnnAttribute::kPointwiseOperation, p);
  o.set(DnnAttribute::kPointwiseX, tensors_[x]);
  o.set(DnnAttribute::kPointwiseY, tensors_[y]);
  o.finalize();
}

void DnnGraph::reshape(Tensor x, Tensor y) {
  DnnDescriptor& o = operation(DnnKind::kReshapeOperation);
  o.set(DnnAttribute::kReshapeX, tensors_[x]);
  o.set(DnnAttribute::kReshapeY, tensors_[y]);
  o.finalize();
}

// -- plans

std::vector<DnnDescriptor> DnnGraph::configs(const DnnTarget& target, DnnHeuristic mode) const {
  DnnDescriptor graph(DnnKind::kGraph), heuristic(DnnKind::kHeuristic);
  std::vector<DnnObject> objects;
  for (const DnnDescriptor& o : operations_) objects.push_back(o.object());
  graph.set(DnnAttribute::kGraphOperations, DnnType::kObject, std::span<const DnnObject>(objects));
  if (target.handle) graph.set(DnnAttribute::kGraphHandle, DnnType::kHandle, target.handle);
  graph.finalize();
  heuristic.set(DnnAttribute::kHeuristicGraph, graph);
  heuristic.set(DnnAttribute::kHeuristicMode, DnnType::kHeuristicMode, mode);
  if (target.description) heuristic.set(DnnAttribute::kHeuristicDevice, *target.description);
  heuristic.finalize();
  int64_t count = 0;
  const auto get = [&](int64_t room, DnnObject* found) {
    check_dnn(
        cudnn().object_get(heuristic.object(), DnnAttribute::kHeuristicResults, DnnType::kObject, room, &count, found),
        "get");
  };
  get(0, nullptr);
  std::vector<DnnDescriptor> all;
  std::vector<DnnObject> found;
  for (int64_t i = 0; i < count; ++i) found.push_back(all.emplace_back(DnnKind::kEngineConfig).object());
  get(count, found.data());
  while (static_cast<int64_t>(all.size()) > count) all.pop_back();
  return all;
}

bool DnnGraph::allows(const DnnDescriptor& config, const DnnAllowed& allowed) const {
  DnnDescriptor engine(DnnKind::kEngine);
  DnnObject object = engine.object();
  int64_t count = 0;
  check_dnn(cudnn().object_get(config.object(), DnnAttribute::kConfigEngine, DnnType::kObject, 1, &count, &object),
            "get");
  std::array<DnnNote, 32> notes;
  check_dnn(cudnn().object_get(object, DnnAttribute::kEngineNotes, DnnType::kNumericalNote,
                               static_cast<int64_t>(notes.size()), &count, notes.data()),
            "get");
  const std::span<const DnnNote> known(notes.data(), static_cast<size_t>(count));
  const auto has = [&](DnnNote note) { return std::ranges::find(known, note) != known.end(); };
  const bool single = infos_[0].data == DnnData::kFloat32;
  return !has(DnnNote::kReducedReduction) && (allowed.nondeterministic || !has(DnnNote::kNondeterministic)) &&
         !(single && has(DnnNote::kDownConvertInputs)) && !(single && !allowed.tf32 && has(DnnNote::kTensorCore));
}

std::shared_ptr<const DnnPlan> DnnGraph::plan(const DnnTarget& target, const DnnAllowed& allowed) const {
  static Counter& made = counter("cudnn.plans");
  static Counter& refused = counter("cudnn.refused");
  std::vector<std::shared_ptr<const DnnPlan>> plans;
  const size_t wanted = allowed.timed && target.handle ? kRunners : 1;
  for (const DnnHeuristic mode : {DnnHeuristic::kA, DnnHeuristic::kFallback}) {
    if (!plans.empty()) break;
    // cuDNN reports by a failure that it does not support the graph, an engine or the sizes.
    try {
      for (const DnnDescriptor& config : configs(target, mode)) {
        try {
          if (plans.size() == wanted) break;
          if (!allows(config, allowed)) continue;
          auto plan = std::make_shared<const DnnPlan>(target, config, ids_);
          if (plan->workspace_bytes() <= kMostWorkspace) plans.push_back(std::move(plan));
        } catch (const RuntimeError&) {
          continue;
        }
      }
    } catch (const RuntimeError&) {
      continue;
    }
  }
  (plans.empty() ? refused : made).add();
  if (plans.empty()) return nullptr;
  return plans.size() > 1 ? fastest(std::move(plans), target.device) : plans[0];
}

double DnnGraph::milliseconds(const DnnPlan& plan, std::span<void* const> data, int device) const {
  constexpr int kRuns = 3;
  smolder::cuda::Stream& stream = Queue::of(device).stream();
  const BufferRef workspace = smolder::cuda::allocate(static_cast<size_t>(plan.workspace_bytes()), device);
  smolder::cuda::Event begin(device, true), end(device, true);
  plan.run(data, workspace->data(), stream.handle());
  begin.record(stream);
  for (int i = 0; i < kRuns; ++i) plan.run(data, workspace->data(), stream.handle());
  end.record(stream);
  end.synchronize();
  return end.milliseconds_since(begin) / kRuns;
}

std::shared_ptr<const DnnPlan> DnnGraph::fastest(std::vector<std::shared_ptr<const DnnPlan>> plans, int device) const {
  std::vector<BufferRef> memory;
  std::vector<void*> data;
  float number = 1;
  for (const int64_t id : ids_) {
    const Info& info = infos_[static_cast<size_t>(id)];
    if (info.is_number) {
      data.push_back(&number);
      continue;
    }
    int64_t elements = 1;
    for (int i = 0; i < info.shape.size(); ++i) elements += (info.shape[i] - 1) * info.strides[i];
    const auto bytes = static_cast<size_t>(elements * bytes_of(info.data));
    memory.push_back(smolder::cuda::allocate(bytes, device));
    data.push_back(memory.back()->data());
    smolder::cuda::fill(Queue::of(device).stream(), data.back(), 0, bytes);
  }
  std::shared_ptr<const DnnPlan> best;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& plan : plans) {
    const double time = milliseconds(*plan, data, device);
    if (time < least) least = time, best = plan;
  }
  return best ? best : plans[0];
}

std::shared_ptr<const DnnPlan> dnn_plan(int device, std::vector<int64_t> key, const DnnMaker& make) {
  if (!precision().cudnn_enabled || cudnn_version() == 0) return nullptr;
  const DnnAllowed allowed = dnn_allowed();
  key.insert(key.end(), {device, allowed.tf32, allowed.nondeterministic, allowed.timed});
  struct Kept {
    std::weak_ptr<const DnnPlan> plan;
    bool is_refused = false;
  };
  static std::mutex mutex;
  static auto* const all = new std::map<std::vector<int64_t>, Kept>;
  const std::lock_guard hold(mutex);
  Kept& kept = (*all)[std::move(key)];
  auto plan = kept.plan.lock();
  if (plan || kept.is_refused) return plan;
  try {
    smolder::cuda::make_current(device);
    plan = make(DnnTarget::of(device), allowed);
  } catch (const RuntimeError& e) {  // as of a library that is too new for the driver
    warn("cudnn", std::string("it is not used: ") + e.what());
  }
  kept = {plan, plan == nullptr};
  return plan;
}

}  // namespace smolder::eager::cuda
