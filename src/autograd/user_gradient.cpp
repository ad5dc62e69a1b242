// Gradients of ops that users register.
#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "smolder/autograd/formula.h"
#include "smolder/core/error.h"
#include "smolder/core/fork.h"

namespace smolder::autograd {
namespace {

/// Never changed and never freed once it is in the table: nodes look it up when they run.
struct Entry {
  std::vector<Saves> saves;
  std::function<void(FormulaContext&)> formula;
  GradInfo info;
};

struct Gradients {
  ForkMutex lock;
  std::unordered_map<ir::Op, std::unique_ptr<Entry>> of;
  std::unordered_map<ir::Op, std::unique_ptr<Entry>> missing;  ///< what raises, for ops that have none

  static Gradients& get() {
    static Gradients* const gradients = new Gradients;
    return *gradients;
  }
};
/// Made before any lock is held, as its lock asks.
[[maybe_unused]] const Gradients& g_gradients = Gradients::get();

std::unique_ptr<Entry> made(ir::Op op, Saves saves, std::function<void(FormulaContext&)> formula) {
  const ir::OpInfo& row = ir::info(op);
  auto entry = std::make_unique<Entry>();
  uint32_t tensors = 0;
  for (size_t i = 0; i < row.operands.size(); ++i) {
    if (row.operands[i].kind != ir::OperandInfo::kNumber) tensors |= 1u << i;
  }
  entry->saves.assign(row.operands.size(), saves);
  entry->formula = std::move(formula);
  entry->info = {tensors, entry->saves, ir::RowFunction<void(FormulaContext&)>(&entry->formula)};
  return entry;
}

/// torch's way to name an overload: "ns.name.default".
std::string dotted(std::string_view name) {
  const size_t colons = name.find("::");
  return std::string(name.substr(0, colons)) + "." + std::string(name.substr(colons + 2)) + ".default";
}

std::unique_ptr<Entry> raising(ir::Op op) {
  return made(op, {}, [op](FormulaContext&) {
    raise<RuntimeError>("Trying to backward through ", dotted(ir::name(op)),
                        " but no autograd formula was registered. Please use register_autograd to add one "
                        "(OpSpec::gradient in C++).");
  });
}

}  // namespace

void register_gradient(ir::Op op, UserGradient gradient) {
  const ir::OpInfo& row = ir::info(op);
  SMOLDER_CHECK(ir::is_user_op(op), RuntimeError, row.name, ": its gradient is built in and can't be replaced");
  SMOLDER_CHECK(gradient.formula, ValueError, row.name, ": the gradient is empty");
  Saves saves;
  for (const std::string& name : gradient.saves) {
    const auto at = std::ranges::find(row.operands, std::string_view(name), &ir::OperandInfo::name);
    SMOLDER_CHECK(at != row.operands.end(), RuntimeError, row.name, ": its gradient saves '", name,
                  "', which is no operand of ", row.signature);
    saves.inputs |= 1u << (at - row.operands.begin());
  }
  for (const int i : gradient.saves_results) {
    SMOLDER_CHECK(i >= 0 && i < row.num_outputs, RuntimeError, row.name, ": its gradient saves result ", i, " of ",
                  int{row.num_outputs});
    saves.outputs |= 1u << i;
  }
  for (size_t i = 0; i + 1 < row.operands.size(); ++i) {
    SMOLDER_CHECK(row.operands[i].kind != ir::OperandInfo::kTensorList, NotImplementedError, row.name,
                  ": a gradient of an op whose Tensor[] is not its last tensor or number is not supported");
  }
  auto entry = made(op, saves, std::move(gradient.formula));
  Gradients& gradients = Gradients::get();
  const std::lock_guard hold(gradients.lock);
  SMOLDER_CHECK(gradients.of.emplace(op, std::move(entry)).second, RuntimeError, row.name, " has a gradient already");
}

const GradInfo* user_grad_info(ir::Op op) {
  Gradients& gradients = Gradients::get();
  const std::lock_guard hold(gradients.lock);
  if (const auto found = gradients.of.find(op); found != gradients.of.end()) return &found->second->info;
  std::unique_ptr<Entry>& entry = gradients.missing[op];
  if (!entry) entry = raising(op);
  return &entry->info;
}

}  // namespace smolder::autograd
