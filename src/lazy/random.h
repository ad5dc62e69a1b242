// Where random ops take their numbers from: a seed, and an offset that grows as ops are recorded.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "smolder/core/fork.h"
#include "smolder/core/scalar.h"

namespace smolder {

/// A stream of random numbers. Counter-based: which numbers an op gets depends on the seed and on the
/// ops recorded before it, never on when or how they run. Thread-safe.
class Generator {
 public:
  explicit Generator(uint64_t seed = 67280421310721) : seed_(seed) {}
  /// Restarts the stream.
  void manual_seed(uint64_t seed);
  /// Restarts the stream from a seed that nobody can guess, which it returns.
  uint64_t seed();
  uint64_t initial_seed() const;
  /// Seed and offset; what `set_state` takes.
  std::pair<uint64_t, uint64_t> state() const;
  void set_state(std::pair<uint64_t, uint64_t> state);
  /// Seed and offset for an op of `elements` elements, and moves past what it may use: two words of 32
  /// bits an element, four words a block.
  std::pair<Scalar, Scalar> take(int64_t elements);
  /// Moves on by so much at once, as ops did when they were recorded. Returns where it was.
  std::pair<uint64_t, uint64_t> advance(uint64_t by);
  /// Goes to an offset of its stream, for who records ops that may run once, several times, or never.
  void go_to(uint64_t offset);

 private:
  friend class DrawLog;
  mutable ForkMutex mutex_;
  uint64_t seed_, offset_ = 0;
  const std::shared_ptr<const char> alive_ = std::make_shared<const char>();
};

/// The draws of this thread since its last step: a step that fails gives them back. None in eager mode.
class DrawLog {
 public:
  /// `generator` is about to be moved on.
  static void note(Generator& generator);
  struct Before {
    Generator* generator;
    std::weak_ptr<const char> alive;
    uint64_t seed, offset;
  };
  using Draws = std::vector<Before>;
  /// The step has run. Returns what it drew.
  static Draws forget();
  /// It failed.
  static void undo() { undo(forget()); }
  static void undo(const Draws& draws);

 private:
  static Draws& of_thread();
};

/// The generator of random functions when none is named.
Generator& default_generator();
/// Draws for an op of `elements` elements from a generator, or from the default one.
inline std::pair<Scalar, Scalar> draw_from(Generator* generator, int64_t elements) {
  return (generator ? *generator : default_generator()).take(elements);
}
/// Restarts the default generator.
void manual_seed(uint64_t seed);

}  // namespace smolder
