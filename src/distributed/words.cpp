#include "smolder/distributed/words.h"

#include <sstream>

#include "smolder/core/counters.h"
#include "smolder/core/error.h"

namespace smolder::distributed {
namespace {

std::span<const int64_t> counts_of_pieces(std::string_view name, const Words& w) {
  if (name == "all_gather") return w.detail;
  return name == "reduce_scatter" ? w.detail.subspan(1) : std::span<const int64_t>();
}

}  // namespace

Words Words::read(std::span<const int64_t> w) {
  Words out;
  out.group = w[0];
  const auto details = static_cast<size_t>(w[1]);
  out.detail = w.subspan(2, details);
  out.shape = w.subspan(3 + details, static_cast<size_t>(w[2 + details]));
  return out;
}

std::vector<Piece> pieces_of(std::string_view name, const Words& w, size_t count, int ranks) {
  const std::span<const int64_t> counts = counts_of_pieces(name, w);
  std::vector<Piece> out;
  size_t at = 0;
  const auto add = [&](size_t n) {
    out.push_back({n, at, at * static_cast<size_t>(ranks)});
    at += n;
  };
  for (const int64_t n : counts) add(static_cast<size_t>(n));
  if (counts.empty()) add(count);
  SMOLDER_CHECK(at == count, ValueError, "the pieces have ", at, " elements, and the tensor ", count);
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
  // For a scatter only the result has the same shape on all ranks.
  out += " of " + text_of(dtype, name == "scatter" ? Dims(w.shape) : from);
  const std::span<const int64_t> pieces = counts_of_pieces(name, w);
  if (pieces.size() > 1) out += " in " + std::to_string(pieces.size()) + " pieces";
  return out;
}

void count_collective(size_t bytes) {
  static Counter &collectives = counter("distributed.collectives"), &sent = counter("distributed.bytes");
  collectives.add();
  sent.add(static_cast<int64_t>(bytes));
}

}  // namespace smolder::distributed
