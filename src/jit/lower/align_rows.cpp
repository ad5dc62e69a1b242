#include "smolder/jit/lower/align_rows.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "smolder/ir/rewrite.h"
#include "smolder/jit/attributes.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/lower/memory_view.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::Op;
using ir::ValueId;

namespace {

constexpr int64_t kHalves = 8;     ///< in 16 bytes
constexpr int64_t kShortest = 64;  ///< row, so that it is an eighth longer at most

bool is_odd(DType dtype, const ir::SymDims& shape) {
  if (!is_half(dtype) || shape.size() < 2) return false;
  const int64_t length = shape[shape.size() - 1].value;
  return length >= kShortest && length % kHalves != 0;
}

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
    return info.kind == BufferInfo::kArena && info.contiguous && is_odd(info.dtype, info.shape) &&
           g_.op(v) != Op::kReduce;
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

/// Finds the outputs that large products have to do with, and builds the graph anew with copies of them.
class CopyOutputs {
 public:
  explicit CopyOutputs(ir::Graph& g) : g_(g), is_copied_(g.values.size()) {}

  void run() {
    if (std::ranges::none_of(g_.outputs, [&](ValueId v) { return is_odd(g_.dtype(v), g_.shape(v)); })) return;
    for (const ir::Node& n : g_.nodes) {
      if (n.op == Op::kDot) look_at(n);
    }
    for (const ir::Node& n : g_.nodes) {
      if (n.op == Op::kDot || !is_library(n.op)) continue;
      for (const ValueId v : n.inputs) {
        if (v != ir::kNone) is_copied_[moved_from(v)] = false;
      }
    }
    if (std::ranges::find(is_copied_, true) != is_copied_.end()) rebuild();
  }

 private:
  /// Where fewer multiplications are made, an element of the matrix or in all, a copy would take as long as they do.
  static constexpr double kFew = 128, kSmall = 1 << 30;

  ValueId moved_from(ValueId v) const {
    while (is_movement(g_.op(v))) v = g_.producer(v).inputs[0];
    return v;
  }
  ValueId renamed(ValueId v) const {
    while (is_alias(g_.op(v))) v = g_.producer(v).inputs[0];
    return v;
  }
  double elements(ValueId v) const { return static_cast<double>(numel(g_.shape(v).values())); }

  void look_at(const ir::Node& n) {
    const ir::SymDims& left = g_.shape(n.inputs[0]);
    const double multiplications = elements(n.first_output) * static_cast<double>(left[left.size() - 1].value);
    if (multiplications < kSmall) return;
    const std::array<ValueId, 3> all{moved_from(n.inputs[0]), moved_from(n.inputs[1]), n.first_output};
    if (std::ranges::any_of(all, [&](ValueId v) { return g_.op(v) == Op::kLeaf && !begins_apart(v); })) return;
    for (const ValueId v : all) {
      if (is_odd(g_.dtype(v), g_.shape(v)) && is_output(v) && multiplications >= kFew * elements(v))
        is_copied_[v] = true;
    }
  }

  /// Whether products may load the rows of a leaf 16 bytes at a time, so that room behind others is of use.
  bool begins_apart(ValueId v) const {
    const LeafAttributes a(g_.producer(v));
    return std::ranges::all_of(a.strides, [](const ir::Dim& d) { return d.value == 1 || d.value % kHalves == 0; });
  }

  bool is_output(ValueId v) const {
    const Op op = g_.op(v);
    return op != Op::kLeaf && op != Op::kReduce &&
           std::ranges::any_of(g_.outputs, [&](ValueId out) { return renamed(out) == v; });
  }

  /// A copy comes right behind what it is made of, which goes on in less memory the sooner.
  void rebuild() {
    ir::Rewriter rewriter(g_);
    ir::Graph& to = rewriter.to();
    std::vector<ValueId> copies(g_.values.size(), ir::kNone), outputs;
    ir::rewrite_nodes(rewriter, [&](ir::Rewriter& r, const ir::Node& n) {
      r.copy(n);
      for (ValueId v = n.first_output; v < n.first_output + n.num_outputs; ++v) {
        if (is_copied_[v]) copies[v] = append_shaped(to, Op::kExpand, r.now(v), g_.info(v), {n.origin.source, {}});
      }
      return true;
    });
    for (const ValueId v : g_.outputs) {
      const ValueId root = renamed(v);
      if (!is_copied_[root]) {
        outputs.push_back(rewriter.now(v));
      } else if (root == v) {
        outputs.push_back(copies[root]);
      } else {
        outputs.push_back(append_shaped(to, Op::kReshape, copies[root], g_.info(v), g_.producer(v).origin));
      }
    }
    g_ = rewriter.finish(std::move(outputs));
  }

  ir::Graph& g_;
  std::vector<bool> is_copied_;  ///< by value
};

}  // namespace

void copy_odd_outputs(Program& program) { CopyOutputs(program.graph).run(); }

void align_rows(Program& program) { AlignRows(program).run(); }

}  // namespace smolder::jit
