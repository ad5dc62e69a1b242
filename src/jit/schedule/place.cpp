#include "smolder/jit/schedule/place.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "smolder/core/buffer.h"
#include "smolder/core/size.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/schedule/checks.h"

namespace smolder::jit {

std::vector<Lifetime> lifetimes_of(Program& p, std::span<const int> launch_of) {
  std::vector<Lifetime> out;
  std::vector<int> index(p.buffers.size(), -1);
  for (size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    for (const BufferId b : step.writes) {
      if (p.buffers[b].kind != BufferInfo::kArena || index[b] >= 0) continue;
      index[b] = static_cast<int>(out.size());
      out.push_back({b,
                     p.buffers[b].elements,
                     static_cast<int64_t>(itemsize(p.buffers[b].dtype)),
                     launch_of[s],
                     launch_of[s],
                     {}});
    }
    for (const auto* list : {&step.reads, &step.writes}) {
      for (const BufferId b : *list) {
        if (index[b] >= 0) out[index[b]].last = std::max(out[index[b]].last, launch_of[s]);
      }
    }
  }
  for (size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    for (const InPlace& pair : step.in_place()) {
      const int r = index[pair.read], w = index[pair.written];
      if (r < 0 || w < 0 || r == w || out[r].last != launch_of[s] || out[w].first != launch_of[s]) continue;
      // Another step of the same launch may read it, too.
      bool alone = true;
      for (size_t t = 0; t < p.steps.size() && alone; ++t) {
        alone = t == s || launch_of[t] != launch_of[s] ||
                std::find(p.steps[t].reads.begin(), p.steps[t].reads.end(), out[r].buffer) == p.steps[t].reads.end();
      }
      // The step walks both as one, so that they are of one size is known, if perhaps under two names.
      if (alone && p.graph.sym.equal(out[r].elements, out[w].elements)) out[w].heirs_of.push_back(r);
    }
  }
  return out;
}

namespace {

/// Memory for a while, of one lifetime or of some that follow one another.
struct Block {
  int64_t bytes = 0, offset = 0;
  int first = 0, last = 0;
  BufferId host = -1;
};

/// The blocks, placed by best fit in order of first use, and the bytes of all.
struct Blocks {
  std::vector<Block> blocks;
  std::vector<size_t> of;  ///< by lifetime
  int64_t bytes = 0;
};

/// Parts of an arena that are free, and its end.
class FreeBlocks {
 public:
  void release(int64_t offset, int64_t size) {
    auto at = free_.emplace(offset, size).first;
    if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at == free_.begin()) return;
    const auto before = std::prev(at);
    if (before->first + before->second != at->first) return;
    before->second += at->second;
    free_.erase(at);
  }
  /// The offset of so many bytes: in the smallest part that has room, or at the end, which moves.
  int64_t take(int64_t bytes) {
    auto best = free_.end();
    for (auto b = free_.begin(); b != free_.end(); ++b) {
      if (b->second >= bytes && (best == free_.end() || b->second < best->second)) best = b;
    }
    if (best == free_.end()) return grow(bytes);
    const auto [offset, room] = *best;
    free_.erase(best);
    if (room > bytes) free_.emplace(offset + bytes, room - bytes);
    return offset;
  }
  int64_t end() const { return end_; }

 private:
  /// From the last part on when that is free up to the end.
  int64_t grow(int64_t bytes) {
    int64_t start = end_;
    if (!free_.empty()) {
      const auto last = std::prev(free_.end());
      if (last->first + last->second == end_) {
        start = last->first;
        free_.erase(last);
      }
    }
    end_ = (Size(start) + bytes).value();
    return start;
  }

  std::map<int64_t, int64_t> free_;  ///< by offset: size
  int64_t end_ = 0;
};

Blocks place_in_order(std::span<const Lifetime> lifetimes, std::span<const int64_t> evaluated) {
  Blocks out;
  out.of.resize(lifetimes.size());
  std::vector<bool> inherited(lifetimes.size(), false);
  FreeBlocks free_blocks;
  std::multimap<int, size_t> ending;  // by last launch
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& l = lifetimes[i];
    while (!ending.empty() && ending.begin()->first < l.first) {
      const size_t done = ending.begin()->second;
      ending.erase(ending.begin());
      if (!inherited[done]) free_blocks.release(out.blocks[out.of[done]].offset, out.blocks[out.of[done]].bytes);
    }
    const int64_t size = (Size(ir::SymTable::value(l.elements, evaluated)) * l.itemsize).value();
    ending.emplace(l.last, i);
    const auto heir = std::find_if(l.heirs_of.begin(), l.heirs_of.end(), [&](int r) { return !inherited[r]; });
    if (heir != l.heirs_of.end()) {
      inherited[*heir] = true;
      out.of[i] = out.of[*heir];
      out.blocks[out.of[i]].last = l.last;
      continue;
    }
    constexpr auto kStep = static_cast<int64_t>(kAlignment);
    const int64_t bytes = (Size(ceil_div(size, kStep)) * kStep).value();
    out.of[i] = out.blocks.size();
    Block& block = out.blocks.emplace_back(Block{bytes, 0, l.first, l.last});
    if (bytes > 0) block.offset = free_blocks.take(bytes);
  }
  out.bytes = free_blocks.end();
  return out;
}

/// The most bytes that blocks need at once, and in which launch.
struct Peak {
  int64_t bytes = 0;
  int launch = 0;
};
Peak most_live(const std::vector<Block>& blocks) {
  std::map<int, int64_t> change;
  for (const Block& b : blocks) {
    change[b.first] += b.bytes;
    change[b.last + 1] -= b.bytes;
  }
  int64_t now = 0;
  Peak most;
  for (const auto& [launch, bytes] : change) {
    now += bytes;
    if (now > most.bytes) most = {now, launch};
  }
  return most;
}

/// The lowest offset at which nothing of `placed`, which is in order of offsets, is in the way of `b`.
int64_t lowest_for(const Block& b, const std::vector<const Block*>& placed) {
  int64_t end = 0;
  for (const Block* other : placed) {
    if (other->last < b.first || other->first > b.last) continue;
    if (other->offset - end >= b.bytes) break;
    end = std::max(end, other->offset + other->bytes);
  }
  return end;
}

void put(Block& b, int64_t offset, std::vector<const Block*>& placed) {
  b.offset = offset;
  placed.insert(std::ranges::upper_bound(placed, offset, {}, &Block::offset), &b);
}

std::vector<Block*> largest_first(std::vector<Block>& blocks) {
  std::vector<Block*> order;
  for (Block& b : blocks) {
    if (b.host < 0) order.push_back(&b);
  }
  std::ranges::stable_sort(order, [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  return order;
}

/// Places the largest first, each as low as those before it leave room. Takes time by the square of their number.
void place_by_size(Blocks& all) {
  std::vector<const Block*> placed;
  all.bytes = 0;
  for (Block* b : largest_first(all.blocks)) {
    put(*b, lowest_for(*b, placed), placed);
    all.bytes = std::max(all.bytes, b->offset + b->bytes);
  }
}

/// Gives blocks that are needed when most is a place in the smallest host that has room until they end.
void place_in_hosts(Blocks& all, std::span<const Host> hosts, std::span<const int64_t> evaluated) {
  struct Room {
    const Host* host;
    int64_t bytes;
    std::vector<const Block*> placed;
  };
  std::vector<Room> rooms;
  for (const Host& h : hosts)
    rooms.push_back({&h, (Size(ir::SymTable::value(h.elements, evaluated)) * h.itemsize).value(), {}});
  std::ranges::stable_sort(rooms, {}, &Room::bytes);
  const int peak = most_live(all.blocks).launch;
  for (Block* b : largest_first(all.blocks)) {
    if (b->first > peak || b->last < peak || b->bytes == 0) continue;
    for (Room& room : rooms) {
      if (b->last >= room.host->until || b->bytes > room.bytes) continue;
      const int64_t offset = lowest_for(*b, room.placed);
      if (offset + b->bytes > room.bytes) continue;
      put(*b, offset, room.placed);
      b->host = room.host->buffer;
      break;
    }
  }
}

/// Blocks that are worth placing twice, and the part of the arena that must be empty for that.
constexpr size_t kMostPlaced = 1024;
constexpr int64_t kWaste = 256;

}  // namespace

Placement place(std::span<const Lifetime> lifetimes, std::span<const int64_t> evaluated, std::span<const Host> hosts) {
  Blocks best = place_in_order(lifetimes, evaluated);
  if (best.blocks.size() <= kMostPlaced) {
    Blocks other = best;
    place_in_hosts(other, hosts, evaluated);
    if (!hosts.empty() || best.bytes - most_live(best.blocks).bytes > best.bytes / kWaste) place_by_size(other);
    if (other.bytes < best.bytes) best = std::move(other);
  }
  Placement out{.offsets = {}, .hosts = {}, .bytes = best.bytes};
  for (const size_t b : best.of) {
    out.offsets.push_back(best.blocks[b].offset);
    out.hosts.push_back(best.blocks[b].host);
  }
  return out;
}

namespace {

/// Finds, for outputs, leaves that they may overwrite.
class DonorSearch {
 public:
  DonorSearch(Program& p, std::span<const int> launch_of)
      : p_(p),
        launch_of_(launch_of),
        last_read_(p.buffers.size(), -1),
        only_reader_(p.buffers.size(), -1),
        writers_(p.buffers.size()) {
    for (int s = 0; s < static_cast<int>(p.steps.size()); ++s) {
      for (const BufferId b : p.steps[s].reads) {
        if (launch_of[s] > last_read_[b]) {
          last_read_[b] = launch_of[s];
          only_reader_[b] = s;
        } else if (launch_of[s] == last_read_[b] && only_reader_[b] != s) {
          only_reader_[b] = kSeveral;
        }
      }
    }
    list_leaves();
  }

  void run() {
    find_checks(p_, launch_of_);
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      for (const BufferId b : p_.steps[s].writes) writers_[b].push_back(static_cast<int>(s));
    }
    const int last_users = last_launch_of_users();
    const bool on_cpu = p_.options.device == DeviceType::kCPU;
    for (size_t o = 0; o < p_.outputs.size(); ++o) {
      const BufferId out = p_.output_buffers[o];
      if (out < 0 || writers_[out].empty()) continue;
      const int writer = writers_[out].front();
      const int last_throwing = std::max(last_users, on_cpu ? p_.last_check : -1);
      if (may_write_leaves(writer, last_throwing)) find(static_cast<int>(o), out, writer);
    }
    choose();
    if (!on_cpu && p_.checks) guard();
  }

 private:
  struct Candidate {
    int distance, leaf, output;
    auto operator<=>(const Candidate&) const = default;
  };
  using Near = std::unordered_map<BufferId, int>;

  /// Donors listed for an output: the first is alive where a program keeps gradients, say.
  static constexpr size_t kMostDonors = 4;
  /// The distance of what an output is not near to.
  static constexpr int kFar = 1000;
  /// Who reads a buffer in the last launch that does, where they are several steps.
  static constexpr int kSeveral = -2;
  /// An op of more operands, as one that gathers all of a model's norms, is no update of one of them.
  static constexpr size_t kFewOperands = 8;

  void list_leaves() {
    std::unordered_set<int> passed_on;  // numbers of leaves that are outputs as they are
    for (const OutputInfo& o : p_.outputs) passed_on.insert(o.same_as_leaf);
    is_leaf_.assign(p_.buffers.size(), false);
    for (size_t b = 0; b < p_.buffers.size(); ++b) {
      const BufferInfo& leaf = p_.buffers[b];
      if (leaf.kind != BufferInfo::kLeaf || passed_on.contains(leaf.number)) continue;
      if (!leaf.contiguous || leaf.offset != ir::Dim(0)) continue;
      is_leaf_[b] = true;
      leaves_of_size_[leaf.elements.value].push_back(static_cast<BufferId>(b));
    }
  }

  /// A user's kernel that throws, or on the CPU an index out of range, ends the step, which then runs op by op from its
  /// leaves: none may be overwritten before. On a device kernels that overwrite leaves are guarded, and a step that
  /// only waits begins nothing that may fail.
  int last_launch_of_users() const {
    int last = -1;
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      if (may_throw(p_.steps[s])) last = std::max(last, launch_of_[s]);
    }
    return last;
  }

  /// After all that may end the step; or the last of these itself, if it is a scatter, which looks at its indices
  /// before it writes.
  bool may_write_leaves(int step, int last_throwing) const {
    if (launch_of_[step] > last_throwing) return true;
    if (launch_of_[step] < last_throwing || !is_scatter(p_.steps[step])) return false;
    return std::ranges::count(launch_of_, last_throwing) == 1;
  }

  /// In a plan on a device that looks at indices, has donations keep their leaves where what overwrites them comes
  /// after all that looks, and can be guarded.
  void guard() {
    int first = std::numeric_limits<int>::max();
    std::unordered_set<int> launches;
    for (Donation& d : p_.donations) {
      const std::vector<int>& writers = writers_[p_.output_buffers[d.output]];
      d.keeps = std::ranges::all_of(writers, [&](int s) {
        const bool may = p_.steps[s].kernel || can_guard(p_.steps[s].library->op);
        return may && launch_of_[s] > p_.last_check;
      });
      if (!d.keeps) continue;
      for (const int s : writers) {
        launches.insert(launch_of_[s]);
        first = std::min(first, launch_of_[s]);
      }
    }
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      Step& step = p_.steps[s];
      step.guarded = launches.contains(launch_of_[s]);
      if (step.kernel) step.kernel->kernel.guarded = step.guarded;
    }
    mark_outputs();
    // A scatter that runs before the first guarded launch checks its own indices as it runs: no check before is needed.
    std::erase_if(p_.early_checks, [&](const Program::EarlyCheck& check) {
      if (launch_of_[check.step] >= first) return false;
      p_.steps[check.step].is_looked_at = false;
      return true;
    });
  }

  /// Marks outputs that have no value where a step failed: those that guarded steps write, that are found by an index,
  /// and that are made of these.
  void mark_outputs() {
    std::vector<bool> unsure(p_.buffers.size());
    for (const Step& step : p_.steps) {
      const bool looks = looks_at_index(step, p_.options.device.type) || is_scatter(step);
      const bool is_unsure =
          step.guarded || looks || std::ranges::any_of(step.reads, [&](BufferId b) { return unsure[b]; });
      for (const BufferId b : step.writes) unsure[b] = unsure[b] || is_unsure;
    }
    for (size_t o = 0; o < p_.outputs.size(); ++o) {
      OutputInfo& output = p_.outputs[o];
      const BufferId b = p_.output_buffers[o];
      output.unsure = output.same_as_output >= 0 ? p_.outputs[output.same_as_output].unsure : b >= 0 && unsure[b];
    }
  }

  /// The leaves that a value is computed from in at most four ops, as an update is from what it updates, and in how
  /// many.
  Near near_leaves(ir::ValueId from) const {
    const ir::Graph& g = p_.graph;
    Near out;
    std::unordered_set<ir::ValueId> seen{from};
    std::vector<ir::ValueId> layer{from};
    for (int depth = 1; depth <= 4; ++depth) {
      std::vector<ir::ValueId> next;
      for (const ir::ValueId v : layer) {
        const ir::Node& n = g.producer(v);
        if (n.inputs.size() > kFewOperands) continue;
        for (const ir::ValueId x : n.inputs) {
          if (x == ir::kNone || g.info(x).weak || !seen.insert(x).second) continue;
          next.push_back(x);
          if (const BufferId b = p_.buffer_of[x]; b >= 0 && is_leaf_[b]) out.emplace(b, depth);
        }
      }
      layer = std::move(next);
    }
    return out;
  }

  /// In their order, the leaves that may be an output's memory as far as their sizes tell: those that it is near to,
  /// those that its step reads in place, and of the others the first few.
  std::vector<BufferId> leaves_for(BufferId out, const Step& step, int launch, const Near& near) const {
    const BufferInfo& info = p_.buffers[out];
    std::vector<BufferId> some;
    for (const auto& [b, distance] : near) {
      if (last_read_[b] < launch) some.push_back(b);
    }
    for (const InPlace& pair : step.in_place()) {
      if (pair.written == out && is_leaf_[pair.read] && last_read_[pair.read] == launch) some.push_back(pair.read);
    }
    size_t far = 0;
    if (const auto sized = leaves_of_size_.find(info.elements.value); sized != leaves_of_size_.end()) {
      for (const BufferId b : sized->second) {
        if (far == kMostDonors) break;
        if (last_read_[b] >= launch || near.contains(b) || !is_alike(b, info)) continue;
        some.push_back(b);
        ++far;
      }
    }
    std::ranges::sort(some);
    some.erase(std::ranges::unique(some).begin(), some.end());
    return some;
  }

  bool is_alike(BufferId b, const BufferInfo& info) const {
    return p_.buffers[b].dtype == info.dtype && p_.buffers[b].elements == info.elements;
  }

  void find(int output, BufferId out, int writer) {
    const BufferInfo& info = p_.buffers[out];
    const Step& step = p_.steps[writer];
    const int launch = launch_of_[writer];
    const Near near = near_leaves(info.value);
    size_t far = 0;  // leaves that it has little to do with: more of them than are listed are not looked at
    for (const BufferId b : leaves_for(out, step, launch, near)) {
      const auto found = near.find(b);
      if (found == near.end() && far == kMostDonors) continue;
      const BufferInfo& leaf = p_.buffers[b];
      if (last_read_[b] == launch) {
        // The step walks both as one, so that they are of one size is known, if perhaps under two names.
        if (leaf.dtype != info.dtype || only_reader_[b] != writer) continue;
        if (!p_.graph.sym.equal(leaf.elements, info.elements)) continue;
      } else if (!is_alike(b, info)) {
        continue;
      }
      far += found == near.end();
      candidates_.push_back({found == near.end() ? kFar : found->second, b, output});
    }
  }

  void choose() {
    std::ranges::sort(candidates_);
    std::vector<size_t> donors(p_.outputs.size());  // of each output
    std::unordered_set<int> wanted;                 // leaves that an output is near to, which has them
    for (const Candidate& c : candidates_) {
      if (c.distance < kFar) wanted.insert(c.leaf);
    }
    for (const Candidate& c : candidates_) {
      if (c.distance == kFar && wanted.contains(c.leaf)) continue;
      if (donors[c.output]++ < kMostDonors) p_.donations.push_back({p_.buffers[c.leaf].number, c.output});
    }
  }

  Program& p_;
  const std::span<const int> launch_of_;
  std::vector<int> last_read_;             ///< by buffer: the last launch that reads it
  std::vector<int> only_reader_;           ///< by buffer: the step of that launch that does, or kSeveral
  std::vector<std::vector<int>> writers_;  ///< by buffer: the steps that write it
  std::vector<bool> is_leaf_;              ///< by buffer: one that may be overwritten
  std::unordered_map<int64_t, std::vector<BufferId>> leaves_of_size_;
  std::vector<Candidate> candidates_;
};

}  // namespace

void find_donors(Program& p, std::span<const int> launch_of) { DonorSearch(p, launch_of).run(); }

std::vector<Host> find_hosts(const Program& p, std::span<const int> launch_of) {
  std::unordered_set<int> given;
  for (const Donation& d : p.donations) given.insert(d.output);
  std::vector<int> first(p.buffers.size(), -1);
  for (size_t s = 0; s < p.steps.size(); ++s) {
    for (const BufferId b : p.steps[s].writes)
      first[b] = first[b] < 0 ? launch_of[s] : std::min(first[b], launch_of[s]);
  }
  std::vector<Host> hosts;
  for (size_t o = 0; o < p.outputs.size(); ++o) {
    const BufferId b = p.output_buffers[o];
    if (b < 0 || first[b] <= 0 || given.contains(static_cast<int>(o))) continue;
    const BufferInfo& info = p.buffers[b];
    hosts.push_back({b, info.elements, static_cast<int64_t>(itemsize(info.dtype)), first[b]});
  }
  return hosts;
}

}  // namespace smolder::jit
