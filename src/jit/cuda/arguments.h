// The arguments of a call: the struct that the generator declares and the launch fills, in one list.
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
    kSlots,      ///< by column: where segments are in shared memory
    kMemory,     ///< by column: the device's memory for them instead, or 0
    kSlotSize,   ///< by column: elements of one
    kCommonRow,  ///< by common row and by staged row of the shape: where in shared memory
    kStagedRow,
    kBlocks,
    kSegment,   ///< iterations of a segment
    kGroups,    ///< that share the segments of a position
    kSegments,  ///< of a round
    kChunks,    ///< that a thread takes one after the other
    kLanes,     ///< by thread loop: threads that have elements of it
  };
  Kind kind;
  size_t index;             ///< in what the kind says, else 0
  std::string declaration;  ///< type and name
};

/// The arguments of a scheduled kernel.
std::vector<Argument> arguments_of(const Kernel& k, const KernelShape& shape);

}  // namespace smolder::jit::cuda
