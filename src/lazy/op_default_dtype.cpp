#include "smolder/ir/attr_words.h"
#include "smolder/lazy/default_dtype.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"

namespace smolder::lazy {

std::atomic<DType> g_default_dtype = DType::kFloat32;

void set_default_dtype(DType t) {
  SMOLDER_CHECK(is_floating(t), TypeError, "only floating-point types are supported as the default type");
  g_default_dtype = t;
}

namespace {

/// Whether the caller said which dtype the result has.
bool says_dtype(ir::Op op, std::span<const int64_t> attrs) {
  bool found = false;
  ir::for_each_attr(ir::info(op), attrs, [&](const ir::AttrInfo& a, size_t first, size_t) {
    found |= a.kind == ir::AttrKind::kDType || (a.kind == ir::AttrKind::kOptionalDType && attrs[first]);
  });
  return found;
}

/// Whether the op makes float32 of these, none of which is a float but Python's numbers.
bool makes_default(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs) {
  std::vector<const ir::Meta*> inputs;
  for (const Operand& o : operands) inputs.push_back(o.meta());
  std::vector<ir::Meta> results(ir::info(op).num_outputs);
  ir::info(op).infer({inputs, attrs}, results.data());
  return results[0].dtype == DType::kFloat32 && !results[0].weak;
}

}  // namespace

std::vector<Operand> in_default_dtype(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs,
                                      std::vector<Tensor>& kept) {
  bool complex = false, integers = false;
  for (const Operand& o : operands) {
    if (o.kind() != Operand::kTensor) continue;
    const ir::Meta& m = *o.meta();
    if (is_floating(m.dtype) || (is_complex(m.dtype) && !m.weak)) return {};
    complex |= is_complex(m.dtype);
    integers |= !is_complex(m.dtype);
  }
  if (!integers || says_dtype(op, attrs)) return {};
  if (complex ? !ir::info(op).flags.elementwise : !makes_default(op, operands, attrs)) return {};
  const DType dtype = default_dtype();
  std::vector<Operand> out(operands.begin(), operands.end());
  kept.reserve(operands.size());
  bool converted = false;
  for (size_t i = op == ir::Op::kWhere ? 1 : 0; i < out.size(); ++i) {
    if (out[i].kind() != Operand::kTensor || is_complex(out[i].meta()->dtype)) continue;
    out[i] = Operand(kept.emplace_back(Tensor(out[i].impl()).to(dtype)));
    converted = true;
  }
  for (Operand& o : out) {  // where(condition, 0.5, 1): a tensor of no dimensions says what numbers do not
    if (converted || o.kind() != Operand::kNumber || o.category() != Category::kFloat) continue;
    o = Operand(kept.emplace_back(full({}, o.number(), dtype)));
    converted = true;
  }
  return converted ? out : std::vector<Operand>();
}

}  // namespace smolder::lazy
