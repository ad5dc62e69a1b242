// Tensors as text, in the form that torch's have in Python.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "smolder/lazy/tensor.h"

namespace smolder {

/// How tensors are printed; torch.set_printoptions has the same names and defaults.
struct PrintOptions {
  int precision = 4;        ///< digits behind the point
  double threshold = 1000;  ///< tensors of more elements show the edges of their axes alone
  int edgeitems = 3;        ///< elements of an edge
  int linewidth = 80;
  std::optional<bool> sci_mode = {};  ///< whether numbers have exponents; chosen by their sizes where it is not set
};
/// Those of the process. Any thread may ask for them and set them.
PrintOptions print_options();
/// Throws ValueError for a precision or edge that cannot be.
void set_print_options(const PrintOptions& options);

/// "tensor([1., 2.])", with the dtype, device and history that are not the usual ones. `kind` takes the place of the
/// word "tensor", `package` is what dtypes are of. Reads the elements, which ends the step.
std::string to_string(const Tensor& tensor, std::string_view kind = "tensor", std::string_view package = "smolder");
/// Writes that; "tensor(undefined)" of an undefined tensor.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace smolder
