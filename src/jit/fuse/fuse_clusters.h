// Clusters: nodes that will be one kernel, while fusion grows them.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "smolder/jit/fuse/fuse_graph.h"

namespace smolder::jit {

class Clusters {
 public:
  Clusters(Program& program, const FuseGraph& graph);

  /// Merges along edges, most bytes first.
  void merge_edges();
  /// Merges clusters of equal space that read the same value or results of one kernel.
  void merge_siblings();
  /// Decides what is written and makes the program's groups (fuse_store.cpp).
  void make_groups();

 private:
  /// Cost of an element beyond which nothing more joins a kernel: a body of hundreds of sines takes a minute to
  /// compile.
  static constexpr double kMaxWork = 32;
  /// Cost of loading what another load of the kernel has brought to the cache.
  static constexpr double kNearLoad = 0.03;
  /// Bytes of a value whose sharing saves no more than a launch, and the members of a kernel from which on that is not
  /// worth the time to compile it: what is alike, as losses that are added up or updates of an optimizer by one norm,
  /// is compiled once where it is apart.
  static constexpr int64_t kTiny = 256;
  static constexpr size_t kTinyMembers = 32;
  /// Reductions one after the other beyond which nothing more joins: each is a loop of its own, which computes anew
  /// what it needs of those before.
  static constexpr int kMostPhases = 8;
  /// Clusters that a search comes by until it gives up, and how many of the order may lie between for it to go so far:
  /// from the first turns of a long loop to its gradients there are thousands.
  static constexpr int kSearchLimit = 512, kFarSearchLimit = 16, kFar = 1024;
  static constexpr ir::NodeId kNear = 64;

  static constexpr int kNoPhase = 1 << 30;
  struct Cluster {
    std::vector<ir::NodeId> members;
    double work = 0;  ///< cost of an element of all members
    Space space;
    ir::NodeId first = 0, last = 0;  ///< in program order
    int rank = 0;                    ///< place in `order_`
    /// How many reductions its own come after, at least and at most, one after the other.
    int first_phase = kNoPhase, last_phase = -1;
    bool library = false;
    bool sealed = false;         ///< merges with nothing
    bool needs_extents = false;  ///< a member's index depends on where the boundaries between extents are
    std::vector<int> moved;      ///< edges inside it that move elements
    int moved_reads = 0;         ///< operands that its members read in another order or place
    int repeats = 0;             ///< how often members are computed, or memory is read, at another position (Repeats)
    double repeat_cost = 0;      ///< and the cost of an element of that
    int visit = 0;
    bool reduces_here(const Program& p, ir::NodeId i) const;
  };
  struct Combined {
    Space space;
    bool sink_a = false, sink_b = false;  ///< the members of a, of b, are computed once a row
    std::vector<int> moved;               ///< edges inside of both together that move elements
    int repeats = 0;
    double repeat_cost = 0;
  };
  struct Refusal {
    int edge;
    const char* why;
  };
  static constexpr const char* kTooLarge = "its elements are moved, and its kernel would be too large";
  static constexpr const char* kTooCostly = "its elements are moved, and computing them again takes longer than memory";
  /// Values that a kernel computes at other elements than the one its loops are at, as it moves them.
  struct Repeats {
    std::vector<std::pair<ir::NodeId, Position>> computed;
    int count = 0;  ///< of these, and of loads
    double cost = 0;
  };

  ir::NodeId find(ir::NodeId i) const;
  bool result_is_row(ir::NodeId i) const;
  /// Are they of one loop that the program unrolled, but not as many turns? Kernels of one turn, of two and of four
  /// serve loops of any length.
  bool are_uneven_turns(ir::NodeId a, ir::NodeId b) const;
  bool is_large_enough(ir::NodeId a, ir::NodeId b, int64_t shared_bytes) const;
  const char* try_merge(const Edge& e);
  const char* try_merge_siblings(ir::NodeId a, ir::NodeId b, ir::ValueId shared);
  const char* combine(const Edge& e, Combined& out);
  const char* blocked_between(ir::NodeId a, ir::NodeId b, std::vector<int>& moved);
  /// The repeats of a kernel of clusters a and b (which may be one), in which these edges move elements. Empty where
  /// they are more than a kernel may have.
  std::optional<Repeats> repeats_of(ir::NodeId a, ir::NodeId b, const std::vector<int>& moved);
  const char* repeats_too_much(ir::NodeId a, ir::NodeId b, Combined& how, int64_t shared_bytes);
  bool hangs_on_reduction(ir::NodeId node, ir::NodeId a, ir::NodeId b);
  bool is_kept_apart(ir::ValueId v) const { return apart_[v]; }
  const char* parallelism_lost(ir::NodeId a, ir::NodeId b, const Space& s) const;
  /// Is there a way from a to b over others? `a` comes before `b` in the order.
  bool path_around(ir::NodeId a, ir::NodeId b);
  /// Gives two clusters one place in the order. The last search was path_around(a, b), and found none.
  void stand_together(ir::NodeId a, ir::NodeId b);
  bool near(ir::NodeId a, ir::NodeId b, ir::ValueId shared) const;
  void join(ir::NodeId a, ir::NodeId b, Combined how);

  // -- fuse_store.cpp
  void decide_stores();
  struct Tree;
  struct Reading;
  void grow(ir::ValueId v, Position at, Tree& tree) const;
  std::vector<Reading> readings_of(const std::vector<const Edge*>& readers);
  const char* stored_for(ir::ValueId v, const std::vector<const Edge*>& readers);
  ir::ValueId relu_beside(ir::ValueId v) const;
  bool reads(ir::NodeId cluster, ir::ValueId v) const;
  ir::NodeId last_reader(ir::ValueId v) const;
  void order_groups();

  /// Nodes of a kernel. A device's compiler takes half a second for the slowest of 64, six times that for those of 256.
  size_t max_members() const { return p_.options.device == DeviceType::kCPU ? 256 : 64; }
  /// Statements of a kernel: members, and what is computed again for them, at each position.
  int max_statements() const { return p_.options.device == DeviceType::kCPU ? 256 : 128; }
  /// Those that finding one moved element takes: its index, whether there is one, the load. A device's compiler takes
  /// twice as long for these: each lane of such a load is a branch, and they are written for chunks of two kinds.
  int moved_statements() const { return p_.options.device == DeviceType::kCPU ? 3 : 6; }

  Program& p_;
  const FuseGraph& f_;
  std::vector<bool> apart_;  ///< by value: no kernel reads it that makes it
  mutable std::vector<ir::NodeId> parent_;
  std::vector<Cluster> clusters_;
  /// Clusters, each after what it needs; kNone where one was that has been merged. Spans of members in program order
  /// don't bound a search: a way may lead over what begins after its end, where a cluster on it has members that are
  /// far apart.
  std::vector<ir::NodeId> order_;
  std::vector<bool> row_level_;  ///< by node: computed once a row of its cluster
  std::vector<Refusal> refused_;
  std::unordered_set<uint64_t> seen_;  ///< by repeats_of
  std::vector<bool> stored_;           ///< by value
  std::vector<int> statements_;        ///< by cluster
  /// By cluster that moves elements within itself: which members are computed at which other positions, in order.
  std::unordered_map<ir::NodeId, std::vector<std::pair<ir::NodeId, Position>>> repeated_;
  std::vector<int> crossing_;    ///< by cluster: values that others, or nobody here, read
  std::vector<int> node_visit_;  ///< by node: the last search that came by
  int visit_ = 0;
};

}  // namespace smolder::jit
