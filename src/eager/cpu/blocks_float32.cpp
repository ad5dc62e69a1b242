#include "smolder/eager/cpu/blocks_impl.h"

namespace smolder::eager::cpu {

const BlockTable kFloat32Blocks = kBlockTable<DType::kFloat32>;

}  // namespace smolder::eager::cpu
