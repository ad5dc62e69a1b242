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
  std::atomic<bool> started = false;
  std::promise<void> promise;
  std::shared_future<void> future = promise.get_future().share();
  static Done& all() {
    static auto* done = new Done;
    return *done;
  }
};

void run_all(int device) {
  const auto run = [](auto&& work, auto... arguments) {
    try {
      work(arguments...);
    } catch (const std::exception&) {  // whoever needs it is told
    }
  };
  run(preload_nvrtc);
  for (const auto work : added()) run(work, device);
  Done::all().promise.set_value();
}

}  // namespace

void add_preload(void (*work)(int device)) { added().push_back(work); }

void start_preload(int device) {
  static std::once_flag once;
  std::call_once(once, [device] {
    finish_preload_before_exit();
    try {
      std::thread(run_all, device).detach();
      Done::all().started = true;
    } catch (const std::system_error&) {  // no more threads: each does its own when it is needed
    }
  });
}

void finish_preload() {
  if (Done::all().started && !is_forked()) Done::all().future.wait();
}

void finish_preload_before_exit() { std::atexit(finish_preload); }

}  // namespace smolder::cuda
