#include "jit/cache_test_util.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "smolder/core/counters.h"

namespace smolder::jit::test {

namespace fs = std::filesystem;

ScratchDirectory::ScratchDirectory() {
  // In memory where there is such a place: these tests make hundreds of databases, and on a busy disk
  // each costs several flushes. A kill loses nothing that the kernel holds, there or on disk.
  const bool shared_memory = access("/dev/shm", W_OK) == 0;
  const fs::path where = shared_memory ? fs::path("/dev/shm") : fs::temp_directory_path();
  std::string name = (where / "smolder-cache-XXXXXX").string();
  if (!mkdtemp(name.data())) ADD_FAILURE() << "cannot make a scratch directory";
  path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  fs::permissions(path_, fs::perms::owner_all, ignored);
  fs::remove_all(path_, ignored);
}

std::string ScratchDirectory::database() const { return path_ + "/cache-v" + std::to_string(Store::kVersion) + ".db"; }

DiskOptions ScratchDirectory::options(int64_t max_bytes) const {
  DiskOptions o;
  o.directory = path_;
  o.max_bytes = max_bytes;
  return o;
}

std::vector<std::string> ScratchDirectory::names(const std::string& part) const {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (name.find(part) != std::string::npos) out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

CacheRecord make_record(int n, size_t bytes) {
  std::mt19937_64 random(static_cast<uint64_t>(n) + 1);
  CacheRecord r;
  r.kind = n % 5 == 4 ? "plan" : "kernel";
  r.structure = "structure of " + std::to_string(n) + std::string(1, '\0') + std::string(random() % 400, 'x');
  r.key = hash_bytes(r.structure.data(), r.structure.size());
  r.target = "x86-64;+avx2,+fma;llvm 19";
  r.payload.resize(bytes / 2 + random() % (bytes + 1));
  for (size_t at = 0; at < r.payload.size(); at += 8) {
    const uint64_t word = random();
    r.payload.replace(at, 8, reinterpret_cast<const char*>(&word), std::min<size_t>(8, r.payload.size() - at));
  }
  if (n % 3 == 0) r.source = "; source of " + std::to_string(n);
  r.build_ms = 0.25 * n;
  r.created = 1'700'000'000'000 + n;
  r.where = "train.py:" + std::to_string(n);
  r.name = "kernel_" + std::to_string(n);
  return r;
}

bool same_content(const CacheRecord& found, const CacheRecord& made) {
  return found.kind == made.kind && found.key == made.key && found.structure == made.structure &&
         found.target == made.target && found.payload == made.payload && found.build_ms == made.build_ms &&
         found.created == made.created && found.where == made.where && found.name == made.name;
}

int64_t count_of(const std::string& counter_name) { return counter(counter_name).value(); }

int occurrences(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

Worker::Worker(const std::vector<std::string>& arguments) {
  int out[2], in[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(in, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "no pipe";
    return;
  }
  std::string setting = "SMOLDER_CACHE_WORKER=";
  for (const std::string& word : arguments) setting += word + " ";
  std::vector<char*> env;
  for (char** e = environ; *e; ++e) env.push_back(*e);
  env.push_back(setting.data());
  env.push_back(nullptr);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=CacheWorker.DISABLED_Run",
              disabled = "--gtest_also_run_disabled_tests", no_file = "--gtest_output=";
  char* argv[] = {program.data(), filter.data(), disabled.data(), no_file.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 3);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  if (posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, env.data()) != 0) ADD_FAILURE() << "no process";
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(in[0]);
  from_worker_ = out[0];
  to_worker_ = in[1];
}

Worker::~Worker() {
  if (pid_ > 0) kill_now();
  close(from_worker_);
  close(to_worker_);
}

bool Worker::wait_ready() {
  char byte;
  return read(from_worker_, &byte, 1) == 1;
}

void Worker::release() {
  const char byte = 'g';
  if (write(to_worker_, &byte, 1) != 1) ADD_FAILURE() << "the worker is gone";
}

void Worker::kill_now() {
  kill(pid_, SIGKILL);
  wait();
}

int Worker::wait() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace smolder::jit::test
