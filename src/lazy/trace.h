// Traces: recorded steps, immutable once registered, and what was learned about running them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "smolder/core/hash.h"
#include "smolder/core/source_line.h"
#include "smolder/ir/op.h"
#include "smolder/jit/plan.h"

namespace smolder::lazy {

/// One recorded op: 24 bytes. Operand and attribute words live in the trace's pools.
struct Instr {
  ir::Op op;
  uint16_t num_inputs;
  uint16_t num_attrs;
  uint8_t num_outputs;
  uint8_t modes;  ///< when it was first recorded: see recording_modes(); not part of any key
  uint32_t first_input;
  uint32_t first_attr;
  uint32_t first_output;  ///< value number of its first result; leaves first seen here come just before
  SourceToken source;     ///< of the first recording; not part of any key
};
static_assert(sizeof(Instr) == 24);

/// An operand word: a value number, a run-time number with its category, or nothing.
using OperandWord = uint32_t;
inline constexpr OperandWord kNoOperand = ~0u;
inline constexpr OperandWord kNumberBit = 1u << 31;
constexpr OperandWord number_word(Category c) { return kNumberBit | static_cast<uint32_t>(c); }
constexpr bool is_number(OperandWord w) { return w != kNoOperand && (w & kNumberBit); }
constexpr bool is_value(OperandWord w) { return !(w & kNumberBit); }

/// A plan that ran a trace, and the sets of live values it was found to cover.
struct PlanEntry {
  bool constant_sizes = false;             ///< see jit::RunMode
  std::vector<uint32_t> produced;          ///< value numbers, in the plan's output order
  std::vector<uint64_t> accepted_digests;  ///< of live sets covered by `produced`
  std::shared_ptr<const jit::Plan> plan;
  std::shared_ptr<const jit::Instance> instance;
  bool used_once = false;  ///< a step waited for it, and none has used it since
};

class PlanJob;

/// A plan that is compiled behind a trace, and the sets of live values that it will cover.
struct AwaitedPlan {
  bool constant_sizes = false;
  uint64_t digest = 0;  ///< of the live set
  std::shared_ptr<PlanJob> job;
};

/// A recorded step. Leaves and results share one numbering, in order of first appearance. Compiled functions keep
/// theirs.
struct Trace : std::enable_shared_from_this<Trace> {
  std::vector<Instr> instrs;
  std::vector<OperandWord> operands;
  std::vector<int64_t> attrs;
  std::vector<const ir::Meta*> metas;  ///< by value number
  std::vector<uint8_t> is_leaf;        ///< by value number
  std::vector<Hash128> prefix;         ///< rolling hash after each instruction

  // Known only for registered traces; written under the tape's lock.
  bool forgotten = false;  ///< the tape knows it no more
  Trace* next = nullptr;   ///< what followed it last time, among those that are known
  std::vector<PlanEntry> plans;
  std::vector<AwaitedPlan> awaited;
  const char* dropped = nullptr;  ///< why plans are no more that it had; null once it has others
  int64_t runs = 0;

  /// The tape forgets it.
  void leave() {
    forgotten = true;
    next = nullptr;
  }
  /// Value number that the first leaf or result of instruction `i` gets.
  uint32_t values_before(size_t i) const { return i == 0 ? 0 : instrs[i - 1].first_output + instrs[i - 1].num_outputs; }
  /// The instruction that has `value` as a result.
  const Instr& maker_of(uint32_t value) const;
  std::span<const OperandWord> inputs_of(const Instr& e) const {
    return {operands.data() + e.first_input, e.num_inputs};
  }
  std::span<const int64_t> attrs_of(const Instr& e) const { return {attrs.data() + e.first_attr, e.num_attrs}; }
  void clear();
  /// Makes this the first `n` instructions of `other`.
  void assign_prefix(const Trace& other, size_t n);
};

/// Do the first `n` instructions agree in everything but source lines? What makes a hash hit certain.
bool same_prefix(const Trace& a, const Trace& b, size_t n);

/// Every integer that a plan treats as a symbol, in the order of `to_graph`'s symbols.
std::vector<int64_t> symbol_values(const Trace& t);
/// Canonical bytes of a trace with every size above 1 replaced by "a size" and every position by "a position": equal
/// bytes mean that a plan of one may be tried for the other.
std::string plan_structure(const Trace& t, std::span<const uint32_t> produced, const jit::CompileOptions& options);

/// Throws NotImplementedError when `op` on such operands is not all compiled on the device: what strict mode asks of
/// each op. A null operand is absent.
void check_lowering(DeviceType device, ir::Op op, std::span<const ir::Meta* const> operands,
                    std::span<const int64_t> attrs, std::span<const ir::Meta> results);

}  // namespace smolder::lazy
