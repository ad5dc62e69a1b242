// The text form of a graph; the grammar is at the head of parse.cpp.
#include <bit>
#include <charconv>
#include <cmath>
#include <span>
#include <string>

#include "smolder/ir/attr_words.h"
#include "smolder/ir/graph.h"

namespace smolder::ir {
namespace {

/// Shortest text that reads back as the same double, and does not read as an integer; a nan with its bits.
std::string float_text(int64_t word) {
  const auto v = std::bit_cast<double>(word);
  char buffer[40];
  if (std::isnan(v)) {
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<uint64_t>(word), 16);
    return "nan(0x" + std::string(buffer, end.ptr) + ")";
  }
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v);
  const std::string text(buffer, end.ptr);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

/// Attribute words as text, one argument after the other.
class AttrPrinter {
 public:
  AttrPrinter(const SymTable& sym, std::span<const Dim> words) : sym_(sym), words_(words) {}

  /// `name=value` for every attribute; empty when the words are not what the signature says.
  std::string print(std::span<const AttrInfo> attrs) {
    std::string out;
    for (const AttrInfo& a : attrs) {
      out += (out.empty() ? "" : ", ") + std::string(a.name) + "=" + argument(a);
      if (!fits_) return "";
    }
    return at_ == words_.size() ? out : "";
  }

  /// A number known when compiling, by the look of it bool, int or float; empty when the words are none.
  std::string constant() {
    at_ = 0;
    const int64_t category = take_constant(), bits = take_constant();
    if (!fits_ || at_ != words_.size()) return "";
    switch (static_cast<Category>(category)) {
      case Category::kBool:
        return bits == 0 ? "false" : bits == 1 ? "true" : "";
      case Category::kInt:
        return std::to_string(bits);
      case Category::kFloat:
        return float_text(bits);
      case Category::kComplex:  // numbers in graphs are real
        break;
    }
    return "";
  }

  /// The words as they are.
  std::string raw() {
    at_ = 0;
    fits_ = true;
    return "words=" + list(static_cast<int64_t>(words_.size()));
  }

 private:
  Dim take() {
    if (at_ < words_.size()) return words_[at_++];
    fits_ = false;
    return 0;
  }
  int64_t take_constant() {
    const Dim d = take();
    fits_ = fits_ && d.is_constant();
    return d.value;
  }
  bool take_flag() {
    const int64_t v = take_constant();
    fits_ = fits_ && (v == 0 || v == 1);
    return v != 0;
  }
  std::string list(int64_t count) {
    std::string out = "[";
    for (int64_t i = 0; i < count && fits_; ++i) out += (i ? ", " : "") + sym_.to_string(take());
    return out + "]";
  }
  std::string dtype() {
    const int64_t v = take_constant();
    fits_ = fits_ && v >= 0 && v < kNumDTypes;
    return fits_ ? std::string(name(static_cast<DType>(v))) : "";
  }
  std::string choice(const AttrInfo& a) {
    const int64_t v = take_constant();
    fits_ = fits_ && v >= 0 && v < static_cast<int64_t>(a.choices.size());
    return fits_ ? std::string(a.choices[v]) : "";
  }
  /// An absent value still has its words; they are zero.
  std::string optional(int absent_words, auto present) {
    if (take_flag()) return present();
    for (int i = 0; i < absent_words; ++i) fits_ = take_constant() == 0 && fits_;
    return "none";
  }

  std::string argument(const AttrInfo& a) {
    switch (a.kind) {
      case AttrKind::kInt:
      case AttrKind::kSize:
        return sym_.to_string(take());
      case AttrKind::kBool:
        return take_flag() ? "true" : "false";
      case AttrKind::kFloat:
        return float_text(take_constant());
      case AttrKind::kString:
        return choice(a);
      case AttrKind::kDType:
        return dtype();
      case AttrKind::kOptionalInt:
      case AttrKind::kOptionalSize:
        return optional(1, [&] { return sym_.to_string(take()); });
      case AttrKind::kOptionalFloat:
        return optional(1, [&] { return float_text(take_constant()); });
      case AttrKind::kOptionalDType:
        return optional(1, [&] { return dtype(); });
      case AttrKind::kIntList:
      case AttrKind::kSizeList:
        return list(take_constant());
      case AttrKind::kOptionalIntList:
        return optional(1, [&] { return list(take_constant()); });
    }
    return "";
  }

  const SymTable& sym_;
  std::span<const Dim> words_;
  size_t at_ = 0;
  bool fits_ = true;
};

std::string value_name(ValueId v) { return v == kNone ? "_" : "%" + std::to_string(v); }

std::string meta_text(const SymTable& sym, const ValueInfo& v) {
  std::string out = v.weak ? "weak " : "";
  out += name(v.dtype);
  out += "[";
  for (int i = 0; i < v.shape.size(); ++i) out += (i ? ", " : "") + sym.to_string(v.shape[i]);
  return out + "]";
}

std::string node_text(const Graph& g, const Node& n) {
  std::string out, results;
  for (ValueId v = n.first_output; v < n.first_output + n.num_outputs; ++v) {
    out += (v == n.first_output ? "" : ", ") + value_name(v);
    results += (v == n.first_output ? " : " : ", ") + meta_text(g.sym, g.values[v]);
  }
  if (n.num_outputs > 0) out += " = ";
  const OpInfo& op = info(n.op);
  out += op.name;
  out += "(";
  for (size_t i = 0; i < n.inputs.size(); ++i) out += (i ? ", " : "") + value_name(n.inputs[i]);
  if (!n.attrs.empty() || !op.attrs.empty()) {
    AttrPrinter attrs(g.sym, n.attrs);
    std::string text = n.op == Op::kConstant ? attrs.constant() : attrs.print(op.attrs);
    if (text.empty()) text = attrs.raw();
    out += (n.inputs.empty() ? "" : ", ") + text;
  }
  out += ")" + results;
  if (n.origin.source != 0) out += " @" + std::to_string(n.origin.source);
  return out + "\n";
}

/// Symbols with their value in the sample. One that is structural (0 or 1) has no expression.
std::string symbols_text(const SymTable& sym) {
  std::string out;
  for (int i = 0; i < sym.num_symbols(); ++i) {
    std::string sample = "fixed";
    for (const SymExpr& e : sym.exprs()) {
      if (e.op == SymOp::kSymbol && e.a.value == i) sample = std::to_string(e.b.value);
    }
    out += (i ? ", s" : "symbols s") + std::to_string(i) + "=" + sample;
  }
  return out.empty() ? "" : out + "\n";
}

}  // namespace

std::string attr_text(const AttrInfo& attr, std::span<const int64_t> words) {
  const SymTable none;
  const std::vector<Dim> dims(words.begin(), words.end());
  const std::string text = AttrPrinter(none, dims).print({&attr, 1});
  return text.empty() ? AttrPrinter(none, dims).raw() : text.substr(attr.name.size() + 1);
}

std::string print(const Graph& g) {
  std::string out = symbols_text(g.sym);
  for (const Node& n : g.nodes) out += node_text(g, n);
  for (const Guard& guard : g.sym.guards()) out += "guard " + g.sym.to_string(guard) + "\n";
  out += "return";
  for (size_t i = 0; i < g.outputs.size(); ++i) out += (i ? ", " : " ") + value_name(g.outputs[i]);
  return out + "\n";
}

}  // namespace smolder::ir
