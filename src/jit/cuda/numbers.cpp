#include "smolder/jit/cuda/numbers.h"

#include <algorithm>

#include "smolder/core/per_thread.h"
#include "smolder/jit/cuda/functions.h"
#include "smolder/jit/cuda/shape.h"
#include "smolder/jit/loop/loop_interpret.h"

namespace smolder::jit::cuda {

namespace {

/// Whether the host and a device give the same bits: of some functions a device has its own (functions.h).
bool is_same(const Stmt& s) {
  using ir::Op;
  const bool own =
      s.op == Op::kExp || s.op == Op::kTanh || s.op == Op::kSigmoid || s.op == Op::kMaximum || s.op == Op::kMinimum;
  return s.op != ir::Op::kRandomBits && !(own && compute_type(s.dtype) == DType::kFloat32);
}

}  // namespace

Numbers::Numbers(const Kernel& kernel) : k_(kernel), computed_(static_cast<size_t>(kernel.num_locals)) {
  if (kernel.scalars.empty()) return;
  std::vector<bool> known(computed_.size()), of_scalars(computed_.size());
  const auto at = [](LocalId x) { return static_cast<size_t>(x); };
  for_each_statement(kernel.root, [&](const Stmt& s, const Stmt*) {
    const bool leaf = s.kind == StmtKind::kScalar || s.kind == StmtKind::kConstant;
    const auto all = [&](const auto& list) {
      return std::ranges::all_of(s.args, [&](LocalId x) { return list[at(x)]; });
    };
    const auto any = [&](const auto& list) {
      return std::ranges::any_of(s.args, [&](LocalId x) { return list[at(x)]; });
    };
    if (!leaf && !(s.kind == StmtKind::kPrimitive && is_same(s) && all(known))) {
      for (const LocalId x : s.args) want(x);
      for (const auto& i : s.address.indirect) want(i.index);
      return;
    }
    known[at(s.result)] = true;
    of_scalars[at(s.result)] = s.kind == StmtKind::kScalar || any(of_scalars);
    const bool works = any(computed_) || (s.kind == StmtKind::kPrimitive && s.op != ir::Op::kCast);
    computed_[at(s.result)] = works && of_scalars[at(s.result)];
    all_.push_back(&s);
  });
}

void Numbers::want(LocalId x) {
  if (!computed_[static_cast<size_t>(x)]) return;
  const Stmt* s = *std::ranges::find(all_, x, &Stmt::result);
  if (std::ranges::find(results_, s) == results_.end()) results_.push_back(s);
}

bool Numbers::has(const Stmt& s) const { return s.result >= 0 && computed_[static_cast<size_t>(s.result)]; }

void Numbers::compute(uint64_t* scalars) const {
  if (results_.empty()) return;
  static const PerThread<std::vector<uint64_t>> values_of_thread;
  static const PerThread<std::vector<DType>> dtypes_of_thread;
  std::vector<uint64_t>& values = *values_of_thread;
  std::vector<DType>& dtypes = *dtypes_of_thread;
  values.resize(static_cast<size_t>(k_.num_locals));
  dtypes.resize(static_cast<size_t>(k_.num_locals));
  for (const Stmt* s : all_) {
    const auto i = static_cast<size_t>(s->result);
    dtypes[i] = result_dtype(*s);
    values[i] =
        s->kind == StmtKind::kConstant ? register_bits(s->constant, s->dtype)
        : s->kind == StmtKind::kScalar
            ? register_bits(Scalar::from_bits(scalars[s->slot], k_.scalars[static_cast<size_t>(s->slot)]), s->dtype)
            : evaluate(*s, dtypes, values);
  }
  uint64_t* next = scalars + k_.scalars.size();
  for (const Stmt* s : results_) *next++ = values[static_cast<size_t>(s->result)];
}

}  // namespace smolder::jit::cuda
