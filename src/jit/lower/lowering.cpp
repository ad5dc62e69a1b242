#include "smolder/jit/lower/lowering.h"

#include <algorithm>

#include "smolder/jit/attributes.h"
#include "smolder/jit/cost.h"
#include "smolder/jit/fuse/fuse_domain.h"

namespace smolder::jit {

using ir::Dim;
using ir::Op;
using ir::ValueId;

namespace {

/// Columns of a column reduction that one range of the parallel loop covers.
constexpr int64_t kColumnTile = 1024;
/// Elements of a last axis at most that are written out one after the other.
constexpr int64_t kMostWritten = 4;
/// Bytes of an output from which on its stores stream. Measured with rings of arrays, 2 threads, 2 MiB of second-level
/// cache each: at 8 MiB an array what a kernel writes is still found in a cache by the next (26 GB/s, streaming 23);
/// from 16 MiB on it is not, and streaming saves reading each line before it is written (15 GB/s, streaming 20).
constexpr int64_t kStreamedBytes = 16 << 20;

Dim product(ir::SymTable& sym, const std::vector<Dim>& dims) {
  Dim n = 1;
  for (const Dim& d : dims) n = sym.mul(n, d);
  return n;
}

}  // namespace

Lowering::Lowering(Program& program, LoweringScratch& scratch, GroupId id, int64_t written)
    : program_(program),
      scratch_(scratch),
      id_(id),
      group_(program.groups[id]),
      written_(written),
      domain_(group_.domain) {
  if (scratch_.heads.size() < program.graph.values.size()) scratch_.heads.resize(program.graph.values.size());
  ++scratch_.stamp;
}

VarId Lowering::new_var(Level level) {
  var_level_.push_back(level);
  return static_cast<VarId>(var_level_.size() - 1);
}

void Lowering::add_parallel(VarId v, Dim extent) {
  parallel_vars_.push_back(v);
  parallel_extents_.push_back(extent);
}

/// Whether a thread of a device takes all columns of a row that it adds up: how many there are is structure.
bool Lowering::sums_few_columns(Dim columns) {
  const bool are_few = columns.value >= 2 && columns.value <= kMostWritten;
  const bool sums = domain_.reduces_rows && !domain_.reduces_columns;
  return sums && are_few && program_.options.device != DeviceType::kCPU && sym().equal(columns, columns.value);
}

// Which loop walks which axis: see docs/architecture/compiling.md, "Loop IR".
void Lowering::make_variables() {
  sample_rows_ = product(sym(), domain_.rows).value;
  sample_columns_ = product(sym(), domain_.columns).value;
  std::vector<Dim> rows = domain_.rows, columns = domain_.columns;
  if (written_ > 0) rows.pop_back();
  std::optional<Dim> reduced_rows;
  if (domain_.reduces_rows) {
    reduced_rows = rows.back();
    rows.pop_back();
  } else if (columns.empty() && !domain_.reduces_columns && !rows.empty()) {
    columns.push_back(rows.back());
    rows.pop_back();
  }
  int atom = 0;
  for (const Dim& extent : rows) {
    const VarId v = new_var(kTop);
    add_parallel(v, extent);
    row_digits_.push_back({Linear::var(v), extent, atom++});
  }
  if (reduced_rows) row_digits_.push_back({reduced_row_position(*reduced_rows), *reduced_rows, atom++});
  for (size_t i = 0; i + 1 < columns.size(); ++i) {
    const VarId v = new_var(kTop);
    add_parallel(v, columns[i]);
    column_digits_.push_back({Linear::var(v), columns[i], atom++});
  }
  const Dim last = columns.empty() ? Dim(1) : columns.back();
  Linear position = last_column_position(last);
  if (!columns.empty()) {
    add_scaled(sym(), position, Linear::var(vector_var_), 1);
    column_digits_.push_back({std::move(position), last, atom++});
  }
  Index full;
  full.digits = row_digits_;
  row_ = intern(full);
  full.digits.insert(full.digits.end(), column_digits_.begin(), column_digits_.end());
  for (int64_t i = 0; i < written_; ++i) {
    Index one = full;
    one.digits.push_back({Linear{i, {}}, written_});
    each_.push_back(intern(std::move(one)));
  }
  if (each_.empty()) each_.push_back(intern(std::move(full)));
  full_ = each_.front();
}

/// Makes the loop over rows that are added up, and the one over chunks of them; returns the row that they are at.
Linear Lowering::reduced_row_position(Dim rows) {
  Linear position;
  if (domain_.row_chunk != Dim(0)) {
    const VarId chunk = new_var(kTop);
    const Dim chunks = sym().ceil_div(rows, domain_.row_chunk);
    add_parallel(chunk, chunks);
    position = Linear::var(chunk, domain_.row_chunk);
    row_chunk_digit_ = {Linear::var(chunk), chunks};
    has_row_chunk_ = true;
    seq_clamp_ = chunk;
    seq_extent_ = domain_.row_chunk;
    seq_total_ = rows;
  } else {
    seq_extent_ = rows;
  }
  seq_var_ = new_var(kRow);
  sequential_ = true;
  add_scaled(sym(), position, Linear::var(seq_var_), 1);
  return position;
}

/// Makes the vector loop over the last columns, and the one over chunks of them; returns where a chunk begins.
Linear Lowering::last_column_position(Dim columns) {
  Linear position;
  vector_extent_ = columns;
  few_columns_ = sums_few_columns(columns);
  Dim chunk = domain_.reduces_columns                 ? domain_.column_chunk
              : domain_.reduces_rows && !few_columns_ ? Dim(kColumnTile)
                                                      : Dim(0);
  if (chunk != Dim(0)) {
    vector_clamp_ = new_var(kTop);
    const Dim chunks = sym().ceil_div(columns, chunk);
    add_parallel(vector_clamp_, chunks);
    position = Linear::var(vector_clamp_, chunk);
    column_chunk_digit_ = {Linear::var(vector_clamp_), chunks};
    has_column_chunk_ = domain_.reduces_columns;
    vector_extent_ = chunk;
    vector_total_ = columns;
  }
  vector_var_ = new_var(kCell);
  return position;
}

bool Lowering::is_reduced_here(ValueId v) const {
  const auto node = graph().info(v).node;
  return std::find(group_.reductions.begin(), group_.reductions.end(), node) != group_.reductions.end();
}

bool Lowering::is_row_value(ValueId v) {
  return sample_columns_ != 1 && numel(graph().shape(v).values()) <= sample_rows_;
}

bool Lowering::is_row_level(ValueId sink) {
  return domain_.reduces_columns && !is_reduced_here(sink) && is_row_value(sink);
}

int Lowering::phase_of(ValueId v) {
  if (must_load(v)) return 0;
  LoweringScratch::Head& head = scratch_.heads[v];
  if (head.stamp != scratch_.stamp) head = {scratch_.stamp, -1, -1};
  if (head.phase >= 0) return head.phase;
  const ir::Node& n = graph().producer(v);
  int phase = 0;
  for (const ValueId x : n.inputs) phase = std::max(phase, phase_of(x));
  if (n.op == Op::kReduce && is_reduced_here(v)) ++phase;
  scratch_.heads[v].phase = phase;
  return phase;
}

/// The accumulators of rows that are complete after a phase.
void Lowering::emit_row_reductions(std::span<const ir::NodeId> reductions,
                                   std::vector<std::pair<ir::NodeId, AccId>>& finished) {
  for (const ir::NodeId node : reductions) {
    const ir::Node& n = graph().nodes[node];
    if (phase_of(n.inputs[0]) != phase_) continue;
    const AccId acc = num_accs_++;
    const ReduceAttributes a(n);
    Stmt declare = make_statement(StmtKind::kAcc);
    declare.dtype = graph().dtype(n.first_output);
    declare.acc = acc;
    declare.reduce = a.kind;
    emit_effect(std::move(declare), kRow);
    Stmt update = make_statement(StmtKind::kUpdate);
    update.args = {value(n.inputs[0], full_)};
    update.acc = acc;
    emit_effect(std::move(update), kCell);
    finished.push_back({node, acc});
  }
}

/// A pass over the columns of a row, after which its reductions have their results.
void Lowering::emit_phase(std::span<const ir::NodeId> row_reductions, std::span<const ir::NodeId> column_reductions) {
  for (const ValueId sink : group_.sinks) {
    if (is_row_level(sink) && phase_of(sink) == phase_) store_row_level(sink);
  }
  std::vector<std::pair<ir::NodeId, AccId>> finished;
  emit_row_reductions(row_reductions, finished);
  for (const ir::NodeId node : column_reductions) {
    if (phase_of(graph().nodes[node].inputs[0]) == phase_) update_columns(node);
  }
  for (const ValueId sink : group_.sinks) {
    if (!is_reduced_here(sink) && !is_row_level(sink) && phase_of(sink) == phase_) store_full(sink);
  }
  // Stores come last, so that what they overwrite in place has been read.
  for (Stmt& store : stores_) {
    note_access(store.address.buffer, store.address, true, false, kCell);
    emit_effect(std::move(store), kCell);
  }
  stores_.clear();
  if (!lists_[kCell].empty()) {
    emit_effect(vector_loop(std::move(lists_[kCell])), kRow);
    lists_[kCell].clear();
  }
  for (const auto& [node, acc] : finished) {
    const ValueId v = graph().nodes[node].first_output;
    Stmt s = make_statement(StmtKind::kResult);
    s.acc = acc;
    results_.push_back({v, emit(std::move(s), kRow, graph().dtype(v))});
    if (in_group(v)) store_row_level(v);
  }
}

std::unique_ptr<KernelCall> Lowering::run() {
  make_variables();
  find_kept_rows();
  std::vector<ir::NodeId> row_reductions, column_reductions;
  int last_phase = 0;
  for (const ir::NodeId node : group_.reductions) {
    const ir::Node& n = graph().nodes[node];
    const bool row = domain_.reduces_columns && reduces_last(graph(), n);
    (row ? row_reductions : column_reductions).push_back(node);
    last_phase = std::max(last_phase, phase_of(n.inputs[0]));
  }
  for (const ValueId sink : group_.sinks) {
    if (!is_reduced_here(sink)) last_phase = std::max(last_phase, phase_of(sink));
  }
  for (const ir::NodeId node : column_reductions) emit_column_identity(node);
  for (phase_ = 0; phase_ <= last_phase; ++phase_) emit_phase(row_reductions, column_reductions);

  auto call = std::make_unique<KernelCall>();
  call->kernel.root = assemble();
  finish(*call);
  return call;
}

Stmt Lowering::vector_loop(std::vector<Stmt> body) const {
  auto* self = const_cast<Lowering*>(this);
  Stmt loop = make_statement(StmtKind::kVector);
  loop.vars = {vector_var_};
  loop.extents = {few_columns_ ? IntRef{vector_extent_.value, -1} : self->int_ref(vector_extent_)};
  loop.clamp_var = vector_clamp_;
  if (vector_clamp_ >= 0) loop.clamp_total = self->int_ref(vector_total_);
  loop.body = std::move(body);
  return loop;
}

/// Is the sink large enough that no cache holds it until it is read?
bool Lowering::streams(ValueId sink) {
  const BufferInfo& info = program_.buffers[program_.buffer_of[sink]];
  const int64_t enough = kStreamedBytes / static_cast<int64_t>(itemsize(info.dtype));
  // The kernel is for sizes on one side only, so a guard holds it there; but small ones need none to speak of.
  return info.elements.value > enough / 16 && sym().less_equal(enough, info.elements);
}

void Lowering::store_full(ValueId sink) {
  const BufferId id = program_.buffer_of[sink];
  for (const IndexId at : each_) {
    full_ = at;
    const LocalId x = value(sink, at);
    const int buffer = buffer_arg(id, true);
    Stmt s = make_statement(StmtKind::kStore);
    s.dtype = program_.buffers[id].dtype;
    s.args = {x};
    s.address = address(buffer, position_in(program_.buffers[id], index(at)));
    s.streaming = streams(sink);
    cost_ += statement_cost(s);
    stores_.push_back(std::move(s));
  }
}

void Lowering::store_row_level(ValueId sink) {
  LocalId x = -1;
  Index at = index(row_);
  for (const auto& [v, local] : results_) {
    if (v == sink) x = local;
  }
  if (x < 0) {
    x = value(sink, row_);
  } else if (has_column_chunk_) {
    at.digits.push_back(column_chunk_digit_);
  }
  const BufferId id = program_.buffer_of[sink];
  const int buffer = buffer_arg(id, true);
  Stmt s = make_statement(StmtKind::kStore);
  s.dtype = program_.buffers[id].dtype;
  s.args = {x};
  s.address = address(buffer, position_in(program_.buffers[id], at));
  note_access(buffer, s.address, true, false, kRow);
  emit_effect(std::move(s), kRow);
}

Linear Lowering::column_position() {
  std::vector<Digit> digits(row_digits_.begin(), row_digits_.end() - 1);
  if (has_row_chunk_) digits.push_back(row_chunk_digit_);
  digits.insert(digits.end(), column_digits_.begin(), column_digits_.end());
  return flatten(digits);
}

// Partials of column reductions live in their output: a chunk of it stays in cache while its rows pass.
void Lowering::emit_column_identity(ir::NodeId node) {
  const ir::Node& n = graph().nodes[node];
  const ValueId v = n.first_output;
  const BufferId id = program_.buffer_of[v];
  Stmt s = make_statement(StmtKind::kStore);
  s.dtype = graph().dtype(v);
  s.args = {constant(reduce_identity(ReduceAttributes(n).kind, s.dtype), s.dtype)};
  s.address = address(buffer_arg(id, true), column_position());
  note_access(s.address.buffer, s.address, true, true, kCell);
  std::vector<Stmt> body;
  body.push_back(std::move(s));
  emit_effect(vector_loop(std::move(body)), kTop);
}

void Lowering::update_columns(ir::NodeId node) {
  const ir::Node& n = graph().nodes[node];
  const ValueId v = n.first_output;
  const DType t = graph().dtype(v);
  const LocalId x = value(n.inputs[0], full_);
  const int buffer = buffer_arg(program_.buffer_of[v], true);
  buffer_args_[buffer].read = true;
  const Address at = address(buffer, column_position());
  Stmt load = make_statement(StmtKind::kLoad);
  load.address = at;
  const LocalId sum = emit(std::move(load), kCell, t);
  Stmt store = make_statement(StmtKind::kStore);
  store.dtype = t;
  store.args = {primitive(reduce_step(ReduceAttributes(n).kind), t, {sum, x})};
  store.address = at;
  emit_effect(std::move(store), kCell);
}

int64_t Lowering::better_written(const KernelCall& call) const {
  constexpr int64_t kLong = 16;
  const Stmt& root = call.kernel.root;
  if (written_ > 0 || domain_.reduces_rows || domain_.reduces_columns || !domain_.columns.empty()) return 0;
  if (root.kind != StmtKind::kParallel || domain_.rows.size() < 2 || root.body.back().kind != StmtKind::kVector)
    return 0;
  const IntRef extent = root.body.back().extents[0];
  const Dim last = domain_.rows.back(), before = domain_.rows[domain_.rows.size() - 2];
  const int64_t n = extent.is_constant() ? extent.constant : call.ints[extent.slot].value;
  if (n != last.value || n < 2 || n > kMostWritten || before.value < kLong) return 0;
  return program_.graph.sym.equal(last, n) ? n : 0;
}

Stmt Lowering::assemble() {
  if (sequential_) {
    Stmt loop = make_statement(StmtKind::kLoop);
    loop.vars = {seq_var_};
    loop.extents = {int_ref(seq_extent_)};
    loop.clamp_var = seq_clamp_;
    if (seq_clamp_ >= 0) loop.clamp_total = int_ref(seq_total_);
    loop.body = std::move(lists_[kRow]);
    lists_[kTop].push_back(std::move(loop));
  }
  Stmt root = make_statement(StmtKind::kParallel);
  root.vars = parallel_vars_;
  for (const Dim& d : parallel_extents_) root.extents.push_back(int_ref(d));
  root.body = std::move(lists_[kTop]);
  return root;
}

std::unique_ptr<KernelCall> lower_group(Program& program, LoweringScratch& scratch, GroupId id) {
  // Each round cuts one more axis; there are at most as many cuts as a shape has dims.
  int64_t written = 0;
  for (int round = 0;; ++round) {
    Lowering lowering(program, scratch, id, written);
    auto call = lowering.run();
    if (lowering.refined() && round < kMaxRank) {
      program.groups[id].domain = *lowering.refined();
      written = 0;
      continue;
    }
    written = lowering.better_written(*call);
    if (written == 0) return call;
  }
}

}  // namespace smolder::jit
