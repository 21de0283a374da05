// Positions in buffers, which 32 bits hold, and what is read there.
#include <algorithm>
#include <utility>

#include "codegen/wgsl/emitter.h"
#include "kir/legalize/division.h"

namespace xyntra::wgsl {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

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

}  // namespace xyntra::wgsl
