#include "smolder/nn/optim.h"

#include "smolder/core/buffer.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/memory_history.h"
#include "smolder/lazy/capture.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"
#include "smolder/lazy/step_undo.h"
#include "smolder/lazy/tape.h"

namespace smolder::optim {

Optimizer::Optimizer(std::vector<Tensor> parameters) : parameters_(std::move(parameters)) {
  SMOLDER_CHECK(!parameters_.empty(), ValueError, "optimizer got an empty parameter list");
}

void Optimizer::step() {
  lazy::StepUndo::settle();
  lazy::Tape::note_undo(
      [alive = std::weak_ptr<const char>(alive_), restore = kept_state()] {
        if (!alive.expired()) restore();
      },
      true);
  {
    const lazy::GradMode off(false);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Tensor grad = parameters_[i].grad();
      if (grad.defined()) update(i, parameters_[i], grad);
    }
  }
  step_boundary("optimizer.step");
}

void Optimizer::zero_grad() {
  for (Tensor& t : parameters_) t.set_grad({});
}

namespace {

void check_not_negative(const char* name, double v) {
  SMOLDER_CHECK(v >= 0, ValueError, "Invalid ", name, ": ", v, "; it must not be negative");
}

}  // namespace

Tensor zero_state(const Tensor& parameter) {
  const Device device = parameter.device();
  if (device != DeviceType::kCUDA || lazy::Capture::current()) return zeros_like(parameter);
  try {
    const MemoryFor use("zeros_like", capture_source());
    const size_t bytes = static_cast<size_t>(parameter.numel()) * itemsize(parameter.dtype());
    BufferRef memory = allocate(bytes, device);
    cuda::fill(cuda::Queue::of(device.index).stream(), memory->data(), 0, bytes);
    return Tensor::from_buffer(std::move(memory), parameter.shape(), parameter.dtype());
  } catch (const OutOfMemoryError&) {  // the step fails as a whole, then, and not with some parameters recorded
    return zeros_like(parameter);
  }
}

SGD::SGD(std::vector<Tensor> parameters, SGDOptions o)
    : Optimizer(std::move(parameters)), options(o), buffers_(parameters_.size()) {
  check_not_negative("learning rate", o.lr);
  check_not_negative("momentum value", o.momentum);
  check_not_negative("weight_decay value", o.weight_decay);
  SMOLDER_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0), ValueError,
                "Nesterov momentum requires a momentum and zero dampening");
}

std::function<void()> SGD::kept_state() {
  return [this, buffers = buffers_] { buffers_ = buffers; };
}

void SGD::update(size_t i, Tensor& parameter, const Tensor& grad) {
  const SGDOptions& o = options;
  const auto [next, buffer] =
      sgd_step(parameter, grad, buffers_[i], o.lr, o.momentum, o.dampening, o.weight_decay, o.nesterov, o.maximize);
  lazy::assign(parameter, next);
  if (o.momentum == 0) return;
  if (buffers_[i].defined()) {
    lazy::assign(buffers_[i], buffer);
  } else {
    buffers_[i] = buffer;
  }
}

Adam::Adam(std::vector<Tensor> parameters, AdamOptions o) : Adam(std::move(parameters), o, false) {}
AdamW::AdamW(std::vector<Tensor> parameters, AdamOptions o) : Adam(std::move(parameters), o, true) {}

Adam::Adam(std::vector<Tensor> parameters, AdamOptions o, bool decoupled)
    : Optimizer(std::move(parameters)), options(o), decoupled_(decoupled), state_(parameters_.size()) {
  check_not_negative("learning rate", o.lr);
  check_not_negative("epsilon value", o.eps);
  check_not_negative("weight_decay value", o.weight_decay);
  for (double beta : {o.beta1, o.beta2}) {
    SMOLDER_CHECK(0 <= beta && beta < 1, ValueError, "Invalid beta parameter: ", beta, "; it must be in [0, 1)");
  }
}

void update_adam(const Tensor& parameter, const Tensor& grad, const Tensor& mean, const Tensor& square,
                 const Tensor& largest, const AdamOptions& o, const lazy::Operand& step, bool decoupled,
                 const Tensor& skip) {
  const auto [next, next_mean, next_square, next_largest] =
      decoupled ? adamw_step(parameter, grad, mean, square, largest, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay,
                             step, o.maximize)
                : adam_step(parameter, grad, mean, square, largest, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, step,
                            o.maximize);
  const auto write = [&](const Tensor& to, const Tensor& value) {
    lazy::assign(to, skip.defined() ? where(skip, to, value) : value);
  };
  write(parameter, next);
  write(mean, next_mean);
  write(square, next_square);
  if (largest.defined()) write(largest, next_largest);
}

std::function<void()> Adam::kept_state() {
  return [this, state = state_] { state_ = state; };
}

void Adam::update(size_t i, Tensor& parameter, const Tensor& grad) {
  const AdamOptions& o = options;
  State& s = state_[i];
  if (!s.mean.defined()) {
    s.mean = zero_state(parameter);
    s.square = zero_state(parameter);
    if (o.amsgrad) s.largest = zero_state(parameter);
  }
  update_adam(parameter, grad, s.mean, s.square, s.largest, o, Scalar(++s.step), decoupled_);
}

RMSprop::RMSprop(std::vector<Tensor> parameters, RMSpropOptions o)
    : Optimizer(std::move(parameters)), options(o), state_(parameters_.size()) {
  check_not_negative("learning rate", o.lr);
  check_not_negative("epsilon value", o.eps);
  check_not_negative("momentum value", o.momentum);
  check_not_negative("weight_decay value", o.weight_decay);
  check_not_negative("alpha value", o.alpha);
}

std::function<void()> RMSprop::kept_state() {
  return [this, state = state_] { state_ = state; };
}

void RMSprop::update(size_t i, Tensor& parameter, const Tensor& grad) {
  const RMSpropOptions& o = options;
  State& s = state_[i];
  if (!s.square.defined()) s.square = zero_state(parameter);
  if (o.centered && !s.average.defined()) s.average = zero_state(parameter);
  if (o.momentum > 0 && !s.momentum.defined()) s.momentum = zero_state(parameter);
  const Tensor average = o.centered ? s.average : Tensor(), buffer = o.momentum > 0 ? s.momentum : Tensor();
  const auto [next, square, next_average, next_buffer] = rmsprop_step(
      parameter, grad, s.square, average, buffer, o.lr, o.alpha, o.eps, o.weight_decay, o.momentum, o.maximize);
  lazy::assign(parameter, next);
  lazy::assign(s.square, square);
  if (average.defined()) lazy::assign(s.average, next_average);
  if (buffer.defined()) lazy::assign(s.momentum, next_buffer);
}

Adagrad::Adagrad(std::vector<Tensor> parameters, AdagradOptions o)
    : Optimizer(std::move(parameters)), options(o), steps_(parameters_.size()) {
  check_not_negative("learning rate", o.lr);
  check_not_negative("lr_decay value", o.lr_decay);
  check_not_negative("weight_decay value", o.weight_decay);
  check_not_negative("initial_accumulator_value value", o.initial_accumulator_value);
  check_not_negative("epsilon value", o.eps);
  for (const Tensor& p : parameters_) sums_.push_back(full_like(p.detach(), o.initial_accumulator_value));
}

std::function<void()> Adagrad::kept_state() {
  return [this, sums = sums_, steps = steps_] {
    sums_ = sums;
    steps_ = steps;
  };
}

void Adagrad::update(size_t i, Tensor& parameter, const Tensor& grad) {
  const AdagradOptions& o = options;
  const auto [next, sum] =
      adagrad_step(parameter, grad, sums_[i], o.lr, o.lr_decay, o.eps, o.weight_decay, ++steps_[i], o.maximize);
  lazy::assign(parameter, next);
  lazy::assign(sums_[i], sum);
}

}  // namespace smolder::optim
