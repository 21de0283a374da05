#include "compiler/compiled/host_calls.h"

#include <algorithm>

#include "ir/read_graph.h"
#include "ops/op.h"
#include "plan/text.h"
#include "support/files/byte_stream.h"

namespace xyntra {
namespace {

// Constants that the text left out are operands of the step, at the same places.
Status fill_constants(Graph& graph, const WeightHashes& weights, const ProgramStep& step,
                      const LaunchProgram& program) {
  const Node& node = graph.node(NodeId(0));
  for (const auto& [value, hash] : weights) {
    const auto place = std::ranges::find(node.inputs, value);
    if (place == node.inputs.end()) return bad_model("a host operation has a constant that it does not read");
    const ProgramValueId operand = step.inputs.at(static_cast<std::size_t>(place - node.inputs.begin()));
    if (operand == kNoValue || program.values[operand].kind != ProgramValue::Kind::Constant)
      return bad_model("a constant of a host operation is missing");
    const Tensor& tensor = program.constants[program.values[operand].index];
    Value& made = graph.value(value);
    if (!(made.type == Type::tensor(tensor.dtype(), shape_of(tensor.dims()))))
      return bad_model("a constant of a host operation has another type");
    made.constant = tensor;
  }
  return {};
}

}  // namespace

std::uint32_t NodesOnHost::add(const Graph& graph, NodeId node) {
  nodes_.emplace_back(graph, node);
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

Result<std::vector<Datum>> NodesOnHost::call(std::uint32_t number, std::span<const Datum> inputs,
                                             const std::shared_ptr<Budget>& budget) const {
  EvaluatorOptions options = options_;
  options.budget = budget;
  return nodes_.at(number).run(inputs, std::move(options));
}

std::vector<std::byte> NodesOnHost::to_bytes() const {
  ByteWriter writer;
  writer.number(nodes_.size());
  for (const HostNode& node : nodes_) {
    writer.text(print_graph(node.graph(), hashes_of_weights(node.graph())));
    writer.number(node.positions().size());
    for (std::size_t position : node.positions()) writer.number(position);
    writer.number(node.wanted().size());
    for (bool wanted : node.wanted()) writer.number(wanted ? 1 : 0);
  }
  return std::move(writer.bytes);
}

Result<std::shared_ptr<const NodesOnHost>> NodesOnHost::from(std::span<const std::byte> bytes,
                                                             const LaunchProgram& program, int threads) {
  ByteReader reader(bytes, "the host operations");
  auto calls = std::make_shared<NodesOnHost>(threads);
  XYNTRA_TRY(const std::size_t count, reader.count());
  std::vector<const ProgramStep*> callers(count, nullptr);
  for (const ProgramStep& step : program.steps) {
    if (step.kind != ProgramStep::Kind::Host) continue;
    if (step.callee >= count || callers[step.callee] != nullptr)
      return reader.bad("a step calls one that is not there, or another's");
    callers[step.callee] = &step;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (callers[i] == nullptr) return reader.bad("nobody calls one of them");
    XYNTRA_TRY(const std::string text, reader.text());
    WeightHashes weights;
    XYNTRA_TRY(Graph graph, read_graph(text, weights, "a host operation"));
    if (graph.node_count() != 1) return reader.bad("one is not a single node");
    const Node& node = graph.node(NodeId(0));
    if (find_op(node.op) == nullptr) return reader.bad("the operator '" + node.op + "' is not defined");
    if (node.inputs.size() != callers[i]->inputs.size() || node.outputs.size() != callers[i]->outputs.size())
      return reader.bad("one has other operands than its step");
    XYNTRA_CHECK_OK(fill_constants(graph, weights, *callers[i], program));
    XYNTRA_CHECK_OK(verify(graph));
    XYNTRA_TRY(const std::size_t inputs, reader.count());
    std::vector<std::size_t> positions;
    for (std::size_t k = 0; k < inputs; ++k) {
      XYNTRA_TRY(const std::uint64_t position, reader.number_below(node.inputs.size()));
      positions.push_back(static_cast<std::size_t>(position));
    }
    XYNTRA_TRY(const std::size_t outputs, reader.count());
    std::vector<bool> wanted;
    for (std::size_t k = 0; k < outputs; ++k) {
      XYNTRA_TRY(const bool one, reader.flag());
      wanted.push_back(one);
    }
    if (positions.size() != graph.inputs.size() || wanted.size() != node.outputs.size() ||
        static_cast<std::size_t>(std::ranges::count(wanted, true)) != graph.outputs.size())
      return reader.bad("one has other operands than its step");
    calls->nodes_.emplace_back(std::move(graph), std::move(positions), std::move(wanted));
  }
  XYNTRA_CHECK_OK(reader.end());
  return calls;
}

}  // namespace xyntra
