#include "smolder/core/dynamic_library.h"

#include <dlfcn.h>

#include "smolder/core/error.h"

namespace smolder {

std::string library_folder() {
  static const char here = 0;
  Dl_info info;
  SMOLDER_INVARIANT(dladdr(&here, &info) != 0 && info.dli_fname);
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

DynamicLibrary DynamicLibrary::open(const std::string& file) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    raise<RuntimeError>("cannot open the library ", file, ": ", reason ? reason : "the loader gave no reason");
  }
  return {handle, file};
}

DynamicLibrary DynamicLibrary::open_plugin(const std::string& name) {
  return open(library_folder() + "lib" + name + ".so");
}

void* DynamicLibrary::address(const char* name) const {
  dlerror();
  void* at = dlsym(handle_, name);
  SMOLDER_CHECK(at, RuntimeError, "the library ", file_, " has no symbol ", name,
                "; it belongs to another version, reinstall it");
  return at;
}

}  // namespace smolder
