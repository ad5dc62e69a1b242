#include "smolder/core/device.h"

#include <gtest/gtest.h>

#include "smolder/core/error.h"

namespace smolder {
namespace {

TEST(Device, PrintedFormsParseBack) {
  for (Device d : {Device{}, Device{DeviceType::kCUDA, 0}, Device{DeviceType::kCUDA, 7}}) {
    EXPECT_EQ(parse_device(to_string(d)), d);
  }
  EXPECT_EQ(to_string(Device{}), "cpu");
  EXPECT_EQ(to_string(Device{DeviceType::kCUDA, 1}), "cuda:1");
  EXPECT_EQ(parse_device("cuda"), (Device{DeviceType::kCUDA, 0}));
  EXPECT_EQ(parse_device("cpu:0"), Device{});
}

TEST(Device, OtherStringsAreRefusedByName) {
  for (const char* bad : {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:128", "cuda: 1", "cpu:1"}) {
    try {
      parse_device(bad);
      FAIL() << bad << " was accepted";
    } catch (const RuntimeError& e) {
      EXPECT_NE(std::string(e.what()).find(bad), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace smolder
