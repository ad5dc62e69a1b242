struct k0_arguments {
  u32* b0;
  u32* b1;
  u32* b2;
  i64 n0;
  i64 n1;
  i64 n2;
  i64 n3;
  i64 n4;
  i64 n5;
  const u64* scalars;
  u32* errors;
  i64 positions;
  i64 tiles;
};
extern "C" __global__ void __launch_bounds__(256) k0(const __grid_constant__ k0_arguments a) {
  wait_for_kernel_before();
  constexpr int V = 4;
  u32* const b0 = a.b0;
  u32* const b1 = a.b1;
  u32* const b2 = a.b2;
  const u32 tiles = static_cast<u32>(a.tiles), row = blockIdx.x / tiles, tile = blockIdx.x - row * tiles;
  const i64 position = static_cast<i64>(row) * blockDim.y + threadIdx.y;
  if (position >= a.positions) return;
  const i64 v0 = position;
  const bool aligned = ((from_address(b2) & 15) | (a.n1 * 4 & 15)) == 0;
  const i64 n = a.n1;
  for_columns<V>(tile, n, aligned, [&](i64 i, auto lanes) {
    constexpr int V = decltype(lanes)::kCount;
    {
      u32 x0[V];
      FOR_LANES x0[k] = (0ll <= (-1ll) + v0 && (-1ll) + v0 < a.n4 && 0ll <= (-2ll) + (i + k) && (-2ll) + (i + k) < a.n3) ? b0[a.n2 + v0 * a.n3 + (i + k)] : 0xfffffff9u;
      u32 x1[V];
      FOR_LANES x1[k] = ((-9223372036854775807ll - 1) <= (i + k) && (i + k) < a.n5) ? b1[v0 * a.n5 + (i + k) * (-1ll)] : 0u;
      u64 x2[V];
      FOR_LANES x2[k] = static_cast<u64>((i + k));
      const u64 x3 = 5ull;
      bool x4[V];
      FOR_LANES x4[k] = lt_i64(x2[k], x3);
      u32 x5[V];
      FOR_LANES x5[k] = where_i32(x4[k], x0[k], x1[k]);
      Pack<u32, V> out0;
      FOR_LANES out0.x[k] = x5[k];
      store_global(b2 + (v0 * a.n1) + i, out0);
    }
  });
}
