// Where the libraries of CUDA are found: already loaded in the process, then in the `nvidia-*` Python wheels, then in
// CUDA_HOME, then where the system looks.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "smolder/core/dynamic_library.h"

namespace smolder::cuda {

/// Adds a `site-packages` folder to search for wheels; Python hands over its own. Folders named in
/// SMOLDER_SITE_PACKAGES (separated by colons) and that of the active virtual environment (VIRTUAL_ENV) are searched
/// after these. Thread-safe.
void add_site_packages(std::string folder);

/// A library that is looked for.
struct LibraryName {
  const char* stem;                   ///< "libnvrtc.so"
  std::vector<const char*> versions;  ///< what may follow it, best first: ".13", ".12", ""
  const char* remedy;                 ///< "pip install nvidia-cuda-nvrtc"
};

/// Opens the library, or says in `reason` where it was looked for and what to install.
std::optional<DynamicLibrary> find_library(const LibraryName& name, std::string* reason);

/// Functions of a library, or why there are none.
template <class Functions>
struct OpenLibrary {
  Functions functions;
  std::string reason;
};

/// Opens the library, and takes from it what `load(library, functions)` does, which may throw. For the life of the
/// process.
template <class Functions, class Load>
const OpenLibrary<Functions>* open_library(const LibraryName& name, Load load) {
  auto* const opened = new OpenLibrary<Functions>;
  try {
    if (const std::optional<DynamicLibrary> library = find_library(name, &opened->reason)) {
      load(*library, opened->functions);
      opened->reason.clear();
    }
  } catch (const std::exception& e) {
    opened->reason = e.what();
  }
  return opened;
}

}  // namespace smolder::cuda
