#include "smolder/core/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace smolder {
namespace {

Span named(std::string name) {
  Span span;
  span.name = std::move(name);
  return span;
}

std::vector<std::string> names(const ProfileLog& log) {
  std::vector<std::string> out;
  for (const Span& s : log.spans) out.push_back(s.name);
  return out;
}

TEST(Profile, KeepsNothingWhenNobodyProfiles) {
  EXPECT_FALSE(profiling());
  {
    SpanScope scope(SpanKind::kPlan, "unseen");
    EXPECT_EQ(scope.span(), nullptr);
  }
  add_span(named("unseen"));
  add_memory_change({}, 64, 64);
  ProfileSession session({.memory = true});
  EXPECT_TRUE(session.log().spans.empty());
  EXPECT_TRUE(session.log().memory.empty());
}

TEST(Profile, ScopesNestAndEndInOrder) {
  ProfileSession session;
  EXPECT_TRUE(profiling());
  {
    SpanScope outer(SpanKind::kSync, "outer", 7);
    SpanScope inner(SpanKind::kLaunch, "inner");
    inner.span()->plan = 3;
  }
  const ProfileLog log = session.stop();
  ASSERT_EQ(names(log), (std::vector<std::string>{"inner", "outer"}));
  const Span &inner = log.spans[0], &outer = log.spans[1];
  EXPECT_LE(outer.begin_ns, inner.begin_ns);
  EXPECT_LE(inner.begin_ns, inner.end_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
  EXPECT_EQ(outer.source, 7u);
  EXPECT_EQ(inner.plan, 3u);
  EXPECT_EQ(inner.thread, thread_number());
  EXPECT_FALSE(profiling());
  EXPECT_TRUE(session.stop().spans.empty());
}

TEST(Profile, EachSessionSeesWhatCameAfterItsStart) {
  ProfileSession first({.memory = true});
  add_span(named("a"));
  ProfileSession second;
  add_span(named("b"));
  add_memory_change({}, -64, 0);
  EXPECT_EQ(names(first.stop()), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(profiling());
  EXPECT_FALSE(profiles_memory());
  add_span(named("c"));
  EXPECT_EQ(names(second.stop()), (std::vector<std::string>{"b", "c"}));
}

TEST(Profile, ThreadsAddSpansOfTheirOwn) {
  constexpr int kThreads = 4, kEach = 1000;
  ProfileSession session;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < kEach; ++i) SpanScope(SpanKind::kUser, "work");
    });
  }
  for (std::thread& t : threads) t.join();
  const ProfileLog log = session.stop();
  ASSERT_EQ(log.spans.size(), static_cast<size_t>(kThreads * kEach));
  std::vector<uint32_t> seen;
  for (const Span& s : log.spans) {
    if (std::find(seen.begin(), seen.end(), s.thread) == seen.end()) seen.push_back(s.thread);
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kThreads));
}

TEST(Profile, MemoryIsBounded) {
  constexpr int64_t kMost = 1 << 20, kMore = 10;
  ProfileSession session;
  for (int64_t i = 0; i < kMost + kMore; ++i) add_span({});
  const ProfileLog log = session.stop();
  EXPECT_EQ(log.spans.size(), static_cast<size_t>(kMost));
  EXPECT_EQ(log.dropped, kMore);
  ProfileSession next;
  EXPECT_EQ(next.log().dropped, 0);
}

}  // namespace
}  // namespace smolder
