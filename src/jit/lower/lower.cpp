#include "smolder/jit/lower/lower.h"

#include <algorithm>

#include "smolder/core/counters.h"
#include "smolder/jit/attributes.h"
#include "smolder/jit/fuse/fuse.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/library/waits.h"
#include "smolder/jit/lower/align_rows.h"
#include "smolder/jit/lower/join_bias.h"
#include "smolder/jit/lower/lowering.h"
#include "smolder/jit/lower/memory_view.h"
#include "smolder/jit/lower/user_lowering.h"
#include "smolder/jit/switches.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::Op;
using ir::ValueId;

namespace {

int64_t statements_in(const std::vector<Stmt>& body) {
  int64_t n = static_cast<int64_t>(body.size());
  for (const Stmt& s : body) n += statements_in(s.body);
  return n;
}

class Lower {
 public:
  explicit Lower(Program& p) : p_(p), g_(p.graph), sym_(p.graph.sym) {}

  void run() {
    p_.buffers.clear();
    p_.steps.clear();
    p_.buffer_of.assign(g_.values.size(), -1);
    for (const ir::Node& n : g_.nodes) {
      if (n.op == Op::kLeaf) add_leaf(n);
    }
    for (const Group& group : p_.groups) {
      for (const ValueId v : group.sinks) add_buffer(v);
    }
    bind_outputs();
    if (p_.options.device == DeviceType::kCUDA && !is_disabled("align_rows")) align_rows(p_);
    LoweringScratch scratch;
    for (const ir::Guard& guard : g_.sym.guards()) {
      if (guard.kind != ir::GuardKind::kEqual || guard.a.is_constant() == guard.b.is_constant()) continue;
      scratch.numbers.push_back(guard.a.is_constant() ? guard.b : guard.a);
    }
    for (GroupId id = 0; id < static_cast<GroupId>(p_.groups.size()); ++id) {
      if (is_empty(p_.groups[id])) continue;
      Step step;
      step.group = id;
      if (p_.groups[id].kind == Group::kKernel) {
        step.kernel = lower_group(p_, scratch, id);
        step.kernel->kernel.name = name_of(p_.groups[id]);
        for (size_t i = 0; i < step.kernel->buffers.size(); ++i) {
          if (step.kernel->buffers[i] < 0) continue;
          const BufferArg& arg = step.kernel->kernel.buffers[i];
          (arg.write ? step.writes : step.reads).push_back(step.kernel->buffers[i]);
        }
      } else {
        step.library = library_call(p_.groups[id]);
        for (const auto& x : step.library->inputs) {
          if (x.buffer >= 0) step.reads.push_back(x.buffer);
        }
        for (const auto& x : step.library->outputs) step.writes.push_back(x.buffer);
        if (const LoopLowering* const written = find_lowering(step.library->op)) {
          step.kernel = lower_call(p_, *step.library, *written);
          step.kernel->kernel.name = step.library->site.op;
          step.library.reset();
        }
      }
      p_.steps.push_back(std::move(step));
    }
    if (p_.options.fuse && !is_disabled("join_bias")) join_bias(p_);
    join_updates();
    count_statements();
  }

 private:
  void count_statements() const {
    static Counter& all = counter("compile.statements");
    static Counter& largest = counter("compile.largest_kernel");
    for (const Step& step : p_.steps) {
      if (!step.kernel) continue;
      const int64_t n = statements_in(step.kernel->kernel.root.body);
      all.add(n);
      if (n > largest.value()) largest.set(n);
    }
  }

  /// Nothing is written where there are no elements. (That they are none is structure: see SymTable::symbol.)
  bool is_empty(const Group& group) {
    return std::all_of(group.sinks.begin(), group.sinks.end(), [&](ValueId v) {
      const ir::Dim n = p_.buffers[p_.buffer_of[v]].elements;
      return n.value == 0 && sym_.equal(n, 0);
    });
  }

  /// The user's ops whose primitives the kernel computes, in program order: "linear_gelu".
  std::string name_of(const Group& group) {
    constexpr size_t kLongest = 60;
    std::vector<Op> ops;
    for (const ir::NodeId id : nodes_of(p_, group.sinks)) {
      const Op op = g_.nodes[id].origin_op();
      if (std::ranges::find(ops, op) == ops.end()) ops.push_back(op);
    }
    std::string name;
    for (const Op op : ops) {
      if (name.size() + ir::name(op).size() > kLongest) return name + "_and_more";
      name += (name.empty() ? "" : "_") + std::string(ir::name(op));
    }
    return name;
  }

  BufferId append(BufferInfo info) {
    info.elements = sym_.numel(info.shape);
    p_.buffer_of[info.value] = static_cast<BufferId>(p_.buffers.size());
    p_.buffers.push_back(info);
    return p_.buffer_of[p_.buffers.back().value];
  }

  void add_leaf(const ir::Node& n) {
    const LeafAttributes a(n);
    BufferInfo info;
    info.kind = BufferInfo::kLeaf;
    info.number = a.number;
    info.value = n.first_output;
    info.dtype = g_.dtype(n.first_output);
    info.shape = g_.shape(n.first_output);
    info.strides = a.strides;
    info.offset = a.offset;
    info.contiguous = is_contiguous(sym_, {n.first_output, info.shape, info.strides, 0});
    append(info);
  }

  void add_buffer(ValueId v) {
    BufferInfo info;
    info.value = v;
    info.dtype = g_.dtype(v);
    info.shape = g_.shape(v);
    info.strides = sym_.contiguous_strides(info.shape);
    append(info);
  }

  void bind_outputs() {
    p_.outputs.clear();
    p_.output_buffers.clear();
    for (const ValueId v : g_.outputs) {
      OutputInfo out;
      out.dtype = g_.dtype(v);
      out.shape = g_.shape(v);
      const BufferId id = p_.buffer_of[storage_root(p_, v)];
      SMOLDER_INVARIANT(id >= 0);
      BufferInfo& info = p_.buffers[id];
      if (info.kind == BufferInfo::kLeaf) {
        SMOLDER_INVARIANT(info.contiguous && info.offset == ir::Dim(0));
        out.same_as_leaf = info.number;
      } else if (info.kind == BufferInfo::kOutput) {
        out.same_as_output = info.number;
      } else {
        info.kind = BufferInfo::kOutput;
        info.number = static_cast<int>(p_.outputs.size());
      }
      p_.output_buffers.push_back(out.same_as_leaf >= 0 || out.same_as_output >= 0 ? -1 : id);
      p_.outputs.push_back(out);
    }
  }

  std::unique_ptr<LibraryCall> library_call(const Group& group) {
    const ir::Node& n = g_.nodes[group.node];
    auto call = std::make_unique<LibraryCall>();
    call->op = n.op;
    call_name_ = ir::name(n.op);
    call->attrs = n.attrs;
    call->site = {n.origin.source, std::string(ir::name(n.origin_op()))};
    for (const ValueId v : n.inputs) call->inputs.push_back(operand(v));
    for (const ValueId v : group.sinks) call->outputs.push_back(operand(v));
    if (ir::info(n.op).flags.updates || is_in_place_on_device(n.op)) find_in_place(*call, n.inputs[0]);
    return call;
  }

  /// The operand's memory may be the result's when the operand is all of it, in order, and no other operand is of it.
  void find_in_place(LibraryCall& call, ValueId updated) {
    const LibraryCall::Operand &x = call.inputs[0], &out = call.outputs[0];
    const BufferInfo& memory = p_.buffers[x.buffer];
    if (p_.buffer_of[storage_root(p_, updated)] != x.buffer || !memory.contiguous || memory.offset != ir::Dim(0))
      return;
    if (!sym_.equal(memory.elements, p_.buffers[out.buffer].elements)) return;
    for (size_t i = 1; i < call.inputs.size(); ++i) {
      if (call.inputs[i].buffer == x.buffer) return;
    }
    call.in_place.push_back({x.buffer, out.buffer});
  }

  /// Makes an intermediate and what updates it one buffer, where nothing reads it as it was after that.
  void join_updates() {
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      if (!p_.steps[s].library || p_.steps[s].library->in_place.empty()) continue;
      const auto [from, to] = p_.steps[s].library->in_place[0];
      if (p_.buffers[from].kind != BufferInfo::kArena) continue;
      const bool read_later =
          std::any_of(p_.steps.begin() + static_cast<ptrdiff_t>(s) + 1, p_.steps.end(),
                      [&](Step& t) { return std::find(t.reads.begin(), t.reads.end(), from) != t.reads.end(); });
      if (!read_later) rename(from, to);
    }
  }

  void rename(BufferId from, BufferId to) {
    const auto replace = [&](BufferId& b) { b = b == from ? to : b; };
    for (Step& step : p_.steps) {
      std::ranges::for_each(step.reads, replace);
      std::ranges::for_each(step.writes, replace);
      if (step.kernel) std::ranges::for_each(step.kernel->buffers, replace);
      for (InPlace& pair : step.kernel ? step.kernel->in_place : step.library->in_place) {
        replace(pair.read);
        replace(pair.written);
      }
      if (!step.library) continue;
      for (auto* list : {&step.library->inputs, &step.library->outputs}) {
        for (LibraryCall::Operand& x : *list) replace(x.buffer);
      }
    }
    std::ranges::for_each(p_.buffer_of, replace);
  }

  LibraryCall::Operand operand(ValueId v) {
    LibraryCall::Operand x;
    if (v == ir::kNone) {
      x.kind = LibraryCall::Operand::kAbsent;
      return x;
    }
    x.dtype = g_.dtype(v);
    if (g_.info(v).weak && p_.buffer_of[v] < 0) return number_operand(v, x);
    const std::optional<StridedView> view = view_in_memory(p_, v);
    SMOLDER_INVARIANT(view.has_value());
    x.buffer = p_.buffer_of[view->root];
    x.shape = view->shape;
    x.strides = view->strides;
    x.offset = view->offset;
    return x;
  }

  LibraryCall::Operand number_operand(ValueId v, LibraryCall::Operand x) {
    const ir::Node& n = g_.producer(v);
    x.kind = n.op == Op::kParameter ? LibraryCall::Operand::kParameter : LibraryCall::Operand::kNumber;
    if (n.op == Op::kParameter) {
      x.parameter = ParameterAttributes(n).number;
    } else if (n.op == Op::kExtent) {
      x.is_extent = true;
      x.offset = n.attrs[0];
    } else {
      SMOLDER_CHECK(n.op == Op::kConstant, NotImplementedError, "op '", call_name_,
                    "' runs as a library call, which can't take a number that is computed in the step");
      x.number = constant_of(n);
    }
    return x;
  }

  Program& p_;
  const ir::Graph& g_;
  ir::SymTable& sym_;
  std::string_view call_name_;
};

}  // namespace

void lower(Program& program) {
  for (;;) {
    try {
      return Lower(program).run();
    } catch (const CannotInline& refused) {
      // Fusion judges by kinds of edges; what it misjudged is kept apart from here on.
      SMOLDER_INVARIANT(program.keep_apart.size() < program.graph.values.size());
      program.keep_apart.push_back(refused.value);
      program.refusals.clear();
      fuse(program);
    }
  }
}

}  // namespace smolder::jit
