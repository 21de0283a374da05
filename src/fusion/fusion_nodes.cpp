#include "fusion/fusion_nodes.h"

#include <algorithm>
#include <bit>

#include "ops/formula_context.h"
#include "ops/infer.h"
#include "ops/strings/string_ranks.h"
#include "support/limits/limits.h"
#include "te/walk.h"

namespace xyntra {
namespace {

bool only_moves_one_operand(const te::Formula& formula, te::WorkShape shape) {
  if (shape != te::WorkShape::Movement) return false;
  std::set<std::uint32_t> targets, sources;
  for (const te::Stage& stage : formula.stages) {
    if (!targets.insert(stage.target.index).second) return false;  // a concatenation
    te::for_each_node(stage, [&](const te::ExprNode& node) {
      if (te::is_load(node) && !formula.buffer(node.buffer).shape.empty()) sources.insert(node.buffer.index);
    });
  }
  return sources.size() <= 1;
}

// A narrow float read as f32: loads do that on the way, and memory is read half as much.
bool only_widens(const te::Formula& formula) {
  if (formula.stages.size() != 1 || !formula.stages[0].reduction.empty()) return false;
  const te::Stage& stage = formula.stages[0];
  if (stage.kind != te::Stage::Kind::MapReduce || stage.body->op != te::ExprOp::Cast) return false;
  const te::Expr& source = stage.body->operands[0];
  return stage.body.dtype() == DType::F32 && source->op == te::ExprOp::Load &&
         (source.dtype() == DType::BF16 || source.dtype() == DType::F16);
}

std::string attributes_text(const Node& node) {
  std::string text;
  for (const auto& [name, attribute] : node.attributes) {
    text += "|" + name + "=";
    if (const auto* number = std::get_if<std::int64_t>(&attribute)) text += std::to_string(*number);
    if (const auto* real = std::get_if<float>(&attribute))
      text += std::to_string(std::bit_cast<std::uint32_t>(*real));
    if (const auto* word = std::get_if<std::string>(&attribute)) text += *word;
  }
  return text + "|";
}

Result<te::Formula> copy_of(const Type& type) {
  te::Builder builder("identity");
  te::Buffer x = builder.input(0, "x", type.dtype, *type.shape),
             y = builder.output(0, "y", type.dtype, *type.shape);
  te::Axes axes = builder.axes(*type.shape);
  builder.write(y, axes, x(axes));
  return std::move(builder).finish();
}

// Every symbolic size that the formula speaks of: in its buffers, its loops, and as a number (Size, Shape).
std::vector<std::string> sizes_of(const te::Formula& formula) {
  std::vector<std::string> symbols;
  for (const te::BufferInfo& buffer : formula.buffers) {
    for (const Dim& dim : buffer.shape) dim.collect_symbols(symbols);
  }
  for (const te::Variable& variable : formula.variables) variable.extent.collect_symbols(symbols);
  for (const te::Stage& stage : formula.stages) {
    te::for_each_node(stage, [&symbols](const te::ExprNode& node) {
      if (node.op == te::ExprOp::Size) node.size.collect_symbols(symbols);
    });
  }
  return symbols;
}

bool is_known_tensor(const Value& value) { return value.type.is_tensor() && value.type.shape.has_value(); }

}  // namespace

std::string label_of(const Graph& graph, NodeId node) {
  const Node& it = graph.node(node);
  return it.origin.empty() ? it.op : it.origin;
}

Status FusionNodes::make_fusion_node(NodeId id) {
  const Node& node = graph_->node(id);
  FusionNode& fusion_node = nodes_[id.index];
  fusion_node.node = id;
  auto read = [&fusion_node](ValueId value) {
    if (value.valid() &&
        std::find(fusion_node.reads.begin(), fusion_node.reads.end(), value) == fusion_node.reads.end())
      fusion_node.reads.push_back(value);
  };
  auto as_host = [&](std::string why) {
    fusion_node.why_host = std::move(why);
    fusion_node.reads.clear();
    for (ValueId input : node.inputs) read(input);
  };
  const OpDef* def = find_op(node.op);
  if (def == nullptr) {
    return failure(
        std::move(unsupported("this operator is not defined").value()).at_node(node.origin, node.op));
  }
  if (touches_strings(*graph_, node)) {
    as_host("it reads or makes strings");
    return {};
  }
  std::vector<ValueFacts> inputs, outputs;
  auto facts = [this](ValueId value) {
    ValueFacts absent;
    absent.present = false;
    return value.valid() ? facts_of(*graph_, value) : absent;
  };
  for (ValueId input : node.inputs) {
    inputs.push_back(facts(input));
    if (input.valid() && !is_known_tensor(graph_->value(input))) {
      as_host("the rank of an operand is known only when it runs");
      return {};
    }
  }
  for (ValueId output : node.outputs) {
    outputs.push_back(facts(output));
    if (output.valid() && !is_known_tensor(graph_->value(output))) {
      as_host("the rank of a result is known only when it runs");
      return {};
    }
  }
  bool copies = node.op == "Identity";  // of sequences too, hence a host op, but a tensor is a change of name
  if (def->formula == nullptr && !copies) {
    as_host(node.op + " has no formula");
    return {};
  }
  auto formula = copies ? copy_of(outputs[0].type) : formula_of(*def, node, inputs, outputs);
  if (!formula) {
    as_host("its formula follows from contents known only when it runs: " + formula.error().message);
    return {};
  }
  const std::vector<std::string> sizes = sizes_of(*formula);
  for (const std::string& size : sizes) {
    if (known_.contains(size)) continue;
    as_host("the size " + size + " is known only when it runs");
    return {};
  }
  fusion_node.formula = std::move(*formula);
  fusion_node.shape = te::classify(fusion_node.formula);
  std::vector<bool> loaded(fusion_node.formula.buffers.size(), false);
  for (const te::Stage& stage : fusion_node.formula.stages) {
    te::for_each_node(stage, [&](const te::ExprNode& part) {
      if (te::is_load(part)) loaded[part.buffer.index] = true;
    });
  }
  for (const te::BufferInfo& buffer : fusion_node.formula.buffers) {
    if (buffer.role == te::BufferRole::Input && loaded[buffer.id.index])
      read(node.inputs.at(static_cast<std::size_t>(buffer.position)));
  }
  // A size that a host operation tells is there once its result is: the node waits for it as for an operand.
  for (const std::string& size : sizes) read(known_.at(size));
  // The printed formula leaves out how conversions round, which attributes decide.
  std::string text = node.op + attributes_text(node) + te::to_string(fusion_node.formula);
  fusion_node.kind =
      kinds_.try_emplace(std::move(text), static_cast<std::uint32_t>(kinds_.size())).first->second;
  fusion_node.transparent =
      only_moves_one_operand(fusion_node.formula, fusion_node.shape) || only_widens(fusion_node.formula);
  return {};
}

// A size that stands alone in the shape of a value is known once that value is.
void FusionNodes::learn_sizes(ValueId value) {
  if (!value.valid() || !is_known_tensor(graph_->value(value))) return;
  for (const Dim& dim : *graph_->value(value).type.shape) {
    if (dim.is_symbol())
      known_.try_emplace(dim.to_string(), graph_->value(value).producer.valid() ? value : ValueId());
  }
}

void FusionNodes::find_live() {
  std::vector<ValueId> waiting(graph_->outputs.begin(), graph_->outputs.end());
  for (ValueId output : graph_->outputs) is_output_[output.index] = true;
  while (!waiting.empty()) {
    ValueId value = waiting.back();
    waiting.pop_back();
    NodeId producer = graph_->value(value).producer;
    if (!producer.valid() || nodes_[producer.index].live) continue;
    nodes_[producer.index].live = true;
    for (ValueId read : nodes_[producer.index].reads) waiting.push_back(read);
  }
  for (NodeId id : order_) {
    if (!nodes_[id.index].live) continue;
    for (ValueId read : nodes_[id.index].reads) readers_[read.index].push_back(id);
  }
}

namespace {

// Operands of one element that say how integers stand for numbers, as a set of positions.
std::uint32_t parameters_of(const std::string& op) {
  static const std::map<std::string_view, std::uint32_t> kParameters = {
      {"QuantizeLinear", 0b110},
      {"DequantizeLinear", 0b110},
      {"MatMulInteger", 0b1100},
      {"ConvInteger", 0b1100},
      {"QLinearMatMul", 0b11110110},
      {"QLinearConv", 0b11110110},
      {"com.microsoft.QLinearAdd", 0b11110110},
      {"com.microsoft.QLinearMul", 0b11110110},
      {"com.microsoft.QGemm", 0b110110110},
      {"com.microsoft.QLinearSigmoid", 0b11110},
      {"com.microsoft.QLinearLeakyRelu", 0b11110},
      {"com.microsoft.QLinearSoftmax", 0b11110},
      {"com.microsoft.QLinearAveragePool", 0b11110},
      {"com.microsoft.QLinearGlobalAveragePool", 0b11110},
      {"com.microsoft.QLinearReduceMean", 0b11110},
  };
  auto found = kParameters.find(op);
  return found == kParameters.end() ? 0 : found->second;
}

// Something that is quantized next, by a scale of 1: the number it was multiplied with is the scale.
bool is_quantized_by_one(const Graph& graph, const std::vector<NodeId>& readers) {
  return std::ranges::any_of(readers, [&](NodeId reader) {
    const Node& node = graph.node(reader);
    if (node.op != "QuantizeLinear" || !graph.value(node.inputs[1]).is_constant()) return false;
    return graph.value(node.inputs[1]).constant.element_as_f64(0) == 1;
  });
}

// The sum of an integer matmul, as a real number.
bool is_real_sum(const Graph& graph, ValueId value) {
  const NodeId producer = value.valid() ? graph.value(value).producer : NodeId();
  if (!producer.valid() || graph.node(producer).op != "Cast") return false;
  return graph.value(graph.node(producer).inputs[0]).type.dtype == DType::I32;
}

bool is_one_element(const Value& value) {
  if (!value.is_constant() || value.constant.count() != 1 || bits_of(value.type.dtype) < 8) return false;
  return !is_float(value.type.dtype) || bits_of(value.type.dtype) >= 16;
}

}  // namespace

void FusionNodes::find_numbers() {
  is_number_.resize(graph_->value_count());
  for (std::size_t v = 0; v < graph_->value_count(); ++v)
    is_number_[v] = is_one_element(graph_->value(ValueId(v)));
  for (NodeId id : order_) {
    const Node& node = graph_->node(id);
    std::uint32_t parameters = parameters_of(node.op);
    if (node.op == "Mul") {
      for (std::size_t i : {0U, 1U}) parameters |= is_real_sum(*graph_, node.inputs[i]) ? 2U >> i : 0U;
      if (is_quantized_by_one(*graph_, readers(node.outputs[0]))) parameters |= 3U;
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if ((parameters >> i & 1U) == 0 || !input.valid() || !is_number_[input.index]) continue;
      const double held = graph_->value(input).constant.element_as_f64(0);
      is_number_[input.index] = held == 0 || held == 1;  // these make formulas shorter
    }
  }
}

// Constant bytes that several nodes read as numbers: each widens what it needs, and the numbers never lie in memory. One
// reader alone takes them into its group, or not, like any other operand.
void FusionNodes::find_shared_bytes() {
  for (NodeId id : order_) {
    const Node& node = graph_->node(id);
    FusionNode& fusion_node = nodes_[id.index];
    if (!fusion_node.live || fusion_node.is_host() || node.op != "DequantizeLinear") continue;
    const Value& source = graph_->value(node.inputs[0]);
    const bool bytes = source.is_constant() && bits_of(source.type.dtype) == 8;
    if (bytes && readers(node.outputs[0]).size() > 1) fusion_node.transparent = true;
  }
}

Result<FusionNodes> FusionNodes::of(const Graph& graph, const Budget* budget) {
  FusionNodes fusion_nodes;
  fusion_nodes.graph_ = &graph;
  XYNTRA_TRY(fusion_nodes.order_, graph.topological_order());
  fusion_nodes.positions_.resize(graph.node_count());
  for (std::size_t i = 0; i < fusion_nodes.order_.size(); ++i)
    fusion_nodes.positions_[fusion_nodes.order_[i].index] = i;
  fusion_nodes.nodes_.resize(graph.node_count());
  fusion_nodes.readers_.resize(graph.value_count());
  fusion_nodes.is_output_.resize(graph.value_count());
  for (ValueId input : graph.inputs) fusion_nodes.learn_sizes(input);
  for (NodeId id : fusion_nodes.order_) {
    if (budget != nullptr) XYNTRA_CHECK_OK(budget->check_time());
    XYNTRA_CHECK_OK(fusion_nodes.make_fusion_node(id));
    for (ValueId output : graph.node(id).outputs) {
      if (fusion_nodes.nodes_[id.index].is_host()) fusion_nodes.learn_sizes(output);
    }
  }
  fusion_nodes.find_live();
  fusion_nodes.find_numbers();
  fusion_nodes.find_shared_bytes();
  return fusion_nodes;
}

}  // namespace xyntra
