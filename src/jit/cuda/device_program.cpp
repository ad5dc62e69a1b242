#include "smolder/jit/cuda/device_program.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/error.h"
#include "smolder/core/hash.h"
#include "smolder/jit/cuda/shipped_code.h"

namespace smolder::jit::cuda {

using smolder::cuda::Module;

DeviceProgram::DeviceProgram(std::string text, std::string name, std::string arch, Contraction contraction)
    : text_(std::move(text)),
      name_(std::move(name)),
      arch_(std::move(arch)),
      contraction_(contraction),
      hash_(hash_bytes(text_.data(), text_.size())) {}

const Module& DeviceProgram::module() {
  const std::lock_guard hold(making_);
  if (!module_) module_ = find();
  if (!module_) module_ = compile();
  return *module_;
}

bool DeviceProgram::is_kept() {
  const std::lock_guard hold(making_);
  if (!module_) module_ = find();
  return module_ != nullptr;
}

std::shared_ptr<const Module> DeviceProgram::find() const {
  KernelCache& cache = KernelCache::global();
  const std::string target = target_of(arch_, contraction_);
  const CacheKey key = this->key(target);
  CacheLookup found = cache.lookup(key);
  if (auto* hit = std::get_if<MemoryHit>(&found)) return std::static_pointer_cast<const Module>(hit->object);
  if (auto* hit = std::get_if<DiskHit>(&found)) {
    try {
      auto loaded = std::make_shared<Module>(hit->record.payload);
      return std::static_pointer_cast<const Module>(cache.loaded(key, std::move(loaded), hit->record.payload.size()));
    } catch (const ValueError&) {
      cache.reject(key);
    }
  }
  const std::string_view code = shipped_code(text_, arch_, contraction_);
  if (code.empty()) return nullptr;
  try {
    auto loaded = std::make_shared<Module>(std::string(code));
    return std::static_pointer_cast<const Module>(cache.loaded(key, std::move(loaded), code.size()));
  } catch (const ValueError& e) {
    record_event({"compile", name_ + " beside the library is not used: " + e.what(), ""});
    return nullptr;
  }
}

std::shared_ptr<const Module> DeviceProgram::compile() const {
  const std::string target = target_of(arch_, contraction_);
  const CacheKey key = this->key(target);
  const auto start = std::chrono::steady_clock::now();
  CacheRecord record;
  record.name = name_;
  record.payload = compile_text(text_, arch_, contraction_);
  record.build_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  record.kind = key.kind, record.key = key.key, record.structure = key.structure, record.target = key.target;
  static Counter& compiled = counter("kernels.compiled");
  static Counter& micros = counter("kernels.compile_us");
  compiled.add();
  micros.add(static_cast<int64_t>(record.build_ms * 1000));
  auto module = std::make_shared<Module>(record.payload);
  const size_t bytes = record.payload.size();
  return std::static_pointer_cast<const Module>(KernelCache::global().insert(std::move(record), module, bytes));
}

}  // namespace smolder::jit::cuda
