// Modules that change the size of images, add elements around them, or deal their channels anew.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smolder/nn/module.h"

namespace smolder::nn {

struct UpsampleOptions {
  std::vector<int64_t> size = {};  ///< one for all, or one for each dimension
  std::vector<double> scale_factor = {};
  std::string mode = "nearest";
  bool align_corners = false;
};

/// Signals, images or volumes [N, C, ...] in another size, given or by factors of the one they have.
class UpsampleImpl : public Module {
 public:
  /// Throws ValueError unless exactly one of size and scale_factor is given.
  explicit UpsampleImpl(UpsampleOptions options);
  Tensor forward(const Tensor& x) const;

 private:
  UpsampleOptions options_;
};
SMOLDER_MODULE(Upsample);

/// Channels [..., C * r * r, H, W] spread over planes r times as wide and high.
class PixelShuffleImpl : public Module {
 public:
  explicit PixelShuffleImpl(int64_t upscale_factor) : factor_(upscale_factor) {}
  Tensor forward(const Tensor& x) const;

 private:
  int64_t factor_;
};
SMOLDER_MODULE(PixelShuffle);

/// The inverse of PixelShuffle.
class PixelUnshuffleImpl : public Module {
 public:
  explicit PixelUnshuffleImpl(int64_t downscale_factor) : factor_(downscale_factor) {}
  Tensor forward(const Tensor& x) const;

 private:
  int64_t factor_;
};
SMOLDER_MODULE(PixelUnshuffle);

/// Elements around the last dimensions of the input, in pairs from the last one on.
class PadBase : public Module {
 public:
  Tensor forward(const Tensor& x) const;

 protected:
  /// `padding` is one size for all sides, or a pair for each of `dims` dimensions.
  PadBase(int dims, const Dims& padding, std::string mode, double value = 0);

 private:
  Dims padding_;
  std::string mode_;
  double value_;
};

/// Declares the module `Name` that pads `dims` dimensions in a way.
#define SMOLDER_PAD(Name, dims, mode)                                            \
  class Name##Impl : public PadBase {                                            \
   public:                                                                       \
    explicit Name##Impl(const Dims& padding) : PadBase(dims, padding, mode) {}   \
    explicit Name##Impl(int64_t padding) : PadBase(dims, Dims{padding}, mode) {} \
  };                                                                             \
  SMOLDER_MODULE(Name)

SMOLDER_PAD(ZeroPad1d, 1, "constant");
SMOLDER_PAD(ZeroPad2d, 2, "constant");
SMOLDER_PAD(ZeroPad3d, 3, "constant");
SMOLDER_PAD(ReflectionPad1d, 1, "reflect");
SMOLDER_PAD(ReflectionPad2d, 2, "reflect");
SMOLDER_PAD(ReflectionPad3d, 3, "reflect");
SMOLDER_PAD(ReplicationPad1d, 1, "replicate");
SMOLDER_PAD(ReplicationPad2d, 2, "replicate");
SMOLDER_PAD(ReplicationPad3d, 3, "replicate");
#undef SMOLDER_PAD

}  // namespace smolder::nn
