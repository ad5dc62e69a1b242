struct k0_arguments {
  f32* b0;
  f32* b1;
  i64 n0;
  i64 n1;
  const u64* scalars;
  u32* errors;
  i64 positions, tiles;
  i64 row0, row_bytes0;
};
extern "C" __global__ void __launch_bounds__(512) k0(const __grid_constant__ k0_arguments a) {
  constexpr int V = 4;
  const int t = threadIdx.x;
  const i64 position = static_cast<i64>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (position >= a.positions) return;
  const i64 v0 = position;
  f32* const b0 = a.b0;
  f32* const b1 = a.b1;
  f32* const row0 = a.row0 < 0 ? nullptr : reinterpret_cast<f32*>(shared + a.row0 + a.row_bytes0 * threadIdx.y);
  f32 a0 = __uint_as_float(0xff800000u);
  if (const i64 n = a.n1; n > 0) {
    const int lanes = lanes_of(a.n1);
    f32* const found0 = row0 ? row0 : b0 + (v0 * a.n1);
    for (i64 j = t < lanes ? t : n; j < n; j += V * lanes) {
      i64 e[V];
      FOR_LANES e[k] = smaller(j + k * lanes, n - 1);
      f32 x0[V];
      f32 raw0[V];
      FOR_LANES raw0[k] = b0[v0 * a.n1 + e[k]];
      if (row0) {
        FOR_LANES if (j + k * lanes < n) row0[e[k]] = raw0[k];
      }
      FOR_LANES x0[k] = raw0[k];
      FOR_LANES if (j + k * lanes < n) a0 = maximum_f32(a0, x0[k]);
    }
  }
  const f32 x1 = combine(a0, [](f32 x, f32 y) { return maximum_f32(x, y); });
  f32 a1 = 0.0f;
  if (const i64 n = a.n1; n > 0) {
    const int lanes = lanes_of(a.n1);
    f32* const found0 = row0 ? row0 : b0 + (v0 * a.n1);
    for (i64 j = t < lanes ? t : n; j < n; j += V * lanes) {
      i64 e[V];
      FOR_LANES e[k] = smaller(j + k * lanes, n - 1);
      f32 x2[V];
      FOR_LANES x2[k] = found0[e[k]];
      f32 x3[V];
      FOR_LANES x3[k] = sub_f32(x2[k], x1);
      f32 x4[V];
      FOR_LANES x4[k] = exp_f32(x3[k]);
      FOR_LANES if (j + k * lanes < n) a1 = add_f32(a1, x4[k]);
    }
  }
  const f32 x5 = combine(a1, [](f32 x, f32 y) { return add_f32(x, y); });
  if (const i64 n = a.n1; n > 0) {
    const int lanes = lanes_of(a.n1);
    f32* const found0 = row0 ? row0 : b0 + (v0 * a.n1);
    for (i64 j = t < lanes ? t : n; j < n; j += V * lanes) {
      i64 e[V];
      FOR_LANES e[k] = smaller(j + k * lanes, n - 1);
      f32 x6[V];
      FOR_LANES x6[k] = found0[e[k]];
      f32 x7[V];
      FOR_LANES x7[k] = sub_f32(x6[k], x1);
      f32 x8[V];
      FOR_LANES x8[k] = exp_f32(x7[k]);
      f32 x9[V];
      FOR_LANES x9[k] = div_f32(x8[k], x5);
      FOR_LANES if (j + k * lanes < n) b1[v0 * a.n1 + e[k]] = x9[k];
    }
  }
}
