// The graph of gradients: a capture of the graph's ops and of autograd's way back through them.
#include <algorithm>

#include "smolder/autograd/engine.h"
#include "smolder/graph/capture.h"
#include "smolder/graph/graph.h"
#include "smolder/graph/state.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"

namespace smolder {

using graph::State;
using ir::ValueId;

namespace {

/// A name that is not among `taken`.
std::string fresh_name(std::string name, const std::vector<std::string>& taken) {
  while (std::ranges::find(taken, name) != taken.end()) name += "_";
  return name;
}

/// Tensors that gradients are asked for: an input, or a weight after the inputs, by number.
std::vector<size_t> places_of(const State& s, const std::vector<std::string>& wrt) {
  std::vector<size_t> out;
  const std::vector<ValueId> leaves = s.leaves();
  for (const std::string& name : wrt) {
    const auto input = std::ranges::find(s.inputs, name);
    const auto weight = std::ranges::find(s.weights, name, &graph::Weight::name);
    SMOLDER_CHECK(input != s.inputs.end() || weight != s.weights.end(), ValueError,
                  "the graph has no input or weight '", name, "'");
    out.push_back(input != s.inputs.end() ? static_cast<size_t>(input - s.inputs.begin())
                                          : s.inputs.size() + static_cast<size_t>(weight - s.weights.begin()));
    SMOLDER_CHECK(is_floating(s.ir.dtype(leaves[out.back()])), RuntimeError,
                  "only tensors of floating point dtype have "
                  "gradients, and '",
                  name, "' is ", smolder::name(s.ir.dtype(leaves[out.back()])));
  }
  for (size_t i = 0; i < s.inputs.size() && wrt.empty(); ++i) {
    if (is_floating(s.ir.dtype(leaves[i]))) out.push_back(i);
  }
  return out;
}

}  // namespace

Graph Graph::differentiate(const std::vector<std::string>& wrt, bool outputs) const {
  const State& s = *state_;
  const std::vector<size_t> places = places_of(s, wrt);
  SMOLDER_CHECK(!places.empty(), RuntimeError, "the graph has no input of floating point dtype: name weights in wrt");
  CaptureOptions options;
  options.weights = weights();
  options.input_names = s.inputs;
  std::vector<size_t> from;  // outputs that gradients come from
  for (size_t i = 0; i < s.ir.outputs.size(); ++i) {
    if (is_floating(s.ir.dtype(s.ir.outputs[i]))) from.push_back(i);
  }
  const auto one = [](const ir::Dim& d) { return d.is_constant() && d.value == 1; };
  const bool alone = from.size() == 1 && std::ranges::all_of(s.ir.shape(s.ir.outputs[from[0]]), one);
  const size_t given = alone ? 0 : from.size();
  for (size_t i = 0; i < given; ++i) {
    options.input_names.push_back(fresh_name("grad_" + s.outputs[from[i]], options.input_names));
  }
  if (outputs) options.output_names = s.outputs;
  for (const size_t p : places) {
    const std::string& name = p < s.inputs.size() ? s.inputs[p] : s.weights[p - s.inputs.size()].name;
    options.output_names.push_back(fresh_name("grad_" + name, options.output_names));
  }
  const auto fn = [&](const std::vector<Tensor>& in) {
    const lazy::GradMode on(true);
    std::vector<Tensor> leaves(in.begin(), in.begin() + static_cast<ptrdiff_t>(s.inputs.size()));
    for (const graph::Weight& w : s.weights) {
      SMOLDER_CHECK(w.tensor.defined(), RuntimeError, "weight '", w.name, "' is not bound");
      leaves.push_back(w.tensor.detach());
    }
    std::vector<Tensor> to;
    for (const size_t p : places) to.push_back(leaves[p] = leaves[p].detach().requires_grad_());
    const std::vector<Tensor> arguments(leaves.begin(), leaves.begin() + static_cast<ptrdiff_t>(s.inputs.size()));
    const std::vector<Tensor> weights(leaves.begin() + static_cast<ptrdiff_t>(s.inputs.size()), leaves.end());
    const std::vector<Tensor> results =
        graph::record_ops(s, graph::infer(s, graph::bind_symbols(s, arguments)), arguments, weights);
    std::vector<Tensor> ends, grads;
    for (size_t i = 0; i < from.size(); ++i) {
      if (!results[from[i]].requires_grad()) continue;
      ends.push_back(results[from[i]]);
      grads.push_back(alone ? Tensor() : in[s.inputs.size() + i]);
    }
    std::vector<Tensor> found(to.size());
    if (!ends.empty()) found = autograd::grad(ends, to, grads, false, false, true);
    std::vector<Tensor> out;
    if (outputs) {
      for (const Tensor& t : results) out.push_back(t.detach());
    }
    for (size_t i = 0; i < to.size(); ++i) out.push_back(found[i].defined() ? found[i] : zeros_like(to[i]));
    return out;
  };
  const std::vector<ValueId> leaves = s.leaves();
  graph::Sizes sizes;
  sizes.names = s.symbols;
  sizes.sample = graph::trials(s.ir.sym)[0];
  std::vector<DType> dtypes;
  for (size_t i = 0; i < s.inputs.size(); ++i) dtypes.push_back(s.ir.dtype(leaves[i]));
  for (size_t i = 0; i < given; ++i) dtypes.push_back(s.ir.dtype(s.ir.outputs[from[i]]));
  sizes.shapes = [&](const std::vector<int64_t>& at) {
    const graph::Instance found = graph::infer(s, at);
    std::vector<Dims> out;
    for (size_t i = 0; i < s.inputs.size(); ++i) out.push_back(found.metas[leaves[i]].shape);
    for (size_t i = 0; i < given; ++i) out.push_back(found.metas[s.ir.outputs[from[i]]].shape);
    return out;
  };
  const auto on_device = std::ranges::find_if(s.weights, [](const graph::Weight& w) { return w.tensor.defined(); });
  const Device device = on_device == s.weights.end() ? Device() : on_device->tensor.device();
  std::vector<graph::Example> examples;
  for (const DType t : dtypes) examples.push_back({t, device, false});
  return graph::capture_with(fn, examples, sizes, options);
}

}  // namespace smolder
