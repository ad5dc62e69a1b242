// Tensors that have a shape, a dtype and a device and no elements: a class of Python says what ops on them are.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// The value of such a tensor. Ops on it are not recorded: the hook of ask.h answers them.
struct WrapperValue : Value {
  std::shared_ptr<void> content;  ///< what Python keeps of it
  std::string class_name;
};

/// A tensor of that kind, whose dimensions lie in memory as `strides` say. Throws NotImplementedError for strides that
/// no order of the dimensions has.
Tensor make_wrapper(const ir::Meta& meta, const Dims& strides, Device device, std::shared_ptr<void> content,
                    std::string class_name);

/// The value of a tensor where it is one of those, else null.
inline const WrapperValue* wrapper(const TensorImpl* impl) {
  return impl->value->wrapper ? static_cast<const WrapperValue*>(impl->value.get()) : nullptr;
}

/// Throws NotImplementedError, which names `function`, where one of two tensors is one of those and the other is not:
/// the one cannot take the place of the other.
void check_write(std::string_view function, const Tensor& self, const Tensor& source);

}  // namespace smolder::lazy
