// Expressions as registers or literals. Indices that 32 bits hold are computed as words.
#include <algorithm>
#include <bit>

#include "codegen/ptx/emitter.h"

namespace xyntra::ptx {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

bool divides_numbers(ExprOp op) {
  return op == ExprOp::Div || op == ExprOp::FloorDiv || op == ExprOp::Rem || op == ExprOp::Mod;
}

// Of literals, where 32 bits hold it.
std::optional<std::int64_t> folded(ExprOp op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case ExprOp::Add: return a + b;
    case ExprOp::Sub: return a - b;
    case ExprOp::Mul: return a * b;
    case ExprOp::Min: return std::min(a, b);
    case ExprOp::Max: return std::max(a, b);
    case ExprOp::Div:
    case ExprOp::FloorDiv: return a >= 0 && b > 0 ? std::optional(a / b) : std::nullopt;
    case ExprOp::Rem:
    case ExprOp::Mod: return a >= 0 && b > 0 ? std::optional(a % b) : std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace

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
    known_[Key{expr.address(), false, guard_}] = made;
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
  auto found = known_.find(Key{expr.address(), false, guard_});
  if (found != known_.end()) return found->second;
  if (guard_.empty()) return std::nullopt;
  for (auto guard = enclosing_.rbegin(); guard != enclosing_.rend(); ++guard) {
    found = known_.find(Key{expr.address(), false, *guard});
    if (found != known_.end()) return found->second;
  }
  return std::nullopt;
}

std::string KernelEmitter::node_value(const Expr& expr) {
  const ExprNode& node = *expr;
  if (node.op == ExprOp::Const) return Arithmetic::constant(node);
  if (node.dtype == DType::I64 && is_position(expr)) {
    const std::string word = position(expr);
    return literal(word) ? word : code_.wide("cvt.s64.s32", {word});
  }
  switch (node.op) {
    case ExprOp::Var: {
      const std::string word = variable(node.var);
      return literal(word) ? word : code_.wide("cvt.s64.s32", {word});
    }
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
    case ExprOp::Select: return select(node, node.dtype, [this](const Expr& side) { return value(side); });
    case ExprOp::Cast: {
      const Expr& operand = node.operands[0];
      const bool narrow = operand.dtype() == DType::I64 && is_position(operand);
      if (narrow) return arithmetic_.cast(DType::I32, node.dtype, position(operand), Nans::Any);
      return arithmetic_.cast(operand.dtype(), node.dtype, value(operand), nans_of(node));
    }
    case ExprOp::Bitcast:
      return arithmetic_.bitcast(node.operands[0].dtype(), node.dtype, value(node.operands[0]));
    case ExprOp::IsNan: return arithmetic_.is_nan(node.operands[0].dtype(), value(node.operands[0]));
    case ExprOp::IsInf: return arithmetic_.is_inf(node.operands[0].dtype(), value(node.operands[0]));
    default: break;
  }
  if (te::kind_of(node.op) == te::ExprKind::Compare) return compare(node);
  if (node.dtype == DType::I64 && divides_numbers(node.op)) return division(node);
  std::vector<std::string> operands;
  for (const Expr& operand : node.operands) operands.push_back(value(operand));
  return arithmetic_.arithmetic(node.op, node.dtype, operands, nans_of(node));
}

std::string KernelEmitter::compare(const ExprNode& node) {
  const Expr &a = node.operands[0], &b = node.operands[1];
  const bool positions = a.dtype() == DType::I64 && is_position(a) && is_position(b);
  const std::string first = positions ? position(a) : value(a);
  const std::string second = positions ? position(b) : value(b);
  return arithmetic_.compare(node.op, positions ? DType::I32 : a.dtype(), first, second);
}

// Unsigned division needs no correction.
std::string KernelEmitter::division(const ExprNode& node) {
  const Expr& divisor = node.operands[1];
  const bool positive =
      divisor->op == ExprOp::Size || (divisor->op == ExprOp::Const && divisor->int_value > 0);
  const std::string a = value(node.operands[0]), b = value(divisor);
  const DType dtype = positive && analysis_.is_natural(node.operands[0]) ? DType::U64 : DType::I64;
  const std::vector<std::string> operands{a, b};
  return arithmetic_.arithmetic(node.op, dtype, operands, Nans::Any);
}

// Each side is read only where it is chosen.
std::string KernelEmitter::select(const ExprNode& node, DType as,
                                  const std::function<std::string(const Expr&)>& side_value) {
  const std::string condition = value(node.operands[0]);
  if (condition == kTrue) return side_value(node.operands[1]);
  if (condition == kFalse) return side_value(node.operands[2]);
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
    chosen.at(side) = side_value(operand);
  }
  enclosing_.pop_back();
  guard_ = outer;
  return arithmetic_.select(as, condition, chosen[0], chosen[1]);
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

// Made of loops, sizes and numbers of 32 bits, so that 32 bits hold it. What was read from memory can be anything, so
// it is not multiplied.
bool KernelEmitter::is_position(const Expr& expr, bool may_read) {
  const ExprNode& node = *expr;
  if (wide_ || node.dtype != DType::I64) return false;
  const auto known = positions_.find({&node, may_read});
  if (known != positions_.end()) return known->second;
  auto all = [&](std::size_t first, bool read) {
    return std::all_of(node.operands.begin() + static_cast<std::ptrdiff_t>(first), node.operands.end(),
                       [&](const Expr& operand) { return is_position(operand, may_read && read); });
  };
  const auto found = [&] {
    switch (node.op) {
      case ExprOp::Const: return node.int_value >= INT32_MIN && node.int_value <= INT32_MAX;
      case ExprOp::Var:
      case ExprOp::Size: return true;
      case ExprOp::Cast: {
        const DType from = node.operands[0].dtype();
        return may_read && !is_float(from) && bits_of(from) < 32;
      }
      case ExprOp::Select: return all(1, true);
      case ExprOp::Add:
      case ExprOp::Sub:
      case ExprOp::Min:
      case ExprOp::Max: return all(0, true);
      case ExprOp::Mul:
      case ExprOp::Div:
      case ExprOp::FloorDiv:
      case ExprOp::Rem:
      case ExprOp::Mod: return all(0, false);
      default: return false;
    }
  }();
  return positions_[{&node, may_read}] = found;
}

std::string KernelEmitter::position(const Expr& index) {
  const std::string outer = guard_;
  if (!guard_.empty() && !analysis_.needs_guard(index)) guard_.clear();
  const Key key{index.address(), true, guard_};
  auto found = known_.find(key);
  if (found == known_.end()) found = known_.emplace(key, position_value(index)).first;
  guard_ = outer;
  return found->second;
}

std::string KernelEmitter::position_value(const Expr& index) {
  const ExprNode& node = *index;
  switch (node.op) {
    case ExprOp::Const: return std::to_string(node.int_value);
    case ExprOp::Var: return variable(node.var);
    case ExprOp::Size: return size(node.size, false);
    case ExprOp::Cast: {
      const DType from = node.operands[0].dtype();
      const std::string operand = value(node.operands[0]);
      return from == DType::Bool ? arithmetic_.cast(from, DType::I32, operand, Nans::Any) : operand;
    }
    case ExprOp::Select: return select(node, DType::I32, [this](const Expr& side) { return position(side); });
    default: return position_arithmetic(node);
  }
}

std::string KernelEmitter::position_arithmetic(const ExprNode& node) {
  const std::vector<std::string> operands{position(node.operands[0]), position(node.operands[1])};
  const auto a = literal(operands[0]), b = literal(operands[1]);
  if (a && b) {
    if (const auto made = folded(node.op, *a, *b); made && *made >= INT32_MIN && *made <= INT32_MAX)
      return std::to_string(*made);
  }
  const bool adds = node.op == ExprOp::Add || node.op == ExprOp::Sub;
  if (adds && b && *b == 0) return operands[0];
  if (node.op == ExprOp::Add && a && *a == 0) return operands[1];
  if (node.op == ExprOp::Mul && ((a && *a == 0) || (b && *b == 0))) return "0";
  if (node.op == ExprOp::Mul && b && *b == 1) return operands[0];
  if (node.op == ExprOp::Mul && a && *a == 1) return operands[1];
  const Expr& divisor = node.operands[1];
  const bool positive =
      divisor->op == ExprOp::Size || (divisor->op == ExprOp::Const && divisor->int_value > 0);
  const bool natural = divides_numbers(node.op) && positive && analysis_.is_natural(node.operands[0]);
  if (natural) {
    const bool whole = node.op == ExprOp::Div || node.op == ExprOp::FloorDiv;
    return whole ? arithmetic_.quotient(operands[0], operands[1])
                 : arithmetic_.rest(operands[0], operands[1]);
  }
  if (b && *b > 0 && std::has_single_bit(static_cast<std::uint64_t>(*b))) {
    if (node.op == ExprOp::FloorDiv)
      return code_.word("shr.s32",
                        {operands[0], std::to_string(std::bit_width(static_cast<std::uint64_t>(*b)) - 1)});
    if (node.op == ExprOp::Mod) return code_.word("and.b32", {operands[0], std::to_string(*b - 1)});
  }
  return arithmetic_.arithmetic(node.op, DType::I32, operands, Nans::Any);
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
