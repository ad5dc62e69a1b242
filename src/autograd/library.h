// Ops and kernels of users: docs/custom_ops.md.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "smolder/autograd/formula.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/ir/builder.h"
#include "smolder/jit/lower/user_lowering.h"
#include "smolder/lazy/call.h"

namespace smolder {

/// The parts of an op that is registered; only the schema must be there.
struct OpSpec {
  /// "scaled(Tensor x, Scalar by=2.0) -> Tensor".
  std::string schema;
  /// Writes shape and dtype of each result, or throws what the user should see. Without it results are like the first
  /// tensor. It is also told of the new values of what the op writes to, after the results; those are as the old ones.
  std::function<ir::InferFunction> shape = {};
  /// Runs the op on the CPU. Results, and the new values of what the op writes to, are to be filled.
  eager::Kernel kernel = {};
  /// The decomposition of the op: with one it fuses with its neighbours. One value a result.
  std::function<std::vector<ir::Value>(ir::Builder& b, const ir::Node& node)> decompose = {};
  autograd::UserGradient gradient = {};
  jit::LoopLowering lowering = {};
  /// Whether others than its results see that it ran, as other processes do. Such calls are never merged, and a step
  /// with them that fails is never run again: it is rolled back whole (smolder/lazy/effects.h). What keeps them, and in
  /// order, is for the op to see to: an operand that each of them reads and writes, and that somebody holds.
  bool effect = false;
};

/// Registers ops and kernels, and takes them back when it is destroyed. What was recorded before goes on to work.
class Library {
 public:
  explicit Library(std::string ns);
  /// For SMOLDER_LIBRARY: `fill` registers what there is. In a library that load_library() opens, what it throws is for
  /// the caller of that.
  Library(std::string ns, void (*fill)(Library&));
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Registers an op of this namespace; the schema may leave the namespace out. Throws RuntimeError when there is one
  /// of that name, or when the schema is wrong.
  OpHandle def(OpSpec spec);
  /// Makes `kernel` run `op`, "name" of this namespace or "other::name", on a backend: "CPU", or one that was added.
  /// An op of a user that has none gets it; where there is a kernel, and for all built-in ops, whose namespace is
  /// "aten", it takes its place. Ops recorded before are run first.
  void impl(std::string_view op, std::string_view backend, eager::Kernel kernel);

 private:
  void take_back();
  struct Override {
    eager::DispatchKey key;
    ir::Op op, stand_in;
  };
  std::string ns_;
  std::vector<ir::Op> ops_;
  std::vector<Override> overrides_;
};

/// Opens a shared library, whose SMOLDER_LIBRARY blocks register ops. Opening it again does nothing. Throws
/// RuntimeError where it cannot be opened, and what a block of it throws; nothing of it is registered then.
void load_library(const std::string& path);

namespace lazy {

/// The op called so: "ns::name", or "aten::name" for a built-in one. Throws RuntimeError naming it when there is none.
ir::Op find_qualified(std::string_view name);
/// Runs what is recorded, so that it is run by what ran its ops when it was.
void run_pending(std::string_view reason);
/// Overrides, ops recorded before being run first.
ir::Op add_override(eager::DispatchKey key, ir::Op op, eager::Kernel kernel);
void remove_override(eager::DispatchKey key, ir::Op op, ir::Op stand_in);

}  // namespace lazy

/// SMOLDER_LIBRARY(ns, m) { m.def({...}); } registers when the program or shared library it is in is loaded.
#define SMOLDER_LIBRARY(ns, m)                                                                    \
  static void smolder_library_##ns(::smolder::Library&);                                          \
  [[maybe_unused]] static ::smolder::Library smolder_library_of_##ns(#ns, &smolder_library_##ns); \
  static void smolder_library_##ns(::smolder::Library& m)

}  // namespace smolder
