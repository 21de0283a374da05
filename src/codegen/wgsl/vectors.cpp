// Four lanes of a vector loop at once: stores of whole vectors and of whole words, and the expressions that can be computed so.
#include <algorithm>
#include <cmath>
#include <utility>

#include "codegen/wgsl/emitter.h"

namespace xyntra::wgsl {

using kir::StmtNode;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

bool KernelEmitter::vector_store(const StmtNode& node, kir::VarId lane) {
  if (!kernel_.variable(lane).extent.is(kVector) || !forms_[node.buffer.index].vectors) return false;
  const te::LinearIndex& flat = analysis_.access(node).flat;
  if (!is_along(flat, lane)) return false;
  lane_ = lane;
  begin_statement(node);
  const bool settles = settled_->count(node.value.address()) != 0;
  const bool narrow =
      std::ranges::any_of(cancelling_, [](const ExprNode* one) { return one->dtype != DType::F32; });
  if (!narrow && settled_->size() == (settles ? 1U : 0U) && is_vector(node.value)) {
    const std::string stored = vector_value(node.value);
    line(place(node.buffer, flat) + " = " +
         (settles ? operations_.settled_vector(node.value.dtype(), stored) : stored) + ";");
  } else {
    assemble(node, lane);
  }
  lane_ = {};
  return true;
}

// Four lanes that fill whole words: nobody else writes to these.
bool KernelEmitter::packed_store(const StmtNode& node, kir::VarId lane) {
  const int bits = bits_of(kernel_.buffer(node.buffer).dtype);
  const te::LinearIndex& flat = analysis_.access(node).flat;
  if (!kernel_.variable(lane).extent.is(kVector) || !atomic_[node.buffer.index] || bits < 8 ||
      !is_along(flat, lane))
    return false;
  std::vector<std::string> words;
  for (std::int64_t one = 0; one < kVector; ++one) {
    fixed_[lane.index] = one;
    begin_statement(node);
    const std::string name = fresh_name(),
                      stored = operations_.encoded(node.value.dtype(), value(node.value));
    const int shift = static_cast<int>(one) * bits % 32;
    line("let " + name + " = " + stored + (shift == 0 ? "" : " << " + std::to_string(shift) + "u") + ";");
    if (shift == 0) words.emplace_back();
    words.back() += (shift == 0 ? "" : " | ") + name;
  }
  fixed_[lane.index] = 0;
  const std::string first = quotient_text(position(flat), std::to_string(32 / bits));
  for (std::size_t i = 0; i < words.size(); ++i) {
    line("atomicStore(&" + buffer_name(node.buffer) + "[" + first +
         (i == 0 ? "" : " + " + std::to_string(i)) + "], " + words[i] + ");");
  }
  fixed_.erase(lane.index);
  return true;
}

// Four lanes one after another, between vectors that are read and written at once.
void KernelEmitter::assemble(const StmtNode& node, kir::VarId lane) {
  te::for_each_node(node.value, [&](const ExprNode& inner) {
    if (inner.op != ExprOp::Load || !forms_[inner.buffer.index].vectors) return;
    const codegen::Access& access = analysis_.access(inner);
    if (!access.in_bounds || !is_along(access.flat, lane)) return;
    const std::string name = fresh_name();
    line("let " + name + " = " + place(inner.buffer, access.flat) + ";");
    loaded_[&inner] = name;
  });
  std::string stored = operations_.vector_type(node.value.dtype()) + "(";
  for (std::int64_t one = 0; one < kVector; ++one) {
    lane_ = {};
    fixed_[lane.index] = one;
    begin_statement(node);
    stored += (one == 0 ? "" : ", ") + value(node.value);
  }
  fixed_.erase(lane.index);
  loaded_.clear();
  lane_ = lane;
  line(place(node.buffer, analysis_.access(node).flat) + " = " + stored + ");");
}

// ---- expressions

bool KernelEmitter::is_vector(const Expr& expr) {
  te::Visited seen;
  return is_vector(expr, seen);
}

bool KernelEmitter::is_vector(const Expr& expr, te::Visited& seen) {
  const ExprNode& node = *expr;
  if (!operations_.has_vectors(node.dtype)) return false;
  if (!seen.insert(&node)) return true;  // one that is not ends the walk
  switch (node.op) {
    case ExprOp::Const: return std::isfinite(node.float_value);
    case ExprOp::Load: {
      const te::LinearIndex& flat = analysis_.access(node).flat;
      const bool same = te::variables_of(expr).count(lane_) == 0;
      return same || (forms_[node.buffer.index].vectors && is_along(flat, lane_));
    }
    case ExprOp::Cast:
    case ExprOp::Add:
    case ExprOp::Sub:
    case ExprOp::Mul:
    case ExprOp::Neg:
    case ExprOp::Min:
    case ExprOp::Max:
    case ExprOp::Fma:
      if (zero_of_sum(node)) return false;
      return std::all_of(node.operands.begin(), node.operands.end(),
                         [&](const Expr& operand) { return is_vector(operand, seen); });
    case ExprOp::Select: {  // all lanes or none
      const Expr &condition = node.operands[0], &chosen = node.operands[1], &otherwise = node.operands[2];
      return te::variables_of(condition).count(lane_) == 0 && is_vector(chosen, seen) &&
             is_vector(otherwise, seen) && is_cheap(chosen) && is_cheap(otherwise);
    }
    default: return false;
  }
}

std::string KernelEmitter::vector_value(const Expr& expr) {
  if (auto known = vectors_.find(expr.address()); known != vectors_.end()) return known->second;
  std::string text = vector_text(expr);
  if (cancelling_.contains(expr.address())) text = operations_.kept_vector(text);
  const bool shared = uses_[expr.address()] > 1 && !te::is_load(*expr) && !expr.is_constant();
  if (!guard_.empty() || !(shared || text.size() > kLongText)) return text;
  const std::string name = fresh_name();
  line("let " + name + " = " + text + ";");
  return vectors_[expr.address()] = name;
}

std::string KernelEmitter::vector_text(const Expr& expr) {
  const ExprNode& node = *expr;
  auto same_in_all = [this](const Expr& one) {
    const kir::VarId lane = std::exchange(lane_, {});
    std::string text = value(one);
    lane_ = lane;
    return text;
  };
  if (te::variables_of(expr).count(lane_) == 0)
    return operations_.vector_type(node.dtype) + "(" + same_in_all(expr) + ")";
  if (node.op == ExprOp::Load) {
    const codegen::Access& access = analysis_.access(node);
    return place(node.buffer, access.flat, access.in_bounds ? "" : guard_);
  }
  if (node.op == ExprOp::Select) {
    return chosen_without_branch(node, same_in_all(node.operands[0]),
                                 [this](const Expr& side) { return vector_value(side); });
  }
  std::vector<std::string> operands;
  for (const Expr& operand : node.operands) operands.push_back(vector_value(operand));
  if (node.op == ExprOp::Cast) {
    const bool rounds = operations_.is_half(node.dtype) && node.operands[0].dtype() != DType::F16;
    return rounds && &node != stored_half_ ? operations_.rounded_vector(operands[0])
                                           : operations_.vector_cast(node.dtype, operands[0]);
  }
  if (is_sum_of_halves(node)) return operations_.sum_of_halves(node.op, operands);
  return operations_.vector_arithmetic(node.op, node.dtype, operands);
}

}  // namespace xyntra::wgsl
