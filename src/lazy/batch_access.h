// Questions of recording, reading and writing to batches of vmap: see batch.h, which is above them. Defined in
// batch.cpp and batch_record.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "smolder/core/scalar.h"
#include "smolder/lazy/value.h"

namespace smolder {
class Tensor;
}

namespace smolder::lazy {

class Operand;
class TensorImpl;

/// How many levels there are where the calling thread is.
int batch_depth();

/// Records an op with tensors of a level among its operands, or of random numbers in a level: everything but the
/// history of the level, of which `own` has the operands (they point to what is `kept`). Returns whether some require
/// grad there.
bool record_elements(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor* outputs,
                     std::vector<Operand>& own, std::vector<Tensor>& kept);
/// Records an op of random numbers.
void record_random(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs, Tensor* outputs);
/// Puts `source` into who holds a storage, where either is of a level. Where that is no element of a batch, returns
/// what is to be written there instead. Throws torch's RuntimeError where elements of a batch would be written to one
/// tensor.
Tensor write_elements(TensorImpl* owner, Tensor source);

/// A value of a level as it is without any history, in the same storage.
ValueRef detached_elements(const Value& value);
/// Lets go of a value of a level that is dead.
void delete_elements(Value* value) noexcept;

/// The number of elements of a draw, counting batches. Throws RuntimeError where a level allows none.
int64_t batched_draw(int64_t elements);
/// Notes a draw in levels whose elements differ.
void note_batched_draw(std::pair<Scalar, Scalar> seed_and_offset);

/// Throws what torch says of reading the value of an element.
[[noreturn]] void refuse_element(std::string_view reason);
/// Throws what torch says of reading a tensor without storage.
[[noreturn]] void refuse_wrapper(std::string_view reason);
inline void check_readable(const Value& value, std::string_view reason) {
  if (value.batched) [[unlikely]]
    refuse_element(reason);
  if (value.wrapper) [[unlikely]]
    refuse_wrapper(reason);
}

}  // namespace smolder::lazy
