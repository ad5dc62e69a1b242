//! The interpreter of loop IR that runs kernels whose code is not compiled yet. It reads what byte_code.h says, whose
//! names are these; `apply`, which knows the primitives, stands before it.
//@ kInterpreter
#define METHOD __device__ __forceinline__
enum Code {
  kEnd,
  kApply,
  kWord,
  kScalar,
  kIndex,
  kLoad,
  kStore,
  kCheck,
  kLoop,
  kEndLoop,
  kVector,
  kEndVector,
  kResult,
  kBeginStrip,
  kEndStrip
};
struct InterpretedCall {
  const i32* code;
  const u64* scalars;
  u32* errors;
  i64 positions, columns, guarded;  // columns: -1 where groups take positions
  i64 buffers;                      // rows of words before the integers
};
struct InterpreterArguments : InterpretedCall {
  i64 words[kWords];
  DEVICE u64* slots_of_block(const InterpreterArguments&) { return reinterpret_cast<u64*>(shared); }
};
// For more words than an argument has room for, or more slots than shared memory has.
struct LargeInterpreterArguments : InterpretedCall {
  const i64* words;
  u64* slots;  // of all blocks; null: in shared memory
  i64 block_slots;
  DEVICE u64* slots_of_block(const LargeInterpreterArguments& a) {
    return a.slots ? a.slots + a.block_slots * blockIdx.x : reinterpret_cast<u64*>(shared);
  }
};

// A thread of the interpreter. What it keeps lies with that of its block: slot s of all threads, then slot s + 1.
template <class Arguments> struct Interpreter {
  const Arguments& a;
  const i32* code;
  u64* slots;
  int threads;
  i64 own;         // number of the row that the thread's group has to itself
  i64 column;      // -1: groups take positions
  i64 end, step;   // of a vector loop
  int unit, left;  // of a unit, and what the thread has yet to do of one

  METHOD u64& slot(int s) { return slots[s * threads]; }
  METHOD i64 number(int s) { return static_cast<i64>(slot(s)); }
  METHOD i64 word(int w) { return a.words[w]; }

  METHOD i64 sum(int& at) {
    const int terms = code[at];
    i64 x = word(code[at + 1]);
    at += 2;
    for (int i = 0; i < terms; ++i, at += 2) x += number(code[at]) * word(code[at + 1]);
    return x;
  }
  METHOD i64 count(int at) {
    const i64 n = word(code[at]);
    return code[at + 1] < 0 ? n : smaller(n, word(code[at + 2]) - number(code[at + 1]) * n);
  }
  METHOD unsigned char* buffer(int b) {
    return reinterpret_cast<unsigned char*>(word(b) + word(static_cast<int>(a.buffers) + b) * own);
  }
  METHOD u64& total(int at) {
    const int s = code[at];
    if (s >= 0) return slot(s);
    return reinterpret_cast<u64*>(buffer(code[at + 1]))[number(code[at + 2])];
  }

  // By dtype, as core/dtype.h counts them.
  METHOD u64 fetch(int dtype, const unsigned char* from, i64 i) {
    switch (dtype) {
      case 0:
        return from[i] != 0;
      case 1:
        return from[i];
      case 2:
        return extend_i8(from[i]);
      case 3:
        return extend_i16(reinterpret_cast<const u16*>(from)[i]);
      case 4:
        return reinterpret_cast<const u32*>(from)[i];
      case 6:
        return __float_as_uint(f16_to_f32(reinterpret_cast<const u16*>(from)[i]));
      case 7:
        return __float_as_uint(bf16_to_f32(reinterpret_cast<const u16*>(from)[i]));
      case 8:
        return reinterpret_cast<const u32*>(from)[i];
      default:
        return reinterpret_cast<const u64*>(from)[i];
    }
  }
  METHOD void put(int dtype, unsigned char* to, i64 i, u64 x) {
    const f32 value = __uint_as_float(static_cast<u32>(x));
    switch (dtype) {
      case 0:
      case 1:
      case 2:
        to[i] = static_cast<u8>(x);
        break;
      case 3:
        reinterpret_cast<u16*>(to)[i] = static_cast<u16>(x);
        break;
      case 4:
      case 8:
        reinterpret_cast<u32*>(to)[i] = static_cast<u32>(x);
        break;
      case 6:
        reinterpret_cast<u16*>(to)[i] = f32_to_f16(value);
        break;
      case 7:
        reinterpret_cast<u16*>(to)[i] = bf16_bits(value);
        break;
      default:
        reinterpret_cast<u64*>(to)[i] = x;
        break;
    }
  }

  METHOD int load(int at) {
    const int result = code[at + 1], dtype = code[at + 2], b = code[at + 3], next = code[at + 4], fill = code[at + 5];
    const int bounds = code[at + 6];
    at += 7;
    for (int i = 0; i < bounds; ++i) {
      const i64 low = word(code[at]), high = word(code[at + 1]);
      at += 2;
      const i64 x = sum(at);
      if (x < low || x >= high) {
        slot(result) = static_cast<u64>(word(fill));
        return next;
      }
    }
    const i64 i = sum(at);
    slot(result) = fetch(dtype, buffer(b), i);
    return next;
  }
  METHOD int store(int at) {
    const int value = code[at + 1], dtype = code[at + 2], b = code[at + 3];
    const bool of_all = code[at + 4] == 1, is_left_out = code[at + 4] == 2 && number(code[at + 5]) != end - 1;
    at += 6;
    const i64 i = sum(at);
    if (of_all) group_sync();
    if (!is_left_out && (!of_all || threadIdx.x == 0)) put(dtype, buffer(b), i, slot(value));
    if (of_all) group_sync();
    return at;
  }

  // To the thread's next element, or past the loop.
  METHOD int begin_vector(int at) {
    const int variable = code[at + 1], after = code[at + 5];
    end = count(at + 2);
    if (column >= 0) {
      slot(variable) = static_cast<u64>(column);
      return column < end ? at + 7 : after;
    }
    const int lanes = static_cast<int>(word(code[at + 6]));
    unit = left = static_cast<int>(word(code[at + 6] + 1));
    step = static_cast<i64>(lanes) * unit;
    const i64 first = static_cast<i64>(threadIdx.x) * unit;
    slot(variable) = static_cast<u64>(first);
    if (threadIdx.x < lanes && first < end) return at + 7;
    group_sync();
    return after;
  }
  METHOD int end_vector(int at) {
    if (column >= 0) return at + 3;
    u64& variable = slot(code[at + 1]);
    const i64 now = static_cast<i64>(variable);
    i64 next = now + 1;
    if (--left == 0 || next >= end) {
      next = now - (unit - left - 1) + step;
      if (left > 0) next = end;  // a unit that is cut short is the last
      left = unit;
    }
    variable = static_cast<u64>(next);
    if (next < end) return code[at + 2];
    group_sync();
    return at + 3;
  }
  // Neighbours combine until one has all.
  METHOD void combine(int result, int accumulator, int function) {
    for (unsigned by = 1; by < blockDim.x; by *= 2) {
      group_sync();
      u64* const own_slot = &slot(accumulator);
      if (threadIdx.x % (2 * by) == 0) *own_slot = apply(function, *own_slot, own_slot[by], 0);
    }
    group_sync();
    const u64 x = (&slot(accumulator))[-static_cast<int>(threadIdx.x)];
    group_sync();
    slot(result) = x;
  }

  METHOD void run(int at) {
    for (;;) {
      switch (code[at]) {
        case kApply: {
          const i32* const c = code + at;
          slot(c[1]) = apply(c[2], slot(c[3]), slot(c[4]), slot(c[5]));
          at += 6;
          break;
        }
        case kWord:
          slot(code[at + 1]) = static_cast<u64>(word(code[at + 2]));
          at += 3;
          break;
        case kScalar:
          slot(code[at + 1]) = a.scalars[code[at + 2]];
          at += 3;
          break;
        case kIndex: {
          const int result = code[at + 1];
          at += 2;
          const i64 x = sum(at);
          slot(result) = static_cast<u64>(x);
          break;
        }
        case kLoad:
          at = load(at);
          break;
        case kStore:
          at = store(at);
          break;
        case kCheck: {
          const u64 index = slot(code[at + 2]);
          const i64 limit = word(code[at + 3]);
          if (index >= static_cast<u64>(limit)) report(a.errors + code[at + 4] * kReportWords, index, limit);
          slot(code[at + 1]) = clamp_index(index, limit);
          at += 5;
          break;
        }
        case kLoop:
          slot(code[at + 1]) = 0;
          at = count(at + 2) > 0 ? at + 6 : code[at + 5];
          break;
        case kEndLoop: {
          const u64 next = ++slot(code[at + 1]);
          at = static_cast<i64>(next) < count(at + 2) ? code[at + 5] : at + 6;
          break;
        }
        case kVector:
          at = begin_vector(at);
          break;
        case kEndVector:
          at = end_vector(at);
          break;
        case kResult:
          combine(code[at + 1], code[at + 2], code[at + 3]);
          at += 4;
          break;
        case kBeginStrip:
          if (number(code[at + 2]) % word(code[at + 3]) == 0) {
            u64& value = slot(code[at + 1]);
            total(at + 5) = value;
            value = static_cast<u64>(word(code[at + 4]));
          }
          at += 8;
          break;
        case kEndStrip: {
          const i64 turn = number(code[at + 2]), strip = word(code[at + 3]);
          if (turn % strip == strip - 1 || turn == count(at + 4) - 1) {
            u64& value = slot(code[at + 1]);
            value = apply(code[at + 10], total(at + 7), value, 0);
          }
          at += 11;
          break;
        }
        default:
          return;
      }
    }
  }

  // Variables of the root loop.
  METHOD int begin(u64 position) {
    const int n = code[0];
    for (int i = n - 1; i > 0; --i) {
      slot(code[2 * i + 1]) = static_cast<u64>(take_digit(position, static_cast<u64>(word(code[2 * i + 2]))));
    }
    if (n > 0) slot(code[1]) = position;
    return 2 * n + 1;
  }
};

template <class Arguments> DEVICE void interpret_call(const Arguments& a) {
  wait_for_kernel_before();
  if (a.guarded != 0 && *static_cast<const volatile u32*>(a.errors) != 0) return;
  const int threads = blockDim.x * blockDim.y, me = threadIdx.y * blockDim.x + threadIdx.x;
  Interpreter<Arguments> own{a, a.code, Arguments::slots_of_block(a) + me, threads, 0, -1, 0, 0, 0, 0};
  if (a.columns < 0) {
    const i64 groups = static_cast<i64>(gridDim.x) * blockDim.y;
    own.own = static_cast<i64>(blockIdx.x) * blockDim.y + threadIdx.y;
    for (i64 position = own.own; position < a.positions; position += groups) {
      own.run(own.begin(static_cast<u64>(position)));
      group_sync();
    }
    return;
  }
  const i64 all = a.positions * a.columns, first = static_cast<i64>(blockIdx.x) * threads + me;
  for (i64 i = first; i < all; i += static_cast<i64>(gridDim.x) * threads) {
    u64 position = static_cast<u64>(i);
    own.column = take_digit(position, static_cast<u64>(a.columns));
    own.own = first - own.column;
    own.run(own.begin(position));
  }
}

extern "C" __global__ void __launch_bounds__(512) interpret(const __grid_constant__ InterpreterArguments a) {
  interpret_call(a);
}
extern "C" __global__ void __launch_bounds__(512) interpret_large(const __grid_constant__ LargeInterpreterArguments a) {
  interpret_call(a);
}
