// Expressions of a kernel as text.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "codegen/wgsl/emitter.h"

namespace xyntra::wgsl {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

// A constant, as it is or as a wider float.
std::optional<double> literal(const Expr& expr) {
  if (!is_float(expr.dtype())) return std::nullopt;
  if (expr->op == ExprOp::Const) return expr->float_value;
  const bool widens = expr->op == ExprOp::Cast && bits_of(expr->operands[0].dtype()) < bits_of(expr.dtype());
  return widens ? literal(expr->operands[0]) : std::nullopt;
}
bool is_zero(const Expr& expr) { return literal(expr) == 0; }
bool is_plus_zero(const Expr& expr) { return is_zero(expr) && !std::signbit(*literal(expr)); }

// select(x < 0, 0, x)
bool is_relu(const ExprNode& node) {
  const Expr &condition = node.operands[0], &chosen = node.operands[1], &otherwise = node.operands[2];
  return node.dtype == DType::F32 && condition->op == ExprOp::Less && is_plus_zero(chosen) &&
         is_zero(condition->operands[1]) && te::same(condition->operands[0], otherwise);
}

}  // namespace

std::optional<std::size_t> zero_of_sum(const ExprNode& node) {
  if (!is_float(node.dtype) || (node.op != ExprOp::Add && node.op != ExprOp::Sub)) return std::nullopt;
  if (is_plus_zero(node.operands[0])) return 0;
  return node.op == ExprOp::Add && is_plus_zero(node.operands[1]) ? std::optional<std::size_t>(1)
                                                                  : std::nullopt;
}

// ---- expressions

std::string KernelEmitter::value(const Expr& expr) {
  const Key key{expr.address(), false};
  if (auto known = known_.find(key); known != known_.end()) return known->second;
  const auto zero = zero_of_sum(*expr);
  std::string text = zero ? sum_with_zero(*expr, *zero) : node_text(expr);
  if (!zero && cancelling_.contains(expr.address())) text = operations_.kept(expr.dtype(), text);
  if (settled_->count(expr.address()) != 0) text = operations_.settled(expr.dtype(), text);
  const bool shared = uses_[expr.address()] > 1;
  if (!is_word(text) && (shared || text.size() > kLongText)) {
    const std::string name = fresh_name();
    line("let " + name + " = " + text + ";");
    text = name;
  }
  if (is_word(text)) known_[key] = text;
  return text;
}

std::string KernelEmitter::sum_with_zero(const ExprNode& node, std::size_t zero) {
  const std::string other = value(node.operands[1 - zero]);
  return operations_.plus_zero(node.dtype, node.op == ExprOp::Sub ? "-(" + other + ")" : other);
}

std::string KernelEmitter::named(const Expr& expr) {
  std::string text = value(expr);
  if (is_word(text)) return text;
  const std::string name = fresh_name();
  line("let " + name + " = " + text + ";");
  known_[{expr.address(), false}] = name;
  return name;
}

std::string KernelEmitter::node_text(const Expr& expr) {
  const ExprNode& node = *expr;
  switch (node.op) {
    case ExprOp::Const: return operations_.constant(node);
    case ExprOp::Var: return operations_.cast(DType::I32, DType::I64, variable(node.var));
    case ExprOp::Size: return operations_.cast(DType::I32, DType::I64, size(node.size));
    case ExprOp::Accumulator: internal_error("wgsl: an accumulator in a kernel");
    case ExprOp::Load: return load(node);
    case ExprOp::LoadOr: return load_or(node);
    case ExprOp::Select: return select(node);
    case ExprOp::Cast: {
      const Expr& operand = node.operands[0];
      // A position that becomes a number of 32 bits or a float needs no wider one on the way.
      if (is_position(operand) && node.dtype != DType::I64 && node.dtype != DType::U64)
        return operations_.cast(DType::I32, node.dtype, "i32(" + position(operand) + ")");
      if (is_float(operand.dtype()) && node.dtype == DType::I32 && analysis_.lies_within(operand, -1e9, 1e9))
        return "i32(" + value(operand) + ")";
      if (&node == stored_half_) return "f16(" + value(operand) + ")";
      return operations_.cast(operand.dtype(), node.dtype, named(operand));
    }
    case ExprOp::Bitcast:
      return operations_.bitcast(node.operands[0].dtype(), node.dtype, named(node.operands[0]));
    case ExprOp::IsNan: return operations_.is_nan(node.operands[0].dtype(), named(node.operands[0]));
    case ExprOp::IsInf: return operations_.is_inf(node.operands[0].dtype(), named(node.operands[0]));
    default: break;
  }
  if (te::kind_of(node.op) == te::ExprKind::Compare) return compare(node);
  const bool shifts = node.op == ExprOp::ShiftLeft || node.op == ExprOp::ShiftRight;
  if (shifts && node.operands[1]->op == ExprOp::Const && node.operands[1]->int_value >= 0 &&
      node.operands[1]->int_value < bits_of(node.dtype))
    return operations_.shifted(node.op, node.dtype, value(node.operands[0]), node.operands[1]->int_value);
  if (auto bounded = bounded_float(node)) return *bounded;
  // What WGSL promises of a quotient ends at divisors of this size.
  constexpr double kLargeDivisor = 0x1p126;
  // Quotients by constants are scales, of which whole numbers may be made elsewhere.
  if (node.op == ExprOp::Div && node.dtype == DType::F32 && !rounded_.contains(&node) &&
      !node.operands[1].is_constant() &&
      analysis_.lies_within(node.operands[1], -kLargeDivisor, kLargeDivisor))
    return "(" + value(node.operands[0]) + " / " + value(node.operands[1]) + ")";
  const bool repeats = node.op == ExprOp::Min || node.op == ExprOp::Max || node.op == ExprOp::Abs;
  std::vector<std::string> operands;
  for (const Expr& operand : node.operands) operands.push_back(repeats ? named(operand) : value(operand));
  if (is_sum_of_halves(node)) return operations_.sum_of_halves(node.op, operands);
  return operations_.arithmetic(node.op, node.dtype, operands);
}

// A minimum with a positive number, or a maximum with a negative one.
std::optional<std::string> KernelEmitter::bounded_float(const ExprNode& node) {
  const bool least = node.op == ExprOp::Min, most = node.op == ExprOp::Max;
  if (!(least || most) || node.dtype != DType::F32 || node.operands[1]->op != ExprOp::Const)
    return std::nullopt;
  const auto bound = static_cast<float>(node.operands[1]->float_value);
  if (!std::isfinite(bound) || (least ? bound <= 0 : bound >= 0)) return std::nullopt;
  return operations_.bounded(named(node.operands[0]), *node.operands[1]);
}

// Whether a compiler of shaders cannot see another operation on f16 behind it: it was rounded, or comes from memory that
// this kernel does not write.
bool KernelEmitter::is_apart(const Expr& half) const {
  switch (half->op) {
    case ExprOp::Const: return true;
    case ExprOp::Cast: return half->operands[0].dtype() != DType::F16;
    case ExprOp::Load: {
      const kir::Buffer& buffer = kernel_.buffer(half->buffer);
      return buffer.scope == kir::Scope::Global && !buffer.written;
    }
    default: return false;
  }
}

bool KernelEmitter::is_sum_of_halves(const ExprNode& node) const {
  return operations_.adds_halves(node.op, node.dtype) &&
         std::all_of(node.operands.begin(), node.operands.end(),
                     [this](const Expr& operand) { return is_apart(operand); });
}

std::string KernelEmitter::compare(const ExprNode& node) {
  const Expr &a = node.operands[0], &b = node.operands[1];
  const bool positions = is_position(a) && is_position(b);
  const std::string first =
      positions ? position(a) : value(a);  // one after the other: lines come in this order
  const std::string second = positions ? position(b) : value(b);
  return operations_.compare(node.op, positions ? DType::I32 : a.dtype(), first, second);
}

// `a < b ? a : b`, or the like: compilers that know no NaN take it for min(a, b), which is a where b is NaN.
bool KernelEmitter::is_minimum(const ExprNode& node) {
  const ExprNode& condition = *node.operands[0];
  if (te::kind_of(condition.op) != te::ExprKind::Compare || !is_float(node.dtype)) return false;
  auto same = [](const Expr& a, const Expr& b) {
    return a.address() == b.address() ||
           (a->op == ExprOp::Const && b->op == ExprOp::Const && a->float_value == b->float_value);
  };
  const Expr &a = condition.operands[0], &b = condition.operands[1];
  const Expr &chosen = node.operands[1], &otherwise = node.operands[2];
  return (same(chosen, a) && same(otherwise, b)) || (same(chosen, b) && same(otherwise, a));
}

// Each side is computed only where it is chosen, when reading for it elsewhere could be outside.
std::string KernelEmitter::select(const ExprNode& node) {
  if (is_relu(node)) return operations_.without_negatives(named(node.operands[2]));
  const std::string condition = value(node.operands[0]);
  const bool minimum = is_minimum(node);  // the condition reads both sides
  if (minimum || (!analysis_.needs_guard(node, 1) && !analysis_.needs_guard(node, 2))) {
    const std::string chosen = value(node.operands[1]);
    const std::string otherwise = minimum ? named(node.operands[2]) : value(node.operands[2]);
    const std::string text = "select(" + otherwise + ", " + chosen + ", " + condition + ")";
    if (!minimum) return text;
    return "select(" + text + ", " + otherwise + ", " + operations_.is_nan(node.dtype, otherwise) + ")";
  }
  if (is_cheap(node.operands[1]) && is_cheap(node.operands[2]))
    return chosen_without_branch(node, condition, [this](const Expr& side) { return value(side); });
  return either(
      operations_.type(node.dtype), condition, [&] { return value(node.operands[1]); },
      [&] { return value(node.operands[2]); });
}

// Both sides are computed and one is taken: branches keep threads that run in lockstep from going on together, and
// software adapters take long to compile many.
bool KernelEmitter::is_cheap(const Expr& side) {
  constexpr int kMostNodes = 6;
  int nodes = 0;
  bool plain = true;
  te::for_each_node(side, [&](const ExprNode& node) {
    const bool index = node.dtype == DType::I64;
    nodes += index ? 0 : 1;
    const bool narrow = te::is_load(node) && operations_.is_packed(node.dtype);
    // Indices are read only where that is in bounds in any case.
    const bool read = index && te::is_load(node);
    plain = plain && (index || node.op != ExprOp::Select) && node.op != ExprOp::LoadOr && !narrow &&
            !(read && !analysis_.access(node).in_bounds);
  });
  return plain && nodes <= kMostNodes;
}

std::string KernelEmitter::chosen_without_branch(const ExprNode& node, const std::string& condition,
                                                 const std::function<std::string(const Expr&)>& text_of) {
  std::string holds = condition;
  if (!is_word(holds)) {
    holds = fresh_name();
    line("let " + holds + " = " + condition + ";");
  }
  auto outside = known_;  // what is read under a condition is known under no other
  auto side = [&](const Expr& expr, const std::string& guard) {
    const std::string before = guard_;
    guard_ = before.empty() ? guard : "(" + before + " & " + guard + ")";
    std::string text = text_of(expr);
    guard_ = before;
    known_ = outside;
    return text;
  };
  const std::string chosen = side(node.operands[1], holds), otherwise = side(node.operands[2], "!" + holds);
  return "select(" + otherwise + ", " + chosen + ", " + holds + ")";
}

std::string KernelEmitter::either(const std::string& type, const std::string& condition,
                                  const std::function<std::string()>& when_true,
                                  const std::function<std::string()>& when_false) {
  const std::string name = fresh_name();
  line("var " + name + ": " + type + ";");
  auto side = [&](const std::string& head, const std::function<std::string()>& text) {
    static_cast<void>(block(head, [&]() -> Status {
      const std::string chosen = text();
      line(name + " = " + chosen + ";");
      return {};
    }));
  };
  side("if (" + condition + ")", when_true);
  side("else", when_false);
  return name;
}

}  // namespace xyntra::wgsl
