// Reads what loop_print.cpp writes.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "smolder/core/error.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

namespace {

constexpr std::string_view kReduceNames[] = {"sum", "prod", "max", "min", "any", "all"};

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Walks the text; errors name line and column.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(std::string_view expected) {
    skip_space();
    const auto line = 1 + std::count(text_.begin(), text_.begin() + at_, '\n');
    const auto start = text_.rfind('\n', at_ == 0 ? 0 : at_ - 1);
    const auto column = at_ - (start == std::string_view::npos || at_ == 0 ? 0 : start + 1) + 1;
    raise<ValueError>("loop IR: line ", line, ", column ", column, ": expected ", expected, ", found '",
                      text_.substr(at_, std::min<size_t>(20, text_.find('\n', at_) - at_)), "'");
  }

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  /// Takes `token` if it is next. A token that ends in a letter must end a word.
  bool take(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    const size_t end = at_ + token.size();
    if (is_word_char(token.back()) && end < text_.size() && is_word_char(text_[end])) return false;
    at_ = end;
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail("'" + std::string(token) + "'");
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  std::string_view word(std::string_view what) {
    skip_space();
    size_t end = at_;
    while (end < text_.size() && is_word_char(text_[end])) ++end;
    if (end == at_) fail(what);
    const std::string_view w = text_.substr(at_, end - at_);
    at_ = end;
    return w;
  }
  /// A number after a one-letter sigil: v3.
  int32_t id(char sigil) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != sigil) fail(std::string("'") + sigil + "' and a number");
    ++at_;
    // Ids index tables.
    constexpr int32_t kMost = 1 << 20;
    const int64_t n = integer();
    if (n < 0 || n > kMost) fail("a small number");
    return static_cast<int32_t>(n);
  }
  int64_t integer() { return number<int64_t>("an integer"); }
  template <class T>
  T number(std::string_view what, int base = 10) {
    skip_space();
    T v{};
    const char* begin = text_.data() + at_;
    std::from_chars_result r;
    if constexpr (std::is_floating_point_v<T>) {
      r = std::from_chars(begin, text_.data() + text_.size(), v);
    } else {
      r = std::from_chars(begin, text_.data() + text_.size(), v, base);
    }
    if (r.ec != std::errc()) fail(what);
    at_ = r.ptr - text_.data();
    return v;
  }
  /// The next characters up to a space, comma or bracket, without taking them.
  std::string_view upcoming() {
    skip_space();
    return text_.substr(at_, text_.find_first_of(" ,\n]}", at_) - at_);
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : in_(text) {}

  Kernel kernel() {
    in_.expect("kernel");
    in_.expect("{");
    header();
    k_.root = statement();
    in_.expect("}");
    if (!in_.at_end()) in_.fail("the end");
    return std::move(k_);
  }

 private:
  void header() {
    in_.expect("buffers");
    while (in_.peek() == 'b') {
      if (in_.id('b') != static_cast<int32_t>(k_.buffers.size())) in_.fail("buffers in order");
      in_.expect(":");
      BufferArg b{dtype()};
      const std::string_view mode = in_.word("r, w or rw");
      b.read = mode == "r" || mode == "rw";
      b.write = mode == "w" || mode == "rw";
      if (!b.read && !b.write) in_.fail("r, w or rw");
      if (in_.take("shared")) b.space = MemorySpace::kShared;
      k_.buffers.push_back(b);
      if (!in_.take(",")) break;
    }
    if (in_.take("ints")) k_.num_ints = count();
    if (in_.take("scalars")) {
      for (;;) {
        if (in_.take("float")) {
          k_.scalars.push_back(Category::kFloat);
        } else if (in_.take("int")) {
          k_.scalars.push_back(Category::kInt);
        } else if (in_.take("bool")) {
          k_.scalars.push_back(Category::kBool);
        } else {
          break;
        }
      }
    }
    if (in_.take("errors")) k_.num_errors = count();
    k_.together = in_.take("together");
    k_.guarded = in_.take("guarded");
    if (in_.take("row")) {
      for (int* n : {&k_.row.vector, &k_.row.sides, &k_.row.threads, &k_.row.chunks, &k_.row.staged}) *n = count();
      k_.row.whole = in_.take("whole");
      k_.row.rest = in_.take("rest");
    }
  }

  int count() {
    const int64_t n = in_.integer();
    if (n < 0 || n > std::numeric_limits<int16_t>::max()) in_.fail("a small number");
    return static_cast<int>(n);
  }

  Stmt statement() {
    Stmt s{};
    if (in_.peek() == '%') {
      s.result = local_defined(in_.id('%'));
      in_.expect("=");
    }
    const std::string_view w = in_.word("a statement");
    if (w == "parallel") {
      loop(s, in_.take("vector") ? StmtKind::kParallelVector : StmtKind::kParallel);
    } else if (w == "loop") {
      loop(s, StmtKind::kLoop);
    } else if (w == "vector") {
      loop(s, StmtKind::kVector);
    } else if (w == "grid") {
      loop(s, StmtKind::kGrid);
    } else if (w == "block") {
      loop(s, StmtKind::kBlock);
    } else if (w == "thread") {
      loop(s, StmtKind::kThread);
    } else if (w == "lanes") {
      loop(s, StmtKind::kLanes);
    } else if (w == "split") {
      loop(s, StmtKind::kSplit);
    } else if (w == "combine") {
      s.kind = StmtKind::kCombine;
      address(s);
      s.op = op(in_.word("a primitive"));
      s.args = {in_.id('%')};
      if (in_.take("from")) s.args.push_back(in_.id('%'));
    } else if (w == "copy") {
      s.kind = StmtKind::kCopy;
      address(s);
      in_.expect(",");
      std::swap(s.source, s.address);
      address(s);
      std::swap(s.source, s.address);
    } else if (const StmtKind* const placement = placement_named(w)) {
      s.kind = *placement;
      address(s);
      s.ahead = s.kind == StmtKind::kHold && in_.take("ahead");
      if (s.kind == StmtKind::kFetch && in_.take("next")) s.vars = {in_.id('v')};
    } else if (w == "shared" || w == "register") {
      s.kind = w == "shared" ? StmtKind::kShared : StmtKind::kRegister;
      s.address.buffer = in_.id('b');
      in_.expect("[");
      s.limit = int_ref();
      in_.expect("]");
    } else if (w == "barrier") {
      s.kind = StmtKind::kBarrier;
    } else if (w == "load") {
      s.kind = StmtKind::kLoad;
      address(s);
      bounds(s);
      s.ahead = in_.take("ahead");
    } else if (w == "store" || w == "stream") {
      s.kind = StmtKind::kStore;
      s.streaming = w == "stream";
      address(s);
      in_.expect(",");
      args(s);
    } else if (w == "constant") {
      s.kind = StmtKind::kConstant;
      s.dtype = dtype();
      s.constant = scalar();
    } else if (w == "scalar") {
      s.kind = StmtKind::kScalar;
      s.dtype = dtype();
      s.slot = in_.id('s');
    } else if (w == "index") {
      s.kind = StmtKind::kIndex;
      s.dtype = DType::kInt64;
      s.map = affine(nullptr);
    } else if (w == "acc") {
      acc(s);
    } else if (w == "update") {
      s.kind = StmtKind::kUpdate;
      s.acc = in_.id('a');
      in_.expect(",");
      args(s);
    } else if (w == "result") {
      s.kind = StmtKind::kResult;
      s.acc = in_.id('a');
      if (s.acc >= static_cast<AccId>(acc_dtypes_.size())) in_.fail("an accumulator declared before");
      s.dtype = acc_dtypes_[s.acc];
    } else if (w == "check_index") {
      s.kind = StmtKind::kCheckIndex;
      s.dtype = DType::kInt64;
      s.args = {in_.id('%')};
      in_.expect(",");
      s.limit = int_ref();
      in_.expect(",");
      s.slot = in_.id('e');
    } else {
      s.kind = StmtKind::kPrimitive;
      s.op = op(w);
      s.dtype = dtype();
      args(s);
      if (in_.take("again")) s.again = in_.id('%');
    }
    return s;
  }

  /// Statements that are a word and an address; null: none of them.
  static const StmtKind* placement_named(std::string_view word) {
    static constexpr std::pair<std::string_view, StmtKind> kAll[] = {{"hold", StmtKind::kHold},
                                                                     {"release", StmtKind::kRelease},
                                                                     {"stage", StmtKind::kStage},
                                                                     {"unstage", StmtKind::kUnstage},
                                                                     {"fetch", StmtKind::kFetch}};
    const auto* const it = std::ranges::find(kAll, word, &std::pair<std::string_view, StmtKind>::first);
    return it == std::end(kAll) ? nullptr : &it->second;
  }

  void loop(Stmt& s, StmtKind kind) {
    s.kind = kind;
    if (kind != StmtKind::kGrid || in_.peek() == 'v') {
      do {
        s.vars.push_back(in_.id('v'));
        k_.num_vars = std::max(k_.num_vars, s.vars.back() + 1);
        in_.expect("<");
        s.extents.push_back(int_ref());
      } while (in_.take(","));
    }
    if (in_.take("clamp")) {
      s.clamp_var = in_.id('v');
      in_.expect("of");
      s.clamp_total = int_ref();
    }
    if ((kind == StmtKind::kThread || kind == StmtKind::kBlock) && in_.take("chunk")) s.chunk = count();
    s.coarsened = s.chunk > 0 && kind == StmtKind::kThread && in_.take("coarsened");
    if (kind == StmtKind::kThread && in_.take("across")) s.across = count();
    if (is_sequential(kind) && in_.take("unroll")) s.unroll = count();
    if (kind == StmtKind::kSplit && in_.take("threads")) s.limit.constant = count();
    in_.expect("{");
    // Deep nesting is not loop IR, and must not exhaust the stack.
    constexpr int kDeepest = 16;
    if (++depth_ > kDeepest) in_.fail("fewer nested loops");
    while (!in_.take("}")) s.body.push_back(statement());
    --depth_;
  }

  void acc(Stmt& s) {
    s.kind = StmtKind::kAcc;
    s.acc = in_.id('a');
    k_.num_accs = std::max(k_.num_accs, s.acc + 1);
    in_.expect("=");
    const std::string_view kind = in_.word("a reduction");
    const auto* found = std::find(std::begin(kReduceNames), std::end(kReduceNames), kind);
    if (found == std::end(kReduceNames)) in_.fail("sum, prod, max, min, any or all before this");
    s.reduce = static_cast<ir::ReduceKind>(found - std::begin(kReduceNames));
    s.dtype = dtype();
    if (s.acc >= static_cast<AccId>(acc_dtypes_.size())) acc_dtypes_.resize(s.acc + 1);
    acc_dtypes_[s.acc] = s.dtype;
  }

  void address(Stmt& s) {
    s.address.buffer = in_.id('b');
    if (s.address.buffer >= static_cast<int>(k_.buffers.size())) in_.fail("a buffer of the header before this");
    s.dtype = k_.buffers[s.address.buffer].dtype;
    in_.expect("[");
    s.address.map = affine(&s.address.indirect);
    in_.expect("]");
  }

  Affine affine(std::vector<Address::Indirect>* indirect) {
    Affine a;
    const char first = in_.peek();
    if (first != 'v' && first != '%') {
      a.offset = int_ref();
      if (!in_.take("+")) return a;
    }
    do {
      if (in_.peek() == '%' && indirect) {
        const LocalId index = in_.id('%');
        indirect->push_back({index, stride()});
      } else {
        const VarId var = in_.id('v');
        a.terms.push_back({var, stride()});
      }
    } while (in_.take("+"));
    return a;
  }
  IntRef stride() { return in_.take("*") ? int_ref() : IntRef{1}; }

  void bounds(Stmt& s) {
    if (!in_.take("where")) return;
    do {
      Bound b;
      b.lo = int_ref();
      in_.expect("<=");
      b.map = affine(nullptr);
      in_.expect("<");
      b.hi = int_ref();
      s.bounds.push_back(std::move(b));
    } while (in_.take(","));
    in_.expect("else");
    s.constant = scalar();
  }

  void args(Stmt& s) {
    do {
      s.args.push_back(in_.id('%'));
    } while (in_.take(","));
  }

  IntRef int_ref() {
    if (in_.peek() == 'n') return {0, in_.id('n')};
    return {in_.integer()};
  }

  Scalar scalar() {
    if (in_.take("true")) return true;
    if (in_.take("false")) return false;
    if (in_.take("nan")) {
      in_.expect("(");
      const auto bits = in_.number<uint64_t>("sixteen hexadecimal digits", 16);
      in_.expect(")");
      return std::bit_cast<double>(bits);
    }
    if (in_.upcoming().find_first_of(".ein") == std::string_view::npos) return in_.integer();
    return in_.number<double>("a number");
  }

  DType dtype() {
    const auto t = parse_dtype(in_.word("a dtype"));
    if (!t) in_.fail("a dtype before this");
    return *t;
  }

  ir::Op op(std::string_view name) {
    try {
      return ir::find_op(name);
    } catch (const ValueError&) {
      in_.fail("a statement or primitive before this");
    }
  }

  LocalId local_defined(LocalId id) {
    k_.num_locals = std::max(k_.num_locals, id + 1);
    return id;
  }

  Cursor in_;
  Kernel k_;
  std::vector<DType> acc_dtypes_;
  int depth_ = 0;
};

}  // namespace

Kernel parse_loop(std::string_view text) { return Parser(text).kernel(); }

}  // namespace smolder::jit
