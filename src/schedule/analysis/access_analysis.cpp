#include "schedule/analysis/access_analysis.h"

#include <algorithm>
#include <bit>

namespace xyntra {

using te::BufferInfo;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

AccessAnalysis::AccessAnalysis(const te::Formula& formula, const Target& target,
                               const SymbolBindings& nominal)
    : formula_(formula),
      target_(target),
      nominal_(nominal),
      algebra_(formula),
      lanes_(target.kind == TargetKind::Cpu ? std::max<std::int64_t>(1, target.vector_bits / 32) : 1),
      masks_(target.kind == TargetKind::Cpu && target.vector_bits >= 512) {}

bool AccessAnalysis::is_placed(te::BufferId buffer) const {
  return formula_.buffer(buffer).role != te::BufferRole::Temporary;
}

bool AccessAnalysis::keeps(te::BufferId /*buffer*/, std::size_t /*dimension*/) const { return true; }

std::int64_t AccessAnalysis::size(const Dim& dim) const {
  if (dim.is_constant()) return dim.constant();
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  SymbolBindings bindings = nominal_;
  for (const std::string& symbol : symbols) bindings.try_emplace(symbol, kTypicalSize);
  Dim bound = dim.substitute(bindings);
  return bound.is_constant() ? bound.constant() : kTypicalSize;
}

std::int64_t AccessAnalysis::vector_width(const Dim& extent) const {
  const auto count = static_cast<std::uint64_t>(std::clamp<std::int64_t>(size(extent), 1, lanes_));
  return static_cast<std::int64_t>(masks_ ? std::bit_ceil(count) : std::bit_floor(count));
}

std::int64_t AccessAnalysis::vector_steps(const Dim& extent) const {
  const std::int64_t count = std::max<std::int64_t>(1, size(extent)), width = vector_width(extent);
  return masks_ ? (count + width - 1) / width : count / width + count % width;
}

// The last cache is counted by a core's part of it; a single program finds some of the others' parts free. Measured:
// from 32 MB on, stores past the caches are faster even when the next kernel reads what they wrote.
Expr AccessAnalysis::outgrows_caches(te::BufferId buffer) const {
  constexpr std::int64_t kParts = 8;
  return target_.kind == TargetKind::Cpu ? outgrows(buffer, kParts * target_.last_level_bytes) : Expr();
}

Expr AccessAnalysis::outgrows(te::BufferId buffer, std::int64_t most) const {
  const BufferInfo& info = formula_.buffer(buffer);
  const Dim bytes = floor_div(product(info.shape) * Dim(bits_of(info.dtype)), 8);
  if (!bytes.is_constant()) return Expr::index(most) < Expr::size(bytes);
  return bytes.constant() > most ? Expr::boolean(true) : Expr();
}

bool AccessAnalysis::leaves(te::BufferId buffer) const {
  return formula_.buffer(buffer).role == te::BufferRole::Output &&
         std::ranges::none_of(formula_.stages,
                              [&](const te::Stage& stage) { return te::reads(stage, buffer); });
}

std::optional<Dim> AccessAnalysis::stride(te::BufferId buffer, std::span<const Expr> index,
                                          te::VarId along) const {
  Dim total = 0, step = 1;
  const Shape& shape = formula_.buffer(buffer).shape;
  for (std::size_t d = index.size(); d-- > 0;) {
    if (!keeps(buffer, d)) continue;
    te::LinearIndex linear = algebra_.linear(index[d]);
    for (const te::LinearIndex::Term& term : linear.terms) {
      if (term.atom->op == ExprOp::Var) {
        if (term.atom->var == along) total = total + term.coefficient * step;
      } else if (te::variables_of(term.atom).count(along)) {
        return stride_of_digits(buffer, index, along);
      }
    }
    step = step * shape[d];
  }
  return total;
}

te::LinearIndex AccessAnalysis::position(te::BufferId buffer, std::span<const Expr> index) const {
  const Shape& shape = formula_.buffer(buffer).shape;
  Expr sum = Expr::index(0);
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (keeps(buffer, d)) sum = sum * Expr::size(shape[d]) + index[d];
  }
  return algebra_.linear(sum);
}

// Digits in several dimensions may be those of one number: x[m / 4, m % 4] lies at m.
std::optional<Dim> AccessAnalysis::stride_of_digits(te::BufferId buffer, std::span<const Expr> index,
                                                    te::VarId along) const {
  Dim total = 0;
  for (const te::LinearIndex::Term& term : position(buffer, index).terms) {
    if (!te::variables_of(term.atom).count(along)) continue;
    if (term.atom->op != ExprOp::Var) return std::nullopt;
    total = total + term.coefficient;
  }
  return total;
}

bool AccessAnalysis::within_a_vector(te::BufferId buffer, std::span<const Expr> index, te::VarId along,
                                     std::int64_t width) const {
  std::vector<std::int64_t> places(static_cast<std::size_t>(width), 0);
  for (const te::LinearIndex::Term& term : position(buffer, index).terms) {
    const ExprNode& atom = *term.atom;
    if (!te::variables_of(term.atom).count(along)) continue;
    if (!term.coefficient.is_constant()) return false;
    const bool digit = (atom.op == ExprOp::FloorDiv || atom.op == ExprOp::Mod) &&
                       atom.operands[0]->op == ExprOp::Var && atom.operands[1]->op == ExprOp::Const &&
                       atom.operands[1]->int_value > 0 && width % atom.operands[1]->int_value == 0;
    if (atom.op != ExprOp::Var && !digit) return false;
    for (std::int64_t lane = 0; lane < width; ++lane) {
      const std::int64_t divisor = digit ? atom.operands[1]->int_value : 1;
      const std::int64_t value = atom.op == ExprOp::Mod ? lane % divisor : lane / divisor;
      places[static_cast<std::size_t>(lane)] += term.coefficient.constant() * value;
    }
  }
  const auto [low, high] = std::ranges::minmax(places);
  return high - low < width;
}

bool AccessAnalysis::contiguous_in_blocks(te::BufferId buffer, std::span<const Expr> index, te::VarId along,
                                          std::int64_t block) const {
  if (auto whole = stride(buffer, index, along)) return whole->is(0) || whole->is(1);
  for (std::size_t d = 0; d < index.size(); ++d) {
    for (const te::LinearIndex::Term& term : algebra_.linear(index[d]).terms) {
      if (!te::variables_of(term.atom).count(along)) continue;
      const ExprNode& atom = *term.atom;
      bool division = atom.op == ExprOp::FloorDiv || atom.op == ExprOp::Mod;
      if (!division || atom.operands[0]->op != ExprOp::Var || !atom.operands[1].is_constant()) return false;
      if (atom.operands[1]->int_value % block != 0) return false;
      if (atom.op == ExprOp::Mod && (d + 1 != index.size() || !term.coefficient.is(1))) return false;
    }
  }
  return true;
}

}  // namespace xyntra
