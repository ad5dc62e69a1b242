// Interface of a library of collectives to a group: bytes between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "smolder/distributed/combine.h"
#include "smolder/distributed/store.h"

namespace smolder::distributed {

/// The words that all ranks must agree on before they exchange anything: ranks whose words differ never meet.
struct Word {
  uint32_t tag = 0;
  Milliseconds timeout{0};
};

/// The ranks of one group, connected. Collectives wait until they are done, and are called by one thread at a time;
/// transfers and `abort` by any. All throw std::exception when a peer is lost or time is up, and do nothing useful
/// after that.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// `data` holds this rank's values and gets the result.
  virtual void all_reduce(void* data, size_t count, size_t itemsize, Combine combine, Word word) = 0;
  /// The same, where the others' `data` is undefined after.
  virtual void reduce(void* data, size_t count, size_t itemsize, Combine combine, int root, Word word) = 0;
  virtual void broadcast(void* data, size_t bytes, int root, Word word) = 0;
  /// `to` gets `bytes` of each rank, in order.
  virtual void all_gather(const void* from, void* to, size_t bytes, Word word) = 0;
  virtual void gather(const void* from, void* to, size_t bytes, int root, Word word) = 0;
  /// `from` of the root has `bytes` for each rank, in order.
  virtual void scatter(const void* from, void* to, size_t bytes, int root, Word word) = 0;
  /// Sizes for and from each rank, in bytes; both sides of a pair agree on theirs.
  virtual void all_to_all(const void* from, std::span<const int64_t> from_bytes, void* to,
                          std::span<const int64_t> to_bytes, Word word) = 0;
  virtual void barrier(Word word) = 0;

  /// Bytes under way.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    /// Waits until the memory may be used again. Returns the peer.
    virtual int wait(Milliseconds timeout) = 0;
  };
  /// The two sides meet by `slot`, in the order in which they were called.
  virtual std::unique_ptr<Transfer> send(const void* data, size_t bytes, int to, uint64_t slot) = 0;
  /// `from` -1: whichever rank sends first.
  virtual std::unique_ptr<Transfer> receive(void* data, size_t bytes, int from, uint64_t slot) = 0;

  /// Ends all that goes on, here and at the peers, with errors.
  virtual void abort() = 0;
};

/// The communicator of a group of one.
std::unique_ptr<Communicator> lone_communicator();

/// The function that a plugin exports: it connects a rank with the others of its group, which it meets in the store.
using Connect = Communicator*(int rank, int size, Store& store, const char* address, int64_t timeout_ms);

}  // namespace smolder::distributed
