#include "smolder/eager/cpu/gemm.h"

#include <cstdlib>
#include <string_view>

#include "smolder/core/error.h"

namespace smolder::eager::gemm {
namespace {

template <class T>
const Kernels<T>& choose() {
  const Kernels<T>* const tables[] = {avx512_kernels<T>(), avx2_kernels<T>(), portable_kernels<T>()};
  const char* text = std::getenv("SMOLDER_CPU_ISA");
  const std::string_view wanted = text ? text : "";
  for (const Kernels<T>* table : tables) {
    if (table && (wanted.empty() || wanted == table->isa)) return *table;
  }
  raise<ValueError>("SMOLDER_CPU_ISA is '", wanted,
                    "', which is not among what this machine has: ", tables[0] ? "avx512, " : "",
                    tables[1] ? "avx2, " : "", "portable");
}

}  // namespace

template <class T>
const Kernels<T>& kernels() {
  static const Kernels<T>& table = choose<T>();
  return table;
}
template const Kernels<float>& kernels<float>();
template const Kernels<double>& kernels<double>();

}  // namespace smolder::eager::gemm
