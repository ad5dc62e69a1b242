// Ops of your own in C++: one with a CPU kernel and a gradient, one whose loop IR is written by hand, one made of other
// ops. See docs/custom_ops.md.
#include <cmath>
#include <cstdio>
#include <vector>

#include "smolder/autograd/engine.h"
#include "smolder/autograd/library.h"
#include "smolder/ir/value_ops.h"
#include "smolder/lazy/ops.h"

using smolder::OpHandle;
using smolder::Tensor;

namespace {

/// Calls f with the positions in x and y of each element of a rank-2 operand x of any strides.
template <class F>
void each(const smolder::eager::TensorView& x, F&& f) {
  const int64_t rows = x.shape[0], columns = x.shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) f(r * x.strides[0] + c * x.strides[1], r * columns + c);
  }
}

/// softsign(x) * scale: an eager kernel over the memory of operands, which may have any strides.
void scaled_softsign(const smolder::eager::KernelCall& call) {
  const auto* x = static_cast<const float*>(call.inputs[0].data);
  const double scale = *static_cast<const double*>(call.inputs[1].data);  // a run-time number
  auto* y = static_cast<float*>(call.outputs[0].data);
  each(call.inputs[0],
       [&](int64_t from, int64_t to) { y[to] = static_cast<float>(scale * x[from] / (1 + std::abs(x[from]))); });
}

/// Its gradient, of ops that are recorded. The numbers are those of the operands.
void scaled_softsign_gradient(smolder::autograd::FormulaContext& c) {
  const Tensor& x = c.input(0);
  const Tensor slope = c.number(1).to_double() / smolder::square(1.0 + smolder::abs(x));
  c.set(0, c.grad(0) * slope);
}

void float_matrix(const smolder::ir::Call& call, smolder::ir::Meta* out) {
  const smolder::ir::Meta& x = *call.inputs[0];
  SMOLDER_CHECK(x.shape.size() == 2 && x.dtype == smolder::DType::kFloat32, RuntimeError,
                "expected a float32 matrix, got ", smolder::name(x.dtype), x.shape);
  out[0] = x;
}

/// Each row divided by its root mean square, as loop IR: two passes over a row, one kernel. The operand may be strided,
/// so its strides are integers of the kernel.
smolder::jit::LoopKernel rms_rows(const smolder::jit::LoopCall& call) {
  const auto& x = call.inputs[0];
  return {R"(kernel {
  buffers b0:float32 r, b1:float32 w
  ints 5
  scalars float
  parallel v0 < n0 {
    %0 = scalar float32 s0
    %1 = index n1
    %2 = cast float32 %1
    acc a0 = sum float32
    vector v1 < n1 {
      %3 = load b0[n4 + v0*n2 + v1*n3]
      %4 = mul float32 %3, %3
      update a0, %4
    }
    %5 = result a0
    %6 = div float32 %5, %2
    %7 = add float32 %6, %0
    %8 = rsqrt float32 %7
    vector v2 < n1 {
      %9 = load b0[n4 + v0*n2 + v2*n3]
      %10 = mul float32 %9, %8
      store b1[v0*n1 + v2], %10
    }
  }
})",
          {x.shape[0], x.shape[1], x.strides[0], x.strides[1], x.offset}};
}

}  // namespace

SMOLDER_LIBRARY(example, m) {
  m.def({.schema = "scaled_softsign(Tensor x, float scale=1.0) -> Tensor",
         .shape = float_matrix,
         .kernel = scaled_softsign,
         .gradient = {.saves = {"x"}, .saves_results = {}, .formula = scaled_softsign_gradient}});
  m.def({.schema = "rms_rows(Tensor x, float eps=1e-6) -> Tensor", .shape = float_matrix, .lowering = rms_rows});
  m.def({.schema = "squared_relu(Tensor x) -> Tensor",
         .decompose = [](smolder::ir::Builder& b, const smolder::ir::Node& node) {
           const smolder::ir::Value r = maximum(b.wrap(node.inputs[0]), 0.0);
           return std::vector{r * r};
         }});
}

int main() {
  std::vector<float> values(64 * 256);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  Tensor x = Tensor::from_data(values.data(), {64, 256}, smolder::DType::kFloat32);
  x.requires_grad_();

  // All three are recorded with their neighbours, and run in one step.
  const OpHandle softsign("example::scaled_softsign"), rms("example::rms_rows"), relu("example::squared_relu");
  const Tensor y = softsign(x, 3.0);
  const Tensor normal = rms(y.detach());
  const Tensor z = relu(normal) + 1.0;
  const Tensor gradient = smolder::autograd::grad({smolder::sum(y)}, {x})[0];
  smolder::mark_step();

  double worst = 0;
  const std::vector<float> got = z.to_vector<float>(), slopes = gradient.to_vector<float>();
  for (int64_t r = 0; r < 64; ++r) {
    double squares = 0;
    const auto soft = [&](int64_t c) {
      const double v = values[r * 256 + c];
      return 3 * v / (1 + std::abs(v));
    };
    for (int64_t c = 0; c < 256; ++c) squares += soft(c) * soft(c);
    for (int64_t c = 0; c < 256; ++c) {
      const double n = std::max(0.0, soft(c) / std::sqrt(squares / 256 + 1e-6));
      const double one = 1 + std::abs(static_cast<double>(values[r * 256 + c]));
      worst =
          std::max({worst, std::abs(got[r * 256 + c] - (n * n + 1)), std::abs(slopes[r * 256 + c] - 3 / (one * one))});
    }
  }
  std::printf("largest difference to the same in double precision: %.1e\n", worst);
  return worst < 1e-5 ? 0 : 1;
}
