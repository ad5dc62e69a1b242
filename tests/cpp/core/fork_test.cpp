#include "smolder/core/fork.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace smolder {
namespace {

/// Whether a child forked now comes to its end; it is killed where it waits for ever.
template <class F>
bool child_ends_well(F&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Ends this process, which fails the test, where a fork waits for ever.
struct Deadline {
  Deadline() { alarm(100); }
  ~Deadline() { alarm(0); }
};

TEST(Fork, FindsMutexesFreeAndWhatTheyGuardWholeWhateverTheirOrder) {
  const Deadline deadline;
  std::array<ForkMutex, 3> mutexes;
  std::array<int, 3> pairs[2] = {};  // what a mutex guards: two numbers that are the same
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int n = 0; !stop; ++n) {  // each nests two, in an order of its own
        const std::lock_guard outer(mutexes[t]);
        ++pairs[0][t];
        if (n % 8 == 0) std::this_thread::yield();
        if (t < 2) {
          const std::lock_guard inner(mutexes[t + 1]);
          ++pairs[0][t + 1], ++pairs[1][t + 1];
        }
        ++pairs[1][t];
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(child_ends_well([&] {
      for (int t = 0; t < 3; ++t) {
        const std::lock_guard hold(mutexes[t]);
        if (pairs[0][t] != pairs[1][t]) return false;
      }
      return true;
    }));
  }
  stop = true;
  for (std::thread& t : threads) t.join();
}

#if !defined(__SANITIZE_THREAD__)  // which reports any nesting of both kinds, though a third mutex keeps them apart
TEST(Fork, TakesMutexesThatThreadsNestEitherWayRound) {
  const Deadline deadline;
  ForkMutex a, b;
  std::atomic<bool> stop{false};
  std::mutex turn;  // of those that nest, as they would wait for each other
  const auto nests = [&](ForkMutex& outer, ForkMutex& inner) {
    while (!stop) {
      const std::lock_guard mine(turn);
      const std::lock_guard first(outer);
      std::this_thread::yield();
      const std::lock_guard second(inner);
    }
  };
  std::thread one([&] { nests(a, b); }), other([&] { nests(b, a); });
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(child_ends_well([&] {
      const std::lock_guard first(a), second(b);
      return true;
    }));
  }
  stop = true;
  one.join(), other.join();
}
#endif

TEST(Fork, ComesThoughEveryMutexIsHeldNearlyAllTheTime) {
  const Deadline deadline;
  std::array<ForkMutex, 12> mutexes;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (ForkMutex& m : mutexes) {
    threads.emplace_back([&] {
      while (!stop) {
        const std::lock_guard hold(m);
        for (int n = 0; n < 1000; ++n) std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(child_ends_well([&] {
      for (ForkMutex& m : mutexes) {
        if (!m.try_lock()) return false;
      }
      return true;
    }));
  }
  stop = true;
  for (std::thread& t : threads) t.join();
}

TEST(Fork, KnowsMutexesThatComeAndGo) {
  const Deadline deadline;
  std::atomic<bool> stop{false};
  std::thread makes([&] {
    while (!stop) {
      const auto m = std::make_unique<ForkMutex>();
      const std::lock_guard hold(*m);
    }
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(child_ends_well([] { return ForkMutex().try_lock(); }));
  stop = true;
  makes.join();
}

struct Told final : ForkGuard {
  Told(ForkRank rank, std::string& log, char name) : ForkGuard(rank), log(log), name(name) { watch_forks(); }
  ~Told() { forget_forks(); }
  void before_fork() override { log += name; }
  void after_fork_in_parent() override { (log += '~') += name; }
  void after_fork_in_child() override { (log += '!') += name; }
  std::string& log;
  char name;
};

TEST(Fork, TellsGuardsOneOrderWhicheverWasMadeFirst) {
  std::string log;
  const Told disk(ForkRank::kDatabase, log, 'd');
  const Told kernels(ForkRank::kKernels, log, 'k');
  const Told last(ForkRank::kNoLock, log, 'n'), newer(ForkRank::kKernels, log, 'K');
  EXPECT_TRUE(child_ends_well([&] { return log == "Kkdn!n!d!k!K"; }));
  EXPECT_EQ(log, "Kkdn~n~d~k~K");
}

}  // namespace
}  // namespace smolder
