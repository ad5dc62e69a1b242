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
  i64 positions, tiles;
  i64 slots0, slot_bytes0;
  i64 slots1, slot_bytes1;
  i64 row4, row_bytes4;
  i64 row6, row_bytes6;
};
extern "C" __global__ void __launch_bounds__(512) k0(const __grid_constant__ k0_arguments a) {
  constexpr int V = 4;
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
  f32* const slots0 = a.slots0 < 0 ? nullptr : reinterpret_cast<f32*>(shared + a.slots0);
  f32* const slots1 = a.slots1 < 0 ? nullptr : reinterpret_cast<f32*>(shared + a.slots1);
  f32* const row4 = a.row4 < 0 ? nullptr : reinterpret_cast<f32*>(shared + a.row4 + a.row_bytes4 * threadIdx.y);
  f32* const row6 = a.row6 < 0 ? nullptr : reinterpret_cast<f32*>(shared + a.row6 + a.row_bytes6 * threadIdx.y);
  const f32 x0 = 0.0f;
  if (threadIdx.y == 0) {
    if (const i64 n = a.n1; n > 0) {
      const int lanes = lanes_of(a.n1);
      for (i64 j = t < lanes ? t : n; j < n; j += V * lanes) {
        i64 e[V];
        FOR_LANES e[k] = smaller(j + k * lanes, n - 1);
        FOR_LANES if (j + k * lanes < n) b0[v0 * a.n1 + e[k]] = x0;
      }
    }
  }
  if (threadIdx.y == 0) {
    if (const i64 n = a.n1; n > 0) {
      const int lanes = lanes_of(a.n1);
      for (i64 j = t < lanes ? t : n; j < n; j += V * lanes) {
        i64 e[V];
        FOR_LANES e[k] = smaller(j + k * lanes, n - 1);
        FOR_LANES if (j + k * lanes < n) b1[v0 * a.n1 + e[k]] = x0;
      }
    }
  }
  const u64 x1 = static_cast<u64>(a.n1);
  const f32 x2 = i64_to_f32(x1);
  __syncthreads();
  for (i64 round = 0, end = smaller(128ll, a.n2 - v0 * 128ll); round < end; round += blockDim.y) {
    const i64 v3 = round + threadIdx.y;
    if (v3 < end) {
      f32 a0 = 0.0f;
      const f32 x3 = b2[v0 * 128ll + v3];
      const f32 x4 = b3[v0 * 128ll + v3];
      f32 a1 = 0.0f;
      if (const i64 n = a.n1; n > 0) {
        const int lanes = lanes_of(a.n1);
        f32* const found4 = row4 ? row4 : b4 + (v0 * a.n3 + v3 * a.n1);
        f32* const found6 = row6 ? row6 : b6 + (v0 * a.n3 + v3 * a.n1);
        for (i64 j = t < lanes ? t : n; j < n; j += V * lanes) {
          i64 e[V];
          FOR_LANES e[k] = smaller(j + k * lanes, n - 1);
          f32 x5[V];
          f32 raw5[V];
          FOR_LANES raw5[k] = b4[v0 * a.n3 + v3 * a.n1 + e[k]];
          if (row4) {
            FOR_LANES if (j + k * lanes < n) row4[e[k]] = raw5[k];
          }
          FOR_LANES x5[k] = raw5[k];
          f32 x6[V];
          FOR_LANES x6[k] = b5[e[k]];
          f32 x7[V];
          FOR_LANES x7[k] = mul_f32(x5[k], x6[k]);
          f32 x8[V];
          f32 raw8[V];
          FOR_LANES raw8[k] = b6[v0 * a.n3 + v3 * a.n1 + e[k]];
          if (row6) {
            FOR_LANES if (j + k * lanes < n) row6[e[k]] = raw8[k];
          }
          FOR_LANES x8[k] = raw8[k];
          f32 x9[V];
          FOR_LANES x9[k] = sub_f32(x8[k], x3);
          f32 x10[V];
          FOR_LANES x10[k] = mul_f32(x9[k], x4);
          f32 x11[V];
          FOR_LANES x11[k] = mul_f32(x7[k], x10[k]);
          FOR_LANES if (j + k * lanes < n) a0 = add_f32(a0, x11[k]);
          FOR_LANES if (j + k * lanes < n) a1 = add_f32(a1, x7[k]);
          f32 x12[V];
          FOR_LANES x12[k] = mul_f32(x5[k], x10[k]);
          if (slots0) {
            f32* const slot = reinterpret_cast<f32*>(shared + a.slots0 + a.slot_bytes0 * threadIdx.y);
            FOR_LANES if (j + k * lanes < n) slot[e[k]] = x12[k];
          } else {
            FOR_LANES if (j + k * lanes < n) b0[v0 * a.n1 + e[k]] = add_f32(b0[v0 * a.n1 + e[k]], x12[k]);
          }
          if (slots1) {
            f32* const slot = reinterpret_cast<f32*>(shared + a.slots1 + a.slot_bytes1 * threadIdx.y);
            FOR_LANES if (j + k * lanes < n) slot[e[k]] = x5[k];
          } else {
            FOR_LANES if (j + k * lanes < n) b1[v0 * a.n1 + e[k]] = add_f32(b1[v0 * a.n1 + e[k]], x5[k]);
          }
        }
      }
      const f32 x17 = combine(a0, [](f32 x, f32 y) { return add_f32(x, y); });
      const f32 x18 = combine(a1, [](f32 x, f32 y) { return add_f32(x, y); });
      const f32 x19 = div_f32(x18, x2);
      const f32 x20 = div_f32(x17, x2);
      if (const i64 n = a.n1; n > 0) {
        const int lanes = lanes_of(a.n1);
        f32* const found4 = row4 ? row4 : b4 + (v0 * a.n3 + v3 * a.n1);
        f32* const found6 = row6 ? row6 : b6 + (v0 * a.n3 + v3 * a.n1);
        for (i64 j = t < lanes ? t : n; j < n; j += V * lanes) {
          i64 e[V];
          FOR_LANES e[k] = smaller(j + k * lanes, n - 1);
          f32 x21[V];
          FOR_LANES x21[k] = found4[e[k]];
          f32 x22[V];
          FOR_LANES x22[k] = b5[e[k]];
          f32 x23[V];
          FOR_LANES x23[k] = mul_f32(x21[k], x22[k]);
          f32 x24[V];
          FOR_LANES x24[k] = sub_f32(x23[k], x19);
          f32 x25[V];
          FOR_LANES x25[k] = found6[e[k]];
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
          FOR_LANES if (j + k * lanes < n) b7[v0 * a.n3 + v3 * a.n1 + e[k]] = x30[k];
        }
      }
    }
    __syncthreads();
    const int turns = static_cast<int>(smaller(end - round, blockDim.y));
    if (slots0) {
      const i64 n = a.n1;
      for (i64 j = threadIdx.y * blockDim.x + threadIdx.x; j < n; j += blockDim.x * blockDim.y) {
        f32 x = b0[v0 * a.n1 + j];
        for (int turn = 0; turn < turns; ++turn) {
          const f32 next = reinterpret_cast<const f32*>(shared + a.slots0 + a.slot_bytes0 * turn)[j];
          x = add_f32(x, next);
        }
        b0[v0 * a.n1 + j] = x;
      }
    }
    if (slots1) {
      const i64 n = a.n1;
      for (i64 j = threadIdx.y * blockDim.x + threadIdx.x; j < n; j += blockDim.x * blockDim.y) {
        f32 x = b1[v0 * a.n1 + j];
        for (int turn = 0; turn < turns; ++turn) {
          const f32 next = reinterpret_cast<const f32*>(shared + a.slots1 + a.slot_bytes1 * turn)[j];
          x = add_f32(x, next);
        }
        b1[v0 * a.n1 + j] = x;
      }
    }
    __syncthreads();
  }
}
