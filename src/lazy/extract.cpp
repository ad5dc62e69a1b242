#include "smolder/lazy/extract.h"

#include <utility>

#include "smolder/ir/attr_words.h"
#include "smolder/ir/builder.h"

namespace smolder::lazy {

std::vector<ir::Dim> extract_attrs(ir::Op op, std::span<const int64_t> words,
                                   const std::function<ir::Dim(int64_t)>& size,
                                   const std::function<ir::Dim(int64_t)>& position) {
  std::vector<ir::Dim> out(words.begin(), words.end());
  ir::for_each_attr_word(ir::info(op), words, [&](size_t w, ir::WordRole role) {
    if (role != ir::kFixedWord) out[w] = role == ir::kSizeWord ? size(words[w]) : position(words[w]);
  });
  return out;
}

ir::ValueId leaf_of(ir::Builder& b, int number, DType dtype, ir::SymDims shape) {
  if (is_complex(dtype)) shape.push_back(2);
  return b.leaf(number, part_type(dtype), shape).id;
}

std::vector<ir::ValueId> extract(const Trace& t, ir::Graph& g, const Extraction& how) {
  std::vector<ir::ValueId> now(t.metas.size(), ir::kNone);
  size_t place = 0;
  for (size_t i = 0; i < t.instrs.size(); ++i) {
    const Instr& e = t.instrs[i];
    for (uint32_t v = t.values_before(i); v < e.first_output; ++v) now[v] = how.leaf(v);
    const bool needed = how.needed.empty() || how.needed[i];
    std::vector<ir::ValueId> inputs;
    for (const OperandWord w : t.inputs_of(e)) {
      const size_t number = place;
      place += w != kNoOperand && is_number(w);
      if (!needed) continue;
      inputs.push_back(w == kNoOperand ? ir::kNone
                       : is_number(w)  ? how.number(number, static_cast<Category>(w & ~kNumberBit))
                                       : now[w]);
    }
    if (!needed) continue;
    if (e.op == ir::Op::kViewAsReal || e.op == ir::Op::kViewAsComplex) {  // pairs both, in graphs
      now[e.first_output] = inputs[0];
      continue;
    }
    std::vector<ir::ValueInfo> results;
    for (uint32_t k = 0; k < e.num_outputs; ++k) {
      const ir::Meta& m = *t.metas[e.first_output + k];
      results.push_back({ir::kNone, m.dtype, false, ir::SymDims(m.shape)});
    }
    const ir::ValueId first = g.append(
        e.op, std::move(inputs), extract_attrs(e.op, t.attrs_of(e), how.size, how.position), results, how.origin(e));
    for (uint32_t k = 0; k < e.num_outputs; ++k) now[e.first_output + k] = first + k;
  }
  return now;
}

ir::Graph to_graph(const Trace& t, std::span<const uint32_t> produced, bool constant_sizes) {
  ir::Graph g;
  ir::Builder b(g);
  const auto size = [&](int64_t value) { return constant_sizes ? ir::Dim(value) : g.sym.symbol(value); };
  const auto position = [&](int64_t value) {
    return constant_sizes ? ir::Dim(value) : g.sym.sub(g.sym.symbol(value + ir::kAbovePosition), ir::kAbovePosition);
  };
  int leaves = 0;
  const auto leaf = [&](uint32_t value) {
    const ir::Meta& meta = *t.metas[value];
    ir::SymDims shape;
    for (const int64_t e : meta.shape) shape.push_back(size(e));
    return leaf_of(b, leaves++, meta.dtype, shape);
  };
  const auto number = [&](size_t place, Category c) { return b.parameter(static_cast<int>(place), c).id; };
  const std::vector<ir::ValueId> now =
      extract(t, g, {.leaf = leaf, .number = number, .size = size, .position = position});
  for (const uint32_t v : produced) g.outputs.push_back(now[v]);
  return g;
}

std::vector<bool> needed_instructions(const Trace& t, std::span<const uint32_t> values) {
  std::vector<bool> wanted(t.metas.size()), needed(t.instrs.size());
  for (const uint32_t v : values) wanted[v] = true;
  for (size_t i = t.instrs.size(); i-- > 0;) {
    const Instr& e = t.instrs[i];
    for (uint32_t k = 0; k < e.num_outputs; ++k) needed[i] = needed[i] || wanted[e.first_output + k];
    if (!needed[i]) continue;
    for (const OperandWord w : t.inputs_of(e)) {
      if (w != kNoOperand && is_value(w)) wanted[w] = true;
    }
  }
  return needed;
}

}  // namespace smolder::lazy
