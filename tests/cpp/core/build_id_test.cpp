#include "smolder/core/build_id.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "smolder/core/error.h"

namespace smolder {
namespace {

TEST(BuildId, IsThatOfTheObjectThatHoldsTheAddress) {
  static const int here = 0;
  const std::string id = build_id(&here);
  EXPECT_GE(id.size(), 16u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  EXPECT_EQ(build_id(&here), id);
  EXPECT_NE(build_id(reinterpret_cast<const void*>(&std::fopen)), id) << "of the C library";
  const std::vector<int> heap(1);
  EXPECT_THROW(build_id(heap.data()), RuntimeError);
}

}  // namespace
}  // namespace smolder
