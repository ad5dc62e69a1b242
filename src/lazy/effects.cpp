#include "smolder/lazy/effects.h"

#include <algorithm>
#include <atomic>

#include "smolder/ir/op.h"

namespace smolder::lazy {
namespace {

std::atomic<EffectsLost> g_lost{nullptr};
std::atomic<EffectsAhead> g_ahead{nullptr};

}  // namespace

bool has_effects(const Trace& t) {
  return std::ranges::any_of(t.instrs, [](const Instr& e) { return ir::info(e.op).flags.effect; });
}

void set_effects_lost(EffectsLost hook) { g_lost.store(hook, std::memory_order_release); }

void tell_effects_lost(const std::string& why) {
  if (const EffectsLost hook = g_lost.load(std::memory_order_acquire)) hook(why);
}

void set_effects_ahead(EffectsAhead hook) { g_ahead.store(hook, std::memory_order_release); }

void tell_effects_ahead(const Trace& t) {
  const EffectsAhead hook = g_ahead.load(std::memory_order_acquire);
  if (hook && has_effects(t)) hook(t);
}

}  // namespace smolder::lazy
