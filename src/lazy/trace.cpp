#include "smolder/lazy/trace.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "smolder/ir/attr_words.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/infer.h"
#include "smolder/jit/graph/decompose.h"

namespace smolder::lazy {

void Trace::clear() {
  instrs.clear();
  operands.clear();
  attrs.clear();
  metas.clear();
  is_leaf.clear();
  prefix.clear();
}

void Trace::assign_prefix(const Trace& other, size_t n) {
  clear();
  if (n == 0) return;
  const Instr& last = other.instrs[n - 1];
  const uint32_t values = other.values_before(n);
  instrs.assign(other.instrs.begin(), other.instrs.begin() + n);
  operands.assign(other.operands.begin(), other.operands.begin() + last.first_input + last.num_inputs);
  attrs.assign(other.attrs.begin(), other.attrs.begin() + last.first_attr + last.num_attrs);
  metas.assign(other.metas.begin(), other.metas.begin() + values);
  is_leaf.assign(other.is_leaf.begin(), other.is_leaf.begin() + values);
  prefix.assign(other.prefix.begin(), other.prefix.begin() + n);
}

const Instr& Trace::maker_of(uint32_t value) const {
  return *std::prev(std::ranges::upper_bound(instrs, value, {}, &Instr::first_output));
}

bool same_prefix(const Trace& a, const Trace& b, size_t n) {
  if (a.instrs.size() < n || b.instrs.size() < n) return false;
  const uint32_t values = a.values_before(n);
  if (b.values_before(n) != values) return false;
  for (size_t i = 0; i < n; ++i) {
    const Instr &x = a.instrs[i], &y = b.instrs[i];
    if (x.op != y.op || x.first_output != y.first_output || x.num_outputs != y.num_outputs) return false;
    if (!std::ranges::equal(a.inputs_of(x), b.inputs_of(y)) || !std::ranges::equal(a.attrs_of(x), b.attrs_of(y)))
      return false;
  }
  return std::equal(a.metas.begin(), a.metas.begin() + values, b.metas.begin()) &&
         std::equal(a.is_leaf.begin(), a.is_leaf.begin() + values, b.is_leaf.begin());
}

namespace {

/// Walks a trace in the one order that symbols are numbered in: for each instruction the extents of
/// the leaves it introduces, then its attribute words.
template <class OnLeaf, class OnInstr>
void walk(const Trace& t, OnLeaf&& on_leaf, OnInstr&& on_instr) {
  for (size_t i = 0; i < t.instrs.size(); ++i) {
    for (uint32_t v = t.values_before(i); v < t.instrs[i].first_output; ++v) on_leaf(v);
    on_instr(t.instrs[i]);
  }
}

}  // namespace

std::vector<int64_t> symbol_values(const Trace& t) {
  std::vector<int64_t> out;
  walk(
      t, [&](uint32_t leaf) { out.insert(out.end(), t.metas[leaf]->shape.begin(), t.metas[leaf]->shape.end()); },
      [&](const Instr& e) {
        const auto words = t.attrs_of(e);
        ir::for_each_attr_word(ir::info(e.op), words, [&](size_t w, ir::WordRole role) {
          if (role != ir::kFixedWord) out.push_back(words[w] + (role == ir::kPositionWord ? ir::kAbovePosition : 0));
        });
      });
  return out;
}

std::string plan_structure(const Trace& t, std::span<const uint32_t> produced, const jit::CompileOptions& options) {
  std::string out;
  const auto put = [&](int64_t word) { out.append(reinterpret_cast<const char*>(&word), sizeof word); };
  const auto put_size = [&](int64_t size) { put(size <= 1 ? size : 2); };
  const Precision& p = options.precision;
  put(options.fuse * 2 + options.simplify);
  put(static_cast<int64_t>(p.float32_matmul) | p.allow_fp16_reduced_precision_reduction << 2 |
      p.allow_bf16_reduced_precision_reduction << 3 | p.cudnn_enabled << 4 | p.cudnn_allow_tf32 << 5 |
      p.cudnn_benchmark << 6 | p.cudnn_deterministic << 7);
  walk(
      t,
      [&](uint32_t leaf) {
        put(-1 - static_cast<int64_t>(t.metas[leaf]->dtype));
        put(t.metas[leaf]->shape.size());
        for (int64_t e : t.metas[leaf]->shape) put_size(e);
      },
      [&](const Instr& e) {
        put(static_cast<int64_t>(e.op) << 32 | e.num_inputs << 16 | e.num_attrs);
        for (OperandWord w : t.inputs_of(e)) put(w);
        const auto words = t.attrs_of(e);
        ir::for_each_attr_word(ir::info(e.op), words, [&](size_t w, ir::WordRole role) {
          if (role == ir::kPositionWord) return put(2);  // wherever it is
          role == ir::kSizeWord ? put_size(words[w]) : put(words[w]);
        });
      });
  put(-100);
  for (uint32_t v : produced) put(v);
  return out;
}

void check_lowering(DeviceType device, ir::Op op, std::span<const ir::Meta* const> operands,
                    std::span<const int64_t> attrs, std::span<const ir::Meta> results) {
  ir::Graph g;
  ir::Builder b(g);
  std::vector<ir::ValueId> inputs;
  std::string shapes;
  for (size_t i = 0; i < operands.size(); ++i) {
    const ir::Meta* const m = operands[i];
    const int number = static_cast<int>(i);
    inputs.push_back(!m        ? ir::kNone
                     : m->weak ? b.parameter(number, category(m->dtype)).id
                               : b.leaf(number, m->dtype, ir::SymDims(m->shape)).id);
    if (m && !m->weak) shapes += (shapes.empty() ? "" : ", ") + to_string(*m);
  }
  std::vector<ir::ValueInfo> infos;
  for (const ir::Meta& m : results) infos.push_back({ir::kNone, m.dtype, false, ir::SymDims(m.shape)});
  const ir::ValueId first = g.append(op, std::move(inputs), {attrs.begin(), attrs.end()}, infos);
  for (size_t i = 0; i < infos.size(); ++i) g.outputs.push_back(first + static_cast<ir::ValueId>(i));
  SMOLDER_CHECK(!jit::find_fallback(g, device), NotImplementedError, ir::name(op), " of ", shapes,
                " has no lowering and would run eagerly inside the step, which strict mode forbids");
}

}  // namespace smolder::lazy
