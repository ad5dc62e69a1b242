#include "src/user_ops.h"

#include <cstring>
#include <vector>

#include "smolder/autograd/library.h"
#include "smolder/eager/execute.h"
#include "smolder/lazy/ask.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/tape.h"
#include "src/callable.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

using ir::SchemaArgument;

void add_note(const nb::python_error& e, const std::string& note) { e.value().attr("add_note")(note); }

// -- arguments

nb::object object_of_number(Scalar s) {
  if (s.category() == Category::kBool) return nb::bool_(s.to_bool());
  if (s.category() == Category::kInt) return nb::int_(s.to_int());
  return nb::float_(s.to_double());
}

nb::object object_of_value(const ir::AttrValue& v) {
  return std::visit(
      [](const auto& x) -> nb::object {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nb::none();
        } else if constexpr (std::is_same_v<T, DType>) {
          return nb::module_::import_("smolder._core").attr(std::string(name(x)).c_str());
        } else {
          return nb::cast(x);
        }
      },
      v);
}

[[noreturn]] void wrong_type(const std::string& op, const SchemaArgument& a, nb::handle given) {
  std::string type = a.type;
  if (a.optional && type.ends_with('?')) type = "Optional[" + type.substr(0, type.size() - 1) + "]";
  raise<RuntimeError>(op, "() Expected a value of type '", type, "' for argument '", a.name,
                      "' but instead found type '", python_type(given), "'.");
}

template <class T>
std::optional<std::vector<T>> list_of(nb::handle o) {
  std::vector<T> out;
  if (!PyList_Check(o.ptr()) && !PyTuple_Check(o.ptr())) return std::nullopt;
  for (const nb::handle item : o) {
    T v{};
    if (!nb::try_cast(item, v)) return std::nullopt;
    out.push_back(v);
  }
  return out;
}

ir::AttrValue value_of(const std::string& op, const SchemaArgument& a, nb::handle o) {
  if (o.is_none()) {
    if (!a.optional) wrong_type(op, a, o);
    return {};
  }
  switch (a.kind) {
    case SchemaArgument::kInt:
      if (PyIndex_Check(o.ptr()) && !nb::isinstance<Tensor>(o)) return nb::cast<int64_t>(o);
      break;
    case SchemaArgument::kFloat:
      if (const auto n = number_of(o.ptr())) return n->to_double();
      break;
    case SchemaArgument::kBool:
      if (PyBool_Check(o.ptr())) return o.is(Py_True);
      break;
    case SchemaArgument::kDType:
      if (PyDType d; nb::try_cast(o, d)) return d.value;
      break;
    case SchemaArgument::kText:
      if (PyUnicode_Check(o.ptr())) return nb::cast<std::string>(o);
      break;
    case SchemaArgument::kInts:
      if (PyIndex_Check(o.ptr()) && !nb::isinstance<Tensor>(o)) return std::vector<int64_t>{nb::cast<int64_t>(o)};
      if (auto v = list_of<int64_t>(o)) return *v;
      break;
    case SchemaArgument::kFloats:
      if (auto v = list_of<double>(o)) return *v;
      break;
    case SchemaArgument::kBools:
      if (auto v = list_of<bool>(o)) return *v;
      break;
    default:
      break;
  }
  wrong_type(op, a, o);
}

lazy::OperandValue operand_of(const std::string& op, const SchemaArgument& a, nb::handle o) {
  if (a.kind == SchemaArgument::kNumber) {
    auto n = number_of(o.ptr());
    if (!n) n = foreign_number(o.ptr());
    if (!n) wrong_type(op, a, o);
    if (a.type == "float") return Scalar(n->to_double());
    return *n;
  }
  if (a.kind == SchemaArgument::kTensorList) {
    if (!PyList_Check(o.ptr()) && !PyTuple_Check(o.ptr())) wrong_type(op, a, o);
    std::vector<Tensor> list;
    for (const nb::handle item : o) {
      Tensor* t = nullptr;
      if (!nb::try_cast(item, t) || !t) wrong_type(op, a, o);
      list.push_back(*t);
    }
    return list;
  }
  if (o.is_none() && a.optional) return {};
  if (a.type == "Tensor|Number") {
    if (const auto n = number_of(o.ptr())) return *n;
  }
  Tensor* t = nullptr;
  if (!nb::try_cast(o, t) || !t) wrong_type(op, a, o);
  return *t;
}

/// Arguments of a Python function of the op's signature: by position, then those that are keywords only.
struct PythonArguments {
  nb::list positional;
  nb::dict keywords;

  nb::object call(nb::handle f) const {
    return nb::steal(PyObject_Call(f.ptr(), nb::tuple(positional).ptr(), keywords.ptr()));
  }
};

/// Puts the arguments of a call in the order of its signature. `operand(i)` is the object of flattened operand i.
PythonArguments arrange(const ir::Schema& schema, size_t num_inputs, std::span<const int64_t> words, auto&& operand) {
  size_t num_operands = 0;
  std::vector<const SchemaArgument*> attrs;
  for (const SchemaArgument& a : schema.arguments) {
    if (a.is_operand()) {
      ++num_operands;
    } else {
      attrs.resize(std::max<size_t>(attrs.size(), a.position + 1));
      attrs[a.position] = &a;
    }
  }
  std::vector<nb::object> values;
  for (const SchemaArgument* a : attrs) values.push_back(object_of_value(ir::read_words(*a, words)));
  const size_t in_list = num_inputs + 1 - num_operands;
  int list_at = -1;
  for (const SchemaArgument& a : schema.arguments) {
    if (a.kind == SchemaArgument::kTensorList) list_at = a.position;
  }
  PythonArguments out;
  for (const SchemaArgument& a : schema.arguments) {
    nb::object o;
    if (!a.is_operand()) {
      o = values[a.position];
    } else if (a.position == list_at) {
      nb::list list;
      for (size_t i = 0; i < in_list; ++i) list.append(operand(a, a.position + i));
      o = list;
    } else {
      const size_t shift = list_at >= 0 && a.position > list_at ? in_list - 1 : 0;
      o = operand(a, a.position + shift);
    }
    if (a.keyword_only) {
      out.keywords[a.name.c_str()] = o;
    } else {
      out.positional.append(o);
    }
  }
  return out;
}

/// A Python function that may be taken away again. Read and written with the GIL held.
struct Slot {
  std::optional<SharedObject> function;
};

/// The tensors of a result: one, or a sequence of them. Arrays become tensors.
std::vector<Tensor> results_of(const std::string& op, const char* who, nb::handle result, size_t count) {
  const nb::object convert = nb::module_::import_("smolder._op_calls").attr("as_result");
  std::vector<Tensor> out;
  if (count == 0) {
    SMOLDER_CHECK(result.is_none(), RuntimeError, op, ": its ", who, " returned a ", python_type(result),
                  ", its schema says nothing");
    return out;
  }
  if (count == 1 && !PyTuple_Check(result.ptr()) && !PyList_Check(result.ptr())) {
    out.push_back(nb::cast<Tensor>(convert(op, who, result)));
    return out;
  }
  SMOLDER_CHECK((PyTuple_Check(result.ptr()) || PyList_Check(result.ptr())) && nb::len(result) == count, RuntimeError,
                op, ": its ", who, " must return ", count, count == 1 ? " tensor" : " tensors", ", got a ",
                python_type(result));
  for (const nb::handle item : result) out.push_back(nb::cast<Tensor>(convert(op, who, item)));
  return out;
}

// -- shape rules

/// Asks a Python function what the results are like, giving it tensors without values.
void infer_by(const Slot& slot, const ir::Schema& schema, const ir::Call& call, ir::Meta* out) {
  const WithGil gil;
  SMOLDER_CHECK(slot.function, RuntimeError, schema.name, " has no shape rule: register one with register_fake");
  try {
    lazy::OwnTape own(lazy::OwnTape::kShapes);
    const PythonArguments arguments =
        arrange(schema, call.inputs.size(), call.attrs, [&](const SchemaArgument&, size_t i) -> nb::object {
          const ir::Meta* const m = call.inputs[i];
          if (!m) return nb::none();
          // Numbers are in no key, so shapes can't hang on them.
          if (m->weak) return object_of_number(Scalar::from_bits(Scalar(1.0).bits(), category(m->dtype)));
          return nb::cast(Tensor(new lazy::TensorImpl((*own).placeholder(lazy::intern(*m)))));
        });
    const nb::object result = arguments.call(slot.function->get());
    if (!result.is_valid()) nb::raise_python_error();
    const std::vector<Tensor> results = results_of(schema.name, "shape rule", result, schema.num_returns);
    for (size_t i = 0; i < results.size(); ++i) out[i] = results[i].meta();
  } catch (nb::python_error& e) {
    add_note(e, "raised by the shape rule (register_fake) of " + schema.name);
    throw PythonError(std::move(e));
  }
}

// -- gradients

/// Asks a Python function for the gradients of a call that Python's own `Function` has not seen: one made in C++.
void differentiate_by(const Slot& slot, const ir::Schema& schema, autograd::FormulaContext& c) {
  const WithGil gil;
  SMOLDER_CHECK(slot.function, RuntimeError, schema.name, ": its gradient was taken back");
  try {
    std::vector<std::pair<const SchemaArgument*, int>> operands;  // in the order of the signature
    const PythonArguments arguments =
        arrange(schema, c.metas.size(), c.attrs, [&](const SchemaArgument& a, size_t i) -> nb::object {
          const int at = static_cast<int>(i);
          operands.emplace_back(&a, at);
          return c.has_number(at) ? object_of_number(c.number(at)) : object_of(c.input(at));
        });
    const nb::object given = slot.function->get()(nb::tuple(arguments.positional), arguments.keywords,
                                                  objects_of({c.outputs.begin(), c.outputs.end()}),
                                                  objects_of({c.grads.begin(), c.grads.end()}));
    auto at = operands.begin();
    for (size_t k = 0; k < schema.arguments.size(); ++k) {
      const nb::object of_argument = given[k];
      const bool listed = schema.arguments[k].kind == SchemaArgument::kTensorList;
      for (size_t n = 0; at != operands.end() && at->first == &schema.arguments[k]; ++at, ++n) {
        const nb::object g = listed && !of_argument.is_none() ? nb::object(of_argument[n]) : of_argument;
        if (!g.is_none() && !c.has_number(at->second) && c.needs(at->second)) c.set(at->second, nb::cast<Tensor>(g));
      }
    }
  } catch (nb::python_error& e) {
    add_note(e, "raised by the gradient (register_autograd) of " + schema.name);
    throw PythonError(std::move(e));
  }
}

// -- kernels

/// A Python function as a kernel. Its arguments are tensors in the memory of the operands.
class PythonKernel {
 public:
  PythonKernel(ir::Op op, std::shared_ptr<const Slot> slot) : schema_(ir::schema_of(op)), slot_(std::move(slot)) {}

  void operator()(const eager::KernelCall& call) const {
    const WithGil gil;
    SMOLDER_CHECK(slot_->function, NotImplementedError, schema_.name, ": its kernel was taken back");
    try {
      run(call);
    } catch (nb::python_error& e) {
      add_note(e, "raised by a kernel of " + schema_.name);
      throw PythonError(std::move(e));
    }
  }

 private:
  void run(const eager::KernelCall& call) const {
    std::vector<BufferRef> lent;
    {
      const lazy::OwnTape own(lazy::OwnTape::kRun);
      nb::object result;
      {
        size_t written = schema_.num_returns;
        const PythonArguments arguments =
            arrange(schema_, call.inputs.size(), call.attrs, [&](const SchemaArgument& a, size_t i) -> nb::object {
              const eager::TensorView& v = call.inputs[i];
              if (v.weak) {
                return object_of_number(Scalar::from_bits(*static_cast<const uint64_t*>(v.data), category(v.dtype)));
              }
              if (a.mutated) {
                const eager::TensorView& now = call.outputs[written++];
                if (absent(v)) return nb::none();
                copy(v, now);
                return nb::cast(lend(now, lent));
              }
              return absent(v) ? nb::none() : nb::cast(lend(v, lent));
            });
        result = arguments.call(slot_->function->get());
        if (!result.is_valid()) nb::raise_python_error();
        for (const nb::handle given : arguments.positional) {
          SMOLDER_CHECK(!given.is(result) || !nb::isinstance<Tensor>(result), RuntimeError, schema_.name,
                        ": the output of this operator must not also be an input to it, and may not alias any inputs. "
                        "Return a clone of it");
        }
      }
      const std::vector<Tensor> results = results_of(schema_.name, "kernel", result, schema_.num_returns);
      for (size_t i = 0; i < results.size(); ++i) store(results[i], static_cast<int>(i), call.outputs[i]);
    }
    release_orphans();  // such as a result that was an array of an argument
    for (const BufferRef& b : lent) {
      SMOLDER_CHECK(b.use_count() == 1, RuntimeError, schema_.name,
                    ": its kernel kept an argument, or an array of one, after it returned; that memory is the step's. "
                    "Keep a copy");
    }
  }

  static bool absent(const eager::TensorView& v) { return !v.data && v.shape.empty(); }

  /// A tensor in the memory of `v`, or in a copy where strides are negative.
  static Tensor lend(const eager::TensorView& v, std::vector<BufferRef>& lent) {
    int64_t elements = 1;
    for (int i = 0; i < v.shape.size(); ++i) {
      if (v.strides[i] < 0 && v.shape[i] > 1) {
        const eager::Array row_major = eager::contiguous(array_of(v));
        return lazy::from_foreign(row_major.buffer, v.shape, row_major.strides, v.dtype);
      }
      elements += (v.shape[i] - 1) * std::max<int64_t>(0, v.strides[i]);
    }
    if (numel(v.shape) == 0) elements = 0;
    Dims strides = v.strides;
    for (int64_t& s : strides) s = std::max<int64_t>(0, s);
    lent.push_back(wrap_foreign(v.data, elements * itemsize(v.dtype), {}, {}));
    return lazy::from_foreign(lent.back(), v.shape, strides, v.dtype);
  }
  static eager::Array array_of(const eager::TensorView& v) { return {nullptr, v.data, v.dtype, v.shape, v.strides}; }

  static void copy(const eager::TensorView& from, const eager::TensorView& to) {
    const eager::Array row_major = eager::contiguous(array_of(from));
    if (row_major.bytes()) std::memcpy(to.data, row_major.data, row_major.bytes());
  }

  void store(const Tensor& t, int number, const eager::TensorView& to) const {
    SMOLDER_CHECK(t.shape() == to.shape && t.dtype() == to.dtype, RuntimeError, schema_.name,
                  ": its kernel returned a tensor of shape ", t.shape(), " and dtype ", name(t.dtype()),
                  schema_.num_returns > 1 ? " as result " + std::to_string(number) : "", ", its shape rule says ",
                  to.shape, " and ", name(to.dtype));
    const eager::Array from = lazy::is_external(t)
                                  ? lazy::window(t)
                                  : eager::Array::wrap(t.materialize("kernel result"), t.shape(), t.dtype());
    copy(from.view(), to);
  }

  ir::Schema schema_;
  std::shared_ptr<const Slot> slot_;
};

// -- what smolder.library is made of

/// An op as Python holds it. Slots are shared with the runtime's table, which keeps kernels for good.
struct PythonOp {
  ir::Op op{};
  std::string name;
  ir::Schema schema;
  std::shared_ptr<Slot> fake, kernel, gradient;
};

PythonOp op_of(ir::Op op) { return {op, std::string(ir::name(op)), ir::schema_of(op), {}, {}, {}}; }

PythonOp define(const std::string& text) {
  ir::UserOp definition;
  definition.schema = ir::parse_schema(text);
  definition.signature = text;
  auto fake = std::make_shared<Slot>();
  std::vector<int> mutated;
  for (const SchemaArgument& a : definition.schema.arguments) {
    if (a.mutated) mutated.push_back(a.position);
  }
  definition.infer = [fake, mutated, schema = definition.schema](const ir::Call& call, ir::Meta* out) {
    // An op without results has no shapes to infer. A fake function is called nevertheless: it may refuse operands.
    if (schema.num_returns || fake->function) infer_by(*fake, schema, call, out);
    for (size_t i = 0; i < mutated.size(); ++i) {
      const ir::Meta* const m = call.inputs[mutated[i]];
      out[schema.num_returns + i] = m ? *m : ir::Meta{{0}, DType::kFloat32, false};
    }
  };
  PythonOp out = op_of(ir::register_user_op(std::move(definition)));
  out.fake = std::move(fake);
  return out;
}

/// Operands and words of a call. Throws what wrong arguments are.
std::pair<std::vector<lazy::OperandValue>, std::vector<int64_t>> packed(const PythonOp& self,
                                                                        const nb::tuple& arguments) {
  SMOLDER_CHECK(arguments.size() == self.schema.arguments.size(), TypeError, self.name, " takes ",
                self.schema.arguments.size(), " arguments, got ", arguments.size());
  std::vector<lazy::OperandValue> operands;
  std::vector<int64_t> words;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const SchemaArgument& a = self.schema.arguments[i];
    const nb::handle o = arguments[i];
    if (a.is_operand()) {
      operands.push_back(operand_of(self.name, a, o));
    } else {
      ir::append_words(a, value_of(self.name, a, o), words);
    }
  }
  return {std::move(operands), std::move(words)};
}

nb::object call(const PythonOp& self, const nb::tuple& arguments) {
  const auto [operands, words] = packed(self, arguments);
  const std::vector<Tensor> out = lazy::call_op(self.op, operands, words);
  if (out.empty()) return nb::none();
  return out.size() == 1 ? nb::cast(out[0]) : nb::object(as_tuple(out));
}

/// Asks Python's modes about a call: smolder._dispatch.ask(op, arguments, keywords).
void ask_modes(ir::Op op, std::span<const lazy::Operand> operands, std::span<const int64_t> attrs, Tensor* outputs) {
  const WithGil gil;
  try {
    const PythonOp self = op_of(op);
    const PythonArguments arguments =
        arrange(self.schema, operands.size(), attrs, [&](const SchemaArgument&, size_t i) -> nb::object {
          const lazy::Operand& o = operands[i];
          if (o.kind() == lazy::Operand::kNumber) return object_of_number(o.number());
          return o.kind() == lazy::Operand::kTensor ? object_for(Tensor(o.impl())) : nb::none();
        });
    const nb::object answer = nb::module_::import_("smolder._dispatch")
                                  .attr("ask")(nb::cast(self), nb::tuple(arguments.positional), arguments.keywords);
    size_t at = 0;
    for (Tensor& t : results_of(self.name, lazy::t_asking ? "mode" : "class", answer, self.schema.num_returns))
      outputs[at++] = std::move(t);
    for (const SchemaArgument& a : self.schema.arguments) {  // what it was to write to was written by the answer
      if (a.mutated) outputs[at++] = Tensor(operands[a.position].impl());
    }
  } catch (nb::python_error& e) {
    throw PythonError(std::move(e));
  }
}

void set_kernel(PythonOp& self, const std::string& backend, nb::handle f) {
  const eager::DispatchKey key = eager::find_dispatch_key(backend);
  auto slot = std::make_shared<Slot>();
  slot->function.emplace(f);
  eager::register_kernel(key, self.op, PythonKernel(self.op, slot));
  self.kernel = std::move(slot);
}

void set_gradient(PythonOp& self, nb::handle f) {
  if (!self.gradient) {
    auto slot = std::make_shared<Slot>();
    autograd::UserGradient gradient;
    for (const SchemaArgument& a : self.schema.arguments) {
      if (a.is_operand()) gradient.saves.push_back(a.name);
    }
    for (int i = 0; i < self.schema.num_returns; ++i) gradient.saves_results.push_back(i);
    gradient.formula = [slot, schema = self.schema](autograd::FormulaContext& c) {
      differentiate_by(*slot, schema, c);
    };
    autograd::register_gradient(self.op, std::move(gradient));
    self.gradient = std::move(slot);
  }
  self.gradient->function.emplace(f);
}

/// An override that Python made.
struct PythonOverride {
  eager::DispatchKey key;
  ir::Op op, stand_in;
  std::shared_ptr<Slot> slot;

  void remove() {
    {
      const WithoutGil nogil;
      lazy::remove_override(key, op, stand_in);
    }
    slot->function.reset();
  }
};

PythonOverride override_op(const PythonOp& op, const std::string& backend, nb::handle f) {
  const eager::DispatchKey key = eager::find_dispatch_key(backend);
  auto slot = std::make_shared<Slot>();
  slot->function.emplace(f);
  PythonKernel kernel(op.op, slot);
  const WithoutGil nogil;
  return {key, op.op, lazy::add_override(key, op.op, std::move(kernel)), slot};
}

nb::list arguments_of(const PythonOp& op) {
  nb::list out;
  for (const SchemaArgument& a : op.schema.arguments) {
    const nb::object value = a.default_text ? object_of_value(ir::default_value(a)) : nb::none();
    out.append(nb::make_tuple(a.name, a.type, a.keyword_only, a.default_text.has_value(), value, a.mutated));
  }
  return out;
}

}  // namespace

void note_on(const nb::python_error& error, const std::string& note) {
  const WithGil gil;
  add_note(error, note);
}

void restore(const nb::python_error& error) {
  PyErr_Restore(error.type().inc_ref().ptr(), error.value().inc_ref().ptr(), error.traceback().inc_ref().ptr());
}

void watch_signals() {
  set_interrupt_check([] {
    if (!Py_IsInitialized()) return;
    // Python runs handlers on its main thread only: elsewhere this finds nothing.
    const WithGil gil;
    if (PyErr_CheckSignals() != 0) throw PythonInterrupt(nb::python_error());
  });
}

void bind_user_ops(nb::module_& m) {
  nb::class_<PythonOverride>(m, "_Override").def("remove", &PythonOverride::remove);
  nb::class_<PythonOp>(m, "_Op")
      .def_ro("name", &PythonOp::name)
      .def_prop_ro("is_user_op", [](const PythonOp& o) { return ir::is_user_op(o.op); })
      .def_prop_ro("signature", [](const PythonOp& o) { return std::string(ir::info(o.op).signature); })
      .def_prop_ro("arguments", &arguments_of)
      .def_prop_ro("num_returns", [](const PythonOp& o) { return o.schema.num_returns; })
      .def("call", &call)
      .def("check", [](const PythonOp& o, const nb::tuple& arguments) { packed(o, arguments); })
      .def("set_fake", [](PythonOp& o, nb::handle f) { o.fake->function.emplace(f); })
      .def("set_kernel", &set_kernel)
      .def("set_gradient", &set_gradient)
      .def("clear_gradient",
           [](const PythonOp& o) {
             if (o.gradient) o.gradient->function.reset();
           })
      .def("clear_kernel",
           [](PythonOp& o, const std::string& backend) {
             {
               const WithoutGil nogil;
               lazy::run_pending("a kernel is taken back");
             }
             eager::override_kernel(eager::find_dispatch_key(backend), o.op, eager::Kernel());
             if (o.kernel) o.kernel->function.reset();
           })
      .def("has_kernel",
           [](const PythonOp& o, const std::string& backend) {
             return eager::find_kernel(eager::find_dispatch_key(backend), o.op) != nullptr;
           })
      .def("override", &override_op)
      .def("remove", [](PythonOp& o) { ir::remove_user_op(o.op); });
  m.def("_find_backend", [](const std::string& name) { return static_cast<int>(eager::find_dispatch_key(name)); });
  m.def("_load_library", &load_library, nb::call_guard<WithoutGil>());
  m.def("_define_op", &define);
  lazy::set_ask_hook(&ask_modes);
  m.def("_set_asking", [](bool on) { lazy::t_asking = on; });
  m.def("_find_op", [](const std::string& name) { return op_of(lazy::find_qualified(name)); });
  // Who waits for the tape lets go of the GIL: who holds the tape may need it, to run a kernel.
  lazy::set_wait_hooks(
      {[]() -> void* { return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr; },
       [](void* state) { take_gil_back(static_cast<PyThreadState*>(state)); }});
}

}  // namespace smolder::python
