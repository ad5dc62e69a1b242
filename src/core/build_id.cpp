#include "smolder/core/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstring>

#include "smolder/core/error.h"

namespace smolder {

namespace {

struct Search {
  uintptr_t address;
  std::string id;
};

std::string find_note(const char* at, const char* end) {
  while (at + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof(note));
    const auto padded = [](size_t n) { return (n + 3) & ~size_t{3}; };
    const char *name = at + sizeof(note), *value = name + padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      constexpr const char* kDigits = "0123456789abcdef";
      std::string id;
      for (size_t i = 0; i < note.n_descsz; ++i) {
        id += kDigits[static_cast<unsigned char>(value[i]) >> 4];
        id += kDigits[value[i] & 15];
      }
      return id;
    }
    at = value + padded(note.n_descsz);
  }
  return "";
}

int visit(dl_phdr_info* info, size_t, void* context) {
  auto* search = static_cast<Search*>(context);
  bool ours = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& p = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + p.p_vaddr;
    ours = ours || (p.p_type == PT_LOAD && search->address >= begin && search->address - begin < p.p_memsz);
  }
  if (!ours) return 0;
  for (int i = 0; i < info->dlpi_phnum && search->id.empty(); ++i) {
    const auto& p = info->dlpi_phdr[i];
    if (p.p_type != PT_NOTE) continue;
    const auto* begin = reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr);
    search->id = find_note(begin, begin + p.p_memsz);
  }
  return 1;
}

}  // namespace

std::string build_id(const void* address) {
  Search search{reinterpret_cast<uintptr_t>(address), ""};
  dl_iterate_phdr(visit, &search);
  SMOLDER_CHECK(!search.id.empty(), RuntimeError,
                "a code generator was linked without --build-id, so that cached kernels cannot be told apart");
  return search.id;
}

}  // namespace smolder
