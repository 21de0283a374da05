#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "kir/kernel.h"
#include "kir/text_words.h"
#include "support/text/text.h"
#include "te/spelling.h"
#include "te/walk.h"

namespace xyntra::kir {
namespace {

using te::ExprNode;
using te::ExprOp;

constexpr std::int64_t kMostInline = 12;  // nodes of what is used several times

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel), names_(kernel.variables.size()) {
    for (const Buffer& buffer : kernel.buffers) taken_.insert(buffer.name);
    std::vector<std::string> sizes;
    for (const Buffer& buffer : kernel.buffers) {
      for (const Dim& dim : buffer.shape) dim.collect_symbols(sizes);
    }
    sizes_.insert(sizes.begin(), sizes.end());
    for (std::size_t i = 0; i < names_.size(); ++i) names_[i] = kernel.variables[i].name;
  }

  std::string kernel() {
    std::string arguments, text;
    for (const Buffer& buffer : kernel_.buffers) {
      if (buffer.scope != Scope::Global) continue;
      arguments +=
          (arguments.empty() ? "" : ", ") + declared(buffer) + " global" + (buffer.written ? " out" : "");
    }
    text = "kernel " + kernel_.name + "(" + arguments + ")" + (kernel_.approximate ? " approximate" : "") +
           (kernel_.registers != 0 ? " registers " + std::to_string(kernel_.registers) : "") + " {\n";
    for (const Buffer& buffer : kernel_.buffers) {
      if (buffer.scope == Scope::Global) continue;
      text += std::string("  ") + name_of(buffer.scope) + " " + declared(buffer);
      if (buffer.swizzle != Swizzle::None) text += std::string(" swizzle ") + spelling_of(buffer.swizzle);
      text += "\n";
    }
    if (kernel_.body.defined()) text += body(kernel_.body, "  ");
    return text + "}\n";
  }

  std::string expression(const Expr& expr, int outer = 0) const {
    const ExprNode& node = *expr;
    if (auto named = shared_.find(&node); named != shared_.end()) return named->second;
    switch (node.op) {
      case ExprOp::Const: return constant(node);
      case ExprOp::Var: return names_.at(node.var.index);
      case ExprOp::Size: return size(node.size);
      case ExprOp::Accumulator: return "acc";
      case ExprOp::Load: return kernel_.buffer(node.buffer).name + index(node.operands);
      case ExprOp::LoadOr:
        return "load_or(" + kernel_.buffer(node.buffer).name + index(te::index_of(node)) + ", " +
               expression(node.operands[0]) + ")";
      case ExprOp::Cast: return cast(node);
      case ExprOp::Bitcast:
        return "bits_" + std::string(xyntra::name_of(node.dtype)) + "(" + expression(node.operands[0]) + ")";
      default: break;
    }
    if (int own = precedence_of(node.op); own > 0) {
      std::string text = expression(node.operands[0], own) + " " + te::spelling_of(node.op) + " " +
                         expression(node.operands[1], own + 1);
      return own < outer ? "(" + text + ")" : text;
    }
    if (node.op == ExprOp::Neg || node.op == ExprOp::Not) {
      // "-1" is a constant: the negation of one needs its parentheses.
      std::string inner = expression(node.operands[0], kTightest);
      if (node.operands[0].is_constant()) inner = "(" + inner + ")";
      return te::spelling_of(node.op) + inner;
    }
    std::string text = std::string(te::spelling_of(node.op)) + "(";
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      text += (i == 0 ? "" : ", ") + expression(node.operands[i]);
    }
    return text + ")";
  }

 private:
  static std::string declared(const Buffer& buffer) {
    return buffer.name + ": " + std::string(name_of(buffer.dtype)) + to_string(buffer.shape);
  }

  std::string cast(const ExprNode& node) const {
    std::string text = std::string(name_of(node.dtype)) + "(" + expression(node.operands[0]);
    if (node.cast == te::CastMode{}) return text + ")";
    return text + ", " + (node.cast.saturate ? "saturate" : "overflow") + ", " +
           std::string(kScaleRoundings[node.cast.scale_rounding]) + ")";
  }

  std::string index(const std::vector<Expr>& operands) const {
    std::string text = "[";
    for (std::size_t i = 0; i < operands.size(); ++i) text += (i == 0 ? "" : ", ") + expression(operands[i]);
    return text + "]";
  }

  std::string size(const Dim& dim) const {
    std::string text = dim.to_string();
    bool plain = dim.is_symbol() && sizes_.count(text) != 0 && is_plain_identifier(text) &&
                 !is_reserved(text) && taken_.count(text) == 0;
    return plain ? text : "size(" + text + ")";
  }

  static std::string constant(const ExprNode& node) {
    std::string text;
    if (node.dtype == DType::Bool) return node.int_value != 0 ? "true" : "false";
    if (is_float(node.dtype)) {
      text = spelled(node.float_value, node.dtype);
    } else {
      text = node.dtype == DType::U64 ? std::to_string(static_cast<std::uint64_t>(node.int_value))
                                      : std::to_string(node.int_value);
    }
    bool implied = node.dtype == DType::I64 || node.dtype == DType::F32;
    return implied ? text : text + "_" + std::string(name_of(node.dtype));
  }

  static std::string spelled(double value, DType dtype) {
    if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    std::string text = dtype == DType::F32 ? format_float(static_cast<float>(value)) : format_float(value);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }

  // ---- statements

  std::string body(const Stmt& statement, const std::string& indent) {
    if (statement->kind != StmtNode::Kind::Block) return print(*statement, indent);
    std::string text;
    for (const Stmt& inner : statement->body) text += print(*inner, indent);
    return text;
  }

  std::string print(const StmtNode& node, const std::string& indent) {
    using Kind = StmtNode::Kind;
    std::string text = name_shared(node, indent) + indent;
    switch (node.kind) {
      case Kind::Block: {
        std::string inner;
        for (const Stmt& one : node.body) inner += print(*one, indent);
        return inner;
      }
      case Kind::Loop: {
        enter(node.var);
        text += std::string(name_of(node.loop)) + " " + names_[node.var.index] + " < " +
                kernel_.variable(node.var).extent.to_string() + " {\n" +
                body(node.body.front(), indent + "  ") + indent + "}\n";
        taken_.erase(names_[node.var.index]);
        return text;
      }
      case Kind::If: {
        text += "if " + expression(node.condition) + " {\n";
        shared_.clear();
        text += body(node.body[0], indent + "  ") + indent + "}";
        if (node.body.size() > 1) text += " else {\n" + body(node.body[1], indent + "  ") + indent + "}";
        return text + "\n";
      }
      case Kind::Store:
        if (node.condition.defined()) text += "stream " + expression(node.condition) + " : ";
        text += kernel_.buffer(node.buffer).name + index(node.index) + " = " + expression(node.value) + "\n";
        break;
      case Kind::Check:
        text += "check " + kernel_.buffer(node.buffer).name + "." + std::to_string(node.dimension) + " : " +
                expression(node.index.front()) + "\n";
        break;
      case Kind::Call: {
        text += std::string(spelling_of(node.intrinsic)) + "(";
        for (std::size_t i = 0; i < node.operands.size(); ++i) {
          const Operand& operand = node.operands[i];
          text += i == 0 ? "" : ", ";
          text += operand.buffer.valid() ? kernel_.buffer(operand.buffer).name + index(operand.index)
                                         : expression(operand.value);
        }
        text += ")\n";
        break;
      }
    }
    shared_.clear();
    return text;
  }

  std::string name_shared(const StmtNode& node, const std::string& indent) {
    te::SharedExprs shared(kMostInline);
    for_each_expr(node, [&shared](const Expr& expr) { shared.collect(expr); });
    std::string text;
    for (const Expr& expr : shared.named()) {
      std::string name = "%" + std::to_string(next_shared_++);
      text += indent + "let " + name + " = " + expression(expr) + "\n";
      shared_.emplace(expr.address(), name);
    }
    return text;
  }

  // A loop's name, or one made of it, that nothing around it bears.
  void enter(VarId var) {
    std::string wanted = kernel_.variable(var).name;
    if (!is_plain_identifier(wanted)) wanted = "v";
    std::string name = wanted;
    for (int i = 1;
         taken_.count(name) != 0 || sizes_.count(name) != 0 || is_reserved(name) || is_function(name); ++i) {
      name = wanted + "_" + std::to_string(i);
    }
    names_[var.index] = name;
    taken_.insert(name);
  }

  const Kernel& kernel_;
  std::vector<std::string> names_;  // of loop variables, as entered
  std::set<std::string> taken_, sizes_;  // buffers and loops around; sizes that stand in a shape
  std::unordered_map<const ExprNode*, std::string> shared_;
  int next_shared_ = 0;
};

}  // namespace

bool is_function(std::string_view word) {
  for (int i = 0; i <= static_cast<int>(ExprOp::Pow); ++i) {
    if (is_function(static_cast<ExprOp>(i)) && word == te::spelling_of(static_cast<ExprOp>(i))) return true;
  }
  return false;
}

bool is_reserved(std::string_view word) {
  constexpr std::string_view kWords[] = {"kernel", "global", "workspace", "shared",   "register", "out",
                                         "for",    "vector", "grid",      "unrolled", "thread",   "if",
                                         "else",   "let",    "check",     "true",     "false",    "inf",
                                         "nan",    "size",   "load_or",   "swizzle",  "stream",   "cluster"};
  static const std::set<std::string, std::less<>> kReserved = [&] {
    std::set<std::string, std::less<>> words(std::begin(kWords), std::end(kWords));
    for (DType dtype : all_dtypes()) {
      words.insert(std::string(name_of(dtype)));
      for (const char* prefix : {"bits_", "inf_", "nan_"}) words.insert(prefix + std::string(name_of(dtype)));
    }
    for (std::size_t i = 0; i < kIntrinsicCount; ++i) {
      words.insert(spelling_of(static_cast<Intrinsic>(i)));
    }
    return words;
  }();
  return kReserved.count(word) != 0;
}

std::string to_string(const Kernel& kernel) { return Printer(kernel).kernel(); }

std::string to_string(const Kernel& kernel, const Expr& expr) {
  constexpr std::int64_t kMostNodes = 1000;  // nobody reads a longer one
  if (te::SharedExprs::written_out(expr) > kMostNodes)
    return "of more than " + std::to_string(kMostNodes) + " terms";
  return Printer(kernel).expression(expr);
}

std::unordered_map<const StmtNode*, std::uint32_t> lines_of(const Kernel& kernel) {
  auto statements = [](const Stmt& root) {
    std::vector<const StmtNode*> found;
    for_each_statement(root, [&found](const StmtNode& node) {
      if (node.kind != StmtNode::Kind::Block) found.push_back(&node);
    });
    return found;
  };
  std::unordered_map<const StmtNode*, std::uint32_t> lines;
  std::vector<const StmtNode*> own = statements(kernel.body);
  bool read = std::all_of(own.begin(), own.end(), [](const StmtNode* node) { return node->line != 0; });
  auto printed = read ? Result<Kernel>(Kernel{}) : parse_kernel(to_string(kernel));
  std::vector<const StmtNode*> others = printed ? statements(printed->body) : std::vector<const StmtNode*>();
  for (std::size_t i = 0; i < own.size(); ++i) {
    bool matched = !read && own.size() == others.size();
    lines.emplace(own[i], matched ? others[i]->line : own[i]->line);
  }
  return lines;
}

}  // namespace xyntra::kir
