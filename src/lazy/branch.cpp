#include "smolder/lazy/branch.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "smolder/core/error.h"
#include "smolder/ir/attr_words.h"
#include "smolder/ir/builder.h"
#include "smolder/ir/control_flow.h"
#include "smolder/lazy/autocast.h"
#include "smolder/lazy/extract.h"
#include "smolder/lazy/random.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/tape.h"
#include "smolder/lazy/view.h"

namespace smolder::lazy {

BranchTape::BranchTape(std::string what, Device device)
    : what_(std::move(what)), tape_(new Tape(device)), tracks_(grad_enabled()) {
  tape_->is_own_ = true;
  tape_->never_runs_ = true;
  tape_->branch_ = this;
  tape_->options_.predict = false;
  tape_->options_.soft_bound = tape_->options_.hard_bound = ~0u;
  tape_->options_.strict = Tape::cpu().options().strict;
}

BranchTape::~BranchTape() {
  for (const ValueRef& v : tape_->leaves_) v->tape_refs = 0;
}

BranchTape::Scope::Scope(BranchTape& branch)
    : branch_(branch),
      outer_branch_(std::exchange(current_, &branch)),
      outer_tape_(&Tape::cpu()),
      eager_(eager_enabled()),
      keeps_casts_(is_autocast_cache_enabled()) {
  branch.outer_tape_ = outer_tape_;
  branch.outer_branch_ = outer_branch_;
  Tape::cpu_ = branch.tape_.get();
  set_eager_enabled(false);
  set_autocast_cache_enabled(false);  // a cast that is kept would be used outside of the branch
}

BranchTape::Scope::~Scope() {
  current_ = outer_branch_;
  Tape::cpu_ = outer_tape_;
  set_eager_enabled(eager_);
  set_autocast_cache_enabled(keeps_casts_);
}

/// Out of a branch's innermost scope for a scope.
class BranchTape::Without {
 public:
  explicit Without(BranchTape& branch) : branch_(branch) {
    current_ = branch.outer_branch_;
    Tape::cpu_ = branch.outer_tape_;
  }
  ~Without() {
    current_ = &branch_;
    Tape::cpu_ = branch_.tape_.get();
  }
  Without(const Without&) = delete;

 private:
  BranchTape& branch_;
};

bool BranchTape::is_native(TensorImpl* impl) const { return owner_of(impl)->value->epoch == tape_->epoch_; }

size_t BranchTape::append(const Tensor& outer, const ir::Meta& meta) {
  if (outer.device() != tape_->device_) refuse_device(outer.device());
  SMOLDER_CHECK(!outer.impl()->value->batched, NotImplementedError, what_,
                ": tensors that differ from element to element of a vmap are not supported");
  Tensor stand_in(new TensorImpl(tape_->placeholder(intern(meta))));
  stand_in.impl()->requires_grad = tracks_ && outer.impl()->requires_grad;
  outside_.push_back({outer, std::move(stand_in)});
  return outside_.size() - 1;
}

size_t BranchTape::add(const Tensor& outer) {
  if (const auto at = places_.find(outer.impl()); at != places_.end()) return at->second;
  if (current_ == this) {  // a view is read again where its base was written
    const Without without(*this);
    refresh(outer.impl());
  } else {
    refresh(outer.impl());
  }
  const size_t place = append(outer, outer.meta());
  places_.emplace(outer.impl(), place);
  return place;
}

size_t BranchTape::add_apart(const Tensor& outer, const ir::Meta& meta, bool tracked) {
  const size_t place = append(outer, meta);
  if (tracked && tracks_) outside_[place].stand_in.impl()->requires_grad = true;
  return place;
}

void BranchTape::forget_outer() {
  places_.clear();
  for (Outside& o : outside_) o.outer = Tensor();
}

std::vector<Operand> BranchTape::inside(std::span<const Operand> operands) {
  std::vector<Operand> out(operands.begin(), operands.end());
  for (Operand& o : out) {
    if (o.kind() != Operand::kTensor || is_native(o.impl())) continue;
    o = Operand(outside_[add(Tensor(o.impl()))].stand_in);
  }
  return out;
}

Tensor BranchTape::inside(const Tensor& t) {
  if (is_native(t.impl())) {
    refresh(t.impl());
    return t;
  }
  return outside_[add(t)].stand_in;
}

void BranchTape::check_write(const Tensor& t) const {
  const TensorImpl* const owner = owner_of(t.impl());
  const bool given = std::ranges::any_of(outside_, [&](const Outside& o) { return o.stand_in.impl() == owner; });
  SMOLDER_CHECK(!given && is_native(t.impl()), RuntimeError, what_,
                ": an input of the function, or a tensor from outside of it, is written in place. Higher order ops do "
                "not support input mutation: return its new value, or clone it first");
}

void BranchTape::refuse_read(std::string_view reason) const {
  raise<RuntimeError>(what_, ": the values of tensors can't be read while a function is recorded (", reason,
                      "): Python's if, while and item() see no values here. Use cond, while_loop or where");
}

void BranchTape::refuse_device(Device device) const {
  raise<RuntimeError>(what_, ": the function uses a tensor on ", to_string(device), ", its operands are on ",
                      to_string(tape_->device_));
}

void BranchTape::note_draw(Generator* g, GeneratorState state) {
  if (std::ranges::find(draws_, g, &Draws::value_type::first) == draws_.end()) draws_.emplace_back(g, state);
}

namespace {

/// The numbers of tensors in the trace.
std::vector<uint32_t> values_of(const std::vector<Tensor>& tensors) {
  std::vector<uint32_t> out;
  for (const Tensor& t : tensors) out.push_back(t.impl()->value->index);
  return out;
}

}  // namespace

std::vector<size_t> BranchTape::reads(const std::vector<Tensor>& results) const {
  const Trace& t = tape_->own_;
  std::vector<bool> read(t.metas.size());
  const std::vector<uint32_t> values = values_of(results);
  for (const uint32_t v : values) read[v] = true;
  const std::vector<bool> needed = needed_instructions(t, values);
  for (size_t i = 0; i < t.instrs.size(); ++i) {
    if (!needed[i]) continue;
    for (const OperandWord w : t.inputs_of(t.instrs[i])) {
      if (w != kNoOperand && is_value(w)) read[w] = true;
    }
  }
  std::vector<size_t> out;
  for (size_t place = 0; place < tape_->leaves_.size(); ++place) {
    if (read[tape_->leaves_[place]->index]) out.push_back(place);
  }
  return out;
}

namespace {

/// The keys of a graph: one is shared by equal graphs, the other by those that differ in sizes alone.
struct Keys {
  std::string exact, structure;

  void put(int64_t word) {
    append(exact, word);
    append(structure, word);
  }
  void put_size(int64_t size) {
    append(exact, size);
    append(structure, size <= 1 ? size : 2);
  }
  static void append(std::string& to, int64_t word) { to.append(reinterpret_cast<const char*>(&word), sizeof word); }
};

}  // namespace

BranchTape::Extracted BranchTape::extract(const std::vector<Tensor>& results,
                                          const std::vector<const ir::Meta*>& leaves,
                                          const std::unordered_map<size_t, uint32_t>& numbers,
                                          uint32_t first_number) const {
  const Trace& t = tape_->own_;
  const std::vector<uint32_t> values = values_of(results);
  const std::vector<bool> needed = needed_instructions(t, values);
  constexpr uint32_t kNowhere = ~0u;
  std::vector<uint32_t> place(t.metas.size(), kNowhere);  // in the graph: leaves, then results
  for (const auto& [outside, number] : numbers) place[tape_->leaves_[outside]->index] = number;
  auto next = static_cast<uint32_t>(leaves.size());
  Extracted out;
  Keys keys;
  keys.put(first_number);
  keys.put(static_cast<int64_t>(leaves.size()));
  for (const ir::Meta* m : leaves) {
    keys.put(static_cast<int64_t>(m->dtype) << 8 | m->shape.size());
    for (const int64_t e : m->shape) keys.put_size(e);
  }
  size_t parameter = 0;
  for (size_t i = 0; i < t.instrs.size(); ++i) {
    const Instr& e = t.instrs[i];
    if (needed[i]) keys.put(static_cast<int64_t>(e.op) << 32 | e.num_inputs << 16 | e.num_attrs);
    for (const OperandWord w : t.inputs_of(e)) {
      const bool number = w != kNoOperand && is_number(w);
      if (needed[i]) keys.put(number || w == kNoOperand ? w : place[w]);
      if (needed[i] && number) {
        out.numbers.push_back(Scalar::from_bits(tape_->parameters_[parameter], static_cast<Category>(w & ~kNumberBit)));
      }
      parameter += number;
    }
    if (!needed[i]) continue;
    const auto words = t.attrs_of(e);
    ir::for_each_attr_word(ir::info(e.op), words,
                           [&](size_t w, bool is_size) { is_size ? keys.put_size(words[w]) : keys.put(words[w]); });
    for (uint32_t k = 0; k < e.num_outputs; ++k) place[e.first_output + k] = next++;
    out.draws = out.draws || !ir::drawn_numbers(e.op, words).empty();
  }
  keys.put(-100);
  for (const uint32_t v : values) keys.put(place[v]);

  out.graph = ir::intern_subgraph(keys.exact, [&] {
    ir::Subgraph s;
    s.structure = keys.structure;
    ir::Builder b(s.graph);
    const auto symbol = [&](int64_t size) {
      s.symbols.push_back(size);
      return s.graph.sym.symbol(size);
    };
    std::vector<ir::ValueId> now(leaves.size());  // by number of the leaf
    for (size_t i = 0; i < leaves.size(); ++i) {
      ir::SymDims shape;
      for (const int64_t e : leaves[i]->shape) shape.push_back(symbol(e));
      now[i] = leaf_of(b, static_cast<int>(i), leaves[i]->dtype, shape);
      s.leaves.push_back(*leaves[i]);
    }
    const auto leaf = [&](uint32_t v) { return place[v] == kNowhere ? ir::kNone : now[place[v]]; };
    const auto number = [&](size_t, Category category) {
      s.parameters.push_back(first_number + static_cast<uint32_t>(s.parameters.size()));
      s.categories.push_back(category);
      return b.parameter(static_cast<int>(s.parameters.back()), category).id;
    };
    const std::vector<ir::ValueId> made =
        lazy::extract(t, s.graph, {.leaf = leaf, .number = number, .size = symbol, .needed = needed});
    for (size_t i = 0; i < results.size(); ++i) {
      s.graph.outputs.push_back(t.is_leaf[values[i]] ? leaf(values[i]) : made[values[i]]);
      s.results.push_back(results[i].meta());
    }
    return s;
  });
  return out;
}

}  // namespace smolder::lazy
