//@ kAttentionTypes begins a program
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef float f32;
typedef double f64;
#define DEVICE static __device__ __forceinline__
#define METHOD __device__ __forceinline__
#define UNROLL _Pragma("unroll")
extern __shared__ __align__(1024) unsigned char shared[];
//@ kAttentionInstructions
DEVICE u32 shared_address(const void* p) {
  u32 address;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"(p));
  return address;
}
// 16 bytes; zeros unless `inside`.
DEVICE void copy_async(u32 to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
// A number; zero unless `inside`.
DEVICE void copy_number(u32 to, const void* from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(inside ? 4 : 0) : "memory");
}
// Four matrices of 8 x 8: lanes 8 i to 8 i + 7 say where the rows of matrix i are.
DEVICE void load_matrices(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
DEVICE f32 exp2_fast(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE f32 log2_fast(f32 x) {
  f32 y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE bool any_thread(bool x) { return __syncthreads_or(x); }
DEVICE f32 shuffle(f32 x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
DEVICE f32 shuffle_xor(f32 x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
//@ kAttentionWarpCommon
DEVICE int warp_number() { return threadIdx.x / 32; }
DEVICE void finish_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
//@ kAttentionHalfInstructions
DEVICE void load_transposed(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
DEVICE u32 round_pair(f32 low, f32 high) {
  u32 pair;
  asm("cvt.rn." HALF "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
DEVICE f32 widen(u16 h) {
#if IS_BFLOAT16
  return __uint_as_float(static_cast<u32>(h) << 16);
#else
  f32 f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
#endif
}
//@ kAttentionFloatInstructions
DEVICE f32 widen(f32 x) { return x; }
DEVICE u32 round_single(f32 x) {
  u32 y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
DEVICE u32 load_word(u32 address) {
  u32 x;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}
DEVICE void load_four(f32 (&x)[4], u32 address) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(address)
               : "memory");
}
DEVICE void store_four(u32 address, const f32 (&x)[4]) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}
DEVICE void store_single(u32 address, f32 x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}
DEVICE void multiply_add(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
//@ kAttentionWarpInstructions
DEVICE void multiply_add(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." HALF "." HALF
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
               "{%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
//@ kAttentionGroupInstructions
// Shuffled, so that the compiler sees that it is the same in all lanes.
DEVICE int warp_number() { return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32), 0); }
// Warpgroups read shared memory another way than threads write it.
DEVICE void finish_copies() { asm volatile("cp.async.wait_all; fence.proxy.async.shared::cta;" ::: "memory"); }
// Sums are in registers that products write when they please: nothing may touch them from `begin_products` on until
// they are waited for.
template <int N> DEVICE void hold(f32 (&c)[N][4]) {
  UNROLL for (int n = 0; n < N; ++n) { UNROLL for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(c[n][i])::"memory"); }
}
template <int N> DEVICE void begin_products(f32 (&c)[N][4]) {
  hold(c);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending> DEVICE void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
//! Where tensor cores have the four elements of a thread of the 16 x 8 of a warp.
//@ kAttentionTensorLayout
constexpr int kBeside = 2;      // elements of a row that are side by side in a thread
constexpr int kNextSharer = 1;  // how far away the next thread is that has others of the row
DEVICE int row_in_tile(int i) { return threadIdx.x % 32 / 4 + i / 2 * 8; }
DEVICE int column_in_tile(int i) { return threadIdx.x % 4 * 2 + i % 2; }
DEVICE int result_column(int d, int i) { return d * 8 + column_in_tile(i); }
//@ kAttentionHalves
DEVICE void put(u16* to, const f32 (&c)[4], int i) { *reinterpret_cast<u32*>(to) = round_pair(c[i], c[i + 1]); }
template <int T, int R> DEVICE void prepare_tile(Tile<R>) {}
//! Products of a warp: it has 16 M rows, and reads both operands into registers.
//@ kAttentionWarpAddresses
template <int R> DEVICE u32 moved(u32 address, int stage, int row) {
  return address + (stage * R + row) * Tile<R>::kRow * static_cast<int>(sizeof(Element));
}
DEVICE u32 step(u32 address, int row, int column) {
  return address + (row * Tile<1>::kRow + column) * static_cast<int>(sizeof(Element));
}
// All but the last `Pending` products are done.
template <int Pending, int M, int N> DEVICE void finish_products(f32 (&)[M][N][4]) {}
//! What tensor cores take of rows, in halves and in TensorFloat32.
//@ kAttentionTensorRows
// Rows of 16 of a warp: the operand on the left of a product of steps of two pieces.
struct Left {
  u32 address;
  template <int R> METHOD void take(Tile<R> tile, int row) {
    const int lane = threadIdx.x % 32;
    address = shared_address(tile.at(row + lane % 16, lane / 16 * kPiece));
  }
};
// A tile on the right, whose rows are the columns of the product, 16 of them a load; or whose columns are.
template <int R> DEVICE u32 right_address(Tile<R> tile) {
  const int lane = threadIdx.x % 32;
  return shared_address(tile.at(lane / 16 * 8 + lane % 8, lane / 8 % 2 * kPiece));
}

// c = a b', over all columns: b is of 8 N rows.
template <int R, int M, int N> DEVICE void start_rows(f32 (&c)[M][N][4], const Left& a, u32 b) {
  clear(c);
  UNROLL for (int k = 0; k < kHead; k += 2 * kPiece) {
    u32 left[M][4];
    UNROLL for (int m = 0; m < M; ++m) load_matrices(left[m], step(a.address, m * 16, k));
    UNROLL for (int n = 0; n < N; n += 2) {
      u32 right[4];
      load_matrices(right, step(b, n * 8, k));
      UNROLL for (int m = 0; m < M; ++m) {
        multiply_add(c[m][n], left[m], right[0], right[1]);
        multiply_add(c[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}
//@ kAttentionHalfProducts
template <int R> DEVICE u32 weighed_address(Tile<R> tile) {
  const int lane = threadIdx.x % 32;
  return shared_address(tile.at(lane % 16, lane / 16 * 8));
}
// c += round(p) b: p is of 8 N columns, b of 8 N rows.
template <int R, int M, int N> DEVICE void start_weights(f32 (&c)[M][kChunks][4], const f32 (&p)[M][N][4], u32 b) {
  UNROLL for (int n = 0; n < N; n += 2) {
    u32 left[M][4];
    UNROLL for (int m = 0; m < M; ++m) {
      UNROLL for (int i = 0; i < 4; ++i) {
        left[m][i] = round_pair(p[m][n + i / 2][i % 2 * 2], p[m][n + i / 2][i % 2 * 2 + 1]);
      }
    }
    UNROLL for (int d = 0; d < kChunks; d += 2) {
      u32 right[4];
      load_transposed(right, step(b, n * 8, d * 8));
      UNROLL for (int m = 0; m < M; ++m) {
        multiply_add(c[m][d], left[m], right[0], right[1]);
        multiply_add(c[m][d + 1], left[m], right[2], right[3]);
      }
    }
  }
}
//! The same of float32, rounded to TensorFloat32.
//@ kAttentionTensorFloatProducts
DEVICE void put(f32* to, const f32 (&c)[4], int i) { to[0] = c[i], to[1] = c[i + 1]; }
template <int R> DEVICE u32 weighed_address(Tile<R> tile) {
  const int lane = threadIdx.x % 32;
  return shared_address(tile.at(lane % 4 * 2, lane / 4));
}
// Rounds what the thread has copied: once, as to round takes three instructions.
template <int T, int R> DEVICE void prepare_tile(Tile<R> tile) {
  UNROLL for (int i = 0; i < R * kPieces / T; ++i) {
    const int at = i * T + threadIdx.x;
    const u32 address = shared_address(tile.at(at / kPieces, at % kPieces * kPiece));
    f32 x[4];
    load_four(x, address);
    UNROLL for (int k = 0; k < 4; ++k) x[k] = __uint_as_float(round_single(x[k]));
    store_four(address, x);
  }
}

// A thread has columns 2 i and 2 i + 1 of eight columns of p, which go for columns i and i + 4 of the product: the rows
// of b are taken in the same order.
template <int R, int M, int N> DEVICE void start_weights(f32 (&c)[M][kChunks][4], const f32 (&p)[M][N][4], u32 b) {
  UNROLL for (int n = 0; n < N; ++n) {
    u32 left[M][4];
    UNROLL for (int m = 0; m < M; ++m) {
      UNROLL for (int i = 0; i < 4; ++i) left[m][i] = round_single(p[m][n][i % 2 * 2 + i / 2]);
    }
    UNROLL for (int d = 0; d < kChunks; ++d) {
      const u32 first = load_word(step(b, n * 8, d * 8)), second = load_word(step(b, n * 8 + 1, d * 8));
      UNROLL for (int m = 0; m < M; ++m) multiply_add(c[m][d], left[m], first, second);
    }
  }
}
//! The same in float32, without tensor cores. Threads have four rows, one of each four, and one column of eight; of
//! results, four columns of 32. Neighbours have two columns of two rows, as shared memory gives 16 bytes to all threads
//! of a half warp at once only where pairs of them ask for the same.
//@ kAttentionFloatProducts
constexpr int kBeside = 1, kNextSharer = 2;
DEVICE int row_in_tile(int i) { return threadIdx.x % 32 / 16 * 2 + threadIdx.x % 2 + i * 4; }
DEVICE int column_in_tile(int) { return threadIdx.x / 2 % 8; }
DEVICE int result_column(int d, int) { return d / 4 * 32 + threadIdx.x / 2 % 8 * 4 + d % 4; }
DEVICE void put(f32* to, const f32 (&c)[4], int i) { *to = c[i]; }
template <int T, int R> DEVICE void prepare_tile(Tile<R>) {}
struct Left {
  u32 address;
  template <int R> METHOD void take(Tile<R> tile, int row) {
    address = shared_address(tile.at(row + row_in_tile(0), 0));
  }
};
template <int R> DEVICE u32 right_address(Tile<R> tile) { return shared_address(tile.at(column_in_tile(0), 0)); }
template <int R> DEVICE u32 weighed_address(Tile<R> tile) { return shared_address(tile.at(0, result_column(0, 0))); }

template <int R, int M, int N> DEVICE void start_rows(f32 (&c)[M][N][4], const Left& a, u32 b) {
  clear(c);
  _Pragma("unroll 4") for (int k = 0; k < kHead; k += 4) {
    f32 left[M][4][4];
    UNROLL for (int m = 0; m < M; ++m) {
      UNROLL for (int i = 0; i < 4; ++i) load_four(left[m][i], step(a.address, m * 16 + i * 4, k));
    }
    UNROLL for (int n = 0; n < N; ++n) {
      f32 right[4];
      load_four(right, step(b, n * 8, k));
      UNROLL for (int e = 0; e < 4; ++e) {
        UNROLL for (int m = 0; m < M; ++m) {
          UNROLL for (int i = 0; i < 4; ++i) c[m][n][i] += left[m][i][e] * right[e];
        }
      }
    }
  }
}
// Weights of a row are with eight threads, which put them where all of the warp read them.
template <int R, int M, int N> DEVICE void start_weights(f32 (&c)[M][kChunks][4], const f32 (&p)[M][N][4], u32 b) {
  constexpr int kRow = 8 * N + 8;
  const u32 staged = shared_address(shared) + (warp_number() * 16 * M + row_in_tile(0)) * kRow * 4;
  __syncwarp();
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int n = 0; n < N; ++n) {
      UNROLL for (int i = 0; i < 4; ++i) {
        store_single(staged + ((m * 16 + i * 4) * kRow + n * 8 + column_in_tile(0)) * 4, p[m][n][i]);
      }
    }
  }
  __syncwarp();
  _Pragma("unroll 2") for (int k = 0; k < 8 * N; k += 4) {
    f32 left[M][4][4];
    UNROLL for (int m = 0; m < M; ++m) {
      UNROLL for (int i = 0; i < 4; ++i) load_four(left[m][i], staged + ((m * 16 + i * 4) * kRow + k) * 4);
    }
    UNROLL for (int e = 0; e < 4; ++e) {
      UNROLL for (int d = 0; d < kChunks; d += 4) {
        f32 right[4];
        load_four(right, step(b, k + e, d * 8));
        UNROLL for (int m = 0; m < M; ++m) {
          UNROLL for (int j = 0; j < 4; ++j) {
            UNROLL for (int i = 0; i < 4; ++i) c[m][d + j][i] += left[m][i][e] * right[j];
          }
        }
      }
    }
  }
}
//! Products of a warpgroup of four warps, 16 rows each, which run by themselves; operands are in shared memory, but for
//! weights, which are in registers.
//@ kAttentionGroupProducts
// The operand on the left of a product. It stays in shared memory: ptxas 13.0 loses registers that are to hold it in a
// loop.
struct Left {
  u32 address;
  int rows;
  template <int R> METHOD void take(Tile<R> tile, int row) {
    address = shared_address(tile.at(row / 64 * 64, 0));
    rows = R;
  }
};
template <int R> DEVICE u32 right_address(Tile<R> tile) { return shared_address(tile.data); }
template <int R> DEVICE u32 weighed_address(Tile<R> tile) { return shared_address(tile.data); }
template <int R> DEVICE u32 moved(u32 address, int stage, int row) {
  return address + stage * Tile<R>::kElements * 2 + row * 128;
}
// Where a matrix is: rows of 128 bytes whose pieces are permuted, eight of them a kilobyte, and where the next 64
// columns begin. What is `bytes` further differs by a 16th of them: addresses are the lowest bits.
DEVICE u64 descriptor(u32 address, u32 next) {
  return static_cast<u64>((address & 0x3ffff) >> 4) | static_cast<u64>(next >> 4) << 16 |
         static_cast<u64>(1024 >> 4) << 32 | 1ull << 62;
}
DEVICE u64 further(u64 descriptor, int bytes) { return descriptor + (bytes >> 4); }
DEVICE u64 step_of(u64 first, int rows, int k) { return further(first, k / 4 * (rows * 128) + k % 4 * 32); }

// c = a b', over all columns: b is of 8 N rows.
template <int R, int N> DEVICE void start_rows(f32 (&c)[1][N][4], const Left& a, u32 b) {
  const u64 left = descriptor(a.address, 16), right = descriptor(b, 16);
  begin_products(c[0]);
  UNROLL for (int k = 0; k < kSteps; ++k) {
    group_multiply<0>(c[0], step_of(left, a.rows, k), step_of(right, R, k), k > 0);
  }
  commit_products();
}
template <int R, int N> DEVICE void start_weights(f32 (&c)[1][kChunks][4], const f32 (&p)[1][N][4], u32 b) {
  u32 left[N / 2][4];
  UNROLL for (int n = 0; n < N; n += 2) {
    UNROLL for (int i = 0; i < 4; ++i) {
      left[n / 2][i] = round_pair(p[0][n + i / 2][i % 2 * 2], p[0][n + i / 2][i % 2 * 2 + 1]);
    }
  }
  const u64 right = descriptor(b, R * 128);
  begin_products(c[0]);
  UNROLL for (int n = 0; n < N / 2; ++n) group_multiply<1>(c[0], left[n], further(right, n * 16 * 128), true);
  commit_products();
}
// All but the last `Pending` products are done, and with them that which is summed in c.
template <int Pending, int N> DEVICE void finish_products(f32 (&c)[1][N][4]) {
  wait_products<Pending>();
  hold(c[0]);
}
