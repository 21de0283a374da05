#include "frontends/onnx/graph_import.h"

#include "frontends/onnx/places.h"
#include "frontends/onnx/versions/versions.h"

namespace xyntra::onnx {

namespace {

template <class T>
Result<T> about(Result<T> result, const std::string& what) {
  if (!result) result.error().message = what + ": " + result.error().message;
  return result;
}

}  // namespace

Result<Opsets> check_opsets(const std::vector<OpsetImport>& imports) {
  Opsets opsets;
  for (const OpsetImport& import : imports) {
    const std::string_view domain = canonical_domain(import.domain);
    const std::string title = domain.empty() ? "opset" : "opset of domain " + in_quotes(domain);
    if (import.version < 1) return bad_model(title + " has version " + std::to_string(import.version));
    if (domain.empty() && import.version > kNewestOpset) {
      return failure(unsupported("opset " + std::to_string(import.version) + " is newer than " +
                                 std::to_string(kNewestOpset) + ", the newest known")
                         .value()
                         .with_hint("convert the model with onnx.version_converter"));
    }
    const auto [place, added] = opsets.emplace(domain, import.version);
    if (!added && place->second != import.version) {
      return bad_model(title + " is imported as version " + std::to_string(place->second) + " and " +
                       std::to_string(import.version));
    }
  }
  return opsets;
}

Result<xyntra::Graph> GraphImporter::import_main() {
  const Graph& graph = *model_.graph;
  XYNTRA_TRY(const Opsets opsets, check_opsets(model_.opset_imports));
  for (const ValueInfo& input : graph.inputs) {
    if (!input.type) continue;
    for (const Dimension& dim : input.type->dims) symbols_.declare(dim.param);
  }
  GraphBuilder builder("u", options_.undefined_ops, work_);
  reserve_names(graph, builder);
  Names names;
  names.builder = &builder;
  Frame frame;
  frame.opsets = &opsets;
  for (const std::vector<ValueInfo>* infos : {&graph.value_infos, &graph.outputs}) {
    for (const ValueInfo& info : *infos) {
      if (info.type) names.declared.emplace(info.name, &*info.type);
    }
  }
  XYNTRA_CHECK_OK(define_initializers(graph, names));
  XYNTRA_CHECK_OK(define_inputs(graph, names));
  for (const ValueInfo& output : graph.outputs) names.used.insert(output.name);
  XYNTRA_CHECK_OK(import_nodes(graph.nodes, names, frame));
  XYNTRA_CHECK_OK(define_outputs(graph, names));
  builder.graph().name = std::string(graph.name);
  return std::move(builder.graph());
}

void GraphImporter::reserve_names(const Graph& graph, GraphBuilder& builder) {
  for (const ValueInfo& input : graph.inputs) builder.reserve(input.name);
  for (const TensorProto& tensor : graph.initializers) builder.reserve(tensor.name);
  for (const SparseTensorProto& tensor : graph.sparse_initializers) builder.reserve(tensor.values.name);
  for (const Node& node : graph.nodes) {
    for (const std::string_view output : node.outputs) builder.reserve(output);
  }
}

Status GraphImporter::define_initializers(const Graph& graph, Names& names) {
  const auto define = [&](std::string_view name, Result<Tensor> tensor) -> Status {
    if (!tensor) return failure(std::move(tensor).error());
    if (name.empty()) return bad_model("an initializer without a name");
    if (names.values.contains(name)) return bad_model("initializer " + in_quotes(name) + " is defined twice");
    return bind(names, name, names.builder->graph().add_constant(std::string(name), std::move(*tensor)));
  };
  for (const TensorProto& proto : graph.initializers)
    XYNTRA_CHECK_OK(define(proto.name, tensors_.read(proto)));
  for (const SparseTensorProto& proto : graph.sparse_initializers) {
    XYNTRA_CHECK_OK(define(proto.values.name, tensors_.read_sparse(proto)));
  }
  return {};
}

// An input that has an initializer is a constant: its default is its value.
Status GraphImporter::define_inputs(const Graph& graph, Names& names) {
  std::set<std::string_view> seen;
  for (const ValueInfo& input : graph.inputs) {
    const std::string what = "input " + in_quotes(input.name);
    if (input.name.empty()) return bad_model("an input without a name");
    if (!seen.insert(input.name).second) return bad_model(what + " is defined twice");
    if (const auto constant = names.values.find(input.name); constant != names.values.end()) {
      if (input.type) {
        const Type& type = names.builder->type(constant->second);
        XYNTRA_CHECK_OK(check_declared(type, *input.type, input.name));
        if (const auto wrong = wrong_shape(type, *input.type, input.name)) return bad_model(*wrong);
      }
      continue;
    }
    if (!input.type) return bad_model(what + " has no type");
    XYNTRA_TRY(Type type, about(import_type(*input.type, symbols_, input.name), what));
    XYNTRA_CHECK_OK(
        bind(names, input.name, names.builder->graph().add_input(std::string(input.name), std::move(type))));
  }
  return {};
}

Status GraphImporter::define_outputs(const Graph& graph, Names& names) {
  std::set<std::string_view> seen;
  for (const ValueInfo& output : graph.outputs) {
    if (output.name.empty()) return bad_model("an output without a name");
    const auto value = resolve(names, output.name);
    XYNTRA_CHECK_OK(check_captures());
    if (!value || !value->valid())
      return bad_model("output " + in_quotes(output.name) + " is never computed");
    if (names.around == nullptr && !seen.insert(output.name).second) {
      return bad_model("output " + in_quotes(output.name) + " is listed twice");
    }
    if (output.type)
      XYNTRA_CHECK_OK(check_annotation(names.builder->type(*value), *output.type, output.name));
    names.builder->graph().outputs.push_back(*value);
  }
  return {};
}

Status GraphImporter::import_nodes(std::span<const Node> nodes, Names& names, const Frame& frame) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string_view output : nodes[i].outputs) {
      if (!names.values.contains(output)) continue;
      return failure(bad_model("value " + in_quotes(output) + " is defined twice")
                         .value()
                         .at_node(display_name(nodes[i], i), full_name(nodes[i])));
    }
  }
  XYNTRA_TRY(const auto order, execution_order(nodes, free_names_));
  names.used.merge(needed_names(nodes, free_names_));
  for (const std::size_t index : order) {
    const Node& node = nodes[index];
    const bool prefixed = names.in_function || node.name.empty();
    const std::string own_name = display_name(node, index);
    const std::string origin = prefixed ? names.origin_prefix + shortened(own_name) : own_name;
    Status imported = import_node(node, origin, names, frame);
    if (!imported) return failure(std::move(imported).error().at_node(origin, full_name(node)));
  }
  return {};
}

Status GraphImporter::bind(Names& names, std::string_view name, ValueId value) {
  if (names.values.emplace(name, value).second) return {};
  return bad_model("value " + in_quotes(name) + " is defined twice");
}

// Finds a value by name, here or around; what comes from around becomes a constant or an input of this graph.
std::optional<ValueId> GraphImporter::resolve(Names& names, std::string_view name) {
  if (const auto found = names.values.find(name); found != names.values.end()) return found->second;
  if (names.around == nullptr) return std::nullopt;
  const auto outside = resolve(*names.around, name);  // as deep as subgraphs are nested, which is capped
  if (!outside || !outside->valid()) return outside;

  const Value& value = names.around->builder->graph().value(*outside);
  xyntra::Graph& graph = names.builder->graph();
  const std::string inner_name = names.builder->fresh_name(shortened(name));
  ValueId inside;
  if (value.is_constant()) {
    inside = graph.add_constant(inner_name, value.constant);
  } else {
    inside = graph.add_input(inner_name, value.type);
    graph.value(inside).elements = value.elements;
    names.captures.push_back({*outside, inside});
    ++captures_;
  }
  names.values.emplace(name, inside);
  return inside;
}

Status GraphImporter::check_captures() const {
  if (captures_ <= options_.limits.max_captures) return {};
  return limit_error("more than " + std::to_string(options_.limits.max_captures) +
                     " values are captured by subgraphs");
}

std::string GraphImporter::new_value_name(Names& names, std::string_view name) {
  if (name.empty()) return {};
  if (const auto renamed = names.renamed.find(name); renamed != names.renamed.end()) return renamed->second;
  if (!names.in_function) return std::string(name);
  return names.builder->fresh_name(names.value_prefix + shortened(name));
}

// What is inferred wins over a declared shape that contradicts it.
Status GraphImporter::check_annotation(const Type& inferred, const TypeProto& declared,
                                       std::string_view name) {
  const bool maps = declared.kind == TypeProto::Kind::Sequence && !declared.element.empty() &&
                    declared.element[0].kind == TypeProto::Kind::Map;
  if (maps && inferred.is_tensor() && !options_.strict) {  // of a ZipMap
    warnings_.insert("value " + in_quotes(name) +
                     " is declared as a sequence of maps but is the matrix of their values");
    return {};
  }
  XYNTRA_CHECK_OK(check_declared(inferred, declared, name));
  auto wrong = wrong_shape(inferred, declared, name);
  if (wrong && options_.strict) return bad_model(*wrong);
  if (wrong) warnings_.insert(std::move(*wrong));
  return {};
}

// What the file declares helps where nothing was inferred.
Status GraphImporter::settle_type(Names& names, std::string_view name, ValueId value) {
  const auto declared = names.declared.find(name);
  if (declared == names.declared.end()) return {};
  Type& type = names.builder->graph().value(value).type;
  XYNTRA_CHECK_OK(check_annotation(type, *declared->second, name));
  if (type.kind != Type::Kind::Unknown && !(type.is_tensor() && !type.shape)) return {};
  const SizeNames size_names = names.around == nullptr ? SizeNames::AsDeclared : SizeNames::Fresh;
  auto imported = import_type(*declared->second, symbols_, name, size_names);
  if (imported) type = std::move(*imported);
  return {};
}

}  // namespace xyntra::onnx
