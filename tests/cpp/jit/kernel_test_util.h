// Memory with guard pages, argument tables and comparisons for tests of generated kernels.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "smolder/core/dtype.h"
#include "smolder/jit/backend.h"

namespace smolder::jit::test {

inline constexpr DType kDTypes[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                                    DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

/// Elements that end where a page ends that cannot be touched: reading or writing past them is a crash.
class Array {
 public:
  Array(DType dtype, int64_t elements);
  Array(Array&&) noexcept;
  Array& operator=(Array&&) noexcept;
  ~Array();
  /// A copy in memory of its own.
  Array clone() const;

  DType dtype() const { return dtype_; }
  int64_t size() const { return elements_; }
  size_t bytes() const { return static_cast<size_t>(elements_) * itemsize(dtype_); }
  void* data() const { return data_; }
  /// The bits of an element, in the low end.
  uint64_t bits(int64_t i) const;
  void set_bits(int64_t i, uint64_t bits);
  /// From the nearest number of the dtype.
  void set(int64_t i, double v);

  /// Values that arithmetic gets wrong (zeros, denormals, infinities, nan, extremes), then random ones.
  void fill_special(std::mt19937_64& random);
  /// Small numbers.
  void fill(std::mt19937_64& random);

 private:
  DType dtype_;
  int64_t elements_;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  char* data_ = nullptr;
};

/// Whether two elements have the same bits, or are nan both.
bool same(DType t, uint64_t a, uint64_t b);
/// Compares element by element, naming the first difference.
testing::AssertionResult same(const Array& got, const Array& want);

/// Code generators for this processor and for as little as there may be: all must give the same bits.
const std::vector<Backend*>& backends();

/// A kernel, compiled.
class Compiled {
 public:
  explicit Compiled(const std::string& text, Backend& backend = llvm_backend());
  /// Runs [begin, end) of the root loop; returns the error words.
  std::vector<uint32_t> run(std::vector<Array>& buffers, const std::vector<int64_t>& ints,
                            const std::vector<uint64_t>& scalars, int64_t begin, int64_t end) const;
  const Kernel& kernel() const { return kernel_; }

 private:
  Kernel kernel_;
  CompiledKernel code_;
};

}  // namespace smolder::jit::test
