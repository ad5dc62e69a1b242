#include "smolder/jit/cuda/transpose_tiles.h"

#include <algorithm>
#include <utility>

#include "smolder/jit/cuda/accesses.h"
#include "smolder/jit/cuda/shape.h"

namespace smolder::jit::cuda {

namespace {

constexpr int kPositions = 32, kAcross = kColumnThreads / kPositions;
/// Where the elements of a position's neighbours begin in a tile: each in a bank of its own.
constexpr int kPitch = kPositions + 1;

/// Returns those of the loads that a block can make before all else, and has room for.
std::vector<const Stmt*> that_fit(const Kernel& k, const Accesses& accesses, std::vector<const Stmt*> loads) {
  constexpr size_t kMost = 4, kMostStatic = 48 << 10;  // shared memory of a block that need not be asked for
  if (loads.size() > kMost || std::ranges::any_of(body_of(k), is_sequential, &Stmt::kind)) return {};
  const bool may_come_first = std::ranges::all_of(loads, [&](const Stmt* s) {
    const auto& uses = accesses.of_buffer[static_cast<size_t>(s->address.buffer)];
    return s->kind == StmtKind::kLoad && s->bounds.empty() && s->address.indirect.empty() &&
           std::ranges::none_of(uses, &Access::is_store);
  });
  if (!may_come_first) return {};
  const size_t elements = static_cast<size_t>(kAcross * chunk_loop(k)->chunk * kPitch);
  size_t bytes = 0;
  std::erase_if(loads, [&](const Stmt* s) {
    const size_t more = elements * itemsize(s->dtype);
    if (bytes + more > kMostStatic) return true;
    bytes += more;
    return false;
  });
  return loads;
}

class Tiler {
 public:
  Tiler(Kernel& k, std::vector<const Stmt*> loads) : k_(k), loads_(std::move(loads)) {}

  void run() {
    Stmt& threads = k_.root.body[0];
    block_.kind = StmtKind::kBlock;
    block_.vars = {k_.num_vars, k_.num_vars + 1};
    k_.num_vars += 2;
    block_.extents = {IntRef{kPositions}, threads.extents[0]};
    block_.chunk = kAcross * threads.chunk;
    find_loads(threads, -1);
    std::vector<Stmt>& body = block_.body;
    for (const Stmt& copy : copies_) {
      Stmt& row = body.emplace_back();
      row.kind = StmtKind::kShared;
      row.address.buffer = copy.address.buffer;
      row.limit = IntRef{block_.chunk * kPitch};
    }
    for (Stmt& copy : copies_) body.push_back(loop_of(std::move(copy), threads));
    body.push_back(std::move(threads));
    k_.root.body[0] = std::move(block_);
  }

 private:
  /// Has each load find its element in a tile.
  void find_loads(Stmt& s, VarId element) {
    if (s.kind == StmtKind::kLanes) element = s.vars[0];
    if (std::ranges::find(loads_, &s) != loads_.end()) {
      const int tile = static_cast<int>(k_.buffers.size());
      k_.buffers.push_back({s.dtype, true, true, MemorySpace::kShared});
      Stmt& copy = copies_.emplace_back();
      copy.kind = StmtKind::kCopy;
      copy.dtype = s.dtype;
      copy.source = std::exchange(s.address, place_of(tile, element));
      copy.address = place_of(tile, k_.num_vars);
      for (auto& t : copy.source.map.terms) {
        if (t.var == element) t.var = k_.num_vars;
      }
      ++k_.num_vars;
    }
    for (Stmt& inner : s.body) find_loads(inner, element);
  }
  Address place_of(int tile, VarId element) const {
    const VarId position = block_.vars[0], first = block_.vars[1];
    return {tile, {{}, {{element, {kPitch}}, {position, {1}}, {first, {-kPitch}}}}, {}};
  }
  /// The loop that copies what the tile has of one load.
  static Stmt loop_of(Stmt copy, const Stmt& threads) {
    Stmt loop{};
    loop.kind = StmtKind::kThread;
    loop.vars = {copy.address.map.terms[0].var};
    loop.extents = threads.extents;
    loop.clamp_var = threads.clamp_var;
    loop.clamp_total = threads.clamp_total;
    loop.across = kAcross;
    loop.body.push_back(std::move(copy));
    return loop;
  }

  Kernel& k_;
  const std::vector<const Stmt*> loads_;
  Stmt block_{};
  std::vector<Stmt> copies_;
};

}  // namespace

void transpose_tiles(Kernel& k) {
  const Accesses accesses(k);
  std::vector<const Stmt*> loads = transposed_accesses(k, accesses);
  if (!loads.empty()) loads = that_fit(k, accesses, std::move(loads));
  if (!loads.empty()) Tiler(k, std::move(loads)).run();
}

}  // namespace smolder::jit::cuda
