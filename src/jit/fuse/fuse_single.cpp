// Fusion left out: one kernel a primitive. Fused plans are compared with these, bit for bit.
#include "smolder/jit/fuse/fuse.h"

#include <algorithm>

#include "smolder/jit/attributes.h"
#include "smolder/jit/fuse/fuse_domain.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::Op;
using ir::ValueId;

namespace {

/// One kernel a primitive: the reference that fused plans are compared with.
class Singles {
 public:
  explicit Singles(Program& p) : p_(p), g_(p.graph), wanted_(g_.nodes.size(), false) {}

  void run() {
    for (const ValueId v : g_.outputs) want(v);
    for (size_t i = g_.nodes.size(); i-- > 0;) {
      if (!wanted_[i]) continue;
      for (const ValueId x : g_.nodes[i].inputs) want(x);
    }
    for (ir::NodeId i = 0; i < g_.nodes.size(); ++i) {
      if (wanted_[i]) add(i);
    }
    // Numbers and reshapes live where they are used, unless somebody asks for them.
    for (const ValueId v : g_.outputs) {
      const ValueId root = alias_root(v);
      if (p_.group_of[root] < 0 && g_.op(root) != Op::kLeaf) kernel(g_.info(root).node);
    }
  }

 private:
  void want(ValueId v) {
    if (v != ir::kNone) wanted_[g_.info(v).node] = true;
  }
  ValueId alias_root(ValueId v) const {
    while (is_alias(g_.op(v)) && p_.group_of[v] < 0) v = g_.producer(v).inputs[0];
    return v;
  }

  void add(ir::NodeId i) {
    const ir::Node& n = g_.nodes[i];
    if (n.op == Op::kLeaf || is_number(g_, n.first_output)) return;
    if (is_alias(n.op)) {
      // The bytes of a value that has its own memory; a strided leaf is copied.
      const ValueId root = alias_root(n.inputs[0]);
      const bool strided = g_.op(root) == Op::kLeaf && !leaf_is_contiguous(root);
      if (!strided && (p_.group_of[root] >= 0 || g_.op(root) == Op::kLeaf)) return;
    }
    is_library(n.op) ? library(i) : kernel(i);
  }

  bool leaf_is_contiguous(ValueId v) const {
    StridedView view{v, g_.shape(v), LeafAttributes(g_.producer(v)).strides, 0};
    return is_contiguous(p_.graph.sym, view);
  }

  void kernel(ir::NodeId i) {
    const ir::Node& n = g_.nodes[i];
    Group group;
    group.domain = domain_of(p_, i);
    group.sinks = {n.first_output};
    if (is_reduction(g_, n)) group.reductions = {i};
    append(std::move(group));
  }

  void library(ir::NodeId i) {
    Group group;
    group.kind = Group::kLibrary;
    group.node = i;
    for (int k = 0; k < g_.nodes[i].num_outputs; ++k) group.sinks.push_back(g_.nodes[i].first_output + k);
    append(std::move(group));
  }

  void append(Group group) {
    for (const ValueId v : group.sinks) p_.group_of[v] = static_cast<GroupId>(p_.groups.size());
    p_.groups.push_back(std::move(group));
  }

  Program& p_;
  const ir::Graph& g_;
  std::vector<bool> wanted_;
};

}  // namespace

void one_kernel_each(Program& program) {
  program.groups.clear();
  program.group_of.assign(program.graph.values.size(), -1);
  Singles(program).run();
}

}  // namespace smolder::jit
