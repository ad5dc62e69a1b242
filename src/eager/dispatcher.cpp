#include "smolder/eager/dispatcher.h"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/core/fork.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/ir/user_op.h"

namespace smolder::eager {
namespace {

/// The table. Reading takes no lock: a place is two words, and kernels are never freed, because a call may
/// be running the one being replaced. Never destroyed: kernels may be called from static destructors.
class Table {
 public:
  static Table& get() {
    static Table* table = new Table;
    return *table;
  }

  std::atomic<uint64_t> generation{0};

  const Kernel* find(DispatchKey key, ir::Op op) const {
    const Place* const p = place(key, op);
    return p ? p->kernel.load(std::memory_order_acquire) : nullptr;
  }

  ir::Op resolve(DispatchKey key, ir::Op op) const {
    const Place* const p = place(key, op);
    const uint16_t other = p ? p->stand_in.load(std::memory_order_acquire) : 0;
    return other ? static_cast<ir::Op>(other) : op;
  }

  /// Stores `kernel` (null when empty) where `may_replace` or nothing was there; returns what was.
  const Kernel* put(DispatchKey key, ir::Op op, Kernel kernel, bool may_replace) {
    std::lock_guard hold(lock_);
    const Kernel* before = find(key, op);
    if (before && !may_replace) {
      raise<ValueError>("there is a kernel for ", ir::name(op), " on ", name_of(key),
                        " already; use override_kernel to replace it");
    }
    const Kernel* now = nullptr;
    if (kernel) now = kernels_.emplace_back(std::make_unique<Kernel>(std::move(kernel))).get();
    writable(key, op).kernel.store(now, std::memory_order_release);
    if (before || !ir::is_user_op(op)) ++generation;
    return before;
  }

  ir::Op add_override(DispatchKey key, ir::Op op, Kernel kernel) {
    const ir::Op stand_in = ir::register_stand_in(op);
    put(key, stand_in, std::move(kernel), false);
    std::lock_guard hold(lock_);
    overrides_[{key, op}].push_back(stand_in);
    settle(key, op);
    return stand_in;
  }

  void remove_override(DispatchKey key, ir::Op op, ir::Op stand_in) {
    std::lock_guard hold(lock_);
    std::erase(overrides_[{key, op}], stand_in);
    settle(key, op);
  }

  std::string name(DispatchKey key) {
    std::lock_guard hold(lock_);
    return name_of(key);
  }

  DispatchKey add_key(std::string name) {
    std::lock_guard hold(lock_);
    SMOLDER_CHECK(!name.empty(), ValueError, "a backend needs a name");
    SMOLDER_CHECK(find_name(name) < 0, ValueError, "there is a backend named ", name, " already");
    SMOLDER_CHECK(names_.size() < kMaxDispatchKeys, ValueError, "cannot add backend ", name, ": there are ",
                  kMaxDispatchKeys, " already");
    names_.push_back(std::move(name));
    return static_cast<DispatchKey>(names_.size() - 1);
  }

  DispatchKey find_key(std::string_view name) {
    std::lock_guard hold(lock_);
    const int found = find_name(name);
    if (found >= 0) return static_cast<DispatchKey>(found);
    std::string known;
    for (const std::string& n : names_) known += (known.empty() ? "" : ", ") + n;
    raise<ValueError>("no backend is named ", name, "; there are ", known);
  }

 private:
  struct Place {
    std::atomic<const Kernel*> kernel{nullptr};
    std::atomic<uint16_t> stand_in{0};  ///< the op that overrides; 0, which is a primitive, for none
  };
  static constexpr size_t kNumPlaces = ir::kNumOps + ir::kMaxUserOps;

  Table() {
    for (CpuKernel k : cpu_kernels()) {
      kernels_.push_back(std::make_unique<Kernel>(k.run));
      writable(DispatchKey::kCPU, k.op).kernel = kernels_.back().get();
    }
  }

  /// Null where nothing was ever put for `key`.
  const Place* place(DispatchKey key, ir::Op op) const {
    const auto column = static_cast<size_t>(key), row = static_cast<size_t>(op);
    SMOLDER_CHECK(column < kMaxDispatchKeys && row < kNumPlaces, ValueError, "no place for op ", row,
                  " and dispatch key ", column, " in the dispatch table");
    const Place* const places = columns_[column].load(std::memory_order_acquire);
    return places ? places + row : nullptr;
  }
  Place& writable(DispatchKey key, ir::Op op) {
    if (!place(key, op)) columns_[static_cast<size_t>(key)].store(new Place[kNumPlaces], std::memory_order_release);
    return const_cast<Place&>(*place(key, op));
  }
  /// Puts the latest override that is left in its place. Called under the lock.
  void settle(DispatchKey key, ir::Op op) {
    const std::vector<ir::Op>& list = overrides_[{key, op}];
    writable(key, op).stand_in.store(list.empty() ? 0 : static_cast<uint16_t>(list.back()), std::memory_order_release);
    ++generation;
  }

  std::string name_of(DispatchKey key) const {
    const auto i = static_cast<size_t>(key);
    return i < names_.size() ? names_[i] : "dispatch key " + std::to_string(i);
  }
  int find_name(std::string_view name) const {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return static_cast<int>(i);
    }
    return -1;
  }

  ForkMutex lock_;  ///< guards `kernels_`, `names_`, `overrides_` and writes to places
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<std::string> names_{"CPU", "CUDA"};
  std::map<std::pair<DispatchKey, ir::Op>, std::vector<ir::Op>> overrides_;
  std::array<std::atomic<Place*>, kMaxDispatchKeys> columns_{};
};

void append_operand(std::string& out, const TensorView& v) {
  out += out.empty() ? "" : ", ";
  if (!v.data && v.shape.empty() && !v.weak) {
    out += "none";
  } else {
    out += (v.weak ? "number " : "") + std::string(name(v.dtype)) + to_string(v.shape);
  }
}

/// Types of devices with memory of their own and their columns, by either.
std::array<std::atomic<DispatchKey>, kMaxDeviceTypes> g_key_of{};
std::array<std::atomic<DeviceType>, kMaxDispatchKeys> g_type_of{};

}  // namespace

DispatchKey dispatch_key(Device d) {
  if (d.type == DeviceType::kCPU) return DispatchKey::kCPU;
  return d.type == DeviceType::kCUDA ? DispatchKey::kCUDA : g_key_of[static_cast<size_t>(d.type)].load();
}

Device device_of(DispatchKey key) {
  if (key == DispatchKey::kCUDA) return {DeviceType::kCUDA, 0};
  return {g_type_of[static_cast<size_t>(key)].load(), 0};
}

DispatchKey add_device(std::string name, DeviceMemory memory) {
  const DeviceType type = register_device_type(name, std::move(memory));
  const DispatchKey key = add_dispatch_key(std::move(name));
  g_key_of[static_cast<size_t>(type)] = key;
  g_type_of[static_cast<size_t>(key)] = type;
  return key;
}

std::string name(DispatchKey key) { return Table::get().name(key); }
DispatchKey add_dispatch_key(std::string name) { return Table::get().add_key(std::move(name)); }
DispatchKey find_dispatch_key(std::string_view name) { return Table::get().find_key(name); }

void register_kernel(DispatchKey key, ir::Op op, Kernel kernel) {
  SMOLDER_CHECK(kernel, ValueError, "the kernel for ", ir::name(op), " is empty");
  Table::get().put(key, op, std::move(kernel), false);
}

Kernel override_kernel(DispatchKey key, ir::Op op, Kernel kernel) {
  const Kernel* before = Table::get().put(key, op, std::move(kernel), true);
  return before ? *before : Kernel();
}

ir::Op add_override(DispatchKey key, ir::Op op, Kernel kernel) {
  SMOLDER_CHECK(kernel, ValueError, "the kernel for ", ir::name(op), " is empty");
  return Table::get().add_override(key, op, std::move(kernel));
}

void remove_override(DispatchKey key, ir::Op op, ir::Op stand_in) { Table::get().remove_override(key, op, stand_in); }
ir::Op resolve(DispatchKey key, ir::Op op) { return Table::get().resolve(key, op); }
uint64_t dispatch_generation() { return Table::get().generation.load(std::memory_order_acquire); }

const Kernel* find_kernel(DispatchKey key, ir::Op op) { return Table::get().find(key, op); }

void dispatch(DispatchKey key, const KernelCall& call) {
  const Kernel* kernel = find_kernel(key, call.op);
  SMOLDER_CHECK(kernel, NotImplementedError, "there is no ", name(key), " kernel for ", ir::name(call.op), "(",
                describe(call), "); register one with register_kernel, or run the op on the CPU");
  (*kernel)(call);
}

std::string describe(const KernelCall& call) {
  std::string out;
  for (const TensorView& v : call.inputs) append_operand(out, v);
  return out;
}

}  // namespace smolder::eager
