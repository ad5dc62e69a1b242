#include "smolder/core/cuda/preload.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/nvrtc.h"

namespace smolder::cuda {
namespace {

std::vector<void (*)(int)>& added() {
  static auto* works = new std::vector<void (*)(int)>;
  return *works;
}

struct Done {
  std::atomic<size_t> left = 0;
  std::atomic<bool> started = false, first = false;
  std::promise<void> promise;
  std::shared_future<void> future = promise.get_future().share();
  static Done& all() {
    static auto* done = new Done;
    return *done;
  }
};

void finish_one() {
  if (--Done::all().left == 0) Done::all().promise.set_value();
}

void run(void (*work)(int), int device) {
  try {
    work(device);
  } catch (const std::exception&) {  // whoever needs it is told
  }
  finish_one();
}

}  // namespace

void add_preload(void (*work)(int device)) { added().push_back(work); }

void start_preload(int device) {
  static std::once_flag once;
  std::call_once(once, [device] {
    finish_preload_before_exit();
    std::vector<void (*)(int)> works = added();
    works.insert(works.begin(), [](int) { preload_nvrtc(); });
    Done::all().left = works.size();
    Done::all().started = true;
    for (const auto work : works) {
      try {
        std::thread(run, work, device).detach();
      } catch (const std::system_error&) {  // no more threads: who needs it does it
        finish_one();
      }
    }
  });
}

void promise_to_finish_preload() { Done::all().first = true; }
bool is_preload_finished_first() { return Done::all().first; }

void finish_preload() {
  if (Done::all().started && !is_forked()) Done::all().future.wait();
}

void finish_preload_before_exit() { std::atexit(finish_preload); }

}  // namespace smolder::cuda
