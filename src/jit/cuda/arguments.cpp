#include "smolder/jit/cuda/arguments.h"

#include <utility>

#include "smolder/jit/cuda/functions.h"
#include "smolder/jit/cuda/shape.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

std::vector<Argument> arguments_of(const Kernel& k, const KernelShape& shape) {
  std::vector<Argument> all;
  const auto add = [&](Argument::Kind kind, std::string declaration, size_t index = 0) {
    all.push_back({kind, index, std::move(declaration)});
  };
  const auto word = [&](Argument::Kind kind, const char* name, size_t index, int number) {
    add(kind, std::string("i64 ") + name + std::to_string(number), index);
  };
  const size_t buffers = k.buffers.size(), ints = static_cast<size_t>(k.num_ints);
  for (size_t b = 0; b < buffers; ++b) {
    if (k.buffers[b].space != MemorySpace::kGlobal) continue;
    add(Argument::kBuffer, std::string(type_name(storage_lane(k.buffers[b].dtype))) + "* b" + std::to_string(b), b);
  }
  for (size_t i = 0; i < ints; ++i) word(Argument::kInt, "n", i, static_cast<int>(i));
  add(Argument::kScalars, "const u64* scalars");
  add(Argument::kErrors, "u32* errors");
  add(Argument::kPositions, "i64 positions");
  add(Argument::kTiles, "i64 tiles");
  for (size_t b = 0; b < buffers; ++b) {
    if (shared_row(k, static_cast<int>(b))) word(Argument::kStep, "step", b, static_cast<int>(b));
  }
  for (size_t i = 0; i < shape.sums.size(); ++i) {
    const int b = shape.sums[i].buffer;
    word(Argument::kSlots, "slots", i, b);
    word(Argument::kMemory, "memory", i, b);
    word(Argument::kSlotSize, "slot_size", i, b);
  }
  for (size_t i = 0; i < shape.common_rows.size(); ++i)
    word(Argument::kCommonRow, "row", i, shape.common_rows[i].buffer);
  for (size_t i = 0; i < shape.staged_rows.size(); ++i)
    word(Argument::kStagedRow, "staged", i, shape.staged_rows[i].buffer);
  if (shape.staged_blocks > 0) add(Argument::kBlocks, "i64 blocks");
  if (shape.split) {
    add(Argument::kSegment, "i64 segment");
    shape.chunk_loop ? add(Argument::kGroups, "i64 groups") : add(Argument::kSegments, "i64 segments");
  }
  if (shape.chunk_loop && shape.chunk_loop->coarsened) add(Argument::kChunks, "i64 chunks");
  for (size_t i = 0; shape.separate_lanes && i < shape.thread_loops.size(); ++i) {
    word(Argument::kLanes, "lanes", i, shape.thread_loops[i]->vars[0]);
  }
  return all;
}

}  // namespace smolder::jit::cuda
