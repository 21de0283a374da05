// One node at a time: what its rule infers and how its formula reads.
#pragma once

#include <gtest/gtest.h>

#include "ops/formula_context.h"
#include "ops/infer.h"

namespace xyntra {

struct OpUnderTest {
  std::string op;
  std::vector<ValueFacts> inputs;
  Attributes attributes = {};
  std::size_t outputs = 1;

  Node node() const {
    Node made;
    made.op = op;
    made.origin = "n";
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      made.inputs.push_back(inputs[i].present ? ValueId(i) : ValueId());
    }
    for (std::size_t i = 0; i < outputs; ++i) made.outputs.push_back(ValueId(inputs.size() + i));
    made.attributes = attributes;
    return made;
  }

  Result<std::vector<ValueFacts>> infer() const { return infer_node(*find_op(op), node(), inputs); }

  // "f32[2, 3]", or the error's message; several results separated by "; ".
  std::string type() const {
    auto results = infer();
    if (!results) return results.error().message;
    std::string text;
    for (const ValueFacts& facts : *results) text += (text.empty() ? "" : "; ") + facts.type.to_string();
    return text;
  }

  // "[n, 4]": the symbolic contents of the first result.
  std::string elements() const {
    auto results = infer();
    if (!results) return results.error().message;
    return (*results)[0].elements ? to_string(*(*results)[0].elements) : "unknown";
  }

  std::string formula() const {
    auto results = infer();
    if (!results) return results.error().message;
    auto made = formula_of(*find_op(op), node(), inputs, *results);
    return made ? to_string(*made) : made.error().message;
  }
};

inline ValueFacts tensor_fact(DType dtype, Shape shape) {
  return {Type::tensor(dtype, std::move(shape)), {}, {}, true};
}
inline ValueFacts f32_fact(Shape shape) { return tensor_fact(DType::F32, std::move(shape)); }
inline ValueFacts list_fact(std::vector<Dim> elements) {
  ValueFacts facts = tensor_fact(DType::I64, {static_cast<std::int64_t>(elements.size())});
  facts.elements = std::move(elements);
  return facts;
}
inline ValueFacts scalar_fact(Dim value) {
  ValueFacts facts = tensor_fact(DType::I64, {});
  facts.elements = std::vector<Dim>{std::move(value)};
  return facts;
}
inline ValueFacts absent_fact() { return {{}, {}, {}, false}; }
inline Attribute integers_attribute(std::vector<std::int64_t> values) { return values; }

}  // namespace xyntra
