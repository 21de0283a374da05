#include "rewrite/draft.h"

#include <algorithm>
#include <set>

#include "ops/infer.h"
#include "rewrite/keys.h"
#include "rewrite/normalize/fold.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::size_t kNamesInOrigin = 8;

std::string structure_key(const OpDef& def, AttributesId form, std::span<const DraftValue> inputs) {
  std::string key = def.name;
  append_number(key, form.index);
  for (DraftValue input : inputs) append_number(key, input.index);
  return key;
}

std::optional<std::int64_t> bytes_of(const Type& type) {
  if (!type.has_static_shape()) return std::nullopt;
  auto size = byte_size(type.dtype, *static_dims(*type.shape));
  if (!size) return std::nullopt;
  return *size;
}

// Moves elements and computes nothing: left to the kernel that reads it when it is large.
bool copies_elements(const OpDef& def) {
  static const std::set<std::string, std::less<>> kMoving = {"Transpose", "Slice", "Split", "Concat",
                                                             "Expand"};
  return kMoving.contains(def.name);
}

}  // namespace

std::string joined_origin(std::span<const std::string> origins) {
  std::string text;
  for (std::size_t i = 0; i < origins.size() && i < kNamesInOrigin; ++i)
    text += (i > 0 ? ", " : "") + origins[i];
  if (origins.size() > kNamesInOrigin) {
    text += " and " + std::to_string(origins.size() - kNamesInOrigin) + " more";
  }
  return text;
}

void append_origins(std::vector<std::string>& origins, std::span<const std::string> more) {
  for (const std::string& origin : more) {
    if (!origin.empty() && std::ranges::find(origins, origin) == origins.end()) origins.push_back(origin);
  }
}

DraftValue Draft::add_value(ValueEntry entry) {
  values_.push_back(std::move(entry));
  return DraftValue(values_.size() - 1);
}

DraftValue Draft::add_input(std::string name, Type type) {
  inputs_.push_back(add_value({{std::move(type), {}, {}, true}, std::move(name), {}}));
  return inputs_.back();
}

DraftValue Draft::add_constant(Tensor tensor, std::string name) {
  std::string key = content_key(tensor);
  if (auto found = by_content_.find(key); found != by_content_.end()) return found->second;
  ValueEntry entry;
  entry.facts.type = Type::tensor(tensor.dtype(), shape_of(tensor.dims()));
  entry.facts.constant = std::move(tensor);
  entry.name = std::move(name);
  return by_content_[std::move(key)] = add_value(std::move(entry));
}

bool Draft::worth_folding(const Addition& addition) const {
  if (addition.def->has(kRandom) || addition.def->has(kControlFlow)) return false;
  if (!limits_.dequantized && addition.def->name == "DequantizeLinear") return false;
  std::int64_t from = 0, to = 0;
  for (DraftValue input : addition.inputs) {
    if (!input.valid()) continue;
    if (!constant(input).defined()) return false;
    from += static_cast<std::int64_t>(constant(input).bytes().size());
  }
  for (std::size_t i = 0; i < addition.facts.size(); ++i) {
    if (!addition.form.outputs[i]) continue;
    const auto bytes = bytes_of(addition.facts[i].type);
    if (!bytes) return false;
    to += *bytes;
  }
  if (to > limits_.bytes) return false;
  // Filters are read at every position of a feature map.
  const bool filters = addition.def->name == "DequantizeLinear" && addition.facts[0].type.shape->size() > 2;
  if (to > limits_.growing && to > from && !filters) return false;
  if (!copies_elements(*addition.def)) return true;
  // Int8 is transposed for the numbers that are made of it, which a matmul reads line by line.
  const bool int8 = bits_of(addition.facts[0].type.dtype) == 8;
  const std::optional<Shape>& shape = addition.facts[0].type.shape;
  const bool matrix = !shape || shape->size() <= 2;
  return int8 || to <= (matrix ? limits_.rearranged : limits_.rearranged_filters);
}

// Contents that are known already, or that evaluating the node gives. An error of evaluation is left for run time.
Result<bool> Draft::fold(Addition& addition, std::vector<DraftValue>& results) {
  std::vector<Tensor> contents(addition.facts.size());
  bool known = true;
  for (std::size_t i = 0; i < addition.facts.size(); ++i) {
    if (!addition.form.outputs[i]) continue;
    const ValueFacts& facts = addition.facts[i];
    const bool listed =
        facts.elements && facts.type.has_static_shape() &&
        std::ranges::all_of(*facts.elements, [](const Dim& element) { return element.is_constant(); });
    if (!facts.constant.defined() && !listed) known = false;
    if (facts.constant.defined()) contents[i] = facts.constant;
    if (facts.constant.defined() || !listed) continue;
    XYNTRA_TRY(contents[i], Tensor::allocate(facts.type.dtype, *static_dims(*facts.type.shape)));
    require(contents[i].count() == static_cast<std::int64_t>(facts.elements->size()),
            "fold: elements and shape");
    for (std::size_t k = 0; k < facts.elements->size(); ++k) {
      contents[i].set_element_i64(static_cast<std::int64_t>(k), (*facts.elements)[k].constant());
    }
  }
  if (!known) {
    if (!worth_folding(addition)) return false;
    std::vector<Tensor> operands;
    for (DraftValue input : addition.inputs) operands.push_back(input.valid() ? constant(input) : Tensor());
    auto evaluated = evaluate_node(*addition.def, addition.form, operands);
    if (!evaluated) return false;
    contents = std::move(*evaluated);
    if (log_ != nullptr) log_->push_back({addition.def, addition.form, std::move(operands), contents});
  }
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const bool wanted = addition.form.outputs[i];
    if (wanted && !contents[i].defined()) return false;
    results.push_back(wanted ? add_constant(contents[i], i < addition.names.size() ? addition.names[i] : "")
                             : DraftValue());
  }
  return true;
}

Result<std::vector<DraftValue>> Draft::add(Addition addition) {
  if (budget_ != nullptr) XYNTRA_CHECK_OK(budget_->check_time());
  while (!addition.inputs.empty() && !addition.inputs.back().valid()) addition.inputs.pop_back();
  if (addition.facts.empty()) {
    std::vector<ValueFacts> operands;
    for (DraftValue input : addition.inputs) {
      operands.push_back(input.valid() ? facts(input) : ValueFacts{{}, {}, {}, false});
    }
    Node node;
    node.op = addition.def->name;
    node.attributes = addition.form.attributes;
    for (bool wanted : addition.form.outputs) node.outputs.push_back(wanted ? ValueId(0) : ValueId());
    XYNTRA_TRY(addition.facts,
               infer_node(*addition.def, node, operands, "rewritten" + std::to_string(nodes_.size())));
  }
  std::vector<DraftValue> results;
  XYNTRA_TRY(const bool folded, fold(addition, results));
  if (folded) return results;
  if (addition.def->has(kRandom)) addition.form.identity = joined_origin(addition.origins);
  const AttributesId form = forms_.intern(addition.def, addition.form);
  const DraftNode id(nodes_.size());
  auto [found, fresh] = by_structure_.try_emplace(structure_key(*addition.def, form, addition.inputs), id);
  if (!fresh) {
    NodeEntry& same = nodes_[found->second.index];
    append_origins(same.origins, addition.origins);
    return same.outputs;
  }
  NodeEntry entry{addition.def, form, std::move(addition.inputs), {}, {}};
  append_origins(entry.origins, addition.origins);
  for (std::size_t i = 0; i < addition.facts.size(); ++i) {
    if (!addition.form.outputs[i]) {
      entry.outputs.push_back(DraftValue());
      continue;
    }
    entry.outputs.push_back(add_value(
        {std::move(addition.facts[i]), i < addition.names.size() ? addition.names[i] : std::string(), id}));
  }
  nodes_.push_back(std::move(entry));
  return nodes_.back().outputs;
}

Result<DraftValue> Draft::add_one(const char* op, std::vector<DraftValue> inputs, Attributes attributes,
                                  std::vector<std::string> origins) {
  Addition addition;
  addition.def = find_op(op);
  require(addition.def != nullptr, "Draft: no such operator");
  addition.inputs = std::move(inputs);
  addition.form.attributes = std::move(attributes);
  addition.origins = std::move(origins);
  XYNTRA_TRY(auto outputs, add(std::move(addition)));
  return outputs.at(0);
}

std::vector<DraftNode> Draft::live_nodes(std::span<const DraftValue> outputs) const {
  std::vector<bool> live(nodes_.size(), false);
  auto mark = [&](DraftValue value) {
    if (value.valid() && this->value(value).producer.valid()) live[this->value(value).producer.index] = true;
  };
  for (DraftValue output : outputs) mark(output);
  // Operands are always added before the nodes that use them.
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    if (!live[i]) continue;
    for (DraftValue input : nodes_[i].inputs) mark(input);
  }
  std::vector<DraftNode> order;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (live[i]) order.push_back(DraftNode(i));
  }
  return order;
}

Graph Draft::finish(const Graph& original, std::span<const DraftValue> outputs) const {
  Graph graph;
  graph.name = original.name;
  std::vector<ValueId> placed(values_.size());
  for (DraftValue input : inputs_) {
    placed[input.index] = graph.add_input(value(input).name, facts(input).type);
    graph.value(placed[input.index]).elements = facts(input).elements;
  }
  // Names of outputs are promised; a value that has no name of its own, or one that is taken, gets another.
  std::vector<std::string> promised(values_.size());
  std::set<std::string, std::less<>> reserved;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = original.value(original.outputs[i]).name;
    const bool from_node = value(outputs[i]).producer.valid();
    if (from_node && promised[outputs[i].index].empty() && !graph.find(name).valid()) {
      promised[outputs[i].index] = name;
    }
    reserved.insert(name);
  }
  auto name_for = [&](DraftValue id, const std::string& stem) {
    if (!promised[id.index].empty()) return promised[id.index];
    std::string name = value(id).name.empty() ? stem : value(id).name;
    for (int suffix = 1; name.empty() || reserved.contains(name) || graph.find(name).valid(); ++suffix) {
      name = (value(id).name.empty() ? stem : value(id).name) + "_" + std::to_string(suffix);
    }
    return name;
  };
  auto place = [&](DraftValue id) {
    if (!id.valid()) return ValueId();
    if (!placed[id.index].valid()) {
      require(constant(id).defined(), "Draft: a value is used before it is made");
      placed[id.index] =
          graph.add_constant(name_for(id, "constant" + std::to_string(id.index)), constant(id));
    }
    return placed[id.index];
  };
  for (DraftNode id : live_nodes(outputs)) {
    const NodeEntry& entry = node(id);
    std::vector<ValueId> inputs;
    for (DraftValue input : entry.inputs) inputs.push_back(place(input));
    std::vector<std::string> names;
    for (DraftValue output : entry.outputs) {
      names.push_back(output.valid() ? name_for(output, "value" + std::to_string(output.index)) : "");
    }
    const NodeId made =
        graph.add_node(entry.def->name, inputs, names, form(id).attributes, joined_origin(entry.origins));
    for (std::size_t i = 0; i < entry.outputs.size(); ++i) {
      if (!entry.outputs[i].valid()) continue;
      const ValueId result = graph.node(made).outputs[i];
      placed[entry.outputs[i].index] = result;
      graph.value(result).type = facts(entry.outputs[i]).type;
      graph.value(result).elements = facts(entry.outputs[i]).elements;
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = original.value(original.outputs[i]).name;
    ValueId result = place(outputs[i]);
    if (graph.value(result).name != name && !graph.find(name).valid()) {
      // An input, a constant, or a value that has another output's name already.
      const NodeId copy = graph.add_node("Identity", {result}, {name}, {}, name);
      const ValueFacts& known = facts(outputs[i]);
      result = graph.output_of(copy);
      graph.value(result).type = known.type;
      graph.value(result).elements = known.elements;
    }
    graph.outputs.push_back(result);
  }
  return graph;
}

}  // namespace xyntra
