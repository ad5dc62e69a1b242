// Uses the installed headers and library, as tests/install/run builds it.
#include <cstdio>
#include <cstring>

#include "smolder/core/buffer.h"
#include "smolder/core/dims.h"
#include "smolder/core/error.h"
#include "smolder/core/thread_pool.h"

int main() {
  const smolder::Dims shape = smolder::broadcast_shapes({4, 1}, {3}, "add");
  const smolder::BufferRef buffer = smolder::allocate(static_cast<size_t>(smolder::numel(shape)) * sizeof(float));
  auto* values = static_cast<float*>(buffer->data());
  smolder::parallel_for(smolder::numel(shape), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[i] = static_cast<float>(i);
  });
  // An error must be caught by its type across the border of the library.
  try {
    smolder::broadcast_shapes({4}, {3}, "add");
    return 1;
  } catch (const smolder::RuntimeError& e) {
    std::printf("%s %g %s\n", smolder::to_string(shape).c_str(), values[11], e.python_type());
  }
  return values[11] == 11 ? 0 : 2;
}
