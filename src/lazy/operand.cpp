#include "smolder/lazy/operand.h"

namespace smolder::lazy {

const ir::Meta* number_meta(Category c) {
  static const ir::Meta kMetas[] = {{{}, DType::kBool, true}, {{}, DType::kInt64, true}, {{}, DType::kFloat64, true}};
  return &kMetas[static_cast<int>(c)];
}

}  // namespace smolder::lazy
