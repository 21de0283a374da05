// One node of the file: a call of a function, a constant, or an operator.
#include <algorithm>
#include <array>

#include "frontends/onnx/classical.h"
#include "frontends/onnx/graph_import.h"
#include "frontends/onnx/microsoft.h"
#include "frontends/onnx/places.h"
#include "frontends/onnx/versions/versions.h"

namespace xyntra::onnx {

namespace {

Status check_attribute(const Attribute& attribute) {
  if (attribute.name.empty()) return bad_model("an attribute without a name");
  const std::string what = "attribute " + in_quotes(attribute.name);
  if (attribute.unknown_type != 0) {
    return bad_model(what + " has unknown type " + std::to_string(attribute.unknown_type));
  }
  if (attribute.stray_field == nullptr) return {};
  return bad_model(what + " is said to be of type " + name_of(attribute.type) + " but holds '" +
                   attribute.stray_field + "'");
}

// The forms in which a Constant gives its value.
Result<Tensor> constant_value(const Attribute& attribute, TensorReader& tensors) {
  if (attribute.name == "value_int" && attribute.type == Attribute::Type::Int) {
    return Tensor::scalar_i64(attribute.i);
  }
  if (attribute.name == "value_float" && attribute.type == Attribute::Type::Float) {
    return Tensor::scalar_f32(attribute.f);
  }
  if (attribute.name == "value_ints" && attribute.type == Attribute::Type::Ints) {
    return Tensor::of_integers(attribute.ints);
  }
  if (attribute.name == "value_floats" && attribute.type == Attribute::Type::Floats) {
    return Tensor::from<float>(DType::F32, {static_cast<std::int64_t>(attribute.floats.size())},
                               attribute.floats);
  }
  const bool dense = attribute.name == "value" && attribute.type == Attribute::Type::Tensor;
  const bool sparse = attribute.name == "sparse_value" && attribute.type == Attribute::Type::SparseTensor;
  if (dense && !attribute.tensors.empty()) return tensors.read(attribute.tensors[0]);
  if (sparse && !attribute.sparse_tensors.empty()) return tensors.read_sparse(attribute.sparse_tensors[0]);
  if (attribute.name == "value_string" && attribute.type == Attribute::Type::String) {
    return Tensor::of_strings({}, std::span(&attribute.s, 1));
  }
  if (attribute.name == "value_strings" && attribute.type == Attribute::Type::Strings) {
    return Tensor::of_strings({static_cast<std::int64_t>(attribute.strings.size())}, attribute.strings);
  }
  return bad_model("a constant with attribute " + in_quotes(attribute.name) + " of type " +
                   name_of(attribute.type));
}

}  // namespace

Status GraphImporter::import_node(const Node& node, const std::string& origin, Names& names,
                                  const Frame& frame) {
  if (options_.budget) XYNTRA_CHECK_OK(options_.budget->check_time());
  if (node.op_type.empty()) return bad_model("a node without an operator");
  if (const Function* function = functions_.find(node))
    return import_call(node, *function, origin, names, frame);
  if (node.op_type == "Constant" && canonical_domain(node.domain).empty()) {
    return import_constant(node, names, frame);
  }
  XYNTRA_TRY(NodeDraft draft, draft_node(node, origin, names, frame));
  XYNTRA_CHECK_OK(import_subgraphs(node, draft, names, frame));
  if (canonical_domain(node.domain).empty()) XYNTRA_CHECK_OK(upgrade_or_keep(draft, *names.builder));
  if (node.domain == "com.microsoft") XYNTRA_CHECK_OK(read_microsoft_alias(draft, *names.builder));
  if (node.domain == "ai.onnx.ml") XYNTRA_CHECK_OK(read_classical(draft, *names.builder));
  XYNTRA_TRY(const NodeId id, names.builder->add(std::move(draft)));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const std::vector<ValueId>& outputs = names.builder->graph().node(id).outputs;
    if (i >= outputs.size() || !outputs[i].valid()) continue;
    const ValueId value = outputs[i];
    XYNTRA_CHECK_OK(bind(names, node.outputs[i], value));
    XYNTRA_CHECK_OK(settle_type(names, node.outputs[i], value));
  }
  return {};
}

// A version that cannot be upgraded is like an operator without definition: where those are kept, it is too.
Status GraphImporter::upgrade_or_keep(NodeDraft& draft, GraphBuilder& builder) const {
  const std::string versioned = draft.op + "@" + std::to_string(draft.version);
  Status upgraded = upgrade(draft, builder);
  const bool keep = !upgraded && upgraded.error().error_class == ErrorClass::Unsupported &&
                    options_.undefined_ops == UndefinedOps::Keep;
  if (!keep) return upgraded;
  draft.op = versioned;
  return {};
}

Result<std::int64_t> GraphImporter::version_of(const Node& node, const Frame& frame) const {
  const std::string_view domain = canonical_domain(node.domain);
  const auto found = frame.opsets->find(domain);
  if (found == frame.opsets->end()) {
    return bad_model(domain.empty() ? "no opset is imported"
                                    : "no opset is imported for domain " + in_quotes(domain));
  }
  if (!domain.empty()) return found->second;
  const std::int64_t first = first_opset_with(node.op_type);
  if (first == 0) return unsupported("operator " + in_quotes(node.op_type) + " is not one of ONNX");
  if (found->second < first) {
    return bad_model("operator " + in_quotes(node.op_type) + " exists since opset " + std::to_string(first) +
                     ", the model imports opset " + std::to_string(found->second));
  }
  return found->second;
}

Result<NodeDraft> GraphImporter::draft_node(const Node& node, const std::string& origin, Names& names,
                                            const Frame& frame) {
  NodeDraft draft;
  draft.op = full_name(node);
  draft.origin = origin;
  XYNTRA_TRY(draft.version, version_of(node, frame));
  for (const std::string_view input : node.inputs) {
    if (input.empty()) {
      draft.inputs.emplace_back();
      continue;
    }
    const auto value = resolve(names, input);
    XYNTRA_CHECK_OK(check_captures());
    if (!value) return bad_model("input " + in_quotes(input) + " is not defined");
    draft.inputs.push_back(*value);
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string_view output = node.outputs[i];
    // Outputs that old models name out of habit (masks, statistics) but never use are not asked for.
    const bool wanted = i == 0 || names.used.contains(output);
    draft.outputs.push_back(wanted ? new_value_name(names, output) : std::string());
  }
  XYNTRA_TRY(const auto attributes, attributes_of(node, frame));
  for (const auto& [name, attribute] : attributes) {
    if (attribute->type == Attribute::Type::Graph) continue;  // import_subgraphs
    XYNTRA_TRY(xyntra::Attribute value, import_attribute(*attribute, tensors_));
    draft.attributes.emplace(std::string(name), std::move(value));
  }
  return draft;
}

Result<std::map<std::string_view, const Attribute*>> GraphImporter::attributes_of(const Node& node,
                                                                                  const Frame& frame) const {
  std::map<std::string_view, const Attribute*> attributes;
  for (const Attribute& attribute : node.attributes) {
    XYNTRA_CHECK_OK(check_attribute(attribute));
    XYNTRA_TRY(const Attribute* value, dereference(attribute, frame));
    if (!attributes.emplace(attribute.name, value).second) {
      return bad_model("attribute " + in_quotes(attribute.name) + " is given twice");
    }
  }
  std::erase_if(attributes, [](const auto& entry) { return entry.second == nullptr; });
  return attributes;
}

Result<const Attribute*> GraphImporter::dereference(const Attribute& attribute, const Frame& frame) const {
  if (attribute.reference.empty()) return &attribute;
  if (!frame.is_function) {
    return bad_model("attribute " + in_quotes(attribute.name) +
                     " refers to an attribute of a function outside of one");
  }
  const auto found = frame.attributes.find(attribute.reference);
  if (found == frame.attributes.end()) return nullptr;
  if (attribute.type != Attribute::Type::Undefined && attribute.type != found->second->type) {
    return bad_model("attribute " + in_quotes(attribute.name) + " of type " + name_of(attribute.type) +
                     " refers to " + in_quotes(attribute.reference) + " of type " +
                     name_of(found->second->type));
  }
  return found->second;
}

Status GraphImporter::import_constant(const Node& node, Names& names, const Frame& frame) {
  XYNTRA_CHECK_OK(version_of(node, frame));
  XYNTRA_TRY(const auto attributes, attributes_of(node, frame));
  if (!node.inputs.empty() || node.outputs.size() != 1 || node.outputs[0].empty() || attributes.size() != 1) {
    return bad_model("a constant has no inputs, one output and one attribute");
  }
  // A reference has the name of the attribute it fills, the value of the one it refers to.
  Attribute attribute = *attributes.begin()->second;
  attribute.name = attributes.begin()->first;
  XYNTRA_TRY(Tensor tensor, constant_value(attribute, tensors_));
  xyntra::Graph& graph = names.builder->graph();
  const ValueId value = graph.add_constant(new_value_name(names, node.outputs[0]), std::move(tensor));
  XYNTRA_CHECK_OK(bind(names, node.outputs[0], value));
  return settle_type(names, node.outputs[0], value);
}

Status GraphImporter::import_call(const Node& node, const Function& function, const std::string& origin,
                                  Names& names, const Frame& frame) {
  if (depth_ >= options_.limits.max_nesting) {
    return limit_error("more than " + std::to_string(options_.limits.max_nesting) + " levels of nesting");
  }
  if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size()) {
    return bad_model("is called with " + std::to_string(node.inputs.size()) + " inputs and " +
                     std::to_string(node.outputs.size()) + " outputs, the function has " +
                     std::to_string(function.inputs.size()) + " and " +
                     std::to_string(function.outputs.size()));
  }
  Names inner;
  inner.builder = names.builder;
  inner.in_function = true;
  inner.origin_prefix = shortened(origin) + "/";
  inner.value_prefix = inner.origin_prefix;
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    ValueId value;
    if (i < node.inputs.size() && !node.inputs[i].empty()) {
      const auto found = resolve(names, node.inputs[i]);
      if (!found) return bad_model("input " + in_quotes(node.inputs[i]) + " is not defined");
      value = *found;
    }
    XYNTRA_CHECK_OK(bind(inner, function.inputs[i], value));
  }
  std::vector<std::string> output_names;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    output_names.push_back(new_value_name(names, node.outputs[i]));
    if (!node.outputs[i].empty()) inner.renamed.emplace(function.outputs[i], output_names.back());
  }

  Frame inner_frame;
  inner_frame.is_function = true;
  if (!function_opsets_.contains(&function)) {
    XYNTRA_TRY(Opsets opsets, check_opsets(function.opset_imports));
    function_opsets_.emplace(&function, std::move(opsets));
  }
  inner_frame.opsets = &function_opsets_.at(&function);
  XYNTRA_TRY(inner_frame.attributes, attributes_of(node, frame));
  for (const auto& [name, attribute] : inner_frame.attributes) {
    const bool declared = std::ranges::find(function.attributes, name) != function.attributes.end() ||
                          std::ranges::find(function.default_attributes, name, &Attribute::name) !=
                              function.default_attributes.end();
    if (!declared) return bad_model("the function has no attribute " + in_quotes(name));
    if (!attribute->graphs.empty()) return unsupported("graphs as attributes of functions");
  }
  for (const Attribute& attribute : function.default_attributes) {
    inner_frame.attributes.emplace(attribute.name, &attribute);
  }

  inner.used.insert(function.outputs.begin(), function.outputs.end());
  ++depth_;
  Status imported = import_nodes(function.nodes, inner, inner_frame);
  --depth_;
  XYNTRA_CHECK_OK(std::move(imported));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const auto result = inner.values.find(function.outputs[i]);
    if (result == inner.values.end() || !result->second.valid()) {
      return bad_model("the function never computes its output " + in_quotes(function.outputs[i]));
    }
    ValueId value = result->second;
    if (names.builder->graph().value(value).name !=
        output_names[i]) {  // an input passed on, or one value twice
      NodeDraft identity;
      identity.op = "Identity";
      identity.version = kNewestOpset;
      identity.inputs = {value};
      identity.outputs = {output_names[i]};
      identity.origin = origin;
      XYNTRA_TRY(const NodeId id, names.builder->add(std::move(identity)));
      value = names.builder->graph().output_of(id);
    }
    XYNTRA_CHECK_OK(bind(names, node.outputs[i], value));
    XYNTRA_CHECK_OK(settle_type(names, node.outputs[i], value));
  }
  return {};
}

}  // namespace xyntra::onnx
