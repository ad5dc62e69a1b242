// Matmul against its own contract, bit for bit, and against float64.
#include "smolder/eager/cpu/matmul.h"
#include "smolder/eager/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "smolder/core/counters.h"
#include "smolder/core/error.h"
#include "smolder/core/half.h"
#include "smolder/core/thread_pool.h"

namespace smolder::eager {
namespace {

using Epilogue = MatmulDesc::Epilogue;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

double read(const std::byte* p, DType t) {
  const auto as = [&]<class E>(E) {
    E v;
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  switch (t) {
    case DType::kFloat64:
      return as(double{});
    case DType::kFloat32:
      return as(float{});
    case DType::kBFloat16:
      return to_float(as(BFloat16{}));
    default:
      return to_float(as(Float16{}));
  }
}

void write(std::byte* p, DType t, double v) {
  const auto as = [&](auto e) { std::memcpy(p, &e, sizeof e); };
  switch (t) {
    case DType::kFloat64:
      return as(v);
    case DType::kFloat32:
      return as(static_cast<float>(v));
    case DType::kBFloat16:
      return as(to_bfloat16(static_cast<float>(v)));
    default:
      return as(to_float16(static_cast<float>(v)));
  }
}

/// Values as doubles, rounded to a dtype; element (b, i, j) at b*rows*cols + i*cols + j.
struct Values {
  int64_t batch, rows, cols;
  DType dtype;
  std::vector<double> data;

  Values(int64_t b, int64_t r, int64_t c, DType t, uint32_t seed)
      : batch(b), rows(r), cols(c), dtype(t), data(static_cast<size_t>(b * r * c)) {
    std::mt19937 random(seed);
    std::byte one[8];
    for (double& v : data) {
      write(one, t, static_cast<double>(random() % 4001) / 2000.0 - 1.0);
      v = read(one, t);
    }
  }
  double& at(int64_t b, int64_t i, int64_t j) { return data[static_cast<size_t>((b * rows + i) * cols + j)]; }
  double at(int64_t b, int64_t i, int64_t j) const { return const_cast<Values*>(this)->at(b, i, j); }
};

enum class Layout { kRows, kColumns, kGaps, kBackwards };
constexpr Layout kLayouts[] = {Layout::kRows, Layout::kColumns, Layout::kGaps, Layout::kBackwards};

/// Values laid out in memory of exactly the size they need, so that AddressSanitizer sees a read past it.
struct Operand {
  std::vector<std::byte> memory;
  int64_t origin = 0, batch = 0, row = 0, col = 0;
  size_t size;

  Operand(const Values& v, Layout layout) : size(itemsize(v.dtype)) {
    switch (layout) {
      case Layout::kRows:
        row = v.cols, col = 1, batch = v.rows * v.cols;
        break;
      case Layout::kColumns:
        row = 1, col = v.rows, batch = v.rows * v.cols;
        break;
      case Layout::kGaps:
        col = 2, row = 2 * v.cols + 3, batch = v.rows * row + 5;
        break;
      case Layout::kBackwards:
        col = -1, row = -v.cols, batch = v.rows * v.cols;
        origin = batch - 1;
        break;
    }
    if (v.data.empty()) {
      origin = 0;
      return;
    }
    int64_t last = 0;
    const auto each = [&](auto&& f) {
      for (int64_t b = 0; b < v.batch; ++b)
        for (int64_t i = 0; i < v.rows; ++i)
          for (int64_t j = 0; j < v.cols; ++j) f(origin + b * batch + i * row + j * col, v.at(b, i, j));
    };
    each([&](int64_t at, double) { last = std::max(last, at); });
    memory.assign(static_cast<size_t>(last + 1) * size, std::byte{0xff});
    each([&](int64_t at, double value) { write(memory.data() + static_cast<size_t>(at) * size, v.dtype, value); });
  }
  const void* data() const { return memory.data() + static_cast<size_t>(origin) * size; }
};

/// The contract of Matmul in scalar code, in T.
template <class T>
double contract(const Values& a, const Values& b, int64_t item, int64_t i, int64_t j, bool fused) {
  T total = 0;
  for (int64_t k0 = 0; k0 < a.cols; k0 += gemm::kChunk) {
    T chain = 0;
    for (int64_t p = k0; p < std::min(a.cols, k0 + gemm::kChunk); ++p) {
      const T x = static_cast<T>(a.at(item, i, p)), y = static_cast<T>(b.at(item, p, j));
      chain = fused ? std::fma(x, y, chain) : chain + x * y;
    }
    total = k0 == 0 ? chain : total + chain;
  }
  return total;
}

struct Case {
  MatmulDesc d;
  Values a, b, bias;
  std::vector<double> sums[2];  ///< by the contract: with rounded products, and fused

  Case(DType t, DType out, int64_t batch, int64_t m, int64_t n, int64_t k)
      : a(batch, m, k, t, 1), b(batch, k, n, t, 2), bias(1, 1, n, out, 3) {
    d.dtype = t, d.out_dtype = out, d.batch = batch, d.m = m, d.n = n, d.k = k;
    d.c_row = n + 3, d.c_batch_stride = m * d.c_row + 7;
  }

  void compute_sums() {
    for (int fused = 0; fused < 2; ++fused) {
      sums[fused].clear();
      for (int64_t item = 0; item < d.batch; ++item)
        for (int64_t i = 0; i < d.m; ++i)
          for (int64_t j = 0; j < d.n; ++j)
            sums[fused].push_back(d.dtype == DType::kFloat64 ? contract<double>(a, b, item, i, j, fused)
                                                             : contract<float>(a, b, item, i, j, fused));
    }
  }

  using Make = std::function<std::shared_ptr<const Matmul>(const MatmulDesc&)>;

  /// C with its gaps, as bytes; gaps and what follows hold a pattern that must survive.
  std::vector<std::byte> run(const Make& make, Layout la, Layout lb, Epilogue e) const {
    return run(make, Operand(a, la), Operand(b, lb), e);
  }
  std::vector<std::byte> run(const Make& make, const Operand& x, const Operand& y, Epilogue e) const {
    const Operand z(bias, Layout::kRows);
    MatmulDesc desc = d;
    desc.epilogue = e;
    desc.a_batch_stride = x.batch, desc.a_row = x.row, desc.a_col = x.col;
    desc.b_batch_stride = y.batch, desc.b_row = y.row, desc.b_col = y.col;
    std::vector<std::byte> c(static_cast<size_t>(d.batch * d.c_batch_stride) * itemsize(d.out_dtype), std::byte{0xa5});
    make(desc)->run(x.data(), y.data(), c.data(), z.data());
    return c;
  }

  std::vector<std::byte> expected(bool fused, Epilogue e) const {
    const size_t size = itemsize(d.out_dtype);
    std::vector<std::byte> c(static_cast<size_t>(d.batch * d.c_batch_stride) * size, std::byte{0xa5});
    size_t next = 0;
    for (int64_t item = 0; item < d.batch; ++item)
      for (int64_t i = 0; i < d.m; ++i)
        for (int64_t j = 0; j < d.n; ++j) {
          double v = sums[fused][next++];
          if (e != Epilogue::kNone) {
            v += bias.at(0, 0, j);  // exact in double for floats; rounded to float next
            if (d.dtype != DType::kFloat64) v = static_cast<float>(v);
          }
          if (e == Epilogue::kBiasRelu && v < 0) v = 0;
          write(c.data() + static_cast<size_t>(item * d.c_batch_stride + i * d.c_row + j) * size, d.out_dtype, v);
        }
    return c;
  }
};

struct Isa {
  std::string name;
  Case::Make make;
  bool fused;
};

std::vector<Isa> isas() {
  std::vector<Isa> all;
  const auto add = [&](auto* f32, auto* f64) {
    if (!f32 || !f64) return;
    const std::string name = f32->isa;
#if defined(__aarch64__)
    const bool fused = true;
#else
    const bool fused = name != "portable";
#endif
    all.push_back({name,
                   [=](const MatmulDesc& d) {
                     return d.dtype == DType::kFloat64 ? make_float_matmul<double>(d, *f64)
                                                       : make_float_matmul<float>(d, *f32);
                   },
                   fused});
  };
  add(gemm::avx512_kernels<float>(), gemm::avx512_kernels<double>());
  add(gemm::avx2_kernels<float>(), gemm::avx2_kernels<double>());
  add(gemm::portable_kernels<float>(), gemm::portable_kernels<double>());
  return all;
}

struct Types {
  DType in, out;
};
constexpr Types kTypes[] = {{DType::kFloat32, DType::kFloat32},   {DType::kFloat64, DType::kFloat64},
                            {DType::kBFloat16, DType::kBFloat16}, {DType::kBFloat16, DType::kFloat32},
                            {DType::kFloat16, DType::kFloat16},   {DType::kFloat16, DType::kFloat32}};

struct Size {
  int64_t batch, m, n, k;
};
/// Around vectors, tiles, chunks and the skinny paths; more rows than a group; nothing to sum; more than is
/// packed at a time; batches of small ones; few outputs of many chunks.
constexpr Size kSizes[] = {{1, 1, 1, 1},      {1, 1, 1, 700},   {1, 1, 37, 129},   {1, 37, 1, 129},   {2, 2, 50, 600},
                           {3, 3, 17, 5},     {1, 4, 100, 513}, {4, 5, 5, 5},      {1, 8, 48, 512},   {1, 9, 49, 513},
                           {1, 13, 97, 1030}, {2, 33, 65, 64},  {1, 131, 50, 40},  {1, 300, 7, 20},   {2, 6, 10, 0},
                           {1, 1, 9, 0},      {1, 70, 130, 1},  {1, 270, 20, 600}, {1, 5, 20, 17000}, {19, 1, 1, 2},
                           {37, 2, 2, 19},    {16, 3, 4, 1030}, {33, 1, 9, 16},    {20, 16, 4, 2},    {1, 1, 1, 8910},
                           {3, 2, 2, 2100},   {2, 1, 3, 5120}};

TEST(Matmul, KeepsItsContractBitForBit) {
  for (const Types& t : kTypes) {
    for (const Size& s : kSizes) {
      Case c(t.in, t.out, s.batch, s.m, s.n, s.k);
      c.compute_sums();
      std::vector<Operand> as, bs;  // laid out once: that takes longer than to multiply
      for (const Layout l : kLayouts) as.emplace_back(c.a, l), bs.emplace_back(c.b, l);
      for (const Isa& isa : isas()) {
        const std::vector<std::byte> expected[] = {c.expected(isa.fused, Epilogue::kNone),
                                                   c.expected(isa.fused, Epilogue::kBias),
                                                   c.expected(isa.fused, Epilogue::kBiasRelu)};
        for (const Layout la : kLayouts) {
          for (const Layout lb : kLayouts) {
            const auto e = static_cast<Epilogue>((static_cast<int>(la) + static_cast<int>(lb)) % 3);
            ASSERT_EQ(c.run(isa.make, as[static_cast<size_t>(la)], bs[static_cast<size_t>(lb)], e),
                      expected[static_cast<size_t>(e)])
                << isa.name << ' ' << name(t.in) << " to " << name(t.out) << ", " << s.batch << " x " << s.m << " x "
                << s.n << " x " << s.k << ", layouts " << static_cast<int>(la) << ' ' << static_cast<int>(lb)
                << ", epilogue " << static_cast<int>(e);
          }
        }
      }
    }
  }
}

TEST(Matmul, IsCloseToFloat64) {
  for (const Types& t : kTypes) {
    const Case c(t.in, t.out, 1, 20, 30, 5000);
    const auto bytes = c.run(Matmul::get, Layout::kRows, Layout::kColumns, Epilogue::kNone);
    const double step = t.in == DType::kFloat64 ? 0x1p-53 : 0x1p-24;
    const double rounding = t.out == DType::kBFloat16 ? 0x1p-8 : t.out == DType::kFloat16 ? 0x1p-11 : 0;
    for (int64_t i = 0; i < 20; ++i) {
      for (int64_t j = 0; j < 30; ++j) {
        long double sum = 0, magnitude = 0;
        for (int64_t p = 0; p < 5000; ++p) {
          const long double product = static_cast<long double>(c.a.at(0, i, p)) * c.b.at(0, p, j);
          sum += product, magnitude += std::abs(product);
        }
        const double got = read(bytes.data() + static_cast<size_t>(i * c.d.c_row + j) * itemsize(t.out), t.out);
        // The bound of a chain of 512 and ten more additions; errors of a random sum are far smaller.
        const double bound =
            522 * step * static_cast<double>(magnitude) + rounding * std::abs(static_cast<double>(sum)) * 1.01;
        ASSERT_NEAR(got, static_cast<double>(sum), bound) << name(t.in);
        if (t.in == DType::kFloat32) {
          ASSERT_NEAR(got, static_cast<double>(sum), bound / 50);
        }
      }
    }
  }
}

TEST(Matmul, BitsDoNotDependOnThreadsNorOnWhatIsBeside) {
  const int before = num_threads();
  for (const Types& t : kTypes) {
    for (const Size& s : {Size{1, 32, 256, 784}, Size{1, 512, 96, 1030}, Size{40, 33, 20, 64}, Size{1, 2, 2000, 300},
                          Size{1, 6, 1100, 1030}, Size{1, 24, 40, 9000}, Size{2, 17, 30, 5000}}) {
      const Case c(t.in, t.out, s.batch, s.m, s.n, s.k);
      set_num_threads(1);
      const auto alone = c.run(Matmul::get, Layout::kRows, Layout::kColumns, Epilogue::kBias);
      for (const int threads : {2, 3, 7}) {
        set_num_threads(threads);
        ASSERT_EQ(c.run(Matmul::get, Layout::kRows, Layout::kColumns, Epilogue::kBias), alone) << threads;
        ASSERT_EQ(c.run(Matmul::get, Layout::kColumns, Layout::kRows, Epilogue::kBias), alone) << threads;
      }
      // One row of the first item by itself.
      Case row(t.in, t.out, 1, 1, s.n, s.k);
      row.b = c.b, row.bias = c.bias;
      for (int64_t p = 0; p < s.k; ++p) row.a.at(0, 0, p) = c.a.at(0, 1, p);
      row.b.batch = 1, row.b.data.resize(static_cast<size_t>(s.k * s.n));
      const size_t size = itemsize(t.out);
      const auto single = row.run(Matmul::get, Layout::kRows, Layout::kRows, Epilogue::kBias);
      ASSERT_EQ(std::memcmp(single.data(), alone.data() + static_cast<size_t>(c.d.c_row) * size,
                            static_cast<size_t>(s.n) * size),
                0);
    }
  }
  set_num_threads(before);
}

TEST(Matmul, NanAndInfinityReachTheirRowsAndColumnsOnly) {
  for (const Types& t : kTypes) {
    for (const Isa& isa : isas()) {
      for (const Size& s : {Size{1, 13, 29, 37}, Size{1, 3, 29, 37}, Size{1, 29, 3, 600}}) {
        Case c(t.in, t.out, 1, s.m, s.n, s.k);
        for (double& v : c.a.data) v = std::abs(v) + 0.5;
        c.a.at(0, 1, 2) = kNan;
        c.a.at(0, 2, 3) = kInf;
        c.b.at(0, 3, 0) = 0;  // infinity times zero
        for (const Layout l : kLayouts) {
          const auto bytes = c.run(isa.make, l, l, Epilogue::kNone);
          for (int64_t i = 0; i < s.m; ++i) {
            for (int64_t j = 0; j < s.n; ++j) {
              const double v = read(bytes.data() + static_cast<size_t>(i * c.d.c_row + j) * itemsize(t.out), t.out);
              const bool nan = i == 1 || (i == 2 && c.b.at(0, 3, j) == 0), infinite = i == 2 && !nan;
              ASSERT_EQ(std::isnan(v), nan) << isa.name << ' ' << i << ' ' << j;
              ASSERT_EQ(std::isinf(v), infinite) << isa.name << ' ' << i << ' ' << j;
            }
          }
        }
      }
    }
  }
}

TEST(Matmul, ReluKeepsNan) {
  for (const Types& t : kTypes) {
    for (const Isa& isa : isas()) {
      Case c(t.in, t.out, 1, 20, 20, 2);
      for (double& v : c.a.data) v = 0;
      c.a.at(0, 3, 0) = kNan;
      for (double& v : c.bias.data) v = -0.0;
      const auto bytes = c.run(isa.make, Layout::kRows, Layout::kRows, Epilogue::kBiasRelu);
      for (int64_t i = 0; i < 20; ++i) {
        for (int64_t j = 0; j < 20; ++j) {
          const double v = read(bytes.data() + static_cast<size_t>(i * c.d.c_row + j) * itemsize(t.out), t.out);
          ASSERT_TRUE(i == 3 ? std::isnan(v) : v == 0 && !std::signbit(v)) << isa.name;
        }
      }
    }
  }
}

/// u * v + sum in the dtype's arithmetic.
double multiply_add(double u, double v, double sum, DType t, bool fused) {
  if (t == DType::kFloat64) return fused ? std::fma(u, v, sum) : u * v + sum;
  const float x = static_cast<float>(u), y = static_cast<float>(v), z = static_cast<float>(sum);
  return fused ? std::fma(x, y, z) : x * y + z;
}

/// A product of 4 x 9x30 and 30x21 whose operands have these strides, element for element.
struct SharedStrides {
  int64_t a_batch, a_row, a_col, b_batch, b_row, b_col;
};
void check_shared(const Isa& isa, DType t, const SharedStrides& s) {
  const Case c(t, t, 4, 9, 21, 30);
  const Operand x(c.a, Layout::kRows), y(c.b, Layout::kRows);
  const size_t size = itemsize(t);
  MatmulDesc d = c.d;
  d.a_batch_stride = s.a_batch, d.a_row = s.a_row, d.a_col = s.a_col;
  d.b_batch_stride = s.b_batch, d.b_row = s.b_row, d.b_col = s.b_col;
  d.c_row = 21, d.c_batch_stride = 9 * 21;
  std::vector<std::byte> got(4 * 9 * 21 * size), want(size);
  isa.make(d)->run(x.data(), y.data(), got.data(), nullptr);
  const auto at = [&](const Operand& o, int64_t i) {
    return read(static_cast<const std::byte*>(o.data()) + static_cast<size_t>(i) * size, t);
  };
  for (int64_t e = 0; e < 4 * 9 * 21; ++e) {
    const int64_t b = e / (9 * 21), i = e / 21 % 9, j = e % 21;
    double sum = 0;
    for (int64_t p = 0; p < 30; ++p) {
      sum = multiply_add(at(x, b * s.a_batch + i * s.a_row + p * s.a_col),
                         at(y, b * s.b_batch + p * s.b_row + j * s.b_col), sum, t, isa.fused);
    }
    write(want.data(), t, sum);
    ASSERT_EQ(std::memcmp(got.data() + static_cast<size_t>(e) * size, want.data(), size), 0)
        << isa.name << ' ' << name(t) << ' ' << b << ' ' << i << ' ' << j;
  }
}

TEST(Matmul, SharedAndRepeatedOperands) {
  // A batch that shares B; A repeated along rows, B along columns, both along k: strides of zero.
  for (const Isa& isa : isas()) {
    for (const DType t : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      for (const SharedStrides& s :
           {SharedStrides{270, 30, 1, 0, 21, 1}, SharedStrides{0, 0, 1, 630, 21, 1},
            SharedStrides{270, 30, 1, 0, 21, 0}, SharedStrides{270, 30, 0, 0, 0, 1}, SharedStrides{1, 30, 0, 0, 1, 0}})
        check_shared(isa, t, s);
    }
  }
}

template <class T>
void check_integers(DType t, bool logical) {
  std::mt19937_64 random(5);
  for (const Size& s : {Size{1, 1, 1, 1}, Size{2, 5, 7, 9}, Size{1, 40, 130, 1030}, Size{3, 33, 65, 0}}) {
    std::vector<T> a(static_cast<size_t>(s.batch * s.m * s.k)), b(static_cast<size_t>(s.batch * s.k * s.n));
    const auto draw = [&] { return static_cast<T>(logical ? random() % 40 == 0 : random()); };
    std::generate(a.begin(), a.end(), draw);
    std::generate(b.begin(), b.end(), draw);
    for (const bool turned : {false, true}) {
      MatmulDesc d;
      d.dtype = d.out_dtype = t, d.batch = s.batch, d.m = s.m, d.n = s.n, d.k = s.k;
      d.a_batch_stride = s.m * s.k, d.a_row = turned ? 1 : s.k, d.a_col = turned ? s.m : 1;
      d.b_batch_stride = s.k * s.n, d.b_row = turned ? 1 : s.n, d.b_col = turned ? s.k : 1;
      d.c_batch_stride = s.m * s.n, d.c_row = s.n;
      std::vector<T> bias(static_cast<size_t>(s.n), T{3});
      if (!logical) d.epilogue = Epilogue::kBiasRelu;
      std::vector<T> c(static_cast<size_t>(s.batch * s.m * s.n), T{1});
      Matmul::get(d)->run(a.data(), b.data(), c.data(), bias.data());
      for (int64_t item = 0; item < s.batch; ++item)
        for (int64_t i = 0; i < s.m; ++i)
          for (int64_t j = 0; j < s.n; ++j) {
            uint64_t sum = 0;
            for (int64_t p = 0; p < s.k; ++p) {
              const auto x =
                  static_cast<uint64_t>(a[static_cast<size_t>(item * d.a_batch_stride + i * d.a_row + p * d.a_col)]);
              const auto y =
                  static_cast<uint64_t>(b[static_cast<size_t>(item * d.b_batch_stride + p * d.b_row + j * d.b_col)]);
              sum = logical ? sum | (x & y) : sum + x * y;
            }
            T want = static_cast<T>(logical ? sum : sum + 3);
            if (!logical && want < T{0}) want = 0;
            ASSERT_EQ(c[static_cast<size_t>((item * s.m + i) * s.n + j)], want) << name(t) << ' ' << i << ' ' << j;
          }
    }
  }
}

TEST(Matmul, IntegersWrapAndBoolsAreOrOfAnds) {
  check_integers<int64_t>(DType::kInt64, false);
  check_integers<int32_t>(DType::kInt32, false);
  check_integers<int16_t>(DType::kInt16, false);
  check_integers<uint8_t>(DType::kUInt8, false);
  check_integers<int8_t>(DType::kInt8, false);
  check_integers<uint8_t>(DType::kBool, true);
}

TEST(Matmul, EmptyWritesNothing) {
  for (const DType t : {DType::kFloat32, DType::kInt64}) {
    for (const Size& s : {Size{0, 4, 4, 4}, Size{1, 0, 4, 4}, Size{1, 4, 0, 4}}) {
      MatmulDesc d;
      d.dtype = d.out_dtype = t, d.batch = s.batch, d.m = s.m, d.n = s.n, d.k = s.k, d.c_row = s.n;
      Matmul::get(d)->run(nullptr, nullptr, nullptr, nullptr);
    }
  }
}

TEST(Matmul, CountsGatheredOperands) {
  Counter& gathered = counter("matmul.strided_copies");
  const Case c(DType::kFloat32, DType::kFloat32, 1, 20, 20, 20);
  const int64_t before = gathered.value();
  c.run(Matmul::get, Layout::kRows, Layout::kColumns, Epilogue::kNone);
  EXPECT_EQ(gathered.value(), before);
  c.run(Matmul::get, Layout::kGaps, Layout::kGaps, Epilogue::kNone);
  EXPECT_EQ(gathered.value(), before + 1);
}

TEST(Matmul, RejectsWhatIsNoProduct) {
  MatmulDesc good;
  good.batch = 2, good.m = 3, good.n = 4, good.k = 5, good.c_row = 4, good.c_batch_stride = 12;
  EXPECT_NO_THROW(Matmul::get(good));
  const auto with = [&](auto&& change) {
    MatmulDesc d = good;
    change(d);
    return d;
  };
  EXPECT_THROW(Matmul::get(with([](MatmulDesc& d) { d.k = -1; })), ValueError);
  EXPECT_THROW(Matmul::get(with([](MatmulDesc& d) { d.c_row = 3; })), ValueError);
  EXPECT_THROW(Matmul::get(with([](MatmulDesc& d) { d.c_batch_stride = 11; })), ValueError);
  EXPECT_THROW(Matmul::get(with([](MatmulDesc& d) { d.out_dtype = DType::kBFloat16; })), TypeError);
  EXPECT_THROW(
      Matmul::get(with([](MatmulDesc& d) { d.dtype = d.out_dtype = DType::kInt32, d.out_dtype = DType::kInt64; })),
      TypeError);
  EXPECT_THROW(
      Matmul::get(with([](MatmulDesc& d) { d.dtype = d.out_dtype = DType::kBool, d.epilogue = Epilogue::kBias; })),
      NotImplementedError);
}

TEST(Matmul, NamesItsInstructionSet) {
  const std::string isa = matmul_isa();
  bool known = false;
  for (const Isa& i : isas()) known |= i.name == isa;
  EXPECT_TRUE(known) << isa;
}

}  // namespace
}  // namespace smolder::eager
