// The compiler's stages from a graph to a program that is ready to be a plan.
#pragma once

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Runs all stages. Throws what the stage throws, before anything was launched.
Program run_stages(const ir::Graph& graph, const CompileOptions& options);

}  // namespace smolder::jit
