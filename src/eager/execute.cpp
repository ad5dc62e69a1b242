#include "smolder/eager/execute.h"

#include <absl/container/flat_hash_map.h>

#include <mutex>
#include <optional>
#include <utility>

#include "smolder/core/fork.h"
#include "smolder/core/hash.h"
#include "smolder/core/memory_history.h"
#include "smolder/eager/pieces.h"
#include "smolder/eager/view.h"
#include "smolder/ir/attrs.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/infer.h"

namespace smolder::eager {
namespace {

using ir::kNone;
using ir::Meta;
using ir::Op;
using ir::ValueId;

/// Programs kept for single ops. Beyond this many (a loop over ever new sizes) all are forgotten.
constexpr size_t kRememberedPrograms = 8192;

/// Sizes of a graph at given symbols.
class Sizes {
 public:
  Sizes(const ir::Graph& g, std::span<const int64_t> symbols) {
    if (!symbols.empty()) ir::SymTable::evaluate(g.sym.exprs(), symbols, evaluated_);
  }
  int64_t operator()(const ir::Dim& d) const {
    return evaluated_.empty() ? d.value : ir::SymTable::value(d, evaluated_);
  }
  Dims dims(const auto& list) const {
    Dims out;
    for (const ir::Dim& d : list) out.push_back((*this)(d));
    return out;
  }
  Meta meta(const ir::ValueInfo& v) const { return {dims(v.shape), v.dtype, v.weak}; }

 private:
  std::vector<int64_t> evaluated_;
};

/// Results of a kernel, to be filled.
std::vector<Array> allocate_outputs(std::span<const Meta> metas, DispatchKey key) {
  std::vector<Array> out;
  out.reserve(metas.size());
  for (const Meta& m : metas) {
    out.push_back(m.weak ? Array::from_number(Scalar::from_bits(0, category(m.dtype)))
                         : Array::empty(m.shape, m.dtype, device_of(key)));
  }
  return out;
}

/// Runs the registered kernel of `op`. `bad` is empty, or names an index out of range that it met.
std::vector<Array> run_kernel(Op op, std::span<const TensorView> inputs, std::span<const int64_t> attrs,
                              std::span<const Meta> metas, DispatchKey key, std::optional<BadIndex>& bad) {
  std::vector<Array> outputs = allocate_outputs(metas, key);
  std::vector<TensorView> out;
  out.reserve(outputs.size());
  for (const Array& a : outputs) out.push_back(a.view());
  ErrorReport errors;
  dispatch(key, {op, inputs, out, attrs, &errors});
  if (errors.has_bad_index()) bad = BadIndex{0, std::string(ir::name(op)), errors.index(), errors.extent()};
  return outputs;
}

std::vector<TensorView> views_of(std::span<const Array> arrays) {
  std::vector<TensorView> views;
  views.reserve(arrays.size());
  for (const Array& a : arrays) views.push_back(a.view());
  return views;
}

/// The key of a single op's program, as words.
std::vector<int64_t> memo_key(Op op, std::span<const Meta* const> inputs, std::span<const int64_t> attrs) {
  size_t size = 2 + inputs.size() + attrs.size();
  for (const Meta* m : inputs) size += m ? static_cast<size_t>(m->shape.size()) : 0;
  std::vector<int64_t> words;
  words.reserve(size);
  words.push_back(static_cast<int64_t>(op));
  words.push_back(static_cast<int64_t>(inputs.size()));
  for (const Meta* m : inputs) {
    if (!m) {
      words.push_back(-1);
      continue;
    }
    words.push_back(static_cast<int64_t>(m->dtype) << 16 | int64_t{m->weak} << 8 | m->shape.size());
    words.insert(words.end(), m->shape.begin(), m->shape.end());
  }
  words.insert(words.end(), attrs.begin(), attrs.end());
  return words;
}

struct HashWords {
  size_t operator()(const std::vector<int64_t>& words) const {
    return hash_bytes(words.data(), words.size() * sizeof(int64_t)).lo;
  }
};

}  // namespace

/// One node, with nothing left to find out.
struct Program::Step {
  enum Kind : uint8_t { kLeaf, kParameter, kConstant, kView, kKernel, kOp } kind;
  Op op;
  bool recorded = false;  ///< as a user called it, not within a decomposition
  uint32_t source = 0;
  std::vector<ValueId> inputs;  ///< kNone where absent
  std::vector<int64_t> attrs;
  ValueId first_output = 0;
  std::vector<Meta> outputs;
  std::vector<ValueId> dead;            ///< values that nothing after this reads
  bool in_pieces = false;               ///< where the program has pieces: one of them
  Array constant;                       ///< kConstant
  std::shared_ptr<const Program> body;  ///< kOp: the decomposition
};

class Program::Compiler {
 public:
  Compiler(const ir::Graph& g, std::span<const int64_t> symbols, bool normalized)
      : g_(g), sizes_(g, symbols), normalized_(normalized) {}

  std::shared_ptr<const Program> compile() {
    std::shared_ptr<Program> p(new Program);
    p->outputs_ = g_.outputs;
    p->num_values_ = g_.values.size();
    for (const ir::Node& n : g_.nodes) p->steps_.push_back(step(n));
    mark_dead(*p);
    if (normalized_) find_pieces(*p);
    return p;
  }

 private:
  Step step(const ir::Node& n) {
    Step s{kind(n), n.op, !normalized_, n.origin.source, n.inputs, {}, n.first_output, {}, {}, false, {}, {}};
    for (const ir::Dim& d : n.attrs) s.attrs.push_back(sizes_(d));
    for (int i = 0; i < n.num_outputs; ++i) s.outputs.push_back(sizes_.meta(g_.values[n.first_output + i]));
    if (s.kind == Step::kConstant) s.constant = constant(s);
    if (s.kind == Step::kOp) s.body = body(s);
    return s;
  }

  Step::Kind kind(const ir::Node& n) const {
    switch (n.op) {
      case Op::kLeaf:
        return Step::kLeaf;
      case Op::kParameter:
        return Step::kParameter;
      case Op::kConstant:
      case Op::kExtent:
        return Step::kConstant;
      default:
        break;
    }
    // A primitive as a user recorded it may mix dtypes and shapes; its decomposition puts that right.
    const bool decompose = ir::info(n.op).decompose && !(normalized_ && ir::info(n.op).flags.primitive);
    return decompose ? Step::kOp : is_view(n.op) ? Step::kView : Step::kKernel;
  }

  static Array constant(const Step& s) {
    if (s.op == Op::kExtent) return Array::from_number(Scalar(s.attrs[0]));
    const auto v = Scalar::from_bits(static_cast<uint64_t>(s.attrs[1]), static_cast<Category>(s.attrs[0]));
    Array number = Array::from_number(v);
    if (s.outputs[0].weak) return number;
    std::optional<BadIndex> none;
    const int64_t dtype = static_cast<int64_t>(s.outputs[0].dtype);
    const MemoryFor use("constant of an op", 0);
    return run_kernel(Op::kCast, views_of({&number, 1}), {&dtype, 1}, s.outputs, DispatchKey::kCPU, none)[0];
  }

  std::shared_ptr<const Program> body(const Step& s) const {
    std::vector<Meta> metas(s.inputs.size());
    std::vector<const Meta*> pointers;
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      if (s.inputs[i] != kNone) metas[i] = sizes_.meta(g_.values[s.inputs[i]]);
      pointers.push_back(s.inputs[i] == kNone ? nullptr : &metas[i]);
    }
    return remembered(s.op, pointers, s.attrs);
  }

  void mark_dead(Program& p) const {
    std::vector<size_t> last(p.num_values_, 0);
    for (size_t i = 0; i < p.steps_.size(); ++i) {
      const Step& s = p.steps_[i];
      for (size_t k = 0; k < s.outputs.size(); ++k) last[s.first_output + k] = i;
      for (ValueId v : s.inputs) {
        if (v != kNone) last[v] = i;
      }
    }
    for (ValueId v : p.outputs_) last[v] = p.steps_.size();
    for (ValueId v = 0; v < p.num_values_; ++v) {
      if (last[v] < p.steps_.size()) p.steps_[last[v]].dead.push_back(v);
    }
  }

  /// Several elementwise primitives over one shape, which is that of the results.
  void find_pieces(Program& p) const {
    if (p.outputs_.empty()) return;
    const Meta result = sizes_.meta(g_.values[p.outputs_[0]]);
    std::vector<bool> full, kernels(p.num_values_);
    for (const ir::ValueInfo& v : g_.values) full.push_back(!v.weak && sizes_.dims(v.shape) == result.shape);
    std::vector<Pieces::Step> pieces;
    for (Step& s : p.steps_) {
      const bool is_full = !s.outputs.empty() && full[s.first_output];
      if (!is_full || s.kind == Step::kLeaf) {
        if (std::ranges::any_of(s.inputs, [&](ValueId v) { return v != kNone && full[v]; })) return;
        continue;
      }
      if (!is_piece(s, full)) return;
      s.in_pieces = true;
      kernels[s.first_output] = s.kind == Step::kKernel;
      pieces.push_back({s.op, s.inputs, s.attrs, s.first_output, s.outputs[0].dtype});
    }
    if (std::ranges::count(kernels, true) < 2) return;
    if (!std::ranges::all_of(p.outputs_, [&](ValueId v) { return kernels[v]; })) return;
    p.pieces_ = std::make_unique<Pieces>(result.shape, std::move(pieces), p.outputs_, std::move(full));
  }

  bool is_piece(const Step& s, const std::vector<bool>& full) const {
    if (s.kind == Step::kView && s.op == Op::kExpand) {
      const ir::ValueInfo& one = g_.values[s.inputs[0]];
      return !full[s.inputs[0]] && (one.weak || numel(sizes_.dims(one.shape)) == 1);
    }
    return s.kind == Step::kKernel && (ir::is_elementwise_primitive(s.op) || s.op == Op::kCast) &&
           std::ranges::all_of(s.inputs, [&](ValueId v) { return v != kNone && (full[v] || g_.values[v].weak); });
  }

  const ir::Graph& g_;
  Sizes sizes_;
  bool normalized_;
};

class Program::Runner {
 public:
  Runner(const Program& p, std::span<const Array> leaves, std::span<const uint64_t> parameters, DispatchKey key,
         std::vector<BadIndex>& bad_indices)
      : p_(p), leaves_(leaves), parameters_(parameters), key_(key), bad_indices_(bad_indices), values_(p.num_values_) {}

  std::vector<Array> run() {
    if (p_.pieces_) {
      for (const Step& s : p_.steps_) {
        if (!s.in_pieces) step(s);
      }
    }
    const bool by_pieces = p_.pieces_ && p_.pieces_->run(values_, key_);
    for (const Step& s : p_.steps_) {
      if (by_pieces) break;
      if (!p_.pieces_ || s.in_pieces) step(s);
      for (ValueId v : s.dead) values_[v].buffer.reset();
    }
    std::vector<Array> outputs;
    outputs.reserve(p_.outputs_.size());
    for (ValueId v : p_.outputs_) outputs.push_back(values_[v]);
    return outputs;
  }

 private:
  void step(const Step& s) {
    Array& out = values_[s.first_output];
    switch (s.kind) {
      case Step::kLeaf:
        out = leaf(s);
        return;
      case Step::kParameter:
        SMOLDER_CHECK(s.attrs[0] < static_cast<int64_t>(parameters_.size()), ValueError, "the graph reads parameter ",
                      s.attrs[0], " of ", parameters_.size());
        out = Array::from_number(Scalar::from_bits(parameters_[s.attrs[0]], static_cast<Category>(s.attrs[1])));
        return;
      case Step::kConstant:
        out = s.constant.weak ? s.constant : on_device(s.constant);
        return;
      case Step::kView:
        if (!(s.recorded && resolve(key_, s.op) != s.op) && view(s, out)) return;
        break;
      case Step::kKernel:
      case Step::kOp:
        break;
    }
    const Op op = s.recorded ? resolve(key_, s.op) : s.op;
    const bool whole = op != s.op || s.kind != Step::kOp || taken_whole(op);
    std::vector<Array> outputs = whole ? kernel(op, s) : decomposed(s);
    std::move(outputs.begin(), outputs.end(), values_.begin() + s.first_output);
  }

  /// A constant, which was made on the CPU.
  Array on_device(const Array& a) const {
    const Device where = device_of(key_);
    if (where.type == DeviceType::kCPU) return a;
    Array copy = Array::empty(a.shape, a.dtype, where);
    copy_from_host(copy.data, a.data, a.bytes(), where);
    return copy;
  }

  Array leaf(const Step& s) const {
    const auto number = static_cast<size_t>(s.attrs[0]);
    SMOLDER_CHECK(number < leaves_.size(), ValueError, "the graph reads leaf ", number, " of ", leaves_.size());
    const Array& a = leaves_[number];
    SMOLDER_CHECK(a.meta() == s.outputs[0], ValueError, "leaf ", number, " is ", ir::to_string(a.meta()),
                  ", the graph expects ", ir::to_string(s.outputs[0]));
    return a;
  }

  bool view(const Step& s, Array& out) const {
    const Array& in = values_[s.inputs[0]];
    if (in.weak) {
      out = in;
      return true;
    }
    const auto v = view_of(s.op, in.view(), s.attrs, s.outputs[0].shape);
    if (!v) return false;
    out = in;
    out.data = v->data;
    out.shape = v->shape;
    out.strides = v->strides;
    return true;
  }

  /// An op that is no primitive has a kernel only where a user registered one.
  bool taken_whole(Op op) const { return !ir::info(op).flags.primitive && find_kernel(key_, op); }

  std::vector<Array> kernel(Op op, const Step& s) {
    std::vector<TensorView> inputs;
    inputs.reserve(s.inputs.size());
    for (ValueId v : s.inputs) inputs.push_back(v == kNone ? TensorView() : values_[v].view());
    std::optional<BadIndex> bad;
    std::vector<Array> out = run_kernel(op, inputs, s.attrs, s.outputs, key_, bad);
    if (bad) report(s, *bad);
    return out;
  }

  std::vector<Array> decomposed(const Step& s) {
    std::vector<Array> inputs;
    inputs.reserve(s.inputs.size());
    for (ValueId v : s.inputs) inputs.push_back(v == kNone ? Array() : values_[v]);
    std::vector<uint64_t> numbers;
    for (const Array& a : inputs) numbers.push_back(a.number);
    std::vector<BadIndex> inner;
    std::vector<Array> out = Runner(*s.body, inputs, numbers, key_, inner).run();
    if (!inner.empty()) report(s, inner[0]);
    return out;
  }

  /// Under the name of the op that was recorded.
  void report(const Step& s, const BadIndex& bad) {
    bad_indices_.push_back({s.source, std::string(ir::name(s.op)), bad.index, bad.extent});
  }

  const Program& p_;
  std::span<const Array> leaves_;
  std::span<const uint64_t> parameters_;
  DispatchKey key_;
  std::vector<BadIndex>& bad_indices_;
  std::vector<Array> values_;
};

void check_result(Op op, const Meta& result) {
  SMOLDER_CHECK(!is_complex(result.dtype) || op == Op::kViewAsComplex, NotImplementedError, ir::name(op),
                ": results of dtype ", name(result.dtype), " are not supported");
}

Program::Program() = default;
Program::~Program() = default;

std::shared_ptr<const Program> Program::compile(const ir::Graph& g, std::span<const int64_t> symbols) {
  return compile(g, symbols, false);
}

std::shared_ptr<const Program> Program::compile(const ir::Graph& g, std::span<const int64_t> symbols, bool normalized) {
  return Compiler(g, symbols, normalized).compile();
}

/// The program of one op: operand i is leaf i or parameter i.
std::shared_ptr<const Program> Program::for_op(Op op, std::span<const Meta* const> inputs,
                                               std::span<const int64_t> attrs) {
  const ir::OpInfo& row = ir::info(op);
  SMOLDER_CHECK(row.infer, ValueError, row.name, " is no op to run by itself");
  std::vector<Meta> outputs(row.num_outputs);
  row.infer({inputs, attrs}, outputs.data());
  for (const Meta& m : outputs) check_result(op, m);

  ir::Graph g;
  ir::Builder b(g);
  ir::Node node{op, row.num_outputs, kNone, {}, {}, {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int number = static_cast<int>(i);
    node.inputs.push_back(!inputs[i]        ? kNone
                          : inputs[i]->weak ? b.parameter(number, category(inputs[i]->dtype)).id
                                            : b.leaf(number, inputs[i]->dtype, ir::SymDims(inputs[i]->shape)).id);
  }
  node.attrs.assign(attrs.begin(), attrs.end());
  std::vector<ir::ValueInfo> results;
  for (const Meta& m : outputs) results.push_back({kNone, m.dtype, m.weak, ir::SymDims(m.shape)});
  if (row.decompose) {
    g.outputs.resize(results.size());
    row.decompose(b, node, results, g.outputs.data());
  } else {
    const ValueId first = g.append(op, node.inputs, node.attrs, results);
    for (size_t i = 0; i < results.size(); ++i) g.outputs.push_back(first + static_cast<ValueId>(i));
  }
  return compile(g, {}, true);
}

namespace {
ForkMutex g_remembering;
}  // namespace

std::shared_ptr<const Program> Program::remembered(Op op, std::span<const Meta* const> inputs,
                                                   std::span<const int64_t> attrs) {
  // Never destroyed: ops may run in static destructors.
  static auto& programs = *new absl::flat_hash_map<std::vector<int64_t>, std::shared_ptr<const Program>, HashWords>;
  std::vector<int64_t> key = memo_key(op, inputs, attrs);
  {
    const std::lock_guard hold(g_remembering);
    if (const auto found = programs.find(key); found != programs.end()) return found->second;
  }
  std::shared_ptr<const Program> made = for_op(op, inputs, attrs);
  const std::lock_guard hold(g_remembering);
  if (programs.size() >= kRememberedPrograms) programs.clear();
  return programs.try_emplace(std::move(key), std::move(made)).first->second;
}

std::vector<Array> Program::run(std::span<const Array> leaves, std::span<const uint64_t> parameters, DispatchKey key,
                                std::vector<BadIndex>* bad_indices) const {
  std::vector<BadIndex> found;
  std::vector<Array> out = Runner(*this, leaves, parameters, key, found).run();
  if (!found.empty()) {
    if (!bad_indices) ir::raise_index_error(ir::find_op(found[0].op), to_string(found[0]), "");
    bad_indices->insert(bad_indices->end(), found.begin(), found.end());
  }
  return out;
}

std::vector<Array> execute(Op op, std::span<const Array> inputs, std::span<const int64_t> attrs, DispatchKey key,
                           std::vector<BadIndex>* bad_indices) {
  std::vector<Meta> metas(inputs.size());
  std::vector<const Meta*> pointers;
  pointers.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    metas[i] = inputs[i].meta();
    pointers.push_back(inputs[i].defined() ? &metas[i] : nullptr);
  }
  const auto report = [&](BadIndex bad) {
    bad.source = 0;
    bad.op = ir::name(op);
    if (!bad_indices) ir::raise_index_error(op, to_string(bad), "");
    bad_indices->push_back(std::move(bad));
  };
  const ir::OpInfo& row = ir::info(op);
  const Op runs = resolve(key, op);
  if (runs != op || (!row.flags.primitive && find_kernel(key, op))) {
    std::vector<Meta> outputs(row.num_outputs);
    row.infer({pointers, attrs}, outputs.data());
    for (const Meta& m : outputs) check_result(op, m);
    std::optional<BadIndex> bad;
    std::vector<Array> out = run_kernel(runs, views_of(inputs), attrs, outputs, key, bad);
    if (bad) report(*bad);
    return out;
  }
  const std::shared_ptr<const Program> program = Program::remembered(op, pointers, attrs);
  std::vector<uint64_t> numbers;
  numbers.reserve(inputs.size());
  for (const Array& a : inputs) numbers.push_back(a.number);
  std::vector<BadIndex> found;
  std::vector<Array> out = program->run(inputs, numbers, key, &found);
  if (!found.empty()) report(found[0]);
  return out;
}

std::string to_string(const BadIndex& bad) {
  const Op op = ir::find_op(bad.op);
  if (bad.extent >= 0 && ir::info(op).flags.wraps_indices) {
    const int64_t given = bad.index < 0 ? bad.index - bad.extent : bad.index;
    return "index " + std::to_string(given) + " is out of bounds for a dimension with size " +
           std::to_string(bad.extent);
  }
  std::string text = "index out of range in " + std::string(ir::called(op));
  if (bad.extent >= 0) text += ": " + std::to_string(bad.index) + " is not in [0, " + std::to_string(bad.extent) + ")";
  return text;
}

Array contiguous(const Array& a, DispatchKey key) {
  if (a.is_contiguous()) return a;
  const Meta meta = a.meta();
  std::optional<BadIndex> none;
  return run_kernel(Op::kBarrier, views_of({&a, 1}), {}, {&meta, 1}, key, none)[0];
}

std::vector<Array> execute_graph(const ir::Graph& g, std::span<const Array> leaves,
                                 std::span<const uint64_t> parameters, std::span<const int64_t> symbols,
                                 std::vector<BadIndex>* bad_indices) {
  return Program::compile(g, symbols)->run(leaves, parameters, DispatchKey::kCPU, bad_indices);
}

std::vector<Array> bind_leaves(const ir::Graph& g, std::span<void* const> addresses, std::span<const int64_t> symbols) {
  const Sizes sizes(g, symbols);
  std::vector<Array> leaves(addresses.size());
  for (const ir::Node& n : g.nodes) {
    if (n.op != Op::kLeaf) continue;
    ir::NodeAttrReader attrs(n.attrs);
    const auto number = static_cast<size_t>(attrs.integer());
    SMOLDER_CHECK(number < addresses.size(), ValueError, "the graph reads leaf ", number, " of ", addresses.size());
    const ir::ValueInfo& v = g.values[n.first_output];
    const int64_t offset = sizes(attrs.size());
    Array& a = leaves[number];
    a.data = static_cast<char*>(addresses[number]) + offset * static_cast<int64_t>(itemsize(v.dtype));
    a.dtype = v.dtype;
    a.shape = sizes.dims(v.shape);
    a.strides = sizes.dims(attrs.sizes());
  }
  return leaves;
}

}  // namespace smolder::eager
