struct k0_arguments {
  f32* b0;
  u16* b1;
  i64 n0;
  i64 n1;
  i64 n2;
  i64 n3;
  i64 n4;
  const u64* scalars;
  u32* errors;
  i64 positions, tiles;
};
extern "C" __global__ void __launch_bounds__(256) k0(const __grid_constant__ k0_arguments a) {
  wait_for_kernel_before();
  constexpr int V = 8;
  f32* const b0 = a.b0;
  u16* const b1 = a.b1;
  const u32 tiles = static_cast<u32>(a.tiles), row = blockIdx.x / tiles, tile = blockIdx.x - row * tiles;
  const i64 position = static_cast<i64>(row) * blockDim.y + threadIdx.y;
  if (position >= a.positions) return;
  u64 rest = static_cast<u64>(position);
  const i64 v1 = take_digit(rest, static_cast<u64>(a.n1));
  const i64 v0 = static_cast<i64>(rest);
  const bool aligned = ((from_address(b0) & 15) | (a.n2 * 4 & 15) | (from_address(b1) & 15) | (a.n4 * 2 & 15) | (a.n2 * 2 & 15)) == 0;
  const i64 n = smaller(1024ll, a.n2 - v1 * 1024ll);
  for_columns<V>(tile, n, aligned, [&](i64 i, auto lanes) {
    constexpr int V = decltype(lanes)::kCount;
    const f32 x0 = 0.0f;
    {
      Pack<f32, V> out0;
      FOR_LANES out0.x[k] = x0;
      store_whole(b0 + (v0 * a.n2 + v1 * 1024ll) + i, out0);
    }
    Pack<f32, V> kept0_3;
    load_whole(kept0_3, b0 + (v0 * a.n2 + v1 * 1024ll) + i);
    #pragma unroll 8
    for (i64 v3 = 0, end_v3 = smaller(128ll, a.n3 - v0 * 128ll); v3 < end_v3; ++v3) {
      {
        f32 x1[V];
        Pack<u16, V> raw1;
        load_whole(raw1, b1 + (v0 * a.n4 + v1 * 1024ll + v3 * a.n2) + i);
        FOR_LANES x1[k] = bf16_lane(raw1, k);
        f32 x2[V];
        FOR_LANES x2[k] = x1[k];
        f32 x3[V];
        FOR_LANES x3[k] = kept0_3.x[k];
        f32 x4[V];
        FOR_LANES x4[k] = add_f32(x3[k], x2[k]);
        FOR_LANES kept0_3.x[k] = x4[k];
      }
    }
    store_whole(b0 + (v0 * a.n2 + v1 * 1024ll) + i, kept0_3);
  });
}
