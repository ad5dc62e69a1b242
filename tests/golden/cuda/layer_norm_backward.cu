struct k0_arguments {
  f32* b0;
  f32* b1;
  f32* b2;
  f32* b3;
  f32* b4;
  f32* b5;
  f32* b6;
  f32* b7;
  i64 n0;
  i64 n1;
  i64 n2;
  i64 n3;
  const u64* scalars;
  u32* errors;
  i64 positions;
  i64 tiles;
  i64 slots0;
  i64 memory0;
  i64 slot_size0;
  i64 slots1;
  i64 memory1;
  i64 slot_size1;
  i64 row5;
  i64 segment;
  i64 segments;
};
extern "C" __global__ void __launch_bounds__(512) k0(const __grid_constant__ k0_arguments a) {
  wait_for_kernel_before();
  constexpr int V = 4, C = 4, N = 0;
  const int t = threadIdx.x;
  const i64 position = blockIdx.x;
  const i64 v0 = position;
  f32* const b0 = a.b0;
  f32* const b1 = a.b1;
  f32* const b2 = a.b2;
  f32* const b3 = a.b3;
  f32* const b4 = a.b4;
  f32* const b5 = a.b5;
  f32* const b6 = a.b6;
  f32* const b7 = a.b7;
  const bool aligned = ((from_address(b4) & 15) | (a.n3 * 4 & 15) | (a.n1 * 4 & 15) | (from_address(b5) & 15) | (from_address(b6) & 15) | (from_address(b0) & 15) | (from_address(b1) & 15) | (from_address(b7) & 15)) == 0;
  const int unit = unit_of(a.n1);
  constexpr int pair = 0;
  const bool whole = aligned && a.n1 % V == 0 && unit == V / 1;
  const int step = V * blockDim.x;
  constexpr bool fits = false;
  Pack<f32, V> registers4[C];
  Pack<f32, V> registers6[C];
  u32 parity = 0;
  const f32 x0 = 0.0f;
  const u64 x1 = static_cast<u64>(a.n1);
  const f32 x2 = i64_to_f32(x1);
  f32* const slots0 = a.memory0 ? reinterpret_cast<f32*>(a.memory0) + a.slot_size0 * a.segments * position : reinterpret_cast<f32*>(shared + a.slots0);
  f32* const sums0 = b0 + (v0 * a.n1);
  f32* const slots1 = a.memory1 ? reinterpret_cast<f32*>(a.memory1) + a.slot_size1 * a.segments * position : reinterpret_cast<f32*>(shared + a.slots1);
  f32* const sums1 = b1 + (v0 * a.n1);
  f32* const shared_row5 = a.row5 < 0 ? b5 + (0ll) : reinterpret_cast<f32*>(shared + a.row5);
  if (a.row5 >= 0) {
    #pragma unroll 1
    for (i64 j = threadIdx.y * blockDim.x + t; j < a.n1; j += blockDim.x * blockDim.y) {
      shared_row5[j] = (b5 + (0ll))[j];
    }
  }
  const int end = static_cast<int>(smaller(128ll, a.n2 - v0 * 128ll)), segment = static_cast<int>(a.segment);
  const int segments = static_cast<int>(a.segments);
  __syncthreads();
  #pragma unroll 1
  for (int round = 0; round == 0 || round < end; round += segment * segments) {
    #pragma unroll 1
    for (int s = threadIdx.y; s < segments; s += blockDim.y) {
      const int begin = round + segment * s, stop = smaller(begin + segment, end);
      f32* const slot0 = slots0 + a.slot_size0 * s;
      #pragma unroll 1
      for (i64 j = t; j < a.n1; j += blockDim.x) slot0[j] = 0.0f;
      f32* const slot1 = slots1 + a.slot_size1 * s;
      #pragma unroll 1
      for (i64 j = t; j < a.n1; j += blockDim.x) slot1[j] = 0.0f;
      group_sync<true>();
      f32 ahead3 = begin < stop ? b2[v0 * 128ll + begin] : f32();
      f32 ahead4 = begin < stop ? b3[v0 * 128ll + begin] : f32();
      #pragma unroll 1
      for (int v3 = begin; v3 < stop; ++v3) {
        const int next = v3 + 1 < stop ? v3 + 1 : begin + segment * blockDim.y;
        f32 a0 = 0.0f;
        const f32 x3 = same(ahead3);
        if (next < end) ahead3 = b2[v0 * 128ll + next];
        const f32 x4 = same(ahead4);
        if (next < end) ahead4 = b3[v0 * 128ll + next];
        f32 a1 = 0.0f;
        if (const int n = static_cast<int>(a.n1); n > 0) {
          const auto at0 = fixed(b4 + (v0 * a.n3 + v3 * a.n1));
          const auto at1 = fixed(b6 + (v0 * a.n3 + v3 * a.n1));
          const auto chunk = [&](int c, int i, auto lanes) {
            constexpr int V = decltype(lanes)::kCount;
            f32 x5[V];
            Pack<f32, V> raw5;
            from_registers(raw5, registers4[c], at0 + i);
            FOR_LANES x5[k] = raw5.x[k];
            f32 x6[V];
            Pack<f32, V> raw6;
            load_whole(raw6, shared_row5 + i);
            FOR_LANES x6[k] = raw6.x[k];
            f32 x7[V];
            FOR_LANES x7[k] = mul_f32(x5[k], x6[k]);
            f32 x8[V];
            Pack<f32, V> raw8;
            from_registers(raw8, registers6[c], at1 + i);
            FOR_LANES x8[k] = raw8.x[k];
            f32 x9[V];
            FOR_LANES x9[k] = sub_f32(x8[k], x3);
            f32 x10[V];
            FOR_LANES x10[k] = mul_f32(x9[k], x4);
            f32 x11[V];
            FOR_LANES x11[k] = mul_f32(x7[k], x10[k]);
            FOR_LANES a0 = add_f32(a0, x11[k]);
            FOR_LANES a1 = add_f32(a1, x7[k]);
            f32 x12[V];
            FOR_LANES x12[k] = mul_f32(x5[k], x10[k]);
            Pack<f32, V> out0;
            load_whole(out0, slot0 + i);
            FOR_LANES out0.x[k] = add_f32(out0.x[k], x12[k]);
            store_whole(slot0 + i, out0);
            Pack<f32, V> out1;
            load_whole(out1, slot1 + i);
            FOR_LANES out1.x[k] = add_f32(out1.x[k], x5[k]);
            store_whole(slot1 + i, out1);
          };
          if (whole) {
            #pragma unroll 1
            for (int first = t * (V << pair); first < n; first += C * step) {
              FOR_CHUNKS { load_whole(registers4[c], at0 + i); load_whole(registers6[c], at1 + i); }
              FOR_CHUNKS {
                chunk(c, i, Lanes<V>());
              }
            }
          } else {
            for_single<1>(n, unit_of(a.n1), chunk, [&] { });
          }
        }
        const f32 x17 = combine<true>(a0, parity, [](f32 x, f32 y) { return add_f32(x, y); });
        const f32 x18 = combine<true>(a1, parity, [](f32 x, f32 y) { return add_f32(x, y); });
        const f32 x19 = div_f32(x18, x2);
        const f32 x20 = div_f32(x17, x2);
        if (const int n = static_cast<int>(a.n1); n > 0) {
          const auto at0 = fixed(b4 + (v0 * a.n3 + v3 * a.n1));
          const auto at1 = fixed(b6 + (v0 * a.n3 + v3 * a.n1));
          const auto at2 = fixed(b7 + (v0 * a.n3 + v3 * a.n1));
          const auto chunk = [&](int c, int i, auto lanes) {
            constexpr int V = decltype(lanes)::kCount;
            f32 x21[V];
            Pack<f32, V> raw21;
            from_registers(raw21, registers4[c], at0 + i);
            FOR_LANES x21[k] = raw21.x[k];
            f32 x22[V];
            Pack<f32, V> raw22;
            load_whole(raw22, shared_row5 + i);
            FOR_LANES x22[k] = raw22.x[k];
            f32 x23[V];
            FOR_LANES x23[k] = mul_f32(x21[k], x22[k]);
            f32 x24[V];
            FOR_LANES x24[k] = sub_f32(x23[k], x19);
            f32 x25[V];
            Pack<f32, V> raw25;
            from_registers(raw25, registers6[c], at1 + i);
            FOR_LANES x25[k] = raw25.x[k];
            f32 x26[V];
            FOR_LANES x26[k] = sub_f32(x25[k], x3);
            f32 x27[V];
            FOR_LANES x27[k] = mul_f32(x26[k], x4);
            f32 x28[V];
            FOR_LANES x28[k] = mul_f32(x27[k], x20);
            f32 x29[V];
            FOR_LANES x29[k] = sub_f32(x24[k], x28[k]);
            f32 x30[V];
            FOR_LANES x30[k] = mul_f32(x29[k], x4);
            Pack<f32, V> out2;
            FOR_LANES out2.x[k] = x30[k];
            store_global(at2 + i, out2);
          };
          if (whole) {
            #pragma unroll 1
            for (int first = t * (V << pair); first < n; first += C * step) {
              FOR_CHUNKS { load_whole(registers4[c], at0 + i); load_whole(registers6[c], at1 + i); }
              FOR_CHUNKS {
                chunk(c, i, Lanes<V>());
              }
            }
          } else {
            for_single<1>(n, unit_of(a.n1), chunk, [&] { });
          }
        }
      }
    }
    __syncthreads();
    const int filled = smaller((end - round + segment - 1) / segment, segments);
    add_segments<V>(0, 2, sums0, round == 0, x0, slots0, a.slot_size0, filled, a.n1, aligned, [](f32 x, f32 y) { return static_cast<f32>(add_f32(x, y)); });
    add_segments<V>(1, 2, sums1, round == 0, x0, slots1, a.slot_size1, filled, a.n1, aligned, [](f32 x, f32 y) { return static_cast<f32>(add_f32(x, y)); });
    __syncthreads();
  }
}
