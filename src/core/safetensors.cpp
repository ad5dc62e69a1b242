#include "smolder/core/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "smolder/core/error.h"

namespace smolder {
namespace {

using nlohmann::json;

constexpr uint64_t kMostHeader = 100'000'000;  ///< bytes, as the safetensors package has it
constexpr int kDeepestHeader = 4;              ///< header, entry, list; one more to say what is wrong
constexpr const char* kMetadata = "__metadata__";

struct Type {
  std::string_view name;
  uint64_t bytes;
  std::optional<DType> dtype;
};
constexpr Type kTypes[] = {
    {"BOOL", 1, DType::kBool},
    {"U8", 1, DType::kUInt8},
    {"I32", 4, DType::kInt32},
    {"I64", 8, DType::kInt64},
    {"F16", 2, DType::kFloat16},
    {"BF16", 2, DType::kBFloat16},
    {"F32", 4, DType::kFloat32},
    {"F64", 8, DType::kFloat64},
    {"I8", 1, DType::kInt8},
    {"I16", 2, DType::kInt16},
    {"U16", 2, {}},
    {"U32", 4, {}},
    {"U64", 8, {}},
    {"C64", 8, {}},
    {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},
    {"F8_E8M0", 1, {}},
};

/// Text of the file's as an error shows it.
std::string shown(std::string text) {
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
  }
  return "'" + text + "'";
}
std::string shown(const json& j) { return shown(j.dump(-1, ' ', true, json::error_handler_t::replace)); }

/// Parses the header, in which no name may occur twice.
json parse_header(const std::string& path, const std::string& text) {
  std::vector<std::set<std::string>> names;
  const auto check = [&](int depth, json::parse_event_t event, const json& parsed) {
    SMOLDER_CHECK(depth <= kDeepestHeader, ValueError, path, ": its header is nested deeper than a header is");
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      SMOLDER_CHECK(names.back().insert(name).second, ValueError, path, ": its header names ", shown(name), " twice");
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& e) {
    raise<ValueError>(path, ": its header is not JSON: ", shown(std::string(e.what())));
  }
}

uint64_t natural(const std::string& where, const json& j) {
  SMOLDER_CHECK(j.is_number_unsigned() && j.get<uint64_t>() <= uint64_t{INT64_MAX}, ValueError, where,
                ": expected an integer that is not negative and fits 63 bits, found ", shown(j));
  return j.get<uint64_t>();
}

const json& member(const std::string& where, const json& j, const char* name) {
  const auto at = j.find(name);
  SMOLDER_CHECK(at != j.end(), ValueError, where, " has no ", name);
  return *at;
}

SafetensorsEntry parse_entry(const std::string& where, const std::string& name, const json& j) {
  SMOLDER_CHECK(j.is_object(), ValueError, where, ": expected an object, found ", shown(j));
  SafetensorsEntry out;
  out.name = name;
  const json &type = member(where, j, "dtype"), &shape = member(where, j, "shape"),
             &offsets = member(where, j, "data_offsets");
  SMOLDER_CHECK(type.is_string(), ValueError, where, ": dtype is no string: ", shown(type));
  out.type = type.get<std::string>();
  const auto* const known = std::ranges::find(kTypes, out.type, &Type::name);
  SMOLDER_CHECK(known != std::end(kTypes), ValueError, where, ": there is no dtype ", shown(out.type));
  out.dtype = known->dtype;
  SMOLDER_CHECK(shape.is_array(), ValueError, where, ": shape is no list: ", shown(shape));
  SMOLDER_CHECK(shape.size() <= size_t{kMaxRank}, ValueError, where, " has ", shape.size(),
                " dimensions, tensors have at most ", kMaxRank);
  uint64_t bytes = known->bytes;
  for (const json& extent : shape) {
    const uint64_t n = natural(where + ", shape", extent);
    out.shape.push_back(static_cast<int64_t>(n));
    SMOLDER_CHECK(!__builtin_mul_overflow(bytes, n, &bytes) && bytes <= uint64_t{INT64_MAX}, ValueError, where,
                  ": a shape of ", shown(shape), " is too large");
  }
  SMOLDER_CHECK(offsets.is_array() && offsets.size() == 2, ValueError, where,
                ": data_offsets are not two integers: ", shown(offsets));
  out.begin = natural(where + ", data_offsets", offsets[0]);
  out.end = natural(where + ", data_offsets", offsets[1]);
  SMOLDER_CHECK(out.begin <= out.end && out.end - out.begin == bytes, ValueError, where, ": ", out.type, " of shape ",
                out.shape, " takes ", bytes, " bytes, its data_offsets are ", out.begin, " and ", out.end);
  return out;
}

}  // namespace

// -- reading

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)) {
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // which a pipe would wait in
  SMOLDER_CHECK(file_ >= 0, RuntimeError, "cannot open ", path_, ": ", std::strerror(errno));
  try {
    struct stat about{};
    SMOLDER_CHECK(::fstat(file_, &about) == 0 && S_ISREG(about.st_mode), ValueError, path_, " is not a regular file");
    const auto size = static_cast<uint64_t>(about.st_size);
    SMOLDER_CHECK(size >= 8, ValueError, path_, ": no safetensors file: it has ", size,
                  " bytes, and the length of the header takes 8");
    unsigned char word[8];
    read_at(0, word, sizeof word);
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | word[i];
    SMOLDER_CHECK(length <= kMostHeader, ValueError, path_, ": no safetensors file: a header of ", length,
                  " bytes, where at most ", kMostHeader, " are allowed");
    SMOLDER_CHECK(length <= size - 8, ValueError, path_, ": cut short: a header of ", length, " bytes in a file of ",
                  size);
    std::string header(length, '\0');
    read_at(8, header.data(), length);
    SMOLDER_CHECK(header.starts_with('{'), ValueError, path_,
                  ": no safetensors file: its header does not begin with {");
    data_begin_ = 8 + length;
    parse(header, size - data_begin_);
  } catch (...) {
    ::close(file_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (file_ >= 0) ::close(file_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      data_begin_(other.data_begin_),
      metadata_(std::move(other.metadata_)),
      entries_(std::move(other.entries_)) {}

void SafetensorsFile::parse(const std::string& header, uint64_t data_bytes) {
  const json all = parse_header(path_, header);
  for (const auto& [name, value] : all.items()) {
    if (name != kMetadata) {
      entries_.push_back(parse_entry(path_ + ": tensor " + shown(name), name, value));
      continue;
    }
    SMOLDER_CHECK(value.is_object(), ValueError, path_, ": its metadata is no object: ", shown(value));
    for (const auto& [key, text] : value.items()) {
      SMOLDER_CHECK(text.is_string(), ValueError, path_, ": its metadata ", shown(key), " is no string: ", shown(text));
      metadata_.emplace(key, text.get<std::string>());
    }
  }
  std::ranges::sort(entries_, {}, [](const SafetensorsEntry& e) { return std::tuple(e.begin, e.end, e.name); });
  uint64_t at = 0;
  for (const SafetensorsEntry& e : entries_) {
    SMOLDER_CHECK(e.begin == at, ValueError, path_, ": tensor ", shown(e.name), " begins at byte ", e.begin,
                  " of the elements, where what is before it ends at ", at);
    at = e.end;
  }
  SMOLDER_CHECK(at == data_bytes, ValueError, path_, ": ", at < data_bytes ? "too long" : "cut short",
                ": its tensors take ", at, " bytes, it has ", data_bytes);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto at = std::ranges::find(entries_, name, &SafetensorsEntry::name);
  return at == entries_.end() ? nullptr : &*at;
}

BufferRef SafetensorsFile::read(const SafetensorsEntry& entry) const {
  SMOLDER_CHECK(entry.dtype, ValueError, path_, ": tensor ", shown(entry.name), " is of ", entry.type,
                ", a dtype that Smolder does not have");
  const size_t bytes = entry.end - entry.begin;
  BufferRef out = allocate(bytes);
  read_at(data_begin_ + entry.begin, out->data(), bytes);
  if (entry.dtype == DType::kBool) {  // a bool of ours is 0 or 1
    auto* const at = static_cast<unsigned char*>(out->data());
    std::transform(at, at + bytes, at, [](unsigned char b) { return b != 0; });
  }
  return out;
}

void SafetensorsFile::read_at(uint64_t offset, void* to, size_t bytes) const {
  for (auto* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t n = ::pread(file_, at, std::min(bytes, size_t{1} << 30), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    SMOLDER_CHECK(n >= 0, RuntimeError, "cannot read ", path_, ": ", std::strerror(errno));
    SMOLDER_CHECK(n > 0, RuntimeError, path_, " has become shorter since it was opened");
    at += n, offset += n, bytes -= n;
  }
}

// -- writing

namespace {

uint64_t bytes_of(const SafetensorsTensor& t) { return static_cast<uint64_t>(numel(t.shape)) * itemsize(t.dtype); }

void write_all(int file, const void* data, size_t bytes, const std::string& path) {
  for (auto* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t n = ::write(file, at, std::min(bytes, size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    SMOLDER_CHECK(n > 0, RuntimeError, "cannot write ", path, ": ", std::strerror(errno));
    at += n, bytes -= n;
  }
}

std::string header_of(std::span<const SafetensorsTensor> tensors, const std::vector<size_t>& order,
                      const SafetensorsMetadata& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t at = 0;
  for (const size_t i : order) {
    const SafetensorsTensor& t = tensors[i];
    SMOLDER_CHECK(t.name != kMetadata && !header.contains(t.name), ValueError,
                  "a safetensors file cannot hold two tensors, or a tensor and its metadata, by the name ",
                  shown(t.name));
    const std::vector<int64_t> shape(t.shape.begin(), t.shape.end());
    const auto* const type =
        std::ranges::find_if(kTypes, [&](const Type& known) { return known.dtype == t.dtype; });  // all of ours are
    header[t.name] = {{"dtype", type->name}, {"shape", shape}, {"data_offsets", {at, at + bytes_of(t)}}};
    at += bytes_of(t);
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    raise<ValueError>("names of tensors and metadata of a safetensors file must be UTF-8");
  }
  text.append(-text.size() % 8, ' ');
  SMOLDER_CHECK(text.size() <= kMostHeader, ValueError, "a safetensors file's header has at most ", kMostHeader,
                " bytes, this one ", text.size());
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const SafetensorsTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  std::vector<size_t> order(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return itemsize(tensors[i].dtype); });  // so aligned
  const std::string header = header_of(tensors, order, metadata);
  static std::atomic<unsigned> count{0};
  const std::string fresh = path + ".new-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
  const int file = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  SMOLDER_CHECK(file >= 0, RuntimeError, "cannot write ", path, ": ", std::strerror(errno));
  try {
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(header.size() >> 8 * i);
    write_all(file, length, sizeof length, path);
    write_all(file, header.data(), header.size(), path);
    for (const size_t i : order) write_all(file, tensors[i].data, bytes_of(tensors[i]), path);
  } catch (...) {
    ::close(file);
    ::unlink(fresh.c_str());
    throw;
  }
  if (::close(file) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    const int why = errno;
    ::unlink(fresh.c_str());
    raise<RuntimeError>("cannot write ", path, ": ", std::strerror(why));
  }
}

}  // namespace smolder
