// The user's source lines: captured as small tokens when an op is recorded, resolved only when
// somebody asks. The Python module installs a provider that tokenises (code object, instruction).
#pragma once

#include <cstdint>
#include <string>

namespace smolder {

/// Names a place in the user's program; 0 is unknown.
using SourceToken = uint32_t;

/// How tokens are made and read. `capture` may run the user's code (a collection) and is called with no lock
/// of Smolder held; `resolve` is called under any, and must not take the GIL.
struct SourceProvider {
  SourceToken (*capture)();
  std::string (*resolve)(SourceToken);
};
void set_source_provider(SourceProvider provider);

/// Token of the line that is running, 0 when no provider is installed.
SourceToken capture_source();
/// "train.py:12 in forward", or empty when unknown.
std::string resolve_source(SourceToken token);

}  // namespace smolder
