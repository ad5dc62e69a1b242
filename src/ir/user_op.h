// Ops that users register at run time. They are numbered after the rows of ops/*.toml, and recorded, planned and
// differentiated as those are.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "smolder/ir/op.h"

namespace smolder::ir {

/// An argument that is neither a tensor nor a run-time number: absent, or what its type says.
using AttrValue = std::variant<std::monostate, bool, int64_t, double, DType, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<bool>>;

/// One argument of a signature.
struct SchemaArgument {
  enum Kind : uint8_t { kTensor, kTensorList, kNumber, kInt, kFloat, kBool, kDType, kText, kInts, kFloats, kBools };
  std::string name;
  std::string type;  ///< as written
  Kind kind = kTensor;
  bool optional = false, keyword_only = false;
  bool mutated = false;  ///< "Tensor(a!)": the op writes to it
  std::optional<std::string> default_text;
  std::span<const std::string_view> choices;  ///< of a text that is one of these
  int position = 0;                           ///< among the operands, or among the attributes

  bool is_operand() const { return kind <= kNumber; }
};

/// "ns::name(Tensor x, Scalar scale=1.0, *, int[] dims=[0]) -> (Tensor a, Tensor b)".
struct Schema {
  std::string name;
  std::vector<SchemaArgument> arguments;
  int num_returns = 1;

  int num_mutated() const;
};

/// Throws RuntimeError saying what is wrong in `text`, and NotImplementedError naming types that are not supported.
Schema parse_schema(std::string_view text);
/// The schema of any op; a built-in one's arguments in the order of its function's.
Schema schema_of(Op op);

/// Appends the words of `value`, or reads them. Throws TypeError naming the argument when it can't be that.
void append_words(const SchemaArgument& argument, const AttrValue& value, std::vector<int64_t>& words);
AttrValue read_words(const SchemaArgument& argument, std::span<const int64_t>& words);
/// The value that is passed where an argument is left out.
AttrValue default_value(const SchemaArgument& argument);

/// The parts of an op. Results are those of the signature, then the new values of what it writes to.
struct UserOp {
  Schema schema;
  std::string signature;
  std::function<InferFunction> infer;
  std::function<DecomposeFunction> decompose;  ///< may be empty
  bool effect = false;                         ///< as OpFlags::effect
};

/// Makes it an op. Throws RuntimeError when there is one of that name, or when there is no room for more. Thread-safe,
/// as everything here.
Op register_user_op(UserOp definition);
/// Takes the op's name away: recorded calls of it stay valid, and another may be registered under the name.
void remove_user_op(Op op);
/// An op without a name to find it by, with the rules of `op` and neither its decomposition nor its kernels.
Op register_stand_in(Op op);
/// Most ops that may be registered in the life of a process, those removed included.
inline constexpr int kMaxUserOps = 4096;

std::optional<Op> find_user_op(std::string_view name);
/// Whether there is such an op. (An op that was removed counts.)
bool is_registered(Op op);
/// Valid for the life of the process.
const UserOp& user_op(Op op);

}  // namespace smolder::ir
