#include "smolder/jit/cache/process.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string_view>

namespace smolder::jit {
namespace {

/// Start time from /proc/PID/stat; -1 when there is no such process or it is a zombie, 0 without /proc.
int64_t start_time_of(int64_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  if (!stat) {
    if (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return -1;
    return 0;
  }
  std::string text;
  std::getline(stat, text);
  // The name, in parentheses, may hold anything; fields count from behind its last parenthesis.
  const size_t close = text.rfind(')');
  if (close == std::string::npos) return 0;
  std::istringstream fields(text.substr(close + 1));
  std::string field;
  for (int number = 3; number <= 22 && fields >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return -1;
  }
  return std::stoll("0" + field);
}

std::string boot_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

std::string pid_namespace() {
  char name[64];
  const ssize_t size = readlink("/proc/self/ns/pid", name, sizeof name);
  return size > 0 ? std::string(name, static_cast<size_t>(size)) : std::string();
}

}  // namespace

ProcessName this_process() {
  const int64_t pid = getpid();
  return {pid, start_time_of(pid), boot_id() + "/" + pid_namespace()};
}

Liveness liveness_of(const ProcessName& process) {
  static const std::string boot = boot_id();
  if (std::string_view(process.host).substr(0, process.host.find('/')) != boot) return Liveness::kDead;
  if (process.host != boot + "/" + pid_namespace()) return Liveness::kUnknown;
  const int64_t start = start_time_of(process.pid);
  if (start < 0) return Liveness::kDead;
  const bool same = start == 0 || process.start == 0 || start == process.start;
  return same ? Liveness::kAlive : Liveness::kDead;
}

}  // namespace smolder::jit
