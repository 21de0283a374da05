// Expressions as registers or literals. Indices that 32 bits hold are computed as words.
#include "codegen/ptx/emitter.h"

namespace xyntra::ptx {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

std::string KernelEmitter::value(const Expr& expr) {
  const std::string outer = guard_;
  if (!guard_.empty() && !analysis_.needs_guard(expr)) guard_.clear();
  std::string made;
  if (const auto known = known_value(expr)) {
    made = *known;
  } else {
    made = node_value(expr);
    if (settled_->count(expr.address()) != 0 && expr.address() != unsettled_)
      made = arithmetic_.settled(expr.dtype(), made);
    known_[Key{expr.address(), guard_}] = made;
  }
  guard_ = outer;
  return made;
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

// What was computed where more is read serves where less is: a condition's operand on both sides of its select.
std::optional<std::string> KernelEmitter::known_value(const Expr& expr) const {
  auto found = known_.find(Key{expr.address(), guard_});
  if (found != known_.end()) return found->second;
  if (guard_.empty()) return std::nullopt;
  for (auto guard = enclosing_.rbegin(); guard != enclosing_.rend(); ++guard) {
    found = known_.find(Key{expr.address(), *guard});
    if (found != known_.end()) return found->second;
  }
  return std::nullopt;
}

std::string KernelEmitter::node_value(const Expr& expr) {
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
      const codegen::Access& access = analysis_.access(node);
      return load(node.buffer, access.flat, access.in_bounds ? "" : guard_, nans_of(node));
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

// Each side is read only where it is chosen.
std::string KernelEmitter::select(const ExprNode& node) {
  const std::string condition = value(node.operands[0]);
  if (condition == kTrue) return value(node.operands[1]);
  if (condition == kFalse) return value(node.operands[2]);
  const std::string outer = guard_;
  enclosing_.push_back(outer);
  std::array<std::string, 2> chosen;
  for (std::size_t side = 0; side < 2; ++side) {
    const Expr& operand = node.operands[1 + side];
    guard_.clear();
    if (analysis_.needs_guard(node, 1 + side)) {
      guard_ = code_.both(outer, side == 0 ? condition : code_.negated(condition));
    } else if (analysis_.needs_guard(operand)) {
      guard_ = outer;
    }
    chosen.at(side) = value(operand);
  }
  enclosing_.pop_back();
  guard_ = outer;
  return arithmetic_.select(node.dtype, condition, chosen[0], chosen[1]);
}

std::string KernelEmitter::load_or(const ExprNode& node) {
  const codegen::Access& access = analysis_.access(node);
  const kir::Buffer& buffer = kernel_.buffer(node.buffer);
  std::string inside;
  for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
    if (access.within[d]) continue;
    const Expr& index = node.operands[1 + d];
    const bool narrow = is_position(index);
    const std::string at = narrow ? position(index) : value(index), bound = size(buffer.shape[d], !narrow);
    const auto known = literal(at), most = literal(bound);
    const std::string within = known && most
                                   ? std::string(*known >= 0 && *known < *most ? kTrue : kFalse)
                                   : code_.predicate(narrow ? "setp.lt.u32" : "setp.lt.u64", {at, bound});
    inside = code_.both(inside, within);
  }
  if (inside.empty()) return load(node.buffer, access.flat, "", nans_of(node));
  const std::string outer = guard_;
  const std::string element = load(node.buffer, access.flat, code_.both(outer, inside), nans_of(node));
  guard_.clear();
  if (analysis_.needs_guard(node.operands[0])) guard_ = code_.both(outer, code_.negated(inside));
  enclosing_.push_back(outer);
  const std::string fallback = value(node.operands[0]);
  enclosing_.pop_back();
  guard_ = outer;
  return arithmetic_.select(node.dtype, inside, element, fallback);
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
  std::size_t number = 0;
  while (number < made_.sizes.size() && !(made_.sizes[number] == dim)) ++number;
  if (number == made_.sizes.size()) made_.sizes.push_back(dim);
  const std::string name = "size" + std::to_string(number);
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
