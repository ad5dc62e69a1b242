// Libraries opened at run time: the code generator's plugin, drivers and vendor libraries.
#pragma once

#include <string>
#include <utility>

namespace smolder {

/// The folder that Smolder's own library was loaded from, with a slash: "/usr/lib/".
std::string library_folder();

/// An open library. Never closed: code and statics of ours may still point into it at exit.
class DynamicLibrary {
 public:
  /// Opens `file` (a path, or a name that the system searches for), keeping its symbols to itself.
  /// Throws RuntimeError with the file and the loader's reason.
  static DynamicLibrary open(const std::string& file);
  /// Opens lib<name>.so from the folder that Smolder's own library was loaded from.
  static DynamicLibrary open_plugin(const std::string& name);

  /// The address of a symbol. Throws RuntimeError naming the symbol and the file.
  template <class Fn>
  Fn* symbol(const char* name) const {
    return reinterpret_cast<Fn*>(address(name));
  }
  const std::string& file() const { return file_; }

 private:
  DynamicLibrary(void* handle, std::string file) : handle_(handle), file_(std::move(file)) {}
  void* address(const char* name) const;

  void* handle_;
  std::string file_;
};

}  // namespace smolder
