#include "smolder/autograd/print.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <ostream>
#include <vector>

#include "smolder/autograd/engine.h"
#include "smolder/autograd/node.h"
#include "smolder/core/element.h"
#include "smolder/lazy/default_dtype.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/view.h"

namespace smolder {
namespace {

std::mutex options_mutex;
PrintOptions options_of_process;

template <class... Args>
std::string printed(const char* format, Args... args) {
  std::string out(static_cast<size_t>(std::snprintf(nullptr, 0, format, args...)), '\0');
  std::snprintf(out.data(), out.size() + 1, format, args...);
  return out;
}

/// The elements of a tensor on the host, in row-major order.
class Elements {
 public:
  Elements(const Tensor& t) : memory_(t.materialize("print")), dtype_(t.dtype()) {}
  bool floating() const { return is_floating(dtype_); }
  double number(int64_t i) const {
    return with_type(dtype_, [&]<class T>(T) { return static_cast<double>(number_at<T>(memory_->data(), i)); });
  }
  /// Prints a number of a dtype that is not floating point.
  std::string whole(int64_t i) const {
    const auto v =
        with_type(dtype_, [&]<class T>(T) { return static_cast<int64_t>(number_at<T>(memory_->data(), i)); });
    return dtype_ == DType::kBool ? v ? "True" : "False" : std::to_string(v);
  }

 private:
  BufferRef memory_;
  DType dtype_;
};

/// One width and notation for all elements that are shown.
class Notation {
 public:
  Notation(const Elements& elements, const PrintOptions& options) : elements_(elements), options_(options) {}

  /// Looks at an element that will be shown.
  void see(int64_t i) {
    if (!elements_.floating()) {
      width_ = std::max(width_, static_cast<int>(elements_.whole(i).size()));
    } else if (const double v = elements_.number(i); std::isfinite(v) && v != 0) {
      seen_.push_back(v);
    }
  }
  /// Chooses, once all are seen.
  void choose() {
    if (seen_.empty()) return;
    double low = INFINITY, high = 0;
    for (const double v : seen_) {
      low = std::min(low, std::abs(v));
      high = std::max(high, std::abs(v));
      integral_ = integral_ && v == std::ceil(v);
    }
    scientific_ = options_.sci_mode.value_or(high / low > 1000.0 || high > 1e8 || low < 1e-4);
    const bool point = integral_ && !scientific_;  // "2.": one more than the digits
    for (const double v : seen_) width_ = std::max(width_, static_cast<int>(digits(v).size()) + point);
    seen_.clear();
  }
  int width() const { return width_; }

  std::string text(int64_t i) const {
    std::string out;
    if (!elements_.floating()) {
      out = elements_.whole(i);
    } else {
      const double v = elements_.number(i);
      out = digits(v);
      if (integral_ && !scientific_ && std::isfinite(v)) out += '.';
    }
    if (const auto width = static_cast<size_t>(width_); out.size() < width) out.insert(0, width - out.size(), ' ');
    return out;
  }

 private:
  std::string digits(double v) const {
    if (std::isnan(v)) return "nan";  // of either sign
    if (scientific_) return printed("%.*e", options_.precision, v);
    return printed("%.*f", integral_ ? 0 : options_.precision, v);
  }

  const Elements& elements_;
  const PrintOptions& options_;
  std::vector<double> seen_;
  bool integral_ = true, scientific_ = false;
  int width_ = 1;
};

/// Elements as text: of complex ones each part has a notation of its own.
class Texts {
 public:
  Texts(const Tensor& t, const PrintOptions& options)
      : complex_(is_complex(t.dtype())),
        elements_(complex_ ? view_as_real(t) : t),
        real_(elements_, options),
        imaginary_(elements_, options) {}
  void see(int64_t i) {
    real_.see(complex_ ? 2 * i : i);
    if (complex_) imaginary_.see(2 * i + 1);
  }
  void choose() {
    real_.choose();
    imaginary_.choose();
  }
  int width() const { return real_.width() + (complex_ ? imaginary_.width() + 1 : 0); }
  std::string text(int64_t i) const {
    if (!complex_) return real_.text(i);
    std::string imaginary = imaginary_.text(2 * i + 1);
    imaginary.erase(0, imaginary.find_first_not_of(' '));
    return real_.text(2 * i) + (imaginary[0] == '-' ? "" : "+") + imaginary + 'j';
  }

 private:
  const bool complex_;
  const Elements elements_;
  Notation real_, imaginary_;
};

/// The brackets of a tensor of at least one element.
class Body {
 public:
  Body(const Tensor& t, const PrintOptions& options, int indent)
      : shape_(t.shape()),
        options_(options),
        notation_(t, options),
        summary_(static_cast<double>(t.numel()) > options.threshold),
        indent_(indent) {
    see(0, 0);
    notation_.choose();
  }
  std::string text() const { return shape_.empty() ? notation_.text(0) : axis(0, 0, indent_); }

 private:
  bool cuts(int64_t extent) const { return summary_ && extent > 2 * int64_t{options_.edgeitems}; }
  /// Calls f with the positions along an axis that are shown, and `gap` where others are left out.
  template <class F, class Gap>
  void each(int64_t extent, F&& f, Gap&& gap) const {
    const int64_t edge = options_.edgeitems;
    for (int64_t i = 0; i < extent; ++i) {
      if (cuts(extent) && i == edge) {
        gap();
        i = extent - edge;
        if (i == extent) break;
      }
      f(i);
    }
  }
  void see(int at, int64_t first) {
    if (at == shape_.size()) return notation_.see(first);
    each(shape_[at], [&](int64_t i) { see(at + 1, first * shape_[at] + i); }, [] {});
  }

  std::string axis(int at, int64_t first, int indent) const {
    const int64_t begin = first * shape_[at];
    std::vector<std::string> parts;
    if (at + 1 == shape_.size()) {
      each(
          shape_[at], [&](int64_t i) { parts.push_back(notation_.text(begin + i)); },
          [&] { parts.push_back(options_.edgeitems ? " ..." : "..."); });
      const int element = notation_.width() + 2, per_line = std::max(1, (options_.linewidth - indent) / element);
      std::string out = "[";
      for (size_t i = 0; i < parts.size(); ++i) {
        if (i) out += i % per_line ? ", " : ",\n" + std::string(indent + 1, ' ');
        out += parts[i];
      }
      return out + "]";
    }
    each(
        shape_[at], [&](int64_t i) { parts.push_back(axis(at + 1, begin + i, indent + 1)); },
        [&] { parts.emplace_back("..."); });
    std::string out = "[";
    const std::string gap = "," + std::string(shape_.size() - at - 1, '\n') + std::string(indent + 1, ' ');
    for (size_t i = 0; i < parts.size(); ++i) out += (i ? gap : "") + parts[i];
    return out + "]";
  }

  const Dims shape_;
  const PrintOptions& options_;
  Texts notation_;
  const bool summary_;
  const int indent_;
};

/// Extents as Python writes a tuple.
std::string tuple_text(const Dims& shape) {
  std::string out = "(";
  for (int i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + (shape.size() == 1 ? ",)" : ")");
}

/// The text behind the elements: what is not as it usually is.
std::vector<std::string> suffixes_of(const Tensor& t, const PrintOptions& options, std::string_view package) {
  std::vector<std::string> out;
  const DType dtype = t.dtype();
  if (t.device() != DeviceType::kCPU) out.push_back("device='" + to_string(t.device()) + "'");
  const bool empty = t.numel() == 0;
  if (empty ? t.dim() != 1 : options.edgeitems == 0) out.push_back("size=" + tuple_text(t.shape()));
  const DType usual = lazy::default_dtype();
  const bool seen = dtype == DType::kInt64 || dtype == DType::kBool || dtype == complex_type(usual);  // in elements
  if (dtype != usual && (empty || !seen)) {
    out.push_back("dtype=" + std::string(package) + "." + std::string(name(dtype)));
  }
  if (!t.is_leaf()) {
    out.push_back("grad_fn=<" + autograd::gradient_edge(t).node->name() + ">");
  } else if (t.requires_grad()) {
    out.emplace_back("requires_grad=True");
  }
  return out;
}

}  // namespace

PrintOptions print_options() {
  const std::lock_guard hold(options_mutex);
  return options_of_process;
}

void set_print_options(const PrintOptions& options) {
  constexpr int kMost = 1000;
  SMOLDER_CHECK(options.precision >= 0 && options.precision <= kMost, ValueError, "precision must be from 0 to ", kMost,
                ", got ", options.precision);
  SMOLDER_CHECK(options.edgeitems >= 0, ValueError, "edgeitems must not be negative, got ", options.edgeitems);
  const std::lock_guard hold(options_mutex);
  options_of_process = options;
}

std::string to_string(const Tensor& tensor, std::string_view kind, std::string_view package) {
  const PrintOptions options = print_options();
  std::string out = std::string(kind) + "(";
  const int indent = static_cast<int>(out.size());
  if (!tensor.defined()) return out + "undefined)";
  out += tensor.numel() ? Body(tensor, options, indent).text() : "[]";
  lazy::refresh(tensor.impl());
  auto last = static_cast<int64_t>(out.size() - (out.rfind('\n') + 1)) + 2;
  for (const std::string& suffix : suffixes_of(tensor, options, package)) {
    const auto size = static_cast<int64_t>(suffix.size());
    const bool fits = last + size + 2 <= options.linewidth;
    out += (fits ? ", " : ",\n" + std::string(indent, ' ')) + suffix;
    last = fits ? last + size + 2 : indent + size;
  }
  return out + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace smolder
