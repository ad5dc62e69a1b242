// Compiled programs that come with the library: which these are, and the files that have them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "smolder/core/dynamic_library.h"
#include "smolder/jit/cuda/library.h"
#include "smolder/jit/cuda/native/common_programs.h"
#include "smolder/jit/cuda/native/device.h"
#include "smolder/jit/cuda/shipped_code.h"

namespace smolder::jit::cuda {
namespace {

using ir::Op;

/// Runs nothing; says which programs calls asked for.
class Asked final : public NativeDevice {
 public:
  explicit Asked(const std::set<std::string>& kept) : kept_(kept) {}
  bool has(const std::string& program) override { return kept_.contains(native_text(program)); }
  NativeRef function(const std::string& program, const std::string&) override {
    programs.insert(native_text(program));
    return nullptr;
  }
  int64_t shared_bytes() const override { return 227 << 10; }
  BufferRef allocate(int64_t) override { return nullptr; }
  void copy(void*, const void*, int64_t) override {}
  void fill(void*, unsigned char, int64_t) override {}

  std::set<std::string> programs;

 private:
  const std::set<std::string>& kept_;
};

LibraryView dense(DType dtype, const Dims& shape) {
  return {.dtype = dtype, .shape = shape, .strides = contiguous_strides(shape)};
}

TEST(CommonPrograms, HaveWhatStepsOftenAskFor) {
  std::set<std::string> common;
  for (const CommonProgram& p : common_programs("sm_90")) common.insert(p.text);
  EXPECT_GT(common.size(), 150u);
  Asked asked(common);
  const LibraryView table = dense(DType::kFloat32, {5000, 256}), words = dense(DType::kInt64, {16 * 128});
  for (const bool guarded : {false, true}) {  // the gradient of an embedding
    bind_native(asked, Op::kIndexAdd, {table, words, dense(DType::kFloat32, {16 * 128, 256})}, {table}, {0}, guarded);
  }
  for (const int64_t n : {10, 1000, 3000, 1 << 20}) {
    const LibraryView x = dense(DType::kFloat32, {4, n});
    bind_native(asked, Op::kSorted, {x}, {x, dense(DType::kInt64, {4, n})}, {1, 0});
    bind_native(asked, Op::kScan, {x}, {x}, {0, 1});
    bind_native(asked, Op::kScan, {x}, {x}, {1, 1});  // cumprod
  }
  // A deep and a flat product, of which one operand is transposed.
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{192, 192, 1024}, {640, 512, 64}}) {
    LibraryView b = dense(DType::kFloat32, {k, n});
    b.strides = {1, k};
    bind_native(asked, Op::kDot, {dense(DType::kFloat32, {m, k}), b}, {dense(DType::kFloat32, {m, n})}, {});
  }
  for (const std::string& program : asked.programs) {
    EXPECT_TRUE(common.contains(program)) << program.substr(native_text("").size(), 300);
  }
  EXPECT_GE(asked.programs.size(), 9u);
}

/// A file beside the library, for an architecture that no device has.
class ShippedCode : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* arch : {"sm_995", "sm_985"}) std::filesystem::remove(library_folder() + shipped_file(arch));
  }
  static void write(const std::string& arch, const std::string& bytes) {
    std::ofstream(library_folder() + shipped_file(arch), std::ios::binary) << bytes;
  }
};

TEST_F(ShippedCode, IsFoundByTextArchitectureAndContraction) {
  const std::pair<std::string, std::string> programs[] = {
      {shipped_key("a", "sm_995", Contraction::kNone), std::string("code\0of a", 9)},
      {shipped_key("b", "sm_995a", Contraction::kAllowed), "code of b"}};
  write("sm_995", shipped_bytes(programs));
  EXPECT_EQ(shipped_code("a", "sm_995", Contraction::kNone), std::string_view("code\0of a", 9));
  EXPECT_EQ(shipped_code("a", "sm_998", Contraction::kNone), std::string_view("code\0of a", 9));  // of the same kind
  EXPECT_EQ(shipped_code("a", "sm_993", Contraction::kNone), "");                                 // an older one
  EXPECT_EQ(shipped_code("a", "sm_995", Contraction::kAllowed), "");
  EXPECT_EQ(shipped_code("c", "sm_995", Contraction::kNone), "");
  EXPECT_EQ(shipped_code("b", "sm_995a", Contraction::kAllowed), "code of b");
  EXPECT_EQ(shipped_code("b", "sm_998a", Contraction::kAllowed), "");  // a letter's instructions are one device's
}

TEST_F(ShippedCode, OfADamagedFileIsNotUsed) {
  const std::pair<std::string, std::string> programs[] = {{shipped_key("a", "sm_985", Contraction::kNone), "code"},
                                                          {shipped_key("b", "sm_985", Contraction::kNone), "more"}};
  const std::string bytes = shipped_bytes(programs);
  write("sm_985", bytes.substr(0, bytes.size() - 1));
  EXPECT_EQ(shipped_code("a", "sm_985", Contraction::kNone), "");
}

}  // namespace
}  // namespace smolder::jit::cuda
