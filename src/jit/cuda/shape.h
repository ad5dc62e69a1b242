// How the loops of a kernel are dealt out to threads: decided from the kernel alone, so that the generator, which
// writes the code, and the launch, which knows the sizes, agree. docs/architecture/cuda_kernels.md has the reasons.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "smolder/jit/cuda/chunks.h"
#include "smolder/jit/cuda/statements.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

inline constexpr int kWarp = 32, kUnit = 4;
inline constexpr int kTile = 32;  ///< positions of a block that turns what it loads, of as many chunks in eight threads
inline constexpr int kColumnThreads = 256, kMostRowThreads = 512;
inline constexpr int kHeldElements = 64;    ///< of a row that a thread has in registers, and loads at once
inline constexpr int64_t kLongRow = 16384;  ///< beyond this, units are twice as long
inline constexpr int kAtOnce = 16;          ///< elements that it loads at once of other rows
/// Of what such a block turns, with an element between rows, so that each begins in a bank of its own.
constexpr int tile_elements(int vector) { return kColumnThreads / kTile * vector * (kTile + 1); }

struct KernelShape {
  enum Mode : uint8_t {
    /// No reduction along vector loops, which are all of one extent: each thread takes a few neighbouring elements of
    /// it through the whole body.
    kColumns,
    /// A group of threads takes a position, and shares out the elements of each vector loop.
    kRows,
  };
  Mode mode = kColumns;
  int vector = kUnit;  ///< neighbouring elements that a thread takes at once: a chunk
  int sides = 1;       ///< kRows: lanes of a reduction that a thread has, next to each other
  IntRef extent;       ///< kColumns: of the vector loops
  /// kColumns: of what loops of that extent share out, which may be less.
  std::optional<IntRef> total;
  bool transposed = false;  ///< kColumns: neighbours of a loaded element are at the next positions
  /// kColumns: such loads, which a block makes along the positions, to shared memory, where it can make them first.
  std::vector<const Stmt*> turned;
  /// kColumns: what is loaded and computed once a position would take long beside one chunk of a thread.
  bool takes_several = false;
  Chunks chunks;                ///< kColumns
  std::vector<IntRef> extents;  ///< kRows: of each vector loop
  bool clamped = false;         ///< kRows: some loops are shorter at the end of what they share out
  bool synchronizes = false;    ///< kRows: elements that one thread writes are read by another
  /// Buffers that hold a row of one position only. Where the caller has no memory for them they are in shared memory.
  struct ScratchRow {
    int buffer;
    IntRef extent;
    int64_t itemsize;
  };
  std::vector<ScratchRow> scratch;
  /// Buffers of which threads have their elements of the position's row in registers, from the loop of their first use
  /// on, where the row is not too long: of those that are written only the last store need reach memory.
  struct HeldRow {
    int buffer;
    const Stmt* load;   ///< what is only read: the access that fetches it; null: it is written first
    VarId var;          ///< of the access's loop
    const Stmt* first;  ///< the loop where that happens, which may be earlier than its use
    const Stmt* last;   ///< the loop of the last use
    const Stmt* last_store;
    bool is_scratch;
  };
  std::vector<HeldRow> held;
  int held_chunks = 8;  ///< that there is room for
  /// A sequential loop whose turns depend on each other only in the elements they add to, as in a sum of columns or the
  /// backward pass of layer_norm: these are summed in strips of turns.
  const Stmt* summed = nullptr;
  /// The same where the groups of a block take strips side by side, and add in order what these come to.
  const Stmt* team = nullptr;
  int team_threads = kMostRowThreads;  ///< kRows: of a block
  struct TeamColumn {
    int buffer;
    const Stmt *load, *step, *store;  ///< store(step(load, x)), all of one address
    const Stmt* vector;               ///< the loop they are in
    const Stmt* initial;              ///< the loop before that sets all elements to one value; null: they are in memory
    int64_t itemsize;
    bool in_registers = false;  ///< kRows: of a strip, where the row is not too long
  };
  std::vector<TeamColumn> columns;
  /// kRows: what all turns of the team read, in the vector loops, which a block has in shared memory where there is
  /// room.
  struct SharedRow {
    int buffer;
    const Stmt *load, *vector;
    int64_t itemsize;
  };
  std::vector<SharedRow> shared_rows;
  /// Of long rows what several loops read, which waits in shared memory where there is room for all of it.
  std::vector<SharedRow> near_rows;
  /// Of a multiprocessor, that go from position to position: what the last loop reads of near rows makes room for those
  /// of the next one. 0: blocks have a position each.
  int near_blocks = 0;
  /// What a vector loop computes as one before it did, and is costly: where near rows are in chunks, threads keep it.
  struct Repeat {
    const Stmt *first, *again;
  };
  std::vector<Repeat> repeats;
  /// kRows: whether threads have the same elements in all loops, of which they take several chunks at once.
  bool in_chunks() const { return mode == kRows && !synchronizes && !extents.empty(); }
  /// Whether `Kernel::row` counts: a group has one position, and its row is as long in all loops.
  bool has_row_size() const { return in_chunks() && !clamped; }
  bool uses_between = false;       ///< kColumns: chunks of spread accesses are taken with what lies between
  int at_once = 1;                 ///< kColumns: turns of a strip that are on their way at once
  int team_blocks = 4;             ///< kColumns: that a multiprocessor has registers for
  std::vector<const Stmt*> ahead;  ///< kColumns: loads of the team that are on their way before their turn
};

/// Refers to statements of the kernel, which must outlive it.
KernelShape shape_of(const Kernel& kernel);
/// What `Kernel::row` had better be, where `ints` are what is expected.
RowSize row_size(const Kernel& kernel, std::span<const int64_t> ints);
/// Of the rows that it counts for.
IntRef row_extent(const Kernel& kernel);
/// Lengths beyond `first`, up to `last`, for which a kernel made for `extent`, as `row` says, does.
struct RowRange {
  int64_t first, last;
  bool operator==(const RowRange&) const = default;
};
RowRange row_range(int64_t extent, const RowSize& row);

/// Where there are reductions, elements of a loop of this extent are dealt out in units of neighbours, as many as
/// these, of which the last may be short, or one by one where that would leave a rest of a row that is not long.
constexpr int unit_of(int64_t extent) { return extent > kLongRow ? 2 * kUnit : extent % kUnit != 0 ? 1 : kUnit; }
/// Lanes that they are dealt out to: threads of a group that take the loop, or its sides.
int lanes_of(int64_t extent);
/// Turns of a strip, of a loop of so many: there are up to 16 strips, of four turns or more.
int64_t strip_of(int64_t turns);
/// In which order reductions combine elements: docs/architecture/arithmetic.md.
const ReduceOrder& reduce_order();

inline int64_t value_of(IntRef r, std::span<const int64_t> ints) { return r.is_constant() ? r.constant : ints[r.slot]; }

/// Whether a load in a loop of variable `turn` is of one place in all turns.
inline bool is_same_in_turns(const Stmt& load, VarId turn) {
  return load.bounds.empty() && stride_of(load.address.map, turn) == IntRef{};
}
/// How far apart the elements of a load or store lie along `v` where that is known to be 2 or 4, else 0: a chunk of a
/// load is taken with what lies between.
int64_t spread_of(const Stmt& s, VarId v);
/// Stores of the loop that write what lies between each other's elements, by where they begin; none if `s` has no such.
std::vector<const Stmt*> joined_stores(const Stmt& loop, const Stmt& s);
/// Whether two addresses in (or before) vector loops are the same but for the name of the loop's variable.
bool same_column(const Address& a, VarId va, const Address& b, VarId vb);

}  // namespace smolder::jit::cuda
