// Loop IR as text: one statement a line. Every number that the machine code depends on is in it.
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <string>

#include "smolder/core/error.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

namespace {

constexpr const char* kReduceNames[] = {"sum", "prod", "max", "min", "any", "all"};
constexpr const char* kCategoryNames[] = {"bool", "int", "float"};

/// The shortest digits that read back as the same number; nan with its bits.
void append_double(std::string& out, double v) {
  if (std::isnan(v)) {
    std::array<char, 24> text;
    std::snprintf(text.data(), text.size(), "nan(%016llx)",
                  static_cast<unsigned long long>(std::bit_cast<uint64_t>(v)));
    out += text.data();
    return;
  }
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), v).ptr;
  const std::string_view digits(text.data(), end - text.data());
  out += digits;
  if (digits.find_first_of(".ein") == std::string_view::npos) out += ".0";
}

class Printer {
 public:
  std::string out;

  void kernel(const Kernel& k) {
    out.reserve(1024);
    out += "kernel {\n";
    header(k);
    statement(k.root, 1);
    out += "}\n";
  }

 private:
  void header(const Kernel& k) {
    out += "  buffers";
    for (size_t i = 0; i < k.buffers.size(); ++i) {
      const BufferArg& b = k.buffers[i];
      text(i == 0 ? " b" : ", b", i, ":", name(b.dtype), " ", b.read ? "r" : "", b.write ? "w" : "",
           b.space == MemorySpace::kShared ? " shared" : "");
    }
    out += '\n';
    if (k.num_ints > 0) text("  ints ", k.num_ints, "\n");
    if (!k.scalars.empty()) {
      out += "  scalars";
      for (const Category c : k.scalars) text(" ", kCategoryNames[static_cast<int>(c)]);
      out += '\n';
    }
    if (k.num_errors > 0) text("  errors ", k.num_errors, "\n");
    if (k.together) out += "  together\n";
    if (k.guarded) out += "  guarded\n";
    if (k.row != RowSize{}) {
      const RowSize& r = k.row;
      text("  row ", r.vector, " ", r.sides, " ", r.threads, " ", r.chunks, " ", r.staged, r.whole ? " whole" : "",
           r.rest ? " rest\n" : "\n");
    }
  }

  void statement(const Stmt& s, int depth) {
    out.append(2 * depth, ' ');
    if (s.result >= 0) text("%", s.result, " = ");
    switch (s.kind) {
      case StmtKind::kParallel:
        return loop("parallel ", s, depth);
      case StmtKind::kParallelVector:
        return loop("parallel vector ", s, depth);
      case StmtKind::kLoop:
        return loop("loop ", s, depth);
      case StmtKind::kVector:
        return loop("vector ", s, depth);
      case StmtKind::kGrid:
        return loop(s.vars.empty() ? "grid" : "grid ", s, depth);
      case StmtKind::kBlock:
        return loop("block ", s, depth);
      case StmtKind::kThread:
        return loop("thread ", s, depth);
      case StmtKind::kLanes:
        return loop("lanes ", s, depth);
      case StmtKind::kSplit:
        return loop("split ", s, depth);
      case StmtKind::kCombine:
        out += "combine ";
        address(s.address);
        text(" ", ir::name(s.op), " %", s.args[0]);
        if (s.args.size() > 1) text(" from %", s.args[1]);
        break;
      case StmtKind::kShared:
        text("shared b", s.address.buffer, "[");
        integer(s.limit);
        out += ']';
        break;
      case StmtKind::kRegister:
        text("register b", s.address.buffer, "[");
        integer(s.limit);
        out += ']';
        break;
      case StmtKind::kHold:
        out += "hold ";
        address(s.address);
        if (s.ahead) out += " ahead";
        break;
      case StmtKind::kRelease:
        out += "release ";
        address(s.address);
        break;
      case StmtKind::kStage:
        out += "stage ";
        address(s.address);
        break;
      case StmtKind::kUnstage:
        out += "unstage ";
        address(s.address);
        break;
      case StmtKind::kFetch:
        out += "fetch ";
        address(s.address);
        if (!s.vars.empty()) text(" next v", s.vars[0]);
        break;
      case StmtKind::kCopy:
        out += "copy ";
        address(s.address);
        out += ", ";
        address(s.source);
        break;
      case StmtKind::kBarrier:
        out += "barrier";
        break;
      case StmtKind::kLoad:
        out += "load ";
        address(s.address);
        bounds(s);
        if (s.ahead) out += " ahead";
        break;
      case StmtKind::kStore:
        out += s.streaming ? "stream " : "store ";
        address(s.address);
        args(s, ", ");
        break;
      case StmtKind::kPrimitive:
        text(ir::name(s.op), " ", name(s.dtype));
        args(s, " ");
        if (s.again >= 0) text(" again %", s.again);
        break;
      case StmtKind::kConstant:
        text("constant ", name(s.dtype), " ");
        scalar(s.constant);
        break;
      case StmtKind::kScalar:
        text("scalar ", name(s.dtype), " s", s.slot);
        break;
      case StmtKind::kIndex:
        out += "index ";
        affine(s.map, {});
        break;
      case StmtKind::kAcc:
        text("acc a", s.acc, " = ", kReduceNames[static_cast<int>(s.reduce)], " ", name(s.dtype));
        break;
      case StmtKind::kUpdate:
        text("update a", s.acc);
        args(s, ", ");
        break;
      case StmtKind::kResult:
        text("result a", s.acc);
        break;
      case StmtKind::kCheckIndex:
        text("check_index");
        args(s, " ");
        out += ", ";
        integer(s.limit);
        text(", e", s.slot);
        break;
    }
    out += '\n';
  }

  void loop(std::string_view keyword, const Stmt& s, int depth) {
    out += keyword;
    for (size_t i = 0; i < s.vars.size(); ++i) {
      text(i == 0 ? "v" : ", v", s.vars[i], " < ");
      integer(s.extents[i]);
    }
    if (s.clamp_var >= 0) {
      text(" clamp v", s.clamp_var, " of ");
      integer(s.clamp_total);
    }
    if (s.chunk > 0) text(" chunk ", s.chunk);
    if (s.coarsened) out += " coarsened";
    if (s.across > 0) text(" across ", s.across);
    if (s.unroll > 0) text(" unroll ", s.unroll);
    if (s.kind == StmtKind::kSplit && s.limit != IntRef{}) text(" threads ", s.limit.constant);
    out += " {\n";
    for (const Stmt& inner : s.body) statement(inner, depth + 1);
    out.append(2 * depth, ' ');
    out += "}\n";
  }

  void address(const Address& a) {
    text("b", a.buffer, "[");
    affine(a.map, a.indirect);
    out += ']';
  }

  // n0 + v0*n1 + v1 + %3*n2; a constant 0 is written only where it is all.
  void affine(const Affine& a, const std::vector<Address::Indirect>& indirect) {
    bool first = true;
    if (a.offset != IntRef{} || (a.terms.empty() && indirect.empty())) {
      integer(a.offset);
      first = false;
    }
    const auto term = [&](char sigil, int32_t id, IntRef stride) {
      if (!first) out += " + ";
      first = false;
      text(sigil, id);
      if (stride == IntRef{1}) return;
      out += '*';
      integer(stride);
    };
    for (const auto& t : a.terms) term('v', t.var, t.stride);
    for (const auto& i : indirect) term('%', i.index, i.stride);
  }

  void bounds(const Stmt& s) {
    if (s.bounds.empty()) return;
    bool first = true;
    for (const Bound& b : s.bounds) {
      out += first ? " where " : ", ";
      first = false;
      integer(b.lo);
      out += " <= ";
      affine(b.map, {});
      out += " < ";
      integer(b.hi);
    }
    out += " else ";
    scalar(s.constant);
  }

  void args(const Stmt& s, const char* separator) {
    for (const LocalId a : s.args) {
      text(separator, "%", a);
      separator = ", ";
    }
  }

  void scalar(Scalar v) {
    switch (v.category()) {
      case Category::kBool:
        out += v.to_bool() ? "true" : "false";
        break;
      case Category::kInt:
        text(v.to_int());
        break;
      case Category::kFloat:
      case Category::kComplex:  // which kernels have none of
        append_double(out, v.to_double());
        break;
    }
  }

  void integer(IntRef r) {
    if (r.is_constant()) {
      text(r.constant);
    } else {
      text("n", r.slot);
    }
  }

  template <class... Parts>
  void text(const Parts&... parts) {
    (append(parts), ...);
  }
  void append(std::string_view s) { out += s; }
  void append(char c) { out += c; }
  void append(std::integral auto v) {
    std::array<char, 24> digits;
    out.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), v).ptr);
  }
};

}  // namespace

std::string print(const Kernel& k) {
  Printer p;
  p.kernel(k);
  return std::move(p.out);
}

}  // namespace smolder::jit
