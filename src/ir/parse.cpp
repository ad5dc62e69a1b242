// Reads the text form of a graph, one statement a line:
//
//   symbols s0=32, s1=fixed                            symbol = its value in the sample; fixed: structural (0 or 1)
//   %0 = leaf(number=0, offset=0, strides=[64, 1]) : float32[s0, 64]    results = op(operands, attributes) : dtype[...]
//   %1 = constant(0.5) : weak float64[]                `2` is an int, `2.0` a float
//   %2, %3 = sgd_step(%0, %0, _, ...) : float32[s0, 64], float32[s0, 64] @7      @ source token
//   guard s0 <= 131072
//   return %2
//
// An operand is `%n`, or `_` where an optional one is absent. A number's result is `weak float64[]`. Extents are
// what SymTable::to_string writes. `// ...` to the end of a line is a comment.
#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "smolder/ir/graph.h"

namespace smolder::ir {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph parse() {
    bool returned = false;
    for (skip_blank_lines(); at_ < text_.size(); skip_blank_lines()) {
      if (returned) fail("nothing may follow `return`");
      returned = statement();
      end_of_line();
    }
    if (!returned) fail("the graph does not end in `return`");
    return std::move(g_);
  }

 private:
  // -- characters

  [[noreturn]] void fail(const std::string& what) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const auto column = at_ - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    raise<ValueError>("graph text, line ", line, ", column ", column, ": ", what);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\n'; }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
    if (text_.substr(at_).starts_with("//")) at_ = std::min(text_.find('\n', at_), text_.size());
  }
  void skip_blank_lines() {
    for (skip_spaces(); at_ < text_.size() && text_[at_] == '\n'; skip_spaces()) ++at_;
  }
  void end_of_line() {
    skip_spaces();
    if (peek() != '\n') fail("expected the end of the line");
  }
  bool accept(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail("expected `" + std::string(token) + "`");
  }
  std::string_view word() {
    skip_spaces();
    const size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_' || peek() == '.') ++at_;
    if (begin == at_) fail("expected a name");
    return text_.substr(begin, at_ - begin);
  }
  bool at_digit() const { return std::isdigit(static_cast<unsigned char>(peek())); }
  /// `format`: the base of an integer, nothing for a float.
  template <class T, class... Format>
  T number(Format... format) {
    skip_spaces();
    T v{};
    const auto end = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v, format...);
    if (end.ec != std::errc()) fail("expected a number that fits");
    at_ = end.ptr - text_.data();
    return v;
  }
  void comma_separated(std::string_view close, auto item) {
    if (accept(close)) return;
    do item();
    while (accept(","));
    expect(close);
  }

  // -- statements

  /// True when it was `return`.
  bool statement() {
    if (peek() == '%') return node(), false;
    const size_t begin = at_;
    const std::string_view keyword = word();
    if (keyword == "symbols") return symbols(), false;
    if (keyword == "guard") return guard(), false;
    if (keyword == "return") return outputs(), true;
    at_ = begin;  // an op without results
    return node(), false;
  }

  void symbols() {
    do {
      expect("s");
      if (number<int>() != g_.sym.num_symbols()) fail("symbols are numbered from s0 in order");
      expect("=");
      skip_spaces();
      const int64_t sample = accept("fixed") ? 1 : number<int64_t>();
      symbols_.push_back(g_.sym.symbol(sample));
    } while (accept(","));
  }

  void guard() {
    const Dim a = dim();
    const GuardKind kind = accept("==")   ? GuardKind::kEqual
                           : accept("!=") ? GuardKind::kNotEqual
                           : accept("<=") ? GuardKind::kLessEqual
                                          : (expect(">"), GuardKind::kGreater);
    g_.sym.guard(kind, a, dim());
  }

  void outputs() {
    skip_spaces();
    if (peek() == '\n') return;
    do g_.outputs.push_back(value());
    while (accept(","));
  }

  ValueId value() {
    expect("%");
    const auto v = number<ValueId>();
    if (v >= g_.values.size()) fail("%" + std::to_string(v) + " is not defined before its use");
    return v;
  }

  void node() {
    size_t results = 0;
    skip_spaces();
    if (peek() == '%') {
      do {
        expect("%");
        if (number<ValueId>() != g_.values.size() + results) {
          fail("results are numbered in order: expected %" + std::to_string(g_.values.size() + results));
        }
        ++results;
      } while (accept(","));
      expect("=");
    }
    const Op op = operation();
    std::vector<ValueId> inputs;
    std::vector<Dim> attrs;
    arguments(info(op), inputs, attrs);
    std::vector<ValueInfo> infos;
    for (size_t i = 0; i < results; ++i) {
      expect(i == 0 ? ":" : ",");
      infos.push_back(meta());
    }
    const uint32_t source = accept("@") ? number<uint32_t>() : 0;
    g_.append(op, std::move(inputs), std::move(attrs), infos, {source, {}});
  }

  Op operation() {
    skip_spaces();
    const size_t begin = at_;
    word();
    while (accept("::")) word();  // of an op of the program's own
    const std::string_view name = text_.substr(begin, at_ - begin);
    try {
      return find_op(name);
    } catch (const ValueError& e) {
      at_ = begin;
      fail(e.what());
    }
  }

  void arguments(const OpInfo& op, std::vector<ValueId>& inputs, std::vector<Dim>& attrs) {
    expect("(");
    if (!op.attrs.empty()) {
      while (operand(inputs)) expect(",");
      if (accept("words=")) {
        list(attrs);
        attrs.erase(attrs.begin());
      } else if (&op == &info(Op::kConstant)) {
        constant(attrs);
      } else {
        for (size_t i = 0; i < op.attrs.size(); ++i) {
          if (i > 0) expect(",");
          attribute(op.attrs[i], attrs);
        }
      }
      expect(")");
    } else {
      comma_separated(")", [&] {
        if (operand(inputs)) return;
        expect("words=");
        list(attrs);
        attrs.erase(attrs.begin());
      });
    }
  }

  bool operand(std::vector<ValueId>& inputs) {
    skip_spaces();
    if (peek() == '%') {
      inputs.push_back(value());
    } else if (accept("_")) {
      inputs.push_back(kNone);
    } else {
      return false;
    }
    return true;
  }

  ValueInfo meta() {
    ValueInfo v{};
    std::string_view type = word();
    if (type == "weak") {
      v.weak = true;
      type = word();
    }
    v.dtype = dtype(type);
    expect("[");
    comma_separated("]", [&] {
      if (v.shape.size() == kMaxRank) fail("tensors have at most " + std::to_string(kMaxRank) + " dimensions");
      v.shape.push_back(dim());
    });
    return v;
  }

  DType dtype(std::string_view type) const {
    const auto t = parse_dtype(type);
    if (!t) fail("unknown dtype `" + std::string(type) + "`");
    return *t;
  }

  // -- attributes

  void attribute(const AttrInfo& a, std::vector<Dim>& words) {
    expect(std::string(a.name));
    expect("=");
    switch (a.kind) {
      case AttrKind::kInt:
      case AttrKind::kSize:
        return words.push_back(dim());
      case AttrKind::kBool:
        return words.push_back(boolean());
      case AttrKind::kFloat:
        return words.push_back(floating());
      case AttrKind::kString:
        return words.push_back(choice(a));
      case AttrKind::kDType:
        return words.push_back(static_cast<int64_t>(dtype(word())));
      case AttrKind::kOptionalInt:
      case AttrKind::kOptionalSize:
        return optional(words, [&] { words.push_back(dim()); });
      case AttrKind::kOptionalFloat:
        return optional(words, [&] { words.push_back(floating()); });
      case AttrKind::kOptionalDType:
        return optional(words, [&] { words.push_back(static_cast<int64_t>(dtype(word()))); });
      case AttrKind::kIntList:
      case AttrKind::kSizeList:
        return list(words);
      case AttrKind::kOptionalIntList:
        return optional(words, [&] { list(words); });
    }
  }

  void optional(std::vector<Dim>& words, auto present) {
    if (accept("none")) {
      words.insert(words.end(), {0, 0});
    } else {
      words.push_back(1);
      present();
    }
  }
  /// The count, then the values.
  void list(std::vector<Dim>& words) {
    const size_t count = words.size();
    words.push_back(0);
    expect("[");
    comma_separated("]", [&] { words.push_back(dim()); });
    words[count] = static_cast<int64_t>(words.size() - count - 1);
  }
  int64_t boolean() {
    if (accept("true")) return 1;
    expect("false");
    return 0;
  }
  /// `true`, `2` or `2.0`: category and bits.
  void constant(std::vector<Dim>& words) {
    const auto put = [&](Category c, int64_t bits) { words = {static_cast<int64_t>(c), bits}; };
    skip_spaces();
    const std::string_view rest = text_.substr(at_), text = rest.substr(0, rest.find(')'));
    if (text == "true" || text == "false") return put(Category::kBool, boolean());
    if (text.find_first_not_of("-0123456789") == text.npos) return put(Category::kInt, number<int64_t>());
    put(Category::kFloat, floating());
  }
  int64_t choice(const AttrInfo& a) {
    const std::string_view given = word();
    for (size_t i = 0; i < a.choices.size(); ++i) {
      if (a.choices[i] == given) return static_cast<int64_t>(i);
    }
    fail("`" + std::string(given) + "` is not a choice of " + std::string(a.name));
  }
  /// The bits of a double.
  int64_t floating() {
    if (accept("nan(0x")) {
      const auto bits = number<uint64_t>(16);
      expect(")");
      return static_cast<int64_t>(bits);
    }
    return std::bit_cast<int64_t>(number<double>());
  }

  // -- extents

  Dim dim() {
    terms_ = 0;
    return expression();
  }

  Dim expression() {
    Dim d = factor();
    while (accept("*")) d = g_.sym.mul(d, factor());
    return d;
  }

  Dim factor() {
    if (++terms_ > kMostTerms) fail("an extent has at most " + std::to_string(kMostTerms) + " terms");
    skip_spaces();
    if (at_digit() || peek() == '-') return number<int64_t>();
    if (accept("(")) {
      const Dim a = expression();
      const Dim d = accept("+")   ? g_.sym.add(a, expression())
                    : accept("-") ? g_.sym.sub(a, expression())
                    : accept("/") ? g_.sym.floor_div(a, expression())
                    : accept("%") ? g_.sym.mod(a, expression())
                                  : a;
      expect(")");
      return d;
    }
    if (accept("ceildiv(")) return two(&SymTable::ceil_div);
    if (accept("min(")) return two(&SymTable::min);
    if (accept("max(")) return two(&SymTable::max);
    if (!accept("s") || !at_digit()) fail("expected an extent");
    const auto n = number<size_t>();
    if (n >= symbols_.size()) fail("symbol s" + std::to_string(n) + " is not declared");
    return symbols_[n];
  }

  Dim two(Dim (SymTable::*combine)(Dim, Dim)) {
    const Dim a = expression();
    expect(",");
    const Dim b = expression();
    expect(")");
    return (g_.sym.*combine)(a, b);
  }

  static constexpr int kMostTerms = 256;  ///< those who follow the expression need stack for each

  std::string_view text_;
  size_t at_ = 0;
  int terms_ = 0;  ///< of the extent that is read
  Graph g_;
  std::vector<Dim> symbols_;
};

}  // namespace

Graph parse(std::string_view text) { return Parser(text).parse(); }

}  // namespace smolder::ir
