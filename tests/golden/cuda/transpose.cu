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
extern "C" __global__ void __launch_bounds__(256) k0(const __grid_constant__ k0_arguments a) {
  wait_for_kernel_before();
  constexpr int V = 4;
  f32* const b0 = a.b0;
  f32* const b1 = a.b1;
  const u32 tiles = static_cast<u32>(a.tiles), row = blockIdx.x / tiles, tile = blockIdx.x - row * tiles;
  const i64 first = static_cast<i64>(tile) * blockDim.x * V;
  __shared__ f32 b2[1056];
  {
    const int t = threadIdx.y * blockDim.x + threadIdx.x, in_tile = t % 32;
    const i64 position = smaller(static_cast<i64>(row) * 32 + in_tile, a.positions - 1);
    const i64 v0 = position;
    const i64 n = a.n1;
    #pragma unroll
    for (int e = 0; e < V; ++e) {
      const i64 j = first + t / 32 + e * 8;
      b2[j * 33ll + in_tile + first * (-33ll)] = b0[v0 + smaller(j, n - 1) * a.n0];
    }
  }
  __syncthreads();
  const i64 position = static_cast<i64>(row) * blockDim.y + threadIdx.y;
  if (position >= a.positions) return;
  const i64 v0 = position;
  const bool aligned = ((from_address(b1) & 15) | (a.n1 * 4 & 15)) == 0;
  const i64 n = a.n1;
  for_columns<V>(tile, n, aligned, [&](i64 i, auto lanes) {
    constexpr int V = decltype(lanes)::kCount;
    {
      f32 x0[V];
      FOR_LANES x0[k] = b2[(i + k) * 33ll + threadIdx.y + first * (-33ll)];
      Pack<f32, V> out0;
      FOR_LANES out0.x[k] = x0[k];
      store_global(b1 + (v0 * a.n1) + i, out0);
    }
  });
}
