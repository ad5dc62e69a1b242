// Captured graphs. What nests arguments and results is smolder/_graph.py.
#include "smolder/graph/graph.h"

#include <nanobind/stl/map.h>

#include "src/callable.h"
#include "src/dtype.h"
#include "src/tensor.h"
#include "src/user_ops.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

using Ranges = std::map<std::string, std::pair<int64_t, int64_t>>;

/// Calls a Python function of a list of tensors, without the GIL around it.
CaptureFunction caller_of(nb::handle fn) {
  return [fn = SharedObject(fn)](const std::vector<Tensor>& inputs) {
    const WithGil gil;
    try {
      const nb::object results = fn.get()(objects_of(inputs));
      std::vector<Tensor> out;
      for (nb::handle t : results) out.push_back(nb::cast<Tensor>(t));
      return out;
    } catch (nb::python_error& e) {
      throw PythonError(std::move(e));
    }
  };
}

Graph capture_python(nb::handle fn, const std::vector<Tensor>& examples,
                     const std::vector<std::pair<std::string, Tensor>>& weights, std::vector<std::string> names,
                     std::vector<std::map<int, std::string>> dynamic_shapes, Ranges ranges) {
  CaptureOptions options;
  options.weights = weights;
  options.input_names = std::move(names);
  options.dynamic_shapes = std::move(dynamic_shapes);
  options.ranges = std::move(ranges);
  const CaptureFunction call = caller_of(fn);
  const WithoutGil nogil;
  return capture(call, examples, options);
}

/// Names of values have a % in front; other strings are choices, as "mean".
bool is_value(nb::handle o) { return PyUnicode_Check(o.ptr()) && nb::cast<std::string>(o).starts_with('%'); }

NodeArgument argument_of(nb::handle o) {
  if (is_value(o)) return value(nb::cast<std::string>(o));
  lazy::CallArgument out(std::nullopt);
  if (o.is_none()) return out;
  if (PyDType d; nb::try_cast(o, d)) return lazy::CallArgument(d.value);
  if (const auto n = number_of(o.ptr())) return lazy::CallArgument(*n);
  if (PyUnicode_Check(o.ptr())) return lazy::CallArgument(nb::cast<std::string>(o).c_str());
  SMOLDER_CHECK(PyList_Check(o.ptr()) || PyTuple_Check(o.ptr()), TypeError,
                "an argument of a node is the name of a value, "
                "a number, a dtype, a string, None, or a list of names or integers, got ",
                python_type(o));
  const nb::sequence list = nb::borrow<nb::sequence>(o);
  if (nb::len(list) > 0 && is_value(list[0])) {
    std::vector<NodeArgument::ValueName> names;
    for (nb::handle v : list) names.push_back(value(nb::cast<std::string>(v)));
    return names;
  }
  std::vector<int64_t> integers;
  for (nb::handle v : list) integers.push_back(nb::cast<int64_t>(v));
  out.attribute = std::move(integers);
  return out;
}

/// In the order of the op's signature.
std::vector<NodeArgument> arguments_of(const std::string& op, nb::handle args, const nb::dict& kwargs) {
  const ir::Schema schema = ir::schema_of(ir::find_op(op));
  std::vector<NodeArgument> out;
  for (nb::handle a : args) out.push_back(argument_of(a));
  for (const auto& [key, given] : kwargs) {
    const std::string name = nb::cast<std::string>(key);
    size_t at = 0;
    while (at < schema.arguments.size() && schema.arguments[at].name != name) ++at;
    SMOLDER_CHECK(at < schema.arguments.size(), TypeError, op, "() has no argument '", name, "'");
    SMOLDER_CHECK(at >= nb::len(args), TypeError, op, "() got two values for argument '", name, "'");
    if (out.size() <= at) out.resize(at + 1);
    out[at] = argument_of(given);
  }
  return out;
}

void bind_values(nb::module_& m) {
  nb::class_<GraphValue>(m, "_GraphValue", "A value of a graph: its name (\"%3\"), dtype and shape.")
      .def_ro("name", &GraphValue::name)
      .def_ro("is_number", &GraphValue::is_number)
      .def_prop_ro(
          "dtype", [](const GraphValue& v) { return the_dtype(v.dtype); }, nb::rv_policy::reference)
      .def_prop_ro("shape",
                   [](const GraphValue& v) {
                     nb::list out;
                     for (const std::string& d : v.shape) {
                       const bool fixed = d.find_first_not_of("0123456789") == std::string::npos;
                       out.append(fixed ? nb::object(nb::cast(std::stoll(d))) : nb::object(nb::cast(d)));
                     }
                     return nb::tuple(out);
                   })
      .def("__repr__", [](const GraphValue& v) {
        std::string shape;
        for (const std::string& d : v.shape) shape += (shape.empty() ? "" : ", ") + d;
        return v.name + ": " + std::string(name(v.dtype)) + "[" + shape + "]";
      });
  nb::class_<GraphNode>(m, "_GraphNode", "A node of a graph: its op, what it reads and makes, and attributes.")
      .def_ro("op", &GraphNode::op)
      .def_ro("inputs", &GraphNode::inputs)
      .def_ro("outputs", &GraphNode::outputs)
      .def_ro("source", &GraphNode::source)
      .def_prop_ro("name", [](const GraphNode& n) { return n.name(); })
      .def_prop_ro("attributes",
                   [](const GraphNode& n) {
                     nb::dict out;
                     for (const auto& [name, text] : n.attributes) out[name.c_str()] = text;
                     return out;
                   })
      .def("__repr__", [](const GraphNode& n) {
        std::string inputs;
        for (const std::string& i : n.inputs) inputs += (inputs.empty() ? "" : ", ") + i;
        for (const auto& [name, text] : n.attributes) {
          if (!inputs.empty()) inputs += ", ";
          inputs.append(name).append("=").append(text);
        }
        return n.name() + " = " + n.op + "(" + inputs + ")";
      });
}

}  // namespace

void bind_captured(nb::module_& m) {
  bind_values(m);
  nb::class_<Graph>(m, "_Graph")
      .def("__str__", &Graph::to_string)
      .def_static("parse", [](const std::string& text) { return Graph::parse(text); })
      .def("verify", &Graph::verify)
      .def("copy", [](const Graph& g) { return g; })
      .def_prop_ro("input_names", &Graph::input_names)
      .def_prop_ro("output_names", &Graph::output_names)
      .def_prop_ro("dynamic_sizes", &Graph::dynamic_sizes)
      .def_prop_ro("inputs", &Graph::inputs)
      .def_prop_ro("outputs", &Graph::outputs)
      .def_prop_ro("nodes", &Graph::nodes)
      .def_prop_rw("structure", &Graph::structure, &Graph::set_structure)
      .def("weights",
           [](const Graph& g) {
             nb::list out;
             for (const auto& [name, t] : g.weights()) out.append(nb::make_tuple(name, object_of(t)));
             return out;
           })
      .def("rename", &Graph::rename)
      .def("run",
           [](const Graph& g, const std::vector<Tensor>& inputs) {
             std::vector<Tensor> out;
             {
               const WithoutGil nogil;
               out = g.run(inputs);
             }
             return objects_of(out);
           })
      .def("to",
           [](const Graph& g, const std::string& device) {
             const WithoutGil nogil;
             return g.to(parse_device(device));
           })
      .def("bind", [](const Graph& g, const std::vector<std::pair<std::string, Tensor>>& weights,
                      bool strict) { return g.bind(weights, strict); })
      .def("save",
           [](const Graph& g, const std::string& path, bool weights) {
             const WithoutGil nogil;
             g.save(path, {.weights = weights});
           })
      .def_static("load",
                  [](const std::string& path) {
                    const WithoutGil nogil;
                    return Graph::load(path);
                  })
      .def("insert", [](Graph& g, const std::string& before, const std::string& op, nb::handle args,
                        const nb::dict& kwargs) { return g.insert(before, op, arguments_of(op, args, kwargs)); })
      .def("replace", &Graph::replace)
      .def("replace_node", [](Graph& g, const std::string& node, const std::string& op, nb::handle args,
                              const nb::dict& kwargs) { g.replace_node(node, op, arguments_of(op, args, kwargs)); })
      .def("erase", &Graph::erase)
      .def("eliminate_dead", &Graph::eliminate_dead)
      .def("differentiate", [](const Graph& g, const std::vector<std::string>& wrt, bool outputs) {
        const WithoutGil nogil;
        return g.differentiate(wrt, outputs);
      });
  m.def("_capture_graph", &capture_python);
}

}  // namespace smolder::python
