// Where an element lies, symbolically: sums of loop variables and computed indices with symbolic strides,
// and mixed-radix indices made of them. Reshapes do not change an index: a value's dims are only boundaries
// between its digits.
#pragma once

#include <cstdint>
#include <vector>

#include "smolder/core/scalar.h"
#include "smolder/ir/graph.h"

namespace smolder::jit {

/// offset + sum of (loop variable or local value) * stride.
struct Linear {
  struct Term {
    int32_t id;     ///< loop variable, or local value of the kernel
    bool is_local;  ///< which of the two
    ir::Dim stride;
    friend bool operator==(const Term&, const Term&) = default;
  };
  ir::Dim offset;
  std::vector<Term> terms;

  static Linear var(int32_t id, ir::Dim stride = 1) { return {0, {{id, false, stride}}}; }
  static Linear local(int32_t id, ir::Dim stride = 1) { return {0, {{id, true, stride}}}; }
  bool is_affine() const {
    for (const Term& t : terms) {
      if (t.is_local) return false;
    }
    return true;
  }
  friend bool operator==(const Linear&, const Linear&) = default;
};

/// sum += x * scale
void add_scaled(ir::SymTable& sym, Linear& sum, const Linear& x, ir::Dim scale);

/// One digit of an index: its value lies in [0, extent), unless bounds of the index say it may not.
struct Digit {
  Linear value;
  ir::Dim extent;
  /// Atom of the kernel's domain that this digit is, or -1. Only an atom may be cut into finer loops.
  int atom = -1;
  /// The two halves of digit `cut` (an ordinal of the kernel) joined again are that digit.
  int cut = -1;
  bool high = false;
  friend bool operator==(const Digit& a, const Digit& b) { return a.value == b.value && a.extent == b.extent; }
};

/// An element is inside when lo <= value < hi.
struct LinearBound {
  Linear value;
  ir::Dim lo, hi;
  friend bool operator==(const LinearBound&, const LinearBound&) = default;
};

/// Position of an element of a value: digits in row-major order, none of extent one. Elements outside of
/// the bounds are never used, but for `fill` when has_fill.
struct Index {
  std::vector<Digit> digits;
  std::vector<LinearBound> bounds;
  bool has_fill = false;
  Scalar fill = 0.0;
  friend bool operator==(const Index&, const Index&) = default;
};

/// Row-major position, counted in elements.
Linear flatten(ir::SymTable& sym, const std::vector<Digit>& digits);
/// Hash of the whole; equal indices have equal hashes.
uint64_t hash_of(const Index& index);

/// Is it one? Where only the sample says so, a guard is recorded.
inline bool is_one(ir::SymTable& sym, ir::Dim d) { return d.value == 1 && sym.equal(d, 1); }

}  // namespace smolder::jit
