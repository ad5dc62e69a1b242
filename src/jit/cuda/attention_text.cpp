#include "smolder/jit/cuda/attention_text.h"

#include <sstream>

namespace smolder::jit::cuda {

namespace {

constexpr const char* kTypes = R"cuda(typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef float f32;
typedef double f64;
#define DEVICE static __device__ __forceinline__
#define UNROLL _Pragma("unroll")
extern __shared__ __align__(16) unsigned char shared[];
)cuda";

constexpr const char* kInstructions = R"cuda(
DEVICE u32 shared_address(const void* p) {
  u32 address;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"(p));
  return address;
}
// 16 bytes; zeros unless `inside`.
DEVICE void copy_async(u32 to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
DEVICE void finish_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Four matrices of 8 x 8: lanes 8 i to 8 i + 7 say where the rows of matrix i are.
DEVICE void load_matrices(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address) : "memory");
}
DEVICE void load_transposed(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address) : "memory");
}
DEVICE void multiply_add(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." HALF "." HALF ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
               "{%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
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
DEVICE f32 shuffle_xor(f32 x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
)cuda";

constexpr const char* kCommon = R"cuda(
constexpr int kThreads = 128, kStride = kHead + 8, kChunks = kHead / 8;
constexpr f32 kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
DEVICE f32 nothing() { return __uint_as_float(0xff800000u); }  // what exp2 makes zero of

// A matrix a batch; strides in elements.
struct Rows {
  u16* data;
  i64 outer, inner, row, column, width;
};
struct Numbers {  // one a row
  f32* data;
  i64 outer, inner, row;
};
struct Batch {
  i64 outer, inner;
  DEVICE Batch at(i64 batch, i64 inners) { return {batch / inners, batch % inners}; }
  template <class T> __device__ __forceinline__ auto operator()(const T& x) const {
    return x.data + outer * x.outer + inner * x.inner;
  }
};

// N rows of a matrix of `count` rows, from `first` on; zeros beyond its ends.
template <int N> DEVICE void load_tile(u16* tile, const Rows& x, const u16* data, int first, int count) {
  static_assert(N * kChunks % kThreads == 0, "each thread copies as much");
  UNROLL for (int i = 0; i < N * kChunks / kThreads; ++i) {
    const int at = i * kThreads + threadIdx.x, row = at / kChunks, column = at % kChunks * 8;
    u16* const to = tile + row * kStride + column;
    const bool inside = first + row < count && column < x.width;
    const u16* const from = data + (inside ? (first + row) * x.row + column * x.column : 0);
    if (kAligned) {
      copy_async(shared_address(to), from, inside);
    } else {
      _Pragma("unroll 1") for (int k = 0; k < 8; ++k) {
        to[k] = inside && column + k < x.width ? from[k * x.column] : u16(0);
      }
    }
  }
}

// Rows of 16 of a warp: the operand on the left of a product of steps of 16.
DEVICE u32 left_address(const u16* tile) {
  const int lane = threadIdx.x % 32;
  return shared_address(tile + lane % 16 * kStride + lane / 16 * 8);
}
// The operand on the right, whose columns are rows of the tile, 16 of them.
DEVICE u32 right_address(const u16* tile) {
  const int lane = threadIdx.x % 32;
  return shared_address(tile + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8);
}
// Columns of 8 that begin `row` rows and `column` columns into a tile, whose address one of the two above gave.
DEVICE u32 moved(u32 address, int row, int column) { return address + (row * kStride + column) * 2; }

// c += a b', over all columns: a is of 16 M rows, b of 8 N.
template <int M, int N> DEVICE void multiply_rows(f32 (&c)[M][N][4], u32 a, u32 b) {
  UNROLL for (int k = 0; k < kHead; k += 16) {
    u32 left[M][4];
    UNROLL for (int m = 0; m < M; ++m) load_matrices(left[m], moved(a, m * 16, k));
    UNROLL for (int n = 0; n < N; n += 2) {
      u32 right[4];
      load_matrices(right, moved(b, n * 8, k));
      UNROLL for (int m = 0; m < M; ++m) {
        multiply_add(c[m][n], left[m], right[0], right[1]);
        multiply_add(c[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}
// c += round(p) b: p is of 16 M rows and 8 N columns, b of 8 N rows. `left_address` gave b.
template <int M, int N> DEVICE void multiply_weights(f32 (&c)[M][kChunks][4], const f32 (&p)[M][N][4], u32 b) {
  UNROLL for (int n = 0; n < N; n += 2) {
    u32 left[M][4];
    UNROLL for (int m = 0; m < M; ++m) {
      UNROLL for (int i = 0; i < 4; ++i) left[m][i] = round_pair(p[m][n + i / 2][i % 2 * 2], p[m][n + i / 2][i % 2 * 2 + 1]);
    }
    UNROLL for (int d = 0; d < kChunks; d += 2) {
      u32 right[4];
      load_transposed(right, moved(b, n * 8, d * 8));
      UNROLL for (int m = 0; m < M; ++m) {
        multiply_add(c[m][d], left[m], right[0], right[1]);
        multiply_add(c[m][d + 1], left[m], right[2], right[3]);
      }
    }
  }
}

template <int M, int N> DEVICE void clear(f32 (&c)[M][N][4]) {
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int n = 0; n < N; ++n) {
      UNROLL for (int i = 0; i < 4; ++i) c[m][n][i] = 0;
    }
  }
}
// Of element i of a thread's four: its row and column in the 16 x 8 that a warp holds.
DEVICE int row_in_tile(int i) { return threadIdx.x % 32 / 4 + i / 2 * 8; }
DEVICE int column_in_tile(int i) { return threadIdx.x % 4 * 2 + i % 2; }

// Writes a warp's 16 M rows, rounded. `tile` is room for them that no other warp reads.
template <int M> DEVICE void store_rows(u16* tile, const f32 (&c)[M][kChunks][4], const Rows& x, u16* data, int first, int count) {
  __syncwarp();
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int d = 0; d < kChunks; ++d) {
      UNROLL for (int i = 0; i < 4; i += 2) {
        u16* const to = tile + (m * 16 + row_in_tile(i)) * kStride + d * 8 + column_in_tile(i);
        *reinterpret_cast<u32*>(to) = round_pair(c[m][d][i], c[m][d][i + 1]);
      }
    }
  }
  __syncwarp();
  for (int at = threadIdx.x % 32; at < M * 16 * kChunks; at += 32) {
    const int row = at / kChunks, column = at % kChunks * 8;
    if (first + row >= count || column >= x.width) continue;
    const u16* const from = tile + row * kStride + column;
    u16* const to = data + (first + row) * x.row + column * x.column;
    if (kAligned) {
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    } else {
      for (int k = 0; k < 8 && column + k < x.width; ++k) to[k * x.column] = from[k];
    }
  }
}
)cuda";

constexpr const char* kForward = R"cuda(
struct ForwardArguments {
  Rows query, key, value, result;
  Numbers lse;
  i64 batches, inners, queries, keys;
  f64 scale;
};

// A block takes 128 queries, a warp 32 of them, and goes through the keys.
extern "C" __global__ void __launch_bounds__(kThreads) attention_forward(const __grid_constant__ ForwardArguments a) {
  constexpr int M = 2, kRows = 64 * M, kColumns = kForwardColumns, N = kColumns / 8;
  const int queries = static_cast<int>(a.queries), keys = static_cast<int>(a.keys), warp = threadIdx.x / 32;
  const int blocks = (queries + kRows - 1) / kRows, block = static_cast<int>(blockIdx.x / a.batches);
  const int first = (kCausal ? blocks - 1 - block : block) * kRows;  // the longest first
  const Batch batch = Batch::at(blockIdx.x % a.batches, a.inners);
  u16* const query_tile = reinterpret_cast<u16*>(shared);
  u16* const key_tiles = query_tile + kRows * kStride;
  u16* const value_tiles = key_tiles + 2 * kColumns * kStride;
  const u16 *const key = batch(a.key), *const value = batch(a.value);
  const int reach = kCausal && first + kRows < keys ? first + kRows : keys;
  const int my_first = first + warp * 16 * M;

  load_tile<kRows>(query_tile, a.query, batch(a.query), first, queries);
  load_tile<kColumns>(key_tiles, a.key, key, 0, keys);
  load_tile<kColumns>(value_tiles, a.value, value, 0, keys);

  const u32 left = left_address(query_tile + warp * 16 * M * kStride);
  const u32 right = right_address(key_tiles), weighed = left_address(value_tiles);
  const f32 scale = static_cast<f32>(a.scale) * kLog2e, factor = kPositive ? scale : 1.0f;
  f32 result[M][kChunks][4], most[M][2], total[M][2];
  clear(result);
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int h = 0; h < 2; ++h) most[m][h] = nothing(), total[m][h] = 0;
  }

  for (int column = 0, stage = 0; column < reach; column += kColumns, stage ^= 1) {
    finish_copies();
    __syncthreads();
    if (column + kColumns < reach) {
      load_tile<kColumns>(key_tiles + (stage ^ 1) * kColumns * kStride, a.key, key, column + kColumns, keys);
      load_tile<kColumns>(value_tiles + (stage ^ 1) * kColumns * kStride, a.value, value, column + kColumns, keys);
    }
    if (kCausal && column > my_first + 16 * M - 1) continue;

    f32 p[M][N][4];
    clear(p);
    multiply_rows(p, left, moved(right, stage * kColumns, 0));
    if (!kPositive) {
      UNROLL for (int m = 0; m < M; ++m) {
        UNROLL for (int n = 0; n < N; ++n) {
          UNROLL for (int i = 0; i < 4; ++i) p[m][n][i] *= scale;
        }
      }
    }
    if (column + kColumns > keys || (kCausal && column + kColumns - 1 > my_first)) {
      UNROLL for (int m = 0; m < M; ++m) {
        UNROLL for (int n = 0; n < N; ++n) {
          UNROLL for (int i = 0; i < 4; ++i) {
            const int k = column + n * 8 + column_in_tile(i);
            if (k >= keys || (kCausal && k > my_first + m * 16 + row_in_tile(i))) p[m][n][i] = nothing();
          }
        }
      }
    }
    UNROLL for (int m = 0; m < M; ++m) {
      UNROLL for (int h = 0; h < 2; ++h) {
        f32 now = most[m][h];
        UNROLL for (int n = 0; n < N; ++n) now = fmaxf(now, fmaxf(p[m][n][2 * h], p[m][n][2 * h + 1]));
        now = fmaxf(now, shuffle_xor(now, 1));
        now = fmaxf(now, shuffle_xor(now, 2));
        const f32 shrink = exp2_fast((most[m][h] - now) * factor), offset = now * factor;
        most[m][h] = now;
        f32 sum = 0;
        UNROLL for (int n = 0; n < N; ++n) {
          UNROLL for (int i = 2 * h; i < 2 * h + 2; ++i) {
            p[m][n][i] = exp2_fast(p[m][n][i] * factor - offset);
            sum += p[m][n][i];
          }
        }
        total[m][h] = total[m][h] * shrink + sum;
        UNROLL for (int d = 0; d < kChunks; ++d) {
          UNROLL for (int i = 2 * h; i < 2 * h + 2; ++i) result[m][d][i] *= shrink;
        }
      }
    }
    multiply_weights(result, p, moved(weighed, stage * kColumns, 0));
  }

  f32* const lse = batch(a.lse);
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int h = 0; h < 2; ++h) {
      f32 sum = total[m][h];
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      const int row = my_first + m * 16 + row_in_tile(2 * h);
      if (threadIdx.x % 4 == 0 && row < queries) lse[row * a.lse.row] = (most[m][h] * factor + log2_fast(sum)) * kLn2;
      const f32 inverse = 1.0f / sum;
      UNROLL for (int d = 0; d < kChunks; ++d) {
        UNROLL for (int i = 2 * h; i < 2 * h + 2; ++i) result[m][d][i] *= inverse;
      }
    }
  }
  store_rows(query_tile + warp * 16 * M * kStride, result, a.result, batch(a.result), my_first, queries);
}
)cuda";

constexpr const char* kBackward = R"cuda(
struct BackwardArguments {
  Rows grad, query, key, value, result, grad_query, grad_key, grad_value;
  Numbers lse, delta;
  i64 batches, inners, queries, keys;
  f64 scale;
};

// Of a thread's eighth of a row: the sum of x y.
DEVICE f32 dot_row(const Rows& x, const u16* x_row, const Rows& y, const u16* y_row) {
  f32 sum = 0;
  for (int column = threadIdx.x % 8 * 8; column < x.width; column += 64) {
    u16 xs[8] = {}, ys[8] = {};
    if (kAligned) {
      *reinterpret_cast<uint4*>(xs) = *reinterpret_cast<const uint4*>(x_row + column);
      *reinterpret_cast<uint4*>(ys) = *reinterpret_cast<const uint4*>(y_row + column);
    } else {
      for (int k = 0; k < 8 && column + k < x.width; ++k) {
        xs[k] = x_row[(column + k) * x.column];
        ys[k] = y_row[(column + k) * y.column];
      }
    }
    UNROLL for (int k = 0; k < 8; ++k) sum += widen(xs[k]) * widen(ys[k]);
  }
  return sum;
}

// A block takes queries, and goes through the keys. First it says what rows of grad times result sum to.
extern "C" __global__ void __launch_bounds__(kThreads) attention_grad_query(const __grid_constant__ BackwardArguments a) {
  constexpr int M = kGradQueryTiles, kRows = 64 * M, kColumns = kGradQueryColumns, N = 4;
  const int queries = static_cast<int>(a.queries), keys = static_cast<int>(a.keys), warp = threadIdx.x / 32;
  const int blocks = (queries + kRows - 1) / kRows, block = static_cast<int>(blockIdx.x / a.batches);
  const int first = (kCausal ? blocks - 1 - block : block) * kRows;
  const Batch batch = Batch::at(blockIdx.x % a.batches, a.inners);
  u16* const query_tile = reinterpret_cast<u16*>(shared);
  u16* const grad_tile = query_tile + kRows * kStride;
  u16* const key_tiles = grad_tile + kRows * kStride;
  u16* const value_tiles = key_tiles + 2 * kColumns * kStride;
  const u16 *const key = batch(a.key), *const value = batch(a.value), *const grad = batch(a.grad);
  const int reach = kCausal && first + kRows < keys ? first + kRows : keys;
  const int my_first = first + warp * 16 * M;

  load_tile<kRows>(query_tile, a.query, batch(a.query), first, queries);
  load_tile<kRows>(grad_tile, a.grad, grad, first, queries);
  load_tile<kColumns>(key_tiles, a.key, key, 0, keys);
  load_tile<kColumns>(value_tiles, a.value, value, 0, keys);

  const u16* const result = batch(a.result);
  f32* const delta = batch(a.delta);
  for (int row = my_first + threadIdx.x % 32 / 8; row < my_first + 16 * M; row += 4) {
    const i64 safe = row < queries ? row : 0;
    f32 sum = dot_row(a.grad, grad + safe * a.grad.row, a.result, result + safe * a.result.row);
    UNROLL for (int mask = 1; mask < 8; mask *= 2) sum += shuffle_xor(sum, mask);
    if (threadIdx.x % 8 == 0 && row < queries) delta[row * a.delta.row] = sum;
  }
  __syncwarp();
  const f32 scale = static_cast<f32>(a.scale) * kLog2e;
  const f32* const lse = batch(a.lse);
  f32 offset[M][2], sums[M][2];
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int h = 0; h < 2; ++h) {
      const int row = my_first + m * 16 + row_in_tile(2 * h);
      const bool inside = row < queries;
      offset[m][h] = inside ? lse[row * a.lse.row] * kLog2e : 0.0f;
      sums[m][h] = inside ? delta[row * a.delta.row] : 0.0f;
    }
  }

  const u32 left = left_address(query_tile + warp * 16 * M * kStride);
  const u32 left_grad = left_address(grad_tile + warp * 16 * M * kStride);
  const u32 right = right_address(key_tiles), right_value = right_address(value_tiles), weighed = left_address(key_tiles);
  f32 out[M][kChunks][4];
  clear(out);
  for (int column = 0, stage = 0; column < reach; column += kColumns, stage ^= 1) {
    finish_copies();
    __syncthreads();
    if (column + kColumns < reach) {
      load_tile<kColumns>(key_tiles + (stage ^ 1) * kColumns * kStride, a.key, key, column + kColumns, keys);
      load_tile<kColumns>(value_tiles + (stage ^ 1) * kColumns * kStride, a.value, value, column + kColumns, keys);
    }
    _Pragma("unroll 1") for (int part = 0; part < kColumns; part += 32) {
      const int begin = column + part, row = stage * kColumns + part;
      if (begin >= keys || (kCausal && begin > my_first + 16 * M - 1)) continue;
      f32 p[M][N][4], ds[M][N][4];
      clear(p);
      multiply_rows(p, left, moved(right, row, 0));
      clear(ds);
      multiply_rows(ds, left_grad, moved(right_value, row, 0));
      const bool masked = begin + 32 > keys || (kCausal && begin + 31 > my_first);
      UNROLL for (int m = 0; m < M; ++m) {
        UNROLL for (int n = 0; n < N; ++n) {
          UNROLL for (int i = 0; i < 4; ++i) {
            f32 weight = exp2_fast(p[m][n][i] * scale - offset[m][i / 2]);
            if (masked) {
              const int k = begin + n * 8 + column_in_tile(i);
              if (k >= keys || (kCausal && k > my_first + m * 16 + row_in_tile(i))) weight = 0;
            }
            ds[m][n][i] = weight * (ds[m][n][i] - sums[m][i / 2]);
          }
        }
      }
      multiply_weights(out, ds, moved(weighed, row, 0));
    }
  }
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int d = 0; d < kChunks; ++d) {
      UNROLL for (int i = 0; i < 4; ++i) out[m][d][i] *= static_cast<f32>(a.scale);
    }
  }
  store_rows(query_tile + warp * 16 * M * kStride, out, a.grad_query, batch(a.grad_query), my_first, queries);
}

// A block takes keys and values, and goes through the queries. Scores are transposed: a warp has its keys' rows.
extern "C" __global__ void __launch_bounds__(kThreads)
attention_grad_key_value(const __grid_constant__ BackwardArguments a) {
  constexpr int M = kGradKeyTiles, kRows = 64 * M, kColumns = kGradKeyQueries, N = 4;
  const int queries = static_cast<int>(a.queries), keys = static_cast<int>(a.keys), warp = threadIdx.x / 32;
  const int first = static_cast<int>(blockIdx.x / a.batches) * kRows;
  const Batch batch = Batch::at(blockIdx.x % a.batches, a.inners);
  u16* const key_tile = reinterpret_cast<u16*>(shared);
  u16* const value_tile = key_tile + kRows * kStride;
  u16* const query_tiles = value_tile + kRows * kStride;
  u16* const grad_tiles = query_tiles + 2 * kColumns * kStride;
  f32* const offsets = reinterpret_cast<f32*>(grad_tiles + 2 * kColumns * kStride);
  f32* const sums = offsets + 2 * kColumns;
  const u16 *const query = batch(a.query), *const grad = batch(a.grad);
  const f32 *const lse = batch(a.lse), *const delta = batch(a.delta);
  const int my_first = first + warp * 16 * M;
  const auto load = [&](int stage, int from) {
    load_tile<kColumns>(query_tiles + stage * kColumns * kStride, a.query, query, from, queries);
    load_tile<kColumns>(grad_tiles + stage * kColumns * kStride, a.grad, grad, from, queries);
    if (threadIdx.x < kColumns) {
      const int row = from + threadIdx.x;
      const bool inside = row < queries;
      offsets[stage * kColumns + threadIdx.x] = inside ? lse[row * a.lse.row] * kLog2e : -nothing();
      sums[stage * kColumns + threadIdx.x] = inside ? delta[row * a.delta.row] : 0.0f;
    }
  };

  const int begin = kCausal ? first / kColumns * kColumns : 0;  // queries before see none of these keys
  load_tile<kRows>(key_tile, a.key, batch(a.key), first, keys);
  load_tile<kRows>(value_tile, a.value, batch(a.value), first, keys);
  if (begin < queries) load(0, begin);

  const u32 left = left_address(key_tile + warp * 16 * M * kStride);
  const u32 left_value = left_address(value_tile + warp * 16 * M * kStride);
  const u32 right = right_address(query_tiles), right_grad = right_address(grad_tiles);
  const u32 weighed = left_address(query_tiles), weighed_grad = left_address(grad_tiles);
  const f32 scale = static_cast<f32>(a.scale) * kLog2e;
  f32 grad_key[M][kChunks][4], grad_value[M][kChunks][4];
  clear(grad_key);
  clear(grad_value);
  for (int column = begin, stage = 0; column < queries; column += kColumns, stage ^= 1) {
    finish_copies();
    __syncthreads();
    if (column + kColumns < queries) load(stage ^ 1, column + kColumns);
    _Pragma("unroll 1") for (int part = 0; part < kColumns; part += 32) {
      const int from = column + part, row = stage * kColumns + part;
      if (from >= queries || (kCausal && from + 31 < my_first)) continue;
      f32 p[M][N][4], ds[M][N][4];
      clear(p);
      multiply_rows(p, left, moved(right, row, 0));
      const bool masked = kCausal && from < my_first + 16 * M - 1;
      UNROLL for (int n = 0; n < N; ++n) {
        UNROLL for (int j = 0; j < 2; ++j) {
          const f32 offset = offsets[row + n * 8 + column_in_tile(j)];
          const int q = from + n * 8 + column_in_tile(j);
          UNROLL for (int m = 0; m < M; ++m) {
            UNROLL for (int i = j; i < 4; i += 2) {
              p[m][n][i] = exp2_fast(p[m][n][i] * scale - offset);
              if (masked && my_first + m * 16 + row_in_tile(i) > q) p[m][n][i] = 0;
            }
          }
        }
      }
      multiply_weights(grad_value, p, moved(weighed_grad, row, 0));
      clear(ds);
      multiply_rows(ds, left_value, moved(right_grad, row, 0));
      UNROLL for (int n = 0; n < N; ++n) {
        UNROLL for (int j = 0; j < 2; ++j) {
          const f32 sum = sums[row + n * 8 + column_in_tile(j)];
          UNROLL for (int m = 0; m < M; ++m) {
            UNROLL for (int i = j; i < 4; i += 2) ds[m][n][i] = p[m][n][i] * (ds[m][n][i] - sum);
          }
        }
      }
      multiply_weights(grad_key, ds, moved(weighed, row, 0));
    }
  }
  finish_copies();
  __syncthreads();  // where there are no queries for these keys, the tiles may still be on their way
  UNROLL for (int m = 0; m < M; ++m) {
    UNROLL for (int d = 0; d < kChunks; ++d) {
      UNROLL for (int i = 0; i < 4; ++i) grad_key[m][d][i] *= static_cast<f32>(a.scale);
    }
  }
  store_rows(key_tile + warp * 16 * M * kStride, grad_key, a.grad_key, batch(a.grad_key), my_first, keys);
  store_rows(value_tile + warp * 16 * M * kStride, grad_value, a.grad_value, batch(a.grad_value), my_first, keys);
}
)cuda";

}  // namespace

std::string AttentionText::instructions() const {
  const bool bfloat16 = dtype == DType::kBFloat16;
  return std::string(kTypes) + "#define HALF \"" + (bfloat16 ? "bf16" : "f16") + "\"\n#define IS_BFLOAT16 " +
         (bfloat16 ? "1" : "0") + kInstructions;
}

std::string AttentionText::kernels() const {
  std::ostringstream out;
  out << std::boolalpha << "constexpr int kHead = " << head << ";\nconstexpr bool kCausal = " << is_causal
      << ", kAligned = " << aligned << ", kPositive = " << positive << ";\n";
  if (!backward) {
    out << "constexpr int kForwardColumns = " << forward_columns() << ";\n" << kCommon << kForward;
  } else {
    out << "constexpr int kGradQueryTiles = " << grad_query_tiles() << ", kGradQueryColumns = " << grad_query_columns()
        << ", kGradKeyTiles = " << grad_key_tiles() << ", kGradKeyQueries = " << grad_key_queries() << ";\n"
        << kCommon << kBackward;
  }
  return out.str();
}

}  // namespace smolder::jit::cuda
