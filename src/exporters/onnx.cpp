#include "exporters/onnx.h"

#include <algorithm>
#include <fstream>
#include <protozero/pbf_writer.hpp>
#include <set>

#include "exporters/onnx_calls.h"
#include "exporters/onnx_fields.h"
#include "exporters/onnx_versions.h"
#include "support/files/file.h"

namespace xyntra {
namespace {

namespace field = onnx_field;
using Writer = protozero::pbf_writer;

constexpr const char* kFunctionDomain = "xyntra";
constexpr std::int64_t kLargestInFunction = 16;  // elements; larger constants are operands of a function
constexpr std::int64_t kSmallestExternal = 1024;  // bytes; smaller constants stay where they are used

// How many operands of a control-flow node are its own; the rest are captures. Negative: no control flow.
std::int64_t own_operands(const Node& node) {
  const auto count = [&](std::string_view name) {
    const auto found = node.attributes.find(name);
    const auto* value = found == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    return value == nullptr ? std::int64_t{0} : *value;
  };
  if (node.op == "If") return 1;
  if (node.op == "Loop") return 2 + count("states");
  if (node.op == "Scan") return count("states") + count("num_scan_inputs");
  if (node.op == "SequenceMap") return 1 + count("others");
  return -1;
}

// Attributes that only the closed form has.
bool is_internal_attribute(const Node& node, std::string_view name) {
  return own_operands(node) >= 0 && (name == "states" || name == "others");
}

// Operators of other domains are kept as they are. Version 5 of ai.onnx.ml brings TreeEnsemble and takes away what it replaces.
constexpr const char* kOfVersion5 = "ai.onnx.ml.TreeEnsemble";
int version_of_domain(std::string_view domain, bool of_version_5) {
  return domain == "ai.onnx.ml" ? (of_version_5 ? 5 : 3) : 1;
}

bool same_contents(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() && std::ranges::equal(a.bytes(), b.bytes());
}

class OnnxWriter {
 public:
  OnnxWriter(const Module& module, std::string data_name, bool external,
             const std::vector<NodeCluster>& functions)
      : module_(module), data_name_(std::move(data_name)), external_(external), functions_(functions) {
    std::vector<std::string> symbols;
    for (ValueId input : module.graph.inputs) collect_symbols(module.graph.value(input).type, symbols);
    input_symbols_.insert(symbols.begin(), symbols.end());
  }

  Result<OnnxFile> write() {
    const int opset = lowest_opset(module_.graph);
    if (!functions_.empty()) {
      XYNTRA_TRY(calls_, order_calls(module_.graph, functions_));
    }
    OnnxFile file;
    Writer model(file.model);
    model.add_int64(field::model::kIrVersion, ir_version_of(opset));
    write_metadata(model);
    Scope scope;
    name_values(module_.graph, scope, {});
    {
      Writer graph(model, field::model::kGraph);
      XYNTRA_CHECK_OK(write_graph(graph, module_.graph, module_.graph.inputs.size(), scope));
      write_text(graph, field::graph::kDocString, "graph_doc_string");
    }
    for (const OnnxCall& call : calls_) {
      if (call.node.valid()) continue;
      Writer function(model, field::model::kFunctions);
      XYNTRA_CHECK_OK(write_function(function, call.cluster, opset, scope));
    }
    domains_.insert("");
    write_imports(model, field::model::kOpsetImport, opset);
    file.external = std::move(external_tensors_);
    return file;
  }

 private:
  // Names that the values of one graph have in the file, and the graph around it.
  struct Scope {
    const Graph* graph = nullptr;
    const Scope* around = nullptr;
    std::vector<std::string> names;  // by value
    std::vector<bool> from_around;  // by value: defined by the graph around it, or further out
    std::set<std::string> taken;  // all names in use here
    std::set<std::string> node_names;  // ONNX Runtime wants these unique within a graph
  };

  void write_imports(Writer& out, field::Tag tag, int opset) const {
    for (const std::string& domain : domains_) {
      Writer import(out, tag);
      import.add_string(field::opset::kDomain, domain);
      import.add_int64(field::opset::kVersion,
                       domain.empty() ? opset : version_of_domain(domain, of_version_5_));
    }
  }

  // ---- Functions. Names are those of the main graph: a function sees none of it, so they cannot clash.
  static std::string function_name(std::size_t cluster) { return "group_" + std::to_string(cluster); }

  static bool fits_in_function(const Value& value) {
    return value.is_constant() && value.constant.count() <= kLargestInFunction;
  }

  // What is given to the function, and what it holds itself: small constants, which then show where they are used.
  std::vector<ValueId> operands_of_call(std::size_t cluster, bool constants) const {
    std::vector<ValueId> operands = operands_of(module_.graph, functions_[cluster]);
    std::erase_if(operands,
                  [&](ValueId id) { return fits_in_function(module_.graph.value(id)) != constants; });
    return operands;
  }

  void write_call(Writer& writer, std::size_t cluster, Scope& scope) {
    Writer out(writer, field::graph::kNode);
    for (ValueId id : operands_of_call(cluster, false))
      out.add_string(field::node::kInput, scope.names[id.index]);
    for (ValueId id : functions_[cluster].outputs)
      out.add_string(field::node::kOutput, scope.names[id.index]);
    out.add_string(field::node::kName, fresh_node_name(scope, functions_[cluster].label));
    out.add_string(field::node::kOpType, function_name(cluster));
    out.add_string(field::node::kDomain, kFunctionDomain);
    domains_.insert(kFunctionDomain);
  }

  Status write_function(Writer& function, std::size_t cluster, int opset, const Scope& around) {
    Scope scope = around;
    scope.node_names.clear();
    function.add_string(field::function::kName, function_name(cluster));
    for (ValueId id : operands_of_call(cluster, false)) {
      function.add_string(field::function::kInput, scope.names[id.index]);
    }
    for (ValueId id : functions_[cluster].outputs) {
      function.add_string(field::function::kOutput, scope.names[id.index]);
    }
    for (ValueId id : operands_of_call(cluster, true)) {
      Writer node(function, field::function::kNode);
      node.add_string(field::node::kOutput, scope.names[id.index]);
      node.add_string(field::node::kOpType, "Constant");
      Writer attribute(node, field::node::kAttribute);
      attribute.add_string(field::attribute::kName, "value");
      write_attribute(attribute, module_.graph.value(id).constant);
    }
    for (NodeId id : functions_[cluster].nodes) {
      XYNTRA_CHECK_OK(write_node(function, field::function::kNode, module_.graph.node(id), scope));
    }
    function.add_string(field::function::kDocString, functions_[cluster].label);
    domains_.insert("");
    write_imports(function, field::function::kOpsetImport, opset);
    function.add_string(field::function::kDomain, kFunctionDomain);
    return {};
  }

  // The nodes of the main graph, or the calls that stand for them.
  Status write_nodes(Writer& writer, const Graph& graph, Scope& scope) {
    if (calls_.empty() || scope.around != nullptr) {
      XYNTRA_TRY(const auto order, graph.topological_order());
      for (NodeId id : order) XYNTRA_CHECK_OK(write_node(writer, field::graph::kNode, graph.node(id), scope));
      return {};
    }
    std::set<ValueId> of_calls;
    for (const NodeCluster& function : functions_)
      of_calls.insert(function.outputs.begin(), function.outputs.end());
    for (const OnnxCall& call : calls_) {
      if (call.node.valid()) {
        XYNTRA_CHECK_OK(write_node_beside_calls(writer, graph.node(call.node), of_calls, scope));
      } else {
        write_call(writer, call.cluster, scope);
      }
    }
    return {};
  }

  // A node that is in a function, too, because the host needs another of its results: those the call gives have other names here.
  Status write_node_beside_calls(Writer& writer, const Node& node, const std::set<ValueId>& of_calls,
                                 Scope& scope) {
    std::vector<std::pair<ValueId, std::string>> names;
    for (ValueId output : node.outputs) {
      if (!output.valid() || !of_calls.contains(output)) continue;
      names.emplace_back(output, scope.names[output.index]);
      scope.names[output.index] = fresh(scope, names.back().second);
    }
    const Status written = write_node(writer, field::graph::kNode, node, scope);
    for (auto& [output, name] : names) scope.names[output.index] = std::move(name);
    return written;
  }

  static void collect_symbols(const Type& type, std::vector<std::string>& symbols) {
    if (type.element) collect_symbols(*type.element, symbols);
    if (!type.shape) return;
    for (const Dim& dim : *type.shape) dim.collect_symbols(symbols);
  }

  // ---- Names. ONNX forbids shadowing, and lets subgraphs see the names around them.
  static bool is_taken(const Scope& scope, const std::string& name) {
    for (const Scope* s = &scope; s != nullptr; s = s->around) {
      if (s->taken.contains(name)) return true;
    }
    return false;
  }

  static const std::string& fresh(Scope& scope, const std::string& stem) {
    std::string name = stem;
    for (int suffix = 1; name.empty() || is_taken(scope, name); ++suffix)
      name = stem + "_" + std::to_string(suffix);
    return *scope.taken.insert(name).first;
  }

  // Several nodes have one origin where the import made them of one.
  static std::string fresh_node_name(Scope& scope, const std::string& origin) {
    std::string name = origin;
    for (int suffix = 1; !scope.node_names.insert(name).second; ++suffix) {
      name = origin + "_" + std::to_string(suffix);
    }
    return name;
  }

  // The name of a constant around this graph that this one is a copy of.
  static const std::string* same_constant_around(const Scope& scope, const Value& value) {
    if (!value.is_constant()) return nullptr;
    for (const Scope* s = scope.around; s != nullptr; s = s->around) {
      const ValueId id = s->graph->find(value.name);
      if (!id.valid()) continue;
      const Value& outer = s->graph->value(id);
      const bool same =
          outer.is_constant() && !outer.producer.valid() && same_contents(outer.constant, value.constant);
      return same ? &s->names[id.index] : nullptr;
    }
    return nullptr;
  }

  // `captured` are the names around the graph of its last inputs.
  static void name_values(const Graph& graph, Scope& scope, const std::vector<std::string>& captured) {
    scope.graph = &graph;
    scope.names.assign(graph.value_count(), "");
    scope.from_around.assign(graph.value_count(), false);
    const std::size_t own = graph.inputs.size() - captured.size();
    const auto take_from_around = [&](ValueId id, const std::string& name) {
      scope.names[id.index] = name;
      scope.from_around[id.index] = true;
    };
    for (std::size_t i = 0; i < captured.size(); ++i) take_from_around(graph.inputs[own + i], captured[i]);
    for (std::size_t i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.value(ValueId(i));
      if (scope.from_around[i]) continue;
      if (const std::string* outer = same_constant_around(scope, value)) {
        take_from_around(ValueId(i), *outer);
      } else {
        scope.names[i] = fresh(scope, value.name);
      }
    }
  }

  // ---- Graphs
  // The first `own_inputs` inputs are inputs in the file, too; the rest are captures.
  Status write_graph(Writer& writer, const Graph& graph, std::size_t own_inputs, Scope& scope) {
    XYNTRA_CHECK_OK(write_nodes(writer, graph, scope));
    std::vector<std::string> outputs;
    std::set<std::string> seen;
    for (ValueId id : graph.outputs) {
      std::string name = scope.names.at(id.index);
      const bool repeated = !seen.insert(name).second;
      if (scope.from_around[id.index] || repeated) name = write_identity(writer, name, scope);
      outputs.push_back(name);
    }
    writer.add_string(field::graph::kName, graph.name.empty() ? "graph" : graph.name);
    for (std::size_t i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.value(ValueId(i));
      if (!value.is_constant() || value.producer.valid() || scope.from_around[i]) continue;
      Writer initializer(writer, field::graph::kInitializer);
      write_tensor(initializer, value.constant, scope.names[i]);
    }
    in_main_graph_ = scope.around == nullptr;
    for (std::size_t i = 0; i < own_inputs; ++i) {
      const ValueId id = graph.inputs[i];
      write_value_info(writer, field::graph::kInput, scope.names[id.index], graph.value(id).type);
    }
    const std::vector<bool> declared = known_by_declaration(graph);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      // What comes out of a branch or body is inferred by whoever reads the file; a branch that never runs may
      // have shapes that nothing fits.
      Type type = graph.value(graph.outputs[i]).type;
      if (!in_main_graph_ && !declared[graph.outputs[i].index]) type.shape.reset();
      write_value_info(writer, field::graph::kOutput, outputs[i], type);
    }
    std::vector<bool> is_output(graph.value_count(), false);
    for (ValueId id : graph.outputs) is_output[id.index] = true;
    for (std::size_t i = 0; i < graph.value_count(); ++i) {
      if (!declared[i] || is_output[i] || (in_main_graph_ && !calls_.empty())) continue;
      write_value_info(writer, field::graph::kValueInfo, scope.names[i], graph.value(ValueId(i)).type);
    }
    in_main_graph_ = false;
    return {};
  }

  // Results with a shape of nodes that have an operand without, or a body with such a parameter: only a declaration can have
  // given it, so the file declares it, too. All other types can be inferred.
  static std::vector<bool> known_by_declaration(const Graph& graph) {
    const auto is_vague_in = [](const Graph& of, ValueId id) {
      if (!id.valid()) return false;
      const Type& type = of.value(id).type;
      return type.kind == Type::Kind::Unknown || (type.is_tensor() && !type.shape);
    };
    const auto is_vague = [&](ValueId id) { return is_vague_in(graph, id); };
    const auto has_vague_body = [&](const Node& node) {
      return std::ranges::any_of(node.attributes, [&](const auto& attribute) {
        const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute.second);
        return body != nullptr &&
               std::ranges::any_of((*body)->inputs, [&](ValueId id) { return is_vague_in(**body, id); });
      });
    };
    std::vector<bool> declared(graph.value_count(), false);
    for (NodeId id : graph.node_ids()) {
      const Node& node = graph.node(id);
      if (std::ranges::none_of(node.inputs, is_vague) && !has_vague_body(node)) continue;
      for (ValueId output : node.outputs) {
        if (output.valid()) declared[output.index] = graph.value(output).type.shape.has_value();
      }
    }
    return declared;
  }

  // A subgraph's output must be computed in it, and each output has a name of its own.
  static std::string write_identity(Writer& writer, const std::string& input, Scope& scope) {
    const std::string output = fresh(scope, input + "_out");
    Writer node(writer, field::graph::kNode);
    node.add_string(field::node::kInput, input);
    node.add_string(field::node::kOutput, output);
    node.add_string(field::node::kOpType, "Identity");
    return output;
  }

  Status write_node(Writer& writer, field::Tag tag, const Node& node, Scope& scope) {
    Writer out(writer, tag);
    const std::int64_t own = own_operands(node);
    const std::size_t operands =
        own < 0 ? node.inputs.size() : std::min<std::size_t>(own, node.inputs.size());
    for (std::size_t i = 0; i < operands; ++i) {
      out.add_string(field::node::kInput, node.inputs[i].valid() ? scope.names.at(node.inputs[i].index) : "");
    }
    for (ValueId id : node.outputs) {
      out.add_string(field::node::kOutput, id.valid() ? scope.names.at(id.index) : "");
    }
    if (!node.origin.empty()) out.add_string(field::node::kName, fresh_node_name(scope, node.origin));
    const std::size_t dot = node.op.rfind('.');
    const std::string domain = dot == std::string::npos ? "" : node.op.substr(0, dot);
    out.add_string(field::node::kOpType, dot == std::string::npos ? node.op : node.op.substr(dot + 1));
    if (!domain.empty()) out.add_string(field::node::kDomain, domain);
    domains_.insert(domain);
    of_version_5_ = of_version_5_ || node.op == kOfVersion5;

    std::vector<std::string> captured;
    for (std::size_t i = operands; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) return failure(capture_error(node));
      captured.push_back(scope.names.at(node.inputs[i].index));
    }
    for (const auto& [name, value] : node.attributes) {
      if (is_internal_attribute(node, name)) continue;
      Writer attribute(out, field::node::kAttribute);
      attribute.add_string(field::attribute::kName, name);
      if (const auto* subgraph = std::get_if<std::shared_ptr<const Graph>>(&value)) {
        XYNTRA_CHECK_OK(write_subgraph(attribute, node, **subgraph, captured, scope));
      } else {
        std::visit([&](const auto& payload) { write_attribute(attribute, payload); }, value);
      }
    }
    return {};
  }

  static Error capture_error(const Node& node) {
    Error error;
    error.error_class = ErrorClass::BadModel;
    error.message = "a captured operand is absent, or the body has fewer inputs than there are captures";
    return std::move(error).at_node(node.origin, node.op);
  }

  Status write_subgraph(Writer& attribute, const Node& node, const Graph& subgraph,
                        const std::vector<std::string>& captured, const Scope& around) {
    if (subgraph.inputs.size() < captured.size()) return failure(capture_error(node));
    attribute.add_enum(field::attribute::kType, field::attribute::Graph);
    Writer graph(attribute, field::attribute::kGraph);
    Scope scope;
    scope.around = &around;
    name_values(subgraph, scope, captured);
    return write_graph(graph, subgraph, subgraph.inputs.size() - captured.size(), scope);
  }

  // ---- Attributes
  static void write_attribute(Writer& out, std::int64_t value) {
    out.add_enum(field::attribute::kType, field::attribute::Int);
    out.add_int64(field::attribute::kInt, value);
  }
  static void write_attribute(Writer& out, float value) {
    out.add_enum(field::attribute::kType, field::attribute::Float);
    out.add_float(field::attribute::kFloat, value);
  }
  static void write_attribute(Writer& out, const std::string& value) {
    out.add_enum(field::attribute::kType, field::attribute::String);
    out.add_bytes(field::attribute::kString, value);
  }
  static void write_attribute(Writer& out, const std::vector<std::int64_t>& values) {
    out.add_enum(field::attribute::kType, field::attribute::Ints);
    for (std::int64_t value : values) out.add_int64(field::attribute::kInts, value);
  }
  static void write_attribute(Writer& out, const std::vector<float>& values) {
    out.add_enum(field::attribute::kType, field::attribute::Floats);
    for (float value : values) out.add_float(field::attribute::kFloats, value);
  }
  static void write_attribute(Writer& out, const std::vector<std::string>& values) {
    out.add_enum(field::attribute::kType, field::attribute::Strings);
    for (const std::string& value : values) out.add_bytes(field::attribute::kStrings, value);
  }
  void write_attribute(Writer& out, const Tensor& value) {
    out.add_enum(field::attribute::kType, field::attribute::Tensor);
    Writer tensor(out, field::attribute::kTensor);
    write_tensor(tensor, value, "");
  }
  void write_attribute(Writer& out, const Type& value) {
    out.add_enum(field::attribute::kType, field::attribute::TypeProto);
    Writer type(out, field::attribute::kTypeProto);
    write_type(type, value);
  }
  static void write_attribute(Writer&, const std::shared_ptr<const Graph>&) {}  // write_subgraph

  // ---- Tensors and types
  void write_tensor(Writer& out, const Tensor& tensor, const std::string& name) {
    for (std::int64_t dim : tensor.dims()) out.add_int64(field::tensor::kDims, dim);
    out.add_int32(field::tensor::kDataType, onnx_code_of(tensor.dtype()));
    if (!name.empty()) out.add_string(field::tensor::kName, name);
    if (is_string(tensor.dtype())) {
      for (std::int64_t i = 0; i < tensor.count(); ++i)
        out.add_string(field::tensor::kStringData, std::string(tensor.string_at(i)));
      return;
    }
    const auto bytes = tensor.bytes();
    if (!external_ || static_cast<std::int64_t>(bytes.size()) < kSmallestExternal) {
      out.add_bytes(field::tensor::kRawData, reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return;
    }
    const auto entry = [&](const char* key, const std::string& value) {
      Writer pair(out, field::tensor::kExternalData);
      pair.add_string(field::entry::kKey, key);
      pair.add_string(field::entry::kValue, value);
    };
    entry("location", data_name_);
    entry("offset", std::to_string(external_size_));
    entry("length", std::to_string(bytes.size()));
    out.add_enum(field::tensor::kDataLocation, field::tensor::kExternal);
    external_tensors_.push_back(tensor);
    external_size_ += (static_cast<std::int64_t>(bytes.size()) + kExternalAlignment - 1) /
                      kExternalAlignment * kExternalAlignment;
  }

  void write_value_info(Writer& writer, field::Tag tag, const std::string& name, const Type& type) const {
    Writer info(writer, tag);
    info.add_string(field::value_info::kName, name);
    if (type.kind == Type::Kind::Unknown) return;
    Writer out(info, field::value_info::kType);
    write_type(out, type);
  }

  void write_type(Writer& out, const Type& type) const {
    switch (type.kind) {
      case Type::Kind::Unknown: return;
      case Type::Kind::Sequence:
      case Type::Kind::Optional: {
        Writer outer(out,
                     type.kind == Type::Kind::Sequence ? field::type::kSequence : field::type::kOptional);
        Writer element(outer, field::type::kElementType);
        write_type(element, *type.element);
        return;
      }
      case Type::Kind::Tensor: break;
    }
    Writer tensor(out, field::type::kTensor);
    tensor.add_int32(field::type::kElementType, onnx_code_of(type.dtype));
    if (!type.shape) return;
    // Written as bytes: the writer drops nested messages that are empty, and an empty shape is that of a scalar.
    std::string shape;
    Writer dims(shape);
    for (const Dim& dim : *type.shape) dims.add_message(field::type::kDim, dim_message(dim));
    tensor.add_message(field::type::kShape, shape);
  }

  // Empty where only running tells the size. In a body, a name that is not of the inputs need not mean one number.
  std::string dim_message(const Dim& dim) const {
    std::string message;
    Writer size(message);
    if (dim.is_constant()) {
      size.add_int64(field::type::kDimValue, dim.constant());
    } else if (dim.is_symbol() && (in_main_graph_ || is_of_inputs(dim))) {
      std::vector<std::string> name;
      dim.collect_symbols(name);
      size.add_string(field::type::kDimParam, name.front());
    }
    return message;
  }

  bool is_of_inputs(const Dim& dim) const {
    std::vector<std::string> symbols;
    dim.collect_symbols(symbols);
    return std::ranges::all_of(symbols,
                               [&](const std::string& name) { return input_symbols_.contains(name); });
  }

  // ---- What came with the model
  void write_text(Writer& out, field::Tag tag, const std::string& key) const {
    const auto found = module_.metadata.find(key);
    if (found != module_.metadata.end()) out.add_string(tag, found->second);
  }

  void write_metadata(Writer& model) const {
    constexpr const char* kOwnFields[] = {"producer_name", "producer_version", "domain",
                                          "model_version", "doc_string",       "graph_doc_string"};
    write_text(model, field::model::kProducerName, "producer_name");
    write_text(model, field::model::kProducerVersion, "producer_version");
    write_text(model, field::model::kDomain, "domain");
    write_text(model, field::model::kDocString, "doc_string");
    if (const auto version = module_.metadata.find("model_version"); version != module_.metadata.end()) {
      model.add_int64(field::model::kModelVersion, std::strtoll(version->second.c_str(), nullptr, 10));
    }
    for (const auto& [key, value] : module_.metadata) {
      if (std::ranges::find(kOwnFields, key) != std::end(kOwnFields)) continue;
      Writer entry(model, field::model::kMetadata);
      entry.add_string(field::entry::kKey, key);
      entry.add_string(field::entry::kValue, value);
    }
  }

  const Module& module_;
  std::string data_name_;
  bool external_;
  const std::vector<NodeCluster>& functions_;
  std::vector<OnnxCall> calls_;  // empty when there are no functions
  std::set<std::string> input_symbols_;
  bool in_main_graph_ = false;  // while its inputs and outputs are written
  std::set<std::string> domains_;
  bool of_version_5_ = false;
  std::vector<Tensor> external_tensors_;
  std::int64_t external_size_ = 0;
};

std::int64_t bytes_of_constants(const Graph& graph) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(i));
    if (value.is_constant()) bytes += static_cast<std::int64_t>(value.constant.bytes().size());
  }
  for (NodeId id : graph.node_ids()) {
    for (const auto& [name, attribute] : graph.node(id).attributes) {
      if (const auto* tensor = std::get_if<Tensor>(&attribute))
        bytes += static_cast<std::int64_t>(tensor->bytes().size());
      const auto* subgraph = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (subgraph != nullptr) bytes += bytes_of_constants(**subgraph);
    }
  }
  return bytes;
}

Status write_external(const std::string& path, const std::vector<Tensor>& tensors) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  for (const Tensor& tensor : tensors) {
    const auto bytes = tensor.bytes();
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    const std::size_t past = bytes.size() % kExternalAlignment;
    if (past != 0) out << std::string(kExternalAlignment - past, '\0');
  }
  out.close();
  if (!out) return failure(ErrorClass::Limit, "cannot write '" + path + "'");
  return {};
}

}  // namespace

Result<OnnxFile> export_onnx(const Module& module, const std::string& data_name,
                             const OnnxExportOptions& options) {
  const bool external = bytes_of_constants(module.graph) > options.largest_inline;
  return OnnxWriter(module, data_name, external, options.functions).write();
}

Status write_onnx(const Module& module, const std::string& path, const OnnxExportOptions& options) {
  const std::size_t slash = path.rfind('/');
  const std::string data_name = (slash == std::string::npos ? path : path.substr(slash + 1)) + ".data";
  XYNTRA_TRY(const OnnxFile file, export_onnx(module, data_name, options));
  if (!file.external.empty()) XYNTRA_CHECK_OK(write_external(path + ".data", file.external));
  return write_file_atomically(path, file.model);
}

}  // namespace xyntra
