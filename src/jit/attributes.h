// Attributes of the primitives that the compiler looks into, read from a node's words.
#pragma once

#include "smolder/core/scalar.h"
#include "smolder/ir/attrs.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/graph.h"

namespace smolder::jit {

struct LeafAttributes {
  int number;
  ir::Dim offset;
  ir::SymDims strides;
  explicit LeafAttributes(const ir::Node& n) {
    ir::NodeAttrReader r(n.attrs);
    number = static_cast<int>(r.integer());
    offset = r.size();
    strides = r.sizes();
  }
};

struct ParameterAttributes {
  int number;
  Category category;
  explicit ParameterAttributes(const ir::Node& n)
      : number(static_cast<int>(n.attrs[0].value)), category(static_cast<Category>(n.attrs[1].value)) {}
};

inline Scalar constant_of(const ir::Node& n) {
  return Scalar::from_bits(static_cast<uint64_t>(n.attrs[1].value), static_cast<Category>(n.attrs[0].value));
}

struct ReduceAttributes {
  ir::ReduceKind kind;
  int axis;
  ir::Dim chunk;
  explicit ReduceAttributes(const ir::Node& n)
      : kind(static_cast<ir::ReduceKind>(n.attrs[0].value)),
        axis(static_cast<int>(n.attrs[1].value)),
        chunk(n.attrs[2]) {}
};

struct SliceAttributes {
  int axis;
  ir::Dim start, stop;
  int64_t step;
  explicit SliceAttributes(const ir::Node& n)
      : axis(static_cast<int>(n.attrs[0].value)), start(n.attrs[1]), stop(n.attrs[2]), step(n.attrs[3].value) {}
};

struct PadAttributes {
  ir::SymDims low, high;
  double fill;
  explicit PadAttributes(const ir::Node& n) {
    ir::NodeAttrReader r(n.attrs);
    low = r.sizes();
    high = r.sizes();
    fill = r.real();
  }
};

/// Axes of permute and flip.
inline Dims axes_of(const ir::Node& n) { return ir::NodeAttrReader(n.attrs).integers(); }
/// The axis of cat, take, gather, index_add, scatter_add and scan.
inline int axis_of(const ir::Node& n) { return static_cast<int>(n.attrs[0].value); }
/// The axis of iota, which follows its shape.
inline int iota_axis(const ir::Node& n) { return static_cast<int>(n.attrs.back().value); }

}  // namespace smolder::jit
