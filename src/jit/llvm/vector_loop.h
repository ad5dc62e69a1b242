// One vector loop. What does not change from element to element is computed before it; a block of kLanes
// elements is emitted once with a mask, for what remains, and, where that pays, without one for the rest.
#pragma once

#include <utility>
#include <vector>

#include "smolder/jit/llvm/kernel_emitter.h"

namespace smolder::jit::cpu {

/// Bytes of a cache line: streaming stores fill whole ones.
inline constexpr int64_t kLine = 64;

class VectorLoop {
 public:
  /// Over elements [begin, end) of the loop's variable.
  VectorLoop(KernelEmitter& emitter, const Stmt& loop, V begin, V end);
  void emit();
  /// A block of kLanes elements that begins with `first`, and nothing else. What was loaded already is given, as
  /// stored.
  using Given = std::vector<std::pair<const Stmt*, V>>;
  void emit_block_of(V first, Given given);
  /// The first `count` elements, of which `mask` is; what `store` would write is returned instead, as stored.
  V emit_held_block(V count, V mask, Given given, const Stmt& store);
  V mask_of(V count);

 private:
  using Local = KernelEmitter::Local;
  using Accumulator = KernelEmitter::Accumulator;

  /// How a statement reaches memory from element to element.
  struct Access {
    enum Kind { kUniform, kContiguous, kReversed, kStrided, kIndirect } kind = kUniform;
    V element = nullptr;                          ///< of element 0 of the loop, all that is uniform included
    V base = nullptr;                             ///< its address
    V stride = nullptr;                           ///< null when 0
    V lane_offsets = nullptr;                     ///< stride * (0, 1, 2, ...)
    std::vector<std::pair<LocalId, V>> indirect;  ///< values that vary, with splat strides (null: 1)
  };
  struct Range {
    V element = nullptr, stride = nullptr, lane_offsets = nullptr, low = nullptr, high = nullptr;
    bool has_low = true;
  };
  struct Prepared {
    bool uniform = false;
    Access access;
    V condition = nullptr;  ///< bounds that do not vary, splat
    V passed = nullptr;  ///< and of what is contiguous the bits of a number that remain: all, or none outside of them
    std::vector<Range> ranges;
    V element = nullptr, stride = nullptr, lane_offsets = nullptr;  ///< kIndex
  };
  /// kLanes elements, or the first `count` of them.
  struct Block {
    V first;
    V count = nullptr, mask = nullptr;
    bool stream = false;
  };

  /// A value whose lanes in this block are `first`, or count up from it, if `whole`.
  struct Run {
    V first = nullptr;
    bool steps = false;
    V whole = nullptr;
  };

  /// Consecutive numbers x divided by y in this block: of the first the quotient and the rest, how many multiples of y
  /// each lane has passed since (null until wanted), and whether none has.
  struct Division {
    LocalId x, y;
    V quotient, rest, passed, whole;
  };

  // -- before the loop
  void prepare();
  Prepared prepare(const Stmt& s);
  bool is_uniform(const Stmt& s) const;
  bool varies(LocalId v) const { return !uniform_[v]; }
  Access access(const Address& a);
  V iota(llvm::IntegerType* type);
  V lane_offsets(V stride);
  static bool is_constant(V stride, int64_t number) {
    const auto* c = llvm::dyn_cast_or_null<llvm::ConstantInt>(stride);
    return c && c->getSExtValue() == number;
  }
  static bool is_one(V stride) { return is_constant(stride, 1); }
  V splat(V x) { return ir_.CreateVectorSplat(kLanes, x); }

  // -- shapes of the loop (see emit)
  struct Body {
    llvm::BasicBlock *enter, *leave;
    llvm::PHINode *first, *stop;
    std::vector<llvm::PHINode*> state;
    std::vector<V> state_after;
    V next;
  };
  void emit_main_and_rest(llvm::BasicBlock* before, llvm::BasicBlock* after);
  void emit_streaming(llvm::BasicBlock* before, llvm::BasicBlock* after);
  std::pair<V, std::vector<V>> whole_blocks(llvm::BasicBlock* before, llvm::BasicBlock* after, V first,
                                            const std::vector<V>& initial, int instructions, bool stream);
  Body masked_body();
  Body main_body(int blocks, bool stream);
  V streaming_start(V* aligned);
  bool wants_main(int instructions) const;

  // -- accumulators as a list of values, two each
  std::vector<V> state() const;
  void set_state(const std::vector<V>& values);
  std::vector<llvm::PHINode*> state_phis();
  static void add_incoming(const std::vector<llvm::PHINode*>& phis, const std::vector<V>& values,
                           llvm::BasicBlock* from);
  void put_in_order();

  // -- a block
  void emit_block(const Block& block);
  void statement(const Stmt& s, const Prepared& p, const Block& block);
  V vector_of(LocalId v);
  V random_bits(const Stmt& s);
  bool is_division_of_run(const Stmt& s) const;
  Division& division_of_run(LocalId x, LocalId y);
  V passed(Division& d);
  void defer_division(const Stmt& s);
  V divide_run(const Stmt& s);
  V run_start(const Access& a, const Block& block, V* consecutive);
  V load_runs(const Stmt& s, const Prepared& p, V mask, V fill, const Block& block);
  V element(const Access& a, const Block& block);
  V load(const Stmt& s, const Prepared& p, const Block& block);
  /// `at`, or scratch memory where no lane is active: the address may be anywhere then, and a masked load of memory
  /// that isn't there takes hundreds of cycles.
  V reached(V at, V mask);
  void fetch_ahead(V at);
  V load_contiguous(const Stmt& s, V at, V mask, V fill, const Block& block);
  int small_step(const Access& a) const;
  V load_every(const Stmt& s, const Prepared& p, int step, V fill, const Block& block);
  V load_reversed(const Stmt& s, const Prepared& p, V mask, V fill, const Block& block);
  V load_scattered(const Stmt& s, const Prepared& p, V mask, V fill, const Block& block);
  V scattered_apart(const Stmt& s, const Prepared& p, V mask, V fill, const Block& block);
  void store(const Stmt& s, const Prepared& p, const Block& block);
  void store_uniform(const Stmt& s, const Prepared& p, const Block& block);
  void store_scattered(const Stmt& s, const Prepared& p, V value, const Block& block);
  V lane_mask(const Range& r, const Block& block);
  std::vector<V> lane_pointers(const Stmt& s, const Prepared& p, V mask, const Block& block);
  V indices(const Access& a, const Block& block);
  void update(const Stmt& s, const Block& block);
  void prepare_fetches();
  void fetch_rows(const Block& block);
  void copy_elements(V to, V from, V count, llvm::Type* type);
  bool can_mask(DType t) const;

  KernelEmitter& e_;
  llvm::IRBuilder<>& ir_;
  Builder& b_;
  const Stmt& loop_;
  const VarId var_;
  const V begin_, end_;
  const std::vector<AccId> accs_;
  std::vector<bool> uniform_;  ///< by LocalId
  std::vector<V> first_of_;    ///< by LocalId: of lanes that hold consecutive numbers, the first
  std::vector<Run> runs_;      ///< by LocalId
  std::vector<Division> divisions_;
  std::vector<const Stmt*> deferred_;  ///< by LocalId: divisions whose lanes are computed when wanted
  std::vector<Prepared> prepared_;
  struct Fetch {
    V base;  ///< of the row
    llvm::Type* element;
    int64_t bytes;  ///< of a block
    bool write;     ///< it will be written
  };
  std::vector<Fetch> fetches_;
  Given given_;
  const Stmt* held_store_ = nullptr;
  V held_ = nullptr;
  bool streams_ = false;
};

}  // namespace smolder::jit::cpu
