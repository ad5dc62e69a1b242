#include "smolder/lazy/autocast.h"

#include <unordered_map>

#include "smolder/core/error.h"
#include "smolder/core/per_thread.h"
#include "smolder/lazy/modes.h"
#include "smolder/lazy/ops.h"  // generated

namespace smolder {
namespace {

constexpr int kTypes = 2;  // of devices that know autocast: the CPU and CUDA

/// A weight's cast, and the weight, which so keeps its address to itself.
struct Kept {
  Tensor weight, cast;
  uint32_t version;
  const lazy::Value* value;  ///< that was cast, to tell it from what took its place

  bool holds(DType to) const {
    return version == weight.impl()->version && value == weight.impl()->value.get() && cast.dtype() == to;
  }
};

struct State {
  DType dtypes[kTypes] = {DType::kBFloat16, DType::kFloat16};
  bool cache_enabled = true;
  int nesting = 0;
  std::unordered_map<const lazy::TensorImpl*, Kept> kept;
};
State& state() {
  static const PerThread<State> states;
  return *states;
}

int checked(DeviceType type) {
  SMOLDER_CHECK(is_autocast_available(type), RuntimeError,
                "unknown device type for autocast: ", to_string(Device{type, 0}));
  return static_cast<int>(type);
}

constexpr std::string_view kRefusal =
    "smolder.nn.functional.binary_cross_entropy and smolder.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using smolder.nn.functional.binary_cross_entropy_with_logits\n"
    "or smolder.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast.";

/// The cast of a weight, made once a region: layers that share it share the cast, and its gradients are added in the
/// dtype of the region. It has a history even where the first use has none. A weight that was written since is cast
/// anew.
Tensor cast_of_weight(const Tensor& weight, DType to) {
  State& s = state();
  const auto at = s.kept.find(weight.impl());
  if (at != s.kept.end() && at->second.holds(to)) return at->second.cast;
  const lazy::GradMode on(true);
  Tensor cast = weight.to(to);
  s.kept.insert_or_assign(weight.impl(), Kept{weight, cast, weight.impl()->version, weight.impl()->value.get()});
  return cast;
}

/// Whether a cast of `t` is kept. Memory that somebody else sees may be written without anybody's noting it.
bool is_weight(const Tensor& t) {
  const lazy::TensorImpl* const impl = t.impl();
  return t.dtype() == DType::kFloat32 && impl->requires_grad && t.is_leaf() && (!impl->base || impl->detached) &&
         !impl->value->external && !lazy::inference_mode_enabled();
}

}  // namespace

AutocastMode::AutocastMode(DeviceType type, std::optional<DType> dtype, bool enabled, std::optional<bool> cache_enabled)
    : type_(type),
      dtype_(get_autocast_dtype(type)),
      enabled_(is_autocast_enabled(type)),
      cache_enabled_(is_autocast_cache_enabled()) {
  const DType lower = dtype.value_or(dtype_);
  SMOLDER_CHECK(!enabled || lower == DType::kBFloat16 || lower == DType::kFloat16, ValueError,
                "autocast supports the dtypes bfloat16 and float16, got ", name(lower));
  set_autocast_enabled(type, enabled);
  set_autocast_dtype(type, lower);
  autocast_increment_nesting();
  if (cache_enabled) set_autocast_cache_enabled(*cache_enabled);
}

AutocastMode::~AutocastMode() {
  if (autocast_decrement_nesting() == 0) clear_autocast_cache();
  set_autocast_enabled(type_, enabled_);
  set_autocast_dtype(type_, dtype_);
  set_autocast_cache_enabled(cache_enabled_);
}

bool is_autocast_available(DeviceType type) { return static_cast<int>(type) < kTypes; }
bool is_autocast_enabled(DeviceType type) {
  return is_autocast_available(type) && (lazy::NoAutocast::on() >> static_cast<int>(type) & 1);
}
void set_autocast_enabled(DeviceType type, bool on) {
  const auto bit = static_cast<uint8_t>(1 << checked(type));
  uint8_t& all = lazy::NoAutocast::on_;
  all = on ? all | bit : all & ~bit;
}
DType get_autocast_dtype(DeviceType type) { return state().dtypes[checked(type)]; }
void set_autocast_dtype(DeviceType type, DType dtype) { state().dtypes[checked(type)] = dtype; }
bool is_autocast_cache_enabled() { return state().cache_enabled; }
void set_autocast_cache_enabled(bool on) { state().cache_enabled = on; }
int autocast_increment_nesting() { return ++state().nesting; }
int autocast_decrement_nesting() { return --state().nesting; }
void clear_autocast_cache() { state().kept.clear(); }

namespace lazy {

SMOLDER_THREAD_LOCAL uint8_t NoAutocast::on_ = 0;
SMOLDER_THREAD_LOCAL uint8_t AutocastCall::applied_ = 0;

bool AutocastCall::applies() {
  if (seen_.empty()) return false;
  const DeviceType type = seen_[0]->value->device.type;
  if (!smolder::is_autocast_enabled(type)) return false;
  const CastRule rule = type == DeviceType::kCPU ? rules_.cpu : rules_.cuda;
  if (rule == CastRule::kNone) return false;
  SMOLDER_CHECK(rule != CastRule::kRefused, RuntimeError, kRefusal);
  device_ = type;
  if (rule == CastRule::kLower) to_ = get_autocast_dtype(type);
  if (rule == CastRule::kFloat32) to_ = DType::kFloat32;
  if (rule == CastRule::kWidest) to_ = widest();
  const auto bit = static_cast<uint8_t>(1 << static_cast<int>(type));
  NoAutocast::on_ &= static_cast<uint8_t>(~bit);
  applied_ |= bit;
  return true;
}

AutocastCall::~AutocastCall() {
  if (!device_) return;
  smolder::set_autocast_enabled(*device_, true);
  applied_ &= static_cast<uint8_t>(~(1 << static_cast<int>(*device_)));
}

bool AutocastCall::eligible(const TensorImpl* impl) const {
  const DType dtype = impl->value->meta->dtype;
  return impl->value->device == *device_ && category(dtype) == Category::kFloat && dtype != DType::kFloat64;
}

DType AutocastCall::widest() const {
  const DType lower = get_autocast_dtype(*device_);
  DType out = lower;
  for (const TensorImpl* const impl : seen_) {
    if (!eligible(impl)) continue;
    const DType next = impl->value->meta->dtype;
    SMOLDER_CHECK(next == DType::kFloat32 || out == DType::kFloat32 || next == lower, RuntimeError,
                  "Unexpected floating ScalarType in at::autocast::prioritize");
    if (next == DType::kFloat32) out = next;
  }
  return out;
}

Tensor AutocastCall::cast(const Tensor& t) {
  if (!to_ || !t.defined() || !eligible(t.impl()) || t.dtype() == *to_) return t;
  if (*to_ == get_autocast_dtype(*device_) && is_autocast_cache_enabled() && is_weight(t))
    return cast_of_weight(t, *to_);
  return t.to(*to_);
}

Operand AutocastCall::cast(const Operand& o) {
  if (o.kind() != Operand::kTensor) return o;
  kept_.push_back(cast(Tensor(o.impl())));
  return kept_.back();
}

TensorList AutocastCall::cast(TensorList list) {
  for (size_t i = 0; i < list.size(); ++i) list_.push_back(cast(list.data()[i]));
  return list_;
}

}  // namespace lazy
}  // namespace smolder
