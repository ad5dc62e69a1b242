// Values that each thread has its own of, on the heap.
#pragma once

#include <cstdint>

namespace smolder {

namespace per_thread {

struct Slot {
  void* value = nullptr;
  void (*destroy)(void*) = nullptr;
};

uint32_t next_index();

/// The calling thread's, valid until it asks for another.
Slot& slot(uint32_t index);

}  // namespace per_thread

/// One value a thread, made when the thread first asks for it and destroyed when the thread ends. A `thread_local` of
/// the same would lie in the library's thread-local block, all of which is taken from the loader's reserve, as some of
/// it is reached without a call (SMOLDER_THREAD_LOCAL): 1.6 KB for all libraries that a process loads late, of which
/// PyTorch's need a part. What is neither small nor reached for each op belongs here.
///
/// Declare it static: a place of every thread's table is its for good.
template <class T>
class PerThread {
 public:
  PerThread() = default;
  PerThread(const PerThread&) = delete;

  T& operator*() const {
    void* const value = per_thread::slot(index_).value;
    return value ? *static_cast<T*>(value) : make();
  }
  T* operator->() const { return &**this; }

 private:
  T& make() const {
    T* const made = new T();
    per_thread::slot(index_) = {made, [](void* value) { delete static_cast<T*>(value); }};
    return *made;
  }

  uint32_t index_ = per_thread::next_index();
};

}  // namespace smolder
