// Compiles the device's interpreter for architectures, at build time: make_interpreter FOLDER sm_90 ...
// What is there already stays.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "smolder/core/cuda/nvrtc.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/interpreter.h"

int main(int argc, char** argv) {
  using namespace smolder;
  if (!cuda::has_nvrtc()) {
    std::printf("no interpreter for CUDA comes with this build: %s\n", cuda::nvrtc_missing().c_str());
    return 0;
  }
  const std::filesystem::path folder = argv[1];
  try {
    for (int i = 2; i < argc; ++i) {
      const std::string arch = argv[i], name = jit::cuda::interpreter_file(arch);
      if (std::filesystem::exists(folder / name)) continue;
      for (const auto& other : std::filesystem::directory_iterator(folder)) {
        if (other.path().filename().string().starts_with("smolder_interpreter_" + arch + "_")) remove(other.path());
      }
      const std::string code = jit::cuda::compile_text(jit::cuda::interpreter_text(), arch);
      std::ofstream(folder / (name + ".new"), std::ios::binary) << code;
      rename(folder / (name + ".new"), folder / name);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "make_interpreter: %s\n", e.what());
    return 1;
  }
}
