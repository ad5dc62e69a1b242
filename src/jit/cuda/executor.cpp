// Running an instance on CUDA: everything is queued, in order, and the host goes on.
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/jit/arena.h"
#include "smolder/jit/plan_impl.h"

namespace smolder::jit {

namespace {

constexpr int kDevice = 0;

/// The numbers of a run where kernels read them. More than the ring holds lie in memory that `own` keeps until the
/// kernels are queued.
const uint64_t* upload(smolder::cuda::Queue& queue, const std::vector<uint64_t>& numbers, BufferRef& own) {
  if (numbers.empty()) return nullptr;
  const size_t bytes = numbers.size() * sizeof(uint64_t);
  if (bytes <= smolder::cuda::Queue::kRingBytes) return static_cast<uint64_t*>(queue.upload(numbers.data(), bytes));
  own = allocate(bytes, {DeviceType::kCUDA, kDevice});
  smolder::cuda::copy_from_host(own->data(), numbers.data(), bytes, kDevice);
  return static_cast<uint64_t*>(own->data());
}

}  // namespace

std::vector<OpSite> InstanceImpl::run_on_cuda(const RunArguments& args) const {
  smolder::cuda::Queue& queue = smolder::cuda::Queue::of(kDevice);
  const Arena::Lease arena = Arena::of(DeviceType::kCUDA).reserve(arena_bytes_);
  fill_tables(args, arena.base);
  RunTables& t = RunTables::of_thread();
  BufferRef own, errors;
  const uint64_t* const scalars = upload(queue, t.scalars, own);
  const size_t error_bytes = t.errors.size() * sizeof(uint32_t);
  if (error_bytes > 0) {
    errors = allocate(error_bytes, {DeviceType::kCUDA, kDevice});
    fill(queue.stream(), errors->data(), 0, error_bytes);
  }
  auto* const error_words = errors ? static_cast<uint32_t*>(errors->data()) : nullptr;

  std::vector<OpSite> reports;
  for (const Launch& launch : launches_) {
    if (launch.library >= 0) {
      const LibraryStep& step = library_[launch.library];
      uint32_t* const error = step.error >= 0 ? error_words + step.error : nullptr;
      if (!step.call->queue({t.pointers.data() + step.pointers, step.num_pointers}, error)) {
        reports.push_back(*step.site);
      }
      continue;
    }
    for (uint32_t i = 0; i < launch.num_segments; ++i) {
      const Segment& s = segments_[launch.first_segment + i];
      launch.device->launch(queue.stream(), t.pointers.data() + s.pointers, ints_.data() + s.ints, scalars + s.scalars,
                            error_words + s.errors, s.positions);
    }
  }
  if (error_bytes > 0) {
    smolder::cuda::copy_to_host(t.errors.data(), errors->data(), error_bytes, kDevice);
    for (size_t i = 0; i < errors_.size(); ++i) {
      if (t.errors[i] != 0) reports.push_back(*errors_[i]);
    }
  }
  return reports;
}

}  // namespace smolder::jit
