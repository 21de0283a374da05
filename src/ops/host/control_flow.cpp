// If, Loop, Scan, SequenceMap: ops that run closed subgraphs; ir/graph.h says how operands and captures line up.
#include <algorithm>
#include <array>

#include "ops/host/host_tensors.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

// A value of a type that is not known may have any shape, but no other dtype.
Type without_shape(const Type& type) {
  switch (type.kind) {
    case Type::Kind::Unknown: return type;
    case Type::Kind::Tensor: return Type::tensor(type.dtype);
    case Type::Kind::Sequence: return Type::sequence(without_shape(*type.element));
    case Type::Kind::Optional: return Type::optional(without_shape(*type.element));
  }
  return {};
}

// What both types have in common; sizes that differ become `fresh` ones.
Type common_type(const InferenceContext& c, const Type& a, const Type& b, std::size_t output) {
  if (a == b) return a;
  if (a.kind == Type::Kind::Unknown) return without_shape(b);
  if (b.kind == Type::Kind::Unknown) return without_shape(a);
  if (a.kind != b.kind) return Type();
  if (a.kind == Type::Kind::Sequence) return Type::sequence(common_type(c, *a.element, *b.element, output));
  if (a.kind == Type::Kind::Optional) return Type::optional(common_type(c, *a.element, *b.element, output));
  if (a.dtype != b.dtype) return Type();
  if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) return Type::tensor(a.dtype);
  Shape shape = *a.shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!(shape[d] == (*b.shape)[d])) shape[d] = c.unknown_dim(output, d);
  }
  return Type::tensor(a.dtype, std::move(shape));
}

ValueFacts only_type(const ValueFacts& facts) { return {facts.type, {}, {}, true}; }
ValueFacts scalar_of(DType dtype) { return {Type::tensor(dtype, Shape{}), {}, {}, true}; }

Status check_result_count(const OpContext& c, const Graph& body, std::size_t extra) {
  if (body.outputs.size() == c.output_count() + extra) return {};
  return c.fail("the subgraph has " + std::to_string(body.outputs.size()) + " outputs, the node " +
                std::to_string(c.output_count()));
}

Status check_argument_count(const OpContext& c, const Graph& body, std::size_t count) {
  if (body.inputs.size() == count) return {};
  return c.fail("the subgraph has " + std::to_string(body.inputs.size()) + " inputs, the node gives it " +
                std::to_string(count));
}

Result<std::size_t> states_of(const OpContext& c, std::size_t first) {
  std::int64_t states = c.integer("states");
  if (states < 0 || static_cast<std::size_t>(states) + first > c.input_count() ||
      static_cast<std::size_t>(states) > c.output_count()) {
    return c.fail("states is " + std::to_string(states));
  }
  return static_cast<std::size_t>(states);
}

Result<std::size_t> scanned_of(const OpContext& c, std::size_t states) {
  std::int64_t scanned = c.integer("num_scan_inputs");
  if (scanned < 1 || static_cast<std::size_t>(scanned) > c.input_count() - states) {
    return c.fail("num_scan_inputs is " + std::to_string(scanned));
  }
  return static_cast<std::size_t>(scanned);
}

// A loop's states keep their dtype but may change shape from iteration to iteration: what the body makes of a state is
// put in again until nothing changes, sizes that differ becoming unknown, then ranks.
Result<std::vector<ValueFacts>> settle_states(InferenceContext& c, const Graph& body,
                                              std::vector<ValueFacts> arguments, std::size_t first_argument,
                                              std::size_t first_result, std::size_t states) {
  constexpr int kRounds = 3;
  std::vector<ValueFacts> results;
  for (int round = 0;; ++round) {
    XYNTRA_TRY(results, c.infer_subgraph(body, arguments));
    bool changed = false;
    for (std::size_t i = 0; i < states; ++i) {
      Type& before = arguments[first_argument + i].type;
      Type merged = common_type(c, before, results[first_result + i].type, i);
      if (merged == before) continue;
      changed = true;
      before = round < kRounds ? merged : merged.is_tensor() ? Type::tensor(merged.dtype) : Type();
    }
    if (!changed || round > kRounds) break;
  }
  for (std::size_t i = 0; i < states; ++i)
    results[first_result + i] = only_type(arguments[first_argument + i]);
  return results;
}

// [iterations, …] for a scan output with the given type of one iteration.
void set_scanned(InferenceContext& c, std::size_t output, const Type& element, const Dim& iterations,
                 std::size_t axis) {
  if (!element.is_tensor()) return;
  Type type = Type::tensor(element.dtype);
  if (element.shape && axis <= element.shape->size()) {
    Shape shape = *element.shape;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), iterations);
    type.shape = std::move(shape);
  }
  c.set_type(output, std::move(type));
}

Result<std::size_t> axis_entry(const OpContext& c, std::string_view name, std::size_t i, std::size_t rank) {
  std::vector<std::int64_t> axes = c.integers(name);
  return c.normalized_axis(i < axes.size() ? axes[i] : 0, rank);
}

bool is_backward(const OpContext& c, std::string_view name, std::size_t i) {
  std::vector<std::int64_t> directions = c.integers(name);
  return i < directions.size() && directions[i] != 0;
}

}  // namespace

namespace rule {

Status if_then_else(InferenceContext& c) {
  std::vector<ValueFacts> captures(c.facts().begin() + 1, c.facts().end());
  const std::array branches = {&c.graph("then_branch"), &c.graph("else_branch")};
  for (const Graph* branch : branches) {
    XYNTRA_CHECK_OK(check_argument_count(c, *branch, captures.size()));
    XYNTRA_CHECK_OK(check_result_count(c, *branch, 0));
  }
  if (const Tensor* condition = c.constant(0); condition != nullptr && condition->count() == 1) {
    XYNTRA_TRY(c.outputs(), c.infer_subgraph(*branches[condition->element_as_i64(0) != 0 ? 0 : 1], captures));
    return {};
  }
  XYNTRA_TRY(auto when_true, c.infer_subgraph(*branches[0], captures));
  XYNTRA_TRY(auto when_false, c.infer_subgraph(*branches[1], captures));
  for (std::size_t i = 0; i < c.output_count(); ++i) {
    c.set_type(i, common_type(c, when_true[i].type, when_false[i].type, i));
  }
  return {};
}

Status loop(InferenceContext& c) {
  XYNTRA_TRY(std::size_t states, states_of(c, 2));
  const Graph& body = c.graph("body");
  XYNTRA_CHECK_OK(check_argument_count(c, body, c.input_count()));
  XYNTRA_CHECK_OK(check_result_count(c, body, 1));
  std::vector<ValueFacts> arguments{scalar_of(DType::I64), scalar_of(DType::Bool)};
  for (std::size_t i = 2; i < c.input_count(); ++i) {
    arguments.push_back(i < 2 + states ? only_type(c.facts()[i]) : c.facts()[i]);
  }
  XYNTRA_TRY(auto results, settle_states(c, body, std::move(arguments), 2, 1, states));
  for (std::size_t i = 0; i < c.output_count(); ++i) {
    if (i < states) {
      c.set_type(i, results[i + 1].type);
    } else {
      set_scanned(c, i, results[i + 1].type, c.unknown_dim(i, 0), 0);
    }
  }
  return {};
}

Status scan(InferenceContext& c) {
  XYNTRA_TRY(std::size_t states, states_of(c, 0));
  XYNTRA_TRY(std::size_t scanned, scanned_of(c, states));
  const Graph& body = c.graph("body");
  XYNTRA_CHECK_OK(check_argument_count(c, body, c.input_count()));
  XYNTRA_CHECK_OK(check_result_count(c, body, 0));
  std::vector<ValueFacts> arguments(c.facts().begin(), c.facts().end());
  Dim iterations = c.unknown_dim(states, 0);
  for (std::size_t i = 0; i < states + scanned; ++i) {
    arguments[i] = only_type(arguments[i]);
    if (i < states || !arguments[i].type.shape) continue;
    Shape& shape = *arguments[i].type.shape;
    XYNTRA_TRY(std::size_t axis, axis_entry(c, "scan_input_axes", i - states, shape.size()));
    iterations = shape[axis];
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  XYNTRA_TRY(auto results, settle_states(c, body, std::move(arguments), 0, 0, states));
  for (std::size_t i = 0; i < c.output_count(); ++i) {
    if (i < states) {
      c.set_type(i, results[i].type);
      continue;
    }
    const auto& shape = results[i].type.shape;
    std::size_t axis = 0;
    if (shape) {
      XYNTRA_TRY(axis, axis_entry(c, "scan_output_axes", i - states, shape->size() + 1));
    }
    set_scanned(c, i, results[i].type, iterations, axis);
  }
  return {};
}

Status sequence_map(InferenceContext& c) {
  const Graph& body = c.graph("body");
  auto others = static_cast<std::size_t>(c.integer("others"));
  XYNTRA_CHECK_OK(check_argument_count(c, body, c.input_count()));
  XYNTRA_CHECK_OK(check_result_count(c, body, 0));
  const Type::Kind mapped = c.type(0).kind;
  if (mapped != Type::Kind::Sequence && mapped != Type::Kind::Unknown) {
    return c.fail("operand 0 must be a sequence");
  }
  std::vector<ValueFacts> arguments;
  for (std::size_t i = 0; i < c.input_count(); ++i) {
    ValueFacts facts = c.facts()[i];
    if (i <= others && facts.type.kind == Type::Kind::Sequence) facts = {*facts.type.element, {}, {}, true};
    arguments.push_back(std::move(facts));
  }
  XYNTRA_TRY(auto results, c.infer_subgraph(body, arguments));
  for (std::size_t i = 0; i < c.output_count(); ++i) {
    Type element = results[i].type;
    if (element.is_tensor()) element.shape.reset();  // elements may differ in shape
    c.set_type(i, Type::sequence(std::move(element)));
  }
  return {};
}

}  // namespace rule

namespace host {
namespace {

Result<bool> truth(const HostContext& c, const Datum& datum, const char* what) {
  if (datum.kind != Datum::Kind::Tensor || datum.tensor.count() != 1) {
    return c.fail(std::string(what) + " must be a single bool");
  }
  return datum.tensor.element_as_i64(0) != 0;
}

// Of a result that no iteration has made: as it follows from the operands, which is what plans count on, or else as declared.
Type type_without_iterations(Graph body, std::span<const Type> arguments, std::size_t result) {
  const Type declared = body.value(body.outputs[result]).type;
  for (std::size_t i = 0; i < arguments.size(); ++i) body.value(body.inputs[i]).type = arguments[i];
  return infer_types(body) ? body.value(body.outputs[result]).type : declared;
}

// Scan outputs of all iterations as one tensor.
Result<Tensor> gathered(const HostContext& c, const Graph& body, std::span<const Type> arguments,
                        std::size_t result, const std::vector<Tensor>& iterations, std::size_t axis) {
  if (!iterations.empty()) return stacked(c, iterations, axis);
  const Type declared = type_without_iterations(body, arguments, result);
  Dims dims;
  for (const Dim& dim : declared.shape.value_or(Shape{})) {
    dims.push_back(dim.is_constant() ? dim.constant() : 0);
  }
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(std::min(axis, dims.size())), 0);
  return c.allocate(declared.dtype, std::move(dims));
}

Status keep_scanned(const HostContext& c, const Datum& datum, std::vector<Tensor>& iterations,
                    Charge& lists) {
  if (datum.kind != Datum::Kind::Tensor) return c.fail("a scan output of the subgraph is not a tensor");
  // Iterations may share one tensor, so what the list itself takes counts.
  XYNTRA_CHECK_OK(
      lists.grow(static_cast<std::int64_t>(3 * (sizeof(Tensor) + 8 * datum.tensor.dims().size()))));
  iterations.push_back(datum.tensor);
  return {};
}

}  // namespace

Status if_then_else(HostContext& c) {
  XYNTRA_TRY(bool condition, truth(c, c.datum(0), "the condition"));
  std::vector<Datum> captures;
  for (std::size_t i = 1; i < c.input_count(); ++i) captures.push_back(c.datum(i));
  const Graph& branch = c.graph(condition ? "then_branch" : "else_branch");
  XYNTRA_CHECK_OK(check_argument_count(c, branch, captures.size()));
  XYNTRA_CHECK_OK(check_result_count(c, branch, 0));
  XYNTRA_TRY(c.results(), c.run_subgraph(branch, std::move(captures)));
  return {};
}

Status loop(HostContext& c) {
  XYNTRA_TRY(std::size_t states, states_of(c, 2));
  const Graph& body = c.graph("body");
  XYNTRA_CHECK_OK(check_argument_count(c, body, c.input_count()));
  XYNTRA_CHECK_OK(check_result_count(c, body, 1));
  std::int64_t trips = INT64_MAX;
  if (c.has_input(0)) {
    XYNTRA_TRY(trips, single_integer(c, 0));
  }
  bool condition = true;
  if (c.has_input(1)) {
    XYNTRA_TRY(condition, truth(c, c.datum(1), "the condition"));
  }
  std::vector<Datum> arguments(2);
  for (std::size_t i = 2; i < c.input_count(); ++i) arguments.push_back(c.datum(i));
  std::vector<std::vector<Tensor>> scanned(c.output_count() - states);
  Charge lists(c.budget());
  for (std::int64_t iteration = 0; iteration < trips && condition; ++iteration) {
    XYNTRA_CHECK_OK(c.check_time());
    XYNTRA_TRY(Tensor number, c.allocate(DType::I64, {}));
    number.set_element_i64(0, iteration);
    arguments[0] = Datum::of(std::move(number));
    XYNTRA_TRY(Tensor going_on, c.allocate(DType::Bool, {}));
    going_on.set_element_i64(0, 1);
    arguments[1] = Datum::of(std::move(going_on));
    XYNTRA_TRY(auto results, c.run_subgraph(body, arguments));
    XYNTRA_TRY(condition, truth(c, results[0], "the subgraph's condition"));
    for (std::size_t i = 0; i < states; ++i) arguments[2 + i] = std::move(results[1 + i]);
    for (std::size_t i = 0; i < scanned.size(); ++i) {
      XYNTRA_CHECK_OK(keep_scanned(c, results[1 + states + i], scanned[i], lists));
    }
  }
  std::vector<Type> types{Type::tensor(DType::I64, Shape{}), Type::tensor(DType::Bool, Shape{})};
  const bool none = !scanned.empty() && scanned[0].empty();
  for (std::size_t i = 2; i < arguments.size() && none; ++i) types.push_back(facts_of(arguments[i]).type);
  for (std::size_t i = 0; i < states; ++i) c.set_result(i, arguments[2 + i]);
  for (std::size_t i = 0; i < scanned.size(); ++i) {
    XYNTRA_TRY(Tensor all, gathered(c, body, types, 1 + states + i, scanned[i], 0));
    c.set_result(states + i, std::move(all));
  }
  return {};
}

Status scan(HostContext& c) {
  XYNTRA_TRY(std::size_t states, states_of(c, 0));
  XYNTRA_TRY(std::size_t scanned, scanned_of(c, states));
  const Graph& body = c.graph("body");
  XYNTRA_CHECK_OK(check_argument_count(c, body, c.input_count()));
  XYNTRA_CHECK_OK(check_result_count(c, body, 0));
  std::vector<Datum> arguments;
  std::vector<std::size_t> axes(scanned);
  std::int64_t iterations = -1;
  for (std::size_t i = 0; i < c.input_count(); ++i) arguments.push_back(c.datum(i));
  for (std::size_t i = 0; i < scanned; ++i) {
    const Tensor& x = c.input(states + i);
    XYNTRA_TRY(axes[i], axis_entry(c, "scan_input_axes", i, x.dims().size()));
    std::int64_t extent = x.dims()[axes[i]];
    if (iterations >= 0 && extent != iterations) {
      return c.fail("scan inputs have " + std::to_string(iterations) + " and " + std::to_string(extent) +
                    " elements along their axes");
    }
    iterations = extent;
  }
  std::vector<std::vector<Tensor>> collected(c.output_count() - states);
  Charge lists(c.budget());
  for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
    XYNTRA_CHECK_OK(c.check_time());
    for (std::size_t i = 0; i < scanned; ++i) {
      std::int64_t position =
          is_backward(c, "scan_input_directions", i) ? iterations - 1 - iteration : iteration;
      XYNTRA_TRY(Tensor slice, slice_at(c, c.input(states + i), axes[i], position));
      arguments[states + i] = Datum::of(std::move(slice));
    }
    XYNTRA_TRY(auto results, c.run_subgraph(body, arguments));
    for (std::size_t i = 0; i < states; ++i) arguments[i] = std::move(results[i]);
    for (std::size_t i = 0; i < collected.size(); ++i) {
      XYNTRA_CHECK_OK(keep_scanned(c, results[states + i], collected[i], lists));
    }
  }
  std::vector<Type> types;
  for (std::size_t i = 0; i < arguments.size() && iterations == 0; ++i) {
    types.push_back(facts_of(arguments[i]).type);
    if (i < states || i >= states + scanned) continue;
    Shape& shape = *types[i].shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axes[i - states]));
  }
  for (std::size_t i = 0; i < states; ++i) c.set_result(i, arguments[i]);
  for (std::size_t i = 0; i < collected.size(); ++i) {
    if (is_backward(c, "scan_output_directions", i)) std::reverse(collected[i].begin(), collected[i].end());
    std::size_t axis = 0;
    if (!collected[i].empty()) {
      XYNTRA_TRY(axis, axis_entry(c, "scan_output_axes", i, collected[i][0].dims().size() + 1));
    }
    XYNTRA_TRY(Tensor all, gathered(c, body, types, states + i, collected[i], axis));
    c.set_result(states + i, std::move(all));
  }
  return {};
}

Status sequence_map(HostContext& c) {
  const Graph& body = c.graph("body");
  XYNTRA_CHECK_OK(check_argument_count(c, body, c.input_count()));
  XYNTRA_CHECK_OK(check_result_count(c, body, 0));
  auto others = static_cast<std::size_t>(c.integer("others"));
  if (c.datum(0).kind != Datum::Kind::Sequence) return c.fail("operand 0 must be a sequence");
  std::size_t length = c.datum(0).items.size();
  std::vector<std::vector<Datum>> collected(c.output_count());
  for (std::size_t iteration = 0; iteration < length; ++iteration) {
    XYNTRA_CHECK_OK(c.check_time());
    std::vector<Datum> arguments;
    for (std::size_t i = 0; i < c.input_count(); ++i) {
      const Datum& whole = c.datum(i);
      bool mapped = i <= others && whole.kind == Datum::Kind::Sequence;
      if (mapped && whole.items.size() != length) return c.fail("sequences of different length are mapped");
      arguments.push_back(mapped ? whole.items[iteration] : whole);
    }
    XYNTRA_TRY(auto results, c.run_subgraph(body, std::move(arguments)));
    for (std::size_t i = 0; i < collected.size(); ++i) {
      if (results[i].kind != Datum::Kind::Tensor) return c.fail("a result of the subgraph is not a tensor");
      collected[i].push_back(std::move(results[i]));
    }
  }
  for (std::size_t i = 0; i < collected.size(); ++i)
    c.set_result(i, Datum::sequence(std::move(collected[i])));
  return {};
}

}  // namespace host
}  // namespace xyntra
