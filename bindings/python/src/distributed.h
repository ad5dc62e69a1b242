// The exceptions of smolder.distributed.
#pragma once

#include <string>

#include "src/casters.h"

namespace smolder::python {

/// The class of that name, borrowed; null when there is none.
PyObject* distributed_error_type(const std::string& name);

}  // namespace smolder::python
