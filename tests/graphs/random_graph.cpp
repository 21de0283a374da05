#include "graphs/random_graph.h"

#include <algorithm>

#include "graphs/makers.h"
#include "ops/infer.h"

namespace xyntra::graphs {
namespace {

const std::vector<Maker>& all_makers() {
  static const std::vector<Maker> makers = [] {
    std::vector<Maker> all;
    for (auto family : {elementwise_makers(), movement_makers(), reduction_makers(), matmul_makers(),
                        motif_makers(), quantized_makers()}) {
      all.insert(all.end(), family.begin(), family.end());
    }
    return all;
  }();
  return makers;
}

const Maker& some_maker(Decisions& decide) {
  int sum = 0;
  for (const Maker& maker : all_makers()) sum += maker.weight;
  std::int64_t at = decide.below(sum);
  for (const Maker& maker : all_makers()) {
    at -= maker.weight;
    if (at < 0) return maker;
  }
  return all_makers().front();
}

// Values that nobody reads, and some that are read too.
void choose_outputs(GraphMaker& m) {
  std::vector<bool> read(m.graph.value_count(), false);
  for (NodeId node : m.graph.node_ids()) {
    for (ValueId input : m.graph.node(node).inputs) {
      if (input.valid()) read[input.index] = true;
    }
  }
  std::vector<ValueId> produced;
  for (NodeId node : m.graph.node_ids()) {
    for (ValueId output : m.graph.node(node).outputs) produced.push_back(output);
  }
  for (ValueId value : produced) {
    bool wanted = read[value.index] ? m.decide.chance(7) : !m.decide.chance(10);
    if (wanted) m.graph.outputs.push_back(value);
  }
  if (m.graph.outputs.empty() && !produced.empty()) m.graph.outputs.push_back(produced.back());
  if (m.decide.chance(20)) m.decide.shuffle(m.graph.outputs);
}

}  // namespace

std::optional<Subject> random_graph(Decisions& decisions) {
  GraphMaker m(decisions);
  m.graph.name = "main";
  for (std::int64_t i = decisions.between(1, 3); i > 0; --i) m.input(m.some_dtype(), m.some_shape());
  constexpr std::int64_t kSteps[] = {4, 1, 2, 3, 6, 8, 12, 20};
  for (std::int64_t steps = decisions.one_of(kSteps); steps > 0 && !decisions.exhausted(); --steps) {
    some_maker(decisions).make(m);
  }
  choose_outputs(m);
  if (m.graph.outputs.empty()) return std::nullopt;
  require(infer_types(m.graph).has_value(), "random graphs: a graph is refused whose nodes were not");
  return Subject{std::move(m.graph), std::move(m.inputs)};
}

}  // namespace xyntra::graphs
