// Facts of a scheduled kernel that the generator and the launch ask for often. All of them follow from its statements.
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
inline constexpr int kHeldElements = 64;    ///< of a row that a thread has in registers and loads at once
inline constexpr int64_t kLongRow = 16384;  ///< beyond this, units are twice as long
inline constexpr int kAtOnce = 16;          ///< elements that it loads at once of other rows

/// The shape of a scheduled kernel's code. There are two kinds. In one of columns each thread takes a few neighbouring
/// elements of the thread loop through the whole body. In one of rows a group of threads takes a position, and shares
/// out the elements of each thread loop.
struct KernelShape {
  int vector = kUnit;    ///< neighbouring elements that a thread takes at once: a chunk
  Chunks chunks;         ///< what the elements of a chunk have in common
  bool is_long = false;  ///< rows: so many statements that rows which do not fit are taken a chunk at a time

  // -- rows
  std::vector<const Stmt*> thread_loops;
  int sides = 1;                ///< lanes of a reduction that a thread has, next to each other
  bool separate_lanes = false;  ///< a thread has other elements in one loop than in another
  /// Whether threads have the same elements in all loops, of which they take several chunks at once.
  bool in_chunks() const { return !separate_lanes && !thread_loops.empty(); }
  /// Whether `Kernel::row` counts: a group has one position, and its row is as long in all loops.
  bool has_row_size() const { return in_chunks() && thread_loops[0]->clamp_var < 0; }

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

  /// A row that a block has in shared memory, where there is room (stage_rows.h).
  struct StagedRow {
    int buffer;
    const Stmt* stage;
    const Stmt* vector;  ///< the loop of `stage`, and where there is an `unstage` the last loop that reads the row
    int64_t itemsize;
  };
  std::vector<StagedRow> common_rows;  ///< that all iterations of the split loop read, by buffer
  std::vector<StagedRow> staged_rows;  ///< long rows of the position: all of them are staged, or none
  /// Blocks of a multiprocessor that go from position to position: as the last loop reads staged rows, the next
  /// position's take their place. 0: a block has one position.
  int staged_blocks = 0;
  std::vector<LocalId> kept_values;  ///< that later loops compute again (keep_values.h)

  // -- columns
  const Stmt* chunk_loop = nullptr;  ///< the thread loop; null: rows
  bool transposed = false;           ///< neighbours of a loaded element are at the next positions
  bool only_regular = false;  ///< irregular chunks are taken element by element: a text for them would be the longest
  bool uses_between = false;  ///< chunks of spread accesses are taken with what lies between

  // -- sums over iterations
  const Stmt* split = nullptr;        ///< the split loop (split_sums.h)
  const Stmt* group_split = nullptr;  ///< the same, if groups of a block take segments of it side by side
  struct SplitSum {
    int buffer;
    const Stmt *combine, *vector;  ///< and the loop that it is in
    int64_t itemsize;
    bool in_registers = false;  ///< rows: of a segment, where the row is not too long
    ir::Op step() const { return combine->op; }
    const Address& address() const { return combine->address; }
    /// Whether elements begin with one value, and else with what is in memory.
    bool has_initial() const { return combine->args.size() > 1; }
  };
  std::vector<SplitSum> sums;
  int split_threads = kMostRowThreads;  ///< rows: of a block
  int split_blocks = 4;                 ///< columns: that a multiprocessor has registers for
  std::vector<const Stmt*> ahead;       ///< columns: loads that are made before their iteration (load_ahead.h)
};

/// Refers to statements of the kernel, which is scheduled and must outlive it.
KernelShape shape_of(const Kernel& scheduled);

/// Where there are reductions, elements of a loop of this extent are dealt out in units of neighbours, as many as
/// these, of which the last may be short, or one by one where that would leave a rest of a row that is not long.
constexpr int unit_of(int64_t extent) { return extent > kLongRow ? 2 * kUnit : extent % kUnit != 0 ? 1 : kUnit; }
/// Lanes that they are dealt out to: threads of a group that take the loop, or its sides.
int lanes_of(int64_t extent);
/// Turns of a segment, of a loop of so many: there are up to 16 segments, of four iterations or more.
int64_t segment_of(int64_t iterations);
/// In which order reductions combine elements: docs/architecture/arithmetic.md.
const ReduceOrder& reduce_order();

inline int64_t value_of(IntRef r, std::span<const int64_t> ints) { return r.is_constant() ? r.constant : ints[r.slot]; }

/// Whether a load in a loop of variable `iteration` is of one place in all iterations.
inline bool is_same_in_iterations(const Stmt& load, VarId iteration) {
  return load.bounds.empty() && stride_of(load.address.map, iteration) == IntRef{};
}

}  // namespace smolder::jit::cuda
