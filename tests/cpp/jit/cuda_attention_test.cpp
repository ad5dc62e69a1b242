// The kernels of attention on CUDA: emulated on the host against float64, and compiled for each architecture.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "jit/cuda_emulator.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/jit/cuda/attention_text.h"
#include "smolder/jit/cuda/compiler.h"

namespace smolder::jit::test {
namespace {

using cuda::AttentionText;

uint32_t to_bits(double x, DType dtype) {
  if (dtype == DType::kFloat32) return std::bit_cast<uint32_t>(static_cast<float>(x));
  if (dtype == DType::kFloat16) return std::bit_cast<uint16_t>(static_cast<_Float16>(x));
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  return static_cast<uint16_t>((bits + ((bits >> 16 & 1) + 0x7fff)) >> 16);
}
double from_bits(uint32_t x, DType dtype) {
  if (dtype == DType::kFloat32) return std::bit_cast<float>(x);
  if (dtype == DType::kFloat16) return static_cast<double>(std::bit_cast<_Float16>(static_cast<uint16_t>(x)));
  return std::bit_cast<float>(x << 16);
}

/// Elements of a dtype, as their bits.
struct Elements {
  DType dtype = DType::kBFloat16;
  std::vector<uint8_t> bytes;

  uint32_t bits(size_t i) const {
    uint32_t x = 0;
    std::memcpy(&x, bytes.data() + i * itemsize(dtype), itemsize(dtype));
    return x;
  }
  void set(size_t i, uint32_t x) { std::memcpy(bytes.data() + i * itemsize(dtype), &x, itemsize(dtype)); }
  void resize(size_t n) { bytes.resize(n * itemsize(dtype)); }
};

/// Matrices of two heads that lie side by side, as in a fused projection: [rows, heads, pitch], cut to `width`.
struct Matrices {
  static constexpr int64_t kHeads = 2;
  static constexpr uint32_t kUntouched = 0x7fff;
  int64_t rows, width, pitch;
  DType dtype;
  Elements data;

  Matrices(int64_t n, int64_t w, int64_t gap, DType t) : rows(n), width(w), pitch(w + gap), dtype(t), data{t, {}} {
    data.resize(size());
    for (size_t i = 0; i < size(); ++i) data.set(i, kUntouched);
  }
  size_t size() const { return static_cast<size_t>(rows * kHeads * pitch); }
  void fill(std::mt19937& random) {
    std::normal_distribution<double> normal;
    for (size_t i = 0; i < size(); ++i) data.set(i, to_bits(normal(random), dtype));
  }
  size_t index(int64_t head, int64_t i, int64_t j) const {
    return static_cast<size_t>((i * kHeads + head) * pitch + j);
  }
  double at(int64_t head, int64_t i, int64_t j) const { return from_bits(data.bits(index(head, i, j)), dtype); }
  void append_to(std::vector<int64_t>& words) {
    words.insert(words.end(), {reinterpret_cast<int64_t>(data.bytes.data()), 0, pitch, pitch * kHeads, 1, width});
  }
};

using Doubles = std::vector<double>;

struct Problem {
  DType dtype = DType::kBFloat16;
  int64_t queries = 64, keys = 64, width = 64, value_width = 64;
  bool is_causal = false;
  double scale = 0.125;
  bool aligned = true, small = false, warpgroups = false;
  AttentionText::Mask mask = AttentionText::Mask::kNone;
  bool mask_aligned = false, many = false, tf32 = false;
};

/// One problem: its operands, what float64 makes of them, and what the kernels do.
class Trial {
 public:
  explicit Trial(const Problem& p)
      : p_(p),
        gap_(p.aligned ? 8 : 3),
        query_(p.queries, p.width, gap_, p.dtype),
        key_(p.keys, p.width, gap_, p.dtype),
        value_(p.keys, p.value_width, gap_, p.dtype),
        grad_(p.queries, p.value_width, gap_, p.dtype),
        result_(p.queries, p.value_width, gap_, p.dtype),
        grad_query_(query_),
        grad_key_(key_),
        grad_value_(value_),
        lse_(static_cast<size_t>(p.queries * Matrices::kHeads)),
        delta_(lse_) {
    std::mt19937 random(7);
    for (Matrices* m : {&query_, &key_, &value_, &grad_}) m->fill(random);
    make_mask(random);
  }

  void check() {
    forward();
    backward();
    for (int64_t head = 0; head < Matrices::kHeads; ++head) check(head);
  }

 private:
  AttentionText text(bool backward) const {
    AttentionText t;
    t.dtype = p_.dtype;
    t.warpgroups = p_.warpgroups;
    t.head = t.padded(std::max(p_.width, p_.value_width));
    t.is_causal = p_.is_causal;
    t.aligned = p_.aligned;
    t.mask = p_.mask;
    t.positive = backward || (p_.scale > 0 && p_.mask != AttentionText::Mask::kAdded);
    t.mask_aligned = p_.mask_aligned;
    t.backward = backward;
    t.small = p_.small;
    t.many = p_.many;
    t.tf32 = p_.tf32;
    return t;
  }
  bool is_masked() const { return p_.mask != AttentionText::Mask::kNone; }
  bool has_bools() const { return p_.mask == AttentionText::Mask::kBool; }

  /// One for both heads; its second row says no to all, keys from 64 to 127 are in no row, and those before in all rows
  /// from the 64th on.
  void make_mask(std::mt19937& random) {
    const auto cells = static_cast<size_t>(p_.queries * p_.keys);
    added_.assign(cells, 0.0);
    if (!is_masked()) return;
    bools_.resize(cells);
    numbers_ = {p_.dtype, {}};
    numbers_.resize(cells);
    std::normal_distribution<double> normal;
    for (size_t i = 0; i < cells; ++i) {
      const int64_t row = static_cast<int64_t>(i) / p_.keys, column = static_cast<int64_t>(i) % p_.keys;
      const bool seen = (row >= 64 && column < 64) || (random() % 3 != 0 && row != 1 && column / 64 != 1);
      bools_[i] = seen;
      numbers_.set(
          i, to_bits(seen ? (row >= 64 && column < 64 ? 0 : normal(random)) : -std::numeric_limits<double>::infinity(),
                     p_.dtype));
      added_[i] = !seen         ? -std::numeric_limits<double>::infinity()
                  : has_bools() ? 0
                                : from_bits(numbers_.bits(i), p_.dtype);
    }
  }
  void append_mask(std::vector<int64_t>& words) {
    if (!is_masked()) return;
    const auto data =
        has_bools() ? reinterpret_cast<int64_t>(bools_.data()) : reinterpret_cast<int64_t>(numbers_.bytes.data());
    words.insert(words.end(), {data, 0, 0, p_.keys, 1, p_.keys});
  }

  void append_numbers(std::vector<int64_t>& words, std::vector<float>& x) const {
    words.insert(words.end(), {reinterpret_cast<int64_t>(x.data()), 0, p_.queries, 1});
  }
  void append_sizes(std::vector<int64_t>& words) const {
    words.insert(words.end(),
                 {Matrices::kHeads, Matrices::kHeads, p_.queries, p_.keys, std::bit_cast<int64_t>(p_.scale)});
  }
  static void launch(const AttentionText& text, AttentionText::Kernel kernel, const std::vector<int64_t>& words,
                     int64_t rows) {
    const HostProgram program(text.instructions() + text.text_of(kernel), SMOLDER_HOST_CXX);
    const AttentionText::Shape shape = text.shape_of(kernel);
    const int64_t blocks = (rows + shape.rows() - 1) / shape.rows() * Matrices::kHeads;
    const unsigned grid[] = {static_cast<unsigned>(blocks), 1}, block[] = {static_cast<unsigned>(shape.threads), 1};
    program.run(AttentionText::name_of(kernel), words.data(), grid, block);
  }

  void forward() {
    const AttentionText t = text(false);
    std::vector<int64_t> words;
    for (Matrices* m : {&query_, &key_, &value_, &result_}) m->append_to(words);
    append_mask(words);
    append_numbers(words, lse_);
    append_sizes(words);
    launch(t, AttentionText::Kernel::kForward, words, p_.queries);
  }

  void backward() {
    const AttentionText t = text(true);
    std::vector<int64_t> words;
    for (Matrices* m : {&grad_, &query_, &key_, &value_, &result_, &grad_query_, &grad_key_, &grad_value_}) {
      m->append_to(words);
    }
    append_mask(words);
    append_numbers(words, lse_);
    append_numbers(words, delta_);
    append_sizes(words);
    launch(t, AttentionText::Kernel::kGradQuery, words, p_.queries);
    launch(t, AttentionText::Kernel::kGradKey, words, p_.keys);
  }

  static double dot(const Matrices& a, int64_t i, const Matrices& b, int64_t j, int64_t head) {
    double sum = 0;
    for (int64_t d = 0; d < a.width; ++d) sum += a.at(head, i, d) * b.at(head, j, d);
    return sum;
  }

  void check(int64_t head) {
    const auto cells = static_cast<size_t>(p_.queries * p_.keys);
    Doubles weights(cells), scores(cells);
    Doubles result(static_cast<size_t>(p_.queries * p_.value_width)), dq(static_cast<size_t>(p_.queries * p_.width)),
        dk(static_cast<size_t>(p_.keys * p_.width)), dv(static_cast<size_t>(p_.keys * p_.value_width));
    for (int64_t i = 0; i < p_.queries; ++i) {
      const int64_t seen = p_.is_causal ? std::min(i + 1, p_.keys) : p_.keys;
      const auto score = [&](int64_t j) {
        return dot(query_, i, key_, j, head) * p_.scale + added_[static_cast<size_t>(i * p_.keys + j)];
      };
      double total = 0;
      for (int64_t j = 0; j < seen; ++j) total += std::exp(score(j));
      const float lse = lse_[static_cast<size_t>(head * p_.queries + i)];
      if (total > 0) {
        EXPECT_NEAR(lse, std::log(total), p_.tf32 ? 1e-2 : 1e-4);
      } else {
        EXPECT_EQ(lse, -std::numeric_limits<float>::infinity());
      }
      for (int64_t j = 0; j < seen; ++j) {
        const double w = total > 0 ? std::exp(score(j)) / total : 0;
        weights[static_cast<size_t>(i * p_.keys + j)] = w;
        for (int64_t d = 0; d < p_.value_width; ++d) {
          result[static_cast<size_t>(i * p_.value_width + d)] += w * value_.at(head, j, d);
        }
      }
      double delta = 0;
      for (int64_t d = 0; d < p_.value_width; ++d) {
        delta += result[static_cast<size_t>(i * p_.value_width + d)] * grad_.at(head, i, d);
      }
      for (int64_t j = 0; j < seen; ++j) {
        const double w = weights[static_cast<size_t>(i * p_.keys + j)];
        const double ds = w * (dot(grad_, i, value_, j, head) - delta) * p_.scale;
        for (int64_t d = 0; d < p_.width; ++d) {
          dq[static_cast<size_t>(i * p_.width + d)] += ds * key_.at(head, j, d);
          dk[static_cast<size_t>(j * p_.width + d)] += ds * query_.at(head, i, d);
        }
        for (int64_t d = 0; d < p_.value_width; ++d) {
          dv[static_cast<size_t>(j * p_.value_width + d)] += w * grad_.at(head, i, d);
        }
      }
    }
    expect_near(result_, head, result, "result");
    expect_near(grad_query_, head, dq, "grad_query");
    expect_near(grad_key_, head, dk, "grad_key");
    expect_near(grad_value_, head, dv, "grad_value");
  }

  void expect_near(const Matrices& got, int64_t head, const Doubles& wanted, const char* what) const {
    const double unit = p_.dtype == DType::kBFloat16 ? 2e-2 : p_.dtype == DType::kFloat16 || p_.tf32 ? 3e-3 : 1e-5;
    double most = 1, worst = 0;
    for (const double x : wanted) most = std::max(most, std::abs(x));
    for (int64_t i = 0; i < got.rows; ++i) {
      for (int64_t d = 0; d < got.width; ++d) {
        const double off = std::abs(got.at(head, i, d) - wanted[static_cast<size_t>(i * got.width + d)]);
        worst = std::max(worst, std::isnan(off) ? std::numeric_limits<double>::infinity() : off);
      }
      for (int64_t d = got.width; d < got.pitch; ++d) {
        EXPECT_EQ(got.data.bits(got.index(head, i, d)), Matrices::kUntouched) << what << " wrote beyond a row";
      }
    }
    EXPECT_LT(worst, unit * most) << what << " of head " << head;
  }
  Problem p_;
  int64_t gap_;
  Matrices query_, key_, value_, grad_, result_, grad_query_, grad_key_, grad_value_;
  std::vector<float> lse_, delta_;
  std::vector<double> added_;  ///< to each score
  std::vector<uint8_t> bools_;
  Elements numbers_;
};

TEST(CudaAttention, EmulatedKernelsAreAttention) {
  SKIP_UNDER_SANITIZER;
  using enum DType;
  for (const Problem& p : std::vector<Problem>{
           {.dtype = kBFloat16, .queries = 130, .keys = 100, .is_causal = true},
           {.dtype = kFloat16, .queries = 7, .keys = 65, .width = 40, .value_width = 40},
           {.dtype = kFloat16, .queries = 1, .keys = 1, .width = 8, .value_width = 8, .is_causal = true},
           {.dtype = kBFloat16, .queries = 140, .keys = 70, .width = 128, .value_width = 96},
           {.dtype = kBFloat16,
            .queries = 70,
            .keys = 90,
            .width = 128,
            .value_width = 128,
            .is_causal = true,
            .small = true},
           {.dtype = kFloat16, .queries = 40, .keys = 140, .width = 80, .value_width = 72, .is_causal = true},
           {.dtype = kFloat16,
            .queries = 40,
            .keys = 50,
            .width = 33,
            .value_width = 47,
            .is_causal = true,
            .aligned = false},
           {.dtype = kFloat16, .queries = 40, .keys = 50, .is_causal = true, .scale = -0.2},
           {.dtype = kBFloat16, .queries = 150, .keys = 140, .is_causal = true, .warpgroups = true},
           {.dtype = kFloat16, .queries = 70, .keys = 100, .width = 40, .value_width = 80, .warpgroups = true},
           {.dtype = kBFloat16, .queries = 70, .keys = 100, .mask = AttentionText::Mask::kBool},
           {.dtype = kFloat16, .queries = 40, .keys = 140, .scale = -0.2, .mask = AttentionText::Mask::kAdded},
           {.dtype = kBFloat16,
            .queries = 70,
            .keys = 80,
            .is_causal = true,
            .warpgroups = true,
            .mask = AttentionText::Mask::kAdded},
           {.dtype = kFloat16, .queries = 70, .keys = 65, .warpgroups = true, .mask = AttentionText::Mask::kBool},
           {.dtype = kBFloat16, .queries = 70, .keys = 144, .mask = AttentionText::Mask::kBool, .mask_aligned = true},
           {.dtype = kFloat16,
            .queries = 70,
            .keys = 96,
            .small = true,
            .mask = AttentionText::Mask::kAdded,
            .mask_aligned = true},
           {.dtype = kBFloat16,
            .queries = 150,
            .keys = 160,
            .warpgroups = true,
            .mask = AttentionText::Mask::kBool,
            .mask_aligned = true},
           {.dtype = kFloat32,
            .queries = 40,
            .keys = 48,
            .width = 128,
            .value_width = 128,
            .mask = AttentionText::Mask::kAdded,
            .mask_aligned = true,
            .tf32 = true},
           {.dtype = kFloat32, .queries = 130, .keys = 100, .is_causal = true, .tf32 = true},
           {.dtype = kFloat32, .queries = 140, .keys = 150, .width = 40, .is_causal = true, .many = true, .tf32 = true},
           {.dtype = kFloat32, .queries = 20, .keys = 70, .width = 32, .value_width = 20, .tf32 = true},
           {.dtype = kFloat32, .queries = 130, .keys = 100, .is_causal = true},
           {.dtype = kFloat32, .queries = 40, .keys = 70, .width = 128, .value_width = 96, .tf32 = true},
           {.dtype = kFloat32, .queries = 40, .keys = 70, .width = 128, .value_width = 96},
           {.dtype = kFloat32, .queries = 40, .keys = 50, .width = 100, .value_width = 20, .small = true},
           {.dtype = kFloat32,
            .queries = 40,
            .keys = 50,
            .width = 33,
            .value_width = 7,
            .aligned = false,
            .tf32 = true},
           {.dtype = kFloat32,
            .queries = 40,
            .keys = 50,
            .width = 33,
            .value_width = 7,
            .is_causal = true,
            .aligned = false},
           {.dtype = kFloat32,
            .queries = 70,
            .keys = 65,
            .small = true,
            .mask = AttentionText::Mask::kBool,
            .tf32 = true},
           {.dtype = kFloat32,
            .queries = 70,
            .keys = 65,
            .scale = -0.2,
            .small = true,
            .mask = AttentionText::Mask::kAdded},
       }) {
    SCOPED_TRACE(testing::Message() << p.queries << " x " << p.keys << " x " << p.width << " x " << p.value_width);
    Trial(p).check();
  }
}

// Each architecture takes its share of one text in 25; SMOLDER_CUDA_ALL=1 gives it its share of all, in minutes. With
// less effort NVRTC refuses the same, in less than half of the time.
TEST(CudaAttention, KernelsCompile) {
  SKIP_UNDER_SANITIZER;
  if (!smolder::cuda::has_nvrtc()) GTEST_SKIP() << smolder::cuda::nvrtc_missing();
  constexpr const char* kArchitectures[] = {"sm_80", "sm_90", "sm_100"};
  const int every = std::getenv("SMOLDER_CUDA_ALL") ? 1 : 25;
  std::vector<AttentionText> texts;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    for (const int head : {32, 64, 96, 128}) {
      for (int choice = 0; choice < 64; ++choice) {
        const auto bit = [&](int i) { return (choice >> i & 1) != 0; };
        AttentionText text{dtype, head, bit(0), bit(1), bit(2), bit(3), bit(4), bit(5)};
        const bool is_asked_for = (is_half(dtype) || !text.warpgroups) && (text.positive || !text.backward) &&
                                  (!text.warpgroups || (!text.small && text.padded(head) == head));
        if (!is_asked_for) continue;
        for (const auto mask : {AttentionText::Mask::kNone, AttentionText::Mask::kBool, AttentionText::Mask::kAdded}) {
          text.mask = mask;
          if (mask == AttentionText::Mask::kAdded && text.positive != text.backward) continue;
          for (int way = 0; way < (dtype == DType::kFloat32 ? 3 : 1); ++way) {
            text.tf32 = way > 0;
            text.many = way > 1;
            texts.push_back(text);
          }
        }
      }
    }
  }
  for (size_t i = 0; i < texts.size(); i += every) {
    const char* const arch = texts[i].warpgroups ? "sm_90a" : kArchitectures[i / every % 3];
    for (const AttentionText::Kernel kernel : texts[i].kernels()) {
      const std::string source = texts[i].instructions() + texts[i].text_of(kernel);
      EXPECT_FALSE(compile_text(source, arch, cuda::Contraction::kAllowed, cuda::Effort::kQuick).empty());
    }
  }
}

TEST(CudaAttention, TilesFitTheSharedMemoryOfABlock) {
  for (const int head : {32, 64, 96, 128}) {
    for (int choice = 0; choice < 16; ++choice) {
      AttentionText text;
      text.head = head;
      text.small = choice % 2 != 0;
      text.dtype = choice / 2 % 2 != 0 ? DType::kFloat32 : DType::kBFloat16;
      text.tf32 = choice / 4 % 2 != 0;
      text.many = choice / 8 != 0;
      const int room = (text.small ? 99 : 160) << 10;
      for (const auto mask : {AttentionText::Mask::kNone, AttentionText::Mask::kBool, AttentionText::Mask::kAdded}) {
        text.mask = mask;
        for (const bool backward : {false, true}) {
          text.backward = backward;
          for (const AttentionText::Kernel kernel : text.kernels()) EXPECT_LE(text.shared_of(kernel), room);
        }
      }
    }
  }
}

}  // namespace
}  // namespace smolder::jit::test
