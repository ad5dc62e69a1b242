// The texts that the generator for CUDA makes of many kernels, as a folder of texts: two versions of it are compared by
// comparing their folders (tools/kernel_texts).
//
//   smolder_kernel_texts FOLDER [--random=N] [--no-ops] [--arch=ARCH] [FILE...]
//     FOLDER     gets a file for each kernel, named after the hash of its loop IR
//     --random   takes N random kernels (300)
//     --no-ops   leaves out those of the recorded calls of ops
//     --arch     writes the hash of NVRTC's code for this architecture instead of the text. Needs NVRTC
//     FILE       holds kernels as loop IR, one after the other
//
// Besides those of the files there are random kernels, and those of the recorded calls of ops. Each is taken as it is,
// made for rows of some lengths, and as a batched launch. A file has the kernel, its text, and what launches of some
// sizes are told; what the schedule is called in between may change.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "jit/kernel_samples.h"
#include "jit/random_kernel.h"
#include "smolder/core/error.h"
#include "smolder/core/hash.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/launch.h"
#include "smolder/jit/cuda/row_size.h"
#include "smolder/jit/cuda/together.h"

namespace smolder::jit::test {
namespace {

struct Options {
  std::string folder, arch;
  int random = 300;
  bool ops = true;
  std::vector<std::string> files;
};

smolder::cuda::DeviceInfo device() {
  smolder::cuda::DeviceInfo info;
  info.multiprocessors = 132;
  info.shared_bytes = 227 << 10;
  return info;
}

/// Run-time integers of a kernel that nobody calls here.
std::vector<std::vector<int64_t>> some_ints(const Kernel& k) {
  std::vector<std::vector<int64_t>> all;
  for (const int64_t n : {1, 6, 64, 1000, 1024, 4096, 6144, 20000, 32768, 50304, 131072}) {
    all.emplace_back(static_cast<size_t>(k.num_ints), n);
  }
  return all;
}

std::string hash_of(std::string_view text) {
  const Hash128 h = hash_bytes(text.data(), text.size());
  char hex[33];
  std::snprintf(hex, sizeof hex, "%016llx%016llx", static_cast<unsigned long long>(h.hi),
                static_cast<unsigned long long>(h.lo));
  return hex;
}

void append_launches(std::ostringstream& out, const cuda::Schedule& schedule,
                     const std::vector<std::vector<int64_t>>& ints) {
  const Kernel& k = schedule.kernel;
  std::vector<void*> buffers;
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    const bool own = cuda::shared_row(k, static_cast<int>(b)) != nullptr;
    buffers.push_back(own ? nullptr : reinterpret_cast<void*>((b + 1) << 20));  // NOLINT(performance-no-int-to-ptr)
  }
  for (const auto& values : ints) {
    for (const int64_t positions : {0, 1, 33, 5000, 200000}) {
      out << "launch";
      for (const int64_t n : values) out << ' ' << n;
      out << ", positions " << positions << ": ";
      try {
        cuda::Launch launch(schedule, {buffers.data(), values.data(), nullptr, nullptr, positions}, device());
        const smolder::cuda::LaunchShape& shape = launch.plan().shape;
        for (const unsigned n : shape.grid) out << n << ' ';
        for (const unsigned n : shape.block) out << n << ' ';
        out << shape.shared_bytes << ", " << launch.scratch_bytes() << ',';
        launch.place_scratch(int64_t{1} << 40);
        for (const int64_t w : launch.words()) out << ' ' << w;
      } catch (const Error& e) {
        out << e.what();
      }
      out << '\n';
    }
  }
}

class Writer {
 public:
  explicit Writer(const Options& o) : options_(o) { std::filesystem::create_directories(o.folder); }

  /// A kernel, made for rows of its own lengths too.
  void add(const Kernel& kernel, std::vector<std::vector<int64_t>> ints = {}) {
    if (ints.empty()) ints = some_ints(kernel);
    add_batched(kernel, ints);
    for (const auto& values : ints) {
      Kernel rows = kernel;
      rows.row = cuda::row_size(kernel, values);
      add_batched(rows, ints);
    }
  }
  size_t count() const { return known_.size(); }

 private:
  void add_batched(Kernel kernel, const std::vector<std::vector<int64_t>>& ints) {
    write(kernel, ints);
    kernel.together = true;
    if (cuda::may_run_together(kernel)) write(kernel, ints);
  }
  void write(const Kernel& kernel, const std::vector<std::vector<int64_t>>& ints) {
    const std::string loops = print(kernel), name = hash_of(loops);
    if (!known_.emplace(name, true).second) return;
    std::ostringstream out;
    const Kernel* kernels[] = {&kernel};
    const cuda::ProgramText program = cuda::program_text(kernels);
    if (!options_.arch.empty()) {
      out << hash_of(cuda::compile_text(program.text, options_.arch)) << '\n';
    } else {
      out << loops << program.text.substr(prelude_bytes());
      append_launches(out, cuda::Schedule(kernel), ints);
    }
    std::ofstream(options_.folder + "/" + name) << out.str();
  }
  /// The begin of all programs.
  static size_t prelude_bytes() { return cuda::program_text({}).text.size(); }

  const Options& options_;
  std::map<std::string, bool> known_;
};

void add_file(Writer& writer, const std::string& name) {
  std::ifstream file(name);
  SMOLDER_CHECK(file.good(), ValueError, "cannot read ", name);
  std::string kernel;
  for (std::string line; std::getline(file, line);) {
    kernel += line + "\n";
    if (line != "}") continue;
    writer.add(parse_loop(kernel));
    kernel.clear();
  }
}

Options options_of(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--random=")) {
      o.random = std::atoi(argument.substr(9).data());
    } else if (argument == "--no-ops") {
      o.ops = false;
    } else if (argument.starts_with("--arch=")) {
      o.arch = argument.substr(7);
    } else if (o.folder.empty()) {
      o.folder = argument;
    } else {
      o.files.emplace_back(argument);
    }
  }
  return o;
}

int run(const Options& o) {
  Writer writer(o);
  for (const std::string& file : o.files) add_file(writer, file);
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(o.random); ++seed) {
    const RandomKernel random = random_kernel(seed);
    writer.add(random.kernel, {random.ints});
    writer.add(random.kernel);
  }
  if (o.ops) {
    for (const KernelSample& s : op_kernels()) writer.add(s.kernel, {s.ints});
  }
  std::printf("%zu kernels\n", writer.count());
  return 0;
}

}  // namespace
}  // namespace smolder::jit::test

int main(int argc, char** argv) {
  const auto options = smolder::jit::test::options_of(argc, argv);
  if (options.folder.empty()) {
    std::fputs("usage: smolder_kernel_texts FOLDER [--random=N] [--no-ops] [--arch=ARCH] [FILE...]\n", stderr);
    return 2;
  }
  try {
    return smolder::jit::test::run(options);
  } catch (const smolder::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
