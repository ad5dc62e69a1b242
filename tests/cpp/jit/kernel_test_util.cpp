#include "jit/kernel_test_util.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "smolder/core/dynamic_library.h"
#include "smolder/core/error.h"
#include "smolder/core/half.h"

namespace smolder::jit::test {

Array::Array(DType dtype, int64_t elements) : dtype_(dtype), elements_(elements) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  mapped_ = (bytes() + page - 1) / page * page + page;
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  char* end = static_cast<char*>(mapping_) + mapped_ - page;
  mprotect(end, page, PROT_NONE);
  data_ = end - bytes();
}

Array::Array(Array&& other) noexcept
    : dtype_(other.dtype_),
      elements_(other.elements_),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(other.mapped_),
      data_(other.data_) {}

Array& Array::operator=(Array&& other) noexcept {
  std::swap(dtype_, other.dtype_);
  std::swap(elements_, other.elements_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  return *this;
}

Array::~Array() {
  if (mapping_) munmap(mapping_, mapped_);
}

Array Array::clone() const {
  Array copy(dtype_, elements_);
  std::memcpy(copy.data_, data_, bytes());
  return copy;
}

uint64_t Array::bits(int64_t i) const {
  uint64_t b = 0;
  std::memcpy(&b, data_ + i * static_cast<int64_t>(itemsize(dtype_)), itemsize(dtype_));
  return b;
}

void Array::set_bits(int64_t i, uint64_t bits) {
  std::memcpy(data_ + i * static_cast<int64_t>(itemsize(dtype_)), &bits, itemsize(dtype_));
}

void Array::set(int64_t i, double v) {
  switch (dtype_) {
    case DType::kFloat16:
      return set_bits(i, to_float16(static_cast<float>(v)).bits);
    case DType::kBFloat16:
      return set_bits(i, to_bfloat16(static_cast<float>(v)).bits);
    case DType::kFloat32:
      return set_bits(i, std::bit_cast<uint32_t>(static_cast<float>(v)));
    case DType::kFloat64:
      return set_bits(i, std::bit_cast<uint64_t>(v));
    case DType::kBool:
      return set_bits(i, v != 0);
    default:
      return set_bits(i, static_cast<uint64_t>(static_cast<int64_t>(v)));
  }
}

namespace {

std::vector<double> special_floats(DType t) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<double> v = {0.0,  -0.0, 1.0,  -1.0,  0.5,     -0.5,    2.0,   3.0,   -7.0, kInf,  -kInf, std::nan(""),
                           1e-3, 0.9,  -0.9, 1.5,   2.5,     -2.5,    10.0,  88.7,  -104, 1e5,   -1e5,  1e-20,
                           700,  -745, 1e10, -1e10, 3.14159, -1.5708, 1e-40, 1e-45, 1e30, -1e38, 255.0, 256.5};
  if (t == DType::kFloat64) v.insert(v.end(), {5e-324, -1e-310, 1e308, -1e300, 4e15, 9.3e18});
  return v;
}

}  // namespace

void Array::fill_special(std::mt19937_64& random) {
  if (is_floating(dtype_)) {
    const std::vector<double> special = special_floats(dtype_);
    std::normal_distribution<double> normal(0, 3);
    for (int64_t i = 0; i < elements_; ++i) {
      const uint64_t kind = random() % 8;
      if (kind < 2) {
        set(i, special[random() % special.size()]);
      } else if (kind == 2) {
        set_bits(i, random());  // any pattern
      } else if (kind == 3) {
        set(i, std::exp2(std::fmod(static_cast<double>(random() % 1000), 300) - 150) * normal(random));
      } else {
        set(i, normal(random));
      }
    }
    return;
  }
  for (int64_t i = 0; i < elements_; ++i) {
    const uint64_t kind = random() % 4;
    uint64_t v = random();
    if (kind == 0) v = random() % 12 - 5;
    if (kind == 1) v = uint64_t{1} << (random() % (8 * itemsize(dtype_)));
    if (kind == 2) v = (uint64_t{1} << (8 * itemsize(dtype_) - 1)) - random() % 2;
    set_bits(i, dtype_ == DType::kBool ? v & 1 : v);
  }
}

void Array::fill(std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, 2);
  for (int64_t i = 0; i < elements_; ++i) {
    set(i, dtype_ == DType::kBool ? static_cast<double>(random() % 2)
           : is_floating(dtype_)  ? normal(random)
                                  : std::round(normal(random)));
  }
}

bool same(DType t, uint64_t a, uint64_t b) {
  if (a == b) return true;
  const auto nan = [&](uint64_t v) {
    switch (t) {
      case DType::kFloat16:
        return (v & 0x7fff) > 0x7c00;
      case DType::kBFloat16:
        return (v & 0x7fff) > 0x7f80;
      case DType::kFloat32:
        return (v & 0x7fffffff) > 0x7f800000;
      case DType::kFloat64:
        return (v & ~(uint64_t{1} << 63)) > 0x7ff0000000000000;
      default:
        return false;
    }
  };
  return nan(a) && nan(b);
}

testing::AssertionResult same(const Array& got, const Array& want) {
  for (int64_t i = 0; i < want.size(); ++i) {
    if (!same(want.dtype(), got.bits(i), want.bits(i))) {
      return testing::AssertionFailure() << name(want.dtype()) << " element " << i << " of " << want.size() << std::hex
                                         << ": got " << got.bits(i) << ", want " << want.bits(i);
    }
  }
  return testing::AssertionSuccess();
}

const std::vector<Backend*>& backends() {
  static const std::vector<Backend*> all = [] {
    std::vector<Backend*> list{&llvm_backend()};
    const auto make =
        DynamicLibrary::open_plugin("smolder_llvm").symbol<Backend*(const char*)>("smolder_llvm_backend_for");
    for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
      try {
        list.push_back(make(cpu));
      } catch (const ValueError&) {  // not this processor
      }
    }
    return list;
  }();
  return all;
}

Compiled::Compiled(const std::string& text, Backend& backend) : kernel_(parse_loop(text)) {
  verify(kernel_);
  const Kernel* kernels[] = {&kernel_};
  code_ = backend.load(backend.compile(kernels)[0].bytes);
}

std::vector<uint32_t> Compiled::run(std::vector<Array>& buffers, const std::vector<int64_t>& ints,
                                    const std::vector<uint64_t>& scalars, int64_t begin, int64_t end) const {
  std::vector<void*> pointers;
  for (const Array& a : buffers) pointers.push_back(a.data());
  std::vector<uint32_t> errors(kernel_.num_errors);
  code_.fn(pointers.data(), ints.data(), scalars.data(), errors.data(), begin, end);
  return errors;
}

}  // namespace smolder::jit::test
