// How fast generated kernels are on a device, next to a copy on it: a program of its own, with arguments below.
//
//   smolder_time_cuda [--only=NAME] [--compile[=ARCH]]
//     --only     calls whose name holds this
//     --compile  what the compiler takes for each kernel, and its text; needs no device
//
// Each call is compiled as in a step. Its kernels are timed one by one, over sets of buffers that together are beyond
// the second-level cache; the bytes are what each reads and writes once. Needs NVRTC: docs/dependencies.md.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "jit/kernel_samples.h"
#include "jit/kernel_test_util.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/ir/graph.h"
#include "smolder/jit/cuda/backend.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/launch.h"

namespace smolder::jit::test {
namespace {

using smolder::cuda::DeviceMemory;
using smolder::cuda::Stream;

struct Call {
  std::string name;
  std::vector<KernelSample> kernels;
};

/// `text` with $T, $R and $C for dtype, rows and columns; $2 and $3 are twice and three times as many columns.
std::string filled(std::string text, const std::string& dtype, int64_t rows, int64_t columns) {
  const std::pair<std::string, std::string> parts[] = {{"$T", dtype},
                                                       {"$R", std::to_string(rows)},
                                                       {"$C", std::to_string(columns)},
                                                       {"$2", std::to_string(2 * columns)},
                                                       {"$3", std::to_string(3 * columns)}};
  for (const auto& [what, with] : parts) {
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;) text.replace(at, what.size(), with);
  }
  return text;
}

constexpr const char* kRowsAndColumns =
    "symbols s0=$R, s1=$C\n%0 = leaf(number=0, offset=0, strides=[s1, 1]) : $T[s0, s1]\n";
struct Source {
  const char *name, *body;
};
constexpr Source kSources[] = {
    {"softmax", "%1 = softmax(%0, dim=1, dtype=none) : $T[s0, s1]\nreturn %1\n"},
    {"row_sums", "%1 = sum(%0, dim=[1], keepdim=false, dtype=none) : $T[s0]\nreturn %1\n"},
    {"column_sums", "%1 = sum(%0, dim=[0], keepdim=false, dtype=none) : $T[s1]\nreturn %1\n"},
    {"transpose", "%1 = permute(%0, dims=[1, 0]) : $T[s1, s0]\nreturn %1\n"},
    {"layer_norm",
     "%1 = leaf(number=1, offset=0, strides=[1]) : $T[s1]\n%2 = leaf(number=2, offset=0, strides=[1]) : $T[s1]\n"
     "%3 = parameter(number=0, category=float) : weak float64[]\n"
     "%4, %5, %6 = layer_norm(%0, %1, %2, %3, normalized_shape=[s1]) : $T[s0, s1], float32[s0, 1], float32[s0, 1]\n"
     "return %4, %5, %6\n"},
    {"layer_norm_backward",
     "%1 = leaf(number=1, offset=0, strides=[s1, 1]) : $T[s0, s1]\n%2 = leaf(number=2, offset=0, strides=[1, 1]) : "
     "float32[s0, 1]\n%3 = leaf(number=3, offset=0, strides=[1, 1]) : float32[s0, 1]\n"
     "%4 = leaf(number=4, offset=0, strides=[1]) : $T[s1]\n"
     "%5, %6, %7 = layer_norm_backward(%0, %1, %2, %3, %4, normalized_shape=[s1]) : $T[s0, s1], $T[s1], $T[s1]\n"
     "return %5, %6, %7\n"},
    {"residual_norm",
     "%1 = leaf(number=1, offset=0, strides=[s1, 1]) : float32[s0, s1]\n%2 = leaf(number=2, offset=0, strides=[1]) : "
     "float32[s1]\n%3 = leaf(number=3, offset=0, strides=[1]) : float32[s1]\n"
     "%4 = leaf(number=4, offset=0, strides=[1]) : float32[s1]\n"
     "%5 = parameter(number=0, category=float) : weak float64[]\n%6 = add(%1, %2) : float32[s0, s1]\n"
     "%7 = cast(%6, dtype=$T) : $T[s0, s1]\n%8 = cast(%7, dtype=float32) : float32[s0, s1]\n"
     "%9 = cast(%0, dtype=float32) : float32[s0, s1]\n%10 = add(%9, %8) : float32[s0, s1]\n"
     "%11, %12, %13 = layer_norm(%10, %3, %4, %5, normalized_shape=[s1]) : float32[s0, s1], float32[s0, 1], "
     "float32[s0, 1]\n%14 = cast(%11, dtype=$T) : $T[s0, s1]\nreturn %10, %12, %13, %14\n"},
    {"residual_norm_backward",
     "%1 = leaf(number=1, offset=0, strides=[s1, 1]) : float32[s0, s1]\n"
     "%2 = leaf(number=2, offset=0, strides=[1, 1]) : float32[s0, 1]\n"
     "%3 = leaf(number=3, offset=0, strides=[1, 1]) : float32[s0, 1]\n"
     "%4 = leaf(number=4, offset=0, strides=[1]) : float32[s1]\n"
     "%5 = leaf(number=5, offset=0, strides=[s1, 1]) : float32[s0, s1]\n"
     "%6 = cast(%0, dtype=float32) : float32[s0, s1]\n"
     "%7, %8, %9 = layer_norm_backward(%6, %1, %2, %3, %4, normalized_shape=[s1]) : float32[s0, s1], float32[s1], "
     "float32[s1]\n%10 = add(%5, %7) : float32[s0, s1]\n%11 = cast(%10, dtype=$T) : $T[s0, s1]\n"
     "%12 = sum(%11, dim=[0], keepdim=false, dtype=none) : $T[s1]\nreturn %8, %9, %10, %11, %12\n"},
    {"split_backward",
     "%1 = leaf(number=1, offset=0, strides=[s1, 1]) : $T[s0, s1]\n%2 = leaf(number=2, offset=0, strides=[s1, 1]) : "
     "$T[s0, s1]\n%3 = slice_backward(%0, length=$3, dim=1, start=0, end=$C, step=1) : $T[s0, $3]\n"
     "%4 = slice_backward(%1, length=$3, dim=1, start=$C, end=$2, step=1) : $T[s0, $3]\n"
     "%5 = slice_backward(%2, length=$3, dim=1, start=$2, end=$3, step=1) : $T[s0, $3]\n"
     "%6 = add(%5, %4) : $T[s0, $3]\n%7 = add(%6, %3) : $T[s0, $3]\n"
     "%8 = sum(%7, dim=[0], keepdim=false, dtype=none) : $T[$3]\nreturn %7, %8\n"},
    {"gelu_backward",
     "%1 = leaf(number=1, offset=0, strides=[s1, 1]) : $T[s0, s1]\n"
     "%2 = gelu_backward(%0, %1, approximate=tanh) : $T[s0, s1]\n"
     "%3 = sum(%2, dim=[0], keepdim=false, dtype=none) : $T[s1]\nreturn %2, %3\n"},
    {"linear_bias", "%1 = leaf(number=1, offset=0, strides=[1]) : $T[s1]\n%2 = add(%0, %1) : $T[s0, s1]\nreturn %2\n"},
    {"cross_entropy",
     "%1 = leaf(number=1, offset=0, strides=[1]) : int64[s0]\n"
     "%2, %3, %4 = cross_entropy(%0, %1, _, ignore_index=-100, reduction=mean, label_smoothing=0.0) : $T[], "
     "float32[s0], float32[]\nreturn %2, %3, %4\n"},
    {"cross_entropy_backward",
     "%1 = leaf(number=1, offset=0, strides=[1]) : int64[s0]\n%2 = leaf(number=2, offset=0, strides=[1]) : "
     "float32[s0]\n%3 = leaf(number=3, offset=0, strides=[]) : float32[]\n"
     "%4 = leaf(number=4, offset=0, strides=[]) : $T[]\n"
     "%5 = cross_entropy_backward(%4, %0, %1, _, %2, %3, ignore_index=-100, reduction=mean, label_smoothing=0.0) : "
     "$T[s0, s1]\nreturn %5\n"},
    {"adamw",
     "%1 = leaf(number=1, offset=0, strides=[s1, 1]) : $T[s0, s1]\n%2 = leaf(number=2, offset=0, strides=[s1, 1]) : "
     "$T[s0, s1]\n%3 = leaf(number=3, offset=0, strides=[s1, 1]) : $T[s0, s1]\n"
     "%4 = parameter(number=0, category=float) : weak float64[]\n"
     "%5 = parameter(number=1, category=float) : weak float64[]\n"
     "%6 = parameter(number=2, category=float) : weak float64[]\n"
     "%7 = parameter(number=3, category=float) : weak float64[]\n"
     "%8 = parameter(number=4, category=float) : weak float64[]\n"
     "%9 = parameter(number=5, category=float) : weak float64[]\n"
     "%10, %11, %12, %13 = adamw_step(%0, %1, %2, %3, _, %4, %5, %6, %7, %8, %9, maximize=false) : $T[s0, s1], "
     "$T[s0, s1], $T[s0, s1], $T[s0, s1]\nreturn %10, %11, %12\n"},
};

std::string name_of(const std::string& name, const std::string& dtype, int64_t rows, int64_t columns) {
  return name + " " + dtype + " " + std::to_string(rows) + "x" + std::to_string(columns);
}

Call make(const std::string& name, const std::string& dtype, int64_t rows, int64_t columns) {
  const auto* source = std::ranges::find(kSources, name, &Source::name);
  const std::string text = filled(std::string(kRowsAndColumns) + source->body, dtype, rows, columns);
  const std::vector<int64_t> symbols{rows, columns};
  const std::vector<uint64_t> parameters(8, std::bit_cast<uint64_t>(0.5));
  return {name_of(name, dtype, rows, columns), kernels_of(ir::parse(text), symbols, parameters, DeviceType::kCUDA)};
}

std::vector<Call> calls(const std::string& only) {
  struct Size {
    const char *name, *dtype;
    int64_t rows, columns;
  };
  std::vector<Size> sizes;
  for (const char* dtype : {"bfloat16", "float32"}) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{65536, 1024}, {16384, 8192}, {2048, 50304}}) {
      for (const char* name : {"softmax", "layer_norm", "row_sums", "column_sums"}) {
        sizes.push_back({name, dtype, rows, columns});
      }
      if (columns < 10000) sizes.push_back({"layer_norm_backward", dtype, rows, columns});
    }
    sizes.push_back({"softmax", dtype, 262144, 128});
    sizes.push_back({"layer_norm", dtype, 16384, 768});
    sizes.push_back({"layer_norm_backward", dtype, 16384, 768});
    sizes.push_back({"transpose", dtype, 8192, 8192});
  }
  // As in training steps of GPT-2, of a block of 512, and of small models.
  for (const char* name : {"residual_norm", "residual_norm_backward", "split_backward"}) {
    sizes.push_back({name, "bfloat16", 16384, 768});
    sizes.push_back({name, "float32", 2048, 512});
  }
  sizes.push_back({"gelu_backward", "bfloat16", 16384, 3072});
  sizes.push_back({"gelu_backward", "float32", 2048, 2048});
  sizes.push_back({"linear_bias", "bfloat16", 16384, 2304});
  sizes.push_back({"layer_norm_backward", "float32", 2048, 512});
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{32, 256}, {128, 768}, {512, 3072}, {16384, 768}}) {
    sizes.push_back({"column_sums", "float32", rows, columns});
  }
  sizes.push_back({"cross_entropy", "bfloat16", 16384, 50304});
  sizes.push_back({"cross_entropy_backward", "bfloat16", 16384, 50304});
  sizes.push_back({"adamw", "float32", 30276, 4096});
  std::vector<Call> all;
  for (const Size& s : sizes) {
    if (name_of(s.name, s.dtype, s.rows, s.columns).find(only) == std::string::npos) continue;
    all.push_back(make(s.name, s.dtype, s.rows, s.columns));
  }
  return all;
}

/// Bytes of what a launch reads or writes; rows that its threads have for themselves are none.
double bytes_of(const KernelSample& s, size_t buffer) {
  if (s.scratch[buffer]) return 0;
  return static_cast<double>(s.sizes[buffer]) * static_cast<double>(itemsize(s.kernel.buffers[buffer].dtype));
}

void compile_all(const std::vector<Call>& all, const std::string& arch) {
  for (const Call& call : all) {
    for (const KernelSample& s : call.kernels) {
      const Kernel* kernels[] = {&s.kernel};
      const auto start = std::chrono::steady_clock::now();
      cuda::compile(kernels, arch);
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      std::printf("// %s: %s in %.0f ms\n%s\n", call.name.c_str(), s.kernel.name.c_str(), ms,
                  cuda::program_text(kernels).text.c_str());
    }
  }
}

/// Random numbers in all of the memory: a block of them, again and again. Integers are 0.
void fill(Stream& stream, const DeviceMemory& memory, DType dtype) {
  smolder::cuda::fill(stream, memory.data(), 0, memory.bytes());
  if (category(dtype) != Category::kFloat) return;
  std::mt19937_64 random(3);
  Array block(dtype, int64_t{1} << 20);
  block.fill(random);
  const auto at = [&](size_t byte) { return static_cast<char*>(memory.data()) + byte; };
  size_t filled = std::min(block.bytes(), memory.bytes());
  smolder::cuda::copy_to_device(stream, at(0), block.data(), filled);
  for (; filled < memory.bytes(); filled *= 2) {
    smolder::cuda::copy_on_device(stream, at(filled), at(0), std::min(filled, memory.bytes() - filled));
  }
  stream.synchronize();
}

/// The median of several times, in microseconds, of a batch of launches each.
double median(Stream& stream, int batch, const std::function<void(int)>& run) {
  std::vector<double> times;
  for (int i = 0; i < 10; ++i) {
    smolder::cuda::Event begin(0, true), end(0, true);
    begin.record(stream);
    for (int j = 0; j < batch; ++j) run(j);
    end.record(stream);
    end.synchronize();
    times.push_back(end.milliseconds_since(begin) * 1000 / batch);
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

void time_kernel(const std::string& name, const KernelSample& s, double copy_speed) {
  constexpr double kBeyondCache = 400e6;
  Stream stream(0);
  const Kernel* kernels[] = {&s.kernel};
  const CompiledKernel code = cuda::cuda_backend(0).load(cuda::cuda_backend(0).compile(kernels)[0].bytes);
  double bytes = 0;
  for (size_t i = 0; i < s.sizes.size(); ++i) bytes += bytes_of(s, i);
  const int sets = static_cast<int>(std::clamp(kBeyondCache / bytes + 1, 1.0, 16.0));
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<std::vector<void*>> buffers(static_cast<size_t>(sets));
  for (auto& set : buffers) {
    for (size_t i = 0; i < s.sizes.size(); ++i) {
      set.push_back(nullptr);
      if (s.scratch[i]) continue;
      memory.push_back(std::make_unique<DeviceMemory>(0, static_cast<size_t>(std::max(bytes_of(s, i), 16.0))));
      fill(stream, *memory.back(), s.kernel.buffers[i].dtype);
      set.back() = memory.back()->data();
    }
  }
  const DeviceMemory scalars(0, 1024), errors(0, 1024);
  std::vector<uint64_t> words = s.scalars;
  words.resize(words.size() + code.device->num_computed());
  code.device->compute_scalars(words.data());
  smolder::cuda::copy_to_device(stream, scalars.data(), words.data(), words.size() * sizeof(uint64_t));
  const double us = median(stream, std::max(sets, 2), [&](int i) {
    code.device->launch(
        stream, {buffers[static_cast<size_t>(i % sets)].data(), s.ints.data(), static_cast<uint64_t*>(scalars.data()),
                 static_cast<uint32_t*>(errors.data()), s.positions});
  });
  const auto plan = cuda::plan_launch(cuda::Schedule(s.kernel), s.ints, s.positions, smolder::cuda::device_info(0));
  std::printf("%-36s %-30s %7u x %3ux%-3u %6u B %9.1f us %6.3f TB/s %5.2f\n", name.c_str(), s.kernel.name.c_str(),
              plan.shape.grid[0], plan.shape.block[0], plan.shape.block[1], plan.shape.shared_bytes, us,
              bytes / us / 1e6, bytes / us / 1e6 / copy_speed);
  std::fflush(stdout);
}

double copy_speed() {
  Stream stream(0);
  constexpr size_t kBytes = size_t{1} << 30;
  const DeviceMemory from(0, kBytes), to(0, kBytes);
  fill(stream, from, DType::kFloat32);
  const double us =
      median(stream, 2, [&](int) { smolder::cuda::copy_on_device(stream, to.data(), from.data(), kBytes); });
  return 2 * static_cast<double>(kBytes) / us / 1e6;
}

int run(int argc, char** argv) {
  std::string only, arch;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a.starts_with("--only=")) only = a.substr(7);
    if (a == "--compile") arch = "sm_90";
    if (a.starts_with("--compile=")) arch = a.substr(10);
  }
  if (!arch.empty()) {
    compile_all(calls(only), arch);
    return 0;
  }
  if (!smolder::cuda::is_available() || !smolder::cuda::has_nvrtc()) {
    std::printf("SKIPPED: no device, or no NVRTC\n");
    return 0;
  }
  const double copy = copy_speed();
  std::printf("%s: a copy of 1 GiB on the device runs at %.3f TB/s\n", smolder::cuda::device_info(0).name.c_str(),
              copy);
  for (const Call& call : calls(only)) {
    for (const KernelSample& s : call.kernels) time_kernel(call.name, s, copy);
  }
  return 0;
}

}  // namespace
}  // namespace smolder::jit::test

int main(int argc, char** argv) {
  try {
    return smolder::jit::test::run(argc, argv);
  } catch (const std::exception& e) {
    std::printf("FAIL: %s\n", e.what());
    return 1;
  }
}
