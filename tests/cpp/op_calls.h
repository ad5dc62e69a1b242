// The calls of ops in tests/golden/op_values.json, and their decompositions on symbolic sizes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "smolder/ir/builder.h"
#include "smolder/ir/interpret.h"

namespace smolder::ir::test {

/// One call: tensors, numbers and absent operands in the order of the signature, and attribute words with
/// which of them are sizes.
struct Call {
  Op op;
  std::vector<std::optional<PlainTensor>> operands;
  std::vector<int64_t> words;
  std::vector<bool> is_size;
};

/// The decomposition of a call, with every extent and size word a symbol, and what to run it on.
struct Program {
  Graph g;
  std::vector<PlainTensor> leaves;
  std::vector<uint64_t> parameters;
  std::vector<int64_t> symbols;

  Dim symbol(int64_t n) {
    symbols.push_back(n);
    return g.sym.symbol(n);
  }
};

/// The records of the file, each a call and what PyTorch computes.
const std::vector<nlohmann::json>& op_records();
PlainTensor tensor_of(const nlohmann::json& v);
Call call_of(const nlohmann::json& record);
std::vector<Meta> infer(const Call& c);
Program decompose(const Call& c);

}  // namespace smolder::ir::test
