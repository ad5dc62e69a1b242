// The profile, for Python.
#include "smolder/core/profile.h"

#include <memory>

#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

/// Whose lists are read by smolder.profiler: tuples, as there may be a million.
nb::list spans_of(const ProfileLog& log) {
  nb::list out;
  for (const Span& s : log.spans) {
    nb::list shapes;
    for (const std::string& shape : s.shapes) shapes.append(shape);
    out.append(nb::make_tuple(std::string(name(s.kind)), s.name, resolve_source(s.source), s.begin_ns, s.end_ns,
                              s.own_ns ? nb::cast(*s.own_ns) : nb::none(), s.thread, to_string(s.device), s.queued,
                              s.bytes, s.plan, s.step, s.flow, s.count, s.detail, nb::tuple(shapes)));
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

}  // namespace

void bind_profile(nb::module_& m) {
  nb::class_<ProfileSession>(m, "_ProfileSession")
      .def(
          "__init__",
          [](ProfileSession* self, bool shapes, bool memory) {
            new (self) ProfileSession({.shapes = shapes, .memory = memory});
          },
          nb::arg("shapes") = false, nb::arg("memory") = false)
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
  m.def("_profiling", &profiling);
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
