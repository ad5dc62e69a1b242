#include "smolder/core/source_line.h"

#include <atomic>

namespace smolder {
namespace {

std::atomic<SourceToken (*)()> g_capture{nullptr};
std::atomic<std::string (*)(SourceToken)> g_resolve{nullptr};

}  // namespace

void set_source_provider(SourceProvider provider) {
  g_capture.store(provider.capture);
  g_resolve.store(provider.resolve);
}

SourceToken capture_source() {
  const auto capture = g_capture.load(std::memory_order_relaxed);
  return capture ? capture() : 0;
}

std::string resolve_source(SourceToken token) {
  const auto resolve = g_resolve.load(std::memory_order_relaxed);
  return resolve && token ? resolve(token) : std::string();
}

}  // namespace smolder
