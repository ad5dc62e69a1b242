// Views over functional values: a view remembers the way from its base and is read again when the base
// has been written; a write to a view is a write of its base.
#pragma once

#include <cstdint>
#include <span>

#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

/// Makes `view`, the result of `op` on `input`, share storage with it.
void link_view(TensorImpl* view, TensorImpl* input, ir::Op op, std::span<const int64_t> attrs);

class Tape;
/// Puts a value into who holds a storage; the tape, that of the value's device, is locked.
void write_value(Tape& tape, TensorImpl* owner, const ValueRef& value);

/// Reads a view again from its base, which was written since.
void read_again(TensorImpl* impl);
/// Picks the value of `owner`, who holds storage that was picked (write_back), again, if it was written where it is
/// from.
void pick_again(TensorImpl* owner);
/// The same when needed.
inline void refresh(TensorImpl* impl) {
  TensorImpl* const base = impl->base;
  if (!base) {
    if (impl->steps) [[unlikely]]
      pick_again(impl);
    return;
  }
  if (base->base || base->steps) [[unlikely]]
    refresh(base);
  if (impl->seen_version != base->version) [[unlikely]]
    read_again(impl);
}

/// A new handle on the same value, without history, sharing storage: `detach` and `.data`.
Tensor alias(const Tensor& t);
/// Lets `self` share the storage of `t` from now on, whatever its shape and dtype; its history and gradient stay:
/// `self.data = t`.
void set_data(const Tensor& self, const Tensor& t);
/// Writes to the storage of `t` so far, by whichever handle.
uint32_t version(const Tensor& t);

/// Makes a function's result that is a view of what nobody else has, a step on the way to it, a tensor of its own, as
/// in torch. False where it is no such view, or where its elements have gaps between them.
bool take_base(TensorImpl* view);

/// Tells `picked`, which is from[..., i, j, ...] from dimension `axis` on for positions without dimensions, where it is
/// from. In torch it is a view. The positions are not known when it is recorded, so it is a copy: what is written to it
/// is written there too, and it is picked again when it is used after a write there.
void write_back(const Tensor& picked, const Tensor& from, int64_t axis, std::span<const Tensor> positions);
/// Whether the storage of `impl` was.
inline bool is_picked(const TensorImpl* impl) {
  while (impl->base) impl = impl->base;
  return impl->steps != nullptr;
}

/// Whether `t` has several elements in one place, as an expanded tensor does.
bool has_repeats(const Tensor& t);
/// `input`, of which `result` is the expansion after a write: of the repeats of an element the last that was changed.
Tensor merge_repeats(const Tensor& input, Tensor result);

/// Calls autograd so that `impl` takes over the history of `from` (installed by the autograd layer).
using RebaseHook = void (*)(TensorImpl* impl, TensorImpl* from);
void set_rebase_hook(RebaseHook hook);
/// Calls autograd to say, as an error, why a view of such an origin must not be written (installed there, too).
using RefuseHook = void (*)(const TensorImpl* view);
void set_refuse_hook(RefuseHook hook);

/// Called, where installed, before an in-place op puts `from` into `impl`, and after the storage of `owner` was
/// written.
struct WriteHooks {
  void (*before)(TensorImpl* impl, TensorImpl* from) = nullptr;
  void (*after)(TensorImpl* owner) = nullptr;
};
void set_write_hooks(WriteHooks hooks);

}  // namespace smolder::lazy
