#include "smolder/autograd/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "smolder/core/source_line.h"
#include "smolder/lazy/tape.h"

namespace smolder {
namespace {

/// While one lives, this thread opens a library.
struct Loading;
thread_local Loading* t_loading = nullptr;
struct Loading {
  Loading() : outer(std::exchange(t_loading, this)) {}
  ~Loading() { t_loading = outer; }
  Loading(const Loading&) = delete;
  std::exception_ptr error;
  Loading* const outer;
};

/// The results' metadata by the user's rule, and that of what the op writes to.
std::function<ir::InferFunction> shape_rule(const ir::Schema& schema, const std::function<ir::InferFunction>& rule) {
  std::vector<int> mutated;
  int first_tensor = -1;
  for (const ir::SchemaArgument& a : schema.arguments) {
    if (a.mutated) mutated.push_back(a.position);
    if (a.kind == ir::SchemaArgument::kTensor && !a.optional && first_tensor < 0) first_tensor = a.position;
  }
  SMOLDER_CHECK(rule || first_tensor >= 0, RuntimeError, schema.name,
                ": without a shape rule results are like the first tensor, and there is none");
  return [=, n = schema.num_returns, name = schema.name](const ir::Call& call, ir::Meta* out) {
    if (rule) {
      rule(call, out);
    } else {
      std::fill_n(out, n, *call.inputs[first_tensor]);
    }
    for (int i = 0; i < n; ++i) {
      SMOLDER_CHECK(!out[i].weak, RuntimeError, name, ": its shape rule says that result ", i, " is a number");
      for (const int64_t e : out[i].shape) {
        SMOLDER_CHECK(e >= 0, RuntimeError, name, ": its shape rule says that result ", i, " has shape ", out[i].shape);
      }
    }
    for (size_t i = 0; i < mutated.size(); ++i) {
      const ir::Meta* const m = call.inputs[mutated[i]];
      out[n + static_cast<int>(i)] = m ? *m : ir::Meta{{0}, DType::kFloat32, false};
    }
  };
}

std::function<ir::DecomposeFunction> decomposition(
    const std::string& name, const std::function<std::vector<ir::Value>(ir::Builder&, const ir::Node&)>& rule) {
  if (!rule) return {};
  return [=](ir::Builder& b, const ir::Node& node, std::span<const ir::ValueInfo> results, ir::ValueId* outputs) {
    const std::vector<ir::Value> made = rule(b, node);
    SMOLDER_CHECK(made.size() == results.size(), RuntimeError, name, ": its decomposition gives ", made.size(),
                  " values for ", results.size(), " results");
    for (size_t i = 0; i < made.size(); ++i) {
      const ir::Value y = b.cast(made[i], results[i].dtype);
      SMOLDER_CHECK(y.shape().values() == results[i].shape.values(), RuntimeError, name,
                    ": its decomposition gives shape ", y.shape().values(), " where its shape rule says ",
                    results[i].shape.values());
      outputs[i] = y.id;
    }
  };
}

}  // namespace

namespace lazy {

void run_pending(std::string_view reason) {
  const SourceToken source = capture_source();
  Tape& tape = Tape::cpu();
  const std::lock_guard hold(tape.mutex());
  tape.sync(reason, source);
}

ir::Op find_qualified(std::string_view name) {
  std::string_view own = name;
  if (own.starts_with("aten::")) own.remove_prefix(6);
  const size_t dot = own.find('.');
  const std::string_view plain = own.substr(0, dot);
  try {
    return ir::find_op(plain);
  } catch (const ValueError&) {
    raise<RuntimeError>("operator ", name, " does not exist");
  }
}

ir::Op add_override(eager::DispatchKey key, ir::Op op, eager::Kernel kernel) {
  run_pending("kernel override");
  return eager::add_override(key, op, std::move(kernel));
}

void remove_override(eager::DispatchKey key, ir::Op op, ir::Op stand_in) {
  run_pending("kernel override");
  eager::remove_override(key, op, stand_in);
}

}  // namespace lazy

Library::Library(std::string ns) : ns_(std::move(ns)) {
  SMOLDER_CHECK(!ns_.empty() && ns_.find(':') == std::string::npos, ValueError, "'", ns_, "' is no namespace");
}

Library::Library(std::string ns, void (*fill)(Library&)) : Library(std::move(ns)) {
  if (!t_loading) {  // of a program, which then ends
    fill(*this);
    return;
  }
  try {  // the loader of libraries knows no exceptions
    fill(*this);
  } catch (...) {
    take_back();
    if (!t_loading->error) t_loading->error = std::current_exception();
  }
}

Library::~Library() { take_back(); }

void Library::take_back() {
  try {
    if (!overrides_.empty()) lazy::run_pending("kernel override");
  } catch (const Error&) {  // reading what failed says so
  }
  for (const Override& o : std::exchange(overrides_, {})) eager::remove_override(o.key, o.op, o.stand_in);
  for (const ir::Op op : std::exchange(ops_, {})) ir::remove_user_op(op);
}

void load_library(const std::string& path) {
  Loading loading;
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const reason = handle ? nullptr : dlerror();
  SMOLDER_CHECK(handle, RuntimeError, "Could not load this library: ", path, ": ", reason ? reason : "unknown error");
  if (!loading.error) return;
  dlclose(handle);
  try {
    std::rethrow_exception(loading.error);
  } catch (const Error& e) {
    e.raise_with("Could not load this library: " + path + ": " + e.what());
  }
}

OpHandle Library::def(OpSpec spec) {
  const bool qualified = spec.schema.substr(0, spec.schema.find('(')).find("::") != std::string::npos;
  const std::string text = qualified ? spec.schema : ns_ + "::" + spec.schema;
  ir::Schema schema = ir::parse_schema(text);
  SMOLDER_CHECK(schema.name.starts_with(ns_ + "::"), RuntimeError, "the library '", ns_, "' can't define ",
                schema.name);
  ir::UserOp definition{schema, text, shape_rule(schema, spec.shape), decomposition(schema.name, spec.decompose),
                        spec.effect};
  SMOLDER_CHECK(!definition.decompose || schema.num_mutated() == 0, NotImplementedError, schema.name,
                ": a decomposition of an op that writes in place is not supported");
  const ir::Op op = ir::register_user_op(std::move(definition));
  ops_.push_back(op);
  if (spec.kernel) eager::register_kernel(eager::DispatchKey::kCPU, op, std::move(spec.kernel));
  if (spec.gradient.formula) autograd::register_gradient(op, std::move(spec.gradient));
  if (spec.lowering) jit::register_lowering(op, std::move(spec.lowering));
  return OpHandle(op);
}

void Library::impl(std::string_view op_name, std::string_view backend, eager::Kernel kernel) {
  const bool qualified = op_name.find("::") != std::string_view::npos;
  const ir::Op op = lazy::find_qualified(qualified ? op_name : ns_ + "::" + std::string(op_name));
  const eager::DispatchKey key = eager::find_dispatch_key(backend);
  SMOLDER_CHECK(kernel, ValueError, "the kernel for ", ir::name(op), " is empty");
  const bool takes_place = !ir::is_user_op(op) || eager::find_kernel(key, op);
  if (!takes_place) return eager::register_kernel(key, op, std::move(kernel));
  overrides_.push_back({key, op, lazy::add_override(key, op, std::move(kernel))});
}

}  // namespace smolder
