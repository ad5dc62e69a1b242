// A store that one process serves to the others over TCP.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "smolder/distributed/store.h"

namespace smolder::distributed {

/// Serves one map on a thread of its own. It speaks to who speaks its protocol: a message with another magic, version
/// or a size beyond bounds ends that connection.
class TcpServer {
 public:
  /// Listens on that address alone; port 0: any that is free.
  TcpServer(const std::string& host, uint16_t port);
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  uint16_t port() const { return port_; }

 private:
  struct Connection;
  void serve();
  void accept_one();
  bool read_from(Connection& c);
  bool answer(Connection& c);
  static bool write_to(Connection& c);
  void say_gone(const Connection& c);

  int listener_ = -1, wake_[2] = {-1, -1};
  uint16_t port_ = 0;
  KeyValues values_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

class TCPStore final : public Store {
 public:
  struct Options {
    std::optional<int64_t> world_size = {};
    bool is_master = false;
    Milliseconds timeout = kStoreTimeout;
    bool wait_for_workers = true;  ///< the master's constructor returns when world_size processes have connected
    bool multi_tenant = false;     ///< a second master of the port in this process uses the first one's server
  };
  TCPStore(std::string host, uint16_t port, const Options& options);
  ~TCPStore() override;

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> find(const std::string& key) override;
  int64_t add(const std::string& key, int64_t amount) override;
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override;
  void append(const std::string& key, const std::string& value) override;
  bool erase(const std::string& key) override;
  int64_t num_keys() override;
  void announce(int rank) override;
  std::string describe() const override { return "the store at " + host_ + ":" + std::to_string(port_); }

  const std::string& host() const { return host_; }
  uint16_t port() const { return port_; }
  bool is_served_here() const override { return server_ != nullptr; }

 private:
  struct Answer {
    uint32_t status = 0;
    std::string body;
  };
  void connect();
  Answer ask(uint16_t what, const std::string& key, const std::string& a = {}, const std::string& b = {});

  std::string host_;
  uint16_t port_;
  std::shared_ptr<TcpServer> server_;
  std::mutex lock_;  ///< of the connection: one question at a time
  int socket_ = -1;
};

/// The address that `host` has, as "127.0.0.1". Throws DistNetworkError when there is none.
std::string resolve_host(const std::string& host);
bool is_loopback(const std::string& address);
/// The address of this machine's from which `address` is reached.
std::string own_address_towards(const std::string& address);
/// A port of the loopback that is free now.
uint16_t free_port();

}  // namespace smolder::distributed
