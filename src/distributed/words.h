// The parts of a recorded collective, as its op's attributes hold them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// A tensor's part in one of many (see CollectiveCall), in elements.
struct Piece {
  size_t count;
  size_t part;   ///< where a rank's part begins among its others
  size_t whole;  ///< where the whole tensor begins, which has `count` elements of each rank
};
/// Those that the words of the collective `name` say, of `count` elements on a rank.
std::vector<Piece> pieces_of(std::string_view name, const Words& w, size_t count, int ranks);

/// "float32[2, 3]"
std::string text_of(DType dtype, const Dims& shape);
/// The text that the ranks must agree on: "all_reduce(SUM) of float32[2, 3]".
std::string title_of(std::string_view name, const Words& w, DType dtype, const Dims& from, const Group& group);
/// Adds to the counters.
void count_collective(size_t bytes);

}  // namespace smolder::distributed
