// The step of a captured function (capture.h), as a tape runs it again.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "smolder/core/scalar.h"
#include "smolder/lazy/trace.h"

namespace smolder {
class Generator;
}

namespace smolder::lazy {

class Tape;
struct Value;

/// Where a value comes from when a captured step is run again.
struct ValueSource {
  enum Kind : uint8_t {
    kInput,     ///< what an input holds
    kConstant,  ///< made by the function from data that is the same each time
    kResult,    ///< what the step computes, by its place among what is wanted of it
    kGiven,     ///< a gradient that the backward is given
    kGradient,  ///< what the backward computes, likewise
  };
  Kind kind = kInput;
  uint32_t index = 0;
};
using Sources = std::unordered_map<const Value*, ValueSource>;

/// A parameter of a step that is another number each time.
struct NumberPatch {
  enum Kind : uint8_t { kSeed, kOffset, kRunTime };
  uint32_t parameter = 0;
  Kind kind = kRunTime;
  uint32_t index = 0;  ///< of a draw, or of a run-time number
  Category category = Category::kInt;
};

/// The numbers that an op took from a generator, relative to where that was when the function was called, unless it was
/// seeded since.
struct Draw {
  uint32_t generator = 0;
  bool relative = true;
  uint64_t seed = 0, offset = 0;
};

/// The effect of a function on a generator.
struct GeneratorUse {
  Generator* generator = nullptr;
  bool relative = true;
  uint64_t seed = 0, offset = 0;  ///< where it is afterwards
};

/// A recorded step that can be run again.
struct StepRecord {
  Tape* tape = nullptr;  ///< null: nothing was recorded, and nothing runs
  std::shared_ptr<Trace> trace;
  uint64_t forgotten = 0;  ///< Tape::forgotten() when it was recorded
  std::vector<ValueSource> leaves;
  std::vector<uint64_t> parameters;
  std::vector<NumberPatch> patches;
  std::vector<uint32_t> wanted;  ///< numbers of the values that are needed afterwards

  /// Whether the tape still has what it knew then.
  bool known() const;
  /// The place of value `number` among those wanted, which it joins.
  uint32_t want(uint32_t number);
};

}  // namespace smolder::lazy
