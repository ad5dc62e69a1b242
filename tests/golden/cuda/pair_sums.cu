struct k0_arguments {
  f32* b0;
  f32* b1;
  i64 n0;
  i64 n1;
  i64 n2;
  i64 n3;
  i64 n4;
  i64 n5;
  i64 n6;
  const u64* scalars;
  u32* errors;
  i64 positions;
  i64 tiles;
  i64 slots0;
  i64 memory0;
  i64 slot_size0;
  i64 segment;
  i64 groups;
};
template <int V> struct k0_loads { Pack<f32, V> raw20; Pack<f32, V> raw21; };
extern "C" __global__ void __launch_bounds__(256, 4) k0(const __grid_constant__ k0_arguments a) {
  wait_for_kernel_before();
  constexpr int V = 3;
  f32* const b0 = a.b0;
  f32* const b1 = a.b1;
  const u32 tiles = static_cast<u32>(a.tiles), row = blockIdx.x / tiles, tile = blockIdx.x - row * tiles;
  constexpr int U = 2;
  const int groups = static_cast<int>(a.groups), group = threadIdx.y % groups;
  const i64 place = static_cast<i64>(row) * (blockDim.y / groups) + threadIdx.y / groups;
  const i64 position = smaller(place, a.positions - 1);
  u64 rest = static_cast<u64>(position);
  const i64 v1 = take_digit(rest, static_cast<u64>(a.n1));
  const i64 v0 = static_cast<i64>(rest);
  const bool whole = true && 3ll % V == 0;
  const i64 n = place < a.positions ? 3ll : 0;
  for_team_columns<V>(tile, whole, [&](i64 first, auto lanes) {
    constexpr int V = decltype(lanes)::kCount;
    const i64 i = first + threadIdx.x * V;
    if (groups == blockDim.y && first >= n) return;
    const bool mine = i < n;
    const f32 x0 = 0.0f;
    const f32 x1 = b1[v0 * a.n3];
    const f32 x2 = b1[a.n4 + v0 * a.n3];
    const f32 x3 = b1[1ll + v0 * a.n3];
    const f32 x4 = f64_to_f32(__longlong_as_double(static_cast<i64>(a.scalars[0])));
    const f32 x5 = f64_to_f32(__longlong_as_double(static_cast<i64>(a.scalars[1])));
    const bool alone = groups == 1;
    const int slot = group * blockDim.x + threadIdx.x;
    const bool adds = !alone && slot < blockDim.x * V;
    f32* const slots0 = reinterpret_cast<f32*>(shared + a.slots0) + a.slot_size0 * (threadIdx.y / groups * groups);
    const int column0 = slot_column<f32, V>(slot);
    const bool owns0 = adds && first + column0 < n;
    f32 sum0 = x0;
    Pack<f32, V> own0;
    if (alone) {
      FOR_LANES own0.x[k] = sum0;
      store_slot(slots0, own0);
    }
    FOR_LANES own0.x[k] = 0.0f;
    const int end = static_cast<int>(smaller(a.n5, a.n0 - v1 * a.n5)), all = static_cast<int>(a.n5);
    const int segment = static_cast<int>(a.segment), span = alone ? all : segment * groups;
    int last = alone ? segment - 1 : -1;
    #pragma unroll 1
    for (int round = 0; round < all; round += span) {
      const int begin = round + group * segment, stop = !mine ? 0 : alone ? end : smaller(begin + segment, end);
      const auto* at20 = b1 + (v1 * a.n6 + begin * a.n3) + i;
      Pack<f32, V> same21;
      if (begin < stop) load_whole(same21, b1 + (v0 * a.n3) + i);
      #pragma unroll 1
      for (int iteration = begin; iteration < stop; iteration += U) {
        k0_loads<V> loads[U];
        #pragma unroll
        for (int u = 0; u < U; ++u) {
          if (const int v3 = iteration + u; v3 < stop) {
            load_whole(loads[u].raw20, at20);
          }
          at20 += a.n3;
        }
        #pragma unroll
        for (int u = 0; u < U; ++u) {
          const int v3 = iteration + u;
          if (v3 < stop) {
            const f32 x6 = b1[v1 * a.n6 + v3 * a.n3];
            const f32 x7 = sub_f32(x6, x1);
            const f32 x8 = mul_f32(x7, x7);
            const f32 x9 = b1[a.n4 + v1 * a.n6 + v3 * a.n3];
            const f32 x10 = sub_f32(x9, x2);
            const f32 x11 = mul_f32(x10, x10);
            const f32 x12 = add_f32(x8, x11);
            const f32 x13 = b1[1ll + v1 * a.n6 + v3 * a.n3];
            const f32 x14 = sub_f32(x13, x3);
            const f32 x15 = mul_f32(x14, x14);
            const f32 x16 = add_f32(x12, x15);
            const f32 x17 = add_f32(x16, x0);
            const f32 x18 = add_f32(x17, x4);
            const f32 x19 = pow_f32(x18, x5);
            {
              f32 x20[V];
              FOR_LANES x20[k] = loads[u].raw20.x[k];
              f32 x21[V];
              FOR_LANES x21[k] = same21.x[k];
              f32 x22[V];
              FOR_LANES x22[k] = sub_f32(x20[k], x21[k]);
              f32 x23[V];
              FOR_LANES x23[k] = mul_f32(x22[k], x19);
              FOR_LANES own0.x[k] = add_f32(own0.x[k], x23[k]);
            }
            if (v3 == last) {
              Pack<f32, V> total0;
              load_slot(total0, slots0);
              FOR_LANES total0.x[k] = add_f32(total0.x[k], own0.x[k]);
              store_slot(slots0, total0);
              FOR_LANES own0.x[k] = 0.0f;
              last += segment;
            }
          }
        }
      }
      if (alone) continue;
      store_slot(slots0 + a.slot_size0 * group, own0);
      FOR_LANES own0.x[k] = 0.0f;
      __syncthreads();
      const int filled = smaller((end - round + segment - 1) / segment, groups);
      if (owns0) sum0 = add_slots(sum0, slots0 + slot, a.slot_size0, filled, [](f32 x, f32 y) { return static_cast<f32>(add_f32(x, y)); });
      if (V == 1 || round + span < all) __syncthreads();
    }
    if (owns0) b0[v0 * a.n2 + v1 * a.n3 + first + column0] = sum0;
    if (alone && mine) {
      Pack<f32, V> total0;
      load_slot(total0, slots0);
      FOR_LANES total0.x[k] = add_f32(total0.x[k], own0.x[k]);
      store_whole(b0 + (v0 * a.n2 + v1 * a.n3) + i, total0);
    }
  });
}
