// cuFFT for CUDA on the host: sums in double precision. Working memory and what real numbers are made of are spoilt, as
// the library may.
#include "smolder/eager/cuda/cufft.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <mutex>
#include <numbers>
#include <vector>

#include "cuda_host/dense.h"

#define API extern "C" __attribute__((visibility("default")))

namespace smolder::eager::cuda {
namespace {

constexpr FftStatus kInvalidPlan = 1, kInvalidValue = 4, kInvalidSize = 8;
constexpr size_t kWorkspace = 64;  // that is asked for, and must be given

using Complex = std::complex<double>;
using Sizes = std::vector<long long>;

struct Plan {
  struct Side {
    Sizes embed;
    long long step = 1, row = 0;
    FftType type = FftType::kComplex32;
    bool is_complex() const { return type == FftType::kComplex32 || type == FftType::kComplex64; }
    bool is_double() const { return type == FftType::kReal64 || type == FftType::kComplex64; }
    size_t bytes() const { return (is_double() ? 8 : 4) * (is_complex() ? 2 : 1); }
    /// Where number `at` of a row lies.
    long long place(const Sizes& at) const {
      long long p = 0;
      for (size_t a = 0; a < at.size(); ++a) p = p * embed[a] + at[a];
      return p * step;
    }
  };
  Sizes lengths;
  Side in, out;
  long long rows = 0;
  smolder::cuda::DriverStream stream = nullptr;
  void* work = nullptr;
  bool allocates = true;
};

std::mutex lock;
std::vector<Plan>& plans() {
  static auto& all = *new std::vector<Plan>;
  return all;
}

Plan* find(FftHandle handle) {
  return handle < 1 || handle > static_cast<int>(plans().size()) ? nullptr : &plans()[static_cast<size_t>(handle) - 1];
}

Complex load(const void* memory, const Plan::Side& s, long long i) {
  const auto part = [&](long long k) {
    return s.is_double() ? static_cast<const double*>(memory)[k] : static_cast<const float*>(memory)[k];
  };
  return s.is_complex() ? Complex(part(2 * i), part(2 * i + 1)) : Complex(part(i), 0);
}

void store(void* memory, const Plan::Side& s, long long i, Complex z) {
  const auto part = [&](long long k, double v) {
    s.is_double() ? void(static_cast<double*>(memory)[k] = v)
                  : void(static_cast<float*>(memory)[k] = static_cast<float>(v));
  };
  if (!s.is_complex()) return part(i, z.real());
  part(2 * i, z.real());
  part(2 * i + 1, z.imag());
}

/// Calls `f(at)` for each position.
template <class F>
void for_each(const Sizes& extents, F f) {
  Sizes at(extents.size(), 0);
  while (true) {
    f(at);
    size_t a = extents.size();
    while (a-- > 0 && ++at[a] == extents[a]) at[a] = 0;
    if (a == static_cast<size_t>(-1)) return;
  }
}

/// One row: sums along each axis of numbers that lie densely.
void transform(std::vector<Complex>& row, const Sizes& lengths, double sign) {
  size_t inner = 1;
  for (size_t a = lengths.size(); a-- > 0;) {
    const auto n = static_cast<size_t>(lengths[a]);
    std::vector<Complex> out(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      const size_t k = i / inner % n, first = i - k * inner;
      for (size_t j = 0; j < n; ++j) {
        const double angle = sign * 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        out[i] += row[first + j * inner] * std::polar(1.0, angle);
      }
    }
    row = std::move(out);
    inner *= n;
  }
}

void execute(const Plan& p, char* in, char* out, double sign) {
  Sizes half = p.lengths;
  half.back() = half.back() / 2 + 1;
  const Sizes& given = p.in.is_complex() && !p.out.is_complex() ? half : p.lengths;
  const Sizes& made = p.out.is_complex() && !p.in.is_complex() ? half : p.lengths;
  Plan::Side dense{p.lengths};
  size_t size = 1;
  for (const long long n : p.lengths) size *= static_cast<size_t>(n);
  for (long long r = 0; r < p.rows; ++r) {
    std::vector<Complex> row(size);
    for_each(given, [&](const Sizes& at) {
      const Complex z = load(in, p.in, r * p.in.row + p.in.place(at));
      row[static_cast<size_t>(dense.place(at))] = z;
      Sizes mirror = at;
      for (size_t a = 0; a < at.size(); ++a) mirror[a] = (p.lengths[a] - at[a]) % p.lengths[a];
      if (given == half && given != p.lengths && mirror.back() >= half.back()) {
        row[static_cast<size_t>(dense.place(mirror))] = std::conj(z);
      }
    });
    transform(row, p.lengths, sign);
    for_each(made, [&](const Sizes& at) {
      store(out, p.out, r * p.out.row + p.out.place(at), row[static_cast<size_t>(dense.place(at))]);
    });
  }
  if (p.out.is_complex() || in == out) return;
  for (long long r = 0; r < p.rows; ++r) {
    for_each(given, [&](const Sizes& at) {
      std::memset(in + static_cast<size_t>(r * p.in.row + p.in.place(at)) * p.in.bytes(), 0xff, p.in.bytes());
    });
  }
}

}  // namespace

API FftStatus cufftCreate(FftHandle* handle) {
  const std::lock_guard hold(lock);
  plans().emplace_back();
  *handle = static_cast<int>(plans().size());
  return 0;
}
API FftStatus cufftDestroy(FftHandle handle) { return find(handle) ? 0 : kInvalidPlan; }
API FftStatus cufftSetAutoAllocation(FftHandle handle, int allocates) {
  const std::lock_guard hold(lock);
  if (!find(handle)) return kInvalidPlan;
  find(handle)->allocates = allocates != 0;
  return 0;
}
API FftStatus cufftXtMakePlanMany(FftHandle handle, int rank, long long* lengths, long long* in_embed,
                                  long long in_step, long long in_row, FftType in_type, long long* out_embed,
                                  long long out_step, long long out_row, FftType out_type, long long rows,
                                  size_t* bytes, FftType compute) {
  const std::lock_guard hold(lock);
  Plan* const p = find(handle);
  if (!p) return kInvalidPlan;
  if (rank < 1 || rank > 3 || rows < 1) return kInvalidSize;
  const auto sizes = [&](const long long* all) { return Sizes(all, all + rank); };
  p->lengths = sizes(lengths);
  p->in = {sizes(in_embed), in_step, in_row, in_type};
  p->out = {sizes(out_embed), out_step, out_row, out_type};
  p->rows = rows;
  if ((compute == FftType::kComplex64) != p->in.is_double() || p->in.is_double() != p->out.is_double()) {
    return kInvalidValue;
  }
  *bytes = kWorkspace;
  return 0;
}
API FftStatus cufftSetWorkArea(FftHandle handle, void* work) {
  const std::lock_guard hold(lock);
  if (!find(handle)) return kInvalidPlan;
  find(handle)->work = work;
  return 0;
}
API FftStatus cufftSetStream(FftHandle handle, smolder::cuda::DriverStream stream) {
  const std::lock_guard hold(lock);
  if (!find(handle)) return kInvalidPlan;
  find(handle)->stream = stream;
  return 0;
}
API FftStatus cufftXtExec(FftHandle handle, void* in, void* out, FftDirection direction) {
  const std::lock_guard hold(lock);
  if (!find(handle)) return kInvalidPlan;
  const Plan p = *find(handle);
  const auto is_aligned = [](const void* at, const Plan::Side& s) {
    return reinterpret_cast<uintptr_t>(at) % (s.is_double() ? 16 : 8) == 0;
  };
  const bool to_real = !p.out.is_complex(), from_real = !p.in.is_complex();
  if (p.allocates || !p.work || !is_aligned(in, p.in) || !is_aligned(out, p.out)) return kInvalidValue;
  if ((to_real && direction != FftDirection::kInverse) || (from_real && direction != FftDirection::kForward)) {
    return kInvalidValue;
  }
  host::queue(p.stream, [=] {
    std::memset(p.work, 0xff, kWorkspace);
    execute(p, static_cast<char*>(in), static_cast<char*>(out), direction == FftDirection::kForward ? -1.0 : 1.0);
  });
  return 0;
}

}  // namespace smolder::eager::cuda
