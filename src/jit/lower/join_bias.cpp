#include "smolder/jit/lower/join_bias.h"

#include <algorithm>
#include <optional>

#include "smolder/jit/lower/memory_view.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::Op;
using ir::ValueId;

namespace {

/// The whole work of a kernel: sums + bias, or relu of it. No bias: the product that it is made of has one.
struct Epilogue {
  ValueId sums, bias, out;
  bool relu;
};

std::optional<Epilogue> epilogue_of(const Program& p, const Group& group) {
  const ir::Graph& g = p.graph;
  if (group.kind != Group::kKernel || group.sinks.size() != 1) return std::nullopt;
  const ValueId out = group.sinks[0];
  const bool relu = g.op(out) == Op::kRelu;
  const ValueId sum = relu ? g.producer(out).inputs[0] : out;
  if (relu) {
    const ValueId product = storage_root(p, sum);
    if (g.op(product) == Op::kDot && g.producer(product).inputs[2] != ir::kNone) {
      return Epilogue{product, ir::kNone, out, relu};
    }
  }
  if (g.op(sum) != Op::kAdd || (relu && p.buffer_of[sum] >= 0)) return std::nullopt;
  const auto& terms = g.producer(sum).inputs;
  for (const int side : {0, 1}) {
    if (g.op(terms[side]) != Op::kDot || g.producer(terms[side]).inputs[2] != ir::kNone) continue;
    return Epilogue{terms[side], terms[1 - side], out, relu};
  }
  return std::nullopt;
}

/// A row that is the same for all: strides are 0 but along the last axis. As an operand of one axis.
std::optional<LibraryCall::Operand> row_of(Program& p, ValueId v) {
  if (p.graph.info(v).weak) return std::nullopt;
  const std::optional<StridedView> view = view_in_memory(p, v);
  const int last = view ? view->strides.size() - 1 : -1;
  if (last < 0 || view->strides[last] != ir::Dim(1)) return std::nullopt;
  for (int i = 0; i < last; ++i) {
    if (view->strides[i] != ir::Dim(0)) return std::nullopt;
  }
  LibraryCall::Operand row;
  row.buffer = p.buffer_of[view->root];
  row.dtype = p.graph.dtype(v);
  row.shape.push_back(view->shape[last]);
  row.strides.push_back(ir::Dim(1));
  row.offset = view->offset;
  return row;
}

/// Whether a product may write its sums where the other lies: densely, or as they do (align_rows.h).
bool may_write(const BufferInfo& sums, const BufferInfo& out) {
  const auto distance = [](const BufferInfo& x) { return x.strides[x.strides.size() - 2]; };
  return out.contiguous || (!sums.contiguous && distance(sums) == distance(out));
}

/// The step of the product, if nothing else reads its sums and it may go on with them: halves to which a bias is added
/// would be rounded less often.
std::optional<size_t> product_before(const Program& p, size_t step, const Epilogue& e) {
  const BufferId sums = p.buffer_of[e.sums];
  const DType t = p.graph.dtype(e.sums);
  const BufferInfo &memory = p.buffers[sums], &out = p.buffers[p.buffer_of[e.out]];
  if (memory.kind != BufferInfo::kArena || !may_write(memory, out) || !is_floating(t)) return std::nullopt;
  if (p.graph.dtype(e.out) != t) return std::nullopt;
  if (e.bias != ir::kNone && (is_half(t) || p.graph.dtype(e.bias) != t)) return std::nullopt;
  std::optional<size_t> found;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    if (i != step && std::ranges::find(s.reads, sums) != s.reads.end()) return std::nullopt;
    if (i < step && s.library && s.library->op == Op::kDot && s.library->outputs[0].buffer == sums) found = i;
  }
  if (found && p.steps[*found].library->inputs[0].dtype != t) return std::nullopt;
  return found;
}

}  // namespace

void join_bias(Program& p) {
  for (size_t s = 0; s < p.steps.size(); ++s) {
    if (!p.steps[s].kernel) continue;
    const std::optional<Epilogue> e = epilogue_of(p, p.groups[p.steps[s].group]);
    if (!e || (e->bias != ir::kNone && p.options.device != DeviceType::kCPU)) continue;
    const std::optional<size_t> product = product_before(p, s, *e);
    if (!product) continue;
    std::optional<LibraryCall::Operand> row;
    if (e->bias != ir::kNone && !(row = row_of(p, e->bias))) continue;
    if (!row && p.steps[*product].library->inputs[2].strides[0] != ir::Dim(1)) continue;

    Step joined = std::move(p.steps[*product]);
    joined.group = p.steps[s].group;
    if (row) {
      joined.library->inputs[2] = *row;
      joined.reads.push_back(row->buffer);
    }
    LibraryCall::Operand& result = joined.library->outputs[0];
    result.buffer = p.buffer_of[e->out];
    if (p.buffers[result.buffer].contiguous) result.strides = p.graph.sym.contiguous_strides(result.shape);
    joined.library->attrs.emplace_back(e->relu);
    joined.writes = {p.buffer_of[e->out]};
    p.steps[s] = std::move(joined);
    p.steps.erase(p.steps.begin() + static_cast<ptrdiff_t>(*product));
    --s;
  }
}

}  // namespace smolder::jit
