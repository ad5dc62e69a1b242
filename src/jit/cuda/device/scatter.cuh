//! The program names Index, and has the report before it.
//@ kScatterChecked
// An index of an axis of extent n, or -1 and a report.
DEVICE i64 checked(Index index, i64 n, u32* error) {
  const i64 i = static_cast<i64>(index);
  if (i >= 0 && i < n) return i;
  if (error) report(error, static_cast<u64>(i), n);
  return -1;
}
//! Looks at an index before anything is written at it.
//@ kScatterLook
struct LookArguments {
  const Index* index;
  u32* error;
  i64 count, n, rank;
  AxisWords extents, strides;
};
KERNEL(look_at_index, LookArguments) {
  wait_for_kernel_before();
  const i64 e = thread_number();
  if (e < a.count) checked(a.index[offset_at(static_cast<u64>(e), a.rank, a.extents, a.strides)], a.n, a.error);
}
//! Every index is out of range of an axis without elements.
//@ kScatterReportFirst
struct FirstArguments {
  const Index* index;
  u32* error;
};
KERNEL(report_first, FirstArguments) { report(a.error, static_cast<u64>(static_cast<i64>(*a.index)), 0); }
//! The program names Element, Index, Key and Combine: what becomes of the element there and the one written. What
//! writes is guarded: see guard_text().
//@ kScatterCombine
struct Set {
  static constexpr bool kLast = true;
  template <class E> DEVICE E of(E, E y) { return y; }
};
struct Add {
  static constexpr bool kLast = false;
  template <class E> DEVICE E of(E x, E y) {
    if constexpr (Is<E>::kBool) return x || y;
    else if constexpr (Is<E>::kFloat) return Narrow<E>::of(widen(x) + widen(y));
    else return static_cast<E>(static_cast<u64>(x) + static_cast<u64>(y));
  }
};
struct Multiply {
  static constexpr bool kLast = false;
  template <class E> DEVICE E of(E x, E y) {
    if constexpr (Is<E>::kBool) return x && y;
    else if constexpr (Is<E>::kFloat) return Narrow<E>::of(widen(x) * widen(y));
    else return static_cast<E>(static_cast<u64>(x) * static_cast<u64>(y));
  }
};
template <class E> DEVICE bool is_nan(E x) { return !(widen(x) == widen(x)); }
// nan wins, the one there first; of equal elements the one there stays.
struct Largest {
  static constexpr bool kLast = false;
  template <class E> DEVICE E of(E x, E y) { return !is_nan(x) && (widen(x) < widen(y) || is_nan(y)) ? y : x; }
};
struct Smallest {
  static constexpr bool kLast = false;
  template <class E> DEVICE E of(E x, E y) { return !is_nan(x) && (widen(y) < widen(x) || is_nan(y)) ? y : x; }
};

constexpr u32 kAll = 0xffffffffu;
//! Element e of the index, as numbers: the column that it is in, times n, and the place in it. Those out of range have
//! `absent`, which is beyond all others.
//@ kScatterKey
struct KeyArguments {
  const Index* index;
  Key* keys;
  u32* error;
  i64 count, n, length, inner, absent, rank;
  AxisWords extents, strides;
};
KERNEL(make_keys, KeyArguments) {
  const i64 e = thread_number();
  if (e >= a.count) return;
  const i64 i = checked(a.index[offset_at(static_cast<u64>(e), a.rank, a.extents, a.strides)], a.n, a.error);
  u64 rest = static_cast<u64>(e);
  const i64 column = take_digit(rest, static_cast<u64>(a.inner));
  take_digit(rest, static_cast<u64>(a.length));
  a.keys[e] = static_cast<Key>(i < 0 ? a.absent : (static_cast<i64>(rest) * a.inner + column) * a.n + i);
}
//! [outer, n, inner] written at rows from [outer, count, inner].
//@ kScatterRows
struct RowsArguments {
  const Key* keys;       // sorted
  const u32* positions;  // of the keys
  const Element* source;
  Element* result;
  i64 outer, count, n, inner;
  GUARD
};
// Where the equal keys that begin at e end.
DEVICE i64 end_of(const Key* keys, i64 e, i64 count) {
  const Key key = keys[e];
  i64 end = e + 1, step = 1;
  for (; end + step <= count && keys[end + step - 1] == key; step *= 2) end += step;
  for (; step > 0; step /= 2) {
    if (end + step <= count && keys[end + step - 1] == key) end += step;
  }
  return end;
}
template <int V> DEVICE void combine_packs(Pack<Element, V>& x, const Pack<Element, V>& y) {
#pragma unroll
  for (int k = 0; k < V; ++k) x.x[k] = Combine::of(x.x[k], y.x[k]);
}
template <int V> DEVICE void combine_row(Pack<Element, V>& x, const Element* from) {
  Pack<Element, V> y;
  load_whole(y, from);
  combine_packs(x, y);
}
template <int V> DEVICE void write_sorted(const RowsArguments& a) {
  LOOK;
  u64 rest = static_cast<u64>(thread_number());
  const i64 packs = a.inner / V, pack = take_digit(rest, static_cast<u64>(packs));
  const i64 e = take_digit(rest, static_cast<u64>(a.count)), outer = static_cast<i64>(rest);
  if (outer >= a.outer) return;
  const Key key = a.keys[e];
  if (key >= a.n) return;
  const i64 neighbour = Combine::kLast ? e + 1 : e - 1;
  if (neighbour >= 0 && neighbour < a.count && a.keys[neighbour] == key) return;
  Element* to = a.result + (outer * a.n + static_cast<i64>(key)) * a.inner + pack * V;
  const Element* __restrict__ from = a.source + outer * a.count * a.inner + pack * V;
  const u32* __restrict__ positions = a.positions;
  Pack<Element, V> x;
  if (Combine::kLast) {
    load_whole(x, from + positions[e] * a.inner);
  } else {
    load_whole(x, to);
    const i64 end = end_of(a.keys, e, a.count);
#pragma unroll 8
    for (i64 k = e; k < end; ++k) combine_row(x, from + positions[k] * a.inner);
  }
  UNLESS_FAILED;
  store_whole(to, x);
}
KERNEL(write_rows, RowsArguments) { write_sorted<1>(a); }
KERNEL(write_rows_whole, RowsArguments) { write_sorted<16 / sizeof(Element)>(a); }

// For places with many rows each: a thread has a place, and many of its rows on their way.
template <int V> DEVICE void write_crowded(const RowsArguments& a) {
  LOOK;
  constexpr int kAtOnce = 16;
  u64 rest = static_cast<u64>(thread_number());
  const i64 packs = a.inner / V, pack = take_digit(rest, static_cast<u64>(packs));
  const i64 place = take_digit(rest, static_cast<u64>(a.n)), outer = static_cast<i64>(rest);
  if (outer >= a.outer) return;
  i64 e = 0;
  for (i64 length = a.count; length > 0;) {
    const i64 half = length / 2;
    const bool before = static_cast<i64>(a.keys[e + half]) < place;
    e = before ? e + half + 1 : e;
    length = before ? length - half - 1 : half;
  }
  if (e == a.count || static_cast<i64>(a.keys[e]) != place) return;
  const i64 end = end_of(a.keys, e, a.count);
  Element* to = a.result + (outer * a.n + place) * a.inner + pack * V;
  const Element* __restrict__ from = a.source + outer * a.count * a.inner + pack * V;
  const u32* __restrict__ positions = a.positions;
  Pack<Element, V> x;
  load_whole(x, to);
#pragma unroll 1
  for (i64 k = e; k < end; k += kAtOnce) {
    Pack<Element, V> y[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (k + i < end) load_whole(y[i], from + positions[k + i] * a.inner);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (k + i < end) combine_packs(x, y[i]);
    }
  }
  UNLESS_FAILED;
  store_whole(to, x);
}
KERNEL(write_crowded_rows, RowsArguments) { write_crowded<1>(a); }
KERNEL(write_crowded_rows_whole, RowsArguments) { write_crowded<16 / sizeof(Element)>(a); }

// An index so short that each block reads all of it: a block has one row, and leaves it to the first block of its
// place.
struct FewRowsArguments {
  const Index* index;
  const Element* source;
  Element* result;
  u32* error;
  i64 count, n, inner, rank;
  AxisWords extents, strides;
  GUARD
};
template <int V> DEVICE void write_few(const FewRowsArguments& a) {
  wait_for_kernel_before();
  LOOK;
  __shared__ i64 places[kFewRows];
  __shared__ int others;
  u64 rest = blockIdx.x;
  const i64 packs = a.inner / V, stretches = (packs + blockDim.x - 1) / blockDim.x;
  const i64 stretch = take_digit(rest, static_cast<u64>(stretches));
  const i64 e = take_digit(rest, static_cast<u64>(a.count)), outer = static_cast<i64>(rest);
  for (i64 i = threadIdx.x; i < a.count; i += blockDim.x) {
    places[i] = checked(a.index[offset_at(static_cast<u64>(i), a.rank, a.extents, a.strides)], a.n, a.error);
  }
  if (threadIdx.x == 0) others = 0;
  __syncthreads();
  const i64 place = places[e];
  if (place < 0) return;
  for (i64 i = threadIdx.x; i < a.count; i += blockDim.x) {
    if (places[i] == place && (Combine::kLast ? i > e : i < e)) others = 1;
  }
  __syncthreads();
  const i64 pack = stretch * blockDim.x + threadIdx.x;
  if (others || pack >= packs) return;
  Element* to = a.result + (outer * a.n + place) * a.inner + pack * V;
  const Element* from = a.source + outer * a.count * a.inner + pack * V;
  Pack<Element, V> x;
  if (Combine::kLast) {
    load_whole(x, from + e * a.inner);
  } else {
    load_whole(x, to);
    for (i64 k = e; k < a.count; ++k) {
      if (places[k] == place) combine_row(x, from + k * a.inner);
    }
  }
  UNLESS_FAILED;
  store_whole(to, x);
}
KERNEL(write_few_rows, FewRowsArguments) { write_few<1>(a); }
KERNEL(write_few_rows_whole, FewRowsArguments) { write_few<16 / sizeof(Element)>(a); }
//! Each element of an index to a place of its own.
//@ kScatterElements
struct ColumnArguments {
  const Index* index;
  const Element* source;
  Element* result;
  u32* error;
  i64 columns, length, n, index_step, source_step, result_step;
  i64 rank;
  AxisWords extents, index_strides, source_strides, result_strides;
  GUARD
};
// A thread takes a column.
KERNEL(walk_columns, ColumnArguments) {
  LOOK;
  UNLESS_FAILED;
  const u64 column = static_cast<u64>(thread_number());
  if (column >= a.columns) return;
  const Index* index = a.index + offset_at(column, a.rank, a.extents, a.index_strides);
  const Element* source = a.source + offset_at(column, a.rank, a.extents, a.source_strides);
  Element* result = a.result + offset_at(column, a.rank, a.extents, a.result_strides);
  for (i64 j = 0; j < a.length; ++j) {
    const i64 i = checked(index[j * a.index_step], a.n, a.error);
    if (i >= 0) result[i * a.result_step] = Combine::of(result[i * a.result_step], source[j * a.source_step]);
  }
}

struct ElementArguments {
  const Key* keys;       // sorted
  const u32* positions;  // of the keys
  const Index* index;
  const Element* source;
  Element* result;
  u32* error;
  i64 count, n, length, inner, absent, result_step;
  // The axis has no stride here in the result.
  i64 rank;
  AxisWords extents, index_strides, source_strides, result_strides;
  GUARD
};
DEVICE Element* place_in(const ElementArguments& a, u64 position) {
  return a.result + offset_at(position, a.rank, a.extents, a.result_strides) +
         static_cast<i64>(a.index[offset_at(position, a.rank, a.extents, a.index_strides)]) * a.result_step;
}
DEVICE Element source_at(const ElementArguments& a, u64 position) {
  return a.source[offset_at(position, a.rank, a.extents, a.source_strides)];
}

constexpr int kAlone = 16;  // of one place, that a thread writes alone; the rest its warp fetches
KERNEL(write_elements, ElementArguments) {
  LOOK;
  UNLESS_FAILED;
  const i64 e = thread_number();
  const int lane = static_cast<int>(threadIdx.x % 32);
  i64 key = e < a.count ? static_cast<i64>(a.keys[e]) : a.absent;
  const i64 neighbour = Combine::kLast ? e + 1 : e - 1;
  const bool mine =
      key < a.absent && !(neighbour >= 0 && neighbour < a.count && static_cast<i64>(a.keys[neighbour]) == key);
  Element* to = mine ? place_in(a, a.positions[e]) : nullptr;
  if (Combine::kLast) {
    if (mine) *to = source_at(a, a.positions[e]);
    return;
  }
  Element x = mine ? *to : Element();
  i64 at = e;
  const auto is_next = [&](i64 k, i64 of) { return k < a.count && static_cast<i64>(a.keys[k]) == of; };
  for (; mine && at < e + kAlone && is_next(at, key); ++at) x = Combine::of(x, source_at(a, a.positions[at]));
  u32 waiting = __ballot_sync(kAll, mine && is_next(at, key));
  while (waiting) {
    const int leader = __ffs(waiting) - 1;
    waiting &= waiting - 1;
    const i64 its_key = from_lane(key, leader);
    i64 k = from_lane(at, leader) + lane;
    Element sum = from_lane(x, leader);
    bool here = is_next(k, its_key);
    Element y = here ? source_at(a, a.positions[k]) : Element();
    for (;;) {
      k += 32;
      const u32 present = __ballot_sync(kAll, here);
      const bool then = is_next(k, its_key);
      const Element next = then ? source_at(a, a.positions[k]) : Element();
      const int number = __popc(present);
#pragma unroll 8
      for (int i = 0; i < number; ++i) sum = Combine::of(sum, from_lane(y, i));
      if (present != kAll) break;
      here = then;
      y = next;
    }
    if (lane == leader) x = sum;
  }
  if (mine) *to = x;
}

// An index so short that each block makes all keys.
KERNEL(write_few_elements, ElementArguments) {
  LOOK;
  UNLESS_FAILED;
  __shared__ i64 places[kFewElements];
  for (i64 i = threadIdx.x; i < a.count; i += blockDim.x) {
    const i64 place =
        checked(a.index[offset_at(static_cast<u64>(i), a.rank, a.extents, a.index_strides)], a.n, a.error);
    u64 rest = static_cast<u64>(i);
    const i64 column = take_digit(rest, static_cast<u64>(a.inner));
    take_digit(rest, static_cast<u64>(a.length));
    places[i] = place < 0 ? a.absent : (static_cast<i64>(rest) * a.inner + column) * a.n + place;
  }
  __syncthreads();
  const i64 e = thread_number();
  if (e >= a.count) return;
  const i64 place = places[e];
  if (place == a.absent) return;
  const i64 first = Combine::kLast ? e + 1 : 0, last = Combine::kLast ? a.count : e;
  for (i64 k = first; k < last; ++k) {
    if (places[k] == place) return;
  }
  Element* to = place_in(a, static_cast<u64>(e));
  Element x = *to;
  for (i64 k = e; k < a.count; ++k) {
    if (places[k] == place) x = Combine::of(x, source_at(a, static_cast<u64>(k)));
  }
  *to = x;
}
//! Sums of which the order says nothing.
//@ kScatterAtomic
DEVICE void add_to(i32* to, i32 x) { atomicAdd(reinterpret_cast<u32*>(to), static_cast<u32>(x)); }
DEVICE void add_to(i64* to, i64 x) { atomicAdd(reinterpret_cast<u64*>(to), static_cast<u64>(x)); }
DEVICE void add_to(bool* to, bool x) {
  if (x) *to = true;
}
//! Elements, one a thread.
//@ kScatterAddElements
KERNEL(add_in_any_order, ElementArguments) {
  LOOK;
  UNLESS_FAILED;
  const u64 e = static_cast<u64>(thread_number());
  if (e >= a.count) return;
  const i64 i = checked(a.index[offset_at(e, a.rank, a.extents, a.index_strides)], a.n, a.error);
  if (i < 0) return;
  add_to(a.result + offset_at(e, a.rank, a.extents, a.result_strides) + i * a.result_step, source_at(a, e));
}
//! Rows, a thread an element.
//@ kScatterAddRows
struct AddRowsArguments {
  const Index* index;
  const Element* source;
  Element* result;
  u32* error;
  i64 outer, count, n, inner, parts, rank;
  AxisWords extents, strides;
  GUARD
};
DEVICE i64 place_of_row(const AddRowsArguments& a, i64 row) {
  return checked(a.index[offset_at(static_cast<u64>(row), a.rank, a.extents, a.strides)], a.n, a.error);
}
KERNEL(add_rows_in_any_order, AddRowsArguments) {
  LOOK;
  UNLESS_FAILED;
  u64 rest = static_cast<u64>(thread_number());
  const i64 column = take_digit(rest, static_cast<u64>(a.inner));
  const i64 row = take_digit(rest, static_cast<u64>(a.count)), outer = static_cast<i64>(rest);
  if (outer >= a.outer) return;
  const i64 i = place_of_row(a, row);
  if (i < 0) return;
  add_to(a.result + (outer * a.n + i) * a.inner + column, a.source[(outer * a.count + row) * a.inner + column]);
}
//! Rows of few places. Blocks add their part up in tables of their own, in halves, since the hardware adds 32 bits
//! there; the upper half has little to do.
//@ kScatterTables
DEVICE void add_in_halves(u32* low, u32* high, u64 x) {
  const u32 added = static_cast<u32>(x), before = atomicAdd(low, added);
  const u32 carried = before + added < added ? 1u : 0u, rest = static_cast<u32>(x >> 32) + carried;
  if (rest) atomicAdd(high, rest);
}
KERNEL(add_rows_in_tables, AddRowsArguments) {
  LOOK;
  UNLESS_FAILED;
  __shared__ u32 low[kTable], high[kTable];
  const i64 places = a.n * a.inner, all = a.count * a.inner;
  u64 rest = blockIdx.x;
  const i64 part = take_digit(rest, static_cast<u64>(a.parts)), outer = static_cast<i64>(rest);
  for (i64 i = threadIdx.x; i < places; i += blockDim.x) low[i] = high[i] = 0;
  __syncthreads();
  for (i64 e = part * blockDim.x + threadIdx.x; e < all; e += a.parts * blockDim.x) {
    u64 row = static_cast<u64>(e);
    const i64 column = take_digit(row, static_cast<u64>(a.inner));
    const i64 i = place_of_row(a, static_cast<i64>(row));
    if (i < 0) continue;
    const i64 x = static_cast<i64>(a.source[outer * all + e]), place = i * a.inner + column;
    add_in_halves(low + place, high + place, static_cast<u64>(x));
  }
  __syncthreads();
  for (i64 i = threadIdx.x; i < places; i += blockDim.x) {
    const u64 sum = static_cast<u64>(high[i]) << 32 | low[i];
    if (sum) add_to(a.result + outer * places + i, static_cast<Element>(sum));
  }
}
