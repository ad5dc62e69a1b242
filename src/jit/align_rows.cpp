#include "smolder/jit/align_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "smolder/jit/lower.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::Op;
using ir::ValueId;

namespace {

constexpr int64_t kHalves = 8;     ///< in 16 bytes
constexpr int64_t kShortest = 64;  ///< row, so that it is an eighth longer at most

class AlignRows {
 public:
  explicit AlignRows(Program& p) : p_(p), g_(p.graph) {}

  void run() {
    for (const Group& group : p_.groups) {
      if (!is_product(group)) continue;
      for (const ValueId v : operands(group)) {
        if (const ValueId matrix = in_memory(v); wants_room(matrix)) give_room(matrix);
      }
    }
  }

 private:
  bool is_product(const Group& group) const {
    return group.kind == Group::kLibrary && g_.nodes[group.node].op == Op::kDot;
  }

  std::vector<ValueId> operands(const Group& group) const {
    std::vector<ValueId> all = group.sinks;
    for (const ValueId v : g_.nodes[group.node].inputs) {
      if (v != ir::kNone && !is_number(g_, v)) all.push_back(v);
    }
    return all;
  }

  ValueId in_memory(ValueId v) const {
    while (p_.buffer_of[v] < 0 && is_movement(g_.op(v))) v = g_.producer(v).inputs[0];
    return v;
  }

  bool wants_room(ValueId v) const {
    if (p_.buffer_of[v] < 0) return false;
    const BufferInfo& info = p_.buffers[p_.buffer_of[v]];
    if (info.kind != BufferInfo::kArena || !info.contiguous || !is_half(info.dtype) || info.shape.size() < 2)
      return false;
    const int64_t length = info.shape[info.shape.size() - 1].value;
    return length >= kShortest && length % kHalves != 0 && g_.op(v) != Op::kReduce;
  }

  void give_room(ValueId v) {
    BufferInfo& info = p_.buffers[p_.buffer_of[v]];
    const BufferInfo before = info;
    ir::SymTable& sym = g_.sym;
    const int last = info.shape.size() - 1;
    ir::Dim stride = distance(info.shape[last]);
    for (int i = last - 1; i >= 0; --i) {
      info.strides[i] = stride;
      stride = sym.mul(stride, info.shape[i]);
    }
    info.elements = stride;
    info.contiguous = false;
    if (!std::ranges::all_of(p_.groups, [&](const Group& group) { return takes_rows_apart(group, v); })) info = before;
  }

  /// From one row to the next. One expression for equal lengths, so that a result may take its operand's place.
  ir::Dim distance(ir::Dim length) {
    ir::SymTable& sym = g_.sym;
    for (const auto& [known, its] : distances_) {
      if (known.value == length.value && sym.equal(known, length)) return its;
    }
    distances_.push_back({length, sym.mul(sym.ceil_div(length, kHalves), kHalves)});
    return distances_.back().second;
  }

  /// Whether strides still say what a call reads or writes of the matrix, and it is one that goes by them.
  bool takes_rows_apart(const Group& group, ValueId matrix) {
    if (group.kind == Group::kKernel) return true;
    return std::ranges::all_of(operands(group), [&](ValueId v) {
      return in_memory(v) != matrix || (is_product(group) && view_in_memory(p_, v));
    });
  }

  Program& p_;
  ir::Graph& g_;
  std::vector<std::pair<ir::Dim, ir::Dim>> distances_;  ///< by length
};

}  // namespace

void align_rows(Program& program) { AlignRows(program).run(); }

}  // namespace smolder::jit
