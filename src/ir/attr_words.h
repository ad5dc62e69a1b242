// How the words of a call's attributes divide into arguments, and these into structure and sizes (see AttrKind).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "smolder/core/error.h"
#include "smolder/ir/op.h"

namespace smolder::ir {

/// Calls `f(const AttrInfo&, size_t first_word, size_t num_words)` for each attribute of an encoded list.
void for_each_attr(const OpInfo& op, std::span<const int64_t> words, auto&& f) {
  size_t at = 0;
  for (const AttrInfo& a : op.attrs) {
    size_t n = 1;
    switch (a.kind) {
      case AttrKind::kInt:
      case AttrKind::kBool:
      case AttrKind::kFloat:
      case AttrKind::kString:
      case AttrKind::kDType:
      case AttrKind::kSize:
        break;
      case AttrKind::kOptionalInt:
      case AttrKind::kOptionalFloat:
      case AttrKind::kOptionalDType:
      case AttrKind::kOptionalSize:
        n = 2;
        break;
      case AttrKind::kIntList:
      case AttrKind::kSizeList:
        n = 1 + words[at];
        break;
      case AttrKind::kOptionalIntList:
        n = 2 + words[at + 1];
        break;
    }
    f(a, at, n);
    at += n;
  }
  SMOLDER_INVARIANT(at == words.size());
}

/// How far the symbol of a position is above it: symbols of 0 and 1 would be constants.
inline constexpr int64_t kAbovePosition = 2;

/// An attribute word in a plan: all but fixed ones are symbols.
enum WordRole : uint8_t { kFixedWord, kSizeWord, kPositionWord };

/// Calls `f(size_t word_index, WordRole)` for each word.
void for_each_attr_word(const OpInfo& op, std::span<const int64_t> words, auto&& f) {
  for_each_attr(op, words, [&](const AttrInfo& a, size_t first, size_t count) {
    const bool counted = a.kind == AttrKind::kOptionalSize || a.kind == AttrKind::kSizeList;
    const bool sizes = a.kind == AttrKind::kSize || counted;
    const WordRole role = a.is_position ? kPositionWord : kSizeWord;
    for (size_t i = 0; i < count; ++i) f(first + i, sizes && !(counted && i == 0) ? role : kFixedWord);
  });
}

/// One attribute's words as the text form of graphs writes its value.
std::string attr_text(const AttrInfo& attr, std::span<const int64_t> words);

}  // namespace smolder::ir
