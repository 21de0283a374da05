#include "passes/flatten_windows.h"

#include <algorithm>

#include "ops/op.h"

namespace xyntra {
namespace {

constexpr std::int64_t kFew = 16;  // channels; so many are a sum of their own
constexpr std::int64_t kShortestLine =
    16;  // of a line of the window; shorter ones cost more to lay out than they gain
constexpr std::int64_t kColumns = 16;  // least of the result

// Of a picture: height and width.
struct Two {
  std::int64_t h = 0, w = 0;
};

const Shape* picture_of(const Graph& graph, ValueId value) {
  const Type& type = graph.value(value).type;
  return type.is_tensor() && type.shape && type.shape->size() == 4 ? &*type.shape : nullptr;
}
bool holds(const Graph& graph, ValueId value, std::initializer_list<DType> dtypes) {
  return std::ranges::find(dtypes, graph.value(value).type.dtype) != dtypes.end();
}

std::vector<std::int64_t> integers(const Node& node, const char* name, std::int64_t otherwise,
                                   std::size_t count) {
  auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return std::vector<std::int64_t>(count, otherwise);
  return std::get<std::vector<std::int64_t>>(found->second);
}

// So many channels are whole groups of neighbours.
std::int64_t filled(std::int64_t channels, std::int64_t group) {
  return (channels + group - 1) / group * group;
}
constexpr std::int64_t kPair = 2, kQuad = 4;
// A window with columns of zeros, where its line would be too short for tiles.
std::int64_t lengthened(std::int64_t columns, std::int64_t channels) {
  return std::max(columns, (kShortestLine + channels - 1) / channels);
}

class Flattening {
 public:
  Flattening(Graph& graph, FoldLog& folded, std::int64_t group)
      : graph_(graph), folded_(folded), group_(group) {}

  Result<FlattenedWindows> run() {
    for (NodeId id : graph_.node_ids()) {
      if (can_be_flattened(graph_, graph_.node(id))) XYNTRA_CHECK_OK(flatten(id));
    }
    return std::move(made_);
  }
  Result<FlattenedWindows> run(NodeId id) {
    XYNTRA_CHECK_OK(flatten(id));
    return std::move(made_);
  }

 private:
  // Results of one node, evaluated at once.
  Result<Tensor> folded(const char* op, std::vector<Tensor> operands, Attributes attributes) {
    FoldedNode node{find_op(op), {}, std::move(operands), {}};
    node.form.attributes = std::move(attributes);
    node.form.outputs = {true};
    XYNTRA_TRY(node.results, evaluate_node(*node.def, node.form, node.operands));
    Tensor result = node.results[0];
    folded_.push_back(std::move(node));
    return result;
  }

  ValueId add(const char* op, ValueId input, const std::vector<std::int64_t>& argument, Attributes attributes,
              Shape shape) {
    const std::string stem = graph_.value(input).name + ".flat";
    std::vector<ValueId> inputs{input};
    if (!argument.empty())
      inputs.push_back(
          graph_.add_constant(graph_.unique_name(stem + ".sizes"), Tensor::of_integers(argument)));
    const NodeId made =
        graph_.add_node(op, std::move(inputs), {graph_.unique_name(stem)}, std::move(attributes), origin_);
    const ValueId output = graph_.output_of(made);
    graph_.value(output).type = Type::tensor(graph_.value(input).type.dtype, std::move(shape));
    return output;
  }

  Status flatten(NodeId id) {
    origin_ = graph_.node(id).origin;
    const Shape x = *picture_of(graph_, graph_.node(id).inputs[0]),
                k = *picture_of(graph_, graph_.node(id).inputs[1]),
                y = *picture_of(graph_, graph_.node(id).outputs[0]);
    const auto strides = integers(graph_.node(id), "strides", 1, 2),
               pads = integers(graph_.node(id), "pads", 0, 4);
    const std::int64_t channels = k[1].constant(), wide = filled(channels, group_);
    const Two window{k[2].constant(), lengthened(k[3].constant(), wide)},
        size{x[2].constant(), x[3].constant()};
    // As far as windows reach; what lies beyond stays.
    auto border = [&](std::int64_t before, std::int64_t turns, std::int64_t step, std::int64_t reach,
                      std::int64_t had) {
      return std::max<std::int64_t>(0, (turns - 1) * step + reach - before - had);
    };
    const Two after{border(pads[0], y[2].constant(), strides[0], window.h, size.h),
                    border(pads[1], y[3].constant(), strides[1], window.w, size.w)};
    const Two all{size.h + pads[0] + after.h, size.w + pads[1] + after.w};
    const std::vector<std::int64_t> turned{0, 2, 3, 1};

    ValueId picture = graph_.node(id).inputs[0];
    picture = add("Pad", picture, {0, 0, pads[0], pads[1], 0, wide - channels, after.h, after.w}, {},
                  {x[0], wide, all.h, all.w});
    picture = add("Transpose", picture, {}, {{"perm", turned}}, {x[0], all.h, all.w, wide});
    picture = add("Reshape", picture, {0, 1, all.h, all.w * wide}, {}, {x[0], 1, all.h, all.w * wide});

    const ValueId old = graph_.node(id).inputs[1];
    Tensor weight = graph_.value(old).constant;
    XYNTRA_TRY(weight, folded("Pad",
                              {weight, Tensor::of_integers(std::vector<std::int64_t>{
                                           0, 0, 0, 0, 0, wide - channels, 0, window.w - k[3].constant()})},
                              {}));
    XYNTRA_TRY(weight, folded("Transpose", {weight}, {{"perm", turned}}));
    const std::vector<std::int64_t> flat{k[0].constant(), 1, window.h, window.w * wide};
    XYNTRA_TRY(weight, folded("Reshape", {weight, Tensor::of_integers(flat)}, {}));
    const ValueId weights =
        graph_.add_constant(graph_.unique_name(graph_.value(old).name + ".flat"), std::move(weight));

    Node& node = graph_.node(id);
    node.inputs[0] = picture;
    node.inputs[1] = weights;
    for (const char* name : {"pads", "kernel_shape"}) node.attributes.erase(name);
    node.attributes["strides"] = std::vector<std::int64_t>{strides[0], strides[1] * wide};
    made_.nodes.insert(id);
    made_.pictures.push_back(graph_.value(picture).name);
    const auto exactness = group_ == kPair ? Exactness::Reassociating : Exactness::Exact;
    made_.certificate.push_back(
        {"flatten-windows", exactness, {origin_}, graph_.value(node.outputs[0]).name});
    return {};
  }

  Graph& graph_;
  FoldLog& folded_;
  std::int64_t group_;
  std::string origin_;
  FlattenedWindows made_;
};

}  // namespace

namespace {

// A convolution of one group with few channels, whose lines are long enough.
bool fits(const Graph& graph, const Node& node, std::int64_t neighbours, std::int64_t shortest) {
  if (!graph.value(node.inputs[1]).is_constant()) return false;
  const Shape *x = picture_of(graph, node.inputs[0]), *k = picture_of(graph, node.inputs[1]);
  if (x == nullptr || k == nullptr || picture_of(graph, node.outputs[0]) == nullptr) return false;
  for (std::size_t d = 1; d < 4; ++d) {
    if (!(*x)[d].is_constant()) return false;
  }
  auto group = node.attributes.find("group"), border = node.attributes.find("auto_pad");
  const bool whole = group == node.attributes.end() || std::get<std::int64_t>(group->second) == 1;
  const bool given = border == node.attributes.end() || std::get<std::string>(border->second) == "NOTSET";
  const auto dilations = integers(node, "dilations", 1, 2);
  const bool dense = std::ranges::all_of(dilations, [](std::int64_t step) { return step == 1; });
  const std::int64_t channels = (*k)[1].constant();
  return whole && given && dense && channels > 1 && channels < kFew && (*k)[0].constant() >= kColumns &&
         (*k)[3].constant() * filled(channels, neighbours) >= shortest;
}

}  // namespace

bool can_be_flattened(const Graph& graph, const Node& node) {
  return node.op == "Conv" && holds(graph, node.inputs[0], {DType::F32}) &&
         holds(graph, node.inputs[1], {DType::F32}) && fits(graph, node, kPair, kShortestLine);
}

bool can_be_flattened_bytes(const Graph& graph, const Node& node) {
  return node.op == "ConvInteger" && node.inputs.size() == 2 && fits(graph, node, kQuad, kShortestLine / 2);
}

Result<FlattenedWindows> flatten_bytes(Graph& graph, NodeId node, FoldLog& folded) {
  return Flattening(graph, folded, kQuad).run(node);
}

Result<FlattenedWindows> flatten_windows(Graph& graph, FoldLog& folded) {
  return Flattening(graph, folded, kPair).run();
}

}  // namespace xyntra
