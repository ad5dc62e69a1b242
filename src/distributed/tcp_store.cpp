#include "smolder/distributed/tcp_store.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "smolder/core/background.h"
#include "smolder/core/interrupt.h"
#include "smolder/distributed/error.h"

namespace smolder::distributed {
namespace {

// A question: magic, version, what, length, then three texts, each behind its length. An answer: magic, status, length,
// bytes. Numbers are little-endian, as is every machine that this runs on.
constexpr uint32_t kMagic = 0x53444d53;  // "SMDS"
constexpr uint16_t kVersion = 1;
constexpr size_t kHeadBytes = 12;
constexpr uint32_t kMostBytes = 64 << 20;
constexpr size_t kMostConnections = 65536;

enum What : uint16_t { kSet = 1, kFind, kAdd, kCompareSet, kAppend, kErase, kCount, kAnnounce };
enum Status : uint32_t { kOk, kNone, kError };

void put(std::string& to, const void* bytes, size_t count) { to.append(static_cast<const char*>(bytes), count); }
void put(std::string& to, auto number) { put(to, &number, sizeof(number)); }
template <class T>
T number_at(const std::string& from, size_t at) {
  T out;
  std::memcpy(&out, from.data() + at, sizeof(out));
  return out;
}

void put_text(std::string& to, const std::string& text) {
  put(to, static_cast<uint32_t>(text.size()));
  to += text;
}

/// False where the body is not three texts.
bool read_texts(const std::string& from, size_t at, size_t end, std::string (&texts)[3]) {
  for (std::string& t : texts) {
    if (end - at < 4) return false;
    const auto count = number_at<uint32_t>(from, at);
    at += 4;
    if (count > end - at) return false;
    t = from.substr(at, count);
    at += count;
  }
  return at == end;
}

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address address_of(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0 || !found) {
    raise<DistNetworkError>("the host name '", host, "' has no address: ", ::gai_strerror(error));
  }
  const addrinfo* chosen = found;  // IPv4 where there is one, so that all processes choose alike
  for (const addrinfo* a = found; a; a = a->ai_next) {
    if (a->ai_family == AF_INET) {
      chosen = a;
      break;
    }
  }
  Address out;
  out.length = chosen->ai_addrlen;
  std::memcpy(&out.storage, chosen->ai_addr, chosen->ai_addrlen);
  ::freeaddrinfo(found);
  return out;
}

std::string text_of(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST];
  if (::getnameinfo(address, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return host;
}

uint16_t port_of(int socket) {
  Address a;
  a.length = sizeof(a.storage);
  if (::getsockname(socket, a.get(), &a.length) != 0) return 0;
  return ntohs(a.storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&a.storage)->sin6_port
                                               : reinterpret_cast<sockaddr_in*>(&a.storage)->sin_port);
}

int listen_on(const std::string& host, uint16_t port) {
  Address a = address_of(host, port);
  const auto open = [&] {
    const int s = ::socket(a.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0) raise<DistNetworkError>("no socket: ", std::strerror(errno));
    const int on = 1;
    ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    return s;
  };
  int s = open();
  bool bound = ::bind(s, a.get(), a.length) == 0;
  if (!bound && errno == EADDRNOTAVAIL && !is_loopback(text_of(a.get(), a.length))) {
    // A name that leads to this machine by way of another, as those of services do. Who named it wants the network.
    ::close(s);
    if (a.storage.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(&a.storage)->sin6_addr = in6addr_any;
    if (a.storage.ss_family == AF_INET) reinterpret_cast<sockaddr_in*>(&a.storage)->sin_addr.s_addr = INADDR_ANY;
    s = open();
    bound = ::bind(s, a.get(), a.length) == 0;
  }
  if (!bound || ::listen(s, 1024) != 0) {
    const int error = errno;
    ::close(s);
    raise<DistNetworkError>("The server socket has failed to listen on ", host, ":", port, ": ", std::strerror(error));
  }
  return s;
}

}  // namespace

std::string resolve_host(const std::string& host) {
  Address a = address_of(host, 0);
  return text_of(a.get(), a.length);
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

std::string own_address_towards(const std::string& address) {
  if (is_loopback(address)) return address == "::1" ? address : "127.0.0.1";
  Address a = address_of(address, 9);  // a connected datagram socket sends nothing
  const int s = ::socket(a.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (s < 0) raise<DistNetworkError>("no socket: ", std::strerror(errno));
  Address own;
  own.length = sizeof(own.storage);
  const bool ok = ::connect(s, a.get(), a.length) == 0 && ::getsockname(s, own.get(), &own.length) == 0;
  const int error = errno;
  ::close(s);
  if (!ok) raise<DistNetworkError>("there is no way to ", address, ": ", std::strerror(error));
  return text_of(own.get(), own.length);
}

uint16_t free_port() {
  const int s = listen_on("127.0.0.1", 0);
  const uint16_t port = port_of(s);
  ::close(s);
  return port;
}

// -- the server

struct TcpServer::Connection {
  int socket = -1;
  int rank = -1;
  std::string in, out;
  ~Connection() { ::close(socket); }
};

TcpServer::TcpServer(const std::string& host, uint16_t port) : listener_(listen_on(host, port)) {
  port_ = port_of(listener_);
  if (::pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) raise<DistNetworkError>("no pipe: ", std::strerror(errno));
  const SignalsBlocked quiet;
  thread_ = std::thread([this] { serve(); });
}

TcpServer::~TcpServer() {
  [[maybe_unused]] const ssize_t n = ::write(wake_[1], "x", 1);
  thread_.join();
  connections_.clear();
  ::close(listener_);
  ::close(wake_[0]);
  ::close(wake_[1]);
}

void TcpServer::serve() {
  std::vector<pollfd> polled;
  for (;;) {
    polled.assign({{wake_[0], POLLIN, 0}, {listener_, POLLIN, 0}});
    for (const auto& c : connections_) {
      polled.push_back({c->socket, static_cast<short>(POLLIN | (c->out.empty() ? 0 : POLLOUT)), 0});
    }
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[0].revents) return;
    for (size_t i = connections_.size(); i-- > 0;) {
      Connection& c = *connections_[i];
      const short events = polled[i + 2].revents;
      bool alive = true;
      if (events & (POLLIN | POLLHUP | POLLERR)) alive = read_from(c);
      if (alive && !c.out.empty()) alive = write_to(c);
      if (alive) continue;
      say_gone(c);
      connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (polled[1].revents) accept_one();
  }
}

void TcpServer::accept_one() {
  const int s = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (s < 0) return;
  if (connections_.size() >= kMostConnections) {
    ::close(s);
    return;
  }
  const int on = 1;
  ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  connections_.push_back(std::make_unique<Connection>());
  connections_.back()->socket = s;
}

/// False when the connection is to end.
bool TcpServer::read_from(Connection& c) {
  char bytes[65536];
  const ssize_t n = ::recv(c.socket, bytes, sizeof(bytes), 0);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  c.in.append(bytes, static_cast<size_t>(n));
  while (c.in.size() >= kHeadBytes) {
    if (number_at<uint32_t>(c.in, 0) != kMagic || number_at<uint16_t>(c.in, 4) != kVersion) return false;
    const auto length = number_at<uint32_t>(c.in, 8);
    if (length > kMostBytes) return false;
    if (c.in.size() < kHeadBytes + length) break;
    if (!answer(c)) return false;
    c.in.erase(0, kHeadBytes + length);
  }
  return true;
}

/// Answers the first question of those that were read.
bool TcpServer::answer(Connection& c) {
  const auto what = number_at<uint16_t>(c.in, 6);
  std::string texts[3];
  if (!read_texts(c.in, kHeadBytes, kHeadBytes + number_at<uint32_t>(c.in, 8), texts)) return false;
  const auto& [key, a, b] = texts;
  uint32_t status = kOk;
  std::string body;
  try {
    switch (what) {
      case kSet:
        values_.set(key, a);
        break;
      case kFind:
        if (const auto found = values_.find(key)) {
          body = *found;
        } else {
          status = kNone;
        }
        break;
      case kAdd:
        body = std::to_string(values_.add(key, std::stoll(a)));
        break;
      case kCompareSet:
        body = values_.compare_set(key, a, b);
        break;
      case kAppend:
        values_.append(key, a);
        break;
      case kErase:
        status = values_.erase(key) ? kOk : kNone;
        break;
      case kCount:
        body = std::to_string(values_.size());
        break;
      case kAnnounce:
        c.rank = std::stoi(a);
        break;
      default:
        return false;
    }
  } catch (const Error& e) {
    status = kError;
    body = e.what();
  } catch (const std::exception&) {  // a number that is none
    return false;
  }
  put(c.out, kMagic);
  put(c.out, status);
  put(c.out, static_cast<uint32_t>(body.size()));
  c.out += body;
  return true;
}

bool TcpServer::write_to(Connection& c) {
  const ssize_t n = ::send(c.socket, c.out.data(), c.out.size(), MSG_NOSIGNAL);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  c.out.erase(0, static_cast<size_t>(n));
  return true;
}

void TcpServer::say_gone(const Connection& c) {
  if (c.rank >= 0) values_.compare_set("gone/" + std::to_string(c.rank), "", "it has ended");
}

// -- the client

namespace {

std::mutex g_servers_lock;
std::map<uint16_t, std::weak_ptr<TcpServer>> g_servers;  // of this process, by port

std::shared_ptr<TcpServer> serve(const std::string& host, uint16_t port, bool shared) {
  const std::lock_guard hold(g_servers_lock);
  if (shared) {
    if (std::shared_ptr<TcpServer> server = g_servers[port].lock()) return server;
  }
  auto server = std::make_shared<TcpServer>(host, port);
  g_servers[server->port()] = server;
  return server;
}

}  // namespace

TCPStore::TCPStore(std::string host, uint16_t port, const Options& options)
    : Store(options.timeout), host_(std::move(host)), port_(port) {
  if (options.is_master) {
    server_ = serve(host_, port_, options.multi_tenant);
    port_ = server_->port();
  }
  connect();
  if (!options.world_size || !options.wait_for_workers) return;
  const int64_t joined = add("joined", 1);
  if (!options.is_master || joined >= *options.world_size) return;
  const auto until = std::chrono::steady_clock::now() + options.timeout;
  for (int64_t now = joined; now < *options.world_size; now = add("joined", 0)) {
    check_interrupt();
    if (std::chrono::steady_clock::now() > until) {
      raise<DistStoreError>("Timed out after ", options.timeout.count() / 1000, " seconds waiting for clients. ", now,
                            "/", *options.world_size, " clients joined ", describe());
    }
    std::this_thread::sleep_for(Milliseconds{5});
  }
}

TCPStore::~TCPStore() {
  if (socket_ >= 0) ::close(socket_);
}

void TCPStore::connect() {
  const auto until = std::chrono::steady_clock::now() + timeout();
  Milliseconds pause{5};
  for (;;) {
    Address a = address_of(host_, port_);
    socket_ = ::socket(a.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) raise<DistNetworkError>("no socket: ", std::strerror(errno));
    if (::connect(socket_, a.get(), a.length) == 0) break;
    const int error = errno;
    ::close(std::exchange(socket_, -1));
    check_interrupt();
    if (std::chrono::steady_clock::now() >= until) {
      raise<DistNetworkError>("The client socket has timed out after ", timeout().count(),
                              "ms while trying to connect to ", host_, ":", port_, ": ", std::strerror(error));
    }
    std::this_thread::sleep_for(pause);  // its server may not have begun yet
    pause = std::min(pause * 2, Milliseconds{200});
  }
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // An answer takes no time: who does not answer is stopped, or no store.
  const timeval patience{std::max<time_t>(5, timeout().count() / 1000), 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

TCPStore::Answer TCPStore::ask(uint16_t what, const std::string& key, const std::string& a, const std::string& b) {
  std::string body;
  for (const std::string* text : {&key, &a, &b}) put_text(body, *text);
  if (body.size() > kMostBytes) {
    raise<DistStoreError>("a value of more than ", kMostBytes >> 20, " MiB is not stored: the key '", key, "'");
  }
  std::string message;
  put(message, kMagic);
  put(message, kVersion);
  put(message, what);
  put(message, static_cast<uint32_t>(body.size()));
  message += body;
  const std::lock_guard hold(lock_);
  const auto lost = [&](const char* how) {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));  // what comes late would answer another question
    raise<DistNetworkError>("the connection to ", describe(), " is lost: ", how);
  };
  if (socket_ < 0) lost("it was lost before");
  for (size_t done = 0; done < message.size();) {
    const ssize_t n = ::send(socket_, message.data() + done, message.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) lost("the process that serves it has ended");
    done += static_cast<size_t>(n);
  }
  const auto read = [&](std::string& into) {
    for (size_t done = 0; done < into.size();) {
      const ssize_t n = ::recv(socket_, into.data() + done, into.size() - done, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) lost("it does not answer");
      if (n <= 0) lost("the process that serves it has ended, or takes it for another program");
      done += static_cast<size_t>(n);
    }
  };
  std::string head(kHeadBytes, '\0');
  read(head);
  const auto length = number_at<uint32_t>(head, 8);
  if (number_at<uint32_t>(head, 0) != kMagic || length > kMostBytes) lost("what answers is no store of Smolder's");
  Answer answer{number_at<uint32_t>(head, 4), std::string(length, '\0')};
  read(answer.body);
  if (answer.status == kError) throw DistStoreError(answer.body);
  return answer;
}

void TCPStore::set(const std::string& key, const std::string& value) { ask(kSet, key, value); }
std::optional<std::string> TCPStore::find(const std::string& key) {
  Answer answer = ask(kFind, key);
  return answer.status == kNone ? std::nullopt : std::optional(std::move(answer.body));
}
int64_t TCPStore::add(const std::string& key, int64_t amount) {
  return std::stoll(ask(kAdd, key, std::to_string(amount)).body);
}
std::string TCPStore::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  return ask(kCompareSet, key, expected, desired).body;
}
void TCPStore::append(const std::string& key, const std::string& value) { ask(kAppend, key, value); }
bool TCPStore::erase(const std::string& key) { return ask(kErase, key).status == kOk; }
int64_t TCPStore::num_keys() { return std::stoll(ask(kCount, "").body); }
void TCPStore::announce(int rank) { ask(kAnnounce, "", std::to_string(rank)); }

}  // namespace smolder::distributed
