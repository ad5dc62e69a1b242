struct k0_arguments {
  f32* b0;
  f32* b1;
  i64 n0;
  i64 n1;
  const u64* scalars;
  u32* errors;
  i64 positions;
  i64 tiles;
};
extern "C" __global__ void __launch_bounds__(512, 1) k0(const __grid_constant__ k0_arguments a) {
  wait_for_kernel_before();
  constexpr int V = 4;
  const int t = threadIdx.x;
  const i64 position = static_cast<i64>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (position >= a.positions) return;
  const i64 v0 = position;
  f32* const b0 = a.b0;
  f32* const b1 = a.b1;
  const bool aligned = ((from_address(b0) & 15) | (a.n1 * 4 & 15) | (from_address(b1) & 15)) == 0;
  const int unit = unit_of(a.n1);
  constexpr int pair = 0;
  const bool whole = aligned && a.n1 % V == 0 && unit == V / 1;
  const bool fits = whole && blockDim.x == 32 && a.n1 == 1024;
  const auto row = [&](auto kind) {
    constexpr int C = decltype(kind)::kChunks, N = decltype(kind)::kSure, T = decltype(kind)::kThreads;
    constexpr bool fits = T > 0;
    const int step = V * (T > 0 ? T : blockDim.x);
    Pack<f32, V> registers0[C];
    u32 parity = 0;
    f32 a0 = __uint_as_float(0xff800000u);
    if (const int n = static_cast<int>(a.n1); n > 0) {
      const auto at0 = fixed(b0 + (v0 * a.n1));
      const auto chunk = [&](int c, int i, auto lanes) {
        constexpr int V = decltype(lanes)::kCount;
        f32 x0[V];
        Pack<f32, V> raw0;
        from_registers(raw0, registers0[c], at0 + i);
        FOR_LANES x0[k] = raw0.x[k];
        FOR_LANES a0 = maximum_f32(a0, x0[k]);
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
        for_single<1>(n, unit_of(a.n1), chunk, [&] { });
      }
    }
    const f32 x1 = combine<false, T>(a0, parity, [](f32 x, f32 y) { return maximum_f32(x, y); });
    f32 a1 = 0.0f;
    if (const int n = static_cast<int>(a.n1); n > 0) {
      const auto at0 = fixed(b0 + (v0 * a.n1));
      const auto chunk = [&](int c, int i, auto lanes) {
        constexpr int V = decltype(lanes)::kCount;
        f32 x2[V];
        Pack<f32, V> raw2;
        from_registers(raw2, registers0[c], at0 + i);
        FOR_LANES x2[k] = raw2.x[k];
        f32 x3[V];
        FOR_LANES x3[k] = sub_f32(x2[k], x1);
        f32 x4[V];
        exp_lanes(x4, x3);
        FOR_LANES a1 = add_f32(a1, x4[k]);
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
        for_single<1>(n, unit_of(a.n1), chunk, [&] { });
      }
    }
    const f32 x5 = combine<false, T>(a1, parity, [](f32 x, f32 y) { return add_f32(x, y); });
    if (const int n = static_cast<int>(a.n1); n > 0) {
      const Inverse inverse_x9 = inverse_of(x5);
      const auto at0 = fixed(b0 + (v0 * a.n1));
      const auto at1 = fixed(b1 + (v0 * a.n1));
      const auto chunk = [&](int c, int i, auto lanes) {
        constexpr int V = decltype(lanes)::kCount;
        f32 x6[V];
        Pack<f32, V> raw6;
        from_registers(raw6, registers0[c], at0 + i);
        FOR_LANES x6[k] = raw6.x[k];
        f32 x7[V];
        FOR_LANES x7[k] = sub_f32(x6[k], x1);
        f32 x8[V];
        exp_lanes(x8, x7);
        f32 x9[V];
        div_lanes(x9, x8, x5, inverse_x9);
        Pack<f32, V> out0;
        FOR_LANES out0.x[k] = x9[k];
        stream_whole(at1 + i, out0);
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
        for_single<1>(n, unit_of(a.n1), chunk, [&] { });
      }
    }
  };
  fits ? row(Row<8, 8, 32>()) : row(Row<4>());
}
