#include "smolder/core/precision.h"

#include <atomic>

namespace smolder {
namespace {

std::atomic<Precision> g_precision{Precision{}};

}  // namespace

Precision precision() { return g_precision.load(std::memory_order_acquire); }
void set_precision(const Precision& p) { g_precision.store(p, std::memory_order_release); }

}  // namespace smolder
