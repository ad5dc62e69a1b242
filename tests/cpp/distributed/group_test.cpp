// Groups whose ranks are threads of this process, and stores that they share.
#include "smolder/distributed/group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "smolder/core/dynamic_library.h"
#include "smolder/distributed/error.h"
#include "smolder/distributed/tcp_store.h"

namespace smolder::distributed {
namespace {

bool has_gloo() {
  try {
    DynamicLibrary::open_plugin("smolder_gloo");
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Runs `body` as each of so many ranks, and returns what they threw.
std::vector<std::string> as_ranks(int size, const std::function<void(Group&)>& body) {
  const auto store = std::make_shared<HashStore>();
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      std::vector<int> ranks;
      for (int i = 0; i < size; ++i) ranks.push_back(i);
      try {
        Group group({.number = 0,
                     .name = "the group",
                     .ranks = ranks,
                     .rank = r,
                     .store = store,
                     .backend = "gloo",
                     .address = "127.0.0.1",
                     .timeout = Milliseconds{20'000}});
        body(group);
        group.drain();
        // Nobody leaves while others are within a collective.
        store->add("left", 1);
        while (store->add("left", 0) < size) std::this_thread::sleep_for(Milliseconds{1});
      } catch (const Error& e) {
        errors[static_cast<size_t>(r)] = e.what();
        store->add("left", 1);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return errors;
}

void add_up(Group& group, std::vector<float>& values, const std::string& what = "sum") {
  group.run(what, [&](Communicator& c, Word word, Job&) {
    c.all_reduce(values.data(), values.size(), sizeof(float), combine_of(Reduce::kSum, DType::kFloat32), word);
  });
}

class Groups : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gloo()) GTEST_SKIP() << "built without Gloo";
  }
};

TEST_F(Groups, RunCollectivesInOrder) {
  const std::vector<std::string> errors = as_ranks(3, [](Group& group) {
    for (int turn = 0; turn < 30; ++turn) {
      std::vector<float> values(static_cast<size_t>(turn), static_cast<float>(group.rank() + turn));
      add_up(group, values);
      for (const float v : values) ASSERT_EQ(v, static_cast<float>(3 * turn + 3));
    }
    // Begun, one after the other, and finished from the last.
    std::vector<std::vector<float>> many(8, std::vector<float>(100, 1.0f));
    std::vector<std::shared_ptr<Job>> jobs;
    for (auto& values : many) {
      jobs.push_back(group.begin("sum", [&values](Communicator& c, Word word, Job&) {
        c.all_reduce(values.data(), values.size(), sizeof(float), combine_of(Reduce::kSum, DType::kFloat32), word);
      }));
    }
    for (size_t i = jobs.size(); i-- > 0;) group.finish(*jobs[i]);
    for (const auto& values : many) ASSERT_EQ(values[99], 3.0f);
  });
  EXPECT_EQ(errors, std::vector<std::string>(3));
}

TEST_F(Groups, SendWithoutWaiting) {
  const std::vector<std::string> errors = as_ranks(2, [](Group& group) {
    const int other = 1 - group.rank();
    for (int i = 0; i < 20; ++i) {
      const double value = group.rank() * 100 + i;
      group.send("float64[]", &value, sizeof(value), other, 0);
    }
    for (int i = 0; i < 20; ++i) {
      const auto job = group.begin_receive("float64[]", sizeof(double), i % 2 ? other : -1, 0);
      ASSERT_EQ(group.finish_receive(*job), other);
      double value = 0;
      std::memcpy(&value, job->result.data(), sizeof(value));
      ASSERT_EQ(value, other * 100 + i);
    }
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST_F(Groups, ThatDoNotDoTheSameSaySo) {
  const std::vector<std::string> errors = as_ranks(3, [](Group& group) {
    std::vector<float> values(4);
    add_up(group, values);
    add_up(group, values, group.rank() == 1 ? "another sum" : "sum");
  });
  for (const std::string& e : errors) {
    EXPECT_NE(e.find("the ranks do not do the same"), std::string::npos) << e;
    EXPECT_NE(e.find("number 2 of the group"), std::string::npos) << e;
  }
}

TEST_F(Groups, ThatFailTellTheOthersWhy) {
  const std::vector<std::string> errors = as_ranks(2, [](Group& group) {
    std::vector<float> values(4);
    add_up(group, values);
    if (group.rank() == 1) group.fail("it has had enough");
    add_up(group, values);
  });
  EXPECT_NE(errors[0].find("rank 1 failed: it has had enough"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("it has had enough"), std::string::npos) << errors[1];
}

TEST(Group, OfOneNeedsNoLibrary) {
  Group group({.number = 0,
               .name = "alone",
               .ranks = {0},
               .rank = 0,
               .store = std::make_shared<HashStore>(),
               .backend = "gloo",
               .address = "127.0.0.1",
               .timeout = Milliseconds{1000}});
  std::vector<float> values{1, 2};
  add_up(group, values);
  EXPECT_EQ(values, (std::vector<float>{1, 2}));
}

TEST(Stores, AddFromManyThreads) {
  const auto served = std::make_shared<TCPStore>("127.0.0.1", 0, TCPStore::Options{.is_master = true});
  std::vector<std::thread> threads;
  std::atomic<int> first{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      TCPStore store("127.0.0.1", served->port(), {});
      PrefixStore mine("p", std::make_shared<TCPStore>("127.0.0.1", served->port(), TCPStore::Options{}));
      for (int k = 0; k < 100; ++k) store.add("n", 1);
      if (mine.compare_set("first", "", std::to_string(i)) == std::to_string(i)) ++first;
      store.set(std::to_string(i), std::string(100'000, static_cast<char>('a' + i)));
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(served->add("n", 0), 800);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(served->get("7"), std::string(100'000, 'h'));
}

TEST(Stores, SayWhoHasLeft) {
  TCPStore served("127.0.0.1", 0, {.is_master = true});
  {
    TCPStore store("127.0.0.1", served.port(), {});
    store.announce(5);
  }
  served.wait({"gone/5"}, Milliseconds{5000});
  EXPECT_EQ(served.get("gone/5"), "it has ended");
}

TEST(Addresses, TheLoopbackIsReachedByTheLoopback) {
  EXPECT_TRUE(is_loopback(resolve_host("localhost")));
  EXPECT_EQ(own_address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_THROW(resolve_host("no.such.host.invalid"), DistNetworkError);
}

}  // namespace
}  // namespace smolder::distributed
