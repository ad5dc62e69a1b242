struct k0_arguments {
  f32* b0;
  f32* b1;
  i64 n0;
  const u64* scalars;
  u32* errors;
  i64 positions;
  i64 tiles;
};
extern "C" __global__ void __launch_bounds__(256) k0(const __grid_constant__ k0_arguments a) {
  wait_for_kernel_before();
  constexpr int V = 4;
  f32* const b0 = a.b0;
  f32* const b1 = a.b1;
  const i64 tile = blockIdx.x;
  const bool aligned = ((from_address(b0) & 15) | (from_address(b1) & 15)) == 0;
  const i64 n = a.n0;
  for_columns<V>(tile, n, aligned, [&](i64 i, auto lanes) {
    constexpr int V = decltype(lanes)::kCount;
    {
      const f32 x0 = 0.0f;
      f32 x1[V];
      if constexpr (V > 1) {
        constexpr int k = 0;
        Pack<f32, V * 3> raw1;
        load_whole(raw1, b0 + ((i + k) * 3ll) - 0);
        FOR_LANES x1[k] = raw1.x[3 * k + 0];
      } else {
        FOR_LANES x1[k] = b0[(i + k) * 3ll];
      }
      f32 x2[V];
      if constexpr (V > 1) {
        constexpr int k = 0;
        Pack<f32, V * 3> raw2;
        load_whole(raw2, b0 + ((i + k) * 3ll) - 0);
        FOR_LANES x2[k] = raw2.x[3 * k + 0];
      } else {
        FOR_LANES x2[k] = b0[(i + k) * 3ll];
      }
      f32 x3[V];
      FOR_LANES x3[k] = mul_f32(x2[k], x2[k]);
      f32 x4[V];
      if constexpr (V > 1) {
        constexpr int k = 0;
        Pack<f32, V * 3> raw4;
        load_whole(raw4, b0 + (2ll + (i + k) * 3ll) - 2);
        FOR_LANES x4[k] = raw4.x[3 * k + 2];
      } else {
        FOR_LANES x4[k] = b0[2ll + (i + k) * 3ll];
      }
      f32 x5[V];
      FOR_LANES x5[k] = mul_f32(x4[k], x4[k]);
      f32 x6[V];
      FOR_LANES x6[k] = add_f32(x3[k], x5[k]);
      f32 x7[V];
      if constexpr (V > 1) {
        constexpr int k = 0;
        Pack<f32, V * 3> raw7;
        load_whole(raw7, b0 + (1ll + (i + k) * 3ll) - 1);
        FOR_LANES x7[k] = raw7.x[3 * k + 1];
      } else {
        FOR_LANES x7[k] = b0[1ll + (i + k) * 3ll];
      }
      f32 x8[V];
      FOR_LANES x8[k] = mul_f32(x7[k], x7[k]);
      f32 x9[V];
      FOR_LANES x9[k] = add_f32(x6[k], x8[k]);
      f32 x10[V];
      FOR_LANES x10[k] = add_f32(x9[k], x0);
      f32 x11[V];
      sqrt_f32_lanes(x11, x10);
      f32 x12[V];
      FOR_LANES x12[k] = div_f32(x1[k], x11[k]);
      f32 x13[V];
      if constexpr (V > 1) {
        constexpr int k = 0;
        Pack<f32, V * 3> raw13;
        load_whole(raw13, b0 + (1ll + (i + k) * 3ll) - 1);
        FOR_LANES x13[k] = raw13.x[3 * k + 1];
      } else {
        FOR_LANES x13[k] = b0[1ll + (i + k) * 3ll];
      }
      f32 x14[V];
      FOR_LANES x14[k] = div_f32(x13[k], x11[k]);
      f32 x15[V];
      if constexpr (V > 1) {
        constexpr int k = 0;
        Pack<f32, V * 3> raw15;
        load_whole(raw15, b0 + (2ll + (i + k) * 3ll) - 2);
        FOR_LANES x15[k] = raw15.x[3 * k + 2];
      } else {
        FOR_LANES x15[k] = b0[2ll + (i + k) * 3ll];
      }
      f32 x16[V];
      FOR_LANES x16[k] = div_f32(x15[k], x11[k]);
      if constexpr (V > 1) {
        Pack<f32, V * 3> out0;
        FOR_LANES out0.x[3 * k + 0] = x12[k];
        FOR_LANES out0.x[3 * k + 1] = x14[k];
        FOR_LANES out0.x[3 * k + 2] = x16[k];
        constexpr int k = 0;
        store_global(b1 + ((i + k) * 3ll), out0);
      } else {
        FOR_LANES b1[(i + k) * 3ll] = x12[k];
        FOR_LANES b1[1ll + (i + k) * 3ll] = x14[k];
        FOR_LANES b1[2ll + (i + k) * 3ll] = x16[k];
      }
    }
  });
}
