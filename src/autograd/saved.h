// Values kept for backward: how they are packed and unpacked, and whether writes are noticed.
#pragma once

#include <memory>
#include <string_view>

#include "smolder/autograd/node.h"

namespace smolder::autograd {

/// Takes the place of keeping values for backward: each is packed when its op is recorded and unpacked when the
/// gradient is computed. As torch.autograd.graph.saved_tensors_hooks.
class SavedTensorHooks {
 public:
  virtual ~SavedTensorHooks() = default;
  virtual std::shared_ptr<void> pack(const Tensor& t) = 0;
  /// Must have the shape and dtype of what was packed.
  virtual Tensor unpack(void* packed) = 0;
};

/// torch's name of a type: "FloatTensor".
std::string_view type_name(DType t);

/// Hooks of the calling thread; the latest pushed are asked.
void push_saved_tensor_hooks(std::shared_ptr<SavedTensorHooks> hooks);
void pop_saved_tensor_hooks();
bool any_saved_tensor_hooks();

/// Saves the value of `impl` with its history, or as output `own_output` of the node that is being made.
SavedTensor save(lazy::TensorImpl* impl, Edge edge, int own_output = -1);
/// A tensor on a saved value with the history it had; undefined when nothing was saved.
Tensor unpack(const SavedTensor& saved, const std::shared_ptr<Node>& owner);

/// Whether backward refuses values that were written in place since they were saved, as torch does. They are
/// unaffected by such writes, so this is a check of programs that are to run there too. For all threads.
bool version_checks();
void set_version_checks(bool on);
/// In-place writes cost a little more once somebody wants to know of them.
void watch_writes();

}  // namespace smolder::autograd
