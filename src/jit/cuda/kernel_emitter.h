// Writes one kernel: emit_kernel.cpp what surrounds vector loops, emit_vector.cpp what is in them,
// emit_team.cpp loops whose turns run side by side. Values that vary
// within a vector loop are arrays, an element for each of the lanes that a thread takes at once.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "smolder/jit/cuda/functions.h"
#include "smolder/jit/cuda/numbers.h"
#include "smolder/jit/cuda/schedule.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

class KernelEmitter {
 public:
  /// The kernel must be valid. `entry` is the name of its function.
  KernelEmitter(const Kernel& kernel, std::string entry, Functions& functions);
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
    /// Of lane `k` of a chunk; and of all.
    std::string side() const { return sides == 1 ? name : name + "[k / " + std::to_string(kUnit) + "]"; }
    std::string address() const { return (sides == 1 ? "&" : "") + name; }
  };
  /// A buffer's element that a sequential loop updates and that a thread keeps in registers meanwhile (columns).
  struct Kept {
    int buffer = -1;
    std::string name;
    Address address;
    VarId var = -1;  ///< of the vector loop in `address`
  };

  // -- structure (emit_kernel.cpp)
  std::string arguments() const;
  void find_call();
  void columns();
  void several_chunks();
  void fill_tiles(const Stmt& tile);
  void copy_across(const Stmt& loop, const std::string& positions);
  bool moves_rows() const;
  void load_first();
  void rows();
  void near_positions();
  void position(const std::string& name);
  void scratch_rows();
  void held_rows();
  std::string aligned() const;
  void regular();
  /// What calls of `for_columns` end with, and the lambdas they get begin with.
  std::string ways(const std::string& whole, const std::string& first_arguments) const;
  void lanes_begin();
  void body(const std::vector<Stmt>& statements);
  void sequential(const Stmt& s);
  void strips(const Stmt& s, const std::vector<Kept>& kept, bool before);
  bool reads_ahead(const Stmt& loop, const std::vector<Kept>& kept) const;
  std::vector<Kept> find_kept(const Stmt& loop) const;
  std::string extent(const Stmt& s) const;
  std::string group_sync() const { return shape_.team ? "group_sync<true>();" : "group_sync();"; }

  // -- turns side by side (emit_team.cpp)
  void team_of_columns(const Stmt& vector);
  void column_turns(const Stmt& s);
  void places_ahead(const Stmt& s);
  void load_ahead(const Stmt& s);
  bool is_ahead(const Stmt& s) const { return std::ranges::find(shape_.ahead, &s) != shape_.ahead.end(); }
  /// Whether such a load is made once for all turns.
  bool is_made_once(const Stmt& s) const { return is_same_in_turns(s, shape_.team->vars[0]); }
  std::string raw_ahead(const Stmt& s) const {
    return (is_made_once(s) ? "same" : "loads[u].raw") + std::to_string(s.result);
  }
  std::string initial(const KernelShape::TeamColumn& c) const;
  /// The function that adds to an element of the column.
  std::string step_of(const KernelShape::TeamColumn& c);
  void team(const Stmt& s);
  void slots();
  void begin_strip();
  void end_strip();
  void add_strip(const KernelShape::TeamColumn& c);
  void add_lanes(const KernelShape::TeamColumn& c, const std::string& to, const std::string& x);
  std::string identity(const KernelShape::TeamColumn& c) const;
  void shared_rows();
  bool is_shared(const Address& a) const;
  void add_in_order(size_t column);
  void number_of_turn(const Stmt& s);
  bool is_number_ahead(const Stmt& s) const;
  std::string number_at(const Stmt& s, const std::string& turn);
  void combine(const Stmt& s);

  // -- statements that are the same for all lanes (emit_kernel.cpp)
  void statement(const Stmt& s);
  void number(const Stmt& s);
  void store(const Stmt& s);

  // -- vector loops (emit_vector.cpp)
  void vector_columns(const Stmt& s);
  void vector_rows(const Stmt& s);
  /// Whether there is a text for rows of the size that is expected, and another for all others.
  bool has_two_rows() const { return shape_.has_row_size() && (k_.row.chunks > 0 || has_near_rows()); }
  bool has_near_rows() const { return !shape_.near_rows.empty(); }
  bool walks() const { return shape_.near_blocks > 0; }
  /// Whether threads have what they computed of near rows in registers.
  bool keeps_near() const { return has_near_rows() && k_.row.chunks > 0; }
  std::string copy_near(const KernelShape::SharedRow& near, const std::string& from) const;
  std::string copy_next(const Stmt& s);
  void vector_chunks(const Stmt& s);
  bool takes_several_chunks(const Stmt& s) const;
  void uniform_part(const Stmt& s);
  void add_after_rows(std::string before);
  /// Loads of a chunk of some rows, and the places of these rows.
  struct Loads {
    std::string places, chunks;
  };
  void load_held(const Stmt& s, bool fits);
  void add_load(Loads& loads, const Address& a, VarId v);
  void load_chunks(const std::string& condition, const Loads& loads);
  void load_next(const Stmt& s);
  bool is_read_ahead(const KernelShape::HeldRow& row) const;
  bool is_uniform(const Stmt& s) const;
  void varying(const Stmt& s);
  std::string repeat_of(const Stmt* KernelShape::Repeat::* which, const Stmt& s) const;
  void varying_load(const Stmt& s);
  void load_chunk(const Stmt& s);
  void load_lanes(const Stmt& s, const std::string& name);
  void load_regular(const Stmt& s, const std::string& name);
  bool is_spread(const Stmt& s, const Stmt& loop) const;
  void load_spread(const Stmt& s, const std::string& name);
  void store_joined(const Stmt& s);
  bool random_lanes(const Stmt& s);
  const Stmt* loaded_halves(const Stmt& update, const Stmt& loop) const;
  const Stmt* any_halves(AccId acc) const;
  void declare(const Stmt& acc);
  void single_elements(const Stmt& s);
  bool may_deal_anew(const Stmt& s) const;
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
  void varying_store(const Stmt& s);
  void transfer_kept(const Kept& kept, bool load);
  const Kept* kept_of(int buffer) const;
  const KernelShape::HeldRow* held_row(int buffer) const;
  bool is_contiguous(const Address& a) const { return is_contiguous(a, loop_->vars[0]); }
  bool is_contiguous(const Address& a, VarId v) const;
  /// Where the chunk from element `i` on is in memory.
  std::string chunk_at(const Address& a);
  /// A pointer that is worked out once, before the loop.
  std::string row_at(const Address& a, VarId v);
  std::string pack(int buffer) const;
  /// A number from an element of a chunk.
  std::string lane_of(DType t, const std::string& pack) const;
  void lanes(const std::string& statement) { line("FOR_LANES " + statement); }
  /// A new array of lanes for what a statement defines.
  std::string declare_lanes(const Stmt& s);

  // -- expressions
  std::string value(LocalId v) const;
  /// What a statement defines, from its operands.
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
  bool is_columns() const { return shape_.chunk_loop != nullptr; }
  /// Number of the block, in its call.
  std::string block() const { return k_.together ? "block" : "blockIdx.x"; }

  void line(const std::string& text);
  Local& define(const Stmt& s, bool varies);

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
  std::vector<const Stmt*> loaded_first_;  ///< loads whose chunks `load_first` took
  std::vector<const Stmt*> taken_ahead_;   ///< loads of the next chunk, which `several_chunks` makes
  const Stmt* loop_ = nullptr;             ///< the vector loop whose lanes are being written
  std::vector<std::string> rows_at_;       ///< of this loop: what `at0`, `at1` and so on are
  int outs_ = 0;                           ///< chunks on their way to memory
  bool in_team_ = false;                   ///< in the loop whose turns groups take side by side
};

}  // namespace smolder::jit::cuda
