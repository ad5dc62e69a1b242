// Texts in tests/golden, which a change that is meant to change them writes anew.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::test {

/// The text of a file; empty where there is none.
inline std::string contents(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// The kernel of tests/golden/loop.
inline Kernel golden(const std::string& name) { return parse_loop(contents("tests/golden/loop/" + name + ".smir")); }

/// Expects the text in a file; with SMOLDER_BLESS=1 it is written there first.
inline void expect_golden(const std::string& file, const std::string& text) {
  if (std::getenv("SMOLDER_BLESS")) std::ofstream(file) << text;
  EXPECT_EQ(text, contents(file)) << file << ": run with SMOLDER_BLESS=1 to accept";
}

}  // namespace smolder::jit::test
