// Collectives as recorded ops. Each takes a token and gives the next: so plans keep all of them, in the order of the
// program.
#pragma once

#include <string>
#include <vector>

#include "smolder/distributed/group.h"
#include "smolder/lazy/tensor.h"

namespace smolder::distributed {

/// Arguments of a call beside its tensor. `detail` is, by name:
///   all_reduce                        the reduction
///   reduce_scatter                    the reduction, then the pieces
///   reduce                            the reduction, the root
///   broadcast, gather, scatter        the root
///   all_to_all                        how many elements go to each rank, then how many come from each
///   send, receive                     the peer (-1: any), the tag
///   all_gather                        the pieces
///   barrier                           nothing
/// Ranks are those of the group. `shape` is the result's.
///
/// Pieces are how many elements of each of several tensors a rank has: their parts lie one behind the other on the
/// rank, and each tensor's parts of all ranks lie together, in the order of ranks, where the whole tensors are. No
/// pieces: one of all elements.
struct CollectiveCall {
  std::string name;
  int64_t group = 0;
  std::vector<int64_t> detail, shape;
};

/// Records the collective: the result is there when it is done. `x` has this rank's part, and the result's dtype.
Tensor record_collective(const CollectiveCall& call, const Tensor& x);
/// Records that it begins. The steps after it run meanwhile; `record_finish` of what this returns waits for it, and is
/// given the same call and `x`, which a device reads until then.
Tensor record_begin(const CollectiveCall& call, const Tensor& x);
Tensor record_finish(const CollectiveCall& call, const Tensor& begun, const Tensor& x);

/// Who sent what was received last, by its rank in the group; -1 where nothing was. Runs what is recorded.
int64_t last_sender();
/// Has the ops, as the first group that is made does.
void define_collectives();
/// Whether a collective is recorded that has not run.
bool collectives_pending();
/// Forgets what was begun and never finished. When there is no group left.
void forget_begun();

}  // namespace smolder::distributed
