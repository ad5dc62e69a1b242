//! The program names Sum and Result.
//@ kProductFinish
struct FinishArguments {
  const Sum* sums;
  const Result* bias;
  Result* c;
  i64 m, n, sums_row, sums_batch, c_row, c_batch, elements, relu;
};
KERNEL(finish_product, FinishArguments) {
  const i64 i = thread_number();
  if (i >= a.elements) return;
  u64 rest = static_cast<u64>(i);
  const i64 column = take_digit(rest, static_cast<u64>(a.n)), row = take_digit(rest, static_cast<u64>(a.m));
  const i64 batch = static_cast<i64>(rest);
  auto x = widen(a.sums[batch * a.sums_batch + row * a.sums_row + column]);
  typedef decltype(x) Wide;
  if (a.bias) x += static_cast<Wide>(widen(a.bias[column]));
  a.c[batch * a.c_batch + row * a.c_row + column] = Narrow<Result>::of(a.relu && x < 0 ? Wide(0) : x);
}
