#include "smolder/jit/cuda/attention_text.h"

#include <sstream>

#include "smolder/jit/cuda/device/attention.h"

namespace smolder::jit::cuda {

AttentionText::Shape AttentionText::forward() const {
  if (has_large_tiles()) return of_large_tiles(64);
  if (!is_half(dtype)) return in_floats(small && !tf32 ? 32 : 64, 32);
  if (warpgroups) return {256, 1, 64, 64, head > 64 ? 1 : 2};
  const int columns = tight() ? 32 : 64;
  return {128, 2, columns, columns, 1};
}
AttentionText::Shape AttentionText::grad_query() const {
  if (has_large_tiles()) return of_large_tiles(32);
  if (!is_half(dtype)) return in_floats(32, 16);
  if (warpgroups) return {128, 1, 64, 64, head > 64 ? 2 : 3};
  return {128, tight() ? 1 : 2, head > 64 || is_tight_for_mask() ? 32 : 64, 32, 1};
}
AttentionText::Shape AttentionText::grad_key() const {
  if (has_large_tiles()) return of_large_tiles(32);
  if (!is_half(dtype)) return in_floats(32, 16);
  if (warpgroups) return {head > 64 ? 256 : 128, 1, 64, mask == Mask::kNone ? 64 : 32, head > 64 ? 1 : 3};
  return {128, head > 64 ? 1 : 2, tight() || is_tight_for_mask() ? 32 : 64, 32, 1};
}
AttentionText::Shape AttentionText::in_floats(int columns, int columns_of_wide) const {
  columns = head > 64 ? columns_of_wide : mask == Mask::kNone ? columns : 32;
  return {tight() ? 64 : 128, 1, columns, columns, small ? 1 : 2};
}
AttentionText::Shape AttentionText::of_large_tiles(int columns_where_many) const {
  if (many) return {128, 2, columns_where_many, columns_where_many, 2};
  return {256, 1, 64, 64, 1};
}
int AttentionText::staging(const Shape& s) const { return is_half(dtype) || tf32 ? 0 : s.rows() * (s.part + 8) * 4; }

AttentionText::Shape AttentionText::shape_of(Kernel kernel) const {
  return kernel == Kernel::kForward ? forward() : kernel == Kernel::kGradQuery ? grad_query() : grad_key();
}

int AttentionText::shared_of(Kernel kernel) const {
  const Shape s = shape_of(kernel);
  if (kernel == Kernel::kGradKey) return bytes_of(s, 2) + 4 * s.columns * 4 + mask_bytes(s.columns, s.rows());
  return bytes_of(s, kernel == Kernel::kForward ? 1 : 2) + mask_bytes(s.rows(), s.columns);
}

const char* AttentionText::name_of(Kernel kernel) {
  constexpr const char* kNames[] = {"attention_forward", "attention_grad_query", "attention_grad_key_value"};
  return kNames[static_cast<int>(kernel)];
}

std::string AttentionText::text_of(Kernel kernel) const {
  std::ostringstream out;
  const char* const element = is_half(dtype) ? "u16" : "f32";
  out << "// The kernels of attention.\ntypedef " << element << " Element;\n";
  if (mask != Mask::kNone) {
    const char* const lowest = !is_half(dtype)            ? "0xff800000u"
                               : dtype == DType::kFloat16 ? "0xfc00fc00u"
                                                          : "0xff80ff80u";
    out << "typedef " << (mask == Mask::kBool ? "unsigned char" : "Element")
        << " MaskElement;\nconstexpr u32 kNothingBits = " << (mask == Mask::kBool ? "0" : lowest)
        << ";\nconstexpr bool kMaskAligned = " << (mask_aligned ? "true" : "false") << ";\n";
  }
  out << "#define MASK " << static_cast<int>(mask) << "\n"
      << std::boolalpha << "constexpr int kHead = " << head << ";\nconstexpr bool kCausal = " << is_causal
      << ", kAligned = " << aligned << ", kPositive = " << positive << ", kWarpgroups = " << warpgroups << ";\n";
  constexpr const char* kNames[] = {"Forward", "GradQuery", "GradKey"};
  constexpr const char* kTexts[] = {kAttentionForward, kAttentionGradQuery, kAttentionGradKey};
  const std::string name = kNames[static_cast<int>(kernel)];
  const Shape s = shape_of(kernel);
  out << "constexpr int k" << name << "Threads = " << s.threads << ", k" << name << "Tiles = " << s.tiles << ", k"
      << name << "Columns = " << s.columns << ", k" << name << "Part = " << s.part << ", k" << name
      << "Blocks = " << s.blocks << ", k" << name << "Staging = " << staging(s) << ";\n"
      << kAttentionCommon << products() << kAttentionRest << (mask == Mask::kNone ? "" : kAttentionMask)
      << (backward ? kAttentionBackwardArguments : "") << kTexts[static_cast<int>(kernel)];
  return out.str();
}

}  // namespace smolder::jit::cuda
