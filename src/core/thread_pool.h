// One pool for everything: generated kernels, library calls and eager kernels share it, so that no
// two runtimes spin against each other on the same cores.
#pragma once

#include <cstdint>
#include <type_traits>

namespace smolder {

/// Number of threads work is spread over, the caller included. Default: SMOLDER_NUM_THREADS, else
/// the processors this process may use (its affinity and its control group's quota). Throws ValueError
/// when the variable is not a whole number from 1 to 1024.
int num_threads();
/// Changes it; waits for a running parallel_for. Throws ValueError when n is not 1 to 1024, and
/// RuntimeError inside a parallel region.
void set_num_threads(int n);
/// True on a worker, and on a caller while it runs its share of a parallel_for.
bool in_parallel_region();

/// Plain function and context, so a call costs no allocation.
using RangeFn = void (*)(void* context, int64_t begin, int64_t end);

/// Calls `fn` on disjoint ranges that cover [0, n), each a multiple of `grain` long but the last, from
/// several threads, the caller being one; returns when all are done. Ranges depend on n, grain and the
/// thread count, so `fn` must give the same bits however [0, n) is cut. Runs inline when n <= grain,
/// when called from inside a parallel region, and when another thread is using the pool. The first
/// exception thrown by `fn` is rethrown here, and ranges not begun by then are skipped. Idle workers
/// spin about 100 us, then park.
void parallel_for(int64_t n, int64_t grain, RangeFn fn, void* context);

/// The same with a callable `void(int64_t begin, int64_t end)`.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  parallel_for(
      n, grain, [](void* c, int64_t b, int64_t e) { (*static_cast<std::remove_reference_t<F>*>(c))(b, e); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

/// After fork a child has no workers; this restarts them on next use. The pool is told of forks,
/// so there is no need to call it. A child forked inside a parallel region may only exec or exit.
void reset_pool_after_fork();

}  // namespace smolder
