// Files of the safetensors format: a header in JSON that names tensors, and their elements. Its metadata, strings by
// name, is where other formats of ours put what they hold besides tensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"

namespace smolder {

/// Strings by name.
using SafetensorsMetadata = std::map<std::string, std::string, std::less<>>;

/// A tensor of a file.
struct SafetensorsEntry {
  std::string name;
  std::string type;            ///< the format's name: "F32"
  std::optional<DType> dtype;  ///< none for those of the format's that Smolder does not have
  Dims shape;
  uint64_t begin = 0, end = 0;  ///< in bytes, from the start of the elements
};

/// An open file whose header was read and found right. What it says of itself is never believed: lengths, offsets and
/// sizes are checked against each other and the file.
class SafetensorsFile {
 public:
  /// Throws RuntimeError when the file cannot be read, ValueError that says what was found when it is no such file.
  explicit SafetensorsFile(std::string path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;

  const std::string& path() const { return path_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  /// In the order of their bytes.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// Null when there is none of that name.
  const SafetensorsEntry* find(std::string_view name) const;
  /// The elements in memory of their own, row-major. Throws ValueError for a dtype that Smolder does not have, and
  /// RuntimeError when the file has become shorter.
  BufferRef read(const SafetensorsEntry& entry) const;

 private:
  void read_at(uint64_t offset, void* to, size_t bytes) const;
  void parse(const std::string& header, uint64_t data_bytes);

  std::string path_;
  int file_ = -1;
  uint64_t data_begin_ = 0;
  SafetensorsMetadata metadata_;
  std::vector<SafetensorsEntry> entries_;
};

/// A tensor to be written: `data` is row-major, in memory of the host.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Dims shape;
  const void* data = nullptr;
};

/// Writes a file, which replaces one of that name once it is whole. Throws ValueError for a name that occurs twice,
/// RuntimeError when the file cannot be written.
void write_safetensors(const std::string& path, std::span<const SafetensorsTensor> tensors,
                       const SafetensorsMetadata& metadata = {});

}  // namespace smolder
