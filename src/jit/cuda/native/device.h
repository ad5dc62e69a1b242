// Kernels written by hand in CUDA C++, and what they run on: a device's queue, or what a test emulates one with.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/dtype.h"
#include "smolder/jit/library/library.h"

namespace smolder::jit::cuda {

/// The words of a kernel's one argument, a struct of addresses and 64-bit integers.
class Words {
 public:
  Words& add(const void* address) { return put(reinterpret_cast<uint64_t>(address)); }
  Words& add(std::integral auto x) { return put(static_cast<uint64_t>(x)); }
  /// Padded to the AxisWords that the struct holds.
  Words& add(const Dims& list) {
    const size_t at = words_.size();
    words_.resize(at + kMaxRank);
    std::copy(list.begin(), list.end(), words_.begin() + static_cast<ptrdiff_t>(at));
    return *this;
  }
  const std::vector<uint64_t>& all() const { return words_; }

 private:
  Words& put(uint64_t word) {
    words_.push_back(word);
    return *this;
  }
  std::vector<uint64_t> words_;
};
template <class... Parts>
Words words(const Parts&... parts) {
  Words all;
  (all.add(parts), ...);
  return all;
}

struct LaunchOptions {
  int shared_bytes = 0;  ///< that the kernel finds at `shared`
  bool waits = false;    ///< for the kernel before it, before it touches memory: it may start while that one ends
};

/// A kernel that is loaded. Grids and blocks have one dimension.
class NativeFunction {
 public:
  virtual ~NativeFunction() = default;
  /// Queues it; no blocks are no launch. Throws RuntimeError when there are more blocks than a launch can have.
  virtual void launch(int64_t blocks, int threads, const Words& arguments, const LaunchOptions& options = {}) const = 0;
};
using NativeRef = std::shared_ptr<const NativeFunction>;

/// All work is queued, in order. Thread-safe.
class NativeDevice {
 public:
  virtual ~NativeDevice() = default;
  static NativeDevice& of(int device);

  /// A function of a program that follows the prelude and `kNativePrelude` (device/native.cuh). Compiled at its first
  /// launch, unless it was before, and kept on disk.
  virtual NativeRef function(const std::string& program, const std::string& entry) = 0;
  /// Whether a program need not be compiled: it was asked for already, came with the library, or is kept on disk.
  virtual bool has(const std::string& /*program*/) { return true; }
  /// Each compiles, on any thread, a program of functions that were asked for since the last call, of all devices.
  static std::vector<std::function<void()>> take_unready();
  /// Adds what compiles another.
  static void add_unready(std::function<void()> compile);
  /// That a block may ask for at most.
  virtual int64_t shared_bytes() const = 0;
  /// Memory that may be let go as soon as what uses it is queued.
  virtual BufferRef allocate(int64_t bytes) = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  virtual void fill(void* to, unsigned char value, int64_t bytes) = 0;
};

/// The whole text of a program, as it is compiled.
std::string native_text(const std::string& program);
/// The text that a program begins with whose arguments end with GUARD, and whose functions begin with LOOK and have
/// UNLESS_FAILED before what they store. Guarded, they store nothing where the word whose address is their last
/// argument is other than 0, which is on its way while they load.
std::string guard_text(bool guarded);
/// "typedef f32 NAME;\n": the type that a program calls an element of `dtype`.
std::string typedef_of(const char* name, DType dtype);

inline int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

}  // namespace smolder::jit::cuda
