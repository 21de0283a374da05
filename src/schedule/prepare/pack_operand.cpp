#include "schedule/prepare/pack_operand.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <ranges>

#include "schedule/choose.h"
#include "te/compose/compose.h"
#include "te/index/index.h"

namespace xyntra {

using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Formula;
using te::LinearIndex;
using te::Stage;
using te::VarId;

namespace {

constexpr std::int64_t kFewestReads = 4;  // of a place, for which it is worth being packed
constexpr int kMixed = 2;  // rank of what windows walk along
constexpr std::int64_t kMostTimes = 4;  // that a packed operand may be as large as what it is packed from

class Packing {
 public:
  Packing(Formula& formula, const Stage& stage, Expr part, const SymbolBindings& nominal)
      : formula_(formula),
        stage_(stage),
        part_(std::move(part)),
        neighbours_(result_neighbours(formula, stage, part_)) {
    sizes_.nominal = nominal;
  }

  std::optional<PackedOperand> run(Packed which) {
    const bool computed = is_computed();
    if (!computed && !(which == Packed::Strided && is_strided())) return std::nullopt;
    if (!reads_along_sum()) return std::nullopt;
    if (!find_walks(part_)) return std::nullopt;
    const std::int64_t walked = places();
    split_overlapping();
    const bool windows = std::ranges::any_of(walks_, [this](const Walk& walk) { return is_window(walk); });
    if (((which == Packed::Windows || !computed) && !windows) || !is_worth_it(walked)) return std::nullopt;
    std::ranges::stable_sort(walks_, {}, [this](const Walk& walk) { return rank_of(walk); });
    PackedOperand made;
    Shape shape;
    std::vector<Expr> place;
    for (Walk& walk : walks_) {
      walk.axis = VarId(formula_.variables.size());
      formula_.variables.push_back({"p" + std::to_string(walk.axis.index), walk.extent});
      made.stage.axes.push_back(walk.axis);
      made.stage.store.push_back(Expr::variable(walk.axis));
      shape.push_back(walk.extent);
      place.push_back(te::IndexAlgebra(formula_).expr(walk.terms));
    }
    const te::BufferId target(formula_.buffers.size());
    formula_.buffers.push_back({target, "p" + std::to_string(target.index), part_.dtype(), std::move(shape),
                                te::BufferRole::Temporary, -1});
    made.stage.target = target;
    made.stage.body = at_axes(part_);
    made.part = part_;
    made.instead = Expr::load(target, part_.dtype(), std::move(place));
    return made;
  }

 private:
  struct Walk {
    LinearIndex terms;  // without a constant
    Dim extent;
    VarId axis;
  };

  // ---- whether

  // Anything but loads at sums of loops, or at digits of them that take a shift and a mask.
  bool is_computed() const {
    bool found = te::work_of(part_) > 0;
    te::for_each_node(part_, [&](const ExprNode& node) {
      const bool bound = (node.op == ExprOp::Min || node.op == ExprOp::Max) && node.dtype == DType::I64;
      found = found || bound || te::chooses_by_place(node) || node.op == ExprOp::LoadOr;
      const bool divides = node.op == ExprOp::FloorDiv || node.op == ExprOp::Mod;
      if (!divides || !is_one_loop(node.operands[0])) found = found || divides;
      if (divides) found = found || !is_power_of_two(node.operands[1]);
    });
    return found;
  }
  static bool is_one_loop(const Expr& index) { return te::variables_of(index).size() < 2; }
  static bool is_power_of_two(const Expr& divisor) {
    return divisor->op == ExprOp::Const && divisor->int_value > 0 &&
           std::has_single_bit(static_cast<std::uint64_t>(divisor->int_value));
  }

  bool is_strided() const {
    if (neighbours_.empty() || part_->op != ExprOp::Load) return false;
    if (formula_.buffer(part_->buffer).role == te::BufferRole::Temporary) return false;  // packed already
    const Shape& shape = formula_.buffer(part_->buffer).shape;
    Expr position = Expr::index(0);
    for (std::size_t d = 0; d < shape.size(); ++d)
      position = position * Expr::size(shape[d]) + part_->operands[d];
    const LinearIndex flat = te::IndexAlgebra(formula_).linear(position);
    const LinearIndex::Term* term = flat.find(neighbours_.front());
    if (term == nullptr || term->coefficient.is(1)) return false;
    // Only where it is not as far apart when packed: 2 i + 2 j walks as i + j, but 2 i + 2 j + k does not.
    return std::ranges::any_of(part_->operands, [&](const Expr& index) {
      const auto found = linear(index);
      if (!found || found->find(neighbours_.front()) == nullptr) return false;
      return by_ones(*found).find(neighbours_.front())->coefficient.is(1);
    });
  }

  bool reads_along_sum() const {
    const std::set<VarId> used = te::variables_of(part_);
    return std::ranges::any_of(stage_.reduction, [&](VarId loop) { return used.contains(loop); });
  }

  std::int64_t places() const {
    std::int64_t product = 1;
    for (const Walk& walk : walks_) {
      if (__builtin_mul_overflow(product, std::max<std::int64_t>(1, nominal(walk.extent, sizes_)), &product))
        return INT64_MAX;
    }
    return product;
  }

  // `walked`: places before walks were split. What is repeated, x[i / 2], is as large as the result of its operation.
  bool is_worth_it(std::int64_t walked) const {
    // Sums of sizes that are not known could not be shown to be in bounds.
    if (!std::ranges::all_of(
            walks_, [](const Walk& walk) { return walk.extent.is_constant() && walk.extent.constant() > 0; }))
      return false;
    std::int64_t reads = 1, largest = walked;
    for (const auto* loops : {&stage_.axes, &stage_.reduction}) {
      for (VarId loop : *loops) reads *= std::max<std::int64_t>(1, nominal(extent(loop), sizes_));
    }
    te::for_each_node(part_, [&](const ExprNode& node) {
      if (te::is_load(node))
        largest = std::max(largest, nominal(product(formula_.buffer(node.buffer).shape), sizes_));
    });
    const std::int64_t made = places();
    return made <= reads / kFewestReads && made / kMostTimes <= largest;
  }

  // ---- walks

  const Dim& extent(VarId loop) const { return formula_.variable(loop).extent; }

  // A sum of loops in positive steps.
  std::optional<LinearIndex> linear(const Expr& index) const {
    LinearIndex found = te::IndexAlgebra(formula_).linear(index);
    const bool plain = std::ranges::all_of(found.terms, [](const LinearIndex::Term& term) {
      return term.atom->op == ExprOp::Var && term.coefficient.is_constant() &&
             term.coefficient.constant() > 0;
    });
    return plain ? std::optional(std::move(found)) : std::nullopt;
  }
  static bool is_index(const Expr& expr) { return expr.dtype() == DType::I64; }

  // Those of an expression that loops reach no other way.
  bool find_walks(const Expr& expr) {
    if (!seen_.insert(expr.address()).second) return true;
    if (is_index(expr) && !te::is_load(*expr)) {
      if (auto found = linear(expr)) {
        if (!found->terms.empty()) add(std::move(*found));
        return true;
      }
    }
    if (expr->op == ExprOp::Accumulator) return false;
    return std::ranges::all_of(expr->operands, [this](const Expr& operand) { return find_walks(operand); });
  }

  static bool same_terms(const LinearIndex& a, const LinearIndex& b) {
    return a.terms.size() == b.terms.size() &&
           std::ranges::all_of(a.terms, [&](const LinearIndex::Term& term) {
             const LinearIndex::Term* other = b.find(term.atom->var);
             return other != nullptr && other->coefficient == term.coefficient;
           });
  }

  Walk* walk_of(const LinearIndex& terms) {
    const auto found =
        std::ranges::find_if(walks_, [&](const Walk& walk) { return same_terms(walk.terms, terms); });
    return found == walks_.end() ? nullptr : &*found;
  }

  // What all steps of a walk are multiples of; 4 i + 8 j walks as i + 2 j does.
  static std::int64_t step_of(const LinearIndex& index) {
    std::int64_t step = 0;
    for (const LinearIndex::Term& term : index.terms) step = std::gcd(step, term.coefficient.constant());
    return step;
  }
  static LinearIndex by_ones(LinearIndex index) {
    const std::int64_t step = step_of(index);
    for (LinearIndex::Term& term : index.terms) term.coefficient = term.coefficient.constant() / step;
    index.constant = 0;
    return index;
  }

  void add(LinearIndex found) {
    found = by_ones(std::move(found));
    if (walk_of(found) != nullptr) return;
    Dim last = 0;
    for (const LinearIndex::Term& term : found.terms)
      last = last + term.coefficient * (extent(term.atom->var) - 1);
    walks_.push_back({std::move(found), last + 1, {}});
  }

  // Two walks of which one loop is part are told by their loops instead.
  void split_overlapping() {
    std::set<VarId> shared;
    for (bool more = true; more;) {
      more = false;
      std::map<VarId, int> uses;
      for (const Walk& walk : walks_) {
        for (const LinearIndex::Term& term : walk.terms.terms) ++uses[term.atom->var];
      }
      std::vector<VarId> apart;
      std::erase_if(walks_, [&](const Walk& walk) {
        const auto& terms = walk.terms.terms;
        const bool several = terms.size() > 1;
        const bool overlaps = std::ranges::any_of(terms, [&](const LinearIndex::Term& term) {
          return uses[term.atom->var] > 1 || shared.contains(term.atom->var);
        });
        if (!several || !overlaps) return false;
        for (const LinearIndex::Term& term : terms) apart.push_back(term.atom->var);
        return true;
      });
      for (VarId loop : apart) {
        LinearIndex alone;
        alone.terms.push_back({Expr::variable(loop), 1});
        more = shared.insert(loop).second || more;
        add(std::move(alone));
      }
    }
  }

  bool is_window(const Walk& walk) const {
    return walk.terms.terms.size() > 1 && std::ranges::any_of(walk.terms.terms, [this](const auto& term) {
             return std::ranges::find(stage_.reduction, term.atom->var) != stage_.reduction.end();
           });
  }

  // Rows, then what is summed, then what lanes may run along: windows' walks, and neighbours in the result, the closest last.
  int rank_of(const Walk& walk) const {
    int rank = is_window(walk) ? kMixed : 0;
    for (const LinearIndex::Term& term : walk.terms.terms) {
      const auto found = std::ranges::find(neighbours_, term.atom->var);
      if (found != neighbours_.end()) {
        rank = std::max(rank, kMixed + static_cast<int>(neighbours_.end() - found));
      } else if (std::ranges::find(stage_.reduction, term.atom->var) != stage_.reduction.end()) {
        rank = std::max(rank, 1);
      }
    }
    return rank;
  }

  // ---- the packed operand's element

  Expr at_axes(const Expr& expr) {
    const auto done = done_.find(expr.address());
    if (done != done_.end()) return done->second;
    return done_[expr.address()] = rebuilt(expr);
  }
  Expr rebuilt(const Expr& expr) {
    if (is_index(expr) && !te::is_load(*expr)) {
      if (const auto found = linear(expr)) return by_axes(*found);
    }
    if (expr->operands.empty()) return expr;
    std::vector<Expr> operands;
    for (const Expr& operand : expr->operands) operands.push_back(at_axes(operand));
    return te::with_operands(expr, std::move(operands));
  }
  Expr by_axes(const LinearIndex& found) {
    LinearIndex made;
    made.constant = found.constant;
    if (found.terms.empty()) return te::IndexAlgebra(formula_).expr(made);
    if (const Walk* walk = walk_of(by_ones(found))) {
      made.terms.push_back({Expr::variable(walk->axis), step_of(found)});
    } else {
      for (const LinearIndex::Term& term : found.terms) {
        LinearIndex alone;
        alone.terms.push_back({term.atom, 1});
        made.terms.push_back({Expr::variable(walk_of(alone)->axis), term.coefficient});
      }
    }
    return te::IndexAlgebra(formula_).expr(made);
  }

  Formula& formula_;
  const Stage& stage_;
  const Expr part_;
  const std::vector<VarId> neighbours_;
  ChooseOptions sizes_;
  std::vector<Walk> walks_;
  std::unordered_set<const ExprNode*> seen_;
  std::unordered_map<const ExprNode*, Expr> done_;
};

}  // namespace

std::vector<VarId> result_neighbours(const Formula& formula, const Stage& stage, const Expr& part) {
  const std::set<VarId> used = te::variables_of(part);
  std::vector<VarId> found;
  for (const Expr& index : std::views::reverse(stage.store)) {
    std::set<VarId> loops = te::variables_of(index);
    std::erase_if(loops, [&](VarId loop) { return formula.variable(loop).extent.is(1); });
    // Between neighbours along some of its loops lie others, which the part does not go along.
    if (!std::ranges::includes(used, loops)) return found;
    found.insert(found.end(), loops.begin(), loops.end());
  }
  return found;
}

std::optional<PackedOperand> pack_operand(Formula& formula, const Stage& stage, const Expr& part,
                                          const SymbolBindings& nominal, Packed which) {
  return Packing(formula, stage, part, nominal).run(which);
}

}  // namespace xyntra
