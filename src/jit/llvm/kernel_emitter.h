// The state of one kernel's emission: emit_kernel.cpp writes what surrounds vector loops, vector_loop.cpp the
// loops themselves, compute.cpp the arithmetic.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "smolder/jit/llvm/builder.h"
#include "smolder/jit/llvm/emit.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cpu {

using V = llvm::Value*;

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const Kernel& kernel, const Traits& traits);
  void run();

 private:
  friend class VectorLoop;

  /// A value of the kernel: one lane when defined outside vector loops or the same in all lanes.
  struct Local {
    V scalar = nullptr;
    V vector = nullptr;
    DType dtype = DType::kFloat32;
  };
  /// An accumulator: kReduceLanes lanes as two vectors. `next` takes the next kLanes elements, then they change
  /// places, so that element j of a loop meets lane j mod kReduceLanes.
  struct Accumulator {
    V next = nullptr, other = nullptr;
    DType dtype = DType::kFloat32;  ///< of the arithmetic
    ir::Op step{};
  };
  static_assert(kReduceLanes == 2 * kLanes);

  // -- structure
  void load_arguments();
  void parallel();
  std::vector<V> first_position(V begin);
  std::vector<V> next_position(const std::vector<V>& at);
  void sequential(const Stmt& s);
  void turns(const Stmt& s);
  bool holds_columns(const Stmt& s);
  void few_or_many_columns(const Stmt& s);
  void tile(const Stmt& s);
  void fetch_next_tile(const Stmt& s, const std::vector<const Stmt*>& turned, V first_row, V first);
  void block_of_tile(const Stmt& s, const std::vector<const Stmt*>& turned, V first_row, V first);
  /// A loop over blocks of kLanes of n; `emit` is given the first element of one.
  void blocks(int64_t n, auto&& emit);
  void body(const std::vector<Stmt>& statements);
  void vector(const Stmt& s, V begin, V end);
  V extent(const Stmt& s);

  // -- statements on one lane
  void statement(const Stmt& s);
  V load(const Stmt& s);
  void store(const Stmt& s, V value);
  V result(const Stmt& s);
  void declare(const Stmt& s);

  // -- any number of lanes
  V compute(const Stmt& s, std::span<const V> args);
  V written_out(const Stmt& s, std::span<const V> args);
  llvm::Function* function_of(const Stmt& s, std::span<const V> args);
  llvm::Function* define(const std::vector<llvm::Type*>& operands, llvm::Type* result, auto&& body);
  /// random_bits of consecutive positions.
  V random_run(V seed, V offset, V first);
  V number(Scalar v, DType t);
  V check_index(const Stmt& s, V index, V mask);
  V step(const Accumulator& a, V x, V y);

  // -- indices
  V integer(IntRef r) const;
  V add(V x, V y);
  V mul(V x, V y);
  /// The map without the term of `skipped`.
  V affine(const Affine& a, VarId skipped = -1);
  /// The stride that `v` has in the map; null when the map does not vary with it.
  V stride(const Affine& a, VarId v);
  V pointer(int buffer, V element);
  llvm::Type* element_type(int buffer);

  llvm::BasicBlock* block(const char* name) { return llvm::BasicBlock::Create(ir_.getContext(), name, fn_); }
  llvm::PHINode* phi(V initial, llvm::BasicBlock* from);
  llvm::PHINode* index_phi() { return ir_.CreatePHI(ir_.getInt64Ty(), 2); }
  V i64(int64_t v) { return ir_.getInt64(v); }
  /// Memory that inactive lanes may read and write.
  V scratch();

  llvm::Module& module_;
  const Kernel k_;  ///< as it is scheduled
  const Traits traits_;
  llvm::Function* fn_;
  llvm::IRBuilder<> ir_;
  Builder b_;
  std::vector<V> buffers_, ints_, vars_;
  std::vector<Local> locals_;
  std::vector<Accumulator> accs_;
  /// Functions of ops on vectors, by the operand's dtype and the op's own; null where one is written out at each use.
  std::map<std::tuple<ir::Op, DType, DType>, llvm::Function*> functions_;
  llvm::Function* random_run_ = nullptr;
  V scratch_ = nullptr;
  bool streamed_ = false, fetches_rows_ = false;
};

/// Accumulators that the statements update and do not declare.
std::vector<AccId> updated_accumulators(const std::vector<Stmt>& body);

}  // namespace smolder::jit::cpu
