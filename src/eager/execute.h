// Eager execution: ops run at once, primitive by primitive, through the dispatch table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smolder/eager/array.h"
#include "smolder/ir/graph.h"

namespace smolder::eager {

class Pieces;

/// An op that met an index out of range. It was clamped where read, and the write dropped where written.
struct BadIndex {
  uint32_t source = 0;  ///< source token of the node; 0 for a single op
  std::string op;
  int64_t index = 0, extent = -1;  ///< one of them, and how many elements its axis has; -1: not known
};
/// "index out of range in take: 7 is not in [0, 5)", or "index -7 is out of bounds for a dimension with size 5" where
/// the op counts from the end too.
std::string to_string(const BadIndex& bad);

/// Throws NotImplementedError where an op is to write complex numbers: they are computed as pairs, by other ops.
void check_result(ir::Op op, const ir::Meta& result);

/// Runs one op (or primitive): shape and dtype rule, decomposition, a kernel a primitive. `inputs` follow the op's
/// operands, lists flattened, with undefined arrays for absent optionals. Decompositions are remembered by op,
/// attributes and operand metadata. If a kernel for the op itself is registered for `key` (override_kernel), that
/// one runs instead.
///
/// Results may share memory with inputs (views) and need not be row-major: see `contiguous`. Throws what the op's
/// rule throws; NotImplementedError where `key` has no kernel; IndexError for an index out of range, unless
/// `bad_indices` is given, which is then appended to.
std::vector<Array> execute(ir::Op op, std::span<const Array> inputs, std::span<const int64_t> attrs,
                           DispatchKey key = DispatchKey::kCPU, std::vector<BadIndex>* bad_indices = nullptr);

/// `a`, or a row-major copy where it is not row-major already. Numbers stay.
Array contiguous(const Array& a, DispatchKey key = DispatchKey::kCPU);

/// A graph made ready to run op by op: sizes worked out, each value's last use known.
class Program {
 public:
  /// `symbols` gives sizes; empty means those of the graph's sample. Guards are the caller's to check.
  static std::shared_ptr<const Program> compile(const ir::Graph& g, std::span<const int64_t> symbols = {});
  ~Program();

  /// Runs it; leaves and parameters by number, shapes and dtypes as the graph says, strides any. Every intermediate
  /// is freed after its last use.
  std::vector<Array> run(std::span<const Array> leaves, std::span<const uint64_t> parameters = {},
                         DispatchKey key = DispatchKey::kCPU, std::vector<BadIndex>* bad_indices = nullptr) const;

 private:
  struct Step;
  class Compiler;
  class Runner;
  Program();
  static std::shared_ptr<const Program> compile(const ir::Graph& g, std::span<const int64_t> symbols, bool normalized);
  static std::shared_ptr<const Program> for_op(ir::Op op, std::span<const ir::Meta* const> inputs,
                                               std::span<const int64_t> attrs);
  static std::shared_ptr<const Program> remembered(ir::Op op, std::span<const ir::Meta* const> inputs,
                                                   std::span<const int64_t> attrs);
  friend std::vector<Array> execute(ir::Op, std::span<const Array>, std::span<const int64_t>, DispatchKey,
                                    std::vector<BadIndex>*);

  std::vector<Step> steps_;
  std::vector<ir::ValueId> outputs_;
  size_t num_values_ = 0;
  std::unique_ptr<const Pieces> pieces_;  ///< null where the ops are not of that kind
};

/// Program::compile and run in one.
std::vector<Array> execute_graph(const ir::Graph& g, std::span<const Array> leaves,
                                 std::span<const uint64_t> parameters = {}, std::span<const int64_t> symbols = {},
                                 std::vector<BadIndex>* bad_indices = nullptr);

/// Leaves as a plan gets them, by base address: the strides and offsets are in the graph.
std::vector<Array> bind_leaves(const ir::Graph& g, std::span<void* const> addresses,
                               std::span<const int64_t> symbols = {});

}  // namespace smolder::eager
