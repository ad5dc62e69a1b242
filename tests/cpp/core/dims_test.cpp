#include "smolder/core/dims.h"

#include <gtest/gtest.h>

#include <sstream>

namespace smolder {
namespace {

template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Dims, HoldsValuesInOrder) {
  Dims d{2, 3, 4};
  EXPECT_EQ(d.size(), 3);
  EXPECT_EQ(d.back(), 4);
  d.insert(0, 9);
  d.insert(4, 7);
  EXPECT_EQ(d, (Dims{9, 2, 3, 4, 7}));
  d.erase(1);
  EXPECT_EQ(d, (Dims{9, 3, 4, 7}));
  d.pop_back();
  EXPECT_EQ(d, (Dims{9, 3, 4}));
  EXPECT_FALSE(d == (Dims{9, 3}));
  EXPECT_EQ(Dims::filled(3, 5), (Dims{5, 5, 5}));
  EXPECT_TRUE(Dims().empty());
  const std::span<const int64_t> view = d;
  EXPECT_EQ(view.size(), 3u);
  EXPECT_EQ(Dims(view), d);
}

TEST(Dims, AnErasedValueDoesNotMakeTwoEqualListsDiffer) {
  Dims d{1, 2, 3};
  d.erase(2);
  EXPECT_EQ(d, (Dims{1, 2}));
}

TEST(Dims, ListsThatFitInlineAndThoseThatDoNotBehaveAlike) {
  for (int rank = 1; rank < 20; ++rank) {
    Dims d;
    for (int i = 0; i < rank; ++i) d.push_back(i);
    Dims copy = d, other = Dims::filled(20 - rank, 7);
    EXPECT_EQ(copy, d);
    copy[0] = 5;
    EXPECT_EQ(d[0], 0) << "a copy has values of its own";
    other = d;
    EXPECT_EQ(other, d);
    const Dims moved = std::move(other);
    EXPECT_EQ(moved, d);
    EXPECT_TRUE(other.empty());  // NOLINT(bugprone-use-after-move): what is left is told
    other.push_back(3);
    EXPECT_EQ(other, Dims{3});
    d.insert(rank / 2, -1);
    d.erase(rank / 2);
    EXPECT_EQ(d, moved);
    d = std::move(copy);
    EXPECT_EQ(d[0], 5);
    EXPECT_EQ(d.size(), rank);
  }
}

TEST(Dims, TheSixtyFifthDimensionIsRefused) {
  Dims d = Dims::filled(kMaxRank, 1);
  EXPECT_THROW(d.push_back(1), ValueError);
  EXPECT_THROW(d.insert(0, 1), ValueError);
  EXPECT_EQ(d.size(), kMaxRank);
  EXPECT_THROW(Dims::filled(65, 1), ValueError);
}

TEST(Dims, PrintsAsTorchDoes) {
  EXPECT_EQ(to_string(Dims{2, 3}), "[2, 3]");
  EXPECT_EQ(to_string(Dims{}), "[]");
  std::ostringstream out;
  out << Dims{-1};
  EXPECT_EQ(out.str(), "[-1]");
}

TEST(Shapes, NumelAndStrides) {
  EXPECT_EQ(numel({}), 1);
  EXPECT_EQ(numel({2, 3, 4}), 24);
  EXPECT_EQ(numel({2, 0, 4}), 0);
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), Dims{});
  EXPECT_EQ(contiguous_strides({2, 0, 3}), (Dims{3, 3, 1})) << "torch counts an extent of zero as one";
}

TEST(Shapes, Contiguity) {
  EXPECT_TRUE(is_contiguous({}, {}));
  EXPECT_TRUE(is_contiguous({2, 3}, {3, 1}));
  EXPECT_FALSE(is_contiguous({2, 3}, {1, 2}));
  EXPECT_FALSE(is_contiguous({2, 3}, {4, 1}));
  EXPECT_FALSE(is_contiguous({2, 3}, {0, 1}));
  EXPECT_TRUE(is_contiguous({2, 1, 3}, {3, 99, 1})) << "the stride of an extent of one does not count";
  EXPECT_TRUE(is_contiguous({2, 0}, {7, 7})) << "nothing to walk";
}

TEST(Shapes, AxesCountFromTheEndToo) {
  EXPECT_EQ(normalize_axis(0, 3), 0);
  EXPECT_EQ(normalize_axis(-1, 3), 2);
  EXPECT_EQ(normalize_axis(-3, 3), 0);
  EXPECT_EQ(normalize_axis(0, 0), 0);
  EXPECT_EQ(normalize_axis(-1, 0), 0);
  EXPECT_EQ(message_of<IndexError>([] { normalize_axis(3, 3); }),
            "Dimension out of range (expected to be in range of [-3, 2], but got 3)");
  EXPECT_EQ(message_of<IndexError>([] { normalize_axis(-2, 0); }),
            "Dimension out of range (expected to be in range of [-1, 0], but got -2)");
}

TEST(Shapes, Broadcasting) {
  EXPECT_EQ(broadcast_shapes({2, 3}, {3}, "add"), (Dims{2, 3}));
  EXPECT_EQ(broadcast_shapes({2, 1}, {1, 3}, "add"), (Dims{2, 3}));
  EXPECT_EQ(broadcast_shapes({}, {4}, "add"), (Dims{4}));
  EXPECT_EQ(broadcast_shapes({0}, {1}, "add"), (Dims{0}));
  EXPECT_EQ(broadcast_shapes({1}, {2, 0}, "add"), (Dims{2, 0}));
  const std::string text = message_of<RuntimeError>([] { broadcast_shapes({2, 3}, {2, 4}, "mul"); });
  EXPECT_NE(text.find("mul"), std::string::npos) << text;
  EXPECT_NE(text.find("The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("[2, 3] and [2, 4]"), std::string::npos) << text;
  EXPECT_THROW(broadcast_shapes({0}, {2}, "add"), RuntimeError);
}

}  // namespace
}  // namespace smolder
