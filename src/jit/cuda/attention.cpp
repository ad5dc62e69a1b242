#include "smolder/jit/cuda/attention.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "smolder/core/buffer.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/error.h"
#include "smolder/core/precision.h"
#include "smolder/core/scalar.h"
#include "smolder/eager/cuda/cudnn_attention.h"
#include "smolder/jit/cuda/attention_text.h"
#include "smolder/jit/cuda/device_program.h"
#include "smolder/jit/cuda/native/device.h"

namespace smolder::jit::cuda {

using ir::Op;

namespace {

constexpr int64_t kMostRows = int64_t{1} << 30;  ///< of a matrix: kernels count them in 32 bits
constexpr int64_t kCudnnRows = 64;               ///< cuDNN has matrices whose rows are a multiple of it,
constexpr int64_t kCudnnLeast = 256;             ///< and as many of queries; our kernels are as fast below
constexpr int64_t kCudnnLeastBackward = 1024;
constexpr int64_t kLeastFloats = 16;      ///< queries in float32, and the part of keys that they are
constexpr int kSharedWanted = 160 << 10;  ///< of a block; where there is less, tiles are smaller

// -- programs

/// A program and its kernel, which is found once.
struct Program {
  DeviceProgram program;
  std::once_flag once;
  smolder::cuda::DriverKernel kernel = nullptr;

  Program(const AttentionText& text, AttentionText::Kernel which, const std::string& arch)
      : program(text.instructions() + text.text_of(which), AttentionText::name_of(which), arch, Contraction::kAllowed) {
  }
};

/// Programs are few and live as long as the process.
smolder::cuda::DriverKernel kernel_of(const AttentionText& text, AttentionText::Kernel which,
                                      const smolder::cuda::DeviceInfo& device) {
  using Key = std::tuple<int, int, AttentionText, AttentionText::Kernel>;
  static std::mutex mutex;
  static auto* all = new std::map<Key, std::unique_ptr<Program>>;
  Program* const program = [&] {
    const std::lock_guard lock(mutex);
    std::unique_ptr<Program>& known = (*all)[{device.major, device.minor, text, which}];
    if (!known) {
      const std::string arch = "sm_" + std::to_string(device.major) + std::to_string(device.minor);
      known = std::make_unique<Program>(text, which, arch + (text.warpgroups ? "a" : ""));
    }
    return known.get();
  }();
  std::call_once(program->once,
                 [&] { program->kernel = program->program.module().kernel(AttentionText::name_of(which)); });
  return program->kernel;
}

// -- a call

/// One operand of a kernel: its address is the `address`th of the call's, -1 that of memory the call takes.
struct Operand {
  LibraryView view;
  int address;
  bool is_matrix = true;  ///< else a number a row
  int64_t offset = 0;     ///< of its first element
};

/// The words of a kernel's arguments (attention_text.cpp), and where addresses go in them.
struct Words {
  struct Place {
    size_t word;
    int address;
    int64_t bytes;  ///< from the operand's first element on
  };
  std::vector<int64_t> words;
  std::vector<Place> places;
};

double number_of(DType dtype, const void* bits) {
  const auto category = is_floating(dtype) ? Category::kFloat : Category::kInt;
  return Scalar::from_bits(*static_cast<const uint64_t*>(bits), category).to_double();
}

class AttentionCall final : public BoundLibrary {
 public:
  AttentionCall(int on, Op op, const std::vector<LibraryView>& in, const std::vector<LibraryView>& out,
                const std::vector<int64_t>& attrs)
      : device_(on) {
    const bool is_joined = op == Op::kFlashAttentionBackwardJoined;
    const bool is_masked = op == Op::kFlashAttentionMasked || op == Op::kFlashAttentionBackwardMasked;
    text_.backward = is_joined || op == Op::kFlashAttentionBackward || op == Op::kFlashAttentionBackwardMasked;
    text_.is_causal = attrs[0] != 0;
    std::vector<LibraryView> results = is_joined ? parts_of(out[0]) : out;
    const int64_t apart = is_joined ? out[0].strides[out[0].shape.size() - 3] : 0;
    const int matrices = text_.backward ? 3 : 1;
    for (int i = 0; (is_joined || attrs[1] != 0) && i < matrices; ++i) heads_first(results[i]);
    const size_t first = text_.backward ? 1 : 0;  // of query, key, value
    const LibraryView &query = in[first], &key = in[first + 1], &value = in[first + 2];
    scale_ = static_cast<int>(in.size()) - 1;
    scale_dtype_ = in.back().dtype;

    rank_ = query.shape.size();
    queries_ = query.shape[rank_ - 2], keys_ = key.shape[rank_ - 2];
    width_ = query.shape[rank_ - 1];
    text_.dtype = query.dtype;
    const smolder::cuda::DeviceInfo& device = smolder::cuda::device_info(device_);
    text_.warpgroups = is_half(query.dtype) && device.major == 9 && device.minor == 0;
    text_.tf32 = query.dtype == DType::kFloat32 && precision().allow_tf32();
    text_.head = text_.padded(std::max(width_, value.shape[rank_ - 1]));
    text_.small = device.shared_bytes < kSharedWanted;
    const int outputs = static_cast<int>(in.size());
    const size_t mask = first + 3, after = is_masked ? mask + 1 : mask;  // operands that come after the mask
    const auto output = static_cast<int>(after), lse = static_cast<int>(after) + 1;
    if (text_.backward) {
      delta_ = contiguous(in[after + 1]);
      operands_ = {{in[0], 0},
                   {query, 1},
                   {key, 2},
                   {value, 3},
                   {in[after], output},
                   {results[0], outputs},
                   {results[1], outputs + (is_joined ? 0 : 1), true, apart},
                   {results[2], outputs + (is_joined ? 0 : 2), true, 2 * apart},
                   {in[after + 1], lse, false},
                   {delta_, -1, false}};
    } else {
      operands_ = {{query, 0}, {key, 1}, {value, 2}, {results[0], outputs}, {results[1], outputs + 1, false}};
    }
    if (is_masked) {
      text_.mask = in[mask].dtype == DType::kBool ? AttentionText::Mask::kBool : AttentionText::Mask::kAdded;
      const auto numbers = std::ranges::find_if(operands_, [](const Operand& o) { return !o.is_matrix; });
      operands_.insert(numbers, {spread(in[mask], query.shape), static_cast<int>(mask)});
    }
    if (is_masked) text_.mask_aligned = has_aligned_rows(mask_operand().view);
    collapse(query.shape);
    constexpr int64_t kRows = 128;
    const int64_t blocks = ((std::max(queries_, keys_) + kRows - 1) / kRows) * outer_ * inner_;
    text_.many = text_.tf32 && blocks > device.multiprocessors;
    text_.positive = text_.backward || text_.mask != AttentionText::Mask::kAdded;  // as nearly all scales are
    aligned_ =
        std::ranges::all_of(operands_, [&](const Operand& o) { return !is_tiled(o) || has_aligned_rows(o.view); });
    prepare();
    text_.aligned = aligned_;
    bind_cudnn();
    if (plan_) return;
    for (const Kernel kernel : text_.kernels()) {
      NativeDevice::add_unready([text = text_, kernel, &device] { kernel_of(text, kernel, device); });
    }
  }

  bool only_queues() const override { return true; }
  bool run(std::span<void* const> addresses) const override {
    const double scale = number_of(scale_dtype_, addresses[scale_]);
    AttentionText text = text_;
    text.positive = text.backward || (scale > 0 && text.mask != AttentionText::Mask::kAdded);
    for (const Operand& o : operands_) {
      if (!o.is_matrix || o.address < 0 || reinterpret_cast<uintptr_t>(addresses[o.address]) % 16 == 0) continue;
      (is_tiled(o) ? text.aligned : text.mask_aligned) = false;
    }
    if (plan_ && text.aligned) {
      std::vector<void*> data;
      for (const int i : order()) {
        const Operand& o = operands_[i];
        data.push_back(static_cast<char*>(addresses[o.address]) +
                       o.offset * static_cast<int64_t>(itemsize(o.view.dtype)));
      }
      problem_.run(*plan_, data, static_cast<float>(scale), device_);
      return true;
    }
    BufferRef delta;
    if (text.backward) {
      delta = smolder::cuda::allocate_temporary(static_cast<size_t>(numel(delta_.shape)) * sizeof(float), device_);
    }
    for (const Words& call : calls_) {
      std::vector<int64_t> words = call.words;
      for (const Words::Place& p : call.places) {
        char* const base = static_cast<char*>(p.address < 0 ? delta->data() : addresses[p.address]);
        words[p.word] = reinterpret_cast<int64_t>(base + p.bytes);
      }
      words.back() = std::bit_cast<int64_t>(scale);
      for (const Kernel kernel : text.kernels()) launch(text, kernel, words);
    }
    return true;
  }

  std::string describe() const override {
    std::ostringstream out;
    out << (text_.backward ? "attention_backward " : "attention ")
        << static_cast<int64_t>(calls_.size()) * outer_ * inner_ << " x " << queries_ << 'x' << keys_ << 'x' << width_
        << (text_.tf32 ? " by TF32" : "") << (text_.is_causal ? ", causal" : "")
        << (text_.mask == AttentionText::Mask::kNone ? "" : ", masked") << (aligned_ ? "" : ", rows not aligned")
        << (plan_ ? " by cuDNN" : "");
    return out.str();
  }

 private:
  using Kernel = AttentionText::Kernel;

  struct Axis {
    int64_t extent;
    std::vector<int64_t> strides;  ///< by operand
  };

  /// The three results that a joined one is made of.
  static std::vector<LibraryView> parts_of(LibraryView v) {
    const int axis = v.shape.size() - 3;
    v.shape.erase(axis);
    v.strides.erase(axis);
    return {v, v, v};
  }

  static void heads_first(LibraryView& v) {
    const int rank = v.shape.size();
    std::swap(v.shape[rank - 2], v.shape[rank - 3]);
    std::swap(v.strides[rank - 2], v.strides[rank - 3]);
  }

  /// The same numbers, one after the other.
  static LibraryView contiguous(LibraryView v) {
    int64_t stride = 1;
    for (int i = v.shape.size(); i-- > 0;) {
      v.strides[i] = stride;
      stride *= v.shape[i];
    }
    return v;
  }

  /// A mask is among matrices, but in other tiles.
  bool is_tiled(const Operand& o) const {
    return o.is_matrix && (text_.mask == AttentionText::Mask::kNone || &o != &mask_operand());
  }
  const Operand& mask_operand() const { return operands_[operands_.size() - numbers() - 1]; }
  size_t numbers() const { return text_.backward ? 2 : 1; }

  /// A mask of scores whose axes of one element are those of all.
  LibraryView spread(LibraryView v, const Dims& query) const {
    for (int i = 0; i < rank_; ++i) {
      const int64_t extent = i == rank_ - 1 ? keys_ : query[i];
      if (v.shape[i] != extent) v.strides[i] = 0;
      v.shape[i] = extent;
    }
    return v;
  }

  static bool has_aligned_rows(const LibraryView& v) {
    const int rank = v.shape.size();
    const auto piece = static_cast<int64_t>(16 / itemsize(v.dtype));
    if (v.strides[rank - 1] != 1 || v.shape[rank - 1] % piece != 0) return false;
    for (int i = 0; i + 1 < rank; ++i) {
      if (v.shape[i] > 1 && v.strides[i] % piece != 0) return false;
    }
    return true;
  }

  /// The batch as two axes, `outer_` and `inner_`, of one launch, and others that are launches each.
  void collapse(const Dims& shape) {
    std::vector<Axis> axes;
    for (int i = rank_ - 2; i-- > 0;) {
      if (shape[i] == 1) continue;
      Axis axis{shape[i], {}};
      for (const Operand& o : operands_) axis.strides.push_back(o.view.strides[i]);
      const auto goes_on = [&](const Axis& inner) {
        for (size_t k = 0; k < axis.strides.size(); ++k) {
          if (axis.strides[k] != inner.strides[k] * inner.extent) return false;
        }
        return true;
      };
      if (!axes.empty() && goes_on(axes.back())) {
        axes.back().extent *= axis.extent;
      } else {
        axes.push_back(std::move(axis));
      }
    }
    const Axis one{1, std::vector<int64_t>(operands_.size(), 0)};
    while (axes.size() < 2) axes.push_back(one);
    inner_ = axes[0].extent, outer_ = axes[1].extent;
    inner_strides_ = axes[0].strides, outer_strides_ = axes[1].strides;
    offsets_ = {std::vector<int64_t>(operands_.size(), 0)};
    for (size_t i = 2; i < axes.size(); ++i) {
      std::vector<std::vector<int64_t>> all;
      for (int64_t k = 0; k < axes[i].extent; ++k) {
        for (std::vector<int64_t> offset : offsets_) {
          for (size_t o = 0; o < offset.size(); ++o) offset[o] += k * axes[i].strides[o];
          all.push_back(std::move(offset));
        }
      }
      offsets_ = std::move(all);
    }
  }

  void prepare() {
    for (const std::vector<int64_t>& offsets : offsets_) {
      Words call;
      for (size_t o = 0; o < operands_.size(); ++o) {
        const auto& [view, address, is_matrix, offset] = operands_[o];
        const auto item = static_cast<int64_t>(itemsize(view.dtype));
        call.places.push_back({call.words.size(), address, (offsets[o] + offset) * item});
        call.words.insert(call.words.end(), {0, outer_strides_[o], inner_strides_[o], view.strides[rank_ - 2]});
        if (is_matrix) call.words.insert(call.words.end(), {view.strides[rank_ - 1], view.shape[rank_ - 1]});
      }
      call.words.insert(call.words.end(), {outer_ * inner_, inner_, queries_, keys_, 0});
      calls_.push_back(std::move(call));
    }
  }

  // Where query, key, value, result and lse are among the operands, and the backward's grad and gradients.
  std::span<const int> order() const {
    static constexpr int kForward[] = {0, 1, 2, 3, 4}, kBackward[] = {1, 2, 3, 4, 8, 0, 5, 6, 7};
    return text_.backward ? std::span<const int>(kBackward) : kForward;
  }

  /// Leaves it to cuDNN where that is there, takes it and is faster. Its kernels are compiled for their sizes (0.1 to
  /// 0.5 s), so lengths that a program goes through one by one stay with ours.
  void bind_cudnn() {
    if (text_.mask != AttentionText::Mask::kNone || !is_half(text_.dtype)) return;
    if (!aligned_ || offsets_.size() != 1 || queries_ % kCudnnRows != 0 || keys_ % kCudnnRows != 0) return;
    if (queries_ < (text_.backward ? kCudnnLeastBackward : kCudnnLeast)) return;
    std::vector<eager::cuda::DnnMatrix> matrices;
    for (const int i : order()) {
      const LibraryView& view = operands_[i].view;
      const int64_t row = view.strides[rank_ - 2], width = operands_[i].is_matrix ? view.shape[rank_ - 1] : 1;
      eager::cuda::DnnMatrix m{{outer_, inner_, view.shape[rank_ - 2], width},
                               {outer_strides_[i], inner_strides_[i], row, 1}};
      for (int axis = 0; axis < 2; ++axis) {
        if (m.shape[axis] == 1) m.strides[axis] = m.shape[2] * row;
        if (m.strides[axis] <= 0) return;
      }
      if (row < width) return;
      matrices.push_back(m);
    }
    matrices.resize(9);
    problem_ = {text_.dtype, text_.is_causal, text_.backward, matrices[0], matrices[1], matrices[2],
                matrices[3], matrices[4],     matrices[5],    matrices[6], matrices[7], matrices[8]};
    plan_ = problem_.plan(device_);
  }

  void launch(const AttentionText& text, Kernel which, std::vector<int64_t>& words) const {
    const AttentionText::Shape block = text.shape_of(which);
    const int64_t rows = which == Kernel::kGradKey ? keys_ : queries_;
    const int64_t blocks = (rows + block.rows() - 1) / block.rows() * outer_ * inner_;
    SMOLDER_CHECK(blocks < int64_t{1} << 31, NotImplementedError, "attention of ", outer_ * inner_, " heads of ", rows,
                  " rows has more blocks than a launch");
    smolder::cuda::LaunchShape shape;
    shape.grid[0] = static_cast<unsigned>(blocks);
    shape.block[0] = static_cast<unsigned>(block.threads);
    shape.shared_bytes = static_cast<unsigned>(text.shared_of(which));
    void* parameters[] = {words.data()};
    const smolder::cuda::DriverKernel kernel = kernel_of(text, which, smolder::cuda::device_info(device_));
    smolder::cuda::launch(kernel, smolder::cuda::Queue::of(device_).stream(), shape, parameters);
  }

  int device_;
  AttentionText text_;
  bool aligned_ = false;
  int rank_ = 0, scale_ = 0;
  DType scale_dtype_ = DType::kFloat64;
  int64_t queries_ = 0, keys_ = 0, width_ = 0, outer_ = 1, inner_ = 1;
  LibraryView delta_;
  std::vector<Operand> operands_;
  std::vector<int64_t> outer_strides_, inner_strides_;
  std::vector<std::vector<int64_t>> offsets_;
  std::vector<Words> calls_;
  eager::cuda::DnnAttention problem_;
  std::shared_ptr<const eager::cuda::DnnPlan> plan_;  ///< null: by our kernels
};

/// Where a node has its operands, and how many matrices are before them.
struct Layout {
  size_t query, mask, scale;
};
Layout layout_of(const ir::Node& n) {
  return n.op == Op::kAttention ? Layout{.query = 0, .mask = 3, .scale = 4} : Layout{.query = 1, .mask = 4, .scale = 7};
}

}  // namespace

bool takes_attention(int device, ir::Graph& g, const ir::Node& n, bool mask_has_gradient, bool allow_tf32) {
  if (n.op != Op::kAttention && n.op != Op::kAttentionBackward) return false;
  const Layout at = layout_of(n);
  const ir::ValueId query = n.inputs[at.query], value = n.inputs[at.query + 2], scale = n.inputs[at.scale];
  const ir::ValueId mask = n.inputs[at.mask];
  // The gradient of no mask, or of bools, is zero: an eager op has it among its results, and is kept whole as a step's
  // is.
  const bool added = mask != ir::kNone && is_floating(g.dtype(mask));
  const bool single = g.dtype(query) == DType::kFloat32;
  if (!(single || is_half(g.dtype(query))) || (added && mask_has_gradient)) return false;
  // A library call takes no number that is computed in the step.
  const Op number = g.op(scale);
  if (!g.info(scale).weak || (number != Op::kParameter && number != Op::kConstant)) return false;
  for (const ir::ValueId v : {query, n.inputs[at.query + 1], value}) {
    const ir::SymDims& shape = g.shape(v);
    for (const ir::Dim& d : shape) {
      if (d.value == 0) return false;
    }
    if (!g.sym.less_equal(shape[shape.size() - 1], AttentionText::kWidest)) return false;
    if (!g.sym.less_equal(shape[shape.size() - 2], kMostRows)) return false;
  }
  // Where few queries go through many keys, products of all keys at once are sooner done than a block by itself.
  const int axis = g.shape(query).size() - 2;
  const ir::Dim queries = g.shape(query)[axis], keys = g.shape(value)[axis];
  if (single &&
      !(g.sym.less_equal(kLeastFloats, queries) && g.sym.less_equal(keys, g.sym.mul(queries, kLeastFloats)))) {
    return false;
  }
  // Without tensor cores two products more cost more than scores in memory do, once those are many.
  if (single && !allow_tf32 && n.op == Op::kAttentionBackward) {
    constexpr int64_t kMostKeys = 256, kMostWidth = 64;
    for (const ir::ValueId v : {query, value}) {
      if (!g.sym.less_equal(g.shape(v)[axis + 1], kMostWidth)) return false;
    }
    if (!g.sym.less_equal(keys, kMostKeys)) return false;
  }
  return smolder::cuda::is_available() && smolder::cuda::device_info(device).major >= 8;
}

void append_attention(ir::Builder& b, ir::Graph& g, const ir::Node& n, bool rows_first, ir::ValueId* results) {
  const Layout at = layout_of(n);
  const int rank = g.shape(n.inputs[at.query]).size();
  rows_first = rows_first && rank >= 3;
  const bool backward = n.op == Op::kAttentionBackward;
  const auto matrix = [&](ir::SymDims shape, const ir::Dim& width, DType dtype) {
    shape[rank - 1] = width;
    if (rows_first) std::swap(shape[rank - 2], shape[rank - 3]);
    return ir::ValueInfo{ir::kNone, dtype, false, shape};
  };
  std::vector<ir::ValueId> inputs = n.inputs;
  if (backward) {  // of an attention they are so
    ir::ValueId &output = inputs[at.mask + 1], &lse = inputs[at.mask + 2];
    output = b.cast(b.wrap(output), g.dtype(n.inputs[at.query])).id;
    lse = b.cast(b.wrap(lse), DType::kFloat32).id;
  }
  const bool masked = inputs[at.mask] != ir::kNone;
  const ir::SymDims mask_shape = masked ? g.shape(inputs[at.mask]) : ir::SymDims{};
  if (masked) {
    ir::SymDims whole = mask_shape;
    while (whole.size() < rank) whole.insert(0, 1);
    inputs[at.mask] = b.reshape(b.wrap(inputs[at.mask]), whole).id;
  } else {
    inputs.erase(inputs.begin() + static_cast<ptrdiff_t>(at.mask));
  }
  std::vector<ir::ValueInfo> infos;
  for (size_t i = at.query; i < at.query + (backward ? 3 : 1); ++i) {
    const ir::SymDims& shape = g.shape(n.inputs[i]);
    const ir::Dim width = g.shape(n.inputs[backward ? i : i + 2])[rank - 1];
    infos.push_back(matrix(shape, width, g.dtype(n.inputs[i])));
  }
  if (!backward) {
    ir::SymDims rows = g.shape(n.inputs[0]);
    rows[rank - 1] = 1;
    infos.push_back({ir::kNone, DType::kFloat32, false, rows});
  }
  const Op op = backward ? (masked ? Op::kFlashAttentionBackwardMasked : Op::kFlashAttentionBackward)
                         : (masked ? Op::kFlashAttentionMasked : Op::kFlashAttention);
  const ir::ValueId first = g.append(op, std::move(inputs), {n.attrs[0], rows_first ? 1 : 0}, infos, n.origin);
  const auto arranged = [&](int i) {
    const ir::Value x = b.wrap(first + i);
    return rows_first ? b.transpose(x, -2, -3).id : x.id;
  };
  if (backward) {
    for (int i = 0; i < 3; ++i) results[i] = arranged(i);
    const ir::Value zero = b.cast(b.constant(0.0), infos[0].dtype);  // of a mask's gradient, which nobody reads
    const bool added = masked && is_floating(g.dtype(n.inputs[at.mask]));
    results[3] = added ? b.expand(zero, mask_shape).id : zero.id;
  } else {
    results[0] = arranged(0);
    results[1] = first + 1;
  }
}

std::unique_ptr<BoundLibrary> bind_attention(int device, Op op, const std::vector<LibraryView>& inputs,
                                             const std::vector<LibraryView>& outputs,
                                             const std::vector<int64_t>& attrs) {
  return std::make_unique<AttentionCall>(device, op, inputs, outputs, attrs);
}

}  // namespace smolder::jit::cuda
