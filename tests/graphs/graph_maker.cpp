#include "graphs/graph_maker.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/infer.h"

namespace xyntra::graphs {
namespace {

constexpr DType kDTypes[] = {DType::F32, DType::F32, DType::F32,  DType::F32, DType::F32, DType::F32,
                             DType::F16, DType::F64, DType::BF16, DType::I64, DType::I32, DType::Bool};
constexpr const char* kSymbols[] = {"n", "m", "k"};

double special_value(Decisions& decide, DType dtype) {
  constexpr double kValues[] = {0.0,
                                -0.0,
                                std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                1e30,
                                -65000.0};
  if (decide.chance(20)) {  // a denormal
    double tiny = dtype == DType::F16 ? 0x1p-24 : dtype == DType::F64 ? 0x1p-1074 : 0x1p-133;
    return tiny * static_cast<double>(decide.between(-3, 3));
  }
  return decide.one_of(kValues);
}

}  // namespace

GraphMaker::GraphMaker(Decisions& decisions) : decide(decisions) {
  special_values_ = decide.chance(25);
  for (const char* symbol : kSymbols)
    bindings[symbol] = decide.chance(15) ? decide.below(2) : decide.between(2, 7);
}

std::string GraphMaker::name() { return "v" + std::to_string(names_++); }

std::optional<Sizes> GraphMaker::sizes(ValueId value) const {
  const Type& type = graph.value(value).type;
  if (!type.is_tensor() || !type.shape) return std::nullopt;
  Sizes sizes;
  for (const Dim& dim : *type.shape) {
    auto size = dim.evaluate(bindings);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

std::vector<ValueId> GraphMaker::add(const std::string& op, std::vector<ValueId> operands,
                                     Attributes attributes, std::size_t outputs) {
  const OpDef* def = find_op(op);
  if (def == nullptr) internal_error("random graphs: no operator " + op);
  Node node;
  node.op = op, node.inputs = operands, node.attributes = attributes;
  node.outputs.assign(outputs, ValueId(0));
  std::vector<ValueFacts> facts;
  for (ValueId operand : operands) {
    facts.emplace_back();
    facts.back().present = operand.valid();
    if (operand.valid()) facts.back() = facts_of(graph, operand);
  }
  auto inferred = infer_node(*def, node, facts, "u" + std::to_string(graph.node_count()));
  if (!inferred) return {};
  for (const ValueFacts& result : *inferred) {
    if (!result.type.is_tensor() || !result.type.shape) return {};
    double elements = 1;
    for (const Dim& dim : *result.type.shape) {
      auto size = dim.evaluate(bindings);
      elements *= size ? static_cast<double>(*size) : 1.0;
    }
    if (elements > kMostElements || result.type.shape->size() > 6) return {};
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs; ++i) names.push_back(name());
  NodeId id = graph.add_node(op, std::move(operands), std::move(names), std::move(attributes));
  std::vector<ValueId> results = graph.node(id).outputs;
  for (std::size_t i = 0; i < outputs; ++i) {
    graph.value(results[i]).type = (*inferred)[i].type;
    graph.value(results[i]).elements = (*inferred)[i].elements;
  }
  return results;
}

ValueId GraphMaker::one(const std::string& op, std::vector<ValueId> operands, Attributes attributes) {
  for (ValueId operand : operands) {
    if (!operand.valid()) return {};
  }
  auto results = add(op, std::move(operands), std::move(attributes));
  return results.empty() ? ValueId() : results[0];
}

ValueId GraphMaker::any() {
  const auto count = static_cast<std::int64_t>(graph.value_count());
  for (int attempt = 0; attempt < 20 && count > 0; ++attempt) {
    std::int64_t back =
        decide.chance(40) ? decide.below(count) : decide.below(std::min<std::int64_t>(count, 6));
    ValueId value(static_cast<std::size_t>(count - 1 - back));
    if (usable(value)) return value;
  }
  return fresh(some_dtype(), some_shape());
}

// What is empty may have other sizes beside the 0 that nothing could be as large as: another value with them would be.
bool GraphMaker::usable(ValueId value) const {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 24;
  const auto all = sizes(value);
  if (!all) return false;
  std::int64_t elements = 1;
  return std::ranges::all_of(*all, [&](std::int64_t size) {
    const bool fits = size >= 0 && size <= kMostElements / elements;
    if (fits) elements *= std::max<std::int64_t>(size, 1);
    return fits;
  });
}

ValueId GraphMaker::any_of(DType dtype) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    ValueId value = any();
    if (this->dtype(value) == dtype) return value;
  }
  if (dtype == DType::Bool) {
    ValueId value = any_of(DType::F32);
    if (value.valid()) return one("Greater", {value, number(DType::F32, 0.25)});
  }
  return fresh(dtype, some_shape());
}

ValueId GraphMaker::any_float() {
  for (int attempt = 0; attempt < 10; ++attempt) {
    ValueId value = any();
    if (is_float(dtype(value))) return value;
  }
  return fresh(DType::F32, some_shape());
}

ValueId GraphMaker::any_ranked(std::size_t lowest_rank, bool floating) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    ValueId value = floating ? any_float() : any();
    if (rank(value) >= lowest_rank) return value;
  }
  Shape shape;
  for (std::size_t d = 0; d < lowest_rank; ++d) shape.push_back(some_size());
  return fresh(DType::F32, shape);
}

Tensor GraphMaker::contents(DType dtype, const Sizes& sizes) {
  auto made = Tensor::allocate(dtype, sizes);
  require(made.has_value(), "random graphs: a tensor is too large");
  Tensor tensor = std::move(*made);
  bool whole = decide.chance(15), specials = special_values_ && decide.chance(60);
  std::uint64_t state = static_cast<std::uint64_t>(decide.below(65536)) + 1;  // one decision for all elements
  Decisions elements(state);
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if (is_bool(dtype)) {
      tensor.set_element_i64(i, elements.below(2));
    } else if (!is_float(dtype)) {
      tensor.set_element_i64(
          i, elements.chance(5) ? elements.between(-100000, 100000) : elements.between(-4, 9));
    } else if (specials && elements.chance(15)) {
      tensor.set_element_f64(i, special_value(elements, dtype));
    } else {
      double value = static_cast<double>(elements.between(-3000, 3000)) / 1024.0;
      tensor.set_element_f64(i, whole ? std::floor(value) : value);
    }
  }
  return tensor;
}

ValueId GraphMaker::input(DType dtype, Shape shape) {
  ValueId value = graph.add_input(name(), Type::tensor(dtype, std::move(shape)));
  inputs.push_back(Datum::of(contents(dtype, *sizes(value))));
  return value;
}

ValueId GraphMaker::constant(DType dtype, const Sizes& sizes) {
  ValueId value = graph.add_constant(name(), contents(dtype, sizes));
  graph.value(value).type = Type::tensor(dtype, shape_of(sizes));
  return value;
}

ValueId GraphMaker::integers(const Sizes& values) {
  ValueId value = graph.add_constant(name(), Tensor::of_integers(values));
  graph.value(value).type = Type::tensor(DType::I64, Shape{static_cast<std::int64_t>(values.size())});
  return value;
}

ValueId GraphMaker::number(DType dtype, double value) {
  auto tensor = Tensor::allocate(dtype, {});
  require(tensor.has_value(), "random graphs: no scalar");
  tensor->set_element_f64(0, value);
  ValueId id = graph.add_constant(name(), std::move(*tensor));
  graph.value(id).type = Type::tensor(dtype, Shape{});
  return id;
}

ValueId GraphMaker::fresh(DType dtype, const Shape& shape) {
  bool symbolic = !is_static(shape);
  if (symbolic || decide.chance(60)) return input(dtype, shape);
  return constant(dtype, *static_dims(shape));
}

ValueId GraphMaker::beside(ValueId value, DType dtype) {
  Sizes own = *sizes(value);
  for (int attempt = 0; attempt < 8; ++attempt) {
    ValueId other = any();
    if (this->dtype(other) != dtype) continue;
    Sizes theirs = *sizes(other);
    bool fits = true;
    for (std::size_t d = 0; d < std::min(own.size(), theirs.size()); ++d) {
      // A plan takes a size that meets another to be that one: only what is known to be 1 is repeated.
      const Dim &a = this->shape(value)[own.size() - 1 - d], &b = this->shape(other)[theirs.size() - 1 - d];
      fits = fits && (own[own.size() - 1 - d] == theirs[theirs.size() - 1 - d] || a.is(1) || b.is(1));
    }
    if (fits) return other;
  }
  Shape shape = this->shape(value);
  std::int64_t dropped = decide.chance(40) ? decide.between(0, static_cast<std::int64_t>(shape.size())) : 0;
  shape.erase(shape.begin(), shape.begin() + dropped);
  for (Dim& dim : shape) {
    if (decide.chance(20)) dim = 1;
  }
  return fresh(dtype, shape);
}

std::int64_t GraphMaker::axis_of(ValueId value) {
  auto rank = static_cast<std::int64_t>(this->rank(value));
  std::int64_t axis = decide.below(std::max<std::int64_t>(rank, 1));
  return decide.chance(50) ? axis - rank : axis;
}

Dim GraphMaker::some_size() {
  if (decide.chance(15)) return Dim::symbol(decide.one_of(kSymbols));
  if (decide.chance(12)) return decide.below(2);
  if (decide.chance(4)) return decide.between(8, 300);
  return decide.between(2, 7);
}

Shape GraphMaker::some_shape() {
  constexpr std::int64_t kRanks[] = {2, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5};
  Shape shape;
  double elements = 1;
  for (std::int64_t rank = decide.one_of(kRanks); rank > 0; --rank) {
    Dim size = some_size();
    auto count = static_cast<double>(*size.evaluate(bindings));
    if (elements * count > kMostElements) size = 1, count = 1;
    elements *= count;
    shape.push_back(std::move(size));
  }
  return shape;
}

DType GraphMaker::some_dtype() { return decide.one_of(kDTypes); }

}  // namespace xyntra::graphs
