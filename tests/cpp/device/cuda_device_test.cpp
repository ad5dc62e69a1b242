// Kernels on a device against the interpreter of loop IR, bit for bit (any nan for a nan), with the host's formulas for
// what the device has instructions for; then those against the truth. A program of its own, with arguments below.
// Without a device it says so and is content.
//
//   smolder_test_cuda [--seeds=N] [--only=PART] [--source]
//     --seeds   random kernels (default 300)
//     --only    groups whose name holds this: golden, primitives, ops, random, large, math
//     --source  prints the CUDA C++ of each kernel that differs
//
// Run it in the top folder of the checkout (it reads tests/golden), with NVRTC where it is found:
// docs/dependencies.md.
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "jit/error_slots.h"
#include "jit/kernel_samples.h"
#include "jit/kernel_test_util.h"
#include "jit/random_kernel.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/core/error.h"
#include "smolder/core/thread_pool.h"
#include "smolder/ir/scalar/primitive.h"
#include "smolder/jit/cuda/backend.h"
#include "smolder/jit/cuda/row_size.h"
#include "smolder/jit/cuda/schedule.h"
#include "smolder/jit/loop/loop_interpret.h"

namespace smolder::jit::test {
namespace {

using smolder::cuda::DeviceMemory;
using smolder::cuda::Stream;

/// A kernel with arguments, and how its data is made.
struct Case {
  std::string name;
  KernelSample sample;
  bool special = false;              ///< values that arithmetic gets wrong
  std::vector<int64_t> index_limit;  ///< by buffer, or empty: elements below this
  int64_t misaligned = 0;            ///< elements by which each buffer is off
};

int failures = 0, runs = 0;
bool show_source = false;

/// Memory of the device with guards around it, which nothing may write.
class Guarded {
 public:
  Guarded(Stream& stream, const Array& data, int64_t misaligned)
      : stream_(stream),
        offset_(kGuard + static_cast<size_t>(misaligned) * itemsize(data.dtype())),
        bytes_(data.bytes()),
        memory_(stream.device(), offset_ + bytes_ + kGuard) {
    smolder::cuda::fill(stream, memory_.data(), kPattern, memory_.bytes());
    smolder::cuda::copy_to_device(stream, this->data(), data.data(), bytes_);
  }
  void* data() const { return static_cast<char*>(memory_.data()) + offset_; }
  /// Copies back; false where a guard was written.
  bool read(Array& into) const {
    std::vector<unsigned char> all(memory_.bytes());
    smolder::cuda::copy_to_host(stream_, all.data(), memory_.data(), all.size());
    stream_.synchronize();
    std::memcpy(into.data(), all.data() + offset_, bytes_);
    const auto intact = [](unsigned char c) { return c == kPattern; };
    const auto at = all.begin() + static_cast<ptrdiff_t>(offset_);
    return std::all_of(all.begin(), at, intact) && std::all_of(at + static_cast<ptrdiff_t>(bytes_), all.end(), intact);
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr unsigned char kPattern = 0xa5;
  Stream& stream_;
  size_t offset_, bytes_;
  DeviceMemory memory_;
};

void report(const Case& c, const std::string& what) {
  constexpr int kMostReports = 25;
  if (++failures > kMostReports) return;
  std::printf("FAIL %s%s: %s\n  positions %lld, ints", c.name.c_str(), c.misaligned ? " (misaligned)" : "",
              what.c_str(), static_cast<long long>(c.sample.positions));
  for (const int64_t n : c.sample.ints) std::printf(" %lld", static_cast<long long>(n));
  std::printf("\n%s", print(c.sample.kernel).c_str());
  if (show_source) {
    const Kernel* kernels[] = {&c.sample.kernel};
    std::printf("%s\n", cuda::cuda_backend(0).compile(kernels)[0].source.c_str());
  }
  std::fflush(stdout);
}

std::vector<Array> data_of(const Case& c, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Array> arrays;
  for (size_t i = 0; i < c.sample.sizes.size(); ++i) {
    Array a(c.sample.kernel.buffers[i].dtype, std::max<int64_t>(c.sample.sizes[i], 1));
    const int64_t limit = c.index_limit.empty() ? -1 : c.index_limit[i];
    if (limit >= 0) {
      for (int64_t k = 0; k < a.size(); ++k) {
        a.set_bits(k, static_cast<uint64_t>(static_cast<int64_t>(random() % static_cast<uint64_t>(limit + 3)) - 1));
      }
    } else if (c.special) {
      a.fill_special(random);
    } else {
      a.fill(random);
    }
    arrays.push_back(std::move(a));
  }
  return arrays;
}

/// Both, and every difference between them.
void compare(Stream& stream, const CompiledKernel& code, const Case& c) {
  ++runs;
  const KernelSample& s = c.sample;
  const Kernel& k = s.kernel;
  std::vector<Array> want = data_of(c, 7 + static_cast<uint64_t>(runs));
  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<void*> on_device, on_host;
  for (size_t i = 0; i < want.size(); ++i) {
    const bool scratch = i < s.scratch.size() && s.scratch[i];
    memory.push_back(std::make_unique<Guarded>(stream, want[i], c.misaligned));
    on_device.push_back(scratch ? nullptr : memory.back()->data());
  }
  std::vector<uint64_t> words = s.scalars;
  words.resize(words.size() + code.device->num_computed());
  code.device->compute_scalars(words.data());
  Array scalars(DType::kInt64, static_cast<int64_t>(words.size())),
      errors(DType::kInt64, 4 * std::max(k.num_errors, 1));
  for (size_t i = 0; i < words.size(); ++i) scalars.set_bits(static_cast<int64_t>(i), words[i]);
  std::fill_n(static_cast<char*>(errors.data()), errors.bytes(), 0);
  const Guarded device_scalars(stream, scalars, 0), device_errors(stream, errors, 0);
  ErrorSlots slots(k.num_errors);
  slots.place(device_errors.data());
  smolder::cuda::copy_to_device(stream, device_errors.data(), slots.data(), errors.bytes());
  code.device->launch(stream, {on_device.data(), s.ints.data(), static_cast<const uint64_t*>(device_scalars.data()),
                               static_cast<uint32_t*>(device_errors.data()), s.positions});
  for (Array& a : want) on_host.push_back(a.data());
  std::vector<uint32_t> want_errors(static_cast<size_t>(k.num_errors));
  parallel_for(s.positions, std::max<int64_t>(1, s.positions / 64), [&](int64_t begin, int64_t end) {
    std::vector<std::vector<char>> rows;  // of scratch, a thread's own
    std::vector<void*> mine = on_host;
    for (size_t i = 0; i < mine.size(); ++i) {
      if (i >= s.scratch.size() || !s.scratch[i]) continue;
      rows.emplace_back(want[i].bytes());
      mine[i] = rows.back().data();
    }
    std::vector<uint32_t> own(want_errors.size());
    interpret(k, mine.data(), s.ints.data(), s.scalars.data(), own.data(), begin, end, &cuda::reduce_order());
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i]) std::atomic_ref<uint32_t>(want_errors[i]).store(1);
    }
  });
  for (size_t i = 0; i < want.size(); ++i) {
    if (!on_device[i]) continue;
    Array got(want[i].dtype(), want[i].size());
    if (!memory[i]->read(got)) report(c, "wrote around b" + std::to_string(i));
    int64_t different = 0, first = -1;
    for (int64_t e = 0; e < got.size(); ++e) {
      if (same(got.dtype(), got.bits(e), want[i].bits(e))) continue;
      if (different++ == 0) first = e;
    }
    if (different == 0) continue;
    char text[200];
    std::snprintf(text, sizeof text, "b%zu: %lld of %lld elements differ, first %lld: got %llx, want %llx", i,
                  static_cast<long long>(different), static_cast<long long>(got.size()), static_cast<long long>(first),
                  static_cast<unsigned long long>(got.bits(first)),
                  static_cast<unsigned long long>(want[i].bits(first)));
    return report(c, text);
  }
  device_errors.read(errors);
  std::memcpy(slots.data(), errors.data(), errors.bytes());
  const std::vector<uint32_t> found = slots.found();
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != want_errors[i]) return report(c, "error slot e" + std::to_string(i));
  }
}

/// Compiles all, eight to a program on all threads, then runs each aligned and not.
void run_all(const char* group, std::vector<Case> cases) {
  const auto start = std::chrono::steady_clock::now();
  const int failed = failures;
  Backend& backend = cuda::cuda_backend(0);
  std::vector<std::string> objects(cases.size());
  constexpr int64_t kBatch = 8;
  parallel_for(static_cast<int64_t>(cases.size()), kBatch, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kBatch) {
      const int64_t stop = std::min(end, i + kBatch);
      std::vector<const Kernel*> kernels;
      for (int64_t j = i; j < stop; ++j) kernels.push_back(&cases[static_cast<size_t>(j)].sample.kernel);
      std::vector<ObjectCode> made = backend.compile(kernels);
      for (int64_t j = i; j < stop; ++j)
        objects[static_cast<size_t>(j)] = std::move(made[static_cast<size_t>(j - i)].bytes);
    }
  });
  const double compiled = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Stream stream(0);
  for (size_t i = 0; i < cases.size(); ++i) {
    try {
      const CompiledKernel code = backend.load(objects[i]);
      for (const int64_t misaligned : {0, 1}) {
        cases[i].misaligned = misaligned;
        compare(stream, code, cases[i]);
      }
    } catch (const std::exception& e) {
      report(cases[i], e.what());
      // An illegal access leaves the context unusable: what follows would only repeat it.
      if (std::string(e.what()).find("ILLEGAL") != std::string::npos) std::exit(1);
    }
  }
  const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%-8s %zu kernels, %d failures, compiled in %.1f s (%.1f ms each), ran in %.1f s\n", group, cases.size(),
              failures - failed, compiled, compiled * 1000 / static_cast<double>(std::max<size_t>(1, cases.size())),
              all - compiled);
  std::fflush(stdout);
}

// -- what is run

Kernel golden(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream("tests/golden/loop/" + name + ".smir").rdbuf();
  return parse_loop(text.str());
}

Case make(const std::string& name, const Kernel& kernel, std::vector<int64_t> sizes, std::vector<int64_t> ints,
          std::vector<uint64_t> scalars, int64_t positions, bool special = false) {
  return {name, {kernel, std::move(sizes), {}, std::move(ints), std::move(scalars), positions}, special, {}, 0};
}

/// The last of the cases, for rows as long as its.
void add_as_expected(std::vector<Case>& cases) {
  Case c = cases.back();
  c.sample.kernel.row = cuda::row_size(c.sample.kernel, c.sample.ints);
  c.name += " as expected";
  cases.push_back(std::move(c));
}

uint64_t bits(double v) { return std::bit_cast<uint64_t>(v); }

void add_golden(std::vector<Case>& cases, int64_t rows, int64_t n) {
  const std::string size = " " + std::to_string(rows) + "x" + std::to_string(n);
  const int64_t all = rows * n;
  cases.push_back(make("gelu" + size, golden("gelu"), {all, all}, {all}, {}, all, true));
  cases.push_back(make("softmax" + size, golden("softmax"), {all, all}, {rows, n}, {}, rows));
  add_as_expected(cases);
  cases.push_back(make("softmax_kept" + size, golden("softmax_kept"), {all, n, all}, {rows, n}, {}, rows));
  cases.back().sample.scratch = {false, true, false};
  add_as_expected(cases);
  cases.push_back(make("layer_norm" + size, golden("layer_norm"), {all, n, n, all}, {rows, n},
                       {bits(1e-5), static_cast<uint64_t>(n)}, rows));
  add_as_expected(cases);
  cases.push_back(make("dropout" + size, golden("dropout"), {1, all, all, all}, {all}, {3, bits(2147483648.0)}, all));
  const int64_t row_chunks = (rows + 127) / 128, column_chunks = (n + 1023) / 1024;
  cases.push_back(make("column_sum" + size, golden("column_sum"), {row_chunks * n, all},
                       {row_chunks, column_chunks, n, rows, 128 * n}, {}, row_chunks * column_chunks));
  cases.push_back(make("layer_norm_backward" + size, golden("layer_norm_backward"),
                       {row_chunks * n, row_chunks * n, rows, rows, all, n, all, all}, {row_chunks, n, rows, 128 * n},
                       {}, row_chunks));
  Case embedding = make("embedding" + size, golden("embedding"), {rows, 37 * n, all}, {rows, 37, n}, {}, rows);
  embedding.index_limit = {37, -1, -1};
  cases.push_back(std::move(embedding));
}

std::vector<Case> golden_cases() {
  std::vector<Case> cases;
  for (const int64_t n : {1, 5, 32, 47, 1000, 1024, 1025, 3000, 8192, 8200}) add_golden(cases, n < 2000 ? 33 : 3, n);
  add_golden(cases, 300, 64);
  add_golden(cases, 0, 16);                                                 // empty
  for (const int64_t n : {24, 40, 80, 160, 256}) add_golden(cases, 70, n);  // rows that share a warp
  add_golden(cases, 2, 50304);
  add_golden(cases, 3, 60000);  // beyond shared memory
  cases.push_back(make("pad_and_cat", golden("pad_and_cat"), {18, 24, 200}, {5, 40, -8, 6, 3, 4}, {}, 5));
  return cases;
}

std::vector<Case> op_cases() {
  std::vector<Case> cases;
  for (size_t i = 0; i < op_kernels().size(); ++i) {
    cases.push_back(
        {"op " + std::to_string(i) + " " + op_kernels()[i].kernel.name, op_kernels()[i], i % 2 == 1, {}, 0});
  }
  return cases;
}

/// Whether all positions of a flat kernel store in one place: which is the last has an answer on the host alone, and
/// no plan asks.
bool stores_in_one_place(const Kernel& k) {
  return k.root.kind == StmtKind::kParallelVector && std::ranges::any_of(k.root.body, [](const Stmt& s) {
           return s.kind == StmtKind::kStore && s.address.map.terms.empty() && s.address.indirect.empty();
         });
}

std::vector<Case> random_cases(uint64_t seeds) {
  std::vector<Case> cases;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    RandomKernel r = random_kernel(seed);
    if (seed % 2 == 0) r.kernel.row = cuda::row_size(r.kernel, r.ints);
    if (stores_in_one_place(r.kernel)) continue;
    cases.push_back(
        {"random " + std::to_string(seed),
         {std::move(r.kernel), std::move(r.sizes), {}, std::move(r.ints), std::move(r.scalars), r.positions},
         true,
         std::move(r.index_limit),
         0});
  }
  return cases;
}

/// Every primitive on every dtype it takes, on special values: a flat kernel each.
std::vector<Case> primitive_cases() {
  constexpr int64_t kElements = 4099;
  std::vector<Case> cases;
  for (int p = 0; p < ir::scalar::kNumPrimitives; ++p) {
    const auto& info = ir::scalar::info(static_cast<ir::scalar::Primitive>(p));
    for (const DType t : kDTypes) {
      if (!info.takes(t)) continue;
      const bool where = static_cast<ir::scalar::Primitive>(p) == ir::scalar::Primitive::kWhere;
      std::string buffers, loads, args;
      for (int i = 0; i < info.arity; ++i) {
        const std::string n = std::to_string(i);
        buffers += "b" + n + ":" + std::string(name(where && i == 0 ? DType::kBool : t)) + " r, ";
        loads += "    %" + n + " = load b" + n + "[v0]\n";
        args += (i > 0 ? ", %" : "%") + n;
      }
      const std::string n = std::to_string(info.arity);
      const std::string text = "kernel {\n  buffers " + buffers + "b" + n + ":" +
                               std::string(name(info.result_dtype(t))) + " w\n  ints 1\n  parallel vector v0 < n0 {\n" +
                               loads + "    %" + n + " = " + std::string(info.name) + " " + std::string(name(t)) + " " +
                               args + "\n    store b" + n + "[v0], %" + n + "\n  }\n}\n";
      cases.push_back(make(std::string(info.name) + " " + std::string(name(t)), parse_loop(text),
                           std::vector<int64_t>(static_cast<size_t>(info.arity) + 1, kElements), {kElements}, {},
                           kElements, true));
    }
  }
  return cases;
}

std::vector<Case> large_cases() {
  std::vector<Case> cases;
  const int64_t flat = (1 << 20) + 3;
  cases.push_back(make("gelu large", golden("gelu"), {flat, flat}, {flat}, {}, flat, true));
  add_golden(cases, 1000, 257);
  return cases;
}

/// The largest error in units in the last place that a function has on every 1021st float.
double worst_error(const std::string& op, double (*truth)(double), Stream& stream) {
  const Kernel kernel = parse_loop(
      "kernel {\n  buffers b0:float32 r, b1:float32 w\n  ints 1\n  parallel vector v0 < n0 {\n    %0 = load b0[v0]\n   "
      " %1 = " +
      op + " float32 %0\n    store b1[v0], %1\n  }\n}\n");
  const Kernel* kernels[] = {&kernel};
  Backend& backend = cuda::cuda_backend(0);
  const CompiledKernel code = backend.load(backend.compile(kernels)[0].bytes);
  const int64_t n = (int64_t{1} << 32) / 1021;
  Array x(DType::kFloat32, n), y(DType::kFloat32, n);
  for (int64_t i = 0; i < n; ++i) x.set_bits(i, static_cast<uint64_t>(i) * 1021);
  const Guarded from(stream, x, 0), to(stream, y, 0);
  void* const buffers[] = {from.data(), to.data()};
  const int64_t ints[] = {n};
  code.device->launch(stream, {buffers, ints, nullptr, nullptr, n});
  to.read(y);
  double worst = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto got = std::bit_cast<float>(static_cast<uint32_t>(y.bits(i)));
    const double want = truth(std::bit_cast<float>(static_cast<uint32_t>(x.bits(i))));
    const auto nearest = static_cast<float>(want);
    if (got == nearest || (std::isnan(got) && std::isnan(want))) continue;
    if (!std::isfinite(got) || !std::isfinite(nearest)) return INFINITY;
    const int exponent = std::max(std::ilogb(want), -126);
    worst = std::max(worst, std::abs(got - want) / std::ldexp(1.0, exponent - 23));
  }
  return worst;
}

/// The bounds that docs/math.md promises.
void check_math() {
  struct Function {
    const char* op;
    double (*truth)(double);
    double units;
  };
  Stream stream(0);
  // 0 is what there is below the smallest normal number.
  const auto sigmoid = [](double x) {
    const double y = 1 / (1 + std::exp(-x));
    return y < 0x1p-126 ? 0.0 : y;
  };
  for (const Function& f :
       {Function{"exp", std::exp, 2}, {"tanh", std::tanh, 2}, {"erf", std::erf, 2}, {"sigmoid", sigmoid, 5}}) {
    const double worst = worst_error(f.op, f.truth, stream);
    std::printf("math     %s is off by %.3f units in the last place at most\n", f.op, worst);
    ++runs;
    if (!(worst <= f.units)) ++failures;
  }
}

int run(int argc, char** argv) {
  uint64_t seeds = 300;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a.starts_with("--seeds=")) seeds = std::stoull(a.substr(8));
    if (a.starts_with("--only=")) only = a.substr(7);
    if (a == "--source") show_source = true;
  }
  if (!smolder::cuda::is_available()) {
    std::printf("SKIPPED: %s\n", smolder::cuda::unavailable_reason().c_str());
    return 0;
  }
  if (!smolder::cuda::has_nvrtc()) {
    std::printf("SKIPPED: %s\n", smolder::cuda::nvrtc_missing().c_str());
    return 0;
  }
  const auto& device = smolder::cuda::device_info(0);
  std::printf("%s, sm_%d%d, %d multiprocessors, driver %d, NVRTC %s\n", device.name.c_str(), device.major, device.minor,
              device.multiprocessors, smolder::cuda::driver_version(), smolder::cuda::nvrtc_version().c_str());
  setenv("SMOLDER_HOST_MATH", "1", 1);
  const auto wanted = [&](const char* group) { return std::string(group).find(only) != std::string::npos; };
  if (wanted("golden")) run_all("golden", golden_cases());
  if (wanted("primitives")) run_all("primitives", primitive_cases());
  if (wanted("random")) run_all("random", random_cases(seeds));
  if (wanted("ops")) run_all("ops", op_cases());
  if (wanted("large")) run_all("large", large_cases());
  unsetenv("SMOLDER_HOST_MATH");
  if (wanted("math")) check_math();
  std::printf("%d runs, %d failures\n", runs, failures);
  return failures > 0 ? 1 : 0;
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
