// What a recorded collective is made of, as its op's attributes say.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"
#include "smolder/distributed/group.h"

namespace smolder::distributed {

/// As CollectiveCall has them (ops.h).
struct Words {
  int64_t group = 0;
  std::span<const int64_t> detail, shape;

  static Words read(std::span<const int64_t> words);
};

/// "float32[2, 3]"
std::string text_of(DType dtype, const Dims& shape);
/// What the ranks must agree on: "all_reduce(SUM) of float32[2, 3]".
std::string title_of(std::string_view name, const Words& w, DType dtype, const Dims& from, const Group& group);
/// Adds to the counters.
void count_collective(size_t bytes);

}  // namespace smolder::distributed
