#include "smolder/jit/cuda/native/copy.h"

#include <algorithm>
#include <map>

#include "smolder/core/error.h"
#include "smolder/ir/attrs.h"
#include "smolder/jit/cuda/device/copy.h"

namespace smolder::jit::cuda {

namespace {

constexpr int kThreads = 256, kItemsOfThread = 4;
constexpr int64_t kWidest = 16;

std::string program_of(int64_t item, bool guarded) {
  const char* const type = item == 1 ? "u8" : item == 2 ? "u16" : item == 4 ? "u32" : item == 8 ? "u64" : "uint4";
  return guard_text(guarded) + "typedef " + type + " Item;\n" + kCopy;
}

LibraryView dense(LibraryView v) {
  v.strides = contiguous_strides(v.shape);
  return v;
}
int64_t bytes_of(const LibraryView& v) { return numel(v.shape) * static_cast<int64_t>(itemsize(v.dtype)); }

}  // namespace

Axes::Axes(const Dims& shape, const std::vector<Dims>& all) : strides(all.size()) {
  for (int a = 0; a < shape.size(); ++a) {
    if (shape[a] == 1) continue;
    const int last = extents.size() - 1;
    bool joins = last >= 0;
    for (size_t k = 0; k < all.size() && joins; ++k) joins = strides[k][last] == all[k][a] * shape[a];
    if (joins) {
      extents[last] *= shape[a];
      for (size_t k = 0; k < all.size(); ++k) strides[k][last] = all[k][a];
    } else {
      extents.push_back(shape[a]);
      for (size_t k = 0; k < all.size(); ++k) strides[k].push_back(all[k][a]);
    }
  }
}

StridedCopy::StridedCopy(NativeDevice& device, const LibraryView& from, const LibraryView& to)
    : device_(device),
      axes_(to.shape, {from.strides, to.strides}),
      item_(static_cast<int64_t>(itemsize(to.dtype))),
      elements_(numel(to.shape)) {
  SMOLDER_INVARIANT(from.dtype == to.dtype && from.shape == to.shape);
}

void StridedCopy::run(const void* from, void* to, const uint32_t* failed) const {
  if (from == to || elements_ == 0) return;
  Axes axes = axes_;
  int64_t item = item_, n = elements_;
  const int last = axes.extents.size() - 1;
  if (!failed && (last < 0 || (last == 0 && axes.strides[0][0] == 1 && axes.strides[1][0] == 1))) {
    return device_.copy(to, from, n * item);
  }
  if (!failed && last == 0 && axes.strides[0][0] == 0 && axes.strides[1][0] == 1) {
    device_.function(program_of(item, false), "repeat_item")
        ->launch(ceil_div(n * item, int64_t{kThreads} * kItemsOfThread * kWidest), kThreads, words(from, to, n));
    return;
  }
  // Pairs of items that are neighbours at both ends are moved as one.
  const auto pairs = [&] {
    if (last < 0 || axes.extents[last] % 2 != 0 || item == kWidest) return false;
    for (const Dims& s : axes.strides) {
      if (s[last] != 1) return false;
      for (int a = 0; a < last; ++a) {
        if (s[a] % 2 != 0) return false;
      }
    }
    return (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) % static_cast<uintptr_t>(2 * item) ==
           0;
  };
  while (pairs()) {
    item *= 2, n /= 2, axes.extents[last] /= 2;
    for (Dims& s : axes.strides) {
      for (int a = 0; a < last; ++a) s[a] /= 2;
    }
  }
  Words arguments = words(from, to, n, axes.extents.size(), axes.extents, axes.strides[0], axes.strides[1]);
  if (failed) arguments.add(failed);
  device_.function(program_of(item, failed != nullptr), "copy_items")
      ->launch(ceil_div(n, int64_t{kThreads} * kItemsOfThread), kThreads, arguments);
}

DenseOperand::DenseOperand(NativeDevice& device, const LibraryView& view)
    : device_(device), view_(view), dense_(dense(view)) {}

const void* DenseOperand::at(const void* address, BufferRef& holder) const {
  if (is_contiguous(view_.shape, view_.strides)) return address;
  holder = device_.allocate(bytes_of(view_));
  StridedCopy(device_, view_, dense_).run(address, holder->data());
  return holder->data();
}

DenseResult::DenseResult(NativeDevice& device, const LibraryView& view)
    : device_(device), view_(view), dense_(dense(view)) {}

void* DenseResult::at(void* address, BufferRef& holder) const {
  if (is_contiguous(view_.shape, view_.strides)) return address;
  holder = device_.allocate(bytes_of(view_));
  return holder->data();
}

void DenseResult::begin(const void* address, const BufferRef& holder) const {
  if (holder) StridedCopy(device_, view_, dense_).run(address, holder->data());
}

void DenseResult::finish(void* address, const BufferRef& holder) const {
  if (holder) StridedCopy(device_, dense_, view_).run(holder->data(), address);
}

SliceWrite::Window SliceWrite::window_of(const LibraryView& source, LibraryView out, std::span<const int64_t> attrs) {
  ir::AttrReader reader(attrs);
  const Dims starts = reader.sizes(), steps = reader.integers();
  Window window;
  for (int a = 0; a < source.shape.size(); ++a) {
    window.offset += starts[a] * out.strides[a] * static_cast<int64_t>(itemsize(out.dtype));
    out.strides[a] *= steps[a];
  }
  out.shape = source.shape;
  window.view = out;
  return window;
}

SliceWrite::SliceWrite(NativeDevice& device, const std::vector<LibraryView>& inputs, const LibraryView& out,
                       std::span<const int64_t> attrs)
    : window_(window_of(inputs[1], out, attrs)),
      whole_(device, inputs[0], out),
      part_(device, inputs[1], window_.view),
      elements_(numel(inputs[1].shape)) {}

bool SliceWrite::queue(std::span<void* const> addresses, const Signals& given) const {
  whole_.run(addresses[0], addresses[2]);
  part_.run(addresses[1], static_cast<char*>(addresses[2]) + window_.offset, given.failed);
  return true;
}

std::string SliceWrite::describe() const { return "slice_write of " + std::to_string(elements_); }

bool RowCopies::add(const Axes& axes) {
  const int rank = axes.extents.size();
  const bool together = rank > 0 && axes.strides[0][rank - 1] == 1 && axes.strides[1][rank - 1] == 1;
  const int outer = rank - (together ? 1 : 0);
  if (outer > 1) return false;
  Rows rows{.length = item_ * (together ? axes.extents[rank - 1] : 1)};
  if (outer == 1) {
    rows.count = axes.extents[0];
    rows.from_step = item_ * axes.strides[0][0], rows.to_step = item_ * axes.strides[1][0];
  }
  constexpr int64_t kMost = int64_t{1} << 31;  // items, which the kernel counts in 32 bits
  if (rows.count * (rows.length / item_) >= kMost) return false;
  all_.push_back(rows);
  return true;
}

void RowCopies::run(std::span<const Place> places) const {
  std::map<int64_t, std::vector<size_t>> by_item;  // by the most bytes that lie side by side at both ends of all rows
  for (size_t i = 0; i < all_.size(); ++i) {
    const Rows& rows = all_[i];
    if (rows.count == 0 || rows.length == 0) continue;
    const int64_t all = reinterpret_cast<int64_t>(places[i].from) | reinterpret_cast<int64_t>(places[i].to) |
                        rows.length | rows.from_step | rows.to_step | kWidest;
    by_item[all & -all].push_back(i);
  }
  for (const auto& [item, which] : by_item) launch(places, which, item);
}

void RowCopies::launch(std::span<const Place> places, const std::vector<size_t>& which, int64_t item) const {
  const NativeRef function = device_.function(program_of(item, false), "copy_rows");
  for (size_t first = 0; first < which.size(); first += kMaxRank) {
    const size_t count = std::min<size_t>(kMaxRank, which.size() - first);
    Dims from, to, items, lengths, from_steps, to_steps, ends;
    int64_t blocks = 0;
    for (size_t k = first; k < first + count; ++k) {
      const Rows& rows = all_[which[k]];
      from.push_back(reinterpret_cast<int64_t>(places[which[k]].from));
      to.push_back(reinterpret_cast<int64_t>(places[which[k]].to));
      lengths.push_back(rows.length / item);
      items.push_back(rows.count * lengths.back());
      from_steps.push_back(rows.from_step / item);
      to_steps.push_back(rows.to_step / item);
      ends.push_back(blocks += ceil_div(items.back(), int64_t{kThreads} * kItemsOfThread));
    }
    function->launch(blocks, kThreads, words(count, from, to, items, lengths, from_steps, to_steps, ends));
  }
}

WideCat::WideCat(NativeDevice& device, const std::vector<LibraryView>& inputs, const LibraryView& out,
                 std::span<const int64_t> attrs)
    : rows_(device, static_cast<int64_t>(itemsize(out.dtype))) {
  const int axis = static_cast<int>(attrs[0]);
  int64_t begin = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const LibraryView& in = inputs[i];
    const Part part{i, begin * out.strides[axis] * static_cast<int64_t>(itemsize(out.dtype))};
    begin += in.shape[axis];
    if (rows_.add(Axes(in.shape, {in.strides, out.strides}))) {
      of_rows_.push_back(part);
    } else {
      LibraryView to = out;
      to.shape = in.shape;
      others_.push_back(part);
      copies_.emplace_back(device, in, to);
    }
  }
}

bool WideCat::run(std::span<void* const> addresses) const {
  const auto at = [&](const Part& part) { return static_cast<char*>(addresses.back()) + part.offset; };
  std::vector<RowCopies::Place> places;
  for (const Part& part : of_rows_) places.push_back({addresses[part.input], at(part)});
  rows_.run(places);
  for (size_t i = 0; i < others_.size(); ++i) copies_[i].run(addresses[others_[i].input], at(others_[i]));
  return true;
}

std::string WideCat::describe() const { return "cat of " + std::to_string(of_rows_.size() + others_.size()); }

}  // namespace smolder::jit::cuda
