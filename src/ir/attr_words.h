// How the words of a call's attributes divide into structure and sizes (see AttrKind).
#pragma once

#include <cstdint>
#include <span>

#include "smolder/ir/op.h"

namespace smolder::ir {

/// Calls `f(size_t word_index, bool is_size)` for each word of an encoded attribute list.
template <class F>
void for_each_attr_word(const OpInfo& op, std::span<const int64_t> words, F&& f) {
  size_t at = 0;
  const auto emit = [&](size_t n, bool is_size) {
    for (size_t end = at + n; at < end; ++at) f(at, is_size);
  };
  for (const AttrInfo& a : op.attrs) {
    switch (a.kind) {
      case AttrKind::kInt:
      case AttrKind::kBool:
      case AttrKind::kFloat:
      case AttrKind::kString:
      case AttrKind::kDType:
        emit(1, false);
        break;
      case AttrKind::kOptionalInt:
      case AttrKind::kOptionalFloat:
      case AttrKind::kOptionalDType:
        emit(2, false);
        break;
      case AttrKind::kIntList:
        emit(1 + words[at], false);
        break;
      case AttrKind::kOptionalIntList:
        emit(2 + words[at + 1], false);
        break;
      case AttrKind::kSize:
        emit(1, true);
        break;
      case AttrKind::kOptionalSize:
        emit(1, false);
        emit(1, true);
        break;
      case AttrKind::kSizeList: {
        const int64_t count = words[at];
        emit(1, false);
        emit(count, true);
        break;
      }
    }
  }
  SMOLDER_INVARIANT(at == words.size());
}

}  // namespace smolder::ir
