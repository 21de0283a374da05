#include <algorithm>
#include <set>

#include "graphs/check.h"
#include "interp/evaluator.h"
#include "ir/text.h"
#include "ir/text_literals.h"
#include "ops/infer.h"

namespace xyntra::graphs {
namespace {

// A graph of which only what these outputs need is left, values in `given` being inputs.
std::optional<Subject> part_of(const Subject& whole, const std::vector<Datum>& values,
                               const std::vector<ValueId>& outputs, const std::set<ValueId>& given) {
  const Graph& from = whole.graph;
  std::set<NodeId> needed;
  std::set<ValueId> read;
  std::vector<ValueId> waiting(outputs);
  while (!waiting.empty()) {
    ValueId value = waiting.back();
    waiting.pop_back();
    if (!read.insert(value).second || given.count(value)) continue;
    NodeId producer = from.value(value).producer;
    if (!producer.valid()) continue;
    needed.insert(producer);
    for (ValueId input : from.node(producer).inputs) {
      if (input.valid()) waiting.push_back(input);
    }
  }
  Subject part;
  part.graph.name = from.name;
  std::map<ValueId, ValueId> copies;
  for (ValueId value : read) {
    const Value& it = from.value(value);
    if (it.is_constant()) {
      copies[value] = part.graph.add_constant(it.name, it.constant);
    } else if (!it.producer.valid() || given.count(value)) {
      Type type = it.type;
      const Datum& datum = values[value.index];
      for (std::size_t d = 0; d < type.shape->size(); ++d) {
        Dim& dim = (*type.shape)[d];
        if (!dim.is_symbol()) dim = datum.tensor.dims()[d];
      }
      copies[value] = part.graph.add_input(it.name, type);
      part.inputs.push_back(datum);
    }
  }
  auto order = from.topological_order();
  if (!order) return std::nullopt;
  for (NodeId id : *order) {
    if (!needed.count(id)) continue;
    const Node& node = from.node(id);
    std::vector<ValueId> operands;
    for (ValueId input : node.inputs) operands.push_back(input.valid() ? copies.at(input) : ValueId());
    std::vector<std::string> names;
    for (ValueId output : node.outputs) {
      bool taken = output.valid() && given.count(output);  // an input has its name
      names.push_back(!output.valid() ? "" : from.value(output).name + (taken ? "_unused" : ""));
    }
    NodeId copy = part.graph.add_node(node.op, operands, names, node.attributes);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) copies.try_emplace(node.outputs[i], part.graph.node(copy).outputs[i]);
    }
  }
  for (ValueId output : outputs) part.graph.outputs.push_back(copies.at(output));
  if (needed.empty() || !infer_types(part.graph)) return std::nullopt;
  return part;
}

// What the reference gives every value.
std::optional<std::vector<Datum>> all_values(const Subject& subject) {
  Graph all = subject.graph;
  all.outputs.clear();
  for (NodeId node : all.node_ids()) {
    for (ValueId output : all.node(node).outputs) {
      if (output.valid()) all.outputs.push_back(output);
    }
  }
  EvaluatorOptions options;
  options.threads = 1;
  auto evaluator = Evaluator::create(all, options);
  if (!evaluator) return std::nullopt;
  auto results = evaluator->run(subject.inputs);
  if (!results) return std::nullopt;
  std::vector<Datum> values(all.value_count());
  for (std::size_t i = 0; i < all.inputs.size(); ++i) values[all.inputs[i].index] = subject.inputs[i];
  for (std::size_t i = 0; i < all.outputs.size(); ++i) values[all.outputs[i].index] = (*results)[i];
  return values;
}

void reduce(Subject& smallest, const Effort& effort, int most_attempts) {
  const Outcome::Kind kind = check(smallest, effort).kind;
  auto accept = [&](std::optional<Subject> candidate) {
    --most_attempts;
    if (!candidate || check(*candidate, effort).kind != kind) return false;
    smallest = std::move(*candidate);
    return true;
  };
  bool changed = true;
  while (changed && most_attempts > 0) {
    changed = false;
    auto values = all_values(smallest);
    if (!values) break;
    const Graph& graph = smallest.graph;
    if (graph.outputs.size() > 1) {
      for (ValueId output : std::vector(graph.outputs)) {
        if ((changed = accept(part_of(smallest, *values, {output}, {})))) break;
      }
      for (std::size_t i = 0; i < graph.outputs.size() && !changed; ++i) {
        std::vector<ValueId> others = graph.outputs;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        changed = accept(part_of(smallest, *values, others, {}));
      }
    }
    if (changed) continue;
    std::vector<NodeId> nodes = graph.node_ids();
    for (NodeId node : nodes) {  // an earlier output in place of the last one, or an input in place of a node
      std::set<ValueId> given;
      for (ValueId output : graph.node(node).outputs) {
        if (output.valid()) given.insert(output);
      }
      bool is_output = std::any_of(graph.outputs.begin(), graph.outputs.end(),
                                   [&](ValueId output) { return given.count(output) != 0; });
      if (is_output) {
        for (ValueId operand : graph.node(node).inputs) {
          if (!operand.valid() || !graph.value(operand).producer.valid()) continue;
          std::vector<ValueId> outputs = graph.outputs;
          std::erase_if(outputs, [&](ValueId output) { return given.count(output) != 0; });
          outputs.push_back(operand);
          if ((changed = accept(part_of(smallest, *values, outputs, {})))) break;
        }
      } else {
        changed = accept(part_of(smallest, *values, graph.outputs, given));
      }
      if (changed || most_attempts <= 0) break;
    }
  }
}

}  // namespace

Subject reduced(const Subject& subject, const Effort& effort, int most_attempts) {
  Subject smallest = subject;
  try {
    reduce(smallest, effort, most_attempts);
  } catch (const std::exception&) {  // what fails may also fail here: then this is as small as it gets
  } catch (const InternalError&) {
  }
  return smallest;
}

std::string described(const Subject& subject) {
  std::string text;
  for (std::size_t i = 0; i < subject.inputs.size(); ++i) {
    const Tensor& tensor = subject.inputs[i].tensor;
    if (tensor.count() > 64) continue;
    text += "// %" + subject.graph.value(subject.graph.inputs[i]).name + " " +
            to_string(shape_of(tensor.dims())) + " =";
    for (std::int64_t k = 0; k < tensor.count(); ++k) text += " " + element_text(tensor, k);
    text += "\n";
  }
  return text + print_xir(subject.graph);
}

}  // namespace xyntra::graphs
