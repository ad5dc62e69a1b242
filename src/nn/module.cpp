#include "smolder/nn/module.h"

#include <algorithm>

#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"

namespace smolder::nn {

void Module::collect(const std::string& prefix, bool recurse, Named<Tensor> Module::* which, Named<Tensor>& out) const {
  for (const auto& [name, t] : this->*which) out.emplace_back(prefix + name, t);
  if (!recurse) return;
  for (const auto& [name, child] : children_) child->collect(prefix + name + ".", true, which, out);
}

Named<Tensor> Module::named_parameters(bool recurse) const {
  Named<Tensor> out;
  collect("", recurse, &Module::parameters_, out);
  return out;
}

Named<Tensor> Module::named_buffers(bool recurse) const {
  Named<Tensor> out;
  collect("", recurse, &Module::buffers_, out);
  return out;
}

std::vector<Tensor> Module::parameters(bool recurse) const {
  std::vector<Tensor> out;
  for (auto& [name, t] : named_parameters(recurse)) out.push_back(t);
  return out;
}

Named<Tensor> Module::state_dict() const {
  Named<Tensor> out = named_parameters();
  for (auto& entry : named_buffers()) out.push_back(entry);
  return out;
}

void Module::load_state_dict(const Named<Tensor>& state) {
  const Named<Tensor> own = state_dict();
  const auto find = [](const Named<Tensor>& in, const std::string& name) {
    return std::ranges::find(in, name, [](const auto& entry) { return entry.first; });
  };
  std::string problems;
  for (const auto& [name, t] : own) {
    const auto given = find(state, name);
    if (given == state.end()) {
      problems += "\n  missing: " + name;
    } else if (given->second.shape() != t.shape()) {
      problems += "\n  size mismatch for " + name + ": the given shape is " + to_string(given->second.shape()) +
                  ", the module's is " + to_string(t.shape());
    }
  }
  for (const auto& [name, t] : state) {
    if (find(own, name) == own.end()) problems += "\n  unexpected: " + name;
  }
  SMOLDER_CHECK(problems.empty(), RuntimeError, "Error(s) in loading state_dict:", problems);
  const lazy::GradMode off(false);
  for (const auto& [name, t] : own) lazy::assign(t, find(state, name)->second.to(t.dtype()));
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
}

void Module::zero_grad() {
  for (Tensor& t : parameters()) t.set_grad({});
}

void Module::apply(const std::function<void(Module&)>& f) {
  for (const auto& [name, child] : children_) child->apply(f);
  f(*this);
}

void Module::check_name(const std::string& name) const {
  SMOLDER_CHECK(!name.empty() && name.find('.') == std::string::npos, RuntimeError,
                "a parameter, buffer or module name can't be empty or contain a dot, got '", name, "'");
  const auto taken = [&](const auto& list) {
    return std::ranges::any_of(list, [&](const auto& entry) { return entry.first == name; });
  };
  SMOLDER_CHECK(!taken(parameters_) && !taken(buffers_) && !taken(children_), RuntimeError, "attribute '", name,
                "' already exists");
}

Tensor Module::register_parameter(std::string name, Tensor t, bool requires_grad) {
  check_name(name);
  if (t.defined()) {
    t.requires_grad_(requires_grad);
    parameters_.emplace_back(std::move(name), t);
  }
  return t;
}

Tensor Module::register_buffer(std::string name, Tensor t) {
  check_name(name);
  if (t.defined()) buffers_.emplace_back(std::move(name), t);
  return t;
}

void Module::add_child(std::string name, std::shared_ptr<Module> child) {
  check_name(name);
  SMOLDER_CHECK(child, RuntimeError, "module '", name, "' is null");
  children_.emplace_back(std::move(name), std::move(child));
}

}  // namespace smolder::nn
