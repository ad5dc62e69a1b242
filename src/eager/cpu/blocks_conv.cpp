// Convolution without a product, as loops that the compiler makes vectors of.
#include <cmath>

#include "smolder/eager/cpu/columns.h"

namespace smolder::eager::cpu {
namespace {

template <class T>
void add_scaled(T factor, const T* x, int64_t step, int64_t begin, int64_t end, T* out) {
  if (step == 1) {
    for (int64_t k = begin; k < end; ++k) out[k] = std::fma(factor, x[k], out[k]);
  } else {
    for (int64_t k = begin; k < end; ++k) out[k] = std::fma(factor, x[k * step], out[k]);
  }
}

}  // namespace

template <class T>
void sum_taps(const ConvShape& s, const Images<const T>& x, const T* taps, T* out) {
  std::fill(out, out + s.positions(), T(0));
  for (int64_t row = 0; row < s.out_h; ++row, out += s.out_w) {
    for (int64_t tap = 0; tap < s.taps(); ++tap) {
      const int64_t at = row * s.stride_h + tap / s.kernel_w * s.dilation_h - s.pad_h;
      if (at < 0 || at >= s.height) continue;
      const ConvSpan span(s, tap % s.kernel_w);
      add_scaled(taps[tap], x.data + at * x.row + span.shift * x.column, s.stride_w * x.column, span.first, span.end,
                 out);
    }
  }
}

template void sum_taps(const ConvShape&, const Images<const float>&, const float*, float*);
template void sum_taps(const ConvShape&, const Images<const double>&, const double*, double*);

}  // namespace smolder::eager::cpu
