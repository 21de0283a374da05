// Expressions of a kernel as text: values, positions in buffers, loads.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "codegen/wgsl/emitter.h"
#include "kir/legalize/division.h"

namespace xyntra::wgsl {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

constexpr std::size_t kLongText = 72;  // longer expressions are cut into lines

// A constant, as it is or as a wider float.
std::optional<double> literal(const Expr& expr) {
  const bool widens = expr->op == ExprOp::Cast && is_float(expr.dtype()) && is_float(expr->operands[0].dtype());
  if (widens && bits_of(expr->operands[0].dtype()) < bits_of(expr.dtype())) return literal(expr->operands[0]);
  const bool is_number = expr->op == ExprOp::Const && is_float(expr.dtype());
  return is_number ? std::optional(expr->float_value) : std::nullopt;
}
bool is_zero(const Expr& expr) { return literal(expr) == 0; }
bool is_plus_zero(const Expr& expr) { return is_zero(expr) && !std::signbit(*literal(expr)); }

// x + 0 or 0 - x: which operand is the zero.
std::optional<std::size_t> zero_of_sum(const ExprNode& node) {
  if (!is_float(node.dtype) || (node.op != ExprOp::Add && node.op != ExprOp::Sub)) return std::nullopt;
  if (is_plus_zero(node.operands[0])) return 0;
  return node.op == ExprOp::Add && is_plus_zero(node.operands[1]) ? std::optional<std::size_t>(1)
                                                                  : std::nullopt;
}

// select(x < 0, 0, x)
bool is_relu(const ExprNode& node) {
  const Expr &condition = node.operands[0], &chosen = node.operands[1], &otherwise = node.operands[2];
  return node.dtype == DType::F32 && condition->op == ExprOp::Less && is_plus_zero(chosen) &&
         is_zero(condition->operands[1]) && te::same(condition->operands[0], otherwise);
}

bool is_word(const std::string& text) { return text.find_first_of(" (") == std::string::npos; }

}  // namespace

// ---- expressions

std::string KernelEmitter::value(const Expr& expr) {
  const Key key{expr.address(), false};
  if (auto known = known_.find(key); known != known_.end()) return known->second;
  const auto zero = zero_of_sum(*expr);
  std::string text = zero ? sum_with_zero(*expr, *zero) : node_text(expr);
  if (!zero && cancelling_.contains(expr.address())) text = operations_.kept(expr.dtype(), text);
  if (settled_->count(expr.address()) != 0) text = operations_.settled(expr.dtype(), text);
  const bool shared = uses_[expr.address()] > 1;
  if (!is_word(text) && (shared || text.size() > kLongText)) {
    const std::string name = fresh_name();
    line("let " + name + " = " + text + ";");
    text = name;
  }
  if (is_word(text)) known_[key] = text;
  return text;
}

std::string KernelEmitter::sum_with_zero(const ExprNode& node, std::size_t zero) {
  const std::string other = value(node.operands[1 - zero]);
  return operations_.plus_zero(node.dtype, node.op == ExprOp::Sub ? "-(" + other + ")" : other);
}

std::string KernelEmitter::named(const Expr& expr) {
  std::string text = value(expr);
  if (is_word(text)) return text;
  const std::string name = fresh_name();
  line("let " + name + " = " + text + ";");
  known_[{expr.address(), false}] = name;
  return name;
}

std::string KernelEmitter::node_text(const Expr& expr) {
  const ExprNode& node = *expr;
  switch (node.op) {
    case ExprOp::Const: return operations_.constant(node);
    case ExprOp::Var: return operations_.cast(DType::I32, DType::I64, variable(node.var));
    case ExprOp::Size: return operations_.cast(DType::I32, DType::I64, size(node.size));
    case ExprOp::Accumulator: internal_error("wgsl: an accumulator in a kernel");
    case ExprOp::Load: return load(node);
    case ExprOp::LoadOr: return load_or(node);
    case ExprOp::Select: return select(node);
    case ExprOp::Cast: {
      const Expr& operand = node.operands[0];
      // A position that becomes a number of 32 bits or a float needs no wider one on the way.
      if (is_position(operand) && node.dtype != DType::I64 && node.dtype != DType::U64)
        return operations_.cast(DType::I32, node.dtype, "i32(" + position(operand) + ")");
      if (is_float(operand.dtype()) && node.dtype == DType::I32 && analysis_.lies_within(operand, -1e9, 1e9))
        return "i32(" + value(operand) + ")";
      if (&node == stored_half_) return "f16(" + value(operand) + ")";
      return operations_.cast(operand.dtype(), node.dtype, named(operand));
    }
    case ExprOp::Bitcast:
      return operations_.bitcast(node.operands[0].dtype(), node.dtype, named(node.operands[0]));
    case ExprOp::IsNan: return operations_.is_nan(node.operands[0].dtype(), named(node.operands[0]));
    case ExprOp::IsInf: return operations_.is_inf(node.operands[0].dtype(), named(node.operands[0]));
    default: break;
  }
  if (te::kind_of(node.op) == te::ExprKind::Compare) return compare(node);
  const bool shifts = node.op == ExprOp::ShiftLeft || node.op == ExprOp::ShiftRight;
  if (shifts && node.operands[1]->op == ExprOp::Const && node.operands[1]->int_value >= 0 &&
      node.operands[1]->int_value < bits_of(node.dtype))
    return operations_.shifted(node.op, node.dtype, value(node.operands[0]), node.operands[1]->int_value);
  if (auto bounded = bounded_float(node)) return *bounded;
  // What WGSL promises of a quotient ends at divisors of this size.
  constexpr double kLargeDivisor = 0x1p126;
  // Quotients by constants are scales, of which whole numbers may be made elsewhere.
  if (node.op == ExprOp::Div && node.dtype == DType::F32 && !rounded_.contains(&node) &&
      !node.operands[1].is_constant() &&
      analysis_.lies_within(node.operands[1], -kLargeDivisor, kLargeDivisor))
    return "(" + value(node.operands[0]) + " / " + value(node.operands[1]) + ")";
  const bool repeats = node.op == ExprOp::Min || node.op == ExprOp::Max || node.op == ExprOp::Abs;
  std::vector<std::string> operands;
  for (const Expr& operand : node.operands) operands.push_back(repeats ? named(operand) : value(operand));
  if (is_sum_of_halves(node)) return operations_.sum_of_halves(node.op, operands);
  return operations_.arithmetic(node.op, node.dtype, operands);
}

// A minimum with a positive number, or a maximum with a negative one.
std::optional<std::string> KernelEmitter::bounded_float(const ExprNode& node) {
  const bool least = node.op == ExprOp::Min, most = node.op == ExprOp::Max;
  if (!(least || most) || node.dtype != DType::F32 || node.operands[1]->op != ExprOp::Const)
    return std::nullopt;
  const auto bound = static_cast<float>(node.operands[1]->float_value);
  if (!std::isfinite(bound) || (least ? bound <= 0 : bound >= 0)) return std::nullopt;
  return operations_.bounded(named(node.operands[0]), *node.operands[1]);
}

// Whether a compiler of shaders cannot see another operation on f16 behind it: it was rounded, or comes from memory that
// this kernel does not write.
bool KernelEmitter::is_apart(const Expr& half) const {
  switch (half->op) {
    case ExprOp::Const: return true;
    case ExprOp::Cast: return half->operands[0].dtype() != DType::F16;
    case ExprOp::Load: {
      const kir::Buffer& buffer = kernel_.buffer(half->buffer);
      return buffer.scope == kir::Scope::Global && !buffer.written;
    }
    default: return false;
  }
}

bool KernelEmitter::is_sum_of_halves(const ExprNode& node) const {
  return operations_.adds_halves(node.op, node.dtype) &&
         std::all_of(node.operands.begin(), node.operands.end(),
                     [this](const Expr& operand) { return is_apart(operand); });
}

std::string KernelEmitter::compare(const ExprNode& node) {
  const Expr &a = node.operands[0], &b = node.operands[1];
  const bool positions = is_position(a) && is_position(b);
  const std::string first =
      positions ? position(a) : value(a);  // one after the other: lines come in this order
  const std::string second = positions ? position(b) : value(b);
  return operations_.compare(node.op, positions ? DType::I32 : a.dtype(), first, second);
}

// ---- positions

namespace {

std::string in_brackets(const std::string& text) { return is_word(text) ? text : "(" + text + ")"; }

// The exponent of a text that is a power of two.
std::optional<int> power_of_two(const std::string& number) {
  for (int power = 0; power < 31; ++power) {
    if (number == std::to_string(std::uint32_t{1} << power)) return power;
  }
  return std::nullopt;
}

}  // namespace

// Drivers correct a signed quotient for the negative numbers that these are not, in the middle of loops.
std::string quotient_text(const std::string& natural, const std::string& divisor) {
  if (auto power = power_of_two(divisor))
    return "(" + in_brackets(natural) + " >> " + std::to_string(*power) + "u)";
  return "i32(u32(" + natural + ") / u32(" + divisor + "))";
}

std::string rest_text(const std::string& natural, const std::string& divisor) {
  if (auto power = power_of_two(divisor))
    return "(" + in_brackets(natural) + " & " + std::to_string((std::int64_t{1} << *power) - 1) + ")";
  return "i32(u32(" + natural + ") % u32(" + divisor + "))";
}

std::string KernelEmitter::position(const Expr& index) {
  const Key key{index.address(), true};
  if (auto known = known_.find(key); known != known_.end()) return known->second;
  std::string text = position_text(index);
  if (!is_word(text) && (uses_[index.address()] > 1 || text.size() > kLongText)) {
    const std::string name = fresh_name();
    line("let " + name + " = " + text + ";");
    text = name;
    known_[key] = text;
  }
  return text;
}

std::string KernelEmitter::position_text(const Expr& index) {
  const ExprNode& node = *index;
  if (node.op == ExprOp::Const) return std::to_string(node.int_value);
  if (node.op == ExprOp::Var) return variable(node.var);
  if (node.op == ExprOp::Size) return size(node.size);
  if (!is_position(index)) return operations_.cast(DType::I64, DType::I32, value(index));
  if (node.op == ExprOp::Cast)
    return operations_.cast(node.operands[0].dtype(), DType::I32, value(node.operands[0]));
  if (node.op == ExprOp::Select) {
    const std::string condition = value(node.operands[0]);
    const std::string chosen = position(node.operands[1]), otherwise = position(node.operands[2]);
    return "select(" + otherwise + ", " + chosen + ", " + condition + ")";
  }
  std::vector<std::string> operands;
  for (const Expr& operand : node.operands) operands.push_back(position(operand));
  if (kir::is_division(node.op) && analysis_.indices().is_of_naturals(node)) {
    return kir::is_quotient(node.op) ? quotient_text(operands[0], operands[1])
                                     : rest_text(operands[0], operands[1]);
  }
  return operations_.arithmetic(node.op, DType::I32, operands);
}

namespace {

// A sum with the variables of written-out loops in numbers.
te::LinearIndex with_fixed(const te::LinearIndex& index,
                           const std::unordered_map<std::uint32_t, std::int64_t>& fixed) {
  te::LinearIndex made{{}, index.constant};
  for (const te::LinearIndex::Term& term : index.terms) {
    auto known = term.atom->op == ExprOp::Var ? fixed.find(term.atom->var.index) : fixed.end();
    if (known == fixed.end()) {
      made.terms.push_back(term);
    } else {
      made.constant = made.constant + term.coefficient * Dim(known->second);
    }
  }
  return made;
}

}  // namespace

std::string KernelEmitter::sum_of(std::span<const te::LinearIndex::Term> terms) {
  std::string text;
  for (const te::LinearIndex::Term& term : terms) {
    if (!text.empty()) text += " + ";
    text += position(term.atom);
    if (!term.coefficient.is(1)) text += " * " + size(term.coefficient);
  }
  return text;
}

// Whether something is invariant in the innermost loop, and can be computed before it.
bool KernelEmitter::is_loop_invariant(const Expr& atom) const {
  bool same = true;
  te::for_each_node(atom, [&](const ExprNode& node) {
    const bool own = node.op == ExprOp::Var && (node.var == loops_.back().var || node.var == lane_);
    same = same && !own && !te::is_load(node);
  });
  return same;
}

// A name for it, given before the innermost loop.
std::string KernelEmitter::before_loop(std::span<const te::LinearIndex::Term> terms) {
  OpenLoop& loop = loops_.back();
  std::map<Key, std::string> known;
  std::unordered_map<const ExprNode*, int> uses;
  int depth = loop.depth;
  auto there = [&] {
    std::swap(body_, loop.before);
    std::swap(known_, known);
    std::swap(uses_, uses);
    std::swap(depth_, depth);
  };
  there();
  const std::string text = sum_of(terms);
  std::string& name = loop.names[text];
  if (name.empty()) {
    name = fresh_name();
    line("let " + name + " = " + text + ";");
  }
  there();
  return name;
}

std::string KernelEmitter::position(const te::LinearIndex& given) {
  te::LinearIndex index = with_fixed(given, fixed_);
  std::string text;
  if (!loops_.empty()) {
    auto first = std::stable_partition(index.terms.begin(), index.terms.end(),
                                       [this](const auto& term) { return !is_loop_invariant(term.atom); });
    const auto same = std::span<const te::LinearIndex::Term>(index.terms)
                          .subspan(static_cast<std::size_t>(first - index.terms.begin()));
    const bool simple = same.size() == 1 && same[0].atom->op == ExprOp::Var && same[0].coefficient.is(1);
    if (!same.empty() && !simple) {
      text = before_loop(same);
      index.terms.erase(first, index.terms.end());
    }
  }
  const std::string varying = sum_of(index.terms);
  text += (text.empty() || varying.empty() ? "" : " + ") + varying;
  if (text.empty()) return size(index.constant);
  return index.constant.is(0) ? text : text + " + " + size(index.constant);
}

// ---- memory

// Takes the terms out of an index that are multiples of a vector, and counts them in vectors. What is left is not negative.
te::LinearIndex KernelEmitter::whole_vectors_of(te::LinearIndex& index) {
  te::LinearIndex vectors, rest;
  for (const te::LinearIndex::Term& term : index.terms) {
    const bool whole = te::divides(Dim(kVector), term.coefficient);
    const bool natural = term.coefficient.never_negative() && analysis_.indices().is_natural(term.atom);
    if (!whole && !natural) return {};
    if (whole) {
      vectors.terms.push_back({term.atom, floor_div(term.coefficient, Dim(kVector))});
    } else {
      rest.terms.push_back(term);
    }
  }
  if (!index.constant.is_constant()) return {};
  vectors.constant = floor_div(index.constant, Dim(kVector));
  rest.constant = modulo(index.constant, kVector);
  index = std::move(rest);
  return vectors;
}

std::string KernelEmitter::place(kir::BufferId id, const te::LinearIndex& given, const std::string& guard) {
  const kir::Buffer& buffer = kernel_.buffer(id);
  const BufferForm& form = forms_[id.index];
  std::string name = buffer_name(id);
  if (buffer.shape.empty() && is_private(buffer.scope)) return name;
  te::LinearIndex index = with_fixed(given, fixed_);
  // Nothing gets to an access beyond the end, as is proved of every kernel, but compilers of shaders refuse one that they can see.
  const Dim elements = product(buffer.shape);
  if (index.terms.empty() && index.constant.is_constant() && elements.is_constant() &&
      (index.constant.constant() < 0 || index.constant.constant() >= elements.constant()))
    index.constant = 0;
  index.constant = index.constant + joined_[id.index].offset;
  std::string component;
  if (form.vectors) {
    const bool whole = lane_.valid() && index.find(lane_) != nullptr;
    if (whole) index.terms.erase(index.terms.begin() + (index.find(lane_) - index.terms.data()));
    // An unrolled iteration adds a multiple of a size: which element it is may still be known.
    const bool even = te::divides(Dim(kVector), index.constant);
    const bool known =
        (even || index.constant.is_constant()) &&
        std::all_of(index.terms.begin(), index.terms.end(), [](const te::LinearIndex::Term& term) {
          return te::divides(Dim(kVector), term.coefficient);
        });
    if (!known) {
      // Whole vectors apart from the rest, so that neighbours differ by a number that is known.
      te::LinearIndex vectors = whole_vectors_of(index);
      const std::string at = guarded(position(index), guard);
      std::string vector = quotient_text(at, "4");
      if (!vectors.terms.empty() || !vectors.constant.is(0))
        vector += " + " + guarded(position(vectors), guard);
      return name + "[" + vector + "][" + rest_text(at, "4") + "]";
    }
    const Dim first = index.constant;
    const std::int64_t element = even ? 0 : modulo(first, kVector).constant();
    if (!whole) component = std::string(".") + component_name(static_cast<std::size_t>(element));
    index.constant = floor_div(first, kVector);
    for (te::LinearIndex::Term& term : index.terms)
      term.coefficient = floor_div(term.coefficient, Dim(kVector));
  }
  if (form.split) return name + "_" + std::to_string(index.constant.constant()) + component;
  return name + "[" + guarded(position(index), guard) + "]" + component;
}

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

std::string KernelEmitter::word_at(kir::BufferId buffer, const std::string& word) const {
  return atomic_[buffer.index] ? "atomicLoad(&" + word + ")" : word;
}

std::string KernelEmitter::load(const ExprNode& node) {
  const kir::Buffer& buffer = kernel_.buffer(node.buffer);
  if (auto known = loaded_.find(&node); known != loaded_.end() && !lane_.valid())
    return known->second + "." + component_name(static_cast<std::size_t>(fixed_lane(node)));
  const codegen::Access& access = analysis_.access(node);
  const std::string guard = access.in_bounds ? "" : guard_;
  if (is_shared_bool(node.buffer)) return "(" + place(node.buffer, access.flat, guard) + " != 0u)";
  if (is_private(buffer.scope) || !operations_.is_packed(buffer.dtype))
    return place(node.buffer, access.flat, guard);
  te::LinearIndex flat = access.flat;
  flat.constant = flat.constant + joined_[node.buffer.index].offset;
  const std::string at = guarded(position(flat), guard);
  const std::string bits = std::to_string(bits_of(buffer.dtype)) + "u", bit = fresh_name();
  line("let " + bit + " = u32(i32(" + at + ")) * " + bits + ";");
  return operations_.decoded(
      buffer.dtype, word_at(node.buffer, buffer_name(node.buffer) + "[" + bit + " / 32u]"), bit + " % 32u");
}

// Where a condition does not hold, the first element is read instead: there is one even in an empty buffer's binding.
std::string KernelEmitter::guarded(const std::string& position, const std::string& guard) {
  return guard.empty() ? position : "select(0, " + position + ", " + guard + ")";
}

std::size_t KernelEmitter::fixed_lane(const ExprNode& load) {
  for (const te::LinearIndex::Term& term : analysis_.access(load).flat.terms) {
    if (!term.coefficient.is(1) || term.atom->op != ExprOp::Var) continue;
    if (auto known = fixed_.find(term.atom->var.index); known != fixed_.end() && known->second < kVector)
      return static_cast<std::size_t>(known->second);
  }
  internal_error("wgsl: a vector that no lane walks along");
}

std::string KernelEmitter::load_or(const ExprNode& node) {
  const kir::Buffer& buffer = kernel_.buffer(node.buffer);
  const codegen::Access& access = analysis_.access(node);
  std::string inside;
  for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
    if (access.within[d]) continue;
    const Expr& index = node.operands[1 + d];
    const bool wide = !is_position(index);
    const std::string at = wide ? named(index) : position(index), bound = size(buffer.shape[d]);
    inside += (inside.empty() ? "" : " & ") + (wide ? "!(" + operations_.is_outside(at, bound) + ")"
                                                    : "(" + at + " >= 0) & (" + at + " < " + bound + ")");
  }
  if (inside.empty()) return load(node);
  if (operations_.is_packed(node.dtype) || !is_cheap(node.operands[0])) {
    return either(
        operations_.type(node.dtype), inside, [&] { return load(node); },
        [&] { return value(node.operands[0]); });
  }
  const std::string holds = fresh_name();
  line("let " + holds + " = " + inside + ";");
  const std::string otherwise = value(node.operands[0]);
  const std::string before = std::exchange(guard_, holds);
  const std::string loaded = load(node);
  guard_ = before;
  return "select(" + otherwise + ", " + loaded + ", " + holds + ")";
}

// `a < b ? a : b`, or the like: compilers that know no NaN take it for min(a, b), which is a where b is NaN.
bool KernelEmitter::is_minimum(const ExprNode& node) {
  const ExprNode& condition = *node.operands[0];
  if (te::kind_of(condition.op) != te::ExprKind::Compare || !is_float(node.dtype)) return false;
  auto same = [](const Expr& a, const Expr& b) {
    return a.address() == b.address() ||
           (a->op == ExprOp::Const && b->op == ExprOp::Const && a->float_value == b->float_value);
  };
  const Expr &a = condition.operands[0], &b = condition.operands[1];
  const Expr &chosen = node.operands[1], &otherwise = node.operands[2];
  return (same(chosen, a) && same(otherwise, b)) || (same(chosen, b) && same(otherwise, a));
}

// Each side is computed only where it is chosen, when reading for it elsewhere could be outside.
std::string KernelEmitter::select(const ExprNode& node) {
  if (is_relu(node)) return operations_.without_negatives(named(node.operands[2]));
  const std::string condition = value(node.operands[0]);
  const bool minimum = is_minimum(node);  // the condition reads both sides
  if (minimum || (!analysis_.needs_guard(node, 1) && !analysis_.needs_guard(node, 2))) {
    const std::string chosen = value(node.operands[1]);
    const std::string otherwise = minimum ? named(node.operands[2]) : value(node.operands[2]);
    const std::string text = "select(" + otherwise + ", " + chosen + ", " + condition + ")";
    if (!minimum) return text;
    return "select(" + text + ", " + otherwise + ", " + operations_.is_nan(node.dtype, otherwise) + ")";
  }
  if (is_cheap(node.operands[1]) && is_cheap(node.operands[2]))
    return chosen_without_branch(node, condition, [this](const Expr& side) { return value(side); });
  return either(
      operations_.type(node.dtype), condition, [&] { return value(node.operands[1]); },
      [&] { return value(node.operands[2]); });
}

// Both sides are computed and one is taken: branches keep threads that run in lockstep from going on together, and
// software adapters take long to compile many.
bool KernelEmitter::is_cheap(const Expr& side) {
  constexpr int kMostNodes = 6;
  int nodes = 0;
  bool plain = true;
  te::for_each_node(side, [&](const ExprNode& node) {
    const bool index = node.dtype == DType::I64;
    nodes += index ? 0 : 1;
    const bool narrow = te::is_load(node) && operations_.is_packed(node.dtype);
    // Indices are read only where that is in bounds in any case.
    const bool read = index && te::is_load(node);
    plain = plain && (index || node.op != ExprOp::Select) && node.op != ExprOp::LoadOr && !narrow &&
            !(read && !analysis_.access(node).in_bounds);
  });
  return plain && nodes <= kMostNodes;
}

std::string KernelEmitter::chosen_without_branch(const ExprNode& node, const std::string& condition,
                                                 const std::function<std::string(const Expr&)>& text_of) {
  std::string holds = condition;
  if (!is_word(holds)) {
    holds = fresh_name();
    line("let " + holds + " = " + condition + ";");
  }
  auto outside = known_;  // what is read under a condition is known under no other
  auto side = [&](const Expr& expr, const std::string& guard) {
    const std::string before = guard_;
    guard_ = before.empty() ? guard : "(" + before + " & " + guard + ")";
    std::string text = text_of(expr);
    guard_ = before;
    known_ = outside;
    return text;
  };
  const std::string chosen = side(node.operands[1], holds), otherwise = side(node.operands[2], "!" + holds);
  return "select(" + otherwise + ", " + chosen + ", " + holds + ")";
}

std::string KernelEmitter::either(const std::string& type, const std::string& condition,
                                  const std::function<std::string()>& when_true,
                                  const std::function<std::string()>& when_false) {
  const std::string name = fresh_name();
  line("var " + name + ": " + type + ";");
  auto side = [&](const std::string& head, const std::function<std::string()>& text) {
    static_cast<void>(block(head, [&]() -> Status {
      const std::string chosen = text();
      line(name + " = " + chosen + ";");
      return {};
    }));
  };
  side("if (" + condition + ")", when_true);
  side("else", when_false);
  return name;
}

}  // namespace xyntra::wgsl
