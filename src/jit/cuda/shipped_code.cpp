#include "smolder/jit/cuda/shipped_code.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/dynamic_library.h"
#include "smolder/core/hash.h"

namespace smolder::jit::cuda {

namespace {

constexpr std::string_view kFileMagic = "smolder programs 1\n";

void put(std::string& bytes, uint64_t n) { bytes.append(reinterpret_cast<const char*>(&n), sizeof n); }

/// A file, and where programs are in it.
class Shipped {
 public:
  explicit Shipped(const std::string& arch) {
    std::ostringstream all;
    all << std::ifstream(library_folder() + shipped_file(arch), std::ios::binary).rdbuf();
    bytes_ = std::move(all).str();
    if (bytes_.empty()) return;
    std::string_view rest(bytes_);
    bool whole = take(rest, kFileMagic.size()) == kFileMagic;
    while (whole && !rest.empty()) {
      const std::string_view key = part(rest), code = part(rest);
      whole = !key.empty() && !code.empty();
      if (whole) code_.emplace(key, code);
    }
    if (whole) return;
    code_.clear();
    record_event(
        {"compile",
         "the compiled programs beside the library are not used: " + shipped_file(arch) + " is not as it was written",
         ""});
  }

  std::string_view find(const std::string& key) const {
    const auto found = code_.find(key);
    return found == code_.end() ? std::string_view() : found->second;
  }

 private:
  static std::string_view take(std::string_view& rest, size_t bytes) {
    if (bytes > rest.size()) return rest = {};
    const std::string_view taken = rest.substr(0, bytes);
    rest.remove_prefix(bytes);
    return taken;
  }
  /// Bytes after their number. Empty where there are fewer.
  static std::string_view part(std::string_view& rest) {
    uint64_t n = 0;
    const std::string_view number = take(rest, sizeof n);
    if (number.size() < sizeof n) return {};
    std::memcpy(&n, number.data(), sizeof n);
    return n <= rest.size() ? take(rest, n) : std::string_view();
  }

  std::string bytes_;
  std::map<std::string_view, std::string_view> code_;
};

const Shipped& shipped(const std::string& arch) {
  static std::mutex mutex;
  static auto* all = new std::map<std::string, std::unique_ptr<const Shipped>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<const Shipped>& one = (*all)[arch];
  if (!one) one = std::make_unique<const Shipped>(arch);
  return *one;
}

}  // namespace

std::string_view shipped_code(const std::string& text, const std::string& arch, Contraction contraction) {
  const char* const host_math = std::getenv("SMOLDER_HOST_MATH");
  if (host_math && std::string_view(host_math) != "0") return {};  // other formulas
  const bool has_letter = arch.back() < '0' || arch.back() > '9';
  std::string number = has_letter ? arch.substr(0, arch.size() - 1) : arch;
  if (has_letter) return shipped(number).find(shipped_key(text, arch, contraction));
  for (char& minor = number.back(); minor >= '0'; --minor) {
    const std::string_view code = shipped(number).find(shipped_key(text, number, contraction));
    if (!code.empty()) return code;
  }
  return {};
}

std::string shipped_key(const std::string& text, const std::string& arch, Contraction contraction) {
  const std::string all = arch + flags_text(contraction) + "\n" + text;
  return to_hex(hash_bytes(all.data(), all.size()));
}

std::string shipped_file(const std::string& arch) { return "smolder_programs_" + arch + ".bin"; }

std::string shipped_bytes(std::span<const std::pair<std::string, std::string>> programs) {
  std::string bytes(kFileMagic);
  for (const auto& [key, code] : programs) {
    put(bytes, key.size());
    bytes += key;
    put(bytes, code.size());
    bytes += code;
  }
  return bytes;
}

}  // namespace smolder::jit::cuda
