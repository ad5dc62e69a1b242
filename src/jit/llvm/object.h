// Object code in memory, ready to run.
#pragma once

#include <string>

#include "smolder/jit/backend.h"

namespace smolder::jit::cpu {

/// Appends what `load_object` checks the bytes with.
void seal(std::string& object);
/// Links a sealed object into memory of its own, freed with the last copy of `CompiledKernel::code`. Throws
/// ValueError when the bytes are not what `seal` saw.
CompiledKernel load_object(const std::string& object);

}  // namespace smolder::jit::cpu
