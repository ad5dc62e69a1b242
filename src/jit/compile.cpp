// READ FIRST: the compiler, as the ordered list of its stages. Each takes the Program (program.h) as the one
// before left it:
//
//   decompose   ops become primitives                                  decompose.cpp
//   simplify    rewrite rules, common subexpressions, dead code        simplify.cpp, rules.def
//   fuse        which primitives become one kernel, and which          fuse.cpp, recompute.cpp
//               are computed twice
//   lower       groups become loop IR and library calls, over buffers  lower.cpp, lowering.cpp
//   schedule    the order of steps, and which run side by side         schedule.cpp
//   emit        kernels become code, from the cache or compiled        emit.cpp
//
// Then plan_impl.h: placement (place.cpp), binding to sizes (bind.cpp) and running (executor.cpp).
#include "smolder/jit/compile.h"

#include <chrono>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>

#include "smolder/core/background.h"
#include "smolder/core/counters.h"
#include "smolder/core/interrupt.h"
#include "smolder/core/profile.h"
#include "smolder/jit/emit.h"
#include "smolder/jit/fuse/fuse.h"
#include "smolder/jit/fuse/recompute.h"
#include "smolder/jit/graph/decompose.h"
#include "smolder/jit/graph/simplify.h"
#include "smolder/jit/lower/align_rows.h"
#include "smolder/jit/lower/lower.h"
#include "smolder/jit/plan/plan_impl.h"
#include "smolder/jit/schedule/schedule.h"
#include "smolder/jit/switches.h"

namespace smolder::jit {

namespace {

void run_fuse(Program& p) {
  if (!p.options.fuse) return one_kernel_each(p);
  if (p.options.device == DeviceType::kCUDA && !is_disabled("align_rows")) copy_odd_outputs(p);
  if (p.options.device != DeviceType::kCPU) keep_random_results_apart(p);
  fuse(p);
  // Where memory is a device's.
  if (p.options.device == DeviceType::kCPU || is_disabled("recompute") || !recompute(p)) return;
  p.refusals.clear();
  fuse(p);
}

void check_graph(const Program& p) { ir::verify(p.graph); }
void check_kernels(const Program& p) {
  for (const Step& s : p.steps) {
    if (s.kernel) verify(s.kernel->kernel);
  }
}

/// A stage of the compiler. `disabled` is what runs instead when SMOLDER_DISABLE names the stage; null where
/// nothing would work without it.
struct Stage {
  const char* name;
  void (*run)(Program&);
  void (*disabled)(Program&);
  void (*check)(const Program&);
  bool changes_graph;
};

constexpr Stage kStages[] = {
    {"decompose", decompose, nullptr, check_graph, true},
    {"simplify", simplify, remove_dead_code, check_graph, true},
    {"fuse", run_fuse, one_kernel_each, nullptr, false},
    {"lower", lower, nullptr, check_kernels, false},
    {"schedule", schedule, schedule_in_order, nullptr, false},
    {"emit", emit, nullptr, nullptr, false},
};

std::function<void(std::string_view, Program&)>& the_hook() {
  static std::function<void(std::string_view, Program&)> hook;
  return hook;
}

void run_stage(const Stage& stage, Program& program) {
  if (in_background()) check_interrupt();  // whom the program waits for ends at once, with the stage
  const SpanScope span(SpanKind::kPlan, stage.name);
  const auto start = std::chrono::steady_clock::now();
  if (is_disabled(stage.name)) {
    SMOLDER_CHECK(stage.disabled, ValueError, "SMOLDER_DISABLE: stage '", stage.name, "' can't be left out");
    stage.disabled(program);
  } else {
    stage.run(program);
    if (the_hook()) the_hook()(stage.name, program);
  }
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  counter(std::string("compile.") + stage.name + "_us").add(took.count() / 1000);
#ifndef NDEBUG
  if (stage.check) stage.check(program);
#endif
  if (stage.changes_graph && debug_level() >= 5) {
    debug(5, "compile", std::string("after ") + stage.name + ":\n" + ir::print(program.graph));
  }
}

void print_groups(std::ostream& out, const Program& p) {
  for (size_t i = 0; i < p.groups.size(); ++i) {
    const Group& g = p.groups[i];
    out << "group " << i << (g.kind == Group::kKernel ? ": kernel, writes" : ": library call, writes");
    for (const ir::ValueId v : g.sinks) {
      out << " %" << v << " (" << ir::name(p.graph.producer(v).origin_op()) << ')';
    }
    out << '\n';
  }
  for (const Refusal& r : p.refusals) {
    out << "not fused: %" << r.value << " into " << ir::name(p.graph.nodes[r.reader].op) << ": " << r.why << '\n';
  }
}

void print_steps(std::ostream& out, const Program& p) {
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    out << "step " << i;
    if (!p.launch_of.empty()) out << " launch " << p.launch_of[i];
    out << ": " << (s.kernel ? s.kernel->kernel.name : std::string(ir::name(s.library->op)))
        << (s.guarded ? ", guarded" : "") << '\n';
    if (s.kernel && p.launch_of.empty()) out << print(s.kernel->kernel) << '\n';
  }
  for (const Program::EarlyCheck& check : p.early_checks) {
    out << "the index of step " << check.step << " is looked at after launch " << check.after << '\n';
  }
}

}  // namespace

std::vector<std::string_view> stage_names() {
  std::vector<std::string_view> out;
  for (const Stage& stage : kStages) out.emplace_back(stage.name);
  return out;
}

void set_stage_hook(std::function<void(std::string_view, Program&)> hook) { the_hook() = std::move(hook); }

std::string text_after(const ir::Graph& graph, const CompileOptions& options, std::string_view stage) {
  Program program;
  program.options = options;
  program.graph = graph;
  for (const Stage& s : kStages) {
    run_stage(s, program);
    if (s.name != stage) continue;
    std::ostringstream out;
    if (s.changes_graph) {
      out << ir::print(program.graph);
    } else if (stage == "fuse") {
      print_groups(out, program);
    } else {
      print_steps(out, program);
    }
    return out.str();
  }
  raise<ValueError>("the compiler has no stage '", stage, "'");
}

Program run_stages(const ir::Graph& graph, const CompileOptions& options) {
  Program program;
  program.options = options;
  program.graph = graph;
  for (const Stage& stage : kStages) run_stage(stage, program);
  return program;
}

std::shared_ptr<const Plan> Plan::compile(const ir::Graph& graph, const CompileOptions& options) {
  static Counter& compiled = counter("plans.compiled");
  auto plan = std::make_shared<const PlanImpl>(run_stages(graph, options));
  compiled.add();
  if (debug_level() >= 3) debug(3, "plan", plan->describe());
  return plan;
}

}  // namespace smolder::jit
