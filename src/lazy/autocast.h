// Autocast: within a region, ops get their operands in the dtypes that the lists of src/ir/autocast.toml say.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "smolder/core/device.h"
#include "smolder/core/dtype.h"
#include "smolder/lazy/lock.h"
#include "smolder/lazy/operand.h"
#include "smolder/lazy/tensor.h"

namespace smolder {

/// Turns autocast of a device type on or off for a scope of the calling thread. Casts of weights are kept for the
/// outermost scope.
class AutocastMode {
 public:
  /// `dtype` is bfloat16 or float16; that of the device type where it is not given. Throws RuntimeError for a device
  /// type that knows no autocast and ValueError for another dtype.
  explicit AutocastMode(DeviceType type, std::optional<DType> dtype = {}, bool enabled = true,
                        std::optional<bool> cache_enabled = {});
  ~AutocastMode();
  AutocastMode(const AutocastMode&) = delete;

 private:
  DeviceType type_;
  DType dtype_;
  bool enabled_, cache_enabled_;
};

/// Whether a device type knows autocast: the CPU and CUDA do.
bool is_autocast_available(DeviceType type);
/// The state of the calling thread. These throw RuntimeError for a device type that knows no autocast.
bool is_autocast_enabled(DeviceType type);
void set_autocast_enabled(DeviceType type, bool on);
DType get_autocast_dtype(DeviceType type);
void set_autocast_dtype(DeviceType type, DType dtype);
bool is_autocast_cache_enabled();
void set_autocast_cache_enabled(bool on);
/// How many regions the thread is in, after entering or leaving one.
int autocast_increment_nesting();
int autocast_decrement_nesting();
/// Forgets the casts of weights that are kept.
void clear_autocast_cache();

namespace lazy {

/// The treatment of an op's operands: see src/ir/autocast.toml.
enum class CastRule : uint8_t { kNone, kLower, kFloat32, kWidest, kRefused, kBelow };
struct CastRules {
  CastRule cpu = CastRule::kNone, cuda = CastRule::kNone;
};
/// Those of the row, or function of Python, that is called `name`.
CastRules cast_rules(std::string_view name);

/// The calling thread is in no region, for a scope.
class NoAutocast {
 public:
  NoAutocast() : before_(std::exchange(on_, 0)) {}
  ~NoAutocast() { on_ = before_; }
  NoAutocast(const NoAutocast&) = delete;
  /// Device types whose autocast is on in this thread, a bit each.
  static uint8_t on() { return on_; }

 private:
  friend class AutocastCall;
  friend void smolder::set_autocast_enabled(DeviceType type, bool on);
  static SMOLDER_THREAD_LOCAL uint8_t on_;  ///< one for all libraries of the process, so not inline
  uint8_t before_;
};
/// Whether calls have to ask for rules at all.
inline bool autocasting() { return NoAutocast::on() != 0; }

/// A call of an op that has rules: shown all operands, it says whether to call again with what it makes of them. Until
/// it is gone, what the op is made of is not cast.
class AutocastCall {
 public:
  explicit AutocastCall(CastRules rules) : rules_(rules) {}
  ~AutocastCall();
  AutocastCall(const AutocastCall&) = delete;

  /// Whether the calling thread is in a region of this device type, or in a call that applied its rules.
  static bool within(DeviceType type) { return (NoAutocast::on() | applied_) >> static_cast<int>(type) & 1; }

  void see(const Tensor& t) {
    if (t.defined()) seen_.push_back(t.impl());
  }
  void see(const Operand& o) {
    if (o.kind() == Operand::kTensor) seen_.push_back(o.impl());
  }
  void see(TensorList list) {
    for (size_t i = 0; i < list.size(); ++i) see(list.data()[i]);
  }
  /// Throws RuntimeError where the op is refused.
  bool applies();

  Tensor cast(const Tensor& t);
  Operand cast(const Operand& o);
  TensorList cast(TensorList list);

 private:
  bool eligible(const TensorImpl* impl) const;
  DType widest() const;

  static SMOLDER_THREAD_LOCAL uint8_t applied_;  ///< as NoAutocast::on_

  CastRules rules_;
  std::optional<DeviceType> device_;  ///< set where the call is made again
  std::optional<DType> to_;           ///< undefined where operands stay as they are
  std::vector<const TensorImpl*> seen_;
  std::vector<Tensor> kept_;  ///< that operands point to
  std::vector<Tensor> list_;
};

}  // namespace lazy
}  // namespace smolder
