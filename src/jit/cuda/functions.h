// The elementwise primitives as functions of CUDA C++: ir/scalar, instantiated for text. A program holds those that its
// kernels call, each once.
#pragma once

#include <map>
#include <string>

#include "smolder/core/dtype.h"
#include "smolder/core/scalar.h"
#include "smolder/ir/op.h"
#include "smolder/ir/scalar/builder.h"

namespace smolder::jit::cuda {

class Functions {
 public:
  /// Name of the function of a primitive in the arithmetic of dtype `t`; a half is not rounded yet.
  std::string primitive(ir::Op op, DType t);
  /// The function of a cast between dtypes that are not halves.
  std::string cast(DType from, DType to);
  /// `random_bits`, and what fills lanes at consecutive positions with it, which share four numbers a counter.
  std::string random_bits();
  /// exp of float32, with the device's own instructions.
  std::string exp();
  std::string exp_lanes();
  std::string extremum(ir::Op op);
  /// The extremum of a float32 and all elements of a pack of halves, which are compared two by two.
  std::string extremum_of_pack(ir::Op op, DType half);
  std::string div_lanes();
  /// Divides positions next to each other by one size.
  std::string divider();
  std::string random_lanes();
  /// Tells of an index out of range (device/report.cuh); and of the first of some lanes that is.
  std::string report();
  std::string report_lanes();
  /// The function of a primitive with a rare case, which several lanes branch around together; "" for others.
  std::string rare_lanes(ir::Op op, DType t);

  /// All that were asked for.
  const std::string& text() const { return text_; }

 private:
  /// The function that ir/scalar says.
  std::string formula(ir::Op op, DType t);
  std::string with_instructions(ir::Op op, const char* text);
  static std::string four(const std::string& function);
  /// `is_rare`: so seldom called that it is not worth the compiler's time to write it out at each call.
  std::string define(const std::string& name, DType result, int arity, const DType* operands, auto&& emit,
                     bool is_rare = false);

  std::map<std::string, bool> defined_;
  std::string text_;
};

/// How a value of dtype `t` lies in a register and in memory.
ir::scalar::LaneType register_lane(DType t);
ir::scalar::LaneType storage_lane(DType t);
/// A number as a register of `t` holds it: its bits.
uint64_t register_bits(Scalar v, DType t);

}  // namespace smolder::jit::cuda
