// Collectives by Gloo. A plugin: it is opened when a group of several processes is made, so that nobody else needs
// Gloo.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "smolder/distributed/communicator.h"
#include "smolder/distributed/error.h"

namespace smolder::distributed {
namespace {

/// Gloo's view of a store of ours.
class Meeting final : public ::gloo::rendezvous::Store {
 public:
  Meeting(distributed::Store& store, Milliseconds timeout) : store_(store), timeout_(timeout) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    store_.wait({key}, timeout_);
    const std::string value = store_.get(key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { store_.wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const Milliseconds& timeout) override { store_.wait(keys, timeout); }

 private:
  distributed::Store& store_;
  Milliseconds timeout_;
};

using Buffer = ::gloo::transport::UnboundBuffer;

class GlooTransfer final : public Communicator::Transfer {
 public:
  GlooTransfer(std::unique_ptr<Buffer> buffer, bool sends) : buffer_(std::move(buffer)), sends_(sends) {}
  int wait(Milliseconds timeout) override {
    int peer = -1;
    sends_ ? buffer_->waitSend(&peer, timeout) : buffer_->waitRecv(&peer, timeout);
    return peer;
  }

 private:
  std::unique_ptr<Buffer> buffer_;
  bool sends_;
};

/// Gloo moves what has the size of a T; how it is reduced is ours.
void with_item(size_t itemsize, auto&& f) {
  switch (itemsize) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      raise<DistBackendError>("elements of ", itemsize, " bytes are not moved");
  }
}

class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(int rank, int size, distributed::Store& store, const char* address, Milliseconds timeout)
      : context_(std::make_shared<::gloo::rendezvous::Context>(rank, size)) {
    ::gloo::transport::tcp::attr attributes(address);
    device_ = ::gloo::transport::tcp::CreateDevice(attributes);
    context_->setTimeout(timeout);
    Meeting meeting(store, timeout);
    context_->connectFullMesh(meeting, device_);
  }

  void all_reduce(void* data, size_t count, size_t itemsize, Combine combine, Word word) override {
    ::gloo::AllreduceOptions o(context_);
    with_item(itemsize, [&]<class T>(T) { o.setOutput(static_cast<T*>(data), count); });
    o.setReduceFunction(combine);
    set(o, word);
    ::gloo::allreduce(o);
  }
  void reduce(void* data, size_t count, size_t itemsize, Combine combine, int root, Word word) override {
    ::gloo::ReduceOptions o(context_);
    with_item(itemsize, [&]<class T>(T) { o.setOutput(static_cast<T*>(data), count); });
    o.setReduceFunction(combine);
    o.setRoot(root);
    set(o, word);
    ::gloo::reduce(o);
  }
  void broadcast(void* data, size_t bytes, int root, Word word) override {
    ::gloo::BroadcastOptions o(context_);
    o.setOutput(static_cast<char*>(data), bytes);
    o.setRoot(root);
    set(o, word);
    ::gloo::broadcast(o);
  }
  void all_gather(const void* from, void* to, size_t bytes, Word word) override {
    ::gloo::AllgatherOptions o(context_);
    o.setInput(mine(from), bytes);
    o.setOutput(static_cast<char*>(to), bytes * size());
    set(o, word);
    ::gloo::allgather(o);
  }
  void gather(const void* from, void* to, size_t bytes, int root, Word word) override {
    ::gloo::GatherOptions o(context_);
    o.setInput(mine(from), bytes);
    if (context_->rank == root) o.setOutput(static_cast<char*>(to), bytes * size());
    o.setRoot(root);
    set(o, word);
    ::gloo::gather(o);
  }
  void scatter(const void* from, void* to, size_t bytes, int root, Word word) override {
    ::gloo::ScatterOptions o(context_);
    if (context_->rank == root) {
      std::vector<char*> parts;
      for (size_t i = 0; i < size(); ++i) parts.push_back(mine(from) + i * bytes);
      o.setInputs(parts, bytes);
    }
    o.setOutput(static_cast<char*>(to), bytes);
    o.setRoot(root);
    set(o, word);
    ::gloo::scatter(o);
  }
  void all_to_all(const void* from, std::span<const int64_t> from_bytes, void* to, std::span<const int64_t> to_bytes,
                  Word word) override {
    ::gloo::AlltoallvOptions o(context_);
    o.setInput(mine(from), std::vector<int64_t>(from_bytes.begin(), from_bytes.end()));
    o.setOutput(static_cast<char*>(to), std::vector<int64_t>(to_bytes.begin(), to_bytes.end()));
    set(o, word);
    ::gloo::alltoallv(o);
  }
  void barrier(Word word) override {
    ::gloo::BarrierOptions o(context_);
    set(o, word);
    ::gloo::barrier(o);
  }

  std::unique_ptr<Transfer> send(const void* data, size_t bytes, int to, uint64_t slot) override {
    auto buffer = context_->createUnboundBuffer(mine(data), bytes);
    buffer->send(to, slot);
    return std::make_unique<GlooTransfer>(std::move(buffer), true);
  }
  std::unique_ptr<Transfer> receive(void* data, size_t bytes, int from, uint64_t slot) override {
    auto buffer = context_->createUnboundBuffer(data, bytes);
    if (from >= 0) {
      buffer->recv(from, slot);
    } else {
      std::vector<int> any;
      for (int r = 0; r < context_->size; ++r) {
        if (r != context_->rank) any.push_back(r);
      }
      buffer->recv(any, slot);
    }
    return std::make_unique<GlooTransfer>(std::move(buffer), false);
  }

  void abort() override {
    // Closing the pairs would leave those waiting who wait here. A wait that is out of time tells all of them.
    try {
      context_->createUnboundBuffer(nullptr, 0)->waitRecv(Milliseconds{0});
    } catch (const std::exception&) {  // that it is out of time
    }
    try {
      context_->closeConnections();
    } catch (const std::exception&) {  // they were closed
    }
  }

 private:
  static char* mine(const void* data) { return const_cast<char*>(static_cast<const char*>(data)); }
  size_t size() const { return static_cast<size_t>(context_->size); }
  static void set(auto& o, Word word) {
    o.setTag(word.tag);
    o.setTimeout(word.timeout);
  }

  std::shared_ptr<::gloo::transport::Device> device_;
  std::shared_ptr<::gloo::rendezvous::Context> context_;
};

}  // namespace
}  // namespace smolder::distributed

extern "C" __attribute__((visibility("default"))) smolder::distributed::Communicator* smolder_gloo_connect(
    int rank, int size, smolder::distributed::Store& store, const char* address, int64_t timeout_ms) {
  return new smolder::distributed::GlooCommunicator(rank, size, store, address,
                                                    smolder::distributed::Milliseconds(timeout_ms));
}
