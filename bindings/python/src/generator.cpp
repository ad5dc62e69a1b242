// Generators of random numbers.
#include "smolder/lazy/random.h"

#include <array>
#include <bit>
#include <cstring>

#include "smolder/lazy/capture.h"
#include "src/casters.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

using StateWords = std::array<uint64_t, 2>;

/// A seed as torch takes it: what 64 bits hold, with or without a sign.
uint64_t seed_of(nb::handle seed) {
  SMOLDER_CHECK(PyLong_Check(seed.ptr()), RuntimeError, "manual_seed expected a long, but got ",
                Py_TYPE(seed.ptr())->tp_name);
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(seed.ptr(), &overflow);
  if (!overflow) return static_cast<uint64_t>(value);
  const uint64_t large = overflow > 0 ? PyLong_AsUnsignedLongLong(seed.ptr()) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    raise<ValueError>("Overflow when unpacking long long");
  }
  return large;
}

Tensor state_of(Generator& g) {
  const auto [seed, offset] = g.state();
  if (lazy::Capture* const c = lazy::Capture::current()) c->note_state_read(&g, {seed, offset});
  const lazy::Capture::Pause unnoted;  // the bytes are no constant
  const StateWords words{seed, offset};
  return Tensor::from_data(words.data(), {sizeof(words)}, DType::kUInt8);
}

void set_state(Generator& g, nb::handle state) {
  Tensor* t = nullptr;
  SMOLDER_CHECK(nb::try_cast<Tensor*>(state, t) && t, TypeError, "expected a smolder.ByteTensor, but got ",
                Py_TYPE(state.ptr())->tp_name);
  SMOLDER_CHECK(t->dtype() == DType::kUInt8, TypeError, "RNG state must be a smolder.ByteTensor, but got one of ",
                name(t->dtype()));
  StateWords words;
  SMOLDER_CHECK(t->numel() == sizeof(words), RuntimeError, "RNG state is wrong size: expected ", sizeof(words),
                " bytes, got ", t->numel());
  const BufferRef bytes = [&] {
    const lazy::Capture::Pause unnoted;
    const WithoutGil nogil;
    return t->materialize("set_state");
  }();
  std::memcpy(words.data(), bytes->data(), sizeof(words));
  SMOLDER_CHECK(words[1] % 2 == 0, RuntimeError, "RNG state is invalid: no generator gets to the offset ", words[1]);
  g.set_state({words[0], words[1]});
}

}  // namespace

void bind_generator(nb::module_& m) {
  nb::class_<Generator>(m, "Generator", "A stream of random numbers.", nb::is_weak_referenceable())
      .def(
          "__init__",
          [](Generator* g, nb::handle device) {
            const std::string where = nb::str(device).c_str();
            SMOLDER_CHECK(parse_device(where).type == DeviceType::kCPU, NotImplementedError, "a Generator on device '",
                          where, "' is not supported: one on 'cpu' draws for tensors on every device");
            new (g) Generator;
          },
          nb::arg("device") = "cpu")
      .def_prop_ro("device", [](nb::handle) { return nb::module_::import_("smolder._device").attr("CPU"); })
      .def(
          "manual_seed",
          [](nb::object self, nb::handle seed) {
            nb::cast<Generator&>(self).manual_seed(seed_of(seed));
            return self;
          },
          nb::arg("seed"), "Restarts the stream, and returns the generator.")
      .def("seed", &Generator::seed, "Restarts the stream from a seed that nobody can guess, which it returns.")
      .def("initial_seed", &Generator::initial_seed, "The seed that the stream began from.")
      .def("get_state", &state_of, "Where the stream is: bytes for set_state.")
      .def("set_state", &set_state, nb::arg("new_state"), "Goes to where a stream was when get_state was called.")
      .def(
          "clone_state",
          [](const Generator& g) {
            auto* const out = new Generator;
            out->set_state(g.state());
            return out;
          },
          nb::rv_policy::take_ownership, "Another generator whose stream goes on from here as well.");
  m.attr("default_generator") = nb::cast(&default_generator(), nb::rv_policy::reference);
}

}  // namespace smolder::python
