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
  const bool failed = *a.errors != 0;
  constexpr int V = 4;
  f32* const b0 = a.b0;
  f32* const b1 = a.b1;
  const i64 tile = blockIdx.x;
  const bool aligned = ((from_address(b0) & 15) | (from_address(b1) & 15)) == 0;
  const i64 n = a.n0;
  for_columns<V>(tile, n, aligned, [&](i64 i, auto lanes) {
    constexpr int V = decltype(lanes)::kCount;
    {
      f32 x0[V];
      Pack<f32, V> raw0;
      load_whole(raw0, b0 + (0ll) + i);
      FOR_LANES x0[k] = raw0.x[k];
      const f32 x1 = 0x1.6a09e6p-1f;
      f32 x2[V];
      FOR_LANES x2[k] = mul_f32(x0[k], x1);
      f32 x3[V];
      FOR_LANES x3[k] = erf_f32(x2[k]);
      const f32 x4 = 1.0f;
      f32 x5[V];
      FOR_LANES x5[k] = add_f32(x3[k], x4);
      const f32 x6 = 0.5f;
      f32 x7[V];
      FOR_LANES x7[k] = mul_f32(x0[k], x6);
      f32 x8[V];
      FOR_LANES x8[k] = mul_f32(x7[k], x5[k]);
      if (failed) return;
      Pack<f32, V> out0;
      FOR_LANES out0.x[k] = x8[k];
      store_global(b1 + (0ll) + i, out0);
    }
  });
}
