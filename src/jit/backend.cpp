#include "smolder/jit/backend.h"

#include "smolder/core/dynamic_library.h"

namespace smolder::jit {

Backend& llvm_backend() {
  static Backend* backend = DynamicLibrary::open_plugin("smolder_llvm").symbol<Backend*()>("smolder_llvm_backend")();
  return *backend;
}

}  // namespace smolder::jit
