#include "kir/legalize/narrow_floats.h"

#include <unordered_map>

#include "kir/legalize/float_codes.h"
#include "te/walk.h"
#include "types/float_formats.h"

namespace xyntra::kir {
namespace {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

constexpr te::CastMode kAsItIs{.saturate = false};  // a value of the dtype, an infinity too

DType code_type(DType dtype) {
  switch (bits_of(dtype)) {
    case 16: return DType::U16;
    case 8: return DType::U8;
    default: return DType::U4;
  }
}

class NarrowFloats {
 public:
  NarrowFloats(const Kernel& kernel, const std::function<bool(DType)>& is_lacking)
      : kernel_(kernel), is_lacking_(is_lacking) {}

  Kernel run() {
    Kernel made = kernel_;
    for (Buffer& buffer : made.buffers) {
      if (is_lacking_(buffer.dtype))
        buffer.dtype = buffer.scope == Scope::Register ? DType::F32 : code_type(buffer.dtype);
    }
    made.body = rebuilt(kernel_.body);
    return made;
  }

 private:
  Stmt rebuilt(const Stmt& statement) {
    if (!statement.defined()) return statement;
    Stmt made = with_parts(
        statement, [this](const Expr& expr) { return value(expr); },
        [this](const Stmt& inner) { return rebuilt(inner); });
    if (made->kind != StmtNode::Kind::Store || !holds_codes(made->buffer)) return made;
    const DType dtype = kernel_.buffer(made->buffer).dtype;
    StmtNode store = *made;
    store.value = te::cast(code_type(dtype), code_of(dtype, store.value));
    return Stmt::of(std::move(store));
  }

  bool holds_codes(BufferId id) const {
    const Buffer& buffer = kernel_.buffer(id);
    return is_lacking_(buffer.dtype) && buffer.scope != Scope::Register;
  }

  // The expression with an f32 in the place of each float that is lacking.
  Expr value(const Expr& expr) {
    if (auto known = known_.find(expr.address()); known != known_.end()) return known->second;
    std::vector<Expr> operands;
    bool differs = false;
    for (const Expr& operand : expr->operands) {
      operands.push_back(value(operand));
      differs = differs || operands.back().address() != operand.address();
    }
    Expr made = replaced(*expr, operands);
    if (!made.defined()) made = differs ? te::with_operands(expr, std::move(operands)) : expr;
    kept_.push_back(expr);
    return known_[expr.address()] = made;
  }

  // Undefined where operands alone are others.
  Expr replaced(const ExprNode& node, const std::vector<Expr>& o) {
    if (te::is_load(node)) return is_lacking_(kernel_.buffer(node.buffer).dtype) ? loaded(node, o) : Expr();
    if (node.op == ExprOp::Bitcast) return moved(node.operands[0].dtype(), node.dtype, o[0]);
    if (!is_lacking_(node.dtype)) return {};
    if (node.op == ExprOp::Const)
      return Expr::floating(DType::F32, round_to(node.dtype, static_cast<float>(node.float_value)));
    if (node.op != ExprOp::Cast) return {};
    return rounded(node.dtype, node.cast, te::cast(DType::F32, o[0]));
  }

  Expr loaded(const ExprNode& node, std::vector<Expr> o) {
    const DType dtype = kernel_.buffer(node.buffer).dtype;
    const bool codes = holds_codes(node.buffer);
    const DType held = codes ? code_type(dtype) : DType::F32;
    Expr made;
    if (node.op == ExprOp::Load) {
      made = Expr::load(node.buffer, held, std::move(o));
    } else {
      const Expr fallback = codes ? te::cast(held, code_of(dtype, o[0])) : o[0];
      made = Expr::load_or(fallback, node.buffer, {o.begin() + 1, o.end()});
    }
    return codes ? decoded(dtype, te::cast(DType::I32, made)) : made;
  }

  Expr moved(DType from, DType to, const Expr& x) {
    if (!is_lacking_(from) && !is_lacking_(to)) return {};
    const DType word = code_type(is_lacking_(from) ? from : to);
    const Expr code = is_lacking_(from) ? code_of(from, x) : te::cast(DType::I32, te::bitcast(word, x));
    return is_lacking_(to) ? decoded(to, code) : te::bitcast(to, te::cast(word, code));
  }

  Expr rounded(DType dtype, te::CastMode mode, const Expr& x) {
    const Expr code = encoded(dtype, bits_of(dtype) == 16 ? kAsItIs : mode, x), made = decoded(dtype, code);
    codes_.emplace(made.address(), code);
    kept_.push_back(made);
    return made;
  }

  // Of a value that the dtype can represent.
  Expr code_of(DType dtype, const Expr& x) {
    if (auto known = codes_.find(x.address()); known != codes_.end()) return known->second;
    return encoded(dtype, kAsItIs, x);
  }

  const Kernel& kernel_;
  const std::function<bool(DType)>& is_lacking_;
  std::unordered_map<const ExprNode*, Expr> known_, codes_;
  std::vector<Expr> kept_;  // so that addresses stay those of living nodes
};

}  // namespace

Kernel without_narrow_floats(const Kernel& kernel, const std::function<bool(DType)>& is_lacking) {
  return NarrowFloats(kernel, is_lacking).run();
}

}  // namespace xyntra::kir
