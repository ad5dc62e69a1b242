#include "cuda_host/host_program.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace cuda_host {
namespace {

/// Entries that `run` and `argument_bytes` look up, for each generated kernel and those of attention; machine.h has it
/// for those written by hand.
std::string wrappers(const std::string& text) {
  static const std::regex kernel(R"(\s(\w+)\(const __grid_constant__ (\w+_arguments|\w+Arguments) \w+\))");
  std::string all;
  for (std::sregex_iterator i(text.begin(), text.end(), kernel), end; i != end; ++i) {
    const std::string name = (*i)[1], arguments = (*i)[2];
    all += "extern \"C\" void run_" + name + "(const void* a) { " + name + "(*static_cast<const " + arguments +
           "*>(a)); }\nextern \"C\" unsigned long size_" + name + "() { return sizeof(" + arguments + "); }\n";
  }
  return all;
}

/// Each fiber finds its own index when it goes on: a barrier restores it.
std::string host_text(std::string text) {
  const auto replace = [&](const std::string& what, const std::string& with) {
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
      text.replace(at, what.size(), with);
    }
  };
  if (const size_t kernels = text.find("// The kernels of attention."); kernels != std::string::npos) {
    const bool halves = text.find("#define IS_BFLOAT16") != std::string::npos;
    const bool bfloat16 = text.find("#define IS_BFLOAT16 1") != std::string::npos;
    text = std::string("#define IS_FLOAT32 ") + (halves ? "0" : "1") + "\n#define IS_BFLOAT16 " +
           (bfloat16 ? "1" : "0") + "\n#include \"" SMOLDER_HOST_ATTENTION "\"\n" + text.substr(kernels);
  }
  replace("extern __shared__ __align__(16) unsigned char shared[];", "");
  replace(R"(asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));)", "f = host_f16_to_f32(h);");
  replace(R"(asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));)", "h = host_f32_to_f16(f);");
  replace(R"(asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));)",
          "pair = host_f32_to_bf16(low) | static_cast<u32>(host_f32_to_bf16(high)) << 16;");
  replace(R"(asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");)",
          "host_group_barrier();");
  replace(R"(asm volatile("st.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(p.x), "r"(p.y) : "memory");)", "*to = p;");
  replace(
      R"(asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(p.x), "r"(p.y), "r"(p.z), "r"(p.w) : "memory");)",
      "*to = p;");
  return text + wrappers(text);
}

std::string content_of(const char* file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// Everything but a program's text that its library is made of.
const std::string& surroundings() {
  static const std::string all =
      SMOLDER_HOST_FLAGS + content_of(SMOLDER_HOST_MACHINE) + content_of(SMOLDER_HOST_ATTENTION);
  return all;
}

std::string folder_of_libraries() {
  const char* const named = std::getenv("SMOLDER_CUDA_HOST_CACHE");
  return named ? named : "/tmp/smolder_cuda_host_" + std::to_string(getuid());
}

void compile(const std::string& text, const std::string& compiler, const std::string& library) {
  const std::string source = library + ".cpp";
  std::ofstream(source) << text;
  const std::string command =  // whose five processes need no device
      "LD_PRELOAD= " + compiler + " " SMOLDER_HOST_FLAGS " -shared -include " SMOLDER_HOST_MACHINE " -o " + library +
      " " + source;
  if (std::system(command.c_str()) != 0) throw std::runtime_error("the host's compiler refuses " + source);
  std::filesystem::remove(source);
}

}  // namespace

HostProgram::HostProgram(const std::string& text, const std::string& compiler) {
  const std::string folder = folder_of_libraries(), whole = host_text(text);
  std::filesystem::create_directories(folder);
  std::ostringstream name;
  name << folder << '/' << std::hex << std::hash<std::string>()(compiler + surroundings() + whole) << '_'
       << whole.size() << ".so";
  const std::string library = name.str();
  if (!std::filesystem::exists(library)) {
    const std::string own = library + "." + std::to_string(getpid());
    compile(whole, compiler, own);
    std::filesystem::rename(own, library);  // processes may make one at once
  }
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw std::runtime_error(dlerror());
}

HostProgram::~HostProgram() {
  if (library_) dlclose(library_);
}

void* HostProgram::symbol(const std::string& name) const {
  void* const found = dlsym(library_, name.c_str());
  if (!found) throw std::runtime_error("a program for CUDA has no " + name);
  return found;
}

void HostProgram::run(const std::string& kernel, const void* arguments, const unsigned* grid,
                      const unsigned* block) const {
  using Kernel = void (*)(const void*);
  using Machine = void (*)(Kernel, const void*, const unsigned*, const unsigned*);
  reinterpret_cast<Machine>(symbol("emulate"))(reinterpret_cast<Kernel>(symbol("run_" + kernel)), arguments, grid,
                                               block);
}

size_t HostProgram::argument_bytes(const std::string& kernel) const {
  return reinterpret_cast<size_t (*)()>(symbol("size_" + kernel))();
}

}  // namespace cuda_host
