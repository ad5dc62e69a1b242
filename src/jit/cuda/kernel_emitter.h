// Writes one kernel as CUDA C++, from its scheduled loop IR.
//
//   emit_kernel.cpp         the function, its arguments, loops, and statements that are the same for all lanes
//   emit_columns.cpp        positions and chunks, where threads take chunks through the whole body
//   emit_rows.cpp           loops over chunks, where threads share out rows; rows in registers and shared memory
//   emit_split_columns.cpp  split loops of the first kind of kernel
//   emit_split_rows.cpp     split loops of the second
//   emit_vector.cpp         what is computed in loops over elements
//   emit_access.cpp         loads and stores there
//   emit_expression.cpp     expressions
//
// Values that vary within a loop over elements are arrays, an element for each of the lanes that a thread takes at
// once.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "smolder/jit/cuda/functions.h"
#include "smolder/jit/cuda/numbers.h"
#include "smolder/jit/cuda/schedule.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

enum class Effort : bool;

class KernelEmitter {
 public:
  /// The kernel must be valid. `entry` is the name of its function.
  KernelEmitter(const Kernel& kernel, std::string entry, Functions& functions, Effort effort);
  /// The struct of its arguments and the function.
  std::string run();

 private:
  /// A value: an array of lanes, or one for all.
  struct Local {
    std::string name;
    DType dtype = DType::kFloat32;
    bool varies = false;
  };
  struct Accumulator {
    std::string name;
    DType dtype = DType::kFloat32;  ///< of the arithmetic
    ir::Op step{};
    std::string pair;  ///< of a maximum or minimum of halves as they lie in memory: of two at once
    DType half{};      ///< theirs
    int sides = 1;     ///< lanes that a thread has
    /// The accumulator of lane `k` of a chunk, and the address of all.
    std::string side() const { return sides == 1 ? name : name + "[k / " + std::to_string(kUnit) + "]"; }
    std::string address() const { return (sides == 1 ? "&" : "") + name; }
  };
  /// Elements that a thread has in registers from `hold` to `release` (columns).
  struct Kept {
    int buffer = -1;
    std::string name;
    Address address;
    VarId var = -1;  ///< of the thread's elements in `address`
  };

  // -- the kernel (emit_kernel.cpp)
  std::string arguments() const;
  bool looks_late() const;
  void find_call();
  void position(const std::string& name);
  void body(const std::vector<Stmt>& statements);
  std::string extent(const Stmt& s) const;
  void sequential(const Stmt& s);
  void segments(const Stmt& s, bool before);
  void statement(const Stmt& s);
  void number(const Stmt& s);
  void declare(const Stmt& acc);
  void store(const Stmt& s);
  void line(const std::string& text);
  Local& define(const Stmt& s, bool varies);
  bool is_columns() const { return shape_.chunk_loop != nullptr; }
  bool is_coarsened() const { return is_columns() && shape_.chunk_loop->coarsened; }
  /// The number of the block in its call.
  std::string block() const { return k_.together ? "block" : "blockIdx.x"; }
  std::string group_sync() const { return shape_.group_split ? "group_sync<true>();" : "group_sync();"; }

  // -- columns (emit_columns.cpp)
  void columns();
  void several_chunks();
  void fill_tiles(const Stmt& tile);
  void copy_across(const Stmt& loop, const std::string& positions);
  bool moves_rows() const;
  void load_first();
  std::string aligned() const;
  void regular();
  /// The end of a call of `for_columns`; its lambdas begin as `lanes_begin` says.
  std::string ways(const std::string& whole, const std::string& first_arguments) const;
  void lanes_begin();
  void vector_columns(const Stmt& s);

  // -- rows (emit_rows.cpp)
  void rows();
  void staged_positions();
  void scratch_rows();
  void held_rows();
  void begin_row_sizes(const std::string& n);
  void vector_rows(const Stmt& s);
  void vector_chunks(const Stmt& s);
  void staged_chunks(const Stmt& s, const std::string& copies);
  void begin_whole_chunks(const Stmt& s, bool several);
  void chunks_at_once(const Stmt& s, const std::string& copies);
  void chunks_one_by_one();
  void rest_of_chunks(const Stmt& s);
  void single_elements(const Stmt& s);
  bool may_deal_anew(const Stmt& s) const;
  bool takes_several_chunks(const Stmt& s) const;
  void add_after_rows(std::string before);
  /// Whether there is a text for rows of the size that is expected, and another for all others.
  bool has_two_rows() const { return shape_.has_row_size() && (k_.row.chunks > 0 || has_staged_rows()); }
  bool has_staged_rows() const { return !shape_.staged_rows.empty(); }
  /// Whether blocks go from position to position.
  bool walks() const { return shape_.staged_blocks > 0; }
  /// Whether threads have in registers what they computed of staged rows.
  bool keeps_staged() const { return has_staged_rows() && k_.row.chunks > 0; }
  std::string copy_staged(const KernelShape::StagedRow& row, const std::string& from) const;
  std::string copy_next(const Stmt& s);
  /// Loads of a chunk of some rows, and the places of these rows.
  struct Loads {
    std::string places, chunks;
  };
  void load_held(const Stmt& s, bool fits);
  void add_load(Loads& loads, const Address& a, VarId v);
  void load_chunks(const std::string& condition, const Loads& loads);
  void load_next(const Stmt& s);
  const KernelShape::HeldRow* held_row(int buffer) const;
  /// A pointer that is worked out once, before the loop.
  std::string row_at(const Address& a, VarId v);

  // -- split loops of columns (emit_split_columns.cpp)
  void split_columns(const Stmt& vector);
  void split_iterations(const Stmt& s);
  void each_sum(const auto& visit) const;
  std::string summed_element(const KernelShape::SplitSum& c) const;
  std::string summed_chunk(const KernelShape::SplitSum& c) const;
  void begin_column_sums();
  void column_segment(const Stmt& s);
  void end_column_sums();
  void places_ahead(const Stmt& s);
  void load_ahead(const Stmt& s);
  /// Whether such a load is made once for all iterations.
  bool is_made_once(const Stmt& s) const { return is_same_in_iterations(s, shape_.group_split->vars[0]); }
  std::string raw_ahead(const Stmt& s) const {
    return (is_made_once(s) ? "same" : "loads[u].raw") + std::to_string(s.result);
  }
  void add_segment(const KernelShape::SplitSum& c);
  void add_lanes(const KernelShape::SplitSum& c, const std::string& to, const std::string& x);
  std::string identity(const KernelShape::SplitSum& c) const;
  std::string initial(const KernelShape::SplitSum& c) const;
  /// The function that adds to an element of the sum.
  std::string step_of(const KernelShape::SplitSum& c);

  // -- split loops of rows (emit_split_rows.cpp)
  void split_rows(const Stmt& s);
  void slots();
  void begin_segment();
  void end_segment();
  void common_rows();
  bool is_common(const Address& a) const;
  void add_in_order(size_t column);
  void number_of_iteration(const Stmt& s);
  std::string number_at(const Stmt& s, const std::string& iteration);
  void combine(const Stmt& s);

  // -- loops over elements (emit_vector.cpp)
  void uniform_part(const Stmt& s);
  bool is_uniform(const Stmt& s) const;
  void varying(const Stmt& s);
  void update(const Stmt& s);
  void varying_value(const Stmt& s);
  std::string kept_value(LocalId x) const { return "computed" + std::to_string(x) + "[c].x[k]"; }
  bool random_lanes(const Stmt& s);
  bool exp_lanes(const Stmt& s);
  bool rare_lanes(const Stmt& s);
  bool divides_row(const Stmt& s) const;
  bool div_lanes(const Stmt& s);
  bool divide_chunk(const Stmt& s);
  void dividers(const Stmt& loop);
  std::string divided(const Stmt& s) const;
  static std::string divider(const Chunks::Division& d) {
    return "divider" + std::to_string(d.position->result) + "_" + std::to_string(d.size->result);
  }
  const Stmt* loaded_halves(const Stmt& update, const Stmt& loop) const;
  const Stmt* any_halves(AccId acc) const;
  void lanes(const std::string& statement) { line("FOR_LANES " + statement); }
  /// A new array of lanes for what a statement defines.
  std::string declare_lanes(const Stmt& s);

  // -- loads and stores (emit_access.cpp)
  void varying_load(const Stmt& s);
  void load_chunk(const Stmt& s);
  void load_lanes(const Stmt& s, const std::string& name);
  void load_regular(const Stmt& s, const std::string& name);
  void load_spread(const Stmt& s, const std::string& name);
  bool is_spread(const Stmt& s, const Stmt& loop) const;
  void varying_store(const Stmt& s);
  void store_chunk(const Stmt& s, const std::string& x);
  void store_joined(const Stmt& s);
  void hold(const Stmt& s);
  void release(const Stmt& s);
  void transfer_kept(const Kept& kept, bool load);
  const Kept* kept_of(int buffer) const;
  bool is_contiguous(const Address& a) const { return is_contiguous(a, loop_->vars[0]); }
  bool is_contiguous(const Address& a, VarId v) const;
  /// Where the chunk from element `i` on is in memory.
  std::string chunk_at(const Address& a);
  std::string pack(int buffer) const;
  /// A number from an element of a chunk.
  std::string lane_of(DType t, const std::string& pack) const;

  // -- expressions (emit_expression.cpp)
  std::string value(LocalId v) const;
  /// The value that a statement defines, from its operands.
  std::string expression(const Stmt& s);
  /// The same before it is rounded to a half, where `rounds` says that it is.
  std::string unrounded(const Stmt& s);
  bool rounds(const Stmt& s) const;
  std::string loaded(DType t, const std::string& raw) const;
  std::string stored(DType t, const std::string& x) const;
  std::string rounded(DType t, std::string x) const;
  /// Between dtypes of arithmetic.
  std::string cast(DType from, DType to, const std::string& x);
  std::string integer(IntRef r) const;
  std::string affine(const Affine& a, VarId skipped = -1) const;
  std::string element(const Address& a, VarId skipped = -1) const;
  std::string error_slot(const Stmt& s) const;
  std::string bounds(const Stmt& s) const;
  std::string buffer(int b) const { return "b" + std::to_string(b); }

  const Effort effort_;
  const Schedule schedule_;
  const Kernel& k_;
  const KernelShape& shape_;
  const std::string entry_;
  Functions& functions_;
  const Numbers numbers_;
  std::string out_;
  int depth_ = 0;
  std::vector<Local> locals_;
  std::vector<Accumulator> accs_;
  std::vector<std::string> vars_;  ///< by VarId: its value
  std::vector<Kept> kept_;
  int held_ = 0;                      ///< elements that were held so far
  const Stmt* loop_ = nullptr;        ///< the vector loop whose lanes are being written
  std::vector<std::string> rows_at_;  ///< of this loop: what `at0`, `at1` and so on are
  int outs_ = 0;                      ///< chunks on their way to memory
  bool in_split_ = false;             ///< in a loop whose segments groups take side by side
};

}  // namespace smolder::jit::cuda
