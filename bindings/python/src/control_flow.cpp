// cond, while_loop and scan over flat lists of tensors: smolder/_control_flow.py has the trees.
#include "smolder/autograd/control_flow.h"

#include "smolder/graph/lower.h"
#include "src/callable.h"
#include "src/tensor.h"

namespace smolder::python {
namespace {

/// A Python function from tensors to a list of tensors.
BranchFunction branch_of(const nb::callable& f) {
  return [f](const std::vector<Tensor>& given) { return nb::cast<std::vector<Tensor>>(f(*objects_of(given))); };
}

}  // namespace

void bind_control_flow(nb::module_& m) {
  m.def(
      "_cond",
      [](const Tensor& predicate, const nb::callable& true_fn, const nb::callable& false_fn,
         const std::vector<Tensor>& operands) {
        return cond(predicate, branch_of(true_fn), branch_of(false_fn), operands);
      },
      nb::arg("predicate"), nb::arg("true_fn"), nb::arg("false_fn"), nb::arg("operands"));
  m.def(
      "_while_loop",
      [](const nb::callable& condition, const nb::callable& body, const std::vector<Tensor>& carried) {
        return while_loop(
            [&](const std::vector<Tensor>& given) { return nb::cast<Tensor>(condition(*objects_of(given))); },
            branch_of(body), carried);
      },
      nb::arg("condition"), nb::arg("body"), nb::arg("carried"));
  m.def(
      "_scan",
      [](const nb::callable& combine, const std::vector<Tensor>& init, const std::vector<Tensor>& xs, int64_t dim,
         bool reverse) {
        return scan(
            [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
              return nb::cast<CarryAndSlices>(combine(objects_of(carry), objects_of(x)));
            },
            init, xs, dim, reverse);
      },
      nb::arg("combine"), nb::arg("init"), nb::arg("xs"), nb::arg("dim"), nb::arg("reverse"));
  m.def(
      "_lowered_graph",
      [](const std::string& text, const std::vector<int>& keep) { return graph::lowered_text(text, keep); },
      nb::arg("text"), nb::arg("keep"));
}

}  // namespace smolder::python
