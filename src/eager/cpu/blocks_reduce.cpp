// One step of the canonical reductions, for every kind and dtype.
#include <limits>

#include "smolder/core/error.h"
#include "smolder/eager/cpu/blocks.h"
#include "smolder/eager/cpu/lanes.h"
#include "smolder/ir/scalar/evaluate.h"

namespace smolder::eager::cpu {
namespace {

using ir::ReduceKind;

constexpr Primitive step_of(ReduceKind kind) {
  constexpr Primitive kSteps[] = {Primitive::kAdd,     Primitive::kMul,       Primitive::kMaximum,
                                  Primitive::kMinimum, Primitive::kBitwiseOr, Primitive::kBitwiseAnd};
  return kSteps[static_cast<int>(kind)];
}

/// Whether the kind is defined for the dtype: any and all are of bools.
constexpr bool takes(ReduceKind kind, DType t) {
  return (kind != ReduceKind::kAny && kind != ReduceKind::kAll) || t == DType::kBool;
}

template <ReduceKind K, DType D>
class Loops {
  /// Accumulators in memory have this dtype; halves are rounded at each step but kept as float32.
  static constexpr DType kAcc = compute_type(D);
  using B = Lanes<D>;
  /// Vectors that hold the lanes of a row.
  static constexpr int kParts = kReduceLanes / B::kLanes;

  template <class Builder>
  static scalar::Reg<Builder, D> identity(Builder& b) {
    constexpr auto kLane = scalar::register_lane(D);
    constexpr bool kFloat = is_floating(D), kLowest = K == ReduceKind::kMax;
    scalar::Literal<kLane> v = K == ReduceKind::kProd || K == ReduceKind::kAll;
    if constexpr (K == ReduceKind::kMax || K == ReduceKind::kMin) {
      if constexpr (kFloat) {
        v = kLowest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
      } else {
        v = kLowest ? lowest_integer(D) : highest_integer(D);
      }
    }
    return scalar::constant<kLane>(b, v);
  }

  /// Both in register form, `sum` first: that is the order where it counts (a maximum of +0 and -0).
  template <class Builder>
  SMOLDER_INLINE static scalar::Reg<Builder, D> step(Builder& b, scalar::Reg<Builder, D> sum,
                                                     scalar::Reg<Builder, D> x) {
    return apply<step_of(K), D>(b, sum, x);
  }

  static void reset(void* accumulators, int64_t n) {
    alignas(64) char lanes[B::kLanes * sizeof(double)];
    B b;
    store<kAcc>(lanes, identity(b));
    for (int64_t i = 0; i < n; i += B::kLanes) {
      std::memcpy(static_cast<char*>(accumulators) + i * itemsize(kAcc), lanes,
                  std::min<int64_t>(B::kLanes, n - i) * itemsize(kAcc));
    }
  }

  static void row(const void* in, int64_t n, void* lanes) {
    row(static_cast<const char*>(in), n, static_cast<char*>(lanes), std::make_index_sequence<kParts>());
  }

  template <size_t... Part>
  static void row(const char* in, int64_t n, char* lanes, std::index_sequence<Part...>) {
    constexpr size_t kIn = B::kLanes * itemsize(D), kSums = B::kLanes * itemsize(kAcc);
    B b;
    std::array<scalar::Reg<B, D>, kParts> sums = {load<kAcc>(b, lanes + Part * kSums)...};
    const auto add = [&](const char* from) __attribute__((always_inline)) {
      ((sums[Part] = step(b, sums[Part], load<D>(b, from + Part * kIn))), ...);
    };
    const int64_t whole = n / kReduceLanes * kReduceLanes;
    for (int64_t i = 0; i < whole; i += kReduceLanes) add(in + i * itemsize(D));
    if (whole < n) {
      // A lane without an element takes the identity, which leaves every sum as it is: none is -0.
      alignas(64) char padded[kReduceLanes * sizeof(double)];
      (store<D>(padded + Part * kIn, identity(b)), ...);
      std::memcpy(padded, in + whole * itemsize(D), (n - whole) * itemsize(D));
      add(padded);
    }
    (store<kAcc>(lanes + Part * kSums, sums[Part]), ...);
  }

  static void fold(const void* lanes, void* out) {
    using Host = scalar::HostBuilder;
    constexpr auto kLane = scalar::storage_lane(kAcc);
    Host b;
    Host::Value<kLane> memory[kReduceLanes];
    std::memcpy(memory, lanes, sizeof(memory));
    scalar::Reg<Host, D> sums[kReduceLanes];
    for (int i = 0; i < kReduceLanes; ++i)
      sums[i] = scalar::from_storage<kAcc>(scalar::Num<Host, kLane>{&b, memory[i]});
    for (int half = kReduceLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) sums[i] = step(b, sums[i], sums[i + half]);
    }
    const auto element = scalar::to_storage<D>(sums[0]).v;
    std::memcpy(out, &element, itemsize(D));
  }

  static void column(const void* in, int64_t n, void* accumulators) {
    const void* operands[] = {accumulators, in};
    for_each_pack<B::kLanes, itemsize(kAcc), itemsize(kAcc), itemsize(D)>(
        operands, accumulators, n, [](const auto& from, void* to) {
          B b;
          store<kAcc>(to, step(b, load<kAcc>(b, from[0]), load<D>(b, from[1])));
        });
  }

  /// A vector of columns is in a register for all rows. It takes along what is after the last column, which nobody
  /// reads.
  static void narrow(const void* in, int64_t rows, int64_t columns, void* accumulators) {
    const int64_t elements = rows * columns;
    for (int64_t first = 0; first < columns; first += B::kLanes) {
      B b;
      char* const to = static_cast<char*>(accumulators) + first * itemsize(kAcc);
      scalar::Reg<B, D> sum = load<kAcc>(b, to);
      for (int64_t at = first; at < elements; at += columns) {
        const char* from = static_cast<const char*>(in) + at * itemsize(D);
        alignas(64) char padded[B::kLanes * sizeof(double)];
        if (at + B::kLanes > elements) [[unlikely]] {
          std::memset(padded, 0, sizeof padded);
          std::memcpy(padded, from, (elements - at) * itemsize(D));
          from = padded;
        }
        sum = step(b, sum, load<D>(b, from));
      }
      store<kAcc>(to, sum);
    }
  }

  static void combine(const void* others, int64_t n, void* accumulators) {
    const void* operands[] = {accumulators, others};
    for_each_pack<B::kLanes, itemsize(kAcc), itemsize(kAcc), itemsize(kAcc)>(
        operands, accumulators, n, [](const auto& from, void* to) {
          B b;
          store<kAcc>(to, step(b, load<kAcc>(b, from[0]), load<kAcc>(b, from[1])));
        });
  }

  static void store_block(const void* accumulators, int64_t n, void* out) {
    for_each_pack<B::kLanes, itemsize(D), itemsize(kAcc)>(&accumulators, out, n, [](const auto& from, void* to) {
      B b;
      store<D>(to, load<kAcc>(b, from[0]));
    });
  }

 public:
  static constexpr ReduceFns fns() {
    if constexpr (takes(K, D)) {
      return {reset, row, fold, column, narrow, combine, store_block};
    } else {
      return {};
    }
  }
};

constexpr int kNumKinds = 6;
using ReduceTable = std::array<std::array<ReduceFns, kNumDTypes>, kNumKinds>;

template <size_t K, size_t... D>
constexpr std::array<ReduceFns, kNumDTypes> fns_of(std::index_sequence<D...>) {
  return {Loops<static_cast<ReduceKind>(K), static_cast<DType>(D)>::fns()...};
}
template <size_t... K>
constexpr ReduceTable all_fns(std::index_sequence<K...>) {
  return {fns_of<K>(std::make_index_sequence<kNumDTypes>())...};
}
constexpr ReduceTable kReductions = all_fns(std::make_index_sequence<kNumKinds>());

}  // namespace

const ReduceFns& reduce_fns(ReduceKind kind, DType t) {
  const ReduceFns& fns = kReductions[static_cast<int>(kind)][static_cast<int>(t)];
  SMOLDER_CHECK(fns.row, NotImplementedError, "reduce: any and all are defined for bool, not for ", name(t),
                "; cast first");
  return fns;
}

}  // namespace smolder::eager::cpu
