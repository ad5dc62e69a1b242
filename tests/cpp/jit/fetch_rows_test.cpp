// Which rows a kernel fetches ahead, and while which loop runs.
#include "smolder/jit/loop/fetch_rows.h"

#include <gtest/gtest.h>

namespace smolder::jit {
namespace {

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

TEST(FetchRows, InTheCostliestLoop) {
  const Kernel k = softmax_times();
  const auto fetches = find_row_fetches(k);
  const auto& body = k.root.body;
  const Stmt *exponentials = nullptr, *quotients = &body.back();
  for (const Stmt& s : body) {
    if (s.kind == StmtKind::kVector && s.vars[0] == 2) exponentials = &s;
  }
  // The argument's next row, which the first loop will read, and this row of what the last loop reads; not the row
  // that the kernel writes itself, nor the one that is the same for all.
  ASSERT_EQ(fetches.size(), 2u);
  EXPECT_EQ(fetches[0].during, exponentials);
  EXPECT_EQ(fetches[0].access->address.buffer, 0);
  EXPECT_EQ(fetches[0].column, 1);
  EXPECT_EQ(fetches[0].row, 0);
  EXPECT_EQ(fetches[1].during, exponentials);
  EXPECT_EQ(fetches[1].access, &quotients->body[0]);
  EXPECT_EQ(fetches[1].column, 3);
  EXPECT_EQ(fetches[1].row, -1);
}

TEST(FetchRows, TheNextRowOfAColumnSum) {
  const Kernel k = parse_loop(R"(kernel {
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
)");
  const auto fetches = find_row_fetches(k);
  ASSERT_EQ(fetches.size(), 1u);
  EXPECT_EQ(fetches[0].access->address.buffer, 1);
  EXPECT_EQ(fetches[0].row, 1);
}

TEST(FetchRows, TheNextRowThatAColumnSumWrites) {
  const Kernel k = parse_loop(R"(kernel {
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
)");
  const auto fetches = find_row_fetches(k);
  ASSERT_EQ(fetches.size(), 2u);
  EXPECT_EQ(fetches[1].access->kind, StmtKind::kStore);
  EXPECT_EQ(fetches[1].access->address.buffer, 2);
  EXPECT_EQ(fetches[1].row, 1);
}

TEST(FetchRows, NothingWhereOneLoopIsAll) {
  const Kernel k = parse_loop(R"(kernel {
  buffers b0:float32 r, b1:float32 w
  ints 2
  parallel v0 < n0 {
    vector v1 < n1 {
      %0 = load b0[v0*n1 + v1]
      store b1[v0*n1 + v1], %0
    }
  }
}
)");
  EXPECT_TRUE(find_row_fetches(k).empty());
}

}  // namespace
}  // namespace smolder::jit
