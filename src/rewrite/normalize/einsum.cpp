// An Einsum of two operands as transposes around one MatMul.
#include <algorithm>
#include <array>

#include "rewrite/normalize/einsum.h"
#include "rewrite/rules/functions.h"

namespace xyntra {
namespace {

// Labels by where they stand: in both operands and the result, in one operand and the result, or summed away.
struct Labels {
  std::string batch, rows, columns, summed;
};

bool distinct(std::string labels) {
  std::ranges::sort(labels);
  return std::ranges::adjacent_find(labels) == labels.end();
}

std::optional<Labels> sorted_out(const std::string& a, const std::string& b, const std::string& result) {
  if (!distinct(a) || !distinct(b) || !distinct(result)) return std::nullopt;
  Labels labels;
  for (const char label : result) {
    const bool in_a = a.find(label) != a.npos, in_b = b.find(label) != b.npos;
    if (!in_a && !in_b) return std::nullopt;
    (in_a && in_b ? labels.batch : in_a ? labels.rows : labels.columns) += label;
  }
  for (const char label : a) {
    if (result.find(label) != result.npos) continue;
    if (b.find(label) == b.npos) return std::nullopt;  // a plain sum over one operand
    labels.summed += label;
  }
  for (const char label : b) {
    if (result.find(label) == result.npos && a.find(label) == a.npos) return std::nullopt;
  }
  return labels;
}

std::optional<TermId> transpose(Program& program, TermId term, const std::string& from,
                                const std::string& to) {
  if (from == to) return term;
  std::vector<std::int64_t> order;
  for (const char label : to) order.push_back(static_cast<std::int64_t>(from.find(label)));
  NodeForm form;
  form.attributes["perm"] = std::move(order);
  return program.add_op(*find_op("Transpose"), std::move(form), std::array{term});
}

// Sizes of the labels: those of the first operand that has one.
Dim size_of(char label, const std::string& a, const Shape& a_shape, const std::string& b,
            const Shape& b_shape) {
  const std::size_t in_a = a.find(label);
  return in_a != a.npos ? a_shape[in_a] : b_shape[b.find(label)];
}

}  // namespace

std::optional<TermId> einsum_as_matmul(Program& program, TermId a, TermId b, std::string equation) {
  std::erase(equation, ' ');
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  if (comma == equation.npos || arrow == equation.npos || equation.find('.') != equation.npos)
    return std::nullopt;
  const std::string left = equation.substr(0, comma), right = equation.substr(comma + 1, arrow - comma - 1);
  const std::string result = equation.substr(arrow + 2);
  if (!program.facts(a).shaped() || !program.facts(b).shaped()) return std::nullopt;
  const Shape a_shape = program.facts(a).shape(), b_shape = program.facts(b).shape();
  if (a_shape.size() != left.size() || b_shape.size() != right.size()) return std::nullopt;
  const auto labels = sorted_out(left, right, result);
  if (!labels || labels->summed.empty()) return std::nullopt;
  for (const char label : labels->batch + labels->summed) {
    if (!(a_shape[left.find(label)] == b_shape[right.find(label)]))
      return std::nullopt;  // one of them broadcasts
  }
  auto sizes = [&](const std::string& which) {
    Shape shape;
    for (const char label : which) shape.push_back(size_of(label, left, a_shape, right, b_shape));
    return shape;
  };
  auto matrix = [&](const std::string& first, const std::string& second) {
    Shape shape = sizes(labels->batch);
    shape.push_back(product(sizes(first)));
    shape.push_back(product(sizes(second)));
    return shape;
  };
  auto x = transpose(program, a, left, labels->batch + labels->rows + labels->summed);
  auto y = transpose(program, b, right, labels->batch + labels->summed + labels->columns);
  if (x) x = reshape(program, *x, matrix(labels->rows, labels->summed));
  if (y) y = reshape(program, *y, matrix(labels->summed, labels->columns));
  if (!x || !y) return std::nullopt;
  auto made = program.add_op(*find_op("MatMul"), {}, std::array{*x, *y});
  const std::string order = labels->batch + labels->rows + labels->columns;
  if (made) made = reshape(program, *made, sizes(order));
  return made ? transpose(program, *made, order, result) : std::nullopt;
}

}  // namespace xyntra
