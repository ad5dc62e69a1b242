// Kernels become AArch64 code with NEON on whatever machine builds Smolder: compiled, not run.
#include <gtest/gtest.h>
#include <llvm/Support/TargetSelect.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "jit/random_kernel.h"
#include "smolder/jit/llvm/compiler.h"

namespace smolder::jit::cpu {
namespace {

Compiler& compiler() {
  static Compiler* c = [] {
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    return new Compiler({"aarch64-unknown-linux-gnu", "neoverse-n1", ""});
  }();
  return *c;
}

/// An ELF file for AArch64 (e_machine 183).
void expect_object(const Kernel& kernel) {
  const std::string bytes = compiler().compile(kernel).bytes;
  ASSERT_GT(bytes.size(), 20u);
  EXPECT_EQ(bytes.substr(1, 3), "ELF");
  EXPECT_EQ(static_cast<unsigned char>(bytes[18]), 183);
}

TEST(Neon, CompilesEveryGoldenKernel) {
  int kernels = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/golden/loop")) {
    SCOPED_TRACE(file.path());
    std::ostringstream text;
    text << std::ifstream(file.path()).rdbuf();
    expect_object(parse_loop(text.str()));
    ++kernels;
  }
  EXPECT_GT(kernels, 3);
}

TEST(Neon, CompilesRandomKernels) {
  for (uint64_t seed = 0; seed < 40 && !HasFailure(); ++seed) {
    const test::RandomKernel r = test::random_kernel(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(r.kernel));
    expect_object(r.kernel);
  }
}

TEST(Neon, UsesItsVectors) {
  const Kernel k = parse_loop(
      "kernel {\n"
      "  buffers b0:float32 w, b1:float32 r\n"
      "  ints 1\n"
      "  parallel vector v0 < n0 {\n"
      "    %0 = load b1[v0]\n"
      "    %1 = mul float32 %0, %0\n"
      "    store b0[v0], %1\n"
      "  }\n"
      "}\n");
  EXPECT_NE(compiler().assembly(k).find("fmul\tv"), std::string::npos) << compiler().assembly(k);
}

}  // namespace
}  // namespace smolder::jit::cpu
