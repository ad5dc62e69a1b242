#include "smolder/core/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "smolder/core/error.h"

namespace smolder {
namespace {

/// Sets the thread count for one test and puts the old one back.
class WithThreads {
 public:
  explicit WithThreads(int n) : before_(num_threads()) { set_num_threads(n); }
  ~WithThreads() { set_num_threads(before_); }

 private:
  int before_;
};

std::vector<int> visits(int64_t n, int64_t grain) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)].fetch_add(1);
  });
  return {seen.begin(), seen.end()};
}

TEST(ThreadPool, EveryIndexIsVisitedOnceWhateverTheCounts) {
  for (int threads : {1, 2, 3, 8}) {
    WithThreads with(threads);
    for (int64_t n : {1, 2, 3, 7, 64, 1000, 4097}) {
      for (int64_t grain : {1, 2, 16, 1000, 5000}) {
        EXPECT_EQ(visits(n, grain), std::vector<int>(static_cast<size_t>(n), 1)) << threads << ' ' << n << ' ' << grain;
      }
    }
  }
}

TEST(ThreadPool, NothingIsCalledForAnEmptyRange) {
  parallel_for(0, 1, [](int64_t, int64_t) { FAIL(); });
  parallel_for(-5, 1, [](int64_t, int64_t) { FAIL(); });
}

TEST(ThreadPool, RangesAreMultiplesOfTheGrainButTheLast) {
  WithThreads with(3);
  std::mutex lock;
  std::set<std::pair<int64_t, int64_t>> ranges;
  parallel_for(1003, 10, [&](int64_t begin, int64_t end) {
    std::lock_guard hold(lock);
    ranges.emplace(begin, end);
  });
  EXPECT_GT(ranges.size(), 1u);
  for (auto [begin, end] : ranges) {
    EXPECT_EQ(begin % 10, 0);
    EXPECT_TRUE(end == 1003 || end % 10 == 0) << end;
  }
}

TEST(ThreadPool, AGrainOfZeroCountsAsOne) {
  WithThreads with(2);
  EXPECT_EQ(visits(5, 0), std::vector<int>(5, 1));
}

TEST(ThreadPool, SmallWorkStaysOnTheCaller) {
  WithThreads with(4);
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  parallel_for(100, 100, [&](int64_t begin, int64_t end) {
    ++calls;
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 100);
  });
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPool, WorkersReallyTakePart) {
  WithThreads with(2);
  // Two pieces that wait for each other finish only on two threads.
  std::atomic<int> arrived{0};
  parallel_for(2, 1, [&](int64_t, int64_t) {
    ++arrived;
    while (arrived.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 2);
}

TEST(ThreadPool, EachThreadBeginsWithItsOwnShare) {
  WithThreads with(2);
  const auto caller = std::this_thread::get_id();
  for (int round = 0; round < 100; ++round) {
    std::atomic<int64_t> first_of_caller{-1}, first_of_worker{-1};
    parallel_for(8, 1, [&](int64_t begin, int64_t) {
      const bool mine = std::this_thread::get_id() == caller;
      int64_t none = -1;
      (mine ? first_of_caller : first_of_worker).compare_exchange_strong(none, begin);
      // Nobody is done before both have begun, so neither takes from the other's share.
      while ((mine ? first_of_worker : first_of_caller).load() < 0) std::this_thread::yield();
    });
    EXPECT_EQ(first_of_caller.load(), 0);
    EXPECT_EQ(first_of_worker.load(), 4);
  }
}

TEST(ThreadPool, NestedCallsRunInlineOnTheSameThread) {
  WithThreads with(4);
  std::atomic<int64_t> total{0};
  parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    EXPECT_TRUE(in_parallel_region());
    const auto outer = std::this_thread::get_id();
    for (int64_t i = begin; i < end; ++i) {
      parallel_for(100, 1, [&](int64_t b, int64_t e) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        total += e - b;
      });
    }
  });
  EXPECT_EQ(total.load(), 800);
  EXPECT_FALSE(in_parallel_region());
}

TEST(ThreadPool, AnExceptionReachesTheCallerAndThePoolStaysUsable) {
  WithThreads with(4);
  for (int round = 0; round < 200; ++round) {
    try {
      parallel_for(64, 1, [&](int64_t begin, int64_t) {
        if (begin % 3 == round % 3) raise<ValueError>("piece ", begin);
      });
      FAIL() << "nothing was thrown";
    } catch (const ValueError& e) {
      EXPECT_EQ(std::string(e.what()).substr(0, 6), "piece ");
    }
    EXPECT_FALSE(in_parallel_region());
    EXPECT_EQ(visits(64, 1), std::vector<int>(64, 1));
  }
}

TEST(ThreadPool, PiecesNotBegunAreSkippedAfterAnException) {
  WithThreads with(2);
  std::atomic<int> begun{0};
  EXPECT_THROW(parallel_for(8, 1,
                            [&](int64_t, int64_t) {
                              ++begun;
                              std::this_thread::sleep_for(std::chrono::milliseconds(5));
                              throw std::logic_error("no");
                            }),
               std::logic_error);
  EXPECT_LT(begun.load(), 8);
}

TEST(ThreadPool, StressManySmallJobs) {
  for (int threads : {2, 5}) {
    WithThreads with(threads);
    std::vector<int64_t> data(257);
    int64_t expected = 0;
    for (int round = 0; round < 20000; ++round) {
      parallel_for(257, 16, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) data[static_cast<size_t>(i)] += i;
      });
      ++expected;
    }
    for (size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], expected * static_cast<int64_t>(i));
  }
}

TEST(ThreadPool, StressWithPausesSoThatWorkersParkAndWake) {
  WithThreads with(3);
  std::atomic<int64_t> total{0};
  for (int round = 0; round < 300; ++round) {
    parallel_for(12, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
    std::this_thread::sleep_for(std::chrono::microseconds(round % 7 * 50));
  }
  EXPECT_EQ(total.load(), 300 * 12);
}

TEST(ThreadPool, AWorkerFarSlowerThanTheCallerIsWaitedFor) {
  WithThreads with(2);
  const auto caller = std::this_thread::get_id();
  for (int round = 0; round < 5; ++round) {
    std::atomic<bool> worker_in{false}, worker_done{false};
    parallel_for(2, 1, [&](int64_t, int64_t) {
      if (std::this_thread::get_id() == caller) {
        while (!worker_in.load()) std::this_thread::yield();
      } else {
        worker_in = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(3));  // past the spin: the caller sleeps
        worker_done = true;
      }
    });
    EXPECT_TRUE(worker_done.load());
  }
}

TEST(ThreadPool, CallersOnSeveralThreadsDoNotDisturbEachOther) {
  WithThreads with(3);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 2000; ++round) {
        parallel_for(50, 4, [&](int64_t begin, int64_t end) { total += end - begin; });
      }
    });
  }
  for (auto& c : callers) c.join();
  EXPECT_EQ(total.load(), 4 * 2000 * 50);
}

TEST(ThreadPool, TheCountCanChangeWhileOthersCall) {
  WithThreads with(2);
  std::atomic<bool> stop{false};
  std::atomic<int64_t> jobs{0};
  std::thread caller([&] {
    while (!stop) {
      std::atomic<int64_t> covered{0};
      parallel_for(40, 1, [&](int64_t begin, int64_t end) { covered += end - begin; });
      ASSERT_EQ(covered.load(), 40);
      ++jobs;
    }
  });
  for (int round = 0; round < 100; ++round) set_num_threads(1 + round % 5);
  while (jobs.load() < 10) std::this_thread::yield();
  stop = true;
  caller.join();
}

TEST(ThreadPool, BadCountsAreRefused) {
  EXPECT_THROW(set_num_threads(0), ValueError);
  EXPECT_THROW(set_num_threads(-3), ValueError);
  EXPECT_THROW(set_num_threads(100000), ValueError);
  WithThreads with(2);
  EXPECT_THROW(parallel_for(2, 1, [](int64_t, int64_t) { set_num_threads(1); }), RuntimeError);
}

/// Runs `body` in a forked child; true when it returned true.
template <class F>
bool in_child(F body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#if !defined(__SANITIZE_THREAD__)  // its runtime does not follow threads started in a forked child
TEST(ThreadPool, AForkedChildHasAPoolOfItsOwn) {
  WithThreads with(3);
  visits(100, 1);
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(in_child([] { return num_threads() == 3 && visits(1000, 1) == std::vector<int>(1000, 1); }));
    EXPECT_EQ(visits(100, 1), std::vector<int>(100, 1));
  }
}

TEST(ThreadPool, AForkWhileAnotherThreadUsesThePoolIsSafe) {
  WithThreads with(2);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) visits(64, 1);
  });
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(in_child([] { return visits(100, 1) == std::vector<int>(100, 1); }));
  }
  stop = true;
  busy.join();
}
#endif

/// Runs in a program started anew, as the default is decided once a process.
[[noreturn]] void exit_with_thread_count() {
  try {
    std::exit(num_threads());
  } catch (const ValueError& e) {
    std::fputs(e.what(), stderr);
    std::exit(200);
  }
}

TEST(ThreadPoolDeathTest, TheEnvironmentVariableIsReadAndChecked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("SMOLDER_NUM_THREADS", "7", 1);
  EXPECT_EXIT(exit_with_thread_count(), testing::ExitedWithCode(7), "");
  for (const char* bad : {"0", "-2", "many", "3x", "1e9"}) {
    setenv("SMOLDER_NUM_THREADS", bad, 1);
    EXPECT_EXIT(exit_with_thread_count(), testing::ExitedWithCode(200), "SMOLDER_NUM_THREADS must be");
  }
  unsetenv("SMOLDER_NUM_THREADS");
}

}  // namespace
}  // namespace smolder
