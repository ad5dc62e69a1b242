#include "smolder/ir/control_flow.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

#include "smolder/core/error.h"
#include "smolder/core/fork.h"
#include "smolder/ir/infer.h"
#include "smolder/ir/user_op.h"

namespace smolder::ir {
namespace {

struct Subgraphs {
  ForkMutex lock;
  std::deque<Subgraph> all;  // which do not move
  std::unordered_map<std::string, int64_t> numbers;

  static Subgraphs& get() {
    static Subgraphs* const subgraphs = new Subgraphs;
    return *subgraphs;
  }
};
/// Made before any lock is held, as its lock asks.
[[maybe_unused]] const Subgraphs& g_subgraphs = Subgraphs::get();

struct ControlOps {
  ForkMutex lock;
  std::map<std::pair<ControlKind, size_t>, Op> ops;
  std::unordered_map<Op, ControlKind> kinds;
  std::vector<std::function<void(Op)>> hooks;

  static ControlOps& get() {
    static ControlOps* const ops = new ControlOps;
    return *ops;
  }
};
/// Made before any lock is held, as its lock asks.
[[maybe_unused]] const ControlOps& g_controlops = ControlOps::get();

constexpr std::string_view kNames[] = {"smolder::cond_", "smolder::while_loop_", "smolder::while_grad_",
                                       "smolder::scan_"};
constexpr std::string_view kSchemas[] = {
    "(Tensor[] operands, *, int true_graph, int false_graph, int tensors)",
    "(Tensor[] operands, *, int cond_graph, int body_graph, int tensors, int carried, int draws)",
    "(Tensor[] operands, *, int cond_graph, int body_graph, int tensors, int carried, int draws, int graph, "
    "int gradients, int sums)",
    "(Tensor[] operands, *, int graph, int tensors, int carried, int scanned, int reverse, int draws)",
};

/// The operand for a subgraph's leaf `i`, checked against what it was recorded for.
void check_leaf(const Subgraph& s, std::string_view what, size_t i, const Meta& given) {
  SMOLDER_CHECK(s.leaves[i] == given, ValueError, what, ": operand ", i, " is ", to_string(given),
                ", the graph was recorded for ", to_string(s.leaves[i]));
}

void check_parameters(const Subgraph& s, std::string_view what, std::span<const Meta* const> numbers) {
  for (size_t i = 0; i < s.parameters.size(); ++i) {
    SMOLDER_CHECK(s.parameters[i] < numbers.size() && numbers[s.parameters[i]] && numbers[s.parameters[i]]->weak &&
                      category(numbers[s.parameters[i]]->dtype) == s.categories[i],
                  ValueError, what, ": number ", s.parameters[i], " of the graph is missing, or of another kind");
  }
}

/// The tensors and the numbers of a call.
struct Operands {
  std::span<const Meta* const> tensors, numbers;
  Operands(const Call& call, int64_t count, std::string_view what) {
    SMOLDER_CHECK(count >= 0 && static_cast<size_t>(count) <= call.inputs.size(), ValueError, what, ": ", count,
                  " tensors of ", call.inputs.size(), " operands");
    tensors = call.inputs.first(static_cast<size_t>(count));
    numbers = call.inputs.subspan(static_cast<size_t>(count));
    for (const Meta* m : tensors) SMOLDER_CHECK(m && !m->weak, ValueError, what, ": an operand is no tensor");
  }
};

void check_count(const Subgraph& s, std::string_view what, size_t leaves, int64_t results) {
  SMOLDER_CHECK(s.leaves.size() == leaves, ValueError, what, ": has ", leaves, " operands, its graph takes ",
                s.leaves.size());
  SMOLDER_CHECK(static_cast<int64_t>(s.results.size()) == results, ValueError, what, ": has ", results,
                " results, its graph ", s.results.size());
}

/// One bool.
bool is_flag(const Meta& m) { return m.dtype == DType::kBool && numel(m.shape) == 1; }

void infer_cond(const Call& call, int results, Meta* out) {
  const CondAttrs a = CondAttrs::read(call.attrs);
  const Operands o(call, a.tensors, "cond");
  SMOLDER_CHECK(!o.tensors.empty() && is_flag(*o.tensors[0]), ValueError, "cond: the predicate is no bool");
  for (const int64_t number : {a.true_graph, a.false_graph}) {
    const Subgraph& s = subgraph(number);
    check_count(s, "cond", o.tensors.size() - 1, results);
    for (size_t i = 0; i < s.leaves.size(); ++i) check_leaf(s, "cond", i, *o.tensors[i + 1]);
    check_parameters(s, "cond", o.numbers);
  }
  const Subgraph &yes = subgraph(a.true_graph), &no = subgraph(a.false_graph);
  SMOLDER_CHECK(yes.results == no.results, ValueError, "cond: its graphs have other results");
  std::ranges::copy(yes.results, out);
}

void infer_while(const Call& call, int results, Meta* out) {
  const WhileAttrs a = WhileAttrs::read(call.attrs);
  const Operands o(call, a.tensors, "while_loop");
  const Subgraph &condition = subgraph(a.cond_graph), &body = subgraph(a.body_graph);
  SMOLDER_CHECK(a.carried == results && a.carried <= a.tensors, ValueError, "while_loop: carries ", a.carried,
                " tensors, gives ", results);
  check_count(condition, "while_loop", o.tensors.size(), 1);
  check_count(body, "while_loop", o.tensors.size(), results);
  SMOLDER_CHECK(is_flag(condition.results[0]), ValueError, "while_loop: the condition is no bool");
  for (const Subgraph* s : {&condition, &body}) {
    for (size_t i = 0; i < s->leaves.size(); ++i) check_leaf(*s, "while_loop", i, *o.tensors[i]);
    check_parameters(*s, "while_loop", o.numbers);
  }
  for (int i = 0; i < results; ++i) {
    SMOLDER_CHECK(body.results[i] == *o.tensors[i], ValueError, "while_loop: carried ", i, " is ",
                  to_string(*o.tensors[i]), ", the body gives ", to_string(body.results[i]));
    out[i] = body.results[i];
  }
}

void infer_while_grad(const Call& call, int results, Meta* out) {
  const WhileGradAttrs a = WhileGradAttrs::read(call.attrs);
  const Operands o(call, a.loop.tensors, "while_grad");
  const Subgraph& s = subgraph(a.graph);
  const int64_t first = a.of_loop();
  SMOLDER_CHECK(a.gradients >= 0 && a.sums >= 0 && first >= a.loop.carried && results == a.gradients + a.sums,
                ValueError, "while_grad: ", results, " results of ", a.gradients, " gradients and ", a.sums, " sums");
  for (const int64_t number : {a.loop.cond_graph, a.loop.body_graph}) {
    check_count(subgraph(number), "while_grad", static_cast<size_t>(first),
                number == a.loop.body_graph ? a.loop.carried : 1);
    check_parameters(subgraph(number), "while_grad", o.numbers);
    for (size_t i = 0; i < subgraph(number).leaves.size(); ++i) {
      check_leaf(subgraph(number), "while_grad", i, *o.tensors[i]);
    }
  }
  SMOLDER_CHECK(is_flag(subgraph(a.loop.cond_graph).results[0]), ValueError, "while_grad: the condition is no bool");
  for (int64_t i = 0; i < a.loop.carried; ++i) {
    SMOLDER_CHECK(subgraph(a.loop.body_graph).results[static_cast<size_t>(i)] == *o.tensors[static_cast<size_t>(i)],
                  ValueError, "while_grad: the body gives something unlike what is carried");
  }
  check_count(s, "while_grad", o.tensors.size(), results);
  check_parameters(s, "while_grad", o.numbers);
  for (size_t i = 0; i < s.leaves.size(); ++i) check_leaf(s, "while_grad", i, *o.tensors[i]);
  for (int i = 0; i < results; ++i) {
    SMOLDER_CHECK(s.results[i] == *o.tensors[static_cast<size_t>(first + i)], ValueError, "while_grad: result ", i,
                  " is not as the operand that it takes the place of");
    out[i] = s.results[i];
  }
}

void infer_scan(const Call& call, int results, Meta* out) {
  const ScanAttrs a = ScanAttrs::read(call.attrs);
  const Operands o(call, a.tensors, "scan");
  const Subgraph& s = subgraph(a.graph);
  check_count(s, "scan", o.tensors.size(), results);
  check_parameters(s, "scan", o.numbers);
  SMOLDER_CHECK(a.carried >= 0 && a.scanned >= 1 && a.carried <= results && a.carried + a.scanned <= a.tensors,
                ValueError, "scan: ", a.carried, " carried and ", a.scanned, " scanned of ", a.tensors, " operands");
  int64_t turns = -1;
  for (int64_t i = 0; i < a.tensors; ++i) {
    Meta m = *o.tensors[i];
    if (i >= a.carried && i < a.carried + a.scanned) {
      SMOLDER_CHECK(m.shape.size() > 0 && (turns < 0 || turns == m.shape[0]), ValueError,
                    "scan: All xs leaves must have the same scan dimension size");
      turns = m.shape[0];
      m.shape.erase(0);
    }
    check_leaf(s, "scan", static_cast<size_t>(i), m);
  }
  for (int i = 0; i < results; ++i) {
    out[i] = s.results[i];
    if (i < a.carried) {
      SMOLDER_CHECK(out[i] == *o.tensors[i], ValueError, "scan: carried ", i, " is ", to_string(*o.tensors[i]),
                    ", the graph gives ", to_string(out[i]));
    } else {
      out[i].shape.insert(0, turns);
    }
  }
}

UserOp definition_of(ControlKind kind, size_t results) {
  const auto k = static_cast<size_t>(kind);
  UserOp op;
  op.signature = std::string(kNames[k]) + std::to_string(results) + std::string(kSchemas[k]) + " -> ";
  std::string returns;
  for (size_t i = 0; i < results; ++i) returns += i ? ", Tensor" : "Tensor";
  op.signature += results == 1 ? returns : "(" + returns + ")";
  op.schema.name = std::string(kNames[k]) + std::to_string(results);
  op.schema.num_returns = static_cast<int>(results);
  SchemaArgument operands;
  operands.name = "operands";
  operands.type = "Tensor[]";
  operands.kind = SchemaArgument::kTensorList;
  op.schema.arguments.push_back(operands);
  std::string_view rest = kSchemas[k];
  for (int position = 0;; ++position) {
    const size_t at = rest.find("int ");
    if (at == std::string_view::npos) break;
    rest.remove_prefix(at + 4);
    SchemaArgument a;
    a.name = std::string(rest.substr(0, rest.find_first_of(",)")));
    a.type = "int";
    a.kind = SchemaArgument::kInt;
    a.keyword_only = true;
    a.position = position;
    op.schema.arguments.push_back(a);
  }
  const auto n = static_cast<int>(results);
  switch (kind) {
    case ControlKind::kCond:
      op.infer = [n](const Call& call, Meta* out) { infer_cond(call, n, out); };
      break;
    case ControlKind::kWhileLoop:
      op.infer = [n](const Call& call, Meta* out) { infer_while(call, n, out); };
      break;
    case ControlKind::kWhileGrad:
      op.infer = [n](const Call& call, Meta* out) { infer_while_grad(call, n, out); };
      break;
    case ControlKind::kScan:
      op.infer = [n](const Call& call, Meta* out) { infer_scan(call, n, out); };
      break;
  }
  return op;
}

}  // namespace

int64_t intern_subgraph(const std::string& key, const std::function<Subgraph()>& make) {
  Subgraphs& known = Subgraphs::get();
  const auto find = [&] {
    const auto at = known.numbers.find(key);
    return at == known.numbers.end() ? -1 : at->second;
  };
  {
    const std::lock_guard hold(known.lock);
    if (const int64_t number = find(); number >= 0) return number;
  }
  Subgraph made = make();  // which may ask for others
  const std::lock_guard hold(known.lock);
  if (const int64_t number = find(); number >= 0) return number;
  known.all.push_back(std::move(made));
  const auto number = static_cast<int64_t>(known.all.size()) - 1;
  known.numbers.emplace(key, number);
  return number;
}

const Subgraph& subgraph(int64_t number) {
  Subgraphs& known = Subgraphs::get();
  const std::lock_guard hold(known.lock);
  SMOLDER_CHECK(number >= 0 && static_cast<size_t>(number) < known.all.size(), ValueError, "there is no graph number ",
                number);
  return known.all[static_cast<size_t>(number)];
}

Op control_op(ControlKind kind, size_t results) {
  SMOLDER_CHECK(results > 0 && results <= kMaxControlResults, NotImplementedError,
                kNames[static_cast<size_t>(kind)].substr(9, kNames[static_cast<size_t>(kind)].size() - 10), " with ",
                results, " results is not supported: it may have 1 to ", kMaxControlResults);
  ControlOps& known = ControlOps::get();
  const std::lock_guard hold(known.lock);
  const auto found = known.ops.find({kind, results});
  if (found != known.ops.end()) return found->second;
  const Op op = register_user_op(definition_of(kind, results));
  known.ops.emplace(std::pair(kind, results), op);
  known.kinds.emplace(op, kind);
  for (const auto& hook : known.hooks) hook(op);
  return op;
}

bool is_control_flow(Op op) {
  if (!is_user_op(op)) [[likely]]
    return false;
  ControlOps& known = ControlOps::get();
  const std::lock_guard hold(known.lock);
  return known.kinds.contains(op);
}

ControlKind control_kind(Op op) {
  ControlOps& known = ControlOps::get();
  const std::lock_guard hold(known.lock);
  return known.kinds.at(op);
}

void on_control_op(std::function<void(Op)> hook) {
  ControlOps& known = ControlOps::get();
  const std::lock_guard hold(known.lock);
  for (const auto& [key, op] : known.ops) hook(op);
  known.hooks.push_back(std::move(hook));
}

std::optional<Op> find_control_op(std::string_view name) {
  for (size_t k = 0; k < std::size(kNames); ++k) {
    if (!name.starts_with(kNames[k])) continue;
    size_t results = 0;
    const std::string_view digits = name.substr(kNames[k].size());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), results);
    if (error != std::errc() || end != digits.data() + digits.size() || results < 1 || results > kMaxControlResults)
      return {};
    return control_op(static_cast<ControlKind>(k), results);
  }
  return {};
}

Op find_op(std::string_view name) {
  static const auto* const kByName = [] {
    auto* map = new std::unordered_map<std::string_view, Op>;
    for (int i = 0; i < kNumOps; ++i) map->emplace(op_table()[i].name, static_cast<Op>(i));
    return map;
  }();
  if (const auto it = kByName->find(name); it != kByName->end()) return it->second;
  std::optional<Op> registered = find_user_op(name);
  if (!registered) registered = find_control_op(name);
  SMOLDER_CHECK(registered, ValueError, "there is no op called '", name, "'");
  return *registered;
}

std::vector<DrawnNumbers> drawn_numbers(const Subgraph& s) {
  std::vector<DrawnNumbers> out;
  const auto parameter = [&](ValueId v) {
    return v != kNone && s.graph.op(v) == Op::kParameter ? std::optional(s.graph.producer(v).attrs[0].value)
                                                         : std::nullopt;
  };
  for (const Node& n : s.graph.nodes) {
    std::vector<int64_t> words;
    for (const Dim& d : n.attrs) words.push_back(d.value);
    for (const DrawnNumbers& d : drawn_numbers(n.op, words)) {
      const auto seed = parameter(n.inputs[d.seed]), offset = parameter(n.inputs[d.offset]);
      if (seed && offset) out.push_back({static_cast<uint32_t>(*seed), static_cast<uint32_t>(*offset)});
    }
  }
  return out;
}

std::span<const size_t> graph_words(Op op) {
  static constexpr size_t kWords[] = {0, 1, 5};
  const ControlKind kind = control_kind(op);
  return std::span(kWords).first(kind == ControlKind::kScan ? 1 : kind == ControlKind::kWhileGrad ? 3 : 2);
}

ControlGraphs control_graphs(Op op, std::span<const int64_t> attrs) {
  ControlGraphs out;
  for (const size_t w : graph_words(op)) out.graphs.push_back(attrs[w]);
  out.tensors = attrs[control_kind(op) == ControlKind::kScan ? 1 : 2];
  return out;
}

std::vector<DrawnNumbers> drawn_numbers(Op op, std::span<const int64_t> attrs) {
  std::vector<DrawnNumbers> out;
  const OpInfo& row = info(op);
  if (row.flags.random) {
    std::optional<uint32_t> seed;
    for (uint32_t i = 0; i < row.operands.size(); ++i) {
      if (row.operands[i].name == "seed") seed = i;
      if (row.operands[i].name == "offset" && seed) out.push_back({*seed, i});
    }
  } else if (is_control_flow(op)) {
    const ControlGraphs c = control_graphs(op, attrs);
    for (const int64_t g : c.graphs) {
      for (const DrawnNumbers& d : drawn_numbers(subgraph(g))) {
        out.push_back({static_cast<uint32_t>(c.tensors) + d.seed, static_cast<uint32_t>(c.tensors) + d.offset});
      }
    }
  }
  return out;
}

}  // namespace smolder::ir
