struct k0_arguments {
  f32* b0;
  u16* b1;
  u16* b2;
  u16* b3;
  i64 n0;
  i64 n1;
  i64 n2;
  i64 n3;
  i64 n4;
  i64 n5;
  i64 n6;
  i64 n7;
  i64 n8;
  i64 n9;
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
template <int V> struct k0_loads { Pack<u16, V> raw3; };
extern "C" __global__ void __launch_bounds__(256, 4) k0(const __grid_constant__ k0_arguments a) {
  wait_for_kernel_before();
  constexpr int V = 8;
  f32* const b0 = a.b0;
  u16* const b1 = a.b1;
  u16* const b2 = a.b2;
  u16* const b3 = a.b3;
  const u32 tiles = static_cast<u32>(a.tiles), row = blockIdx.x / tiles, tile = blockIdx.x - row * tiles;
  constexpr int U = 2;
  const int groups = static_cast<int>(a.groups), group = threadIdx.y % groups;
  const i64 place = static_cast<i64>(row) * (blockDim.y / groups) + threadIdx.y / groups;
  const i64 position = smaller(place, a.positions - 1);
  const i64 v0 = position;
  const bool whole = ((from_address(b0) & 15) | (a.n1 * 4 & 15) | (from_address(b3) & 15) | (a.n9 * 2 & 15) | (a.n1 * 2 & 15)) == 0 && a.n1 % V == 0;
  const i64 n = place < a.positions ? a.n1 : 0;
  const bool regular = ((a.n6 | a.n5 | a.n7 | a.n2 | a.n8) & (V - 1)) == 0 && (from_address(b1) & 15) == 0 && (from_address(b2) & 15) == 0;
  for_team_columns<V>(tile, whole, regular, [&](i64 first, auto lanes) {
    constexpr int V = decltype(lanes)::kCount;
    constexpr bool R = decltype(lanes)::kRegular;
    const i64 i = first + threadIdx.x * V;
    if (groups == blockDim.y && first >= n) return;
    const bool mine = i < n;
    const f32 x0 = 0.0f;
    const u64 x1 = static_cast<u64>(a.n2);
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
    const int end = static_cast<int>(smaller(a.n3, a.n4 - v0 * a.n3)), all = static_cast<int>(a.n3);
    const int segment = static_cast<int>(a.segment), span = alone ? all : segment * groups;
    int last = alone ? segment - 1 : -1;
    #pragma unroll 1
    for (int round = 0; round < all; round += span) {
      const int begin = round + group * segment, stop = !mine ? 0 : alone ? end : smaller(begin + segment, end);
      #pragma unroll 1
      for (int iteration = begin; iteration < stop; iteration += U) {
        k0_loads<V> loads[U];
        #pragma unroll
        for (int u = 0; u < U; ++u) {
          if (const int v2 = iteration + u; v2 < stop) {
            if (R && (0ll <= i && i < a.n6)) load_whole(loads[u].raw3, b1 + (v0 * a.n5 + v2 * a.n6) + i);
          }
        }
        #pragma unroll
        for (int u = 0; u < U; ++u) {
          const int v2 = iteration + u;
          if (v2 < stop) {
            const u64 x2 = static_cast<u64>(v0 * a.n3 + v2);
            {
              f32 x3[V];
              if constexpr (R) {
                constexpr int k = 0;
                const bool inside = (0ll <= (i + k) && (i + k) < a.n6);
                FOR_LANES x3[k] = inside ? bf16_lane(loads[u].raw3, k) : 0.0f;
              } else {
                FOR_LANES x3[k] = (0ll <= (i + k) && (i + k) < a.n6) ? bf16_to_f32(b1[v0 * a.n5 + v2 * a.n6 + (i + k)]) : 0.0f;
              }
              u64 x4[V];
              FOR_LANES x4[k] = static_cast<u64>(a.n7 + (i + k));
              u64 x5[V];
              if constexpr (R) {
                constexpr int k = 0;
                const u64 first = floor_div_i64(x4[k], x1);
                FOR_LANES x5[k] = first;
              } else {
                FOR_LANES x5[k] = floor_div_i64(x4[k], x1);
              }
              u64 x6[V];
              if constexpr (R) {
                constexpr int k = 0;
                const u64 first = remainder_i64(x4[k], x1);
                FOR_LANES x6[k] = first + k;
              } else {
                FOR_LANES x6[k] = remainder_i64(x4[k], x1);
              }
              f32 x7[V];
              if constexpr (R) {
                constexpr int k = 0;
                const bool inside = (0ll <= a.n7 + (i + k) && a.n7 + (i + k) < a.n6);
                Pack<u16, V> raw7;
                if (inside) load_whole(raw7, b2 + (0ll + static_cast<i64>(x5[k]) * a.n8 + static_cast<i64>(x2) * a.n2 + static_cast<i64>(x6[k])));
                FOR_LANES x7[k] = inside ? bf16_lane(raw7, k) : 0.0f;
              } else {
                FOR_LANES x7[k] = (0ll <= a.n7 + (i + k) && a.n7 + (i + k) < a.n6) ? bf16_to_f32(b2[0ll + static_cast<i64>(x5[k]) * a.n8 + static_cast<i64>(x2) * a.n2 + static_cast<i64>(x6[k])]) : 0.0f;
              }
              f32 x8[V];
              FOR_LANES x8[k] = add_f32(x3[k], x7[k]);
              round_lanes_bf16(x8);
              f32 x9[V];
              FOR_LANES x9[k] = x8[k];
              FOR_LANES own0.x[k] = add_f32(own0.x[k], x9[k]);
              Pack<u16, V> out0;
              FOR_LANES out0.x[k] = bf16_bits(x8[k]);
              store_global(b3 + (v0 * a.n9 + v2 * a.n1) + i, out0);
            }
            if (v2 == last) {
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
    if (owns0) b0[v0 * a.n1 + first + column0] = sum0;
    if (alone && mine) {
      Pack<f32, V> total0;
      load_slot(total0, slots0);
      FOR_LANES total0.x[k] = add_f32(total0.x[k], own0.x[k]);
      store_whole(b0 + (v0 * a.n1) + i, total0);
    }
  });
}
