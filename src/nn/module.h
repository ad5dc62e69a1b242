// Modules: named parameters, buffers and submodules, as in libtorch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "smolder/lazy/tensor.h"

namespace smolder::nn {

/// A name and what it names, in order of registration.
template <class T>
using Named = std::vector<std::pair<std::string, T>>;

/// Base of every module. A module registers its parameters, buffers and submodules in its constructor;
/// names join with dots, as in torch's state_dict.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Parameters of this module and, with `recurse`, of all below it.
  std::vector<Tensor> parameters(bool recurse = true) const;
  Named<Tensor> named_parameters(bool recurse = true) const;
  Named<Tensor> named_buffers(bool recurse = true) const;
  const Named<std::shared_ptr<Module>>& named_children() const { return children_; }
  /// Parameters and buffers by name.
  Named<Tensor> state_dict() const;
  /// Copies values in by name. Throws RuntimeError listing names that are missing or not known, and
  /// shapes that differ; nothing is changed then.
  void load_state_dict(const Named<Tensor>& state);

  /// Sets training mode here and below.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  /// Forgets the gradients of all parameters.
  void zero_grad();
  /// Calls `f` on every submodule, children first, then on this.
  void apply(const std::function<void(Module&)>& f);

 protected:
  /// Makes `t` a parameter (it then requires grad) and returns it. Throws KeyError-like RuntimeError when
  /// the name is taken or contains a dot.
  Tensor register_parameter(std::string name, Tensor t, bool requires_grad = true);
  Tensor register_buffer(std::string name, Tensor t);
  /// Registers a submodule (a module holder or a shared pointer) and returns it.
  template <class M>
  M register_module(std::string name, M module) {
    add_child(std::move(name), as_pointer(module));
    return module;
  }

 private:
  template <class M>
  static std::shared_ptr<Module> as_pointer(const std::shared_ptr<M>& m) {
    return m;
  }
  template <class H>
    requires requires(const H& h) { h.ptr(); }
  static std::shared_ptr<Module> as_pointer(const H& h) {
    return h.ptr();
  }
  void add_child(std::string name, std::shared_ptr<Module> child);
  void check_name(const std::string& name) const;
  void collect(const std::string& prefix, bool recurse, Named<Tensor> Module::* which, Named<Tensor>& out) const;

  Named<Tensor> parameters_, buffers_;
  Named<std::shared_ptr<Module>> children_;
  bool training_ = true;
};

/// A handle on a module, so that modules are members by value: `Linear fc{64, 10}; fc(x)`.
template <class Impl>
class ModuleHolder {
 public:
  template <class... Args>
    requires(!(std::same_as<std::remove_cvref_t<Args>, ModuleHolder> || ...)) && std::constructible_from<Impl, Args...>
  explicit(sizeof...(Args) == 1) ModuleHolder(Args&&... args)
      : impl_(std::make_shared<Impl>(std::forward<Args>(args)...)) {}
  Impl* operator->() const { return impl_.get(); }
  Impl& operator*() const { return *impl_; }
  const std::shared_ptr<Impl>& ptr() const { return impl_; }
  template <class... Args>
  auto operator()(Args&&... args) const {
    return impl_->forward(std::forward<Args>(args)...);
  }

 private:
  std::shared_ptr<Impl> impl_;
};

/// The handle `Name` of the module `NameImpl`, in any namespace.
#define SMOLDER_MODULE(Name)                                     \
  class Name : public ::smolder::nn::ModuleHolder<Name##Impl> {  \
   public:                                                       \
    using ::smolder::nn::ModuleHolder<Name##Impl>::ModuleHolder; \
  }

}  // namespace smolder::nn
