#include "smolder/ir/user_op.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "smolder/core/error.h"
#include "smolder/core/fork.h"

namespace smolder::ir {
namespace {

/// A registered op: what the user gave, and the row made of it. Never changed and never freed: traces, plans and
/// gradient graphs name it by its number.
struct Registered {
  UserOp user;
  std::vector<OperandInfo> operands;
  std::vector<AttrInfo> attrs;
  OpInfo row;
};

OperandInfo::Kind operand_kind(const SchemaArgument& a) {
  if (a.kind == SchemaArgument::kTensorList) return OperandInfo::kTensorList;
  if (a.kind == SchemaArgument::kNumber) return OperandInfo::kNumber;
  return a.optional ? OperandInfo::kOptionalTensor : OperandInfo::kTensor;
}

AttrKind attr_kind(const SchemaArgument& a) {
  switch (a.kind) {
    case SchemaArgument::kInt:
    case SchemaArgument::kBool:
      return a.optional ? AttrKind::kOptionalInt : a.kind == SchemaArgument::kInt ? AttrKind::kInt : AttrKind::kBool;
    case SchemaArgument::kFloat:
      return a.optional ? AttrKind::kOptionalFloat : AttrKind::kFloat;
    case SchemaArgument::kDType:
      return a.optional ? AttrKind::kOptionalDType : AttrKind::kDType;
    default:
      return a.optional ? AttrKind::kOptionalIntList : AttrKind::kIntList;
  }
}

std::unique_ptr<Registered> made(UserOp definition) {
  auto out = std::make_unique<Registered>();
  out->user = std::move(definition);
  const Schema& schema = out->user.schema;
  for (const SchemaArgument& a : schema.arguments) {
    if (a.is_operand()) {
      out->operands.push_back({a.name, operand_kind(a)});
    } else {
      out->attrs.push_back({a.name, attr_kind(a), {}});
    }
  }
  const bool decomposes = static_cast<bool>(out->user.decompose);
  out->row = {.name = schema.name,
              .signature = out->user.signature,
              .flags = {.primitive = !decomposes, .effect = out->user.effect},
              .num_outputs = static_cast<uint8_t>(schema.num_returns + schema.num_mutated()),
              .operands = out->operands,
              .attrs = out->attrs,
              .dtype_rule = DTypeRule::kNone,
              .infer = RowFunction<InferFunction>(&out->user.infer),
              .decompose = RowFunction<DecomposeFunction>(&out->user.decompose),
              .index_error = {false, {}},
              .called = {},
              .doc = {}};
  return out;
}

/// Reading by number takes no lock.
struct Registry {
  ForkMutex lock;  ///< guards `names`, `count` and writes to `ops`
  std::unordered_map<std::string, Op> names;
  int count = 0;
  std::array<std::atomic<const Registered*>, kMaxUserOps> ops{};

  /// Called under the lock.
  Op add(std::unique_ptr<Registered> entry) {
    SMOLDER_CHECK(count < kMaxUserOps, RuntimeError, "cannot register ", entry->row.name, ": ", kMaxUserOps,
                  " ops were registered in this process, and there is no room for more");
    const Op op = static_cast<Op>(kNumOps + count);
    ops[count++].store(entry.release(), std::memory_order_release);
    return op;
  }

  static Registry& get() {
    static Registry* const registry = new Registry;  // ops may be recorded in static destructors
    return *registry;
  }
};
/// Made before any lock is held, as its lock asks.
[[maybe_unused]] const Registry& g_registry = Registry::get();

const Registered& registered(Op op) {
  const auto i = static_cast<size_t>(op) - kNumOps;
  const Registered* const found = i < kMaxUserOps ? Registry::get().ops[i].load(std::memory_order_acquire) : nullptr;
  SMOLDER_CHECK(found, ValueError, "there is no op number ", static_cast<int>(op));
  return *found;
}

}  // namespace

Op register_user_op(UserOp definition) {
  SMOLDER_CHECK(definition.infer, RuntimeError, definition.schema.name, ": an op needs a shape rule");
  auto entry = made(std::move(definition));
  const std::string& name = entry->user.schema.name;
  Registry& registry = Registry::get();
  const std::lock_guard hold(registry.lock);
  SMOLDER_CHECK(!registry.names.contains(name), RuntimeError, "Tried to register an operator (", entry->user.signature,
                ") with the same name and overload name multiple times.");
  const std::string key = name;
  const Op op = registry.add(std::move(entry));
  registry.names.emplace(key, op);
  return op;
}

Op register_stand_in(Op op) {
  const OpInfo& row = info(op);
  auto entry = std::make_unique<Registered>();
  entry->user.schema = schema_of(op);
  entry->row = row;
  entry->row.flags = {.primitive = true};
  entry->row.decompose = {};
  Registry& registry = Registry::get();
  const std::lock_guard hold(registry.lock);
  return registry.add(std::move(entry));
}

void remove_user_op(Op op) {
  const std::string& name = registered(op).user.schema.name;
  Registry& registry = Registry::get();
  const std::lock_guard hold(registry.lock);
  const auto found = registry.names.find(name);
  if (found != registry.names.end() && found->second == op) registry.names.erase(found);
}

std::optional<Op> find_user_op(std::string_view name) {
  Registry& registry = Registry::get();
  const std::lock_guard hold(registry.lock);
  const auto found = registry.names.find(std::string(name));
  return found == registry.names.end() ? std::nullopt : std::optional(found->second);
}

bool is_registered(Op op) {
  const auto i = static_cast<size_t>(op) - kNumOps;
  return is_user_op(op) && i < kMaxUserOps && Registry::get().ops[i].load(std::memory_order_acquire);
}

const OpInfo& user_op_info(Op op) { return registered(op).row; }
const UserOp& user_op(Op op) { return registered(op).user; }

}  // namespace smolder::ir
