// Ops as text: what a rule infers and what a formula says, for one node built from type strings.
#pragma once

#include <string>
#include <vector>

#include "ops/formula_context.h"
#include "ops/infer.h"

namespace xyntra {

struct Operand {
  DType dtype = DType::F32;
  Shape shape;
  std::optional<std::vector<Dim>> elements = std::nullopt;
  bool present = true;
};

inline Operand absent() { return {DType::F32, {}, std::nullopt, false}; }
inline Operand integers(std::vector<Dim> elements) {
  return {DType::I64, {static_cast<std::int64_t>(elements.size())}, elements, true};
}

class OneNode {
 public:
  OneNode(const std::string& op, const std::vector<Operand>& operands, Attributes attributes = {},
          std::size_t outputs = 1) {
    node_.op = op;
    node_.attributes = std::move(attributes);
    for (std::size_t i = 0; i < outputs; ++i) node_.outputs.emplace_back(i);
    for (const Operand& operand : operands) {
      facts_.push_back({Type::tensor(operand.dtype, operand.shape), {}, operand.elements, operand.present});
    }
  }

  Result<std::vector<ValueFacts>> infer() const {
    const OpDef* def = find_op(node_.op);
    if (def == nullptr) return unsupported("no op " + node_.op);
    return infer_node(*def, node_, facts_);
  }

  // "f32[2, n]", with " = [n, 3]" where the contents are known; or the error's message.
  std::string inferred() const {
    auto outputs = infer();
    if (!outputs) return outputs.error().message;
    std::string text;
    for (const ValueFacts& output : *outputs) {
      text += (text.empty() ? "" : "; ") + output.type.to_string();
      if (output.elements) text += " = " + to_string(*output.elements);
    }
    return text;
  }

  Result<te::Formula> make_formula() const {
    XYNTRA_TRY(auto outputs, infer());
    return formula_of(*find_op(node_.op), node_, facts_, outputs);
  }

  std::string formula() const {
    auto made = make_formula();
    return made ? te::to_string(*made) : made.error().message;
  }

 private:
  Node node_;
  std::vector<ValueFacts> facts_;
};

}  // namespace xyntra
