// A matrix product over strided views, as calls of a batched one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "smolder/eager/cpu/matmul.h"
#include "smolder/jit/library/library.h"

namespace smolder::jit {

/// The epilogue of a call of the primitive `dot`: its third operand is a bias, or absent, and relu is a last attribute
/// of 1 (see join_bias.h).
eager::MatmulDesc::Epilogue epilogue_of(const std::vector<LibraryView>& inputs, const std::vector<int64_t>& attrs);

/// As many batches as one stride walks are one call; the others are a loop.
struct ProductSteps {
  struct Offsets {
    int64_t a, b, c;  ///< bytes
  };
  eager::MatmulDesc desc;        ///< of each call
  std::vector<Offsets> offsets;  ///< one a call

  ProductSteps(const LibraryView& a, const LibraryView& b, const LibraryView& c,
               eager::MatmulDesc::Epilogue epilogue = eager::MatmulDesc::Epilogue::kNone);
  /// Whether there is nothing to write.
  bool is_empty() const { return desc.batch == 0 || desc.m == 0 || desc.n == 0 || offsets.empty(); }
  /// Operations of one call.
  double flops() const {
    return 2.0 * static_cast<double>(desc.batch) * static_cast<double>(desc.m) * static_cast<double>(desc.n) *
           static_cast<double>(desc.k);
  }
  std::string describe() const;
};

}  // namespace smolder::jit
