#include "passes/round_products.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "ops/op.h"
#include "passes/flatten_windows.h"

namespace xyntra {
namespace {

constexpr std::int64_t kShortest = 16;  // shorter sums gain nothing that one could measure

// Changes of index: what goes through them is rounded before as well as after.
bool moves(const std::string& op) {
  return op == "Transpose" || op == "Reshape" || op == "Unsqueeze" || op == "Squeeze";
}
bool takes_parts(const std::string& op) { return op == "Split" || op == "Slice"; }

Attributes cast_to(DType dtype) { return {{"to", static_cast<std::int64_t>(onnx_code_of(dtype))}}; }

ValueId add_like(Graph& graph, const std::string& op, std::vector<ValueId> inputs, Attributes attributes,
                 const std::string& stem, const std::string& origin, DType dtype) {
  const Shape shape = *graph.value(inputs[0]).type.shape;
  const NodeId made =
      graph.add_node(op, std::move(inputs), {graph.unique_name(stem)}, std::move(attributes), origin);
  const ValueId output = graph.output_of(made);
  graph.value(output).type = Type::tensor(dtype, shape);
  return output;
}

// A value whose parts are all rounded by those who read them, such as queries, keys and values that one product makes, is rounded
// by who makes it: it is written narrow, and read so. The casts of its parts stay, and change nothing any more.
class RoundingOfParts {
 public:
  // `copies`: names of casts that are launches of their own.
  RoundingOfParts(Graph& graph, DType to, const std::vector<std::string>& copies)
      : graph_(graph), to_(to), copies_(copies) {
    for (NodeId id : graph.node_ids()) {
      for (ValueId input : graph.node(id).inputs) {
        if (input.valid()) readers_[input].push_back(id);
      }
    }
  }

  void run() {
    for (NodeId id : graph_.node_ids()) {
      if (moves(graph_.node(id).op) || takes_parts(graph_.node(id).op)) continue;
      for (ValueId made : std::vector<ValueId>(graph_.node(id).outputs)) {
        if (made.valid() && is_wide(made) && !readers_[made].empty() && is_rounded_by_all(made, kDeepest))
          round(made, id);
      }
    }
  }

 private:
  static constexpr int kDeepest = 16;  // changes of index one after another

  bool is_wide(ValueId value) const {
    const Type& type = graph_.value(value).type;
    return type.is_tensor() && type.dtype == DType::F32 && type.shape;
  }
  bool is_index_change_of(NodeId id, ValueId value) const {
    const Node& node = graph_.node(id);
    return (moves(node.op) || takes_parts(node.op)) && node.inputs[0] == value &&
           std::ranges::count(node.inputs, value) == 1;
  }
  bool rounds(const Node& node) const {
    auto to = node.attributes.find("to");
    return node.op == "Cast" && to != node.attributes.end() &&
           std::get<std::int64_t>(to->second) == static_cast<std::int64_t>(onnx_code_of(to_)) &&
           std::ranges::find(copies_, graph_.value(node.outputs[0]).name) == copies_.end();
  }

  bool is_rounded_by_all(ValueId value, int deep) {
    if (deep == 0 || std::ranges::find(graph_.outputs, value) != graph_.outputs.end()) return false;
    return std::ranges::all_of(readers_[value], [&](NodeId id) {
      const Node& node = graph_.node(id);
      if (rounds(node)) return true;
      return is_index_change_of(id, value) && std::ranges::all_of(node.outputs, [&](ValueId part) {
               return !part.valid() || is_rounded_by_all(part, deep - 1);
             });
    });
  }

  void round(ValueId value, NodeId maker) {
    std::vector<NodeId> changes;
    std::ranges::copy_if(readers_[value], std::back_inserter(changes),
                         [&](NodeId id) { return is_index_change_of(id, value); });
    if (changes.empty()) return;
    const std::string stem = graph_.value(value).name + "." + std::string(xyntra::name_of(to_));
    const ValueId narrow =
        add_like(graph_, "Cast", {value}, cast_to(to_), stem, graph_.node(maker).origin, to_);
    for (NodeId id : changes) {
      graph_.node(id).inputs[0] = narrow;
      narrow_results(id);
    }
  }

  void narrow_results(NodeId id) {
    for (ValueId part : graph_.node(id).outputs) {
      if (!part.valid()) continue;
      graph_.value(part).type.dtype = to_;
      for (NodeId reader : readers_[part]) {
        if (!rounds(graph_.node(reader))) narrow_results(reader);
      }
    }
  }

  Graph& graph_;
  const DType to_;
  const std::vector<std::string>& copies_;
  std::map<ValueId, std::vector<NodeId>> readers_;
};

class Rounding {
 public:
  Rounding(Graph& graph, DType to, const std::set<NodeId>& flattened, FoldLog& folded)
      : graph_(graph), to_(to), flattened_(flattened), folded_(folded) {
    for (NodeId id : graph.node_ids()) {
      for (ValueId input : graph.node(id).inputs) {
        if (input.valid()) ++uses_[input];
      }
    }
    for (ValueId output : graph.outputs) ++uses_[output];
  }

  Result<RoundedProducts> run() {
    for (NodeId id : graph_.node_ids()) {
      if (gains(graph_.node(id))) scale_afterwards(id);
    }
    const std::vector<NodeId> nodes = graph_.node_ids();  // those that are added need no look
    std::vector<ValueId> pictures;
    for (NodeId id : nodes) {
      for (ValueId picture : pictures_of(id)) pictures.push_back(picture);
    }
    for (NodeId id : nodes) {
      const bool flat = flattened_.contains(id);
      if (!flat && !gains(graph_.node(id)) && !can_be_flattened(graph_, graph_.node(id))) continue;
      for (std::size_t factor : {0, 1}) {
        const ValueId wide_factor = graph_.node(id).inputs[factor];
        XYNTRA_TRY(ValueId narrow,
                   flat && factor == 0 ? rounded_where_read(wide_factor) : rounded(wide_factor));
        const ValueId wide = add("Cast", {narrow}, cast_to(DType::F32), graph_.value(narrow).name + ".f32",
                                 graph_.node(id).origin, DType::F32);
        graph_.node(id).inputs[factor] = wide;
      }
      const Node& node = graph_.node(id);
      say("round-matmuls", node);
    }
    XYNTRA_CHECK_OK(round_pictures(pictures, nodes));
    RoundingOfParts(graph_, to_, result_.copies).run();
    return std::move(result_);
  }

 private:
  // Pictures are large: those that convolutions and pools read lie in memory rounded, and everybody reads them
  // so.
  Status round_pictures(const std::vector<ValueId>& pictures, const std::vector<NodeId>& nodes) {
    for (ValueId picture : pictures) {
      const NodeId maker = graph_.value(picture).producer;
      if (shape(picture) == nullptr) continue;  // it is narrow itself
      XYNTRA_TRY(const ValueId narrow, rounded(picture));
      std::vector<NodeId> readers;
      for (NodeId id : nodes) {
        const std::vector<ValueId>& inputs = graph_.node(id).inputs;
        if (std::find(inputs.begin(), inputs.end(), picture) != inputs.end()) readers.push_back(id);
      }
      if (readers.empty()) continue;
      const ValueId wide = add("Cast", {narrow}, cast_to(DType::F32), graph_.value(narrow).name + ".f32",
                               graph_.node(maker).origin, DType::F32);
      for (NodeId reader : readers) {
        std::vector<ValueId>& inputs = graph_.node(reader).inputs;
        std::replace(inputs.begin(), inputs.end(), picture, wide);
      }
      say("round-feature-maps", graph_.node(maker));
    }
    return {};
  }

  std::vector<ValueId> pictures_of(NodeId id) const {
    const Node& node = graph_.node(id);
    std::vector<ValueId> found;
    if (node.op == "Conv" || node.op == "MaxPool") found = {node.inputs[0]};
    // Channels that are scaled by numbers of their own, as what was pooled of all of them says, wait in memory for these.
    if (node.op == "Mul") {
      for (std::size_t map : {0, 1}) {
        if (is_scaled_by_channel(node.inputs[map], node.inputs[1 - map])) found = {node.inputs[map]};
      }
    }
    // Of two results that are added one goes through memory.
    if (node.op == "Add" && made_by(node.inputs[0], "Conv") && made_by(node.inputs[1], "Conv"))
      found = node.inputs;
    std::erase_if(found, [this](ValueId value) {
      const Shape* sizes = shape(value);
      return sizes == nullptr || sizes->size() != 4 || !graph_.value(value).producer.valid();
    });
    return found;
  }

  bool is_scaled_by_channel(ValueId map, ValueId scale) const {
    const Shape *large = shape(map), *small = shape(scale);
    return large != nullptr && small != nullptr && large->size() == 4 && small->size() == 4 &&
           (*small)[2].is(1) && (*small)[3].is(1) && !(*large)[2].is(1);
  }

  bool made_by(ValueId value, const char* op) const {
    const NodeId maker = graph_.value(value).producer;
    return maker.valid() && graph_.node(maker).op == op;
  }

  void say(const char* rule, const Node& node) {
    result_.certificate.push_back(
        {rule, Exactness::PrecisionChanging, {node.origin}, graph_.value(node.outputs[0]).name});
  }

  // Numbers that factors are multiplied by, such as the scale of attention, are multiplied after the sums: what is rounded lies in memory as it
  // was made. The nodes change their places: x * c, then a product, becomes a product, then its result times c.
  void scale_afterwards(NodeId id) {
    if (graph_.node(id).op != "MatMul") return;
    std::vector<NodeId> nodes;
    std::vector<ValueId> factors, scales;
    for (ValueId factor : graph_.node(id).inputs) {
      const std::optional<ValueId> scale = scale_of(factor);
      const NodeId maker = graph_.value(factor).producer;
      if (scale) {
        const std::vector<ValueId>& inputs = graph_.node(maker).inputs;
        factor = inputs[inputs[0] == *scale ? 1 : 0];
        nodes.push_back(maker);
        scales.push_back(*scale);
      }
      factors.push_back(factor);
    }
    if (nodes.empty()) return;
    nodes.push_back(id);
    const Type type = graph_.value(graph_.output_of(id)).type;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      Node& node = graph_.node(nodes[i]);
      node.op = i == 0 ? "MatMul" : "Mul";
      node.inputs = i == 0 ? factors : std::vector<ValueId>{graph_.output_of(nodes[i - 1]), scales[i - 1]};
      node.origin = graph_.node(id).origin;
      graph_.value(node.outputs[0]).type = type;
    }
    say("scale-matmuls", graph_.node(id));
  }

  // A number that a value is the product with, far from both ends of what f32 has; where nobody else reads the value.
  std::optional<ValueId> scale_of(ValueId value) {
    constexpr double kFar = 1e6;
    const NodeId maker = graph_.value(value).producer;
    if (!maker.valid() || graph_.node(maker).op != "Mul" || uses_[value] != 1) return std::nullopt;
    for (std::size_t number : {1, 0}) {
      const ValueId scale = graph_.node(maker).inputs[number], other = graph_.node(maker).inputs[1 - number];
      const Value& constant = graph_.value(scale);
      const bool is_number = constant.is_constant() && constant.constant.dtype() == DType::F32 &&
                             constant.constant.count() == 1 && shape(other) != nullptr &&
                             *shape(other) == *shape(value);
      if (!is_number) continue;
      const double magnitude = std::abs(constant.constant.element_as_f64(0));
      if (magnitude > 1 / kFar && magnitude < kFar) return scale;
    }
    return std::nullopt;
  }

  // A function whose result nobody sees but rounded need not be computed to more digits than that.
  void shorten(NodeId maker, ValueId value) {
    if (to_ != DType::BF16 || !maker.valid() || uses_[value] != 1 || graph_.node(maker).op != "Gelu") return;
    Node& node = graph_.node(maker);
    auto form = node.attributes.find("approximate");
    const bool tanh = form != node.attributes.end() && std::get<std::string>(form->second) == "tanh";
    node.attributes["approximate"] = std::string(tanh ? "short tanh" : "short");
    say("short-gelu", node);
  }

  const Shape* shape(ValueId value) const {
    const Type& type = graph_.value(value).type;
    return type.is_tensor() && type.dtype == DType::F32 && type.shape ? &*type.shape : nullptr;
  }

  static bool is_short(const Dim& dim) { return dim.is_constant() && dim.constant() < kShortest; }

  // Matrices with a sum long enough: what a matrix unit is for. Convolutions only with weights.
  bool gains(const Node& node) const {
    const bool is_product = node.op == "MatMul" || node.op == "Gemm" || node.op == "Conv";
    if (!is_product || node.inputs.size() < 2) return false;
    const Shape *left = shape(node.inputs[0]), *right = shape(node.inputs[1]);
    if (left == nullptr || right == nullptr) return false;
    const bool weighted = is_weight(node.inputs[1]);
    if (!weighted) return node.op == "MatMul" && is_matrix(*left) && is_matrix(*right);
    if (node.op == "Conv") {
      auto group = node.attributes.find("group");
      const std::int64_t groups = group != node.attributes.end() ? std::get<std::int64_t>(group->second) : 1;
      if (groups != 1) return is_wide_group((*right)[0], (*right)[1], groups);
      return right->size() >= 3 && !is_short((*right)[0]) && !is_short((*right)[1]);
    }
    return right->size() == 2 && left->size() >= 2 && !is_short((*right)[0]) && !is_short((*right)[1]);
  }

  // Channels that a matrix unit reads at once, for as many filters at least: what is narrower multiplies mostly nothing.
  static bool is_wide_group(const Dim& filters, const Dim& channels, std::int64_t groups) {
    constexpr std::int64_t kNarrowest = 8;
    return filters.is_constant() && channels.is_constant() && channels.constant() > 0 &&
           channels.constant() % kNarrowest == 0 && filters.constant() >= groups * kNarrowest;
  }

  static bool is_matrix(const Shape& shape) {
    return shape.size() >= 2 && !is_short(shape[shape.size() - 1]) && !is_short(shape[shape.size() - 2]);
  }

  bool is_weight(ValueId value) const {
    while (!graph_.value(value).is_constant()) {
      const NodeId maker = graph_.value(value).producer;
      if (!maker.valid() || !moves(graph_.node(maker).op)) return false;
      value = graph_.node(maker).inputs[0];
    }
    return true;
  }

  ValueId add(const std::string& op, std::vector<ValueId> inputs, Attributes attributes,
              const std::string& stem, const std::string& origin, DType dtype) {
    return add_like(graph_, op, std::move(inputs), std::move(attributes), stem, origin, dtype);
  }

  // The value in the narrow dtype. Where only changes of index lie between it and who computes it, it is rounded before
  // them: a result is then written narrow, and read so.
  Result<ValueId> rounded(ValueId value) {
    if (auto known = narrow_.find(value); known != narrow_.end()) return known->second;
    const std::string stem = graph_.value(value).name + "." + std::string(xyntra::name_of(to_));
    ValueId made;
    const NodeId maker = graph_.value(value).producer;
    if (graph_.value(value).is_constant()) {
      XYNTRA_TRY(Tensor tensor, rounded_constant(graph_.value(value).constant));
      made = graph_.add_constant(graph_.unique_name(stem), std::move(tensor));
    } else if (maker.valid() && moves(graph_.node(maker).op) && uses_[value] == 1) {
      XYNTRA_TRY(const ValueId before, rounded(graph_.node(maker).inputs[0]));
      graph_.node(maker).inputs[0] = before;
      graph_.value(value).type.dtype = to_;
      made = value;
    } else if (maker.valid() && graph_.node(maker).op == "Concat" && uses_[value] == 1) {
      for (std::size_t i = 0; i < graph_.node(maker).inputs.size(); ++i) {
        XYNTRA_TRY(const ValueId part, rounded(graph_.node(maker).inputs[i]));
        graph_.node(maker).inputs[i] = part;
      }
      graph_.value(value).type.dtype = to_;
      made = value;
    } else {
      const std::string origin = maker.valid() ? graph_.node(maker).origin : "";
      shorten(maker, value);
      made = add("Cast", {value}, cast_to(to_), stem, origin, to_);
    }
    narrow_.emplace(value, made);
    return made;
  }

  // A flattened picture is made, and rounded, once: windows read every element of it many times.
  Result<ValueId> rounded_where_read(ValueId value) {
    const NodeId maker = graph_.value(value).producer;
    const std::string stem = graph_.value(value).name + "." + std::string(xyntra::name_of(to_));
    const ValueId made = add("Cast", {value}, cast_to(to_), stem, graph_.node(maker).origin, to_);
    narrow_.emplace(value, made);
    result_.copies.push_back(graph_.value(made).name);
    return made;
  }

  Result<Tensor> rounded_constant(const Tensor& constant) {
    FoldedNode made{find_op("Cast"), {}, {constant}, {}};
    made.form.attributes = cast_to(to_);
    made.form.outputs = {true};
    XYNTRA_TRY(made.results, evaluate_node(*made.def, made.form, made.operands));
    Tensor result = made.results[0];
    folded_.push_back(std::move(made));
    return result;
  }

  Graph& graph_;
  DType to_;
  const std::set<NodeId>& flattened_;
  FoldLog& folded_;
  std::map<ValueId, int> uses_;
  std::map<ValueId, ValueId> narrow_;
  RoundedProducts result_;
};

}  // namespace

Result<RoundedProducts> round_products(Graph& graph, DType to, const std::set<NodeId>& flattened,
                                       FoldLog& folded) {
  return Rounding(graph, to, flattened, folded).run();
}

}  // namespace xyntra
