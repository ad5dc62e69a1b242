#include "smolder/jit/lower/linear.h"

#include <algorithm>

namespace smolder::jit {

void add_scaled(ir::SymTable& sym, Linear& sum, const Linear& x, ir::Dim scale) {
  sum.offset = sym.add(sum.offset, sym.mul(x.offset, scale));
  for (const Linear::Term& t : x.terms) {
    const ir::Dim stride = sym.mul(t.stride, scale);
    const auto same = std::find_if(sum.terms.begin(), sum.terms.end(),
                                   [&](const Linear::Term& s) { return s.id == t.id && s.is_local == t.is_local; });
    if (same == sum.terms.end()) {
      sum.terms.push_back({t.id, t.is_local, stride});
    } else {
      same->stride = sym.add(same->stride, stride);
    }
  }
}

Linear flatten(ir::SymTable& sym, const std::vector<Digit>& digits) {
  Linear sum;
  ir::Dim stride = 1;
  // From the right for the strides; terms end up innermost first, and are turned round to read as loops nest.
  for (size_t i = digits.size(); i-- > 0;) {
    add_scaled(sym, sum, digits[i].value, stride);
    if (i > 0) stride = sym.mul(stride, digits[i].extent);
  }
  std::reverse(sum.terms.begin(), sum.terms.end());
  return sum;
}

namespace {
void mix_in(uint64_t& h, uint64_t word) { h = (h ^ word) * 0x9e3779b97f4a7c15ull, h ^= h >> 29; }
void mix_in(uint64_t& h, ir::Dim d) { mix_in(h, static_cast<uint64_t>(d.value) * 31 + static_cast<uint64_t>(d.expr)); }
void mix_in(uint64_t& h, const Linear& l) {
  mix_in(h, l.offset);
  for (const Linear::Term& t : l.terms) {
    mix_in(h, static_cast<uint64_t>(t.id) * 2 + t.is_local);
    mix_in(h, t.stride);
  }
}
}  // namespace

uint64_t hash_of(const Index& index) {
  uint64_t h = index.digits.size();
  for (const Digit& d : index.digits) {
    mix_in(h, d.value);
    mix_in(h, d.extent);
  }
  for (const LinearBound& b : index.bounds) {
    mix_in(h, b.value);
    mix_in(h, b.lo);
    mix_in(h, b.hi);
  }
  mix_in(h, index.has_fill ? index.fill.bits() + 1 : 0);
  return h;
}

}  // namespace smolder::jit
