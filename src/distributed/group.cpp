#include "smolder/distributed/group.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "smolder/core/dynamic_library.h"
#include "smolder/core/hash.h"
#include "smolder/core/interrupt.h"
#include "smolder/core/profile.h"
#include "smolder/core/running_source.h"
#include "smolder/distributed/error.h"
#include "smolder/distributed/timeline.h"
#include "smolder/distributed/waits.h"

namespace smolder::distributed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kLook{20};        // between two looks for Ctrl-C
constexpr Milliseconds kPatience{2000};  // how long the others may take to say that they failed, too
constexpr int kMostAsked = 64;           // of a large group not all are asked each time
constexpr size_t kMostAnnounced = 32 << 10;
constexpr std::string_view kRecorded = " (recorded at ";

uint64_t hashed(const std::string& text) { return hash_bytes(text.data(), text.size()).lo; }

std::string with_line(const std::string& where) { return where.empty() ? "" : std::string(kRecorded) + where + ")"; }
std::string without_line(const std::string& told) { return told.substr(0, told.find(kRecorded)); }
std::string without_number(const std::string& told) { return told.substr(told.find(' ') + 1); }

/// Whether another rank told of something else as the same number.
bool is_other(const std::string& told, const Job& job) {
  const std::string number = std::to_string(job.number) + " ";
  return told.starts_with(number) && without_line(told) != number + job.what;
}

/// By number: what a rank announced, in several steps.
std::vector<std::pair<uint64_t, std::string>> read_announced(const std::string& text) {
  std::vector<std::pair<uint64_t, std::string>> out;
  std::istringstream steps(text);
  for (std::string step; std::getline(steps, step, '\0');) {
    std::istringstream lines(step);
    std::string line;
    std::getline(lines, line);
    for (uint64_t number = std::stoull(line); std::getline(lines, line); ++number) out.emplace_back(number, line);
  }
  return out;
}

/// While this process waits, what it waits for may be in the store.
struct WaitingTold {
  WaitingTold(Store& store, int rank) : store(store), rank(rank) {}
  ~WaitingTold() {
    try {
      if (now) forget_waiting(store, rank);
    } catch (const std::exception&) {  // there is no store any more
    }
  }
  WaitingTold(const WaitingTold&) = delete;
  Store& store;
  const int rank;
  mutable bool now = false;
};

/// Where ranks meet to connect. While one waits there it looks whether the others ever come.
class Meeting final : public PrefixStore {
 public:
  explicit Meeting(const Group::Options& o)
      : PrefixStore("meet/" + std::to_string(o.number), o.store),
        group_(o),
        rank_(o.ranks[static_cast<size_t>(o.rank)]),
        waiting_(*o.store, rank_) {}

  std::optional<std::string> find(const std::string& key) override {
    std::optional<std::string> found = PrefixStore::find(key);
    if (!found && Clock::now() >= look_again_) {
      look();
      look_again_ = Clock::now() + Group::kStuck;
    }
    return found;
  }

 private:
  void look() const {
    Waiting w{group_.number, 0, {}, 0, 0, "making " + group_.name};
    for (const int r : group_.ranks) {
      if (r != rank_) w.needed.push_back(r);
    }
    for (size_t i = 0; i < w.needed.size() && i < size_t{kMostAsked}; ++i) {
      const std::string rank = std::to_string(w.needed[i]);
      const auto gone = group_.store->find("gone/" + rank);  // before the other: why it goes is said before it goes
      const auto failed = group_.store->find("failed/" + rank);
      if (!gone) continue;  // a program that catches an error goes on
      raise<DistBackendError>(w.what, ", on rank ", rank_, ": rank ", rank,
                              failed ? " failed: " : " has left: ", failed ? *failed : *gone);
    }
    waiting_.now = true;
    const auto circle = waits_in_circle(*group_.store, rank_, w);
    if (!circle) return;
    fail_groups(*circle);
    raise<DistBackendError>(w.what, ", on rank ", rank_, ": ", *circle);
  }

  const Group::Options& group_;
  const int rank_;
  const WaitingTold waiting_;
  Clock::time_point look_again_ = Clock::now() + Group::kStuck;
};

std::unique_ptr<Communicator> connect(const Group::Options& o, Store& meeting) {
  if (o.backend.empty()) return nullptr;
  if (o.ranks.size() == 1) return lone_communicator();
  if (o.backend != "gloo") raise<DistBackendError>("there is no backend '", o.backend, "'");
  Connect* connect = nullptr;
  try {
    connect = DynamicLibrary::open_plugin("smolder_gloo").symbol<Connect>("smolder_gloo_connect");
  } catch (const Error& e) {
    raise<DistBackendError>("the backend gloo is not there: ", e.what(),
                            ". It needs Gloo: on Debian or Ubuntu, apt-get install libgloo0 (libgloo-dev before "
                            "Smolder is built)");
  }
  try {
    return std::unique_ptr<Communicator>(
        connect(o.rank, static_cast<int>(o.ranks.size()), meeting, o.address.c_str(), o.timeout.count()));
  } catch (const DistError&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {
    raise<DistNetworkError>(o.name, ": rank ", o.ranks[static_cast<size_t>(o.rank)],
                            " could not connect with the others: ", e.what());
  }
}

}  // namespace

// -- the group

Group::Group(Options options) : options_(std::move(options)), timeout_(options_.timeout) {
  note_group(options_.number);
  Meeting meeting(options_);
  communicator_ = connect(options_, meeting);
  if (!options_.device_backend.empty()) nccl::library();
}

Group::~Group() { communicator_ ? communicator_->abort() : void(); }

void Group::abort() {
  if (communicator_) communicator_->abort();
  const std::lock_guard hold(lock_);
  if (on_device_) on_device_->abort();
}

Milliseconds Group::timeout() const {
  const std::lock_guard hold(lock_);
  return timeout_;
}

void Group::set_timeout(Milliseconds timeout) {
  const std::lock_guard hold(lock_);
  timeout_ = timeout;
}

std::string Group::failure() const {
  const std::lock_guard hold(lock_);
  return failure_;
}

void Group::check() const {
  const std::string why = failure();
  if (!why.empty()) throw DistBackendError(why);
}

void Group::check_has_cpu() const {
  if (!communicator_) raise<DistBackendError>(options_.name, " has no backend for tensors on the CPU");
}

std::string Group::key(const char* of, int rank) const {
  return std::string(of) + "/" + std::to_string(options_.number) + "/" +
         std::to_string(options_.ranks[static_cast<size_t>(rank)]);
}

std::string Group::rank_text(int rank) const {
  return "rank " + std::to_string(options_.ranks[static_cast<size_t>(rank)]);
}

std::string Group::title(const Job& job) const {
  const std::string number = job.number ? "number " + std::to_string(job.number) + " of " : "in ";
  return job.what + ", " + number + options_.name + ", on " + rank_text(rank());
}

std::string Group::posted(const Job& job) { return std::to_string(job.number) + " " + job.what; }

std::string Group::told(const Job& job) { return posted(job) + with_line(resolve_source(job.source)); }

/// Ranks of the world.
std::vector<int> Group::needed(const Job& job) const {
  if (job.number == 0) return job.from < 0 ? std::vector<int>{} : std::vector{ranks()[static_cast<size_t>(job.from)]};
  const auto& [root, root_waits, bytes] = job.about;
  if (root >= 0 && root != rank())
    return root_waits ? std::vector<int>{} : std::vector{ranks()[static_cast<size_t>(root)]};
  if (root >= 0 && !root_waits) return {};
  std::vector<int> all = ranks();
  all.erase(all.begin() + rank());
  return all;
}

void Group::submit(const std::shared_ptr<Job>& job, Worker& worker, std::function<void()> body) {
  job->begun_ns = now_ns();
  worker.add([this, job, &worker, body = std::move(body)] {
    job->started_ns = now_ns();
    {
      const std::lock_guard hold(lock_);
      if (&worker == &collectives_) current_ = job;
    }
    std::exception_ptr error;
    try {
      check();
      body();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard hold(job->lock);
    job->ended_ns = now_ns();
    job->error = error;
    job->done = true;
    job->ended.notify_all();
  });
}

std::shared_ptr<Job> Group::begin(std::string what, Body body, About about) {
  check();
  check_has_cpu();
  auto job = std::make_shared<Job>();
  job->what = std::move(what);
  job->number = ++begun_;
  job->source = running_source();
  job->about = about;
  note_collective(number(), begun_);
  const Word word{static_cast<uint32_t>(hashed(posted(*job))), timeout()};
  submit(job, collectives_, [this, body = std::move(body), word, &j = *job] { body(*communicator_, word, j); });
  return job;
}

void Group::run(std::string what, Body body, About about) {
  const std::shared_ptr<Job> job = begin(std::move(what), std::move(body), about);
  finish(*job);
}

void Group::finish(Job& job) {
  const int64_t came = now_ns();
  wait(job);
  if (job.error) lose(job);
  if (keeps_collectives()) [[unlikely]]
    note_collective_ran({job.what, options_.name, job.number, job.about.bytes, job.source, running_source(),
                         job.begun_ns, job.started_ns, job.ended_ns, came, now_ns()});
}

void Group::wait(Job& job) {
  auto look_again = Clock::now() + kStuck;
  const WaitingTold others(*options_.store, ranks()[static_cast<size_t>(rank())]);
  for (;;) {
    {
      std::unique_lock hold(job.lock);
      if (job.ended.wait_for(hold, kLook, [&] { return job.done; })) return;
    }
    try {
      check_interrupt();
    } catch (...) {
      fail("it was interrupted within " + title(job));
      std::unique_lock hold(job.lock);
      job.ended.wait(hold, [&] { return job.done; });
      throw;
    }
    if (Clock::now() < look_again) continue;
    std::optional<std::string> why;
    try {
      others.now = true;
      why = stuck(job, true);
    } catch (const DistError& e) {
      why = without_store(e);
    }
    if (why) {
      close(title(job) + ": " + *why);
      std::unique_lock hold(job.lock);
      job.ended.wait(hold, [&] { return job.done; });
      return;
    }
    look_again = Clock::now() + kStuck;
  }
}

/// Says why a job takes long: another rank ended, failed, or waits for something else. Nothing, where the
/// others may just be late.
/// `waits_here`: the thread that runs steps waits for it, and begins nothing meanwhile.
std::optional<std::string> Group::stuck(const Job& waited, bool waits_here) {
  const auto found = [this](const std::string& why) {  // who does not find it gets it as this rank's
    options_.store->set(key("fault", rank()), why);
    return why;
  };
  std::shared_ptr<Job> current;
  {
    const std::lock_guard hold(lock_);
    current = current_;
  }
  const bool collective = waited.number != 0;
  const Job& job = collective && current ? *current : waited;
  if (collective) options_.store->set(key("at", rank()), told(job));
  const int asked = std::min(size() - 1, kMostAsked);
  for (int i = 1; i <= asked; ++i) {
    const int r = (rank() + i) % size();
    // Why a rank goes is said before it goes.
    const auto gone = options_.store->find("gone/" + std::to_string(options_.ranks[static_cast<size_t>(r)]));
    if (const auto fault = options_.store->find(key("fault", r))) return rank_text(r) + " failed: " + *fault;
    if (gone) return rank_text(r) + " has left: " + *gone;
    if (!collective) continue;
    const std::optional<std::string> other = options_.store->find(key("at", r));
    if (!other) continue;
    if (is_other(*other, job)) {
      return found("the ranks do not do the same: " + rank_text(r) + " does " + without_number(*other) + " as number " +
                   std::to_string(job.number) + ", " + rank_text(rank()) + " does " + without_number(told(job)));
    }
  }
  if (!waits_here) return std::nullopt;
  const std::string line = with_line(resolve_source(job.source));
  const std::string number = job.number ? "number " + std::to_string(job.number) + " of " : "in ";
  const auto circle = waits_in_circle(
      *options_.store, ranks()[static_cast<size_t>(rank())],
      {this->number(), job.number, needed(job), job.slot, job.turn, job.what + ", " + number + options_.name + line});
  return circle ? std::optional(found(*circle)) : std::nullopt;
}

void Group::announce(const std::vector<Planned>& planned) {
  if (size() == 1) return;
  try {
    compare(planned);
  } catch (const DistBackendError&) {
    throw;
  } catch (const DistError& e) {
    raise<DistBackendError>(planned.front().what, ", number ", begun_ + 1, " of ", options_.name, ", on ",
                            rank_text(rank()), ": ", without_store(e));
  }
}

void Group::compare(const std::vector<Planned>& planned) {
  const uint64_t first = begun_ + 1;
  std::string text = std::to_string(first);
  for (const Planned& p : planned) text += '\n' + p.what + with_line(p.where);
  announced_.push_back(std::move(text));
  size_t bytes = 0;
  for (const std::string& t : announced_) bytes += t.size() + 1;
  for (; bytes > kMostAnnounced && announced_.size() > 1; announced_.pop_front())
    bytes -= announced_.front().size() + 1;
  std::string all;
  for (const std::string& t : announced_) all += t + '\0';
  options_.store->set(key("plans", rank()), all);
  const int asked = std::min(size() - 1, kMostAsked);
  for (int i = 1; i <= asked; ++i) {
    const int r = (rank() + i) % size();
    const auto theirs = options_.store->find(key("plans", r));
    if (!theirs) continue;
    for (const auto& [number, what] : read_announced(*theirs)) {
      if (number < first || number - first >= planned.size()) continue;
      const Planned& mine = planned[number - first];
      if (without_line(what) == mine.what) continue;
      raise<DistBackendError>(mine.what, ", number ", number, " of ", options_.name, ", on ", rank_text(rank()),
                              ": the ranks do not do the same: ", rank_text(r), " does ", what, " as number ", number,
                              ", ", rank_text(rank()), " does ", mine.what, with_line(mine.where));
    }
  }
}

/// Throws what `job` failed with, once the others said what they know.
void Group::lose(const Job& job) {
  std::string said = "it failed";
  try {
    std::rethrow_exception(job.error);
  } catch (const std::exception& e) {
    said = e.what();
  }
  if (failure().empty()) close(title(job) + ": " + explain(job, said));
  see_off();
  throw DistBackendError(failure());
}

void Group::see_off() {
  try {
    if (options_.store->add(key("told", rank()), 1) > 1 || !options_.store->is_served_here()) return;
    const auto until = Clock::now() + kPatience + kPatience;
    for (int r = 0; r < size(); ++r) {
      while (r != rank() && Clock::now() < until && !options_.store->find(key("told", r)) &&
             !options_.store->find("gone/" + std::to_string(options_.ranks[static_cast<size_t>(r)]))) {
        std::this_thread::sleep_for(kLook);
      }
    }
  } catch (const DistError&) {  // there is none any more
  }
}

std::string Group::without_store(const std::exception& lost) const {
  std::string out = lost.what();
  if (options_.store_rank >= 0) out += ": that is rank " + std::to_string(options_.store_rank);
  return out;
}

std::string Group::explain(const Job& job, const std::string& said) {
  abort();  // so that the others fail, too, and say so
  std::string gone, failed, silent, different;
  try {
    options_.store->set(key("at", rank()), told(job));
    options_.store->set(key("down", rank()), said);
    const auto until = Clock::now() + kPatience;
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      for (;;) {
        const auto left = options_.store->find("gone/" + std::to_string(options_.ranks[static_cast<size_t>(r)]));
        const auto fault = options_.store->find(key("fault", r));
        const auto at = options_.store->find(key("at", r));
        if (job.number && at && is_other(*at, job)) different += rank_text(r) + " did " + without_number(*at) + "; ";
        if (left) gone += rank_text(r) + " has left: " + *left + "; ";
        if (fault) failed += rank_text(r) + " failed: " + *fault + "; ";
        const auto down = options_.store->find(key("down", r));
        if (down && job.number == 0) failed += rank_text(r) + " says: " + *down + "; ";
        if (left || fault || down) break;
        if (Clock::now() > until) {
          silent += (silent.empty() ? "" : ", ") + rank_text(r);
          break;
        }
        std::this_thread::sleep_for(kLook);
      }
    }
  } catch (const DistError& e) {
    return gone + failed + without_store(e) + "; what was said of the collective: " + said;
  }
  std::string out;
  if (!different.empty()) out += "the ranks do not do the same: " + different;
  out += gone + failed;
  if (!silent.empty()) {
    out += silent + " did not answer within " + std::to_string(kPatience.count()) +
           "ms: stopped, ended, or busy with something else; ";
  }
  return out + "what was said of the collective: " + said;
}

void Group::close(const std::string& why) {
  {
    const std::lock_guard hold(lock_);
    if (failure_.empty()) failure_ = why;
  }
  try {
    options_.store->set("failed/" + std::to_string(ranks()[static_cast<size_t>(rank())]), why);
    options_.store->set(key("down", rank()), why);
  } catch (const std::exception&) {  // the others see that the connection ended
  }
  abort();
}

void Group::fail(const std::string& why) {
  try {
    options_.store->set(key("fault", rank()), why);
  } catch (const std::exception&) {  // as above
  }
  close(options_.name + " is of no use any more: " + rank_text(rank()) + " failed: " + why);
}

// -- point to point

namespace {

/// Above all slots of collectives.
uint64_t slot_of(const std::string& what, int64_t tag) {
  return hashed(what + " " + std::to_string(tag)) | uint64_t{1} << 63;
}

}  // namespace

void Group::send(std::string what, const void* data, size_t bytes, int to, int64_t tag) {
  check();
  check_has_cpu();
  auto job = std::make_shared<Job>();
  const uint64_t slot = slot_of(what, tag);
  job->source = running_source();
  job->what = "send of " + std::move(what) + " to " + rank_text(to);
  job->result.assign(static_cast<const char*>(data), bytes);
  if (bytes == 0) job->result.assign(1, '\0');  // nothing is not moved
  note_send(number(), ranks()[static_cast<size_t>(to)], slot);
  std::shared_ptr<Communicator::Transfer> transfer;
  try {
    transfer = communicator_->send(job->result.data(), job->result.size(), to, slot);
  } catch (const std::exception&) {
    job->error = std::current_exception();
    lose(*job);
  }
  note_transfer(job);
  submit(job, sends_, [this, transfer, timeout = timeout(), &j = *job] {
    try {
      transfer->wait(timeout);
    } catch (const std::exception& e) {  // nobody waits for it who could say so
      if (failure().empty()) close(title(j) + ": " + explain(j, e.what()));
      throw;
    }
  });
}

/// Keeps it for `drain`, and those before it that are not done.
void Group::note_transfer(std::shared_ptr<Job> job) {
  const std::lock_guard hold(lock_);
  while (!sending_.empty()) {
    const std::shared_ptr<Job> first = sending_.front();
    const std::lock_guard of_job(first->lock);
    if (!first->done || first->error) break;
    sending_.pop_front();
  }
  sending_.push_back(std::move(job));
}

std::shared_ptr<Job> Group::begin_receive(std::string what, size_t bytes, int from, int64_t tag) {
  check();
  check_has_cpu();
  auto job = std::make_shared<Job>();
  const uint64_t slot = slot_of(what, tag);
  job->source = running_source();
  job->from = from;
  job->about.bytes = bytes;
  job->slot = slot;
  if (from >= 0) job->turn = note_receive(number(), ranks()[static_cast<size_t>(from)], slot);
  job->what = "receive of " + std::move(what) + " from " + (from < 0 ? "any rank" : rank_text(from));
  job->result.resize(std::max<size_t>(bytes, 1));
  std::shared_ptr<Communicator::Transfer> transfer;
  try {
    transfer = communicator_->receive(job->result.data(), job->result.size(), from, slot);
  } catch (const std::exception&) {
    job->error = std::current_exception();
    lose(*job);
  }
  submit(job, receives_, [transfer, timeout = timeout(), &j = *job] {
    const int peer = transfer->wait(timeout);
    const std::lock_guard hold(j.lock);
    j.sender = peer;
  });
  return job;
}

int Group::finish_receive(Job& job) {
  finish(job);
  return job.sender;
}

void Group::drain() {
  std::shared_ptr<Job> last;
  {
    const std::lock_guard hold(lock_);
    last = last_queued_;
  }
  if (last) finish(*last);
  for (;;) {
    std::shared_ptr<Job> job;
    {
      const std::lock_guard hold(lock_);
      if (sending_.empty()) return;
      job = sending_.front();
    }
    finish(*job);
    const std::lock_guard hold(lock_);
    if (!sending_.empty() && sending_.front() == job) sending_.pop_front();
  }
}

// -- all of them

namespace {

struct Groups {
  std::mutex lock;
  std::map<int64_t, std::shared_ptr<Group>> of;
  static Groups& get() {
    static Groups* const groups = new Groups;  // threads of theirs may run when statics end
    return *groups;
  }
};

}  // namespace

void add_group(std::shared_ptr<Group> group) {
  const std::lock_guard hold(Groups::get().lock);
  Groups::get().of[group->number()] = std::move(group);
}

std::shared_ptr<Group> find_group(int64_t number) {
  const std::lock_guard hold(Groups::get().lock);
  const auto at = Groups::get().of.find(number);
  if (at == Groups::get().of.end()) {
    raise<DistBackendError>("the group number ", number, " was destroyed, or this process is none of its ranks");
  }
  return at->second;
}

bool has_group(int64_t number) {
  const std::lock_guard hold(Groups::get().lock);
  return Groups::get().of.contains(number);
}

void remove_group(int64_t number) {
  std::shared_ptr<Group> last;  // dies without the lock
  const std::lock_guard hold(Groups::get().lock);
  const auto at = Groups::get().of.find(number);
  if (at == Groups::get().of.end()) return;
  last = std::move(at->second);
  Groups::get().of.erase(at);
}

namespace {

std::vector<std::shared_ptr<Group>> all_groups() {
  std::vector<std::shared_ptr<Group>> all;
  const std::lock_guard hold(Groups::get().lock);
  for (const auto& [number, group] : Groups::get().of) all.push_back(group);
  return all;
}

}  // namespace

void fail_groups(const std::string& why) {
  for (const auto& group : all_groups()) {
    if (group->failure().empty()) group->fail(why);
  }
}

void check_groups_on_devices() {
  for (const auto& group : all_groups()) group->check_on_device();
}

void see_off_groups() {
  for (const auto& group : all_groups()) {
    if (group->size() > 1 && !group->failure().empty()) group->see_off();
  }
}

// -- a group of one

namespace {

class Lone final : public Communicator {
 public:
  void all_reduce(void*, size_t, size_t, Combine, Word) override {}
  void reduce(void*, size_t, size_t, Combine, int, Word) override {}
  void broadcast(void*, size_t, int, Word) override {}
  void all_gather(const void* from, void* to, size_t bytes, Word) override { copy(to, from, bytes); }
  void gather(const void* from, void* to, size_t bytes, int, Word) override { copy(to, from, bytes); }
  void scatter(const void* from, void* to, size_t bytes, int, Word) override { copy(to, from, bytes); }
  void all_to_all(const void* from, std::span<const int64_t> bytes, void* to, std::span<const int64_t>, Word) override {
    copy(to, from, static_cast<size_t>(bytes[0]));
  }
  void barrier(Word) override {}
  std::unique_ptr<Transfer> send(const void*, size_t, int, uint64_t) override { nobody(); }
  std::unique_ptr<Transfer> receive(void*, size_t, int, uint64_t) override { nobody(); }
  void abort() override {}

 private:
  static void copy(void* to, const void* from, size_t bytes) {
    if (bytes) std::memmove(to, from, bytes);
  }
  [[noreturn]] static void nobody() { raise<DistBackendError>("a group of one has nobody to send to"); }
};

}  // namespace

std::unique_ptr<Communicator> lone_communicator() { return std::make_unique<Lone>(); }

}  // namespace smolder::distributed
