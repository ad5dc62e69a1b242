#include "smolder/jit/schedule/schedule.h"

#include <algorithm>
#include <map>

#include <absl/container/flat_hash_map.h>
#include "smolder/core/hash.h"
#include "smolder/jit/device_target.h"
#include "smolder/jit/library/waits.h"
#include "smolder/jit/loop/kernel_bytes.h"
#include "smolder/jit/schedule/checks.h"
#include "smolder/jit/schedule/place.h"
#include "smolder/jit/switches.h"

namespace smolder::jit {

namespace {

void set_row_sizes(Program& p) {
  if (DeviceTarget* const target = DeviceTarget::of(p.options.device.type)) target->set_row_sizes(p);
}

/// Numbers the kernels: equal ones get one number, in the order steps run.
void number_kernels(Program& p) {
  absl::flat_hash_map<std::string, int> codes;
  for (Step& step : p.steps) {
    if (step.kernel) step.kernel->code = codes.try_emplace(to_bytes(step.kernel->kernel), codes.size()).first->second;
  }
}

bool waits(const Step& s) { return s.library && waits_on_device(s.library->op); }

int64_t bytes_of(const BufferInfo& buffer) {
  return buffer.elements.value * static_cast<int64_t>(itemsize(buffer.dtype));
}
int64_t arena_bytes(const BufferInfo& buffer) { return buffer.kind == BufferInfo::kArena ? bytes_of(buffer) : 0; }

/// Moves steps that only wait for what goes on beside the queue to right before the first that reads their result, so
/// that the device does meanwhile what comes between. What nothing needs that is begun later, as what an optimizer
/// reads, is waited for at the end, in the order in which it was begun: what ends last, is waited for last. But where
/// the wait gives much memory back, as that for a part of a sum of whole gradients, it is put before the next but one
/// of its kind is begun: by then it has ended, unless the device waits for others all the time.
class WaitSinker {
 public:
  explicit WaitSinker(Program& p) : p_(p), n_(static_cast<int>(p.steps.size())) {}

  void run() {
    if (std::ranges::none_of(p_.steps, waits)) return;
    find_begun();
    find_readers();
    find_last_places();
    std::vector<std::pair<int, int>> places;
    for (int s = 0; s < n_; ++s) places.emplace_back(place(s), s);
    std::ranges::sort(places);
    std::vector<Step> steps;
    for (const auto& [at, s] : places) steps.push_back(std::move(p_.steps[s]));
    p_.steps = std::move(steps);
  }

 private:
  void find_begun() {
    std::vector<int> writer(p_.buffers.size(), -1);
    begun_.assign(n_, -1);
    leads_.assign(n_, false);
    for (int s = 0; s < n_; ++s) {
      const Step& step = p_.steps[s];
      if (waits(step)) begun_[s] = writer[step.reads[0]];
      if (begun_[s] >= 0) leads_[begun_[s]] = true;
      for (const BufferId b : step.writes) writer[b] = s;
    }
  }

  void find_readers() {
    std::vector<int> reader(p_.buffers.size(), n_);  // the first of the leading ones behind
    read_.assign(n_, n_);
    for (int s = n_; s-- > 0;) {
      const Step& step = p_.steps[s];
      for (const BufferId b : step.writes) read_[s] = std::min(read_[s], reader[b]);
      if (read_[s] < n_) leads_[s] = true;
      for (const BufferId b : step.writes) reader[b] = n_;
      if (!leads_[s]) continue;
      for (const BufferId b : step.reads) reader[b] = s;
    }
  }

  /// Memory that those under way at once may keep alive beyond their results, but for two of them.
  static constexpr int64_t kMostHeld = 64 << 20;

  int64_t bytes(const std::vector<BufferId>& buffers) const {
    int64_t sum = 0;
    for (const BufferId b : buffers) sum += arena_bytes(p_.buffers[b]);
    return sum;
  }

  /// Where to wait at last for what nothing needs that is begun later.
  void find_last_places() {
    struct Held {
      int wait, begun;
      int64_t bytes;
    };
    std::vector<Held> held;
    int64_t sum = 0;
    size_t first = 0;
    last_place_.assign(n_, 0);
    for (int s = 0; s < n_; ++s) {
      if (!waits(p_.steps[s]) || read_[s] < n_) continue;
      last_place_[s] = 2 * (n_ + begun_[s] + 1);
      const int64_t given_back = bytes(p_.steps[s].reads) - bytes(p_.steps[s].writes);
      if (given_back > 0) held.push_back({s, begun_[s], given_back});
    }
    std::ranges::sort(held, {}, &Held::begun);
    for (size_t i = 0; i < held.size(); ++i) {
      for (sum += held[i].bytes; sum > kMostHeld && first + 2 <= i; ++first) {
        last_place_[held[first].wait] = 2 * held[i].begun;
        sum -= held[first].bytes;
      }
    }
  }

  /// Where a step goes: twice its number and one, or to before another; not before what it depends on.
  int place(int s) {
    const Step& step = p_.steps[s];
    int at = 2 * s + 1;
    if (waits(step)) at = read_[s] == n_ ? last_place_[s] : 2 * read_[s];
    for (const BufferId b : step.reads) at = std::max(at, written_[b]);
    for (const BufferId b : step.writes) at = std::max({at, written_[b], last_read_[b]});
    for (const BufferId b : step.reads) last_read_[b] = std::max(last_read_[b], at);
    for (const BufferId b : step.writes) written_[b] = at;
    return at;
  }

  Program& p_;
  const int n_;
  std::vector<int> begun_;       ///< by step that waits: what began what it waits for
  std::vector<bool> leads_;      ///< by step: something that is begun needs it, or it is that
  std::vector<int> read_;        ///< by step: the first that leads and reads its result; else their number
  std::vector<int> last_place_;  ///< by step that waits
  std::vector<int> written_ = std::vector<int>(p_.buffers.size()), last_read_ = written_;  ///< by buffer: places
};

/// List scheduling: the next step is the first of the program that is ready, unless another one gives much memory
/// back. Ready steps that run the same kernel join its launch. On a device, where a launch of many small steps takes as
/// long as one of them, steps that nothing waits for but others like them, as those of an optimizer, are put off until
/// all that run the same kernel are ready, or they are much work together or keep much memory alive.
class Scheduler {
 public:
  explicit Scheduler(Program& p)
      : p_(p),
        n_(static_cast<int>(p.steps.size())),
        on_device_(p.options.device == DeviceType::kCUDA),
        joins_small_(on_device_ && !is_disabled("together")) {}

  void run() {
    find_dependencies();
    if (joins_small_) find_late();
    for (int s = 0; s < n_; ++s) {
      if (waits_[s] == 0) make_ready(s);
    }
    for (;;) {
      if (Late* const late = due()) {
        run_late(*late);
      } else if (!ready_.empty()) {
        launch(pick());
      } else {
        break;
      }
    }
    SMOLDER_INVARIANT(static_cast<int>(order_.size()) == n_);
    std::vector<Step> steps;
    for (const int s : order_) steps.push_back(std::move(p_.steps[s]));
    p_.steps = std::move(steps);
    p_.launch_of = std::move(launch_of_);
  }

 private:
  /// Those of one kernel: which are ready and put off, what these keep alive and move, and how many are not ready yet.
  struct Late {
    std::vector<int> ready = {};
    int64_t held = 0, moved = 0;
    int to_come = 0;
  };

  /// Memory that a step must give back to run before its turn, in bytes of the sample: less is not worth a launch
  /// of its own.
  static constexpr int64_t kWorthwhile = 256 << 10;
  /// How many bytes a step that joins a launch before its turn may keep alive for longer.
  static constexpr int64_t kNegligible = 64 << 10;
  /// On a device: what a small step moves at most; with how much moved by all a launch is long enough; what those that
  /// are put off may keep alive, one and all; and what a launch may take for those that join it.
  static constexpr int64_t kSmall = 96 << 20, kEnough = 48 << 20, kHeldByOne = 10 << 20, kMostHeld = 32 << 20,
                           kTakenEarly = 16 << 20;

  /// Whether a step is to overwrite a leaf by what it computes of that.
  bool updates_leaf(int s) const {
    return std::ranges::any_of(p_.steps[s].in_place(), [&](const InPlace& pair) {
      return p_.buffers[pair.read].kind == BufferInfo::kLeaf && p_.buffers[pair.written].kind == BufferInfo::kOutput;
    });
  }

  /// A step waits for the writer of what it reads; where a buffer is updated, also for the readers of what it was. On a
  /// device what updates a leaf waits for what looks at indices or may throw before it in the program, and for what may
  /// throw and needs no update: see find_donors().
  void find_dependencies() {
    std::vector<int> writer(p_.buffers.size(), -1), checks, updates, may_throw_first;
    std::vector<std::vector<int>> readers(p_.buffers.size());  // since the last write
    std::vector<bool> needs_update(n_);
    reads_left_.assign(p_.buffers.size(), 0);
    followers_.resize(n_);
    waits_.assign(n_, 0);
    for (int s = 0; s < n_; ++s) {
      std::vector<int> needs;
      for (const BufferId b : p_.steps[s].reads) {
        ++reads_left_[b];
        if (writer[b] >= 0) needs.push_back(writer[b]);
        readers[b].push_back(s);
      }
      for (const BufferId b : p_.steps[s].writes) {
        if (writer[b] >= 0) needs.push_back(writer[b]);
        needs.insert(needs.end(), readers[b].begin(), readers[b].end());
        readers[b].clear();
        writer[b] = s;
      }
      const bool is_update = on_device_ && updates_leaf(s), throws = on_device_ && may_throw(p_.steps[s]);
      needs_update[s] = is_update || std::ranges::any_of(needs, [&](int n) { return needs_update[n]; });
      if (is_update) {
        updates.push_back(s);
        needs.insert(needs.end(), checks.begin(), checks.end());
      }
      if (throws && !needs_update[s]) {
        may_throw_first.push_back(s);
      } else if (throws || (on_device_ && looks_at_index(p_.steps[s], p_.options.device.type))) {
        checks.push_back(s);
      }
      wait_for(s, std::move(needs));
    }
    for (const int s : updates) wait_for(s, may_throw_first);
  }

  void wait_for(int s, std::vector<int> needs) {
    std::ranges::sort(needs);
    needs.erase(std::ranges::unique(needs).begin(), needs.end());
    for (const int n : needs) {
      if (n == s) continue;
      followers_[n].push_back(s);
      ++waits_[s];
    }
  }

  int64_t moved(int s) const {
    int64_t sum = 0;
    for (const auto* list : {&p_.steps[s].reads, &p_.steps[s].writes}) {
      for (const BufferId b : *list) sum += bytes_of(p_.buffers[b]);
    }
    return sum;
  }
  bool is_small(int s) const { return moved(s) <= kSmall; }

  /// Bytes of the arena that a step may keep alive.
  int64_t holds(int s) const {
    int64_t sum = 0;
    for (const BufferId b : p_.steps[s].reads) sum += bytes(b);
    return sum;
  }

  void find_late() {
    is_late_.assign(n_, false);
    for (int s = n_; s-- > 0;) {
      const bool last = std::ranges::all_of(followers_[s], [&](int f) { return is_late_[f]; });
      is_late_[s] = last && p_.steps[s].kernel && is_small(s) && holds(s) <= kHeldByOne;
      if (is_late_[s]) ++late_[p_.steps[s].kernel->code].to_come;
    }
  }

  void put_off(int s) {
    Late& late = late_[p_.steps[s].kernel->code];
    late.ready.push_back(s);
    late.held += holds(s);
    late.moved += moved(s);
    --late.to_come;
    held_ += holds(s);
  }

  /// Those put off of one kernel that are to run now; null: none. When nothing else is ready, those of which no more
  /// are to come are before others.
  Late* due() {
    Late* best = nullptr;
    for (auto& [code, late] : late_) {
      if (late.ready.empty()) continue;
      if (late.moved >= kEnough) return &late;
      const auto rank = [](const Late& l) { return std::pair(l.to_come == 0, l.held); };
      const bool better = !best || (held_ > kMostHeld ? late.held > best->held : rank(late) > rank(*best));
      if (better) best = &late;
    }
    return ready_.empty() || held_ > kMostHeld ? best : nullptr;
  }

  void run_late(Late& late) {
    held_ -= late.held;
    std::vector<int> steps = std::move(late.ready);
    late = {.to_come = late.to_come};
    std::ranges::sort(steps);
    run_as_launch(steps);
  }

  void make_ready(int s) {
    if (joins_small_ && is_late_[s]) return put_off(s);
    ready_.push_back(s);
    std::push_heap(ready_.begin(), ready_.end(), std::greater<>());
  }

  int64_t bytes(BufferId b) const { return arena_bytes(p_.buffers[b]); }

  /// Bytes of the arena that running `s` now frees, less what it takes.
  int64_t given_back(int s) const {
    int64_t sum = 0;
    for (const BufferId b : p_.steps[s].reads) sum += reads_left_[b] == 1 ? bytes(b) : 0;
    for (const BufferId b : p_.steps[s].writes) {
      const std::vector<BufferId>& reads = p_.steps[s].reads;
      if (std::find(reads.begin(), reads.end(), b) == reads.end()) sum -= bytes(b);  // else it is there already
    }
    return sum;
  }

  /// Would running `s` now take from an output the leaf it could overwrite?
  bool spoils_donation(int s) const {
    return std::ranges::any_of(p_.steps[s].in_place(), [&](const InPlace& pair) {
      return p_.buffers[pair.read].kind == BufferInfo::kLeaf && p_.buffers[pair.written].kind == BufferInfo::kOutput &&
             reads_left_[pair.read] > 1;
    });
  }

  int pick() {
    size_t best = 0;
    int64_t most = kWorthwhile - 1;
    for (size_t i = 0; i < ready_.size() && i < kLook; ++i) {
      if (waits(p_.steps[ready_[i]])) continue;  // the device would have nothing to do meanwhile
      const int64_t gain = given_back(ready_[i]);
      if (gain > most && !spoils_donation(ready_[i])) {
        most = gain;
        best = i;
      }
    }
    if (most < kWorthwhile) {
      std::pop_heap(ready_.begin(), ready_.end(), std::greater<>());
    } else {
      std::swap(ready_[best], ready_.back());
    }
    const int s = ready_.back();
    ready_.pop_back();
    if (most >= kWorthwhile) std::make_heap(ready_.begin(), ready_.end(), std::greater<>());
    return s;
  }

  void launch(int first) {
    std::vector<int> members{first};
    if (p_.steps[first].kernel) {
      const int code = p_.steps[first].kernel->code;
      int64_t may_take = joins_small_ ? kTakenEarly : 0;
      if (joins_small_) std::ranges::sort(ready_);  // which is a heap, too
      for (const int s : ready_) {
        if (!p_.steps[s].kernel || p_.steps[s].kernel->code != code || spoils_donation(s)) continue;
        if (joins_small_ && !(is_small(first) && is_small(s))) continue;
        const int64_t taken = -given_back(s);
        if (taken > kNegligible && taken > may_take) continue;
        if (taken > kNegligible) may_take -= taken;
        members.push_back(s);
      }
      std::sort(members.begin() + 1, members.end());
      if (members.size() > 1) {
        std::erase_if(ready_, [&](int s) { return std::find(members.begin(), members.end(), s) != members.end(); });
        std::make_heap(ready_.begin(), ready_.end(), std::greater<>());
      }
    }
    run_as_launch(members);
  }

  void run_as_launch(const std::vector<int>& members) {
    for (const int s : members) {
      order_.push_back(s);
      launch_of_.push_back(launches_);
      for (const BufferId b : p_.steps[s].reads) --reads_left_[b];
    }
    ++launches_;
    for (const int s : members) {
      for (const int f : followers_[s]) {
        if (--waits_[f] == 0) make_ready(f);
      }
    }
  }

  static constexpr size_t kLook = 64;

  Program& p_;
  const int n_;
  const bool on_device_, joins_small_;
  std::vector<bool> is_late_;  ///< by step: may be put off
  std::map<int, Late> late_;   ///< by kernel
  int64_t held_ = 0;           ///< by all that are put off
  std::vector<int> reads_left_;
  std::vector<std::vector<int>> followers_;  ///< steps that wait for each
  std::vector<int> waits_;
  std::vector<int> ready_;  // a heap: the first of the program on top
  std::vector<int> order_, launch_of_;
  int launches_ = 0;
};

/// Marks the kernels of launches that have several calls, where that is possible.
void run_together(Program& p) {
  DeviceTarget& target = *DeviceTarget::of(p.options.device.type);
  std::map<int, bool> may;  // by number
  for (size_t s = 0; s < p.steps.size(); ++s) {
    const bool after = s > 0 && p.launch_of[s - 1] == p.launch_of[s];
    const bool before = s + 1 < p.steps.size() && p.launch_of[s + 1] == p.launch_of[s];
    if (!p.steps[s].kernel || (!after && !before)) continue;
    KernelCall& call = *p.steps[s].kernel;
    if (auto [known, is_new] = may.try_emplace(call.code); is_new) known->second = target.may_run_together(call.kernel);
    call.kernel.together = may[call.code];
  }
  number_kernels(p);
}

}  // namespace

void schedule_in_order(Program& program) {
  set_row_sizes(program);
  program.launch_of.clear();
  for (size_t i = 0; i < program.steps.size(); ++i) program.launch_of.push_back(static_cast<int>(i));
  find_donors(program, program.launch_of);
  number_kernels(program);
}

void schedule(Program& program) {
  set_row_sizes(program);
  if (program.options.device == DeviceType::kCUDA) WaitSinker(program).run();
  number_kernels(program);
  Scheduler(program).run();
  if (program.options.device == DeviceType::kCUDA && !is_disabled("together")) run_together(program);
  find_donors(program, program.launch_of);
  if (std::ranges::any_of(program.steps, &Step::guarded)) number_kernels(program);
  // Numbers follow the order of first use.
  std::vector<int> now;
  int next = 0;
  for (Step& step : program.steps) {
    if (!step.kernel) continue;
    const auto old = static_cast<size_t>(step.kernel->code);
    if (old >= now.size()) now.resize(old + 1, -1);
    if (now[old] < 0) now[old] = next++;
    step.kernel->code = now[old];
  }
}

}  // namespace smolder::jit
