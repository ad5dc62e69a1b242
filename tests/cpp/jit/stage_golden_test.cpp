// The output of each stage of the compiler for a few graphs, as text in tests/golden/stages. SMOLDER_BLESS=1 writes it
// anew; read the difference as you would a change of code.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "jit/golden_text.h"
#include "smolder/ir/graph.h"
#include "smolder/jit/compile.h"

namespace smolder::jit::test {
namespace {

/// A graph of tests/golden/parse, whose comments the parser does not take.
ir::Graph graph_of(const std::string& name) {
  std::ifstream file("tests/golden/parse/" + name + ".smir");
  std::string text;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("//")) text += line + "\n";
  }
  return ir::parse(text);
}

class StageGolden : public ::testing::TestWithParam<const char*> {
 protected:
  static void expect(std::string_view stage) {
    const std::string graph = GetParam(), file = "tests/golden/stages/" + graph + "." + std::string(stage) + ".txt";
    expect_golden(file, text_after(graph_of(graph), {}, stage));
  }
};

TEST_P(StageGolden, Decompose) { expect("decompose"); }
TEST_P(StageGolden, Simplify) { expect("simplify"); }
TEST_P(StageGolden, Fuse) { expect("fuse"); }
TEST_P(StageGolden, Lower) { expect("lower"); }
TEST_P(StageGolden, Schedule) { expect("schedule"); }

INSTANTIATE_TEST_SUITE_P(Graphs, StageGolden,
                         ::testing::Values("adamw_op", "chunked_reduce", "mlp_ops", "movement", "point_pairs",
                                           "softmax"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace smolder::jit::test
