#include "cli/summary.h"

#include <algorithm>
#include <cmath>

namespace xyntra {
namespace {

void add(GraphSummary& summary, const Graph& graph) {
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(i));
    if (!value.is_constant() || value.producer.valid()) continue;
    if (is_float(value.constant.dtype())) summary.parameters += value.constant.count();
    summary.constant_bytes += static_cast<std::int64_t>(value.constant.bytes().size());
  }
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    ++summary.nodes;
    ++summary.ops[node.op];
    for (const auto& [name, attribute] : node.attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute)) add(summary, **body);
    }
  }
}

std::vector<std::pair<std::string, std::size_t>> by_frequency(const GraphSummary& summary) {
  std::vector<std::pair<std::string, std::size_t>> ops(summary.ops.begin(), summary.ops.end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return ops;
}

}  // namespace

GraphSummary summarize(const Graph& graph) {
  GraphSummary summary;
  add(summary, graph);
  return summary;
}

Json to_json(const GraphSummary& summary) {
  Json ops = Json::object();
  for (const auto& [op, count] : by_frequency(summary)) ops[op] = count;
  return {{"nodes", summary.nodes},
          {"parameters", summary.parameters},
          {"constant_bytes", summary.constant_bytes},
          {"ops", std::move(ops)}};
}

std::string most_frequent_ops(const GraphSummary& summary, std::size_t most) {
  const auto ops = by_frequency(summary);
  std::string text;
  for (std::size_t i = 0; i < std::min(most, ops.size()); ++i) {
    text += (i == 0 ? "" : ", ") + ops[i].first + " " + std::to_string(ops[i].second);
  }
  if (ops.size() > most) text += ", and " + std::to_string(ops.size() - most) + " more kinds";
  return text;
}

Result<TensorSummary> summarize(const Tensor& tensor, const Budget& budget) {
  TensorSummary summary;
  XYNTRA_TRY(summary.sha256, tensor.content_hash(budget));
  double sum = 0;
  if (is_string(tensor.dtype())) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      const std::string_view text = tensor.string_at(i);
      if (i == 0 || text < summary.first_text) summary.first_text = text;
      if (i == 0 || text > summary.last_text) summary.last_text = text;
    }
    return summary;
  }
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if (i % (1 << 16) == 0) XYNTRA_CHECK_OK(budget.check_time());
    const double value = tensor.element_as_f64(i);
    if (std::isnan(value)) {
      ++summary.nans;
      continue;
    }
    summary.lowest = summary.numbers == 0 ? value : std::min(summary.lowest, value);
    summary.highest = summary.numbers == 0 ? value : std::max(summary.highest, value);
    sum += value;
    ++summary.numbers;
  }
  if (summary.numbers > 0) summary.mean = sum / static_cast<double>(summary.numbers);
  return summary;
}

}  // namespace xyntra
