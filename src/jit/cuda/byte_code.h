// Loop IR as the interpreter on the device reads it (device/interpreter.cuh): numbers of 32 bits, in which places that
// a launch fills are named by the number of their word.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

/// Instructions of the interpreter. Operands follow; see device/interpreter.cuh, which has the same names.
enum class Code : int32_t {
  kEnd,
  kApply,       ///< result, function, x, y, z
  kWord,        ///< result, word
  kScalar,      ///< result, number
  kIndex,       ///< result, sum
  kLoad,        ///< result, dtype, buffer, next, fill word, bounds, (lo word, hi word, sum) each, sum
  kStore,       ///< value, dtype, buffer, who (0: each thread; 1: the first; 2: of the last element), variable, sum
  kCheck,       ///< result, index, limit word, error slot
  kLoop,        ///< variable, count, next after the loop
  kEndLoop,     ///< variable, count, next iteration
  kVector,      ///< variable, count, next after the loop, word of lanes and unit
  kEndVector,   ///< variable, next element
  kResult,      ///< result, accumulator, function
  kBeginStrip,  ///< value, variable, segment word, identity word, total
  kEndStrip,    ///< value, variable, segment word, count, total, function
};
// How operands are written, each as words in this order:
//   a sum: how many terms it has, the word of its offset, and for each term a slot and the word of its stride;
//   a count: a word, a slot or -1, the word of the total;  a total: a slot or -1, the buffer, the slot of the element.

/// A kernel for the interpreter. Its threads have slots of eight bytes for values, variables and accumulators alike.
struct ByteCode {
  std::vector<int32_t> code;
  int slots = 0;
  /// Each thread takes an element of `columns` through all that a position does; else a group of threads takes a
  /// position, and shares out the elements of each vector loop.
  bool takes_columns = false;
  bool is_flat = false;  ///< columns: positions are elements
  IntRef columns;
  bool guarded = false;
  /// Words of a launch: addresses of buffers, what each group has of these to itself in bytes, integers, what follows
  /// from integers, constants.
  struct Derived {
    enum Kind : uint8_t { kLanes, kUnit, kAllLanes, kOne, kSegment } kind;
    IntRef extent;
  };
  std::vector<Derived> derived;
  std::vector<int64_t> constants;
  int num_buffers = 0, num_ints = 0;
  /// Buffers beyond the kernel's are totals of segments. A row is of so many elements; a kernel's buffer is one where
  /// the caller gives no memory.
  struct Row {
    IntRef elements;
    int64_t itemsize = 0;
  };
  std::vector<Row> rows;        ///< by buffer; an itemsize of 0: no row
  std::vector<IntRef> vectors;  ///< extents of vector loops
  size_t num_words() const {
    return 2 * rows.size() + static_cast<size_t>(num_ints) + derived.size() + constants.size();
  }
};

/// The code of a valid kernel that is not scheduled.
ByteCode encode(const Kernel& kernel);

/// Functions that the interpreter knows, by number: the elementwise primitives in the arithmetic of each dtype, casts,
/// and a few more.
struct Function {
  static int primitive(ir::Op op, DType t);
  static int cast(DType from, DType to);
  static int round(DType half);
  static constexpr int kMove = 0, kRoundF16 = 1, kRoundBF16 = 2, kRandomBits = 3, kFirstCast = 4;
};
/// Source text of the interpreter, behind the prelude.
std::string interpreter_text();
inline constexpr size_t kInterpreterWords = 448;  ///< that an argument of a launch has room for

}  // namespace smolder::jit::cuda
