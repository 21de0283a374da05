// Expressions as registers or literals. Indices that 32 bits hold are computed as words.
#include "codegen/ptx/emitter.h"

namespace xyntra::ptx {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

std::string KernelEmitter::node_value(const Expr& expr) {
  std::string made = unsettled_value(expr);
  const bool settles = settled_->contains(expr.address()) && expr.address() != unsettled_;
  return settles ? arithmetic_.settled(expr.dtype(), made) : made;
}

std::string KernelEmitter::unrounded(const kir::StmtNode& store, Nans& nans) {
  const DType dtype = kernel_.buffer(store.buffer).dtype;
  const Expr& rounded = store.value;
  const bool narrow = (dtype == DType::F16 || dtype == DType::BF16) && rounded->op == ExprOp::Cast &&
                      rounded->operands[0].dtype() == DType::F32;
  nans = Nans::Kept;
  if (!narrow) return value(rounded);
  const Expr& inner = rounded->operands[0];
  if (kernel_.approximate) {
    nans = Nans::Any;
  } else if (settled_->contains(inner.address())) {
    nans = Nans::One;
    unsettled_ = inner.address();
  }
  std::string made = value(inner);
  unsettled_ = nullptr;
  return made;
}

std::string KernelEmitter::unsettled_value(const Expr& expr) {
  const ExprNode& node = *expr;
  if (node.op == ExprOp::Const) return Arithmetic::constant(node);
  if (is_position(expr)) return widened(position(expr));
  switch (node.op) {
    case ExprOp::Var: return widened(variable(node.var));
    case ExprOp::Size: return size(node.size, true);
    case ExprOp::Accumulator: internal_error("codegen: an accumulator in a kernel");
    case ExprOp::Load: {
      if (lane_) {
        if (auto found = loaded_.find({&node, *lane_}); found != loaded_.end()) return found->second;
      }
      return loaded(node, analysis_.access(node).in_bounds ? "" : guard());
    }
    case ExprOp::LoadOr: return load_or(node);
    case ExprOp::Select: return select(node);
    case ExprOp::Cast: {
      const Expr& operand = node.operands[0];
      if (operand->op == ExprOp::Var && node.dtype == DType::I32) return variable(operand->var);
      if (operand->op == ExprOp::Size && node.dtype == DType::I32) return size(operand->size, false);
      if (is_position(operand)) return arithmetic_.cast(DType::I32, node.dtype, position(operand), Nans::Any);
      return arithmetic_.cast(operand.dtype(), node.dtype, value(operand), nans_of(node));
    }
    case ExprOp::Bitcast:
      return arithmetic_.bitcast(node.operands[0].dtype(), node.dtype, value(node.operands[0]));
    case ExprOp::IsNan: return arithmetic_.is_nan(node.operands[0].dtype(), value(node.operands[0]));
    case ExprOp::IsInf: return arithmetic_.is_inf(node.operands[0].dtype(), value(node.operands[0]));
    default: break;
  }
  if (te::kind_of(node.op) == te::ExprKind::Compare) return compare(node);
  if (const Expr made = analysis_.indices().division(expr); made.defined()) return value(made);
  std::vector<std::string> operands;
  for (const Expr& operand : node.operands) operands.push_back(value(operand));
  const bool naturals = analysis_.indices().divides_naturals(node);
  if (naturals && node.dtype == DType::I32) {
    return node.op == ExprOp::Div ? arithmetic_.quotient(operands[0], operands[1])
                                  : arithmetic_.rest(operands[0], operands[1]);
  }
  return arithmetic_.arithmetic(node.op, naturals ? DType::U64 : node.dtype, operands, nans_of(node));
}

std::string KernelEmitter::compare(const ExprNode& node) {
  const Expr &a = node.operands[0], &b = node.operands[1];
  const bool positions = is_position(a) && is_position(b);
  const std::string first = positions ? position(a) : value(a);
  const std::string second = positions ? position(b) : value(b);
  return arithmetic_.compare(node.op, positions ? DType::I32 : a.dtype(), first, second);
}

std::string KernelEmitter::loaded(const ExprNode& node, const std::string& guard) {
  return load(node.buffer, analysis_.access(node).flat, guard, nans_of(node));
}

std::string KernelEmitter::is_within(const Expr& index, const Dim& extent) {
  const bool narrow = is_position(index);
  const std::string at = narrow ? position(index) : value(index), bound = size(extent, !narrow);
  const auto known = literal(at), most = literal(bound);
  if (known && most) return std::string(*known >= 0 && *known < *most ? kTrue : kFalse);
  return code_.predicate(narrow ? "setp.lt.u32" : "setp.lt.u64", {at, bound});
}

std::optional<bool> KernelEmitter::decided(const std::string& condition) {
  if (condition == kTrue || condition == kFalse) return condition == kTrue;
  return std::nullopt;
}

// ---- positions

bool KernelEmitter::is_position(const Expr& expr) { return !wide_ && analysis_.indices().is_position(expr); }

std::string KernelEmitter::position(const Expr& index) { return value(analysis_.indices().narrowed(index)); }

std::string KernelEmitter::widened(const std::string& word) {
  return literal(word) ? word : code_.wide("cvt.s64.s32", {word});
}

std::string KernelEmitter::variable(kir::VarId id) const {
  const std::string& bound = variables_.at(id.index);
  require(!bound.empty(), "codegen: a variable outside its loop");
  return bound;
}

// The value of a size, read once at the beginning.
std::string KernelEmitter::size(const Dim& dim, bool wide) {
  if (dim.is_constant()) return std::to_string(dim.constant());
  const std::string name = "size" + std::to_string(codegen::number_of(made_.sizes, dim));
  std::string& held = sizes_[name];
  if (held.empty()) {
    held = code_.fixed(Size::Long);
    prologue_ += "  ld.param.u64 " + held + ", [" + name + "];\n";
  }
  if (wide) return held;
  std::string& word = sizes_[name + " as a word"];
  if (word.empty()) {
    word = code_.fixed(Size::Word);
    prologue_ += "  cvt.u32.u64 " + word + ", " + held + ";\n";
  }
  return word;
}

}  // namespace xyntra::ptx
