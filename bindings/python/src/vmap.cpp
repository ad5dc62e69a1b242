// Levels of vmap, which Python begins and ends.
#include "smolder/lazy/batch.h"
#include "smolder/lazy/view.h"
#include "src/tensor.h"

namespace smolder::python {

void bind_vmap(nb::module_& m) {
  m.def(
      "_vmap_begin",
      [](int64_t size, const std::string& randomness) {
        return lazy::push_batch(size, randomness == "error"  ? lazy::Randomness::kError
                                      : randomness == "same" ? lazy::Randomness::kSame
                                                             : lazy::Randomness::kDifferent);
      },
      nb::arg("size"), nb::arg("randomness"), "Begins a level of vmap in this thread and returns its number.");
  m.def("_vmap_end", &lazy::pop_batch, "Ends the innermost level.");
  m.def("_vmap_go", &lazy::go_to_level, nb::arg("level"), "Goes to a level that there is; returns the one before.");
  m.def(
      "_vmap_refuse", [](const std::string& reason) { lazy::refuse_element(reason); }, nb::arg("reason"),
      "Raises what torch says of reading an element.");
  m.def(
      "_vmap_info",
      [](int level) {
        const lazy::BatchLevel& at = lazy::batch_level(level);
        const char* const names[] = {"error", "same", "different"};
        return std::pair(at.size, std::string(names[static_cast<int>(at.randomness)]));
      },
      nb::arg("level"), "The size of a level's batch, and what random ops do in it.");
  m.def("_vmap_depth", &lazy::batch_depth, "How many levels there are.");
  m.def("_vmap_spread", &lazy::spread, nb::arg("x"), nb::arg("axis"),
        "An element of the level for what is along axis.");
  m.def("_vmap_gathered", &lazy::gathered, nb::arg("x"), nb::arg("axis"),
        "All elements of the level, along a new axis.");
  m.def("_vmap_elements", &lazy::elements_of, nb::arg("x"),
        "All elements of the innermost level, batch first, and True; x and False where they are one.");
  m.def("_vmap_like", &lazy::batched_like, nb::arg("like"), nb::arg("made"),
        "made, of one element, as all elements of the batches of like have it.");
  m.def("_vmap_level", &lazy::level_of, nb::arg("x"), "The level that a tensor is of; 0 for none.");
  m.def("_without_level_history", &lazy::without_level_history, nb::arg("x"), nb::arg("requires_grad") = false,
        "x for a gradient at the level: without history there, but with that outside.");
}

}  // namespace smolder::python
