#include "smolder/core/cuda/preload.h"

#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
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
  std::promise<void> promise;
  std::shared_future<void> future = promise.get_future().share();
  static Done& all() {
    static auto* done = new Done;
    return *done;
  }
};

}  // namespace

void add_preload(void (*work)(int device)) { added().push_back(work); }

void start_preload(int device) {
  static std::once_flag once;
  std::call_once(once, [device] {
    finish_preload_before_exit();
    std::thread([device] {
      const auto run = [device](auto&& work) {
        try {
          work(device);
        } catch (const std::exception&) {  // whoever needs it is told
        }
      };
      run([](int) { preload_nvrtc(); });
      for (const auto work : added()) run(work);
      Done::all().promise.set_value();
    }).detach();
  });
}

void finish_preload_before_exit() {
  std::atexit([] {
    if (!is_forked()) Done::all().future.wait();
  });
}

}  // namespace smolder::cuda
