// The Python type of tensors, and the way around nanobind's dispatch for the hottest calls.
#pragma once

#include "smolder/core/source_line.h"
#include "src/casters.h"

namespace smolder::lazy {
struct Recompile;
}

namespace smolder::python {

/// Binds the class with its slots and the members that are no ops.
nb::class_<Tensor> bind_tensor(nb::module_& m);
/// Gradients: nodes, hooks, functions, modes, and what tensors have of it.
void bind_autograd(nb::module_& m, nb::class_<Tensor>& tensor);
/// Memory shared with NumPy, and with whatever speaks DLPack.
void bind_memory(nb::module_& m, nb::class_<Tensor>& tensor);
/// Lets go of arrays that no tensor uses any more; it happens later otherwise. Needs the GIL.
void release_orphans();
/// Where tensors are, and devices.
void bind_devices(nb::module_& m, nb::class_<Tensor>& tensor);
/// Autocast, and how exact libraries have to be.
void bind_linalg(nb::module_& m);
void bind_vmap(nb::module_& m);
void bind_precision(nb::module_& m);
/// Tensors of Python's numbers.
void bind_numbers(nb::module_& m);
/// Generators of random numbers.
void bind_generator(nb::module_& m);
/// The base of nn.Module that makes it callable.
void bind_module_call(nb::module_& m);
void bind_watch(nb::module_& m);
/// Functions that are recorded once.
void bind_compile(nb::module_& m);
/// Everything else that is neither a tensor nor an op: metrics, options.
void bind_runtime(nb::module_& m);
/// Generated: an entry for each row of the op table.
void bind_ops(nb::module_& m, nb::class_<Tensor>& tensor);
/// Further forms of entries of that table: factors that are tensors.
void bind_factors(nb::module_& m, nb::class_<Tensor>& tensor);
/// Control flow that is recorded.
void bind_control_flow(nb::module_& m);
/// Captured graphs.
void bind_captured(nb::module_& m);
/// Why steps were compiled.
void bind_recompiles(nb::module_& m);
void bind_profile(nb::module_& m);
void bind_undo(nb::module_& m);
nb::dict recompile_dict(const lazy::Recompile& r);
/// Steps that ran, with their plans as data.
void bind_plans(nb::module_& m);
/// The libraries that there are, for `smolder doctor`.
void bind_doctor(nb::module_& m);
/// The kernel cache, for `smolder cache`.
void bind_cache(nb::module_& m);
/// Measurements in C++ for `smolder bench`.
void bind_bench(nb::module_& m);
/// The log of steps, and recorded graphs.
void bind_replay(nb::module_& m);
void bind_distributed(nb::module_& m);
/// A token for a line of another process, by its text.
SourceToken source_named(const std::string& text);
void install_source_provider(const std::string& package_folder);
void install_warning_handler();
/// Gives functions of the module, and methods of its classes, errors in torch's form where arguments do not fit.
void explain_call_errors(nb::module_& m);

}  // namespace smolder::python
