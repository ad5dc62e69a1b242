// The columns of a convolution: what each output position sees of the input, as a matrix.
#pragma once

#include <algorithm>
#include <cstdint>

#include "smolder/eager/cpu/scratch.h"

namespace smolder::eager::cpu {

/// Sizes of a convolution of images, whichever of its three arrays is the result.
struct ConvShape {
  int64_t images = 0, channels = 0, height = 0, width = 0;  ///< of the input
  int64_t filters = 0, kernel_h = 0, kernel_w = 0;
  int64_t out_h = 0, out_w = 0;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;  ///< before the first row and column; negative crops
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;

  int64_t group_channels() const { return channels / groups; }
  int64_t group_filters() const { return filters / groups; }
  int64_t taps() const { return kernel_h * kernel_w; }
  /// Products that an output element sums.
  int64_t depth() const { return group_channels() * taps(); }
  /// Output positions of an image.
  int64_t positions() const { return out_h * out_w; }
};

/// Images in memory, strides in elements.
template <class E>
struct Images {
  E* data;
  int64_t image, channel, row, column;
};

/// a / b rounded up, for any a and b > 0.
constexpr int64_t ceil_ratio(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

/// Output positions worked on at a time: part of an image, or several whole ones.
struct ConvTile {
  int64_t image = 0, images = 1;
  int64_t first = 0, count = 0;  ///< positions; `count` is of all images
};

/// All output positions in tiles of about `target`.
class ConvTiling {
 public:
  ConvTiling(const ConvShape& s, int64_t target) : images_(s.images), positions_(s.positions()) {
    if (positions_ >= target) {
      per_image_ = (positions_ + target - 1) / target;
      constexpr int64_t kVector = 16;  // columns that no vector is cut for
      tile_ = std::min(positions_, ((positions_ + per_image_ - 1) / per_image_ + kVector - 1) / kVector * kVector);
      per_image_ = (positions_ + tile_ - 1) / tile_;
      count_ = images_ * per_image_;
    } else {
      together_ = std::max<int64_t>(1, std::min(images_, target / std::max<int64_t>(1, positions_)));
      tile_ = together_ * positions_;
      count_ = (images_ + together_ - 1) / together_;
    }
  }
  int64_t size() const { return count_; }
  int64_t widest() const { return tile_; }
  ConvTile operator[](int64_t i) const {
    if (together_ > 0) {
      const int64_t image = i * together_, images = std::min(together_, images_ - image);
      return {image, images, 0, images * positions_};
    }
    const int64_t first = i % per_image_ * tile_;
    return {i / per_image_, 1, first, std::min(tile_, positions_ - first)};
  }
  /// How many positions the last tiles have, of an image or of all.
  int64_t last() const { return (*this)[count_ - 1].count; }

 private:
  int64_t images_, positions_;
  int64_t together_ = 0, per_image_ = 1, tile_ = 0, count_ = 0;
};

/// Calls f(image, y, x, count) for each stretch of a tile within a row of the output.
void for_stretches(const ConvShape& s, const ConvTile& tile, auto f) {
  int64_t image = tile.image, y = tile.first / s.out_w, x = tile.first % s.out_w;
  for (int64_t left = tile.count; left > 0;) {
    const int64_t count = std::min(left, s.out_w - x);
    f(image, y, x, count);
    left -= count;
    x = 0;
    if (++y == s.out_h) y = 0, ++image;
  }
}

/// Which of the columns [0, out_w) of the output have their tap `j` within the input: [first, end).
struct ConvSpan {
  int64_t shift, first, end;
  ConvSpan(const ConvShape& s, int64_t j) : shift(j * s.dilation_w - s.pad_w) {
    first = shift >= 0 ? 0 : std::min(s.out_w, (-shift + s.stride_w - 1) / s.stride_w);
    const int64_t room = s.width - shift;
    end = std::max(first, std::min(s.out_w, room <= 0 ? 0 : (room + s.stride_w - 1) / s.stride_w));
  }
};

/// Calls f(image, y, rows, x, count) for stretches of a tile that are whole rows, as many as there are, or one that is
/// none.
void for_row_blocks(const ConvShape& s, const ConvTile& tile, auto f) {
  int64_t image = tile.image, y = tile.first / s.out_w, x = tile.first % s.out_w;
  for (int64_t left = tile.count; left > 0;) {
    const bool whole = x == 0 && left >= s.out_w;
    const int64_t rows = whole ? std::min(left / s.out_w, s.out_h - y) : 1;
    const int64_t count = std::min(left, s.out_w - x);
    f(image, y, rows, x, count);
    left -= rows * count;
    x = 0;
    y += rows;
    if (y == s.out_h) y = 0, ++image;
  }
}

/// The inputs that one tap sees from rows of output positions: out[r * count + k] is from[r * row + k * step] where
/// first <= k < end, else zero.
template <class E>
struct TapRows {
  const E* from;
  int64_t rows, row, step;
  int64_t first, end, count;
  E* out;
};
/// May write kTapSlack elements too many. Takes elements of 2, 4 and 8 bytes.
template <class E>
void copy_taps(const TapRows<E>& t);
inline constexpr int64_t kTapSlack = 8;

/// Writes channels [channel, channel + channels) as seen from the tile: `out` is [channels * taps][tile.count], zero
/// where a tap is outside, with room for kTapSlack elements more.
template <class E>
void write_columns(const ConvShape& s, const Images<const E>& x, int64_t channel, int64_t channels,
                   const ConvTile& tile, E* out) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < s.kernel_h; ++i) {
      const int64_t above = s.pad_h - i * s.dilation_h;  // of the image's rows
      for (int64_t j = 0; j < s.kernel_w; ++j) {
        const ConvSpan span(s, j);
        const E* plane = x.data + (channel + c) * x.channel + span.shift * x.column;
        for_row_blocks(s, tile, [&](int64_t image, int64_t y, int64_t rows, int64_t at, int64_t count) {
          // Rows of the output whose row of the image there is.
          const int64_t begin = std::clamp(ceil_ratio(above, s.stride_h), y, y + rows);
          const int64_t end = std::clamp(ceil_ratio(above + s.height, s.stride_h), begin, y + rows);
          out = std::fill_n(out, (begin - y) * count, E(0));
          if (begin < end) {
            copy_taps<E>({plane + image * x.image + (begin * s.stride_h - above) * x.row + at * s.stride_w * x.column,
                          end - begin, s.stride_h * x.row, s.stride_w * x.column,
                          std::clamp<int64_t>(span.first - at, 0, count), std::clamp<int64_t>(span.end - at, 0, count),
                          count, out});
            out += (end - begin) * count;
          }
          out = std::fill_n(out, (y + rows - end) * count, E(0));
        });
      }
    }
  }
}

/// The transpose of write_columns for a tile of one image: adds `columns` to the planes [channels][height][width].
template <class T>
void add_columns(const ConvShape& s, int64_t channels, const ConvTile& tile, const T* columns, T* planes) {
  for (int64_t c = 0; c < channels; ++c, planes += s.height * s.width) {
    for (int64_t i = 0; i < s.kernel_h; ++i) {
      for (int64_t j = 0; j < s.kernel_w; ++j) {
        const ConvSpan span(s, j);
        for_stretches(s, tile, [&](int64_t, int64_t y, int64_t at, int64_t count) {
          const int64_t row = y * s.stride_h + i * s.dilation_h - s.pad_h, end = at + count;
          const T* from = columns - at;
          columns += count;
          if (row < 0 || row >= s.height) return;
          T* to = planes + row * s.width + span.shift;
          const int64_t last = std::min(span.end, end);
          for (int64_t k = std::max(span.first, at); k < last; ++k) to[k * s.stride_w] += from[k];
        });
      }
    }
  }
}

/// One output plane of a filter that sees one plane of the input, at x.data: each row adds its taps in order, fused.
template <class T>
void sum_taps(const ConvShape& s, const Images<const T>& x, const T* taps, T* out);

}  // namespace smolder::eager::cpu
