// Where processes find each other: keys and values that all of them see, as torch.distributed's stores.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "smolder/core/fork.h"

namespace smolder::distributed {

using Milliseconds = std::chrono::milliseconds;
inline constexpr Milliseconds kStoreTimeout{300'000};

/// Keys and values are bytes. Thread-safe.
class Store {
 public:
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  virtual void set(const std::string& key, const std::string& value) = 0;
  /// The value, if there is one: nothing is waited for.
  virtual std::optional<std::string> find(const std::string& key) = 0;
  /// Adds to a number, written in decimal, that is 0 at first. Returns the sum.
  virtual int64_t add(const std::string& key, int64_t amount) = 0;
  /// Sets `desired` where the value is `expected`, or there is none and `expected` is empty. Returns the value then;
  /// `expected` where there is none.
  virtual std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) = 0;
  virtual void append(const std::string& key, const std::string& value) = 0;
  /// Whether there was one.
  virtual bool erase(const std::string& key) = 0;
  virtual int64_t num_keys() = 0;
  /// Tells the store who this is. Where it notices that the process has ended, it sets the key `gone/<rank>`.
  virtual void announce(int /*rank*/) {}
  /// Whether it ends for all when this process does.
  virtual bool is_served_here() const { return false; }
  /// "the store at 127.0.0.1:29500", for messages.
  virtual std::string describe() const = 0;

  /// Waits for a key. Throws DistStoreError naming it when it does not come in time.
  std::string get(const std::string& key);
  void wait(const std::vector<std::string>& keys, Milliseconds timeout);

  Milliseconds timeout() const { return timeout_; }
  void set_timeout(Milliseconds timeout) { timeout_ = timeout; }

 protected:
  explicit Store(Milliseconds timeout) : timeout_(timeout) {}

 private:
  Milliseconds timeout_;
};

/// The map that the stores of one process are made of. One thread at a time uses it.
class KeyValues {
 public:
  void set(const std::string& key, std::string value) { map_[key] = std::move(value); }
  std::optional<std::string> find(const std::string& key) const;
  int64_t add(const std::string& key, int64_t amount);
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired);
  void append(const std::string& key, const std::string& value) { map_[key] += value; }
  bool erase(const std::string& key) { return map_.erase(key) != 0; }
  int64_t size() const { return static_cast<int64_t>(map_.size()); }

 private:
  std::unordered_map<std::string, std::string> map_;
};

/// A store that the threads of one process share.
class HashStore final : public Store {
 public:
  explicit HashStore(Milliseconds timeout = kStoreTimeout) : Store(timeout) {}
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> find(const std::string& key) override;
  int64_t add(const std::string& key, int64_t amount) override;
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override;
  void append(const std::string& key, const std::string& value) override;
  bool erase(const std::string& key) override;
  int64_t num_keys() override;
  std::string describe() const override { return "a HashStore"; }

 private:
  ForkMutex lock_;
  KeyValues values_;
};

/// A file that processes append to under its lock: on a disk that all of them see. The last of `world_size` users
/// removes it; with world_size 0 it stays.
class FileStore final : public Store {
 public:
  FileStore(std::string path, int64_t world_size, Milliseconds timeout = kStoreTimeout);
  ~FileStore() override;
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> find(const std::string& key) override;
  int64_t add(const std::string& key, int64_t amount) override;
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override;
  void append(const std::string& key, const std::string& value) override;
  bool erase(const std::string& key) override;
  int64_t num_keys() override;
  std::string describe() const override { return "the file store " + path_; }
  const std::string& path() const { return path_; }

 private:
  class Locked;
  std::string path_;
  int64_t world_size_;
  ForkMutex lock_;
  KeyValues values_;  ///< as far as the file was read
  int64_t read_to_ = 0;
};

/// Another store's keys that begin with a prefix.
class PrefixStore : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : Store(store->timeout()), prefix_(std::move(prefix)), store_(std::move(store)) {}
  void set(const std::string& key, const std::string& value) override { store_->set(at(key), value); }
  std::optional<std::string> find(const std::string& key) override { return store_->find(at(key)); }
  int64_t add(const std::string& key, int64_t amount) override { return store_->add(at(key), amount); }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return store_->compare_set(at(key), expected, desired);
  }
  void append(const std::string& key, const std::string& value) override { store_->append(at(key), value); }
  bool erase(const std::string& key) override { return store_->erase(at(key)); }
  int64_t num_keys() override { return store_->num_keys(); }
  void announce(int rank) override { store_->announce(rank); }
  bool is_served_here() const override { return store_->is_served_here(); }
  std::string describe() const override { return store_->describe(); }

 private:
  std::string at(const std::string& key) const { return prefix_ + "/" + key; }
  std::string prefix_;
  std::shared_ptr<Store> store_;
};

}  // namespace smolder::distributed
