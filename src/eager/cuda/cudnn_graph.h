// Graphs of cuDNN's operations, and plans that run them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"
#include "smolder/core/error.h"
#include "smolder/eager/cuda/cudnn.h"

namespace smolder::eager::cuda {

/// An object of cuDNN's, which is set, then finalized, then used.
class DnnDescriptor {
 public:
  explicit DnnDescriptor(DnnKind kind);
  ~DnnDescriptor();
  DnnDescriptor(DnnDescriptor&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  DnnDescriptor& operator=(DnnDescriptor&&) = delete;
  DnnObject object() const { return object_; }

  template <class T>
  void set(DnnAttribute attribute, DnnType type, std::span<const T> values) {
    check_dnn(cudnn().object_set(object_, attribute, type, static_cast<int64_t>(values.size()), values.data()), "set");
  }
  template <class T>
  void set(DnnAttribute attribute, DnnType type, const T& value) {
    set(attribute, type, std::span<const T>(&value, 1));
  }
  void set(DnnAttribute attribute, const DnnDescriptor& other) { set(attribute, DnnType::kObject, other.object_); }
  void set(DnnAttribute attribute, const Dims& list) {
    set(attribute, DnnType::kInt64, std::span<const int64_t>(list));
  }
  void finalize() { check_dnn(cudnn().object_finalize(object_), "finalize"); }

 private:
  DnnObject object_ = nullptr;
};

/// The target of a plan: a device, or what cuDNN's text says of one, for tests without it.
class DnnTarget {
 public:
  static const DnnTarget& of(int device);
  explicit DnnTarget(const std::string& text);

  DnnHandle handle = nullptr;                ///< of a device
  std::optional<DnnDescriptor> description;  ///< else
  int device = -1;

 private:
  DnnTarget() = default;
};

/// The liberties of a plan.
struct DnnAllowed {
  bool tf32 = false;              ///< multiply float32 as TensorFloat32
  bool nondeterministic = false;  ///< give other bits in each run
  bool timed = false;             ///< be chosen by a race on the device, not by cuDNN's heuristic
};
/// The liberties that the settings of the process give. By default, bits are the same in each run; that they may differ
/// has to be asked for, by `benchmark` without `deterministic`.
DnnAllowed dnn_allowed();

/// Work that cuDNN runs. Thread-safe.
class DnnPlan {
 public:
  DnnPlan(const DnnTarget& target, const DnnDescriptor& config, std::vector<int64_t> ids);
  int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Queues it. `data`: addresses of the tensors that are in memory, and on the host of numbers, in the order in which
  /// the graph was given them.
  void run(std::span<void* const> data, void* workspace, DriverStream stream) const;

 private:
  const DnnTarget& target_;
  DnnDescriptor plan_{DnnKind::kPlan};
  std::vector<int64_t> ids_;
  int64_t workspace_bytes_ = 0;
};

DnnData dnn_data(DType dtype);

/// Operations on tensors, to be run as a whole. Sums are in float32.
class DnnGraph {
 public:
  using Tensor = int;

  /// One in memory, which starts at a multiple of 16 bytes.
  Tensor tensor(DnnData data, const Dims& shape, const Dims& strides);
  /// A float32 that the host gives each run.
  Tensor number(int rank);
  /// One that only the graph knows.
  Tensor inner(DnnData data, const Dims& shape, const Dims& strides);
  Tensor inner(DnnData data, const Dims& shape) { return inner(data, shape, contiguous_strides(shape)); }

  /// One of the three: of images `x`, filters `w` and what comes out, `y`, that which is computed is the kind's.
  void convolution(DnnKind kind, Tensor x, Tensor w, Tensor y, const Dims& stride, const Dims& padding,
                   const Dims& dilation);
  void matmul(Tensor a, Tensor b, Tensor c);
  void reduce(DnnReduction how, Tensor x, Tensor y);
  /// y = f(x), f(x, b), or for `kSelect` x where the condition holds, else b.
  void pointwise(DnnPointwise mode, Tensor x, Tensor y, std::optional<Tensor> b = {},
                 std::optional<Tensor> condition = {});
  /// y is each element's position along an axis of x.
  void index(Tensor x, Tensor y, int64_t axis);
  void reshape(Tensor x, Tensor y);

  /// The plan that cuDNN's heuristic has first of those that are allowed; null where cuDNN has none, which is counted
  /// (cudnn.refused).
  std::shared_ptr<const DnnPlan> plan(const DnnTarget& target, const DnnAllowed& allowed) const;

 private:
  struct Info {
    DnnData data;
    Dims shape, strides;
    bool in_memory, is_number;
  };
  Tensor add(const Info& info);
  DnnDescriptor& operation(DnnKind kind);
  bool allows(const DnnDescriptor& config, const DnnAllowed& allowed) const;
  std::vector<DnnDescriptor> configs(const DnnTarget& target, DnnHeuristic mode) const;
  double milliseconds(const DnnPlan& plan, std::span<void* const> data, int device) const;
  std::shared_ptr<const DnnPlan> fastest(std::vector<std::shared_ptr<const DnnPlan>> plans, int device) const;

  std::vector<Info> infos_;
  std::vector<DnnDescriptor> tensors_, parts_, operations_;
  std::vector<int64_t> ids_;  ///< of those that a run is given
};

/// The plan of that key, made as the settings of the process allow; the same one while anybody has it. Null where there
/// is no cuDNN, where it is not enabled, and where `make` gives none.
using DnnMaker = std::function<std::shared_ptr<const DnnPlan>(const DnnTarget&, const DnnAllowed&)>;
std::shared_ptr<const DnnPlan> dnn_plan(int device, std::vector<int64_t> key, const DnnMaker& make);

}  // namespace smolder::eager::cuda
