// The op table as C++ sees it. Rows come from ops/*.toml through tools/opgen.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"
#include "smolder/ir/op_enum.h"  // generated: enum class Op : uint16_t { kAdd, ... }

namespace smolder::ir {

class Builder;
struct Node;
struct ValueInfo;
using ValueId = uint32_t;

/// Shape and dtype of an operand or a result. `weak` marks a Python number, which promotes by category.
struct Meta {
  Dims shape;
  DType dtype = DType::kFloat32;
  bool weak = false;
  friend bool operator==(const Meta&, const Meta&) = default;
};

/// How one attribute (an argument that is neither a tensor nor a run-time number) is written as words.
enum class AttrKind : uint8_t {
  kInt,              ///< one word
  kBool,             ///< one word
  kFloat,            ///< one word: the bits of the double; structural, so for values that choose the formula
  kString,           ///< one word: the index into AttrInfo::choices
  kDType,            ///< one word
  kOptionalInt,      ///< two words: present, value
  kOptionalFloat,    ///< two words
  kOptionalDType,    ///< two words
  kIntList,          ///< count, then values: axes
  kOptionalIntList,  ///< present, count, values
  kSize,             ///< one word that is an extent or offset: symbolic in the plan key
  kOptionalSize,     ///< two words: present, size
  kSizeList,         ///< count, then sizes
};

/// One attribute of an op's signature.
struct AttrInfo {
  std::string_view name;
  AttrKind kind;
  std::span<const std::string_view> choices;  ///< for kString
  /// A size that says where, not how many. Extents of 0 and 1 mean something to shape rules; positions do not, so that
  /// a plan serves all.
  bool is_position = false;
};

/// One operand of an op's signature. Run-time numbers (learning rates, `alpha`, the 2 in `x + 2`) are
/// operands too: weak zero-dim values that no key sees, but for their category.
struct OperandInfo {
  std::string_view name;
  enum Kind : uint8_t { kTensor, kOptionalTensor, kTensorList, kNumber, kTensorOrNumber } kind;
};

/// A call as its shape rule sees it.
struct Call {
  std::span<const Meta* const> inputs;  ///< one per operand (lists flattened); null for an absent optional
  std::span<const int64_t> attrs;       ///< words as AttrKind says
};

/// Which dtypes an elementwise op computes in, given the promoted dtype of its operands.
enum class DTypeRule : uint8_t {
  kNone,     ///< not elementwise: the op has its own rule
  kPromote,  ///< as promoted
  kFloat,    ///< integers and bools become the default float type
  kBool,     ///< computed as promoted, the result is bool
};

struct OpFlags {
  bool primitive = false;    ///< known to the code generators
  bool elementwise = false;  ///< an output element depends on the same element of the broadcast inputs
  bool random = false;       ///< reads (seed, offset) operands: never merged
  bool view = false;         ///< in torch's semantics the result may alias the first input
  bool effect = false;       ///< ordered and never dropped
  /// The result is the first operand but for some elements. The kernel copies the rest, and copies nothing when it is
  /// given the operand's memory as the result's.
  bool updates = false;
  bool wraps_indices = false;  ///< adds the extent to an index below 0 before it looks: a report has it so
};

template <class F>
class RowFunction;

/// A rule of a row: a plain function where the row is written in ops/*.toml, anything callable where a user
/// registered it.
template <class R, class... A>
class RowFunction<R(A...)> {
 public:
  using Plain = R (*)(A...);
  using Own = std::function<R(A...)>;
  constexpr RowFunction(std::nullptr_t = nullptr) {}
  constexpr RowFunction(Plain plain) : plain_(plain) {}
  /// `own` outlives this.
  explicit RowFunction(const Own* own) : own_(own && *own ? own : nullptr) {}
  explicit operator bool() const { return plain_ || own_; }
  R operator()(A... args) const {
    return plain_ ? plain_(std::forward<A>(args)...) : (*own_)(std::forward<A>(args)...);
  }

 private:
  Plain plain_ = nullptr;
  const Own* own_ = nullptr;
};

using InferFunction = void(const Call& call, Meta* outputs);
using DecomposeFunction = void(Builder& b, const Node& node, std::span<const ValueInfo> results, ValueId* outputs);

/// The error of an index out of range in an op.
struct IndexErrorInfo {
  bool runtime_error;     ///< a RuntimeError, where torch raises one; else an IndexError
  std::string_view text;  ///< torch's words, where they say more than that
};

/// One row of the table.
struct OpInfo {
  std::string_view name;
  std::string_view signature;  ///< torch's schema form
  OpFlags flags;
  uint8_t num_outputs;
  std::span<const OperandInfo> operands;
  std::span<const AttrInfo> attrs;
  DTypeRule dtype_rule;
  /// Writes the metadata of the outputs, or throws what the user should see. Null for leaf, parameter
  /// and constant, whose metadata is given.
  RowFunction<InferFunction> infer;
  /// Rewrites `node` into primitives, one value per output. `results` holds the recorded dtype (and
  /// sample shape) of each output. A primitive that users can record casts and broadcasts its operands
  /// and appends itself (what is normal already comes out unchanged); null for the other primitives.
  /// Inputs of `node` are kNone where an optional operand is absent.
  RowFunction<DecomposeFunction> decompose;
  IndexErrorInfo index_error;
  std::string_view called;  ///< its name in messages, where users call something else that records it; else empty
  std::string_view doc;
};

extern const OpInfo kOpTable[kNumOps];
/// The row of an op that a user registered.
const OpInfo& user_op_info(Op op);
inline const OpInfo& info(Op op) {
  const auto number = static_cast<size_t>(op);
  if (number < kNumOps) [[likely]]
    return kOpTable[number];
  return user_op_info(op);
}
inline std::string_view name(Op op) { return info(op).name; }
/// Looks a name up. Throws ValueError naming it when unknown.
Op find_op(std::string_view name);
/// Throws what an index out of range in `op` is: `text`, and what the op says of it, and then `after`.
[[noreturn]] void raise_index_error(Op op, const std::string& text, const std::string& after);
/// The name of the function that the user called to record `op`, for messages.
inline std::string_view called(Op op) { return info(op).called.empty() ? name(op) : info(op).called; }
/// Index of `value` among the choices of string attribute number `attr`. Throws, as torch, ValueError for
/// a reduction and RuntimeError listing them for others.
int64_t choice_index(Op op, int attr, std::string_view value);
/// All rows of ops/*.toml, indexed by Op. Ops that users register are numbered from there on (user_op.h).
std::span<const OpInfo> op_table();
constexpr bool is_user_op(Op op) { return static_cast<int>(op) >= kNumOps; }

}  // namespace smolder::ir
