#include "smolder/distributed/words.h"

#include <sstream>

#include "smolder/core/counters.h"

namespace smolder::distributed {

Words Words::read(std::span<const int64_t> w) {
  Words out;
  out.group = w[0];
  const auto details = static_cast<size_t>(w[1]);
  out.detail = w.subspan(2, details);
  out.shape = w.subspan(3 + details, static_cast<size_t>(w[2 + details]));
  return out;
}

std::string text_of(DType dtype, const Dims& shape) {
  std::ostringstream out;
  out << smolder::name(dtype) << shape;
  return out.str();
}

std::string title_of(std::string_view name, const Words& w, DType dtype, const Dims& from, const Group& group) {
  std::string out(name);
  const auto rank = [&](int64_t r) { return std::to_string(group.ranks()[static_cast<size_t>(r)]); };
  if (name == "all_reduce" || name == "reduce" || name == "reduce_scatter") {
    out += "(" + std::string(distributed::name(static_cast<Reduce>(w.detail[0])));
    if (name == "reduce") out += ", to rank " + rank(w.detail[1]);
    out += ")";
  }
  if (name == "broadcast" || name == "scatter") out += "(from rank " + rank(w.detail[0]) + ")";
  if (name == "gather") out += "(to rank " + rank(w.detail[0]) + ")";
  if (name == "barrier") return out;
  if (name == "all_to_all") return out + " of " + std::string(smolder::name(dtype));
  // Of a scatter only the result's shape is that of all ranks.
  return out + " of " + text_of(dtype, name == "scatter" ? Dims(w.shape) : from);
}

void count_collective(size_t bytes) {
  static Counter &collectives = counter("distributed.collectives"), &sent = counter("distributed.bytes");
  collectives.add();
  sent.add(static_cast<int64_t>(bytes));
}

}  // namespace smolder::distributed
