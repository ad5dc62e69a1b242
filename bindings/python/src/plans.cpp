// Steps that ran and their plans, as data for Python: what smolder.explain is made of.
#include <array>

#include "smolder/jit/plan/plan_report.h"
#include "smolder/lazy/explain.h"
#include "smolder/lazy/tape.h"
#include "src/plans.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

using lazy::RanStep;
using lazy::StepLog;

nb::list shape_of(const Dims& shape) {
  nb::list out;
  for (const int64_t n : shape) out.append(n);
  return out;
}

template <class T>
nb::list list_of(const std::vector<T>& items) {
  nb::list out;
  for (const T& x : items) out.append(x);
  return out;
}

nb::dict to_dict(const jit::ReportedBuffer& b) {
  static constexpr std::array kKinds = {"leaf", "arena", "output"};
  nb::dict out;
  out["kind"] = kKinds[b.kind];
  out["number"] = b.number;
  out["dtype"] = std::string(name(b.dtype));
  out["shape"] = shape_of(b.shape);
  out["bytes"] = b.bytes;
  if (b.arena_offset >= 0) {
    out["offset"] = b.arena_offset;
    out["launches"] = nb::make_tuple(b.first_launch, b.last_launch);
  }
  return out;
}

nb::dict to_dict(const jit::ReportedOp& op) {
  nb::dict out;
  out["name"] = op.name;
  out["where"] = resolve_source(op.source);
  out["primitives"] = list_of(op.primitives);
  out["inputs"] = list_of(op.inputs);
  out["reads"] = list_of(op.reads);
  out["writes"] = list_of(op.writes);
  return out;
}

nb::dict to_dict(const jit::ReportedStep& s) {
  static constexpr std::array kKinds = {"kernel", "library", "fallback", "interpreted", "quick"};
  nb::dict out;
  out["name"] = s.name;
  out["kind"] = kKinds[s.kind];
  out["where"] = resolve_source(s.source);
  out["launch"] = s.launch;
  out["kernel"] = s.kernel < 0 ? nb::none() : nb::object(nb::int_(s.kernel));
  out["key"] = s.kernel < 0 ? nb::none() : nb::object(nb::cast(to_hex(s.key)));
  out["built_ms"] = s.built_ms < 0 ? nb::none() : nb::object(nb::float_(s.built_ms));
  nb::list ops, reads, writes;
  for (const jit::ReportedOp& op : s.ops) ops.append(to_dict(op));
  for (const jit::ReportedMove& m : s.moves) (m.written ? writes : reads).append(nb::make_tuple(m.buffer, m.bytes));
  out["ops"] = ops;
  out["reads"] = reads;
  out["writes"] = writes;
  out["bytes"] = s.bytes;
  out["product_flops"] = s.product_flops;
  out["product_dtype"] = s.product_flops > 0 ? nb::object(nb::cast(std::string(name(s.product_dtype)))) : nb::none();
  out["other_flops"] = s.other_flops;
  return out;
}

nb::dict to_dict(const jit::PlanReport& r) {
  nb::dict out;
  out["plan"] = r.plan;
  out["arena_bytes"] = r.arena_bytes;
  out["launches"] = r.launches;
  nb::list buffers, steps, refusals;
  for (const jit::ReportedBuffer& b : r.buffers) buffers.append(to_dict(b));
  for (const jit::ReportedStep& s : r.steps) steps.append(to_dict(s));
  for (const jit::ReportedRefusal& x : r.refusals) {
    nb::dict d;
    d["from"] = x.from;
    d["to"] = x.to;
    d["buffer"] = x.buffer;
    d["op"] = x.op;
    d["where"] = resolve_source(x.source);
    d["reader"] = x.reader;
    d["reader_where"] = resolve_source(x.reader_source);
    d["why"] = x.why;
    refusals.append(d);
  }
  out["buffers"] = buffers;
  out["steps"] = steps;
  out["not_fused"] = refusals;
  return out;
}

nb::list ops_of(const RanStep& step) {
  nb::list out;
  for (const lazy::RanOp& op : step.ops) {
    nb::dict d;
    d["name"] = std::string(ir::name(op.op));
    d["where"] = resolve_source(op.source);
    nb::list results;
    for (const ir::Meta& m : op.results) {
      results.append(nb::make_tuple(std::string(name(m.dtype)), shape_of(m.shape)));
    }
    d["results"] = results;
    if (step.how == RanStep::kEager) {
      d["bytes"] = op.bytes;
      d["ms"] = op.ns / 1e6;
    }
    out.append(d);
  }
  return out;
}

/// Reports of all plans that are known.
nb::list known_plans() {
  std::vector<jit::PlanReport> reports;
  {
    const WithoutGil nogil;
    lazy::Tape::each([&](lazy::Tape& tape) {
      for (const auto& instance : tape.instances()) reports.push_back(instance->report());
    });
  }
  nb::list out;
  for (const jit::PlanReport& r : reports) out.append(to_dict(r));
  return out;
}

}  // namespace

nb::dict plan_report(const jit::Instance& instance) { return to_dict(instance.report()); }

void bind_plans(nb::module_& m) {
  static constexpr std::array kHow = {"plan", "one by one", "eager"};
  nb::class_<RanStep>(m, "_RanStep")
      .def_prop_ro("how", [](const RanStep& s) { return kHow[s.how]; })
      .def_prop_ro("device", [](const RanStep& s) { return to_string(s.device); })
      .def_ro("reason", &RanStep::reason)
      .def_prop_ro("where", [](const RanStep& s) { return resolve_source(s.source); })
      .def_prop_ro("ops", &ops_of)
      .def_ro("ms", &RanStep::ms)
      .def_ro("note", &RanStep::note)
      .def_prop_ro("plan", [](const RanStep& s) { return s.plan ? s.plan->id() : 0; })
      .def_prop_ro("instance", [](const RanStep& s) { return reinterpret_cast<uintptr_t>(s.instance.get()); })
      .def_prop_ro("recompile",
                   [](const RanStep& s) { return s.recompile ? nb::object(recompile_dict(*s.recompile)) : nb::none(); })
      .def("report",
           [](const RanStep& s) { return s.instance ? nb::object(to_dict(s.instance->report())) : nb::none(); })
      .def("times", [](const RanStep& s, size_t rounds) {
        const WithoutGil nogil;
        return s.instance ? lazy::time_steps(s, rounds) : std::vector<std::vector<double>>();
      });
  m.def("_start_step_log", &StepLog::start);
  m.def("_stop_step_log", &StepLog::stop);
  m.def("_known_plans", &known_plans);
  m.def("_last_step", [](const std::string& device) { return lazy::last_step(parse_device(device)); });
}

}  // namespace smolder::python
