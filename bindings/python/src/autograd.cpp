// Gradients: nodes, hooks, functions written in Python, and the engine's entry points.
#include "smolder/autograd/anomaly.h"
#include "smolder/autograd/engine.h"
#include "smolder/autograd/function.h"
#include "smolder/autograd/hooks.h"
#include "smolder/autograd/saved.h"
#include "smolder/autograd/sparse.h"
#include "smolder/lazy/recompute.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"
#include "smolder/nn/optim.h"
#include "src/callable.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

using autograd::FunctionContext;
using autograd::Node;

/// A grad_fn as Python sees it. That of a function written in Python is the function's context, which its node owns.
struct PyNode {
  std::shared_ptr<Node> node;
  std::weak_ptr<Node> owner;

  std::shared_ptr<Node> get() const {
    auto out = node ? node : owner.lock();
    SMOLDER_CHECK(out, RuntimeError,
                  "this context has no node in the graph: forward is still running, no input required a gradient, or "
                  "the graph is gone");
    return out;
  }
  const Node* identity() const { return node ? node.get() : owner.lock().get(); }
};

struct PyContext : PyNode {
  FunctionContext context;
};

/// A function that is written in Python: its context has the backward.
class PyFunction : public autograd::CustomFunction {
 public:
  PyFunction(nb::handle context, std::string name) : context_(context), name_(std::move(name)) {}
  nb::handle context() const { return context_.get(); }
  std::string name() const override { return name_; }
  bool is_program() const override { return true; }
  void release() override { nb::cast<PyContext&>(context()).context.release(); }

  std::vector<Tensor> backward(std::vector<Tensor> grads) override {
    const WithGil gil;
    PyContext& self = nb::cast<PyContext&>(context());
    const nb::tuple given = objects_of(self.context.materialized(std::move(grads)));
    nb::object result = context().attr("apply")(*given);
    const nb::tuple list = nb::isinstance<nb::tuple>(result) ? nb::borrow<nb::tuple>(result) : nb::make_tuple(result);
    const size_t expected = self.context.num_arguments();
    std::vector<Tensor> out;
    for (size_t i = 0; i < list.size(); ++i) {
      if (i >= expected && list[i].is_none()) continue;
      Tensor* t = nullptr;
      SMOLDER_CHECK(list[i].is_none() || (nb::try_cast<Tensor*>(list[i], t) && t), RuntimeError,
                    "expected Variable or None (got ", python_type(list[i]), ")");
      out.push_back(t ? *t : Tensor());
    }
    SMOLDER_CHECK(out.size() == expected, RuntimeError, "function ", name_,
                  " returned an incorrect number of gradients (expected ", expected, ", got ", list.size(), ")");
    out = self.context.of_tensors(name_, std::move(out));
    return out;
  }

 private:
  SharedObject context_;
  std::string name_;
};

/// A node as an object of a class of its name, as torch has them: `type(y.grad_fn).__name__` is "AddBackward0".
nb::object node_object(const std::shared_ptr<Node>& node) {
  if (const auto* const function = dynamic_cast<const PyFunction*>(node->custom())) {
    return nb::borrow(function->context());
  }
  const nb::handle base = nb::type<PyNode>();
  const nb::dict classes = nb::borrow<nb::dict>(base.attr("_classes"));
  const std::string name = node->name();
  if (!classes.contains(name.c_str())) {
    const nb::handle type(reinterpret_cast<PyObject*>(&PyType_Type));
    nb::dict members;
    members["__module__"] = "smolder";
    classes[name.c_str()] = type(name, nb::make_tuple(base), members);
  }
  nb::object out = nb::inst_alloc(classes[name.c_str()]);
  new (nb::inst_ptr<PyNode>(out)) PyNode{node, {}};
  nb::inst_mark_ready(out);
  return out;
}

nb::object grad_fn(const Tensor& t) {
  lazy::refresh(t.impl());
  if (t.is_leaf()) return nb::none();
  return node_object(autograd::gradient_edge(t).node);
}

// -- hooks

std::string hook_name(nb::handle hook) {
  return nb::hasattr(hook, "__name__") ? nb::cast<std::string>(nb::str(hook.attr("__name__"))) : "<unknown>";
}

/// The tensor that a hook returned in place of a gradient; undefined for None.
Tensor checked(nb::handle hook, const Tensor& before, nb::handle result) {
  if (result.is_none()) return {};
  SMOLDER_CHECK(before.defined(), RuntimeError, "can't replace a None gradient with a non-None value");
  Tensor* t = nullptr;
  SMOLDER_CHECK(nb::try_cast<Tensor*>(result, t) && t, TypeError, "expected Variable, but hook returned '",
                python_type(result), "'");
  SMOLDER_CHECK(t->dtype() == before.dtype(), RuntimeError, "hook '", hook_name(hook),
                "' has changed the type of value (was smolder.", autograd::type_name(before.dtype()), " got smolder.",
                autograd::type_name(t->dtype()), ")");
  SMOLDER_CHECK(autograd::whole_shape(*t) == autograd::whole_shape(before), RuntimeError, "hook '", hook_name(hook),
                "' has changed the size of value");
  return *t;
}

/// The same of a hook that gets and returns several; empty for None.
std::vector<Tensor> checked_all(nb::handle hook, const std::vector<Tensor>& before, nb::handle result) {
  if (result.is_none()) return {};
  SMOLDER_CHECK(nb::isinstance<nb::tuple>(result), TypeError, "expected tuple, but hook returned '",
                python_type(result), "'");
  const nb::tuple list = nb::borrow<nb::tuple>(result);
  SMOLDER_CHECK(list.size() == before.size(), RuntimeError, "hook '", hook_name(hook),
                "' has returned an incorrect number of values (got ", list.size(), ", but expected ", before.size(),
                ")");
  std::vector<Tensor> out;
  for (size_t i = 0; i < list.size(); ++i) out.push_back(checked(hook, before[i], list[i]));
  return out;
}

autograd::HookHandle register_tensor_hook(const Tensor& t, const nb::callable& hook) {
  return autograd::register_hook(t, [hook = SharedObject(hook)](const Tensor& grad) {
    const WithGil gil;
    return checked(hook.get(), grad, hook.get()(object_of(grad)));
  });
}

autograd::HookHandle register_leaf_hook(const Tensor& t, const nb::callable& hook) {
  return autograd::register_post_accumulate_grad_hook(t, [hook = SharedObject(hook)](const Tensor& leaf) {
    const WithGil gil;
    const nb::object result = hook.get()(leaf);
    SMOLDER_CHECK(result.is_none(), TypeError, "expected Variable, but hook returned '", python_type(result), "'");
  });
}

autograd::HookHandle register_node_hook(const PyNode& n, const nb::callable& hook) {
  return autograd::register_hook(
      n.get(), [hook = SharedObject(hook)](const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
        const WithGil gil;
        return checked_all(hook.get(), inputs, hook.get()(objects_of(inputs), objects_of(outputs)));
      });
}

autograd::HookHandle register_node_prehook(const PyNode& n, const nb::callable& hook) {
  return autograd::register_prehook(n.get(), [hook = SharedObject(hook)](const std::vector<Tensor>& outputs) {
    const WithGil gil;
    return checked_all(hook.get(), outputs, hook.get()(objects_of(outputs)));
  });
}

/// Packs with Python functions.
class PySavedHooks : public autograd::SavedTensorHooks {
 public:
  PySavedHooks(nb::handle pack, nb::handle unpack) : pack_(pack), unpack_(unpack) {}
  std::shared_ptr<void> pack(const Tensor& t) override {
    const WithGil gil;
    return std::make_shared<SharedObject>(pack_.get()(t));
  }
  Tensor unpack(void* packed) override {
    const WithGil gil;
    const nb::object out = unpack_.get()(static_cast<SharedObject*>(packed)->get());
    Tensor* t = nullptr;
    SMOLDER_CHECK(nb::try_cast<Tensor*>(out, t) && t, TypeError,
                  "Output of saved tensor unpack_hook expected to be a Tensor but got result of type ",
                  python_type(out));
    return *t;
  }

 private:
  SharedObject pack_, unpack_;
};

// -- nodes

nb::tuple next_functions(const PyNode& n) {
  nb::list out;
  const auto node = n.get();
  for (const autograd::Edge& e : node->next) {
    out.append(nb::make_tuple(e.node ? node_object(e.node) : nb::none(), e.output));
  }
  return nb::tuple(out);
}

void bind_nodes(nb::module_& m) {
  nb::class_<autograd::HookHandle>(m, "RemovableHandle", "Takes a hook off again: remove(), or at the end of a block.")
      .def("remove", &autograd::HookHandle::remove)
      .def_prop_ro("id", &autograd::HookHandle::id)
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](autograd::HookHandle& h, const nb::args&) { h.remove(); });
  nb::class_<PyNode>(m, "Node", "An op in the history of a tensor that requires a gradient.", nb::dynamic_attr(),
                     nb::is_weak_referenceable())
      .def("name", [](const PyNode& n) { return n.get()->name(); })
      .def("__repr__",
           [](nb::handle self) {
             char text[200];
             std::snprintf(text, sizeof(text), "<%s object at %p>", Py_TYPE(self.ptr())->tp_name,
                           static_cast<void*>(self.ptr()));
             return std::string(text);
           })
      .def("__eq__",
           [](nb::handle self, nb::handle other) {
             if (self.is(other)) return true;
             return nb::isinstance<PyNode>(other) && nb::cast<PyNode&>(self).identity() &&
                    nb::cast<PyNode&>(self).identity() == nb::cast<PyNode&>(other).identity();
           })
      .def("__hash__",
           [](nb::handle self) {
             const Node* const node = nb::cast<PyNode&>(self).node.get();
             return reinterpret_cast<intptr_t>(node ? static_cast<const void*>(node) : self.ptr()) >> 4;
           })
      .def_prop_ro("next_functions", &next_functions)
      .def_prop_ro("variable",
                   [](const PyNode& n) {
                     const Tensor leaf = n.get()->leaf;
                     if (!leaf.defined()) throw nb::attribute_error("only AccumulateGrad has a variable");
                     return leaf;
                   })
      .def("_sequence_nr", [](const PyNode& n) { return n.get()->sequence; })
      .def("register_hook", &register_node_hook, nb::arg("fn"),
           "Calls fn(grad_inputs, grad_outputs) after the node ran; may return other grad_inputs.")
      .def("register_prehook", &register_node_prehook, nb::arg("fn"),
           "Calls fn(grad_outputs) before the node runs; may return others.")
      .attr("_classes") = nb::dict();
}

// -- functions

std::vector<Tensor> tensors_in(const nb::args& args, const char* function) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < args.size(); ++i) {
    Tensor* t = nullptr;
    SMOLDER_CHECK(args[i].is_none() || (nb::try_cast<Tensor*>(args[i], t) && t), TypeError, function,
                  " can only save variables, but argument ", i, " is of type ", python_type(args[i]));
    out.push_back(t ? *t : Tensor());
  }
  return out;
}

/// Those of a list of objects that are tensors, undefined where they are none.
std::vector<Tensor> tensors_among(nb::handle list) {
  std::vector<Tensor> out;
  for (const nb::handle o : list) {
    Tensor* t = nullptr;
    out.push_back(nb::try_cast<Tensor*>(o, t) && t ? *t : Tensor());
  }
  return out;
}

nb::list finish_function(nb::handle self, const std::string& name, const nb::list& outputs) {
  PyContext& context = nb::cast<PyContext&>(self);
  const std::vector<Tensor> before = tensors_among(outputs);
  std::vector<Tensor> after = before;
  context.context.finish(name, std::make_shared<PyFunction>(self, name + "Backward"), after);
  context.owner = context.context.node();
  nb::list out;
  for (size_t i = 0; i < after.size(); ++i) {
    const bool same = !after[i].defined() || after[i].impl() == before[i].impl();
    out.append(same ? nb::borrow(outputs[i]) : nb::cast(after[i]));
  }
  return out;
}

void bind_functions(nb::module_& m) {
  nb::class_<PyContext, PyNode>(m, "_FunctionBase", "What forward leaves for backward.")
      .def(nb::init<>())
      .def("save_for_backward",
           [](PyContext& c, const nb::args& tensors) {
             c.context.save_for_backward(tensors_in(tensors, "save_for_backward"));
           })
      .def("mark_dirty",
           [](PyContext& c, const nb::args& tensors) { c.context.mark_dirty(tensors_in(tensors, "mark_dirty")); })
      .def("mark_non_differentiable",
           [](PyContext& c, const nb::args& tensors) {
             c.context.mark_non_differentiable(tensors_in(tensors, "mark_non_differentiable"));
           })
      .def(
          "set_materialize_grads", [](PyContext& c, bool on) { c.context.set_materialize_grads(on); }, nb::arg("value"))
      .def_prop_ro("saved_tensors", [](const PyContext& c) { return objects_of(c.context.saved_tensors()); })
      .def("_begin",
           [](PyContext& c, nb::handle args) {
             std::vector<Tensor> inputs = tensors_among(args);
             const size_t n = inputs.size();
             c.context.begin(std::move(inputs));
             nb::list needs;
             for (size_t i = 0; i < n; ++i) needs.append(nb::bool_(c.context.needs_input_grad(i)));
             return nb::tuple(needs);
           })
      .def("_finish", &finish_function);
}

// -- tensors

/// The objects that gradients are, while any of them lives: `x.grad is x.grad`. Weak references by what an object
/// holds.
class GradientObjects {
 public:
  static nb::object of(const Tensor& grad) {
    if (const auto found = all().find(grad.impl()); found != all().end()) {
      if (nb::object object = found->second(); !object.is_none()) return object;
    }
    nb::object object = object_for(grad);
    note(object, grad);
    return object;
  }
  static void note(nb::handle object, const Tensor& grad) {
    lazy::TensorImpl* const impl = grad.impl();
    const nb::object gone = nb::cpp_function([impl](nb::handle reference) {
      const auto found = all().find(impl);
      if (found != all().end() && found->second.is(reference)) all().erase(found);
    });
    all()[impl] = nb::weakref(object, gone);
  }

 private:
  using Objects = std::unordered_map<lazy::TensorImpl*, nb::object>;
  static Objects& all() {
    static Objects* const objects = new Objects;  // outlives the interpreter
    return *objects;
  }
};

nb::object grad_of(nb::handle self) {
  const Tensor& t = nb::cast<const Tensor&>(self);
  const Tensor g = t.grad();
  if (g.defined()) return GradientObjects::of(g);
  if (!t.is_leaf() && !autograd::retains_grad(t)) {
    const char* const text =
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
        "you access the leaf Tensor instead.";
    if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) nb::raise_python_error();
  }
  return nb::none();
}

void bind_tensor_members(nb::class_<Tensor>& tensor) {
  tensor.def_prop_ro("grad_fn", &grad_fn)
      .def_prop_rw(
          "grad", &grad_of,
          [](Tensor& t, nb::handle grad) {
            Tensor* g = nullptr;
            SMOLDER_CHECK(grad.is_none() || (nb::try_cast<Tensor*>(grad, g) && g), TypeError,
                          "assigned grad expected to be a Tensor or None but got grad of type ", python_type(grad));
            t.set_grad(g ? *g : Tensor());
            if (g) GradientObjects::note(grad, *g);
          },
          nb::arg("grad").none())
      .def(
          "backward",
          [](const Tensor& t, const std::optional<Tensor>& g, bool retain, bool create) {
            t.backward(g.value_or(Tensor()), retain, create);
          },
          nb::arg("gradient") = nb::none(), nb::arg("retain_graph") = false, nb::arg("create_graph") = false)
      .def("register_hook", &register_tensor_hook, nb::arg("hook"),
           "Calls hook(grad) when the gradient is computed; what it returns, unless None, takes its place.")
      .def("_register_leaf_hook", &register_leaf_hook)
      .def("retain_grad", &autograd::retain_grad, "Makes a tensor that is no leaf keep its gradient.")
      .def_prop_ro("retains_grad", &autograd::retains_grad);
}

struct KeptTensor {
  autograd::SavedTensor saved;
};

struct Recomputing {
  std::unique_ptr<lazy::Recomputation> scope;
};

// -- anomaly mode

std::string python_trace() {
  const WithGil gil;
  return nb::cast<std::string>(nb::module_::import_("smolder.autograd.anomaly_mode").attr("_trace")());
}

void warn(const std::string& message) {
  const WithGil gil;
  nb::error_scope original;  // the error that is reported goes on
  if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) < 0) PyErr_Clear();
}

void bind_modes(nb::module_& m) {
  m.def("set_grad_enabled", &lazy::set_grad_enabled, nb::arg("on"), "Whether history is recorded.");
  m.def("is_inference_mode_enabled", &lazy::inference_mode_enabled, "Whether new tensors are inference tensors.");
  m.def("_set_inference_mode", &lazy::set_inference_mode_enabled);
  nb::class_<Recomputing>(m, "_Recomputing", "Within it, nothing recorded is merged with what was recorded before.")
      .def(nb::init<>())
      .def("__enter__", [](Recomputing& r) { r.scope = std::make_unique<lazy::Recomputation>(); })
      .def("__exit__", [](Recomputing& r, const nb::args&) { r.scope.reset(); });
  m.def("is_grad_enabled", &lazy::grad_enabled, "Whether history is recorded.");
  m.def("set_eager_enabled", &lazy::set_eager_enabled, nb::arg("on"), "Whether every op runs at once.");
  m.def("is_eager_enabled", &lazy::eager_enabled, "Whether every op runs at once.");
  m.def(
      "is_anomaly_enabled", [] { return autograd::anomaly_mode(); },
      "Whether errors in backward name the forward line.");
  m.def(
      "is_anomaly_check_nan_enabled", [] { return autograd::anomaly_checks_nan(); },
      "Whether gradients that are nan are errors in anomaly mode.");
  m.def("_set_anomaly_enabled", &autograd::set_anomaly_mode, nb::arg("on"), nb::arg("check_nan") = true);
  m.def("_version_checks", &autograd::version_checks);
  m.def("_set_version_checks", &autograd::set_version_checks);
  m.def("_push_saved_tensor_hooks", [](nb::handle pack, nb::handle unpack) {
    autograd::push_saved_tensor_hooks(std::make_shared<PySavedHooks>(pack, unpack));
  });
  m.def("_pop_saved_tensor_hooks", &autograd::pop_saved_tensor_hooks);
  autograd::set_anomaly_providers(&python_trace, &warn);
}

}  // namespace

void bind_autograd(nb::module_& m, nb::class_<Tensor>& tensor) {
  bind_nodes(m);
  bind_functions(m);
  bind_modes(m);
  bind_tensor_members(tensor);
  m.def(
      "backward",
      [](const std::vector<Tensor>& tensors, const std::vector<std::optional<Tensor>>& grads, bool retain, bool create,
         const std::vector<Tensor>& inputs) {
        autograd::backward(tensors, defined_or_not(grads), retain, create, inputs);
      },
      nb::arg("tensors"), nb::arg("grad_tensors"), nb::arg("retain_graph"), nb::arg("create_graph"),
      nb::arg("inputs") = std::vector<Tensor>());
  m.def(
      "grad",
      [](const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
         const std::vector<std::optional<Tensor>>& grads, bool retain, bool create, bool allow_unused) {
        return objects_of(autograd::grad(outputs, inputs, defined_or_not(grads), retain, create, allow_unused));
      },
      nb::arg("outputs"), nb::arg("inputs"), nb::arg("grad_outputs"), nb::arg("retain_graph"), nb::arg("create_graph"),
      nb::arg("allow_unused"));
  nb::class_<KeptTensor>(m, "_KeptTensor", "A tensor as it is now, kept as ops keep what their gradients need.")
      .def("__init__",
           [](KeptTensor* k, const Tensor& t) {
             lazy::refresh(t.impl());
             new (k) KeptTensor{autograd::save(t.impl(), autograd::gradient_edge(t))};
           })
      .def("unpack", [](const KeptTensor& k) { return autograd::unpack(k.saved, nullptr); });
  m.def("_is_same_value", [](const Tensor& a, const Tensor& b) {
    lazy::refresh(a.impl());
    lazy::refresh(b.impl());
    return lazy::value_now(a.impl()).get() == lazy::value_now(b.impl()).get();
  });
  m.def("_current_backward", &autograd::current_backward);
  m.def("_backward_is_partial", &autograd::backward_is_partial);
  m.def("_backward_reaches", &autograd::backward_reaches);
  m.def("_gradient_node", [](const Tensor& t) {
    lazy::refresh(t.impl());
    const autograd::Edge edge = autograd::gradient_edge(t);
    return nb::make_tuple(edge.node ? node_object(edge.node) : nb::none(), edge.output);
  });
  m.def("assign", &lazy::assign, nb::arg("tensor"), nb::arg("source"));
  m.def("zero_state", &optim::zero_state, nb::arg("parameter"));
  // One call a parameter instead of four: what a step of a small model takes is mostly calls.
  m.def(
      "update_adam",
      [](const Tensor& parameter, const Tensor& grad, const Tensor& mean, const Tensor& square,
         const std::optional<Tensor>& largest, const TensorOrNumber& step, double lr, double beta1, double beta2,
         double eps, double weight_decay, bool maximize, bool decoupled, const std::optional<Tensor>& skip) {
        const optim::AdamOptions options{lr, beta1, beta2, eps, weight_decay, largest.has_value(), maximize};
        optim::update_adam(parameter, grad, mean, square, largest.value_or(Tensor()), options, step.operand(),
                           decoupled, skip.value_or(Tensor()));
      },
      nb::arg("parameter"), nb::arg("grad"), nb::arg("exp_avg"), nb::arg("exp_avg_sq"),
      nb::arg("max_exp_avg_sq").none(), nb::arg("step"), nb::arg("lr"), nb::arg("beta1"), nb::arg("beta2"),
      nb::arg("eps"), nb::arg("weight_decay"), nb::arg("maximize"), nb::arg("decoupled"), nb::arg("skip") = nb::none());
}

}  // namespace smolder::python
