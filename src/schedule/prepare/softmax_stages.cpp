#include "schedule/prepare/softmax_stages.h"

#include <algorithm>
#include <map>
#include <numbers>

#include "te/masked_rows.h"
#include "te/walk.h"

namespace xyntra {

using te::BufferId;
using te::BufferInfo;
using te::BufferRole;
using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Formula;
using te::Stage;
using te::VarId;

namespace {

const Stage* writer_of(const Formula& formula, BufferId buffer) {
  const Stage* found = nullptr;
  for (const Stage& stage : formula.stages) {
    if (stage.target != buffer) continue;
    if (found != nullptr || stage.kind != Stage::Kind::MapReduce) return nullptr;
    found = &stage;
  }
  return found;
}

// The variable that an index is; invalid where it is more.
VarId plain_variable(const Expr& index) { return index->op == ExprOp::Var ? index->var : VarId(); }
bool is_first(const Expr& index) { return index.is_integer_constant(0); }

// The exponent that e is raised to by an expression, or 2 by its product with log2(e); undefined for every other.
Expr exponent_of(const Expr& expr) {
  if (expr->op == ExprOp::Exp) return expr->operands[0];
  if (expr->op != ExprOp::Exp2 || expr->operands[0]->op != ExprOp::Mul) return {};
  const Expr &exponent = expr->operands[0]->operands[0], &factor = expr->operands[0]->operands[1];
  return te::same(factor, Expr::number(factor.dtype(), std::numbers::log2e)) ? exponent : Expr();
}

// A sum of at least one, or one in its place.
bool is_plain_sum(const Stage& sum) { return !sum.finish.defined() || te::is_one_for_zero(sum.finish); }

// The stage max(k) x[k] of a stage that adds up exp(x[k] - max(k) x[k]) over all k; null for every other.
const Stage* largest_of_exponents(const Formula& formula, const Stage& sum) {
  if (sum.reducer != te::Reducer::Sum || sum.reduction.empty()) return nullptr;
  // What is added up, under the loops of the sum.
  Expr term = sum.body;
  if (term->op == ExprOp::Load) {
    const Stage* made = writer_of(formula, term->buffer);
    if (made == nullptr || made->reducer != te::Reducer::None || made->finish.defined()) return nullptr;
    te::Substitution at;
    std::vector<Expr> index = te::index_of(*term);
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (is_first(made->store[d]) && is_first(index[d])) continue;
      if (!plain_variable(made->store[d]).valid()) return nullptr;
      at[made->store[d]->var.index] = index[d];
    }
    for (VarId axis : made->axes) {
      if (formula.variable(axis).extent.is(1)) at.try_emplace(axis.index, Expr::index(0));
    }
    if (at.size() != made->axes.size()) return nullptr;
    term = te::substituted(made->body, at);
  }
  const Expr difference = exponent_of(term);
  if (!difference.defined() || difference->op != ExprOp::Sub) return nullptr;
  const Expr &x = difference->operands[0], &most = difference->operands[1];
  if (most->op != ExprOp::Load) return nullptr;
  const Stage* largest = writer_of(formula, most->buffer);
  const bool maximum = largest != nullptr &&
                       (largest->reducer == te::Reducer::Max || largest->reducer == te::Reducer::Largest);
  if (!maximum || (largest->finish.defined() && !te::is_at_least_lowest(largest->finish))) return nullptr;
  std::map<VarId, VarId> loops;  // of the maximum to those of the sum
  if (!te::is_renamed(largest->body, x, loops)) return nullptr;
  // The same place of the maximum, and every turn of its reduction.
  std::vector<Expr> index = te::index_of(*most);
  for (std::size_t d = 0; d < index.size(); ++d) {
    VarId place = plain_variable(largest->store[d]);
    auto same = loops.find(place);
    bool still = place.valid() ? formula.variable(place).extent.is(1) : is_first(largest->store[d]);
    if (still && (place.valid() || is_first(index[d]))) continue;
    if (same == loops.end() || plain_variable(index[d]) != same->second) return nullptr;
  }
  bool every = std::all_of(largest->reduction.begin(), largest->reduction.end(), [&](VarId k) {
    auto turn = loops.find(k);
    if (turn == loops.end()) return formula.variable(k).extent.is(1);
    return std::find(sum.reduction.begin(), sum.reduction.end(), turn->second) != sum.reduction.end() &&
           formula.variable(k).extent == formula.variable(turn->second).extent;
  });
  return every ? largest : nullptr;
}

}  // namespace

bool adds_exponents(const Formula& formula, const Stage& sum, BufferId exponents) {
  const bool adds = sum.kind == Stage::Kind::MapReduce && is_plain_sum(sum) && sum.body->op == ExprOp::Load &&
                    sum.body->buffer == exponents;
  if (!adds) return false;
  // Some stages name the only place of a dimension, others go over it.
  Formula plain = formula;
  te::Substitution ones;
  for (std::uint32_t v = 0; v < formula.variables.size(); ++v) {
    if (formula.variables[v].extent.is(1)) ones[v] = Expr::index(0);
  }
  for (Stage& stage : plain.stages) stage.body = te::substituted(stage.body, ones);
  const auto place = static_cast<std::size_t>(&sum - formula.stages.data());
  return largest_of_exponents(plain, plain.stages[place]) != nullptr;
}

Formula multiply_by_inverses(const Formula& formula) {
  Formula made = formula;
  for (Stage& sum : made.stages) {
    const BufferInfo& buffer = made.buffer(sum.target);
    bool plain = buffer.dtype == DType::F32 || buffer.dtype == DType::F64;
    if (!plain || buffer.role != BufferRole::Temporary || sum.kind != Stage::Kind::MapReduce) continue;
    if (!is_plain_sum(sum) || sum.body.dtype() != buffer.dtype || writer_of(made, buffer.id) == nullptr ||
        largest_of_exponents(made, sum) == nullptr)
      continue;
    auto is_sum = [&](const Expr& expr) { return expr->op == ExprOp::Load && expr->buffer == buffer.id; };
    std::size_t reads = 0, divisions = 0;
    for (const Stage& stage : made.stages) {
      te::for_each_node(stage, [&](const ExprNode& node) {
        reads += te::is_load(node) && node.buffer == buffer.id;
        divisions += node.op == ExprOp::Div && is_sum(node.operands[1]) && !is_sum(node.operands[0]);
      });
    }
    if (divisions == 0 || reads != divisions) continue;
    for (Stage& stage : made.stages) {
      te::Rewriter rewriter([&](const Expr& expr) {
        bool divides = expr->op == ExprOp::Div && is_sum(expr->operands[1]);
        return divides ? expr->operands[0] * expr->operands[1] : Expr();
      });
      rewriter(stage);
    }
    const Expr divisor = sum.finish.defined() ? sum.finish : Expr::accumulator(buffer.dtype);
    sum.finish = Expr::number(buffer.dtype, 1) / divisor;
  }
  return made;
}

Formula exponents_in_base_two(const Formula& formula) {
  Formula made = formula;
  for (const Stage& sum : formula.stages) {
    if (sum.kind != Stage::Kind::MapReduce) continue;
    const Stage* largest = largest_of_exponents(formula, sum);
    if (largest == nullptr) continue;
    const DType dtype = largest->body.dtype();
    if (dtype != DType::F32 && dtype != DType::F64) continue;
    te::Rewriter rewriter([&](const Expr& expr) {
      if (expr->op != ExprOp::Exp || expr->operands[0]->op != ExprOp::Sub) return Expr();
      const Expr& most = expr->operands[0]->operands[1];
      const bool own = most->op == ExprOp::Load && most->buffer == largest->target;
      return own ? exp2(expr->operands[0] * Expr::number(dtype, std::numbers::log2e)) : Expr();
    });
    for (Stage& stage : made.stages) rewriter(stage);
  }
  return made;
}

namespace {

bool reads(const Stage& stage, BufferId buffer) {
  bool found = false;
  te::for_each_node(
      stage, [&](const ExprNode& node) { found = found || (te::is_load(node) && node.buffer == buffer); });
  return found;
}

bool loads(const Expr& expr, BufferId buffer) { return expr->op == ExprOp::Load && expr->buffer == buffer; }

// Places in expressions where a buffer is read; a load that two of them share counts twice.
std::size_t uses(std::span<const Stage> stages, BufferId buffer) {
  std::size_t found = 0;
  for (const Stage& stage : stages) {
    found += loads(stage.body, buffer) + (stage.finish.defined() && loads(stage.finish, buffer)) +
             (stage.guard.defined() && loads(stage.guard, buffer));
    te::for_each_node(stage, [&](const ExprNode& node) {
      found += static_cast<std::size_t>(
          std::ranges::count_if(node.operands, [&](const Expr& operand) { return loads(operand, buffer); }));
    });
  }
  return found;
}

// Whether exponentials are read only to be multiplied with the sum, or divided by it: a NaN in one is one in the other.
bool meets_sum(const Stage& stage, BufferId exponents, const Stage& sum) {
  std::size_t met = 0;
  te::for_each_node(stage, [&](const ExprNode& node) {
    if (node.op != ExprOp::Mul && node.op != ExprOp::Div) return;
    const Expr &a = node.operands[0], &b = node.operands[1];
    met += (loads(a, exponents) && loads(b, sum.target)) || (loads(b, exponents) && loads(a, sum.target));
  });
  return met > 0 && met == uses({&stage, 1}, exponents);
}

// Whether a NaN that it reads is a NaN in what it writes.
bool passes_nan_on(const Stage& stage) {
  bool passes = true;
  te::for_each_node(stage, [&](const ExprNode& node) {
    const bool chooses = node.op == ExprOp::Select && te::reads_data(node.operands[0]);
    passes = passes && !chooses && (node.op != ExprOp::Cast || is_float(node.dtype));
  });
  return passes;
}

}  // namespace

Formula ignore_nan_in_maxima(const Formula& formula) {
  Formula made = formula;
  for (const Stage& sum : made.stages) {
    const bool plain = sum.kind == Stage::Kind::MapReduce && is_plain_sum(sum);
    if (!plain || made.buffer(sum.target).role != BufferRole::Temporary) continue;
    const Stage* largest = largest_of_exponents(made, sum);
    if (largest == nullptr || !is_float(largest->body.dtype()) ||
        made.buffer(largest->target).role != BufferRole::Temporary)
      continue;
    // Whatever is made of the maximum is made of the sum as well.
    const BufferId exponents = sum.body->op == ExprOp::Load ? sum.body->buffer : largest->target;
    const bool all = std::ranges::all_of(made.stages, [&](const Stage& stage) {
      const bool own = &stage == &sum || &stage == largest || stage.target == exponents;
      const bool made_of_them = reads(stage, largest->target) || reads(stage, exponents);
      if (own || !made_of_them) return true;
      const bool only_exponents = exponents != largest->target && !reads(stage, largest->target);
      return (reads(stage, sum.target) && passes_nan_on(stage)) ||
             (only_exponents && meets_sum(stage, exponents, sum));
    });
    if (!all || made.buffer(exponents).role != BufferRole::Temporary) continue;
    made.stages[static_cast<std::size_t>(largest - made.stages.data())].reducer = te::Reducer::Largest;
  }
  return made;
}

namespace {

// s, or n / s
bool is_divisor(const Stage& sum) {
  const Expr& finish = sum.finish;
  return !finish.defined() || (finish->op == ExprOp::Div && finish->operands[0].is_constant() &&
                               finish->operands[1]->op == ExprOp::Accumulator);
}

}  // namespace

bool divides_exponents(const te::Formula& formula, std::span<const Stage> stages) {
  if (stages.size() != 4) return false;
  const Stage &maximum = stages[0], &elements = stages[1], &sum = stages[2], &results = stages[3];
  const bool plain = std::ranges::all_of(stages.first(3), [&](const Stage& stage) {
    const te::BufferInfo& buffer = formula.buffer(stage.target);
    return stage.kind == Stage::Kind::MapReduce && buffer.role == te::BufferRole::Temporary &&
           buffer.dtype == DType::F32 && stage.body.dtype() == DType::F32;
  });
  if (!plain || !loads(sum.body, elements.target) || !is_divisor(sum)) return false;
  const Stage* largest = largest_of_exponents(formula, sum);
  if (largest == nullptr || largest->target != maximum.target) return false;
  const ExprOp divides = sum.finish.defined() ? ExprOp::Mul : ExprOp::Div;
  std::size_t shares = 0;
  te::for_each_node(results, [&](const ExprNode& node) {
    shares +=
        node.op == divides && loads(node.operands[0], elements.target) && loads(node.operands[1], sum.target);
  });
  return shares > 0 && uses(formula.stages, maximum.target) == 1 &&
         uses(formula.stages, elements.target) == shares + 1 && uses(formula.stages, sum.target) == shares;
}

}  // namespace xyntra
