// Which rows a kernel fetches ahead, and in which loop.
#include "smolder/jit/loop/fetch_rows.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace smolder::jit {
namespace {

/// The statements `fetch` of a kernel that the pass has scheduled, each with its loop's variable.
std::vector<std::string> fetches_of(Kernel k) {
  fetch_rows(k);
  EXPECT_NO_THROW(verify(k));
  EXPECT_EQ(print(parse_loop(print(k))), print(k));
  std::vector<std::string> all;
  std::string loop;
  const std::string text = print(k);
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    const size_t word = line.find_first_not_of(' ');
    if (line.substr(word).starts_with("vector ")) loop = line.substr(word + 7, line.find(" <") - word - 7);
    if (line.substr(word).starts_with("fetch ")) all.push_back(loop + ": " + line.substr(word));
  }
  return all;
}
using Lines = std::vector<std::string>;

Kernel softmax_times() {
  return parse_loop(R"(kernel {
  buffers b0:float32 r, b1:float32 rw, b2:float32 r, b3:float32 w, b4:float32 r
  ints 2
  parallel v0 < n0 {
    acc a0 = max float32
    vector v1 < n1 {
      %0 = load b0[v0*n1 + v1]
      update a0, %0
    }
    %1 = result a0
    acc a1 = sum float32
    vector v2 < n1 {
      %2 = load b0[v0*n1 + v2]
      %3 = sub float32 %2, %1
      %4 = exp float32 %3
      store b1[v2], %4
      update a1, %4
    }
    %5 = result a1
    vector v3 < n1 {
      %6 = load b2[v0*n1 + v3]
      %7 = load b1[v3]
      %8 = div float32 %7, %5
      %9 = mul float32 %6, %8
      %10 = load b4[v3]
      %11 = mul float32 %9, %10
      store b3[v0*n1 + v3], %11
    }
  }
}
)");
}

// The argument's next row, which the first loop will read, and this row of what the last loop reads; not the row that
// the kernel writes itself, nor the one that is the same for all.
TEST(FetchRows, InTheCostliestLoop) {
  EXPECT_EQ(fetches_of(softmax_times()), (Lines{"v2: fetch b0[v0*n1 + v2] next v0", "v2: fetch b2[v0*n1 + v2]"}));
}

TEST(FetchRows, TheNextRowOfAColumnSum) {
  EXPECT_EQ(fetches_of(parse_loop(R"(kernel {
  buffers b0:float32 rw, b1:float32 r
  ints 3
  parallel v0 < n0 {
    loop v1 < n1 {
      vector v2 < n2 {
        %0 = load b1[v0*n2 + v1*n0 + v2]
        %1 = load b0[v0*n2 + v2]
        %2 = add float32 %1, %0
        store b0[v0*n2 + v2], %2
      }
    }
  }
}
)")),
            Lines{"v2: fetch b1[v0*n2 + v1*n0 + v2] next v1"});
}

TEST(FetchRows, TheNextRowThatAColumnSumWrites) {
  EXPECT_EQ(fetches_of(parse_loop(R"(kernel {
  buffers b0:float32 rw, b1:float32 r, b2:float32 w
  ints 3
  parallel v0 < n0 {
    loop v1 < n1 {
      vector v2 < n2 {
        %0 = load b1[v0*n2 + v1*n0 + v2]
        %1 = load b0[v0*n2 + v2]
        %2 = add float32 %1, %0
        store b0[v0*n2 + v2], %2
        store b2[v0*n2 + v1*n0 + v2], %0
      }
    }
  }
}
)")),
            (Lines{"v2: fetch b1[v0*n2 + v1*n0 + v2] next v1", "v2: fetch b2[v0*n2 + v1*n0 + v2] next v1"}));
}

TEST(FetchRows, NothingWhereOneLoopIsAll) {
  EXPECT_EQ(fetches_of(parse_loop(R"(kernel {
  buffers b0:float32 r, b1:float32 w
  ints 2
  parallel v0 < n0 {
    vector v1 < n1 {
      %0 = load b0[v0*n1 + v1]
      store b1[v0*n1 + v1], %0
    }
  }
}
)")),
            Lines{});
}

}  // namespace
}  // namespace smolder::jit
