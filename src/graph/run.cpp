#include "smolder/graph/run.h"

#include <bit>

#include "smolder/lazy/autocast.h"
#include "smolder/lazy/random.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/view.h"

namespace smolder::graph {
namespace {

/// Kinds of inputs that are kept; beyond it all are forgotten.
constexpr size_t kMostSteps = 256;

/// The key that a recorded step holds for, as bytes: metadata, devices, which tensors are one, and modes.
std::string key_of(const std::vector<Tensor>& known) {
  std::string out;
  const auto put = [&](uint64_t word) { out.append(reinterpret_cast<const char*>(&word), sizeof word); };
  put(uint64_t{lazy::grad_enabled()} | uint64_t{lazy::inference_mode_enabled()} << 1);
  std::unordered_map<const lazy::Value*, size_t> seen;
  for (size_t i = 0; i < known.size(); ++i) {
    const lazy::TensorImpl* const impl = known[i].impl();
    put(std::bit_cast<uint64_t>(impl->value->meta));  // one address for all equal ones
    put(number_of(impl->value->device) | uint64_t{impl->requires_grad} << 8 | uint64_t{impl->inference} << 9 |
        uint64_t{impl->base != nullptr} << 10 | uint64_t{seen.try_emplace(impl->value.get(), i).first->second} << 16);
  }
  return out;
}

}  // namespace

std::vector<Tensor> Runner::run(const State& s, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> weights, known = inputs;
  for (const Weight& w : s.weights) {
    SMOLDER_CHECK(w.tensor.defined(), RuntimeError, "this graph has no weights bound: '", w.name,
                  "' is missing; bind() gives it some");
    weights.push_back(w.tensor);
  }
  for (const Tensor& t : inputs)
    SMOLDER_CHECK(t.defined(), TypeError, "a graph's inputs are tensors, got an undefined one");
  known.insert(known.end(), weights.begin(), weights.end());
  bool external = false;
  for (const Tensor& t : known) {
    lazy::refresh(t.impl());
    external |= t.impl()->value->external;
  }
  if (lazy::Capture::current() || lazy::eager_enabled() || external) {
    return record_ops(s, infer(s, bind_symbols(s, inputs)), inputs, weights);
  }
  const std::string key = key_of(known);
  std::shared_ptr<autograd::CompiledStep> step;
  {
    const std::lock_guard hold(mutex_);
    const auto at = steps_.find(key);
    if (at != steps_.end() && at->second && at->second->known()) step = at->second;
  }
  const auto put_together = [&](const std::vector<Tensor>& made, const std::vector<Tensor>& used) {
    std::vector<Tensor> out;
    for (const int p : step->places()) out.push_back(p >= 0 ? made[p] : used[-1 - p]);
    return out;
  };
  std::vector<Tensor> used;
  if (step) {
    for (const uint32_t i : step->used()) used.push_back(known[i]);
    return put_together(step->run(used, {}), used);
  }
  const Instance at = infer(s, bind_symbols(s, inputs));
  autograd::StepCapture capture(known, false, true);
  std::vector<Tensor> outputs = record_ops(s, at, inputs, weights);
  step = capture.finish(outputs, {&default_generator()});
  if (!step) return outputs;
  for (const uint32_t i : step->used()) used.push_back(known[i]);
  std::vector<Tensor> out = put_together(capture.first_results(), used);
  const std::lock_guard hold(mutex_);
  if (steps_.size() >= kMostSteps) steps_.clear();
  steps_.insert_or_assign(key, step);
  return out;
}

}  // namespace smolder::graph
