// The instructions and the products of attention's kernels.
#include <sstream>

#include "smolder/jit/cuda/attention_text.h"
#include "smolder/jit/cuda/device/attention_products.h"

namespace smolder::jit::cuda {

namespace {

/// `group_multiply` for 8 n columns: c[n][4] = left right (+ c if `sum`), the left operand in registers or in shared
/// memory.
std::string group_multiply(int n, bool in_registers) {
  const auto place = [](int i) { return "%" + std::to_string(i); };
  const int sums = n * 4, operands = in_registers ? 4 : 1;
  std::ostringstream out;
  out << "template <int kTransposed> DEVICE void group_multiply(f32 (&c)[" << n << "][4], "
      << (in_registers ? "const u32 (&a)[4]" : "u64 a") << ", u64 b, bool sum) {\n"
      << "  asm volatile(\"{ .reg .pred p; setp.ne.b32 p, " << place(sums + operands + 1)
      << ", 0; wgmma.mma_async.sync.aligned.m64n" << n * 8 << "k16.f32.\" HALF \".\" HALF \" {";
  for (int i = 0; i < sums; ++i) out << (i > 0 ? ", " : "") << place(i);
  out << "}, " << (in_registers ? "{" : "");
  for (int i = 0; i < operands; ++i) out << (i > 0 ? ", " : "") << place(sums + i);
  out << (in_registers ? "}" : "") << ", " << place(sums + operands) << ", p, 1, 1, " << (in_registers ? "" : "0, ")
      << place(sums + operands + 2) << "; }\"\n               : ";
  for (int i = 0; i < sums; ++i) out << (i > 0 ? ", " : "") << "\"+f\"(c[" << i / 4 << "][" << i % 4 << "])";
  out << "\n               : ";
  for (int i = 0; in_registers && i < 4; ++i) out << "\"r\"(a[" << i << "]), ";
  out << (in_registers ? "" : "\"l\"(a), ") << "\"l\"(b), \"r\"(static_cast<int>(sum)), \"n\"(kTransposed));\n}\n";
  return out.str();
}

}  // namespace

std::string AttentionText::instructions() const {
  std::ostringstream text;
  text << kAttentionTypes << kAttentionInstructions;
  if (!is_half(dtype)) {
    text << kAttentionWarpCommon << kAttentionFloatInstructions;
    return text.str();
  }
  const bool bfloat16 = dtype == DType::kBFloat16;
  text << "typedef unsigned long long u64;\n#define HALF \"" << (bfloat16 ? "bf16" : "f16")
       << "\"\n#define IS_BFLOAT16 " << (bfloat16 ? "1" : "0") << kAttentionHalfInstructions;
  if (warpgroups) {
    text << kAttentionGroupInstructions;
    for (const int n : {4, 8}) text << group_multiply(n, /*in_registers=*/false);
    text << group_multiply(head / 8, /*in_registers=*/true);
  } else {
    text << kAttentionWarpCommon << kAttentionWarpInstructions;
  }
  return text.str();
}

std::string AttentionText::products() const {
  std::ostringstream text;
  if (is_half(dtype)) {
    text << kAttentionTensorLayout << kAttentionHalves;
    if (warpgroups) {
      text << kAttentionGroupProducts;
    } else {
      text << kAttentionWarpAddresses << kAttentionTensorRows << kAttentionHalfProducts;
    }
  } else if (tf32) {
    text << kAttentionWarpAddresses << kAttentionTensorLayout << kAttentionTensorRows << kAttentionTensorFloatProducts;
  } else {
    text << kAttentionWarpAddresses << kAttentionFloatProducts;
  }
  return text.str();
}

}  // namespace smolder::jit::cuda
