// Compiles the programs that the library brings along for architectures, at build time: make_programs FOLDER sm_90 ...
// A file whose programs are those of today stays.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "smolder/core/cuda/nvrtc.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/native/common_programs.h"
#include "smolder/jit/cuda/shipped_code.h"

namespace {

using namespace smolder::jit::cuda;

std::string read(const std::filesystem::path& path) {
  std::ostringstream all;
  all << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(all).str();
}

/// On all processors, longest text first.
std::vector<std::pair<std::string, std::string>> compile_all(std::vector<CommonProgram> programs) {
  std::ranges::stable_sort(programs, std::greater(), [](const CommonProgram& p) { return p.text.size(); });
  std::vector<std::pair<std::string, std::string>> code(programs.size());
  std::vector<std::exception_ptr> failures(programs.size());
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < programs.size(); i = next++) {
        const CommonProgram& p = programs[i];
        try {
          code[i] = {shipped_key(p.text, p.arch, p.contraction), compile_text(p.text, p.arch, p.contraction)};
        } catch (...) {
          failures[i] = std::current_exception();
        }
      }
    });
  }
  threads.clear();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return code;
}

void make(const std::filesystem::path& folder, const std::string& arch) {
  const std::vector<CommonProgram> programs = common_programs(arch);
  const std::filesystem::path path = folder / shipped_file(arch), fresh = path.string() + ".new";
  const std::string known = read(path);
  const bool is_made = std::ranges::all_of(programs, [&](const CommonProgram& p) {
    return known.find(shipped_key(p.text, p.arch, p.contraction)) != std::string::npos;
  });
  if (is_made) return;
  const std::string bytes = shipped_bytes(compile_all(programs));
  std::ofstream(fresh, std::ios::binary) << bytes;
  rename(fresh, path);
  std::printf("%zu programs for %s: %.1f MB\n", programs.size(), arch.c_str(), static_cast<double>(bytes.size()) / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  if (!smolder::cuda::has_nvrtc()) {
    std::printf("no programs for CUDA come with this build: %s\n", smolder::cuda::nvrtc_missing().c_str());
    return 0;
  }
  try {
    for (int i = 2; i < argc; ++i) make(argv[1], argv[i]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "make_programs: %s\n", e.what());
    return 1;
  }
}
