#include "smolder/jit/place.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "smolder/core/buffer.h"
#include "smolder/jit/library.h"

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

Blocks place_in_order(std::span<const Lifetime> lifetimes, std::span<const int64_t> evaluated) {
  Blocks out;
  out.of.resize(lifetimes.size());
  std::vector<bool> inherited(lifetimes.size(), false);
  std::map<int64_t, int64_t> free_blocks;  // by offset: size
  std::multimap<int, size_t> ending;       // by last launch
  const auto release = [&](int64_t offset, int64_t size) {
    auto at = free_blocks.emplace(offset, size).first;
    if (const auto next = std::next(at); next != free_blocks.end() && at->first + at->second == next->first) {
      at->second += next->second;
      free_blocks.erase(next);
    }
    if (at != free_blocks.begin()) {
      const auto before = std::prev(at);
      if (before->first + before->second == at->first) {
        before->second += at->second;
        free_blocks.erase(at);
      }
    }
  };
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& l = lifetimes[i];
    while (!ending.empty() && ending.begin()->first < l.first) {
      const size_t done = ending.begin()->second;
      ending.erase(ending.begin());
      if (!inherited[done]) release(out.blocks[out.of[done]].offset, out.blocks[out.of[done]].bytes);
    }
    const int64_t size = ir::SymTable::value(l.elements, evaluated) * l.itemsize;
    ending.emplace(l.last, i);
    const auto heir = std::find_if(l.heirs_of.begin(), l.heirs_of.end(), [&](int r) { return !inherited[r]; });
    if (heir != l.heirs_of.end()) {
      inherited[*heir] = true;
      out.of[i] = out.of[*heir];
      out.blocks[out.of[i]].last = l.last;
      continue;
    }
    const int64_t bytes = (size + static_cast<int64_t>(kAlignment) - 1) / static_cast<int64_t>(kAlignment) *
                          static_cast<int64_t>(kAlignment);
    out.of[i] = out.blocks.size();
    Block& block = out.blocks.emplace_back(Block{bytes, 0, l.first, l.last});
    if (bytes == 0) continue;
    auto best = free_blocks.end();
    for (auto b = free_blocks.begin(); b != free_blocks.end(); ++b) {
      if (b->second >= bytes && (best == free_blocks.end() || b->second < best->second)) best = b;
    }
    if (best != free_blocks.end()) {
      const auto [offset, room] = *best;
      free_blocks.erase(best);
      block.offset = offset;
      if (room > bytes) free_blocks.emplace(offset + bytes, room - bytes);
      continue;
    }
    // Grow, from the last block when that is free.
    int64_t start = out.bytes;
    if (!free_blocks.empty()) {
      const auto last = std::prev(free_blocks.end());
      if (last->first + last->second == out.bytes) {
        start = last->first;
        free_blocks.erase(last);
      }
    }
    block.offset = start;
    out.bytes = start + bytes;
  }
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
  for (const Host& h : hosts) rooms.push_back({&h, ir::SymTable::value(h.elements, evaluated) * h.itemsize, {}});
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

/// Donors listed for an output: the first is alive where a program keeps gradients, say.
constexpr size_t kMostDonors = 4;
/// The distance of what an output is not near to.
constexpr int kFar = 1000;

/// What an output is nearest to, as an update is to what it updates: the values that `from` is computed from in at most
/// four ops, and in how many.
std::unordered_map<ir::ValueId, int> near_values(const ir::Graph& g, ir::ValueId from) {
  std::unordered_map<ir::ValueId, int> out{{from, 0}};
  std::vector<ir::ValueId> layer{from};
  for (int depth = 1; depth <= 4; ++depth) {
    std::vector<ir::ValueId> next;
    for (const ir::ValueId v : layer) {
      for (const ir::ValueId x : g.producer(v).inputs) {
        if (x != ir::kNone && !g.info(x).weak && out.try_emplace(x, depth).second) next.push_back(x);
      }
    }
    layer = std::move(next);
  }
  return out;
}

}  // namespace

void find_donors(Program& p, std::span<const int> launch_of) {
  const size_t n = p.buffers.size();
  std::vector<int> last_read(n, -1), writer(n, -1), kept(n, false);
  for (size_t s = 0; s < p.steps.size(); ++s) {
    for (const BufferId b : p.steps[s].reads) last_read[b] = std::max(last_read[b], launch_of[s]);
    for (const BufferId b : p.steps[s].writes)
      writer[b] = writer[b] < 0 ? static_cast<int>(s) : writer[b];  // the first
  }
  std::unordered_set<int> passed_on;  // numbers of leaves that are outputs as they are
  for (const OutputInfo& o : p.outputs) passed_on.insert(o.same_as_leaf);
  for (size_t b = 0; b < n; ++b) {
    kept[b] = p.buffers[b].kind == BufferInfo::kLeaf && passed_on.contains(p.buffers[b].number);
  }
  // What a user's kernel throws ends the step, which then runs op by op from its leaves: none may be overwritten
  // before.
  int last_throwing = -1;
  for (size_t s = 0; s < p.steps.size(); ++s) {
    const Step& step = p.steps[s];
    if (step.library && is_users(step.library->op)) last_throwing = std::max(last_throwing, launch_of[s]);
  }
  struct Candidate {
    int distance, leaf, output;
    auto operator<=>(const Candidate&) const = default;
  };
  std::vector<Candidate> candidates;
  std::vector<BufferId> leaves;
  for (size_t b = 0; b < n; ++b) {
    const BufferInfo& leaf = p.buffers[b];
    if (leaf.kind == BufferInfo::kLeaf && !kept[b] && leaf.contiguous && leaf.offset == ir::Dim(0)) {
      leaves.push_back(b);
    }
  }
  for (size_t o = 0; o < p.outputs.size(); ++o) {
    const BufferId out = p.output_buffers[o];
    if (out < 0 || writer[out] < 0) continue;
    const BufferInfo& info = p.buffers[out];
    const Step& step = p.steps[writer[out]];
    const int launch = launch_of[writer[out]];
    if (launch <= last_throwing) continue;
    const auto near = near_values(p.graph, info.value);
    size_t far = 0;  // leaves that it has little to do with: more of them than are listed are not looked at
    for (const BufferId b : leaves) {
      const BufferInfo& leaf = p.buffers[b];
      if (leaf.dtype != info.dtype || last_read[b] > launch) continue;
      const auto found = near.find(leaf.value);
      if (found == near.end() && far == kMostDonors) continue;
      if (last_read[b] == launch) {
        bool in_place = false;
        for (size_t s = 0; s < p.steps.size(); ++s) {
          if (launch_of[s] != launch || &p.steps[s] == &step) continue;
          const auto& r = p.steps[s].reads;
          if (std::find(r.begin(), r.end(), b) != r.end()) goto next_leaf;
        }
        for (const InPlace& pair : step.in_place()) {
          in_place = in_place || (pair.read == b && pair.written == out);
        }
        // The step walks both as one, so that they are of one size is known, if perhaps under two names.
        if (!in_place || !p.graph.sym.equal(leaf.elements, info.elements)) continue;
      } else if (leaf.elements != info.elements) {
        continue;
      }
      far += found == near.end();
      candidates.push_back({found == near.end() ? kFar : found->second, static_cast<int>(b), static_cast<int>(o)});
    next_leaf:;
    }
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<size_t> donors(p.outputs.size());  // of each output
  std::unordered_set<int> wanted;                // leaves that an output is near to, which has them
  for (const Candidate& c : candidates) {
    if (c.distance < kFar) wanted.insert(c.leaf);
  }
  for (const Candidate& c : candidates) {
    if (c.distance == kFar && wanted.contains(c.leaf)) continue;
    if (donors[c.output]++ < kMostDonors) p.donations.push_back({p.buffers[c.leaf].number, c.output});
  }
}

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
