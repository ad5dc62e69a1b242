// Capture of a graph: the function is recorded with inputs like the examples, and again for other sizes. Where two
// recordings differ in an integer, that is a size, and is expressed by those that are dynamic.
#include "smolder/lazy/capture.h"
#include "smolder/graph/graph.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <unordered_map>

#include "smolder/autograd/node.h"
#include "smolder/graph/capture.h"
#include "smolder/graph/state.h"
#include "smolder/ir/attr_words.h"
#include "smolder/ir/control_flow.h"

#include "smolder/ir/infer.h"
#include "smolder/lazy/extract.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/random.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/view.h"

namespace smolder::graph {
namespace {

using ir::Dim;
using ir::kNone;
using ir::Node;
using ir::Op;
using ir::ValueId;
using lazy::Tape;
using lazy::ValueRef;
using Symbols = std::vector<int64_t>;

constexpr const char* kWho = "smolder.capture";

/// Drops what a recording left pending, and gives back what it wrote to.
class DropPending {
 public:
  ~DropPending() {
    Tape::each([](Tape& tape) {
      if (tape.has_pending()) tape.abandon("it was recorded by smolder.capture, which computes nothing");
    });
  }
};

/// Generators go on from where they were.
class KeepGenerator {
 public:
  KeepGenerator() : before_(default_generator().state()) {}
  ~KeepGenerator() {
    const lazy::Capture::Pause unseen;
    default_generator().set_state(before_);
  }

 private:
  std::pair<uint64_t, uint64_t> before_;
};

class Recorder {
 public:
  Recorder(const CaptureFunction& fn, const std::vector<Example>& examples, const CaptureOptions& options)
      : fn_(fn), examples_(examples), options_(options) {
    for (const auto& [name, t] : options.weights) {
      SMOLDER_CHECK(t.defined(), ValueError, kWho, ": weight '", name, "' is undefined");
      lazy::refresh(t.impl());
      const ValueRef now = t.impl()->value;
      if (!now->external && numbers_.try_emplace(now.get(), kept_.size()).second) kept_.push_back({{name, t}, now});
    }
  }

  /// The graph for inputs of these shapes, all sizes constant.
  State record(const std::vector<Dims>& shapes);

 private:
  struct Kept {
    Weight weight;
    ValueRef value;  ///< alive as long as values are compared by address
  };
  std::vector<Tensor> make_inputs(const std::vector<Dims>& shapes) const;
  void check_effects(const lazy::Capture& capture, Tape& tape, const std::vector<Tensor>& inputs) const;
  void lift(const ValueRef& v, lazy::Sources& sources);
  State build(const lazy::StepRecord& step, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
              const lazy::Sources& sources);
  std::string name_of(const std::vector<std::string>& names, const char* kind, size_t i) const {
    return i < names.size() ? names[i] : kind + std::string("_") + std::to_string(i);
  }

  const CaptureFunction& fn_;
  const std::vector<Example>& examples_;
  const CaptureOptions& options_;
  std::vector<Kept> kept_;  ///< named weights, then what else recordings read
  std::unordered_map<const lazy::Value*, size_t> numbers_;
  std::vector<size_t> lifted_;  ///< in this recording, in order of first use
};

std::vector<Tensor> Recorder::make_inputs(const std::vector<Dims>& shapes) const {
  std::vector<Tensor> out;
  for (size_t i = 0; i < examples_.size(); ++i) {
    const Example& like = examples_[i];
    const size_t bytes = static_cast<size_t>(numel(shapes[i])) * itemsize(like.dtype);
    BufferRef memory = allocate(bytes, like.device);
    if (like.device.type == DeviceType::kCPU) std::memset(memory->data(), 0, bytes);
    Tensor t = Tensor::from_buffer(std::move(memory), shapes[i], like.dtype);
    if (like.requires_grad) t.requires_grad_();
    out.push_back(std::move(t));
  }
  return out;
}

void Recorder::check_effects(const lazy::Capture& capture, Tape& tape, const std::vector<Tensor>& inputs) const {
  for (const Tensor& t : tape.written()) {
    if (capture.made(t.impl())) continue;
    std::string what = "a tensor that it did not make";
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].impl() == t.impl()) what = "its input '" + name_of(options_.input_names, "input", i) + "'";
    }
    for (const auto& [name, w] : options_.weights) {
      if (lazy::owner_of(w.impl()) == t.impl()) what = "the weight '" + name + "'";
    }
    raise<RuntimeError>(
        kWho, ": the function writes to ", what, ", and a graph is a pure function: ",
        "return the new value instead (a module in training mode that keeps running statistics has to be "
        "in eval mode)");
  }
}

void Recorder::lift(const ValueRef& v, lazy::Sources& sources) {
  if (sources.contains(v.get())) return;
  size_t number = 0;
  if (const auto known = numbers_.find(v.get()); known != numbers_.end()) {
    number = known->second;
  } else {
    number = kept_.size();
    numbers_.emplace(v.get(), number);
    kept_.push_back({{"", Tensor(new lazy::TensorImpl(v))}, v});
  }
  sources.emplace(v.get(), lazy::ValueSource{lazy::ValueSource::kConstant, static_cast<uint32_t>(lifted_.size())});
  lifted_.push_back(number);
}

State Recorder::record(const std::vector<Dims>& shapes) {
  lifted_.clear();
  const lazy::EagerMode recorded(false);
  const KeepGenerator generator;
  const std::vector<Tensor> inputs = make_inputs(shapes);
  std::vector<Tensor> gradients;
  for (const auto& [name, t] : options_.weights) gradients.push_back(t.grad());
  lazy::Capture capture(true, kWho);
  const DropPending drop;
  std::vector<Tensor> outputs = fn_(inputs);
  for (const Tensor& t : outputs) {
    SMOLDER_CHECK(t.defined(), TypeError, kWho, ": the function returned an undefined tensor");
    lazy::refresh(t.impl());
  }
  lazy::Sources sources;
  for (size_t i = 0; i < inputs.size(); ++i) {
    SMOLDER_CHECK(!inputs[i].grad().defined(), RuntimeError, kWho, ": the function sets the gradient of its input '",
                  name_of(options_.input_names, "input", i), "': use autograd.grad, which returns it");
    sources.emplace(inputs[i].impl()->value.get(),
                    lazy::ValueSource{lazy::ValueSource::kInput, static_cast<uint32_t>(i)});
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    const auto& [name, t] = options_.weights[i];
    if (t.grad().impl() == gradients[i].impl()) continue;
    Tensor(t).set_grad(gradients[i]);
    raise<RuntimeError>(kWho, ": the function sets the gradient of the weight '", name,
                        "': use autograd.grad, which returns it");
  }
  Tape::each([&](Tape& tape) {
    if (!tape.has_pending()) return;
    tape.pending_trace();
    check_effects(capture, tape, inputs);
    for (const ValueRef& leaf : tape.leaves()) lift(leaf, sources);
  });
  for (const Tensor& t : outputs) {
    if (!t.impl()->value->pending) lift(lazy::value_now(t.impl()), sources);
  }
  const lazy::StepRecord step = capture.step(sources);
  for (const lazy::Draw& d : capture.draws()) {
    SMOLDER_CHECK(d.relative, RuntimeError, kWho, ": the function sets the state of a generator of random numbers, ",
                  "which a graph does not");
  }
  capture.generators({&default_generator()});
  return build(step, inputs, outputs, sources);
}

/// Has readers of a copy read what was copied: whether a reshape copies hangs on sizes that mean nothing here.
void read_past_copies(ir::Graph& g) {
  for (Node& n : g.nodes) {
    for (ValueId& v : n.inputs) {
      if (v != kNone && g.op(v) == Op::kClone) v = g.producer(v).inputs[0];
    }
  }
}

/// The number of a line among those that the graph has, from 1 on; 0 for none.
class SourceLines {
 public:
  explicit SourceLines(std::vector<std::string>& lines) : lines_(lines) {}
  uint32_t number(SourceToken source) {
    const auto [number, fresh] = numbers_.try_emplace(source, 0);
    if (!fresh) return number->second;
    std::string text = resolve_source(source);
    if (text.empty()) return 0;
    const auto known = std::ranges::find(lines_, text);  // two instructions of one line
    number->second = static_cast<uint32_t>(known - lines_.begin() + 1);
    if (known == lines_.end()) lines_.push_back(std::move(text));
    return number->second;
  }

 private:
  std::vector<std::string>& lines_;
  std::unordered_map<SourceToken, uint32_t> numbers_;
};

/// Adds the ops of a recorded step to the graph, and returns the graph's values of the step's. Numbers of the step
/// become constants, except those that a run draws anew.
std::vector<ValueId> append_trace(State& s, const lazy::StepRecord& step,
                                  const std::function<ValueId(lazy::ValueSource)>& leaf_of) {
  std::unordered_map<size_t, int64_t> draws;  // by place among the numbers
  for (const lazy::NumberPatch& p : step.patches)
    draws.emplace(p.parameter, 2 * int64_t{p.index} + (p.kind == lazy::NumberPatch::kOffset));
  size_t leaves = 0;
  const auto leaf = [&](uint32_t) { return leaf_of(step.leaves[leaves++]); };
  const auto number = [&](size_t place, Category category) {
    const Scalar value = Scalar::from_bits(step.parameters[place], category);
    const ir::ValueInfo info{kNone, value.dtype(DType::kFloat64), true, {}};
    const Dim kind = static_cast<int64_t>(category);
    const auto draw = draws.find(place);
    return draw == draws.end()
               ? s.ir.append(Op::kConstant, {}, {kind, Dim(static_cast<int64_t>(value.bits()))}, {&info, 1})
               : s.ir.append(Op::kParameter, {}, {Dim(draw->second), kind}, {&info, 1});
  };
  SourceLines lines(s.sources);
  const auto origin = [&](const lazy::Instr& e) { return ir::Origin{lines.number(e.source), {}}; };
  return lazy::extract(*step.trace, s.ir, {.leaf = leaf, .number = number, .origin = origin});
}

State Recorder::build(const lazy::StepRecord& step, const std::vector<Tensor>& inputs,
                      const std::vector<Tensor>& outputs, const lazy::Sources& sources) {
  State s;
  const auto leaf = [&](const ir::Meta& m, size_t number) {
    const ir::ValueInfo info{kNone, m.dtype, false, ir::SymDims(m.shape)};
    return s.ir.append(Op::kLeaf, {}, {Dim(static_cast<int64_t>(number)), Dim(0), Dim(0)}, {&info, 1});
  };
  std::vector<ValueId> leaves;  // by source: inputs, then what was lifted
  for (size_t i = 0; i < inputs.size(); ++i) {
    s.inputs.push_back(name_of(options_.input_names, "input", i));
    leaves.push_back(leaf(inputs[i].meta(), i));
  }
  for (size_t i = 0; i < lifted_.size(); ++i) {
    const Weight& w = kept_[lifted_[i]].weight;
    s.weights.push_back(w);
    leaves.push_back(leaf(w.tensor.meta(), leaves.size()));
  }
  const auto leaf_of = [&](lazy::ValueSource source) {
    return leaves[source.index + (source.kind == lazy::ValueSource::kInput ? 0 : inputs.size())];
  };
  std::vector<ValueId> made;  // by value of the trace
  if (step.tape) {
    made = append_trace(s, step, leaf_of);
    read_past_copies(s.ir);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueRef v = lazy::value_now(outputs[i].impl());
    const auto known = sources.find(v.get());
    const auto number = step.tape ? step.tape->number_of(*v) : std::nullopt;
    SMOLDER_CHECK(known != sources.end() || number, RuntimeError, kWho, ": result ", i,
                  " was computed before the function was called");
    s.ir.outputs.push_back(known != sources.end() ? leaf_of(known->second) : made[*number]);
    s.outputs.push_back(name_of(options_.output_names, "output", i));
  }
  drop_dead(s);
  return s;
}

// -- several sizes

/// The sizes that options mark.
Sizes marked_sizes(const std::vector<Tensor>& examples, const CaptureOptions& options) {
  SMOLDER_CHECK(options.dynamic_shapes.size() <= examples.size(), ValueError, kWho, ": dynamic_shapes are of ",
                options.dynamic_shapes.size(), " inputs, there are ", examples.size());
  struct Place {
    size_t input;
    int dimension;
    size_t symbol;
  };
  Sizes out;
  std::vector<Place> places;
  for (size_t i = 0; i < options.dynamic_shapes.size(); ++i) {
    for (const auto& [dimension, name] : options.dynamic_shapes[i]) {
      const int d = normalize_axis(dimension, examples[i].dim());
      const int64_t extent = examples[i].shape()[d];
      const auto known = std::ranges::find(out.names, name);
      const auto symbol = static_cast<size_t>(known - out.names.begin());
      if (known == out.names.end()) {
        out.names.push_back(name);
        out.sample.push_back(extent);
      }
      SMOLDER_CHECK(out.sample[symbol] == extent, ValueError, kWho, ": the dynamic size '", name, "' is ",
                    out.sample[symbol], " in one place of the examples and ", extent, " in another");
      places.push_back({i, d, symbol});
    }
  }
  for (int64_t& v : out.sample) v = std::max<int64_t>(v, 2);  // 0 and 1 mean more than a size
  std::vector<Dims> shapes;
  for (const Tensor& t : examples) shapes.push_back(t.shape());
  out.ranges = options.ranges;
  out.shapes = [shapes, places](const Symbols& at) {
    std::vector<Dims> now = shapes;
    for (const Place& p : places) now[p.input][p.dimension] = at[p.symbol];
    return now;
  };
  return out;
}

/// Whether attribute words may be sizes, by word; counts, choices and such may not.
std::vector<bool> integers_among(const Node& n) {
  std::vector<int64_t> words;
  for (const Dim& d : n.attrs) words.push_back(d.value);
  std::vector<bool> out(words.size());
  if (ir::is_control_flow(n.op)) return out;  // numbers of graphs
  ir::for_each_attr(ir::info(n.op), words, [&](const ir::AttrInfo& a, size_t first, size_t count) {
    using K = ir::AttrKind;
    const bool list = a.kind == K::kIntList || a.kind == K::kSizeList;
    const size_t skipped = a.kind == K::kInt || a.kind == K::kSize                           ? 0
                           : list || a.kind == K::kOptionalInt || a.kind == K::kOptionalSize ? 1
                           : a.kind == K::kOptionalIntList                                   ? 2
                                                                                             : count;
    for (size_t i = skipped; i < count; ++i) out[first + i] = true;
  });
  return out;
}

/// Empty where two recordings are one program, but for sizes; else what differs.
std::string difference(const State& a, const State& b) {
  const size_t common = std::min(a.ir.nodes.size(), b.ir.nodes.size());
  for (size_t i = 0; i < common; ++i) {
    const Node &x = a.ir.nodes[i], &y = b.ir.nodes[i];
    if (x.op != y.op) return node_name(a, x) + " is " + node_name(b, y);
    if (x.inputs != y.inputs || x.attrs.size() != y.attrs.size()) return node_name(a, x) + " has other operands";
    const std::vector<bool> integer = integers_among(x);
    for (size_t w = 0; w < x.attrs.size(); ++w) {
      const bool number = x.op == Op::kConstant && w == 1 && static_cast<Category>(x.attrs[0].value) == Category::kInt;
      if (x.attrs[w].value == y.attrs[w].value || (x.op != Op::kConstant && integer[w]) || number) continue;
      if (x.op != Op::kConstant) return node_name(a, x) + " has other attributes";
      return "a number is " + std::to_string(std::bit_cast<double>(x.attrs[w].value)) + " and " +
             std::to_string(std::bit_cast<double>(y.attrs[w].value)) +
             ", and only integers can follow from dynamic sizes";
    }
    for (ValueId v = x.first_output; v < x.first_output + x.num_outputs; ++v) {
      const ir::ValueInfo &p = a.ir.values[v], &q = b.ir.values[v];
      if (p.dtype != q.dtype || p.shape.size() != q.shape.size()) return node_name(a, x) + " has another dtype or rank";
    }
  }
  if (a.ir.nodes.size() != b.ir.nodes.size()) {
    const State& more = a.ir.nodes.size() > common ? a : b;
    return node_name(more, more.ir.nodes[common]) + " is not there";
  }
  if (a.ir.outputs != b.ir.outputs) return "it returns other values";
  for (size_t w = 0; w < a.weights.size(); ++w) {
    const Tensor &p = a.weights[w].tensor, &q = b.weights[w].tensor;
    if (p.impl()->value.get() == q.impl()->value.get()) continue;
    if (p.meta() != q.meta() || std::memcmp(p.materialize()->data(), q.materialize()->data(),
                                            static_cast<size_t>(p.numel()) * itemsize(p.dtype())) != 0) {
      return "a tensor that the function makes from data is another";
    }
  }
  return "";
}

struct Sample {
  Symbols at;
  State state;
};

/// Records for other sizes; those that the function refuses are left out.
std::vector<Sample> record_sizes(Recorder& recorder, const Sizes& sizes) {
  std::vector<Sample> out;
  ir::SymTable table;
  sizes.declare(table);
  std::string refused;
  std::vector<int> others(sizes.names.size());
  for (const Symbols& at : trials(table)) {
    State s;
    try {
      s = recorder.record(sizes.shapes(at));
    } catch (const Error& e) {
      if (out.empty()) throw;
      if (refused.empty()) refused = sizes.text(at) + ": " + e.what();
      continue;
    }
    if (!out.empty()) {
      const std::string why = difference(out[0].state, s);
      SMOLDER_CHECK(why.empty(), RuntimeError, kWho, ": with ", sizes.text(at),
                    " the function is another program than with ", sizes.text(out[0].at), ": ", why,
                    ". Fix the size, or write it so that it does not decide what is done.");
    }
    out.push_back({at, std::move(s)});
    for (size_t i = 0; i < at.size(); ++i) others[i] += at[i] != sizes.sample[i];
  }
  for (size_t i = 0; i < others.size(); ++i) {
    SMOLDER_CHECK(others[i] >= 2, RuntimeError, kWho, ": the size '", sizes.names[i],
                  "' cannot be dynamic: the function ", "takes no other, as with ", refused);
  }
  return out;
}

void name_weights(State& s) {
  int next = 0;
  for (Weight& w : s.weights) {
    while (w.name.empty()) {
      const std::string name = "constant_" + std::to_string(next++);
      const bool taken = std::ranges::find(s.weights, name, &Weight::name) != s.weights.end() ||
                         std::ranges::find(s.inputs, name) != s.inputs.end();
      if (!taken) w.name = name;
    }
  }
}

/// Makes the first of the recordings symbolic: every integer in which they differ follows from the dynamic sizes.
State generalise(std::vector<Sample>& samples, const Sizes& sizes) {
  State s = samples[0].state;
  s.symbols = sizes.names;
  name_weights(s);

  const std::vector<Dim> symbols = sizes.declare(s.ir.sym);
  std::vector<Symbols> at;
  for (const Sample& x : samples) at.push_back(x.at);
  const std::vector<ValueId> leaves = s.leaves();
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    ir::SymDims& shape = s.ir.values[leaves[i]].shape;
    for (int d = 0; d < shape.size(); ++d) {
      std::vector<int64_t> extents;
      for (const Symbols& x : at) extents.push_back(sizes.shapes(x)[i][d]);
      const std::optional<Dim> extent = fit(s.ir.sym, symbols, at, extents);
      SMOLDER_CHECK(extent, RuntimeError, kWho, ": a size of input '", s.inputs[i],
                    "' follows in no way that is known");
      shape[d] = *extent;
    }
  }
  for (size_t i = 0; i < s.ir.nodes.size(); ++i) {
    Node& n = s.ir.nodes[i];
    const auto extent = [&](size_t a, ValueId v, int d) { return samples[a].state.ir.shape(v)[d].value; };
    const std::vector<KnownSize> nearby = sizes_read(s, n, samples.size(), extent);
    for (size_t w = 0; w < n.attrs.size(); ++w) {
      std::vector<int64_t> values;
      for (const Sample& x : samples) values.push_back(x.state.ir.nodes[i].attrs[w].value);
      const std::optional<Dim> d = fit(s.ir.sym, symbols, at, values, nearby);
      const size_t other =
          static_cast<size_t>(std::ranges::find_if(values, [&](int64_t v) { return v != values[0]; }) - values.begin());
      SMOLDER_CHECK(d, RuntimeError, kWho, ": ", node_name(s, n), ": a size is ", values[0], " with ",
                    sizes.text(at[0]), " and ", values[other], " with ", sizes.text(at[other]),
                    ", which no form that a graph knows expresses");
      if (d->is_constant()) continue;
      if (n.op == Op::kConstant) {
        n.op = Op::kExtent;
        n.attrs = {*d};
        break;
      }
      n.attrs[w] = *d;
    }
    for (ValueId v = n.first_output; n.op != Op::kLeaf && v < n.first_output + n.num_outputs; ++v) {
      for (int d = 0; d < s.ir.shape(v).size(); ++d) {  // for what reads it; by the rules they are inferred below
        std::vector<int64_t> extents;
        for (size_t a = 0; a < samples.size(); ++a) extents.push_back(extent(a, v, d));
        if (const auto found = fit(s.ir.sym, symbols, at, extents, nearby)) s.ir.values[v].shape[d] = *found;
      }
    }
  }
  infer_shapes(s);
  return s;
}

/// Whether the graph is what the function is with these sizes.
bool holds_at(const State& s, Recorder& recorder, const Sizes& sizes, const Symbols& at) {
  try {
    const State recorded = recorder.record(sizes.shapes(at));
    const Instance found = infer(s, at);
    State concrete = s;
    for (size_t i = 0; i < concrete.ir.nodes.size(); ++i) {
      Node& n = concrete.ir.nodes[i];
      if (n.op == Op::kExtent) {
        n.op = Op::kConstant;
        n.attrs = {Dim(static_cast<int64_t>(Category::kInt)), Dim(found.words[i][0])};
      } else {
        for (size_t w = 0; w < n.attrs.size(); ++w) n.attrs[w] = Dim(found.words[i][w]);
      }
    }
    if (!difference(concrete, recorded).empty()) return false;
    for (size_t i = 0; i < concrete.ir.nodes.size(); ++i) {
      const Node &x = concrete.ir.nodes[i], &y = recorded.ir.nodes[i];
      for (size_t w = 0; w < x.attrs.size(); ++w) {
        if (x.attrs[w].value != y.attrs[w].value) return false;
      }
    }
    return true;
  } catch (const std::exception&) {  // of the function, of whatever kind
    return false;
  }
}

/// 0 and 1 are sizes that programs and rules take in their own ways.
void guard_small_sizes(State& s, Recorder& recorder, const Sizes& sizes) {
  for (size_t i = 0; i < sizes.names.size(); ++i) {
    const auto expr = std::ranges::find_if(s.ir.sym.exprs(), [&](const ir::SymExpr& e) {
      return e.op == ir::SymOp::kSymbol && e.a.value == static_cast<int64_t>(i);
    });
    const Dim symbol{sizes.sample[i], static_cast<ir::ExprId>(expr - s.ir.sym.exprs().begin())};
    for (const int64_t small : {1, 0}) {
      const auto range = sizes.ranges.find(sizes.names[i]);
      if (range != sizes.ranges.end() && range->second.first > small) break;  // it is guarded already
      Symbols at = sizes.sample;
      at[i] = small;
      if (holds_at(s, recorder, sizes, at)) continue;
      s.ir.sym.guard(ir::GuardKind::kGreater, symbol, Dim(small));
      break;
    }
  }
}

}  // namespace

std::string Sizes::text(const std::vector<int64_t>& at) const {
  std::string out;
  for (size_t i = 0; i < at.size(); ++i) out += (i ? ", " : "") + names[i] + "=" + std::to_string(at[i]);
  return out;
}

std::vector<ir::Dim> Sizes::declare(ir::SymTable& sym) const {
  std::vector<Dim> out;
  for (const int64_t v : sample) out.push_back(sym.symbol(v));
  for (const auto& [name, range] : ranges) {
    const auto at = std::ranges::find(names, name) - names.begin();
    if (at == static_cast<ptrdiff_t>(names.size())) continue;
    SMOLDER_CHECK(range.first <= sample[at] && sample[at] <= range.second, ValueError, kWho, ": the dynamic size '",
                  name, "' is said to be from ", range.first, " to ", range.second, ", and is ", sample[at],
                  " at first");
    if (range.first > 0) sym.guard(ir::GuardKind::kGreater, out[at], Dim(range.first - 1));
    if (range.second < INT64_MAX) sym.guard(ir::GuardKind::kLessEqual, out[at], Dim(range.second));
  }
  return out;
}

Graph capture_with(const CaptureFunction& fn, const std::vector<Example>& examples, const Sizes& sizes,
                   const CaptureOptions& options) {
  SMOLDER_CHECK(!lazy::Capture::current(), RuntimeError, kWho, " within a function that is being recorded");
  Recorder recorder(fn, examples, options);
  std::vector<Sample> samples = record_sizes(recorder, sizes);
  State s = generalise(samples, sizes);
  samples.clear();
  guard_small_sizes(s, recorder, sizes);
  return make_graph(std::move(s));
}

}  // namespace smolder::graph

namespace smolder {

Graph capture(const CaptureFunction& fn, const std::vector<Tensor>& example_inputs, const CaptureOptions& options) {
  std::vector<graph::Example> examples;
  for (const Tensor& t : example_inputs) {
    t.meta();  // throws when undefined
    examples.push_back({t.dtype(), t.device(), t.requires_grad()});
  }
  return graph::capture_with(fn, examples, graph::marked_sizes(example_inputs, options), options);
}

}  // namespace smolder
