#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "support/text/text.h"
#include "te/spelling.h"

namespace xyntra::te {

const char* name_of(Reducer reducer) {
  switch (reducer) {
    case Reducer::None: return "";
    case Reducer::Sum: return "sum";
    case Reducer::Product: return "prod";
    case Reducer::Max: return "max";
    case Reducer::Min: return "min";
    case Reducer::Largest: return "largest";
  }
  return "";
}

const char* name_of(Combiner combiner) {
  switch (combiner) {
    case Combiner::Replace: return "=";
    case Combiner::Add: return "+=";
    case Combiner::Multiply: return "*=";
    case Combiner::Max: return "max=";
    case Combiner::Min: return "min=";
  }
  return "=";
}

namespace {

std::string spell_number(double value, DType dtype) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string spelled = dtype == DType::F64 ? format_float(value) : format_float(static_cast<float>(value));
  if (spelled.find_first_of(".en") == std::string::npos) spelled += ".0";
  return spelled;
}

constexpr std::int64_t kMostInline = 24;  // nodes of what is used several times

class Printer {
 public:
  explicit Printer(const Formula& formula) : formula_(formula) {}

  std::string print(const Expr& expr, int outer = 0) const {
    const ExprNode& node = *expr;
    if (auto named = names_.find(&node); named != names_.end()) return named->second;
    switch (node.op) {
      case ExprOp::Const: return constant(node);
      case ExprOp::Var: return formula_.variable(node.var).name;
      case ExprOp::Size:
        return node.size.is_symbol() ? node.size.to_string() : "(" + node.size.to_string() + ")";
      case ExprOp::Accumulator: return "acc";
      case ExprOp::Load: return formula_.buffer(node.buffer).name + index(node.operands, 0);
      case ExprOp::LoadOr:
        return "(" + formula_.buffer(node.buffer).name + index(node.operands, 1) + " or " +
               print(node.operands[0]) + ")";
      case ExprOp::Cast:
        return std::string(xyntra::name_of(node.dtype)) + "(" + print(node.operands[0]) + ")";
      case ExprOp::Bitcast:
        return "bits_" + std::string(xyntra::name_of(node.dtype)) + "(" + print(node.operands[0]) + ")";
      default: break;
    }
    if (node.operands.size() == 2 && precedence_of(node.op) > 0) {
      int own = precedence_of(node.op);
      std::string text =
          print(node.operands[0], own) + " " + spelling_of(node.op) + " " + print(node.operands[1], own + 1);
      return own < outer ? "(" + text + ")" : text;
    }
    if (node.op == ExprOp::Neg || node.op == ExprOp::Not)
      return spelling_of(node.op) + print(node.operands[0], 7);
    std::string text = std::string(spelling_of(node.op)) + "(";
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      text += (i == 0 ? "" : ", ") + print(node.operands[i]);
    return text + ")";
  }

  std::string index(const std::vector<Expr>& operands, std::size_t first) const {
    std::string text = "[";
    for (std::size_t i = first; i < operands.size(); ++i)
      text += (i == first ? "" : ", ") + print(operands[i]);
    return text + "]";
  }

  std::string loops(const std::vector<VarId>& vars) const {
    std::string text;
    for (VarId var : vars) {
      const Variable& variable = formula_.variable(var);
      text += (text.empty() ? "" : ", ") + variable.name + " < " + variable.extent.to_string();
    }
    return text;
  }

  std::string print(const Stage& stage, const std::string& indent) {
    std::string lets = name_shared(stage, indent);
    std::string text = print_stage(stage, indent);
    names_.clear();
    return lets + text;
  }

 private:
  std::string name_shared(const Stage& stage, const std::string& indent) {
    SharedExprs shared(kMostInline);
    for (const Expr& expr : {stage.body, stage.finish, stage.guard}) shared.collect(expr);
    for (const Expr& expr : stage.store) shared.collect(expr);
    std::string text;
    for (const Expr& expr : shared.named()) {
      std::string name = "v" + std::to_string(names_.size());
      text += indent + "let " + name + " = " + print(expr) + "\n";
      names_.emplace(expr.address(), name);
    }
    return text;
  }

  std::string print_stage(const Stage& stage, const std::string& indent) {
    if (stage.kind == Stage::Kind::Scan) {
      std::string text = indent + "scan " + loops({stage.step}) + " {\n";
      for (const Stage& inner : stage.stages) text += print(inner, indent + "  ");
      for (const Carried& carried : stage.carried) {
        text += indent + "  carry " + formula_.buffer(carried.state).name + " <- " +
                formula_.buffer(carried.next).name + "\n";
      }
      return text + indent + "}\n";
    }
    std::string target = formula_.buffer(stage.target).name + index(stage.store, 0);
    std::string domain = stage.axes.empty() ? "" : "  for " + loops(stage.axes);
    if (stage.kind == Stage::Kind::Scatter) {
      std::string guard = stage.guard.defined() ? " if " + print(stage.guard) : "";
      return indent + "scatter " + target + " " + name_of(stage.combiner) + " " + print(stage.body) + guard +
             domain + "\n";
    }
    std::string body = print(stage.body, stage.reducer == Reducer::None ? 0 : 6);
    if (stage.reducer != Reducer::None) {
      body = std::string(name_of(stage.reducer)) + "(" + loops(stage.reduction) + ") " + body;
    }
    if (stage.finish.defined()) body += "  then " + print(stage.finish);
    return indent + target + " = " + body + domain + "\n";
  }

  std::string constant(const ExprNode& node) const {
    if (is_float(node.dtype)) return spell_number(node.float_value, node.dtype);
    if (node.dtype == DType::Bool) return node.int_value != 0 ? "true" : "false";
    if (node.dtype == DType::U64) return std::to_string(static_cast<std::uint64_t>(node.int_value));
    return std::to_string(node.int_value);
  }

  const Formula& formula_;
  std::unordered_map<const ExprNode*, std::string> names_;  // of shared expressions, within one stage
};

}  // namespace

std::string to_string(const Formula& formula, const Expr& expr) { return Printer(formula).print(expr); }

std::string to_string(const Formula& formula) {
  std::string inputs, outputs, temporaries;
  for (const BufferInfo& buffer : formula.buffers) {
    std::string declared =
        buffer.name + ": " + std::string(name_of(buffer.dtype)) + xyntra::to_string(buffer.shape);
    std::string& list = buffer.role == BufferRole::Input    ? inputs
                        : buffer.role == BufferRole::Output ? outputs
                                                            : temporaries;
    list += (list.empty() ? "" : ", ") + declared;
  }
  std::string text = "formula " + formula.name + "(" + inputs + ") -> (" + outputs + ")\n";
  if (!temporaries.empty()) text += "  temporary " + temporaries + "\n";
  Printer printer(formula);
  for (const Stage& stage : formula.stages) text += printer.print(stage, "  ");
  return text;
}

}  // namespace xyntra::te
