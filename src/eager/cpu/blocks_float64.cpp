#include "smolder/eager/cpu/blocks_impl.h"

namespace smolder::eager::cpu {

const BlockTable kFloat64Blocks = kBlockTable<DType::kFloat64>;

}  // namespace smolder::eager::cpu
