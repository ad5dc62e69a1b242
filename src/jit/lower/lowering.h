// Turns one group of primitives into a loop nest. Values are pulled: a sink asks for its element at an
// index, which asks for its operands at theirs, down to loads. Movement primitives change the index and
// leave no code. A value is computed at the outermost level its index varies at, once for each index.
//
// lowering.cpp makes the loops, lower_value.cpp the values, lower_index.cpp the indices; finish_kernel.cpp
// merges loops and numbers what is left.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "smolder/jit/lower/linear.h"
#include "smolder/jit/program.h"

namespace smolder::jit {

/// Per-value tables that lowerings of one program share, so that a kernel costs what it holds and not
/// what the graph holds.
struct LoweringScratch {
  struct Head {
    uint32_t stamp = 0;
    int32_t memo = -1;
    int32_t phase = -1;
  };
  std::vector<Head> heads;  ///< by value
  uint32_t stamp = 0;
  std::vector<ir::Dim> numbers;  ///< extents that guards say are numbers
};

inline Stmt make_statement(StmtKind kind) {
  Stmt s{};
  s.kind = kind;
  return s;
}

/// A value that several phases of a row need, kept in memory from the first on because it is costly to compute
/// again.
struct KeptValue {
  ir::ValueId value = ir::kNone;
  /// Where: this sink, which is the value itself or is written no sooner than the value is last needed, and not by
  /// streaming stores; or kNone for a row of its own, one a thread.
  ir::ValueId in_sink = ir::kNone;
};

/// Thrown when a group cannot hold a value as its reader wants it: it has to be written by another.
struct CannotInline {
  ir::ValueId value;
};

class Lowering {
 public:
  /// With `written` > 0 the last axis, of so many elements, is no loop: its elements are written one after the other.
  Lowering(Program& program, LoweringScratch& scratch, GroupId id, int64_t written = 0);

  /// The kernel of the group. Asks for finer loops instead when an index has to be cut and they would
  /// spare it (`refined` then holds the domain to try with).
  std::unique_ptr<KernelCall> run();
  const std::optional<Domain>& refined() const { return refined_; }
  /// How many elements the last axis had better be written for, where the kernel's vector loop is too short: or 0.
  bool sums_few_columns(ir::Dim columns);
  int64_t better_written(const KernelCall& call) const;

 private:
  // A level of the nest: what is computed in the parallel loop, in the sequential row loop, or in the
  // vector loops inside.
  enum Level : uint8_t { kTop, kRow, kCell };
  using IndexId = int32_t;

  struct LocalInfo {
    DType dtype;
    Level level;
  };
  struct Memo {
    IndexId at;
    LocalId local;
    int phase;
    int next;
  };
  struct Cut {
    Digit whole;
  };

  // -- loops (lowering.cpp)
  void make_variables();
  Linear reduced_row_position(ir::Dim rows);
  Linear last_column_position(ir::Dim columns);
  VarId new_var(Level level);
  void add_parallel(VarId v, ir::Dim extent);
  int phase_of(ir::ValueId v);
  bool in_group(ir::ValueId v) const { return program_.group_of[v] == id_; }
  bool is_reduced_here(ir::ValueId v) const;
  bool is_row_level(ir::ValueId sink);
  void emit_column_identity(ir::NodeId node);
  Stmt vector_loop(std::vector<Stmt> body) const;
  void store_full(ir::ValueId sink);
  bool streams(ir::ValueId sink);
  void store_row_level(ir::ValueId sink);
  void update_columns(ir::NodeId node);
  void emit_row_reductions(std::span<const ir::NodeId> reductions, std::vector<std::pair<ir::NodeId, AccId>>& finished);
  void emit_phase(std::span<const ir::NodeId> row_reductions, std::span<const ir::NodeId> column_reductions);
  /// Where this row's and column's partial of a column reduction lies.
  Linear column_position();
  Stmt assemble();

  // -- values (lower_value.cpp)
  /// Element of `v` at an index, as the arithmetic of its own dtype sees it.
  LocalId value(ir::ValueId v, IndexId at);
  LocalId compute(ir::ValueId v, IndexId at);
  LocalId load(ir::ValueId v, IndexId at);
  LocalId elementwise(const ir::Node& n, ir::ValueId v, IndexId at);
  LocalId operand(ir::ValueId v, IndexId at, DType compute);
  LocalId pad(const ir::Node& n, ir::ValueId v, IndexId at);
  LocalId cat(const ir::Node& n, ir::ValueId v, IndexId at);
  LocalId take(const ir::Node& n, ir::ValueId v, IndexId at, bool along);
  LocalId random_bits(const ir::Node& n, IndexId at);
  LocalId reduction_result(ir::ValueId v, IndexId at);
  bool must_load(ir::ValueId v) const;
  bool is_plain_load(ir::ValueId v) const;

  // -- values kept between phases (keep_rows.cpp)
  void find_kept_rows();
  void trace(ir::ValueId reader, ir::ValueId v, int phase);
  bool is_row_value(ir::ValueId v);
  LocalId kept_or_computed(ir::ValueId v, IndexId at);
  Address kept_address(size_t kept);

  // -- indices (lower_index.cpp)
  IndexId intern(Index index);
  const Index& index(IndexId id) const { return indices_[id]; }
  Level level_of(const Linear& l) const;
  Level level_of(const Index& i) const;
  /// The digits of each dim of `shape`; cuts digits that straddle a boundary.
  std::vector<std::vector<Digit>> isolate(const Index& at, const ir::SymDims& shape);
  std::optional<std::pair<Digit, Digit>> cut_chunk(const Digit& d, ir::Dim inner);
  std::pair<Digit, Digit> cut(const Digit& d, ir::Dim inner);
  Linear flatten(const std::vector<Digit>& digits) { return jit::flatten(sym(), digits); }
  /// Where the element at an index lies in a buffer.
  Linear position_in(const BufferInfo& info, const Index& at);
  IndexId moved(const ir::Node& n, IndexId at);
  LocalId to_local(const Linear& l);
  LocalId inside(const Linear& value, ir::Dim lo, ir::Dim hi);
  LocalId within(const std::vector<LinearBound>& bounds);
  IndexId bounded(const Index& at, std::vector<std::vector<Digit>> dims, int axis, Linear position, ir::Dim extent);
  void ask_finer(const Digit& d, ir::Dim inner);

  // -- statements
  Level emit_level(Level wanted) const { return wanted == kRow && !sequential_ ? kTop : wanted; }
  LocalId emit(Stmt s, Level level, DType dtype);
  void emit_effect(Stmt s, Level level) { lists_[emit_level(level)].push_back(std::move(s)); }
  LocalId primitive(ir::Op op, DType dtype, std::vector<LocalId> args);
  LocalId convert(LocalId x, DType to);
  LocalId constant(Scalar v, DType dtype);
  IntRef stride_ref(ir::Dim d);
  IntRef int_ref(ir::Dim d);
  Affine affine(const Linear& l);
  Address address(int buffer, const Linear& l);
  int buffer_arg(BufferId b, bool write);
  void note_access(int buffer, const Address& a, bool write, bool bounded, Level level);
  ir::SymTable& sym() { return program_.graph.sym; }
  const ir::Graph& graph() const { return program_.graph; }

  // -- finish_kernel.cpp
  void finish(KernelCall& call);
  void drop_unread_rows(Stmt& root);
  void know_strides(Stmt& root);
  void cut_tiles(Stmt& root);
  void find_in_place(KernelCall& call) const;

  Program& program_;
  LoweringScratch& scratch_;
  const GroupId id_;
  const Group& group_;
  const int64_t written_;
  Domain domain_;
  std::optional<Domain> refined_;

  // variables
  std::vector<Level> var_level_;
  std::vector<VarId> parallel_vars_;
  std::vector<ir::Dim> parallel_extents_;
  bool sequential_ = false;
  VarId seq_var_ = -1, vector_var_ = -1, seq_clamp_ = -1, vector_clamp_ = -1;
  ir::Dim seq_extent_, seq_total_, vector_extent_, vector_total_;
  std::vector<Digit> row_digits_, column_digits_;
  Digit row_chunk_digit_, column_chunk_digit_;  // which chunk, where chunked
  bool has_row_chunk_ = false, has_column_chunk_ = false, few_columns_ = false;
  IndexId full_ = -1, row_ = -1;
  std::vector<IndexId> each_;  ///< full_, by elements of the last axis where that is no loop
  int64_t sample_rows_ = 1, sample_columns_ = 1;

  int phase_ = 0;
  std::vector<Stmt> lists_[3];
  std::vector<Stmt> stores_;  ///< of this phase
  std::vector<LocalInfo> locals_;
  std::vector<Memo> memo_;
  std::vector<Index> indices_;
  std::vector<uint64_t> index_hash_;
  std::vector<Cut> cuts_;
  struct LinearLocal {
    Linear value;
    LocalId local;
    int phase;
  };
  std::vector<LinearLocal> linear_locals_;
  struct CutLocals {
    Digit whole, high, low;
    int phase;
  };
  std::vector<CutLocals> cut_digits_;
  std::vector<std::pair<ir::ValueId, LocalId>> results_;  // of row reductions

  // values kept between phases (keep_rows.cpp)
  struct Request {
    ir::ValueId reader, value;  ///< kNone: a sink or reduction
    int phase;
  };
  std::vector<Request> requests_;
  std::vector<ir::ValueId> computed_;                            ///< each once
  std::unordered_map<ir::ValueId, std::vector<int>> phases_of_;  ///< in which it is computed
  std::vector<KeptValue> kept_;
  std::vector<int> kept_buffer_, kept_since_;  ///< argument and phase, or -1
  std::vector<KernelCall::Scratch> scratch_rows_;

  // arguments
  std::vector<BufferId> buffers_;
  std::vector<BufferArg> buffer_args_;
  std::vector<ir::Dim> pool_;  // run-time integers, before they are numbered
  std::vector<ScalarSource> scalars_;
  std::vector<std::pair<std::pair<int, DType>, LocalId>> scalar_locals_;
  std::vector<std::pair<Scalar, LocalId>> constants_;
  std::vector<OpSite> errors_;
  int num_accs_ = 0;
  struct Access {
    int buffer;
    Address address;
    bool write, simple;
  };
  std::vector<Access> accesses_;  ///< in the order of their statements
  double cost_ = 0;
};

/// Lowers a kernel group, with as fine loops as its indices want.
std::unique_ptr<KernelCall> lower_group(Program& program, LoweringScratch& scratch, GroupId id);

}  // namespace smolder::jit
