// An op on elements of batches: by its rule, or element by element.
#include <algorithm>
#include <mutex>
#include <set>

#include "smolder/core/counters.h"
#include "smolder/lazy/autocast.h"
#include "smolder/lazy/batch.h"
#include "smolder/lazy/batch_rules.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/view.h"

namespace smolder::lazy {
namespace {

/// Operand `i` as it is of the level `level`.
const BatchedValue* at_level(const Operand& o, int level) {
  if (o.kind() != Operand::kTensor) return nullptr;
  const BatchedValue* const b = batched(o.impl());
  return b && b->level == level ? b : nullptr;
}

/// The level whose rule an op goes by.
int level_of_call(ir::Op op, std::span<const Operand> operands) {
  int level = ir::info(op).flags.random ? batch_depth() : 0;
  for (const Operand& o : operands) {
    if (o.kind() != Operand::kTensor) continue;
    refresh(o.impl());
    if (const BatchedValue* const b = batched(o.impl())) {
      check_alive(*b);
      level = std::max(level, b->level);
    }
  }
  return level;
}

/// Results of a rule as elements of the shapes and dtypes that one call gives.
void finish_result(Tensor& all, const ir::Meta& wanted, int64_t size) {
  Dims shape = wanted.shape;
  shape.insert(0, size);
  if (all.dtype() != wanted.dtype) all = all.to(wanted.dtype);
  if (all.shape() == shape) return;
  SMOLDER_INVARIANT(all.numel() == numel(shape));
  all = reshape(all, shape);
}

}  // namespace

bool record_elements(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor* outputs,
                     std::vector<Operand>& own, std::vector<Tensor>& kept) {
  const int level = level_of_call(op, operands);
  const ir::OpInfo& row = ir::info(op);
  std::vector<const ir::Meta*> metas;
  for (const Operand& o : operands) metas.push_back(o.meta());
  std::vector<ir::Meta> results(row.num_outputs);
  row.infer({metas, attrs}, results.data());
  const BatchLevel& at = batch_level(level);
  const BatchCall call{op, operands, attrs, results, level, at.size};
  bool is_spread = row.flags.random && at.randomness == Randomness::kDifferent;
  for (size_t i = 0; i < operands.size(); ++i) is_spread = is_spread || call.spread(i);
  {
    const AtLevel below(level - 1);
    const GradMode mode(grad_enabled() && at.grad);
    const NoAutocast plain;
    const auto tensor = std::ranges::find(operands, Operand::kTensor, &Operand::kind);
    const DeviceMode where(tensor == operands.end() ? creation_mode() : tensor->impl()->value->device);
    std::vector<Tensor> all;
    if (is_spread) {
      const BatchRule rule = batch_rule(op);
      all = rule ? rule(call) : batch_loop(call);
      SMOLDER_INVARIANT(all.size() == results.size());
      for (size_t i = 0; i < all.size(); ++i) finish_result(all[i], results[i], at.size);
    } else {
      std::vector<Operand> given(operands.begin(), operands.end());
      std::vector<Tensor> elements(operands.size());
      for (size_t i = 0; i < given.size(); ++i) {
        elements[i] = call.elements(i);
        given[i] = call.operand(i, elements[i]);
      }
      all = call.call(given, attrs);
    }
    for (size_t i = 0; i < all.size(); ++i) outputs[i] = tensor_at(level, all[i], is_spread);
  }
  own.assign(operands.begin(), operands.end());
  bool requires_grad = false;
  for (Operand& o : own) {
    if (o.kind() != Operand::kTensor) continue;
    if (at_level(o, level)) {
      requires_grad |= o.impl()->requires_grad;
    } else if (o.impl()->requires_grad || batched(o.impl())) {  // its history is no concern of this level
      o = Operand(kept.emplace_back(tensor_at(level, Tensor(o.impl()), false)));
    }
  }
  return requires_grad;
}

// -- what rules are written with

bool BatchCall::spread(size_t i) const {
  if (i >= count()) return false;
  const BatchedValue* const b = at_level(operands[i], level);
  return b && b->spread;
}

Tensor BatchCall::elements(size_t i) const {
  if (!has(i)) return {};
  const BatchedValue* const b = at_level(operands[i], level);
  return b ? b->elements : Tensor(operands[i].impl());
}

Tensor BatchCall::front(size_t i) const {
  if (!has(i) || spread(i)) return elements(i);
  Dims wanted = shape(i);
  wanted.insert(0, size);
  return expand(elements(i), wanted);
}

Tensor BatchCall::padded(size_t i, int wanted) const {
  Tensor all = elements(i);
  if (!spread(i) || rank(i) >= wanted) return all;
  Dims to{size};
  for (int k = rank(i); k < wanted; ++k) to.push_back(1);
  for (const int64_t n : shape(i)) to.push_back(n);
  return reshape(all, to);
}

std::vector<Tensor> BatchCall::call(std::span<const Operand> given, std::span<const int64_t> words) const {
  std::vector<Tensor> out(ir::info(op).num_outputs);
  if (ir::info(op).flags.random) {
    record_random(op, given, words, out.data());
  } else {
    record(op, given, words, out.data());
  }
  return out;
}

Tensor BatchCall::element(size_t i) const {
  if (!has(i)) return {};
  return tensor_at(level, elements(i), spread(i));
}

Tensor BatchCall::front_of(const Tensor& t) const {
  const BatchedValue* const b = batched(t.impl());
  const bool own = b && b->level == level;
  if (own && b->spread) return b->elements;
  Dims wanted = t.shape();
  wanted.insert(0, size);
  return expand(own ? b->elements : t, wanted);
}

Tensor BatchCall::folded(const Tensor& t, int axis) const {
  Dims merged = t.shape();
  merged.erase(0);
  merged[axis] *= size;
  return reshape(axis == 0 ? t : movedim(t, 0, axis), merged);
}

Tensor BatchCall::unfolded(const Tensor& t, int axis) const {
  Dims split = t.shape();
  split[axis] /= std::max<int64_t>(size, 1);
  split.insert(axis, size);
  const Tensor apart = reshape(t, split);
  return axis == 0 ? apart : movedim(apart, axis, 0);
}

std::vector<Tensor> batch_loop(const BatchCall& c) {
  static Counter& loops = counter("vmap.loops");
  loops.add();
  static std::mutex mutex;
  static auto* const told = new std::set<ir::Op>;
  const bool first = [&] {
    const std::lock_guard hold(mutex);
    return told->insert(c.op).second;
  }();
  if (first) {
    warn("vmap", "There is a performance drop because there is no batching rule for " + std::string(ir::name(c.op)) +
                     ": it is called for each element of the batch");
  }
  std::vector<std::vector<Tensor>> parts(c.results.size());
  for (int64_t at = 0; at < c.size; ++at) {
    std::vector<Operand> given(c.operands.begin(), c.operands.end());
    std::vector<Tensor> kept(c.count());
    for (size_t i = 0; i < c.count(); ++i) {
      kept[i] = c.spread(i) ? select(c.elements(i), 0, at) : c.elements(i);
      given[i] = c.operand(i, kept[i]);
    }
    const std::vector<Tensor> made = c.call(given, c.attrs);
    for (size_t k = 0; k < made.size(); ++k) parts[k].push_back(made[k]);
  }
  std::vector<Tensor> out;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (c.size > 0) {
      out.push_back(stack(parts[k], 0));
      continue;
    }
    Dims shape = c.results[k].shape;
    shape.insert(0, 0);
    out.push_back(zeros(shape, c.results[k].dtype));
  }
  return out;
}

}  // namespace smolder::lazy
