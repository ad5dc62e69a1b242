#include "smolder/distributed/waits.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <tuple>

namespace smolder::distributed {
namespace {

constexpr int kMostLooks = 64;  // of a large group not all are asked each time

/// A rank of the world, a group and a slot.
using Way = std::tuple<int, int64_t, uint64_t>;

struct Progress {
  std::map<int64_t, uint64_t> collectives;  ///< by group: the number of the last one
  std::map<Way, uint64_t> sends;
};

struct Own {
  std::mutex lock;
  Progress begun;
  std::map<Way, uint64_t> receives;
  static Own& get() {
    static Own* const own = new Own;  // threads may run when statics end
    return *own;
  }
};

/// The entry of a process in the store.
struct Said {
  Waiting waiting;
  Progress begun;
};

std::string key(int rank) { return "waits/" + std::to_string(rank); }

std::string text_of(const Said& said) {
  const auto& [w, begun] = said;
  std::ostringstream out;
  out << w.group << ' ' << w.number << ' ' << w.slot << ' ' << w.turn << ' ' << w.needed.size();
  for (const int r : w.needed) out << ' ' << r;
  out << ' ' << begun.collectives.size();
  for (const auto& [group, number] : begun.collectives) out << ' ' << group << ' ' << number;
  out << ' ' << begun.sends.size();
  for (const auto& [way, count] : begun.sends) {
    out << ' ' << std::get<0>(way) << ' ' << std::get<1>(way) << ' ' << std::get<2>(way) << ' ' << count;
  }
  out << '\n' << w.what;
  return out.str();
}

std::optional<Said> read(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::istringstream in(text);
  Said said;
  auto& [w, begun] = said;
  size_t count = 0;
  in >> w.group >> w.number >> w.slot >> w.turn >> count;
  for (size_t i = 0; i < count && in; ++i) in >> w.needed.emplace_back();
  in >> count;
  for (size_t i = 0; i < count && in; ++i) {
    int64_t group = 0;
    in >> group;
    in >> begun.collectives[group];
  }
  in >> count;
  for (size_t i = 0; i < count && in; ++i) {
    Way way;
    in >> std::get<0>(way) >> std::get<1>(way) >> std::get<2>(way);
    in >> begun.sends[way];
  }
  if (!in) return std::nullopt;
  in.ignore(1);
  w.what.assign(std::istreambuf_iterator<char>(in), {});
  return said;
}

/// Whether `other` has begun what `rank` waits for, so that it may still come to its end.
bool has_begun(const Said& other, int rank, const Waiting& w) {
  if (w.turn) {
    const auto at = other.begun.sends.find({rank, w.group, w.slot});
    return at != other.begun.sends.end() && at->second >= w.turn;
  }
  const auto at = other.begun.collectives.find(w.group);
  return at != other.begun.collectives.end() && at->second >= w.number;
}

/// Follows who waits for whom, from one rank, until it comes back to it.
class Search {
 public:
  Search(Store& store, int rank, const Said& own) : store_(store), rank_(rank) { all_[rank] = own; }

  bool find(int from) {
    if (!seen_.insert(from).second) return false;
    const Said at = all_.at(from);
    for (const int next : at.waiting.needed) {
      const Said* const other = said_by(next);
      if (!other || has_begun(*other, from, at.waiting)) continue;
      const bool closed = next == rank_;
      if (!closed && !find(next)) continue;
      text_ = "rank " + std::to_string(from) + " waits for rank " + std::to_string(next) + " in " + at.waiting.what +
              (text_.empty() ? "" : "; " + text_);
      return true;
    }
    return false;
  }
  const std::string& text() const { return text_; }

 private:
  const Said* said_by(int rank) {
    if (const auto at = all_.find(rank); at != all_.end()) return &at->second;
    if (looks_++ >= kMostLooks) return nullptr;
    const std::optional<std::string> text = store_.find(key(rank));
    const std::optional<Said> said = text ? read(*text) : std::nullopt;
    return said ? &(all_[rank] = *said) : nullptr;
  }

  Store& store_;
  const int rank_;
  std::map<int, Said> all_;
  std::set<int> seen_;
  int looks_ = 0;
  std::string text_;
};

}  // namespace

void note_group(int64_t group) {
  Own& own = Own::get();
  const std::lock_guard hold(own.lock);
  own.begun.collectives.try_emplace(group, 0);
}

void note_collective(int64_t group, uint64_t number) {
  Own& own = Own::get();
  const std::lock_guard hold(own.lock);
  own.begun.collectives[group] = number;
}

void note_send(int64_t group, int to, uint64_t slot) {
  Own& own = Own::get();
  const std::lock_guard hold(own.lock);
  ++own.begun.sends[{to, group, slot}];
}

uint64_t note_receive(int64_t group, int from, uint64_t slot) {
  Own& own = Own::get();
  const std::lock_guard hold(own.lock);
  return ++own.receives[{from, group, slot}];
}

// The entry of a process stays true while it waits, as it begins nothing meanwhile. So nobody of a circle has moved
// since it was looked at: the last one waits for this process, which does not move, the one before for the last, and so
// on.
std::optional<std::string> waits_in_circle(Store& store, int rank, const Waiting& waiting) {
  Said own{waiting, {}};
  {
    Own& mine = Own::get();
    const std::lock_guard hold(mine.lock);
    own.begun = mine.begun;
  }
  store.set(key(rank), text_of(own));
  Search search(store, rank, own);
  if (!search.find(rank)) return std::nullopt;
  return "the ranks do not do the same, and wait for each other: " + search.text();
}

void forget_waiting(Store& store, int rank) { store.set(key(rank), ""); }

}  // namespace smolder::distributed
