// Fourier transforms on a device, by cuFFT.
#pragma once

#include <memory>
#include <vector>

#include "smolder/jit/library/library.h"

namespace smolder::jit::cuda {

bool is_transform(ir::Op op);
/// As they are decomposed for a device (ir/decompose_fourier.cpp): of up to three axes, of one for real numbers of a
/// half spectrum, forward from real numbers and back to them, and not scaled. Axes that are not the last are brought
/// there by a copy, unless a single one lies well as it is.
std::unique_ptr<BoundLibrary> bind_transform(int device, ir::Op op, const LibraryView& in, const LibraryView& out,
                                             const std::vector<int64_t>& attrs);

}  // namespace smolder::jit::cuda
