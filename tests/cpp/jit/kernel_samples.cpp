#include "jit/kernel_samples.h"

#include <algorithm>
#include <set>
#include <string>

#include "op_calls.h"
#include "smolder/core/error.h"
#include "smolder/jit/fuse/fuse.h"
#include "smolder/jit/graph/decompose.h"
#include "smolder/jit/graph/simplify.h"
#include "smolder/jit/lower/lower.h"
#include "smolder/jit/program.h"

namespace smolder::jit::test {

std::vector<KernelSample> kernels_of(const ir::Graph& graph, std::span<const int64_t> symbols,
                                     std::span<const uint64_t> parameters, DeviceType device,
                                     const RecomputeLimits* limits) {
  Program p;
  p.options.device = device;
  p.graph = graph;
  decompose(p);
  simplify(p);
  fuse(p);
  if (limits && recompute(p, *limits)) fuse(p);
  lower(p);
  std::vector<int64_t> values;
  ir::SymTable::evaluate(p.graph.sym.exprs(), symbols, values);
  const auto value = [&](ir::Dim d) { return ir::SymTable::value(d, values); };
  std::vector<KernelSample> samples;
  for (const Step& step : p.steps) {
    if (!step.kernel) continue;
    const KernelCall& call = *step.kernel;
    KernelSample s;
    s.kernel = call.kernel;
    s.scratch.resize(call.buffers.size());
    for (const BufferId b : call.buffers) s.sizes.push_back(b < 0 ? 0 : value(p.buffers[b].elements));
    for (const KernelCall::Scratch& row : call.scratch) {
      s.sizes[row.argument] = value(row.elements);
      s.scratch[row.argument] = true;
    }
    for (const ir::Dim& d : call.ints) s.ints.push_back(value(d));
    for (const ScalarSource& x : call.scalars) s.scalars.push_back(parameters[x.parameter]);
    s.positions = value(call.positions);
    std::set<int> taken;
    for (const InPlace& pair : call.in_place) {
      const auto argument = [&](BufferId b) {
        return static_cast<int>(std::ranges::find(call.buffers, b) - call.buffers.begin());
      };
      const int read = argument(pair.read), written = argument(pair.written);
      if (taken.contains(read) || taken.contains(written) || s.sizes[read] != s.sizes[written]) continue;
      taken.insert({read, written});
      s.in_place.push_back({read, written});
    }
    samples.push_back(std::move(s));
  }
  return samples;
}

const std::vector<KernelSample>& op_kernels() {
  static const auto* const kKernels = [] {
    auto* all = new std::vector<KernelSample>;
    std::set<std::string> known;
    for (const auto& record : ir::test::op_records()) {
      const ir::test::Program p = ir::test::decompose(ir::test::call_of(record));
      for (KernelSample& s : kernels_of(p.g, p.symbols, p.parameters)) {
        if (known.insert(print(s.kernel)).second) all->push_back(std::move(s));
      }
    }
    return all;
  }();
  return *kKernels;
}

}  // namespace smolder::jit::test
