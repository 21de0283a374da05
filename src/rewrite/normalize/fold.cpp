#include "rewrite/normalize/fold.h"

#include <algorithm>

#include "interp/evaluator.h"

namespace xyntra {

Result<std::vector<Tensor>> evaluate_node(const OpDef& def, const NodeForm& form,
                                          std::span<const Tensor> operands) {
  // How long strings become and how long they are worked on does not follow from their number: a run has a budget for it.
  if (std::ranges::any_of(operands, [](const Tensor& x) { return x.defined() && is_string(x.dtype()); }))
    return unsupported("what reads strings is left for run time");
  Graph graph;
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    inputs.push_back(operands[i].defined() ? graph.add_constant("x" + std::to_string(i), operands[i])
                                           : ValueId());
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < form.outputs.size(); ++i) {
    names.push_back(form.outputs[i] ? "y" + std::to_string(i) : "");
  }
  const NodeId node = graph.add_node(def.name, inputs, names, form.attributes, form.identity);
  for (ValueId output : graph.node(node).outputs) {
    if (output.valid()) graph.outputs.push_back(output);
  }
  EvaluatorOptions options;
  options.threads = 1;
  XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph, options));
  XYNTRA_TRY(std::vector<Datum> data, evaluator.run({}));
  std::vector<Tensor> results(form.outputs.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < form.outputs.size(); ++i) {
    if (form.outputs[i]) results[i] = data.at(next++).tensor;
  }
  return results;
}

std::optional<double> splat_value(const Tensor& tensor) {
  if (!tensor.defined() || tensor.count() == 0 || is_bool(tensor.dtype()) || is_string(tensor.dtype()))
    return std::nullopt;
  const int bits = bits_of(tensor.dtype());
  const auto bytes = tensor.bytes();
  if (bits % 8 == 0) {
    // All elements have the bytes of the first exactly when the content equals itself shifted by one element.
    const auto width = static_cast<std::size_t>(bits / 8);
    if (!std::ranges::equal(bytes.subspan(width), bytes.first(bytes.size() - width))) return std::nullopt;
  } else if (tensor.count() != 1) {
    return std::nullopt;
  }
  return tensor.element_as_f64(0);
}

Tensor splat(DType dtype, Dims dims, double value) {
  auto made = Tensor::allocate(dtype, std::move(dims));
  if (!made) internal_error("splat: " + made.error().message);
  for (std::int64_t i = 0; i < made->count(); ++i) made->set_element_f64(i, value);
  return std::move(*made);
}

}  // namespace xyntra
