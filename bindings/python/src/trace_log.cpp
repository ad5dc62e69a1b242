// The log of recorded steps for Python.
#include <algorithm>
#include <unordered_map>

#include "smolder/graph/state.h"
#include "smolder/lazy/trace_log.h"
#include "src/replay.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

/// Source tokens by the number that a file gives them, from 1 on.
class Sources {
 public:
  uint32_t number(SourceToken token) {
    const std::string text = resolve_source(token);
    if (text.empty()) return 0;
    const auto [at, fresh] = numbers_.try_emplace(text, static_cast<uint32_t>(texts_.size() + 1));
    if (fresh) texts_.push_back(text);
    return at->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<std::string> texts_;
};

nb::object number_object(Scalar s) {
  switch (s.category()) {
    case Category::kBool:
      return nb::cast(s.to_bool());
    case Category::kInt:
      return nb::cast(s.to_int());
    case Category::kFloat:
      return nb::cast(s.to_double());
    case Category::kComplex:  // numbers in graphs are real
      break;
  }
  return nb::none();
}

std::string device_name(Device device) {
  const std::string name = to_string(device);
  return name.substr(0, name.find(':'));
}

nb::dict precision_dict(const Precision& p) {
  nb::dict out;
  out["float32_matmul"] = static_cast<int>(p.float32_matmul);
  out["allow_fp16_reduced_precision_reduction"] = p.allow_fp16_reduced_precision_reduction;
  out["allow_bf16_reduced_precision_reduction"] = p.allow_bf16_reduced_precision_reduction;
  out["cudnn_enabled"] = p.cudnn_enabled;
  out["cudnn_allow_tf32"] = p.cudnn_allow_tf32;
  out["cudnn_benchmark"] = p.cudnn_benchmark;
  out["cudnn_deterministic"] = p.cudnn_deterministic;
  return out;
}

/// The numbers of a step, whose categories its operands say.
std::vector<Category> number_categories(const lazy::Trace& t) {
  std::vector<Category> out;
  for (const lazy::OperandWord w : t.operands) {
    if (lazy::is_number(w)) out.push_back(static_cast<Category>(w & ~lazy::kNumberBit));
  }
  return out;
}

nb::dict step_dict(const lazy::LoggedStep& s, Sources& sources) {
  ir::Graph g = s.graph();
  for (ir::Node& n : g.nodes) n.origin.source = sources.number(n.origin.source);
  nb::dict out, options;
  out["graph"] = graph::print_nested(g);
  out["symbols"] = lazy::symbol_values(s.trace);
  nb::list numbers, leaves, data;
  const std::vector<Category> categories = number_categories(s.trace);
  for (size_t i = 0; i < categories.size(); ++i) {
    const Scalar value = Scalar::from_bits(s.parameters[i], categories[i]);
    numbers.append(nb::make_tuple(category_name(categories[i]), number_object(value)));
  }
  size_t leaf = 0;
  for (size_t v = 0; v < s.trace.metas.size(); ++v) {
    if (!s.trace.is_leaf[v]) continue;
    const ir::Meta& m = *s.trace.metas[v];
    leaves.append(nb::make_tuple(std::string(name(m.dtype)), dims_list(m.shape)));
    const BufferRef& kept = s.leaves[leaf++];
    data.append(kept ? nb::cast(tensor_of(kept, m.shape, m.dtype)) : nb::none());
  }
  nb::list modes;  // of each op; none where all were recorded under none
  const auto has_mode = [](const lazy::Instr& e) { return e.modes != 0; };
  if (std::ranges::any_of(s.trace.instrs, has_mode)) {
    for (const lazy::Instr& e : s.trace.instrs) modes.append(int{e.modes});
  }
  out["modes"] = modes;
  options["fuse"] = s.options.fuse;
  options["simplify"] = s.options.simplify;
  options["precision"] = precision_dict(s.options.precision);
  out["numbers"] = numbers;
  out["leaves"] = leaves;
  out["data"] = data;
  out["options"] = options;
  out["device"] = device_name(s.device);
  out["reason"] = s.reason;
  out["error"] = s.error;
  out["source"] = sources.number(s.source);
  out["runs"] = s.runs;
  return out;
}

nb::dict log_dict(lazy::TraceLog& log) {
  nb::dict out;
  std::vector<lazy::LoggedStep> steps;
  log.read([&](const lazy::TraceLog::Contents& c) {
    steps = c.steps;
    nb::list order;
    for (const auto& [step, times] : c.order) order.append(nb::make_tuple(step, times));
    out["order"] = order;
    out["dropped_runs"] = c.dropped_runs;
    out["dropped_leaves"] = c.dropped_leaves;
    out["unordered_runs"] = c.unordered_runs;
  });
  Sources sources;
  nb::list dicts;
  for (const lazy::LoggedStep& s : steps) dicts.append(step_dict(s, sources));
  out["steps"] = dicts;
  nb::list texts;
  for (const std::string& text : sources.texts()) texts.append(text);
  out["sources"] = texts;
  return out;
}

}  // namespace

void bind_trace_log(nb::module_& m) {
  nb::class_<lazy::TraceLog>(m, "_TraceLog")
      .def("__init__",
           [](lazy::TraceLog* log, bool leaves, int64_t max_bytes) { new (log) lazy::TraceLog({leaves, max_bytes}); })
      .def("start", &lazy::TraceLog::start, nb::call_guard<WithoutGil>())
      .def("stop", &lazy::TraceLog::stop, nb::call_guard<WithoutGil>())
      .def("clear", &lazy::TraceLog::clear)
      .def_prop_ro("runs", &lazy::TraceLog::runs)
      .def("contents", &log_dict);
}

}  // namespace smolder::python
