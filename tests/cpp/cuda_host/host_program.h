// CUDA C++ on the host: the host's compiler makes a library of a program, with machine.h for what the language has
// beyond C++, and the threads of a block take turns. Slow, and shows what the text means where there is no device.
#pragma once

#include <cstddef>
#include <string>

namespace cuda_host {

/// A program that the host's compiler made.
class HostProgram {
 public:
  /// `compiler` is the command. Libraries are kept for later processes, in the folder SMOLDER_CUDA_HOST_CACHE, else one
  /// of the user's in /tmp: tests of several builds and languages run the same programs. Programs of one text share
  /// what their threads share. Throws std::runtime_error when the compiler fails.
  HostProgram(const std::string& text, const std::string& compiler);
  ~HostProgram();
  HostProgram(const HostProgram&) = delete;
  HostProgram& operator=(const HostProgram&) = delete;

  /// Runs all blocks of a kernel, one after the other. Throws std::runtime_error where there is no such kernel.
  void run(const std::string& kernel, const void* arguments, const unsigned* grid, const unsigned* block) const;
  /// Bytes of a kernel's argument.
  size_t argument_bytes(const std::string& kernel) const;

 private:
  void* symbol(const std::string& name) const;

  void* library_ = nullptr;
};

}  // namespace cuda_host
