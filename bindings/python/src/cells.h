// Lines of notebooks.
#pragma once

#include <nanobind/nanobind.h>

namespace smolder::python {

/// From now on a line of code whose file is a key is named by the number that is its value, that of a cell.
void set_cells(nanobind::dict cells);

}  // namespace smolder::python
