// Signatures as text, and arguments as words.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "smolder/core/error.h"
#include "smolder/ir/user_op.h"

namespace smolder::ir {
namespace {

using Argument = SchemaArgument;

struct TypeName {
  std::string_view text;
  Argument::Kind kind;
};
constexpr TypeName kTypes[] = {
    {"Tensor", Argument::kTensor},    {"Tensor[]", Argument::kTensorList},
    {"Scalar", Argument::kNumber},    {"float", Argument::kNumber},
    {"int", Argument::kInt},          {"SymInt", Argument::kInt},
    {"bool", Argument::kBool},        {"str", Argument::kText},
    {"ScalarType", Argument::kDType}, {"dtype", Argument::kDType},
    {"int[]", Argument::kInts},       {"SymInt[]", Argument::kInts},
    {"float[]", Argument::kFloats},   {"bool[]", Argument::kBools},
};

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

/// The parts between commas that are in no bracket or quote.
std::vector<std::string_view> split(std::string_view s) {
  std::vector<std::string_view> out;
  int depth = 0;
  char quote = 0;
  size_t start = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i == s.size() || (s[i] == ',' && depth == 0 && !quote)) {
      out.push_back(trimmed(s.substr(start, i - start)));
      start = i + 1;
    } else if (quote) {
      if (s[i] == quote) quote = 0;
    } else if (s[i] == '\'' || s[i] == '"') {
      quote = s[i];
    } else if (s[i] == '(' || s[i] == '[') {
      ++depth;
    } else if (s[i] == ')' || s[i] == ']') {
      --depth;
    }
  }
  if (out.size() == 1 && out[0].empty()) out.clear();
  return out;
}

bool is_identifier(std::string_view s) {
  const auto ok = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !s.empty() && !(s[0] >= '0' && s[0] <= '9') && std::ranges::all_of(s, ok);
}

/// The type `s` without a size in its brackets and without aliases: "int[2]" is "int[]", "Tensor(a!)" a Tensor.
std::string plain_type(std::string_view s, bool& mutated) {
  std::string out(s);
  if (const size_t open = out.find('('); open != std::string::npos) {
    const size_t close = out.find(')', open);
    mutated = out.substr(open, close - open).find('!') != std::string::npos;
    if (close != std::string::npos) out.erase(open, close - open + 1);
  }
  const size_t open = out.find('['), close = out.find(']');
  if (open != std::string::npos && close != std::string::npos) out.erase(open + 1, close - open - 1);
  return out;
}

class SchemaParser {
 public:
  explicit SchemaParser(std::string_view text) : text_(text) {}

  Schema parse() {
    const size_t open = text_.find('(');
    if (open == std::string_view::npos) fail("expected '(' after the name");
    Schema out;
    out.name = trimmed(text_.substr(0, open));
    name(out.name);
    int depth = 0;
    size_t close = open;
    for (; close < text_.size(); ++close) {
      depth += text_[close] == '(' ? 1 : text_[close] == ')' ? -1 : 0;
      if (depth == 0) break;
    }
    if (close == text_.size()) fail("expected ')' after the arguments");
    arguments(out, text_.substr(open + 1, close - open - 1));
    const std::string_view rest = trimmed(text_.substr(close + 1));
    if (!rest.starts_with("->")) fail("expected '->' and what is returned");
    out.num_returns = returns(trimmed(rest.substr(2)));
    if (out.num_returns + out.num_mutated() == 0) unsupported("an op that returns and writes nothing");
    if (out.num_returns + out.num_mutated() > 8) unsupported("more than eight results");
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const { raise<RuntimeError>("in the schema '", text_, "': ", what); }
  [[noreturn]] void unsupported(const std::string& what) const {
    raise<NotImplementedError>("in the schema '", text_, "': ", what, " is not supported");
  }

  void name(const std::string& n) const {
    const size_t colons = n.find("::");
    const std::string_view own =
        colons == std::string::npos ? std::string_view(n) : std::string_view(n).substr(colons + 2);
    if (colons == std::string::npos || !is_identifier(n.substr(0, colons)) ||
        !is_identifier(own.substr(0, own.find('.')))) {
      fail("the name must be of the form namespace::name");
    }
    if (own.find('.') != std::string_view::npos) unsupported("an overload name ('" + std::string(own) + "')");
  }

  void arguments(Schema& out, std::string_view text) const {
    bool starred = false;
    int operands = 0, attrs = 0, lists = 0;
    for (const std::string_view part : split(text)) {
      if (part == "*") {
        starred = true;
        continue;
      }
      Argument a = argument(part);
      a.keyword_only = starred;
      a.position = a.is_operand() ? operands++ : attrs++;
      lists += a.kind == Argument::kTensorList;
      if (std::ranges::any_of(out.arguments, [&](const Argument& b) { return b.name == a.name; })) {
        fail("two arguments are called " + a.name);
      }
      out.arguments.push_back(std::move(a));
    }
    if (lists > 1) unsupported("more than one Tensor[]");
    if (operands > 30) unsupported("more than 30 tensors and numbers");
  }

  Argument argument(std::string_view part) const {
    Argument a;
    std::string_view declared = part;
    if (const size_t equals = part.find('='); equals != std::string_view::npos) {
      a.default_text = trimmed(part.substr(equals + 1));
      declared = trimmed(part.substr(0, equals));
    }
    const size_t space = declared.rfind(' ');
    if (space == std::string_view::npos) fail("expected a type and a name, found '" + std::string(part) + "'");
    a.name = declared.substr(space + 1);
    a.type = trimmed(declared.substr(0, space));
    if (!is_identifier(a.name)) fail("'" + a.name + "' is no name for an argument");
    std::string type = plain_type(a.type, a.mutated);
    if (type.ends_with('?')) {
      a.optional = true;
      type.pop_back();
    }
    const auto* known = std::ranges::find(kTypes, std::string_view(type), &TypeName::text);
    if (known == std::end(kTypes)) unsupported("the type '" + a.type + "' of " + a.name);
    a.kind = known->kind;
    if (a.optional && a.kind == Argument::kNumber) {
      a.kind = Argument::kFloat;  // structure: whether it is there chooses the formula. An integer becomes a float
    }
    if (a.optional && a.kind == Argument::kTensorList) unsupported("the type '" + a.type + "' of " + a.name);
    if (a.mutated && a.kind != Argument::kTensor) unsupported("writing to '" + a.type + " " + a.name + "'");
    try {
      if (a.default_text && !(a.is_operand() && *a.default_text == "None")) default_value(a);  // is it one?
    } catch (const RuntimeError& e) {
      fail(e.what());
    }
    return a;
  }

  int returns(std::string_view text) const {
    const bool several = text.starts_with('(') && text.ends_with(')');
    if (text == "()" || text == "None") return 0;
    const auto parts = split(several ? text.substr(1, text.size() - 2) : text);
    for (const std::string_view part : parts) {
      bool aliased = false;
      const std::string type = plain_type(part.substr(0, part.find(' ')), aliased);
      if (part.find('(') != std::string_view::npos)
        unsupported("a result that is an argument ('" + std::string(part) + "')");
      if (type != "Tensor") unsupported("a result of type '" + type + "'");
    }
    return static_cast<int>(parts.size());
  }

  const std::string_view text_;
};

SchemaArgument::Kind kind_of(AttrKind k, bool& optional) {
  optional = k == AttrKind::kOptionalInt || k == AttrKind::kOptionalFloat || k == AttrKind::kOptionalDType ||
             k == AttrKind::kOptionalIntList || k == AttrKind::kOptionalSize;
  switch (k) {
    case AttrKind::kBool:
      return Argument::kBool;
    case AttrKind::kFloat:
    case AttrKind::kOptionalFloat:
      return Argument::kFloat;
    case AttrKind::kString:
      return Argument::kText;
    case AttrKind::kDType:
    case AttrKind::kOptionalDType:
      return Argument::kDType;
    case AttrKind::kIntList:
    case AttrKind::kOptionalIntList:
    case AttrKind::kSizeList:
      return Argument::kInts;
    default:
      return Argument::kInt;
  }
}

template <class T>
const T& value_of(const Argument& a, const AttrValue& v) {
  const T* const found = std::get_if<T>(&v);
  SMOLDER_CHECK(found, TypeError, "argument '", a.name, "' must be ", a.type);
  return *found;
}

/// Text as words: its length, then eight bytes each.
std::vector<int64_t> packed(const std::string& s) {
  std::vector<int64_t> out(1 + (s.size() + 7) / 8);
  out[0] = static_cast<int64_t>(s.size());
  std::memcpy(out.data() + 1, s.data(), s.size());
  return out;
}

/// The number that all of `s` is.
template <class T>
std::optional<T> number(std::string_view s) {
  T v{};
  const auto [end, failure] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (failure != std::errc{} || end != s.data() + s.size()) return std::nullopt;
  return v;
}

std::optional<AttrValue> literal(std::string_view s) {
  if (s == "None") return AttrValue();
  if (s == "True" || s == "False") return AttrValue(s == "True");
  if (s.size() >= 2 && (s[0] == '\'' || s[0] == '"') && s.back() == s[0])
    return AttrValue(std::string(s.substr(1, s.size() - 2)));
  if (const auto i = number<int64_t>(s)) return AttrValue(*i);
  if (const auto d = number<double>(s)) return AttrValue(*d);
  return std::nullopt;
}

/// Whether torch has a dtype of that name which Python alone has here.
bool is_other_dtype(std::string_view name) {
  static constexpr std::string_view kBegins[] = {"float8_", "float4_", "complex32", "uint16",
                                                 "uint32",  "uint64",  "qint",      "quint"};
  return std::ranges::any_of(kBegins, [&](std::string_view begin) { return name.starts_with(begin); });
}

}  // namespace

int Schema::num_mutated() const {
  return static_cast<int>(std::ranges::count_if(arguments, [](const Argument& a) { return a.mutated; }));
}

Schema parse_schema(std::string_view text) { return SchemaParser(text).parse(); }

Schema schema_of(Op op) {
  if (is_user_op(op)) return user_op(op).schema;
  const OpInfo& row = info(op);
  Schema out;
  out.name = row.name;
  out.num_returns = row.num_outputs;
  const size_t open = row.signature.find('('), close = row.signature.rfind(") ->");
  bool starred = false;
  for (const std::string_view part : split(row.signature.substr(open + 1, close - open - 1))) {
    if (part == "*") {
      starred = true;
      continue;
    }
    const std::string_view declared = trimmed(part.substr(0, part.find('=')));
    Argument a;
    a.name = declared.substr(declared.rfind(' ') + 1);
    a.type = trimmed(declared.substr(0, declared.rfind(' ')));
    a.keyword_only = starred;
    const auto operand = std::ranges::find(row.operands, std::string_view(a.name), &OperandInfo::name);
    if (operand != row.operands.end()) {
      a.position = static_cast<int>(operand - row.operands.begin());
      a.optional = operand->kind == OperandInfo::kOptionalTensor;
      a.kind = operand->kind == OperandInfo::kTensorList ? Argument::kTensorList
               : operand->kind == OperandInfo::kNumber   ? Argument::kNumber
                                                         : Argument::kTensor;
    } else {
      const auto attr = std::ranges::find(row.attrs, std::string_view(a.name), &AttrInfo::name);
      SMOLDER_INVARIANT(attr != row.attrs.end());
      a.position = static_cast<int>(attr - row.attrs.begin());
      a.kind = kind_of(attr->kind, a.optional);
      a.choices = attr->choices;
    }
    if (const size_t equals = part.find('='); equals != part.npos) {
      std::string_view text = trimmed(part.substr(equals + 1));
      if (a.kind == Argument::kDType && text.starts_with('\'')) text = text.substr(1, text.size() - 2);
      a.default_text = text;
    }
    out.arguments.push_back(std::move(a));
  }
  return out;
}

void append_words(const Argument& a, const AttrValue& value, std::vector<int64_t>& words) {
  const bool present = !std::holds_alternative<std::monostate>(value);
  if (a.optional) words.push_back(present);
  const auto list = [&](const std::vector<int64_t>& v) {
    words.push_back(static_cast<int64_t>(v.size()));
    words.insert(words.end(), v.begin(), v.end());
  };
  if (!present) {
    SMOLDER_CHECK(a.optional, TypeError, "argument '", a.name, "' must be ", a.type, ", not None");
    return words.push_back(0);
  }
  switch (a.kind) {
    case Argument::kInt:
      return words.push_back(value_of<int64_t>(a, value));
    case Argument::kFloat: {
      const auto* const whole = std::get_if<int64_t>(&value);
      return words.push_back(std::bit_cast<int64_t>(whole ? static_cast<double>(*whole) : value_of<double>(a, value)));
    }
    case Argument::kBool:
      return words.push_back(value_of<bool>(a, value));
    case Argument::kDType:
      return words.push_back(static_cast<int64_t>(value_of<DType>(a, value)));
    case Argument::kText: {
      const auto& text = value_of<std::string>(a, value);
      if (a.choices.empty()) return list(packed(text));
      const auto found = std::ranges::find(a.choices, std::string_view(text));
      SMOLDER_CHECK(found != a.choices.end(), ValueError, "argument '", a.name, "' must be ", a.type, ", not '", text,
                    "'");
      return words.push_back(found - a.choices.begin());
    }
    case Argument::kInts:
      return list(value_of<std::vector<int64_t>>(a, value));
    case Argument::kFloats: {
      std::vector<int64_t> bits;
      if (const auto* const whole = std::get_if<std::vector<int64_t>>(&value)) {
        for (const int64_t v : *whole) bits.push_back(std::bit_cast<int64_t>(static_cast<double>(v)));
      } else {
        for (const double v : value_of<std::vector<double>>(a, value)) bits.push_back(std::bit_cast<int64_t>(v));
      }
      return list(bits);
    }
    case Argument::kBools: {
      const auto& v = value_of<std::vector<bool>>(a, value);
      return list({v.begin(), v.end()});
    }
    default:
      SMOLDER_INVARIANT(!a.is_operand());
  }
}

AttrValue read_words(const Argument& a, std::span<const int64_t>& words) {
  const auto next = [&] {
    SMOLDER_INVARIANT(!words.empty());
    const int64_t word = words.front();
    words = words.subspan(1);
    return word;
  };
  const bool present = !a.optional || next() != 0;
  const int64_t first = next();
  if (!present) return {};
  const auto list = [&] {
    const std::vector<int64_t> out(words.begin(), words.begin() + first);
    words = words.subspan(first);
    return out;
  };
  switch (a.kind) {
    case Argument::kFloat:
      return std::bit_cast<double>(first);
    case Argument::kBool:
      return first != 0;
    case Argument::kDType:
      return static_cast<DType>(first);
    case Argument::kText: {
      if (!a.choices.empty()) return std::string(a.choices[first]);
      const std::vector<int64_t> all = list();
      return std::string(reinterpret_cast<const char*>(all.data() + 1), all[0]);
    }
    case Argument::kInts:
      return list();
    case Argument::kFloats: {
      std::vector<double> out;
      for (const int64_t v : list()) out.push_back(std::bit_cast<double>(v));
      return out;
    }
    case Argument::kBools: {
      const std::vector<int64_t> all = list();
      return std::vector<bool>(all.begin(), all.end());
    }
    default:
      return first;
  }
}

AttrValue default_value(const Argument& a) {
  SMOLDER_CHECK(a.default_text, TypeError, "missing a required argument: '", a.name, "'");
  const std::string_view text = *a.default_text;
  const auto bad = [&] { raise<RuntimeError>("'", text, "' is no default of ", a.type, " ", a.name); };
  if (text.starts_with('[') && text.ends_with(']')) {
    std::vector<int64_t> ints;
    std::vector<double> floats;
    std::vector<bool> bools;
    for (const std::string_view part : split(text.substr(1, text.size() - 2))) {
      const auto v = literal(part);
      if (!v) bad();
      if (const auto* b = std::get_if<bool>(&*v)) bools.push_back(*b);
      if (const auto* i = std::get_if<int64_t>(&*v)) ints.push_back(*i), floats.push_back(static_cast<double>(*i));
      if (const auto* d = std::get_if<double>(&*v)) floats.push_back(*d);
    }
    if (a.kind == Argument::kBools) return bools;
    if (a.kind == Argument::kFloats) return floats;
    return ints;
  }
  if (a.kind == Argument::kDType && text != "None") {
    const auto dtype = parse_dtype(text);
    if (!dtype && is_other_dtype(text)) return std::string(text);  // which no call can take
    if (!dtype) bad();
    return *dtype;
  }
  const auto v = literal(text);
  if (!v) bad();
  if (!a.is_operand()) {
    std::vector<int64_t> words;
    try {
      append_words(a, *v, words);
    } catch (const TypeError&) {
      bad();
    }
  }
  return *v;
}

}  // namespace smolder::ir
