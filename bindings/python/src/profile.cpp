// The profile and the history of memory, for Python.
#include "smolder/core/profile.h"

#include <memory>

#include "smolder/core/cuda/memory.h"
#include "smolder/core/memory_history.h"
#include "smolder/lazy/tape.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

/// Whose lists are read by smolder.profiler: tuples, as there may be a million.
nb::list spans_of(const ProfileLog& log) {
  nb::list out;
  for (const Span& s : log.spans) {
    nb::list shapes;
    if (s.shapes) {
      for (const std::string& shape : *s.shapes) shapes.append(shape);
    }
    out.append(nb::make_tuple(std::string(name(s.kind)), s.name, resolve_source(s.source), s.begin_ns, s.end_ns,
                              s.own_ns ? nb::cast(*s.own_ns) : nb::none(), s.thread, to_string(s.device), s.queued,
                              s.bytes, s.plan, s.step, s.flow, s.count, s.detail, nb::tuple(shapes), s.flops));
  }
  return out;
}

nb::list changes_of(const ProfileLog& log) {
  nb::list out;
  for (const MemoryChange& c : log.memory) {
    out.append(nb::make_tuple(c.at_ns, to_string(c.device), c.bytes, c.live, c.thread));
  }
  return out;
}

nb::object told(const ProfileLog& log) { return nb::make_tuple(spans_of(log), changes_of(log), log.dropped); }

nb::object block_of(const HeldMemory& b) {
  return nb::make_tuple(b.address, to_string(b.device), b.bytes, b.size, b.use.what, resolve_source(b.use.source),
                        b.at_ns);
}

nb::object history() {
  const MemoryHistory h = memory_history();
  nb::list held, events;
  for (const HeldMemory& b : h.held) held.append(block_of(b));
  static constexpr const char* kKinds[] = {"taken", "given back", "given on"};
  for (const MemoryEvent& e : h.events) events.append(nb::make_tuple(kKinds[e.kind], block_of(e.block)));
  return nb::make_tuple(held, events);
}

nb::list segments_of(int device) {
  static constexpr const char* kPurposes[] = {"tensors", "numbers", "graphs"};
  nb::list out;
  for (const cuda::Pool::Segment& s : cuda::pool_segments(device)) {
    nb::list pieces;
    for (const auto& p : s.pieces) pieces.append(nb::make_tuple(p.address, p.size, p.requested, p.free));
    out.append(nb::make_tuple(s.small, kPurposes[static_cast<int>(s.purpose)], pieces));
  }
  return out;
}

}  // namespace

void bind_profile(nb::module_& m) {
  nb::class_<ProfileSession>(m, "_ProfileSession")
      .def(
          "__init__",
          [](ProfileSession* self, bool shapes, bool memory, bool flops, bool devices) {
            new (self) ProfileSession({.shapes = shapes, .memory = memory, .flops = flops, .devices = devices});
          },
          nb::arg("shapes") = false, nb::arg("memory") = false, nb::arg("flops") = false, nb::arg("devices") = true)
      .def("log",
           [](const ProfileSession& s) {
             ProfileLog log;
             {
               const WithoutGil nogil;
               log = s.log();
             }
             return told(log);
           })
      .def("stop", [](ProfileSession& s) {
        ProfileLog log;
        {
          const WithoutGil nogil;
          log = s.stop();
        }
        return told(log);
      });
  m.def("_start_memory_history", &start_memory_history, nb::arg("most_events"), nb::arg("goes_on") = false);
  m.def("_stop_memory_history", &stop_memory_history);
  m.def("_memory_history_is_on", &memory_history_is_on);
  m.def("_memory_history", &history);
  m.def("_cuda_segments", &segments_of);
  m.def("_profiling", &profiling);
  m.def("_run_recorded", [](const std::string& reason) {  // without making it a step that the program marked
    const WithoutGil nogil;
    const SourceToken source = capture_source();
    lazy::Tape::each([&](lazy::Tape& tape) { tape.sync(reason, source); });
  });
  m.def(
      "_profile_span",
      [](const std::string& name, int64_t begin_ns, int64_t end_ns, const std::string& detail) {
        Span span;
        span.name = name;
        span.source = capture_source();
        span.begin_ns = begin_ns;
        span.end_ns = end_ns;
        span.detail = detail;
        add_span(std::move(span));
      },
      nb::arg("name"), nb::arg("begin_ns"), nb::arg("end_ns"), nb::arg("detail") = "");
}

}  // namespace smolder::python
