// The modes of a thread: whether it records gradients, runs ops at once, and where it makes tensors.
#pragma once

#include "smolder/core/device.h"
#include "smolder/lazy/lock.h"
#include "smolder/lazy/tensor.h"

namespace smolder::lazy {

struct Modes {
  bool grad = true;
  bool eager = false;
  bool inference = false;
  Device device;
};
/// Those of the calling thread, for the functions below.
extern SMOLDER_THREAD_LOCAL Modes t_modes;

inline bool grad_enabled() { return t_modes.grad; }
inline void set_grad_enabled(bool on) { t_modes.grad = on; }
/// In inference mode, which turns gradients off too, new tensors are marked as none that a gradient may need.
inline bool inference_mode_enabled() { return t_modes.inference; }
inline void set_inference_mode_enabled(bool on) { t_modes.inference = on; }
inline bool eager_enabled() { return t_modes.eager; }
inline void set_eager_enabled(bool on) { t_modes.eager = on; }

/// Where ops without tensor operands make their results: the CPU at first. Of each thread. Where it was set to
/// `kCurrentCuda` it is the device of CUDA that is the current one then.
Device creation_device();
/// The same as it was set.
Device creation_mode();
void set_creation_device(Device device);
inline constexpr Device kCurrentCuda{DeviceType::kCUDA, -1};
class DeviceMode {
 public:
  explicit DeviceMode(Device device);
  /// The device of an operand, or of the first of a list: what an op makes besides lies where its operands do.
  explicit DeviceMode(const Tensor& operand);
  explicit DeviceMode(TensorList operands);
  ~DeviceMode();
  DeviceMode(const DeviceMode&) = delete;

 private:
  Device before_;
};

/// Sets a thread-local mode for a scope.
class GradMode {
 public:
  explicit GradMode(bool on) : before_(grad_enabled()) { set_grad_enabled(on); }
  ~GradMode() { set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};
class EagerMode {
 public:
  explicit EagerMode(bool on = true) : before_(eager_enabled()) { set_eager_enabled(on); }
  ~EagerMode() { set_eager_enabled(before_); }
  EagerMode(const EagerMode&) = delete;

 private:
  bool before_;
};

}  // namespace smolder::lazy
