#include "smolder/core/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "smolder/core/error.h"

namespace smolder {
namespace {

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("smolder-safetensors-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "file.safetensors";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  /// A file with that header and `data` bytes of elements.
  void put_header(const std::string& header, size_t data = 0) const {
    std::string length(8, '\0');
    for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> 8 * i);
    put(length + header + std::string(data, 'x'));
  }
  std::string bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string refused() const {
    try {
      const SafetensorsFile file(path_);
      return "nothing was thrown";
    } catch (const ValueError& e) {
      return e.what();
    }
  }

  std::filesystem::path folder_;
  std::string path_;
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(Safetensors, WhatIsWrittenIsRead) {
  const double wide[] = {1.5, -2.0, 3.25};
  const uint8_t narrow[] = {1, 2, 3, 4, 5, 6};
  const bool flags[] = {true, false};
  const int8_t small[] = {-128, 127};
  const int16_t half[] = {-32768, 5, 32767};
  const SafetensorsTensor tensors[] = {
      {"narrow", DType::kUInt8, {2, 3}, narrow},    {"flags", DType::kBool, {2}, flags},
      {"small", DType::kInt8, {2}, small},          {"half", DType::kInt16, {3}, half},
      {"wide \"one\"", DType::kFloat64, {3}, wide}, {"scalar", DType::kFloat64, {}, wide},
      {"empty", DType::kInt32, {0, 7}, nullptr}};
  write_safetensors(path_, tensors, {{"kind", "a\nb"}, {"x", ""}});
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"kind", "a\nb"}, {"x", ""}}));
  ASSERT_EQ(file.entries().size(), 7u);
  for (const SafetensorsTensor& t : tensors) {
    const SafetensorsEntry* const e = file.find(t.name);
    ASSERT_TRUE(e) << t.name;
    EXPECT_EQ(e->dtype, t.dtype);
    EXPECT_EQ(e->shape, t.shape);
    const BufferRef data = file.read(*e);
    ASSERT_EQ(data->bytes(), e->end - e->begin);
    if (t.data) {
      EXPECT_EQ(std::memcmp(data->data(), t.data, data->bytes()), 0) << t.name;
    }
  }
  EXPECT_EQ(file.find("other"), nullptr);
  uint64_t length = 0;
  std::memcpy(&length, bytes().data(), 8);
  EXPECT_EQ(length % 8, 0u) << "elements are aligned";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "nothing else is left";
}

TEST_F(Safetensors, AFileWithoutTensorsIsOne) {
  write_safetensors(path_, {});
  EXPECT_TRUE(SafetensorsFile(path_).entries().empty());
}

TEST_F(Safetensors, RefusesToWriteTwoOfOneName) {
  const SafetensorsTensor tensors[] = {{"a", DType::kUInt8, {0}, nullptr}, {"a", DType::kInt32, {0}, nullptr}};
  EXPECT_THROW(write_safetensors(path_, tensors), ValueError);
  const SafetensorsTensor metadata[] = {{"__metadata__", DType::kUInt8, {0}, nullptr}};
  EXPECT_THROW(write_safetensors(path_, metadata), ValueError);
  EXPECT_THROW(write_safetensors(path_, {}, {{"a", "\xff"}}), ValueError);
  EXPECT_THROW(write_safetensors(folder_ / "no" / "folder", {}), RuntimeError);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Safetensors, SaysWhatIsWrongWithAFile) {
  EXPECT_THROW(SafetensorsFile(folder_ / "none"), RuntimeError);
  EXPECT_THROW(SafetensorsFile{folder_}, ValueError);
  put("");
  EXPECT_SAYS(refused(), "it has 0 bytes");
  put(std::string(8, '\xff'));
  EXPECT_SAYS(refused(), "a header of 18446744073709551615 bytes");
  put(std::string("\x40\0\0\0\0\0\0\0{}", 10));
  EXPECT_SAYS(refused(), "cut short: a header of 64 bytes in a file of 10");
  put_header("[]");
  EXPECT_SAYS(refused(), "does not begin with {");
  put_header("{\"a\": ");
  EXPECT_SAYS(refused(), "not JSON");
  put_header("{\"a\": \"\xff\"}");
  EXPECT_SAYS(refused(), "not JSON");
  put_header("{\"a\": " + std::string(100000, '[') + "}");
  EXPECT_SAYS(refused(), "nested deeper");
  const std::string entry = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  put_header("{\"a\":" + entry + ",\"a\":" + entry + "}", 8);
  EXPECT_SAYS(refused(), "names 'a' twice");
  put_header("{\"a\":" + entry + ",\"b\":" + entry + "}", 8);
  EXPECT_SAYS(refused(), "'b' begins at byte 0 of the elements, where what is before it ends at 8");
  put_header("{\"a\":" + entry + "}", 7);
  EXPECT_SAYS(refused(), "cut short: its tensors take 8 bytes, it has 7");
  put_header("{\"a\":" + entry + "}", 9);
  EXPECT_SAYS(refused(), "too long: its tensors take 8 bytes, it has 9");
  put_header("{\"__metadata__\":{\"a\":1}}");
  EXPECT_SAYS(refused(), "metadata 'a' is no string: '1'");
  put_header("{\"__metadata__\":[]}");
  EXPECT_SAYS(refused(), "metadata is no object");
}

TEST_F(Safetensors, SaysWhatIsWrongWithATensor) {
  const auto one = [&](const std::string& entry) {
    put_header("{\"a\":" + entry + "}", 8);
    return refused();
  };
  EXPECT_SAYS(one("3"), "tensor 'a': expected an object, found '3'");
  EXPECT_SAYS(one(R"({"dtype":"F32","shape":[2]})"), "tensor 'a' has no data_offsets");
  EXPECT_SAYS(one(R"({"dtype":"F99","shape":[2],"data_offsets":[0,8]})"), "there is no dtype 'F99'");
  EXPECT_SAYS(one(R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})"), "dtype is no string");
  EXPECT_SAYS(one(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"), "shape is no list");
  EXPECT_SAYS(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "not negative");
  EXPECT_SAYS(one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), "expected an integer");
  EXPECT_SAYS(one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})"), "fits 63 bits");
  EXPECT_SAYS(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"), "too large");
  std::string ones;
  for (int i = 0; i < kMaxRank; ++i) ones += "1,";
  EXPECT_SAYS(one(R"({"dtype":"U8","shape":[)" + ones + R"(8],"data_offsets":[0,8]})"), "has 65 dimensions");
  EXPECT_SAYS(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
              "takes 12 bytes, its data_offsets are 0 and 8");
  EXPECT_SAYS(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "its data_offsets are 8 and 0");
  EXPECT_SAYS(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), "not two integers");
  put_header(R"({"a":{"dtype":"U16","shape":[4],"data_offsets":[0,8]}})", 8);
  const SafetensorsFile file(path_);
  EXPECT_THROW(file.read(file.entries()[0]), ValueError) << "a dtype that Smolder does not have";
}

TEST_F(Safetensors, BoolsOfOthersBecomeOurs) {
  put_header(R"({"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", 3);
  const SafetensorsFile file(path_);
  const BufferRef data = file.read(file.entries()[0]);
  EXPECT_EQ(std::memcmp(data->data(), "\1\1\1", 3), 0);
}

TEST_F(Safetensors, AFileThatBecomesShorterIsAnError) {
  const std::vector<double> data(1000);
  const SafetensorsTensor tensors[] = {{"a", DType::kFloat64, {1000}, data.data()}};
  write_safetensors(path_, tensors);
  const SafetensorsFile file(path_);
  std::filesystem::resize_file(path_, 200);
  EXPECT_THROW(file.read(file.entries()[0]), RuntimeError);
}

TEST_F(Safetensors, ChangedBytesGiveAFileOrAnError) {
  const double data[] = {1, 2, 3, 4};
  const SafetensorsTensor tensors[] = {{"a", DType::kFloat64, {2, 2}, data}, {"b", DType::kUInt8, {5}, data}};
  write_safetensors(path_, tensors, {{"kind", "value"}});
  const std::string good = bytes();
  std::mt19937 random(7);
  int refusals = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % bad.size();
      switch (random() % 4) {
        case 0:
          bad[at] = static_cast<char>(random());
          break;
        case 1:
          bad.resize(at + 1);
          break;
        case 2:
          bad.erase(at, random() % 9);
          if (bad.empty()) bad = "x";
          break;
        default:
          bad.insert(at, bad.substr(random() % bad.size(), random() % 20));
      }
    }
    put(bad);
    try {
      const SafetensorsFile file(path_);
      for (const SafetensorsEntry& e : file.entries()) {
        if (e.dtype) file.read(e);
      }
    } catch (const ValueError&) {
      ++refusals;
    }
  }
  EXPECT_GT(refusals, 1000);
}

}  // namespace
}  // namespace smolder
