#include "smolder/eager/cpu/blocks_impl.h"

namespace smolder::eager::cpu {

const BlockTable kBoolBlocks = kBlockTable<DType::kBool>;
const BlockTable kUInt8Blocks = kBlockTable<DType::kUInt8>;
const BlockTable kInt32Blocks = kBlockTable<DType::kInt32>;
const BlockTable kInt64Blocks = kBlockTable<DType::kInt64>;

}  // namespace smolder::eager::cpu
