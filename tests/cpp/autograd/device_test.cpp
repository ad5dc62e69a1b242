// A whole device that a user registers: its memory, which the host can't read, and its kernels.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>

#include "smolder/autograd/engine.h"
#include "smolder/autograd/library.h"
#include "smolder/core/counters.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/tape.h"

namespace smolder {
namespace {

using eager::KernelCall;
using eager::TensorView;
using ir::Op;

/// "Toy": every byte in its memory is the host's with all bits flipped, so what reads it as the host's is wrong.
class Toy {
 public:
  static Toy& get() {
    static Toy* const toy = new Toy;
    return *toy;
  }
  Device device() const { return eager::device_of(key_); }
  int64_t live() const { return live_; }
  size_t limit = size_t{1} << 40;
  std::map<Op, int> calls;

 private:
  Toy() {
    key_ = eager::add_device("toy",
                             {.allocate = [this](size_t bytes) { return allocate(bytes); },
                              .release = [this](void* data, size_t bytes) { release(data, bytes); },
                              .to_host = [](void* to, const void* from, size_t bytes) { flip(to, from, bytes); },
                              .from_host = [](void* to, const void* from, size_t bytes) { flip(to, from, bytes); }});
    for (const Op op :
         {Op::kAdd, Op::kSub, Op::kMul, Op::kExp, Op::kCast, Op::kReduce, Op::kBarrier, Op::kSliceWrite}) {
      eager::register_kernel(key_, op, [this](const KernelCall& call) { run(call); });
    }
  }

  static void flip(void* to, const void* from, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(~static_cast<const unsigned char*>(from)[i]);
    }
  }

  void* allocate(size_t bytes) {
    const std::lock_guard hold(lock_);
    if (bytes > limit) return nullptr;
    char* const data = new char[bytes + 1];
    blocks_[data] = bytes;
    live_ += static_cast<int64_t>(bytes);
    return data;
  }
  void release(void* data, size_t bytes) {
    const std::lock_guard hold(lock_);
    ASSERT_EQ(blocks_.erase(static_cast<char*>(data)), 1u);
    live_ -= static_cast<int64_t>(bytes);
    delete[] static_cast<char*>(data);
  }

  /// A kernel of the device: the CPU's on memory flipped for it.
  void run(const KernelCall& call) {
    ++calls[call.op];
    std::vector<std::vector<char>> host;
    std::vector<TensorView> in(call.inputs.begin(), call.inputs.end()), out(call.outputs.begin(), call.outputs.end());
    for (TensorView& v : in) {
      if (v.data && !v.weak) v.data = fetched(v.data, host);
    }
    for (TensorView& v : out) v.data = fetched(v.data, host);
    (*eager::find_kernel(eager::DispatchKey::kCPU, call.op))({call.op, in, out, call.attrs, call.errors});
    for (size_t i = 0; i < out.size(); ++i) {
      flip(call.outputs[i].data, out[i].data, numel(out[i].shape) * itemsize(out[i].dtype));
    }
  }
  void* fetched(void* data, std::vector<std::vector<char>>& host) {
    const std::lock_guard hold(lock_);
    auto block = blocks_.upper_bound(static_cast<char*>(data));
    --block;
    host.emplace_back(block->second + 1);
    flip(host.back().data(), block->first, block->second);
    return host.back().data() + (static_cast<char*>(data) - block->first);
  }

  eager::DispatchKey key_;
  std::mutex lock_;
  std::map<char*, size_t> blocks_;
  int64_t live_ = 0;
};

Tensor matrix() {
  const float values[] = {1, 2, 3, 4, 5, 6};
  return Tensor::from_data(values, {2, 3}, DType::kFloat32);
}

TEST(UserDevice, HasAName) {
  Toy& toy = Toy::get();
  EXPECT_EQ(to_string(toy.device()), "toy:0");
  EXPECT_EQ(parse_device("toy"), toy.device());
  EXPECT_EQ(parse_device("toy:0"), toy.device());
  EXPECT_THROW(parse_device("toys"), RuntimeError);
  EXPECT_THROW(eager::add_device("toy", {}), ValueError);
  EXPECT_THROW(eager::add_device("cuda", {}), ValueError);
  EXPECT_THROW(eager::add_device("Toy 2", {}), ValueError);
  EXPECT_THROW(register_device_type("half", {}), ValueError);
}

TEST(UserDevice, HoldsTensorsAndMovesThem) {
  Toy& toy = Toy::get();
  const int64_t before = toy.live();
  {
    const Tensor x = matrix();
    const Tensor there = x.to(toy.device());
    EXPECT_EQ(there.device(), toy.device());
    EXPECT_EQ(toy.live(), before + 24);
    EXPECT_EQ(there.to_vector<float>(), x.to_vector<float>());
    EXPECT_EQ(there.to(Device{}).to_vector<float>(), x.to_vector<float>());
    EXPECT_EQ(there.to(Device{}).device(), Device{});
    EXPECT_EQ(there.to(toy.device()).impl(), there.impl());
    EXPECT_THROW(lazy::export_memory(there), TypeError);
    EXPECT_THROW(x.to(Device{DeviceType::kCUDA, kMaxCudaDevices}), RuntimeError);
  }
  mark_step();
  lazy::Tape::each([](lazy::Tape& tape) { tape.sync("test", 0); });
  const Tensor other = matrix().to(toy.device());  // the dead are looked for now and then
  EXPECT_LE(toy.live(), before + 48);
}

TEST(UserDevice, RunsOpsInStepsAndEagerly) {
  Toy& toy = Toy::get();
  const Tensor host = matrix(), x = host.to(toy.device());
  const auto program = [](const Tensor& t) { return sum(transpose(exp(t * 0.5) + t, 0, 1) * 2.0, {1}); };
  const std::vector<float> expected = program(host).to_vector<float>();
  toy.calls.clear();
  const Tensor y = program(x);
  EXPECT_EQ(y.device(), toy.device());
  EXPECT_TRUE(toy.calls.empty()) << "recorded";
  mark_step();
  EXPECT_EQ(toy.calls[Op::kExp], 1);
  EXPECT_EQ(y.to_vector<float>(), expected);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(program(x).to_vector<float>(), expected);
  const lazy::EagerMode eager;
  EXPECT_EQ(program(x).to_vector<float>(), expected);
}

TEST(UserDevice, MakesTensorsThere) {
  Toy& toy = Toy::get();
  const lazy::DeviceMode there(toy.device().type);
  const Tensor x = full({3}, Scalar(2.0), DType::kFloat32);
  EXPECT_EQ(x.device(), toy.device());
  EXPECT_EQ((x + 1.0).to_vector<float>(), (std::vector<float>{3, 3, 3}));
}

TEST(UserDevice, WritesInPlaceThroughViews) {
  const Tensor x = matrix().to(Toy::get().device());
  Tensor row = slice(x, 0, 1, 2);
  row.mul_(10.0);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 40, 50, 60}));
}

TEST(UserDevice, Differentiates) {
  Tensor host = matrix();
  host.requires_grad_();
  const Tensor there = host.to(Toy::get().device());
  const Tensor loss = sum(there * there * 3.0);
  EXPECT_EQ(loss.device(), Toy::get().device());
  loss.backward();
  EXPECT_EQ(host.grad().device(), Device{});
  EXPECT_EQ(host.grad().to_vector<float>(), (std::vector<float>{6, 12, 18, 24, 30, 36}));
}

TEST(UserDevice, SaysWhatItLacks) {
  Toy& toy = Toy::get();
  const Tensor x = matrix().to(toy.device());
  const Tensor before = x + 1.0, missing = sin(before);
  try {
    missing.to_vector<float>();
    FAIL();
  } catch (const NotImplementedError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("there is no toy kernel for sin(float32[2, 3])"), std::string::npos) << what;
  }
  EXPECT_EQ(before.to_vector<float>()[0], 2) << "what came before stays";
  try {
    x + matrix();
    FAIL();
  } catch (const RuntimeError& e) {
    const std::string what = e.what();
    EXPECT_NE(
        what.find("Expected all tensors to be on the same device, but found at least two devices, toy:0 and cpu!"),
        std::string::npos)
        << what;
  }
  toy.limit = 8;
  EXPECT_THROW(matrix().to(toy.device()), OutOfMemoryError);
  toy.limit = size_t{1} << 40;
}

TEST(UserDevice, RunsUserOpsWhereTheyHaveAKernelForIt) {
  Toy& toy = Toy::get();
  Library lib("test_toy");
  const OpHandle f = lib.def({.schema = "zeros(Tensor x) -> Tensor", .kernel = [](const KernelCall& call) {
                                std::memset(call.outputs[0].data, 0, numel(call.outputs[0].shape) * 4);
                              }});
  const Tensor x = matrix().to(toy.device());
  EXPECT_THROW(f(x).to_vector<float>(), NotImplementedError);
  lib.impl("zeros", "toy",
           [](const KernelCall& call) { std::memset(call.outputs[0].data, 0xff, numel(call.outputs[0].shape) * 4); });
  EXPECT_EQ(f(x).to_vector<float>(), std::vector<float>(6, 0));
  EXPECT_EQ(f(matrix()).to_vector<float>(), std::vector<float>(6, 0));
}

}  // namespace
}  // namespace smolder
