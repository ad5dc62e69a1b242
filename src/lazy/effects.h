// Steps that others see: what ran of them can't be taken back, and must not run twice.
#pragma once

#include <string>

#include "smolder/lazy/trace.h"

namespace smolder::lazy {

/// Whether an op of the trace has an effect (ir::OpFlags::effect).
bool has_effects(const Trace& t);

/// Told, with the reason, when a step with effects failed: some of them happened, others never will. One function a
/// process.
using EffectsLost = void (*)(const std::string& why);
void set_effects_lost(EffectsLost hook);
void tell_effects_lost(const std::string& why);

/// Told of a step with effects before it runs for the first time. Throws where it must not run.
using EffectsAhead = void (*)(const Trace& t);
void set_effects_ahead(EffectsAhead hook);
void tell_effects_ahead(const Trace& t);

}  // namespace smolder::lazy
