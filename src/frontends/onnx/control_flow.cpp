// Subgraphs are closed: what they take from around becomes operands of their node and inputs of their graph,
// after the operator's own (ir/graph.h shows each operator's list).
#include "frontends/onnx/graph_import.h"
#include "frontends/onnx/places.h"
#include "ops/op.h"

namespace xyntra::onnx {

namespace {

// One size fewer: what a Scan hands to its body.
Type slice_of(Type type, std::int64_t axis) {
  if (!type.is_tensor() || !type.shape) return type;
  const auto rank = static_cast<std::int64_t>(type.shape->size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return Type::tensor(type.dtype);
  type.shape->erase(type.shape->begin() + axis);
  return type;
}

std::int64_t integer_attribute(const NodeDraft& draft, std::string_view name, std::int64_t otherwise) {
  const auto found = draft.attributes.find(name);
  const auto* value = found == draft.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  return value == nullptr ? otherwise : *value;
}

}  // namespace

Status GraphImporter::import_subgraphs(const Node& node, NodeDraft& draft, Names& names, const Frame& frame) {
  std::map<std::string_view, const Graph*> graphs;
  for (const Attribute& attribute : node.attributes) {
    if (attribute.type != Attribute::Type::Graph || !attribute.reference.empty()) continue;
    if (attribute.graphs.empty())
      return bad_model("attribute " + in_quotes(attribute.name) + " has no value");
    graphs.emplace(attribute.name, &attribute.graphs[0]);
  }
  if (draft.op == "If") return import_if(draft, graphs, names, frame);
  if (draft.op == "ai.onnx.preview.FlexAttention") return import_flex_attention(draft, graphs, names, frame);
  const bool has_body = draft.op == "Loop" || draft.op == "Scan" || draft.op == "SequenceMap";
  if (!has_body) {
    if (graphs.empty() || find_op(draft.op) == nullptr)
      return {};  // the latter is refused, or kept, as a whole
    return bad_model("has no attribute " + in_quotes(graphs.begin()->first));
  }
  const auto body = graphs.find("body");
  if (body == graphs.end() || graphs.size() != 1) return bad_model("needs one graph, its attribute 'body'");
  if (draft.op == "Scan" && draft.version < 9) return import_batched_scan(draft, *body->second, names, frame);
  XYNTRA_TRY(const std::vector<Type> types, body_types(draft, names, *body->second));
  std::vector<Type> initial;  // of what the states are before the first iteration
  for (const ValueId input : draft.inputs)
    initial.push_back(input.valid() ? names.builder->type(input) : Type());
  const bool is_loop = draft.op == "Loop";
  XYNTRA_TRY(ClosedGraph closed,
             close_graph(*body->second, types, draft.origin, names, frame,
                         is_loop ? std::span<const Type>(initial) : std::span<const Type>()));
  const auto own_inputs = static_cast<std::int64_t>(draft.inputs.size());
  if (draft.op == "Loop") draft.attributes["states"] = own_inputs - 2;
  if (draft.op == "Scan")
    draft.attributes["states"] = own_inputs - integer_attribute(draft, "num_scan_inputs", 0);
  if (draft.op == "SequenceMap") draft.attributes["others"] = own_inputs - 1;
  for (const Capture& capture : closed.captures) draft.inputs.push_back(capture.outside);
  draft.attributes["body"] = std::make_shared<const xyntra::Graph>(std::move(closed.graph));
  return {};
}

// Both branches get the same inputs: what either of them takes from around.
Status GraphImporter::import_if(NodeDraft& draft, const std::map<std::string_view, const Graph*>& graphs,
                                Names& names, const Frame& frame) {
  if (!graphs.contains("then_branch") || !graphs.contains("else_branch") || graphs.size() != 2) {
    return bad_model("needs two graphs, its attributes 'then_branch' and 'else_branch'");
  }
  if (draft.inputs.size() != 1 || !draft.inputs[0].valid()) {
    return bad_model("has " + std::to_string(draft.inputs.size()) + " operands, 1 is needed");
  }
  std::vector<ClosedGraph> branches;
  for (const char* branch : {"then_branch", "else_branch"}) {
    if (!graphs.at(branch)->inputs.empty())
      return bad_model("attribute " + in_quotes(branch) + " has inputs");
    XYNTRA_TRY(ClosedGraph closed, close_graph(*graphs.at(branch), {}, draft.origin, names, frame));
    branches.push_back(std::move(closed));
  }
  std::map<std::size_t, std::size_t> position;  // of an outside value among the captures
  std::vector<ValueId> captured;
  for (const ClosedGraph& branch : branches) {
    for (const Capture& capture : branch.captures) {
      if (position.emplace(capture.outside.index, captured.size()).second)
        captured.push_back(capture.outside);
    }
  }
  for (ClosedGraph& branch : branches) {
    std::vector<ValueId> inputs(captured.size());
    for (const Capture& capture : branch.captures)
      inputs[position.at(capture.outside.index)] = capture.inside;
    for (std::size_t i = 0; i < captured.size(); ++i) {
      if (inputs[i].valid()) continue;
      const Value& outside = names.builder->graph().value(captured[i]);
      inputs[i] = branch.graph.add_input(branch.graph.unique_name(shortened(outside.name)), outside.type);
    }
    branch.graph.inputs = std::move(inputs);
  }
  draft.inputs.insert(draft.inputs.end(), captured.begin(), captured.end());
  draft.attributes["then_branch"] = std::make_shared<const xyntra::Graph>(std::move(branches[0].graph));
  draft.attributes["else_branch"] = std::make_shared<const xyntra::Graph>(std::move(branches[1].graph));
  return {};
}

// Scan of opset 8 has a batch axis: a scan over it, without states, whose body is the scan over the sequence.
Status GraphImporter::import_batched_scan(NodeDraft& draft, const Graph& body, Names& names,
                                          const Frame& frame) {
  if (draft.inputs.empty() || draft.inputs[0].valid()) {
    return unsupported("operator 'Scan' of opset 8 with lengths of sequences");
  }
  draft.inputs.erase(draft.inputs.begin());
  const auto own_inputs = static_cast<std::int64_t>(draft.inputs.size());
  const std::int64_t scanned = integer_attribute(draft, "num_scan_inputs", 0);
  if (scanned < 1 || scanned > own_inputs || draft.inputs.size() != body.inputs.size()) {
    return bad_model("its operands do not match the inputs of its body");
  }
  std::vector<Type> of_batch;
  std::vector<Type> of_step;
  for (std::size_t i = 0; i < draft.inputs.size(); ++i) {
    if (!draft.inputs[i].valid()) return bad_model("operand " + std::to_string(i + 1) + " is missing");
    const bool is_state = static_cast<std::int64_t>(i) < own_inputs - scanned;
    of_batch.push_back(slice_of(names.builder->type(draft.inputs[i]), 0));
    of_step.push_back(is_state ? of_batch.back() : slice_of(of_batch.back(), 0));
  }
  XYNTRA_TRY(ClosedGraph closed, close_graph(body, of_step, draft.origin, names, frame));
  for (const Capture& capture : closed.captures) {
    draft.inputs.push_back(capture.outside);
    of_batch.push_back(names.builder->type(capture.outside));
  }

  GraphBuilder batch("u" + std::to_string(subgraphs_++) + "s", options_.undefined_ops, work_);
  NodeDraft sequence;
  sequence.op = "Scan";
  sequence.version = draft.version;
  sequence.origin = draft.origin;
  for (const Type& type : of_batch)
    sequence.inputs.push_back(batch.graph().add_input(batch.fresh_name("batch"), type));
  for (std::size_t i = 0; i < draft.outputs.size(); ++i)
    sequence.outputs.push_back("output_" + std::to_string(i));
  sequence.attributes = {{"body", std::make_shared<const xyntra::Graph>(std::move(closed.graph))},
                         {"states", own_inputs - scanned},
                         {"num_scan_inputs", scanned}};
  if (auto directions = draft.attributes.extract("directions"); !directions.empty()) {
    sequence.attributes["scan_input_directions"] = std::move(directions.mapped());
  }
  XYNTRA_TRY(const NodeId id, batch.add(std::move(sequence)));
  batch.graph().outputs = batch.graph().node(id).outputs;
  draft.attributes["body"] = std::make_shared<const xyntra::Graph>(std::move(batch.graph()));
  draft.attributes["states"] = std::int64_t{0};
  draft.attributes["num_scan_inputs"] = own_inputs;
  return {};
}

// What a body's own inputs are, from the operands of its node.
Result<std::vector<Type>> GraphImporter::body_types(const NodeDraft& draft, const Names& names,
                                                    const Graph& body) {
  const auto operand = [&](std::size_t i) {
    return draft.inputs[i].valid() ? names.builder->type(draft.inputs[i]) : Type();
  };
  std::vector<Type> types;
  if (draft.op == "Loop") {
    if (draft.inputs.size() < 2) return bad_model("needs a trip count and a condition, which may be empty");
    types = {Type::tensor(DType::I64, Shape{}), Type::tensor(DType::Bool, Shape{})};
    // The size of a state may change from iteration to iteration: only its dtype is sure.
    for (std::size_t i = 2; i < draft.inputs.size(); ++i) {
      Type type = operand(i);
      if (type.is_tensor()) type.shape.reset();
      types.push_back(std::move(type));
    }
  } else if (draft.op == "Scan") {
    const auto scanned = static_cast<std::size_t>(integer_attribute(draft, "num_scan_inputs", 0));
    if (scanned < 1 || scanned > draft.inputs.size())
      return bad_model("attribute 'num_scan_inputs' is out of range");
    const auto found = draft.attributes.find("scan_input_axes");
    const auto* axes =
        found == draft.attributes.end() ? nullptr : std::get_if<std::vector<std::int64_t>>(&found->second);
    const std::size_t states = draft.inputs.size() - scanned;
    for (std::size_t i = 0; i < draft.inputs.size(); ++i) {
      const std::size_t slice = i - states;
      const std::int64_t axis = i >= states && axes != nullptr && slice < axes->size() ? (*axes)[slice] : 0;
      types.push_back(i < states ? operand(i) : slice_of(operand(i), axis));
    }
  } else {
    for (std::size_t i = 0; i < draft.inputs.size(); ++i) {
      const Type type = operand(i);
      types.push_back(type.kind == Type::Kind::Sequence ? *type.element : type);
    }
  }
  if (types.size() != body.inputs.size()) {
    return bad_model("has " + std::to_string(draft.inputs.size()) + " operands, but its body has " +
                     std::to_string(body.inputs.size()) + " inputs");
  }
  return types;
}

Result<GraphImporter::ClosedGraph> GraphImporter::close_graph(const Graph& graph,
                                                              const std::vector<Type>& arguments,
                                                              const std::string& origin, Names& names,
                                                              const Frame& frame,
                                                              std::span<const Type> initial) {
  if (depth_ >= options_.limits.max_nesting) {
    return limit_error("more than " + std::to_string(options_.limits.max_nesting) + " levels of nesting");
  }
  GraphBuilder builder("u" + std::to_string(subgraphs_++) + "s", options_.undefined_ops, work_);
  reserve_names(graph, builder);
  Names inner;
  inner.builder = &builder;
  inner.around = &names;
  inner.origin_prefix = shortened(origin) + "/";
  for (const std::vector<ValueInfo>* infos : {&graph.value_infos, &graph.outputs}) {
    for (const ValueInfo& info : *infos) {
      if (info.type) inner.declared.emplace(info.name, &*info.type);
    }
  }
  XYNTRA_CHECK_OK(define_initializers(graph, inner));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ValueInfo& input = graph.inputs[i];
    if (input.name.empty()) return bad_model("an input of a subgraph without a name");
    if (inner.values.contains(input.name))
      return bad_model("input " + in_quotes(input.name) + " is defined twice");
    Type type = arguments[i];
    if (input.type && input.type->kind != TypeProto::Kind::Unset) {
      XYNTRA_CHECK_OK(check_annotation(type, *input.type, input.name));
      const bool vague = type.kind == Type::Kind::Unknown || (type.is_tensor() && !type.shape);
      // A state may be of another rank before the first iteration: a placeholder that nobody reads.
      const bool as_declared =
          i < 2 || i >= initial.size() || !wrong_shape(initial[i], *input.type, input.name);
      if (!as_declared) XYNTRA_CHECK_OK(check_annotation(initial[i], *input.type, input.name));
      if (vague && as_declared && input.type->element_type != 0) {
        XYNTRA_TRY(type, import_type(*input.type, symbols_, input.name, SizeNames::Fresh));
      }
    }
    XYNTRA_CHECK_OK(bind(inner, input.name, builder.graph().add_input(std::string(input.name), type)));
  }
  for (const ValueInfo& output : graph.outputs) inner.used.insert(output.name);
  ++depth_;
  Status imported = import_nodes(graph.nodes, inner, frame);
  --depth_;
  XYNTRA_CHECK_OK(std::move(imported));
  XYNTRA_CHECK_OK(define_outputs(graph, inner));
  builder.graph().name = std::string(graph.name);
  // The rounds a loop may take to settle, for it and the loops around it.
  constexpr std::int64_t kRounds = 20;
  work_.values_left += kRounds * static_cast<std::int64_t>(builder.graph().value_count());
  return ClosedGraph{std::move(builder.graph()), std::move(inner.captures)};
}

}  // namespace xyntra::onnx
