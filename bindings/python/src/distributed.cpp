// Stores, groups and recorded collectives. What programs call is in smolder/distributed.
#include "src/distributed.h"

#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <map>

#include "smolder/core/dynamic_library.h"
#include "smolder/distributed/error.h"
#include "smolder/distributed/group.h"
#include "smolder/distributed/ops.h"
#include "smolder/distributed/stand_in.h"
#include "smolder/distributed/tcp_store.h"
#include "smolder/distributed/timeline.h"
#include "src/casters.h"
#include "src/dtype.h"
#include "src/without_gil.h"

namespace smolder::python {

using distributed::Milliseconds;
using distributed::Store;

PyObject* distributed_error_type(const std::string& name) {
  static const auto* const types = [] {
    auto* const made = new std::map<std::string, PyObject*>;
    const auto add = [&](const char* name, const char* doc, PyObject* base) {
      return (*made)[name] =
                 PyErr_NewExceptionWithDoc((std::string("smolder.distributed.") + name).c_str(), doc, base, nullptr);
    };
    PyObject* const base = add("DistError", "Raised when something between processes goes wrong.", PyExc_RuntimeError);
    add("DistBackendError", "Raised when a collective failed: a rank died, hung, or did something else.", base);
    add("DistNetworkError", "Raised when there is no connection, or it ended.", base);
    add("DistStoreError", "Raised when a store has not got what it is asked for.", base);
    return made;
  }();
  const auto at = types->find(name);
  return at == types->end() ? nullptr : at->second;
}

namespace {

nb::bytes as_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

/// Text or bytes.
std::string value_of(nb::handle o) {
  if (PyBytes_Check(o.ptr())) return {PyBytes_AS_STRING(o.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(o.ptr()))};
  return nb::cast<std::string>(o);
}

Milliseconds milliseconds(double seconds) { return Milliseconds(static_cast<int64_t>(seconds * 1000)); }
double seconds(Milliseconds time) { return static_cast<double>(time.count()) / 1000; }

/// Calls `f` without the GIL.
auto outside(auto&& f) {
  const WithoutGil nogil;
  return f();
}

void bind_stores(nb::module_& m) {
  nb::class_<Store>(m, "_Store", nb::dynamic_attr())
      .def("set", [](Store& s, const std::string& key,
                     nb::handle value) { outside([&, v = value_of(value)] { s.set(key, v); }); })
      .def("get", [](Store& s, const std::string& key) { return as_bytes(outside([&] { return s.get(key); })); })
      .def("add", &Store::add, nb::call_guard<WithoutGil>())
      .def("compare_set",
           [](Store& s, const std::string& key, nb::handle expected, nb::handle desired) {
             return as_bytes(
                 outside([&, a = value_of(expected), b = value_of(desired)] { return s.compare_set(key, a, b); }));
           })
      .def("append", [](Store& s, const std::string& key,
                        nb::handle value) { outside([&, v = value_of(value)] { s.append(key, v); }); })
      .def("delete_key", &Store::erase, nb::call_guard<WithoutGil>())
      .def("num_keys", &Store::num_keys, nb::call_guard<WithoutGil>())
      .def("check",
           [](Store& s, const std::vector<std::string>& keys) {
             return outside([&] {
               return std::all_of(keys.begin(), keys.end(),
                                  [&](const std::string& k) { return s.find(k).has_value(); });
             });
           })
      .def("wait", [](Store& s, const std::vector<std::string>& keys,
                      double timeout) { outside([&] { s.wait(keys, milliseconds(timeout)); }); })
      .def("announce", &Store::announce, nb::call_guard<WithoutGil>())
      .def_prop_rw(
          "seconds", [](const Store& s) { return seconds(s.timeout()); },
          [](Store& s, double timeout) { s.set_timeout(milliseconds(timeout)); });
  nb::class_<distributed::HashStore, Store>(m, "_HashStore").def(nb::init<>());
  nb::class_<distributed::FileStore, Store>(m, "_FileStore")
      .def(nb::init<std::string, int64_t>(), nb::call_guard<WithoutGil>())
      .def_prop_ro("path", &distributed::FileStore::path);
  nb::class_<distributed::PrefixStore, Store>(m, "_PrefixStore").def(nb::init<std::string, std::shared_ptr<Store>>());
  nb::class_<distributed::TCPStore, Store>(m, "_TCPStore")
      .def(
          "__init__",
          [](distributed::TCPStore* self, const std::string& host, uint16_t port, std::optional<int64_t> world_size,
             bool is_master, double timeout, bool wait_for_workers, bool multi_tenant) {
            outside([&] {
              new (self) distributed::TCPStore(
                  host, port, {world_size, is_master, milliseconds(timeout), wait_for_workers, multi_tenant});
            });
          },
          nb::arg("host"), nb::arg("port"), nb::arg("world_size").none(), nb::arg("is_master"), nb::arg("timeout"),
          nb::arg("wait_for_workers"), nb::arg("multi_tenant"))
      .def_prop_ro("host", &distributed::TCPStore::host)
      .def_prop_ro("port", &distributed::TCPStore::port)
      .def_prop_ro("serves", &distributed::TCPStore::is_served_here);
  m.def("_free_port", &distributed::free_port);
  m.def("_own_address", [](const std::string& host) {
    return outside([&] { return distributed::own_address_towards(distributed::resolve_host(host)); });
  });
}

distributed::CollectiveCall call_of(const std::string& name, int64_t group, std::vector<int64_t> detail,
                                    std::vector<int64_t> shape) {
  return {name, group, std::move(detail), std::move(shape)};
}

}  // namespace

void bind_distributed(nb::module_& m) {
  for (const char* name : {"DistError", "DistBackendError", "DistNetworkError", "DistStoreError"}) {
    m.attr((std::string("_") + name).c_str()) = nb::borrow(distributed_error_type(name));
  }
  bind_stores(m);
  m.def("_dist_connect", [](int64_t number, const std::string& name, const std::vector<int>& ranks, int rank,
                            std::shared_ptr<Store> store, int store_rank, const std::string& backend,
                            const std::string& device_backend, const std::string& address, double timeout) {
    outside([&] {
      distributed::add_group(std::make_shared<distributed::Group>(
          distributed::Group::Options{number, name, ranks, rank, std::move(store), store_rank, backend, device_backend,
                                      address, milliseconds(timeout)}));
    });
  });
  m.def("_dist_has_gloo", [] {
    try {
      DynamicLibrary::open_plugin("smolder_gloo");
      return true;
    } catch (const Error&) {
      return false;
    }
  });
  m.def("_dist_has_nccl", &distributed::nccl::is_available, nb::call_guard<WithoutGil>());
  m.def("_dist_remove", &distributed::remove_group, nb::call_guard<WithoutGil>());
  m.def("_dist_fail", &distributed::fail_groups, nb::call_guard<WithoutGil>());
  m.def("_dist_see_off", &distributed::see_off_groups, nb::call_guard<WithoutGil>());
  m.def("_dist_failure", [](int64_t number) { return distributed::find_group(number)->failure(); });
  m.def("_dist_drain", [](int64_t number) { outside([&] { distributed::find_group(number)->drain(); }); });
  m.def("_dist_set_timeout",
        [](int64_t number, double timeout) { distributed::find_group(number)->set_timeout(milliseconds(timeout)); });
  m.def("_dist_call", [](const std::string& name, const Tensor& x, int64_t group, std::vector<int64_t> detail,
                         std::vector<int64_t> shape) {
    return distributed::record_collective(call_of(name, group, std::move(detail), std::move(shape)), x);
  });
  m.def("_dist_begin", [](const std::string& name, const Tensor& x, int64_t group, std::vector<int64_t> detail,
                          std::vector<int64_t> shape) {
    return distributed::record_begin(call_of(name, group, std::move(detail), std::move(shape)), x);
  });
  m.def("_dist_finish", [](const std::string& name, const Tensor& begun, const Tensor& x, int64_t group,
                           std::vector<int64_t> detail, std::vector<int64_t> shape) {
    return distributed::record_finish(call_of(name, group, std::move(detail), std::move(shape)), begun, x);
  });
  m.def("_dist_all_reduce_now", [](int64_t number, std::vector<uint8_t> values) {
    outside([&] {
      const std::shared_ptr<distributed::Group> group = distributed::find_group(number);
      group->run("the largest of " + std::to_string(values.size()) + " numbers",
                 [&](distributed::Communicator& c, distributed::Word word, distributed::Job&) {
                   c.all_reduce(values.data(), values.size(), 1,
                                distributed::combine_of(distributed::Reduce::kMax, DType::kUInt8), word);
                 });
    });
    return values;
  });
  m.def("_dist_define", &distributed::define_collectives);
  m.def("_dist_stand_in", [] {
    distributed::define_collectives();
    distributed::stand_in_for_peers();
  });
  m.def("_dist_keep", &distributed::keep_collectives);
  m.def("_dist_take", [] {
    nb::list out;
    for (const distributed::RanCollective& r : distributed::take_collectives()) {
      nb::dict d;
      d["what"] = r.what;
      d["group"] = r.group;
      d["number"] = r.number;
      d["bytes"] = r.bytes;
      d["where"] = resolve_source(r.source);
      d["waited_at"] = resolve_source(r.waited_at);
      for (const auto& [name, ns] : {std::pair{"begun", r.begun_ns},
                                     {"started", r.started_ns},
                                     {"ended", r.ended_ns},
                                     {"waited", r.waited_ns},
                                     {"went_on", r.went_on_ns}}) {
        d[name] = ns;
      }
      out.append(d);
    }
    return out;
  });
  m.def("_dist_pending", &distributed::collectives_pending);
  m.def("_dist_last_sender", &distributed::last_sender, nb::call_guard<WithoutGil>());
  m.def("_dist_forget", &distributed::forget_begun);
}

}  // namespace smolder::python
