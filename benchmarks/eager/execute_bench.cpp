// The cost of an op that is run eagerly: the way to the kernel, and the kernels beside a plain copy of as many bytes.
#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <vector>

#include "smolder/eager/execute.h"
#include "smolder/ir/builder.h"

namespace smolder::eager {
namespace {

using ir::Op;
using Words = std::vector<int64_t>;

Array filled(const Dims& shape, DType dtype, double v) {
  const Array number = Array::from_number(v);
  Words words = {shape.size()};
  words.insert(words.end(), shape.begin(), shape.end());
  words.insert(words.end(), {1, static_cast<int64_t>(dtype)});
  return contiguous(execute(Op::kFull, {&number, 1}, words)[0]);
}

void run(benchmark::State& state, Op op, std::vector<Array> inputs, const Words& words) {
  size_t bytes = 0;
  for (const Array& a : inputs) bytes += a.weak ? 0 : a.bytes();
  bytes += execute(op, inputs, words)[0].bytes();
  for (auto _ : state) benchmark::DoNotOptimize(execute(op, inputs, words));
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
}

constexpr int64_t kRows = 4096, kColumns = 4096;

void copy_bytes(benchmark::State& state) {
  const Array x = filled({kRows, kColumns}, DType::kFloat32, 1.5), y = Array::empty(x.shape, x.dtype);
  for (auto _ : state) {
    std::memcpy(y.data, x.data, x.bytes());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(2 * x.bytes()) * state.iterations());
}
BENCHMARK(copy_bytes);

void small_add(benchmark::State& state) {
  run(state, Op::kAdd, {filled({4}, DType::kFloat32, 1), filled({4}, DType::kFloat32, 2)}, {});
}
BENCHMARK(small_add);
void small_mean(benchmark::State& state) {
  run(state, Op::kMean, {filled({4, 4}, DType::kFloat32, 1)}, {1, 1, 0, 0, 0});
}
BENCHMARK(small_mean);

void elementwise(benchmark::State& state, Op op, DType dtype, int operands) {
  run(state, op, std::vector<Array>(operands, filled({kRows, kColumns}, dtype, 0.7)), {});
}
BENCHMARK_CAPTURE(elementwise, add_float32, Op::kAdd, DType::kFloat32, 2);
BENCHMARK_CAPTURE(elementwise, add_bfloat16, Op::kAdd, DType::kBFloat16, 2);
BENCHMARK_CAPTURE(elementwise, exp_float32, Op::kExp, DType::kFloat32, 1);
BENCHMARK_CAPTURE(elementwise, tanh_float64, Op::kTanh, DType::kFloat64, 1);
BENCHMARK_CAPTURE(elementwise, floor_div_int64, Op::kFloorDiv, DType::kInt64, 2);

void add_row(benchmark::State& state) {
  run(state, Op::kAdd, {filled({kRows, kColumns}, DType::kFloat32, 1), filled({kColumns}, DType::kFloat32, 2)}, {});
}
BENCHMARK(add_row);

void reduce(benchmark::State& state, int axis, DType dtype) {
  run(state, Op::kReduce, {filled({kRows, kColumns}, dtype, 1)}, {0, axis, axis == 0 ? 128 : 0});
}
BENCHMARK_CAPTURE(reduce, rows_float32, 1, DType::kFloat32);
BENCHMARK_CAPTURE(reduce, columns_float32, 0, DType::kFloat32);
BENCHMARK_CAPTURE(reduce, rows_bfloat16, 1, DType::kBFloat16);

void transpose(benchmark::State& state) {
  const Array x = execute(Op::kPermute, std::array{filled({kRows, kColumns}, DType::kFloat32, 1)}, Words{2, 1, 0})[0];
  for (auto _ : state) benchmark::DoNotOptimize(contiguous(x));
  state.SetBytesProcessed(static_cast<int64_t>(2 * x.bytes()) * state.iterations());
}
BENCHMARK(transpose);

void take_rows(benchmark::State& state) {
  Array index = Array::empty({kRows}, DType::kInt64);
  for (int64_t i = 0; i < kRows; ++i) static_cast<int64_t*>(index.data)[i] = i * 37 % kRows;
  run(state, Op::kTake, {filled({kRows, 1024}, DType::kFloat32, 1), index}, {0});
}
BENCHMARK(take_rows);
void random_bits(benchmark::State& state) {
  run(state, Op::kRandomBits, {Array::from_number(1), Array::from_number(2)}, {1, kRows * 1024});
}
BENCHMARK(random_bits);

}  // namespace
}  // namespace smolder::eager
