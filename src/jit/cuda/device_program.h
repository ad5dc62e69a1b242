// A program in CUDA C++ that was written by hand: as it came with the library, from the cache, or compiled.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "smolder/core/cuda/driver.h"
#include "smolder/jit/cache/kernel_cache.h"
#include "smolder/jit/cuda/compiler.h"

namespace smolder::jit::cuda {

/// A program and its module, which is made once. Thread-safe.
class DeviceProgram {
 public:
  /// `name` is for listings, as that of a function that was asked for first.
  DeviceProgram(std::string text, std::string name, std::string arch, Contraction contraction = Contraction::kNone);

  /// Compiled unless it was before, is kept on disk, or came with the library. Throws InternalError when it does not
  /// compile.
  const smolder::cuda::Module& module();
  /// Whether it is loaded, or was found where compiled programs are kept or come from.
  bool is_kept();

 private:
  /// `target` must outlive it.
  CacheKey key(const std::string& target) const { return {"native", hash_, text_, target}; }
  std::shared_ptr<const smolder::cuda::Module> find() const;
  std::shared_ptr<const smolder::cuda::Module> compile() const;

  const std::string text_, name_, arch_;
  const Contraction contraction_;
  const Hash128 hash_;  ///< of the text
  std::mutex making_;
  std::shared_ptr<const smolder::cuda::Module> module_;
};

}  // namespace smolder::jit::cuda
