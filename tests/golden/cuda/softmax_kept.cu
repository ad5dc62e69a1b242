struct k0_arguments {
  u16* b0;
  f32* b1;
  u16* b2;
  i64 n0;
  i64 n1;
  const u64* scalars;
  u32* errors;
  i64 positions;
  i64 tiles;
  i64 step1;
};
extern "C" __global__ void __launch_bounds__(512, 1) k0(const __grid_constant__ k0_arguments a) {
  wait_for_kernel_before();
  constexpr int V = 8;
  const int t = threadIdx.x;
  const i64 position = static_cast<i64>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (position >= a.positions) return;
  const i64 v0 = position;
  u16* const b0 = a.b0;
  f32* const b1 = reinterpret_cast<f32*>(a.step1 < 0 ? from_address(shared) + from_address(a.b1) - a.step1 * threadIdx.y : from_address(a.b1) + a.step1 * position);
  u16* const b2 = a.b2;
  const bool aligned = ((from_address(b0) & 15) | (a.n1 * 2 & 15) | (from_address(b1) & 15) | (from_address(b2) & 15)) == 0;
  const int unit = unit_of(a.n1);
  constexpr int pair = 0;
  const bool whole = aligned && a.n1 % V == 0 && unit == V / 2;
  const bool fits = whole && blockDim.x == 16 && a.n1 == 1024 && a.step1 != 0;
  const auto row = [&](auto kind) {
    constexpr int C = decltype(kind)::kChunks, N = decltype(kind)::kSure, T = decltype(kind)::kThreads;
    constexpr bool fits = T > 0;
    const int step = V * (T > 0 ? T : blockDim.x);
    Pack<f32, V> registers1[C];
    const bool stores1 = !fits;
    Pack<u16, V> registers0[C];
    u32 parity = 0;
    f32 a0[2] = {__uint_as_float(0xff800000u), __uint_as_float(0xff800000u)};
    u32 pair0 = 0xff80ff80u;
    if (const int n = static_cast<int>(a.n1); n > 0) {
      const auto at0 = fixed(b0 + (v0 * a.n1));
      const auto chunk = [&](int c, int i, auto lanes) {
        constexpr int V = decltype(lanes)::kCount;
        f32 x0[V];
        Pack<u16, V> raw0;
        from_registers(raw0, registers0[c], at0 + i);
        FOR_LANES x0[k] = bf16_lane(raw0, k);
        f32 x1[V];
        FOR_LANES x1[k] = x0[k];
        maximum_f32_of_bf16<2>(a0, pair0, raw0);
      };
      if constexpr (fits) {
        const int first = t * V;
        FOR_CHUNKS { load_whole(registers0[c], at0 + i); }
        FOR_CHUNKS chunk(c, i, Lanes<V>());
      } else if (whole) {
        #pragma unroll 1
        for (int first = t * (V << pair); first < n; first += C * step) {
          FOR_CHUNKS { load_whole(registers0[c], at0 + i); }
          FOR_CHUNKS {
            chunk(c, i, Lanes<V>());
          }
        }
      } else {
        for_single<2>(n, unit_of(a.n1), chunk, [&] { swap_sides(a0); });
      }
    }
    maximum_f32_of_bf16_both(a0, pair0);
    const f32 x2 = combine<false, T>(a0, parity, [](f32 x, f32 y) { return maximum_f32(x, y); });
    f32 a1[2] = {0.0f, 0.0f};
    if (const int n = static_cast<int>(a.n1); n > 0) {
      const auto at0 = fixed(b0 + (v0 * a.n1));
      const auto at1 = b1 + (0ll);
      const auto chunk = [&](int c, int i, auto lanes) {
        constexpr int V = decltype(lanes)::kCount;
        f32 x3[V];
        Pack<u16, V> raw3;
        from_registers(raw3, registers0[c], at0 + i);
        FOR_LANES x3[k] = bf16_lane(raw3, k);
        f32 x4[V];
        FOR_LANES x4[k] = x3[k];
        f32 x5[V];
        FOR_LANES x5[k] = sub_f32(x4[k], x2);
        f32 x6[V];
        exp_lanes(x6, x5);
        Pack<f32, V> out0;
        FOR_LANES out0.x[k] = x6[k];
        to_registers(registers1[c], out0);
        if (V == 1 || stores1) store_whole(at1 + i, out0);
        FOR_LANES a1[k / 4] = add_f32(a1[k / 4], x6[k]);
      };
      if constexpr (fits) {
        const int first = t * V;
        FOR_CHUNKS chunk(c, i, Lanes<V>());
      } else if (whole) {
        #pragma unroll 1
        for (int first = t * (V << pair); first < n; first += C * step) {
          FOR_CHUNKS { load_whole(registers0[c], at0 + i); }
          FOR_CHUNKS {
            chunk(c, i, Lanes<V>());
          }
        }
      } else {
        for_single<2>(n, unit_of(a.n1), chunk, [&] { swap_sides(a1); });
      }
    }
    const f32 x7 = combine<false, T>(a1, parity, [](f32 x, f32 y) { return add_f32(x, y); });
    if (const int n = static_cast<int>(a.n1); n > 0) {
      const Inverse inverse_x9 = inverse_of(x7);
      const auto at0 = b1 + (0ll);
      const auto at1 = fixed(b2 + (v0 * a.n1));
      const auto chunk = [&](int c, int i, auto lanes) {
        constexpr int V = decltype(lanes)::kCount;
        f32 x8[V];
        Pack<f32, V> raw8;
        from_registers(raw8, registers1[c], at0 + i);
        FOR_LANES x8[k] = raw8.x[k];
        f32 x9[V];
        div_lanes(x9, x8, x7, inverse_x9);
        f32 x10[V];
        FOR_LANES x10[k] = x9[k];
        round_lanes_bf16(x10);
        Pack<u16, V> out1;
        FOR_LANES out1.x[k] = bf16_bits(x10[k]);
        stream_whole(at1 + i, out1);
      };
      if constexpr (fits) {
        const int first = t * V;
        FOR_CHUNKS chunk(c, i, Lanes<V>());
      } else if (whole) {
        #pragma unroll 1
        for (int first = t * (V << pair); first < n; first += C * step) {
          FOR_CHUNKS { load_whole(registers1[c], at0 + i); }
          FOR_CHUNKS {
            chunk(c, i, Lanes<V>());
          }
        }
      } else {
        for_single<2>(n, unit_of(a.n1), chunk, [&] { });
      }
    }
  };
  fits ? row(Row<8, 8, 16>()) : row(Row<2>());
}
