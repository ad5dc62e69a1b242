#include "smolder/core/cuda/library.h"

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "smolder/core/error.h"

namespace smolder::cuda {
namespace {

std::mutex folders_mutex;
std::vector<std::string>& added_folders() {
  static auto* folders = new std::vector<std::string>;
  return *folders;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Paths that match, in the order of their names.
std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

std::vector<std::string> site_packages() {
  std::vector<std::string> folders;
  {
    const std::lock_guard lock(folders_mutex);
    folders = added_folders();
  }
  const std::string listed = environment("SMOLDER_SITE_PACKAGES");
  for (size_t begin = 0; begin < listed.size();) {
    const size_t end = std::min(listed.find(':', begin), listed.size());
    if (end > begin) folders.push_back(listed.substr(begin, end - begin));
    begin = end + 1;
  }
  if (const std::string active = environment("VIRTUAL_ENV"); !active.empty()) {
    for (std::string& path : matches(active + "/lib/python3*/site-packages")) folders.push_back(std::move(path));
  }
  return folders;
}

/// Folders that may hold the libraries, in the order of search.
std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  for (const std::string& site : site_packages()) {
    // CUDA 13's wheels share nvidia/cu13/lib; before, each had a folder of its own.
    for (const char* wheels : {"/nvidia/cu1*/lib", "/nvidia/*/lib"}) {
      for (std::string& path : matches(site + wheels)) folders.push_back(std::move(path));
    }
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string home = environment(variable); !home.empty()) {
      folders.insert(folders.end(), {home + "/lib64", home + "/targets/x86_64-linux/lib", home + "/lib"});
    }
  }
  folders.emplace_back("/usr/local/cuda/lib64");
  return folders;
}

std::optional<DynamicLibrary> try_open(const std::string& file, std::string* reason) {
  try {
    return DynamicLibrary::open(file);
  } catch (const RuntimeError& e) {
    *reason = e.what();
    return std::nullopt;
  }
}

bool is_loaded(const std::string& file) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle) dlclose(handle);
  return handle != nullptr;
}

}  // namespace

void add_site_packages(std::string folder) {
  const std::lock_guard lock(folders_mutex);
  std::vector<std::string>& folders = added_folders();
  if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(std::move(folder));
}

std::optional<DynamicLibrary> find_library(const LibraryName& name, std::string* reason) {
  std::string last;  // the loader's reason for what was there and did not open
  for (const char* version : name.versions) {
    const std::string file = std::string(name.stem) + version;
    if (is_loaded(file)) return try_open(file, &last);
  }
  for (const std::string& folder : library_folders()) {
    for (const char* version : name.versions) {
      for (const std::string& path : matches(folder + "/" + name.stem + version)) {
        if (auto library = try_open(path, &last)) return library;
      }
    }
  }
  std::string missing;
  for (const char* version : name.versions) {
    if (auto library = try_open(std::string(name.stem) + version, &missing)) return library;
  }
  if (last.empty()) last = missing;
  *reason = std::string(name.stem) + " is neither loaded, nor in a Python wheel, CUDA_HOME or the system's folders (" +
            last + "); " + name.remedy;
  return std::nullopt;
}

}  // namespace smolder::cuda
