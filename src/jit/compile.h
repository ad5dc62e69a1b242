// The compiler's stages from a graph to a program that is ready to be a plan.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "smolder/jit/program.h"

namespace smolder::jit {

/// Runs all stages. Throws what the stage throws, before anything was launched.
Program run_stages(const ir::Graph& graph, const CompileOptions& options);

/// Stages in order.
std::vector<std::string_view> stage_names();
/// Output of a stage: the graph of primitives, groups, kernels as loop IR and calls, or the order of steps, as text.
std::string text_after(const ir::Graph& graph, const CompileOptions& options, std::string_view stage);

/// Test hook: called with what each stage leaves, which it may spoil. Empty takes it back.
void set_stage_hook(std::function<void(std::string_view stage, Program& program)> hook);

}  // namespace smolder::jit
