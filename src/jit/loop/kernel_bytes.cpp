#include "smolder/jit/loop/kernel_bytes.h"

#include <bit>
#include <cstring>

#include "smolder/core/error.h"

namespace smolder::jit {

namespace {

/// One description of the layout serves both directions.
class Writer {
 public:
  static constexpr bool kReads = false;
  std::string out;

  void word(const int64_t& v) {
    // Mostly small numbers: seven bits a byte, sign in the lowest.
    uint64_t u = (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63);
    do {
      out.push_back(static_cast<char>((u & 0x7f) | (u > 0x7f ? 0x80 : 0)));
      u >>= 7;
    } while (u != 0);
  }
  template <class T>
  size_t size(const std::vector<T>& v) {
    word(static_cast<int64_t>(v.size()));
    return v.size();
  }
};

class Reader {
 public:
  static constexpr bool kReads = true;
  std::string_view in;

  void word(int64_t& v) {
    uint64_t u = 0;
    for (int shift = 0;; shift += 7) {
      SMOLDER_CHECK(!in.empty() && shift < 64, ValueError, "these bytes are no kernel");
      const auto byte = static_cast<uint8_t>(in.front());
      in.remove_prefix(1);
      u |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    v = static_cast<int64_t>(u >> 1) ^ -static_cast<int64_t>(u & 1);
  }
  template <class T>
  size_t size(std::vector<T>& v) {
    int64_t n = 0;
    word(n);
    SMOLDER_CHECK(n >= 0 && static_cast<uint64_t>(n) <= in.size(), ValueError, "these bytes are no kernel");
    v.resize(static_cast<size_t>(n));
    return v.size();
  }
};

template <class S, class T>
void number(S& s, T& v) {
  if constexpr (S::kReads) {
    int64_t w = 0;
    s.word(w);
    v = static_cast<T>(w);
  } else {
    s.word(static_cast<int64_t>(v));
  }
}

template <class S, class T, class F>
void list(S& s, T& v, F&& element) {
  s.size(v);
  for (auto& x : v) element(s, x);
}

template <class S, class Ref>
void integer(S& s, Ref& r) {
  number(s, r.slot);
  if (r.slot < 0) number(s, r.constant);
}

template <class S, class A>
void affine(S& s, A& a) {
  integer(s, a.offset);
  list(s, a.terms, [](S& o, auto& t) {
    number(o, t.var);
    integer(o, t.stride);
  });
}

template <class S, class Sc>
void scalar(S& s, Sc& v) {
  if constexpr (S::kReads) {
    int64_t category = 0, bits = 0;
    s.word(category);
    s.word(bits);
    v = Scalar::from_bits(static_cast<uint64_t>(bits), static_cast<Category>(category));
  } else {
    s.word(static_cast<int64_t>(v.category()));
    s.word(static_cast<int64_t>(v.bits()));
  }
}

template <class S, class St>
void statement(S& s, St& x) {
  number(s, x.kind);
  number(s, x.dtype);
  const auto ids = [](S& o, auto& v) { list(o, v, [](S& p, auto& i) { number(p, i); }); };
  switch (x.kind) {
    case StmtKind::kParallel:
    case StmtKind::kParallelVector:
    case StmtKind::kLoop:
    case StmtKind::kVector:
      ids(s, x.vars);
      list(s, x.extents, [](S& o, auto& e) { integer(o, e); });
      number(s, x.clamp_var);
      if (x.clamp_var >= 0) integer(s, x.clamp_total);
      list(s, x.body, [](S& o, auto& inner) { statement(o, inner); });
      return;
    case StmtKind::kLoad:
    case StmtKind::kStore:
      number(s, x.address.buffer);
      affine(s, x.address.map);
      list(s, x.address.indirect, [](S& o, auto& i) {
        number(o, i.index);
        integer(o, i.stride);
      });
      list(s, x.bounds, [](S& o, auto& b) {
        affine(o, b.map);
        integer(o, b.lo);
        integer(o, b.hi);
      });
      if (!x.bounds.empty()) scalar(s, x.constant);
      number(s, x.streaming);
      break;
    case StmtKind::kPrimitive:
      number(s, x.op);
      break;
    case StmtKind::kConstant:
      scalar(s, x.constant);
      break;
    case StmtKind::kScalar:
      number(s, x.slot);
      break;
    case StmtKind::kIndex:
      affine(s, x.map);
      break;
    case StmtKind::kAcc:
      number(s, x.reduce);
      [[fallthrough]];
    case StmtKind::kUpdate:
    case StmtKind::kResult:
      number(s, x.acc);
      break;
    case StmtKind::kCheckIndex:
      number(s, x.slot);
      integer(s, x.limit);
      break;
    default:
      raise<ValueError>("these bytes are no kernel");
  }
  ids(s, x.args);
  number(s, x.result);
}

/// In one number, so that kernels which are not guarded have the bytes that they had before there were others.
void how_it_runs(Writer& w, const Kernel& k) {
  const auto bits = static_cast<uint8_t>(k.together | k.guarded << 1);
  number(w, bits);
}
void how_it_runs(Reader& r, Kernel& k) {
  uint8_t bits = 0;
  number(r, bits);
  k.together = bits & 1;
  k.guarded = bits & 2;
}

template <class S, class K>
void kernel(S& s, K& k) {
  list(s, k.buffers, [](S& o, auto& b) {
    number(o, b.dtype);
    number(o, b.read);
    number(o, b.write);
  });
  list(s, k.scalars, [](S& o, auto& c) { number(o, c); });
  for (auto* n : {&k.num_ints, &k.num_vars, &k.num_locals, &k.num_accs, &k.num_errors}) number(s, *n);
  how_it_runs(s, k);
  for (auto* n : {&k.row.vector, &k.row.sides, &k.row.threads, &k.row.chunks, &k.row.staged}) number(s, *n);
  number(s, k.row.whole);
  number(s, k.row.rest);
  statement(s, k.root);
}

}  // namespace

std::string to_bytes(const Kernel& k) {
  Writer w;
  kernel(w, k);
  return std::move(w.out);
}

Kernel from_bytes(std::string_view bytes) {
  Reader r{bytes};
  Kernel k{};
  kernel(r, k);
  SMOLDER_CHECK(r.in.empty(), ValueError, "these bytes are no kernel");
  return k;
}

}  // namespace smolder::jit
