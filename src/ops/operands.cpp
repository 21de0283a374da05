#include "ops/operands.h"

#include "ops/tracked_elements.h"

namespace xyntra {

using te::Expr;
using te::Index;

Expr as_index(Expr value) { return te::cast(DType::I64, std::move(value)); }

Expr integer_at(FormulaContext& c, std::size_t operand, std::size_t k) {
  if (auto known = c.elements(operand); known && k < known->size()) return Expr::size((*known)[k]);
  te::Buffer list = c.in(operand);
  Index index;
  if (list.rank() > 0) index.push_back(Expr::index(static_cast<std::int64_t>(k)));
  return as_index(list(index));
}

Expr wrapped(Expr index, const Dim& extent) {
  if (index->op == te::ExprOp::Const) {
    return index->int_value < 0 ? Expr::size(Dim(index->int_value) + extent) : index;
  }
  return select(index < 0, index + Expr::size(extent), index);
}

Expr chosen(const Expr& i, const std::vector<Expr>& values) {
  Expr result = values.back();
  for (std::size_t k = values.size() - 1; k-- > 0;) {
    result = select(equal(i, static_cast<std::int64_t>(k)), values[k], result);
  }
  return result;
}

Expr row_major(const Index& index, const Shape& shape) {
  Expr position = Expr::index(0);
  for (std::size_t d = 0; d < index.size(); ++d) position = position * Expr::size(shape[d]) + index[d];
  return position;
}

Result<std::optional<Dim>> known_integer(const OpContext& c, std::size_t operand) {
  auto known = c.elements(operand);
  if (!known) return std::nullopt;
  if (known->size() != 1) {
    return c.fail("operand " + std::to_string(operand) + " (" + c.def().inputs[operand].name +
                  ") must have one element, not " + std::to_string(known->size()));
  }
  return known->front();
}

std::optional<std::size_t> list_length(const OpContext& c, std::size_t operand) {
  if (auto known = c.elements(operand)) return known->size();
  const auto& shape = c.type(operand).shape;
  if (!shape) return std::nullopt;
  if (shape->empty()) return 1;
  if (shape->size() != 1 || !(*shape)[0].is_constant()) return std::nullopt;
  // Rules make as many sizes or axes as a list has elements; one this long is an attack.
  if ((*shape)[0].constant() > kMaxTrackedElements) return std::nullopt;
  return as_size((*shape)[0].constant());
}

}  // namespace xyntra
