// Several devices of CUDA: run where there are some, or by tools/cuda_host with SMOLDER_CUDA_HOST_DEVICES=2.
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/device.h"
#include "smolder/core/error.h"

namespace smolder {
namespace {

class CudaDevices : public testing::Test {
 protected:
  void SetUp() override {
    const int count = cuda::device_count();
    if (count < 2) GTEST_SKIP() << "needs two devices of CUDA, there are " << count;
  }
  static bool emulated() { return cuda::device_info(0).name == "CUDA on the host"; }
};

TEST(Devices, EachHasANumberOfItsOwn) {
  std::vector<bool> taken(kMaxDevices);
  const auto take = [&](Device d) {
    ASSERT_LT(number_of(d), kMaxDevices);
    EXPECT_FALSE(taken[number_of(d)]) << to_string(d);
    taken[number_of(d)] = true;
  };
  for (int type = 0; type < kMaxDeviceTypes; ++type) take(static_cast<DeviceType>(type));
  for (int index = 1; index < kMaxCudaDevices; ++index) take({DeviceType::kCUDA, index});
  EXPECT_EQ(Device(DeviceType::kCUDA, 1), DeviceType::kCUDA);
  EXPECT_NE(Device(DeviceType::kCUDA, 1), Device(DeviceType::kCUDA));
}

TEST_F(CudaDevices, TheCurrentOneIsOfAThread) {
  cuda::set_current_device(1);
  EXPECT_EQ(parse_device("cuda"), Device(DeviceType::kCUDA, 1));
  EXPECT_EQ(std::async(std::launch::async, [] { return parse_device("cuda"); }).get(), DeviceType::kCUDA);
  EXPECT_EQ(std::async(std::launch::async, [] { return cuda::current_device(); }).get(), 0);
  EXPECT_THROW(cuda::set_current_device(cuda::device_count()), RuntimeError);
  EXPECT_EQ(cuda::current_device(), 1);
  cuda::set_current_device(0);
}

TEST_F(CudaDevices, OneThatIsNotThereIsNamed) {
  const int count = cuda::device_count();
  const auto told = [&](auto&& use) {
    try {
      use();
    } catch (const RuntimeError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const std::string expected = "CUDA error: invalid device ordinal: there is no cuda:" + std::to_string(count) +
                               ", there are " + std::to_string(count) + " devices";
  EXPECT_EQ(told([&] { allocate(8, {DeviceType::kCUDA, count}); }), expected);
  EXPECT_EQ(told([&] { cuda::Queue::of(count); }), expected);
  EXPECT_EQ(told([&] { cuda::device_info(count); }), expected);
  EXPECT_EQ(told([&] { cuda::make_current(count); }), expected);
}

TEST_F(CudaDevices, CopiesGoRoundInTheOrderOfAllQueues) {
  constexpr size_t kNumbers = 1 << 16;
  constexpr size_t kBytes = kNumbers * sizeof(int);
  const int count = cuda::device_count();
  std::vector<int> sent(kNumbers), got(kNumbers);
  for (int turn = 0; turn < 10; ++turn) {
    for (size_t i = 0; i < kNumbers; ++i) sent[i] = static_cast<int>(i) * (turn + 1);
    BufferRef at = cuda::allocate(kBytes, 0);
    cuda::copy_from_host(at->data(), sent.data(), kBytes, 0);
    for (int hop = 0; hop < 2 * count; ++hop) {
      const int from = hop % count, to = (hop + 1) % count;
      BufferRef there = cuda::allocate(kBytes, to);
      cuda::copy_to_peer(there->data(), to, at->data(), from, kBytes);
      // Freed memory is written at once, after the copy.
      void* const freed = at->data();
      at = std::move(there);
      BufferRef again = cuda::allocate(kBytes, from);
      if (from != to && again->data() == freed) cuda::fill(cuda::Queue::of(from).stream(), freed, 0xff, kBytes);
    }
    std::memset(got.data(), 0, kBytes);
    cuda::copy_to_host(got.data(), at->data(), kBytes, 0);
    ASSERT_EQ(got, sent) << turn;
  }
}

TEST_F(CudaDevices, PoolsAndQueuesAreTheirOwn) {
  const auto held = [](int device) { return cuda::pool_statistics(device).all.allocated.current; };
  const int64_t first = held(0), second = held(1);
  const BufferRef memory = cuda::allocate(1 << 20, 1);
  EXPECT_EQ(memory->device(), Device(DeviceType::kCUDA, 1));
  EXPECT_EQ(held(0), first);
  EXPECT_EQ(held(1), second + (1 << 20));
  EXPECT_NE(&cuda::Queue::of(0), &cuda::Queue::of(1));
  EXPECT_EQ(cuda::Queue::of(1).stream().device(), 1);
}

// The tests of everything else rely on this.
TEST_F(CudaDevices, TheEmulatedDriverRefusesMemoryAndStreamsOfOthers) {
  if (!emulated()) GTEST_SKIP() << "asks the emulated driver";
  const BufferRef here = cuda::allocate(64, 0), there = cuda::allocate(64, 1);
  cuda::Stream& stream = cuda::Queue::of(0).stream();
  EXPECT_THROW(cuda::copy_on_device(stream, here->data(), there->data(), 64), RuntimeError);
  EXPECT_THROW(cuda::copy_on_device(stream, there->data(), here->data(), 64), RuntimeError);
  EXPECT_THROW(cuda::fill(stream, there->data(), 0, 64), RuntimeError);
  EXPECT_NO_THROW(cuda::fill(stream, here->data(), 0, 64));
  cuda::Event event(1);
  EXPECT_THROW(event.record(stream), RuntimeError);
}

}  // namespace
}  // namespace smolder
