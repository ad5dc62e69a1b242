#include "smolder/jit/llvm/object.h"

#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/Object/ObjectFile.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "smolder/core/error.h"
#include "smolder/core/hash.h"
#include "smolder/jit/llvm/emit.h"

namespace smolder::jit::cpu {

namespace {

/// One mapping for a kernel: code, then its constants. Written while it is linked, then never again.
class CodeMemory final : public llvm::RuntimeDyld::MemoryManager {
 public:
  CodeMemory() = default;
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;
  ~CodeMemory() override {
    if (base_) munmap(base_, size_);
  }

  bool needsToReserveAllocationSpace() override { return true; }
  void reserveAllocationSpace(uintptr_t code, llvm::Align, uintptr_t constants, llvm::Align, uintptr_t data,
                              llvm::Align) override {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    // Sections are aligned one by one, each to at most this.
    constexpr size_t kSlack = 1024;
    code_size_ = (code + kSlack + page - 1) & ~(page - 1);
    size_ = code_size_ + ((constants + data + kSlack + page - 1) & ~(page - 1));
    void* at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SMOLDER_CHECK(at != MAP_FAILED, OutOfMemoryError, "no memory for ", size_, " bytes of generated code");
    base_ = static_cast<uint8_t*>(at);
    code_at_ = 0;
    data_at_ = code_size_;
  }

  uint8_t* allocateCodeSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef) override {
    return take(code_at_, code_size_, size, align);
  }
  uint8_t* allocateDataSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef, bool) override {
    return take(data_at_, size_, size, align);
  }
  void registerEHFrames(uint8_t*, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}

  bool finalizeMemory(std::string* error) override {
    if (mprotect(base_, code_size_, PROT_READ | PROT_EXEC) == 0 &&
        mprotect(base_ + code_size_, size_ - code_size_, PROT_READ) == 0) {
      __builtin___clear_cache(reinterpret_cast<char*>(base_), reinterpret_cast<char*>(base_) + code_size_);
      return false;
    }
    if (error) *error = std::strerror(errno);
    return true;
  }

 private:
  uint8_t* take(size_t& at, size_t end, size_t size, size_t align) {
    at = (at + align - 1) & ~(align - 1);
    SMOLDER_INVARIANT(base_ && at + size <= end);
    uint8_t* p = base_ + at;
    at += size;
    return p;
  }

  uint8_t* base_ = nullptr;
  size_t size_ = 0, code_size_ = 0, code_at_ = 0, data_at_ = 0;
};

/// Generated code calls nothing but what a compiler may always call.
class Resolver final : public llvm::LegacyJITSymbolResolver {
 public:
  llvm::JITSymbol findSymbol(const std::string& name) override {
    const auto exported = llvm::JITSymbolFlags::Exported;
    if (name == "memcpy") return {reinterpret_cast<uint64_t>(&std::memcpy), exported};
    if (name == "memset") return {reinterpret_cast<uint64_t>(&std::memset), exported};
    return nullptr;
  }
  llvm::JITSymbol findSymbolInLogicalDylib(const std::string& name) override { return findSymbol(name); }
};

}  // namespace

void seal(std::string& object) {
  const Hash128 h = hash_bytes(object.data(), object.size());
  object.append(reinterpret_cast<const char*>(&h), sizeof(h));
}

CompiledKernel load_object(const std::string& object) {
  Hash128 h;
  const bool whole = object.size() > sizeof(h);
  const size_t size = whole ? object.size() - sizeof(h) : 0;
  if (whole) std::memcpy(&h, object.data() + size, sizeof(h));
  SMOLDER_CHECK(whole && hash_bytes(object.data(), size) == h, ValueError,
                "the bytes are no object code of a kernel, or damaged");

  const llvm::MemoryBufferRef buffer(llvm::StringRef(object.data(), size), "kernel");
  auto file = llvm::object::ObjectFile::createObjectFile(buffer);
  if (!file) raise<ValueError>("the bytes are no object code: ", llvm::toString(file.takeError()));
  auto memory = std::make_shared<CodeMemory>();
  Resolver resolver;
  llvm::RuntimeDyld linker(*memory, resolver);
  linker.loadObject(**file);
  linker.resolveRelocations();
  std::string error;
  SMOLDER_CHECK(!linker.hasError(), ValueError, "object code does not link: ", linker.getErrorString().str());
  SMOLDER_CHECK(!memory->finalizeMemory(&error), RuntimeError, "generated code cannot be made executable: ", error);
  const uint64_t entry = linker.getSymbol(kEntry).getAddress();
  SMOLDER_CHECK(entry != 0, ValueError, "object code has no function ", kEntry);
  return {reinterpret_cast<KernelFn>(entry), std::move(memory)};
}

}  // namespace smolder::jit::cpu
