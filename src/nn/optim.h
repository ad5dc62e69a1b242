// Optimizers. A step records one whole op a parameter; the compiler makes a few kernels of all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "smolder/lazy/record.h"
#include "smolder/lazy/tensor.h"

namespace smolder::optim {

/// Base: the parameters and their gradients.
class Optimizer {
 public:
  explicit Optimizer(std::vector<Tensor> parameters);
  virtual ~Optimizer() = default;
  /// Updates every parameter that has a gradient, in place, and ends a step of the trace unless the program
  /// marks its steps itself.
  void step();
  /// Forgets the gradients.
  void zero_grad();

 protected:
  virtual void update(size_t i, Tensor& parameter, const Tensor& grad) = 0;
  /// Returns a function that gives the state of parameters back as it is now: a step that fails changes nothing.
  virtual std::function<void()> kept_state() = 0;
  std::vector<Tensor> parameters_;

 private:
  const std::shared_ptr<const char> alive_ = std::make_shared<const char>();
};

/// The initial state of a parameter: zeros like it. On CUDA they are in memory at once: the kernels of the first
/// step are those of all others then, and are compiled once.
Tensor zero_state(const Tensor& parameter);

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};
/// torch.optim.SGD.
class SGD : public Optimizer {
 public:
  SGD(std::vector<Tensor> parameters, SGDOptions options);
  SGDOptions options;

 private:
  void update(size_t i, Tensor& parameter, const Tensor& grad) override;
  std::function<void()> kept_state() override;
  std::vector<Tensor> buffers_;
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false;
};
/// A step of one parameter, its `step`-th: it, its moments and, where it is defined, the largest square are written.
/// Weight decay adds to the gradient, or shrinks the parameter where it is `decoupled`. Where `skip`, a bool, is given
/// and true, all stay as they are.
void update_adam(const Tensor& parameter, const Tensor& grad, const Tensor& mean, const Tensor& square,
                 const Tensor& largest, const AdamOptions& options, const lazy::Operand& step, bool decoupled,
                 const Tensor& skip = {});
/// torch.optim.Adam: weight decay adds to the gradient.
class Adam : public Optimizer {
 public:
  Adam(std::vector<Tensor> parameters, AdamOptions options = {});
  AdamOptions options;

 protected:
  Adam(std::vector<Tensor> parameters, AdamOptions options, bool decoupled);

 private:
  struct State {
    Tensor mean, square, largest;
    int64_t step = 0;
  };
  void update(size_t i, Tensor& parameter, const Tensor& grad) override;
  std::function<void()> kept_state() override;
  bool decoupled_;
  std::vector<State> state_;
};
/// torch.optim.AdamW: weight decay shrinks the parameter. Default decay 0.01.
class AdamW : public Adam {
 public:
  AdamW(std::vector<Tensor> parameters, AdamOptions options = {.weight_decay = 1e-2});
};

struct RMSpropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false, maximize = false;
};
/// torch.optim.RMSprop.
class RMSprop : public Optimizer {
 public:
  RMSprop(std::vector<Tensor> parameters, RMSpropOptions options = {});
  RMSpropOptions options;

 private:
  struct State {
    Tensor square, average, momentum;
  };
  void update(size_t i, Tensor& parameter, const Tensor& grad) override;
  std::function<void()> kept_state() override;
  std::vector<State> state_;
};

struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false;
};
/// torch.optim.Adagrad.
class Adagrad : public Optimizer {
 public:
  Adagrad(std::vector<Tensor> parameters, AdagradOptions options = {});
  AdagradOptions options;

 private:
  void update(size_t i, Tensor& parameter, const Tensor& grad) override;
  std::function<void()> kept_state() override;
  std::vector<Tensor> sums_;
  std::vector<int64_t> steps_;
};

}  // namespace smolder::optim
