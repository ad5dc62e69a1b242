// Graphs made by hand and run in every way there is, for tests of the compiler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "smolder/ir/builder.h"
#include "smolder/ir/value_ops.h"
#include "smolder/jit/fuse/recompute.h"
#include "smolder/jit/plan.h"

namespace smolder::jit {

/// While it lives, values of what is compiled are recomputed within these limits.
class Recomputing {
 public:
  explicit Recomputing(RecomputeLimits limits);
  ~Recomputing();
  Recomputing(const Recomputing&) = delete;
  int graphs = 0;  ///< that were changed
};

/// A graph, with the numbers that make it run.
class PlanTest {
 public:
  PlanTest() : b(g) {}
  PlanTest(const PlanTest&) = delete;

  ir::Graph g;
  ir::Builder b;

  /// A symbolic size with this value in the sample.
  ir::Dim size(int64_t sample);
  /// An input of random numbers in [low, high).
  ir::Value input(ir::SymDims shape, DType dtype = DType::kFloat32, double low = -2, double high = 2);
  /// The same, in memory with these strides.
  ir::Value strided_input(ir::SymDims shape, ir::SymDims strides, ir::Dim offset, int64_t storage_elements);
  /// A run-time number.
  ir::Value number(Scalar v);
  void output(ir::Value v) { g.outputs.push_back(v.id); }

  /// Values for the symbols, in the order of `size` calls; by default the sample's.
  std::vector<int64_t> symbols;

  struct Result {
    std::vector<std::vector<uint8_t>> outputs;
    std::vector<IndexReport> reports;
  };
  /// Compiles and runs with fresh data for these sizes.
  Result run(const CompileOptions& options = {});
  Result run(const Plan& plan);
  /// Also checks that every kernel keeps the rules of loop IR, is canonical, and reads the rows that it keeps.
  std::shared_ptr<const Plan> compile(const CompileOptions& options = {});

  /// Runs fused, one kernel a primitive, and eagerly, and expects equal bits; compares with the reference interpreter
  /// within `tolerance`, relative to the largest element. Then the same at other sizes with the same plan, for each of
  /// `others`, and expects that nothing was compiled for them.
  void check(double tolerance = 1e-5, const std::vector<std::vector<int64_t>>& others = {});

  /// As `check`, without the reference. Sizes that the plan does not accept are left out.
  void check_bits(const std::vector<std::vector<int64_t>>& others);

  /// Kernels and library calls of the fused plan.
  struct Count {
    int launches = 0, kernels = 0, distinct = 0, library = 0;
  };
  Count count(const CompileOptions& options = {});

 private:
  struct Leaf {
    DType dtype;
    ir::SymDims shape, strides;
    ir::Dim offset;
    int64_t storage = -1;
    double low, high;
  };
  int64_t value(ir::Dim d, const std::vector<int64_t>& evaluated) const;
  std::vector<int64_t> evaluated() const;
  void compare_with_eager(const Result& result);
  void compare_with_reference(const Result& result, double tolerance);

  std::vector<Leaf> leaves_;
  std::vector<uint64_t> parameters_;
  std::vector<std::vector<uint8_t>> data_;  ///< of the leaves, as last made
  void make_data();
};

}  // namespace smolder::jit
