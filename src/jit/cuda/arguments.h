// What a call of a kernel is told: the struct that the generator declares and the launch fills, in one list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit::cuda {

struct KernelShape;

/// Eight bytes of a call's arguments.
struct Argument {
  enum Kind : uint8_t {
    kBuffer,   ///< by buffer: its address, or of a shared row its offset
    kInt,      ///< by integer
    kScalars,  ///< addresses
    kErrors,
    kPositions,
    kTiles,
    kStep,       ///< by buffer, a shared row: bytes from one group's to the next's; negative in shared memory
    kSlots,      ///< by column: where strips are in shared memory
    kMemory,     ///< by column: the device's memory for them instead, or 0
    kSlotSize,   ///< by column: elements of one
    kSharedRow,  ///< by shared row of the shape, and by near row: where in shared memory
    kNearRow,
    kBlocks,
    kStrip,   ///< iterations of a strip
    kGroups,  ///< of the team of a position
    kStrips,  ///< of a round
    kChunks,  ///< that a thread takes one after the other
    kLanes,   ///< by thread loop: threads that have elements of it
  };
  Kind kind;
  size_t index;             ///< in what the kind says, else 0
  std::string declaration;  ///< type and name
};

/// Of a scheduled kernel.
std::vector<Argument> arguments_of(const Kernel& k, const KernelShape& shape);

}  // namespace smolder::jit::cuda
