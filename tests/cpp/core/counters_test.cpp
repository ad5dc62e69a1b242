#include "smolder/core/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "smolder/core/error.h"

namespace smolder {
namespace {

class Counters : public testing::Test {
 protected:
  void SetUp() override {
    reset_metrics();
    set_debug_level(0);
  }
  void TearDown() override { SetUp(); }
};

int64_t value_in(const MetricsSnapshot& snapshot, std::string_view name) {
  for (const auto& [key, value] : snapshot.counters) {
    if (key == name) return value;
  }
  return -1;
}

TEST_F(Counters, ANameIsOneCounterForEver) {
  Counter& a = counter("test.a");
  a.add();
  a.add(41);
  EXPECT_EQ(&counter("test.a"), &a);
  EXPECT_NE(&counter("test.b"), &a);
  for (int i = 0; i < 1000; ++i) counter("test.many." + std::to_string(i));
  EXPECT_EQ(&counter("test.a"), &a);
  EXPECT_EQ(a.value(), 42);
  EXPECT_EQ(value_in(metrics(), "test.a"), 42);
  reset_metrics();
  EXPECT_EQ(a.value(), 0);
  a.add(2);
  EXPECT_EQ(value_in(metrics(), "test.a"), 2);
}

TEST_F(Counters, ASnapshotIsSortedByName) {
  counter("test.z");
  counter("test.b");
  const auto counters = metrics().counters;
  EXPECT_TRUE(std::is_sorted(counters.begin(), counters.end()));
}

TEST_F(Counters, ThreadsLoseNoCount) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 5000; ++i) {
        counter("test.shared").add();
        record_event({"sync", "shared", "", 0.5});
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(counter("test.shared").value(), 20000);
  ASSERT_EQ(metrics().events.size(), 1u);
  EXPECT_EQ(metrics().events[0].count, 20000);
  EXPECT_EQ(metrics().events[0].event.milliseconds, 10000);
}

TEST_F(Counters, EventsAreAddedUpByKindReasonAndPlace) {
  record_event({"sync", "item", "a.py:1", 1});
  record_event({"compile", "new plan", "a.py:2", 7});
  record_event({"sync", "item", "a.py:1", 2});
  record_event({"sync", "item", "b.py:9", 4});
  record_event({"sync", "print", "a.py:1", 8});
  record_event({"sync", "item", "a.py:1", 4});
  const auto events = metrics().events;
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].count, 3);
  EXPECT_EQ(events[0].event.where, "a.py:1");
  EXPECT_EQ(events[0].event.milliseconds, 7);
  EXPECT_EQ(events[1].event.reason, "print") << "equally frequent: the latest first";
  reset_metrics();
  EXPECT_TRUE(metrics().events.empty());
  record_event({"sync", "item", "a.py:1", 1});
  EXPECT_EQ(metrics().events[0].count, 1);
}

TEST_F(Counters, TheEventsSeenLongestAgoAreForgotten) {
  record_event({"sync", "old", "", 0});
  record_event({"sync", "often", "", 0});
  for (int i = 0; i < 5000; ++i) {
    record_event({"sync", "n" + std::to_string(i), "", 0});
    if (i % 100 == 0) record_event({"sync", "often", "", 0});
  }
  const auto events = metrics().events;
  EXPECT_EQ(events.size(), 4096u);
  EXPECT_EQ(events[0].event.reason, "often");
  EXPECT_EQ(events[0].count, 51);
  EXPECT_TRUE(std::none_of(events.begin(), events.end(), [](const auto& e) { return e.event.reason == "old"; }));
  record_event({"sync", "old", "", 0});
  EXPECT_EQ(metrics().events.size(), 4096u);
}

TEST_F(Counters, TheReportNamesEverything) {
  counter("test.report").add(77);
  record_event({"fallback", "no kernel for sort", "train.py:12", 1.5});
  const std::string report = metrics_report();
  for (const char* part : {"test.report", "77", "fallback", "no kernel for sort", "(train.py:12)", "1 x", "1.50 ms"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part << " is missing in\n" << report;
  }
}

TEST_F(Counters, DebugLinesAppearAtTheirLevelOnly) {
  set_debug_level(3);
  testing::internal::CaptureStderr();
  debug(3, "fuse", "two ops");
  debug(4, "source", "hidden");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[smolder:fuse] two ops\n");
}

TEST_F(Counters, EventsAreToldAtDebugLevelOne) {
  testing::internal::CaptureStderr();
  record_event({"sync", "item", "a.py:3", 0});
  set_debug_level(1);
  record_event({"sync", "item", "a.py:3", 0.25});
  record_event({"copy", "not contiguous", "", 0});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[smolder:sync] item at a.py:3 (0.25 ms)\n[smolder:copy] not contiguous\n");
}

TEST_F(Counters, WarningsGoToStderrOrToTheHandler) {
  testing::internal::CaptureStderr();
  warn("cache", "full");
  warn("fallback", "sort has no lowering", "a.py:3");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[smolder:cache] warning: full\n[smolder:fallback] warning: sort has no lowering (a.py:3)\n");
  static std::string told;
  set_warning_handler([](std::string_view topic, std::string_view text, std::string_view where) {
    told.append(topic).append(1, ' ').append(text).append(1, ' ').append(where);
  });
  warn("cache", "full", "b.py:4");
  set_warning_handler(nullptr);
  EXPECT_EQ(told, "cache full b.py:4");
}

TEST_F(Counters, LevelsOutsideTheLadderAreRefused) {
  EXPECT_THROW(set_debug_level(-1), ValueError);
  EXPECT_THROW(set_debug_level(8), ValueError);
  EXPECT_EQ(debug_level(), 0);
}

}  // namespace
}  // namespace smolder
