#include "smolder/core/running_source.h"

#include <utility>

#include "smolder/core/per_thread.h"

namespace smolder {
namespace {

SourceToken& running() {
  static const PerThread<SourceToken> source;
  return *source;
}

}  // namespace

SourceToken running_source() { return running(); }
RunningSource::RunningSource(SourceToken source) : outer_(std::exchange(running(), source)) {}
RunningSource::~RunningSource() { running() = outer_; }

}  // namespace smolder
