// NCCL for CUDA on the host: ranks are processes, or threads of one, that meet in a folder. What one tells the others
// in a call is a file, named by the call's number and the rank; who has read all of a call goes on. Ranks that do not
// call the same wait for ever, as on GPUs.
#include "smolder/distributed/nccl/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "smolder/core/half.h"

#define API extern "C" __attribute__((visibility("default")))

namespace smolder::distributed::nccl {

namespace fs = std::filesystem;

struct OpaqueComm {
  int rank = 0, size = 0;
  fs::path folder;
  std::atomic<bool> aborted{false};
  int64_t calls = 0;
  bool stopped = false;  ///< within the last call
  std::mutex busy;       ///< held by the call under way
};

namespace {

constexpr Status kInvalidArgument = 4, kInvalidUsage = 5, kInternal = 3;
constexpr std::chrono::microseconds kPoll{200};

size_t item(Type type) {
  switch (type) {
    case Type::kInt8:
    case Type::kUInt8:
      return 1;
    case Type::kFloat16:
    case Type::kBFloat16:
      return 2;
    case Type::kInt32:
    case Type::kUInt32:
    case Type::kFloat32:
      return 4;
    default:
      return 8;
  }
}

/// Queued work is done at once: memory of the device is the host's.
void catch_up(DriverStream stream) {
  using Wait = Status (*)(DriverStream);
  static const auto wait = reinterpret_cast<Wait>(dlsym(RTLD_DEFAULT, "cuStreamSynchronize"));
  wait(stream);
}

bool is_on_device(DriverStream stream, const void* memory) {
  using Refuses = Status (*)(DriverStream, const void*);
  static const auto refuses = reinterpret_cast<Refuses>(dlsym(RTLD_DEFAULT, "smolder_host_refuses"));
  return refuses(stream, memory) == 0;
}

fs::path file_of(const OpaqueComm& c, int64_t call, int rank) {
  return c.folder / (std::to_string(call) + "." + std::to_string(rank));
}

/// Gives the others `mine`, and gets what each gave. False: it was aborted.
bool exchange(OpaqueComm& c, const std::string& mine, std::vector<std::string>& all) {
  const int64_t call = ++c.calls;
  const fs::path own = file_of(c, call, c.rank), part = own.string() + ".part";
  std::ofstream(part, std::ios::binary) << mine;
  fs::rename(part, own);
  all.resize(static_cast<size_t>(c.size));
  for (int r = 0; r < c.size; ++r) {
    const fs::path path = file_of(c, call, r);
    while (!fs::exists(path)) {
      if (c.aborted) return false;
      std::this_thread::sleep_for(kPoll);
    }
    std::ifstream in(path, std::ios::binary);
    all[static_cast<size_t>(r)].assign(std::istreambuf_iterator<char>(in), {});
  }
  // All who gave this have read what came before.
  std::error_code ignored;
  if (call > 1) fs::remove(file_of(c, call - 1, c.rank), ignored);
  return true;
}

/// The last to leave removes the folder.
void leave(const OpaqueComm& c) {
  std::ofstream(c.folder / ("left." + std::to_string(c.rank))).close();
  int left = 0;
  for (int r = 0; r < c.size; ++r) left += fs::exists(c.folder / ("left." + std::to_string(r)));
  std::error_code ignored;
  if (left == c.size) fs::remove_all(c.folder, ignored);
}

/// The message of a rank: a line of what it calls, which all must, and bytes.
struct Message {
  std::string line, bytes;
  std::string text() const { return line + "\n" + bytes; }
  static Message read(const std::string& text) {
    const size_t end = text.find('\n');
    return {text.substr(0, end), text.substr(end + 1)};
  }
};

/// A call, which ends when all have made it, or it is aborted.
Status start(OpaqueComm& c, DriverStream stream, std::string line, std::string bytes,
             const std::function<void(const std::vector<std::string>&)>& finish) {
  catch_up(stream);
  const std::lock_guard hold(c.busy);
  const Message mine{std::move(line), std::move(bytes)};
  std::vector<std::string> all;
  try {
    if (c.size == 1) {
      all = {mine.bytes};
    } else {
      c.stopped = true;
      if (!exchange(c, mine.text(), all)) return kInternal;
      for (std::string& text : all) {
        const Message m = Message::read(text);
        while (m.line != mine.line && !c.aborted) std::this_thread::sleep_for(kPoll);
        if (c.aborted) return kInternal;
        text = m.bytes;
      }
    }
    finish(all);
    c.stopped = false;
    return kSuccess;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "NCCL on the host: %s\n", e.what());
    return kInternal;
  }
}

std::string bytes_of(const void* from, size_t bytes) { return {static_cast<const char*>(from), bytes}; }

template <class T>
T combined(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kSum:
      return static_cast<T>(a + b);
    case ReduceOp::kProduct:
      return static_cast<T>(a * b);
    case ReduceOp::kMax:
      return std::max(a, b);
    default:
      return std::min(a, b);
  }
}

template <class T>
T rounded(float x) {
  if constexpr (std::is_same_v<T, Float16>) return to_float16(x);
  if constexpr (std::is_same_v<T, BFloat16>) return to_bfloat16(x);
}

template <class T>
void add(void* to, const void* from, size_t count, ReduceOp op) {
  auto* const a = static_cast<T*>(to);
  const auto* const b = static_cast<const T*>(from);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_arithmetic_v<T>) {
      a[i] = combined(op, a[i], b[i]);
    } else {
      a[i] = rounded<T>(combined(op, to_float(a[i]), to_float(b[i])));
    }
  }
}

void reduce_into(void* to, const void* from, size_t count, Type type, ReduceOp op) {
  switch (type) {
    case Type::kInt8:
      return add<int8_t>(to, from, count, op);
    case Type::kUInt8:
      return add<uint8_t>(to, from, count, op);
    case Type::kInt32:
      return add<int32_t>(to, from, count, op);
    case Type::kUInt32:
      return add<uint32_t>(to, from, count, op);
    case Type::kInt64:
      return add<int64_t>(to, from, count, op);
    case Type::kUInt64:
      return add<uint64_t>(to, from, count, op);
    case Type::kFloat16:
      return add<Float16>(to, from, count, op);
    case Type::kBFloat16:
      return add<BFloat16>(to, from, count, op);
    case Type::kFloat32:
      return add<float>(to, from, count, op);
    case Type::kFloat64:
      return add<double>(to, from, count, op);
  }
}

std::string line_of(const char* name, size_t count, Type type, int more) {
  std::ostringstream out;
  out << name << ' ' << count << ' ' << static_cast<int>(type) << ' ' << more;
  return out.str();
}

/// All ranks' values from `at` on, reduced in the order of ranks.
std::string reduced(const std::vector<std::string>& all, size_t at, size_t count, Type type, ReduceOp op) {
  std::string out = all[0].substr(at, count * item(type));
  for (size_t r = 1; r < all.size(); ++r) reduce_into(out.data(), all[r].data() + at, count, type, op);
  return out;
}

struct Transfer {
  bool sends;
  const void* from;
  void* to;
  size_t bytes;
  int peer;
};
/// The group of calls that this thread makes.
struct Grouped {
  int depth = 0;
  Comm comm = nullptr;
  DriverStream stream = nullptr;
  std::vector<Transfer> transfers;
};
thread_local Grouped t_group;

Status start_transfers() {
  Grouped g = std::exchange(t_group, {});
  if (!g.comm) return kSuccess;
  catch_up(g.stream);
  // For each peer how many bytes, and the bytes.
  std::string mine;
  for (int r = 0; r < g.comm->size; ++r) {
    std::string part;
    for (const Transfer& t : g.transfers) {
      if (t.sends && t.peer == r) part += bytes_of(t.from, t.bytes);
    }
    const uint64_t size = part.size();
    mine += bytes_of(&size, sizeof size) + part;
  }
  OpaqueComm& c = *g.comm;
  return start(c, g.stream, "exchange", mine, [&c, transfers = std::move(g.transfers)](const auto& all) {
    std::vector<std::string> coming;
    for (const std::string& text : all) {
      size_t at = 0;
      for (int r = 0;; ++r) {
        uint64_t size = 0;
        std::memcpy(&size, text.data() + at, sizeof size);
        at += sizeof size;
        if (r == c.rank) {
          coming.push_back(text.substr(at, size));
          break;
        }
        at += size;
      }
    }
    for (const Transfer& t : transfers) {
      if (t.sends) continue;
      std::string& from = coming[static_cast<size_t>(t.peer)];
      std::memcpy(t.to, from.data(), std::min(t.bytes, from.size()));
      from.erase(0, t.bytes);
    }
  });
}

Status add_transfer(Transfer t, Comm comm, DriverStream stream) {
  if (t.peer < 0 || t.peer >= comm->size || (t.sends ? !is_on_device(stream, t.from) : !is_on_device(stream, t.to))) {
    return kInvalidArgument;
  }
  t_group.comm = comm;
  t_group.stream = stream;
  t_group.transfers.push_back(t);
  return t_group.depth > 0 ? kSuccess : start_transfers();
}

}  // namespace

API Status ncclGetVersion(int* version) {
  *version = 22809;
  return kSuccess;
}
API const char* ncclGetErrorString(Status status) {
  return status == kInvalidArgument ? "invalid argument" : status == kInvalidUsage ? "invalid usage" : "internal error";
}
API const char* ncclGetLastError(Comm) { return ""; }

API Status ncclGetUniqueId(UniqueId* id) {
  std::random_device random;
  const fs::path folder =
      fs::temp_directory_path() / ("smolder_nccl_" + std::to_string(random()) + std::to_string(random()));
  fs::create_directory(folder);
  std::memset(id->bytes, 0, sizeof id->bytes);
  std::strncpy(id->bytes, folder.c_str(), sizeof id->bytes - 1);
  return kSuccess;
}

API Status ncclCommInitRankConfig(Comm* comm, int size, UniqueId id, int rank, Config* config) {
  if (config->magic != 0xcafebeef || config->size < sizeof(Config) || config->blocking != 1) return kInvalidArgument;
  if (rank < 0 || rank >= size) return kInvalidArgument;
  auto* const c = new OpaqueComm;
  c->rank = rank;
  c->size = size;
  c->folder = id.bytes;
  *comm = c;
  return start(*c, nullptr, "init " + std::to_string(size), {}, [](const auto&) {});
}
API Status ncclCommFinalize(Comm c) {
  return start(*c, nullptr, "finalize", {}, [](const auto&) {});
}
API Status ncclCommDestroy(Comm c) {
  leave(*c);
  delete c;
  return kSuccess;
}
API Status ncclCommAbort(Comm c) {
  c->aborted = true;
  const std::lock_guard hold(c->busy);
  std::error_code ignored;
  if (c->stopped) fs::remove(file_of(*c, c->calls, c->rank), ignored);  // it takes no part any more
  leave(*c);
  return kSuccess;  // who asks for its state later is told
}
API Status ncclCommGetAsyncError(Comm, Status* state) {
  *state = kSuccess;
  return kSuccess;
}

API Status ncclAllReduce(const void* from, void* to, size_t count, Type type, ReduceOp op, Comm c,
                         DriverStream stream) {
  if (!is_on_device(stream, from) || !is_on_device(stream, to)) return kInvalidArgument;
  catch_up(stream);
  return start(*c, stream, line_of("all_reduce", count, type, static_cast<int>(op)), bytes_of(from, count * item(type)),
               [=](const auto& all) {
                 const std::string out = reduced(all, 0, count, type, op);
                 std::memcpy(to, out.data(), out.size());
               });
}
API Status ncclReduce(const void* from, void* to, size_t count, Type type, ReduceOp op, int root, Comm c,
                      DriverStream stream) {
  if (!is_on_device(stream, from) || root < 0 || root >= c->size) return kInvalidArgument;
  catch_up(stream);
  return start(*c, stream, line_of("reduce", count, type, static_cast<int>(op) * 1000 + root),
               bytes_of(from, count * item(type)), [=](const auto& all) {
                 if (c->rank != root) return;
                 const std::string out = reduced(all, 0, count, type, op);
                 std::memcpy(to, out.data(), out.size());
               });
}
API Status ncclBroadcast(const void* from, void* to, size_t count, Type type, int root, Comm c, DriverStream stream) {
  if (!is_on_device(stream, to) || root < 0 || root >= c->size) return kInvalidArgument;
  catch_up(stream);
  return start(*c, stream, line_of("broadcast", count, type, root),
               c->rank == root ? bytes_of(from, count * item(type)) : std::string(),
               [=](const auto& all) { std::memcpy(to, all[static_cast<size_t>(root)].data(), count * item(type)); });
}
API Status ncclAllGather(const void* from, void* to, size_t count, Type type, Comm c, DriverStream stream) {
  if (!is_on_device(stream, from) || !is_on_device(stream, to)) return kInvalidArgument;
  catch_up(stream);
  const size_t bytes = count * item(type);
  return start(*c, stream, line_of("all_gather", count, type, 0), bytes_of(from, bytes), [=](const auto& all) {
    for (size_t r = 0; r < all.size(); ++r) std::memcpy(static_cast<char*>(to) + r * bytes, all[r].data(), bytes);
  });
}
API Status ncclReduceScatter(const void* from, void* to, size_t count, Type type, ReduceOp op, Comm c,
                             DriverStream stream) {
  if (!is_on_device(stream, from) || !is_on_device(stream, to)) return kInvalidArgument;
  catch_up(stream);
  const size_t bytes = count * item(type);
  return start(*c, stream, line_of("reduce_scatter", count, type, static_cast<int>(op)),
               bytes_of(from, bytes * static_cast<size_t>(c->size)), [=](const auto& all) {
                 const std::string out = reduced(all, static_cast<size_t>(c->rank) * bytes, count, type, op);
                 std::memcpy(to, out.data(), out.size());
               });
}
API Status ncclSend(const void* from, size_t count, Type type, int peer, Comm c, DriverStream stream) {
  return add_transfer({true, from, nullptr, count * item(type), peer}, c, stream);
}
API Status ncclRecv(void* to, size_t count, Type type, int peer, Comm c, DriverStream stream) {
  return add_transfer({false, nullptr, to, count * item(type), peer}, c, stream);
}
API Status ncclGroupStart() {
  ++t_group.depth;
  return kSuccess;
}
API Status ncclGroupEnd() {
  if (t_group.depth == 0) return kInvalidUsage;
  return --t_group.depth > 0 ? kSuccess : start_transfers();
}

#define SAME_TYPE(member, name, parameters) static_assert(std::is_same_v<decltype(&name), Status(*) parameters>);
SMOLDER_NCCL(SAME_TYPE)

}  // namespace smolder::distributed::nccl
