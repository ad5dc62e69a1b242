// What a scheduled kernel's threads keep where, and load ahead: what of a schedule is not yet said in loop IR.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smolder/jit/cuda/accesses.h"
#include "smolder/jit/cuda/chunks.h"
#include "smolder/jit/cuda/statements.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kColumnThreads = 256, kMostRowThreads = 512;
inline constexpr int kHeldElements = 64;    ///< of a row that a thread has in registers, and loads at once
inline constexpr int64_t kLongRow = 16384;  ///< beyond this, units are twice as long
inline constexpr int kAtOnce = 16;          ///< elements that it loads at once of other rows

/// Of a scheduled kernel. There are two kinds. In one of columns each thread takes a few neighbouring elements of the
/// thread loop through the whole body. In one of rows a group of threads takes a position, and shares out the elements
/// of each thread loop.
struct KernelShape {
  const Stmt* chunk_loop = nullptr;       ///< columns: the thread loop; null: rows
  std::vector<const Stmt*> thread_loops;  ///< rows
  int vector = kUnit;                     ///< neighbouring elements that a thread takes at once: a chunk
  int sides = 1;                          ///< rows: lanes of a reduction that a thread has, next to each other
  bool transposed = false;                ///< columns: neighbours of a loaded element are at the next positions
  /// Columns: what is loaded and computed once a position would take long beside one chunk of a thread.
  bool takes_several = false;
  Chunks chunks;
  bool separate_lanes = false;  ///< rows: a thread has other elements in one loop than in another
  /// A buffer of which threads have their elements of the position's row in registers, where the row is not too long:
  /// what `register` statements are for (hold_rows.h), in their order.
  struct HeldRow {
    int buffer;
    const Stmt *hold, *first;  ///< the statement from which on, and its loop, which may be earlier than the first use
    const Stmt* last;          ///< the loop that releases it
    const Stmt* last_store;    ///< which alone need reach memory; null: it is only read
    bool is_scratch;           ///< a shared row
    bool is_written() const { return last_store != nullptr; }
    VarId var() const { return first->vars[0]; }  ///< of the loop over elements in the address
  };
  std::vector<HeldRow> held;
  int held_chunks = 8;  ///< that there is room for
  /// Rows: whether there are so many statements that rows which do not fit are taken a chunk at a time. Each chunk more
  /// is as much text for the compiler, which here is for sizes that the kernel was not made for.
  bool is_long = false;
  const Stmt* summed = nullptr;  ///< the split loop (split_sums.h)
  /// The same where the groups of a block take strips side by side, and add in order what these come to.
  const Stmt* team = nullptr;
  int team_threads = kMostRowThreads;  ///< rows: of a block
  struct TeamColumn {
    int buffer;
    const Stmt *combine, *vector;  ///< and the loop that it is in
    int64_t itemsize;
    bool in_registers = false;  ///< rows: of a strip, where the row is not too long
    ir::Op step() const { return combine->op; }
    const Address& address() const { return combine->address; }
    /// Whether elements begin with one value, and else with what is in memory.
    bool has_initial() const { return combine->args.size() > 1; }
  };
  std::vector<TeamColumn> columns;
  /// Rows: what all iterations of the split loop read, which a block has in shared memory where there is room
  /// (stage_rows.h): by buffer.
  struct SharedRow {
    int buffer;
    const Stmt *stage, *vector;  ///< and its loop; of near rows the last loop that reads it
    int64_t itemsize;
  };
  std::vector<SharedRow> shared_rows;
  /// Of long rows what several loops read, which waits in shared memory where there is room for all of it.
  std::vector<SharedRow> near_rows;
  /// Of a multiprocessor, that go from position to position: what the last loop reads of near rows makes room for those
  /// of the next one. 0: blocks have a position each.
  int near_blocks = 0;
  /// Where near rows are in chunks, threads keep what a loop computes again.
  struct Repeat {
    const Stmt *first, *again;
  };
  std::vector<Repeat> repeats;
  /// Rows: whether threads have the same elements in all loops, of which they take several chunks at once.
  bool in_chunks() const { return !separate_lanes && !thread_loops.empty(); }
  /// Whether `Kernel::row` counts: a group has one position, and its row is as long in all loops.
  bool has_row_size() const { return in_chunks() && thread_loops[0]->clamp_var < 0; }
  /// Columns: whether chunks that are not regular are taken element by element, as a text for them would be the
  /// longest.
  bool only_regular = false;
  bool uses_between = false;       ///< columns: chunks of spread accesses are taken with what lies between
  int at_once = 1;                 ///< columns: turns of a strip that are on their way at once
  int team_blocks = 4;             ///< columns: that a multiprocessor has registers for
  std::vector<const Stmt*> ahead;  ///< columns: loads of the team that are on their way before their turn
};

/// Refers to statements of the kernel, which is scheduled and must outlive it.
KernelShape shape_of(const Kernel& scheduled);

/// A value that a loop computes as an earlier one did, and that is costly.
std::vector<KernelShape::Repeat> repeats_of(const Kernel& scheduled, const Accesses& accesses);

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

}  // namespace smolder::jit::cuda
