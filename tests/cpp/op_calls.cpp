#include "op_calls.h"

#include <bit>
#include <fstream>
#include <limits>
#include <string>

#include "smolder/ir/interpret_number.h"

namespace smolder::ir::test {

using nlohmann::json;

namespace {

double number(const json& v) {
  if (!v.is_string()) return v.is_boolean() ? v.get<bool>() : v.get<double>();
  const std::string s = v;
  return s == "nan" ? std::numeric_limits<double>::quiet_NaN()
                    : (s[0] == '-' ? -1 : 1) * std::numeric_limits<double>::infinity();
}

void add_word(Call& c, int64_t word, bool is_size = false) {
  c.words.push_back(word);
  c.is_size.push_back(is_size);
}

void add_list(Call& c, const json& v, bool is_size) {
  const json list = v.is_array() ? v : v.is_null() ? json::array() : json::array({v});
  add_word(c, static_cast<int64_t>(list.size()));
  for (const json& x : list) add_word(c, x.get<int64_t>(), is_size);
}

void add_attr(Call& c, const AttrInfo& a, const json& v) {
  const auto dtype = [&] { return static_cast<int64_t>(*parse_dtype(v.get<std::string>())); };
  const auto present = [&] { add_word(c, !v.is_null()); };
  switch (a.kind) {
    case AttrKind::kInt:
      return add_word(c, v.get<int64_t>());
    case AttrKind::kSize:
      return add_word(c, v.get<int64_t>(), true);
    case AttrKind::kBool:
      return add_word(c, v.get<bool>());
    case AttrKind::kFloat:
      return add_word(c, std::bit_cast<int64_t>(number(v)));
    case AttrKind::kString:
      return add_word(c, std::find(a.choices.begin(), a.choices.end(), v.get<std::string>()) - a.choices.begin());
    case AttrKind::kDType:
      return add_word(c, dtype());
    case AttrKind::kOptionalInt:
      present();
      return add_word(c, v.is_null() ? 0 : v.get<int64_t>());
    case AttrKind::kOptionalSize:
      present();
      return add_word(c, v.is_null() ? 0 : v.get<int64_t>(), true);
    case AttrKind::kOptionalFloat:
      present();
      return add_word(c, v.is_null() ? 0 : std::bit_cast<int64_t>(number(v)));
    case AttrKind::kOptionalDType:
      present();
      return add_word(c, v.is_null() ? 0 : dtype());
    case AttrKind::kIntList:
      return add_list(c, v, false);
    case AttrKind::kOptionalIntList:
      present();
      return add_list(c, v, false);
    case AttrKind::kSizeList:
      return add_list(c, v, true);
  }
}

}  // namespace

PlainTensor tensor_of(const json& v) {
  PlainTensor t{*parse_dtype(v["dtype"].get<std::string>()), {}, {}, false};
  for (int64_t n : v["shape"]) t.shape.push_back(n);
  for (const json& x : v["data"]) {
    t.elements.push_back(x.is_number_integer() ? reference::convert(x.get<int64_t>(), t.dtype)
                                               : reference::convert(number(x), t.dtype));
  }
  return t;
}

Call call_of(const json& r) {
  Call c;
  c.op = find_op(r["op"].get<std::string>());
  for (const json& v : r["in"]) {
    if (v.is_null()) {
      c.operands.emplace_back();
    } else if (v.is_array()) {
      for (const json& part : v) c.operands.emplace_back(tensor_of(part));
    } else if (v.is_object()) {
      c.operands.emplace_back(tensor_of(v));
    } else {
      const Scalar s = v.is_boolean()          ? Scalar(v.get<bool>())
                       : v.is_number_integer() ? Scalar(v.get<int64_t>())
                                               : Scalar(number(v));
      c.operands.emplace_back(PlainTensor{s.dtype(DType::kFloat64), {}, {s}, true});
    }
  }
  for (size_t i = 0; i < info(c.op).attrs.size(); ++i) add_attr(c, info(c.op).attrs[i], r["attrs"][i]);
  return c;
}

std::vector<Meta> infer(const Call& c) {
  std::vector<Meta> metas(c.operands.size()), out(info(c.op).num_outputs);
  std::vector<const Meta*> inputs;
  for (size_t i = 0; i < metas.size(); ++i) {
    if (c.operands[i]) metas[i] = {c.operands[i]->shape, c.operands[i]->dtype, c.operands[i]->weak};
    inputs.push_back(c.operands[i] ? &metas[i] : nullptr);
  }
  info(c.op).infer({inputs, c.words}, out.data());
  return out;
}

Program decompose(const Call& c) {
  Program p;
  Builder b(p.g);
  Node node;
  node.op = c.op;
  for (const auto& t : c.operands) {
    if (!t) {
      node.inputs.push_back(kNone);
    } else if (t->weak) {
      const Category category = t->elements[0].category();
      node.inputs.push_back(b.parameter(static_cast<int>(p.parameters.size()), category).id);
      p.parameters.push_back(t->elements[0].bits());
    } else {
      SymDims shape;
      for (int64_t n : t->shape) shape.push_back(p.symbol(n));
      node.inputs.push_back(b.leaf(static_cast<int>(p.leaves.size()), t->dtype, shape).id);
      p.leaves.push_back(*t);
    }
  }
  for (size_t i = 0; i < c.words.size(); ++i)
    node.attrs.push_back(c.is_size[i] ? p.symbol(c.words[i]) : Dim(c.words[i]));
  std::vector<ValueInfo> results;
  for (const Meta& m : infer(c))
    results.push_back({.node = kNone, .dtype = m.dtype, .weak = m.weak, .shape = SymDims(m.shape)});
  p.g.outputs.resize(results.size());
  info(c.op).decompose(b, node, results, p.g.outputs.data());
  verify(p.g);
  return p;
}

const std::vector<json>& op_records() {
  static const auto* const kRecords = [] {
    std::ifstream file("tests/golden/op_values.json");
    return new std::vector<json>(json::parse(file).get<std::vector<json>>());
  }();
  return *kRecords;
}

}  // namespace smolder::ir::test
