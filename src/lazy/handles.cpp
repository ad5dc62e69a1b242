// The memory of tensors' handles.
#include <new>
#include <utility>

#include "smolder/lazy/capture.h"
#include "smolder/lazy/lock.h"
#include "smolder/lazy/tensor.h"

namespace smolder::lazy {
namespace {

/// Freed handles of this thread, reused by the next. Trivial, so that reaching it needs no check whether it
/// was constructed; `HandlePoolEnd` empties it when the thread ends.
struct HandlePool {
  struct Free {
    Free* next;
  };
  Free* head;
  int room;  ///< how many more it takes; none before the thread's first allocation, nor after its end
  static constexpr int kMost = 4096;
};
SMOLDER_THREAD_LOCAL HandlePool t_pool = {};

struct HandlePoolEnd {
  HandlePoolEnd() { t_pool.room = HandlePool::kMost; }
  ~HandlePoolEnd() {
    while (t_pool.head) ::operator delete(std::exchange(t_pool.head, t_pool.head->next));
    t_pool.room = 0;  // later frees go to the heap
  }
};

}  // namespace

void* TensorImpl::operator new(size_t size) {
  void* out = t_pool.head;
  if (HandlePool::Free* const free = t_pool.head) {
    t_pool.head = free->next;
    ++t_pool.room;
  } else {
    static thread_local HandlePoolEnd end;
    out = ::operator new(size);
  }
  if (Capture* const c = Capture::current()) [[unlikely]]
    c->note_made(out);
  return out;
}

void TensorImpl::operator delete(void* p) noexcept {
  if (t_pool.room == 0) return ::operator delete(p);
  --t_pool.room;
  t_pool.head = new (p) HandlePool::Free{t_pool.head};
}

ViewStep::~ViewStep() {
  std::shared_ptr<const ViewStep> rest = std::move(before);
  while (rest && rest.use_count() == 1) rest = std::exchange(rest->before, nullptr);
}

}  // namespace smolder::lazy
