// Compiled programs that come with the library, as a file beside it for each architecture: a first step waits for no
// compiler then. Made by cmake/make_programs.cpp where the build is told to.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "smolder/jit/cuda/compiler.h"

namespace smolder::jit::cuda {

/// The code of a program for a device of `arch`, such as sm_86, or with a letter, sm_90a; that for sm_80 serves it,
/// too. Empty where none came. Thread-safe; the text lives as long as the process.
std::string_view shipped_code(const std::string& text, const std::string& arch, Contraction contraction);

/// The key by which a program is found in a file.
std::string shipped_key(const std::string& text, const std::string& arch, Contraction contraction);
/// The name of the file for an architecture without a letter, and its bytes: of keys and code.
std::string shipped_file(const std::string& arch);
std::string shipped_bytes(std::span<const std::pair<std::string, std::string>> programs);

}  // namespace smolder::jit::cuda
