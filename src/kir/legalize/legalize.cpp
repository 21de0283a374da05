#include "kir/legalize/legalize.h"

#include <algorithm>

#include "kir/legalize/arithmetic.h"
#include "kir/legalize/float_codes.h"
#include "kir/legalize/identities.h"
#include "kir/legalize/lanes.h"
#include "kir/legalize/narrow_floats.h"
#include "te/walk.h"

namespace xyntra::kir {
namespace {

using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::ExprOp;

bool is_lacking(DType dtype, const TargetOps& target) {
  return is_float(dtype) && (bits_of(dtype) < 16 || (dtype == DType::F16 && !target.converts_f16));
}

class Arithmetic {
 public:
  explicit Arithmetic(const TargetOps& target)
      : target_(target),
        rewrite_([this](const Expr& expr) { return legal(*expr); }),
        in_range_([this](const Expr& expr) { return in_range(*expr, target_); }) {}
  bool sees_lacking_floats() const { return sees_lacking_floats_; }

  Stmt operator()(const Stmt& statement) {
    if (!statement.defined()) return statement;
    return with_parts(
        statement,
        [this](const Expr& expr) { return in_range_(rewrite_(te::expand_math(expr, target_.scaling))); },
        [this](const Stmt& inner) { return (*this)(inner); });
  }

 private:
  Expr legal(const ExprNode& node) {
    sees_lacking_floats_ = sees_lacking_floats_ || is_lacking(node.dtype, target_);
    const ExprKind kind = te::kind_of(node.op);
    if (node.op == ExprOp::Cast) return legal_cast(node);
    if (kind != ExprKind::Arithmetic && kind != ExprKind::Compare) return {};
    const DType dtype = node.operands[0].dtype();
    if (dtype == DType::Bool) return legal_bool(node);
    if (kind == ExprKind::Compare) return {};
    return is_float(dtype) ? legal_float(node, target_) : legal_integer(node);
  }

  // One rounding, not two.
  static Expr legal_cast(const ExprNode& node) {
    const bool twice =
        node.operands[0].dtype() == DType::F64 && is_float(node.dtype) && bits_of(node.dtype) == 16;
    return twice ? te::cast(node.dtype, odd_single(node.operands[0]), node.cast) : Expr();
  }

  const TargetOps target_;
  te::Rewriter rewrite_, in_range_;
  bool sees_lacking_floats_ = false;
};

Stmt with_specials(const Stmt& statement, te::Rewriter& rewrite) {
  if (!statement.defined()) return statement;
  return with_parts(
      statement, [&](const Expr& expr) { return rewrite(expr); },
      [&](const Stmt& inner) { return with_specials(inner, rewrite); });
}

}  // namespace

Kernel legalize(const Kernel& kernel, const TargetOps& target) {
  Kernel made = kernel;
  Arithmetic arithmetic(target);
  made.body = arithmetic(kernel.body);
  const auto is_missing = [&target](DType dtype) { return is_lacking(dtype, target); };
  const bool is_held = std::ranges::any_of(
      made.buffers, [&](const Buffer& buffer) { return is_lacking(buffer.dtype, target); });
  if (is_held || arithmetic.sees_lacking_floats()) made = without_narrow_floats(made, is_missing);
  if (!target.keeps_specials) {
    te::Rewriter rewrite([](const Expr& expr) { return by_bits(*expr); });
    made.body = with_specials(made.body, rewrite);
  }
  if (!target.has_lanes) made.body = with_lanes_apart(made.body);
  return made;
}

}  // namespace xyntra::kir
