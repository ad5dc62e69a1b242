// Values on their way back to the tape: each arrives once, from threads that live, end, or bury more than a ring holds.
#include "smolder/lazy/dead_values.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "smolder/lazy/ops.h"
#include "smolder/lazy/tape.h"

namespace smolder::lazy {
namespace {

TEST(DeadValues, ArriveOnceWhileThreadsBuryThem) {
  constexpr int kThreads = 4, kEach = 20000;
  DeadValues dead;
  std::vector<Value> values(kThreads * kEach);
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      DeadRing* const ring = dead.claim_ring();
      for (int i = 0; i < kEach; ++i) {
        Value* const v = &values[t * kEach + i];
        if (!ring->push(v)) dead.push(v);
      }
      ring->owned.store(false, std::memory_order_release);
      running.fetch_sub(1);
    });
  }
  const auto count = [](Value* v) { ++v->index; };
  while (running.load() > 0) dead.take(count);
  dead.take(count);
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(dead.empty());
  for (const Value& v : values) ASSERT_EQ(v.index, 1u);
}

TEST(DeadValues, AFullRingTakesNoMore) {
  DeadRing ring;
  std::vector<Value> values(1000);
  size_t held = 0;
  while (held < values.size() && ring.push(&values[held])) ++held;
  ASSERT_GT(held, 0u);
  ASSERT_LT(held, values.size());
  size_t taken = 0;
  ring.take([&](Value* v) { EXPECT_EQ(v, &values[taken++]); });
  EXPECT_EQ(taken, held);
  EXPECT_TRUE(ring.push(&values[held]));
}

TEST(DeadValues, ARingIsUsedAgainWhenItsThreadEnded) {
  DeadValues dead;
  DeadRing* const first = dead.claim_ring();
  EXPECT_NE(dead.claim_ring(), first);
  Value v;
  ASSERT_TRUE(first->push(&v));
  first->owned.store(false);
  EXPECT_EQ(dead.claim_ring(), first);
  int taken = 0;
  dead.take([&](Value* got) { taken += got == &v; });
  EXPECT_EQ(taken, 1);  // what the first thread left is still there
}

TEST(DeadValues, HandlesThatDieOnAnotherThreadAreNotComputed) {
  const GradMode no_grad(false);
  const Tensor a = Tensor::from_data(std::vector<float>{1, 2}.data(), {2}, DType::kFloat32);
  mark_step();
  std::vector<Tensor> held;
  for (int i = 0; i < 200; ++i)
    held.push_back(a + Tensor::from_data(std::vector<float>{3, 4}.data(), {2}, DType::kFloat32));
  const Tensor kept = held.back();
  std::thread([&] { held.clear(); }).join();
  mark_step();
  const Trace* const trace = Tape::cpu().last_trace();
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->plans.back().produced.size(), 1u);
  EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{4, 6}));
}

}  // namespace
}  // namespace smolder::lazy
