// Pieces of text in one string.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace smolder::jit::cuda {

inline std::string cat(std::initializer_list<std::string_view> pieces) {
  std::string text;
  for (const std::string_view piece : pieces) text += piece;
  return text;
}

}  // namespace smolder::jit::cuda
