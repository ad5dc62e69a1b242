// The tape's knowledge of earlier steps. Private to the tape.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "smolder/lazy/operand.h"
#include "smolder/lazy/trace.h"

namespace smolder::lazy {

/// A number for a step that no other has.
uint64_t next_epoch();

/// Whether a value of an earlier step can be read; it can't when the step failed.
inline bool has_memory(const Value& v) { return v.buffer || numel(v.meta->shape) == 0; }

struct Known {
  struct Branch {
    Trace* trace;
    size_t position;
  };
  std::vector<std::shared_ptr<Trace>> traces;  ///< oldest first
  /// First instruction after each divergence, by the hash of the prefix that ends with it.
  std::unordered_map<Hash128, std::vector<Branch>> branches;
  /// Whole traces by their last prefix hash.
  std::unordered_map<Hash128, std::vector<Trace*>> by_hash;
  /// Plans by the structure they were compiled from; the bytes themselves are the key.
  std::unordered_map<std::string, std::vector<std::shared_ptr<const jit::Plan>>> plans;
  /// Likewise those that are compiled behind the program, until they are used.
  std::unordered_map<std::string, std::shared_ptr<PlanJob>> awaited;
  /// Plans that a step waited for and no other has used yet: see Patience.
  std::unordered_set<const jit::Plan*> used_once;
};

}  // namespace smolder::lazy
