#include "smolder/core/cuda/preload.h"

#include <unistd.h>

#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "smolder/core/cuda/nvrtc.h"
#include "smolder/core/fork.h"

namespace smolder::cuda {
namespace {

std::vector<void (*)(int)>& added() {
  static auto* works = new std::vector<void (*)(int)>;
  return *works;
}

/// Never destroyed. Threads are made under the lock, and joined after it: they may take it, through a library's.
struct Preload {
  ForkMutex lock;
  bool promised = false, begun = false;
  std::vector<std::thread> threads;
  pid_t process = 0;  ///< whose they are
  static Preload& get() {
    static auto* const it = new Preload;
    return *it;
  }
};

void run(void (*work)(int), int device) {
  try {
    work(device);
  } catch (const std::exception&) {  // whoever needs it is told
  }
}

}  // namespace

void add_preload(void (*work)(int device)) { added().push_back(work); }

void start_preload(int device) {
  Preload& preload = Preload::get();
  const std::lock_guard hold(preload.lock);
  if (!preload.promised || std::exchange(preload.begun, true)) return;
  preload.process = getpid();
  std::vector<void (*)(int)> works = added();
  works.insert(works.begin(), [](int) { preload_nvrtc(); });
  for (const auto work : works) {
    try {
      preload.threads.emplace_back(run, work, device);
    } catch (const std::system_error&) {  // no more threads: who needs it does it
    }
  }
}

void promise_to_finish_preload() {
  Preload& preload = Preload::get();
  const std::lock_guard hold(preload.lock);
  preload.promised = true;
}

void finish_preload() {
  Preload& preload = Preload::get();
  std::vector<std::thread> threads;
  pid_t process = 0;
  {
    const std::lock_guard hold(preload.lock);
    preload.begun = true;  // what has not begun by now never does
    threads = std::exchange(preload.threads, {});
    process = preload.process;
  }
  if (!threads.empty() && process != getpid()) {  // they are the parent's
    static_cast<void>(new auto(std::move(threads)));
    return;
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace smolder::cuda
