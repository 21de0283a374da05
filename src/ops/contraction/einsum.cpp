// Einsum: every label is a loop, those missing from the result are summed.
#include <algorithm>
#include <map>

#include "ops/elementwise/elementwise.h"
#include "ops/rules.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Expr;
using te::Index;
using te::Reducer;

namespace {

// A letter, or, for what an ellipsis stands for, -1 for its last axis, -2 for the one before, …
using Label = int;
using Labels = std::vector<Label>;

struct Equation {
  std::vector<Labels> operands;
  Labels output;
  Labels summed;  // in order of appearance
  std::map<Label, Dim> sizes;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class EquationReader {
 public:
  explicit EquationReader(const OpContext& context) : context_(context) {}

  Result<Equation> read() {
    for (char c : context_.text("equation")) {
      if (c != ' ') text_ += c;
    }
    std::size_t arrow = text_.find("->");
    std::string left = text_.substr(0, arrow);
    std::size_t operand = 0;
    for (std::size_t begin = 0; begin <= left.size(); ++operand) {
      std::size_t end = std::min(left.find(',', begin), left.size());
      if (operand >= context_.input_count()) return wrong("names more operands than are given");
      XYNTRA_TRY(Labels labels, term(left.substr(begin, end - begin), context_.rank(operand)));
      XYNTRA_CHECK_OK(measure(labels, operand));
      equation_.operands.push_back(std::move(labels));
      begin = end + 1;
    }
    if (operand != context_.input_count()) return wrong("names fewer operands than are given");
    if (arrow == std::string::npos) {
      imply_output();
    } else {
      XYNTRA_TRY(equation_.output, term(text_.substr(arrow + 2), SIZE_MAX));
    }
    XYNTRA_CHECK_OK(check_output());
    return std::move(equation_);
  }

 private:
  tl::unexpected<Error> wrong(const std::string& what) const {
    return context_.fail("equation '" + context_.text("equation") + "' " + what);
  }

  // "bi...j" for an operand of a given rank; SIZE_MAX for the output, whose ellipsis is the widest one seen.
  Result<Labels> term(const std::string& text, std::size_t rank) {
    Labels labels;
    bool had_ellipsis = false;
    auto letters = static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_letter));
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (is_letter(text[i])) {
        labels.push_back(text[i]);
        continue;
      }
      if (text.compare(i, 3, "...") != 0 || had_ellipsis) {
        return wrong("has '" + text.substr(i, 1) + "' where a letter is expected");
      }
      had_ellipsis = true;
      i += 2;
      std::size_t width = rank == SIZE_MAX ? ellipsis_ : rank - std::min(rank, letters);
      ellipsis_ = std::max(ellipsis_, width);
      for (std::size_t n = width; n > 0; --n) labels.push_back(-static_cast<Label>(n));
    }
    if (rank != SIZE_MAX && labels.size() != rank) {
      return wrong("has the term '" + text + "' for an operand with " + std::to_string(rank) + " dimensions");
    }
    return labels;
  }

  Status measure(const Labels& labels, std::size_t operand) {
    for (std::size_t d = 0; d < labels.size(); ++d) {
      Dim& size = equation_.sizes.try_emplace(labels[d], 1).first->second;
      XYNTRA_TRY(size, broadcast_dims(context_, size, context_.dim(operand, d)));
      ++uses_[labels[d]];
      if (std::find(order_.begin(), order_.end(), labels[d]) == order_.end()) order_.push_back(labels[d]);
    }
    return {};
  }

  // Without "->": the ellipsis, then all letters used once, in alphabetical order.
  void imply_output() {
    for (std::size_t n = ellipsis_; n > 0; --n) equation_.output.push_back(-static_cast<Label>(n));
    for (const auto& [label, uses] : uses_) {
      if (label >= 0 && uses == 1) equation_.output.push_back(label);
    }
  }

  Status check_output() {
    for (Label label : equation_.output) {
      if (uses_.count(label) == 0) return wrong("has a label in the result that no operand has");
      if (std::count(equation_.output.begin(), equation_.output.end(), label) > 1) {
        return wrong("has a label twice in the result");
      }
    }
    for (Label label : order_) {
      auto found = std::find(equation_.output.begin(), equation_.output.end(), label);
      if (found == equation_.output.end()) equation_.summed.push_back(label);
    }
    return {};
  }

  const OpContext& context_;
  std::string text_;
  Equation equation_;
  std::size_t ellipsis_ = 0;
  std::map<Label, int> uses_;
  Labels order_;
};

std::string loop_name(Label label) {
  return label >= 0 ? std::string(1, static_cast<char>(label)) : "e" + std::to_string(-label);
}

}  // namespace

namespace rule {

Status einsum(InferenceContext& c) {
  XYNTRA_TRY(Equation equation, EquationReader(c).read());
  Shape shape;
  for (Label label : equation.output) shape.push_back(equation.sizes.at(label));
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace rule

namespace formula {

// ij,jk->ik:  y[i, k] = sum(j) x0[i, j] * x1[j, k]. A label twice in one operand reads its diagonal.
Status einsum(FormulaContext& c) {
  XYNTRA_TRY(Equation equation, EquationReader(c).read());
  std::map<Label, Axis> loops;
  Axes out, summed;
  auto loop = [&](Label label) { return loops[label] = c.axis(equation.sizes.at(label), loop_name(label)); };
  for (Label label : equation.output) out.push_back(loop(label));
  for (Label label : equation.summed) summed.push_back(loop(label));
  Expr product;
  for (std::size_t n = 0; n < equation.operands.size(); ++n) {
    Axes point;
    for (Label label : equation.operands[n]) point.push_back(loops.at(label));
    Expr factor = wide(broadcast(c.in(n), point));
    product = product.defined() ? product * factor : factor;
  }
  if (summed.empty()) {
    c.write(c.out(), out, product);
  } else {
    c.write_reduced(c.out(), out, Reducer::Sum, summed, product);
  }
  return {};
}

}  // namespace formula
}  // namespace xyntra
