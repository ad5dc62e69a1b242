// cuDNN takes the convolutions that we give it: plans are made for a device that is only described, so none is needed.
// (Attention needs a driver: tests/python/test_cuda_attention.py.)
#include <gtest/gtest.h>

#include <optional>

#include "smolder/eager/cuda/cudnn_convolution.h"

namespace smolder::eager::cuda {
namespace {

/// The description of an H200 by cuDNN.
constexpr const char* kDevice =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
    R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
    R"("maxThreadsPerSM":2048,"pciDeviceId":6,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":150109880320,)"
    R"("smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,"cudaDeviceId":0,"deviceVer":900,)"
    R"("driverVer":13000,"deviceName":"NVIDIA H200"})";

class CudnnTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cudnn_version() == 0) GTEST_SKIP() << "there is no cuDNN: pip install nvidia-cudnn-cu13";
    try {
      target_.emplace(kDevice);
    } catch (const RuntimeError& e) {
      GTEST_SKIP() << "this cuDNN makes no plans without a driver: " << e.what();
    }
  }
  std::optional<DnnTarget> target_;
};

TEST_F(CudnnTest, TakesConvolutions) {
  struct Case {
    Dims x, w, y, stride{1, 1}, padding{1, 1}, dilation{1, 1};
  };
  for (const Case& c : {
           Case{{64, 64, 56, 56}, {64, 64, 3, 3}, {64, 64, 56, 56}},
           Case{{8, 3, 32, 32}, {16, 3, 3, 3}, {8, 16, 32, 32}},
           Case{{8, 16, 15, 17}, {32, 16, 3, 3}, {8, 32, 8, 9}, {2, 2}},
           Case{{2, 4, 1, 100}, {6, 4, 1, 3}, {2, 6, 1, 98}, {1, 1}, {0, 0}},
           Case{{8, 16, 20, 20}, {16, 1, 3, 3}, {8, 16, 20, 20}},
           Case{{2, 8, 20, 20}, {8, 4, 3, 3}, {2, 8, 18, 18}, {1, 1}, {1, 1}, {2, 2}},
       }) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      for (const DnnKind kind :
           {DnnKind::kConvolutionForward, DnnKind::kConvolutionInput, DnnKind::kConvolutionWeight}) {
        for (const bool tf32 : {false, true}) {
          const DnnConvolution problem{kind, dtype, c.x, c.w, c.y, c.stride, c.padding, c.dilation};
          EXPECT_TRUE(problem.plan(*target_, {.tf32 = tf32}))
              << c.x << c.w << " " << name(dtype) << " kind " << static_cast<int>(kind) << (tf32 ? " tf32" : "");
        }
      }
    }
  }
}

}  // namespace
}  // namespace smolder::eager::cuda
