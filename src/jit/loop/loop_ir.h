// Loop IR: the one thing every code generator reads. A kernel is a tree of loops over runtime
// extents; loads and stores index buffers by affine maps of the loop variables; everything between is
// scalar primitives. Nothing in a kernel names a size, a buffer address, a layer or a batch: two
// kernels with equal text are the same kernel.
//
//   kernel {
//     buffers b0:float32 r, b1:float32 w
//     ints 2
//     parallel v0 < n0 {
//       acc a0 = max float32
//       vector v1 < n1 {
//         %0 = load b0[v0*n1 + v1]
//         update a0, %0
//       }
//       %1 = result a0
//       acc a1 = sum float32
//       vector v2 < n1 {
//         %2 = load b0[v0*n1 + v2]
//         %3 = sub float32 %2, %1
//         %4 = exp float32 %3
//         update a1, %4
//       }
//       ...
//
// Structure rules (checked by `verify`):
//  - the root holds one `parallel` loop over one or more variables (their product, the last varying
//    fastest, is cut into ranges by the executor), or a single `parallel vector` loop for flat
//    elementwise kernels;
//  - inside it statements, `loop` (sequential) and `vector` loops nest; a vector loop holds no loop;
//  - a value defined outside a vector loop and used inside is broadcast; values defined inside a loop
//    are not visible outside it: only accumulators and buffers carry data out;
//  - accumulators are declared outside vector loops and updated inside them. Reductions follow the
//    canonical order of docs/architecture/arithmetic.md: kReduceLanes lanes, element j of the vector loop goes to lane
//    j % kReduceLanes, lanes start from the identity and are combined by halving (lane i with lane
//    i + half). Halves accumulate in float32 and are rounded by `result`;
//  - an operand of a primitive of a half dtype may be float32: a number that nothing has rounded;
//  - the address of a buffer is readable even when it has no elements: a clamped index of an empty
//    axis reads there.
//
// A host's kernel is as above, but for `fetch b0[v0*n1 + v2] next v0` in vector loops: memory is asked for a row that a
// later loop, or the next iteration of v0, will use (fetch_rows.h).
//
// A device's kernel is scheduled before code is made of it: passes say who runs which loop, and where rows lie.
//
//   kernel {
//     buffers b0:float32 r, b1:float32 rw, b2:float32 w
//     ints 2
//     grid v0 < n0 {
//       shared b1[n1]
//       thread v1 < n1 {
//         ...
//       }
//       barrier
//       thread v2 < n1 {
//
//  - `grid` is the root: a group of threads takes a position of it. All of the group run what is in it, with the same
//    values; the first thread makes its stores;
//  - the iterations of a `thread` loop are shared out among the group. Without a chunk, as lanes of a reduction are
//    (ReduceOrder), and it stands for a vector loop. With `chunk 4` a thread takes so many neighbouring ones at once
//    through the whole body, in which a `lanes` loop stands for a vector loop: it runs over those that the thread has;
//  - a `block` is the grid's one statement, where a group takes a tile: several neighbouring positions at once, and of
//    each as many elements as its chunk. Its variables are a position's number in the tile, and the first element. Its
//    `thread` loops run over what the tile has: `chunk 4` as above, position by position, and with `across 8` positions
//    are dealt out to neighbouring threads, and the elements of each to 8;
//  - `copy` moves an element from one buffer to another, whatever its bits;
//  - a buffer of the space `shared` is the group's own, and no argument;
//  - a `barrier` is where the threads of a group wait for each other. Between two of them no thread may touch a place
//    that another writes: loop_interpret.h looks for such races;
//  - segments of the iterations of a `split` loop run side by side, in groups of their own. What they share is the
//    elements that they `combine`: of each a segment has its own, from the identity on, and these are added in order to
//    what the element begins with. With `threads 256` blocks have no more than these;
//  - `register b0[32]` says that a thread has registers for so many of its elements of a row. From `hold b0[...]` in a
//    thread loop on it keeps the element of the iteration there, until `release b0[...]` in that loop or a later one.
//    No other thread may write the element meanwhile, nor read it once it is written. What is combined in registers is
//    held for a segment;
//    In a loop of chunks, where each thread has its own anyway, it keeps those of its chunk: `hold b0[v2]` outside
//    `lanes`, of the chunk loop's variable;
//  - a load that is `ahead` is made early, so that it is on its way while something else is computed: in a
//    `split` loop before its iteration, and else before all that its thread does. `hold ... ahead` loads the next
//    iteration's row at the end of this one. Nobody may have written the place in between;
//  - with `unroll 4`, the loads of so many iterations are on their way at once;
//  - a thread of a `coarsened` loop may take several chunks. What is before its `lanes` loop, its last statement, is
//    computed once for all of them;
//  - what is computed `again %3` is what an earlier loop computed of the element as %3, which the thread may have kept;
//  - from `stage b0[...]` on, the element is read from shared memory where there is room for the row, until
//    `unstage b0[...]`, or the end of the position or the split loop. Nobody may write it meanwhile;
//  - a `shared` buffer is a row of the group's own, of so many elements, that lives for one position. Where the caller
//    gives memory for it there is one position, and that is where it lies. All else is the device's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "smolder/core/dtype.h"
#include "smolder/core/hash.h"
#include "smolder/core/scalar.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/op.h"

namespace smolder::jit {

/// Lanes of a canonical row reduction, whatever the machine's vectors are.
inline constexpr int kReduceLanes = 32;

/// An integer in a kernel: a constant of the structure, or run-time integer `slot`.
struct IntRef {
  int64_t constant = 0;
  int32_t slot = -1;  ///< -1: constant
  bool is_constant() const { return slot < 0; }
  friend bool operator==(const IntRef&, const IntRef&) = default;
};

using VarId = int32_t;    ///< loop variable
using LocalId = int32_t;  ///< SSA value within a kernel
using AccId = int32_t;    ///< accumulator

/// offset + sum of var * stride, in elements.
struct Affine {
  struct Term {
    VarId var;
    IntRef stride;
    friend bool operator==(const Term&, const Term&) = default;
  };
  IntRef offset;
  std::vector<Term> terms;
  friend bool operator==(const Affine&, const Affine&) = default;
};

/// Where a load or store goes: an affine map plus at most a few data-dependent terms.
struct Address {
  int buffer = 0;
  Affine map;
  struct Indirect {
    LocalId index;  ///< int64 value
    IntRef stride;
    friend bool operator==(const Indirect&, const Indirect&) = default;
  };
  std::vector<Indirect> indirect;
  friend bool operator==(const Address&, const Address&) = default;
};

/// Holds when lo <= map < hi; a load whose bounds do not all hold yields its fill (padding, cat).
struct Bound {
  Affine map;
  IntRef lo, hi;
  friend bool operator==(const Bound&, const Bound&) = default;
};

enum class StmtKind : uint8_t {
  kParallel,        ///< vars/extents, body. Root only
  kParallelVector,  ///< one var; body is straight-line. Root only
  kLoop,            ///< one var, sequential
  kVector,          ///< one var, innermost
  kLoad,            ///< result = buffer[address], or fill where a bound fails
  kStore,           ///< buffer[address] = args[0]; streaming if `streaming`. Elements are stored in loop order
  kPrimitive,       ///< result = op(args) in dtype: an elementwise primitive of the op table, `cast` (to dtype), or
                    ///< `random_bits` (seed, offset, position; all int64)
  kConstant,        ///< result = constant
  kScalar,          ///< result = run-time scalar `slot` (float64 or int64), converted to dtype
  kIndex,           ///< result = int64 value of `map`
  kAcc,             ///< declare accumulator `acc` with `reduce` and dtype, set to the identity
  kUpdate,          ///< acc = reduce(acc, args[0])
  kResult,          ///< result = lanes of acc combined
  kCheckIndex,      ///< args[0] (int64) must lie in [0, limit): result is the clamped index; when out of range
                    ///< the error word `error_slot` of the launch is set
  // In scheduled kernels:
  kGrid,      ///< vars/extents, body. Root only, of a scheduled kernel; without vars, one group has all
  kBlock,     ///< two vars, `chunk`: in a kGrid, positions and elements that a group takes at once
  kThread,    ///< one var, `chunk` or `across`: shared out among the threads of a group
  kLanes,     ///< one var, innermost, in a kThread of chunks: the thread's own
  kSplit,     ///< one var: segments of its iterations run side by side
  kShared,    ///< first in a kGrid or kBlock: buffer `address.buffer` is a row of each group, of `limit` elements
  kBarrier,   ///< the threads of a group wait for each other
  kCombine,   ///< in a kSplit: buffer[address] = op(buffer[address], args[0]), by segments. It begins with args[1], if
              ///< any
  kCopy,      ///< buffer[address] = buffer[source], bit for bit
  kRegister,  ///< in a kGrid: a thread has registers for `limit` elements of its rows of buffer `address.buffer`
  kHold,      ///< in a kThread: the thread keeps buffer[address] in registers. In one of chunks: those of its chunk
  kRelease,   ///< in a kThread: the last use of what it keeps
  kStage,     ///< in a kThread: buffer[address] is read from shared memory, if there is room
  kUnstage,   ///< in a kThread: and no longer
  kFetch,  ///< in a kVector of a host's kernel: memory is asked for what lies at buffer[address]. `vars`: for the next
           ///< iteration of this loop, if any
};
/// Whether a statement says only where elements are kept, or will be.
constexpr bool is_placement(StmtKind kind) { return kind >= StmtKind::kRegister; }

constexpr bool is_loop(StmtKind kind) {
  return kind <= StmtKind::kVector || (kind >= StmtKind::kGrid && kind <= StmtKind::kSplit);
}

/// Whether one iteration comes after the other, or may.
constexpr bool is_sequential(StmtKind kind) { return kind == StmtKind::kLoop || kind == StmtKind::kSplit; }

/// One statement; which fields count depends on `kind`.
struct Stmt {
  StmtKind kind;
  DType dtype = DType::kFloat32;  ///< kLoad, kStore: the buffer's. kResult: the accumulator's
  LocalId result = -1;
  std::vector<LocalId> args;
  ir::Op op{};                ///< kPrimitive, kCombine
  LocalId again = -1;         ///< kPrimitive: the value of an earlier loop over elements that it computes again, if any
  Scalar constant = 0.0;      ///< kConstant, and fill of a bounded kLoad
  int slot = 0;               ///< kScalar slot; kCheckIndex error slot
  Address address;            ///< kLoad, kStore, kCombine, kCopy
  Address source;             ///< kCopy
  std::vector<Bound> bounds;  ///< kLoad
  Affine map;                 ///< kIndex
  AccId acc = -1;             ///< kAcc, kUpdate, kResult
  ir::ReduceKind reduce{};    ///< kAcc
  bool streaming = false;     ///< kStore: write-once output beyond the last-level cache
  bool ahead = false;         ///< kLoad, kHold: the load is made early
  bool coarsened = false;     ///< kThread of chunks: a thread may take several
  IntRef limit;               ///< kCheckIndex, kShared, kRegister. kSplit: most threads of a block; 0: no such limit
  // loops
  std::vector<VarId> vars;
  std::vector<IntRef> extents;  ///< one per var
  /// Chunked loops: when clamp_var >= 0 the extent is min(extents[0], clamp_total - clamp_var*extents[0]).
  VarId clamp_var = -1;
  int chunk = 0;   ///< kThread: neighbouring iterations that a thread takes at once; 0: as lanes of a reduction
  int across = 0;  ///< kThread in a kBlock: threads that share out the elements of a position
  int unroll = 0;  ///< kLoop, kSplit: iterations whose loads are on their way at once; 0: the compiler says
  IntRef clamp_total;
  std::vector<Stmt> body;
};
/// Whether a loop is over elements: a vector loop, or what a schedule made of one.
inline bool is_vector(const Stmt& s) {
  return s.kind == StmtKind::kVector || s.kind == StmtKind::kParallelVector || s.kind == StmtKind::kLanes ||
         (s.kind == StmtKind::kThread && s.chunk == 0);
}

/// On a device, whose threads share out rows (jit/cuda/schedule.h): rows that a kernel is made for. It takes others,
/// too.
struct RowSize {
  int vector = 4;               ///< elements that a thread takes at once; 1: no more than that
  int sides = 1;                ///< lanes of a reduction that these are of
  int threads = 0, chunks = 0;  ///< of a row, and what each of these takes; 0: any number
  bool whole = false;           ///< all threads have as many chunks, else the last may be missing
  int staged = 0;               ///< blocks of a multiprocessor whose rows wait in its shared memory between loops
  bool rest = false;            ///< rows may end with less than a chunk
  friend bool operator==(const RowSize&, const RowSize&) = default;
};

/// Where a buffer lies: in the device's memory, which is the caller's to give, or in that of a group.
enum class MemorySpace : uint8_t { kGlobal, kShared };

struct BufferArg {
  DType dtype;
  bool read = false, write = false;
  MemorySpace space = MemorySpace::kGlobal;
  friend bool operator==(const BufferArg&, const BufferArg&) = default;
};

/// A kernel: what is compiled and cached.
struct Kernel {
  std::string name;  ///< for people: made from the ops inside; not part of the key
  std::vector<BufferArg> buffers;
  int num_ints = 0;
  std::vector<Category> scalars;  ///< category of each run-time scalar
  bool together = false;          ///< on a device: a launch runs several calls, which are independent
  bool guarded = false;           ///< on a device: does nothing once a step has failed, as `errors` says
  RowSize row;
  int num_vars = 0, num_locals = 0, num_accs = 0, num_errors = 0;
  Stmt root;
};

/// The order of a device's reductions over a vector loop: element j goes to lane j / unit modulo lanes, a power of two.
/// Neighbouring lanes are combined, then what that gave likewise, until it is one.
struct ReduceOrder {
  struct Deal {
    int lanes, unit;
  };
  std::function<Deal(int64_t extent)> deal;
  /// Sums over the iterations of a sequential loop, to elements of one place, are made in segments of so many
  /// iterations, each from the identity, and segments are added in order.
  struct Segments {
    struct Sum {
      const Stmt *load, *step, *store;  ///< store(step(load, x)), all of one address
    };
    const Stmt* loop = nullptr;
    std::vector<Sum> sums;
    int64_t (*iterations)(int64_t extent) = nullptr;
  };
  std::function<Segments(const Kernel& k)> segments;
};
inline constexpr int kMostReduceLanes = 1024;

/// Text of everything but the name; of a canonical kernel, what the cache key is made of. `parse_loop` is its
/// inverse.
std::string print(const Kernel& k);
/// Throws ValueError with line and column on malformed text. What it returns is not verified.
Kernel parse_loop(std::string_view text);
/// Throws InternalError when a structure rule is broken.
void verify(const Kernel& k);

/// The change of arguments by `canonicalize`: the old number of each new one.
struct Renumbering {
  std::vector<int32_t> buffers, ints, scalars, errors;
};
/// Renumbers variables, values, accumulators and arguments in order of first use, dropping arguments that
/// nothing uses, and sorts the terms of affine maps. Kernels that differ in nothing else become equal.
Renumbering canonicalize(Kernel& k);

/// The start of an accumulator's lanes, and the primitive that an update applies.
Scalar reduce_identity(ir::ReduceKind kind, DType t);
/// The identity of the reduction whose step is `op`.
Scalar step_identity(ir::Op op, DType t);
ir::Op reduce_step(ir::ReduceKind kind);
/// Dtype of the value that a statement defines, given the dtype field and the op.
DType result_dtype(const Stmt& s);

/// The compiled form. Integers are the kernel's ints, scalars are eight bytes each (double or int64),
/// errors is one word per error slot. Runs the root loop over [begin, end): positions of the product of
/// its extents.
using KernelFn = void (*)(void* const* buffers, const int64_t* ints, const uint64_t* scalars, uint32_t* errors,
                          int64_t begin, int64_t end);

}  // namespace smolder::jit
