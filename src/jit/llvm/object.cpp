#include "smolder/jit/llvm/object.h"

#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/Object/ObjectFile.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/core/hash.h"
#include "smolder/jit/llvm/emit.h"

namespace smolder::jit::cpu {

namespace {

/// Pages for generated code and for its constants, from few large mappings: code grows from a mapping's start,
/// constants from its end, so neighbours have the same protection and are one to the system, which lets a process have
/// 65,530 mappings. Thread-safe.
class CodePages {
 public:
  struct Piece {
    uint8_t *code = nullptr, *data = nullptr;
    size_t code_bytes = 0, data_bytes = 0;
  };

  static CodePages& get() {
    static auto* const pages = new CodePages;  // never destroyed: kernels may outlive any static
    return *pages;
  }

  /// Pages that may be written. Throws OutOfMemoryError.
  Piece take(size_t code_bytes, size_t data_bytes) {
    Piece piece{nullptr, nullptr, round_up(code_bytes), round_up(data_bytes)};
    const std::lock_guard hold(mutex_);
    std::vector<Piece>& free = free_[{piece.code_bytes, piece.data_bytes}];
    if (!free.empty()) {
      piece = free.back();
      free.pop_back();
    } else {
      const size_t bytes = piece.code_bytes + piece.data_bytes;
      if (static_cast<size_t>(end_ - begin_) < bytes) map(std::max(bytes, kMapping));
      piece.code = begin_;
      begin_ += piece.code_bytes;
      end_ -= piece.data_bytes;
      piece.data = end_;
    }
    protect(piece, PROT_READ | PROT_WRITE);
    return piece;
  }

  void give_back(const Piece& piece) {
    const std::lock_guard hold(mutex_);
    madvise(piece.code, piece.code_bytes, MADV_DONTNEED);
    madvise(piece.data, piece.data_bytes, MADV_DONTNEED);
    free_[{piece.code_bytes, piece.data_bytes}].push_back(piece);
  }

 private:
  static constexpr size_t kMapping = 64 << 20;

  static size_t round_up(size_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) & ~(page - 1);
  }
  void map(size_t bytes) {
    void* const at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    SMOLDER_CHECK(at != MAP_FAILED, OutOfMemoryError, "no addresses for ", bytes, " bytes of generated code");
    begin_ = static_cast<uint8_t*>(at);
    end_ = begin_ + bytes;
  }
  static void protect(const Piece& piece, int protection) {
    SMOLDER_CHECK(mprotect(piece.code, piece.code_bytes, protection) == 0 &&
                      mprotect(piece.data, piece.data_bytes, protection) == 0,
                  OutOfMemoryError, "no memory for ", piece.code_bytes + piece.data_bytes, " bytes of generated code");
  }

  std::mutex mutex_;
  uint8_t *begin_ = nullptr, *end_ = nullptr;  ///< what is left of the last mapping
  std::map<std::pair<size_t, size_t>, std::vector<Piece>> free_;
};

/// The memory of one kernel. Written while it is linked, then never again.
class CodeMemory final : public llvm::RuntimeDyld::MemoryManager {
 public:
  CodeMemory() = default;
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;
  ~CodeMemory() override {
    if (pages_.code) CodePages::get().give_back(pages_);
  }

  bool needsToReserveAllocationSpace() override { return true; }
  void reserveAllocationSpace(uintptr_t code, llvm::Align, uintptr_t constants, llvm::Align, uintptr_t data,
                              llvm::Align) override {
    // Sections are aligned one by one, each to at most this.
    constexpr size_t kSlack = 1024;
    pages_ = CodePages::get().take(code + kSlack, constants + data + kSlack);
  }

  uint8_t* allocateCodeSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef) override {
    return take(pages_.code, code_at_, pages_.code_bytes, size, align);
  }
  uint8_t* allocateDataSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef, bool) override {
    return take(pages_.data, data_at_, pages_.data_bytes, size, align);
  }
  void registerEHFrames(uint8_t*, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}

  bool finalizeMemory(std::string* error) override {
    if (mprotect(pages_.code, pages_.code_bytes, PROT_READ | PROT_EXEC) == 0 &&
        mprotect(pages_.data, pages_.data_bytes, PROT_READ) == 0) {
      __builtin___clear_cache(reinterpret_cast<char*>(pages_.code),
                              reinterpret_cast<char*>(pages_.code) + pages_.code_bytes);
      return false;
    }
    if (error) *error = std::strerror(errno);
    return true;
  }

 private:
  static uint8_t* take(uint8_t* base, size_t& at, size_t end, size_t size, size_t align) {
    at = (at + align - 1) & ~(align - 1);
    SMOLDER_INVARIANT(base && at + size <= end);
    uint8_t* p = base + at;
    at += size;
    return p;
  }

  CodePages::Piece pages_;
  size_t code_at_ = 0, data_at_ = 0;
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
