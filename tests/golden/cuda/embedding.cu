struct k0_arguments {
  u64* b0;
  u16* b1;
  u16* b2;
  i64 n0;
  i64 n1;
  i64 n2;
  const u64* scalars;
  u32* errors;
  i64 positions;
  i64 tiles;
};
extern "C" __global__ void __launch_bounds__(256) k0(const __grid_constant__ k0_arguments a) {
  wait_for_kernel_before();
  constexpr int V = 8;
  u64* const b0 = a.b0;
  u16* const b1 = a.b1;
  u16* const b2 = a.b2;
  const u32 tiles = static_cast<u32>(a.tiles), row = blockIdx.x / tiles, tile = blockIdx.x - row * tiles;
  const i64 position = static_cast<i64>(row) * blockDim.y + threadIdx.y;
  if (position >= a.positions) return;
  const i64 v0 = position;
  const bool aligned = ((from_address(b2) & 15) | (a.n2 * 2 & 15)) == 0;
  const bool regular = ((a.n2) & (V - 1)) == 0 && (from_address(b1) & 15) == 0;
  const i64 n = a.n2;
  for_columns<V>(tile, n, aligned, regular, [&](i64 i, auto lanes) {
    constexpr int V = decltype(lanes)::kCount;
    constexpr bool R = decltype(lanes)::kRegular;
    const u64 x0 = b0[v0];
    if (x0 >= static_cast<u64>(a.n1)) report(a.errors, x0, a.n1);
    const u64 x1 = clamp_index(x0, a.n1);
    {
      f32 x2[V];
      if constexpr (R) {
        constexpr int k = 0;
        Pack<u16, V> raw2;
        load_whole(raw2, b1 + ((i + k) + static_cast<i64>(x1) * a.n2));
        FOR_LANES x2[k] = f16_to_f32(raw2.x[k]);
      } else {
        FOR_LANES x2[k] = f16_to_f32(b1[(i + k) + static_cast<i64>(x1) * a.n2]);
      }
      Pack<u16, V> out0;
      FOR_LANES out0.x[k] = f32_to_f16(x2[k]);
      store_global(b2 + (v0 * a.n2) + i, out0);
    }
  });
}
