#include "smolder/jit/cuda/barriers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "smolder/jit/cuda/accesses.h"

namespace smolder::jit::cuda {

namespace {

class Inserter {
 public:
  explicit Inserter(Kernel& k) : k_(k) {}

  void run() {
    std::vector<Stmt>& body = tile_loop(k_) ? k_.root.body[0].body : k_.root.body;
    walk(body);
    insert(body);
  }

 private:
  /// A statement that all threads of a group run, or one of a thread loop.
  struct Touch {
    const Address* at;
    const Stmt* loop;  ///< null: all load it, and the first thread stores it
    bool writes;
    /// Whether an element is one thread's, which the loop's extent and the address tell.
    bool is_owned() const { return loop && at->indirect.empty() && stride_of(at->map, loop->vars[0]) != IntRef{}; }
  };

  /// Accesses since the last barrier are in `pending_`. The body of a sequential loop is walked twice, because
  /// one iteration comes after another.
  void walk(const std::vector<Stmt>& body) {
    for (const Stmt& s : body) {
      if (is_sequential(s.kind)) {
        walk(s.body);
        walk(s.body);
        continue;
      }
      std::vector<Touch> touches;
      if (s.kind == StmtKind::kThread) {
        for_each_statement(s, [&](const Stmt& inner, const Stmt*) { add(inner, &s, touches); });
      } else {
        add(s, nullptr, touches);
      }
      if (is_marked(s) || std::ranges::any_of(touches, [&](const Touch& t) { return must_wait(t); })) {
        if (!is_marked(s)) marked_.push_back(&s);
        pending_.clear();
      }
      pending_.insert(pending_.end(), touches.begin(), touches.end());
    }
  }
  static void add(const Stmt& s, const Stmt* loop, std::vector<Touch>& out) {
    if (s.kind == StmtKind::kCopy) out.push_back({&s.source, loop, false});
    const bool writes = s.kind == StmtKind::kStore || s.kind == StmtKind::kCopy;
    if (writes || s.kind == StmtKind::kLoad) out.push_back({&s.address, loop, writes});
  }
  bool is_marked(const Stmt& s) const { return std::ranges::find(marked_, &s) != marked_.end(); }

  bool must_wait(const Touch& now) const {
    return std::ranges::any_of(pending_, [&](const Touch& before) { return conflict(before, now); });
  }

  bool conflict(const Touch& a, const Touch& b) const {
    if (!a.writes && !b.writes) return false;
    if (!a.loop && !b.loop && a.writes && b.writes) return false;  // the first thread makes both
    if (a.at->buffer != b.at->buffer) return may_overwrite(a, b);
    return !(a.is_owned() && b.is_owned() && same_extent(*a.loop, *b.loop) && a.loop->across == b.loop->across &&
             same_column(*a.at, a.loop->vars[0], *b.at, b.loop->vars[0]));
  }

  /// A store may go to the memory of what was read before at the same element (KernelCall::in_place): by the
  /// thread that writes it, but for what all threads load.
  bool may_overwrite(const Touch& before, const Touch& now) const {
    const BufferArg &read = k_.buffers[before.at->buffer], &written = k_.buffers[now.at->buffer];
    return !before.writes && !before.is_owned() && now.writes && !now.loop && !shared_row(k_, before.at->buffer) &&
           itemsize(read.dtype) == itemsize(written.dtype);
  }

  void insert(std::vector<Stmt>& body) const {
    std::vector<Stmt> all;
    for (Stmt& s : body) {
      if (is_marked(s)) all.emplace_back().kind = StmtKind::kBarrier;
      if (is_sequential(s.kind)) insert(s.body);
      all.push_back(std::move(s));
    }
    body = std::move(all);
  }

  Kernel& k_;
  std::vector<Touch> pending_;
  std::vector<const Stmt*> marked_;
};

}  // namespace

void insert_barriers(Kernel& k) {
  if (!chunk_loop(k) || tile_loop(k)) Inserter(k).run();
}

}  // namespace smolder::jit::cuda
