#include "exporters/json.h"

#include "ir/text_literals.h"
#include "support/text/json.h"

namespace xyntra {
namespace {

constexpr std::int64_t kLongestList = 64;  // elements; longer constants are named by their hash

Json to_json(const Graph& graph);

// JSON has no bit patterns: numbers stand as the text form spells them, exactly, in strings where they must.
Json number_or_text(const std::string& text) { return Json::parse(text).value_or(text); }

Json elements_of(const Tensor& tensor) {
  Json elements = Json::array();
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    elements.push_back(is_string(tensor.dtype()) ? Json(tensor.string_at(i))
                                                 : number_or_text(element_text(tensor, i)));
  }
  return elements;
}

Json to_json(const Tensor& tensor) {
  Json json{{"dtype", name_of(tensor.dtype())}, {"dims", tensor.dims()}};
  if (tensor.count() <= kLongestList) {
    json["elements"] = elements_of(tensor);
  } else {
    json["sha256"] = tensor.content_hash();
  }
  return json;
}

struct AttributeToJson {
  Json operator()(std::int64_t value) const { return value; }
  Json operator()(float value) const { return number_or_text(float_text(value)); }
  Json operator()(const std::string& value) const { return value; }
  Json operator()(const std::vector<std::int64_t>& values) const { return values; }
  Json operator()(const std::vector<float>& values) const {
    Json list = Json::array();
    for (float value : values) list.push_back(number_or_text(float_text(value)));
    return list;
  }
  Json operator()(const std::vector<std::string>& values) const { return values; }
  Json operator()(const Tensor& value) const { return to_json(value); }
  Json operator()(const std::shared_ptr<const Graph>& value) const { return to_json(*value); }
  Json operator()(const Type& value) const { return value.to_string(); }
};

Json to_json(const Value& value) { return {{"name", value.name}, {"type", value.type.to_string()}}; }

Json to_json(const Graph& graph, const Node& node) {
  Json json{{"op", node.op}};
  if (!node.origin.empty()) json["origin"] = node.origin;
  json["inputs"] = Json::array();
  for (ValueId id : node.inputs) json["inputs"].push_back(id.valid() ? Json(graph.value(id).name) : Json());
  json["outputs"] = Json::array();
  for (ValueId id : node.outputs) json["outputs"].push_back(id.valid() ? to_json(graph.value(id)) : Json());
  for (const auto& [name, attribute] : node.attributes) {
    json["attributes"][name] = {{"kind", attribute_kind(attribute)},
                                {"value", std::visit(AttributeToJson{}, attribute)}};
  }
  return json;
}

Json to_json(const Graph& graph) {
  Json json{{"name", graph.name}, {"inputs", Json::array()}, {"outputs", Json::array()}};
  for (ValueId id : graph.inputs) json["inputs"].push_back(to_json(graph.value(id)));
  for (ValueId id : graph.outputs) json["outputs"].push_back(to_json(graph.value(id)));
  json["constants"] = Json::array();
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(i));
    if (!value.is_constant() || value.producer.valid()) continue;
    Json constant{{"name", value.name}};
    constant.update(to_json(value.constant));
    json["constants"].push_back(std::move(constant));
  }
  json["nodes"] = Json::array();
  auto order = graph.topological_order();
  for (NodeId id : order ? *order : graph.node_ids()) json["nodes"].push_back(to_json(graph, graph.node(id)));
  return json;
}

}  // namespace

Json graph_json(const Module& module) {
  Json json{{"format", "xyntra graph"}, {"version", 1}, {"metadata", module.metadata}};
  json["symbols"] = Json::object();
  for (const auto& [name, range] : module.symbols) {
    json["symbols"][name] = {range.low, range.high == INT64_MAX ? Json() : Json(range.high)};
  }
  json["graph"] = to_json(module.graph);
  return json;
}

}  // namespace xyntra
