// A slice written into a large tensor touches the slice alone: every other page is out of bounds for the process that
// writes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "smolder/lazy/ops.h"

namespace smolder::lazy {
namespace {

#if !defined(__SANITIZE_THREAD__)  // its runtime does not follow threads started in a forked child

constexpr int64_t kRows = 512, kColumns = 8192;  // a row is eight pages

Tensor table() {
  Tensor t = full({kRows, kColumns}, 1.0);
  t.materialize();
  return t;
}

/// Forbids the whole pages of rows [begin, end).
void forbid(char* data, int64_t begin, int64_t end) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = [&](int64_t row) { return reinterpret_cast<uintptr_t>(data) + row * kColumns * sizeof(float); };
  const uintptr_t from = (at(begin) + page - 1) / page * page, to = at(end) / page * page;
  if (from < to && mprotect(reinterpret_cast<void*>(from), to - from, PROT_NONE) != 0) _exit(3);
}

/// Whether a process lives that writes with everything but rows [begin, end) forbidden, and the tensor stays where
/// it is.
bool touches_only(int64_t begin, int64_t end, const std::function<void(Tensor&)>& write) {
  Tensor t = table();
  const pid_t child = fork();
  if (child == 0) {
    auto* const data = static_cast<char*>(t.materialize()->data());
    forbid(data, 0, begin);
    forbid(data, end, kRows);
    write(t);
    _exit(t.materialize()->data() == data ? 0 : 2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(SliceWrite, TouchesTheSliceAlone) {
  EXPECT_TRUE(touches_only(5, 6, [](Tensor& t) { select(t, 0, 5).fill_(1.0); }));
  EXPECT_TRUE(touches_only(kRows - 1, kRows, [](Tensor& t) { select(t, 0, -1).copy_(full({kColumns}, 2.0)); }));
  EXPECT_TRUE(touches_only(100, 200, [](Tensor& t) { slice(t, 0, 100, 200).mul_(2.0); }));
  EXPECT_TRUE(touches_only(100, 200, [](Tensor& t) { slice(t, 0, 100, 200, 3).add_(1.0); }));
  EXPECT_FALSE(touches_only(5, 6, [](Tensor& t) { slice(t, 0, 5, 8).fill_(1.0); }));
}

TEST(SliceWrite, TouchesTheSliceAloneThroughViewsOfViews) {
  EXPECT_TRUE(touches_only(7, 8, [](Tensor& t) { select(slice(t, 0, 4, 12, 3), 0, 1).fill_(1.0); }));
  EXPECT_TRUE(touches_only(7, 8, [](Tensor& t) { slice(select(t, 0, 7), 0, 10, 20).fill_(1.0); }));
  EXPECT_TRUE(touches_only(7, 8, [](Tensor& t) { select(slice(transpose(t, 0, 1), 0, 3, 9), 1, 7).fill_(1.0); }));
  EXPECT_TRUE(touches_only(
      5, 6, [](Tensor& t) { select(select(reshape(t, {kRows / 4, 4, kColumns}), 0, 1), 0, 1).fill_(1.0); }));
  EXPECT_TRUE(touches_only(7, 8, [](Tensor& t) { select(unsqueeze(t, 1), 0, 7).fill_(1.0); }));
}

TEST(SliceWrite, TouchesTheSliceAloneWriteAfterWrite) {
  EXPECT_TRUE(touches_only(3, 9, [](Tensor& t) {
    for (int i = 3; i < 9; ++i) select(t, 0, i).fill_(static_cast<double>(i));
  }));
  // Each row is made of the one before, so that every write is read before the next.
  EXPECT_TRUE(touches_only(3, 9, [](Tensor& t) {
    for (int i = 4; i < 9; ++i) select(t, 0, i).copy_(select(t, 0, i - 1) * 2.0);
  }));
  // Rows move within the memory: read before it is written.
  EXPECT_TRUE(touches_only(3, 9, [](Tensor& t) { slice(t, 0, 3, 6).copy_(slice(t, 0, 6, 9)); }));
  EXPECT_TRUE(touches_only(3, 9, [](Tensor& t) { t.index_copy_(0, arange(3, 9), full({6, kColumns}, 1.0)); }));
}

#endif

TEST(SliceWrite, GivesWhatCopyingGives) {
  Tensor t = reshape(arange(0.0, 24.0), {2, 3, 4});
  t.materialize();
  std::vector<float> expected = t.to_vector<float>();
  const auto set = [&](int i, int j, int k, float v) { expected[(i * 3 + j) * 4 + k] = v; };
  select(slice(transpose(t, 1, 2), 1, 1, 4, 2), 2, 1).fill_(-1.0);  // [:, 1, 1:4:2]
  for (int i = 0; i < 2; ++i) set(i, 1, 1, -1), set(i, 1, 3, -1);
  EXPECT_EQ(t.to_vector<float>(), expected);
  const Tensor before = t * 1.0, rows = select(t, 0, 1);
  slice(t, 2, 0, 3).copy_(slice(t, 2, 1, 4).clone());
  const std::vector<float> old = expected;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) set(i, j, k, old[(i * 3 + j) * 4 + k + 1]);
    }
  }
  EXPECT_EQ(t.to_vector<float>(), expected);
  EXPECT_EQ(before.to_vector<float>(), old);
  EXPECT_EQ(rows.to_vector<float>(), std::vector<float>(expected.begin() + 12, expected.end()));
}

TEST(SliceWrite, KeepsWhatSomebodyElseHolds) {
  Tensor t = arange(0.0, 6.0);
  t.materialize();
  const Tensor copy = t.clone(), doubled = t * 2.0;
  slice(t, 0, 1, 3).fill_(-1.0);
  const Tensor sum = t.sum();
  slice(t, 0, 3, 5).fill_(-2.0);
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{0, -1, -1, -2, -2, 5}));
  EXPECT_EQ(sum.item().to_double(), 0 - 1 - 1 + 3 + 4 + 5);
  EXPECT_EQ(copy.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(doubled.to_vector<float>(), (std::vector<float>{0, 2, 4, 6, 8, 10}));
}

}  // namespace
}  // namespace smolder::lazy
