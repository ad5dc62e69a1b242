// Storage that somebody else sees too. It is *exported* when a NumPy array or the like was made of it, and *foreign*
// when it was theirs before; else it is private, and the runtime may place and overwrite it as it likes.
//
// External memory stays where it is. What it holds may change between any two ops, so nothing recorded reads it later:
// an op runs at once or on a snapshot, and a write lands before the call returns. Handles on it hold a stand-in
// (`Value::external`) that has metadata only; the memory is in the `External` of who holds the storage, and the way to
// a view's elements is its layout. When the last array on exported storage is gone it is private again, and so is
// foreign memory that nobody else is left to see.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "smolder/eager/array.h"
#include "smolder/lazy/record.h"

namespace smolder::lazy {

/// A tensor of memory that is somebody's: no copy is made. `strides` count elements and are not negative; `buffer`
/// starts at the first element. `is_left`, which may be empty, says whether nobody but the holders of `buffer` can see
/// the memory any more; it is asked when the tensor is used. Throws ValueError for negative strides.
Tensor from_foreign(BufferRef buffer, Dims shape, Dims strides, DType dtype, std::function<bool()> is_left = {});

/// The memory of `t`, as somebody else is going to see it: computes what is pending and makes the storage exported.
/// Copies (counted) when other values, as those saved for backward, are in the same memory.
eager::Array export_memory(const Tensor& t);

/// The same for who tells nobody when it needs the memory no more: the storage stays exported, in `held`, which is that
/// memory.
void stay_exported(const Tensor& t, BufferRef held);

/// Where the elements of `owner`, who holds its storage and isn't external, are: computed. Copies share a value until
/// one is written, but an address tells storages apart and may be written through, so that only the first storage that
/// asks is told where that value is; another one gets a copy (counted) first.
const void* told_address(TensorImpl* owner, SourceToken source);

/// A row-major copy in memory of its own.
eager::Array copied(const eager::Array& from);
/// Stands for the value of external memory.
ValueRef stand_in(const ir::Meta* meta, Device device);

/// Whether `t` is in memory that somebody else sees too, now.
bool is_external(const Tensor& t);

/// The value of `impl`, which is up to date, for who keeps it: of external memory a copy.
ValueRef kept_value(TensorImpl* impl);
inline ValueRef value_now(TensorImpl* impl) { return impl->value->external ? kept_value(impl) : impl->value; }
/// The elements of `t` in memory of its device, computed: `reason` and `source` are those of a sync.
BufferRef elements(const Tensor& t, std::string_view reason, SourceToken source);
/// The elements of external `t`, where they are.
eager::Array window(const Tensor& t);
/// torch's error for a write to a tensor with several elements in one place.
inline constexpr std::string_view kOverlap =
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the tensor before performing the operation.";
/// Writes `source`, of the same shape and dtype, into external `t`, before it returns.
void write_external(const Tensor& t, const Tensor& source);

/// Throws RuntimeError when some, but not all, elements that a write to `self` changes are read from `other` too, as
/// far as torch looks: where both have no gaps.
void check_no_partial_overlap(const Tensor& self, const Tensor& other);

/// Who holds the storage of `impl`.
inline TensorImpl* owner_of(TensorImpl* impl) {
  while (impl->base) impl = impl->base;
  return impl;
}

/// Gives every external operand a value for its lifetime: a snapshot, or, where it has no gaps and what is recorded
/// meanwhile runs meanwhile, the memory itself.
class Snapshots {
 public:
  enum Kind : uint8_t { kCopied, kLent };
  explicit Snapshots(std::span<const Operand> operands, Kind kind = kCopied);
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;

 private:
  struct Swapped {
    TensorImpl* impl;
    ValueRef stand_in;
  };
  std::vector<Swapped> swapped_;
};

}  // namespace smolder::lazy
