// CUDA C++ on the host: the host's compiler makes a library of a program, with machine.h for what the language has
// beyond C++, and the threads of a block take turns. Slow, and shows what the text means where there is no device.
#pragma once

#include <cstddef>
#include <string>

namespace cuda_host {

/// Where programs are kept for later processes: SMOLDER_CUDA_HOST_CACHE, else a folder of the user's in /tmp.
std::string cache_folder();

/// A program that the host's compiler made.
class HostProgram {
 public:
  /// `compiler` is the command. Libraries are kept in the folder `cache` for later processes, unless that is empty.
  /// Throws std::runtime_error when the compiler fails.
  HostProgram(const std::string& text, const std::string& compiler, const std::string& cache = "");
  ~HostProgram();
  HostProgram(const HostProgram&) = delete;
  HostProgram& operator=(const HostProgram&) = delete;

  /// Runs all blocks of a kernel, one after the other. Throws std::runtime_error where there is no such kernel.
  void run(const std::string& kernel, const void* arguments, const unsigned* grid, const unsigned* block) const;
  /// Bytes of a kernel's argument.
  size_t argument_bytes(const std::string& kernel) const;

 private:
  void compile(const std::string& text, const std::string& compiler, const std::string& library) const;
  void* symbol(const std::string& name) const;

  std::string folder_;  ///< to be removed
  void* library_ = nullptr;
};

}  // namespace cuda_host
