// A graph's file: a safetensors file whose tensors are the weights and whose metadata holds the rest.
#include <nlohmann/json.hpp>

#include "smolder/core/build_id.h"
#include "smolder/core/safetensors.h"
#include "smolder/graph/graph.h"
#include "smolder/graph/state.h"

namespace smolder {
namespace {

using graph::State;
using graph::Weight;

// Names in the metadata. Sub-graphs, when there are such, are texts by the names kText + "." + name.
constexpr const char* kVersion = "smolder.version";
constexpr const char* kProducer = "smolder.producer";
constexpr const char* kText = "smolder.graph";
constexpr const char* kStructure = "smolder.structure";
constexpr const char* kThisVersion = "1";

const std::string& needed(const SafetensorsFile& file, const char* name) {
  const auto at = file.metadata().find(name);
  SMOLDER_CHECK(at != file.metadata().end(), ValueError, file.path(), ": no graph of Smolder's: its metadata has no ",
                name);
  return at->second;
}

}  // namespace

void Graph::save(const std::string& path, const SaveOptions& options) const {
  SafetensorsMetadata metadata{{"format", "smolder"}, {kVersion, kThisVersion}, {kProducer, "smolder"}};
  metadata[kText] = to_string();
  if (!state_->structure.empty()) metadata[kStructure] = state_->structure;
  std::vector<BufferRef> memory;
  std::vector<SafetensorsTensor> tensors;
  for (const Weight& w : state_->weights) {
    if (!options.weights) break;
    SMOLDER_CHECK(w.tensor.defined(), RuntimeError, "cannot save the graph with its weights: '", w.name,
                  "' is not bound");
    memory.push_back(w.tensor.detach().materialize("save"));
    tensors.push_back({w.name, w.tensor.dtype(), w.tensor.shape(), memory.back()->data()});
  }
  write_safetensors(path, tensors, metadata);
}

Graph Graph::load(const std::string& path) {
  const SafetensorsFile file(path);
  const std::string& version = needed(file, kVersion);
  SMOLDER_CHECK(version == kThisVersion, ValueError, path, ": a graph's file of version '", version.substr(0, 20),
                "', and only version ", kThisVersion, " is known");
  for (const auto& [name, text] : file.metadata()) {
    SMOLDER_CHECK(!name.starts_with(std::string(kText) + "."), ValueError, path, ": has a sub-graph '",
                  name.substr(0, 80), "', which this Smolder does not know");
  }
  State s;
  try {
    s = graph::parse_state(needed(file, kText));
    graph::check(s);
    const auto structure = file.metadata().find(kStructure);
    if (structure != file.metadata().end()) s.structure = structure->second;
    const std::vector<ir::ValueId> leaves = s.leaves();
    for (size_t i = 0; i < s.weights.size() && !file.entries().empty(); ++i) {
      Weight& w = s.weights[i];
      const SafetensorsEntry* const e = file.find(w.name);
      SMOLDER_CHECK(e, ValueError, "weight '", w.name, "' is not there");
      const ir::ValueInfo& declared = s.ir.info(leaves[s.inputs.size() + i]);
      SMOLDER_CHECK(e->dtype == declared.dtype && e->shape == declared.shape.values(), ValueError, "weight '", w.name,
                    "' is ", e->type, " ", e->shape, ", the graph has it as ", name(declared.dtype), " ",
                    declared.shape.values());
      w.tensor = Tensor::from_buffer(file.read(*e), e->shape, *e->dtype);
    }
    SMOLDER_CHECK(file.entries().empty() || file.entries().size() == s.weights.size(), ValueError, "there are ",
                  file.entries().size(), " tensors, the graph has ", s.weights.size(), " weights");
    return graph::make_graph(std::move(s));
  } catch (const ValueError& e) {
    throw ValueError(path + ": " + e.what());
  }
}

}  // namespace smolder
