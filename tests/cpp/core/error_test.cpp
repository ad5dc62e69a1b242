#include "smolder/core/error.h"

#include <gtest/gtest.h>

namespace smolder {
namespace {

TEST(Error, EveryClassNamesItsPythonBuiltin) {
  EXPECT_STREQ(RuntimeError("").python_type(), "RuntimeError");
  EXPECT_STREQ(TypeError("").python_type(), "TypeError");
  EXPECT_STREQ(ValueError("").python_type(), "ValueError");
  EXPECT_STREQ(IndexError("").python_type(), "IndexError");
  EXPECT_STREQ(NotImplementedError("").python_type(), "NotImplementedError");
  EXPECT_STREQ(OutOfMemoryError("").python_type(), "MemoryError");
  EXPECT_STREQ(InternalError("").python_type(), "SystemError");
}

TEST(Error, CheckStreamsItsPartsOnlyOnFailure) {
  int evaluated = 0;
  const auto part = [&] { return ++evaluated; };
  SMOLDER_CHECK(true, ValueError, "value ", part());
  EXPECT_EQ(evaluated, 0);
  try {
    SMOLDER_CHECK(1 > 2, ValueError, "value ", part(), " of ", 2.5);
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "value 1 of 2.5");
    EXPECT_STREQ(e.python_type(), "ValueError");
  }
}

TEST(Error, AnInvariantNamesItsConditionAndPlace) {
  try {
    SMOLDER_INVARIANT(2 + 2 == 5);
    FAIL() << "nothing was thrown";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("2 + 2 == 5"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("error_test.cpp:"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace smolder
