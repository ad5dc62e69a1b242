// Who holds a lease: a process named so that a recycled pid, a reboot or another container is told apart.
#pragma once

#include <cstdint>
#include <string>

namespace smolder::jit {

struct ProcessName {
  int64_t pid = 0;
  int64_t start = 0;  ///< start time in clock ticks since boot: a recycled pid has another
  std::string host;   ///< boot id and pid namespace: pids compare only within one
};

/// The calling process; read anew each time, so right after fork too.
ProcessName this_process();

enum class Liveness {
  kAlive,
  kDead,
  kUnknown,  ///< runs, or ran, in another pid namespace of this boot: cannot be asked
};
Liveness liveness_of(const ProcessName& process);

}  // namespace smolder::jit
