#include "smolder/core/dynamic_library.h"

#include <gtest/gtest.h>

#include "smolder/core/error.h"

namespace smolder {
namespace {

TEST(DynamicLibrary, CallsASymbolOfAnOpenedLibrary) {
  const DynamicLibrary libm = DynamicLibrary::open("libm.so.6");
  EXPECT_EQ(libm.symbol<double(double)>("floor")(2.75), 2.0);
  EXPECT_EQ(libm.file(), "libm.so.6");
}

TEST(DynamicLibrary, AMissingFileIsNamedWithTheReason) {
  try {
    DynamicLibrary::open("libsmolder_no_such_thing.so");
    FAIL() << "nothing was thrown";
  } catch (const RuntimeError& e) {
    EXPECT_NE(std::string(e.what()).find("libsmolder_no_such_thing.so"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("No such file"), std::string::npos) << e.what();
  }
}

TEST(DynamicLibrary, AMissingSymbolIsNamed) {
  const DynamicLibrary libm = DynamicLibrary::open("libm.so.6");
  try {
    libm.symbol<void()>("no_such_symbol");
    FAIL() << "nothing was thrown";
  } catch (const RuntimeError& e) {
    EXPECT_NE(std::string(e.what()).find("no_such_symbol"), std::string::npos) << e.what();
  }
}

TEST(DynamicLibrary, PluginsAreLookedForBesideTheLibrary) {
  try {
    DynamicLibrary::open_plugin("smolder_no_such_plugin");
    FAIL() << "nothing was thrown";
  } catch (const RuntimeError& e) {
    EXPECT_NE(std::string(e.what()).find("/libsmolder_no_such_plugin.so"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace smolder
