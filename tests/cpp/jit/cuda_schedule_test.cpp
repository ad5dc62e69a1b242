// Kernels as a device runs them: what the passes make of loop IR, and that barriers are where they must be.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "jit/golden_text.h"
#include "jit/kernel_samples.h"
#include "smolder/core/error.h"
#include "smolder/jit/cuda/barriers.h"
#include "smolder/jit/cuda/schedule.h"
#include "smolder/jit/loop/loop_interpret.h"

namespace smolder::jit::test {
namespace {

// Each of a kind: one loop over elements; chunks of columns, of a sum too; rows that stay with their threads; a row in
// shared memory; rows of two lengths; numbers that one thread writes for all; tiles; rows that wait in shared memory;
// rows beside sums over them; what threads hold around a loop; several chunks of a thread; few columns, all of a
// thread.
TEST(CudaSchedule, Text) {
  for (const char* name : {"gelu", "column_sum", "softmax", "softmax_kept", "two_lengths", "row_numbers", "transpose",
                           "long_rows", "rows_and_sums", "largest_of_columns", "scaled_rows", "pair_sums"}) {
    const std::string own = std::string("tests/golden/schedule/") + name + ".loop.smir";
    const std::string common = std::string("tests/golden/loop/") + name + ".smir";
    const std::string before = contents(own).empty() ? contents(common) : contents(own);
    const cuda::Schedule schedule(parse_loop(before));
    const std::string text = print(schedule.kernel);
    expect_golden(std::string("tests/golden/schedule/") + name + ".smir", text);
    EXPECT_NO_THROW(verify(schedule.kernel));
    EXPECT_EQ(print(parse_loop(text)), text);
  }
}

TEST(CudaSchedule, OfEveryKernelIsValid) {
  for (const KernelSample& s : op_kernels()) {
    const cuda::Schedule schedule(s.kernel);
    EXPECT_NO_THROW(verify(schedule.kernel)) << print(s.kernel);
    EXPECT_EQ(print(parse_loop(print(schedule.kernel))), print(schedule.kernel));
  }
}

/// The interpreter's verdict on a scheduled kernel whose buffers have so many float32.
std::string race_of(const std::string& text, std::vector<int64_t> ints, int64_t positions, int64_t elements = 256) {
  const Kernel k = parse_loop(text);
  verify(k);
  std::vector<std::vector<float>> memory(k.buffers.size(), std::vector<float>(static_cast<size_t>(elements), 1));
  std::vector<void*> buffers;
  for (size_t b = 0; b < memory.size(); ++b) {
    buffers.push_back(cuda::shared_row(k, static_cast<int>(b)) ? nullptr : memory[b].data());
  }
  try {
    interpret(k, buffers.data(), ints.data(), nullptr, nullptr, 0, positions, &cuda::reduce_order());
  } catch (const InternalError& e) {
    const std::string message = e.what();
    return message.substr(0, message.find(", in\n"));
  }
  return "";
}
std::string race_at(const std::string& place) {
  return "internal error: two threads touch " + place + " without a barrier between them, and one writes it";
}

// A row in shared memory, read the other way round. Of eight elements a thread has four.
TEST(CudaSchedule, RacesAreErrors) {
  const auto reversed = [](const std::string& between) {
    return "kernel {\n  buffers b0:float32 r, b1:float32 rw, b2:float32 w\n  ints 1\n  grid v0 < n0 {\n"
           "    shared b1[8]\n"
           "    thread v1 < 8 {\n      %0 = load b0[v0*8 + v1]\n      store b1[v1], %0\n    }\n" +
           between +
           "    thread v2 < 8 {\n      %1 = load b1[7 + v2*-1]\n      store b2[v0*8 + v2], %1\n    }\n  }\n}\n";
  };
  EXPECT_EQ(race_of(reversed(""), {3}, 3), race_at("b1[7]"));
  EXPECT_EQ(race_of(reversed("    barrier\n"), {3}, 3), "");
}

// The first thread writes what all read in the next iteration, and reads what all wrote in this one.
TEST(CudaSchedule, RacesBetweenIterations) {
  const auto loop = [](const std::string& first, const std::string& second) {
    return "kernel {\n  buffers b0:float32 rw, b1:float32 w\n  ints 2\n  grid v0 < n0 {\n    loop v1 < n1 {\n" + first +
           "      %0 = load b0[v0]\n      thread v2 < 8 {\n        store b1[v0*32 + v1*8 + v2], %0\n      }\n" +
           second + "      store b0[v0], %0\n    }\n  }\n}\n";
  };
  const std::string barrier = "      barrier\n";
  EXPECT_EQ(race_of(loop("", ""), {2, 4}, 2), race_at("b0[0]"));
  EXPECT_EQ(race_of(loop("", barrier), {2, 4}, 2), race_at("b0[0]"));
  EXPECT_EQ(race_of(loop(barrier, ""), {2, 4}, 2), race_at("b0[0]"));
  EXPECT_EQ(race_of(loop(barrier, barrier), {2, 4}, 2), "");
  // That is what the pass finds.
  Kernel k = parse_loop(loop("", ""));
  cuda::insert_barriers(k);
  EXPECT_EQ(print(k), loop(barrier, barrier));
}

// No barrier joins groups, nor threads that take chunks.
TEST(CudaSchedule, RacesBetweenGroups) {
  const std::string grid = "kernel {\n  buffers b0:float32 w, b1:float32 rw\n  ints 1\n  grid v0 < n0 {\n";
  EXPECT_EQ(
      race_of(grid + "    thread v1 < 8 {\n      %0 = load b1[v1]\n      store b0[v0*4 + v1], %0\n    }\n  }\n}\n", {2},
              1),
      "");
  EXPECT_EQ(
      race_of(grid + "    thread v1 < 8 {\n      %0 = load b1[v1]\n      store b0[v0*4 + v1], %0\n    }\n  }\n}\n", {2},
              2),
      race_at("b0[4]"));
  const auto chunks = [&](const std::string& at) {
    return grid +
           "    thread v1 < 8 chunk 4 {\n      lanes v2 < 8 {\n        %0 = load b1[v0*8 + v2]\n        store b1[" +
           at + "], %0\n        store b0[v0*8 + v2], %0\n      }\n    }\n  }\n}\n";
  };
  EXPECT_EQ(race_of(chunks("v0*8 + v2"), {2}, 2), "");
  EXPECT_EQ(race_of(chunks("4 + v0*8 + v2"), {1}, 1), race_at("b1[4]"));
}

// Nor segments: of eight iterations there are two.
TEST(CudaSchedule, RacesBetweenSegments) {
  const auto split = [](const std::string& at) {
    return "kernel {\n  buffers b0:float32 w, b1:float32 w\n  ints 2\n  grid v0 < n0 {\n    %0 = constant float32 0.5\n"
           "    split v1 < n1 {\n      thread v2 < 8 {\n        store b1[v0*64 + " +
           at + "], %0\n        combine b0[v0*8 + v2] add %0 from %0\n      }\n    }\n  }\n}\n";
  };
  EXPECT_EQ(race_of(split("v1*8 + v2"), {2, 8}, 2), "");
  EXPECT_EQ(race_of(split("v2"), {2, 4}, 2), "") << "one segment";
  EXPECT_EQ(race_of(split("v2"), {2, 8}, 2), race_at("b1[0]"));
}

// A row that is written and read again, by the same threads or in reverse; a barrier helps memory, but not registers.
TEST(CudaSchedule, HeldElementsAreOneThreads) {
  const auto rows = [](const std::string& at, const std::string& between) {
    return "kernel {\n  buffers b0:float32 r, b1:float32 rw, b2:float32 w\n  ints 1\n  grid v0 < n0 {\n"
           "    register b1[4]\n    thread v1 < 8 {\n      hold b1[v0*8 + v1]\n      %0 = load b0[v0*8 + v1]\n"
           "      store b1[v0*8 + v1], %0\n    }\n" +
           between + "    thread v2 < 8 {\n      %1 = load b1[" + at +
           "]\n      store b2[v0*8 + v2], %1\n      release b1[v0*8 + v2]\n    }\n  }\n}\n";
  };
  const std::string held = "internal error: a thread touches b1[7], which another keeps in registers";
  EXPECT_EQ(race_of(rows("v0*8 + v2", ""), {3}, 3), "");
  EXPECT_EQ(race_of(rows("7 + v0*8 + v2*-1", "    barrier\n"), {1}, 1), held);
  const std::string released = "    thread v3 < 8 {\n      release b1[v0*8 + v3]\n    }\n    barrier\n";
  EXPECT_EQ(race_of(rows("7 + v0*8 + v2*-1", released), {1}, 1), "");
}

// A staged copy equals memory as long as nobody writes that: here one buffer lies in the memory of the other.
TEST(CudaSchedule, StagedElementsAreNotWritten) {
  const auto error_of = [](const std::string& end) -> std::string {
    const Kernel k = parse_loop(
        "kernel {\n  buffers b0:float32 r, b1:float32 w\n  ints 1\n  grid v0 < n0 {\n"
        "    thread v1 < 8 {\n      stage b0[v0*8 + v1]\n      %0 = load b0[v0*8 + v1]\n" +
        end + "      store b1[v0*8 + v1], %0\n    }\n  }\n}\n");
    verify(k);
    std::vector<float> memory(24, 1);
    void* const buffers[] = {memory.data(), memory.data()};
    const int64_t positions = 3;
    try {
      interpret(k, buffers, &positions, nullptr, nullptr, 0, positions, &cuda::reduce_order());
    } catch (const InternalError& e) {
      const std::string message = e.what();
      return message.substr(0, message.find(", in\n"));
    }
    return "";
  };
  EXPECT_EQ(error_of(""), "internal error: a thread writes b1[0], which is staged in shared memory");
  EXPECT_EQ(error_of("      unstage b0[v0*8 + v1]\n"), "");
}

// While a thread has its chunk of a buffer in registers, it finds nothing else there.
TEST(CudaSchedule, HeldChunksAreOneThreads) {
  const auto columns = [](const std::string& at) {
    return "kernel {\n  buffers b0:float32 r, b1:float32 rw\n  ints 1\n  grid v0 < n0 {\n    thread v1 < 8 chunk 4 {\n"
           "      hold b1[v1]\n      loop v2 < 3 {\n        lanes v3 < 8 {\n          %0 = load b0[v2*8 + v3]\n"
           "          %1 = load b1[" +
           at + "]\n          %2 = add float32 %0, %1\n          store b1[" + at +
           "], %2\n        }\n      }\n      release b1[v1]\n    }\n  }\n}\n";
  };
  EXPECT_EQ(race_of(columns("v3"), {1}, 1), "");
  EXPECT_EQ(race_of(columns("7 + v3*-1"), {1}, 1),
            "internal error: a thread touches b1[7], and keeps other elements of the buffer in registers");
  EXPECT_EQ(race_of(columns("v3"), {2}, 2), race_at("b1[0]"));
}

// An early load has the contents of memory at that time.
TEST(CudaSchedule, EarlyLoadsComeBeforeStores) {
  const auto split = [](const std::string& from, const std::string& ahead) {
    return "kernel {\n  buffers b0:float32 w, b1:float32 rw\n  ints 2\n  grid v0 < n0 {\n    thread v1 < 8 chunk 4 {\n"
           "      split v2 < n1 unroll 2 {\n        lanes v3 < 8 {\n          %0 = load b1[" +
           from + "]" + ahead +
           "\n          store b1[8 + v2*8 + v3], %0\n          combine b0[v0*8 + v3] add %0 from %0\n"
           "        }\n      }\n    }\n  }\n}\n";
  };
  EXPECT_EQ(race_of(split("v2*8 + v3", ""), {1, 4}, 1), "") << "each iteration reads what the one before wrote";
  EXPECT_EQ(race_of(split("v2*8 + v3", " ahead"), {1, 4}, 1),
            "internal error: a load of b1[8] is made before what writes it");
  EXPECT_EQ(race_of(split("8 + v2*8 + v3", " ahead"), {1, 4}, 1), "");
  const auto position = [](const std::string& from) {
    return "kernel {\n  buffers b0:float32 w, b1:float32 rw\n  ints 1\n  grid v0 < n0 {\n    thread v1 < 8 chunk 4 {\n"
           "      lanes v2 < 8 {\n        %0 = constant float32 0.5\n        store b1[v0*8 + v2], %0\n      }\n"
           "      lanes v3 < 8 {\n        %1 = load b1[" +
           from + "v0*8 + v3] ahead\n        store b0[v0*8 + v3], %1\n      }\n    }\n  }\n}\n";
  };
  EXPECT_EQ(race_of(position(""), {2}, 2), "internal error: a load of b1[0] is made before what writes it");
  EXPECT_EQ(race_of(position("64 + "), {2}, 2), "");
}

// A thread may keep what it computed only where the value is the same.
TEST(CudaSchedule, ValuesComputedAgainAreTheSame) {
  const auto rows = [](const std::string& second) {
    return "kernel {\n  buffers b0:float32 r, b1:float32 w\n  ints 1\n  grid v0 < n0 {\n    thread v1 < 8 {\n"
           "      %0 = load b0[v0*8 + v1]\n      %1 = exp float32 %0\n      store b1[v0*8 + v1], %1\n    }\n"
           "    thread v2 < 8 {\n      %2 = load b0[v0*8 + v2]\n      %3 = " +
           second + " float32 %2 again %1\n      store b1[v0*8 + v2], %3\n    }\n  }\n}\n";
  };
  EXPECT_EQ(race_of(rows("exp"), {3}, 3), "");
  EXPECT_EQ(race_of(rows("log"), {3}, 3), "internal error: %3 is computed again, but is another value than %1");
}

// Three loops compute one value: it has registers once.
TEST(CudaSchedule, ValuesAreKeptOnce) {
  std::string text = contents("tests/golden/schedule/long_rows.loop.smir");
  const size_t end = text.rfind("  }\n}\n");
  text.insert(end,
              "    vector v4 < n1 {\n      %10 = load b0[v0*n1 + v4]\n      %11 = sub float32 %10, %1\n"
              "      %12 = exp float32 %11\n      store b1[v0*n1 + v4], %12\n    }\n");
  const cuda::Schedule schedule(parse_loop(text));
  const std::string scheduled = print(schedule.kernel);
  EXPECT_NE(scheduled.find("%8 = exp float32 %7 again %4\n"), std::string::npos) << scheduled;
  EXPECT_NE(scheduled.find("%12 = exp float32 %11 again %4\n"), std::string::npos) << scheduled;
  EXPECT_EQ(schedule.shape.kept_values, std::vector<LocalId>{4});
}

/// Calls `visit` with the kernel without each of its barriers, which is put back.
void without_each_barrier(Kernel& k, std::vector<Stmt>& body, const std::function<void()>& visit) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i].kind == StmtKind::kBarrier) {
      const auto at = body.begin() + static_cast<std::ptrdiff_t>(i);
      const Stmt barrier = *at;
      body.erase(at);
      visit();
      body.insert(body.begin() + static_cast<std::ptrdiff_t>(i), barrier);
    } else {
      without_each_barrier(k, body[i].body, visit);
    }
  }
}

// Rows of two lengths, with a row in shared memory that loops of either read: each barrier is one that there must be,
// as elements of the longer rows are dealt out in fours, and those of the shorter one by one.
TEST(CudaSchedule, NoBarrierIsLeftOut) {
  Kernel k = cuda::Schedule(parse_loop(contents("tests/golden/schedule/two_lengths.loop.smir"))).kernel;
  EXPECT_EQ(race_of(print(k), {2, 64, 63}, 2, 512), "");
  int barriers = 0;
  without_each_barrier(k, k.root.body, [&] {
    ++barriers;
    EXPECT_NE(race_of(print(k), {2, 64, 63}, 2, 512), "") << print(k);
  });
  EXPECT_GE(barriers, 2);
}

// Another thread copies an element to a tile than the one that reads it there, but for the first.
TEST(CudaSchedule, TilesWaitForTheirCopies) {
  Kernel k = cuda::Schedule(golden("transpose")).kernel;
  EXPECT_EQ(race_of(print(k), {40, 50}, 40, 2000), "");
  int barriers = 0;
  without_each_barrier(k, k.root.body, [&] {
    ++barriers;
    EXPECT_EQ(race_of(print(k), {40, 50}, 40, 2000), race_at("b2[33]"));
  });
  EXPECT_EQ(barriers, 1);
}

TEST(CudaSchedule, VerifiesTiles) {
  const auto broken = [](const std::function<void(Kernel&, Stmt & block)>& damage) -> std::string {
    Kernel k = cuda::Schedule(golden("transpose")).kernel;
    damage(k, k.root.body[0]);
    try {
      verify(k);
    } catch (const InternalError& e) {
      const std::string m = e.what();
      return m.substr(m.rfind("}\n") + 2);
    }
    return "";
  };
  EXPECT_EQ(broken([](Kernel&, Stmt&) {}), "");
  EXPECT_EQ(broken([](Kernel& k, Stmt&) { k.root.body.emplace_back().kind = StmtKind::kBarrier; }),
            "a block is not all that is in a grid");
  EXPECT_EQ(broken([](Kernel&, Stmt& block) { block.chunk = 0; }),
            "a block is of a known number of positions and elements");
  EXPECT_EQ(broken([](Kernel&, Stmt& block) { block.body[1].across = 0; }),
            "threads that take no chunks go across the positions of a block, and of nothing else");
  EXPECT_EQ(broken([](Kernel& k, Stmt&) { k.buffers[0].dtype = DType::kInt32; }),
            "a copy is of one dtype, from what is read to what is written, in a loop over elements");
}

TEST(CudaSchedule, VerifiesWhatIsScheduled) {
  const auto broken = [](const std::function<void(Kernel&)>& damage) -> std::string {
    Kernel k = cuda::Schedule(golden("gelu")).kernel;
    damage(k);
    try {
      verify(k);
    } catch (const InternalError& e) {
      const std::string m = e.what();
      return m.substr(m.rfind("}\n") + 2);
    }
    return "";
  };
  Stmt barrier{};
  barrier.kind = StmtKind::kBarrier;
  EXPECT_EQ(broken([](Kernel&) {}), "");
  EXPECT_EQ(broken([&](Kernel& k) { k.root.body.push_back(barrier); }), "");
  EXPECT_EQ(broken([&](Kernel& k) { k.root.body[0].body.push_back(barrier); }),
            "a barrier where not all threads of a group come");
  EXPECT_EQ(broken([](Kernel& k) { k.root.body[0].body[0].kind = StmtKind::kVector; }),
            "a vector loop in a scheduled kernel");
  EXPECT_EQ(broken([](Kernel& k) { k.root.body = std::vector<Stmt>(k.root.body[0].body); }),
            "lanes are in no thread loop of chunks");
  Stmt row{};
  row.kind = StmtKind::kShared;
  EXPECT_EQ(broken([&](Kernel& k) { k.root.body.insert(k.root.body.begin(), row); }), "");
  EXPECT_EQ(broken([&](Kernel& k) { k.root.body[0].body.push_back(row); }), "a row is shared in a loop, or in no grid");
}

TEST(CudaSchedule, VerifiesWhereElementsAreKept) {
  const auto broken = [](const std::string& name, const std::string& what, const std::string& with) -> std::string {
    std::string text = contents("tests/golden/schedule/" + name + ".smir");
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), with);
    try {
      verify(parse_loop(text));
    } catch (const InternalError& e) {
      const std::string m = e.what();
      return m.substr(m.rfind("}\n") + 2);
    }
    return "";
  };
  EXPECT_EQ(broken("softmax", "hold b0[v0*n1 + v1]", "hold b0[v1]"), "");
  EXPECT_EQ(broken("softmax", "register b0[32]", "register b1[32]"),
            "an element is held that there are no registers for");
  EXPECT_EQ(broken("softmax", "register b0[32]", "register b0[n1]"),
            "registers are for no known number of elements of a grid's positions");
  EXPECT_EQ(broken("softmax", "hold b0[v0*n1 + v1]", "stage b0[v0*n1 + v1]"),
            "an element is released that is not held");
  EXPECT_EQ(broken("softmax", "    acc a0", "    hold b0[v0]\n    acc a0"),
            "an element is kept where threads do not share out a row");
  EXPECT_EQ(broken("long_rows", "stage b0[v0*n1 + v1]", "stage b1[v0*n1 + v1]"),
            "an element is staged that is written");
  EXPECT_EQ(broken("long_rows", "      stage b0[v0*n1 + v1]\n", ""), "an element is unstaged that is not staged");
  EXPECT_EQ(broken("long_rows", "again %4", "again %2"), "");
  EXPECT_EQ(broken("long_rows", "again %4", "again %7"), "a value is computed again that no earlier loop computed");
  EXPECT_EQ(broken("long_rows", "again %4", "again %99"), "a value is computed again that no earlier loop computed");
  EXPECT_EQ(broken("largest_of_columns", "hold b1", "stage b1"),
            "an element is kept where threads do not share out a row");
  EXPECT_EQ(broken("largest_of_columns", "    loop", "    lanes v9 < n1 {\n    }\n    loop"), "");
  EXPECT_EQ(
      broken("scaled_rows", "        store", "        %8 = index v0\n        %9 = load b1[%8] ahead\n        store"),
      "a load is made early whose address is not known by then");
  EXPECT_EQ(broken("scaled_rows", "      lanes", "      loop v9 < 1 {\n      }\n      lanes"),
            "a coarsened loop is of more than a loop over lanes and what is before it");
}

}  // namespace
}  // namespace smolder::jit::test
